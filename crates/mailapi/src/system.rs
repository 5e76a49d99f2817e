//! The machine's clock and its source of randomness. Nothing else reads them.

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
#[expect(clippy::disallowed_methods, reason = "sudo(8) sets the variable; it is not a setting of this product")]
pub(crate) fn os_user() -> String {
    let id = rustix::process::getuid().as_raw();
    let users = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let user = name_of(id, &users).map_or_else(|| format!("uid {id}"), str::to_owned);
    match std::env::var("SUDO_USER") {
        Ok(caller) if !caller.is_empty() => format!("{user} (sudo by {caller})"),
        _ => user,
    }
}

/// The user and group of the operating system that run the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ServiceUser {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
}

impl ServiceUser {
    /// Looks the user up in `/etc/passwd`.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::of(name, &std::fs::read_to_string("/etc/passwd").unwrap_or_default())
    }

    fn of(name: &str, users: &str) -> Option<Self> {
        users.lines().find_map(|line| {
            let mut fields = line.split(':');
            let is_same = fields.next()? == name;
            let (uid, gid) = (fields.nth(1)?.parse().ok()?, fields.next()?.parse().ok()?);
            is_same.then_some(Self { uid, gid })
        })
    }
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
        assert_eq!(ServiceUser::of("ann", users), Some(ServiceUser { uid: 1000, gid: 100 }));
        assert_eq!(ServiceUser::of("broken", users), None);
        assert_eq!((name_of(0, users), name_of(1000, users), name_of(100, users)), (Some("root"), Some("ann"), None));
    }
}
