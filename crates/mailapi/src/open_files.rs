//! The limit of open files, connections included: raised as far as the system allows.

use mailapi_backend_embedded::net::ConnectionLimits;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the limit of this process to the hard limit. Returns the number of files that it may open.
pub(crate) fn raise_limit() -> u64 {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    // If raising fails, the limit stays as it was.
    let raised = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).is_ok();
    if raised { maximum } else { current }.unwrap_or(u64::MAX)
}

/// Connections of HTTP, at most `wanted`. Half of the files are reserved for the other listeners, the database, and
/// messages in transit.
pub(crate) fn connections_of_http(wanted: usize, files: u64) -> usize {
    let most = usize::try_from(files / 2).unwrap_or(usize::MAX);
    if most < wanted {
        tracing::warn!(
            files,
            connections = most,
            "advanced.http.max_connections exceeds half of the open files limit (RLIMIT_NOFILE); HTTP accepts fewer \
             connections"
        );
    }
    wanted.min(most)
}

/// Connection limits of one mail listener, at most `wanted`. A listener gets at most an eighth of the files, so
/// that the three of them and HTTP leave an eighth to everything else. One client gets at most half of the
/// listener's connections.
pub(crate) fn connections_of_mail(wanted: ConnectionLimits, files: u64) -> ConnectionLimits {
    let most = usize::try_from(files / 8).unwrap_or(usize::MAX);
    if wanted.max_connections <= most {
        return wanted;
    }
    tracing::warn!(
        files,
        connections = most,
        "advanced.listeners.max_connections exceeds an eighth of the open files limit (RLIMIT_NOFILE); each listener \
         accepts fewer connections"
    );
    let max_connections_per_client = wanted.max_connections_per_client.min((most / 2).max(1));
    ConnectionLimits { max_connections: most, max_connections_per_client, ..wanted }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_mail_listener_leaves_files_to_others() {
        let connections = |files| {
            let limits = connections_of_mail(ConnectionLimits::default(), files);
            (limits.max_connections, limits.max_connections_per_client)
        };
        assert_eq!(connections(u64::MAX), (1_000, 100));
        assert_eq!(connections(8_000), (1_000, 100));
        assert_eq!(connections(1_024), (128, 64));
        assert_eq!(connections(256), (32, 16));
    }

    #[test]
    fn http_leaves_half_of_the_files_to_others() {
        assert_eq!(connections_of_http(10_000, 1024), 512);
        assert_eq!(connections_of_http(10_000, 1_048_576), 10_000);
        assert_eq!(connections_of_http(10_000, u64::MAX), 10_000);
    }
}
