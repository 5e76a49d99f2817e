//! A header block as IMAP reports it (RFC 3501 section 7.4.2): some fields decoded, others as written.

use std::collections::BTreeSet;

use mailapi_model::Timestamp;

use super::addresses::AddressEntry;
use super::continued;
use super::fields::{self, Field};
use super::limits::Limits;
use super::parameters;

/// The fields of a header block. Of several fields with one name the first is used, unless stated otherwise.
#[derive(Debug)]
pub struct Header<'a> {
    fields: Vec<Field<'a>>,
    limits: Limits,
}

/// A raw value with parameters: encoded words and the notation of RFC 2231 stay.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct WrittenParameters {
    /// The text before the parameters, such as `attachment`.
    pub value: String,
    /// Names and values, without quotes and comments.
    pub parameters: Vec<(String, String)>,
}

impl<'a> Header<'a> {
    /// Parses a header block.
    #[must_use]
    pub fn of(block: &'a [u8]) -> Self {
        Self { fields: fields::fields(block, Limits::default().max_fields), limits: Limits::default() }
    }

    fn named<'s>(&'s self, name: &'s str) -> impl Iterator<Item = &'s [u8]> + 's {
        self.fields.iter().filter(move |field| field.name.eq_ignore_ascii_case(name)).map(|field| &*field.value)
    }

    /// Returns the names of all fields, as written.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.fields.iter().map(|field| field.name)
    }

    /// Returns the decoded values of all fields with a name, each on one line with its spaces as sent.
    pub fn texts<'s>(&'s self, name: &'s str) -> impl Iterator<Item = String> + 's {
        self.named(name).map(fields::text_line)
    }

    /// Returns every field with its name, decoded, each on one line.
    pub fn lines(&self) -> impl Iterator<Item = String> + '_ {
        let line = |field: &Field<'_>| format!("{}: {}", field.name, fields::text_line(&field.value));
        self.fields.iter().map(line)
    }

    /// Returns the people of all address fields with a name, one line for each field: without comments, with
    /// group names.
    pub fn people(&self, name: &str) -> Vec<String> {
        let read = |value| fields::address_entries(value, self.limits.max_address_bytes);
        let shown = |entries: Vec<AddressEntry>| entries.iter().map(AddressEntry::shown).collect::<Vec<_>>().join(", ");
        self.named(name).map(|value| shown(read(value))).collect()
    }

    /// Returns a decoded field, on one line.
    #[must_use]
    pub fn text(&self, name: &str) -> Option<String> {
        self.texts(name).next()
    }

    /// Returns a field as written, on one line.
    #[must_use]
    pub fn written(&self, name: &str) -> Option<String> {
        self.named(name).next().map(|value| fields::unfolded(value).into_owned())
    }

    /// Returns the decoded entries of an address field, including groups.
    #[must_use]
    pub fn addresses(&self, name: &str) -> Vec<AddressEntry> {
        let value = self.named(name).next();
        value.map(|value| fields::address_entries(value, self.limits.max_address_bytes)).unwrap_or_default()
    }

    /// Returns year, month and day of the Date field as written, regardless of its zone; `None` if it is
    /// invalid.
    #[must_use]
    pub fn day(&self) -> Option<(u16, u8, u8)> {
        self.named("Date").next().and_then(|value| fields::day(value, self.limits.max_parameter_bytes))
    }

    /// Returns the moments of all date fields with a name, without invalid ones.
    pub fn moments<'s>(&'s self, name: &'s str) -> impl Iterator<Item = Timestamp> + 's {
        self.named(name).filter_map(|value| fields::moment(value, self.limits.max_parameter_bytes))
    }

    /// Returns the different identifiers of all fields with a name, at most `most`. They have one form: without brackets,
    /// comments and white space, and with the domain in lower case.
    #[must_use]
    pub fn identifiers(&self, name: &str, most: usize) -> BTreeSet<String> {
        let mut found = BTreeSet::new();
        for value in self.named(name) {
            fields::add_identifiers(value, most, &mut found);
        }
        found
    }

    /// Returns the decoded entries of all address fields with a name.
    pub fn all_addresses<'s>(&'s self, name: &'s str) -> impl Iterator<Item = AddressEntry> + 's {
        self.named(name).flat_map(|value| fields::address_entries(value, self.limits.max_address_bytes))
    }

    /// Returns whether the block may have more fields than were read.
    #[must_use]
    pub const fn is_cut(&self) -> bool {
        self.fields.len() >= self.limits.max_fields
    }

    /// Returns a field with parameters, as written but for continued ones, which are joined.
    #[must_use]
    pub fn parameters(&self, name: &str) -> Option<WrittenParameters> {
        let text = fields::unfolded(self.named(name).next()?);
        let read = &text[..text.floor_char_boundary(self.limits.max_parameter_bytes)];
        let (value, parameters) = parameters::written(&parameters::separated(read));
        Some(WrittenParameters { value, parameters: continued::joined(parameters) })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parameters(value: &str) -> WrittenParameters {
        let block = format!("Content-Type:{value}\r\n\r\n");
        Header::of(block.as_bytes()).parameters("content-type").unwrap()
    }

    fn written<const N: usize>(value: &str, parameters: [(&str, &str); N]) -> WrittenParameters {
        let owned = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
        WrittenParameters { value: value.to_owned(), parameters: parameters.into_iter().map(owned).collect() }
    }

    #[test]
    fn broken_parameters_do_no_harm() {
        assert_eq!(parameters(""), written("", []));
        assert_eq!(parameters(" ;;=x; =\"\";y"), written("", []));
        assert_eq!(parameters(" a/b; c=\"open; d=e"), written("a/b", [("c", "open; d=e")]));
        assert_eq!(parameters(" a/b (open; c=d"), written("a/b", []));
        assert_eq!(parameters(" a/b) ; c=\\"), written("a/b)", [("c", "\\")]));
    }

    #[test]
    fn parameters_stay_as_they_are_written() {
        assert_eq!(
            parameters(
                " Text/Plain (a \\) ; \"comment); CHARSET = utf-8;\r\n name*0*=utf-8''na%C3%AFve; q=\"a;\\\"b\\\\c()\""
            ),
            written("Text/Plain", [("CHARSET", "utf-8"), ("name*", "utf-8''na%C3%AFve"), ("q", "a;\"b\\c()")])
        );
    }

    #[test]
    fn a_header_is_read_field_by_field() {
        let header = Header::of(
            b"DATE: Fri, 20 Nov 2026 23:15:30 -0800\r\nSubject: =?utf-8?q?caf=C3=A9?=\r\nX-Tag: one\r\nTo: Team:\r\n \
              Ann <ann@x.org>, b@x.org;, c@x.org\r\nx-tag: two\r\nEmpty:\r\n\r\n",
        );
        assert_eq!(header.day(), Some((2026, 11, 20)));
        let moments: Vec<String> = header.moments("date").map(|moment| moment.to_string()).collect();
        assert_eq!(moments, ["2026-11-21T07:15:30.000Z"]);
        assert_eq!(header.text("subject").as_deref(), Some("café"));
        assert_eq!(header.written("subject").as_deref(), Some("=?utf-8?q?caf=C3=A9?="));
        assert_eq!(header.texts("X-TAG").collect::<Vec<_>>(), ["one", "two"]);
        assert_eq!((header.text("empty").as_deref(), header.text("absent")), (Some(""), None));
        assert_eq!(header.names().collect::<Vec<_>>(), ["DATE", "Subject", "X-Tag", "To", "x-tag", "Empty"]);
        let person = |name: &str, email: &str| {
            let (local_part, domain) = email.split_once('@').unwrap();
            let (local_part, domain) = (local_part.to_owned(), domain.to_owned());
            AddressEntry::Mailbox { name: name.to_owned(), route: None, local_part, domain }
        };
        let (ann, bob, carl) = (person("Ann", "ann@x.org"), person("", "b@x.org"), person("", "c@x.org"));
        let expected = [AddressEntry::GroupStart("Team".to_owned()), ann, bob, AddressEntry::GroupEnd, carl];
        assert_eq!(header.addresses("To"), expected);
    }

    #[test]
    fn all_fields_with_a_name_are_read() {
        let block = "Date: x\r\nMessage-ID: <a@x>\r\nMessage-id: <B@X>\r\nDate: 20 Nov 2026 10:00\r\nFrom: a@x\r\n\
                     From: b@x, c@x\r\nDate: 21 Nov 2026 10:00\r\n";
        let header = Header::of(block.as_bytes());
        assert_eq!(Vec::from_iter(header.identifiers("Message-ID", 9)), ["B@x", "a@x"]);
        assert_eq!(header.identifiers("Message-ID", 1).len(), 1);
        assert_eq!((header.moments("Date").count(), header.all_addresses("From").count()), (2, 3));
        assert!(!header.is_cut());
        let many = "a: b\r\n".repeat(Limits::default().max_fields + 1) + block;
        assert!(Header::of(many.as_bytes()).is_cut());
    }

    proptest! {
        #[test]
        fn any_header_is_read(block in prop::collection::vec(any::<u8>(), 0..200), value in "[ -~]{0,80}") {
            for block in [block, format!("Date:{value}\r\nTo:{value}").into_bytes()] {
                let header = Header::of(&block);
                for name in ["Date", "To", "a"] {
                    let _ = (header.text(name), header.written(name), header.addresses(name), header.parameters(name));
                }
                let _ = (header.day(), header.moments("Date").count(), header.all_addresses("To").count());
            }
        }
    }
}
