//! The console in front of a private Postfix and Dovecot, in Chromium: the same stories as with the built-in server.
//!
//! They need Chromium, Playwright and axe-core, so a plain `cargo test` ignores them. `./test` installs missing programs
//! and runs them.

#[expect(dead_code, reason = "other tests use the rest of it")]
mod external_host;
mod support;

use std::path::Path;
use std::process::Command;

use external_host::{Engine, ExternalHost};

/// Longer than a story takes on a busy machine. `timeout` then ends it with the browser.
const TIME_LIMIT: &str = "20m";

/// Runs a story on a new installation.
async fn run(story: &str, engine: Engine) {
    let unlimited = [
        ("MAILAPI_LIMITS__REQUESTS_PER_MINUTE", "0"),
        ("MAILAPI_LIMITS__REQUESTS_PER_HOUR", "0"),
        ("MAILAPI_MAIL__EXTERNAL__RULES", "true"),
    ];
    let host = ExternalHost::open_with(engine, &unlimited).await;
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/e2e").join(format!("{story}.py"));
    let mut command = Command::new("timeout");
    command.args([TIME_LIMIT, "python3", "-B"]).arg(script);
    let (api, token) = host.api();
    command.env("MAILAPI_RUNNING", api).env("MAILAPI_RUNNING_TOKEN", token);
    let output = tokio::task::spawn_blocking(move || command.output().expect("coreutils are installed")).await.unwrap();
    let shown = [output.stdout, output.stderr].map(|stream| String::from_utf8_lossy(&stream).into_owned()).concat();
    assert!(output.status.success(), "{story}: {shown}\n{}", host.dovecot.log());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Chromium; ./test installs and runs it"]
async fn every_page_on_sqlite() {
    run("console_pages", Engine::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Chromium; ./test installs and runs it"]
async fn every_change_without_scripts_on_postgresql() {
    run("console_without_scripts", Engine::Postgres).await;
}
