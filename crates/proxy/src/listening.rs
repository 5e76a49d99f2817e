//! Listening sockets.

use std::io;
use std::net::SocketAddr;

use tokio::net::{TcpListener, TcpSocket};

/// Connections that wait to be accepted. The kernel allows `net.core.somaxconn`, 4096 by default (`listen(2)`).
///
/// The library's 128 are few: when more clients come at once, the kernel drops the last packet of a handshake. Such a client
/// believes that it is connected, and waits for a greeting that never comes.
const BACKLOG: u32 = 4096;

/// Listens at an address.
///
/// # Errors
/// If the address is in use, or not one of this machine.
pub fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    // As the library does: a new server may listen while connections of the former one end.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::net::TcpStream;
    use tokio::time::timeout;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(60);

    #[tokio::test]
    async fn many_clients_connect_before_one_is_accepted() {
        let allowed = std::fs::read_to_string("/proc/sys/net/core/somaxconn").unwrap();
        let count = allowed.trim().parse::<usize>().unwrap().min(400);
        let listener = listen(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
        let address = listener.local_addr().unwrap();
        let mut clients = Vec::new();
        for _ in 0..count {
            clients.push(timeout(PATIENCE, TcpStream::connect(address)).await.expect("in time").unwrap());
        }
        for _ in 0..count {
            timeout(PATIENCE, listener.accept()).await.expect("each client is there").unwrap();
        }
    }
}
