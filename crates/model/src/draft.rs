//! A message to be sent, validated as a whole before anything else happens to it.

use std::collections::HashSet;

use crate::violation::{LONGEST_SHOWN_NAME, shown_name};
use crate::{Blob, DomainName, EmailAddress, NamedAddress, Violations, named_values};

named_values! {
    /// The recipient list of a request that names a recipient.
    RecipientKind, UnknownRecipientKind, "must be one of to, cc, bcc" {
        /// `to`.
        To = "to",
        /// `cc`.
        Cc = "cc",
        /// `bcc`, which is never part of the message.
        Bcc = "bcc",
    }
}

/// An unvalidated send request.
#[derive(Debug, Clone, Default)]
pub struct DraftFields {
    /// `user@host` or `Name <user@host>`.
    pub from: String,
    /// To recipients; at least one.
    pub to: Vec<String>,
    /// Cc recipients.
    pub cc: Vec<String>,
    /// Bcc recipients, which the others do not see.
    pub bcc: Vec<String>,
    /// The subject; `None` means empty.
    pub subject: Option<String>,
    /// The plain-text body.
    pub text: Option<String>,
    /// The HTML body.
    pub html: Option<String>,
    /// The Reply-To address.
    pub reply_to: Option<String>,
    /// Custom header fields.
    pub headers: Vec<(String, String)>,
    /// Attachments.
    pub attachments: Vec<AttachmentFields>,
}

/// An unvalidated attachment.
#[derive(Debug, Clone, Default)]
pub struct AttachmentFields {
    /// The file name.
    pub filename: String,
    /// The content; `None` if it could not be decoded.
    pub content: Option<Blob>,
    /// The media type; `None` means `application/octet-stream`.
    pub content_type: Option<String>,
    /// The Content-ID, which makes it inline: `cid:` links in the HTML refer to it.
    pub content_id: Option<String>,
}

/// Limits of a send request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DraftLimits {
    /// Maximum recipients in to, cc and bcc together.
    pub max_recipients: usize,
    /// Maximum custom header fields.
    pub max_headers: usize,
    /// Maximum bytes of a header value, including the subject.
    pub max_header_bytes: usize,
    /// Maximum attachments.
    pub max_attachments: usize,
}

impl Default for DraftLimits {
    fn default() -> Self {
        Self { max_recipients: 1000, max_headers: 100, max_header_bytes: 16 * 1024, max_attachments: 250 }
    }
}

/// A valid message to be sent. Its header values contain no line breaks.
#[derive(Debug, Clone)]
pub struct Draft {
    from: NamedAddress,
    to: Vec<NamedAddress>,
    cc: Vec<NamedAddress>,
    bcc: Vec<NamedAddress>,
    subject: String,
    text: Option<String>,
    html: Option<String>,
    reply_to: Option<NamedAddress>,
    headers: Vec<DraftHeader>,
    attachments: Vec<DraftAttachment>,
}

/// A custom header field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DraftHeader {
    /// The name, which is not structural.
    pub name: String,
    /// The value, to be encoded if it is not ASCII.
    pub value: String,
}

/// An attachment.
#[derive(Debug, Clone)]
pub struct DraftAttachment {
    /// The file name.
    pub filename: String,
    /// The media type, `type/subtype` with optional parameters.
    pub content_type: String,
    /// The content.
    pub content: Blob,
    /// The Content-ID without angle brackets, if it is inline.
    pub content_id: Option<String>,
}

impl DraftAttachment {
    /// Maximum bytes of a file name in UTF-8, as in common file systems. A name occupies one line of the
    /// message, which has at most 998 octets (RFC 5322 section 2.1.1).
    pub(crate) const MAX_FILENAME_BYTES: usize = 255;
    /// Maximum length of a media type with its parameters. Type and subtype have at most 127 characters each (RFC 6838
    /// section 4.2), and a line of a message at most 998.
    pub const MAX_CONTENT_TYPE: usize = 512;
}

impl Draft {
    /// Validates a request.
    ///
    /// # Errors
    /// All violations, by member name.
    pub fn parse(fields: DraftFields, limits: &DraftLimits) -> Result<Self, Violations> {
        let mut violations = counted(&fields, limits)?;
        if fields.to.is_empty() {
            violations.add("to", "must name at least one recipient");
        }
        if fields.text.is_none() && fields.html.is_none() {
            violations.add("body", "must have text, html, or both");
        }
        Self::checked(fields, limits, violations)
    }

    /// Validates a message that is stored, to be completed and sent later. It may lack recipients and a body.
    ///
    /// # Errors
    /// All violations, by member name.
    pub fn parse_unfinished(mut fields: DraftFields, limits: &DraftLimits) -> Result<Self, Violations> {
        let violations = counted(&fields, limits)?;
        if fields.html.is_none() {
            fields.text.get_or_insert_default();
        }
        Self::checked(fields, limits, violations)
    }

    fn checked(fields: DraftFields, limits: &DraftLimits, mut violations: Violations) -> Result<Self, Violations> {
        let from = violations.check("from", fields.from.parse::<NamedAddress>());
        let reply_to = fields.reply_to.as_deref().map(|text| violations.check("reply_to", text.parse()));
        let [to, cc, bcc] = [("to", &fields.to), ("cc", &fields.cc), ("bcc", &fields.bcc)]
            .map(|(name, list)| addresses(name, list, &mut violations));
        let subject = fields.subject.unwrap_or_default();
        check_header_text("subject", &subject, limits, &mut violations);
        let headers = headers(fields.headers, limits, &mut violations);
        let attachments = attachments(fields.attachments, &mut violations);
        // Everything was checked by now, so that all violations are reported at once.
        let from = violations.or(from)?;
        let (text, html) = (fields.text, fields.html);
        Ok(Self { from, to, cc, bcc, subject, text, html, reply_to: reply_to.flatten(), headers, attachments })
    }

    /// Returns the author.
    #[must_use]
    pub const fn from(&self) -> &NamedAddress {
        &self.from
    }

    /// Returns the domain of the author.
    #[must_use]
    pub fn sender_domain(&self) -> DomainName {
        self.from.address.domain()
    }

    /// Returns the To recipients as listed.
    #[must_use]
    pub fn to(&self) -> &[NamedAddress] {
        &self.to
    }

    /// Returns the Cc recipients as listed.
    #[must_use]
    pub fn cc(&self) -> &[NamedAddress] {
        &self.cc
    }

    /// Returns the Bcc recipients as listed.
    #[must_use]
    pub fn bcc(&self) -> &[NamedAddress] {
        &self.bcc
    }

    /// Returns the subject; may be empty.
    #[must_use]
    pub fn subject(&self) -> &str {
        &self.subject
    }

    /// Returns the plain-text body.
    #[must_use]
    pub fn text(&self) -> Option<&str> {
        self.text.as_deref()
    }

    /// Returns the HTML body.
    #[must_use]
    pub fn html(&self) -> Option<&str> {
        self.html.as_deref()
    }

    /// Returns the Reply-To address.
    #[must_use]
    pub const fn reply_to(&self) -> Option<&NamedAddress> {
        self.reply_to.as_ref()
    }

    /// Returns the custom header fields.
    #[must_use]
    pub fn headers(&self) -> &[DraftHeader] {
        &self.headers
    }

    /// Returns the attachments.
    #[must_use]
    pub fn attachments(&self) -> &[DraftAttachment] {
        &self.attachments
    }

    /// Returns the number of listed recipients, counting repeated ones each time.
    #[must_use]
    pub fn recipient_count(&self) -> usize {
        self.to.len() + self.cc.len() + self.bcc.len()
    }

    /// Returns every address in the message.
    pub fn addresses(&self) -> impl Iterator<Item = &EmailAddress> {
        let listed = [&self.to, &self.cc, &self.bcc].into_iter().flatten();
        listed.chain(&self.reply_to).chain([&self.from]).map(|named| &named.address)
    }

    /// Folds the local parts of these mailboxes to lower case: this server hosts them and ignores case.
    pub fn fold(&mut self, mailboxes: &HashSet<EmailAddress>) {
        let listed = [&mut self.to, &mut self.cc, &mut self.bcc].into_iter().flatten();
        for named in listed.chain(&mut self.reply_to).chain([&mut self.from]) {
            if mailboxes.contains(&named.address) {
                named.address = named.address.clone().folded();
            }
        }
    }

    /// Returns each recipient once, with the position and kind of its first listing.
    #[must_use]
    pub fn recipients(&self) -> Vec<(EmailAddress, RecipientKind)> {
        let lists = [(&self.to, RecipientKind::To), (&self.cc, RecipientKind::Cc), (&self.bcc, RecipientKind::Bcc)];
        let listed = lists.into_iter().flat_map(|(list, kind)| list.iter().map(move |named| (&named.address, kind)));
        let mut seen = HashSet::new();
        listed.filter(|(address, _)| seen.insert(*address)).map(|(address, kind)| (address.clone(), kind)).collect()
    }
}

fn addresses(list: &str, texts: &[String], violations: &mut Violations) -> Vec<NamedAddress> {
    let parse = |(n, text): (usize, &String)| violations.check(&format!("{list}[{n}]"), text.parse());
    texts.iter().enumerate().filter_map(parse).collect()
}

/// Checks list lengths before parsing, so that overlong lists are not parsed.
fn counted(fields: &DraftFields, limits: &DraftLimits) -> Result<Violations, Violations> {
    let mut violations = Violations::none();
    if fields.to.len() + fields.cc.len() + fields.bcc.len() > limits.max_recipients {
        violations.add("to", format!("to, cc and bcc together must name at most {} recipients", limits.max_recipients));
    }
    if fields.headers.len() > limits.max_headers {
        violations.add("headers", format!("must have at most {} members", limits.max_headers));
    }
    if fields.attachments.len() > limits.max_attachments {
        violations.add("attachments", format!("must have at most {} entries", limits.max_attachments));
    }
    // Stop here if any list is too long.
    violations.or(Some(())).map(|()| Violations::none())
}

fn check_header_text(field: &str, value: &str, limits: &DraftLimits, violations: &mut Violations) {
    check_one_line(field, value, limits.max_header_bytes, violations);
}

fn check_one_line(field: &str, value: &str, max_bytes: usize, violations: &mut Violations) {
    if value.chars().any(char::is_control) {
        violations.add(field, "must not contain control characters");
    } else if value.len() > max_bytes {
        violations.add(field, format!("must have at most {max_bytes} bytes"));
    }
}

fn headers(fields: Vec<(String, String)>, limits: &DraftLimits, violations: &mut Violations) -> Vec<DraftHeader> {
    for (name, value) in &fields {
        let field = format!("headers.{}", shown_name(name));
        match header_rule(name) {
            Ok(()) => check_header_text(&field, value, limits, violations),
            Err(rule) => violations.add(field, rule),
        }
    }
    fields.into_iter().map(|(name, value)| DraftHeader { name, value }).collect()
}

/// Checks that a name is a header field name (RFC 5322 section 2.2), has no request member of its own, and is
/// not structural.
fn header_rule(name: &str) -> Result<(), &'static str> {
    const MAX_NAME: usize = LONGEST_SHOWN_NAME;
    const STRUCTURAL: [&str; 12] = [
        "From",
        "To",
        "Cc",
        "Bcc",
        "Date",
        "Message-ID",
        "MIME-Version",
        "DKIM-Signature",
        "Received",
        "Return-Path",
        "Sender",
        // Readers of this server would believe checks in its name (RFC 8601 section 5).
        "Authentication-Results",
    ];
    let is = |other: &&str| name.eq_ignore_ascii_case(other);
    if name.is_empty() || name.len() > MAX_NAME || !name.bytes().all(|b| b.is_ascii_graphic() && b != b':') {
        return Err("is not a valid header name");
    }
    let begins = |prefix: &str| name.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix));
    // Resent-Bcc would reveal a hidden recipient, and a new message was not resent (RFC 5322 section 3.6.6).
    if STRUCTURAL.iter().any(is) || begins("Content-") || begins("Resent-") {
        return Err("is set by mailapi and cannot be overridden");
    }
    if is(&"Subject") || is(&"Reply-To") {
        return Err("must be set by its own member of the request");
    }
    Ok(())
}

fn attachments(fields: Vec<AttachmentFields>, violations: &mut Violations) -> Vec<DraftAttachment> {
    let parse = |(n, fields)| attachment(&format!("attachments[{n}]"), fields, violations);
    fields.into_iter().enumerate().filter_map(parse).collect()
}

fn attachment(at: &str, fields: AttachmentFields, violations: &mut Violations) -> Option<DraftAttachment> {
    if fields.filename.is_empty() {
        violations.add(format!("{at}.filename"), "must not be empty");
    }
    let longest = DraftAttachment::MAX_FILENAME_BYTES;
    check_one_line(&format!("{at}.filename"), &fields.filename, longest, violations);
    let content_type = fields.content_type.unwrap_or_else(|| "application/octet-stream".to_owned());
    if content_type.len() > DraftAttachment::MAX_CONTENT_TYPE {
        let most = DraftAttachment::MAX_CONTENT_TYPE;
        violations.add(format!("{at}.content_type"), format!("must have at most {most} characters"));
    } else if !is_media_type(&content_type) {
        violations.add(format!("{at}.content_type"), "must be a media type of one part, such as text/plain");
    }
    // Clients may send the Content-ID with or without angle brackets.
    let content_id = fields.content_id.map(|id| id.trim_start_matches('<').trim_end_matches('>').to_owned());
    if content_id.as_deref().is_some_and(|id| !is_content_id(id)) {
        violations.add(format!("{at}.content_id"), "must be printable ASCII without spaces, < and >");
    }
    if fields.content.is_none() {
        violations.add(format!("{at}.content"), "must be base64");
    }
    Some(DraftAttachment { filename: fields.filename, content_type, content: fields.content?, content_id })
}

/// Returns whether a text is `type/subtype` (RFC 2045 section 5.1) with parameters that cannot break the
/// header. Multipart types are excluded: a file cannot have parts.
fn is_media_type(text: &str) -> bool {
    let token =
        |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$&^_.+-".contains(&b));
    let (essence, parameters) = text.split_once(';').unwrap_or((text, ""));
    let Some((kind, subtype)) = essence.trim_end().split_once('/') else { return false };
    let printable = parameters.bytes().all(|b| b == b' ' || b.is_ascii_graphic());
    token(kind) && token(subtype) && printable && !kind.eq_ignore_ascii_case("multipart")
}

fn is_content_id(id: &str) -> bool {
    !id.is_empty() && id.bytes().all(|b| b.is_ascii_graphic() && !b"<>\"()\\".contains(&b))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields() -> DraftFields {
        DraftFields {
            from: "Ann <ann@example.org>".into(),
            to: vec!["bob@example.org".into()],
            text: Some("Hello".into()),
            ..DraftFields::default()
        }
    }

    fn refused(change: impl FnOnce(&mut DraftFields)) -> String {
        let mut fields = fields();
        change(&mut fields);
        Draft::parse(fields, &DraftLimits::default()).unwrap_err().all()[0].field.clone()
    }

    #[test]
    fn what_is_missing_is_named() {
        assert_eq!(refused(|f| f.from.clear()), "from");
        assert_eq!(refused(|f| f.to.clear()), "to");
        assert_eq!(refused(|f| f.text = None), "body");
        assert_eq!(refused(|f| f.bcc.push("nobody".into())), "bcc[0]");
    }

    #[test]
    fn an_unfinished_message_lacks_only_recipients_and_a_body() {
        let parse = |fields: DraftFields| Draft::parse_unfinished(fields, &DraftLimits::default());
        let field = |fields| parse(fields).unwrap_err().all()[0].field.clone();
        assert_eq!(field(DraftFields::default()), "from");
        assert_eq!(field(DraftFields { bcc: vec!["nobody".into()], ..fields() }), "bcc[0]");
        assert_eq!(field(DraftFields { subject: Some("Hi\nBcc: x@y.org".into()), ..fields() }), "subject");
        let bare = parse(DraftFields { from: "ann@example.org".into(), ..DraftFields::default() }).unwrap();
        assert_eq!((bare.recipient_count(), bare.text(), bare.html()), (0, Some(""), None));
        let html = parse(DraftFields { html: Some("<p>Hi".into()), text: None, ..fields() }).unwrap();
        assert_eq!(html.text(), None);
    }

    #[test]
    fn no_field_can_inject_a_header() {
        assert_eq!(refused(|f| f.from = "Ann\r\nBcc: x@y.org <ann@example.org>".into()), "from");
        assert_eq!(refused(|f| f.to.push("a@b.org\r\nBcc: c@d.org".into())), "to[1]");
        assert_eq!(refused(|f| f.subject = Some("Hi\nBcc: x@y.org".into())), "subject");
        assert_eq!(refused(|f| f.reply_to = Some("\r\n@x.org".into())), "reply_to");
        assert_eq!(refused(|f| f.headers.push(("X-A".into(), "1\r\nBcc: x@y.org".into()))), "headers.X-A");
        assert_eq!(refused(|f| f.headers.push(("X-A\r\nBcc".into(), "x@y.org".into()))), "headers.X-A\\r\\nBcc");
        let file = |change: fn(&mut AttachmentFields)| {
            let mut file = AttachmentFields {
                filename: "a".into(),
                content: Some(Blob::default()),
                ..AttachmentFields::default()
            };
            change(&mut file);
            refused(|f| f.attachments.push(file))
        };
        assert_eq!(file(|a| a.filename = "a\"\r\nX: y".into()), "attachments[0].filename");
        assert_eq!(file(|a| a.content_type = Some("text/plain;\r\nX: y".into())), "attachments[0].content_type");
        assert_eq!(file(|a| a.content_id = Some("a>\r\nX: y".into())), "attachments[0].content_id");
        assert_eq!(file(|a| a.content_type = Some("multipart/mixed".into())), "attachments[0].content_type");
        let long = |a: &mut AttachmentFields| a.content_type = Some(format!("text/plain; x={}", "x".repeat(499)));
        assert_eq!(file(long), "attachments[0].content_type");
        assert_eq!(file(|a| a.content = None), "attachments[0].content");
    }

    #[test]
    fn a_file_name_that_would_make_too_long_a_line_is_refused() {
        let named = |filename: String| {
            let content = Some(Blob::default());
            let file = AttachmentFields { filename, content, ..AttachmentFields::default() };
            let fields = DraftFields { attachments: vec![file], ..fields() };
            Draft::parse(fields, &DraftLimits::default()).map_err(|violations| violations.all()[0].field.clone())
        };
        for too_long in ["a".repeat(256), "ü".repeat(128)] {
            assert_eq!(named(too_long).unwrap_err(), "attachments[0].filename");
        }
        for longest in ["a".repeat(255), format!("a{}", "ü".repeat(127))] {
            assert_eq!(named(longest.clone()).unwrap().attachments()[0].filename, longest);
        }
    }

    #[test]
    fn structural_headers_cannot_be_overridden_in_any_case() {
        let structural = [
            "from",
            "TO",
            "Content-Type",
            "content-x",
            "Dkim-Signature",
            "Return-Path",
            "authentication-results",
            "Subject",
        ];
        let resent = ["Resent-Bcc", "resent-to", "RESENT-FROM", "Resent-Message-ID"];
        for name in structural.into_iter().chain(resent).chain(["", "a:b", "ä"]) {
            assert!(refused(|f| f.headers.push((name.into(), "x".into()))).starts_with("headers."), "{name}");
        }
    }

    #[test]
    fn a_name_that_is_too_long_is_shortened_in_the_refusal() {
        let field = refused(|f| f.headers.push(("é".repeat(100_000), "x".into())));
        assert_eq!(field, format!("headers.{}…", "é".repeat(38)));
        assert_eq!(refused(|f| f.headers.push(("ä".repeat(38), "x".into()))), format!("headers.{}", "ä".repeat(38)));
    }

    #[test]
    fn a_recipient_listed_twice_is_one_recipient_and_two_listings() {
        let mut fields = fields();
        fields.cc = vec!["Bob <BOB@example.org>".into(), "eve@example.org".into()];
        let draft = Draft::parse(fields, &DraftLimits::default()).unwrap();
        assert_eq!(draft.recipient_count(), 3);
        let expected = [("bob@example.org", RecipientKind::To), ("eve@example.org", RecipientKind::Cc)];
        assert_eq!(draft.recipients(), expected.map(|(address, kind)| (address.parse().unwrap(), kind)));
    }
}
