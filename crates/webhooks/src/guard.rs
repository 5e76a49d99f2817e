//! Which addresses may receive events. Without this check, a user of the API could make the server send requests into
//! the operator's own network (server-side request forgery).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

/// The rule for addresses of receivers.
#[derive(Debug, Clone, Default)]
pub struct AddressGuard {
    networks: Vec<IpNet>,
    loopback: bool,
}

/// Who registered a receiver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Registrant {
    /// An admin, who may also name a receiver on this machine.
    Admin,
    /// The owner of a mailbox. Users must not reach the programs on this machine, even if a proxy on this machine
    /// forwards their requests.
    User,
}

/// Why a receiver's address is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AddressRefused {
    /// The name has no address.
    #[error("the host has no address")]
    None,
    /// An address of the host is not globally reachable.
    #[error("the host has an address that is not public; `webhooks.allow_networks` allows more networks")]
    NotPublic,
    /// `http` is allowed only for receivers on this machine.
    #[error("must be an https URL; http requires a receiver on this machine and a loopback address in `http.listen`")]
    PlainHttp,
}

/// Special networks of IPv4 that are not globally reachable (IANA IPv4 Special-Purpose Address Registry), with
/// multicast (RFC 5771) and the relays of 6to4 (RFC 7526).
const SPECIAL_V4: [(Ipv4Addr, u8); 15] = [
    (Ipv4Addr::UNSPECIFIED, 8),
    (Ipv4Addr::new(10, 0, 0, 0), 8),
    (Ipv4Addr::new(100, 64, 0, 0), 10),
    (Ipv4Addr::new(127, 0, 0, 0), 8),
    (Ipv4Addr::new(169, 254, 0, 0), 16),
    (Ipv4Addr::new(172, 16, 0, 0), 12),
    (Ipv4Addr::new(192, 0, 0, 0), 24),
    (Ipv4Addr::new(192, 0, 2, 0), 24),
    (Ipv4Addr::new(192, 88, 99, 0), 24),
    (Ipv4Addr::new(192, 168, 0, 0), 16),
    (Ipv4Addr::new(198, 18, 0, 0), 15),
    (Ipv4Addr::new(198, 51, 100, 0), 24),
    (Ipv4Addr::new(203, 0, 113, 0), 24),
    (Ipv4Addr::new(224, 0, 0, 0), 4),
    (Ipv4Addr::new(240, 0, 0, 0), 4),
];

/// The part of IPv6 that is assigned for global unicast (RFC 4291 section 2.4). Everything else is special.
const GLOBAL_V6: (Ipv6Addr, u8) = (Ipv6Addr::new(0x2000, 0, 0, 0, 0, 0, 0, 0), 3);

/// Special networks within [`GLOBAL_V6`]: protocol assignments with Teredo, and documentation (IANA IPv6
/// Special-Purpose Address Registry).
const SPECIAL_V6: [(Ipv6Addr, u8); 3] = [
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 23),
    (Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0), 32),
    (Ipv6Addr::new(0x3fff, 0, 0, 0, 0, 0, 0, 0), 20),
];

impl AddressGuard {
    /// Creates the rule. Receivers in `networks` are allowed although they are not public. With `loopback`, so are
    /// admins' receivers on this machine, also over `http`.
    #[must_use]
    pub const fn new(networks: Vec<IpNet>, loopback: bool) -> Self {
        Self { networks, loopback }
    }

    /// Checks all addresses of a host. One disallowed address refuses the host, so the result does not depend on the
    /// address that a connection chooses.
    ///
    /// # Errors
    /// [`AddressRefused`]
    pub fn check(&self, registrant: Registrant, is_tls: bool, addresses: &[IpAddr]) -> Result<(), AddressRefused> {
        if addresses.is_empty() {
            return Err(AddressRefused::None);
        }
        let on_this_machine = addresses.iter().all(|address| address.to_canonical().is_loopback());
        if on_this_machine && self.loopback && registrant == Registrant::Admin {
            return Ok(());
        }
        if !addresses.iter().all(|address| self.allows(*address)) {
            return Err(AddressRefused::NotPublic);
        }
        if is_tls { Ok(()) } else { Err(AddressRefused::PlainHttp) }
    }

    fn allows(&self, address: IpAddr) -> bool {
        let inner = unwrapped(address);
        let is_own = |address: &IpAddr| self.networks.iter().any(|network| network.contains(address));
        is_public(inner) || is_own(&address) || is_own(&inner)
    }
}

/// Returns the IPv4 address that packets to this address reach, if there is one.
fn unwrapped(address: IpAddr) -> IpAddr {
    let IpAddr::V6(v6) = address else { return address };
    let segments = v6.segments();
    let embedded = |high: u16, low: u16| IpAddr::V4(Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low)));
    match segments {
        // IPv4-mapped (RFC 4291 section 2.5.5.2), and the well-known prefix of NAT64 (RFC 6052 section 2.1).
        [0, 0, 0, 0, 0, 0xffff, high, low] | [0x64, 0xff9b, 0, 0, 0, 0, high, low] => embedded(high, low),
        // 6to4 (RFC 3056 section 2).
        [0x2002, high, low, ..] => embedded(high, low),
        _ => address,
    }
}

/// Returns whether an address is globally reachable.
fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => !SPECIAL_V4.iter().any(|(first, bits)| v4_net(*first, *bits).contains(&v4)),
        IpAddr::V6(v6) => {
            let is_in = |(first, bits): &(Ipv6Addr, u8)| v6_net(*first, *bits).contains(&v6);
            is_in(&GLOBAL_V6) && !SPECIAL_V6.iter().any(is_in)
        }
    }
}

const fn v4_net(first: Ipv4Addr, bits: u8) -> Ipv4Net {
    Ipv4Net::new_assert(first, bits)
}

const fn v6_net(first: Ipv6Addr, bits: u8) -> Ipv6Net {
    Ipv6Net::new_assert(first, bits)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Addresses that must never receive a request without a setting, by the registries of IANA.
    const HOSTILE: &[&str] = &[
        "0.0.0.0",
        "0.1.2.3",
        "10.0.0.1",
        "10.255.255.255",
        "100.64.0.1",
        "100.127.255.255",
        "127.0.0.1",
        "127.255.255.254",
        "169.254.0.1",
        "169.254.169.254",
        "172.16.0.1",
        "172.31.255.255",
        "192.0.0.1",
        "192.0.0.170",
        "192.0.2.1",
        "192.88.99.1",
        "192.168.0.1",
        "192.168.255.255",
        "198.18.0.1",
        "198.19.255.255",
        "198.51.100.1",
        "203.0.113.1",
        "224.0.0.1",
        "239.255.255.255",
        "240.0.0.1",
        "255.255.255.255",
        "::",
        "::1",
        "::7f00:1",
        "::ffff:127.0.0.1",
        "::ffff:10.0.0.1",
        "::ffff:169.254.169.254",
        "::ffff:0:127.0.0.1",
        "64:ff9b::127.0.0.1",
        "64:ff9b::10.0.0.1",
        "64:ff9b::169.254.169.254",
        "64:ff9b:1::1",
        "64:ff9b:1::203.0.113.1",
        "100::1",
        "2001::1",
        "2001:0:4136:e378:8000:63bf:3fff:fdd2",
        "2001:2::1",
        "2001:10::1",
        "2001:20::1",
        "2001:db8::1",
        "2002:7f00:1::1",
        "2002:a00:1::1",
        "2002:a9fe:a9fe::1",
        "2002:c0a8:101::1",
        "3fff::1",
        "3fff:fff::1",
        "4000::1",
        "5f00::1",
        "fc00::1",
        "fd00::1",
        "fd12:3456:789a::1",
        "fe80::1",
        "fec0::1",
        "ff02::1",
        "ff0e::1",
        "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
    ];

    const PUBLIC: &[&str] = &[
        "1.1.1.1",
        "9.255.255.255",
        "11.0.0.1",
        "100.63.255.255",
        "100.128.0.1",
        "126.255.255.255",
        "128.0.0.1",
        "172.15.255.255",
        "172.32.0.1",
        "192.0.1.1",
        "192.169.0.1",
        "198.17.255.255",
        "198.20.0.1",
        "223.255.255.255",
        "::ffff:1.1.1.1",
        "64:ff9b::1.1.1.1",
        "2001:200::1",
        "2002:101:101::1",
        "2606:4700:4700::1111",
        "2a00:1450:4001::1",
        "3ffe::1",
    ];

    fn addresses(texts: &[&str]) -> Vec<IpAddr> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[test]
    fn hostile_addresses_are_refused() {
        let guard = AddressGuard::default();
        for address in addresses(HOSTILE) {
            for is_tls in [true, false] {
                assert_eq!(
                    guard.check(Registrant::Admin, is_tls, &[address]),
                    Err(AddressRefused::NotPublic),
                    "{address}"
                );
            }
        }
        assert_eq!(guard.check(Registrant::Admin, true, &[]), Err(AddressRefused::None));
    }

    #[test]
    fn public_addresses_are_for_https() {
        let guard = AddressGuard::new(Vec::new(), true);
        for address in addresses(PUBLIC) {
            assert_eq!(guard.check(Registrant::Admin, true, &[address]), Ok(()), "{address}");
            assert_eq!(guard.check(Registrant::Admin, false, &[address]), Err(AddressRefused::PlainHttp), "{address}");
        }
    }

    #[test]
    fn one_hostile_address_among_others_refuses_the_host() {
        let guard = AddressGuard::default();
        for hostile in addresses(HOSTILE) {
            for mixed in [[hostile, addresses(PUBLIC)[0]], [addresses(PUBLIC)[0], hostile]] {
                assert_eq!(guard.check(Registrant::Admin, true, &mixed), Err(AddressRefused::NotPublic), "{hostile}");
            }
        }
    }

    #[test]
    fn own_networks_are_opened_by_the_setting_alone() {
        let guard = AddressGuard::new(vec!["10.1.0.0/16".parse().unwrap(), "fd00::/8".parse().unwrap()], false);
        for address in addresses(&["10.1.2.3", "::ffff:10.1.2.3", "64:ff9b::10.1.2.3", "fd00::1"]) {
            assert_eq!(guard.check(Registrant::Admin, true, &[address]), Ok(()), "{address}");
            assert_eq!(guard.check(Registrant::Admin, false, &[address]), Err(AddressRefused::PlainHttp), "{address}");
        }
        for address in addresses(&["10.2.0.1", "127.0.0.1", "::1", "::ffff:10.2.0.1"]) {
            assert_eq!(guard.check(Registrant::Admin, true, &[address]), Err(AddressRefused::NotPublic), "{address}");
        }
    }

    #[test]
    fn this_machine_is_a_receiver_while_it_serves_itself_alone() {
        let guard = AddressGuard::new(Vec::new(), true);
        for address in addresses(&["127.0.0.1", "127.8.9.1", "::1", "::ffff:127.0.0.1"]) {
            assert_eq!(
                (guard.check(Registrant::Admin, false, &[address]), guard.check(Registrant::Admin, true, &[address])),
                (Ok(()), Ok(())),
                "{address}"
            );
            assert_eq!(guard.check(Registrant::User, true, &[address]), Err(AddressRefused::NotPublic), "{address}");
            let mixed = [address, addresses(PUBLIC)[0]];
            assert_eq!(guard.check(Registrant::Admin, false, &mixed), Err(AddressRefused::NotPublic), "{address}");
        }
        for address in addresses(&["64:ff9b::127.0.0.1", "2002:7f00:1::1", "10.0.0.1", "169.254.169.254"]) {
            assert_eq!(guard.check(Registrant::Admin, false, &[address]), Err(AddressRefused::NotPublic), "{address}");
        }
    }

    proptest! {
        #[test]
        fn a_wrapped_address_is_as_public_as_the_address(bits: u32) {
            let v4 = Ipv4Addr::from_bits(bits);
            let [a, b, c, d] = v4.octets();
            let (high, low) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
            for wrapped in [
                v4.to_ipv6_mapped(),
                Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, high, low),
                Ipv6Addr::new(0x2002, high, low, 0, 0, 0, 0, 1),
            ] {
                let guard = AddressGuard::default();
                prop_assert_eq!(guard.check(Registrant::Admin, true, &[wrapped.into()]), guard.check(Registrant::Admin, true, &[v4.into()]), "{}", wrapped);
            }
        }
    }
}
