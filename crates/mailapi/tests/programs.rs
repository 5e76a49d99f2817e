//! `./test` must install every program that a test starts, because a bare machine has no other.

use std::path::{Path, PathBuf};

/// Programs in packages of every Debian system (`Essential: yes`, and bash).
const ESSENTIAL: &[&str] = &["bash", "env", "gzip", "id", "mkfifo", "nsenter", "setpriv", "sh", "timeout", "unshare"];

/// Programs from a package that is listed for another program.
const SAME_PACKAGE: &[(&str, &str)] = &[
    ("dnssec-keygen", "bind9-utils"),
    ("doveadm", "dovecot-imapd"),
    ("journalctl", "systemd-journal-remote"),
    ("pebble-challtestsrv", "pebble"),
    ("postconf", "postfix"),
    ("postkick", "postfix"),
    ("postsuper", "postfix"),
    ("systemd-analyze", "systemd-journal-remote"),
];

#[test]
fn tests_start_only_programs_that_test_installs() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let needed = needed(&std::fs::read_to_string(root.join("test")).unwrap());
    let installed = |program: &str| {
        needed.iter().any(|(file, _)| file.rsplit('/').next() == Some(program))
            || SAME_PACKAGE
                .iter()
                .any(|(of, in_package)| *of == program && needed.iter().any(|(_, package)| package == in_package))
    };
    let mut seen = 0;
    for file in sources(&root.join("crates")) {
        for program in started_in(&std::fs::read_to_string(&file).unwrap()) {
            seen += 1;
            let known = ESSENTIAL.contains(&program.as_str()) || installed(&program);
            assert!(known, "{} starts {program}, which ./test does not install", file.display());
        }
    }
    assert!(seen > 10, "programs are started in another form than this test reads: {seen} found");
}

/// Returns the pairs of `program:package` in the array `NEEDED`.
fn needed(script: &str) -> Vec<(String, String)> {
    let (_, list) = script.split_once("NEEDED=(").expect("./test has the list");
    let (list, _) = list.split_once(')').expect("the list ends");
    let pairs = list.split_whitespace().filter_map(|pair| pair.rsplit_once(':'));
    pairs.map(|(program, package)| (program.to_owned(), package.to_owned())).collect()
}

/// Returns the names in `Command::new("name")`, and the first words of lists that Python's subprocess runs.
fn started_in(source: &str) -> Vec<String> {
    // The last one is a function of the stories, which are in Python.
    let of_stories = source.starts_with(r#"""""#).then_some(r#" run(""#);
    let calls = [r#"Command::new(""#, r#"subprocess.run([""#, r#"subprocess.Popen([""#].into_iter().chain(of_stories);
    let names = calls.flat_map(|call| source.split(call).skip(1));
    let names = names.filter_map(|rest| rest.split('"').next());
    // A path is not searched in `PATH`; an empty name comes from this file.
    names.filter(|name| !name.is_empty() && !name.contains('/')).map(str::to_owned).collect()
}

fn sources(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let (directories, files): (Vec<_>, Vec<_>) = entries.partition(|path| path.is_dir());
    let wanted = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "rs" || extension == "py");
    // This file contains the search patterns itself.
    let wanted = |path: &PathBuf| wanted(path) && !path.ends_with("mailapi/tests/programs.rs");
    let below = directories.iter().flat_map(|directory| sources(directory));
    below.chain(files.into_iter().filter(wanted)).collect()
}
