//! The limit of open files, connections included: raised as far as the system allows.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises this process's limit to the hard limit. Returns how many files it may open.
pub(crate) fn raise_limit() -> u64 {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    // If raising fails, the limit stays as it was.
    let raised = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).is_ok();
    if raised { maximum } else { current }.unwrap_or(u64::MAX)
}

/// How many of the `wanted` connections HTTP may have. Half of the files are reserved for the other listeners, the
/// database, and messages in transit.
pub(crate) fn connections_of_http(wanted: usize, files: u64) -> usize {
    let most = usize::try_from(files / 2).unwrap_or(usize::MAX);
    if most < wanted {
        tracing::warn!(
            files,
            connections = most,
            "http.max_connections is more than half of the files that this process may open (RLIMIT_NOFILE); \
             HTTP takes fewer connections"
        );
    }
    wanted.min(most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn http_leaves_half_of_the_files_to_others() {
        assert_eq!(connections_of_http(10_000, 1024), 512);
        assert_eq!(connections_of_http(10_000, 1_048_576), 10_000);
        assert_eq!(connections_of_http(10_000, u64::MAX), 10_000);
    }
}
