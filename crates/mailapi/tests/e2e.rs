//! Stories against the real binary with the mail programs that people use: each is a Python script in `e2e/`.
//!
//! They need Python, curl, Node, swaks, mutt, isync, dkimpy, dnspython, standardwebhooks, svix and Schemathesis, so a
//! plain `cargo test` ignores them. `./test` installs missing programs and runs them.

use std::path::Path;
use std::process::Command;

fn run(story: &str) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/e2e").join(format!("{story}.py"));
    let output = Command::new("python3")
        .arg("-B")
        .arg(script)
        .env("MAILAPI_BINARY", env!("CARGO_BIN_EXE_mailapi"))
        .output()
        .expect("python3 is installed");
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
                let is_script = path.extension().is_some_and(|extension| extension == "py") && stem != "harness";
                assert!(!is_script || [$(stringify!($story)),+].contains(&stem.as_str()), "{stem} is never run");
            }
        }
    };
}

stories!(
    api_tour,
    code_samples,
    curl_imap,
    dns_zone,
    event_loop,
    first_mail,
    fuzzed_api,
    imap_client,
    isync,
    mutt,
    outside_mail,
    signed_mail,
    submission,
    two_servers,
    typed_password,
    webhook_kills,
    webhook_libraries,
    webhooks
);
