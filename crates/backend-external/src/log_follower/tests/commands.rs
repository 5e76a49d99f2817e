//! Commands of an operator, and what Postfix 3.7 logs about them.

use super::attempts::{SENT, begun, deleted_in_attempt, events, gone, late, requeued, soon, unopened};
use super::deletions::{deferred, deleted, discarded, postsuper, queued, read, received, to};
use super::support::line;

fn again(id: &str, addresses: u32) -> String {
    queued(id, addresses).replace("08:00:01", "08:00:12")
}

#[test]
fn hold_during_an_attempt_and_release_lose_nothing() {
    let held = vec![received("A00001"), queued("A00001", 2), postsuper(9, "A00001: placed on hold")];
    // One recipient gets the message; the other one waits until the release.
    let mut lines = [held.clone(), vec![late("A00001", "bob@example.net", SENT), unopened("A00001")]].concat();
    lines.extend([postsuper(21, "A00001: released from hold"), again("A00001", 2)]);
    lines.extend([late("A00001", "eve@example.net", SENT), line(23, "qmgr", "A00001: removed")]);
    let reader = read(&soon(), &lines);
    assert_eq!((events(&reader).len(), discarded(&reader), reader.follow.open_messages()), (2, vec![], 0));
    // Deleted while it is on hold, and while an agent may have it.
    let lines = [held, vec![unopened("A00001"), postsuper(21, "A00001: removed")]].concat();
    assert_eq!(discarded(&read(&soon(), &lines)), []);
    let reader = read(&soon(), &[lines, vec![begun("B00001")]].concat());
    assert_eq!(discarded(&reader), deleted("A00001"));
}

#[test]
fn a_full_deletion_is_proved_for_held_and_untried_messages_too() {
    let hold = "A00001: hold: header Subject: x from unknown[127.0.0.1]; from=<ann@example.org> to=<bob@example.net>";
    let held = vec![received("A00001"), line(1, "cleanup", hold)];
    let untried = vec![received("A00001"), queued("A00001", 1)];
    let held_all = [untried.clone(), vec![unopened("A00001"), postsuper(8, "Placed on hold: 1 message")]].concat();
    for first in [held, untried, held_all] {
        let lines = |rest: &[String]| [first.clone(), rest.to_vec()].concat();
        let all = postsuper(9, "Deleted: 1 message");
        // Another file, no deletion, and a requeue, which removes the file too.
        let requeue = postsuper(10, "Requeued: 1 message");
        for rest in
            [vec![all.clone(), begun("B00002")], vec![begun("B00001")], vec![all.clone(), requeue, begun("B00001")]]
        {
            assert_eq!(discarded(&read(&soon(), &lines(&rest))), [], "{rest:?}");
        }
        let reader = read(&soon(), &lines(&[all.clone(), begun("B00001")]));
        assert_eq!((discarded(&reader), reader.follow.open_messages()), (deleted("A00001"), 1));
        // The inode number is used again while the command still runs.
        let early = begun("B00001").replace("08:00:25", "08:00:08");
        assert_eq!(discarded(&read(&soon(), &lines(&[early, all]))), deleted("A00001"));
    }
}

#[test]
fn a_full_deletion_during_the_reception_is_not_reported() {
    let lines = [received("A00001"), postsuper(9, "Deleted: 1 message"), begun("B00001")];
    assert_eq!(discarded(&read(&soon(), &lines)), []);
}

#[test]
fn a_file_is_replaced_before_the_queue_manager_logs_its_removal() {
    let lines = [received("A00001"), queued("A00001", 2), late("A00001", "bob@example.net", SENT)];
    let early = [begun("B00001"), late("A00001", "eve@example.net", SENT), line(26, "qmgr", "A00001: removed")];
    for all in [None, Some(postsuper(3, "Deleted: 5 messages"))] {
        let sent = late("A00001", "eve@example.net", SENT);
        let reader = read(
            &soon(),
            &[lines.to_vec(), all.into_iter().collect(), vec![sent], early[..1].to_vec(), early[2..].to_vec()].concat(),
        );
        assert_eq!((events(&reader).len(), discarded(&reader), reader.follow.open_messages()), (2, vec![], 1));
    }
}

#[test]
fn a_message_requeued_after_its_last_delivery_has_gone() {
    let begun = vec![received("A00001"), queued("A00001", 1), postsuper(9, "A00001: requeued")];
    let empty = line(11, "pickup", "warning: maildrop/A00001: error writing A00002: no recipients specified");
    let requeued = requeued("A00001", "A00002");
    let (_, picked_up) = requeued.split_once('\n').unwrap();
    let lines = vec![late("A00001", "bob@example.net", SENT), gone("A00001"), picked_up.to_owned(), empty.clone()];
    let reader = read(&soon(), &[begun.clone(), lines].concat());
    assert_eq!(events(&reader), ["A00001 bob@example.net sent ours"]);
    assert_eq!((discarded(&reader), reader.follow.open_messages()), (vec![], 0));
    // An alias whose only member failed: the alias bounces when the message has left the queue.
    let member =
        "A00001: to=<eve@example.net>, orig_to=<team@example.org>, relay=mx, delay=1, dsn=5.1.1, status=bounced (no)";
    let lines = vec![line(10, "smtp", member), gone("A00001"), picked_up.to_owned(), empty];
    let reader = read(&soon(), &[begun, lines].concat());
    let expected = ["A00001 team@example.org bounced ours", "A00002 team@example.org bounced ours"];
    assert_eq!((events(&reader), reader.follow.open_messages()), (expected.map(str::to_owned).to_vec(), 0));
}

#[test]
fn reload_and_flush_end_no_attempt() {
    let lines = deleted_in_attempt("A00001", 2);
    let reload = line(20, "postfix-script", "refreshing the Postfix mail system")
        + &line(20, "master", "reload -- version 3.7.11, configuration /etc/postfix");
    let late = late("A00001", "bob@example.net", SENT);
    // The queue manager forgets the message, and its agent goes on.
    let reader = read(&soon(), &[lines.clone(), vec![reload.clone(), late.clone()]].concat());
    assert_eq!((events(&reader).len(), discarded(&reader)), (1, vec![]));
    let reader = read(&soon(), &[lines, vec![reload, late, begun("B00001")]].concat());
    assert_eq!((events(&reader).len(), discarded(&reader)), (1, deleted("A00001")));
    // `postqueue -i` and `-f` log nothing but the attempt.
    let flushed = [deferred("A00001").to_vec(), vec![again("A00001", 1), postsuper(13, "A00001: removed")]].concat();
    assert_eq!(discarded(&read(&soon(), &flushed)), []);
}

#[test]
fn soft_bounce_defers() {
    let soft = to("A00001", "bob@example.net", "SOFTBOUNCE (550 unknown)");
    let lines = vec![received("A00001"), queued("A00001", 1), soft];
    assert_eq!(events(&read(&soon(), &lines)), ["A00001 bob@example.net deferred ours"]);
    let hard = to("A00001", "bob@example.net", "bounced (550 unknown)");
    let lines = [lines, vec![again("A00001", 1), hard]].concat();
    assert_eq!(events(&read(&soon(), &lines))[1..], ["A00001 bob@example.net bounced ours"]);
}

#[test]
fn switching_long_queue_ids_off_renames_the_files() {
    let stop = line(9, "master", "terminating on signal 15");
    let start = line(10, "postsuper", "Renamed to match inode number: 1 message")
        + &line(10, "master", "daemon started -- version 3.7.11, configuration /etc/postfix");
    let before = [deferred("4jXsPb70xVz1SV00").to_vec(), vec![stop, start]].concat();
    let stories = [
        (
            vec![again("F0ECE98D6C3", 1), late("F0ECE98D6C3", "bob@example.net", SENT)],
            "F0ECE98D6C3 bob@example.net sent ours",
        ),
        (vec![postsuper(12, "F0ECE98D6C3: removed")], "F0ECE98D6C3 bob@example.net bounced ours"),
    ];
    for (after, expected) in stories {
        let reader = read(&soon(), &[before.clone(), after, vec![line(21, "qmgr", "F0ECE98D6C3: removed")]].concat());
        assert_eq!(events(&reader)[1..], [expected]);
        assert_eq!(reader.follow.open_messages(), 0);
    }
    // Another file has the number.
    let other = [again("F0ECF98D6C3", 1), late("F0ECF98D6C3", "bob@example.net", SENT)];
    let reader = read(&soon(), &[before, other.to_vec()].concat());
    assert_eq!(events(&reader)[1..], ["F0ECF98D6C3 bob@example.net sent other"]);
}
