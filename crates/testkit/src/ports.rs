//! Ports for servers whose port is part of their configuration.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr as UnixAddr, UnixListener};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{LazyLock, Mutex};

/// Below the system's ephemeral ports, so that no other program receives the port between this check and the
/// server's start.
const FIRST: u16 = 10_000;
const COUNT: u16 = 22_000;
/// Processes that run at the same time start at different offsets.
const STRIDE: u32 = 997;

/// Names of the ports that this process has reserved, in the namespace of abstract sockets. The system frees them at its end.
static RESERVED: Mutex<Vec<UnixListener>> = Mutex::new(Vec::new());

/// Reserves a port among the tests of all processes. Otherwise two of them could find it free at the same moment.
fn reserve(port: u16) -> bool {
    let name = UnixAddr::from_abstract_name(format!("mailapi-test-port-{port}"));
    let reserved = name.and_then(|name| UnixListener::bind_addr(&name));
    reserved.map(|name| RESERVED.lock().unwrap().push(name)).is_ok()
}

/// Returns a loopback port without a listener, which no other test receives while this process runs.
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
    let mut free = candidates.filter(|address| TcpListener::bind(address).is_ok() && reserve(address.port()));
    free.next().expect("a port of the loopback is free")
}
