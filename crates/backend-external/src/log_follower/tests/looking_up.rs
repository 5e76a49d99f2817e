//! What is said of a message after a crash or a lost connection.

use std::time::Duration;

use mailapi_backend::{Accepted, Attempt};
use mailapi_model::{Clock as _, QueueId};

use super::support::{OURS, Reader, Scene, attempt, line, outcomes};
use crate::log_follower::Trace;
use crate::log_follower::follow::{Signs, Verdict};

/// Of a mail server that answered a moment ago.
fn trace(scene: &Scene, reader: &mut Reader) -> Trace {
    let signs = Signs { ended: None, alive: Some(scene.clock.now().minus(scene.settings.settle_time)) };
    match reader.follow.find(&attempt(), signs).unwrap() {
        Verdict::Told(trace) => trace,
        Verdict::Interrupted(entered) => panic!("interrupted: {entered:?}"),
    }
}

fn begin(id: &str) -> String {
    let client = line(1, "api/smtpd", &format!("{id}: client=unknown[127.0.0.1]"));
    client + &line(1, "cleanup", &format!("{id}: message-id=<{OURS}@example.org>"))
}

fn queued(id: &str) -> String {
    line(1, "qmgr", &format!("{id}: from=<ann@example.org>, size=1, nrcpt=1 (queue active)"))
}

fn taken(trace: &Trace) -> Option<&Accepted> {
    if let Trace::Taken(accepted) = trace { Some(accepted) } else { None }
}

#[test]
fn a_message_that_never_came_is_said_so_only_when_that_is_certain() {
    let mut scene = Scene::new();
    scene.settings.settle_time = Duration::from_secs(10);
    scene.append(&line(1, "qmgr", "A0B1C2: removed"));
    let mut reader = Reader::new(&scene);
    assert!(matches!(trace(&scene, &mut reader), Trace::Undecided(_)));
    scene.clock.advance(Duration::from_secs(10));
    assert_eq!(trace(&scene, &mut reader), Trace::NotTaken);
    scene.remove("mail.log");
    assert!(reader.follow.find(&attempt(), Signs::default()).is_err());
}

#[test]
fn a_gap_leaves_it_open() {
    let scene = Scene::new();
    scene.append(&line(1, "qmgr", "A00001: removed"));
    let mut reader = Reader::new(&scene);
    reader.read_all();
    scene.remove("mail.log");
    scene.append(&line(5, "qmgr", "A00002: removed"));
    reader.restart(&scene);
    reader.read_all();
    assert_eq!(trace(&scene, &mut reader), Trace::Undecided("a part of the log is missing"));
    scene.clock.advance(Duration::from_secs(8 * 24 * 3600));
    assert_eq!(trace(&scene, &mut reader), Trace::NotTaken);
}

#[test]
fn a_message_that_is_still_coming_or_on_hold_stays_open() {
    let mut scene = Scene::new();
    scene.clock = std::sync::Arc::new(mailapi_testkit::FakeClock::at("2026-11-21T08:00:30Z"));
    scene.append(&begin("A00001"));
    let mut reader = Reader::new(&scene);
    assert_eq!(trace(&scene, &mut reader), Trace::Undecided("the message is being received"));
    scene.clock.advance(Duration::from_secs(3600));
    assert_eq!(trace(&scene, &mut reader), Trace::NotTaken);
    scene.append(&line(
        2,
        "cleanup",
        "A00001: milter-hold: END-OF-MESSAGE from x[192.0.2.1]: held; from=<> to=<a@b.c>",
    ));
    assert_eq!(trace(&scene, &mut reader), Trace::Undecided("the message is on hold"));
    scene.append(&line(
        3,
        "cleanup",
        "A00001: milter-reject: END-OF-MESSAGE from x[192.0.2.1]: 5.7.1 no; from=<> to=<a@b.c>",
    ));
    assert_eq!(trace(&scene, &mut reader), Trace::NotTaken);
}

#[test]
fn a_message_is_found_before_during_and_after_it_is_read_and_removed() {
    let scene = Scene::new();
    scene.append(&begin("A00001"));
    let mut reader = Reader::new(&scene);
    reader.read_all();
    // Only the unread end tells.
    scene.append(&queued("A00001"));
    assert_eq!(taken(&trace(&scene, &mut reader)).unwrap().queue_id.0, "A00001");
    scene.append(&line(2, "qmgr", "A00001: removed"));
    reader.read_all();
    reader.restart(&scene);
    assert_eq!(taken(&trace(&scene, &mut reader)).unwrap().queue_id.0, "A00001");
}

#[test]
fn refused_recipients_are_told_with_it() {
    let scene = Scene::new();
    let reject = |id: &str, to: &str| {
        let text = format!(
            "{id}: reject: RCPT from unknown[127.0.0.1]: 550 5.1.1 <{to}>: User unknown; from=<ann@example.org> \
             to=<{to}> proto=ESMTP helo=<api>"
        );
        line(1, "api/smtpd", &text)
    };
    scene.append(&line(1, "api/smtpd", "connect from unknown[127.0.0.1]"));
    scene.append(&reject("NOQUEUE", "first@example.org"));
    scene.append(&line(1, "api/smtpd", "A00001: client=unknown[127.0.0.1]"));
    scene.append(&reject("A00001", "second@example.org"));
    scene.append(&line(1, "cleanup", &format!("A00001: message-id=<{OURS}@example.org>")));
    scene.append(&queued("A00001"));
    let mut reader = Reader::new(&scene);
    reader.read_all();
    let trace = trace(&scene, &mut reader);
    let refused: Vec<_> = taken(&trace).unwrap().refused.iter().map(|one| one.recipient.as_str()).collect();
    assert_eq!(refused, ["first@example.org", "second@example.org"]);
    assert_eq!(taken(&trace).unwrap().refused[0].reply.code, 550);
}

#[test]
fn with_too_much_unread_it_does_not_guess() {
    let mut scene = Scene::new();
    scene.settings.find_octets = 100;
    scene.append(&begin("A00001").repeat(3));
    let mut reader = Reader::new(&scene);
    assert_eq!(trace(&scene, &mut reader), Trace::Undecided("the log has not been read to its end yet"));
}

#[test]
fn the_silence_of_a_dead_mail_server_says_nothing() {
    let mut scene = Scene::new();
    scene.settings.settle_time = Duration::from_secs(10);
    scene.append(&begin("A00001"));
    let mut reader = Reader::new(&scene);
    reader.read_all();
    let ended = Some(scene.clock.now());
    scene.clock.advance(Duration::from_secs(3600));
    let mut look = |alive| reader.follow.find(&attempt(), Signs { ended, alive }).unwrap();
    assert_eq!(look(None), Verdict::Told(Trace::Silent));
    assert_eq!(look(ended.map(|at| at.minus(Duration::from_secs(1)))), Verdict::Told(Trace::Silent));
    // It answers, and may have been started only now.
    let answered = Some(scene.clock.now());
    assert_eq!(look(answered), Verdict::Told(Trace::Undecided("the mail server may not have logged it yet")));
    scene.clock.advance(Duration::from_secs(10));
    assert_eq!(look(answered), Verdict::Told(Trace::NotTaken));
    // What it says of others shows that it is alive, too.
    scene.append(&line(13 * 3600, "qmgr", "A0B1C2: removed"));
    assert_eq!(look(None), Verdict::Told(Trace::NotTaken));
}

#[test]
fn what_others_began_before_a_start_of_ours_may_still_be_handed_over() {
    // A follower apart from the API, and an API with another one beside it.
    for (hands_over_here, by_this_node) in [(false, true), (true, false)] {
        let mut scene = Scene::new();
        scene.clock = std::sync::Arc::new(mailapi_testkit::FakeClock::at("2026-11-21T08:00:30Z"));
        scene.settings.hands_over_here = hands_over_here;
        scene.append("");
        let mut reader = Reader::new(&scene);
        let attempt = Attempt { by_this_node, ..attempt() };
        let mut trace = || match reader.follow.find(&attempt, Signs::default()).unwrap() {
            Verdict::Told(trace) => trace,
            Verdict::Interrupted(_) => panic!("nothing was interrupted"),
        };
        assert!(matches!(trace(), Trace::Undecided(_)));
        scene.clock.advance(scene.settings.reception_time);
        assert_ne!(trace(), Trace::Undecided("the mail server may not have logged it yet"));
    }
}

#[test]
fn whoever_looks_up_takes_the_reply_of_the_mail_server_from_nobody() {
    let scene = Scene::new();
    scene.append(&line(1, "qmgr", "A0B1C2: removed"));
    let mut reader = Reader::new(&scene);
    reader.read_all();
    let handed = reader.follow.handed();
    handed.note(&QueueId("A00001".to_owned()), OURS.parse().unwrap(), scene.clock.now());
    // The line with the Message-ID is lost.
    scene.append(&queued("A00001"));
    assert_eq!(taken(&trace(&scene, &mut reader)).unwrap().queue_id.0, "A00001");
    scene.append(&line(
        2,
        "smtp",
        "A00001: to=<bob@example.net>, relay=mx[192.0.2.1]:25, delay=1, delays=1/0/0/0, dsn=2.0.0, status=sent (250 ok)",
    ));
    reader.read_all();
    assert_eq!(outcomes(&reader.events), ["A00001 bob@example.net sent ours"]);
    // Confirmed and saved, it is needed no longer.
    assert!(handed.get("A00001", scene.clock.now()).is_some());
    scene.clock.advance(scene.settings.save_interval);
    scene.append(&line(3, "qmgr", "A0B1C2: removed"));
    reader.read_all();
    assert!(handed.get("A00001", "2026-11-21T20:00:00Z".parse().unwrap()).is_none());
}
