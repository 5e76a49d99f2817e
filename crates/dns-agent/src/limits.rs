//! Limits of the process, which reads answers of any length into memory.

use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Maximum address space. Certificates, threads and pools take about a quarter of it.
const MAX_MEMORY: u64 = 512 * 1024 * 1024;

/// Sets the limits.
///
/// An endless answer then ends the process. A core file would have the credentials, and no file is written.
pub(crate) fn set() -> Result<(), Errno> {
    for (resource, wanted) in [(Resource::As, MAX_MEMORY), (Resource::Core, 0), (Resource::Fsize, 0)] {
        let maximum = getrlimit(resource).maximum.map_or(wanted, |maximum| maximum.min(wanted));
        setrlimit(resource, Rlimit { current: Some(maximum), maximum: Some(maximum) })?;
    }
    Ok(())
}
