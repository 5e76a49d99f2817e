//! Queue files, identified by the inode number in the queue id.
//!
//! An inode number is free only after the file was deleted and its last process closed it. So a new queue file with
//! the inode number of a message proves that the message is gone, and that no delivery agent has its file. An agent
//! logs its results before it closes the file. File systems such as ext4 and XFS use a free number again soon, others
//! (btrfs, tmpfs) never.
//!
//! A queue that is copied to another file system gets other inode numbers and keeps its long queue ids. An operator
//! copies it while Postfix is stopped, or after the loss of the machine. So inode numbers count only for messages that
//! Postfix received since.

use std::collections::HashMap;

use super::super::line::Line;
use super::super::message::Origin;
use super::super::queue_id::{inode, short_form};
use super::super::report::Findings;
use super::TrackedMessages;

/// The newest queue id for each inode number of each instance.
pub(super) type Inodes = HashMap<String, HashMap<u64, String>>;

impl TrackedMessages {
    /// Notes that the queue of an instance may have been copied.
    pub(in super::super) fn forget_inodes(&mut self, instance: &str) {
        let messages = self.instances.get_mut(instance).into_iter().flat_map(HashMap::values_mut);
        messages.for_each(|message| message.is_inode_sure = false);
    }

    /// Notes the file of a message.
    pub(super) fn note_file(&mut self, instance: &str, id: &str) {
        let Some(inode) = inode(id) else { return };
        let first_seen = |id: &str| self.instances.get(instance)?.get(id).map(|message| message.first_seen);
        let is_older = self.with_inode(instance, inode).is_some_and(|other| first_seen(id) < first_seen(other));
        if !is_older {
            self.inodes.entry(instance.to_owned()).or_default().insert(inode, id.to_owned());
        }
    }

    /// Forgets the file of a message that is closed.
    pub(super) fn forget_file(&mut self, instance: &str, id: &str) {
        let Some(inode) = inode(id) else { return };
        let of_instance = self.inodes.get_mut(instance);
        if let Some(inodes) = of_instance.filter(|inodes| inodes.get(&inode).is_some_and(|known| known == id)) {
            inodes.remove(&inode);
        }
    }

    fn with_inode(&self, instance: &str, inode: u64) -> Option<&str> {
        self.inodes.get(instance)?.get(&inode).map(String::as_str)
    }

    /// Whether a newer message has the inode number of this one.
    pub(super) fn is_file_replaced(&self, instance: &str, id: &str) -> bool {
        let newer = inode(id).and_then(|inode| self.with_inode(instance, inode)).filter(|newer| *newer != id);
        let messages = self.instances.get(instance);
        let get = |id: &str| messages.and_then(|messages| messages.get(id));
        let (Some(newer), Some(message)) = (newer.and_then(get), get(id)) else { return false };
        message.is_inode_sure && newer.first_seen > message.first_seen
    }

    /// Concludes from the beginning of a message that the former file with its inode number is gone.
    pub(super) fn note_replaced_files(&mut self, line: &Line<'_>, id: &str, findings: &mut Findings) {
        let former = inode(id).and_then(|inode| self.with_inode(line.instance, inode)).map(str::to_owned);
        let former = former.filter(|former| former != id);
        if let Some(former) = former.filter(|id| self.get(line.instance, id).is_some_and(|of| of.is_inode_sure)) {
            self.conclude_file(line, &former, findings);
        }
        // A short queue id may denote another message again.
        if self.get(line.instance, id).is_some_and(|message| message.left.is_some()) {
            self.conclude_file(line, id, findings);
        }
    }

    /// Closes a message that was deleted, now that no process has its file. A message without a deletion is left
    /// alone: the program that deletes the file logs its line afterwards.
    pub(super) fn conclude_file(&mut self, line: &Line<'_>, id: &str, findings: &mut Findings) {
        let Some(message) = self.get(line.instance, id) else { return };
        // Before a message is complete, its client may also have given up.
        let is_deleted = message.perhaps_deleted && (message.queued || message.held);
        if is_deleted || message.left.is_some() {
            self.end_attempt(line, id, |message| message.in_attempt = 0, findings);
        }
        if is_deleted {
            self.delete(line, id, findings);
        }
    }

    /// Continues a message under the name that postsuper(1) gave to its file without a line. That happens when Postfix
    /// starts after `enable_long_queue_ids` was switched off.
    pub(super) fn adopt_renamed(&mut self, instance: &str, id: &str) {
        let former = inode(id).and_then(|inode| self.with_inode(instance, inode)).map(str::to_owned);
        let Some(former) = former.filter(|former| short_form(former).is_some_and(|short| short == id)) else { return };
        let Some(mut message) = self.close(instance, &former) else { return };
        if !matches!(message.origin, Origin::Internal | Origin::PickedUp) {
            message.orig_id.get_or_insert(former);
        }
        self.restore(instance, id, message);
    }
}
