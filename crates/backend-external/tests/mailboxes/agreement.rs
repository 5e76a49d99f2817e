//! Dovecot's description of a message's parts leads to the same bodies and attachments as the message itself.

use std::path::Path;

use futures_util::StreamExt;
use mailapi_backend::mime::{MessageStructure, SearchableText, decode, headers};
use mailapi_backend::{FullMessage, Mailboxes};
use mailapi_backend_external::mailboxes::MailboxSettings;
use mailapi_model::FolderName;

use crate::fixture::DovecotFixture;

/// Differences between Dovecot's description and the local parser. Dovecot does not decode an attached message (RFC
/// 2046 section 5.2.1 forbids encoding it). For a message without a body, it keeps the line end before the boundary.
/// Each entry has the message, the local result and Dovecot's; then the attachments whose bytes differ.
const DIFFERENT: [(&str, &str, &str); 2] =
    [("forwarded", "encoded.eml", "attachment-2.eml"), ("forwarded", "size: 16", "size: 18")];
const OTHER_ATTACHMENTS: [(&str, u32); 2] = [("forwarded", 1), ("forwarded", 3)];

fn messages() -> Vec<(String, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../backend/tests/mime");
    let mut messages = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        if path.extension().is_some_and(|extension| extension == "eml") {
            messages.push((name, std::fs::read(&path).unwrap()));
        }
    }
    assert!(messages.len() >= 6, "the messages are missing");
    messages
}

/// Formats all data of a message that was read.
fn shown(message: &FullMessage) -> String {
    let FullMessage { summary, cc, text, html, attachments, headers } = message;
    format!(
        "{:?} {cc:?}\n{headers:#?}\n{text:?}\n{html:?}\n{attachments:#?}\n{:?}",
        (&summary.message_id, &summary.from, &summary.to, &summary.subject, summary.date, summary.has_attachments),
        SearchableText::of_message(message)
    )
}

fn expected(raw: &[u8], summary: &mailapi_backend::MessageSummary) -> String {
    let structure = MessageStructure::of(raw);
    let header = &raw[..usize::try_from(structure.header_len).unwrap()];
    let bodies: Vec<_> = structure.bodies.iter().map(|body| body.span.of(raw)).collect();
    let own = structure.summary(summary.uid, summary.size, summary.flags.clone(), summary.date);
    let message = structure.full_message(own, header, &bodies);
    assert_eq!(message.headers, headers(header));
    shown(&message)
}

#[tokio::test]
async fn parts_and_message_agree_on_every_example() {
    let in_parts = MailboxSettings { whole_message_bytes: 1, doubtful_message_bytes: 0, ..MailboxSettings::default() };
    let fixture = DovecotFixture::start_with("", in_parts).await;
    let inbox = FolderName::inbox();
    for (name, message) in messages() {
        let bob = fixture.mailbox_with(&name, &[&message]).await;
        let listed =
            fixture.mailboxes.list(&bob, &inbox, mailapi_model::Page::default()).await.unwrap().items.remove(0);
        let mut raw = Vec::new();
        let mut opened = fixture.mailboxes.open_raw(&bob, &inbox, listed.uid).await.unwrap();
        while let Some(piece) = opened.content.next().await {
            raw.extend_from_slice(&piece.unwrap());
        }
        let read = fixture.mailboxes.read(&bob, &inbox, listed.uid).await.unwrap();
        assert_eq!(read.summary, listed, "{name}");
        let differences = DIFFERENT.iter().filter(|(message, ..)| *message == name);
        let expected = differences.fold(expected(&raw, &listed), |text, (_, ours, its)| text.replace(ours, its));
        assert_eq!(shown(&read), expected, "{name}");
        let structure = MessageStructure::of(&raw);
        for attachment in &structure.attachments {
            let index = attachment.info.index;
            if OTHER_ATTACHMENTS.contains(&(name.as_str(), index)) {
                continue;
            }
            let mut opened = fixture.mailboxes.open_attachment(&bob, &inbox, listed.uid, index).await.unwrap();
            assert_eq!(opened.info, attachment.info, "{name}");
            let mut bytes = Vec::new();
            while let Some(piece) = opened.content.next().await {
                bytes.extend_from_slice(&piece.unwrap());
            }
            assert_eq!(bytes, decode(attachment.span.encoding, attachment.span.of(&raw)), "{name}");
        }
    }
}
