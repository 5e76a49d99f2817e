//! Checks how mail of other servers arrives.

use mailapi_service::Unavailable;
use mailapi_service::mail::ArrivedMail;

use super::finding::Finding;

/// Fewer messages say nothing about all of them.
const ENOUGH: usize = 20;

/// Notes that most mail with authors of other domains comes from trusted networks: a proxy or load balancer may hide the
/// real clients.
pub(super) fn mail_from_outside(arrived: Result<ArrivedMail, Unavailable>) -> Finding {
    const WHAT: &str = "mail from outside";
    let ArrivedMail { checked, unchecked } = match arrived {
        Ok(arrived) => arrived,
        Err(error) => return Finding::unknown(WHAT, error),
    };
    let all = checked + unchecked;
    if all < ENOUGH || unchecked <= checked {
        return Finding::fine(WHAT, format!("{checked} of the newest {all} messages were checked"));
    }
    let what_happened = format!(
        "{unchecked} of the newest {all} messages came from mail.embedded.inbound.trusted_networks, and were not checked"
    );
    let advice = "if a load balancer or another relay of connections is in front of the port for mail, let it send PROXY \
                  headers, and name it in trusted_proxies (docs/proxies.md); nothing is wrong if these clients are your \
                  own spam filters or mail servers";
    Finding::noted(WHAT, what_happened, advice)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_many_unchecked_messages_are_noted() {
        let shown = |checked, unchecked| mail_from_outside(Ok(ArrivedMail { checked, unchecked })).shown();
        for (checked, unchecked) in [(0, 0), (0, 19), (20, 20), (500, 100)] {
            assert!(shown(checked, unchecked).starts_with("ok "), "{checked} {unchecked}");
        }
        let noted = shown(1, 19);
        assert!(noted.starts_with("note   mail from outside: 19 of the newest 20 messages came from "), "{noted}");
        assert!(noted.contains("trusted_proxies"), "{noted}");
    }
}
