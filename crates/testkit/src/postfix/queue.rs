//! Messages in the queue, and the end of their processing.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use super::Postfix;
use crate::hand_in::HandIn;

impl Postfix {
    /// Delivers messages to a mailbox one after the other, as another mail server does; waits until they are
    /// processed and returns their queue ids.
    ///
    /// # Panics
    /// When a message is rejected.
    pub async fn deliver(&self, sender: &str, recipient: &str, messages: &[&[u8]]) -> Vec<String> {
        let mut connection = HandIn::connect(self.smtp, "EHLO client.example").await;
        let mut queue_ids = Vec::new();
        for message in messages {
            let reply = connection.message(sender, recipient, message).await;
            let (_, queue_id) = reply.split_once("queued as ").expect("a queue id");
            queue_ids.push(queue_id.to_owned());
        }
        self.done_with(&queue_ids).await;
        queue_ids
    }

    /// Returns whether Postfix accepts mail from other servers for this recipient.
    ///
    /// # Panics
    /// When it does not speak SMTP.
    pub async fn takes(&self, sender: &str, recipient: &str) -> bool {
        HandIn::connect(self.smtp, "EHLO client.example").await.takes(sender, recipient).await
    }

    /// Waits until the queue is empty.
    ///
    /// # Panics
    /// When it does not become empty in time.
    pub async fn drained(&self) {
        let queues = ["maildrop", "incoming", "active", "deferred", "hold"];
        let paths = queues.map(|name| self.path(&format!("queue/{name}")));
        self.wait_for("an empty queue", || paths.iter().all(|path| holds_no_file(path)).then_some(())).await;
    }

    /// Waits until Postfix has attempted delivery to every recipient of these messages, and of its notices
    /// about them.
    ///
    /// # Panics
    /// When that does not happen in time.
    pub async fn done_with(&self, queue_ids: &[String]) {
        self.wait_for(&format!("the end of {queue_ids:?}"), || {
            let log = fs::read(self.log()).unwrap_or_default();
            let log = String::from_utf8_lossy(&log);
            let mut waiting = queue_ids.to_vec();
            while let Some(queue_id) = waiting.pop() {
                let of_it = format!(": {queue_id}: ");
                let lines: Vec<_> = log.lines().filter_map(|line| Some(line.split_once(&of_it)?.1)).collect();
                waiting.extend(lines.iter().filter_map(|line| Some(line.split_once("notification: ")?.1.to_owned())));
                (lines.contains(&"removed") || all_are_put_off(&lines)).then_some(())?;
            }
            Some(())
        })
        .await;
    }
}

/// Returns whether a directory has no files; one that vanishes meanwhile has none.
fn holds_no_file(directory: &Path) -> bool {
    let mut entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.all(|entry| entry.path().is_dir() && holds_no_file(&entry.path()))
}

/// Returns whether delivery to each recipient of a queued message was attempted, according to its log lines.
fn all_are_put_off(lines: &[&str]) -> bool {
    let Some(entered) = lines.iter().position(|line| line.contains("(queue active)")) else { return false };
    let count = lines[entered].split_once("nrcpt=").and_then(|(_, rest)| rest.split(' ').next()?.parse().ok());
    let tried: BTreeSet<_> = lines[entered..].iter().filter(|line| line.starts_with("to=<")).collect();
    count.is_some_and(|count: usize| tried.len() >= count)
}
