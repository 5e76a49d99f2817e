//! The reference of all settings in `docs/settings.md`. Its source is the documented file and the table of former names.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use super::former::{self, MOVED, REMOVED};
use super::{Config, DOCUMENTED};

/// Maximum number of settings in this project. A new one must replace another.
const MOST_SETTINGS: usize = 120;
/// First words of the sentence in a description that explains when to change the setting.
const WHEN: [&str; 4] = ["Set it ", "Raise it ", "Lower it ", "Change it "];
const EXAMPLE: &str = "# Example: ";
const PART: &str = "# ----- ";

const INTRODUCTION: &str = "# Settings

This page is generated from [`config/mailapi.default.toml`](../config/mailapi.default.toml): change that file, remove
this page, and run `cargo test --bin mailapi reference`.

In the environment, `MAILAPI_HTTP__LISTEN` sets `http.listen`. `mailapi config check` checks a configuration, and
`mailapi config print` shows the effective one.
";

/// A setting of the documented file.
#[derive(Debug, Default)]
struct Entry {
    /// Heading of its part of the file.
    part: String,
    /// Sections, separated by dots; empty for none.
    section: String,
    name: String,
    default: String,
    description: String,
    /// Line that sets the key.
    example: Option<String>,
}

impl Entry {
    fn key(&self) -> String {
        if self.section.is_empty() { self.name.clone() } else { format!("{}.{}", self.section, self.name) }
    }

    fn is_advanced(&self) -> bool {
        self.section.split('.').next() == Some("advanced")
    }
}

fn entries() -> Vec<Entry> {
    let (mut part, mut section, mut entries) = (String::new(), String::new(), Vec::new());
    let (mut description, mut example) = (Vec::new(), None);
    for line in DOCUMENTED.lines() {
        if let Some(heading) = line.strip_prefix(PART) {
            part = heading.trim_end_matches(['-', ' ']).to_owned();
        } else if let Some(text) = line.strip_prefix(EXAMPLE) {
            example = Some(text.to_owned());
        } else if let Some(text) = line.strip_prefix("# ") {
            description.push(text);
        } else if let Some(name) = line.strip_prefix('[') {
            section = name.trim_end_matches(']').to_owned();
        } else if let Some((name, default)) = line.split_once(" = ") {
            entries.push(Entry {
                part: part.clone(),
                section: section.clone(),
                name: name.to_owned(),
                default: default.to_owned(),
                description: description.join(" "),
                example: example.take(),
            });
            description.clear();
        } else {
            // A comment above an empty line describes the file or a part.
            description.clear();
        }
    }
    entries
}

fn reference() -> String {
    let mut page = INTRODUCTION.to_owned();
    let (mut part, mut section) = (String::new(), None);
    for entry in entries() {
        if entry.part != part {
            part.clone_from(&entry.part);
            write!(page, "\n## {part}\n").unwrap();
            section = None;
        }
        if section.as_ref() != Some(&entry.section) {
            if !entry.section.is_empty() {
                write!(page, "\n### `[{}]`\n", entry.section).unwrap();
            }
            page.push_str("\n| setting | default | what it is, and when to change it |\n|---|---|---|\n");
            section = Some(entry.section.clone());
        }
        let example = entry.example.map(|example| format!(" Example: `{example}`")).unwrap_or_default();
        let text = format!("{}{example}", entry.description).replace('|', "\\|");
        writeln!(page, "| `{}` | `{}` | {text} |", entry.name, entry.default).unwrap();
    }
    page.push_str(
        "\n## Former names\n\nThis version accepts these names with a warning, and the next one refuses them.\n",
    );
    page.push_str("\n| former name | name now |\n|---|---|\n");
    for (old, new) in MOVED {
        writeln!(page, "| `{old}` | `{new}` |").unwrap();
    }
    page.push_str("\nThese settings are constants now. This version ignores them with a warning.\n\n| section | settings |\n|---|---|\n");
    for (section, names) in REMOVED {
        let names: Vec<_> = names.iter().map(|name| format!("`{name}`")).collect();
        writeln!(page, "| `[{section}]` | {} |", names.join(", ")).unwrap();
    }
    page
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

#[test]
fn there_are_few_settings() {
    let count = entries().len();
    assert!(count <= MOST_SETTINGS, "{count} settings, at most {MOST_SETTINGS}: make one of them a constant");
}

#[test]
fn every_setting_has_a_line_that_says_when_to_change_it() {
    for entry in entries() {
        let says_when = WHEN.iter().any(|when| entry.description.contains(when));
        assert!(says_when, "{}: add a sentence that begins with one of {WHEN:?}", entry.key());
        assert!(entry.is_advanced() || entry.example.is_some(), "{}: add a line `{EXAMPLE}…`", entry.key());
    }
}

#[test]
fn every_size_has_one_suffix() {
    for entry in entries() {
        let is_size = entry.default.parse::<toml::Value>().is_ok_and(|value| {
            value.as_str().is_some_and(|text| text.starts_with(char::is_numeric) && text.ends_with('B'))
        });
        assert!(!is_size || ["_bytes", "_quota"].iter().any(|suffix| entry.name.ends_with(suffix)), "{}", entry.key());
    }
}

#[test]
fn every_example_in_the_documented_file_is_accepted() {
    for entry in entries() {
        let Some(example) = &entry.example else { continue };
        assert!(example.starts_with(&format!("{} = ", entry.name)), "{}: {example}", entry.key());
        let section = if entry.section.is_empty() { String::new() } else { format!("[{}]\n", entry.section) };
        let text = format!("{section}{example}\n");
        let config = Config::from_layers(Some(("example", &text)), &[]).unwrap_or_else(|error| panic!("{error}"));
        assert_ne!(config, Config::default(), "{}: the example is the default", entry.key());
    }
}

#[test]
fn the_reference_of_settings_is_that_of_the_file() {
    let path = repository().join("docs/settings.md");
    let fresh = reference();
    let Ok(kept) = std::fs::read_to_string(&path) else {
        std::fs::write(&path, fresh).unwrap();
        panic!("docs/settings.md is new: read it, and run the test again");
    };
    assert!(kept == fresh, "docs/settings.md is stale: remove it, run the test, and look at what changed");
}

#[test]
fn no_page_uses_a_former_name() {
    let mut pages: Vec<_> = ["README.md", "ARCHITECTURE.md"].map(|page| repository().join(page)).to_vec();
    let docs = std::fs::read_dir(repository().join("docs")).unwrap().map(|entry| entry.unwrap().path());
    pages.extend(
        docs.filter(|path| path.extension().is_some_and(|kind| kind == "md") && !path.ends_with("settings.md")),
    );
    for page in pages {
        let text = std::fs::read_to_string(&page).unwrap();
        let words = text.split(|c: char| !(c.is_ascii_lowercase() || c == '_' || c == '.'));
        let former: Vec<_> =
            words.map(|word| word.trim_matches('.')).filter(|word| former::find(word).is_some()).collect();
        assert!(former.is_empty(), "{}: {former:?}", page.display());
    }
}
