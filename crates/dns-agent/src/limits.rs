//! Limits of the process, which reads answers of any length into memory.

use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Maximum address space. A job takes about a third of it, mostly for stacks and pools that are never used.
const MAX_MEMORY: u64 = 512 * 1024 * 1024;

/// Sets the limits.
///
/// An endless answer then ends the process. A core file would have the credentials, and no file is written: also the output
/// must be a pipe.
pub(crate) fn set() -> Result<(), Errno> {
    for (resource, wanted) in [(Resource::As, MAX_MEMORY), (Resource::Core, 0), (Resource::Fsize, 0)] {
        let maximum = getrlimit(resource).maximum.map_or(wanted, |maximum| maximum.min(wanted));
        setrlimit(resource, Rlimit { current: Some(maximum), maximum: Some(maximum) })?;
    }
    Ok(())
}
