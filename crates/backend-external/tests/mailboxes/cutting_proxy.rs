//! A proxy before a server that cuts connections within a response.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use crate::model_server::Dice;

/// The server's output before login is shorter than this.
const LOG_IN_BYTES: usize = 4_000;

/// A proxy; dropping it stops it.
pub(crate) struct CuttingProxy {
    pub(crate) port: u16,
    cuts: Arc<AtomicBool>,
    has_cut: Arc<AtomicBool>,
    task: JoinHandle<()>,
}

impl CuttingProxy {
    pub(crate) async fn start(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a loopback port");
        let port = listener.local_addr().expect("its address").port();
        let (cuts, has_cut) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let (of_task, number) = ((cuts.clone(), has_cut.clone()), AtomicU64::new(0));
        let task = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let server = TcpStream::connect(server).await.expect("the server");
                let dice = Dice::new(number.fetch_add(1, Ordering::Relaxed));
                tokio::spawn(pass(client, server, dice, of_task.clone()));
            }
        });
        Self { port, cuts, has_cut, task }
    }

    /// Sets whether connections are cut from now on.
    pub(crate) fn cut(&self, cuts: bool) {
        self.cuts.store(cuts, Ordering::SeqCst);
        self.has_cut.store(false, Ordering::SeqCst);
    }

    /// Whether a connection was cut since the last reset.
    pub(crate) fn has_cut(&self) -> bool {
        self.has_cut.load(Ordering::SeqCst)
    }
}

impl Drop for CuttingProxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn pass(client: TcpStream, server: TcpStream, dice: Dice, (cuts, has_cut): (Arc<AtomicBool>, Arc<AtomicBool>)) {
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let forth = tokio::io::copy(&mut from_client, &mut to_server);
    let back = async {
        let (mut buffer, mut passed) = (vec![0; 700], 0);
        let ends_at = LOG_IN_BYTES + dice.below(6_000);
        loop {
            let read = from_server.read(&mut buffer).await.unwrap_or(0);
            let mut piece = &buffer[..read];
            if cuts.load(Ordering::SeqCst) && passed + read > ends_at {
                has_cut.store(true, Ordering::SeqCst);
                piece = &piece[..dice.below(read)];
            }
            if to_client.write_all(piece).await.is_err() || piece.len() < read || read == 0 {
                return;
            }
            passed += read;
        }
    };
    tokio::select! {
        _ = forth => {}
        () = back => {}
    }
}
