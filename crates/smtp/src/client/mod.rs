//! The client side: sets a connection up, then runs transactions over it. No sockets.
//!
//! [`Client`] lives as long as the connection. The host calls [`Client::step`] until it returns
//! [`ClientStep::Ready`]. Then [`Client::transaction`] sends one message after another. The host calls
//! [`Transaction::step`] until it returns [`TransactionStep::Done`], and [`Transaction::finish`] for the
//! [`Outcome`] with a verdict for each recipient. Afterwards [`Client::is_ready`] returns whether the
//! connection can be reused.
//!
//! With PIPELINING, MAIL, all RCPT and DATA leave in one write. The final dot always leaves with the end of the
//! message, as [`TransactionStep::WriteEnd`]. The host should disable Nagle's algorithm (TCP_NODELAY).
//!
//! The host implements the time-outs (RFC 5321 section 4.5.3.2). A time-out covers a whole reply, not each of
//! its octets ([`Transaction::replies_read`]). When a time-out passes, or a read or write fails, the host
//! calls [`Transaction::abandon`] with the [`Cause`], which decides whether the server may have accepted the
//! message. After a failed write, one more read is useful: a server that closes early often sends the reason
//! ([`Transaction::broke_off`]).
//!
//! ```
//! use mailapi_smtp::Envelope;
//! use mailapi_smtp::client::{Client, ClientConfig, ClientStep, End, MessageFacts, TransactionStep, queue_id_in};
//!
//! let mut client = Client::new(ClientConfig::new("mail.example"));
//! client.push(b"220 mx.remote.example ESMTP\r\n");
//! assert_eq!(client.step(), Ok(ClientStep::Write(b"EHLO mail.example\r\n".to_vec())));
//! client.push(b"250-mx.remote.example\r\n250 PIPELINING\r\n");
//! assert_eq!(client.step(), Ok(ClientStep::Ready));
//!
//! let envelope = Envelope::new("ann@mail.example", ["bob@remote.example", "carol@remote.example"]);
//! let message = b"Subject: hello\r\n\r\n.\r\n";
//! let mut transaction = client.transaction(&envelope, MessageFacts::of(message));
//! assert!(matches!(transaction.step(), TransactionStep::Write(commands) if commands.ends_with(b"DATA\r\n")));
//! transaction.push(b"250 Ok\r\n250 Ok\r\n550 5.1.1 Unknown\r\n354 Go ahead\r\n");
//! assert_eq!(transaction.step(), TransactionStep::Message);
//! transaction.give(message, true);
//! let body = b"Subject: hello\r\n\r\n..\r\n.\r\n".to_vec();
//! assert_eq!(transaction.step(), TransactionStep::WriteEnd(body));
//! transaction.push(b"250 2.0.0 Ok: queued as 4Zyx7Q2bBzz3Q\r\n");
//! assert_eq!(transaction.step(), TransactionStep::Done);
//! let outcome = transaction.finish();
//! assert_eq!(outcome.rcpt_replies[1].as_ref().map(|reply| reply.code), Some(550));
//! assert!(matches!(&outcome.end, End::Accepted(reply) if queue_id_in(reply) == Some("4Zyx7Q2bBzz3Q")));
//! assert!(client.is_ready());
//! ```

mod body;
mod capabilities;
mod commands;
mod config;
mod connection;
mod outcome;
mod queue_id;
mod reply_reader;
mod transaction;

pub use body::MessageFacts;
pub use capabilities::{Capabilities, ServerLimits};
pub use config::{ClientConfig, TlsPolicy};
pub use connection::{Client, ClientStep};
pub use outcome::{Cause, End, Failure, Outcome, RecipientOutcome, Stage};
pub use queue_id::queue_id_in;
pub use transaction::{Transaction, TransactionStep};
