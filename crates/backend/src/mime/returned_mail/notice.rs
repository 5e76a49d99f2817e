//! What a mail says as a notice: in its parts for machines, or else in its text.

use std::collections::HashSet;

use mailapi_model::{EmailAddress, EnhancedCode, MessageId, NoticeKind};

use super::super::{Limits, MessageStructure, PartSpan, header_block, headers, html_text};
use super::notice_text::{NamedFailure, NoticeText};
use super::recipient_group::{GroupAction, RecipientGroup};
use super::reply::enhanced_code;
use super::{
    Fields, MAX_STATUS_PARTS, NoticeSummary, ReturnedAction, ReturnedReport, content, delivered_to, groups,
    in_return_address, parts,
};

/// Types of the returned message or its header.
const RETURNED_TYPES: [&str; 4] = ["message/rfc822", "text/rfc822-headers", "message/global", "message/global-headers"];
/// Types of the part that a machine reads (RFC 3464, RFC 6533).
const STATUS_TYPES: [&str; 2] = ["message/delivery-status", "message/global-delivery-status"];
/// Reports about something else than delivery: that a message was shown (RFC 8098), or a complaint (RFC 5965).
const OTHER_REPORTS: [&str; 2] = ["message/disposition-notification", "message/feedback-report"];
/// More recipients than a message has.
const MAX_GROUPS: usize = 5_000;

/// A mail, as far as it may be a notice.
pub(super) struct Notice {
    header: Fields,
    text: NoticeText,
    /// The groups of fields in the parts for machines, each with the envelope id of its part.
    groups: Vec<(Option<MessageId>, RecipientGroup)>,
    /// The message id in the returned header.
    in_returned: Option<MessageId>,
    /// Whether it is a report about something else than delivery.
    is_other: bool,
}

impl Notice {
    pub(super) fn of<T: AsRef<[u8]>, E>(
        structure: &MessageStructure,
        bytes: impl Fn(PartSpan) -> Result<T, E>,
    ) -> Result<Self, E> {
        let header = Fields(headers(bytes(structure.header())?.as_ref()));
        let own = own_addresses(&header);
        let max = Limits::default().max_report_bytes as u64;
        let (text, html) = structure.decode_bodies(|span| bytes(PartSpan { length: span.length.min(max), ..span }))?;
        let text = text.filter(|text| !text.trim().is_empty());
        let text = text.unwrap_or_else(|| html.map(|html| html_text(&html)).unwrap_or_default());
        let text = NoticeText::of(&structure.subject, &text, &own);
        let returned = parts(structure, &RETURNED_TYPES).next().map(|part| content(part, &bytes)).transpose()?;
        let in_returned =
            returned.and_then(|raw| MessageId::from_header(Fields(headers(header_block(&raw))).get("Message-ID")?));
        let mut groups = Vec::new();
        for part in parts(structure, &STATUS_TYPES).take(MAX_STATUS_PARTS) {
            groups.extend(recipient_groups(&content(part, &bytes)?));
        }
        groups.truncate(MAX_GROUPS);
        let is_other = parts(structure, &OTHER_REPORTS).next().is_some();
        Ok(Self { header, text, groups, in_returned, is_other })
    }

    pub(super) fn reports(&self) -> Vec<ReturnedReport> {
        // A part for machines that names no recipient says less than the text.
        if self.groups.is_empty() { self.in_text() } else { self.in_groups() }
    }

    /// Returns what the notice says besides its reports. `author` is its From address.
    pub(super) fn summary(&self, reports: &[ReturnedReport], author: &str) -> NoticeSummary {
        let kind = |report: &ReturnedReport| match report.action {
            ReturnedAction::Failed => None,
            ReturnedAction::Delayed => Some(NoticeKind::Delayed),
            ReturnedAction::Delivered => Some(NoticeKind::Delivered),
            ReturnedAction::Relayed => Some(NoticeKind::Relayed),
            ReturnedAction::Expanded => Some(NoticeKind::Expanded),
        };
        NoticeSummary {
            kind: reports.iter().find_map(kind).unwrap_or(NoticeKind::Other),
            server: author.rsplit_once('@').and_then(|(_, domain)| domain.parse().ok()),
            text: self.text.beginning().to_owned(),
        }
    }

    /// Returns the failures of a notice without groups.
    fn in_text(&self) -> Vec<ReturnedReport> {
        if self.is_other || self.is_answer() {
            return Vec::new();
        }
        let message_id = self.in_return_address().or(self.in_returned);
        let report = |failure: NamedFailure| ReturnedReport {
            message_id,
            recipient: failure.recipient,
            final_recipient: failure.final_recipient,
            action: ReturnedAction::Failed,
            status: enhanced_code(&failure.reason),
            diagnostic: failure.reason,
            is_in_text: true,
        };
        self.text.failures(&self.failed_field()).into_iter().map(report).collect()
    }

    fn in_groups(&self) -> Vec<ReturnedReport> {
        let mut found = Vec::new();
        let (failed, mut lists) = (self.failed_field(), HashSet::new());
        for (envelope_id, group) in &self.groups {
            let Some(action) = self.action(group) else { continue };
            // Most reliable first: the return address, the envelope id, the returned header.
            let message_id = self.in_return_address().or(*envelope_id).or(self.in_returned);
            let Some(recipient) = group.original.as_ref().or(group.tried.as_ref()) else { continue };
            let report = |tried: Option<EmailAddress>, said: Option<String>| {
                let diagnostic = said.unwrap_or_else(|| self.diagnostic(group));
                ReturnedReport {
                    message_id,
                    recipient: recipient.clone(),
                    final_recipient: tried.filter(|tried| tried != recipient),
                    action,
                    status: group.code(action, &diagnostic),
                    diagnostic,
                    is_in_text: false,
                }
            };
            let names_itself = group.tried.as_ref().is_none_or(|tried| tried == recipient);
            let behind =
                if action == ReturnedAction::Failed && names_itself { self.behind(recipient, &failed) } else { None };
            match behind {
                None => found.push(report(group.tried.clone(), None)),
                // Each of its groups names the list; the text has the members.
                Some(members) if lists.insert(recipient.clone()) => found.extend(
                    members
                        .into_iter()
                        .map(|(member, said)| report(Some(member), said.filter(|said| !said.is_empty()))),
                ),
                Some(_) => {}
            }
        }
        found
    }

    /// Returns the failed addresses behind a list, with reasons; `None` if the recipient is not known to be one. Exim names
    /// the list as the final recipient, and the members in its text and in its field; none if it conceals them.
    fn behind(&self, recipient: &EmailAddress, failed: &[EmailAddress]) -> Option<Vec<(EmailAddress, Option<String>)>> {
        let named = self.text.members_of(recipient);
        if !named.is_empty() {
            return Some(named.into_iter().map(|(member, reason)| (member, Some(reason))).collect());
        }
        if self.text.conceals_member_of(recipient) {
            return Some(Vec::new());
        }
        if failed.is_empty() || failed.contains(recipient) {
            return None;
        }
        let is_reported = |address: &EmailAddress| {
            self.groups.iter().any(|(_, group)| group.original.as_ref().or(group.tried.as_ref()) == Some(address))
        };
        Some(failed.iter().filter(|address| !is_reported(address)).map(|member| (member.clone(), None)).collect())
    }

    /// Returns the action for the recipient of a group. Without a written one, a failure needs a notice that says nothing
    /// else.
    fn action(&self, group: &RecipientGroup) -> Option<ReturnedAction> {
        let doubts = self.text.verdict().is_doubtful || self.is_other;
        match group.action {
            GroupAction::Written(ReturnedAction::Delayed) if self.has_expired(group) => Some(ReturnedAction::Failed),
            GroupAction::Written(action) => Some(action),
            GroupAction::OfClass(ReturnedAction::Failed) => (!doubts).then_some(ReturnedAction::Failed),
            GroupAction::OfClass(action) => Some(action),
            GroupAction::Unknown => None,
            GroupAction::Missing => {
                let is_failed = |action| {
                    matches!(
                        action,
                        GroupAction::Written(ReturnedAction::Failed) | GroupAction::OfClass(ReturnedAction::Failed)
                    )
                };
                let mut others = self
                    .groups
                    .iter()
                    .map(|(_, other)| other.action)
                    .filter(|action| *action != GroupAction::Missing)
                    .peekable();
                let is_named = || self.recipients_of(group).any(|address| self.text.has_failed(address));
                let has_failed = match others.peek() {
                    Some(_) => others.all(is_failed),
                    None => is_named() || self.text.verdict().is_failure,
                };
                (has_failed && !doubts).then_some(ReturnedAction::Failed)
            }
        }
    }

    /// Returns whether the server has given up on the recipients of a group. OpenSMTPD calls that a delay, and says it only
    /// in the line of the recipient. Others write 4.4.7 for delays, too.
    fn has_expired(&self, group: &RecipientGroup) -> bool {
        const EXPIRED: EnhancedCode = EnhancedCode { class: 4, subject: 4, detail: 7 };
        let says_so = |address| self.text.reason_of(address).ends_with(": Envelope expired");
        group.status == Some(EXPIRED) && self.recipients_of(group).any(says_so)
    }

    fn recipients_of<'a>(&self, group: &'a RecipientGroup) -> impl Iterator<Item = &'a EmailAddress> + use<'a> {
        group.tried.iter().chain(&group.original)
    }

    /// Returns the reply for a group, or what the text says about its addresses. The reply can be the exit status of a
    /// program, as in `X-Unix; 67`.
    fn diagnostic(&self, group: &RecipientGroup) -> String {
        let in_text =
            || self.recipients_of(group).map(|address| self.text.reason_of(address)).find(|said| !said.is_empty());
        let has_words = group.diagnostic.contains(char::is_alphabetic);
        if has_words { None } else { in_text() }.unwrap_or_else(|| group.diagnostic.clone())
    }

    /// Returns the addresses in the field with which Exim names failed recipients.
    fn failed_field(&self) -> Vec<EmailAddress> {
        let field = self.header.get("X-Failed-Recipients").unwrap_or_default();
        field.split([',', '\n']).filter_map(|text| text.trim().parse().ok()).take(MAX_GROUPS).collect()
    }

    /// Whether a program for people who are away, and no mail server, wrote the mail. Servers use `auto-replied`, too (RFC
    /// 3834 section 5), so their name decides.
    fn is_answer(&self) -> bool {
        let submitted = self.header.get("Auto-Submitted").unwrap_or_default().trim_start().to_ascii_lowercase();
        let is_marked =
            ["X-Autoreply", "X-Autorespond", "X-Autoresponder"].iter().any(|name| self.header.get(name).is_some());
        is_marked || (submitted.starts_with("auto-replied") && !self.is_of_server())
    }

    fn is_of_server(&self) -> bool {
        const SERVERS: [&str; 3] = ["mailer-daemon", "postmaster", "mail delivery"];
        let from = self.header.get("From").unwrap_or_default().to_ascii_lowercase();
        from.trim().is_empty() || SERVERS.iter().any(|name| from.contains(name))
    }

    pub(super) fn may_be_wrapper(&self) -> bool {
        self.groups.is_empty() && !self.is_other && !self.text.verdict().is_doubtful && !self.is_answer()
    }

    /// Whether another notice was forwarded with this one. A returned message can contain an older notice about other mail, so
    /// both must have been sent to the same return address, or a server must have written the other one.
    pub(super) fn wraps(&self, other: &Self) -> bool {
        let own: Vec<&str> = delivered_to(&self.header.0).collect();
        let mut shared = delivered_to(&other.header.0);
        shared.any(|address| own.iter().any(|own| own.eq_ignore_ascii_case(address)))
            || (!other.groups.is_empty() && other.header.get("From").is_some() && other.is_of_server())
    }

    pub(super) fn in_return_address(&self) -> Option<MessageId> {
        in_return_address(&self.header)
    }
}

/// Returns the addresses to which the notice came. Below the first Received, the server that wrote the notice may name
/// the failed recipient as the original one: dma does.
fn own_addresses(header: &Fields) -> Vec<EmailAddress> {
    let is_named = |name: &str, known: &str| name.eq_ignore_ascii_case(known);
    let received = header.0.iter().position(|(name, _)| is_named(name, "Received")).unwrap_or(header.0.len());
    let is_foreign = |place: usize, name: &str| place > received && is_named(name, "X-Original-To");
    let fields = header.0.iter().enumerate().filter(|(place, (name, _))| !is_foreign(*place, name));
    let fields: Vec<(String, String)> = fields.map(|(_, field)| field.clone()).collect();
    delivered_to(&fields).filter_map(|address| address.parse().ok()).collect()
}

/// Reads a part for machines. Some servers omit the empty line between the fields of the message and those of its only
/// recipient.
fn recipient_groups(status: &[u8]) -> Vec<(Option<MessageId>, RecipientGroup)> {
    let groups: Vec<Fields> = groups(status).into_iter().take(MAX_GROUPS).map(|group| Fields(headers(group))).collect();
    let envelope_id = groups.iter().find_map(|fields| fields.get("Original-Envelope-Id")?.trim().parse().ok());
    groups.iter().filter_map(RecipientGroup::of).map(|group| (envelope_id, group)).collect()
}
