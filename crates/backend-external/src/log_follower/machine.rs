//! When the machine started, as reported by the kernel.

use std::path::Path;

use mailapi_model::Timestamp;

/// Returns when the machine started, to the second; `None` if the kernel does not report it (proc_stat(5), `btime`).
pub(super) fn machine_started_at(state: &Path) -> Option<Timestamp> {
    started_at(&std::fs::read_to_string(state).ok()?)
}

fn started_at(state: &str) -> Option<Timestamp> {
    let seconds = state.lines().find_map(|line| line.strip_prefix("btime "))?;
    seconds.trim().parse::<u32>().ok().map(|seconds| Timestamp::from_seconds(seconds.into()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_line_is_found_among_the_others() {
        assert_eq!(started_at("cpu 1 2\nctxt 7\nbtime 1795000000\n"), Some(Timestamp::from_seconds(1_795_000_000)));
        assert_eq!(started_at("cpu 1 2\nbtime soon\n"), None);
        assert_eq!(started_at(""), None);
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "(btime [0-9]{0,25}|\\PC{0,20}|\n){0,6}") {
            let _ = started_at(&text);
        }
    }
}
