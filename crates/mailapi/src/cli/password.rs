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

/// Reads several secrets that exist: typed without echo on a terminal, otherwise one in each line of the standard input.
pub(super) fn read_several(questions: &[String]) -> Outcome<Vec<SecretText>> {
    if !std::io::stdin().is_terminal() {
        return lines(std::io::stdin(), questions.len());
    }
    questions.iter().map(|question| Ok(SecretText::new(rpassword::prompt_password(question)?))).collect()
}

/// Reads the first line of a file.
pub(super) fn read_file(file: &InputFile) -> Outcome<SecretText> {
    let failed = |error: &dyn std::fmt::Display| Failure::new(format!("{}: {error}", file.display()));
    first_line(file.reader().map_err(|error| failed(&error))?).map_err(|error| failed(&error))
}

fn first_line(input: impl Read) -> Outcome<SecretText> {
    let mut first = lines(input, 1)?;
    first.pop().ok_or_else(|| Failure::new("there is no password in the first line"))
}

/// Reads the first lines, none of which is empty.
fn lines(input: impl Read, count: usize) -> Outcome<Vec<SecretText>> {
    let mut bytes = Vec::new();
    input.take(MOST_BYTES).read_to_end(&mut bytes)?;
    let text = String::from_utf8(bytes).map_err(|_| Failure::new("the password is not UTF-8"))?;
    let stripped = |line: &str| line.strip_suffix('\r').unwrap_or(line).to_owned();
    let lines: Vec<_> = text.split('\n').map(stripped).take(count).take_while(|line| !line.is_empty()).collect();
    match (lines.len(), count) {
        (found, wanted) if found == wanted => Ok(lines.into_iter().map(SecretText::new).collect()),
        (_, 1) => Err(Failure::new("there is no password in the first line")),
        (found, wanted) => Err(Failure::new(format!("the input has {found} of {wanted} lines with a secret"))),
    }
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
        let several = lines(&b"one\r\ntwo\nthree"[..], 2).unwrap();
        assert_eq!(several.iter().map(SecretText::expose).collect::<Vec<_>>(), ["one", "two"]);
        assert!(lines(&b"one\n\ntwo"[..], 2).is_err());
    }
}
