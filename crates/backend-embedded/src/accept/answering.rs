//! Whether a message gets an automatic answer (RFC 3834 section 2, RFC 5230 section 4).

use mailapi_model::{Authentication, AuthenticationResult, EmailAddress, RuleFacts, Vacation};

use super::Prepared;
use super::rules::Facts;
use crate::message_store::Answer;

/// Fields of mailing lists (RFC 2369, RFC 2919).
const LIST_FIELDS: [&str; 7] =
    ["list-id", "list-help", "list-subscribe", "list-unsubscribe", "list-post", "list-owner", "list-archive"];

/// Fields with recipients (RFC 5230 section 4.5).
const RECIPIENTS: [&str; 6] = ["to", "cc", "bcc", "resent-to", "resent-cc", "resent-bcc"];

/// Local parts of programs, which do not read answers (RFC 5230 section 4.6).
const PROGRAMS: [&str; 7] = ["mailer-daemon", "listserv", "majordomo", "noreply", "no-reply", "postmaster", "bounce"];

/// Maximum number of characters of a subject that is derived from that of the message.
const MAX_SUBJECT: usize = 200;

/// Maximum number of bytes of a Message-ID that the answer refers to. A line has at most 998.
const MAX_MESSAGE_ID: usize = 900;

/// Returns whether the sender of a message gets an answer: a person who wrote to the owner.
pub(super) fn deserves_answer(
    facts: &Facts<'_>,
    mail: &Prepared,
    owner: &EmailAddress,
    vacation: &Vacation,
    delimiter: Option<char>,
) -> bool {
    let Some(sender) = &mail.incoming.sender else { return false };
    !is_program(sender)
        && sender != owner
        && !vacation.addresses.contains(sender)
        && !is_automatic(facts)
        && !is_forged(mail)
        && names_owner(facts, mail, owner, vacation, delimiter)
}

fn is_program(sender: &EmailAddress) -> bool {
    let local = sender.local();
    PROGRAMS.contains(&local) || local.starts_with("owner-") || local.ends_with("-request")
}

/// Returns whether the domain of the sender denies the message (RFC 7208 section 2.6.4), and its author's domain does not
/// confirm it. The answer would reach someone else.
fn is_forged(mail: &Prepared) -> bool {
    let is_denied = |found: &Authentication| {
        found.spf.result == AuthenticationResult::Fail && found.dmarc.result != AuthenticationResult::Pass
    };
    mail.incoming.authentication.as_ref().is_some_and(is_denied)
}

/// Returns whether a program or a mailing list sent the message.
fn is_automatic(facts: &Facts<'_>) -> bool {
    let says = |field: &str, which: fn(&str) -> bool| facts.texts(field).iter().any(|text| which(text.trim()));
    // The field may have parameters and comments (RFC 3834 section 5).
    says("auto-submitted", |text| text.split([';', '(', ' ']).next() != Some("no"))
        || says("precedence", |text| matches!(text, "bulk" | "list" | "junk"))
        || says("x-auto-response-suppress", |text| text.contains("all") || text.contains("oof"))
        || LIST_FIELDS.iter().any(|field| !facts.texts(field).is_empty())
}

/// Returns whether the owner is a recipient in the header, as the sender wrote it.
fn names_owner(
    facts: &Facts<'_>,
    mail: &Prepared,
    owner: &EmailAddress,
    vacation: &Vacation,
    delimiter: Option<char>,
) -> bool {
    // The address with a tag that the sender used is the owner's, too.
    let tag_of_owner = |address: &&EmailAddress| {
        let tag = address.local().strip_prefix(owner.local());
        tag.is_some_and(|tag| delimiter.is_some_and(|delimiter| tag.starts_with(delimiter)))
            && address.domain_str() == owner.domain_str()
    };
    let tagged = mail.incoming.recipients.iter().map(|recipient| &recipient.address).filter(tag_of_owner);
    let own: Vec<&str> = tagged.chain(&vacation.addresses).chain([owner]).map(|address| address.as_str()).collect();
    RECIPIENTS.iter().any(|field| facts.addresses(field).iter().any(|address| own.contains(&address.as_str())))
}

/// Returns the answer to a message that deserves one.
pub(super) fn answer(mail: &Prepared, owner: &EmailAddress, vacation: &Vacation) -> Option<Answer> {
    let structure = mail.content.structure();
    let derived = || format!("Auto: {}", structure.subject).chars().take(MAX_SUBJECT).collect();
    let id = &structure.message_id;
    let is_usable = id.len() <= MAX_MESSAGE_ID && id.starts_with('<') && id.bytes().all(|byte| byte.is_ascii_graphic());
    Some(Answer {
        mailbox: owner.clone(),
        recipient: mail.incoming.sender.clone()?,
        subject: vacation.subject.clone().unwrap_or_else(derived),
        text: vacation.text.clone(),
        in_reply_to: if is_usable { id.clone() } else { String::new() },
    })
}
