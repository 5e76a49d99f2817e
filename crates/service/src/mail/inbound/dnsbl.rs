//! Lists of clients in the DNS (RFC 5782).

use std::net::IpAddr;
use std::time::Duration;

use futures_util::future::join_all;
use mailapi_backend::{Dns, reversed};
use mailapi_model::DomainName;

use super::lookups::Lookups;

/// Maximum number of lists.
pub const MAX_LISTS: usize = 8;

/// Time limit. Lists are public services that answer at once or are out of order.
const TIME: Duration = Duration::from_secs(5);

/// Returns the first list that contains the client (RFC 5782 sections 2.1 and 2.4). A list that does not answer contains nothing.
pub(super) async fn listed<'a>(dns: &dyn Dns, client: IpAddr, lists: &'a [DomainName]) -> Option<&'a DomainName> {
    let (lookups, client) = (&Lookups::new(dns, MAX_LISTS, TIME), reversed(client));
    let ask = |list: &DomainName| {
        let name = format!("{client}.{list}");
        async move { lookups.addresses(&name).await.is_ok_and(|addresses| addresses.iter().any(is_listing)) }
    };
    let found = join_all(lists.iter().map(ask)).await;
    lists.iter().zip(found).find_map(|(list, is_listed)| is_listed.then_some(list))
}

/// Returns whether an address means that a client is listed (RFC 5782 section 2.1). Some lists report errors from
/// 127.255.255.0/24, for example that they do not answer this name server.
fn is_listing(answer: &IpAddr) -> bool {
    match answer {
        IpAddr::V4(answer) => answer.is_loopback() && !answer.octets().starts_with(&[127, 255, 255]),
        IpAddr::V6(_) => false,
    }
}
