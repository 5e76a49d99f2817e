//! Folders of a thousand to a million messages, all on one server.

use std::path::Path;
use std::time::{Duration, Instant};

use rusqlite::OpenFlags;
use serde_json::json;

use super::Size;
use super::bulk::{Bulk, Copies};
use super::grown::{BESIDE, Grown, whole};
use crate::client::http::Request;
use crate::client::smtp::{Connection, Mail};
use crate::load::Clients;
use crate::mail::{Author, PLANTED};
use crate::mail_site::{MailSite, PASSWORD, api, database};
use crate::outcome::{Failure, Outcome, same};
use crate::random::Random;
use crate::server::Product;
use crate::soak::Selecting;

/// Number of messages received by SMTP; all others of a folder are copies of the last ones.
const REAL: usize = 1_000;
/// Number of these that contain the searched word.
const PLANTS: usize = 20;
/// Bytes of text per message: a tenth of an ordinary one, so that a million with their index fit on a disk.
const TEXT: usize = 400;
/// Number of messages read in turn.
const READ: usize = 1_000;
const SENDER: &str = "somebody@outside.example";
const SEED: u64 = 11;
/// Maximum time for indexing a folder, and the interval of checking.
const PATIENCE: Duration = Duration::from_secs(3_600);
const LOOK: Duration = Duration::from_millis(250);
/// Maximum number of pieces per message in the database: `drop_chunks.key` is message * this + piece.
const PIECES: i64 = 1 << 16;

pub(super) async fn measure(product: &Product, size: &Size) -> Outcome<Grown> {
    let mut grown = Grown::new("Folders: the cost of a message among many", "messages in the folder", size);
    let mut site = MailSite::with_people(product).await?;
    for &messages in size.folders {
        site = fill(site, product, messages, &mut grown).await?;
        ask(&site, size, messages, "", &mut grown).await?;
    }
    // Measure the smallest folder again beside the others.
    if let Some(&smallest) = size.folders.first() {
        ask(&site, size, smallest, BESIDE, &mut grown).await?;
    }
    if let (Some(&smallest), Some(&largest)) = (size.folders.first(), size.folders.last()) {
        alternate(&site, size, [smallest, largest], &mut grown).await?;
    }
    site.stop().await?;
    Ok(grown)
}

/// The owner of the folder with this size.
pub(super) fn owner(messages: usize) -> String {
    format!("owner{messages}@bench.test")
}

/// Creates a mailbox with this number of messages, and waits for its index.
pub(super) async fn fill(site: MailSite, product: &Product, messages: usize, grown: &mut Grown) -> Outcome<MailSite> {
    let owner = owner(messages);
    site.post("/users", &json!({ "email": owner, "password": PASSWORD }), 201).await?;
    hand_in(&site, &owner, messages.min(REAL)).await?;
    site.server.settle().await?;
    let directory = site.stop().await?;
    copy(&database(directory.path()), &owner, messages)?;
    let site = MailSite::on(product, directory).await?;
    let (cpu, began) = (site.server.process().cpu()?, Instant::now());
    indexed(&site).await?;
    let (cpu, took) = (site.server.process().cpu()? - cpu, began.elapsed());
    same("messages in the folder", site.inbox_total(&owner).await?, messages as u64)?;
    grown.note(format!(
        "{} messages were indexed in {:.0} s with {:.0} s of processor time; the database then had {:.0} MiB.",
        whole((messages.saturating_sub(REAL)) as f64),
        took.as_secs_f64(),
        cpu.as_secs_f64(),
        std::fs::metadata(database(site.directory()))?.len() as f64 / 1024.0 / 1024.0
    ))?;
    Ok(site)
}

/// Waits until all messages are indexed, and the server is idle.
async fn indexed(site: &MailSite) -> Outcome {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY;
    let connection = rusqlite::Connection::open_with_flags(database(site.directory()), flags)?;
    let give_up = Instant::now() + PATIENCE;
    let waits = "SELECT EXISTS (SELECT 1 FROM drop_unindexed WHERE too_long = 0)";
    while connection.query_row(waits, [], |row| row.get::<_, bool>(0))? {
        if Instant::now() > give_up {
            return Err(Failure::new("the messages are not indexed"));
        }
        tokio::time::sleep(LOOK).await;
    }
    drop(connection);
    site.server.settle().await
}

async fn hand_in(site: &MailSite, owner: &str, count: usize) -> Outcome {
    let address = site.server.smtp.ok_or_else(|| Failure::new("the server has no SMTP listener"))?;
    let (mut smtp, author) = (Connection::open(address).await?, Author::new());
    for number in 0..count {
        let mut message = author.outside_message(number, owner);
        let head = message.find("\r\n\r\n").map_or(0, |end| end + 4);
        let end = message[..(head + TEXT).min(message.len())].rfind("\r\n").map_or(message.len(), |end| end + 2);
        message.truncate(end.max(head));
        if number < PLANTS {
            message.push_str("The ze");
            message.push_str(PLANTED);
            message.push_str(" is in it.\r\n");
        }
        smtp.send(&Mail::new(SENDER, owner, &message)).await?;
    }
    Ok(())
}

/// Copies the messages without the searched word until the folder has its size, and queues the copies for indexing.
fn copy(file: &Path, owner: &str, messages: usize) -> Outcome {
    let bulk = Bulk::open(file)?;
    let block = Block::of(&bulk, owner)?;
    let wanted = i64::try_from(messages)? - i64::try_from(PLANTS)? - block.length();
    let whole = wanted / block.length();
    block.write(&bulk, block.last, 1, whole)?;
    // The last copy takes only the rest of the block.
    block.write(&bulk, block.first + wanted % block.length() - 1, whole + 1, whole + 1)?;
    let folder = block.folder;
    bulk.connection.execute_batch(&format!(
        "UPDATE drop_folders SET uid_next = (SELECT MAX(uid) + 1 FROM drop_entries WHERE folder_id = {folder}),
            highest_modseq = (SELECT MAX(modseq) FROM drop_entries WHERE folder_id = {folder}) WHERE id = {folder};
        INSERT INTO drop_unindexed (message_id) SELECT id FROM drop_messages WHERE id > {}",
        block.last
    ))?;
    Ok(())
}

/// The messages to copy: consecutive, and the last ones of the database.
struct Block {
    folder: i64,
    first: i64,
    last: i64,
}

impl Block {
    fn of(bulk: &Bulk, owner: &str) -> Outcome<Self> {
        let folder = bulk.number(&format!(
            "SELECT f.id FROM drop_folders f JOIN drop_mailboxes m ON m.id = f.mailbox_id \
             WHERE m.address = '{owner}' AND f.name = 'INBOX'"
        ))?;
        let entries = format!("FROM drop_entries WHERE folder_id = {folder} AND uid > {PLANTS}");
        let number = |what: &str| bulk.number(&format!("SELECT {what} {entries}"));
        let block = Self { folder, first: number("MIN(message_id)")?, last: number("MAX(message_id)")? };
        same("messages one behind the other", number("COUNT(*)")?, block.length())?;
        same("the last message", bulk.number("SELECT MAX(id) FROM drop_messages")?, block.last)?;
        Ok(block)
    }

    const fn length(&self) -> i64 {
        self.last - self.first + 1
    }

    /// Writes copies `from` to `to` of the messages up to `last`, with their entries.
    fn write(&self, bulk: &Bulk, last: i64, from: i64, to: i64) -> Outcome {
        let Self { folder, first, .. } = self;
        let further = |column: &str| format!("{column} + ?1 * {}", self.length());
        let messages = format!("id BETWEEN {first} AND {last}");
        let chunks = format!("key >= {first} * {PIECES} AND key < ({last} + 1) * {PIECES}");
        let entries = format!("folder_id = {folder} AND message_id BETWEEN {first} AND {last}");
        let key = format!("key + ?1 * {} * {PIECES}", self.length());
        let numbers = ["uid", "message_id", "modseq"].map(|column| (column, further(column)));
        let tables = [
            Copies {
                table: "drop_messages",
                rows: &messages,
                changed: &[("id", further("id")), ("refs", "0".to_owned())],
            },
            Copies { table: "drop_chunks", rows: &chunks, changed: &[("key", key)] },
            Copies { table: "drop_entries", rows: &entries, changed: &numbers },
        ];
        bulk.copy(from, to, &tables)
    }
}

/// Joins two words of a message to a text that no message contains, although many contain its parts.
async fn two_words(site: &MailSite, owner: &str) -> Outcome<String> {
    let message = site.get(&format!("/mailbox/{owner}/messages/1")).await?;
    let text = message["body"]["text"].as_str().unwrap_or_default();
    let text: String = text.split_whitespace().take(2).collect();
    let hits = site.get(&format!("/mailbox/{owner}/search?q={text}")).await?;
    same("hits of two words in one", hits["total"].as_u64(), Some(0))?;
    Ok(text)
}

/// Measures the smallest and the largest folder in alternation.
async fn alternate(site: &MailSite, size: &Size, folders: [usize; 2], grown: &mut Grown) -> Outcome {
    let mut requests: [Vec<Vec<Request>>; 2] = Default::default();
    for (messages, requests) in folders.into_iter().zip(&mut requests) {
        let owner = owner(messages);
        let token = site.user_token(&owner).await?;
        let get = |path: &str| Request::get(&api(&format!("/mailbox/{owner}{path}")), &token);
        *requests = vec![vec![get("/messages")], reads(messages, get)];
    }
    let [smallest, largest] = requests;
    for (what, pair) in ["List of 50", "Read one"].into_iter().zip(smallest.into_iter().zip(largest)) {
        grown.in_turns(&size.plan, what, <[_; 2]>::from(pair).map(|requests| (&site.server, requests))).await?;
    }
    Ok(())
}

/// Requests for messages from anywhere in a folder.
fn reads(messages: usize, get: impl Fn(&str) -> Request) -> Vec<Request> {
    let mut random = Random::new(SEED);
    (0..READ).map(|_| get(&format!("/messages/{}", 1 + random.below(messages)))).collect()
}

async fn ask(site: &MailSite, size: &Size, messages: usize, beside: &str, grown: &mut Grown) -> Outcome {
    let (owner, plan, server) = (owner(messages), &size.plan, &site.server);
    let token = site.user_token(&owner).await?;
    let get = |path: &str| Request::get(&api(&format!("/mailbox/{owner}{path}")), &token);
    let hits = site.get(&format!("/mailbox/{owner}/search?q={PLANTED}")).await?;
    same("hits", hits["total"].as_u64(), Some(PLANTS as u64))?;
    let frequent = two_words(site, &owner).await?;
    let named = |name: &str, grows| (format!("{name}{beside}"), grows);
    let middle = get(&format!("/messages?offset={}", messages / 2));
    let passing = Some("the entries before the page are skipped one by one");
    let postings = Some("the places of the text's trigrams are compared");
    let all = Some("the total counts all hits, and the hits are sorted");
    for ((name, grows), requests) in [
        (named("list of 50", None), vec![get("/messages")]),
        (named("read one", None), reads(messages, get)),
        (named("folders", None), vec![get("/folders")]),
        (named("page in the middle", passing), vec![middle]),
        (named("search, 20 hits", postings), vec![get(&format!("/search?q={PLANTED}"))]),
        (named("search, none", postings), vec![get("/search?q=quidditch")]),
        (named("search, none, of frequent parts", postings), vec![get(&format!("/search?q={frequent}"))]),
        (named("search, every message", all), vec![get("/search?q=minutes%20of%20meeting")]),
    ] {
        grown.http(plan, (&name, grows), messages, server, requests).await?;
    }
    let Some(imap) = server.imap else { return Ok(()) };
    let selecting = Selecting::log_in(imap, &owner, PASSWORD).await?;
    let whole = Some("IMAP numbers all messages of an opened folder");
    let (name, grows) = named("IMAP SELECT", whole);
    grown.load(plan, (&name, grows), messages, Clients::new(vec![selecting], server.process())).await
}
