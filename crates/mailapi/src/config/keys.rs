//! The existing keys, and suggestions for misspelt ones.

use std::ops::Range;

use toml::de::{DeTable, DeValue};
use toml::{Table, Value};

use super::former;

/// All keys, as tables of a complete configuration.
pub(super) struct KnownKeys(Table);

/// A key in a file that does not exist.
pub(super) struct UnknownKey {
    /// Path of the key: its sections and name, separated by dots.
    pub(super) key: String,
    /// Position in the file, in bytes.
    pub(super) span: Range<usize>,
}

impl KnownKeys {
    pub(super) const fn new(complete: Table) -> Self {
        Self(complete)
    }

    /// Returns the default of the key at this path; a table when the path names a section.
    pub(super) fn get(&self, path: &[String]) -> Option<&Value> {
        let (last, sections) = path.split_last()?;
        let mut table = &self.0;
        for section in sections {
            table = table.get(section)?.as_table()?;
        }
        table.get(last)
    }

    /// Returns the default of the key at this path as the end of an error message; `None` if there is no default.
    pub(super) fn example(&self, path: &[String]) -> Option<String> {
        let default = self.get(path)?;
        let is_empty = default.as_str().is_some_and(str::is_empty) || default.as_array().is_some_and(Vec::is_empty);
        (!is_empty && !default.is_table()).then(|| format!("; the default is {default}"))
    }

    /// Returns the first key of `file` that does not exist.
    pub(super) fn find_unknown(&self, file: &DeTable<'_>) -> Option<UnknownKey> {
        find_unknown(file, &self.0, "")
    }

    /// Returns the existing key that resembles `unknown` most, by its whole path or by its last part.
    pub(super) fn nearest(&self, unknown: &str) -> String {
        let mut paths = Vec::new();
        collect_paths(&self.0, "", &mut paths);
        let likeness = |path: &String| {
            let whole = strsim::jaro_winkler(unknown, path);
            let last = strsim::normalized_damerau_levenshtein(last_part(unknown), last_part(path));
            whole + last
        };
        paths.into_iter().max_by(|a, b| likeness(a).total_cmp(&likeness(b))).unwrap_or_default()
    }
}

fn find_unknown(file: &DeTable<'_>, known: &Table, prefix: &str) -> Option<UnknownKey> {
    file.iter().find_map(|(name, value)| {
        let key = join(prefix, name.get_ref());
        match (known.get(name.get_ref().as_ref()), value.get_ref()) {
            // The former keys have been removed, so every key that remains is unknown.
            (None, DeValue::Table(file)) if former::is_section(&key) => find_unknown(file, &Table::new(), &key),
            (None, _) => Some(UnknownKey { key, span: name.span() }),
            (Some(Value::Table(known)), DeValue::Table(file)) => find_unknown(file, known, &key),
            _ => None,
        }
    })
}

/// Returns the sections and the key at byte `at`; only the sections if no key of theirs covers it.
pub(super) fn path_at(file: &DeTable<'_>, at: usize) -> Vec<String> {
    let holds = |span: Range<usize>| span.contains(&at);
    for (name, value) in file {
        let inner = match value.get_ref() {
            DeValue::Table(inner) => path_at(inner, at),
            _ => Vec::new(),
        };
        if !inner.is_empty() || holds(value.span()) {
            return [vec![name.get_ref().to_string()], inner].concat();
        }
    }
    Vec::new()
}

fn collect_paths(table: &Table, prefix: &str, paths: &mut Vec<String>) {
    for (name, value) in table {
        let path = join(prefix, name);
        if let Value::Table(inner) = value {
            collect_paths(inner, &path, paths);
        }
        paths.push(path);
    }
}

fn join(prefix: &str, name: &str) -> String {
    if prefix.is_empty() { name.to_owned() } else { format!("{prefix}.{name}") }
}

fn last_part(path: &str) -> &str {
    path.rsplit('.').next().unwrap_or(path)
}
