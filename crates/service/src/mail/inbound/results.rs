//! The results: their summary, the field Authentication-Results (RFC 8601), and the refusal.

use std::fmt::Write;

use mailapi_model::{Authentication, AuthenticationResult, CheckedDomain, CheckedSignature};

use super::Findings;
use super::signatures::Signed;

/// Maximum length of a value, which is that of a name.
const MAX_VALUE: usize = 253;

/// Maximum number of signatures in the summary. A stranger can add any number of invalid ones.
const MAX_SUMMARISED: usize = 8;

/// Returns the results without their reasons.
pub(super) fn summary(findings: &Findings) -> Authentication {
    let Findings { spf, signatures, dmarc, author, .. } = findings;
    let dkim = signatures.by_result().into_iter().take(MAX_SUMMARISED).map(|one| CheckedSignature {
        result: one.result,
        domain: name(&one.domain),
        selector: name(&one.selector),
    });
    Authentication {
        spf: CheckedDomain { result: spf.result, domain: name(&spf.domain) },
        dkim: dkim.collect(),
        dmarc: CheckedDomain { result: dmarc.result, domain: name(author) },
        arc: signatures.arc,
    }
}

/// Returns the field with its line end. `hostname` identifies this server.
pub(super) fn field(hostname: &str, findings: &Findings) -> String {
    let Findings { spf, signatures, dmarc, author, reason, .. } = findings;
    let mut field = format!("Authentication-Results: {hostname}");
    let property = if spf.is_client_name { "smtp.helo" } else { "smtp.mailfrom" };
    add(&mut field, format_args!("spf={}{}", spf.result, with(property, &spf.domain)));
    for one in &signatures.dkim {
        add(&mut field, format_args!("{}", signature(one)));
    }
    if signatures.dkim.is_empty() {
        add(&mut field, format_args!("dkim=none"));
    }
    let comment = if reason.is_empty() { String::new() } else { format!(" ({reason})") };
    let policy = if matches!(dmarc.result, AuthenticationResult::Pass | AuthenticationResult::Fail) {
        format!(" policy.dmarc={}", dmarc.policy.as_str())
    } else {
        String::new()
    };
    add(&mut field, format_args!("dmarc={}{comment}{}{policy}", dmarc.result, with("header.from", author)));
    add(&mut field, format_args!("arc={}", signatures.arc));
    field.push_str("\r\n");
    field
}

fn add(field: &mut String, result: std::fmt::Arguments<'_>) {
    // Writing to a String does not fail.
    let _ = write!(field, ";\r\n\t{result}");
}

fn signature(one: &Signed) -> String {
    let reason = if one.reason.is_empty() { String::new() } else { format!(" ({})", one.reason) };
    let (domain, selector) = (with("header.d", &one.domain), with("header.s", &one.selector));
    let start = if one.start.is_empty() { String::new() } else { format!(" header.b=\"{}\"", one.start) };
    format!("dkim={}{reason}{domain}{selector}{start}", one.result)
}

/// Returns a property, or nothing if its value is empty.
fn with(property: &str, value: &str) -> String {
    name(value).map_or_else(String::new, |value| format!(" {property}={value}"))
}

/// Returns a name, or `None` if it is empty. Names from outside may contain anything, so other characters than those of
/// a name are replaced.
fn name(value: &str) -> Option<String> {
    let harmless = |c: char| if c.is_ascii_alphanumeric() || ".-_".contains(c) { c } else { '_' };
    let value: String = value.chars().take(MAX_VALUE).map(harmless).collect();
    Some(value).filter(|value| !value.is_empty())
}

/// Returns the text of the reply to a refused message.
pub(super) fn refusal(findings: &Findings) -> String {
    let domain = with("", &findings.author);
    let domain = domain.trim_start_matches([' ', '=']);
    if domain.is_empty() {
        format!("The message needs one From field with one author ({}); see RFC 5322 section 3.6.2", findings.reason)
    } else if findings.reason.is_empty() {
        format!(
            "{domain} asks to refuse mail that is neither signed for it nor sent by its servers (DMARC p=reject); \
             send through a server of that domain"
        )
    } else {
        format!("Mail from {domain} needs a login here, or a valid SPF or DKIM result for {domain}")
    }
}
