//! Searchable text, comparison, and excerpts.

use std::convert::Infallible;

use super::fields::{beginning_on_one_line, one_line};
use super::fold::{begins_letter, find, fold};
use super::html;
use super::message_structure::{BodyPart, MessageStructure, PartSpan, authors};
use super::selection::BodyRole;
use crate::{Correspondent, FullMessage, SearchText};

/// Maximum characters of an excerpt.
pub(crate) const SNIPPET_CHARACTERS: usize = 200;

/// Length of the prefix that determines an excerpt: its characters and the next one, which shows whether the cut splits a
/// letter. A character has at most four bytes.
const BYTES_OF_EXCERPT: usize = 4 * (SNIPPET_CHARACTERS + 1);

/// Encoded bytes of a body that are read for its beginning. HTML has styles before the text.
const BEGINNING_OF_TEXT: u64 = 4 * 1024;
const BEGINNING_OF_HTML: u64 = 64 * 1024;

/// Maximum characters before the match.
const CHARACTERS_BEFORE_MATCH: usize = 60;

/// The decoded text of a message that searches cover, each field on one line.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SearchableText {
    /// The subject.
    pub subject: String,
    /// `Name <address>` of each author, separated by commas.
    pub from: String,
    /// The To recipients in the same form.
    pub to: String,
    /// The Cc recipients in the same form.
    pub cc: String,
    /// The text of the plain body and of the HTML body; the latter is left out if the former contains it.
    pub body: String,
}

impl SearchableText {
    /// Returns the text of a raw message.
    #[must_use]
    pub fn of(raw: &[u8], structure: &MessageStructure) -> Self {
        let Ok(text) = Self::read(structure, |span| Ok::<_, Infallible>(span.of(raw)));
        text
    }

    /// Returns the text of a message of which `bytes` reads encoded pieces. Only what is needed is read.
    ///
    /// # Errors
    /// The errors of `bytes`.
    pub fn read<T: AsRef<[u8]>, E>(
        structure: &MessageStructure,
        mut bytes: impl FnMut(PartSpan) -> Result<T, E>,
    ) -> Result<Self, E> {
        let (text, html) = structure.decode_bodies(&mut bytes)?;
        // The stored structure has only the beginnings of long fields.
        let block = bytes(structure.header())?;
        Ok(Self { body: body_text(text.as_deref(), html.as_deref()), ..Self::of_header(block.as_ref()) })
    }

    /// Returns the text of a header block, without a body.
    #[must_use]
    pub fn of_header(block: &[u8]) -> Self {
        let header = MessageStructure::of_header_block(block);
        Self {
            from: shown(&authors(block)),
            to: shown(&header.to),
            cc: shown(&header.cc),
            subject: header.subject,
            body: String::new(),
        }
    }

    /// Returns the text of an opened message.
    #[must_use]
    pub fn of_message(message: &FullMessage) -> Self {
        Self {
            subject: message.summary.subject.clone(),
            from: authors_of(message),
            to: shown(&message.summary.to),
            cc: shown(&message.cc),
            body: body_text(message.text.as_deref(), message.html.as_deref()),
        }
    }

    /// Returns the text of an HTML body alone.
    #[must_use]
    pub fn of_html(html: &str) -> Self {
        Self { body: body_text(None, Some(html)), ..Self::default() }
    }

    /// Returns everything as one text for an index: one line for each field, the body last. Search texts
    /// contain no line ends, so no match spans two fields.
    #[must_use]
    pub fn joined(&self) -> String {
        [&self.subject, &self.from, &self.to, &self.cc, &self.body].map(String::as_str).join("\n")
    }
}

fn shown(people: &[Correspondent]) -> String {
    let one = |person: &Correspondent| match (person.name.as_str(), person.email.as_str()) {
        ("", email) => email.to_owned(),
        (name, "") => name.to_owned(),
        (name, email) => format!("{name} <{email}>"),
    };
    people.iter().map(one).collect::<Vec<_>>().join(", ")
}

/// Returns the authors of an opened message; its summary has only the first.
fn authors_of(message: &FullMessage) -> String {
    let first = shown(std::slice::from_ref(&message.summary.from));
    let written = message.headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("From"));
    // Fields with the same name are joined by line feeds; use the first.
    let Some(value) = written.and_then(|(_, value)| value.split('\n').next()) else { return first };
    match value.contains(',') {
        true => shown(&authors(format!("From: {value}\r\n\r\n").as_bytes())),
        false => first,
    }
}

fn body_text(text: Option<&str>, html: Option<&str>) -> String {
    let text = text.map(one_line).unwrap_or_default();
    let html = html.map(|html| one_line(&html::text_of(html))).unwrap_or_default();
    match (text.is_empty(), text.contains(&html)) {
        (_, true) => text,
        (true, false) => html,
        (false, false) => format!("{text} {html}"),
    }
}

/// Returns whether a message's [`SearchableText::joined`] text matches the search text.
#[must_use]
pub fn matches(joined: &str, query: &SearchText) -> bool {
    fold(joined).contains(&fold(query.as_str()))
}

/// Returns the beginning of the text of a message, on one line and at most `SNIPPET_CHARACTERS` characters. `bytes`
/// reads encoded pieces; only the first part of a body is read.
///
/// # Errors
/// The errors of `bytes`.
pub fn beginning<T: AsRef<[u8]>, E>(
    structure: &MessageStructure,
    mut bytes: impl FnMut(PartSpan) -> Result<T, E>,
) -> Result<String, E> {
    let mut first = |is_wanted: fn(&BodyRole) -> bool, most: u64| {
        let body = structure.bodies.iter().find(|body| is_wanted(&body.role));
        let piece = |body: &BodyPart| PartSpan { length: body.span.length.min(most), ..body.span };
        body.map(|body| bytes(piece(body)).map(|encoded| body.decode(encoded.as_ref()))).transpose()
    };
    let text = first(|role| role.in_text && !role.is_html, BEGINNING_OF_TEXT)?;
    let text = text.map(|text| beginning_on_one_line(&text, BYTES_OF_EXCERPT)).unwrap_or_default();
    if !text.is_empty() {
        return Ok(excerpt(&text, 0));
    }
    let html = first(|role| role.is_html, BEGINNING_OF_HTML)?;
    Ok(excerpt(&body_text(None, html.as_deref()), 0))
}

/// Returns the beginning of the text of an opened message, as [`beginning`] does.
#[must_use]
pub fn beginning_of(message: &FullMessage) -> String {
    let text = message.text.as_deref().map(|text| beginning_on_one_line(text, BYTES_OF_EXCERPT)).unwrap_or_default();
    if text.is_empty() { excerpt(&body_text(None, message.html.as_deref()), 0) } else { excerpt(&text, 0) }
}

/// Returns an excerpt of a [`SearchableText::joined`] text around the first match, on one line, of at most
/// `SNIPPET_CHARACTERS` characters.
///
/// A match in the body is preferred to one in a field. Without a match, it is the beginning of the body.
#[must_use]
pub fn snippet(joined: &str, query: &SearchText) -> String {
    let wanted = fold(query.as_str());
    let body = joined.rsplit('\n').next().unwrap_or_default();
    let found = std::iter::once(body).chain(joined.split('\n')).find_map(|line| Some((line, find(line, &wanted)?)));
    let (line, at) = found.unwrap_or((body, 0));
    excerpt(line, at)
}

/// Returns the characters around `at`, starting at a word, with ellipses for omitted text.
fn excerpt(line: &str, at: usize) -> String {
    let before = line[..at].char_indices().rev().take(CHARACTERS_BEFORE_MATCH).last().map_or(at, |(start, _)| start);
    let word = line[before..at].find(' ').map_or(before, |space| before + space + 1);
    let start = if before == 0 { 0 } else { word };
    let mut excerpt = String::from(if start == 0 { "" } else { "…" });
    let room = SNIPPET_CHARACTERS - excerpt.chars().count();
    let rest = &line[start..];
    match rest.char_indices().nth(room) {
        None => excerpt.push_str(rest),
        Some(_) => {
            let end = rest.char_indices().nth(room - 1).map_or(rest.len(), |(end, _)| end);
            excerpt.push_str(&rest[..whole_letters(rest, end)]);
            excerpt.push('…');
        }
    }
    excerpt
}

/// Returns the largest offset up to `end` that does not split a letter; `end` if the text is one letter.
fn whole_letters(text: &str, end: usize) -> usize {
    if text[end..].starts_with(begins_letter) {
        return end;
    }
    text[..end].rfind(begins_letter).filter(|&start| start > 0).unwrap_or(end)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn query(text: &str) -> SearchText {
        text.parse().unwrap()
    }

    #[test]
    fn a_match_does_not_run_from_one_field_into_the_next() {
        let text = SearchableText { subject: "one".into(), from: "two".into(), ..SearchableText::default() }.joined();
        assert!(!matches(&text, &query("one two")));
        assert!(!matches(&text, &query("etw")));
        assert!(matches(&text, &query("TWO")));
    }

    #[test]
    fn the_excerpt_stands_around_the_match() {
        let body = format!("{} needle {}", "hay ".repeat(100), "straw ".repeat(100));
        let text = SearchableText { subject: "Needle".into(), body, ..SearchableText::default() }.joined();
        let found = snippet(&text, &query("NEEDLE"));
        assert!(found.starts_with("…hay ") && found.contains(" needle straw") && found.ends_with('…'), "{found}");
        assert_eq!(found.chars().count(), SNIPPET_CHARACTERS);
        let short = SearchableText { subject: "Lunch?".into(), body: "At noon".into(), ..SearchableText::default() };
        assert_eq!(snippet(&short.joined(), &query("lunch")), "Lunch?");
        assert_eq!(snippet(&short.joined(), &query("noon")), "At noon");
        assert_eq!(snippet(&short.joined(), &query("absent")), "At noon");
    }

    #[test]
    fn the_excerpt_shows_what_was_written_and_cuts_no_letter() {
        let decomposed = "Mu\u{308}ller aus Gießen";
        let body = format!("{} {decomposed}", "ffi\u{fb03} ß ".repeat(30));
        let text = SearchableText { body, ..SearchableText::default() }.joined();
        for wanted in ["müller", "MU\u{308}LLER AUS GIESSEN"] {
            let found = snippet(&text, &query(wanted));
            assert!(found.ends_with(decomposed), "{found}");
        }
        let long = SearchableText { body: "u\u{308}".repeat(300), ..SearchableText::default() }.joined();
        let found = snippet(&long, &query("üü"));
        assert!(found.ends_with("u\u{308}…"), "{found}");
        assert!(found.chars().count() <= SNIPPET_CHARACTERS);
    }

    #[test]
    fn the_beginning_is_that_of_the_first_text() {
        let beginning = |raw: &str| {
            let raw = raw.replace('\n', "\r\n").into_bytes();
            let Ok(text) = beginning(&MessageStructure::of(&raw), |span| Ok::<_, Infallible>(span.of(&raw).to_vec()));
            text
        };
        assert_eq!(beginning("Subject: x\n\n"), "");
        assert_eq!(beginning("Subject: x\n\nOn  Friday\nat noon\n"), "On Friday at noon");
        let html = format!("<style>{}</style><p>On <b>Fri</b>day</p>", "a { b: c } ".repeat(1_000));
        assert_eq!(beginning(&format!("Content-Type: text/html\n\n{html}\n")), "On Friday");
        let encoded = "Content-Transfer-Encoding: base64\nContent-Type: text/plain; charset=utf-8\n\nR3LDvMOfZQ==\n";
        assert_eq!(beginning(encoded), "Grüße");
        let long = beginning(&format!("Subject: x\n\n{}\n", "word ".repeat(5_000)));
        assert_eq!(long.chars().count(), SNIPPET_CHARACTERS);
    }

    proptest! {
        #[test]
        fn any_message_has_a_short_beginning(raw in "(Content-Type: text/(plain|html)(; charset=[a-z0-9-]{0,9})?\r\n)?(Content-Transfer-Encoding: (base64|quoted-printable)\r\n)?\r\n[ -~é<>=\r\n]{0,400}") {
            let structure = MessageStructure::of(raw.as_bytes());
            let Ok(text) = beginning(&structure, |span| Ok::<_, Infallible>(span.of(raw.as_bytes()).to_vec()));
            prop_assert!(text.chars().count() <= SNIPPET_CHARACTERS && !text.contains(['\r', '\n']));
        }

        #[test]
        fn the_beginning_of_a_text_decides_its_excerpt(text in "([ a-zé\u{308}𝄞]{0,90}[\r\n\t ]{1,3}){0,20}") {
            prop_assert_eq!(excerpt(&beginning_on_one_line(&text, BYTES_OF_EXCERPT), 0), excerpt(&one_line(&text), 0));
        }

        #[test]
        fn an_excerpt_of_a_text_holds_the_match(
            before in "\\PC{0,300}", wanted in "[a-zA-ZäÖİςßﬁ]{2,10}", after in "\\PC{0,300}",
        ) {
            // Without the dot, a mark would change the last letter of the match.
            let body = one_line(&format!("{before}{wanted}.{after}"));
            let found = snippet(&format!("\n\n\n\n{body}"), &query(&wanted));
            prop_assert!(found.chars().count() <= SNIPPET_CHARACTERS);
            prop_assert!(!found.contains('\n'));
            prop_assert!(fold(&found).contains(&fold(&wanted)), "{}", found);
        }
    }
}
