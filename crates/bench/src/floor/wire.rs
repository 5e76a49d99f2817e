//! The load generator's own ceiling: a socket that answers every read with the same octets and understands nothing.
//! Where this is far above a case and its HTTP floor, neither was limited by the load generator.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::process::announce;
use crate::outcome::Outcome;

const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 2\r\n\r\nok";
/// More than a request of the load generator, which is written in one piece.
const REQUEST_BYTES: usize = 4096;

/// Serves until it is killed.
pub(crate) async fn serve() -> Outcome {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    announce(listener.local_addr()?)?;
    loop {
        let (stream, _) = listener.accept().await?;
        tokio::spawn(answer(stream));
    }
}

/// Ends with the connection, whoever closed it.
async fn answer(mut stream: TcpStream) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut request = [0; REQUEST_BYTES];
    while stream.read(&mut request).await? > 0 {
        stream.write_all(ANSWER).await?;
    }
    Ok(())
}
