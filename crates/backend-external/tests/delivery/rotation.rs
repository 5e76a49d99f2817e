//! The log is rotated while mail is delivered.

use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::mail_host::{MailHost, outcomes};

fn rotated(log: &Path, number: u32, suffix: &str) -> PathBuf {
    log.with_file_name(format!("mail.log.{number}{suffix}"))
}

/// Increments the number of each old file, and compresses the second as `delaycompress` does: no process writes to it
/// any more.
fn make_room(log: &Path) {
    for number in (1..9).rev() {
        for suffix in ["", ".gz"] {
            let from = rotated(log, number, suffix);
            if from.exists() {
                fs::rename(from, rotated(log, number + 1, suffix)).unwrap();
            }
        }
    }
    if rotated(log, 2, "").exists() {
        assert!(Command::new("gzip").arg(rotated(log, 2, "")).status().unwrap().success());
    }
}

#[tokio::test]
async fn rotated_logs_lose_and_double_nothing() {
    let mut host = MailHost::open(|_| {}).await;
    let log = host.postfix.log();
    let mut sent = Vec::new();
    for round in 0..6 {
        let mut last = String::new();
        for _ in 0..8 {
            let (id, answer) = host.send(&["good@example.net", "bob@example.org"]).await;
            last = answer.unwrap().queue_id.0;
            sent.push(id);
        }
        match round % 3 {
            0 => host.read().await,
            1 => host.restart_follower(),
            // No reader runs before the log is gone.
            _ => {}
        }
        make_room(&log);
        if round % 2 == 0 {
            fs::rename(&log, rotated(&log, 1, "")).unwrap();
            host.postfix.reopen_log();
        } else {
            // Lines written between the copy and the truncation are lost for any reader, so there must be none.
            host.postfix.logged(&[&last, "removed"]).await;
            fs::copy(&log, rotated(&log, 1, "")).unwrap();
            OpenOptions::new().write(true).open(&log).unwrap().set_len(0).unwrap();
        }
    }
    let (last, answer) = host.send(&["good@example.net", "bob@example.org"]).await;
    answer.unwrap();
    sent.push(last);
    host.read_until(|events| sent.iter().all(|id| outcomes(events, *id).len() == 2)).await;
    for id in sent {
        assert!(
            outcomes(&host.events, id).values().all(|outcome| *outcome == ["sent"]),
            "{:?}",
            outcomes(&host.events, id)
        );
    }
    assert_eq!(host.follower.status().gaps, []);
}
