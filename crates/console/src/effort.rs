//! Estimates what HTML becomes in a parser, before it is parsed.
//!
//! Small HTML can be a lot of work. Parsing takes quadratic time in the depth of elements, and in the attributes of one
//! tag. Formatting elements that stay open, such as `<b>`, are repeated in every paragraph that follows (HTML section
//! 13.2.4.3), so that kilobytes become gigabytes.
//!
//! The estimate may be too high, but not much too low. Tags are found as a parser finds them (HTML section 13.2.5). After an
//! element that changes those rules, everything that looks like a tag counts, and no end does.

/// Maximum depth of elements: 10,000 levels take 0.2 s, 100,000 half a minute.
const MAX_DEPTH: usize = 256;
/// Maximum depth where ends do not count.
const MAX_DEPTH_WITHOUT_ENDS: usize = 2048;
/// Maximum number of attributes of a tag. Each one is compared with all before it.
const MAX_ATTRIBUTES: usize = 256;
/// Maximum number of attributes where the ends of tags are uncertain.
const MAX_ATTRIBUTES_WITHOUT_ENDS: usize = 10_000;
/// Maximum size of the parsed tags, with those that the parser repeats.
const MAX_TAG_BYTES: usize = 32 * 1024 * 1024;
/// What an element takes beside its text.
const ELEMENT_BYTES: usize = 128;
/// Elements that the end of a formatting element in an odd place may create (HTML section 13.2.6.4.7, the adoption agency
/// algorithm): eight rounds of at most four.
const ADOPTED: usize = 32;

/// Elements without content.
const EMPTY: [&str; 14] =
    ["area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param", "source", "track", "wbr"];

/// Elements that end before the next one of the same kind wherever they are, since they need a parent for nesting.
const NEVER_NESTED: [&str; 7] = ["p", "td", "th", "tr", "tbody", "thead", "tfoot"];

/// Elements that end before the next one of the same kind if it follows directly.
const ITEMS: [&str; 4] = ["li", "dt", "dd", "option"];

/// Elements whose end also ends the items in them.
const LISTS: [&str; 7] = ["ul", "ol", "dl", "div", "center", "blockquote", "table"];

/// Elements that are repeated in what follows until they end.
const FORMATTING: [&str; 14] =
    ["a", "b", "big", "code", "em", "font", "i", "nobr", "s", "small", "strike", "strong", "tt", "u"];

/// Elements whose content is text up to their end.
const TEXTS: [&str; 8] = ["style", "title", "textarea", "script", "xmp", "iframe", "noembed", "noframes"];

/// After one of these, a parser may take tags for text, or the reverse.
const CHANGES_RULES: [&str; 7] = ["svg", "math", "select", "template", "noscript", "plaintext", "frameset"];

/// Whether parsing takes little time and memory.
pub(crate) fn is_small(html: &str) -> bool {
    let (scan, other) = Scan::of(html, Scan::is_small);
    scan.is_small() && other.is_none_or(|other| scan.is_small_without_ends(other))
}

/// What is open at a place, and what came before.
#[derive(Default)]
struct Scan<'a> {
    open: Vec<Tag<'a>>,
    /// The size of open formatting elements, which the next tag may repeat.
    repeated_bytes: usize,
    tag_bytes: usize,
    most_attributes: usize,
}

#[derive(Clone, Copy)]
struct Tag<'a> {
    name: &'a str,
    attributes: usize,
    bytes: usize,
}

impl<'a> Scan<'a> {
    /// Reads the text while `goes_on`. Also returns the part after an element that changes the rules.
    fn of(html: &'a str, goes_on: impl Fn(&Self) -> bool) -> (Self, Option<&'a str>) {
        let (mut scan, mut rest) = (Self::default(), html);
        while goes_on(&scan)
            && let Some(place) = rest.find('<')
        {
            let (token, after) = token(&rest[place + 1..]);
            rest = match token {
                Token::Start(tag) => match scan.start(tag, after) {
                    Some(rest) => rest,
                    None => return (scan, Some(after)),
                },
                Token::End(tag) => {
                    scan.end(tag);
                    after
                }
                Token::Other => after,
            };
        }
        (scan, None)
    }

    fn is_small(&self) -> bool {
        self.open.len() <= MAX_DEPTH && self.most_attributes <= MAX_ATTRIBUTES && self.tag_bytes <= MAX_TAG_BYTES
    }

    /// Adds an element. Returns what follows it; `None` if the rules change there.
    fn start(&mut self, tag: Tag<'a>, after: &'a str) -> Option<&'a str> {
        self.most_attributes = self.most_attributes.max(tag.attributes);
        self.tag_bytes = self.tag_bytes.saturating_add(tag.size() + self.repeated_bytes);
        if tag.is_one_of(&CHANGES_RULES) {
            return None;
        }
        if tag.is_one_of(&TEXTS) {
            return after_text(tag.name, after);
        }
        if tag.is_one_of(&EMPTY) || tag.is_one_of(&NEVER_NESTED) {
            return Some(after);
        }
        if tag.is_one_of(&ITEMS) {
            self.open.pop_if(|last| last.has_name_of(&tag) || both_of_terms(last, &tag));
        }
        if tag.is_one_of(&FORMATTING) {
            self.repeated_bytes = self.repeated_bytes.saturating_add(tag.size());
        }
        self.open.push(tag);
        Some(after)
    }

    /// Ends the innermost element if that is certain.
    fn end(&mut self, tag: Tag<'a>) {
        self.tag_bytes = self.tag_bytes.saturating_add(ELEMENT_BYTES + self.repeated_bytes);
        if tag.is_one_of(&LISTS) {
            let items = self.open.iter().rev().take_while(|open| open.is_one_of(&ITEMS)).count();
            let list = self.open.len().checked_sub(items + 1);
            if let Some(list) = list.filter(|list| self.open[*list].has_name_of(&tag)) {
                self.open.truncate(list);
            }
            return;
        }
        let Some(last) = self.open.pop_if(|last| last.has_name_of(&tag)) else {
            if tag.is_one_of(&FORMATTING) {
                self.tag_bytes = self.tag_bytes.saturating_add(ADOPTED * ELEMENT_BYTES + self.repeated_bytes);
            }
            return;
        };
        if last.is_one_of(&FORMATTING) {
            self.repeated_bytes -= last.size();
        }
    }

    /// Counts everything that may be a tag.
    fn is_small_without_ends(&self, rest: &str) -> bool {
        let after = || rest.match_indices('<').map(|(place, _)| &rest[place + 1..]);
        let starts = after().filter(|after| !name(after).is_empty()).count();
        let tags = starts + after().filter(|after| after.starts_with('/')).count();
        let formatting = after().filter(|after| is_one_of(name(after), &FORMATTING)).count();
        // The ends of tags are uncertain, but together they are not longer than the text.
        let texts = if formatting > 0 { rest.len() } else { 0 };
        let repeated_bytes = self.repeated_bytes.saturating_add(formatting * ELEMENT_BYTES + texts);
        let is_separator = |byte: &&u8| byte.is_ascii_whitespace() || matches!(byte, b'/' | b'"' | b'\'');
        let attributes = rest.as_bytes().iter().filter(is_separator).count();
        let tag_bytes = tags.saturating_mul(ELEMENT_BYTES + repeated_bytes).saturating_add(self.tag_bytes);
        self.open.len() + starts <= MAX_DEPTH_WITHOUT_ENDS
            && attributes <= MAX_ATTRIBUTES_WITHOUT_ENDS
            && tag_bytes <= MAX_TAG_BYTES
    }
}

impl Tag<'_> {
    const fn size(&self) -> usize {
        ELEMENT_BYTES + self.bytes
    }

    fn is_one_of(&self, names: &[&str]) -> bool {
        is_one_of(self.name, names)
    }

    fn has_name_of(&self, other: &Tag<'_>) -> bool {
        self.name.eq_ignore_ascii_case(other.name)
    }
}

/// A term also ends before a definition.
fn both_of_terms(one: &Tag<'_>, other: &Tag<'_>) -> bool {
    const TERMS: [&str; 2] = ["dt", "dd"];
    one.is_one_of(&TERMS) && other.is_one_of(&TERMS)
}

fn is_one_of(name: &str, names: &[&str]) -> bool {
    names.iter().any(|known| known.eq_ignore_ascii_case(name))
}

enum Token<'a> {
    Start(Tag<'a>),
    End(Tag<'a>),
    /// A comment or a declaration, or no markup at all.
    Other,
}

/// Reads what follows `<`. Returns it and the rest.
fn token(html: &str) -> (Token<'_>, &str) {
    if let Some(comment) = html.strip_prefix("!--") {
        return (Token::Other, after_comment(comment));
    }
    let is_end = html.starts_with('/');
    let named = &html[usize::from(is_end)..];
    let name = name(named);
    if !name.is_empty() {
        let (attributes, rest) = after_attributes(&named[name.len()..]);
        let tag = Tag { name, attributes, bytes: named.len() - rest.len() };
        return (if is_end { Token::End(tag) } else { Token::Start(tag) }, rest);
    }
    // Declarations, and what looks like one, end at the first `>`, wherever it is.
    match html.starts_with(['!', '?', '/']) {
        true => (Token::Other, html.split_once('>').map_or("", |(_, rest)| rest)),
        false => (Token::Other, html),
    }
}

/// The name of a tag; empty if it is none.
fn name(tag: &str) -> &str {
    if !tag.starts_with(|c: char| c.is_ascii_alphabetic()) {
        return "";
    }
    let end = tag.find(|c: char| c.is_ascii_whitespace() || c == '/' || c == '>');
    &tag[..end.unwrap_or(tag.len())]
}

/// The end of a comment (HTML sections 13.2.5.43 to 13.2.5.51).
fn after_comment(comment: &str) -> &str {
    if let Some(rest) = comment.strip_prefix('>').or_else(|| comment.strip_prefix("->")) {
        return rest;
    }
    let ends = ["-->", "--!>"].map(|end| comment.find(end).map(|place| place + end.len()));
    ends.into_iter().flatten().min().map_or("", |end| &comment[end..])
}

/// Counts attributes, and returns what follows the tag (HTML sections 13.2.5.32 to 13.2.5.40).
fn after_attributes(tag: &str) -> (usize, &str) {
    let (bytes, mut place, mut count) = (tag.as_bytes(), 0, 0);
    let skip = |mut place: usize, is_skipped: &dyn Fn(u8) -> bool| {
        while bytes.get(place).copied().is_some_and(is_skipped) {
            place += 1;
        }
        place
    };
    let is_space = |byte: u8| byte.is_ascii_whitespace();
    loop {
        place = skip(place, &|byte| is_space(byte) || byte == b'/');
        match bytes.get(place) {
            None => return (count, ""),
            Some(b'>') => return (count, &tag[place + 1..]),
            // An equals sign at its beginning belongs to the name.
            Some(_) => place += 1,
        }
        count += 1;
        place = skip(place, &|byte| !is_space(byte) && !b"/>=".contains(&byte));
        let equals = skip(place, &is_space);
        if bytes.get(equals) != Some(&b'=') {
            continue;
        }
        place = skip(equals + 1, &is_space);
        place = match bytes.get(place) {
            Some(&quote @ (b'"' | b'\'')) => skip(place + 1, &|byte| byte != quote) + 1,
            _ => skip(place, &|byte| !is_space(byte) && byte != b'>'),
        };
    }
}

/// What follows an element that contains text; `None` if its end is uncertain.
fn after_text<'a>(name: &str, html: &'a str) -> Option<&'a str> {
    let is_end = |place: usize| {
        let after = html[place + 2..].get(..name.len()).filter(|found| found.eq_ignore_ascii_case(name));
        let next = after.and_then(|_| html.as_bytes().get(place + 2 + name.len()));
        next.is_some_and(|next| next.is_ascii_whitespace() || matches!(next, b'/' | b'>'))
    };
    let end = html.match_indices("</").map(|(place, _)| place).find(|place| is_end(*place));
    let text = &html[..end.unwrap_or(html.len())];
    // A script may contain another one (HTML section 13.2.5.15).
    let is_certain = !name.eq_ignore_ascii_case("script") || !text.contains("<!--");
    is_certain.then(|| &html[text.len()..])
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use proptest::prelude::*;

    use super::*;

    const MANY: usize = 3000;

    #[test]
    fn deep_html_is_not_small_wherever_it_hides() {
        let deep = "<div>".repeat(MANY);
        for hidden in [
            "",
            "<!x <p a=\">",
            "</ <p a=\">",
            "<?x <p a=\">",
            "<!DOCTYPE html \"<p a='>",
            "<p =\">",
            "<p a=\"x\"=\">",
            "<p a = b\">",
            "<style><p a=\"</style>",
            "<TITLE><p a=\"</title >",
            "<script><!--<script></script><p a='</script>",
            "<!--><p a=-->",
            "<!-- --!><p a=-->",
            "<svg><style><p a=\"</style>",
            "<select><style>",
        ] {
            assert!(!is_small(&format!("{hidden}{deep}")), "{hidden}");
        }
        for nested in
            ["<li><dd>", "<b><li>", "<svg><td>", "<div title=\"</div>\">", "<div></span>", "<div><!-- </div> -->"]
        {
            assert!(!is_small(&nested.repeat(MANY)), "{nested}");
        }
    }

    #[test]
    fn many_attributes_are_not_small() {
        let many: String = (0..MAX_ATTRIBUTES * 2).map(|number| format!(" a{number}")).collect();
        assert!(!is_small(&format!("<p{many}>")));
        assert!(!is_small(&format!("<p{}>", many.replace(' ', "/"))));
        let quoted: String = (0..MAX_ATTRIBUTES * 2).map(|number| format!("a{number}='>'")).collect();
        assert!(!is_small(&format!("<p {quoted}>")));
        let odd = many.repeat(MAX_ATTRIBUTES_WITHOUT_ENDS / MAX_ATTRIBUTES);
        assert!(!is_small(&format!("<svg><style><p{odd}>")));
    }

    #[test]
    fn repeated_formatting_is_not_small() {
        let open: String = (0..200).map(|number| format!("<b title={number}>")).collect();
        assert!(!is_small(&format!("<p>{open}{}", "<p>x".repeat(MANY))));
        assert!(!is_small(&format!("<p><b title='{}'>{}", "x".repeat(20_000), "<p>x".repeat(MANY))));
        assert!(!is_small(&format!("<svg><p>{open}{}", "<p>x".repeat(1000))));
        assert!(!is_small(&format!("<svg><p><b title='{}'>{}", "<".repeat(100_000), "<p>x".repeat(1000))));
    }

    #[test]
    fn the_mail_of_people_is_small() {
        for html in [
            "<li>x<p>y".repeat(5000),
            "<div>x</div>".repeat(5000),
            "<a href='x>'>y</a>".repeat(5000),
            "<ul><li>x<li>y</ul>".repeat(5000),
            "<dl><dt>x<dd>y<dt>z</dl>".repeat(5000),
            "<!--[if mso]><table><tr><td><![endif]-->x".repeat(5000),
            format!("<!DOCTYPE html><title>x</title><style>a > b {{}}</style>{}", "<div><b>x</b></div>".repeat(5000)),
        ] {
            assert!(is_small(&html), "{}", &html[..60]);
        }
    }

    /// The depth of elements and their number in the output of a parser.
    fn parsed(html: &str) -> (usize, usize) {
        let cleaned = ammonia::Builder::default().add_tags(["font", "dialog", "big"]).clean(html).to_string();
        let (mut depth, mut deepest, mut count) = (0_usize, 0, 0);
        for tag in cleaned.split('<').skip(1) {
            if tag.starts_with('/') {
                depth -= 1;
                continue;
            }
            count += 1;
            depth += usize::from(!EMPTY.contains(&name(tag)));
            deepest = deepest.max(depth);
        }
        (deepest, count)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]
        #[test]
        fn no_html_is_much_larger_than_estimated(
            html in "(<(/|!|!--|\\?)?(div|p|b|i|b title=x|li|dd|table|tr|td|span|ul|a|style|title|script|svg|x|center|h1|=)?( a?=?[\"'])?[ />]?|-->|--!>|[\"'=> x]){0,40}"
        ) {
            let html = html.repeat(8);
            let deepest = Cell::new(0);
            let (scan, other) = Scan::of(&html, |scan| {
                deepest.set(scan.open.len().max(deepest.get()));
                true
            });
            let ((depth, count), deepest) = (parsed(&html), deepest.get());
            if other.is_none() {
                prop_assert!(depth <= 4 * deepest + 8, "{depth} > {deepest}");
                prop_assert!(count * ELEMENT_BYTES <= 4 * scan.tag_bytes, "{count} > {}", scan.tag_bytes);
            }
        }
    }
}
