//! The ceiling of the load generator: a socket that answers every read with the same bytes, without parsing. If
//! it is far above a case and its HTTP floor, the load generator limited neither.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::process::announce;
use crate::outcome::Outcome;

const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 2\r\n\r\nok";
/// Longer than any request of the load generator, which is written at once.
const REQUEST_BYTES: usize = 4096;

/// Serves until the process is killed.
pub(crate) async fn serve() -> Outcome {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    announce(listener.local_addr()?)?;
    loop {
        let (stream, _) = listener.accept().await?;
        tokio::spawn(answer(stream));
    }
}

/// Answers until either side closes the connection.
async fn answer(mut stream: TcpStream) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut request = [0; REQUEST_BYTES];
    while stream.read(&mut request).await? > 0 {
        stream.write_all(ANSWER).await?;
    }
    Ok(())
}
