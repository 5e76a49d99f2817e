//! The machine's clock, its source of randomness and its users. Nothing else reads them.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use mailapi_model::{Clock, Entropy, Timestamp};

/// The machine's clock.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SystemClock {
    started: Instant,
}

impl SystemClock {
    pub(crate) fn new() -> Self {
        Self { started: Instant::now() }
    }
}

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "all other code takes this clock as a parameter")]
    fn now(&self) -> Timestamp {
        let since_epoch = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let millis = since_epoch.map_or(0, |elapsed| i64::try_from(elapsed.as_millis()).unwrap_or(i64::MAX));
        Timestamp::from_millis(millis)
    }

    fn steady(&self) -> Duration {
        self.started.elapsed()
    }
}

/// Returns the name of this machine, and an identifier of the present run of its kernel.
pub(crate) fn machine() -> (String, String) {
    // proc(5)
    let read = |name: &str| {
        let text = std::fs::read_to_string(format!("/proc/sys/kernel/{name}")).unwrap_or_default();
        text.trim().to_owned()
    };
    (read("hostname"), read("random/boot_id"))
}

/// Operating-system user of this process, for the audit log: the name from `/etc/passwd`, otherwise the number.
/// With sudo(8), the name of the calling user follows.
///
/// The first call decides, because the process may take another identity later (`identity`).
pub(crate) fn os_user() -> String {
    static STARTED_BY: OnceLock<String> = OnceLock::new();
    STARTED_BY.get_or_init(current_user).clone()
}

#[expect(clippy::disallowed_methods, reason = "sudo(8) sets the variable; it is not a setting of this product")]
fn current_user() -> String {
    let id = rustix::process::getuid().as_raw();
    let users = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let user = name_of(id, &users).map_or_else(|| format!("uid {id}"), str::to_owned);
    match std::env::var("SUDO_USER") {
        Ok(caller) if !caller.is_empty() => format!("{user} (sudo by {caller})"),
        _ => user,
    }
}

/// A user of the operating system, such as the one that runs the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ServiceUser {
    /// `None` for a number without an entry in `/etc/passwd`.
    pub(crate) name: Option<String>,
    pub(crate) uid: u32,
    /// The primary group.
    pub(crate) gid: u32,
    /// Further groups.
    pub(crate) groups: Vec<u32>,
}

impl ServiceUser {
    /// Looks the user up in `/etc/passwd` and `/etc/group`.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::from_system(|user, _| user == name)
    }

    /// Like [`Self::named`], by the user's number. A user of a container or a directory service has no entry, and gets
    /// `gid` alone.
    pub(crate) fn with_id(uid: u32, gid: u32) -> Self {
        let unknown = Self { name: None, uid, gid, groups: Vec::new() };
        Self::from_system(|_, id| id == uid).unwrap_or(unknown)
    }

    fn from_system(is_meant: impl Fn(&str, u32) -> bool) -> Option<Self> {
        let text_of = |file| std::fs::read_to_string(file).unwrap_or_default();
        Self::find(is_meant, &text_of("/etc/passwd"), &text_of("/etc/group"))
    }

    /// Finds a user in the text of a passwd(5) file, and the groups in that of a group(5) file.
    fn find(is_meant: impl Fn(&str, u32) -> bool, users: &str, groups: &str) -> Option<Self> {
        users.lines().find_map(|line| {
            let mut fields = line.split(':');
            let name = fields.next()?;
            let (uid, gid) = (fields.nth(1)?.parse().ok()?, fields.next()?.parse().ok()?);
            let user = || Self { name: Some(name.to_owned()), uid, gid, groups: groups_of(name, groups) };
            is_meant(name, uid).then(user)
        })
    }

    /// Returns the name, or the number.
    pub(crate) fn shown(&self) -> String {
        self.name.clone().unwrap_or_else(|| format!("uid {}", self.uid))
    }
}

/// Returns the numbers of the groups that have this member, from the text of a group(5) file.
fn groups_of(name: &str, groups: &str) -> Vec<u32> {
    let number_of = |line: &str| {
        let mut fields = line.split(':');
        let number = fields.nth(2)?.parse().ok()?;
        fields.next()?.split(',').any(|member| member == name).then_some(number)
    };
    groups.lines().filter_map(number_of).collect()
}

/// Looks a user's name up in the text of a passwd(5) file.
fn name_of(id: u32, users: &str) -> Option<&str> {
    users.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)?.parse() == Ok(id)).then_some(name)
    })
}

/// The operating system's source of randomness.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SystemEntropy;

impl Entropy for SystemEntropy {
    #[expect(clippy::disallowed_methods, reason = "all other code takes this source as a parameter")]
    fn fill(&self, buffer: &mut [u8]) {
        // Without randomness every token could be guessed, so a panic is safer than continuing.
        getrandom::fill(buffer).expect("the operating system provides random bytes");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_found_by_their_number() {
        let users = "root:x:0:0:root:/root:/bin/sh\n\nbroken\nann:x:1000:100::/home/ann:/bin/sh\n";
        let groups = "root:x:0:ann2\nadm:x:4:bob,ann\n\nbroken\nmail:x:8:\ncerts:x:107:ann\n";
        let ann = ServiceUser { name: Some("ann".to_owned()), uid: 1000, gid: 100, groups: vec![4, 107] };
        assert_eq!(ServiceUser::find(|name, _| name == "ann", users, groups), Some(ann.clone()));
        assert_eq!(ServiceUser::find(|_, id| id == 1000, users, groups), Some(ann));
        assert_eq!(ServiceUser::find(|name, _| name == "broken", users, groups), None);
        assert_eq!((name_of(0, users), name_of(1000, users), name_of(100, users)), (Some("root"), Some("ann"), None));
    }
}
