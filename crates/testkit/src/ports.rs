//! Ports for servers whose port is part of their configuration.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU16, Ordering};

/// Below the system's ephemeral ports, so that no other program receives the port between this check and the
/// server's start.
const FIRST: u16 = 10_000;
const COUNT: u16 = 22_000;
/// Processes that run at the same time start at different offsets.
const STRIDE: u32 = 997;

/// Returns a loopback port without a listener, and does not return it again soon.
///
/// # Panics
/// When there is none.
pub fn free_port() -> SocketAddr {
    // Shared by all tests of a process, so that no two receive the same port.
    static NEXT: LazyLock<AtomicU16> = LazyLock::new(|| {
        let place = std::process::id().wrapping_mul(STRIDE) % u32::from(COUNT);
        AtomicU16::new(u16::try_from(place).unwrap_or_default())
    });
    let candidates = (0..COUNT).map(|_| {
        let place = NEXT.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |place| Some((place + 1) % COUNT));
        SocketAddr::from((Ipv4Addr::LOCALHOST, FIRST + place.unwrap_or_default()))
    });
    let mut free = candidates.filter(|address| TcpListener::bind(address).is_ok());
    free.next().expect("a port of the loopback is free")
}
