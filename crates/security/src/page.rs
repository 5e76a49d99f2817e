//! Reads HTML and plain text: links, forms, images, hidden text, scripts.
//!
//! Only a tokenizer runs, with the states of the HTML standard, since building a tree of hostile markup takes unbounded time.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::io;

use html5gum::emitters::callback::{CallbackEmitter, CallbackEvent};
use html5gum::{Span, Tokenizer};
use mailapi_backend::mime::{AttachmentPart, BodyPart, BodyRole};
use mailapi_model::Blob;

use crate::bounds::{BODY_BYTES, EVIDENCE_CHARS, OPEN_ELEMENTS, OPENED_FILES, READ_LINKS};
use crate::carried::CarriedMessage;
use crate::lookalike;
use crate::report::{ContentFacts, Findings};
use crate::sign::SecuritySign;
use crate::style::TextLook;
use crate::uuencoded::{self, EncodedFile};

/// Hidden characters from which text is a sign. A hidden summary for lists of messages is shorter.
const HIDDEN_TEXT: usize = 300;
/// Invisible characters between letters from which they are a sign.
const SPLITS: usize = 5;
/// Elements without content (HTML, section 13.1.2).
const VOID: [&str; 13] =
    ["area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"];

/// The type of pages in the form of XML.
pub(crate) const XHTML: &str = "application/xhtml+xml";

/// A link as it was written.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RawLink {
    pub(crate) url: String,
    /// `None` if people see the address itself.
    pub(crate) text: Option<String>,
}

/// What a page or a text contains.
#[derive(Debug, Default)]
pub(crate) struct PageFacts {
    pub(crate) links: BTreeSet<RawLink>,
    hidden: usize,
    hidden_sample: String,
    images: BTreeSet<String>,
    forms: Vec<String>,
    pub(crate) asks_for_password: bool,
    /// The text of its scripts and event handlers.
    pub(crate) scripts: String,
    splits: usize,
}

/// What the bodies contain.
#[derive(Debug, Default)]
pub(crate) struct Bodies {
    pub(crate) pages: Vec<PageFacts>,
    pub(crate) encoded_files: Vec<EncodedFile>,
    bytes: usize,
}

impl Bodies {
    /// Reads the bodies of all messages.
    pub(crate) fn of(messages: &[CarriedMessage], findings: &mut Findings) -> io::Result<Self> {
        let mut bodies = Self::default();
        for CarriedMessage { message, structure, .. } in messages {
            for body in &structure.bodies {
                bodies.read(message, body, findings)?;
            }
            for part in structure.attachments.iter().filter_map(as_body) {
                bodies.read(message, &part, findings)?;
            }
        }
        Ok(bodies)
    }

    fn read(&mut self, message: &Blob, body: &BodyPart, findings: &mut Findings) -> io::Result<()> {
        let whole = body.span.within(message);
        let part = whole.slice(0..BODY_BYTES.saturating_sub(self.bytes));
        findings.is_partial |= part.len() < whole.len();
        self.bytes += part.len();
        let text = body.decode(&part.to_bytes()?);
        let page = if body.role.is_html {
            PageFacts::of_html(&text)
        } else {
            let room = OPENED_FILES.saturating_sub(self.encoded_files.len());
            self.encoded_files.extend(uuencoded::files(&text, room));
            PageFacts::of_text(&text)
        };
        findings.is_partial |= page.links.len() >= READ_LINKS;
        self.pages.push(page);
        Ok(())
    }
}

/// Returns a part that mail programs show like a body, though it is none: a text without a name, or XHTML.
fn as_body(part: &AttachmentPart) -> Option<BodyPart> {
    let media_type = part.info.content_type.as_str();
    let is_html = media_type.starts_with("text/") && media_type.contains("html") || media_type == XHTML;
    let is_nameless = part.info.filename.starts_with("attachment-");
    let is_shown = media_type == XHTML || (media_type.starts_with("text/") && is_nameless);
    let (_, charset) = part.info.type_parameters.split_once("charset=").unwrap_or_default();
    let charset = Some(charset.split(';').next()?.trim_matches([' ', '"']).to_owned()).filter(|name| !name.is_empty());
    let role = BodyRole { is_html, in_text: true, in_html: true };
    is_shown.then_some(BodyPart { span: part.span, charset, role })
}

/// Sums up the facts of all bodies.
pub(crate) fn facts(pages: &[PageFacts], findings: &mut Findings) -> ContentFacts {
    let mut facts = ContentFacts::default();
    for page in pages {
        facts.hidden_text += page.hidden;
        facts.remote_images += page.images.len();
        facts.forms += page.forms.len();
        if page.hidden >= HIDDEN_TEXT {
            findings.add(SecuritySign::HiddenText, &page.hidden_sample);
        }
        if page.splits >= SPLITS {
            findings.add(SecuritySign::SplitWords, format!("{} invisible characters", page.splits));
        }
        page.images.iter().for_each(|host| findings.add(SecuritySign::RemoteImages, host));
        page.forms.iter().for_each(|action| findings.add(SecuritySign::FormInMessage, action));
        if page.asks_for_password {
            findings.add(SecuritySign::PasswordField, "in the message");
        }
    }
    facts
}

impl PageFacts {
    /// Reads a plain text.
    fn of_text(text: &str) -> Self {
        let mut facts = Self { splits: splits(text), ..Self::default() };
        facts.add_written_links(text);
        facts
    }

    /// Reads a page.
    pub(crate) fn of_html(html: &str) -> Self {
        let mut reading = PageReading::default();
        let mut emitter = CallbackEmitter::new(|event: CallbackEvent<'_>, _: Span<()>| -> Option<Infallible> {
            reading.note(&event);
            None
        });
        emitter.naively_switch_states(true);
        let Ok(()) = Tokenizer::new_with_emitter(html, emitter).finish();
        reading.close_link();
        reading.facts
    }

    fn add_link(&mut self, url: &str, text: Option<String>) {
        if self.links.len() < READ_LINKS {
            self.links.insert(RawLink { url: url.trim().to_owned(), text });
        }
    }

    fn add_written_links(&mut self, text: &str) {
        let is_outside = |c: char| c.is_whitespace() || "<>\"".contains(c);
        for word in text.split(is_outside) {
            let start = word.find("http://").or_else(|| word.find("https://"));
            if let Some(start) = start {
                self.add_link(word[start..].trim_end_matches(['.', ',', ')', ']', '\'', ';', ':']), None);
            }
        }
    }
}

/// Counts invisible characters between two letters of an alphabet that never needs them.
fn splits(text: &str) -> usize {
    let is_invisible = |c: char| matches!(c, '\u{200b}' | '\u{200c}' | '\u{200d}' | '\u{2060}' | '\u{feff}');
    let (mut count, mut is_after_letter, mut waiting) = (0, false, 0);
    for c in text.chars() {
        if is_invisible(c) {
            waiting += usize::from(is_after_letter && waiting == 0);
        } else {
            let is_letter = c.is_ascii_alphabetic();
            count += if is_letter { waiting } else { 0 };
            (is_after_letter, waiting) = (is_letter, 0);
        }
    }
    count
}

/// The start tag that is being read.
#[derive(Debug, Default)]
struct OpenTag {
    name: String,
    attribute: String,
    is_hidden: bool,
    style: Option<String>,
    color: Option<String>,
    background: Option<String>,
    href: Option<String>,
    source: Option<String>,
    action: Option<String>,
    kind: String,
}

/// An element whose end was not seen.
#[derive(Debug)]
struct OpenElement {
    name: String,
    look: TextLook,
}

#[derive(Debug, Default)]
struct PageReading {
    facts: PageFacts,
    tag: OpenTag,
    open: Vec<OpenElement>,
    /// The address and the text of the open link.
    link: Option<(String, String)>,
}

impl PageReading {
    fn note(&mut self, event: &CallbackEvent<'_>) {
        match event {
            CallbackEvent::OpenStartTag { name } => self.tag = OpenTag { name: text_of(name), ..OpenTag::default() },
            CallbackEvent::AttributeName { name } => {
                self.tag.attribute = text_of(name);
                // It needs no value, and then has no event of its own.
                self.tag.is_hidden |= self.tag.attribute == "hidden";
            }
            CallbackEvent::AttributeValue { value } => self.note_attribute(&text_of(value)),
            CallbackEvent::CloseStartTag { .. } => self.open(),
            CallbackEvent::EndTag { name } => self.close(&text_of(name)),
            CallbackEvent::String { value } => self.note_text(&text_of(value)),
            CallbackEvent::Comment { .. } | CallbackEvent::Doctype { .. } | CallbackEvent::Error(_) => {}
        }
    }

    fn note_attribute(&mut self, value: &str) {
        let tag = &mut self.tag;
        match tag.attribute.as_str() {
            "href" => tag.href = Some(value.to_owned()),
            "src" | "background" => tag.source = Some(value.to_owned()),
            "color" | "text" => tag.color = Some(value.to_owned()),
            "bgcolor" => tag.background = Some(value.to_owned()),
            "action" => tag.action = Some(value.to_owned()),
            "type" => tag.kind = value.trim().to_ascii_lowercase(),
            "style" => tag.style = Some(value.to_owned()),
            name if name.starts_with("on") && name.len() > 4 => {
                self.facts.scripts.push_str(value);
                self.facts.scripts.push('\n');
            }
            _ => {}
        }
        tag.attribute.clear();
    }

    fn open(&mut self) {
        let tag = std::mem::take(&mut self.tag);
        let look = self.look_of(&tag);
        match tag.name.as_str() {
            "a" | "area" => {
                self.close_link();
                if let Some(href) = tag.href {
                    self.link = Some((href, String::new()));
                }
            }
            "form" => self.facts.forms.push(tag.action.unwrap_or_default()),
            "input" => self.facts.asks_for_password |= tag.kind == "password",
            "script" => self.facts.scripts.push('\n'),
            _ => {}
        }
        if let Some(source) = tag.source.filter(|_| tag.name != "script") {
            self.note_image(&source);
        }
        if !VOID.contains(&tag.name.as_str()) && self.open.len() < OPEN_ELEMENTS {
            self.open.push(OpenElement { name: tag.name, look });
        }
    }

    fn look(&self) -> TextLook {
        self.open.last().map(|element| element.look).unwrap_or_default()
    }

    fn look_of(&self, tag: &OpenTag) -> TextLook {
        let mut look = self.look();
        if tag.is_hidden {
            look.hide();
        }
        if tag.name == "a" && tag.href.is_some() {
            look.be_link();
        }
        if tag.source.is_some() && tag.name != "img" {
            look.set_picture();
        }
        tag.background.iter().for_each(|value| look.set_background(value));
        tag.color.iter().for_each(|value| look.set_color(value));
        tag.style.iter().for_each(|value| look.apply(value));
        look
    }

    fn note_image(&mut self, source: &str) {
        let Ok(url) = url::Url::parse(source.trim()) else { return };
        if let Some(host) = url.host_str().filter(|_| url.scheme().starts_with("http")) {
            self.facts.images.insert(lookalike::shown(host));
        }
    }

    fn close(&mut self, name: &str) {
        if name == "a" {
            self.close_link();
        }
        let Some(at) = self.open.iter().rposition(|element| element.name == name) else { return };
        self.open.truncate(at);
    }

    fn close_link(&mut self) {
        if let Some((href, text)) = self.link.take() {
            self.facts.add_link(&href, Some(text));
        }
    }

    fn note_text(&mut self, text: &str) {
        match self.open.last().map(|element| element.name.as_str()) {
            Some("script") => return self.facts.scripts.push_str(text),
            Some("style" | "title" | "template") => return,
            _ => {}
        }
        self.facts.splits += splits(text);
        if let Some((_, link_text)) = &mut self.link {
            let room = EVIDENCE_CHARS.saturating_sub(link_text.chars().count());
            link_text.extend(text.chars().take(room));
        } else {
            self.facts.add_written_links(text);
        }
        if self.look().hides() {
            let visible = |c: &char| c.is_alphanumeric();
            self.facts.hidden += text.chars().filter(visible).count();
            let room = EVIDENCE_CHARS.saturating_sub(self.facts.hidden_sample.chars().count());
            self.facts.hidden_sample.extend(text.chars().take(room));
        }
    }
}

fn text_of(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn links(html: &str) -> Vec<(String, String)> {
        let facts = PageFacts::of_html(html);
        facts.links.into_iter().map(|link| (link.url, link.text.unwrap_or_else(|| "-".to_owned()))).collect()
    }

    #[test]
    fn links_have_their_text() {
        let link = |url: &str, text: &str| (url.to_owned(), text.to_owned());
        assert_eq!(
            links("<a href=' http://a.example/ '>one <b>two</b></a> three"),
            [link("http://a.example/", "one two")]
        );
        assert_eq!(links("<A HREF=x><a href=y>b</A>"), [link("x", ""), link("y", "b")]);
        assert_eq!(links("<a href=x>never closed"), [link("x", "never closed")]);
        assert_eq!(links("<!-- <a href=x> --><script>'<a href=y>'</script><style><a href=z></style>"), []);
        assert_eq!(links("see (https://a.example/b)."), [link("https://a.example/b", "-")]);
        assert_eq!(links("<a href=&#x68;ttp://a.example>x</a>"), [link("http://a.example", "x")]);
    }

    #[test]
    fn forms_images_and_scripts_are_found() {
        let facts = PageFacts::of_html(
            "<form action=http://a.example/x><input TYPE=' Password '><img src=https://b.example/i.png><img src=cid:1>\
             <body background='http://c.example/'><script>atob(1)</script><p onclick=\"go()\">",
        );
        assert_eq!((facts.forms.as_slice(), facts.asks_for_password), (&["http://a.example/x".to_owned()][..], true));
        assert_eq!(facts.images.into_iter().collect::<Vec<_>>(), ["b.example", "c.example"]);
        assert!(facts.scripts.contains("atob(1)") && facts.scripts.contains("go()"));
    }

    #[test]
    fn hidden_text_is_counted() {
        let hidden = |html: &str| PageFacts::of_html(html).hidden;
        assert_eq!(hidden("a<div style='DISPLAY : none'>bc<b>d</b><br></div>e"), 3);
        assert_eq!(
            hidden("<p style='font-size:0px'>ab</p><p style='font-size:0.8em'>c</p><p style='opacity:.0'>d</p>"),
            3
        );
        assert_eq!(hidden("<span hidden>ab</span><span style='color:transparent;x'>c</span></span>d"), 3);
        assert_eq!(hidden("<p hidden class=x>ab</p><p class=x hidden=until-found>c</p><p class=hidden>d</p>"), 3);
        assert_eq!(hidden("<p style='display:none'>a</div>b</p>c<title>d</title>"), 2);
        assert_eq!(hidden("<body bgcolor=ffffff><font color=white>ab</font>c<a href=x>d</a>"), 2);
        assert_eq!(hidden("<td background=x.png><font color=#fff>ab</font></td><body text=#000 bgcolor=#000>c"), 1);
        assert_eq!(hidden("<td style='font-size:0'>a<div style='font-size:13px'>b</div></td>"), 1);
    }

    #[test]
    fn invisible_characters_count_only_inside_words() {
        assert_eq!(splits("p\u{200b}a\u{200b}\u{200c}y"), 2);
        assert_eq!(splits("a \u{200c}\u{a0}\u{200c} b \u{645}\u{200c}\u{62e} 1\u{200b}2 a\u{200b}"), 0);
    }

    proptest! {
        #[test]
        fn any_page_is_read(html in "(<a href=|<p style='display:none'|>|</p>|</a>|<!--|<script>|x|\"|'|=| |&#|\\PC){0,60}") {
            let _ = PageFacts::of_html(&html);
            let _ = PageFacts::of_text(&html);
        }
    }
}
