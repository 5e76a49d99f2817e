//! The client against servers with correct, wrong and missing replies.

use mailapi_smtp::client::{
    Cause, Client, ClientConfig, ClientStep, End, Failure, MessageFacts, Outcome, RecipientOutcome, Stage, TlsPolicy,
    Transaction, TransactionStep, queue_id_in,
};
use mailapi_smtp::{Credentials, Envelope, Notify, Password, Reply, Ret};

const PIPELINING: &str = "250-mx.remote.example\r\n250-PIPELINING\r\n250-SIZE 1000\r\n250 8BITMIME\r\n";
const PLAIN: &str = "250 mx.remote.example\r\n";
const MESSAGE: &[u8] = b"Subject: x\r\n\r\nhello\r\n";

/// Sets a connection up with scripted server output, one piece per read. Returns the client's writes and its
/// last step.
fn connect(config: ClientConfig, server: &[&str]) -> (Client, String, Result<ClientStep, Failure>) {
    let mut client = Client::new(config);
    let mut written = String::new();
    let mut server = server.iter();
    loop {
        match client.step() {
            Ok(ClientStep::Write(bytes)) => written.push_str(&String::from_utf8(bytes).unwrap()),
            Ok(ClientStep::StartTls) => {
                written.push_str("(handshake)\r\n");
                client.tls_established();
            }
            Ok(ClientStep::Read) => match server.next() {
                Some(said) => client.push(said.as_bytes()),
                None => return (client, written, Ok(ClientStep::Read)),
            },
            end => return (client, written, end),
        }
    }
}

fn config() -> ClientConfig {
    ClientConfig { tls: TlsPolicy::Never, ..ClientConfig::new("mail.example") }
}

fn ready(ehlo: &str) -> Client {
    let (client, _, end) = connect(config(), &["220 mx\r\n", ehlo]);
    assert_eq!(end, Ok(ClientStep::Ready));
    client
}

/// Sends `MESSAGE`. Every read gets the next piece of the script; after its end the connection is lost.
/// Returns the writes, one string each, and the outcome.
fn send(client: &mut Client, envelope: &Envelope, server: &[&str]) -> (Vec<String>, Outcome) {
    let mut transaction = begin(client, envelope);
    let mut writes = Vec::new();
    let mut server = server.iter();
    loop {
        match transaction.step() {
            TransactionStep::Write(bytes) => {
                assert!(!bytes.ends_with(b"\r\n.\r\n"), "the final dot is not announced");
                writes.push(String::from_utf8(bytes).unwrap());
            }
            TransactionStep::WriteEnd(bytes) => {
                assert!(bytes.ends_with(b"\r\n.\r\n"), "no final dot");
                writes.push(String::from_utf8(bytes).unwrap());
            }
            TransactionStep::Read => match server.next() {
                Some(said) => transaction.push(said.as_bytes()),
                None => return (writes, transaction.abandon(reset())),
            },
            TransactionStep::Message => transaction.give(MESSAGE, true),
            TransactionStep::Done => return (writes, transaction.finish()),
        }
    }
}

fn begin<'a>(client: &'a mut Client, envelope: &'a Envelope) -> Transaction<'a> {
    client.transaction(envelope, MessageFacts::of(MESSAGE))
}

fn reset() -> Cause {
    Cause::Io("reset by peer".to_owned())
}

fn to(recipients: &[&str]) -> Envelope {
    Envelope::new("ann@mail.example", recipients.iter().copied())
}

fn codes(outcome: &Outcome) -> Vec<u16> {
    let code = |recipient_outcome| match recipient_outcome {
        RecipientOutcome::Accepted(reply) | RecipientOutcome::Refused(reply) => reply.code,
        RecipientOutcome::Failed(_) => 0,
        RecipientOutcome::Unknown(_) => 1,
    };
    outcome.recipient_outcomes().map(code).collect()
}

fn lost(stage: Stage) -> Failure {
    Failure::Lost { stage, cause: reset() }
}

#[test]
fn an_unfit_server_is_not_used() {
    let required = || ClientConfig { tls: TlsPolicy::Required, ..config() };
    let with_password = || ClientConfig {
        credentials: Some(Credentials { username: "ann".to_owned(), password: Password::new("secret") }),
        ..config()
    };
    let end = |config, server: &[&str]| connect(config, server).2.expect_err("no connection");

    let refused = end(config(), &["554 5.7.1 Go away\r\n"]);
    let reply = Reply::new(554, (5, 7, 1), "Go away");
    assert_eq!(refused, Failure::Refused { stage: Stage::Greeting, reply });
    assert!(matches!(end(config(), &["220 a\r\n", "421 4.3.2 Later\r\n"]), Failure::Closing(_)));
    assert!(matches!(end(config(), &["HTTP/1.1 400 Bad Request\r\n"]), Failure::Protocol(_)));
    assert!(matches!(end(config(), &["220 a\r\n", "550 no\r\n"]), Failure::Refused { stage: Stage::Hello, .. }));
    assert_eq!(end(required(), &["220 a\r\n", PLAIN]), Failure::TlsNotOffered);
    let starttls = "250-a\r\n250 STARTTLS\r\n";
    let not_now = end(required(), &["220 a\r\n", starttls, "454 not now\r\n"]);
    assert!(matches!(not_now, Failure::Refused { stage: Stage::StartTls, .. }));
    let auth = "250-a\r\n250 AUTH PLAIN\r\n";
    assert_eq!(end(with_password(), &["220 a\r\n", auth]), Failure::AuthWithoutTls);
    let clear = ClientConfig { auth_without_tls: true, ..with_password() };
    assert_eq!(end(clear.clone(), &["220 a\r\n", PLAIN]), Failure::AuthNotOffered);
    let wrong = end(clear, &["220 a\r\n", auth, "535 5.7.8 no\r\n"]);
    assert!(matches!(wrong, Failure::Refused { stage: Stage::Auth, .. }));
}

#[test]
fn what_was_said_behind_starttls_does_not_count_as_secret() {
    let config = ClientConfig::new("mail.example");
    let script = ["220 a\r\n", "250-a\r\n250 STARTTLS\r\n", "220 go\r\n250-a\r\n250 AUTH PLAIN\r\n"];
    let (_, written, end) = connect(config, &script);
    assert!(matches!(end, Err(Failure::Protocol(_))));
    assert!(!written.contains("(handshake)"));
}

#[test]
fn the_password_is_sent_after_the_handshake() {
    let config = ClientConfig {
        credentials: Some(Credentials { username: "ann".to_owned(), password: Password::new("secret") }),
        ..ClientConfig::new("mail.example")
    };
    let script = [
        "220-a\r\n220 b\r\n",
        "250-a\r\n250-STARTTLS\r\n250 AUTH PLAIN\r\n",
        "220 go\r\n",
        "250-a\r\n250 AUTH LOGIN PLAIN\r\n",
        "235 2.7.0 ok\r\n",
    ];
    let (client, written, end) = connect(config, &script);
    assert_eq!(end, Ok(ClientStep::Ready));
    let auth = "AUTH PLAIN AGFubgBzZWNyZXQ=";
    assert_eq!(written, format!("EHLO mail.example\r\nSTARTTLS\r\n(handshake)\r\nEHLO mail.example\r\n{auth}\r\n"));
    assert!(!format!("{client:?}").contains("secret"));
}

#[test]
fn a_server_without_extensions_is_greeted_with_helo() {
    let (client, written, end) = connect(config(), &["220 a\r\n", "502 what?\r\n", "250 a\r\n"]);
    assert_eq!(end, Ok(ClientStep::Ready));
    assert_eq!(written, "EHLO mail.example\r\nHELO mail.example\r\n");
    assert!(!client.capabilities().pipelining);
}

#[test]
fn a_refused_recipient_harms_no_other() {
    let envelope = to(&["a@r.example", "b@r.example", "c@r.example"]);
    let mut client = ready(PIPELINING);
    let server = [
        "250 ok\r\n250 ok\r\n550 5.1.1 b?\r\n",
        "451 4.2.0 c later\r\n354 go\r\n",
        "250 2.0.0 Ok: queued as 4Zyx7Q2bBzz3Q\r\n",
    ];
    let (writes, outcome) = send(&mut client, &envelope, &server);
    let commands = "MAIL FROM:<ann@mail.example> SIZE=21\r\nRCPT TO:<a@r.example>\r\nRCPT TO:<b@r.example>\r\n\
                    RCPT TO:<c@r.example>\r\nDATA\r\n";
    assert_eq!(writes, [commands, "Subject: x\r\n\r\nhello\r\n.\r\n"]);
    assert_eq!(codes(&outcome), [250, 550, 451]);
    let End::Accepted(reply) = &outcome.end else { panic!("{outcome:?}") };
    assert_eq!(queue_id_in(reply), Some("4Zyx7Q2bBzz3Q"));
    assert!(client.is_ready());

    // The connection is ready: the next message needs no RSET.
    let (writes, _) = send(&mut client, &envelope, &[]);
    assert!(writes[0].starts_with("MAIL"));
}

#[test]
fn without_pipelining_every_command_waits_for_its_reply() {
    let mut client = ready(PLAIN);
    let server = ["250 ok\r\n", "550 a?\r\n", "250 ok\r\n", "354 go\r\n", "250 ok\r\n"];
    let (writes, outcome) = send(&mut client, &to(&["a@r.example", "b@r.example"]), &server);
    assert_eq!(
        writes,
        [
            "MAIL FROM:<ann@mail.example>\r\n",
            "RCPT TO:<a@r.example>\r\n",
            "RCPT TO:<b@r.example>\r\n",
            "DATA\r\n",
            "Subject: x\r\n\r\nhello\r\n.\r\n"
        ]
    );
    assert_eq!(codes(&outcome), [550, 250]);
}

#[test]
fn no_more_commands_are_in_flight_than_allowed() {
    let narrow = ClientConfig { max_commands_in_flight: 2, ..config() };
    let (mut client, _, _) = connect(narrow, &["220 a\r\n", PIPELINING]);
    let server = ["250 ok\r\n", "250 ok\r\n250 ok\r\n", "354 go\r\n", "250 ok\r\n"];
    let (writes, outcome) = send(&mut client, &to(&["a@r.example", "b@r.example"]), &server);
    let lines: Vec<usize> = writes.iter().map(|write| write.lines().count()).collect();
    assert_eq!(lines, [2, 1, 1, 4]);
    assert_eq!(codes(&outcome), [250, 250]);
}

#[test]
fn data_wanted_without_a_recipient_never_gets_a_dot() {
    let mut client = ready(PIPELINING);
    let (writes, outcome) = send(&mut client, &to(&["a@r.example"]), &["250 ok\r\n550 a?\r\n354 go\r\n"]);
    assert_eq!((writes.len(), codes(&outcome)), (1, vec![550]));
    assert_eq!(outcome.end, End::NoRecipients);
    assert!(!client.is_ready());

    let mut client = ready(PIPELINING);
    let server = ["451 4.3.0 not now\r\n503 no\r\n354 go\r\n"];
    let (writes, outcome) = send(&mut client, &to(&["a@r.example"]), &server);
    assert_eq!((writes.len(), codes(&outcome)), (1, vec![451]));
    assert!(matches!(outcome.end, End::Refused { stage: Stage::Mail, .. }));
    assert!(!client.is_ready());
}

#[test]
fn every_refused_transaction_is_reset_before_the_next() {
    let refusals = [
        ("RCPT", &["250 ok\r\n550 a?\r\n554 nobody\r\n"][..]),
        ("MAIL", &["451 later\r\n503 first MAIL\r\n503 first MAIL\r\n"]),
        ("DATA", &["250 ok\r\n250 ok\r\n451 disk\r\n"]),
        ("the message", &["250 ok\r\n250 ok\r\n354 go\r\n", "554 spam\r\n"]),
    ];
    let envelope = to(&["a@r.example"]);
    for (what, refusal) in refusals {
        let mut client = ready(PIPELINING);
        send(&mut client, &envelope, refusal);
        for _ in 0..3 {
            let mut reset = vec!["250 reset\r\n"];
            reset.extend(refusal);
            let (writes, _) = send(&mut client, &envelope, &reset);
            assert!(writes[0].starts_with("RSET\r\nMAIL FROM:"), "{what}: {writes:?}");
        }
        let server = ["250 reset\r\n250 ok\r\n250 ok\r\n354 go\r\n", "250 ok\r\n"];
        assert_eq!(codes(&send(&mut client, &envelope, &server).1), [250], "{what}");
        let (writes, _) = send(&mut client, &envelope, &[]);
        assert!(writes[0].starts_with("MAIL FROM:"), "{what}: {writes:?}");
    }
}

#[test]
fn a_late_reply_never_answers_the_next_message() {
    // Half a reply, which the next reply would complete, and a whole one.
    for late in ["250-late", "250-late\r\n", "250 late\r\n"] {
        let mut client = ready(PLAIN);
        client.push(late.as_bytes());
        let server = ["250 ok\r\n", "250 ok\r\n", "550 b?\r\n"];
        let (writes, outcome) = send(&mut client, &to(&["a@r.example", "b@r.example"]), &server);
        assert!(writes.is_empty(), "{late}: {writes:?}");
        assert!(matches!(outcome.end, End::Failed(Failure::Protocol(_))), "{late}: {outcome:?}");
    }

    // It follows MAIL, so each reply would apply to the wrong recipient.
    let mut client = ready(PIPELINING);
    let server = ["250 late\r\n250 ok\r\n550 a?\r\n250 b\r\n354 go\r\n"];
    let (_, outcome) = send(&mut client, &to(&["a@r.example", "b@r.example"]), &server);
    assert!(matches!(outcome.end, End::Failed(Failure::Protocol(_))), "{outcome:?}");
    assert_eq!(codes(&outcome), [0, 0], "a reply is blamed on the wrong recipient");
    assert!(!client.is_ready());
}

#[test]
fn after_a_failed_write_nothing_more_counts_as_sent() {
    let mut client = ready(PIPELINING);
    let envelope = to(&["a@r.example"]);
    let mut transaction = begin(&mut client, &envelope);
    transaction.step();
    let outcome = transaction.broke_off(b"250 ok\r\n250 ok\r\n354 go\r\n", reset());
    assert_eq!(outcome.end, End::Failed(lost(Stage::Message)));

    let mut client = ready(PIPELINING);
    let mut transaction = begin(&mut client, &envelope);
    transaction.step();
    let outcome = transaction.broke_off(b"421 4.3.2 bye\r\n", reset());
    assert!(matches!(outcome.end, End::Failed(Failure::Closing(_))), "{outcome:?}");
}

#[test]
fn a_refusal_after_a_failed_write_leaves_no_connection() {
    let mut client = ready(PIPELINING);
    let envelope = to(&["a@r.example"]);
    let mut transaction = begin(&mut client, &envelope);
    transaction.step();
    transaction.push(b"250 ok\r\n250 ok\r\n354 go\r\n");
    assert_eq!(transaction.step(), TransactionStep::Message);
    transaction.give(MESSAGE, true);
    assert!(matches!(transaction.step(), TransactionStep::WriteEnd(_)));
    // The server still waits for the final dot, and would read the next envelope as part of this message.
    let outcome = transaction.broke_off(b"450 4.3.1 disk full\r\n", reset());
    assert_eq!(codes(&outcome), [450]);
    assert!(!client.is_ready());
    assert!(send(&mut client, &envelope, &[]).0.is_empty());
}

#[test]
fn data_is_not_sent_without_accepted_recipients() {
    let mut client = ready(PLAIN);
    let (writes, outcome) = send(&mut client, &to(&["a@r.example"]), &["250 ok\r\n", "450 4.2.1 a later\r\n"]);
    assert_eq!(writes.len(), 2);
    assert_eq!((outcome.end.clone(), codes(&outcome)), (End::NoRecipients, vec![450]));
    assert!(client.is_ready());
}

#[test]
fn a_refused_sender_refuses_every_recipient() {
    let mut client = ready(PIPELINING);
    let server = ["550 5.7.1 not you\r\n503 mail first\r\n503 mail first\r\n503 mail first\r\n"];
    let (writes, outcome) = send(&mut client, &to(&["a@r.example", "b@r.example"]), &server);
    assert_eq!(writes.len(), 1);
    assert_eq!(codes(&outcome), [550, 550]);
    assert!(matches!(outcome.end, End::Refused { stage: Stage::Mail, .. }));
    assert!(client.is_ready());
}

#[test]
fn a_refused_data_or_message_counts_for_accepted_recipients() {
    let envelope = to(&["a@r.example", "b@r.example"]);
    let mut client = ready(PIPELINING);
    let server = ["250 ok\r\n550 a?\r\n250 ok\r\n354 go\r\n", "554 5.6.0 spam\r\n"];
    let (_, outcome) = send(&mut client, &envelope, &server);
    assert_eq!(codes(&outcome), [550, 554]);
    assert!(matches!(outcome.end, End::Refused { stage: Stage::Message, .. }));
    assert!(client.is_ready());

    let server = ["250 reset\r\n250 ok\r\n550 a?\r\n250 ok\r\n451 4.3.0 disk\r\n"];
    let (_, outcome) = send(&mut client, &envelope, &server);
    assert_eq!(codes(&outcome), [550, 451]);
    assert!(matches!(outcome.end, End::Refused { stage: Stage::Data, .. }));
    assert!(client.is_ready());
}

#[test]
fn a_connection_lost_before_the_final_dot_is_a_failure() {
    let servers = [("", Stage::Mail), ("250 ok\r\n", Stage::Rcpt), ("250 ok\r\n250 ok\r\n35", Stage::Data)];
    for (server, stage) in servers {
        let mut client = ready(PIPELINING);
        let (_, outcome) = send(&mut client, &to(&["a@r.example"]), &[server]);
        assert_eq!(outcome.end, End::Failed(lost(stage)), "{server:?}");
        assert_eq!(codes(&outcome), [0]);
        assert!(!client.is_ready());
        assert_eq!(client.step(), Err(lost(stage)));
    }
}

#[test]
fn a_connection_lost_before_it_is_ready_names_the_stage() {
    let starttls = "250-a\r\n250 STARTTLS\r\n";
    let servers = [
        (&[][..], Stage::Greeting),
        (&["220 a\r\n"], Stage::Hello),
        (&["220 a\r\n", "502 what?\r\n"], Stage::Hello),
        (&["220 a\r\n", starttls], Stage::StartTls),
        (&["220 a\r\n", starttls, "220 go\r\n"], Stage::Hello),
    ];
    for (server, stage) in servers {
        let (mut client, _, end) = connect(ClientConfig::new("mail.example"), server);
        assert_eq!(end, Ok(ClientStep::Read));
        assert_eq!(client.abandon(reset()), lost(stage));
        assert_eq!(client.step(), Err(lost(stage)));
    }
}

#[test]
fn implicit_tls_comes_before_the_greeting() {
    let implicit = || ClientConfig { tls: TlsPolicy::Implicit, ..config() };
    let (_, written, end) = connect(implicit(), &["220 a\r\n", "250-a\r\n250 STARTTLS\r\n"]);
    assert_eq!(end, Ok(ClientStep::Ready));
    assert_eq!(written, "(handshake)\r\nEHLO mail.example\r\n");

    let mut client = Client::new(implicit());
    assert_eq!(client.step(), Ok(ClientStep::StartTls));
    assert_eq!(client.abandon(reset()), Failure::Handshake(reset()));
}

#[test]
fn a_connection_lost_in_the_middle_of_the_message_is_a_failure() {
    let mut client = ready(PIPELINING);
    let envelope = to(&["a@r.example"]);
    let mut transaction = begin(&mut client, &envelope);
    assert!(matches!(transaction.step(), TransactionStep::Write(_)));
    transaction.push(b"250 ok\r\n250 ok\r\n354 go\r\n");
    assert_eq!(transaction.step(), TransactionStep::Message);
    transaction.give(&MESSAGE[..8], false);
    assert_eq!(transaction.step(), TransactionStep::Write(MESSAGE[..8].to_vec()));
    let outcome = transaction.abandon(reset());
    assert_eq!(outcome.end, End::Failed(lost(Stage::Message)));
}

#[test]
fn a_refusal_during_data_counts_and_closes_the_connection() {
    let mut client = ready(PIPELINING);
    let envelope = to(&["a@r.example"]);
    let mut transaction = begin(&mut client, &envelope);
    transaction.step();
    transaction.push(b"250 ok\r\n250 ok\r\n354 go\r\n");
    assert_eq!(transaction.step(), TransactionStep::Message);
    transaction.give(&MESSAGE[..8], false);
    transaction.step();
    transaction.push(b"552 5.3.4 too long\r\n");
    assert_eq!(transaction.step(), TransactionStep::Done);
    assert_eq!(codes(&transaction.finish()), [552]);
    assert!(!client.is_ready());
}

#[test]
fn after_the_final_dot_the_outcome_is_unknown() {
    for (said, garbled) in [(None, false), (Some("2"), false), (Some("what?\r\n"), true), (Some("354 more\r\n"), true)]
    {
        let mut client = ready(PIPELINING);
        let mut server = vec!["250 ok\r\n550 a?\r\n250 ok\r\n354 go\r\n"];
        server.extend(said);
        let (_, outcome) = send(&mut client, &to(&["a@r.example", "b@r.example"]), &server);
        let End::OutcomeUnknown(failure) = &outcome.end else { panic!("{outcome:?}") };
        assert_eq!(matches!(failure, Failure::Protocol(_)), garbled);
        assert_eq!(codes(&outcome), [550, 1]);
        assert!(!client.is_ready());
    }
}

#[test]
fn a_closing_server_is_believed_at_every_place() {
    let closing = "421 4.3.2 shutting down\r\n";
    let reply = Reply::new(421, (4, 3, 2), "shutting down");
    let envelope = to(&["a@r.example", "b@r.example"]);

    // Unsolicited, on a ready connection.
    let mut client = ready(PIPELINING);
    client.push(closing.as_bytes());
    assert!(!client.is_ready());
    let (writes, outcome) = send(&mut client, &envelope, &[]);
    assert!(writes.is_empty());
    assert_eq!(outcome.end, End::Failed(Failure::Closing(reply.clone())));

    // Instead of the reply to a recipient.
    let mut client = ready(PIPELINING);
    let server = ["250 ok\r\n550 a?\r\n".to_owned() + closing];
    let (_, outcome) = send(&mut client, &envelope, &[&server[0]]);
    assert_eq!(codes(&outcome), [550, 421]);
    assert_eq!(outcome.end, End::Failed(Failure::Closing(reply.clone())));

    // After a refused sender.
    let mut client = ready(PIPELINING);
    let server = ["550 not you\r\n".to_owned() + closing];
    let (_, outcome) = send(&mut client, &envelope, &[&server[0]]);
    assert_eq!(codes(&outcome), [550, 550]);

    // Instead of the reply to the message, right after 354.
    let mut client = ready(PIPELINING);
    let server = ["250 ok\r\n250 ok\r\n250 ok\r\n354 go\r\n".to_owned() + closing];
    let (_, outcome) = send(&mut client, &envelope, &[&server[0]]);
    assert_eq!(outcome.end, End::Failed(Failure::Closing(reply.clone())));
    assert!(!client.is_ready());

    // As the reply to the message, it means that the message was not accepted.
    let mut client = ready(PIPELINING);
    let server = ["250 ok\r\n250 ok\r\n250 ok\r\n354 go\r\n", closing];
    let (_, outcome) = send(&mut client, &envelope, &server);
    assert_eq!(codes(&outcome), [421, 421]);
    assert_eq!(outcome.end, End::Refused { stage: Stage::Message, reply });
    assert!(!client.is_ready());
}

#[test]
fn what_smtp_cannot_say_is_not_sent() {
    let mut client = ready(PIPELINING);
    let international = to(&["jürgen@r.example"]);
    let (writes, outcome) = send(&mut client, &international, &[]);
    assert!(writes.is_empty());
    assert_eq!(codes(&outcome), [550]);

    let injected = Envelope::new("a@b>\r\nRSET\r\n", ["c@r.example"]);
    let (writes, outcome) = send(&mut client, &injected, &[]);
    assert!(writes.is_empty());
    assert_eq!(codes(&outcome), [553]);

    let server = ["250 ok\r\n250 ok\r\n354 go\r\n", "250 ok\r\n"];
    let (writes, outcome) = send(&mut client, &to(&["a@b> X", "c@r.example", ""]), &server);
    assert!(writes[0].contains("RCPT TO:<c@r.example>\r\nDATA\r\n"));
    assert_eq!(codes(&outcome), [553, 250, 553]);
    assert!(client.is_ready());
}

#[test]
fn what_the_sender_asked_for_is_passed_on() {
    let ehlo = "250-a\r\n250-PIPELINING\r\n250-8BITMIME\r\n250-SMTPUTF8\r\n250 DSN\r\n";
    let mut client = ready(ehlo);
    let mut envelope = to(&["jürgen@r.example"]);
    envelope.mail.ret = Some(Ret::Full);
    envelope.mail.envid = Some("a b".to_owned());
    envelope.recipients[0].notify = Some(Notify { failure: true, ..Notify::NEVER });
    let mut transaction = client.transaction(&envelope, MessageFacts::of("Subject: ä\r\n\r\n".as_bytes()));
    let TransactionStep::Write(commands) = transaction.step() else { panic!("nothing to write") };
    assert_eq!(
        String::from_utf8(commands).unwrap(),
        "MAIL FROM:<ann@mail.example> BODY=8BITMIME SMTPUTF8 RET=FULL ENVID=a+20b\r\n\
         RCPT TO:<jürgen@r.example> NOTIFY=FAILURE\r\nDATA\r\n"
    );
}

#[test]
fn a_transaction_that_was_dropped_leaves_no_connection() {
    let mut client = ready(PIPELINING);
    let envelope = to(&["a@r.example"]);
    let mut transaction = begin(&mut client, &envelope);
    transaction.step();
    drop(transaction);
    assert!(!client.is_ready());
    let (writes, outcome) = send(&mut client, &envelope, &[]);
    assert!(writes.is_empty() && matches!(outcome.end, End::Failed(_)));
}

#[test]
fn after_quit_nothing_is_sent() {
    let mut client = ready(PIPELINING);
    assert_eq!(client.quit(), b"QUIT\r\n");
    let (writes, outcome) = send(&mut client, &to(&["a@r.example"]), &[]);
    assert!(writes.is_empty() && matches!(outcome.end, End::Failed(_)));
}
