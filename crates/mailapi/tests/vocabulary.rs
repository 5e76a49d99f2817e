//! Names come from the field. `docs/glossary.md` lists the few terms that are this project's own.

use std::path::Path;

/// Former words that must not be part of a name, with their replacements.
const WORDS: &[(&str, &str)] = &[
    ("complain", "log"),
    ("courier", "delivery agent"),
    ("desk", "what the fixture is"),
    ("door", "listener or protocol"),
    ("doorman", "authenticator"),
    ("doors", "listeners"),
    ("doorway", "session setup"),
    ("errand", "delivery"),
    ("gatekeeper", "authenticator"),
    ("gatekeepers", "authenticators"),
    ("house", "what the fixture is, or maintenance"),
    ("ledger", "tracked messages"),
    ("maildrop", "message store"),
    ("office", "mail host"),
    ("passage", "layer"),
    ("scene", "what the fixture is"),
    ("seat", "permit"),
    ("seats", "limits"),
    ("sighting", "probe result"),
    ("spool", "buffer; a spool is a durable queue"),
    ("spooled", "buffered"),
    ("sweep", "collect"),
    ("swept", "collected"),
    ("tidy", "prune"),
    ("witness", "probe"),
];

/// Former names whose words have other uses.
const NAMES: &[(&str, &str)] = &[
    ("Digest", "MessageStructure"),
    ("EpochMark", "Validator"),
    ("GoAhead", "CommitGate"),
    ("Handed", "SubmittedIds"),
    ("InHand", "InFlight"),
    ("KeptPages", "ResponseCache"),
    ("Letter", "OutboundMessage"),
    ("LoginMark", "Validator"),
    ("Look", "Validator"),
    ("PageMark", "Validator"),
    ("Places", "ConnectionSlots"),
    ("Round", "QueueRun"),
    ("Signs", "Hints"),
    ("Trace", "LookupResult or TraceFields"),
    ("Turn", "a permit or a lock"),
    ("Turns", "permits or locks"),
    ("World", "what the fixture is"),
    ("come_again", "temporary_failure"),
    ("hand_over", "submit"),
    ("keep_house", "maintain"),
    ("siblings", "rotated_files"),
    ("take_over", "accept"),
];

/// Words of comments that hide the subject of a sentence.
const PROSE: &[&str] = &["told", "nobody", "whoever", "whom", "of ours"];

/// The words of [`PROSE`] that are refused in names and strings too. `nobody` is not one: it is a usual mailbox name.
const CODE: &[&str] = &["told", "whoever", "whom", "of ours"];

const DECLARING: &[&str] = &["enum", "fn", "macro_rules", "mod", "struct", "trait", "type", "union"];

/// Maximum length of a function name: a terminal shows it beside the path of a test.
const LONGEST_FUNCTION_NAME: usize = 60;

#[test]
fn former_names_do_not_come_back() {
    let mut found = Vec::new();
    for_each_source(&mut |path, text| {
        let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
        for name in declared(text).map(|(_, name)| name).chain([stem]) {
            found.extend(instead_of(name).map(|better| format!("{}: {name}: use {better}", path.display())));
        }
    });
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn comments_name_their_subject() {
    let mut found = Vec::new();
    for_each_source(&mut |path, text| {
        for comment in text.lines().filter(|line| line.trim_start().starts_with("//")).map(prose) {
            let words = PROSE.iter().filter(|word| comment.contains(&format!(" {word} ")));
            found.extend(words.map(|word| format!("{}: {word}:{comment}", path.display())));
        }
    });
    assert!(found.is_empty(), "name the thing with the field's noun:\n{}", found.join("\n"));
}

#[test]
fn names_and_strings_name_their_subject() {
    let mut found = Vec::new();
    for_each_source(&mut |path, text| {
        let hidden = code(text).filter_map(|line| hidden_in(line).map(|word| (word, line)));
        found.extend(hidden.map(|(word, line)| format!("{}: {word}: {}", path.display(), line.trim())));
    });
    assert!(found.is_empty(), "name the thing with the field's noun:\n{}", found.join("\n"));
}

#[test]
fn a_login_is_written_as_one_word() {
    let mut found = Vec::new();
    let mut visit = |path: &Path, text: &str| {
        let lines = text.lines().filter(|line| line.to_lowercase().contains("log-in"));
        found.extend(lines.map(|line| format!("{}: {}", path.display(), line.trim())));
    };
    for_each_source(&mut visit);
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    for entry in std::fs::read_dir(docs).expect("the documents can be read") {
        let path = entry.expect("a directory can be read to its end").path();
        if path.extension().is_some_and(|extension| extension == "md") {
            visit(&path, &std::fs::read_to_string(&path).expect("documents are UTF-8"));
        }
    }
    assert!(found.is_empty(), "docs/glossary.md: a login, to log in:\n{}", found.join("\n"));
}

#[test]
fn words_are_found_in_names_and_strings() {
    for line in ["let told = 1;", "fn is_told()", "Task::Told", "const TOLD: u8", "(\"an event is told once\")"] {
        assert_eq!(hidden_in(line), Some("told"), "{line}");
    }
    assert_eq!(hidden_in("let of_ours = 1;"), Some("of ours"));
    assert_eq!(code("use_it(); // It was told.").find_map(hidden_in), None);
    for line in ["untold", "to_ld", "nobody@example.org"] {
        assert_eq!(hidden_in(line), None, "{line}");
    }
}

#[test]
fn words_are_found_in_prose_alone() {
    for (comment, count) in [("// Nobody was told.", 2), ("/// `told` is a field of ours", 1), ("// A toldot.", 0)] {
        let comment = prose(comment);
        assert_eq!(PROSE.iter().filter(|word| comment.contains(&format!(" {word} "))).count(), count, "{comment}");
    }
}

#[test]
fn function_names_fit_into_a_line() {
    let mut found = Vec::new();
    for_each_source(&mut |path, text| {
        let functions = declared(text).filter(|(keyword, _)| *keyword == "fn").map(|(_, name)| name);
        let long = functions.filter(|name| name.len() > LONGEST_FUNCTION_NAME);
        found.extend(long.map(|name| format!("{}: {name}", path.display())));
    });
    assert!(found.is_empty(), "names of more than {LONGEST_FUNCTION_NAME} characters:\n{}", found.join("\n"));
}

#[test]
fn former_names_are_recognised_in_every_form() {
    for (text, name) in [
        ("pub(crate) struct CourierSettings {", "CourierSettings"),
        ("    async fn open_spool(&self) {", "open_spool"),
        ("mod maildrop;", "maildrop"),
        ("pub enum Turn {", "Turn"),
    ] {
        let names: Vec<_> = declared(text).map(|(_, name)| name).collect();
        assert_eq!(names, [name]);
        assert!(instead_of(name).is_some(), "{name}");
    }
    for name in ["outdoors", "return_path", "digest_of", "begins_letter"] {
        assert_eq!(instead_of(name), None, "{name}");
    }
    assert_eq!(declared("// The fn courier is gone.").count(), 0);
}

/// Returns the words of a comment in lower case, separated by spaces, without its code spans.
fn prose(comment: &str) -> String {
    let text = comment.split('`').step_by(2).collect::<Vec<_>>().join(" ").to_lowercase();
    let words = text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    format!(" {} ", words.collect::<Vec<_>>().join(" "))
}

/// Returns the replacement of a former word.
fn instead_of(name: &str) -> Option<&'static str> {
    let whole = NAMES.iter().find(|(former, _)| *former == name);
    let part = || WORDS.iter().find(|(former, _)| parts(name).iter().any(|part| part == former));
    whole.or_else(part).map(|(_, better)| *better)
}

/// Returns the words of a name in any case style, in lower case.
fn parts(name: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let is_constant = !name.chars().any(char::is_lowercase);
    for c in name.chars() {
        if c == '_' || c.is_uppercase() && !is_constant {
            parts.push(String::new());
        }
        if c != '_' {
            parts.last_mut().expect("there is a first part").push(c.to_ascii_lowercase());
        }
    }
    parts
}

/// Returns the names that a source declares, each with its keyword. Comments are ignored.
fn declared(text: &str) -> impl Iterator<Item = (&str, &str)> {
    code(text).flat_map(|line| names(line).zip(names(line).skip(1)).filter(|(keyword, _)| DECLARING.contains(keyword)))
}

/// Returns the lines of a source without comments.
fn code(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter_map(|line| line.split("//").next())
}

/// Returns the keywords and names of a line, and the words of its strings.
fn names(line: &str) -> impl Iterator<Item = &str> {
    line.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty())
}

/// Returns the first entry of [`CODE`] that is part of a name or a string.
fn hidden_in(line: &str) -> Option<&'static str> {
    let lower = line.to_lowercase();
    // Few lines pass this check, and taking names apart is slow.
    let mut possible = CODE.iter().copied().filter(|entry| entry.split(' ').all(|word| lower.contains(word)));
    let in_name = |entry: &str, name: &str| format!(" {} ", parts(name).join(" ")).contains(&format!(" {entry} "));
    possible.find(|entry| names(line).any(|name| in_name(entry, name)))
}

/// Visits every source of every crate except this file, which contains the former names.
fn for_each_source(visit: &mut impl FnMut(&Path, &str)) {
    let mut directories = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("..")];
    let mut seen = 0;
    while let Some(directory) = directories.pop() {
        let entries = std::fs::read_dir(&directory).expect("a directory of the repository can be read");
        for path in entries.map(|entry| entry.expect("a directory can be read to its end").path()) {
            if path.is_dir() {
                directories.push(path);
            } else if is_source(&path) {
                seen += 1;
                visit(&path, &std::fs::read_to_string(&path).expect("sources are UTF-8"));
            }
        }
    }
    assert!(seen > 500, "the sources lie somewhere else: {seen} found");
}

fn is_source(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "rs") && !path.ends_with("tests/vocabulary.rs")
}
