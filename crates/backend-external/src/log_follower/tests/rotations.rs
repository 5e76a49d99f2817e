//! Rotation in every way, at any time, with restarts in between: nothing is lost, nothing is told twice, and what is
//! gone for good is said to be gone.

use proptest::prelude::*;

use super::support::{Reader, Scene, events_of, message};
use crate::log_follower::GapKind;

#[test]
fn a_file_that_vanished_is_a_gap_and_what_follows_is_told() {
    let scene = Scene::new();
    scene.append(&message(1));
    let mut reader = Reader::new(&scene);
    reader.read_all();
    scene.append(&message(2));
    scene.remove("mail.log");
    scene.append(&message(3));
    reader.restart(&scene);
    reader.read_all();
    assert_eq!(reader.told(), events_of(&(message(1) + &message(3))));
    assert_eq!(reader.gaps().iter().map(|gap| gap.kind).collect::<Vec<_>>(), [GapKind::FileVanished]);
    reader.restart(&scene);
    assert_eq!(reader.read_all().gaps().len(), 1);
}

#[test]
fn a_file_that_was_cut_without_a_copy_is_a_gap() {
    let scene = Scene::new();
    scene.append(&message(1));
    let mut reader = Reader::new(&scene);
    reader.read_all();
    std::fs::write(scene.path("mail.log"), message(2) + &message(3)).unwrap();
    reader.read_all();
    assert_eq!(reader.told(), events_of(&(message(1) + &message(2) + &message(3))));
    assert_eq!(reader.gaps().iter().map(|gap| gap.kind).collect::<Vec<_>>(), [GapKind::Truncated]);
}

#[test]
fn a_missing_number_is_a_gap() {
    let scene = Scene::new();
    scene.append(&message(1));
    let mut reader = Reader::new(&scene);
    reader.read_all();
    for number in 2..5 {
        scene.rotate();
        scene.append(&message(number));
    }
    scene.remove("mail.log.2");
    reader.restart(&scene);
    reader.read_all();
    assert_eq!(reader.told(), events_of(&(message(1) + &message(3) + &message(4))));
    assert_eq!(reader.gaps().iter().map(|gap| gap.kind).collect::<Vec<_>>(), [GapKind::RotatedFileMissing]);
}

#[test]
fn files_that_are_counted_upward_are_told_once() {
    let scene = Scene::new();
    scene.append(&message(1));
    let mut reader = Reader::new(&scene);
    for number in 2..6 {
        reader.read_all();
        scene.rotate_upward();
        scene.append(&message(number));
    }
    reader.read_all();
    assert_eq!(reader.told(), events_of(&(1..6).map(message).collect::<String>()));
    assert_eq!(reader.gaps(), []);
}

#[test]
fn files_that_were_counted_upward_while_nobody_read_are_all_read() {
    let scene = Scene::new();
    scene.append(&message(1));
    let mut reader = Reader::new(&scene);
    reader.read_all();
    scene.append(&message(2));
    for number in 3..7 {
        scene.rotate_upward();
        scene.append(&message(number));
    }
    scene.compress("mail.log.1");
    scene.compress("mail.log.3");
    reader.restart(&scene);
    reader.read_all();
    assert_eq!(reader.told(), events_of(&(1..7).map(message).collect::<String>()));
    assert_eq!(reader.gaps(), []);
}

#[test]
fn a_missing_number_is_a_gap_also_where_they_are_counted_upward() {
    let scene = Scene::new();
    scene.append(&message(1));
    let mut reader = Reader::new(&scene);
    reader.read_all();
    for number in 2..5 {
        scene.rotate_upward();
        scene.append(&message(number));
    }
    scene.remove("mail.log.2");
    reader.restart(&scene);
    reader.read_all();
    assert_eq!(reader.told(), events_of(&(message(1) + &message(3) + &message(4))));
    assert_eq!(reader.gaps().iter().map(|gap| gap.kind).collect::<Vec<_>>(), [GapKind::RotatedFileMissing]);
}

#[test]
fn a_clock_that_was_wrong_does_not_change_the_order_of_logrotates_files() {
    // What each file holds, the oldest first: lines and last changes are of the same wrong clock.
    let logs: [&[&[u32]]; 4] =
        [&[&[5], &[9], &[3], &[7]], &[&[9], &[3], &[4]], &[&[9, 140], &[5, 20], &[30]], &[&[9], &[3]]];
    for files in logs {
        let scene = Scene::new();
        let mut reader = Reader::new(&scene);
        for (index, numbers) in files.iter().enumerate() {
            if index > 0 {
                scene.rotate();
            }
            scene.append(&numbers.iter().copied().map(message).collect::<String>());
            if index == 0 {
                reader.read_all();
            }
        }
        reader.restart(&scene);
        reader.read_all();
        let messages = files.iter().map(|numbers| numbers.len()).sum::<usize>();
        assert_eq!(reader.told().len(), events_of(&message(5)).len() * messages, "{files:?}");
        assert_eq!(reader.gaps(), []);
    }
}

#[test]
fn where_only_the_newest_of_the_files_counted_upward_is_kept_nothing_is_missing() {
    let scene = Scene::new();
    scene.append(&message(1));
    let mut reader = Reader::new(&scene);
    for number in 2..7 {
        reader.read_all();
        scene.rename("mail.log", &format!("mail.log.{number}"));
        if number > 2 {
            scene.remove(&format!("mail.log.{}", number - 1));
        }
        scene.append(&message(number));
        if number % 2 == 0 {
            reader.restart(&scene);
        }
    }
    reader.read_all();
    assert_eq!(reader.told(), events_of(&(1..7).map(message).collect::<String>()));
    assert_eq!(reader.gaps(), []);
}

#[test]
fn an_edited_file_is_a_gap_and_is_not_told_again() {
    let scene = Scene::new();
    scene.append(&(message(1) + &message(2)));
    let mut reader = Reader::new(&scene);
    reader.read_all();
    // An editor writes a new file and gives it the old name.
    std::fs::write(scene.path("new"), format!("{}{}{}", "# note\n", message(2), message(3))).unwrap();
    scene.rename("new", "mail.log");
    reader.restart(&scene);
    reader.read_all();
    assert_eq!(reader.gaps().len(), 1);
    let told = reader.told();
    assert!(told.iter().any(|event| event.contains("a3@example.net")));
    assert_eq!(told.iter().filter(|event| event.contains("a1@example.net deferred")).count(), 1);
}

#[test]
fn a_missing_log_is_an_error_until_it_is_there() {
    let scene = Scene::new();
    let mut reader = Reader::new(&scene);
    let error = reader.follow.read(&reader.cursor, 10).unwrap_err();
    assert!(error.to_string().contains("no log at"), "{error}");
    scene.append(&message(1));
    reader.read_all();
    assert_eq!(reader.told(), events_of(&message(1)));
}

#[test]
fn the_old_file_is_read_until_the_writer_has_left_it() {
    let scene = Scene::new();
    scene.append(&message(1));
    let mut reader = Reader::new(&scene);
    reader.read_all();
    scene.rename("mail.log", "mail.log.1");
    // The new file is there, and the writer has not been told yet.
    scene.append("");
    reader.read_all();
    let mut old = std::fs::OpenOptions::new().append(true).open(scene.path("mail.log.1")).unwrap();
    std::io::Write::write_all(&mut old, message(2).as_bytes()).unwrap();
    reader.read_all();
    scene.append(&message(3));
    reader.read_all();
    assert_eq!(reader.told(), events_of(&(message(1) + &message(2) + &message(3))));
}

#[test]
fn dated_names_are_followed_too() {
    let scene = Scene::new();
    scene.append(&message(1));
    let mut reader = Reader::new(&scene);
    reader.read_all();
    scene.append(&message(2));
    scene.rename("mail.log", "mail.log-20261120");
    scene.compress("mail.log-20261120");
    scene.append(&message(3));
    scene.rename("mail.log", "mail.log-20261121");
    scene.append(&message(4));
    reader.restart(&scene);
    reader.read_all();
    assert_eq!(reader.told(), events_of(&(1..5).map(message).collect::<String>()));
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

/// How rotated files are numbered.
#[derive(Debug, Clone, Copy)]
enum Counted {
    /// The newest is number 1, as logrotate has it.
    Down,
    /// The newest has the highest number.
    Up,
}

/// Plays the happenings and returns what was told, what should have been told, and the gaps.
fn play(happenings: &[Happening], counted: Counted, save_every: u64) -> (Vec<String>, Vec<String>, usize) {
    let mut scene = Scene::new();
    scene.settings.save_every_octets = save_every;
    // The reader has been at work before: a first start begins with the file that is written then.
    scene.append("Nov 21 07:00:00 mx sshd[1]: hello\n");
    let mut reader = Reader::new(&scene);
    reader.read_all();
    let (mut written, mut number, mut rest) = (String::new(), 0, String::new());
    for happening in happenings {
        match happening {
            Happening::Message => {
                number += 1;
                let text = std::mem::take(&mut rest) + &message(number);
                scene.append(&text);
                written += &message(number);
            }
            Happening::HalfALine if rest.is_empty() => {
                number += 1;
                let text = message(number);
                let (first, second) = text.split_at(text.len() / 2 + 7);
                scene.append(first);
                rest = second.to_owned();
                written += &text;
            }
            // Writers write whole lines before they let go of a file.
            Happening::HalfALine => scene.append(&std::mem::take(&mut rest)),
            Happening::Rotate | Happening::CopyAndCut => {
                scene.append(&std::mem::take(&mut rest));
                if std::fs::metadata(scene.path("mail.log")).unwrap().len() == 0 {
                    continue;
                }
                match (happening, counted) {
                    (Happening::Rotate, Counted::Down) => scene.rotate(),
                    (Happening::Rotate, Counted::Up) => scene.rotate_upward(),
                    (_, Counted::Down) => scene.copy_and_cut(),
                    (_, Counted::Up) => scene.copy_and_cut_upward(),
                }
            }
            Happening::Compress => {
                for number in 1..30 {
                    let name = format!("mail.log.{number}");
                    if scene.path(&name).exists() {
                        scene.compress(&name);
                    }
                }
            }
            Happening::Read => drop(reader.read_all()),
            Happening::ReadALittle => drop(reader.step(2)),
            Happening::Restart => reader.restart(&scene),
            Happening::Crash => {
                // A batch was read and never stored.
                let _ = reader.follow.read(&reader.cursor, 3);
                reader.restart(&scene);
            }
        }
    }
    scene.append(&rest);
    reader.read_all();
    (reader.told(), events_of(&written), reader.gaps().len())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn nothing_is_lost_and_nothing_told_twice(
        happenings in proptest::collection::vec(happening(), 1..40),
        counted in prop_oneof![Just(Counted::Down), Just(Counted::Up)],
        save_every in prop_oneof![Just(1_u64), Just(3000), Just(1 << 20)],
    ) {
        let (told, expected, gaps) = play(&happenings, counted, save_every);
        prop_assert_eq!(told, expected);
        prop_assert_eq!(gaps, 0);
    }
}
