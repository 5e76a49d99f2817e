//! Search.

use mailapi_model::{EmailAddress, FolderName, Listed, Page};

use super::story::{address, folder, listed, mailbox, mailbox_with, newest};
use super::{Fixture, mail};
use crate::{FolderScope, MailboxError, SearchHit, SearchQuery};

fn query(text: &str, scope: FolderScope, page: Page) -> SearchQuery {
    SearchQuery { text: text.parse().expect("a search text"), scope, page }
}

fn in_inbox(text: &str) -> SearchQuery {
    query(text, FolderScope::One(FolderName::inbox()), Page::default())
}

async fn search(fixture: &dyn Fixture, mailbox: &EmailAddress, query: &SearchQuery) -> Listed<SearchHit> {
    fixture.backend().mailboxes.search(mailbox, query).await.expect("a search that works")
}

fn subjects(found: &Listed<SearchHit>) -> Vec<&str> {
    found.items.iter().map(|hit| hit.subject.as_str()).collect()
}

/// A missing mailbox and a missing folder have different errors.
pub async fn what_is_missing_is_named(fixture: &dyn Fixture) {
    let (bob, unknown) = (mailbox(fixture, "bob").await, address(fixture, "nobody"));
    let mailboxes = &fixture.backend().mailboxes;
    assert_eq!(mailboxes.search(&unknown, &in_inbox("text")).await, Err(MailboxError::NoSuchMailbox));
    let missing = query("text", FolderScope::One(folder("Missing")), Page::default());
    assert_eq!(mailboxes.search(&bob, &missing).await, Err(MailboxError::NoSuchFolder));
    let everywhere = query("text", FolderScope::All, Page::default());
    assert_eq!(mailboxes.search(&unknown, &everywhere).await, Err(MailboxError::NoSuchMailbox));
}

/// No match is an empty result. Neither other mailboxes nor operators of query languages produce a match.
pub async fn a_text_that_no_message_holds_is_not_found(fixture: &dyn Fixture) {
    let bob = mailbox_with(fixture, &[mail::plain("one", "hay and straw")]).await;
    let eve = mailbox(fixture, "eve").await;
    fixture.deliver(&eve, &mail::plain("two", "the needle")).await;
    fixture.settle().await;
    for text in ["needle", "hay straw", "hay*", "hay OR straw", "\"hay\"", "%", "h_y", "hay\\", "')) --"] {
        let Ok(text) = text.parse() else { continue };
        let query = SearchQuery { text, ..in_inbox("any") };
        let found = search(fixture, &bob, &query).await;
        assert_eq!((found.total, found.items.len()), (0, 0), "{:?}", query.text);
    }
}

/// Part of a word matches in any case, in the subject, the addresses or the body, whatever the encoding.
pub async fn a_text_is_found_however_it_was_written(fixture: &dyn Fixture) {
    let encoded = |encoding: &str, kind: &str, body: &str| {
        let more = format!("Content-Type: {kind}\r\nContent-Transfer-Encoding: {encoding}\r\n");
        mail::with_header("any", &more, body)
    };
    let with_people = |cc: &str| mail::with_header("any", &format!("Cc: {cc}\r\n"), "x");
    for (message, wanted) in [
        (mail::plain("The haystack", "x"), "YSTA"),
        (mail::plain("=?utf-8?q?N=C3=A4?= =?utf-8?b?ZGVs?=", "x"), "nÄdel"),
        (mail::plain("any", "In a haystack"), "hAyStAcK"),
        (mail::plain("any", "Grüße aus KÖLN"), "köln"),
        (mail::plain("any", "x"), "Ann Lee"),
        (mail::plain("any", "x"), "bob@elsewhere"),
        (with_people("=?iso-8859-1?q?J=FCrgen?= <j@elsewhere.example>"), "jürg"),
        (encoded("quoted-printable", "text/plain; charset=utf-8", "na=C3=AFve hay=\r\nstack"), "naïve haystack"),
        (encoded("quoted-printable", "text/plain; charset=iso-8859-1", "na=EFve"), "NAÏVE"),
        (encoded("base64", "text/plain; charset=utf-8", "SW4gYSBoYXlz\r\ndGFjaw=="), "haystack"),
        (encoded("7bit", "text/html", "<p>hay<b>sta</b>ck &amp;&nbsp;straw</p>"), "haystack & straw"),
        (mail::with_attachments("a.bin", b"a"), "café is open"),
    ] {
        let bob = mailbox(fixture, "bob").await;
        fixture.deliver(&bob, &message).await;
        fixture.settle().await;
        let uid = newest(fixture, &bob).await.uid;
        let found = search(fixture, &bob, &in_inbox(wanted)).await;
        assert_eq!(found.items.iter().map(|hit| hit.uid).collect::<Vec<_>>(), [uid], "{wanted}");
        assert_eq!((found.total, found.items[0].from.email.as_str()), (1, "ann@elsewhere.example"));
        assert_eq!(found.items[0].folder, FolderName::inbox());
        fixture.backend().mailboxes.purge(&bob).await.unwrap();
    }
}

/// Search matches every address of a field, including those in groups.
pub async fn every_author_and_group_member_is_found(fixture: &dyn Fixture) {
    let message = b"From: Ann <ann@elsewhere.example>, Zoe Second <zoe@elsewhere.example>\r\n\
        To: friends: yan@elsewhere.example, xaver@elsewhere.example;\r\nSubject: many\r\n\r\nhello\r\n";
    let bob = mailbox(fixture, "bob").await;
    fixture.deliver(&bob, message).await;
    fixture.settle().await;
    for wanted in ["ann@else", "zoe second", "zoe@else", "yan@else", "xaver@else"] {
        assert_eq!(subjects(&search(fixture, &bob, &in_inbox(wanted)).await), ["many"], "{wanted}");
    }
}

/// The shortest search text works like any other.
pub async fn two_characters_are_enough(fixture: &dyn Fixture) {
    let bob =
        mailbox_with(fixture, &[mail::plain("one", "oxq"), mail::plain("two", "o x q"), mail::plain("three", "OXQ")])
            .await;
    assert_eq!(subjects(&search(fixture, &bob, &in_inbox("xq")).await), ["three", "one"]);
    assert_eq!(search(fixture, &bob, &in_inbox("zq")).await.total, 0);
}

/// Pages of hits neither overlap nor leave gaps, and each contains the total.
pub async fn the_newest_hit_comes_first_and_pages_do_not_overlap(fixture: &dyn Fixture) {
    let body = |number: u32| if number == 3 { "straw" } else { "needle" };
    let messages: Vec<_> = (1..=6).map(|number| mail::plain(&format!("number {number}"), body(number))).collect();
    let bob = mailbox_with(fixture, &messages).await;
    for (offset, expected) in
        [(0, &["number 6", "number 5"][..]), (2, &["number 4", "number 2"]), (4, &["number 1"]), (5, &[])]
    {
        let query = query("needle", FolderScope::One(FolderName::inbox()), Page::new(2, offset));
        let found = search(fixture, &bob, &query).await;
        assert_eq!((subjects(&found).as_slice(), found.total), (expected, 5));
    }
}

/// A search covers one folder, or all folders.
pub async fn all_folders_are_searched_when_asked(fixture: &dyn Fixture) {
    let bob = mailbox_with(fixture, &[mail::plain("stays", "needle"), mail::plain("moves", "needle")]).await;
    let kept = folder("Kept");
    fixture.create_folder(&bob, &kept).await;
    let moved = newest(fixture, &bob).await.uid;
    fixture.move_message(&bob, &FolderName::inbox(), moved, &kept).await;
    fixture.settle().await;
    let moved = listed(fixture, &bob, &kept).await[0].uid;
    assert_eq!(subjects(&search(fixture, &bob, &in_inbox("needle")).await), ["stays"]);
    let found = search(fixture, &bob, &query("needle", FolderScope::All, Page::default())).await;
    assert_eq!(found.total, 2);
    let hit = found.items.iter().find(|hit| hit.subject == "moves").expect("the moved message");
    assert_eq!((&hit.folder, hit.uid), (&kept, moved));
}

/// The excerpt shows the match and its surroundings.
pub async fn an_excerpt_is_short_and_on_one_line(fixture: &dyn Fixture) {
    let body = format!("{}the Needle\r\n{}", "hay and more\r\n".repeat(100), "straw\r\n".repeat(100));
    let bob = mailbox_with(fixture, &[mail::plain("one", &body)]).await;
    let snippet = &search(fixture, &bob, &in_inbox("needle")).await.items[0].snippet;
    assert!(snippet.contains("hay and more the Needle straw"), "{snippet}");
    assert!(snippet.chars().count() <= 200 && !snippet.contains(['\r', '\n']), "{snippet}");
}
