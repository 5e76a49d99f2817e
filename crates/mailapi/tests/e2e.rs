//! Stories against the real binary with the mail programs that people use: each is a Python script in `e2e/`.
//!
//! They need Python, curl, Node, swaks, mutt, isync, openssl, Pebble, Chromium, Playwright, axe-core, BIND, Postfix,
//! iproute2, faketime, dkimpy, dnspython, standardwebhooks, svix and Schemathesis, so a plain `cargo test` ignores them.
//! `./test` installs missing programs and runs them.

use std::path::Path;
use std::process::Command;

/// Longer than the longest story takes on a busy machine. `timeout` then ends the story with the programs that it started.
const TIME_LIMIT: &str = "20m";

fn run(story: &str) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/e2e").join(format!("{story}.py"));
    let output = Command::new("timeout")
        .args([TIME_LIMIT, "python3", "-B"])
        .arg(script)
        .env("MAILAPI_BINARY", env!("CARGO_BIN_EXE_mailapi"))
        .output()
        .expect("coreutils are installed");
    let shown = [output.stdout, output.stderr].map(|stream| String::from_utf8_lossy(&stream).into_owned()).concat();
    assert!(output.status.success(), "{story}: {shown}");
}

macro_rules! stories {
    ($($story:ident),+ $(,)?) => {
        $(
            #[test]
            #[ignore = "needs mail programs; ./test installs and runs them"]
            fn $story() {
                run(stringify!($story));
            }
        )+

        #[test]
        fn every_script_is_run() {
            let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/e2e");
            for entry in std::fs::read_dir(directory).expect("the directory of the stories") {
                let path = entry.expect("a readable directory").path();
                let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default().to_owned();
                let is_script = path.extension().is_some_and(|extension| extension == "py") && !["browser", "harness", "internet"].contains(&stem.as_str());
                assert!(!is_script || [$(stringify!($story)),+].contains(&stem.as_str()), "{stem} is never run");
            }
        }
    };
}

stories!(
    acme,
    api_tour,
    app_passwords,
    code_samples,
    console_first_visit,
    console_hostile_mail,
    console_keyboard,
    console_pages,
    console_refused_forms,
    console_without_scripts,
    curl_imap,
    dns_zone,
    event_loop,
    first_mail,
    fuzzed_api,
    imap_client,
    isync,
    mutt,
    outside_mail,
    protected_mail,
    signed_mail,
    submission,
    tls,
    two_servers,
    typed_password,
    webhook_kills,
    webhook_libraries,
    webhooks
);
