//! Every kind of rotation at any time, with restarts in between: nothing is lost, nothing is reported twice, and
//! permanent losses are reported as gaps.

use proptest::prelude::*;

use super::support::{Reader, TestLog, events_of, message};
use crate::log_follower::GapKind;

#[test]
fn a_vanished_file_is_a_gap_and_later_lines_are_read() {
    let log = TestLog::new();
    log.append(&message(1));
    let mut reader = Reader::new(&log);
    reader.read_all();
    log.append(&message(2));
    log.remove("mail.log");
    log.append(&message(3));
    reader.restart(&log);
    reader.read_all();
    assert_eq!(reader.reported(), events_of(&(message(1) + &message(3))));
    assert_eq!(reader.gaps().iter().map(|gap| gap.kind).collect::<Vec<_>>(), [GapKind::FileVanished]);
    reader.restart(&log);
    assert_eq!(reader.read_all().gaps().len(), 1);
}

#[test]
fn a_file_that_was_cut_without_a_copy_is_a_gap() {
    let log = TestLog::new();
    log.append(&message(1));
    let mut reader = Reader::new(&log);
    reader.read_all();
    std::fs::write(log.path("mail.log"), message(2) + &message(3)).unwrap();
    reader.read_all();
    assert_eq!(reader.reported(), events_of(&(message(1) + &message(2) + &message(3))));
    assert_eq!(reader.gaps().iter().map(|gap| gap.kind).collect::<Vec<_>>(), [GapKind::Truncated]);
}

#[test]
fn a_missing_number_is_a_gap() {
    let log = TestLog::new();
    log.append(&message(1));
    let mut reader = Reader::new(&log);
    reader.read_all();
    for number in 2..5 {
        log.rotate();
        log.append(&message(number));
    }
    log.remove("mail.log.2");
    reader.restart(&log);
    reader.read_all();
    assert_eq!(reader.reported(), events_of(&(message(1) + &message(3) + &message(4))));
    assert_eq!(reader.gaps().iter().map(|gap| gap.kind).collect::<Vec<_>>(), [GapKind::RotatedFileMissing]);
}

#[test]
fn numbers_that_count_upward_are_an_error_until_renamed() {
    let log = TestLog::new();
    log.append(&message(1));
    let mut reader = Reader::new(&log);
    for number in 2..4 {
        reader.read_all();
        log.rename("mail.log", &format!("mail.log.{}", number - 1));
        log.append(&message(number));
    }
    // One rotated file has no order; two have.
    let error = reader.follow.read(&reader.cursor, 10).unwrap_err().to_string();
    assert!(error.contains("count upward") && error.contains("dateext"), "{error}");
    reader.restart(&log);
    assert!(reader.follow.read(&reader.cursor, 10).is_err());
    log.rename("mail.log.1", "mail.log-20261119");
    log.rename("mail.log.2", "mail.log-20261120");
    reader.read_all();
    assert_eq!(reader.reported(), events_of(&(1..4).map(message).collect::<String>()));
    assert_eq!(reader.gaps(), []);
}

#[test]
fn a_wrong_clock_does_not_reorder_rotated_files() {
    // The content of each file, the oldest first. Lines and last changes come from the same wrong clock.
    let logs: [&[&[u32]]; 4] =
        [&[&[5], &[9], &[3], &[7]], &[&[9], &[3], &[4]], &[&[9, 140], &[5, 20], &[30]], &[&[9], &[3]]];
    for files in logs {
        let log = TestLog::new();
        let mut reader = Reader::new(&log);
        for (index, numbers) in files.iter().enumerate() {
            if index > 0 {
                log.rotate();
            }
            log.append(&numbers.iter().copied().map(message).collect::<String>());
            if index == 0 {
                reader.read_all();
            }
        }
        reader.restart(&log);
        reader.read_all();
        let messages = files.iter().map(|numbers| numbers.len()).sum::<usize>();
        assert_eq!(reader.reported().len(), events_of(&message(5)).len() * messages, "{files:?}");
        assert_eq!(reader.gaps(), []);
    }
}

#[test]
fn an_edited_file_is_a_gap_and_is_not_reported_again() {
    let log = TestLog::new();
    log.append(&(message(1) + &message(2)));
    let mut reader = Reader::new(&log);
    reader.read_all();
    // An editor writes a new file and renames it to the old name.
    std::fs::write(log.path("new"), format!("{}{}{}", "# note\n", message(2), message(3))).unwrap();
    log.rename("new", "mail.log");
    reader.restart(&log);
    reader.read_all();
    assert_eq!(reader.gaps().len(), 1);
    let reported = reader.reported();
    assert!(reported.iter().any(|event| event.contains("a3@example.net")));
    assert_eq!(reported.iter().filter(|event| event.contains("a1@example.net deferred")).count(), 1);
}

#[test]
fn a_missing_log_is_an_error_until_it_is_there() {
    let log = TestLog::new();
    let mut reader = Reader::new(&log);
    let error = reader.follow.read(&reader.cursor, 10).unwrap_err();
    assert!(error.to_string().contains("no log at"), "{error}");
    log.append(&message(1));
    reader.read_all();
    assert_eq!(reader.reported(), events_of(&message(1)));
}

#[test]
fn the_old_file_is_read_until_the_writer_has_left_it() {
    let log = TestLog::new();
    log.append(&message(1));
    let mut reader = Reader::new(&log);
    reader.read_all();
    log.rename("mail.log", "mail.log.1");
    // The new file exists, but the writer has not switched to it yet.
    log.append("");
    reader.read_all();
    let mut old = std::fs::OpenOptions::new().append(true).open(log.path("mail.log.1")).unwrap();
    std::io::Write::write_all(&mut old, message(2).as_bytes()).unwrap();
    reader.read_all();
    log.append(&message(3));
    reader.read_all();
    assert_eq!(reader.reported(), events_of(&(message(1) + &message(2) + &message(3))));
}

#[test]
fn dated_names_are_followed_too() {
    let log = TestLog::new();
    log.append(&message(1));
    let mut reader = Reader::new(&log);
    reader.read_all();
    log.append(&message(2));
    log.rename("mail.log", "mail.log-20261120");
    log.compress("mail.log-20261120");
    log.append(&message(3));
    log.rename("mail.log", "mail.log-20261121");
    log.append(&message(4));
    reader.restart(&log);
    reader.read_all();
    assert_eq!(reader.reported(), events_of(&(1..5).map(message).collect::<String>()));
    assert_eq!(reader.gaps(), []);
}

#[derive(Debug, Clone, Copy)]
enum Happening {
    Message,
    HalfALine,
    Rotate,
    CopyAndCut,
    Compress,
    Read,
    ReadALittle,
    Restart,
    Crash,
}

fn happening() -> impl Strategy<Value = Happening> {
    prop_oneof![
        6 => Just(Happening::Message),
        2 => Just(Happening::HalfALine),
        2 => Just(Happening::Rotate),
        2 => Just(Happening::CopyAndCut),
        2 => Just(Happening::Compress),
        3 => Just(Happening::Read),
        2 => Just(Happening::ReadALittle),
        2 => Just(Happening::Restart),
        1 => Just(Happening::Crash),
    ]
}

/// Plays the happenings. Returns the reported events, the expected ones, and the number of gaps.
fn play(happenings: &[Happening], save_every: u64) -> (Vec<String>, Vec<String>, usize) {
    let mut log = TestLog::new();
    log.settings.save_every_bytes = save_every;
    // The reader has run before: a first start begins with the current file.
    log.append("Nov 21 07:00:00 mx sshd[1]: hello\n");
    let mut reader = Reader::new(&log);
    reader.read_all();
    let (mut written, mut number, mut rest) = (String::new(), 0, String::new());
    for happening in happenings {
        match happening {
            Happening::Message => {
                number += 1;
                let text = std::mem::take(&mut rest) + &message(number);
                log.append(&text);
                written += &message(number);
            }
            Happening::HalfALine if rest.is_empty() => {
                number += 1;
                let text = message(number);
                let (first, second) = text.split_at(text.len() / 2 + 7);
                log.append(first);
                rest = second.to_owned();
                written += &text;
            }
            // Writers complete their line before they leave a file.
            Happening::HalfALine => log.append(&std::mem::take(&mut rest)),
            Happening::Rotate | Happening::CopyAndCut => {
                log.append(&std::mem::take(&mut rest));
                if std::fs::metadata(log.path("mail.log")).unwrap().len() == 0 {
                    continue;
                }
                match happening {
                    Happening::Rotate => log.rotate(),
                    _ => log.copy_and_cut(),
                }
            }
            Happening::Compress => {
                for number in 1..30 {
                    let name = format!("mail.log.{number}");
                    if log.path(&name).exists() {
                        log.compress(&name);
                    }
                }
            }
            Happening::Read => drop(reader.read_all()),
            Happening::ReadALittle => drop(reader.step(2)),
            Happening::Restart => reader.restart(&log),
            Happening::Crash => {
                // A batch was read but never stored.
                let _ = reader.follow.read(&reader.cursor, 3);
                reader.restart(&log);
            }
        }
    }
    log.append(&rest);
    reader.read_all();
    (reader.reported(), events_of(&written), reader.gaps().len())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn nothing_is_lost_and_nothing_reported_twice(
        happenings in proptest::collection::vec(happening(), 1..40),
        save_every in prop_oneof![Just(1_u64), Just(3000), Just(1 << 20)],
    ) {
        let (reported, expected, gaps) = play(&happenings, save_every);
        prop_assert_eq!(reported, expected);
        prop_assert_eq!(gaps, 0);
    }
}
