//! Reads logrotate's configuration: how the next file of a log is created.

/// How a rotation leaves a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum NextLog {
    /// The file stays, with its owner and mode.
    Kept,
    /// logrotate creates a file; values that are absent are those of the old file.
    Created {
        /// The mode.
        mode: Option<u32>,
        /// The owner's name.
        owner: Option<String>,
        /// The group's name.
        group: Option<String>,
    },
    /// The program that writes the log creates it.
    ByWriter,
}

/// A part of the configuration: one log, or the start of a file, which applies to all logs.
#[derive(Default)]
struct LogDirectives {
    create: Option<NextLog>,
    copies: bool,
}

impl LogDirectives {
    fn take(&mut self, words: &[&str]) {
        match words {
            ["create", values @ ..] => self.create = Some(created(values)),
            ["nocreate", ..] => self.create = Some(NextLog::ByWriter),
            // Both leave the file in its place, and `create` has no effect.
            ["copytruncate" | "copy", ..] => self.copies = true,
            ["nocopytruncate" | "nocopy", ..] => self.copies = false,
            _ => {}
        }
    }
}

/// Reads `create [mode] [owner] [group]`. The mode may be left out.
fn created(values: &[&str]) -> NextLog {
    let mode = values.first().filter(|word| word.starts_with(|first: char| first.is_ascii_digit()));
    let names = &values[usize::from(mode.is_some())..];
    let name = |at: usize| names.get(at).map(|&name| name.to_owned());
    NextLog::Created {
        mode: mode.and_then(|digits| u32::from_str_radix(digits, 8).ok()),
        owner: name(0),
        group: name(1),
    }
}

/// Returns how the log at `path` is rotated by these files; `None` if none of them names it. The first file is the main
/// one: what it says outside of braces applies to all logs.
pub(super) fn next_log(files: &[String], path: &str) -> Option<NextLog> {
    let mut common = LogDirectives::default();
    for (at, file) in files.iter().enumerate() {
        let mut local = LogDirectives { create: common.create.clone(), copies: common.copies };
        let found = read(file, path, &mut local);
        if found.is_some() {
            return found;
        }
        if at == 0 {
            common = local;
        }
    }
    None
}

/// Reads one file. `common` are the directives outside of braces so far.
fn read(file: &str, path: &str, common: &mut LogDirectives) -> Option<NextLog> {
    // The patterns before a brace, and the directives in it.
    let mut is_named = false;
    let mut block: Option<LogDirectives> = None;
    let mut is_script = false;
    for line in file.lines().map(str::trim) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let Some(first) = words.first().filter(|first| !first.starts_with('#')) else { continue };
        if is_script {
            is_script = *first != "endscript";
        } else if let Some(own) = &mut block {
            match *first {
                "}" if is_named => {
                    return Some(if own.copies {
                        NextLog::Kept
                    } else {
                        own.create.take().unwrap_or(NextLog::ByWriter)
                    });
                }
                "}" => block = None,
                "prerotate" | "postrotate" | "firstaction" | "lastaction" | "preremove" => is_script = true,
                _ => own.take(&words),
            }
        } else if first.starts_with(['/', '"', '\'', '{']) {
            let mut patterns = line.trim_end_matches('{').split_whitespace().map(|word| word.trim_matches(['"', '\'']));
            is_named |= patterns.any(|pattern| matches(pattern, path));
            if line.ends_with('{') {
                block = Some(LogDirectives { create: common.create.clone(), copies: common.copies });
            }
        } else {
            common.take(&words);
        }
        if block.is_none() && *first == "}" {
            is_named = false;
        }
    }
    None
}

/// Compares a path with a pattern of glob(7), of which logs use `*` and `?`. Neither matches a slash.
fn matches(pattern: &str, path: &str) -> bool {
    let (pattern, path): (Vec<char>, Vec<char>) = (pattern.chars().collect(), path.chars().collect());
    // `reached[at]` says whether the pattern so far matches the first `at` characters.
    let mut reached = vec![false; path.len() + 1];
    reached[0] = true;
    for wanted in pattern {
        let mut next = vec![false; path.len() + 1];
        for at in 0..=path.len() {
            let before = at.checked_sub(1).filter(|&before| match wanted {
                '*' | '?' => path[before] != '/',
                other => path[before] == other,
            });
            next[at] = match wanted {
                '*' => reached[at] || before.is_some_and(|before| next[before]),
                _ => before.is_some_and(|before| reached[before]),
            };
        }
        reached = next;
    }
    reached[path.len()]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LOG: &str = "/var/log/postfix/mail.log";

    fn created_as(mode: u32, owner: &str, group: &str) -> NextLog {
        NextLog::Created { mode: Some(mode), owner: Some(owner.to_owned()), group: Some(group.to_owned()) }
    }

    fn found(files: &[&str]) -> Option<NextLog> {
        next_log(&files.iter().map(|&file| file.to_owned()).collect::<Vec<_>>(), LOG)
    }

    #[test]
    fn the_first_block_that_names_the_log_decides() {
        assert_eq!(found(&["weekly\ncreate\ninclude /etc/logrotate.d\n"]), None);
        assert_eq!(found(&["", "/var/log/mail.log\n{\n create 0640 postfix adm\n}\n"]), None);
        let script = "postrotate\n create 0600 a b\n }\n endscript\n";
        let block = format!(
            "# mail\n/var/log/other.log\n/var/log/postfix/*.log\n{{\n  weekly\n  {script}  create 640 postfix adm\n}}\n"
        );
        assert_eq!(found(&["", &block]), Some(created_as(0o640, "postfix", "adm")));
        let two = "/var/log/other.log {\n create 600 root root\n}\n\"/var/log/postfix/mail.log\" {\n nocreate\n}\n";
        assert_eq!(found(&["create", two]), Some(NextLog::ByWriter));
    }

    #[test]
    fn the_main_file_applies_to_all_logs() {
        let block = format!("{LOG} {{\n rotate 4\n}}\n");
        let as_before = NextLog::Created { mode: None, owner: None, group: None };
        assert_eq!(found(&["create\n", &block]), Some(as_before));
        assert_eq!(found(&["", "create\n", &block]), Some(NextLog::ByWriter), "another file's lines are its own");
        let named = NextLog::Created { mode: None, owner: Some("postfix".to_owned()), group: Some("adm".to_owned()) };
        assert_eq!(found(&["create postfix adm\n", &block]), Some(named));
        assert_eq!(found(&["copytruncate\n", &block]), Some(NextLog::Kept));
        assert_eq!(
            found(&["", &format!("{LOG} {{\n copytruncate\n create 0600 root root\n}}\n")]),
            Some(NextLog::Kept)
        );
    }

    #[test]
    fn patterns_match_as_the_shell_expands_them() {
        for (pattern, is_match) in [
            (LOG, true),
            ("/var/log/postfix/*", true),
            ("/var/log/*/mail.???", true),
            ("/var/log/*.log", false),
            ("/var/log/postfix/mail", false),
            ("", false),
        ] {
            assert_eq!(matches(pattern, LOG), is_match, "{pattern}");
        }
    }

    proptest! {
        #[test]
        fn any_configuration_is_read(files in prop::collection::vec(r"(\PC|[{}\n /*]|create|copytruncate){0,60}", 0..4)) {
            let _ = next_log(&files, LOG);
        }

        #[test]
        fn a_block_behind_others_is_found(before in prop::collection::vec("[a-z]{1,8}", 0..4), mode in 0_u32..0o1000) {
            let others: String = before.iter().map(|name| format!("/var/log/{name}.log {{\n create 0600 root root\n}}\n")).collect();
            let file = format!("{others}{LOG} {{\n create {mode:04o} root adm\n}}\n");
            prop_assert_eq!(next_log(&[String::new(), file], LOG), Some(created_as(mode, "root", "adm")));
        }
    }
}
