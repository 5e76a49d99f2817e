//! The records of an imitated provider, and how it misbehaves.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};

use tokio::sync::Notify;

/// A record as the provider's API shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StoredRecord {
    pub(crate) id: u64,
    /// Without the final dot.
    pub(crate) name: String,
    pub(crate) kind: String,
    pub(crate) ttl: u32,
    pub(crate) value: String,
}

/// A request, as an imitation sees it.
#[derive(Debug, Clone)]
pub(crate) struct FakeRequest {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) query: BTreeMap<String, String>,
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: String,
}

/// An answer of an imitation.
#[derive(Debug, Clone)]
pub(crate) struct FakeAnswer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) body: String,
}

/// What goes wrong with a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ApiTrouble {
    /// Nothing happens, and the answer has this status.
    Status(u16),
    /// The request is done, and the answer has this status.
    StatusAfterwards(u16),
    /// Nothing happens, and clients shall wait for these seconds.
    Limited(u32),
    /// The request is done, and half of the answer arrives.
    HalfBody,
    /// The request is done, and the answer has half of its body with the right length.
    CutJson,
    /// Nothing happens, and the connection ends.
    CutBefore,
    /// The request is done, and the connection ends.
    CutAfterwards,
    /// The request is carried out, and no answer follows.
    Hang,
    /// Nothing happens, and the answer leads to another host.
    Redirect,
    /// The body of the answer has no end.
    Endless,
    /// Nothing happens, and the answer repeats the credentials of the request.
    Echo(u16),
}

/// Which requests go wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TroubleAt {
    Reads,
    Writes,
}

/// The state of an imitated provider.
#[derive(Debug, Default)]
pub(crate) struct ProviderState {
    pub(crate) zones: Vec<String>,
    pub(crate) records: Vec<StoredRecord>,
    /// Requests in the form `GET /path`.
    pub(crate) requests: Vec<String>,
    /// What goes wrong with the next requests, and how often.
    pub(crate) troubles: Vec<(TroubleAt, usize, ApiTrouble)>,
    /// The number of reads after each write that show the state before it.
    pub(crate) stale_reads: usize,
    stale: Option<(Vec<StoredRecord>, usize)>,
    last_id: u64,
}

/// An imitated provider.
#[derive(Debug, Default)]
pub(crate) struct ProviderStore {
    state: Mutex<ProviderState>,
    /// Woken by each request that goes wrong.
    pub(crate) troubled: Notify,
}

impl ProviderStore {
    pub(crate) fn lock(&self) -> MutexGuard<'_, ProviderState> {
        self.state.lock().unwrap()
    }

    /// Returns the trouble of the next request of a kind.
    pub(crate) fn trouble(&self, at: TroubleAt) -> Option<ApiTrouble> {
        let mut state = self.lock();
        let (_, times, trouble) = state.troubles.iter_mut().find(|(when, times, _)| *when == at && *times > 0)?;
        *times -= 1;
        Some(*trouble)
    }
}

impl ProviderState {
    pub(crate) fn add(&mut self, name: &str, kind: &str, ttl: u32, value: &str) -> u64 {
        self.last_id += 1;
        let (name, kind, value) = (name.to_owned(), kind.to_owned(), value.to_owned());
        self.records.push(StoredRecord { id: self.last_id, name, kind, ttl, value });
        self.last_id
    }

    pub(crate) fn remove(&mut self, name: &str, kind: &str) {
        self.records.retain(|record| (record.name.as_str(), record.kind.as_str()) != (name, kind));
    }

    /// Returns the values of a name and type.
    pub(crate) fn values(&self, name: &str, kind: &str) -> Vec<String> {
        let found = self.records.iter().filter(|record| record.name == name && record.kind == kind);
        let mut values: Vec<_> = found.map(|record| record.value.clone()).collect();
        values.sort();
        values
    }

    /// Returns the records that a read shows.
    pub(crate) fn shown(&mut self) -> Vec<StoredRecord> {
        match &mut self.stale {
            Some((records, left)) if *left > 0 => {
                *left -= 1;
                records.clone()
            }
            _ => self.records.clone(),
        }
    }

    /// Begins a write.
    pub(crate) fn write(&mut self) {
        if self.stale_reads > 0 && self.stale.as_ref().is_none_or(|(_, left)| *left == 0) {
            self.stale = Some((self.records.clone(), self.stale_reads));
        }
    }

    /// Returns the number of requests that change something.
    pub(crate) fn writes(&self) -> usize {
        self.requests.iter().filter(|request| !request.starts_with("GET")).count()
    }
}

impl FakeAnswer {
    pub(crate) fn new(status: u16, body: impl Into<String>) -> Self {
        Self { status, headers: Vec::new(), body: body.into() }
    }
}

/// Reads the quoted strings of a text, as the APIs check them. Each has at most 255 octets.
pub(crate) fn strings_of(text: &str) -> Option<Vec<String>> {
    let (mut strings, mut rest) = (Vec::new(), text.trim().chars().peekable());
    while let Some(letter) = rest.next() {
        if letter == ' ' {
            continue;
        }
        if letter != '"' {
            return None;
        }
        let mut string = String::new();
        loop {
            match rest.next()? {
                '"' => break,
                '\\' => string.push(rest.next()?),
                letter => string.push(letter),
            }
        }
        strings.push(string);
        if !matches!(rest.peek(), None | Some(' ')) {
            return None;
        }
    }
    (!strings.is_empty()).then_some(strings)
}
