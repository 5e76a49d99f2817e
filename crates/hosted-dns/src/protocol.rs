//! The lines of JSON between the server and the program.
//!
//! The first line from the server names an account. Each later line is a job, and has one line as its answer. Records are in
//! the syntax of master files. Members that a side does not know are ignored.

use std::collections::BTreeMap;
use std::io;

use mailapi_model::{RecordData, RecordKind, Secret};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncReadExt};

use crate::account::{HostedAccount, InvalidAccount, dns_name};

/// Maximum length of a line, with its end. The largest message of DNS has 64 KiB, of which each octet needs up to four
/// characters here.
pub const MAX_LINE: usize = 256 * 1024;
/// Maximum length of a message. Providers answer with whole pages of HTML.
const MAX_MESSAGE: usize = 1000;

/// What to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HostedJob {
    /// To return the records of a name and type.
    List {
        /// The name, in lower case and without the final dot.
        name: String,
        /// The type.
        kind: RecordKind,
    },
    /// To replace the records of a name and type if they are those of `before`.
    Replace {
        /// The name, in lower case and without the final dot.
        name: String,
        /// The type.
        kind: RecordKind,
        /// The TTL of the new records. The provider may have a higher minimum.
        ttl: u32,
        /// The expected records.
        before: Vec<RecordData>,
        /// The new records.
        after: Vec<RecordData>,
    },
}

/// The answer to a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HostedAnswer {
    /// The records of a name and type.
    Records(HostedRecords),
    /// The provider shows the new records.
    Replaced,
    /// The job failed.
    Failed(HostedError),
}

/// The records of a name and type at a provider. Texts are joined and split again at 255 octets.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HostedRecords {
    /// The TTL, if the provider's client returns one.
    pub ttl: Option<u32>,
    /// The records.
    pub records: Vec<RecordData>,
}

/// Reason for a failed job.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct HostedError {
    /// The kind, by which a caller decides.
    pub kind: FailureKind,
    /// The reason for people, without credentials.
    pub message: String,
}

/// Kinds of failed jobs. Nothing was changed, except after [`FailureKind::Unanswered`], where it is unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    /// The records are not those that the change expects.
    Moved,
    /// The provider does not accept the credentials, or they may not do this.
    Credentials,
    /// The provider has no such zone in this account.
    NotFound,
    /// The provider refuses the change.
    Refused,
    /// The provider limits the number of requests.
    Limited,
    /// The provider gave no usable answer. After a change, it is unknown which records it has.
    Unanswered,
    /// The provider's client cannot express the records.
    Unsupported,
    /// The line is not a job for this account.
    Invalid,
}

/// The line does not follow the protocol. Neither `Display` nor `Debug` shows the line, which may contain credentials.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidLine {
    /// Not JSON of the expected form.
    #[error("not a line of the protocol")]
    Form,
    /// The account is invalid.
    #[error(transparent)]
    Account(#[from] InvalidAccount),
    /// The name is not a domain name.
    #[error("not a domain name")]
    Name,
    /// A record is invalid for the type.
    #[error("not records of the type")]
    Records,
}

/// No line was read.
#[derive(Debug, thiserror::Error)]
pub enum LineError {
    /// The line is longer than [`MAX_LINE`].
    #[error("the line is too long")]
    TooLong,
    /// The input ends within the line.
    #[error("the line has no end")]
    Unfinished,
    /// The input failed.
    #[error(transparent)]
    Io(#[from] io::Error),
}

#[derive(Serialize, Deserialize)]
struct AccountLine {
    provider: String,
    credentials: BTreeMap<String, String>,
    zone: String,
}

#[derive(Serialize, Deserialize)]
#[serde(tag = "job", rename_all = "snake_case")]
enum JobLine {
    List {
        name: String,
        #[serde(rename = "type")]
        kind: String,
    },
    Replace {
        name: String,
        #[serde(rename = "type")]
        kind: String,
        ttl: u32,
        before: Vec<String>,
        after: Vec<String>,
    },
}

#[derive(Serialize, Deserialize)]
#[serde(tag = "result", rename_all = "snake_case")]
enum AnswerLine {
    Records { ttl: Option<u32>, values: Vec<String> },
    Replaced,
    Error { kind: FailureKind, message: String },
}

/// Reads a line without its end. `None` is the end of the input.
///
/// A line without end is an error: its sender ended while it wrote it.
///
/// # Errors
/// See [`LineError`].
pub async fn read_line(input: &mut (impl AsyncBufRead + Unpin)) -> Result<Option<Vec<u8>>, LineError> {
    let mut line = Vec::new();
    input.take(MAX_LINE as u64).read_until(b'\n', &mut line).await?;
    match line.pop() {
        None => Ok(None),
        Some(b'\n') => Ok(Some(line)),
        Some(_) if line.len() + 1 == MAX_LINE => Err(LineError::TooLong),
        Some(_) => Err(LineError::Unfinished),
    }
}

impl HostedAccount {
    /// Returns the line, with its end and with the credentials.
    #[must_use]
    pub fn to_line(&self) -> Secret<String> {
        let credentials = self.credentials().iter().map(|(name, value)| (name.clone(), value.expose().clone()));
        Secret::new(line(&AccountLine {
            provider: self.provider().name.to_owned(),
            credentials: credentials.collect(),
            zone: self.zone().to_owned(),
        }))
    }

    /// Reads a line.
    ///
    /// # Errors
    /// See [`InvalidLine`].
    pub fn from_line(line: &[u8]) -> Result<Self, InvalidLine> {
        let account: AccountLine = serde_json::from_slice(line).map_err(|_| InvalidLine::Form)?;
        let credentials = account.credentials.into_iter().map(|(name, value)| (name, Secret::new(value)));
        Ok(Self::new(&account.provider, credentials, &account.zone)?)
    }
}

impl HostedJob {
    /// Returns the line with its end.
    #[must_use]
    pub fn to_line(&self) -> String {
        line(&match self {
            Self::List { name, kind } => JobLine::List { name: name.clone(), kind: kind.as_str().to_owned() },
            Self::Replace { name, kind, ttl, before, after } => JobLine::Replace {
                name: name.clone(),
                kind: kind.as_str().to_owned(),
                ttl: *ttl,
                before: texts(before),
                after: texts(after),
            },
        })
    }

    /// Reads a line.
    ///
    /// # Errors
    /// See [`InvalidLine`].
    pub fn from_line(line: &[u8]) -> Result<Self, InvalidLine> {
        match serde_json::from_slice(line).map_err(|_| InvalidLine::Form)? {
            JobLine::List { name, kind } => Ok(Self::List { name: parsed_name(&name)?, kind: parsed_kind(&kind)? }),
            JobLine::Replace { name, kind, ttl, before, after } => {
                let (name, kind) = (parsed_name(&name)?, parsed_kind(&kind)?);
                let parsed = |texts: &[String]| {
                    texts.iter().map(|text| RecordData::parse(kind, text)).collect::<Result<_, _>>().ok()
                };
                let before = parsed(&before).ok_or(InvalidLine::Records)?;
                let after = parsed(&after).ok_or(InvalidLine::Records)?;
                Ok(Self::Replace { name, kind, ttl, before, after })
            }
        }
    }

    /// Returns the type of the records.
    #[must_use]
    pub const fn kind(&self) -> RecordKind {
        match self {
            Self::List { kind, .. } | Self::Replace { kind, .. } => *kind,
        }
    }

    /// Returns the name of the records.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::List { name, .. } | Self::Replace { name, .. } => name,
        }
    }
}

impl HostedAnswer {
    /// Returns the line with its end.
    #[must_use]
    pub fn to_line(&self) -> String {
        line(&match self {
            Self::Records(found) => AnswerLine::Records { ttl: found.ttl, values: texts(&found.records) },
            Self::Replaced => AnswerLine::Replaced,
            Self::Failed(error) => AnswerLine::Error { kind: error.kind, message: error.message.clone() },
        })
    }

    /// Reads a line. The type is that of the job.
    ///
    /// # Errors
    /// See [`InvalidLine`].
    pub fn from_line(line: &[u8], kind: RecordKind) -> Result<Self, InvalidLine> {
        match serde_json::from_slice(line).map_err(|_| InvalidLine::Form)? {
            AnswerLine::Records { ttl, values } => {
                let records = values.iter().map(|text| RecordData::parse(kind, text)).collect::<Result<_, _>>();
                Ok(Self::Records(HostedRecords { ttl, records: records.map_err(|_| InvalidLine::Records)? }))
            }
            AnswerLine::Replaced => Ok(Self::Replaced),
            AnswerLine::Error { kind, message } => Ok(Self::Failed(HostedError::new(kind, &message))),
        }
    }
}

impl HostedError {
    /// Makes an error with a message in one line of limited length.
    #[must_use]
    pub fn new(kind: FailureKind, message: &str) -> Self {
        let printable = message.chars().map(|letter| if letter.is_control() { ' ' } else { letter });
        Self { kind, message: printable.take(MAX_MESSAGE).collect() }
    }

    /// Returns the error without credentials in its message.
    #[must_use]
    pub fn scrubbed(self, account: &HostedAccount) -> Self {
        Self { message: account.scrub(&self.message), ..self }
    }
}

fn line(value: &impl Serialize) -> String {
    // Values with string keys have a JSON form.
    let mut line = serde_json::to_string(value).unwrap_or_default();
    line.push('\n');
    line
}

fn texts(records: &[RecordData]) -> Vec<String> {
    records.iter().map(ToString::to_string).collect()
}

fn parsed_name(text: &str) -> Result<String, InvalidLine> {
    dns_name(text).ok_or(InvalidLine::Name)
}

fn parsed_kind(text: &str) -> Result<RecordKind, InvalidLine> {
    text.parse().map_err(|_| InvalidLine::Form)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn lines_have_this_form() {
        let account = HostedAccount::from_line(
            br#"{"provider":"cloudflare","credentials":{"api_token":"abcd"},"zone":"Example.org.","new":1}"#,
        );
        let line = account.unwrap().to_line();
        let expected = r#"{"provider":"cloudflare","credentials":{"api_token":"abcd"},"zone":"example.org"}"#;
        assert_eq!(line.expose().as_str(), format!("{expected}\n"));

        let text = r#"{"job":"list","name":"example.org","type":"MX"}"#;
        let job = HostedJob::from_line(text.as_bytes()).unwrap();
        assert_eq!((job.to_line(), job.kind(), job.name()), (format!("{text}\n"), RecordKind::Mx, "example.org"));

        let text = concat!(
            r#"{"job":"replace","name":"example.org","type":"MX","ttl":3600,"#,
            r#""before":["10 old.example."],"after":["10 mx.example."]}"#
        );
        assert_eq!(HostedJob::from_line(text.as_bytes()).unwrap().to_line(), format!("{text}\n"));

        for text in [
            r#"{"result":"records","ttl":null,"values":["\"v=spf1 -all\""]}"#,
            r#"{"result":"replaced"}"#,
            r#"{"result":"error","kind":"not_found","message":"no zone"}"#,
        ] {
            assert_eq!(
                HostedAnswer::from_line(text.as_bytes(), RecordKind::Txt).unwrap().to_line(),
                format!("{text}\n")
            );
        }
    }

    #[test]
    fn other_lines_are_refused() {
        for (text, error) in [
            ("", InvalidLine::Form),
            ("[]", InvalidLine::Form),
            (r#"{"job":"delete","name":"a","type":"MX"}"#, InvalidLine::Form),
            (r#"{"job":"list","name":"a","type":"A"}"#, InvalidLine::Form),
            (r#"{"job":"list","name":"a/../b","type":"MX"}"#, InvalidLine::Name),
            (r#"{"job":"replace","name":"a","type":"MX","ttl":1,"before":[],"after":["mx."]}"#, InvalidLine::Records),
            (r#"{"job":"replace","name":"a","type":"MX","ttl":-1,"before":[],"after":[]}"#, InvalidLine::Form),
        ] {
            assert_eq!(HostedJob::from_line(text.as_bytes()), Err(error), "{text}");
        }
        let account = br#"{"provider":"desec","credentials":{"token":7},"zone":"a"}"#;
        assert_eq!(HostedAccount::from_line(account), Err(InvalidLine::Form));
        let answer = HostedAnswer::from_line(br#"{"result":"records","ttl":null,"values":["mx"]}"#, RecordKind::Mx);
        assert_eq!(answer, Err(InvalidLine::Records));
    }

    #[test]
    fn messages_are_one_short_line() {
        let error = HostedError::new(FailureKind::Refused, &format!("a\n\u{1b}b{}", "c".repeat(2000)));
        assert!(error.message.starts_with("a  bccc"));
        assert_eq!(error.message.chars().count(), MAX_MESSAGE);
    }

    #[tokio::test]
    async fn lines_without_end_and_long_lines_are_refused() {
        let mut input = &b"one\n\ntwo"[..];
        assert_eq!(read_line(&mut input).await.unwrap(), Some(b"one".to_vec()));
        assert_eq!(read_line(&mut input).await.unwrap(), Some(Vec::new()));
        assert!(matches!(read_line(&mut input).await, Err(LineError::Unfinished)));
        assert!(read_line(&mut input).await.unwrap().is_none());

        let fits = format!("{}\n", "a".repeat(MAX_LINE - 1));
        assert_eq!(read_line(&mut fits.as_bytes()).await.unwrap().unwrap().len(), MAX_LINE - 1);
        let long = format!("{}\n", "a".repeat(MAX_LINE));
        assert!(matches!(read_line(&mut long.as_bytes()).await, Err(LineError::TooLong)));
    }

    fn records() -> impl Strategy<Value = Vec<RecordData>> {
        let text = prop::collection::vec(any::<u8>(), 0..300)
            .prop_map(|octets| RecordData::Txt(octets.chunks(255).map(<[u8]>::to_vec).chain([Vec::new()]).collect()));
        prop::collection::vec(text, 0..4)
    }

    proptest! {
        #[test]
        fn every_job_is_read_as_it_is_written(before in records(), after in records(), ttl: u32) {
            let name = "example.org".to_owned();
            let job = HostedJob::Replace { name, kind: RecordKind::Txt, ttl, before, after };
            prop_assert_eq!(HostedJob::from_line(job.to_line().as_bytes()), Ok(job));
        }

        #[test]
        fn every_answer_is_read_as_it_is_written(records in records(), ttl: Option<u32>) {
            let answer = HostedAnswer::Records(HostedRecords { ttl, records });
            prop_assert_eq!(HostedAnswer::from_line(answer.to_line().as_bytes(), RecordKind::Txt), Ok(answer));
        }

        #[test]
        fn no_octets_make_a_reader_panic(line in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = HostedAccount::from_line(&line);
            let _ = HostedJob::from_line(&line);
            for kind in RecordKind::ALL {
                let _ = HostedAnswer::from_line(&line, kind);
            }
        }

        #[test]
        fn nearly_right_lines_make_no_reader_panic(
            head in prop::sample::select(vec![
                r#"{"job":"list","name":"#, r#"{"job":"replace","name":"a","type":"TXT","ttl":1,"before":[],"after":["#,
                r#"{"result":"records","ttl":1,"values":["#, r#"{"result":"error","kind":"#, r#"{"provider":"desec","#,
            ]),
            tail in r#"[\[\]{}",:\\a-z0-9. ]{0,60}"#,
        ) {
            let line = format!("{head}{tail}");
            let _ = HostedAccount::from_line(line.as_bytes());
            let _ = HostedJob::from_line(line.as_bytes());
            let _ = HostedAnswer::from_line(line.as_bytes(), RecordKind::Txt);
        }
    }
}
