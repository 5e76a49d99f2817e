//! Behaviour that the contract does not cover and that only a real server shows.

use std::sync::Arc;

use futures_util::StreamExt;
use mailapi_backend::contract::Fixture;
use mailapi_backend::{FolderScope, MailboxError, Mailboxes, SearchQuery};
use mailapi_backend_external::TlsMode;
use mailapi_backend_external::imap_pool::ImapSettings;
use mailapi_backend_external::mailboxes::MailboxSettings;
use mailapi_imap::client::ClientLimits;
use mailapi_model::{EmailAddress, FolderName, Page, Secret};
use mailapi_testkit::{Dovecot, DovecotSettings};
use mailapi_tls::{Trust, client_config};

use crate::fixture::{DovecotFixture, PageReader, imap_settings, mailboxes, pool};

const MESSAGE: &[u8] = b"From: ann@elsewhere.example\r\nSubject: one\r\n\r\nhello\r\n";

#[tokio::test]
async fn a_wrong_master_password_is_not_a_missing_mailbox() {
    let fixture = DovecotFixture::start().await;
    let bob = fixture.mailbox_with("bob", &[]).await;
    let wrong = ImapSettings {
        master_password: Secret::new("wrong".to_owned()).into(),
        ..imap_settings(fixture.dovecot.imap().port())
    };
    let mailboxes = mailboxes(&pool(wrong), MailboxSettings::default());
    for _ in 0..5 {
        assert!(matches!(mailboxes.folders(&bob).await, Err(MailboxError::Unavailable(_))));
    }
}

#[tokio::test]
async fn a_restart_of_the_server_goes_unnoticed() {
    let mut fixture = DovecotFixture::start().await;
    let bob = fixture.mailbox_with("bob", &[MESSAGE]).await;
    let listed = |fixture: &DovecotFixture| {
        let mailboxes = fixture.mailboxes.clone();
        let bob = bob.clone();
        async move { mailboxes.list(&bob, &FolderName::inbox(), Page::default()).await.map(|listed| listed.total) }
    };
    assert_eq!(listed(&fixture).await, Ok(1));
    fixture.dovecot.stop();
    // The login processes exit slightly later than their master.
    while listed(&fixture).await.is_ok() {
        tokio::task::yield_now().await;
    }
    assert!(fixture.mailboxes.check().await.is_err());
    fixture.dovecot.resume().await;
    assert_eq!(listed(&fixture).await, Ok(1));
    assert_eq!(fixture.mailboxes.check().await, Ok(()));
}

#[tokio::test]
async fn many_readers_of_one_mailbox_share_few_log_ins() {
    let fixture = DovecotFixture::start_with("mail_max_userip_connections = 6", MailboxSettings::default()).await;
    let bob = fixture.mailbox_with("bob", &[MESSAGE]).await;
    let mailboxes: Arc<_> = fixture.mailboxes.clone();
    let readers: Vec<_> = (0..200)
        .map(|_| {
            let (mailboxes, bob) = (mailboxes.clone(), bob.clone());
            tokio::spawn(async move { mailboxes.read(&bob, &FolderName::inbox(), 1).await })
        })
        .collect();
    for reader in readers {
        assert_eq!(reader.await.unwrap().unwrap().summary.subject, "one");
    }
    assert!(fixture.dovecot.log().matches("Login: user=").count() <= 6);
}

#[tokio::test]
async fn other_separators_and_alphabets_are_the_servers_business() {
    let fixture = DovecotFixture::start_with("namespace inbox {\n separator = .\n}", MailboxSettings::default()).await;
    let bob = fixture.mailbox_with("bob", &[MESSAGE]).await;
    let folder: FolderName = "Projekte/Köln \"2026\" & \\mehr".parse().unwrap();
    fixture.dovecot.doveadm(&["mailbox", "create", "-u", bob.as_str(), "Projekte.Köln \"2026\" & \\mehr"]);
    let names: Vec<_> = fixture.mailboxes.folders(&bob).await.unwrap().into_iter().map(|one| one.name).collect();
    assert_eq!(names, [FolderName::inbox(), folder.clone()]);
    assert_eq!(fixture.mailboxes.list(&bob, &folder, Page::default()).await.unwrap().total, 0);
}

#[tokio::test]
async fn a_damaged_attachment_is_served_up_to_the_damage() {
    let damaged = b"Subject: x\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\n\r\nhi\r\n--b\r\n\
        Content-Type: application/x\r\nContent-Transfer-Encoding: base64\r\n\r\naGVsbG8=aGVsbG8= !!\r\na\r\n--b\r\n\
        Content-Type: application/y\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\na=zb=\r\n  \r\nc=\r\n--b--\r\n";
    let in_parts = MailboxSettings { whole_message_bytes: 1, sample_bytes: 4, ..MailboxSettings::default() };
    let fixture = DovecotFixture::start_with("", in_parts).await;
    let bob = fixture.mailbox_with("bob", &[damaged]).await;
    for (index, expected) in [(0, &b"hellohello"[..]), (1, b"a=zb\r\nc")] {
        let opened = fixture.mailboxes.open_attachment(&bob, &FolderName::inbox(), 1, index).await.unwrap();
        let size = opened.info.size;
        let bytes: Vec<u8> = opened.content.map(|piece| piece.unwrap().to_vec()).collect::<Vec<_>>().await.concat();
        assert_eq!(bytes, expected);
        assert_eq!(bytes.len() as u64, size);
    }
}

#[tokio::test]
async fn a_match_behind_the_start_of_a_long_message_is_shown() {
    let long = format!("Subject: long\r\n\r\n{}the Needle at the end\r\n", "hay and straw\r\n".repeat(20_000));
    let fixture = DovecotFixture::start().await;
    let bob = fixture.mailbox_with("bob", &[long.as_bytes()]).await;
    let query = SearchQuery { text: "needle".parse().unwrap(), scope: FolderScope::All, page: Page::default() };
    let found = fixture.mailboxes.search(&bob, &query).await.unwrap();
    assert!(found.items[0].snippet.contains("the Needle at the end"), "{:?}", found.items);
}

#[tokio::test]
async fn a_new_message_is_seen_over_a_kept_connection() {
    let fixture = DovecotFixture::start().await;
    let bob = fixture.mailbox_with("bob", &[MESSAGE]).await;
    let inbox = FolderName::inbox();
    assert_eq!(fixture.mailboxes.read(&bob, &inbox, 2).await.err(), Some(MailboxError::NoSuchMessage));
    fixture.deliver(&bob, MESSAGE).await;
    assert_eq!(fixture.mailboxes.read(&bob, &inbox, 2).await.unwrap().summary.uid, 2);
    fixture.dovecot.doveadm(&["expunge", "-u", bob.as_str(), "mailbox", "INBOX", "uid", "2"]);
    assert_eq!(fixture.mailboxes.read(&bob, &inbox, 2).await.err(), Some(MailboxError::NoSuchMessage));
    assert_eq!(fixture.mailboxes.open_raw(&bob, &inbox, 2).await.err(), Some(MailboxError::NoSuchMessage));
}

#[tokio::test]
async fn changes_by_others_show_at_once_without_refetching() {
    others_change_what_is_shown(MailboxSettings::default()).await;
}

#[tokio::test]
async fn changes_by_others_show_at_once_without_a_cache() {
    others_change_what_is_shown(MailboxSettings { summary_cache_bytes: 0, ..MailboxSettings::default() }).await;
}

async fn others_change_what_is_shown(settings: MailboxSettings) {
    let fixture = DovecotFixture::start_with("", settings).await;
    let bob = fixture.mailbox_with("bob", &[MESSAGE, MESSAGE]).await;
    let (inbox, reader) = (FolderName::inbox(), PageReader::default());
    let shown = async || {
        let listed = reader.list(&fixture.mailboxes, &bob, &inbox, Page::default()).await.unwrap();
        let items: Vec<_> = listed.items.iter().map(|item| (item.uid, item.flags.clone())).collect();
        (listed.total, items)
    };
    let (seen, none) = (vec!["\\Seen".to_owned()], Vec::new());
    let as_delivered = (2, vec![(2, none.clone()), (1, none.clone())]);
    assert_eq!(shown().await, as_delivered);
    assert_eq!(shown().await, as_delivered);

    fixture.set_flags(&bob, &inbox, 1, &["\\Seen"]).await;
    assert_eq!(shown().await, (2, vec![(2, none.clone()), (1, seen.clone())]));
    fixture.set_flags(&bob, &inbox, 2, &["\\Seen"]).await;
    assert_eq!(fixture.mailboxes.read(&bob, &inbox, 2).await.unwrap().summary.flags, seen);
    assert_eq!(shown().await, (2, vec![(2, seen.clone()), (1, seen.clone())]));

    fixture.deliver(&bob, MESSAGE).await;
    assert_eq!(shown().await, (3, vec![(3, none.clone()), (2, seen.clone()), (1, seen)]));
    fixture.dovecot.doveadm(&["expunge", "-u", bob.as_str(), "mailbox", "INBOX", "uid", "1:2"]);
    assert_eq!(fixture.mailboxes.read(&bob, &inbox, 2).await.err(), Some(MailboxError::NoSuchMessage));
    assert_eq!(shown().await, (1, vec![(3, none)]));
}

#[tokio::test]
async fn odd_addresses_are_mailboxes_too() {
    let fixture =
        DovecotFixture::start_with("auth_username_chars =\nrecipient_delimiter =", MailboxSettings::default()).await;
    for local in ["o'brien", "plus+tag", "dots.and-more_1"] {
        let mailbox = fixture.mailbox_with(local, &[MESSAGE]).await;
        assert_eq!(fixture.mailboxes.folders(&mailbox).await.unwrap()[0].messages, 1, "{local}");
    }
}

#[tokio::test]
async fn tls_is_spoken_in_both_ways_and_only_with_a_trusted_server() {
    let certificate = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let files = tempfile::tempdir().unwrap();
    let (cert, key) = (files.path().join("cert.pem"), files.path().join("key.pem"));
    std::fs::write(&cert, certificate.cert.pem()).unwrap();
    std::fs::write(&key, certificate.signing_key.serialize_pem()).unwrap();
    let free = mailapi_testkit::free_port().port();
    let lines = format!("service imap-login {{\n inet_listener imaps {{\n  port = {free}\n }}\n}}");
    let settings = DovecotSettings { certificate: Some((cert, key)), lines, ..DovecotSettings::default() };
    let dovecot = Dovecot::start_with(settings).await;
    dovecot.put_mailbox("bob@example.org", None);
    let bob: EmailAddress = "bob@example.org".parse().unwrap();
    let ours = Trust::Authorities(certificate.cert.pem().into_bytes());
    for (tls, port) in [(TlsMode::StartTls, dovecot.imap().port()), (TlsMode::Implicit, free)] {
        for (trust, is_trusted) in [(&Trust::System, false), (&ours, true)] {
            let settings = ImapSettings { tls, host: "localhost".to_owned(), ..imap_settings(port) };
            let pool = mailapi_backend_external::imap_pool::ImapPool::new(settings, client_config(trust).unwrap());
            let folders = mailboxes(&pool, MailboxSettings::default()).folders(&bob).await;
            assert_eq!(folders.is_ok(), is_trusted, "{tls:?} {folders:?}");
        }
    }
}

/// Only the parts of a long message are cached.
#[tokio::test]
async fn a_long_message_that_was_read_before_is_shown_as_it_is_now() {
    let fixture = DovecotFixture::start().await;
    let line = "TWFpbA==".repeat(9);
    let attachment = format!("{line}\r\n").repeat(2_000);
    let long = format!(
        "Subject: long\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\n\r\nsee below\r\n\
         --b\r\nContent-Type: image/png; name=a.png\r\nContent-Transfer-Encoding: base64\r\n\r\n{attachment}--b--\r\n"
    );
    let bob = fixture.mailbox_with("bob", &[long.as_bytes(), MESSAGE]).await;
    let inbox = FolderName::inbox();
    let first = fixture.mailboxes.read(&bob, &inbox, 1).await.unwrap();
    assert_eq!((first.text.as_deref(), first.attachments.len()), (Some("see below"), 1));
    assert_eq!(fixture.mailboxes.read(&bob, &inbox, 1).await.unwrap(), first);
    fixture.set_flags(&bob, &inbox, 1, &["\\Flagged"]).await;
    let flagged = fixture.mailboxes.read(&bob, &inbox, 1).await.unwrap();
    assert_eq!(flagged.summary.flags, ["\\Flagged"]);
    assert_eq!(flagged.attachments, first.attachments);
    fixture.dovecot.doveadm(&["expunge", "-u", bob.as_str(), "mailbox", "INBOX", "uid", "1"]);
    assert_eq!(fixture.mailboxes.read(&bob, &inbox, 1).await.err(), Some(MailboxError::NoSuchMessage));
    assert_eq!(fixture.mailboxes.read(&bob, &inbox, 2).await.unwrap().summary.uid, 2);
}

/// Returns a message whose structure has about 60 bytes per part, or one long parameter.
fn intricate(parts: usize, parameter: usize) -> Vec<u8> {
    let name = "n".repeat(parameter);
    let mut text = format!(
        "From: ann@elsewhere.example\r\nSubject: intricate\r\nContent-Type: multipart/mixed; boundary=x; name={name}\r\n\r\n"
    );
    for _ in 0..parts {
        text += "--x\r\nContent-Type: text/html\r\n\r\n<p>hello\r\n";
    }
    (text + "--x--\r\n").into_bytes()
}

#[tokio::test]
async fn a_structure_that_is_too_long_costs_only_its_details() {
    for (parts, parameter) in [(3000, 0), (1, 60_000)] {
        let fixture = DovecotFixture::start().await;
        let long = intricate(parts, parameter);
        let bob = fixture.mailbox_with("bob", &[MESSAGE, &long, MESSAGE]).await;
        let settings = imap_settings(fixture.dovecot.imap().port());
        let limits = ClientLimits { max_line: 20_000, max_literal: 30_000, ..ClientLimits::default() };
        let pool = pool(ImapSettings { limits, ..settings });
        // Less than the message, so that it is not read whole.
        let small = MailboxSettings {
            whole_message_bytes: 5_000,
            header_bytes: 10_000,
            doubtful_message_bytes: 6_000,
            ..MailboxSettings::default()
        };
        let mailboxes = mailboxes(&pool, small);
        let inbox = FolderName::inbox();
        let subjects = ["one", "intricate", "one"];
        for page in [Page::default(), Page::default(), Page::new(2, 1)] {
            let listed = mailboxes.list(&bob, &inbox, page).await.unwrap();
            let shown: Vec<&str> = listed.items.iter().map(|item| item.subject.as_str()).collect();
            assert_eq!((listed.total, &shown[..]), (3, &subjects[3 - shown.len()..]));
        }
        let listed = mailboxes.list(&bob, &inbox, Page::default()).await.unwrap();
        let [_, summary, _] = &listed.items[..] else { panic!("three messages") };
        assert!(summary.size >= long.len() as u64);
        let read = mailboxes.read(&bob, &inbox, summary.uid).await.unwrap();
        assert_eq!((read.summary.subject.as_str(), read.summary.size), ("intricate", summary.size));
        // Later messages, and the others, are read as usual.
        fixture.deliver(&bob, MESSAGE).await;
        let listed = mailboxes.list(&bob, &inbox, Page::default()).await.unwrap();
        assert_eq!(listed.items.len(), 4);
        let read = mailboxes.read(&bob, &inbox, listed.items[0].uid).await.unwrap();
        assert_eq!(read.text.as_deref().map(str::trim_end), Some("hello"));
    }
}
