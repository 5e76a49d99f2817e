//! Children that end, hang, flood or talk garbage, and the program without a server.

use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use mailapi_hosted_dns::{AgentProgram, DnsAgent, FailureKind, MAX_LINE};
use mailapi_model::RecordKind;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use tokio::io::AsyncWriteExt;

use crate::store::{ApiTrouble, TroubleAt};
use crate::world::{HostedWorld, PROVIDERS, ZONE, account, change, failed, within};

/// A directory with a script in place of the program.
struct FakeChild {
    _home: TempDir,
    program: AgentProgram,
}

impl FakeChild {
    fn new(script: &str) -> Self {
        let home = TempDir::new().unwrap();
        let path: PathBuf = home.path().join("child");
        let mut file = std::fs::File::create(&path).unwrap();
        file.write_all(format!("#!/bin/sh\nPATH=/usr/bin:/bin\nread account\n{script}\n").as_bytes()).unwrap();
        file.set_permissions(std::fs::Permissions::from_mode(0o755)).unwrap();
        Self { _home: home, program: AgentProgram::new(path, []) }
    }

    async fn agent(&self) -> DnsAgent {
        // Another test may start a program while this script is open for writing there.
        loop {
            match DnsAgent::start(&self.program, account("desec", ZONE)).await {
                Err(error) if error.message.contains("busy") => tokio::task::yield_now().await,
                started => return started.unwrap(),
            }
        }
    }
}

fn runs(process: u32) -> bool {
    Path::new("/proc").join(process.to_string()).exists()
}

/// Asserts that each job fails, and that the child is gone after the first.
async fn fails(script: &str) -> String {
    let child = FakeChild::new(script);
    let mut agent = child.agent().await;
    let process = agent.process_id().unwrap();
    let message = failed(agent.replace(&change(ZONE, RecordKind::Mx, &[], &["0 ."])).await, FailureKind::Unanswered);
    assert!(!runs(process), "{script}");
    let later = agent.list(ZONE, RecordKind::Mx).await.unwrap_err();
    assert_eq!((later.kind, later.message.as_str()), (FailureKind::Unanswered, "the program for hosted DNS has ended"));
    message
}

/// With time paused, limits pass as soon as nothing else happens.
#[tokio::test(start_paused = true)]
async fn a_child_that_hangs_is_killed() {
    assert!(fails("read job; exec sleep 1000").await.contains("in time"));
}

#[tokio::test]
async fn a_child_that_floods_is_killed() {
    assert!(within(fails("read job; exec tr '\\0' a < /dev/zero")).await.contains("without an answer"));
}

#[tokio::test]
async fn a_child_that_ends_is_reaped() {
    for script in ["exit 0", "read job; exit 1", "read job; printf '{\"result\":\"repl'", "read job; kill -9 $$"] {
        assert!(within(fails(script)).await.contains("without an answer"), "{script}");
    }
}

#[tokio::test]
async fn an_answer_that_is_cut_is_none() {
    assert!(within(fails("read job; printf '{\"result\":\"replaced\"}'")).await.contains("without an answer"));
}

#[tokio::test]
async fn garbage_is_no_answer() {
    for answer in [
        "hello",
        "",
        "null",
        "{\"result\":\"done\"}",
        "{\"result\":\"records\",\"ttl\":null,\"values\":[\"x\"]}",
        "{\"result\":\"error\",\"kind\":\"other\",\"message\":\"\"}",
        "\\377\\376",
    ] {
        let message = within(fails(&format!("read job; printf '%b\\n' '{answer}'; exec sleep 1000"))).await;
        assert!(message.contains("not of its protocol"), "{answer}: {message}");
    }
    let records = "{\"result\":\"records\",\"ttl\":null,\"values\":[]}";
    let message = within(fails(&format!("read job; echo '{records}'; exec sleep 1000"))).await;
    assert!(message.contains("another question"), "{message}");
}

#[tokio::test]
async fn a_child_that_repeats_credentials_is_scrubbed() {
    let child = FakeChild::new(
        "token=${account#*\\\"token\\\":\\\"}; token=${token%%\\\"*}; read job; \
         echo \"{\\\"result\\\":\\\"error\\\",\\\"kind\\\":\\\"refused\\\",\\\"message\\\":\\\"bad $token!\\\"}\"; read end",
    );
    let mut agent = within(child.agent()).await;
    let error = within(agent.list(ZONE, RecordKind::Mx)).await.unwrap_err();
    assert_eq!((error.kind, error.message.as_str()), (FailureKind::Refused, "bad …!"));
}

#[tokio::test]
async fn a_missing_program_is_an_error() {
    let missing = AgentProgram::new("/nonexistent/mailapi-dns", []);
    let error = DnsAgent::start(&missing, account("desec", ZONE)).await.unwrap_err();
    assert_eq!(error.kind, FailureKind::Unanswered);
    assert!(error.message.contains("does not start"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_child_that_outlives_its_input_is_killed() {
    let child = FakeChild::new("exec sleep 1000");
    let agent = child.agent().await;
    let process = agent.process_id().unwrap();
    agent.stop().await;
    assert!(!runs(process));
}

#[tokio::test]
async fn the_program_ends_with_its_input() {
    let world = HostedWorld::start().await;
    let agent = world.agent("desec").await;
    let process = agent.process_id().unwrap();
    within(agent.stop()).await;
    assert!(!runs(process));
}

#[tokio::test]
async fn a_program_that_is_killed_leaves_the_result_unknown() {
    for provider in PROVIDERS {
        let world = HostedWorld::start().await;
        let mut agent = world.agent(provider).await;
        world.trouble(provider, TroubleAt::Writes, 1, ApiTrouble::Hang);
        let process = Pid::from_raw(agent.process_id().unwrap().try_into().unwrap()).unwrap();
        let wanted = change(ZONE, RecordKind::Mx, &[], &["10 mx.example."]);
        let kill = async {
            world.store(provider).troubled.notified().await;
            kill_process(process, Signal::KILL).unwrap();
        };
        let (result, ()) = within(async { tokio::join!(agent.replace(&wanted), kill) }).await;
        failed(result, FailureKind::Unanswered);

        // The next program finds what the first one did.
        let mut next = world.agent(provider).await;
        let listed = within(next.list(ZONE, RecordKind::Mx)).await.unwrap();
        assert_eq!(listed.records, wanted.after.records);
    }
}

#[tokio::test]
async fn a_caller_that_gives_up_ends_the_program() {
    let world = HostedWorld::start().await;
    let mut agent = world.agent("desec").await;
    world.trouble("desec", TroubleAt::Reads, 1, ApiTrouble::Hang);
    let gives_up = async {
        tokio::select! {
            answer = agent.list(ZONE, RecordKind::Mx) => panic!("{answer:?}"),
            () = world.store("desec").troubled.notified() => {}
        }
    };
    within(gives_up).await;
    let later = within(agent.list(ZONE, RecordKind::Mx)).await.unwrap_err();
    assert_eq!((later.kind, agent.process_id()), (FailureKind::Unanswered, None));
}

/// The program, with lines that `DnsAgent` does not send. Returns its output and exit status.
async fn program_with(input: &[u8], arguments: &[&str]) -> (String, Option<i32>) {
    let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_mailapi-dns"));
    command.args(arguments).env_clear().stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    // The program may end before it has read everything.
    let _ = stdin.write_all(input).await;
    drop(stdin);
    let output = within(child.wait_with_output()).await.unwrap();
    (String::from_utf8(output.stdout).unwrap(), output.status.code())
}

#[tokio::test]
async fn a_first_line_that_is_no_account_ends_the_program() {
    for input in [
        &b""[..],
        b"\n",
        b"hello\n",
        b"{\"provider\":\"desec\",\"credentials\":{\"token\":\"canary\"},\"zone\":\"example.org\"}",
        b"{\"provider\":\"desec\",\"credentials\":{\"token\":\"canary\\n\"},\"zone\":\"example.org\"}\n",
        b"{\"provider\":\"canary\",\"credentials\":{},\"zone\":\"example.org\"}\n",
        b"\xff\xfe\n",
    ] {
        let (output, status) = program_with(input, &[]).await;
        assert_eq!(status, Some(2), "{output}");
        assert!(
            output.starts_with("{\"result\":\"error\",\"kind\":\"invalid\"") && output.ends_with("}\n"),
            "{output}"
        );
        assert!(!output.contains("canary"), "{output}");
    }
}

#[tokio::test]
async fn lines_that_are_no_jobs_are_refused_one_by_one() {
    let account = account("desec", ZONE).to_line();
    let mut input = account.expose().clone();
    let jobs = [
        "{}",
        "hello",
        r#"{"job":"list","name":"example.com","type":"MX"}"#,
        r#"{"job":"list","name":"a/../../b.example.org","type":"MX"}"#,
        r#"{"job":"list","name":"example.org","type":"A"}"#,
    ];
    input.push_str(&jobs.join("\n"));
    input.push('\n');
    // An unfinished job is not run.
    input.push_str(r#"{"job":"list","name":"example.org","type":"MX"}"#);
    let (output, status) = program_with(input.as_bytes(), &[]).await;
    assert_eq!(status, Some(0));
    assert_eq!(output.lines().count(), jobs.len());
    assert!(output.lines().all(|line| line.contains(r#""kind":"invalid""#)), "{output}");

    let long = format!("{}{}\n", account.expose(), " ".repeat(MAX_LINE));
    let (output, status) = program_with(long.as_bytes(), &[]).await;
    assert_eq!((output.lines().count(), status), (1, Some(0)));
    assert!(output.contains("too long"), "{output}");
}

#[tokio::test]
async fn usage_is_two_sentences() {
    for argument in ["--help", "--version"] {
        let (output, status) = program_with(b"", &[argument]).await;
        assert_eq!((status, output.lines().count(), output.matches(". ").count()), (Some(0), 1, 1), "{output}");
        assert!(output.starts_with("mailapi-dns 0."), "{output}");
    }
}
