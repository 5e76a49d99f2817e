//! Domains and addresses: the only definition of validity and equality.
//!
//! The grammar is RFC 5321 section 4.1.2 with the extension of RFC 6531 section 3.3 for non-ASCII local
//! parts. Both parts are compared case-insensitively, and in Unicode's form NFC; domains are stored as A-labels (RFC 5890
//! section 2.3.2.1).
//!
//! Only the host of an address may interpret its local part (RFC 5321 section 2.4), so mail is sent with the
//! local part as given. Address literals (`user@[192.0.2.1]`) are rejected: no hosted domain has that form.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::str::FromStr;

use idna::AsciiDenyList;
use idna::uts46::{DnsLength, Hyphens, Uts46};
use unicode_normalization::UnicodeNormalization;

/// Why a text is not a valid address or domain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// There is no `@`, or nothing before it.
    #[error("must be an email address, such as user@example.org")]
    NotAnAddress,
    /// The local part is malformed or longer than 160 bytes.
    #[error("the part before the @ is not valid")]
    LocalPart,
    /// The domain is not a valid host name, or is longer than 253 bytes.
    #[error("must be a domain name, such as example.org")]
    Domain,
    /// A display name contains a control character, or an unquoted angle bracket.
    #[error("a name must not contain control characters, and must quote < and >")]
    Name,
}

/// A mail domain. Domains are equal if their A-labels are.
#[derive(Clone)]
pub struct DomainName {
    ascii: String,
    given: Option<Box<str>>,
}

impl DomainName {
    /// Returns the A-labels in lower case, the form for storage, comparison and protocols.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.ascii
    }

    /// Returns the internationalised form as given; the A-labels if it was given in that form.
    #[must_use]
    pub fn shown(&self) -> &str {
        self.given.as_deref().unwrap_or(&self.ascii)
    }

    /// Returns the form to store besides the A-labels, if any.
    #[must_use]
    pub fn given(&self) -> Option<&str> {
        self.given.as_deref()
    }

    /// Sets the form as given, which a caller stored before.
    #[must_use]
    pub fn with_given(mut self, given: Option<String>) -> Self {
        self.given = given.map(String::into_boxed_str);
        self
    }
}

impl FromStr for DomainName {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let ascii = Uts46::new()
            .to_ascii(text.as_bytes(), AsciiDenyList::STD3, Hyphens::CheckFirstLast, DnsLength::Verify)
            .map_err(|_| AddressError::Domain)?
            .into_owned();
        let all_digits = |label: &str| label.bytes().all(|b| b.is_ascii_digit());
        if ascii.rsplit('.').next().is_some_and(all_digits) {
            // A numeric top-level label means an IPv4 address, never a domain (RFC 3696 section 2).
            return Err(AddressError::Domain);
        }
        // An ASCII domain is displayed as its A-labels.
        let given = (!text.is_ascii()).then(|| text.to_lowercase().into_boxed_str());
        Ok(Self { ascii, given })
    }
}

/// The local part of catch-all addresses. No parser treats it specially: it is a valid local part.
const CATCH_ALL: &str = "*";

/// Separates a tag from the local part (RFC 5233). The mail servers use the same.
const TAG: char = '+';

/// An address `local@domain`, compared in lower case with the domain as A-labels.
///
/// Parsing folds the local part to lower case, as is correct for the name of a mailbox.
/// [`EmailAddress::as_given`] keeps its case, for an address to send mail to.
#[derive(Clone)]
pub struct EmailAddress {
    canonical: String,
    at: usize,
    given: Option<Box<str>>,
}

impl EmailAddress {
    /// RFC 5321 section 4.5.3.1.1 allows 64. Forwarders (SRS) and list software (VERP) create longer
    /// reverse-paths, and their mail must be accepted.
    const MAX_LOCAL: usize = 160;
    const MAX_LENGTH: usize = 254;

    /// Returns the canonical form, for keys and comparison.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.canonical
    }

    /// Returns the form for SMTP: the local part as given, the domain as A-labels.
    #[must_use]
    pub fn wire(&self) -> Cow<'_, str> {
        match self.given_local() {
            local if local == self.local() => Cow::Borrowed(&self.canonical),
            local => Cow::Owned(format!("{local}@{}", self.domain_str())),
        }
    }

    /// Returns whether the local part was given in lower case.
    #[must_use]
    pub fn is_folded(&self) -> bool {
        self.given_local() == self.local()
    }

    /// Converts the local part to lower case.
    #[must_use]
    pub fn folded(self) -> Self {
        if self.is_folded() {
            return self;
        }
        let domain = self.domain();
        let given = domain.given.map(|domain| format!("{}@{domain}", self.local()).into_boxed_str());
        Self { given, ..self }
    }

    fn given_local(&self) -> &str {
        self.given.as_deref().and_then(|given| given.rsplit_once('@')).map_or(self.local(), |(local, _)| local)
    }

    /// Returns the local part in lower case, quoted if necessary.
    #[must_use]
    pub fn local(&self) -> &str {
        &self.canonical[..self.at]
    }

    /// Returns the domain as A-labels.
    #[must_use]
    pub fn domain_str(&self) -> &str {
        &self.canonical[self.at + 1..]
    }

    /// Returns the domain.
    #[must_use]
    pub fn domain(&self) -> DomainName {
        let given = self.given.as_deref().and_then(|given| given.rsplit_once('@')).map(|(_, domain)| domain);
        let given = given.filter(|domain| *domain != self.domain_str()).map(Box::from);
        DomainName { ascii: self.domain_str().to_owned(), given }
    }

    /// Returns the address as given.
    #[must_use]
    pub fn shown(&self) -> &str {
        self.given.as_deref().unwrap_or(&self.canonical)
    }

    /// Returns the form to store besides the canonical one, if they differ.
    #[must_use]
    pub fn given(&self) -> Option<&str> {
        self.given.as_deref()
    }

    /// Sets the form as given, which a caller stored before.
    #[must_use]
    pub fn with_given(mut self, given: Option<String>) -> Self {
        self.given = given.map(String::into_boxed_str);
        self
    }

    /// Returns the address with its domain as U-labels, in whatever form it was given.
    #[must_use]
    pub fn international(&self) -> String {
        let (domain, _) = Uts46::new().to_unicode(self.domain_str().as_bytes(), AsciiDenyList::STD3, Hyphens::Allow);
        format!("{}@{domain}", self.local())
    }

    /// Returns the catch-all address of a domain, `*@domain`: it stands for every address of the domain that is neither
    /// a mailbox nor an alias.
    #[must_use]
    pub fn catch_all_of(domain: &DomainName) -> Self {
        let canonical = format!("{CATCH_ALL}@{}", domain.as_str());
        let given = domain.given().map(|domain| format!("{CATCH_ALL}@{domain}").into_boxed_str());
        Self { canonical, at: CATCH_ALL.len(), given }
    }

    /// Returns whether it is the catch-all address of its domain.
    #[must_use]
    pub fn is_catch_all(&self) -> bool {
        self.local() == CATCH_ALL
    }

    /// Returns the address before the tag: `bob@…` for `bob+tag@…`. `None` without a tag, or if it is not an address, as
    /// in a part of a quoted string.
    #[must_use]
    pub fn without_tag(&self) -> Option<Self> {
        let (name, _) = self.local().split_once(TAG)?;
        format!("{name}@{}", self.domain_str()).parse().ok()
    }

    /// Returns whether sending to it requires SMTPUTF8 (RFC 6531). Only a non-ASCII local part does.
    #[must_use]
    pub fn needs_smtputf8(&self) -> bool {
        !self.given_local().is_ascii()
    }
}

impl FromStr for EmailAddress {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::as_given(text).map(Self::folded)
    }
}

impl EmailAddress {
    /// Parses an address and keeps the case of its local part.
    ///
    /// # Errors
    /// The errors of parsing.
    pub fn as_given(text: &str) -> Result<Self, AddressError> {
        // Fast path: almost all addresses are canonical already.
        if let Some(at) = place_in_canonical(text) {
            return Ok(Self { canonical: text.to_owned(), at, given: None });
        }
        Self::from_any(text)
    }

    fn from_any(text: &str) -> Result<Self, AddressError> {
        let (local, domain) = text.rsplit_once('@').ok_or(AddressError::NotAnAddress)?;
        if local.is_empty() || domain.is_empty() {
            return Err(AddressError::NotAnAddress);
        }
        let folded = unquoted_local(&comparable_local(local)).ok_or(AddressError::LocalPart)?;
        let local = unquoted_local(local).ok_or(AddressError::LocalPart)?;
        // Lower-casing can lengthen the text: `İ` becomes two characters.
        if local.len().max(folded.len()) > Self::MAX_LOCAL {
            return Err(AddressError::LocalPart);
        }
        let domain: DomainName = domain.parse()?;
        let canonical = format!("{folded}@{}", domain.ascii);
        if canonical.len().max(local.len() + 1 + domain.ascii.len()) > Self::MAX_LENGTH {
            return Err(AddressError::Domain);
        }
        let is_canonical = local == folded && domain.given.is_none();
        let given = (!is_canonical).then(|| format!("{local}@{}", domain.shown()).into_boxed_str());
        Ok(Self { canonical, at: folded.len(), given })
    }
}

/// Returns a local part, with its quotes, in the form for comparison. Programs write `é` as one character or as two; both
/// name one mailbox (RFC 6532 section 3.1). The form is checked like any other: a Greek question mark becomes `;`.
fn comparable_local(local: &str) -> String {
    if local.is_ascii() {
        return local.to_ascii_lowercase();
    }
    local.nfc().collect::<String>().to_lowercase().nfc().collect()
}

/// Returns the position of the `@` in a text that is obviously a canonical address, as almost all are:
/// lower-case letters, digits and a few marks. Other texts need the full parser.
fn place_in_canonical(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let at = bytes.iter().position(|byte| OBVIOUS[usize::from(*byte)] & LOCAL == 0)?;
    let (local, domain) = (&bytes[..at], bytes.get(at + 1..)?);
    let fits = bytes[at] == b'@'
        && at <= EmailAddress::MAX_LOCAL
        && bytes.len() <= EmailAddress::MAX_LENGTH
        && domain.len() <= 253
        && are_atoms(local)
        && are_labels(domain);
    fits.then_some(at)
}

/// Returns whether there are no leading, trailing or double dots.
fn are_atoms(local: &[u8]) -> bool {
    let is_dot = |byte: Option<&u8>| byte.is_none_or(|byte| *byte == b'.');
    !is_dot(local.first()) && !is_dot(local.last()) && !local.windows(2).any(|pair| pair == b"..")
}

/// Returns whether these are valid labels without special cases of host names or IDNA, the last one not a
/// number.
fn are_labels(domain: &[u8]) -> bool {
    let mut begin = 0;
    for (place, byte) in domain.iter().enumerate() {
        if *byte == b'.' {
            if !is_label(&domain[begin..place]) {
                return false;
            }
            begin = place + 1;
        } else if OBVIOUS[usize::from(*byte)] & LABEL == 0 {
            return false;
        }
    }
    is_label(&domain[begin..]) && domain.last().is_some_and(u8::is_ascii_lowercase)
}

fn is_label(label: &[u8]) -> bool {
    let hyphens = [label.first(), label.last(), label.get(3)].contains(&Some(&b'-'));
    (1..=63).contains(&label.len()) && !hyphens
}

/// A byte of an obvious local part, including dots.
const LOCAL: u8 = 1;
/// A byte of an obvious label.
const LABEL: u8 = 2;

/// The uses of each byte.
static OBVIOUS: [u8; 256] = {
    let mut kinds = [0; 256];
    let mut byte: u8 = 0;
    while byte < 128 {
        kinds[byte as usize] = match byte {
            b'a'..=b'z' | b'0'..=b'9' | b'-' => LOCAL | LABEL,
            b'_' | b'+' | b'=' | b'.' => LOCAL,
            _ => 0,
        };
        byte += 1;
    }
    kinds
};

/// Removes unnecessary quotes from a local part; `None` if it is invalid.
fn unquoted_local(text: &str) -> Option<String> {
    match text.strip_prefix('"') {
        Some(rest) => Some(requote(&unquote(rest.strip_suffix('"')?)?)),
        None if is_dot_string(text) => Some(text.to_owned()),
        None => None,
    }
}

/// Returns the content of a Quoted-string (RFC 5321 section 4.1.2).
fn unquote(quoted: &str) -> Option<String> {
    let mut content = String::with_capacity(quoted.len());
    let mut chars = quoted.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => content.push(chars.next().filter(|c| (' '..='~').contains(c))?),
            '"' => return None,
            c if c.is_control() => return None,
            c => content.push(c),
        }
    }
    (!content.is_empty()).then_some(content)
}

fn requote(content: &str) -> String {
    if is_dot_string(content) {
        return content.to_owned();
    }
    format!("\"{}\"", content.replace('\\', "\\\\").replace('"', "\\\""))
}

fn is_dot_string(text: &str) -> bool {
    let atext = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-/=?^_`{|}~".contains(c) || is_utf8_text(c);
    text.split('.').all(|atom| !atom.is_empty() && atom.chars().all(atext))
}

/// Returns whether a character is UTF8-non-ascii (RFC 6531 section 3.3), excluding invisible ones: controls,
/// spaces, and marks that change the text direction.
fn is_utf8_text(c: char) -> bool {
    let directional =
        matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}');
    !c.is_ascii() && !c.is_control() && !c.is_whitespace() && !directional
}

macro_rules! compare_by_canonical_form {
    ($type:ty, $canonical:ident) => {
        impl PartialEq for $type {
            fn eq(&self, other: &Self) -> bool {
                self.$canonical == other.$canonical
            }
        }
        impl Eq for $type {}
        impl Hash for $type {
            fn hash<H: Hasher>(&self, state: &mut H) {
                self.$canonical.hash(state);
            }
        }
        impl PartialOrd for $type {
            fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
                Some(self.cmp(other))
            }
        }
        impl Ord for $type {
            fn cmp(&self, other: &Self) -> Ordering {
                self.$canonical.cmp(&other.$canonical)
            }
        }
        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.$canonical)
            }
        }
        impl fmt::Debug for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.$canonical)
            }
        }
    };
}

compare_by_canonical_form!(DomainName, ascii);
compare_by_canonical_form!(EmailAddress, canonical);

/// An address with an optional display name: `ann@example.org` or `Ann Lee <ann@example.org>` (RFC 5322
/// section 3.4).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedAddress {
    /// The display name without quotes; never empty, and without control characters.
    pub name: Option<String>,
    /// The address.
    pub address: EmailAddress,
}

impl FromStr for NamedAddress {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let text = text.trim_matches(' ');
        let Some(bracketed) = text.strip_suffix('>') else {
            return Ok(Self { name: None, address: EmailAddress::as_given(text)? });
        };
        let (name, address) = bracketed.rsplit_once('<').ok_or(AddressError::NotAnAddress)?;
        let name = display_name(name.trim_matches(' '))?;
        Ok(Self { name, address: EmailAddress::as_given(address)? })
    }
}

/// Parses the display name before an angle-bracketed address.
///
/// An unquoted bracket in the name means a list of addresses instead of one, of which only the last would
/// receive the message.
fn display_name(text: &str) -> Result<Option<String>, AddressError> {
    let inner = text.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    let name = match inner {
        Some(quoted) => unquote(quoted).ok_or(AddressError::Name)?,
        None if text.contains(['<', '>']) => return Err(AddressError::Name),
        None => text.to_owned(),
    };
    if name.chars().any(char::is_control) {
        return Err(AddressError::Name);
    }
    Ok(Some(name).filter(|name| !name.trim().is_empty()))
}

impl From<EmailAddress> for NamedAddress {
    fn from(address: EmailAddress) -> Self {
        Self { name: None, address }
    }
}

impl fmt::Display for NamedAddress {
    /// Formats as `Name <address>` for people; MIME composition encodes names itself.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.name {
            Some(name) => write!(f, "{name} <{}>", self.address.shown()),
            None => f.write_str(self.address.shown()),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_tag_is_taken_off() {
        let base = |text: &str| text.parse::<EmailAddress>().unwrap().without_tag().map(|base| base.to_string());
        assert_eq!(base("Ann+x+y@Example.org").as_deref(), Some("ann@example.org"));
        for text in ["ann@example.org", "+x@example.org", "\"a +b\"@example.org"] {
            assert_eq!(base(text), None, "{text}");
        }
    }

    #[test]
    fn what_is_no_address_is_refused() {
        let long = format!("{}@example.org", "a".repeat(161));
        for text in [
            "",
            "@",
            "ann",
            "ann@",
            "@example.org",
            "a b@example.org",
            "ann@exa mple.org",
            "ann@-x.org",
            "ann@x..org",
            "ann@[192.0.2.1]",
            "ann@192.0.2.1",
            ".ann@x.org",
            "ann.@x.org",
            "a..b@x.org",
            "ann@x.org.",
            "ann\r\n@x.org",
            "\"a\"b\"@x.org",
            "ann@x_y.org",
            "a\u{202e}b@x.org",
            "<ann@x.org>",
            "ann@x.org,bob@x.org",
            &long,
        ] {
            assert!(text.parse::<EmailAddress>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn case_and_needless_quotes_make_no_difference() {
        let one: EmailAddress = "\"Ann.Lee\"@EXAMPLE.org".parse().unwrap();
        assert_eq!(one, "ann.lee@example.org".parse().unwrap());
        assert_eq!((one.local(), one.domain_str()), ("ann.lee", "example.org"));
        let spaced: EmailAddress = "\"ann lee\"@example.org".parse().unwrap();
        assert_eq!(spaced.as_str(), "\"ann lee\"@example.org");
    }

    #[test]
    fn a_local_part_is_compared_folded_and_sent_as_given() {
        let forwarder = EmailAddress::as_given("SRS0=AbCd=2K=a.test=Ann@FWD.test").unwrap();
        assert_eq!(forwarder, "srs0=abcd=2k=a.test=ann@fwd.test".parse().unwrap());
        assert_eq!(forwarder.as_str(), "srs0=abcd=2k=a.test=ann@fwd.test");
        assert_eq!(forwarder.wire(), "SRS0=AbCd=2K=a.test=Ann@fwd.test");
        assert_eq!(forwarder.shown(), forwarder.wire());
        assert_eq!(forwarder.domain().given(), None);
        let again = "srs0=abcd=2k=a.test=ann@fwd.test".parse::<EmailAddress>().unwrap();
        assert_eq!(again.with_given(forwarder.given().map(str::to_owned)).wire(), forwarder.wire());
        assert_eq!((forwarder.is_folded(), forwarder.folded().given()), (false, None));

        let international = EmailAddress::as_given("\"Ann\"@Bücher.example").unwrap();
        assert_eq!(international.wire(), "Ann@xn--bcher-kva.example");
        assert_eq!(international.shown(), "Ann@bücher.example");
        assert_eq!(international.folded().shown(), "ann@bücher.example");
        // The Kelvin sign becomes an ASCII letter in lower case.
        assert!(EmailAddress::as_given("\u{212a}@example.org").unwrap().needs_smtputf8());
        let longer = format!("{}@example.org", "İ".repeat(60));
        assert_eq!(EmailAddress::as_given(&longer), Err(AddressError::LocalPart), "180 bytes in lower case");
    }

    #[test]
    fn international_domains_are_stored_as_a_labels() {
        let address: EmailAddress = "Ann@Bücher.example".parse().unwrap();
        assert_eq!(address.as_str(), "ann@xn--bcher-kva.example");
        assert_eq!(address.shown(), "ann@bücher.example");
        assert_eq!(address.domain().shown(), "bücher.example");
        assert!(!address.needs_smtputf8());
        assert!("jürgen@example.org".parse::<EmailAddress>().unwrap().needs_smtputf8());
    }

    #[test]
    fn several_addresses_are_not_one_with_a_long_name() {
        for text in [
            "Bob <bob@example.org>, Carl <carl@example.org>",
            "\"Bob\" <bob@example.org>, \"Carl\" <carl@example.org>",
            "bob@example.org>, <carl@example.org>",
            "<bob@example.org> <carl@example.org>",
        ] {
            assert_eq!(text.parse::<NamedAddress>(), Err(AddressError::Name), "{text}");
        }
        for (text, name) in [
            ("\"Bob <at work>\" <carl@example.org>", "Bob <at work>"),
            ("Lee, Ann <carl@example.org>", "Lee, Ann"),
            ("bob@example.org <carl@example.org>", "bob@example.org"),
        ] {
            let named: NamedAddress = text.parse().unwrap();
            assert_eq!((named.name.as_deref(), named.address.as_str()), (Some(name), "carl@example.org"), "{text}");
        }
    }

    #[test]
    fn a_display_name_is_taken_off() {
        let named: NamedAddress = "\"Lee, Ann\" <ann@example.org>".parse().unwrap();
        assert_eq!(named.name.as_deref(), Some("Lee, Ann"));
        assert_eq!(named.to_string(), "Lee, Ann <ann@example.org>");
        assert!("Ann\nBcc: x@y.org <ann@example.org>".parse::<NamedAddress>().is_err());
        assert_eq!("<ann@example.org>".parse::<NamedAddress>().unwrap().name, None);
    }

    #[test]
    fn decomposed_letters_name_the_same_mailbox() {
        let (composed, decomposed) = ("jos\u{e9}@example.org", "Jose\u{301}@Example.org");
        let (one, other): (EmailAddress, EmailAddress) = (composed.parse().unwrap(), decomposed.parse().unwrap());
        assert_eq!((&one, one.as_str(), other.as_str()), (&other, composed, composed));
        let given = EmailAddress::as_given(decomposed).unwrap();
        assert_eq!((&given, &*given.wire()), (&one, "Jose\u{301}@example.org"), "mail is sent as given");
        assert_eq!("\"A \u{301}\"@x.org".parse::<EmailAddress>().unwrap().local(), "\"a \u{301}\"");
        assert_eq!("a\u{37e}b@example.org".parse::<EmailAddress>(), Err(AddressError::LocalPart));
    }

    proptest! {
        #[test]
        fn any_text_parses_without_panic_to_a_stable_form(text in "\\PC{0,40}|[a-z.\"\\\\@ ]{0,20}@[a-zA-Z.ü-]{1,20}") {
            if let Ok(address) = text.parse::<EmailAddress>() {
                let again: EmailAddress = address.as_str().parse().unwrap();
                prop_assert_eq!(again.as_str(), address.as_str());
                let given = EmailAddress::as_given(&text).unwrap();
                prop_assert_eq!(&given, &address);
                let (sent, shown) = (given.wire().into_owned(), given.shown().to_owned());
                let again = [&sent, &shown].map(|text| EmailAddress::as_given(text).unwrap());
                prop_assert_eq!((again[0].wire().into_owned(), again[1].shown()), (sent, shown.as_str()));
                let folded = given.folded();
                prop_assert_eq!(folded.shown(), address.shown());
                prop_assert!(!address.as_str().chars().any(|c| c.is_control()));
            }
            let _ = text.parse::<NamedAddress>();
        }

        #[test]
        fn composed_and_decomposed_letters_are_equal(text in "[a-zé-ü\u{301}\u{308}\u{ac00}-\u{ac20}]{1,12}@x\\.org") {
            let forms = [text.clone(), text.nfc().collect(), text.nfd().collect()];
            let parsed = forms.map(|form| form.parse::<EmailAddress>());
            prop_assert_eq!(&parsed[0], &parsed[1]);
            prop_assert_eq!(&parsed[0], &parsed[2]);
        }

        #[test]
        fn a_name_that_is_taken_hides_no_address(text in "[a-c@.,<>\" ]{0,24}<ann@example\\.org>") {
            if let Ok(named) = text.parse::<NamedAddress>() {
                prop_assert_eq!(named.address.as_str(), "ann@example.org");
                let hidden = named.name.is_some_and(|name| name.contains(['<', '>']));
                prop_assert!(!hidden || text.starts_with([' ', '"']));
            }
        }

        #[test]
        fn the_short_way_and_the_long_way_agree(
            text in "[a-z0-9.+_=-]{0,8}@[a-z0-9.-]{0,16}|[a-z.]{1,170}@[a-z]{1,70}(\\.[a-z]{1,63}){0,3}|[a-zA-Z\"@. ü-]{0,12}|a@(xn--[a-z0-9]{1,5}|[a-z]{2}--[a-z])\\.org",
        ) {
            if let Some(at) = place_in_canonical(&text) {
                let address = EmailAddress::from_any(&text).map_err(|error| TestCaseError::fail(format!("{text}: {error}")))?;
                prop_assert_eq!((address.as_str(), address.at, address.given()), (text.as_str(), at, None));
            }
        }
    }
}
