//! Questions on a terminal.

use std::fmt::Display;
use std::io::{BufRead, IsTerminal, Write};
use std::str::FromStr;

use crate::failure::{Failure, Outcome};

/// Number of wrong answers after which the command ends.
const MOST_ATTEMPTS: usize = 3;

/// Returns the option's value, or asks for it. Without a terminal the option is required.
pub(super) fn answer<T: FromStr<Err: Display>>(option: &str, given: Option<T>, question: &str) -> Outcome<T> {
    if let Some(given) = given {
        return Ok(given);
    }
    let stdin = std::io::stdin();
    if !stdin.is_terminal() {
        return Err(Failure::new(format!("--{option} is missing")));
    }
    ask(question, &mut stdin.lock(), &mut std::io::stderr())
}

fn ask<T: FromStr<Err: Display>>(question: &str, input: &mut impl BufRead, output: &mut impl Write) -> Outcome<T> {
    for _ in 0..MOST_ATTEMPTS {
        write!(output, "{question}: ")?;
        output.flush()?;
        let mut line = String::new();
        if input.read_line(&mut line)? == 0 {
            break;
        }
        match line.trim().parse() {
            Ok(value) => return Ok(value),
            Err(error) => writeln!(output, "{error}")?,
        }
    }
    Err(Failure::new(format!("no answer to: {question}")))
}

#[cfg(test)]
mod tests {
    use mailapi_model::DomainName;

    use super::*;

    fn asked(input: &str) -> (Outcome<DomainName>, String) {
        let mut output = Vec::new();
        let answer = ask("The name", &mut input.as_bytes(), &mut output);
        (answer, String::from_utf8(output).unwrap())
    }

    #[test]
    fn wrong_answers_are_explained_and_end_the_command() {
        let (answer, shown) = asked("not a name\n-\n..\nexample.org\n");
        assert!(answer.is_err());
        assert_eq!(shown.matches("The name: must be a domain name, such as example.org\n").count(), MOST_ATTEMPTS);
        assert!(asked("").0.is_err(), "the end of the input is no answer");
    }

    #[test]
    fn an_answer_has_no_line_end() {
        let (answer, shown) = asked(" mx.example.org \r\n");
        assert_eq!((answer.unwrap().as_str(), shown.as_str()), ("mx.example.org", "The name: "));
    }
}
