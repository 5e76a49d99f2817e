//! Finds the servers for a message (RFC 5321 section 5.1).

use mailapi_backend::{Dns, DnsError, MailExchange, Proven};
use mailapi_model::{DomainName, EnhancedCode, Entropy, Reply};

/// The exchange of a domain that accepts no mail (RFC 7505).
const NULL_MX: &str = ".";

/// A domain's servers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Servers {
    /// Their names in the order of attempts.
    pub(super) names: Vec<String>,
    /// Whether DNSSEC proves that these are the domain's. An attacker could add others.
    pub(super) are_proven: bool,
}

/// Returns the servers of a domain.
///
/// # Errors
/// A reply for the failure: 4xx to retry, 5xx to give up.
pub(super) async fn servers(
    domain: &DomainName,
    our_name: &str,
    dns: &dyn Dns,
    entropy: &dyn Entropy,
) -> Result<Servers, Reply> {
    let found = dns.mx_with_proof(domain.as_str()).await;
    let Proven { value: mut records, is_proven } = found.map_err(|error| not_resolved(&error, domain.as_str()))?;
    if records.is_empty() {
        // Without an MX record the domain itself is the server (RFC 5321 section 5.1). The proof of its addresses also
        // proves the absence of the MX record, since one zone has both.
        return Ok(Servers { names: vec![domain.as_str().to_owned()], are_proven: true });
    }
    if records.iter().all(|mx| mx.exchange == NULL_MX) {
        let text = format!("the domain {domain} does not accept mail");
        return Err(Reply::new(556, EnhancedCode::new(5, 1, 10), text));
    }
    records.retain(|mx| mx.exchange != NULL_MX);
    order(&mut records, entropy);
    if let Some(ours) = records.iter().find(|mx| is_host(mx, our_name)).map(|mx| mx.preference) {
        // Servers with the same or a higher preference value would return the mail to us.
        records.retain(|mx| mx.preference < ours);
    }
    if records.is_empty() {
        return Err(loops(domain));
    }
    Ok(Servers { names: records.into_iter().map(|mx| mx.exchange).collect(), are_proven: is_proven })
}

/// Returns whether the exchange is the named host. Host names ignore case and a final dot.
pub(super) fn is_host(mx: &MailExchange, name: &str) -> bool {
    mx.exchange.trim_end_matches('.').eq_ignore_ascii_case(name.trim_end_matches('.'))
}

/// Returns the reply to mail that would loop back to us.
pub(super) fn loops(domain: &DomainName) -> Reply {
    let text = format!("mail for {domain} loops back to this server, which has no such domain");
    Reply::new(554, EnhancedCode::new(5, 4, 6), text)
}

/// Returns the reply to a failed look-up.
pub(super) fn not_resolved(error: &DnsError, name: &str) -> Reply {
    match error {
        DnsError::NoSuchName => {
            Reply::new(550, EnhancedCode::new(5, 1, 2), format!("host or domain {name} does not exist"))
        }
        DnsError::Timeout | DnsError::Failed(_) => {
            Reply::new(451, EnhancedCode::new(4, 4, 3), format!("DNS look-up of {name} failed: {error}"))
        }
    }
}

/// Sorts by preference, randomly among equal ones.
fn order(records: &mut [MailExchange], entropy: &dyn Entropy) {
    let draw = || {
        let mut bytes = [0; 8];
        entropy.fill(&mut bytes);
        u64::from_le_bytes(bytes)
    };
    records.sort_by_cached_key(|mx| (mx.preference, draw()));
}

#[cfg(test)]
mod tests {
    use mailapi_testkit::SeededEntropy;

    use super::*;

    #[test]
    fn equals_share_the_load_and_better_ones_come_first() {
        let entropy = SeededEntropy::new(1);
        let mx = |preference, exchange: &str| MailExchange { preference, exchange: exchange.to_owned() };
        let mut firsts = [0, 0];
        for _ in 0..200 {
            let mut records = [mx(20, "backup"), mx(10, "a"), mx(10, "b")];
            order(&mut records, &entropy);
            assert_eq!(records[2].exchange, "backup");
            firsts[usize::from(records[0].exchange == "b")] += 1;
        }
        assert!(firsts.iter().all(|count| *count > 50), "{firsts:?}");
    }
}
