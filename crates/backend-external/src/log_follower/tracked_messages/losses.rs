//! Lines that are missing, and outcomes that were never logged.
//!
//! A missing line may have reported a delivery. So a deletion proves nothing about a recipient whose newest line is
//! older than the loss: its status stays open. A later line about the recipient counts again.

use super::super::agents::DELIVERY_AGENTS;
use super::super::line::Line;
use super::super::message::Message;
use super::super::report::Crash;
use super::TrackedMessages;

impl TrackedMessages {
    /// Notes that lines of any message may be missing.
    pub(in super::super) fn note_gap(&mut self) {
        self.instances.values_mut().flatten().for_each(|(_, message)| message.doubt());
    }

    /// Notes what an instance loses when it crashes, or when its delivery agents end without a line.
    pub(super) fn note_losses(&mut self, line: &Line<'_>, crash: Option<&Crash>) {
        let has_crashed = crash.is_some();
        if !has_crashed && !ends_agents(line) {
            return;
        }
        let mut former = Vec::new();
        for (_, message) in self.instances.get_mut(line.instance).into_iter().flatten() {
            if has_crashed || message.in_attempt > 0 {
                message.doubt();
                former.extend(message.message_id.filter(|_| message.is_former()));
            }
        }
        // The agent may have delivered under the former id.
        let keys = former.iter().filter_map(|message_id| self.by_message.get(message_id)).flatten();
        for (instance, id) in keys.cloned().collect::<Vec<_>>() {
            self.get(&instance, &id).into_iter().for_each(Message::doubt);
        }
    }
}

/// Whether a line shows that delivery agents ended at any point of a delivery, so its outcome may not be logged. A stop
/// ends all of them. master(8) reports the end of a single one: `warning: process /usr/lib/postfix/sbin/smtp pid 7
/// killed by signal 9`, or `exit status 1`.
fn ends_agents(line: &Line<'_>) -> bool {
    match line.daemon {
        "postfix-script" => line.text.starts_with("stopping the Postfix mail system"),
        "master" => {
            let process = line.text.strip_prefix("warning: process ");
            let program = process.and_then(|process| process.split_once(" pid ")).map(|(program, _)| program);
            let name = program.map(|program| program.rsplit_once('/').map_or(program, |(_, name)| name));
            name.is_some_and(|name| DELIVERY_AGENTS.contains(&name)) || line.text.starts_with("terminating on signal")
        }
        _ => false,
    }
}
