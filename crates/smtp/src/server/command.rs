//! Parses command lines.
//!
//! `smtp-proto` parses the verbs. [`super::parameters`] parses the arguments of MAIL and RCPT, which must be
//! preserved exactly.

use smtp_proto::{AUTH_LOGIN, AUTH_PLAIN, Error, Request};

use super::auth::Mechanism;
use crate::reply::Reply;
use crate::secret::Password;

/// A valid command. The arguments of MAIL, RCPT and BDAT are parsed later, because the session's state decides
/// first whether the command is allowed. The initial response of AUTH contains a password.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Command<'a> {
    Hello { name: String, extended: bool },
    Mail(&'a str),
    Rcpt(&'a str),
    Data,
    Bdat(&'a str),
    Rset,
    Noop,
    Vrfy,
    Help,
    Quit,
    StartTls,
    Auth { mechanism: Mechanism, initial: Option<Password> },
}

/// Parses a line without its CRLF.
pub(super) fn parse(line: &str) -> Result<Command<'_>, Reply> {
    let (verb, argument) = line.split_once(' ').unwrap_or((line, ""));
    if verb.eq_ignore_ascii_case("MAIL") {
        return Ok(Command::Mail(argument));
    }
    if verb.eq_ignore_ascii_case("RCPT") {
        return Ok(Command::Rcpt(argument));
    }
    if verb.eq_ignore_ascii_case("BDAT") {
        return Ok(Command::Bdat(argument));
    }
    // `smtp-proto` needs the line end, and it would skip spaces before the verb.
    if verb.is_empty() {
        return Err(unknown());
    }
    let terminated = format!("{line}\n");
    let request = Request::parse(&mut terminated.as_bytes().iter()).map_err(syntax_error)?;
    let command = match request {
        Request::Ehlo { host } => hello(host.into_owned(), true),
        Request::Helo { host } => hello(host.into_owned(), false),
        Request::Auth { mechanism, initial_response } => Command::Auth {
            mechanism: known_mechanism(mechanism)?,
            initial: Some(initial_response).filter(|text| !text.is_empty()).map(Password::new),
        },
        Request::Noop { .. } => Command::Noop,
        Request::Vrfy { .. } => Command::Vrfy,
        Request::Help { .. } => Command::Help,
        Request::Data => without_argument(Command::Data, argument)?,
        Request::Rset => without_argument(Command::Rset, argument)?,
        Request::Quit => without_argument(Command::Quit, argument)?,
        Request::StartTls => without_argument(Command::StartTls, argument)?,
        _ => return Err(Reply::new(502, (5, 5, 1), "Command not implemented")),
    };
    Ok(command)
}

fn hello<'a>(name: String, extended: bool) -> Command<'a> {
    Command::Hello { name, extended }
}

fn without_argument<'a>(command: Command<'a>, argument: &str) -> Result<Command<'a>, Reply> {
    if argument.trim_matches(' ').is_empty() {
        Ok(command)
    } else {
        Err(Reply::new(501, (5, 5, 4), "The command takes no argument"))
    }
}

fn known_mechanism(mechanism: u64) -> Result<Mechanism, Reply> {
    match mechanism {
        AUTH_PLAIN => Ok(Mechanism::Plain),
        AUTH_LOGIN => Ok(Mechanism::Login),
        _ => Err(Reply::new(504, (5, 5, 4), "Authentication mechanism not supported")),
    }
}

fn syntax_error(error: Error) -> Reply {
    match error {
        Error::SyntaxError { syntax } => Reply::new(501, (5, 5, 4), format!("Syntax: {syntax}")),
        _ => unknown(),
    }
}

fn unknown() -> Reply {
    Reply::new(500, (5, 5, 2), "Command not recognized")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn wrong_lines_are_refused_with_their_own_code() {
        for (line, code) in [
            ("", 500),
            (" NOOP", 500),
            ("FOO", 500),
            ("NOOPE", 500),
            ("GET / HTTP/1.1", 500),
            ("EHLO", 501),
            ("HELO", 501),
            ("AUTH", 501),
            ("DATA now", 501),
            ("QUIT please", 501),
            ("RSET x", 501),
            ("STARTTLS x", 501),
            ("VRFY", 501),
            ("EXPN staff", 502),
            ("LHLO x", 502),
            ("ETRN x", 502),
            ("AUTH CRAM-MD5", 504),
            ("AUTH XYZ", 504),
        ] {
            assert_eq!(parse(line).expect_err(line).code, code, "{line}");
        }
    }

    #[test]
    fn commands_are_read_whatever_their_case() {
        assert_eq!(parse("ehlo [192.0.2.1]"), Ok(hello("[192.0.2.1]".to_owned(), true)));
        assert_eq!(parse("hElO x"), Ok(hello("x".to_owned(), false)));
        assert_eq!(parse("mail from:<>"), Ok(Command::Mail("from:<>")));
        assert_eq!(parse("data "), Ok(Command::Data));
        assert_eq!(parse("bdat 10 LAST"), Ok(Command::Bdat("10 LAST")));
        assert_eq!(parse("noop anything"), Ok(Command::Noop));
        let initial = Some(Password::new("AGEAYg=="));
        let mechanism = Mechanism::Plain;
        assert_eq!(parse("auth plain AGEAYg=="), Ok(Command::Auth { mechanism, initial }));
        let initial = None;
        let mechanism = Mechanism::Login;
        assert_eq!(parse("AUTH LOGIN"), Ok(Command::Auth { mechanism, initial }));
    }

    proptest! {
        #[test]
        fn any_line_is_read_without_panic(verb in "((AUTH|auth) ?(PLAIN|LOGIN|CRAM-MD5|[A-Z0-9-]{0,5})? ?|EHLO ?|HELO ?|BDAT [0-9]{0,20}|ATRN ?|NOOP ?|MAIL ?|VRFY ?|STARTTLS ?|LHLO ?|[a-zA-Z]{4} ?)?", rest in "[^\\x00-\\x1f\\x7f]{0,40}|[A-Za-z0-9+/=]{0,12}|") {
            let line = format!("{verb}{rest}");
            let _ = parse(&line);
        }
    }
}
