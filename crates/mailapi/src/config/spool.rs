//! `[spool]`: where messages lie on their way.

use std::path::Path;

use mailapi_backend::BufferSettings;

use super::mirror::mirror;
use super::values::ByteSize;
use super::{ConfigError, at_least_one};

mirror!(
    /// The section.
    BufferKeys of BufferSettings as (BufferSettings::new("")) {
        max_memory_bytes: ByteSize,
        write_bytes: ByteSize,
        max_disk_bytes: ByteSize,
        max_inbound_disk_bytes: ByteSize,
    }
);

impl BufferKeys {
    /// The spool, in the data directory.
    pub(super) fn settings(&self, data_dir: &Path) -> BufferSettings {
        let mut settings = BufferSettings::new(data_dir);
        self.apply(&mut settings);
        settings
    }

    /// Fails when a message of `max_message_bytes`, the longest that is taken, could never have room.
    pub(super) fn check(&self, max_message_bytes: u64) -> Result<(), ConfigError> {
        at_least_one("spool.max_memory_bytes", self.max_memory_bytes.0)?;
        at_least_one("spool.write_bytes", self.write_bytes.0)?;
        let (all, inbound) = (self.max_disk_bytes.0, self.max_inbound_disk_bytes.0);
        for (key, room) in [("spool.max_disk_bytes", all), ("spool.max_inbound_disk_bytes", inbound)] {
            if room < max_message_bytes.max(1) {
                let why =
                    format!("{key}: must have room for a message of limits.max_message_bytes, {max_message_bytes}");
                return Err(ConfigError::new(why));
            }
        }
        if inbound > all {
            let why = format!("spool.max_inbound_disk_bytes: is a part of spool.max_disk_bytes, at most {all}");
            return Err(ConfigError::new(why));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::config::Config;

    #[test]
    fn a_spool_in_which_the_longest_message_has_no_room_is_refused() {
        let check = |spool: &str| {
            let text = format!("[limits]\nmax_message_bytes = \"10MiB\"\n[spool]\n{spool}");
            Config::from_layers(Some(("mailapi.toml", &text)), &[]).unwrap().check().map_err(|error| error.to_string())
        };
        for (spool, why) in [
            ("max_disk_bytes = 0", "spool.max_disk_bytes: must have room"),
            ("max_disk_bytes = \"9MiB\"", "spool.max_disk_bytes: must have room"),
            ("max_inbound_disk_bytes = 0", "spool.max_inbound_disk_bytes: must have room"),
            ("max_inbound_disk_bytes = \"9MiB\"", "spool.max_inbound_disk_bytes: must have room"),
            ("max_disk_bytes = \"1GiB\"", "spool.max_inbound_disk_bytes: is a part"),
        ] {
            let error = check(spool).unwrap_err();
            assert!(error.starts_with(why), "{spool}: {error}");
        }
        assert_eq!(check("max_disk_bytes = \"10MiB\"\nmax_inbound_disk_bytes = \"10MiB\""), Ok(()));
    }
}
