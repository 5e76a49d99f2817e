//! Connections of HTTP/2, which carry several requests at once.
//!
//! A client that stops reading one response blocks no write of the connection, so the time-out of writes does not find
//! it. Responses are therefore handed over in pieces, and each piece has a time limit. Idle connections are closed, as
//! with HTTP/1.1.

use std::collections::HashMap;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::{Body, HttpBody};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use hyper::Request;
use hyper::body::{Frame, Incoming, SizeHint};
use hyper::server::conn::http2::Builder;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use mailapi_model::{ClientNetwork, Connections, CountedConnection};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::Instant;

use crate::byte_budget::{ByteBudget, BytePermit, Full, Share};
use crate::closing::Closing;
use crate::error::ApiError;
use crate::head_room::{FREE, MAX_HEAD_BYTES};

/// Maximum number of simultaneous requests of a connection. RFC 9113 section 6.5.2 advises against fewer than 100, for
/// browsers; clients of an API have more connections instead.
const MAX_REQUESTS: u32 = 64;
/// Bytes of unread bodies of a connection. A larger window makes uploads over long distances faster.
const WINDOW: u32 = 256 * 1024;
/// Bytes of a response that are handed over at once.
const PIECE: usize = 16 * 1024;
/// How long a client may pause while it reads a response.
const ANSWER_PAUSE: Duration = Duration::from_secs(30);
/// Time in which a client must close an idle connection after it was asked to.
const LAST_WORDS: Duration = Duration::from_secs(5);
/// Also without an idle time, looks are not endless.
const SHORTEST_PAUSE: Duration = Duration::from_millis(1);
/// Time between two looks at a connection.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// Memory of a header beside its name and its value. A head of many short headers takes several times its length, and
/// HPACK sends each of them as one octet.
const HEADER_BYTES: usize = 96;

/// What the requests in flight take, all connections together. With HTTP/1.1 the number of connections is the limit.
#[derive(Clone)]
pub(crate) struct RequestRoom {
    pub(crate) requests: Connections,
    /// `None` for a trusted proxy.
    pub(crate) client: Option<ClientNetwork>,
    pub(crate) heads: Arc<ByteBudget>,
}

/// The share of a request.
struct Taken {
    _counted: CountedConnection,
    _head: BytePermit,
}

impl RequestRoom {
    fn take<B>(&self, request: &Request<B>) -> Result<Taken, Full> {
        let counted = self.requests.count(self.client).ok_or(Full)?;
        let mut head = self.heads.hold(self.client.map_or(Share::NoCaller, Share::Client));
        head.grow(head_bytes(request).saturating_sub(FREE))?;
        Ok(Taken { _counted: counted, _head: head })
    }
}

fn head_bytes<B>(request: &Request<B>) -> usize {
    let headers = request.headers().iter();
    headers.map(|(name, value)| HEADER_BYTES + name.as_str().len() + value.len()).sum()
}

/// Serves a connection until its client closes it, stops reading, or is idle for `idle_timeout`; or until `closing` has
/// begun and all requests in flight are finished.
pub(crate) async fn serve<S, H, F>(
    stream: S,
    room: RequestRoom,
    handle: H,
    mut closing: Closing,
    idle_timeout: Duration,
) where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    H: Fn(Request<Incoming>) -> F,
    F: Future<Output = Result<Response, Infallible>> + Send + 'static,
{
    let in_flight = InFlight::new();
    let requests = in_flight.clone();
    let service = service_fn(move |request| {
        let taken = room.take(&request);
        let handling = taken.is_ok().then(|| handle(request));
        let ticket = requests.begin(taken.ok());
        async move {
            let response = match handling {
                Some(handling) => handling.await?,
                None => ApiError::from(Full).into_response(),
            };
            Ok::<_, Infallible>(response.map(|body| PacedBody::new(body, ticket)))
        }
    });
    let connection = builder().serve_connection(TokioIo::new(stream), service);
    let mut connection = std::pin::pin!(connection);
    let (mut looks, mut is_leaving) = (tokio::time::interval(LOOK_EVERY.min(idle_timeout).max(SHORTEST_PAUSE)), false);
    loop {
        tokio::select! {
            ended = connection.as_mut() => {
                // A disconnect or a protocol error of the client is not a failure of the server.
                if let Err(error) = ended {
                    tracing::debug!(%error, "connection ended early");
                }
                return;
            }
            () = closing.begun(), if !is_leaving => is_leaving = true,
            now = looks.tick() => match in_flight.look(now, idle_timeout) {
                Activity::Active => continue,
                Activity::Idle => is_leaving = true,
                Activity::Over => return tracing::debug!("connection closed: its client does not read or write"),
            },
        }
        connection.as_mut().graceful_shutdown();
    }
}

fn builder() -> Builder<TokioExecutor> {
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .max_concurrent_streams(MAX_REQUESTS)
        .max_header_list_size(MAX_HEAD_BYTES as u32)
        .initial_stream_window_size(WINDOW)
        .initial_connection_window_size(WINDOW)
        .max_send_buf_size(PIECE);
    builder
}

/// What a connection does.
#[derive(Debug, PartialEq, Eq)]
enum Activity {
    Active,
    /// Without requests for so long that the client is asked to close it.
    Idle,
    /// The client stopped reading, or did not close it.
    Over,
}

/// The requests in flight of a connection, up to the end of their responses.
#[derive(Clone)]
struct InFlight(Arc<Mutex<Requests>>);

struct Requests {
    next: u64,
    /// By number: since when the client has not accepted a piece that is ready for it.
    waiting: HashMap<u64, Option<Instant>>,
    /// End of the last request.
    idle_since: Instant,
}

/// A request until it is dropped.
struct Ticket {
    in_flight: InFlight,
    number: u64,
    /// `None` if the request was refused.
    _taken: Option<Taken>,
}

impl InFlight {
    fn new() -> Self {
        Self(Arc::new(Mutex::new(Requests { next: 0, waiting: HashMap::new(), idle_since: Instant::now() })))
    }

    fn begin(&self, taken: Option<Taken>) -> Ticket {
        let mut requests = self.requests();
        let number = requests.next;
        requests.next += 1;
        requests.waiting.insert(number, None);
        Ticket { in_flight: self.clone(), number, _taken: taken }
    }

    fn look(&self, now: Instant, idle_timeout: Duration) -> Activity {
        let requests = self.requests();
        let is_stuck = |since: &Option<Instant>| since.is_some_and(|since| now.duration_since(since) >= ANSWER_PAUSE);
        let idle = now.saturating_duration_since(requests.idle_since);
        match requests.waiting.is_empty() {
            false if requests.waiting.values().any(is_stuck) => Activity::Over,
            true if idle >= idle_timeout + LAST_WORDS => Activity::Over,
            true if idle >= idle_timeout => Activity::Idle,
            _ => Activity::Active,
        }
    }

    fn requests(&self) -> MutexGuard<'_, Requests> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Ticket {
    /// A piece is ready for the client since then; `None` while there is none.
    fn waits(&self, since: Option<Instant>) {
        self.in_flight.requests().waiting.insert(self.number, since);
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let mut requests = self.in_flight.requests();
        requests.waiting.remove(&self.number);
        requests.idle_since = Instant::now();
    }
}

/// A response in pieces. hyper asks for a piece when the client accepts more.
struct PacedBody {
    body: Body,
    /// The rest of the last data.
    rest: Bytes,
    /// There is no data at all.
    is_empty: bool,
    ticket: Ticket,
}

impl PacedBody {
    fn new(body: Body, ticket: Ticket) -> Self {
        ticket.waits(Some(Instant::now()));
        let is_empty = body.is_end_stream();
        Self { body, rest: Bytes::new(), is_empty, ticket }
    }

    fn piece(&mut self) -> Frame<Bytes> {
        self.ticket.waits(Some(Instant::now()));
        Frame::data(self.rest.split_to(self.rest.len().min(PIECE)))
    }
}

impl HttpBody for PacedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        self.ticket.waits(None);
        while self.rest.is_empty() {
            match ready!(Pin::new(&mut self.body).poll_frame(context)) {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => self.rest = data,
                    Err(trailers) => return Poll::Ready(Some(Ok(trailers))),
                },
                other => return Poll::Ready(other),
            }
        }
        Poll::Ready(Some(Ok(self.piece())))
    }

    /// hyper looks for the end after the last piece was accepted, and the request is in flight until then.
    fn is_end_stream(&self) -> bool {
        self.is_empty
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use axum::Router;
    use axum::routing::get;
    use futures_util::stream;
    use http_body_util::{BodyExt, Empty};
    use hyper::client::conn::http2::{Builder as ClientBuilder, SendRequest};
    use tokio::io::duplex;
    use tokio::sync::watch;
    use tokio::task::JoinHandle;
    use tokio::time::timeout;
    use tower::ServiceExt;

    use super::*;
    use crate::byte_budget::byte_budget;

    const IDLE: Duration = Duration::from_secs(60);
    /// Longer than anything here takes.
    const PATIENCE: Duration = Duration::from_secs(3600);

    /// A connection of a client with the smallest windows.
    struct Client {
        sender: SendRequest<Empty<Bytes>>,
        served: JoinHandle<()>,
        closing: watch::Sender<bool>,
    }

    /// Room for connections of one client.
    fn room() -> RequestRoom {
        let client = Some(ClientNetwork::of([192, 0, 2, 1].into()));
        RequestRoom { requests: Connections::new(1000, 10_000), client, heads: byte_budget(1024 * 1024) }
    }

    async fn connect(router: Router) -> Client {
        connect_in(room(), router).await
    }

    async fn connect_in(room: RequestRoom, router: Router) -> Client {
        let (ours, theirs) = duplex(1024 * 1024);
        let closing = watch::Sender::new(false);
        let handle = move |request: Request<Incoming>| router.clone().oneshot(request);
        let served = tokio::spawn(serve(theirs, room, handle, Closing::new(closing.subscribe()), IDLE));
        let mut builder = ClientBuilder::new(TokioExecutor::new());
        builder.initial_stream_window_size(65_535).initial_connection_window_size(1024 * 1024);
        let (sender, connection) = builder.handshake(TokioIo::new(ours)).await.unwrap();
        tokio::spawn(connection);
        Client { sender, served, closing }
    }

    impl Client {
        async fn get(&mut self, path: &str) -> hyper::Response<Incoming> {
            self.get_with(path, 0).await
        }

        /// Sends this many short headers too.
        async fn get_with(&mut self, path: &str, headers: usize) -> hyper::Response<Incoming> {
            let mut request = Request::get(format!("https://x{path}"));
            for _ in 0..headers {
                request = request.header("a", "");
            }
            let request = request.body(Empty::new()).unwrap();
            self.sender.send_request(request).await.unwrap()
        }
    }

    /// One response that is long, one that never ends, and one that waits for a permit.
    fn router() -> Router {
        let endless = || Body::from_stream(stream::repeat_with(|| Ok::<_, Infallible>(Bytes::from_static(&[0; 100]))));
        Router::new()
            .route("/long", get(async || vec![b'x'; 50 * PIECE + 1]))
            .route("/empty", get(async || ()))
            .route("/endless", get(async move || endless()))
            .route("/silent", get(async || Body::from_stream(stream::pending::<Result<Bytes, Infallible>>())))
    }

    #[tokio::test(start_paused = true)]
    async fn a_response_in_pieces_is_whole() {
        let mut client = connect(router()).await;
        assert_eq!(client.get("/empty").await.into_body().collect().await.unwrap().to_bytes().len(), 0);
        let answer = client.get("/long").await;
        assert_eq!(answer.headers()["content-length"], (50 * PIECE + 1).to_string());
        assert_eq!(answer.into_body().collect().await.unwrap().to_bytes().len(), 50 * PIECE + 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_response_that_is_not_read_closes_the_connection() {
        for path in ["/endless", "/long"] {
            let mut client = connect(router()).await;
            let (_silent, _unread) = (client.get("/silent").await, client.get(path).await);
            let began = Instant::now();
            timeout(PATIENCE, &mut client.served).await.expect("closed").unwrap();
            assert!((ANSWER_PAUSE..ANSWER_PAUSE + 2 * LOOK_EVERY).contains(&began.elapsed()), "{path}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_idle_connection_is_closed_and_one_that_waits_is_not() {
        let mut idle = connect(router()).await;
        idle.get("/empty").await.into_body().collect().await.unwrap();
        timeout(IDLE + LOOK_EVERY + LAST_WORDS, &mut idle.served).await.expect("closed").unwrap();
        let mut waiting = connect(router()).await;
        let silent = waiting.get("/silent").await;
        assert!(timeout(PATIENCE, &mut waiting.served).await.is_err(), "an event stream without events");
        drop(silent);
        timeout(2 * IDLE, &mut waiting.served).await.expect("closed").unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn at_shutdown_requests_in_flight_are_finished() {
        let mut client = connect(router()).await;
        let long = client.get("/long").await;
        client.closing.send_replace(true);
        assert_eq!(long.into_body().collect().await.unwrap().to_bytes().len(), 50 * PIECE + 1);
        timeout(PATIENCE, &mut client.served).await.expect("closed").unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_has_a_limited_number_of_requests() {
        let mut client = connect(router()).await;
        let mut open = Vec::new();
        for _ in 0..MAX_REQUESTS {
            open.push(client.get("/silent").await);
        }
        assert!(timeout(IDLE, client.get("/empty")).await.is_err(), "one too many waits");
        drop(open);
        timeout(IDLE, client.get("/empty")).await.expect("an answer");
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_has_no_more_requests_with_more_connections() {
        let room = RequestRoom { requests: Connections::new(100, 10), ..room() };
        let (mut one, mut two) = (connect_in(room.clone(), router()).await, connect_in(room.clone(), router()).await);
        let mut open = Vec::new();
        for number in 0..10 {
            let client = if number % 2 == 0 { &mut one } else { &mut two };
            open.push(client.get("/silent").await);
        }
        for client in [&mut one, &mut two] {
            assert_eq!(client.get("/empty").await.status(), 503);
        }
        let other = RequestRoom { client: Some(ClientNetwork::of([192, 0, 2, 2].into())), ..room };
        assert_eq!(connect_in(other, router()).await.get("/empty").await.status(), 200);
        drop(open.pop());
        // The server sees the end of the response some steps later.
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(one.get("/empty").await.status(), 200);
    }

    #[tokio::test(start_paused = true)]
    async fn heads_of_requests_in_flight_share_a_room() {
        let room = room();
        let (mut client, mut open) = (connect_in(room.clone(), router()).await, Vec::new());
        for _ in 0..MAX_REQUESTS - 1 {
            open.push(client.get_with("/silent", 450).await);
        }
        let refused = open.iter().filter(|answer| answer.status() == 503).count();
        assert!((40..60).contains(&refused), "{refused}");
        assert!(room.heads.bytes_taken() <= 512 * 1024);
        assert_eq!(client.get_with("/empty", 10).await.status(), 200, "a usual head takes no room");
        drop((open, client));
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(room.heads.bytes_taken(), 0);
    }
}
