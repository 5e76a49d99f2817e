//! Asks and changes the name servers of a zone: implements the [`ZoneDns`] port.
//!
//! Everything goes over TCP (RFC 7766): long answers need no second question, and some servers drop long updates that come
//! over UDP. Answers to updates are signed (RFC 8945), so a stranger cannot claim a success.

use std::collections::BTreeSet;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use hickory_resolver::TokioResolver;
use hickory_resolver::net::NetError;
use hickory_resolver::proto::op::{Message, OpCode, Query, ResponseCode};
use hickory_resolver::proto::rr::rdata::tsig::{TsigAlgorithm as Algorithm, TsigError};
use hickory_resolver::proto::rr::rdata::{CNAME, MX, SRV, TLSA, TXT};
use hickory_resolver::proto::rr::{DNSClass, Name, RData, Record, RecordType, TSigVerifier, TSigner};
use mailapi_backend::{Dns, DnsError, DnsZone, FoundRecords, UpdateError, ZoneDns};
use mailapi_model::{Clock, RecordData, RecordKind, SetChange, TlsaRecord, TsigAlgorithm, TsigKey};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::validation::tlsa_record;
use crate::{NetworkDns, host, of_network, query_name};

/// Time for one question and its answer. An update of a signed zone takes some milliseconds.
const PATIENCE: Duration = Duration::from_secs(10);

/// Seconds by which the clocks may differ (RFC 8945 section 10).
const FUDGE: u16 = 300;

/// Name servers of a zone that are asked. More are not needed to know that the others follow.
const MOST_SERVERS: usize = 13;

/// Asks the name servers of zones.
pub struct ZoneClient {
    /// Has no cache.
    resolver: Arc<NetworkDns>,
    clock: Arc<dyn Clock>,
}

impl ZoneClient {
    /// Creates a client that finds zones by this resolver, which must have no cache: see
    /// [`DnsSettings::without_cache`](crate::DnsSettings::without_cache).
    #[must_use]
    pub fn new(resolver: Arc<NetworkDns>, clock: Arc<dyn Clock>) -> Self {
        Self { resolver, clock }
    }
}

#[async_trait]
impl ZoneDns for ZoneClient {
    async fn zone_of(&self, name: &str) -> Result<DnsZone, DnsError> {
        let mut apex = query_name(name)?;
        while !apex.is_root() {
            let servers = name_servers(&self.resolver.resolver, &apex).await?;
            if !servers.is_empty() {
                let servers = servers.into_iter().take(MOST_SERVERS).collect();
                return Ok(DnsZone { apex: host(&apex).to_ascii_lowercase(), servers });
            }
            apex = apex.base_name();
        }
        Err(DnsError::NoSuchName)
    }

    async fn records_at(&self, server: SocketAddr, name: &str, kind: RecordKind) -> Result<FoundRecords, DnsError> {
        let name = query_name(name)?;
        let mut question = Message::query();
        question.metadata.recursion_desired = false;
        question.add_query(Query::query(name.clone(), record_type(kind)));
        let bytes = question.to_vec().map_err(failed)?;
        let answer = exchange(server, &bytes).await.map_err(unread)?;
        let answer = Message::from_vec(&answer).map_err(failed)?;
        if answer.metadata.id != question.metadata.id {
            return Err(DnsError::Failed(format!("{server} answered another question")));
        }
        match answer.metadata.response_code {
            ResponseCode::NoError | ResponseCode::NXDomain if answer.metadata.authoritative => {
                Ok(found(&answer.answers, &name, kind))
            }
            ResponseCode::NoError | ResponseCode::NXDomain => {
                Err(DnsError::Failed(format!("{server} is not responsible for {}", host(&name))))
            }
            code => Err(DnsError::Failed(format!("{server} answered {code}"))),
        }
    }

    async fn addresses_of(&self, host: &str) -> Result<Vec<IpAddr>, DnsError> {
        self.resolver.addresses(host).await
    }

    async fn replace(&self, server: SocketAddr, key: &TsigKey, change: &SetChange) -> Result<(), UpdateError> {
        let mut message = update(change).map_err(|error| UpdateError::Other(error.to_string()))?;
        let signer = signer(key)?;
        let now = u64::try_from(self.clock.now().as_seconds()).unwrap_or_default();
        let verifier = message.finalize(&signer, now).map_err(unsigned)?;
        let bytes = message.to_vec().map_err(unsigned)?;
        let answer = exchange(server, &bytes).await.map_err(|error| UpdateError::Unanswered(error.to_string()))?;
        judge(&answer, message.metadata.id, verifier, &change.zone)
    }
}

fn unsigned(error: impl ToString) -> UpdateError {
    UpdateError::Other(error.to_string())
}

fn failed(error: impl ToString) -> DnsError {
    DnsError::Failed(error.to_string())
}

fn unread(error: io::Error) -> DnsError {
    match error.kind() {
        io::ErrorKind::TimedOut => DnsError::Timeout,
        _ => DnsError::Failed(error.to_string()),
    }
}

/// Returns the name servers of a zone; none if the name is not the highest one of a zone.
async fn name_servers(resolver: &TokioResolver, apex: &Name) -> Result<BTreeSet<String>, DnsError> {
    let found = match resolver.lookup(apex.clone(), RecordType::NS).await {
        Ok(found) => found,
        Err(error) if error.is_nx_domain() || error.is_no_records_found() => return Ok(BTreeSet::new()),
        Err(NetError::Timeout) => return Err(DnsError::Timeout),
        Err(error) => return Err(of_network(&error)),
    };
    let servers =
        found.answers().iter().filter(|record| record.name == *apex).filter_map(|record| match &record.data {
            RData::NS(server) => Some(host(&server.0).to_ascii_lowercase()),
            _ => None,
        });
    Ok(servers.collect())
}

/// Sends a message and returns the answer (RFC 1035 section 4.2.2).
async fn exchange(server: SocketAddr, message: &[u8]) -> io::Result<Vec<u8>> {
    let length = u16::try_from(message.len()).map_err(|_| io::Error::other("the message is too long"))?;
    let asked = async {
        let mut stream = TcpStream::connect(server).await?;
        stream.write_all(&[&length.to_be_bytes(), message].concat()).await?;
        let mut answer = vec![0; usize::from(stream.read_u16().await?)];
        stream.read_exact(&mut answer).await?;
        Ok(answer)
    };
    timeout(PATIENCE, asked).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}

const fn record_type(kind: RecordKind) -> RecordType {
    match kind {
        RecordKind::Cname => RecordType::CNAME,
        RecordKind::Mx => RecordType::MX,
        RecordKind::Srv => RecordType::SRV,
        RecordKind::Tlsa => RecordType::TLSA,
        RecordKind::Txt => RecordType::TXT,
    }
}

fn found(answers: &[Record], name: &Name, kind: RecordKind) -> FoundRecords {
    let mut found = FoundRecords::default();
    for record in answers.iter().filter(|record| record.name == *name) {
        match data(&record.data) {
            Some(RecordData::Cname(target)) if kind != RecordKind::Cname => found.alias = Some(target),
            Some(data) if data.kind() == kind => {
                found.set.ttl = record.ttl;
                found.set.records.push(data);
            }
            _ => {}
        }
    }
    found
}

fn data(data: &RData) -> Option<RecordData> {
    let host = |name: &Name| host(name).to_ascii_lowercase();
    Some(match data {
        RData::CNAME(target) => RecordData::Cname(host(&target.0)),
        RData::MX(mx) => RecordData::Mx { preference: mx.preference, exchange: host(&mx.exchange) },
        RData::SRV(srv) => {
            RecordData::Srv { priority: srv.priority, weight: srv.weight, port: srv.port, target: host(&srv.target) }
        }
        RData::TLSA(tlsa) => RecordData::Tlsa(tlsa_record(tlsa)),
        RData::TXT(txt) => RecordData::Txt(txt.txt_data.iter().map(|string| string.to_vec()).collect()),
        _ => return None,
    })
}

fn to_wire(data: &RecordData) -> Result<RData, DnsError> {
    Ok(match data {
        RecordData::Cname(target) => RData::CNAME(CNAME(query_name(target)?)),
        RecordData::Mx { preference, exchange } => RData::MX(MX::new(*preference, query_name(exchange)?)),
        RecordData::Srv { priority, weight, port, target } => {
            RData::SRV(SRV::new(*priority, *weight, *port, query_name(target)?))
        }
        RecordData::Tlsa(TlsaRecord { usage, selector, matching, data }) => {
            RData::TLSA(TLSA::new((*usage).into(), (*selector).into(), (*matching).into(), data.clone()))
        }
        RecordData::Txt(strings) => RData::TXT(TXT::from_bytes(strings.iter().map(Vec::as_slice).collect())),
    })
}

/// Builds one message for the whole change: two would leave the domain without records if the second one is refused.
fn update(change: &SetChange) -> Result<Message, DnsError> {
    let (name, kind) = (query_name(&change.name)?, record_type(change.kind));
    let mut message = Message::query();
    message.metadata.op_code = OpCode::Update;
    message.metadata.recursion_desired = false;
    message.add_query(Query::query(query_name(&change.zone)?, RecordType::SOA));
    // The prerequisites (RFC 2136 section 2.4) are in the place of answers, the changes in that of authorities.
    message.add_answers(before(change, &name)?);
    if change.before.has_records_of(&change.after) {
        return Ok(message);
    }
    if !change.before.records.is_empty() {
        message.add_authority(empty(&name, kind, DNSClass::ANY));
    }
    for data in &change.after.records {
        message.add_authority(Record::from_rdata(name.clone(), change.after.ttl, to_wire(data)?));
    }
    Ok(message)
}

/// The records that must be there, or the names that must not.
fn before(change: &SetChange, name: &Name) -> Result<Vec<Record>, DnsError> {
    let records = change.before.records.iter();
    let there = records.map(|data| Ok(Record::from_rdata(name.clone(), 0, to_wire(data)?)));
    let mut there = there.collect::<Result<Vec<_>, DnsError>>()?;
    if there.is_empty() {
        let absent = |kind| empty(name, kind, DNSClass::NONE);
        // Servers ignore an alias beside other records, and other records beside an alias, and answer that all is well.
        match change.kind {
            RecordKind::Cname => there.push(absent(RecordType::ANY)),
            kind => there.extend([absent(record_type(kind)), absent(RecordType::CNAME)]),
        }
    }
    Ok(there)
}

fn empty(name: &Name, kind: RecordType, class: DNSClass) -> Record {
    let mut record = Record::update0(name.clone(), 0, kind);
    record.dns_class = class;
    record
}

fn signer(key: &TsigKey) -> Result<TSigner, UpdateError> {
    let algorithm = match key.algorithm {
        TsigAlgorithm::HmacSha256 => Algorithm::HmacSha256,
        TsigAlgorithm::HmacSha384 => Algorithm::HmacSha384,
        TsigAlgorithm::HmacSha512 => Algorithm::HmacSha512,
    };
    // Some servers compare the name of the key with case.
    let name = query_name(&key.name.to_ascii_lowercase()).map_err(|_| UpdateError::BadKey)?;
    TSigner::new(key.secret.expose().clone(), algorithm, name, FUDGE).map_err(unsigned)
}

/// Reads the code before the signature: refusals have none at some servers, and are hints then.
fn judge(answer: &[u8], id: u16, verifier: Option<TSigVerifier>, zone: &str) -> Result<(), UpdateError> {
    let Ok(message) = Message::from_vec(answer) else { return Err(UpdateError::NotSigned) };
    let is_signed = verifier.is_some_and(|mut verifier| verifier.verify(answer).is_ok());
    if message.metadata.id != id {
        return Err(UpdateError::NotSigned);
    }
    let tsig = message.signature().and_then(|signature| signature.data.error.as_ref());
    Err(match message.metadata.response_code {
        ResponseCode::NoError if is_signed => return Ok(()),
        ResponseCode::NoError => UpdateError::NotSigned,
        ResponseCode::YXDomain | ResponseCode::YXRRSet | ResponseCode::NXRRSet | ResponseCode::NXDomain
            if is_signed =>
        {
            UpdateError::Moved
        }
        ResponseCode::NotAuth => match tsig {
            Some(TsigError::BadTime) => UpdateError::Clock,
            None if is_signed => UpdateError::NotServed(zone.to_owned()),
            _ => UpdateError::BadKey,
        },
        ResponseCode::NotZone | ResponseCode::NotImp => UpdateError::NotServed(zone.to_owned()),
        ResponseCode::Refused if is_signed => UpdateError::Refused,
        ResponseCode::Refused => UpdateError::RefusedUnsigned,
        code if is_signed => UpdateError::Other(code.to_string()),
        code => UpdateError::Other(format!("{code} without a signature")),
    })
}

#[cfg(test)]
mod tests {
    use mailapi_model::{RecordSet, Secret};
    use proptest::prelude::*;

    use super::*;

    const NOW: u64 = 1_790_000_000;

    fn key() -> TsigKey {
        let secret = Secret::new(b"a secret of the tests".to_vec());
        TsigKey { name: "mailapi".to_owned(), algorithm: TsigAlgorithm::HmacSha256, secret }
    }

    /// An update, signed, with what verifies its answer.
    fn signed() -> (Message, Option<TSigVerifier>) {
        let change = SetChange {
            zone: "example.org".to_owned(),
            name: "x.example.org".to_owned(),
            kind: RecordKind::Txt,
            before: RecordSet::default(),
            after: RecordSet { ttl: 1, records: vec![RecordData::text("x")] },
        };
        let mut message = update(&change).unwrap();
        let verifier = message.finalize(&signer(&key()).unwrap(), NOW).unwrap();
        (message, verifier)
    }

    fn answer(id: u16, code: ResponseCode) -> Message {
        let mut answer = Message::response(id, OpCode::Update);
        answer.metadata.response_code = code;
        answer
    }

    #[test]
    fn a_success_without_a_signature_is_none() {
        let (message, verifier) = signed();
        let bytes = answer(message.metadata.id, ResponseCode::NoError).to_vec().unwrap();
        assert_eq!(judge(&bytes, message.metadata.id, verifier, "example.org"), Err(UpdateError::NotSigned));
        let (message, verifier) = signed();
        let bytes = answer(message.metadata.id, ResponseCode::Refused).to_vec().unwrap();
        assert_eq!(judge(&bytes, message.metadata.id, verifier, "example.org"), Err(UpdateError::RefusedUnsigned));
    }

    #[test]
    fn an_alias_and_other_records_exclude_each_other() {
        let (message, _) = signed();
        let absent: Vec<_> = message.answers.iter().map(|record| (record.record_type(), record.dns_class)).collect();
        assert_eq!(absent, [(RecordType::TXT, DNSClass::NONE), (RecordType::CNAME, DNSClass::NONE)]);
        assert_eq!(message.authorities.len(), 1);
    }

    proptest! {
        #[test]
        fn no_answer_of_a_stranger_is_a_success(
            bytes in prop::collection::vec(any::<u8>(), 0..200),
            place: prop::sample::Index,
            octet: u8,
        ) {
            let (message, verifier) = signed();
            prop_assert!(judge(&bytes, message.metadata.id, verifier, "example.org").is_err());
            // The question itself, sent back with an octet changed.
            let (message, verifier) = signed();
            let mut echo = message.to_vec().unwrap();
            let at = place.index(echo.len());
            echo[at] = octet;
            prop_assert!(judge(&echo, message.metadata.id, verifier, "example.org").is_err());
        }

        #[test]
        fn any_answer_is_read_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            if let Ok(message) = Message::from_vec(&bytes) {
                for kind in RecordKind::ALL {
                    found(&message.answers, &Name::root(), kind);
                }
            }
        }
    }
}
