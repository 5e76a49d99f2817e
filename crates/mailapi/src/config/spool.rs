//! `[spool]`: where messages lie on their way.

use std::path::Path;

use mailapi_backend::SpoolSettings;

use super::mirror::mirror;
use super::values::ByteSize;
use super::{ConfigError, at_least_one};

mirror!(
    /// The section.
    SpoolKeys of SpoolSettings as (SpoolSettings::new("")) {
        max_memory_bytes: ByteSize,
        write_bytes: ByteSize,
        max_disk_bytes: ByteSize,
    }
);

impl SpoolKeys {
    /// The spool, in the data directory.
    pub(super) fn settings(&self, data_dir: &Path) -> SpoolSettings {
        let mut settings = SpoolSettings::new(data_dir);
        self.apply(&mut settings);
        settings
    }

    pub(super) fn check(&self) -> Result<(), ConfigError> {
        at_least_one("spool.max_memory_bytes", self.max_memory_bytes.0)?;
        at_least_one("spool.write_bytes", self.write_bytes.0)
    }
}
