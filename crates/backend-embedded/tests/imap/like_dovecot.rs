//! Compares this server's responses with Dovecot's, for the same commands and messages.

use mailapi_testkit::Dovecot;

use crate::client::Client;
use crate::test_server::TestServer;

/// Addresses in all forms, and texts in all parts.
const MESSAGES: &[&str] = &[
    "From: ann@elsewhere.example\nTo: bob@example.org\nCc: carl@elsewhere.example\nBcc: dora@elsewhere.example\n\
     Date: Fri, 20 Nov 2026 23:15:30 -0800\nMessage-ID: <one@elsewhere.example>\n\nplainword here\n",
    "From: Anna Real <ann@elsewhere.example>\nTo: Bobby Real <bob@example.org>\nSubject: kiwi fruit\nX-Note: mango\n\nplum\n",
    "From: <ann (comment)@ (other) elsewhere.example>\nTo: bob@example.org (Bobby Comment)\nSubject: plum\n\nkiwi\n",
    "From: first@elsewhere.example, Second Author <second@elsewhere.example>\nSubject: two authors\n\nmango\n",
    "From: ann@elsewhere.example\nTo: friends: yan@elsewhere.example, xaver@elsewhere.example;,\n nobody: ;\nSubject: groups\n\nx\n",
    "From: <@relay.example:routed@elsewhere.example>\nSender:\nReply-To: \nSubject: route\n\nx\n",
    "From: ann@elsewhere.example\nSubject: parts\nMIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=b\n\n\
     preamble\n--b\n\nfirst text\n--b\nContent-Type: text/plain; charset=utf-8\n\
     Content-Disposition: attachment; filename=notes.txt\nContent-Transfer-Encoding: base64\n\nYXR0YWNoZWR3b3Jk\n\
     --b\nContent-Type: text/plain\n\nsecond text\n--b\nContent-Type: image/png\n\npixelword\n--b--\n",
    "From: ann@elsewhere.example\nSubject: forward\nMIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=b\n\n\
     --b\n\nsee below\n--b\nContent-Type: message/rfc822\n\nFrom: inner@elsewhere.example\nSubject: innersubject\n\n\
     innerbody\n--b--\n",
    "Subject: =?utf-8?q?K=C3=B6ln?=\nContent-Type: text/plain; charset=iso-8859-1\n\
     Content-Transfer-Encoding: quoted-printable\nMIME-Version: 1.0\n\nGr=FC=DFe\n",
];

const SEARCHES: &[&str] = &[
    "TEXT plainword",
    "BODY plainword",
    "TEXT kiwi",
    "BODY kiwi",
    "TEXT mango",
    "BODY mango",
    "TEXT attachedword",
    "BODY attachedword",
    "BODY ttachedwor",
    "BODY \"second text\"",
    "BODY pixelword",
    "TEXT innerbody",
    "BODY innerbody",
    "TEXT innersubject",
    "TEXT notes.txt",
    "TEXT one@elsewhere",
    "BODY one@elsewhere",
    "TEXT X-Note",
    "TEXT \"X-Note: mango\"",
    "SUBJECT kiwi",
    "FROM ann@elsewhere.example",
    "FROM real",
    "FROM first@",
    "FROM second@",
    "FROM \"second author\"",
    "FROM comment",
    "TO bob@example.org",
    "TO bobby",
    "TO yan@",
    "TO xaver@elsewhere.example",
    "TO friends",
    "TO nobody",
    "CC carl",
    "BCC dora",
    "CC dora",
    "HEADER FROM \"\"",
    "HEADER TO \"\"",
    "HEADER X-Note man",
    "HEADER X-Note \"\"",
    "NOT BODY kiwi",
    "OR BODY kiwi SUBJECT kiwi",
    "100",
    "2:100",
    "7,100:200",
    "NOT 100",
    "UID 1000",
];

async fn log_in(client: &mut Client, user: &str, password: &str) {
    assert!(client.line().await.unwrap().starts_with("* OK "));
    client.ok(&format!("LOGIN {user} {password}")).await;
}

/// Starts both servers with the messages in INBOX, and selects it.
async fn both() -> (TestServer, Dovecot, Client, Client) {
    let (server, dovecot, mut ours, mut theirs) = both_with_mail().await;
    ours.ok("SELECT INBOX").await;
    theirs.ok("SELECT INBOX").await;
    (server, dovecot, ours, theirs)
}

/// Starts both servers with the messages in INBOX.
async fn both_with_mail() -> (TestServer, Dovecot, Client, Client) {
    let (server, dovecot) = (TestServer::open().await, Dovecot::start().await);
    dovecot.put_mailbox("ann@example.org", None);
    let (mut ours, mut theirs) = (Client::connect(server.address).await, Client::connect(dovecot.imap()).await);
    log_in(&mut ours, "ann@example.org", crate::test_server::PASSWORD).await;
    log_in(&mut theirs, &format!("ann@example.org*{}", Dovecot::MASTER_USER), Dovecot::MASTER_PASSWORD).await;
    for client in [&mut ours, &mut theirs] {
        for message in MESSAGES {
            assert!(client.append("INBOX", "", message).await.end.starts_with("OK"));
        }
    }
    (server, dovecot, ours, theirs)
}

/// Returns the responses without the tag in ESEARCH.
fn plain(answer: &[String]) -> Vec<String> {
    let mut lines =
        answer.iter().map(|line| line.split(") ").last().unwrap_or_default().to_owned()).collect::<Vec<_>>();
    lines.retain(|line| line.contains("SEARCH") || !line.starts_with("* "));
    lines
}

#[tokio::test]
async fn a_search_finds_what_dovecot_finds() {
    let (server, _dovecot, mut ours, mut theirs) = both().await;
    let mut differences = Vec::new();
    for indexed in [false, true] {
        if indexed {
            server.message_store.maintain_until_done().await.unwrap();
        }
        for keys in SEARCHES {
            let (own, other) = (ours.ok(&format!("SEARCH {keys}")).await, theirs.ok(&format!("SEARCH {keys}")).await);
            if own != other {
                differences.push(format!("{keys}: {own:?}, Dovecot {other:?}"));
            }
        }
    }
    assert!(differences.is_empty(), "{differences:#?}");
}

#[tokio::test]
async fn a_search_with_results_answers_as_dovecot_does() {
    let (_server, _dovecot, mut ours, mut theirs) = both().await;
    for keys in ["RETURN () 1000", "RETURN (MIN) 1000", "RETURN (COUNT) 1000", "RETURN (COUNT) 2:1000"] {
        for prefix in ["", "UID "] {
            let command = format!("{prefix}SEARCH {keys}");
            let (own, other) = (ours.ok(&command).await, theirs.ok(&command).await);
            assert_eq!(plain(&own), plain(&other), "{command}: {own:?} {other:?}");
        }
    }
}

/// Returns the first word of a reply, and whether it has the code TRYCREATE.
fn verdict(end: &str) -> (&str, bool) {
    (end.split(' ').next().unwrap_or_default(), end.contains("[TRYCREATE]"))
}

#[tokio::test]
async fn names_that_dovecot_refuses_are_refused() {
    let (_server, _dovecot, mut ours, mut theirs) = both().await;
    for name in ["..", ".", "a/../b", "a/./b", "../a", "a/..", "~x", "~", "~x/y", "plain", "a~"] {
        for command in
            ["CREATE \"{}\"", "RENAME plain \"{}\"", "SELECT \"{}\"", "STATUS \"{}\" (MESSAGES)", "COPY 1 \"{}\""]
        {
            let command = command.replace("{}", name);
            let (own, other) = (ours.run(&command).await.end, theirs.run(&command).await.end);
            assert_eq!(verdict(&own), verdict(&other), "{command}: {own}, Dovecot {other}");
            ours.ok("SELECT INBOX").await;
            theirs.ok("SELECT INBOX").await;
        }
        let (own, other) = (ours.append(name, "", "x\n\n").await.end, theirs.append(name, "", "x\n\n").await.end);
        assert_eq!(verdict(&own), verdict(&other), "APPEND {name}: {own}, Dovecot {other}");
    }
}

#[tokio::test]
async fn an_envelope_shows_what_dovecot_shows() {
    let (_server, _dovecot, mut ours, mut theirs) = both().await;
    let (own, other) = (ours.ok("FETCH 1:* ENVELOPE").await, theirs.ok("FETCH 1:* ENVELOPE").await);
    assert_eq!((own.len(), other.len()), (MESSAGES.len(), MESSAGES.len()));
    // Dovecot returns encoded words as written; this server decodes and re-encodes them.
    for (own, other) in own.iter().zip(&other).take(MESSAGES.len() - 1) {
        assert_eq!(own, other);
    }
}

/// Returns the counts in a response, and the numbers of the messages shown as `\\Recent`.
fn recent(answer: &[String]) -> Vec<String> {
    let recent = |line: &String| match line.split_once(" FETCH ") {
        Some((message, items)) => Some(format!("{message} {}", items.contains("\\Recent"))),
        None => ["EXISTS", "RECENT", "EXPUNGE", "SEARCH"].iter().any(|word| line.contains(word)).then(|| line.clone()),
    };
    answer.iter().filter_map(recent).collect()
}

/// Commands of two sessions, in order.
const TWO_SESSIONS: &[(usize, &str)] = &[
    (0, "EXAMINE INBOX"),
    (0, "FETCH 1:2 FLAGS"),
    (1, "STATUS INBOX (RECENT)"),
    (0, "UNSELECT"),
    (1, "STATUS INBOX (RECENT)"),
    (1, "LIST \"\" INBOX RETURN (STATUS (RECENT))"),
    (0, "SELECT INBOX"),
    (1, "SELECT INBOX"),
    (0, "FETCH 1:3 (UID FLAGS)"),
    (1, "FETCH 1:3 (UID FLAGS)"),
    (0, "STORE 1 +FLAGS (\\Seen)"),
    (0, "SEARCH RECENT"),
    (0, "SEARCH NEW"),
    (0, "SEARCH OLD"),
    (0, "SEARCH NOT NEW"),
    (0, "SEARCH OR OLD SEEN"),
    (1, "SEARCH RECENT"),
    (1, "SEARCH OLD"),
    (0, "COPY 1:2 INBOX"),
    (1, "NOOP"),
    (0, "FETCH 1:* FLAGS"),
    (1, "FETCH 1:* FLAGS"),
    (0, "STORE 2 +FLAGS.SILENT (\\Deleted)"),
    (0, "EXPUNGE"),
    (1, "NOOP"),
    (0, "CREATE Other"),
    (0, "COPY 1:2 Other"),
    (1, "STATUS Other (MESSAGES RECENT)"),
    (1, "SELECT Other"),
    (0, "STATUS Other (RECENT)"),
    (0, "MOVE 1 Other"),
    (1, "NOOP"),
    (1, "FETCH 1:* FLAGS"),
    (1, "MOVE 1 Other"),
    (1, "SELECT Other"),
    (1, "FETCH 1:* FLAGS"),
];

#[tokio::test]
async fn recent_is_given_once_as_dovecot_gives_it() {
    let (server, dovecot, ours, theirs) = both_with_mail().await;
    let (mut ours, mut theirs) = ([ours, server.connect().await], [theirs, Client::connect(dovecot.imap()).await]);
    ours[1].ok(&format!("LOGIN ann@example.org {}", crate::test_server::PASSWORD)).await;
    log_in(&mut theirs[1], &format!("ann@example.org*{}", Dovecot::MASTER_USER), Dovecot::MASTER_PASSWORD).await;
    let mut differences = Vec::new();
    for &(session, command) in TWO_SESSIONS {
        let (own, other) = (ours[session].ok(command).await, theirs[session].ok(command).await);
        if recent(&own) != recent(&other) {
            differences.push(format!("{session} {command}: {own:?}, Dovecot {other:?}"));
        }
    }
    assert!(differences.is_empty(), "{differences:#?}");
}

/// Subscriptions and folders on several levels, some only one of both.
const FOLDERS: &[&str] = &[
    "CREATE one",
    "CREATE two",
    "CREATE two/one",
    "CREATE two/two",
    "CREATE three",
    "CREATE three/three",
    "SUBSCRIBE one",
    "SUBSCRIBE two/one",
    "SUBSCRIBE three/three",
    "CREATE gone",
    "SUBSCRIBE gone",
    "DELETE gone",
];

const LISTS: &[&str] = &[
    "LIST (SUBSCRIBED) \"\" *",
    "LIST (SUBSCRIBED RECURSIVEMATCH) \"\" %",
    "LIST (SUBSCRIBED RECURSIVEMATCH) \"\" *",
    "LIST (SUBSCRIBED RECURSIVEMATCH) \"\" (two two/one)",
    "LIST (SUBSCRIBED RECURSIVEMATCH) \"\" (two)",
    "LIST (SUBSCRIBED RECURSIVEMATCH) \"\" *three",
];

/// Returns the sorted lines in lower case, without the attributes about children, which only one server
/// shows.
fn listed(answer: &[String]) -> Vec<String> {
    let mut lines: Vec<String> = answer.iter().map(|line| line.to_lowercase().replace('"', "")).collect();
    for line in &mut lines {
        let (attributes, name) = line.split_once(')').unwrap();
        let mut words: Vec<&str> = attributes.split(['(', ' ']).filter(|word| word.starts_with('\\')).collect();
        words.retain(|word| !word.ends_with("children"));
        words.sort_unstable();
        *line = format!("{words:?} {name}");
    }
    lines.retain(|line| !line.contains("inbox"));
    lines.sort_unstable();
    lines
}

#[tokio::test]
async fn an_extended_list_shows_what_dovecot_shows() {
    let (_server, _dovecot, mut ours, mut theirs) = both().await;
    for folder in ["Archive", "Drafts", "Junk", "Sent", "Trash"] {
        ours.ok(&format!("DELETE {folder}")).await;
        ours.ok(&format!("UNSUBSCRIBE {folder}")).await;
    }
    for command in FOLDERS {
        ours.ok(command).await;
        theirs.ok(command).await;
    }
    let mut differences = Vec::new();
    for command in LISTS {
        let (own, other) = (ours.ok(command).await, theirs.ok(command).await);
        if listed(&own) != listed(&other) {
            differences.push(format!("{command}: {own:?}, Dovecot {other:?}"));
        }
    }
    assert!(differences.is_empty(), "{differences:#?}");
}

#[tokio::test]
async fn a_move_into_the_same_folder_is_shown_alike() {
    let (_server, _dovecot, mut ours, mut theirs) = both().await;
    let (own, other) = (ours.ok("MOVE 1 INBOX").await, theirs.ok("MOVE 1 INBOX").await);
    assert_eq!(recent(&own), recent(&other));
}
