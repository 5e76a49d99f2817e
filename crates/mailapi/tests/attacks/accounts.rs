//! Attacks with right and wrong passwords.

use serde_json::json;

use crate::embedded_host::{ATTACKER, EmbeddedHost, PASSWORD, Talk, answered_during, auth_plain, connect_from, size};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a machine without other work; ./test runs it alone"]
async fn a_stranger_cannot_fill_the_disk() {
    let host =
        EmbeddedHost::open(&[("MAILAPI_LIMITS__SIGNUP_QUOTA", if size(1, 0) == 1 { "100MiB" } else { "2MiB" })]).await;
    let message = format!("Subject: large\r\n\r\n{}", "x\r\n".repeat(size(20_000_000, 400_000) / 3));
    let attack = async {
        let user = json!({ "domain": "stranger.example", "email": "eve@stranger.example", "password": PASSWORD });
        let (status, answer) = host.post("/auth/signup", "", user.to_string()).await;
        assert_eq!(status, 201, "{answer}");
        let mut imap = Talk::begin(host.attacker("imap").await).await;
        imap.say(&format!("a LOGIN eve@stranger.example \"{PASSWORD}\"\r\n"), "a OK").await;
        let mut kept = 0;
        for _ in 0..20 {
            imap.write(format!("b APPEND INBOX {{{}}}\r\n", message.len()).as_bytes()).await;
            let mut line = imap.line().await;
            if line.starts_with('+') {
                imap.write(message.as_bytes()).await;
                imap.write(b"\r\n").await;
                line = imap.line().await;
            }
            while line.starts_with("* ") {
                line = imap.line().await;
            }
            kept += usize::from(line.starts_with("b OK"));
        }
        kept
    };
    let kept = answered_during(&host, "the appends of a stranger", attack).await;
    assert!((1..=5).contains(&kept), "{kept} messages were kept");
    host.stands("the appends of a stranger").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a machine without other work; ./test runs it alone"]
async fn guesses_at_submission_do_not_starve_other_log_ins() {
    // Password hashes are as slow as by default.
    let host = EmbeddedHost::open(&[("MAILAPI_ADVANCED__AUTH__PASSWORD_ROUNDS", "5000")]).await;
    let guess = |n: usize| {
        let listener = host.listener("submission");
        async move {
            let mut client = Talk::begin(connect_from(ATTACKER, listener).await).await;
            client.say("EHLO x\r\n", "250 ").await;
            for password in ["x".repeat(1020), "y".repeat(128)] {
                client.write(auth_plain(&format!("user{n}@example.org"), &password).as_bytes()).await;
                if client.line().await.is_empty() {
                    return;
                }
            }
        }
    };
    let guesses = futures_util::future::join_all((0..95).map(guess));
    let login = json!({ "email": "bob@example.org", "password": PASSWORD }).to_string();
    let attack = async {
        tokio::join!(guesses, async {
            for _ in 0..3 {
                let answer = host.in_time(host.post("/auth/login", "", login.clone())).await;
                assert_eq!(answer.0, 200, "{}", answer.1);
            }
        })
    };
    answered_during(&host, "guesses at submission", attack).await;
    host.stands("guesses at submission").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a machine without other work; ./test runs it alone"]
async fn guesses_of_a_stranger_lock_no_mail_program_out() {
    let host = EmbeddedHost::open(&[]).await;
    let attacker = reqwest::Client::builder().local_address(std::net::IpAddr::V4(ATTACKER)).build().unwrap();
    for _ in 0..10 {
        let guess = json!({ "email": "bob@example.org", "password": "wrong password" });
        let answer = attacker.post(host.server.api("/auth/login")).json(&guess).send().await.unwrap();
        assert!([401, 429].contains(&answer.status().as_u16()), "{}", answer.status());
    }
    let mut imap = Talk::begin(host.owner("imap").await).await;
    host.in_time(imap.say(&format!("a LOGIN bob@example.org \"{PASSWORD}\"\r\n"), "a OK")).await;
    let mut submission = Talk::begin(host.owner("submission").await).await;
    submission.say("EHLO x\r\n", "250 ").await;
    host.in_time(submission.say(&auth_plain("bob@example.org", PASSWORD), "235 ")).await;
    host.stands("guesses of a stranger").await;
}
