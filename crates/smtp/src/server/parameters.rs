//! Parses the arguments of MAIL and RCPT: a path and the parameters of the offered extensions.

use crate::envelope::{BodyType, MailFrom, Notify, RcptTo, Ret};
use crate::path;
use crate::reply::Reply;
use crate::xtext;

/// Maximum length of an encoded ENVID in characters (RFC 3461 section 4.4).
const MAX_ENVID_CHARS: usize = 100;
/// Maximum length of an encoded ORCPT in characters (RFC 3461 section 4.2).
const MAX_ORCPT_CHARS: usize = 500;
/// Maximum number of digits of a SIZE (RFC 1870 section 3).
const MAX_SIZE_DIGITS: usize = 20;

/// Parses the argument of `MAIL`. `auth_offered` allows the AUTH parameter (RFC 4954 section 5). Its value is
/// ignored: no client is trusted to name another submitter.
pub(super) fn mail(argument: &str, auth_offered: bool) -> Result<MailFrom, Reply> {
    let path = after_keyword(argument, "FROM:")
        .ok_or_else(|| Reply::new(501, (5, 5, 4), "Syntax: MAIL FROM:<address> [parameters]"))?;
    // `<postmaster>` without a domain is valid for recipients only.
    let (reverse_path, rest) = path_of(path, path::parse_sender)
        .filter(|(address, _)| !address.eq_ignore_ascii_case("postmaster"))
        .ok_or_else(|| Reply::new(501, (5, 1, 7), "The sender address is malformed"))?;
    let mut mail = MailFrom::new(reverse_path);
    for (keyword, value) in Parameters::split(rest)?.0 {
        mail_parameter(&mut mail, &keyword, value, auth_offered)?;
    }
    if !mail.smtputf8 && !mail.reverse_path.is_ascii() {
        return Err(needs_smtputf8());
    }
    Ok(mail)
}

fn mail_parameter(mail: &mut MailFrom, keyword: &str, value: Option<&str>, auth_offered: bool) -> Result<(), Reply> {
    match (keyword, value) {
        ("SMTPUTF8", None) => mail.smtputf8 = true,
        ("SIZE", Some(value)) => mail.size = Some(size(value)?),
        ("BODY", Some(value)) => {
            mail.body = match value.to_ascii_uppercase().as_str() {
                "7BIT" => BodyType::SevenBit,
                "8BITMIME" => BodyType::EightBitMime,
                _ => return Err(bad_value("BODY")),
            }
        }
        ("RET", Some(value)) => {
            mail.ret = match value.to_ascii_uppercase().as_str() {
                "FULL" => Some(Ret::Full),
                "HDRS" => Some(Ret::Headers),
                _ => return Err(bad_value("RET")),
            }
        }
        ("ENVID", Some(value)) => {
            let envid = Some(value)
                .filter(|value| value.len() <= MAX_ENVID_CHARS)
                .and_then(xtext::decode)
                .ok_or_else(|| bad_value("ENVID"))?;
            mail.envid = Some(envid);
        }
        ("AUTH", Some(_)) if auth_offered => {}
        ("SMTPUTF8" | "SIZE" | "BODY" | "RET" | "ENVID", _) => return Err(bad_value(keyword)),
        _ => return Err(unknown(keyword)),
    }
    Ok(())
}

/// Parses the argument of `RCPT`. `smtputf8` is true if MAIL announced international addresses.
pub(super) fn rcpt(argument: &str, smtputf8: bool) -> Result<RcptTo, Reply> {
    let path = after_keyword(argument, "TO:")
        .ok_or_else(|| Reply::new(501, (5, 5, 4), "Syntax: RCPT TO:<address> [parameters]"))?;
    let (forward_path, rest) = path_of(path, path::parse)
        .filter(|(address, _)| !address.is_empty())
        .ok_or_else(|| Reply::new(501, (5, 1, 3), "The recipient address is malformed"))?;
    let mut rcpt = RcptTo::new(forward_path);
    for (keyword, value) in Parameters::split(rest)?.0 {
        match (keyword.as_str(), value) {
            ("NOTIFY", Some(value)) => rcpt.notify = Some(notify(value)?),
            ("ORCPT", Some(value)) if is_orcpt(value) => rcpt.orcpt = Some(value.to_owned()),
            ("NOTIFY" | "ORCPT", _) => return Err(bad_value(&keyword)),
            _ => return Err(unknown(&keyword)),
        }
    }
    if !smtputf8 && !argument.is_ascii() {
        return Err(needs_smtputf8());
    }
    Ok(rcpt)
}

/// Parses a path. Devices and scripts leave its brackets out, which RFC 5321 section 4.1.2 does not allow; other servers
/// accept that. Without them, a plain `local@domain` is read up to the next space.
fn path_of(text: &str, parse: fn(&str) -> Option<(String, &str)>) -> Option<(String, &str)> {
    if text.starts_with('<') {
        return parse(text);
    }
    let (word, rest) = text.split_at(text.find(' ').unwrap_or(text.len()));
    let is_plain = word.contains('@') && !word.contains(['<', '>', '"', '\\', ',', ';', ':']);
    let bracketed = format!("<{word}>");
    let (address, behind) = parse(&bracketed).filter(|_| is_plain)?;
    behind.is_empty().then_some((address, rest))
}

/// Returns the text after `keyword`. Spaces after the colon violate the grammar but are common and harmless.
fn after_keyword<'a>(argument: &'a str, keyword: &str) -> Option<&'a str> {
    let (start, rest) = argument.split_at_checked(keyword.len())?;
    start.eq_ignore_ascii_case(keyword).then(|| rest.trim_start_matches(' '))
}

/// `keyword[=value]` pairs: keywords in upper case, each at most once.
struct Parameters<'a>(Vec<(String, Option<&'a str>)>);

impl<'a> Parameters<'a> {
    fn split(text: &'a str) -> Result<Self, Reply> {
        if !text.is_empty() && !text.starts_with(' ') {
            return Err(Reply::new(501, (5, 5, 4), "A space must follow the path"));
        }
        let mut pairs: Vec<(String, Option<&str>)> = Vec::new();
        for word in text.split(' ').filter(|word| !word.is_empty()) {
            let (keyword, value) = match word.split_once('=') {
                Some((keyword, value)) => (keyword, Some(value)),
                None => (word, None),
            };
            let keyword = keyword.to_ascii_uppercase();
            if pairs.iter().any(|(earlier, _)| *earlier == keyword) {
                return Err(bad_value(&keyword));
            }
            pairs.push((keyword, value));
        }
        Ok(Self(pairs))
    }
}

fn size(value: &str) -> Result<u64, Reply> {
    let digits = (1..=MAX_SIZE_DIGITS).contains(&value.len()) && value.bytes().all(|byte| byte.is_ascii_digit());
    if !digits {
        return Err(bad_value("SIZE"));
    }
    // Twenty digits may exceed u64; any such message is above the limit.
    Ok(value.parse().unwrap_or(u64::MAX))
}

fn notify(value: &str) -> Result<Notify, Reply> {
    if value.eq_ignore_ascii_case("NEVER") {
        return Ok(Notify::NEVER);
    }
    let mut notify = Notify::NEVER;
    for word in value.split(',') {
        match word.to_ascii_uppercase().as_str() {
            "SUCCESS" => notify.success = true,
            "FAILURE" => notify.failure = true,
            "DELAY" => notify.delay = true,
            _ => return Err(bad_value("NOTIFY")),
        }
    }
    Ok(notify)
}

/// Returns whether `value` is `type;address` (RFC 3461 section 4.2). An `rfc822` address must decode. Another
/// type, such as `utf-8` (RFC 6533 section 3), is relayed unchanged.
fn is_orcpt(value: &str) -> bool {
    let Some((address_type, address)) = value.split_once(';') else {
        return false;
    };
    let type_is_atom =
        !address_type.is_empty() && address_type.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    let address_is_right = match address_type.eq_ignore_ascii_case("rfc822") {
        true => xtext::decode(address).is_some(),
        false => !address.contains('='),
    };
    value.len() <= MAX_ORCPT_CHARS && type_is_atom && !address.is_empty() && address_is_right
}

fn bad_value(keyword: &str) -> Reply {
    Reply::new(501, (5, 5, 4), format!("Bad {keyword} parameter"))
}

fn unknown(keyword: &str) -> Reply {
    Reply::new(555, (5, 5, 4), format!("Parameter {keyword} not recognized"))
}

/// Returns the reply to an international address without SMTPUTF8 (RFC 6531 section 3.5).
fn needs_smtputf8() -> Reply {
    Reply::new(553, (5, 6, 7), "The address needs SMTPUTF8")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn brackets_may_be_missing() {
        assert_eq!(mail("FROM: a@b.example SIZE=9", false).unwrap().size, Some(9));
        assert_eq!(mail("FROM:a@b.example", false).unwrap().reverse_path, "a@b.example");
        assert_eq!(rcpt("TO:a@b.example NOTIFY=NEVER", false).unwrap().forward_path, "a@b.example");
        assert_eq!(rcpt("to: A+x@b.example ", false).unwrap().forward_path, "A+x@b.example");
    }

    #[test]
    fn wrong_parameters_are_refused_with_their_own_code() {
        for (argument, code) in [
            ("FROM:", 501),
            ("TO:<a@b>", 501),
            ("FROM:a", 501),
            ("FROM:a@b>", 501),
            ("FROM:\"a b\"@b", 501),
            ("FROM:a@b,c@d", 501),
            ("FROM:<postmaster>", 501),
            ("FROM:<a@b>SIZE=1", 501),
            ("FROM:<a@b> SIZE", 501),
            ("FROM:<a@b> SIZE=-1", 501),
            ("FROM:<a@b> SIZE=1 size=2", 501),
            ("FROM:<a@b> BODY=BINARYMIME", 501),
            ("FROM:<a@b> RET=NONE", 501),
            ("FROM:<a@b> ENVID=a+0Ab", 501),
            ("FROM:<a@b> SMTPUTF8=1", 501),
            ("FROM:<ä@b>", 553),
            ("FROM:<a@b> REQUIRETLS", 555),
            ("FROM:<a@b> AUTH=<>", 555),
            ("FROM:<a@b> >", 555),
        ] {
            let reply = mail(argument, false).expect_err(argument);
            assert_eq!(reply.code, code, "{argument}");
        }
        for (argument, code) in [
            ("TO:<>", 501),
            ("TO:<a>", 501),
            ("TO:<a@b> NOTIFY=", 501),
            ("TO:<a@b> NOTIFY=NEVER,DELAY", 501),
            ("TO:<a@b> ORCPT=rfc822", 501),
            ("TO:<a@b> ORCPT=rfc822;a+0D@b", 501),
            ("TO:<ä@b>", 553),
            ("TO:<a@b> SIZE=1", 555),
        ] {
            let reply = rcpt(argument, false).expect_err(argument);
            assert_eq!(reply.code, code, "{argument}");
        }
    }

    #[test]
    fn parameters_reach_the_envelope() {
        let argument = "from: <é@b> size=99999999999999999999 Body=8bitmime SMTPUTF8 RET=hdrs ENVID=a+2Bb AUTH=<>";
        let read = mail(argument, true).unwrap();
        assert_eq!(
            read,
            MailFrom {
                reverse_path: "é@b".to_owned(),
                size: Some(u64::MAX),
                body: BodyType::EightBitMime,
                smtputf8: true,
                ret: Some(Ret::Headers),
                envid: Some("a+b".to_owned()),
            }
        );
        let read = rcpt("TO:<a@b> NOTIFY=delay,FAILURE ORCPT=rfc822;x+2By@b", false).unwrap();
        assert_eq!(read.notify.unwrap().to_string(), "FAILURE,DELAY");
        assert_eq!(read.orcpt.as_deref(), Some("rfc822;x+2By@b"));
        let read = rcpt("TO:<é@b> ORCPT=utf-8;é@b", true).unwrap();
        assert_eq!(read.orcpt.as_deref(), Some("utf-8;é@b"));
    }

    proptest! {
        #[test]
        fn any_argument_is_read_or_refused(
            keyword in "(FROM|to|TO): ?<[a-z@.]{0,6}>|FROM:<a@b>|TO:<a@b>|[A-Z]{0,4}:?[<>a-z@]{0,6}",
            parameters in "( {1,2}((SIZE|size|BODY|RET|ENVID|AUTH|NOTIFY|ORCPT|SMTPUTF8|[A-Za-z0-9-]{0,5})(=([0-9]{0,25}|7BIT|8bitmime|FULL|HDRS|<>|[a-z@+0-9A-F]{0,9}|rfc822;[a-z+=0-9A-F@]{0,9}|(NEVER|SUCCESS|FAILURE|DELAY|,){0,4}|\\PC{0,4}))?)){0,4} ?",
            flag in any::<bool>(),
        ) {
            let argument = keyword + &parameters;
            let refused = [mail(&argument, flag).err(), rcpt(&argument, flag).err()];
            prop_assert!(refused.iter().flatten().all(|reply| reply.is_permanent() || reply.is_transient()));
        }
    }
}
