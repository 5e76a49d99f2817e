//! After any commands, the counters equal a recount, and every session's view matches its folder.

use proptest::prelude::*;

use crate::client::Client;
use crate::test_server::TestServer;

const FOLDERS: [&str; 3] = ["INBOX", "Sent", "Work"];

/// Each query counts rows that contradict the entries.
const CONTRADICTIONS: [&str; 3] = [
    "SELECT count(*) FROM drop_folders f WHERE (messages, unread, size) IS NOT (SELECT count(*),
        count(*) FILTER (WHERE flags & 1 = 0), coalesce(sum(size), 0) FROM drop_entries WHERE folder_id = f.id)",
    "SELECT count(*) FROM drop_mailboxes m WHERE (messages, used_bytes) IS NOT (SELECT count(*),
        coalesce(sum(e.size), 0) FROM drop_entries e JOIN drop_folders f ON f.id = e.folder_id
        WHERE f.mailbox_id = m.id)",
    "SELECT count(*) FROM drop_messages m WHERE refs <> (SELECT count(*) FROM drop_entries WHERE message_id = m.id)",
];

fn command() -> impl Strategy<Value = String> {
    let folder = prop::sample::select(FOLDERS.to_vec());
    let set = prop::sample::select(vec!["1", "2", "1:*", "*", "2:3"]);
    let uid = prop::sample::select(vec!["", "UID "]);
    let flags = prop::sample::select(vec!["(\\Seen)", "(\\Deleted)", "(todo \\Flagged)", "()"]);
    let how = prop::sample::select(vec!["FLAGS", "+FLAGS.SILENT", "-FLAGS"]);
    prop_oneof![
        4 => folder.clone().prop_map(|folder| format!("APPEND {folder} {{15+}}\r\nSubject: x\r\n\r\n.")),
        3 => folder.clone().prop_map(|folder| format!("SELECT {folder}")),
        4 => (uid.clone(), set.clone(), how, flags).prop_map(|(uid, set, how, flags)| format!("{uid}STORE {set} {how} {flags}")),
        2 => (uid.clone(), set.clone(), folder.clone()).prop_map(|(uid, set, to)| format!("{uid}COPY {set} {to}")),
        2 => (uid.clone(), set.clone(), folder.clone()).prop_map(|(uid, set, to)| format!("{uid}MOVE {set} {to}")),
        2 => (uid, set).prop_map(|(uid, set)| format!("{uid}FETCH {set} BODY[TEXT]")),
        2 => Just("EXPUNGE".to_owned()),
        1 => Just("CLOSE".to_owned()),
        1 => Just("CREATE Work".to_owned()),
        1 => Just("RENAME INBOX Work".to_owned()),
        1 => Just("RENAME Sent Work".to_owned()),
    ]
}

/// Counts the messages from the point of view of a client that trusts every response.
fn count(said: &[String], before: usize) -> usize {
    said.iter().fold(before, |count, line| match line.split(' ').collect::<Vec<_>>()[..] {
        ["*", number, "EXISTS"] => number.parse().unwrap(),
        ["*", _, "EXPUNGE"] => count - 1,
        _ => count,
    })
}

/// A client with its own message count.
struct Believer {
    client: Client,
    selected: Option<&'static str>,
    count: usize,
}

impl Believer {
    async fn run(&mut self, command: &str) {
        let answer = self.client.run(command).await;
        self.count = count(&answer.untagged, self.count);
        if let Some(folder) = command.strip_prefix("SELECT ") {
            let is_open = answer.end.starts_with("OK");
            self.selected = FOLDERS.into_iter().find(|known| *known == folder).filter(|_| is_open);
        } else if command == "CLOSE" && answer.end.starts_with("OK") {
            self.selected = None;
        }
    }

    async fn agrees(&mut self) {
        let Some(folder) = self.selected else { return };
        self.run("NOOP").await;
        let listed = self.client.ok("UID SEARCH ALL").await;
        let numbers = listed[0].split(' ').count() - 2;
        assert_eq!(numbers, self.count, "{folder}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn two_clients_do_anything(steps in prop::collection::vec((any::<bool>(), command()), 1..40)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let server = TestServer::open_with(|settings| settings.listeners.imap.max_bad_commands = 1_000).await;
            let believer = async || Believer { client: server.ann().await, selected: None, count: 0 };
            let (mut one, mut two) = (believer().await, believer().await);
            for (is_first, command) in steps {
                if is_first { one.run(&command).await } else { two.run(&command).await }
            }
            one.agrees().await;
            two.agrees().await;
            for sql in CONTRADICTIONS {
                assert_eq!(server.number(sql), 0, "{sql}");
            }
        });
    }
}
