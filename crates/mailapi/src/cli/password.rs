//! Reads a password. It is never an argument, because every user of the machine can list those.

use std::io::{IsTerminal, Read};

use mailapi_model::SecretText;

use super::input_file::InputFile;
use crate::failure::{Failure, Outcome};

/// More than the longest accepted password; bounds the read of an endless stream.
const MOST_BYTES: u64 = 64 * 1024;

/// Reads a new password: typed twice without echo on a terminal, otherwise the first line of the standard input.
pub(super) fn read_new() -> Outcome<SecretText> {
    if !std::io::stdin().is_terminal() {
        return first_line(std::io::stdin());
    }
    let typed = rpassword::prompt_password("New password: ")?;
    if rpassword::prompt_password("Repeat the password: ")? != typed {
        return Err(Failure::new("the two passwords differ"));
    }
    Ok(SecretText::new(typed))
}

/// Reads a password that exists: typed without echo on a terminal, otherwise the first line of the standard input.
pub(super) fn read_known(question: &str) -> Outcome<SecretText> {
    if !std::io::stdin().is_terminal() {
        return first_line(std::io::stdin());
    }
    Ok(SecretText::new(rpassword::prompt_password(question)?))
}

/// Reads the first line of a file.
pub(super) fn read_file(file: &InputFile) -> Outcome<SecretText> {
    let failed = |error: &dyn std::fmt::Display| Failure::new(format!("{}: {error}", file.display()));
    first_line(file.reader().map_err(|error| failed(&error))?).map_err(|error| failed(&error))
}

fn first_line(input: impl Read) -> Outcome<SecretText> {
    let mut bytes = Vec::new();
    input.take(MOST_BYTES).read_to_end(&mut bytes)?;
    let text = String::from_utf8(bytes).map_err(|_| Failure::new("the password is not UTF-8"))?;
    let line = text.split('\n').next().unwrap_or_default();
    let line = line.strip_suffix('\r').unwrap_or(line);
    if line.is_empty() {
        return Err(Failure::new("there is no password in the first line"));
    }
    Ok(SecretText::new(line.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_input_is_refused_and_the_line_end_is_stripped() {
        for input in [&b""[..], b"\n", b"\r\nlater", b"\xff\xfe\n"] {
            assert!(first_line(input).is_err(), "{input:?}");
        }
        for input in [&b" two words "[..], b" two words \n", b" two words \r\nmore"] {
            assert_eq!(first_line(input).unwrap().expose(), " two words ");
        }
    }
}
