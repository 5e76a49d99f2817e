//! Reads the results of checks that a server wrote into the message (RFC 8601).

use mailapi_backend::mime::Header;

use crate::Surroundings;
use crate::report::{Findings, ReadResult, ReadResults, ResultSource, SpamResult};
use crate::sign::SecuritySign;

const FIELD: &str = "Authentication-Results";

/// Signatures that are listed.
const MOST_SIGNATURES: usize = 20;

/// Reads the topmost field, which the last server wrote. Those below it may be forged.
pub(crate) fn read(block: &[u8], surroundings: &Surroundings, findings: &mut Findings) -> ReadResults {
    let Some(field) = Header::of(block).text(FIELD) else { return ReadResults::default() };
    let results = parse(&field, surroundings.own_checker.as_deref());
    if let Some(dmarc) = results.dmarc.as_ref().filter(|dmarc| dmarc.result == "fail") {
        let domain = dmarc.domain.as_deref().unwrap_or("the author's domain");
        findings.add(SecuritySign::AuthenticationFailed, format!("DMARC failed for {domain}"));
    }
    results
}

/// Reads what a spam filter wrote. In a message that this installation checked, forged fields were removed.
pub(crate) fn spam(block: &[u8], source: ResultSource) -> Option<SpamResult> {
    let header = Header::of(block);
    let source = if source == ResultSource::Own { source } else { ResultSource::Header };
    let starts_with_yes = |text: &str| text.trim_start().get(..3).is_some_and(|word| word.eq_ignore_ascii_case("yes"));
    if let Some(status) = header.text("X-Spam-Status") {
        let words = status.split([' ', '\t', ',']).filter_map(|word| word.split_once('='));
        let score =
            words.clone().find(|(name, _)| matches!(*name, "score" | "hits")).and_then(|(_, value)| hundredths(value));
        return Some(SpamResult { source, is_spam: starts_with_yes(&status), score });
    }
    let mark = header.text("X-Spam-Flag").or_else(|| header.text("X-Spam"))?;
    Some(SpamResult { source, is_spam: starts_with_yes(&mark), score: None })
}

/// Reads a number with up to two decimals.
fn hundredths(text: &str) -> Option<i32> {
    let score: f32 = text.parse().ok()?;
    // Filters score within some hundreds.
    (score.abs() < 10_000.0).then(|| (score * 100.0).round() as i32)
}

fn parse(field: &str, own_checker: Option<&str>) -> ReadResults {
    let field = without_comments(field);
    let mut statements = field.split(';').peekable();
    let checker = statements.peek().and_then(|first| first.split_whitespace().next()).unwrap_or_default();
    // Some providers leave the name out.
    let has_checker = !checker.contains('=');
    let is_own = own_checker.is_some_and(|own| own.eq_ignore_ascii_case(checker));
    let source = if is_own { ResultSource::Own } else { ResultSource::Header };
    let mut results = ReadResults { source, ..ReadResults::default() };
    for statement in statements.skip(usize::from(has_checker)) {
        let mut words = statement.split_whitespace();
        let Some((method, result)) = words.next().and_then(|word| word.split_once('=')) else { continue };
        // A version may follow the method.
        let method = method.split('/').next().unwrap_or_default().to_ascii_lowercase();
        let properties = || words.clone().filter_map(|word| word.split_once('='));
        let named = |names: &[&str]| {
            let found = |name: &&str| properties().find(|(property, _)| property.eq_ignore_ascii_case(name));
            let value = names.iter().find_map(found)?.1.trim_matches('"');
            let domain = value.rsplit('@').next().unwrap_or(value);
            Some(domain.to_ascii_lowercase()).filter(|domain| !domain.is_empty())
        };
        let read = |names: &[&str]| Some(ReadResult { result: result.to_ascii_lowercase(), domain: named(names) });
        match method.as_str() {
            "spf" if results.spf.is_none() => results.spf = read(&["smtp.mailfrom", "smtp.helo"]),
            "dkim" if results.dkim.len() < MOST_SIGNATURES => results.dkim.extend(read(&["header.d", "header.i"])),
            "dmarc" if results.dmarc.is_none() => results.dmarc = read(&["header.from"]),
            "arc" if results.arc.is_none() => results.arc = read(&["header.d"]),
            _ => {}
        }
    }
    results
}

/// Removes comments, which may be nested. What is in quotes stays, but for semicolons, which would end a statement.
fn without_comments(field: &str) -> String {
    let (mut text, mut depth, mut is_quoted, mut is_escaped) =
        (String::with_capacity(field.len()), 0_u32, false, false);
    for c in field.chars() {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' if is_quoted || depth > 0 => is_escaped = true,
            '"' if depth == 0 => is_quoted = !is_quoted,
            '(' if !is_quoted => depth = depth.saturating_add(1),
            ')' if !is_quoted && depth > 0 => depth -= 1,
            ';' if is_quoted => {}
            c if depth == 0 => text.push(c),
            _ => {}
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn found(result: &str, domain: &str) -> ReadResult {
        ReadResult { result: result.to_owned(), domain: Some(domain.to_owned()).filter(|domain| !domain.is_empty()) }
    }

    #[test]
    fn results_are_read_with_their_domains() {
        let field = "mx.example.org 1; spf=pass (sender; is authorized) smtp.mailfrom=bounce@mail.example.com;\
            dkim=pass header.d=Example.COM header.s=a; dkim/1=fail (bad \\) key) header.i=@other.example;\
            dmarc=FAIL (p=none) header.from=\"example.com\"; arc=none; x-odd; =; iprev=pass";
        let results = parse(field, Some("MX.example.org"));
        assert_eq!(results.source, ResultSource::Own);
        assert_eq!(results.spf, Some(found("pass", "mail.example.com")));
        assert_eq!(results.dkim, [found("pass", "example.com"), found("fail", "other.example")]);
        assert_eq!((results.dmarc, results.arc), (Some(found("fail", "example.com")), Some(found("none", ""))));
        assert_eq!(parse("mx.example.org; none", Some("mx.example.net")).source, ResultSource::Header);
        assert_eq!(parse("mx.example.org; none", None).spf, None);
        let nameless = parse("spf=fail (x) smtp.mailfrom=a.example; dkim=none", Some("mx.example.org"));
        assert_eq!((nameless.source, nameless.spf), (ResultSource::Header, Some(found("fail", "a.example"))));
        assert_eq!(nameless.dkim, [found("none", "")]);
    }

    #[test]
    fn marks_of_usual_filters_are_read() {
        let of = |field: &str| spam(format!("{field}\r\n\r\n").as_bytes(), ResultSource::None);
        let result = |is_spam, score| Some(SpamResult { source: ResultSource::Header, is_spam, score });
        for (field, expected) in [
            ("X-Spam-Status: Yes, score=7.26 required=15.00", result(true, Some(726))),
            ("X-Spam-Status: No, score=-0.1 required=5.0 tests=BAYES_00", result(false, Some(-10))),
            ("X-Spam-Status: No, hits=3", result(false, Some(300))),
            ("X-Spam-Status: No, score=x required=5", result(false, None)),
            ("X-Spam-Status: No, score=1e30", result(false, None)),
            ("X-Spam-Flag: YES", result(true, None)),
            ("X-Spam: yes", result(true, None)),
            ("X-Spam: no", result(false, None)),
            ("Subject: X-Spam: yes", None),
        ] {
            assert_eq!(of(field), expected, "{field}");
        }
        let own = spam(b"X-Spam-Status: No, score=1.00\r\n\r\n", ResultSource::Own).unwrap();
        assert_eq!((own.source, own.score), (ResultSource::Own, Some(100)));
    }

    proptest! {
        #[test]
        fn any_mark_is_read(value in "(Yes|No|, |score=|-|[0-9.]{1,6}|\\PC){0,12}") {
            let _ = spam(format!("X-Spam-Status: {value}\r\n\r\n").as_bytes(), ResultSource::None);
        }
    }
}
