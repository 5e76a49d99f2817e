//! Rules as a Sieve script (RFC 5228), for mail servers that apply Sieve.
//!
//! Sieve runs an action where it stands, but a rule may add a flag to what an earlier rule filed, or refuse what an
//! earlier rule forwarded. So the rules only set variables, and the end of the script acts on them.

use std::fmt::Write as _;

use super::{Comparison, Condition, Rule, RuleAction, RuleSet, TextField, Vacation};
use crate::{EmailAddress, SecurityMark};

/// The extensions that the script uses: RFC 5229, 5228, 5490, 5232, 3894, 5429 and 5230.
const REQUIRE: &str = r#"require ["variables", "fileinto", "mailbox", "imap4flags", "copy", "reject", "vacation"];"#;

/// Fields of common filters that mark junk.
const SPAM: &str = r#"if anyof (
    header :is ["X-Spam", "X-Spam-Flag"] "yes",
    header :matches "X-Spam-Status" "yes*"
) {
    set "spam" "1";
}"#;

/// The further extensions for [`RECIPIENT`]: RFC 5228 and 5260.
const RECIPIENT_REQUIRE: &str = "\nrequire [\"envelope\", \"index\"];";

/// Finds the address that the message was sent to, for rules that compare it (RFC 5260 section 6, RFC 5228 section 5.4).
///
/// Postfix expands aliases before it delivers, and names the address before in its Received field, if there is only one.
/// Above it is the field of Dovecot's LMTP. Senders can write only fields below.
const RECIPIENT: &str = r#"
set "recipient" "";
if header :index 1 :contains "Received" "with LMTP" {
    if header :index 2 :matches "Received" "*for <*>;*" {
        set :lower "recipient" "${2}";
    }
} elsif header :index 1 :matches "Received" "*for <*>;*" {
    set :lower "recipient" "${2}";
}
if string :is "${recipient}" "" {
    if envelope :matches "to" "*" {
        set :lower "recipient" "${1}";
    }
}"#;

/// The largest number of bytes that every implementation compares (RFC 5228 section 2.4.1).
const MAX_SIZE: u64 = i32::MAX as u64;

impl RuleSet {
    /// Returns the rules as a Sieve script; `None` if no rule is enabled.
    ///
    /// The script keeps the message unless a rule files or refuses it. Junk is what common filters marked by
    /// `X-Spam`, `X-Spam-Flag` or `X-Spam-Status`. Sieve compares letters beyond ASCII as they are, in lower case and in
    /// capitals, but not in mixed forms.
    #[must_use]
    pub fn to_sieve(&self) -> Option<String> {
        let rules: Vec<&Rule> = self.all().iter().filter(|rule| rule.enabled).collect();
        if rules.is_empty() {
            return None;
        }
        let (forwards, vacations) = (forwards(&rules), vacations(&rules));
        // Sieve reads `${` in a user's text as the start of a variable, and has no escape for it (RFC 5229 section 3).
        let (further, find) = if self.compare_recipient() { (RECIPIENT_REQUIRE, RECIPIENT) } else { ("", "") };
        let mut script = format!("{REQUIRE}{further}\n\nset \"dollar\" \"$\";\n{SPAM}{find}\n");
        for rule in &rules {
            write_rule(&mut script, rule, &forwards, &vacations);
        }
        script.push_str("\nif not string :is \"${reject}\" \"\" {\n    reject \"${reject}\";\n    stop;\n}\n");
        for (number, address) in forwards.iter().enumerate() {
            let action = format!("redirect :copy {};", quoted(address.as_str()));
            write_if_set(&mut script, &format!("forward{number}"), "1", &action);
        }
        for (number, vacation) in vacations.iter().enumerate() {
            write_if_set(&mut script, "vacation", &number.to_string(), &vacation_action(vacation));
        }
        script.push_str(
            "if string :is \"${folder}\" \"\" {\n    keep;\n} else {\n    fileinto :create \"${folder}\";\n}\n",
        );
        Some(script)
    }
}

/// Returns the addresses to which the rules forward, each once.
fn forwards<'a>(rules: &[&'a Rule]) -> Vec<&'a EmailAddress> {
    let mut found = Vec::new();
    for to in rules.iter().flat_map(|rule| &rule.actions).filter_map(RuleAction::forwards_to) {
        if !found.contains(&to) {
            found.push(to);
        }
    }
    found
}

fn vacations<'a>(rules: &[&'a Rule]) -> Vec<&'a Vacation> {
    let answer = |action: &'a RuleAction| if let RuleAction::Vacation(answer) = action { Some(answer) } else { None };
    rules.iter().flat_map(|rule| &rule.actions).filter_map(answer).collect()
}

fn write_rule(script: &mut String, rule: &Rule, forwards: &[&EmailAddress], vacations: &[&Vacation]) {
    let spam = if rule.is_about_spam() { "1" } else { "" };
    let guards = [r#"string :is "${stopped}" """#.to_owned(), format!(r#"string :is "${{spam}}" "{spam}""#)];
    let tests: Vec<String> = guards.into_iter().chain(rule.conditions.iter().filter_map(test)).collect();
    let _ = write!(script, "\n# {}\nif allof (\n    {}\n) {{\n", rule.name, tests.join(",\n    "));
    for action in &rule.actions {
        let _ = writeln!(script, "    {}", action_lines(action, forwards, vacations));
        // An action after these has no effect.
        if matches!(action, RuleAction::Stop | RuleAction::Reject(_)) {
            break;
        }
    }
    script.push_str("}\n");
}

/// Returns the command of an action.
fn action_lines(action: &RuleAction, forwards: &[&EmailAddress], vacations: &[&Vacation]) -> String {
    let once = |variable: &str, value: &str| {
        format!("if string :is \"${{{variable}}}\" \"\" {{ set \"{variable}\" {value}; }}")
    };
    match action {
        RuleAction::Folder(name) => once("folder", &quoted(name.as_str())),
        RuleAction::Flag(flag) => format!("addflag {};", quoted(flag)),
        RuleAction::Forward(to) => {
            let number = forwards.iter().position(|forward| *forward == to).unwrap_or_default();
            format!("set \"forward{number}\" \"1\";")
        }
        RuleAction::Reject(text) => format!("set \"reject\" {};\n    set \"stopped\" \"1\";", quoted(text)),
        RuleAction::Vacation(vacation) => {
            let number = vacations.iter().position(|other| *other == vacation).unwrap_or_default();
            once("vacation", &format!("\"{number}\""))
        }
        RuleAction::Stop => "set \"stopped\" \"1\";".to_owned(),
    }
}

/// Returns the test of a condition; `None` if the guards of the rule have it already.
fn test(condition: &Condition) -> Option<String> {
    match condition {
        Condition::IsSpam => None,
        Condition::Fraud(verdict) => {
            let names: Vec<_> = verdict.and_worse().map(|name| quoted(&format!("{name}*"))).collect();
            Some(format!("header :matches {} [{}]", quoted(SecurityMark::FIELD), names.join(", ")))
        }
        Condition::Over(bytes) => Some(format!("size :over {}", (*bytes).min(MAX_SIZE))),
        Condition::Text { field, comparison, value } => {
            let names = match field {
                TextField::Recipient => "\"${recipient}\"".to_owned(),
                TextField::From => "\"From\"".to_owned(),
                TextField::To => "[\"To\", \"Cc\"]".to_owned(),
                TextField::Subject => "\"Subject\"".to_owned(),
                TextField::Header(name) => quoted(name),
            };
            let is_people = matches!(field, TextField::From | TextField::To);
            let (command, how) = match comparison {
                Comparison::Contains if *field == TextField::Recipient => ("string", "contains"),
                Comparison::Is if *field == TextField::Recipient => ("string", "is"),
                Comparison::Contains => ("header", "contains"),
                Comparison::Is if is_people => ("address", "is"),
                Comparison::Is => ("header", "is"),
            };
            let value = value.trim();
            // Both are in lower case: Pigeonhole compares texts of variables by their case.
            let lower = if *field == TextField::Recipient { value.to_lowercase() } else { value.to_owned() };
            Some(format!("{command} :{how} {names} {}", spellings(&lower)))
        }
    }
}

/// Returns a text in the spellings that differ for `i;ascii-casemap` (RFC 4790 section 9.2), which ignores the case of
/// ASCII only.
fn spellings(value: &str) -> String {
    let mut all = vec![value.to_owned()];
    if !value.is_ascii() {
        for other in [value.to_lowercase(), value.to_uppercase()] {
            if !all.iter().any(|one| one.eq_ignore_ascii_case(&other)) {
                all.push(other);
            }
        }
    }
    // Addresses may be in ASCII in the message, and in Unicode in the rule.
    if let Ok(address) = value.parse::<EmailAddress>()
        && !all.iter().any(|one| one.eq_ignore_ascii_case(address.as_str()))
    {
        all.push(address.as_str().to_owned());
    }
    let all: Vec<String> = all.iter().map(|one| quoted(one)).collect();
    format!("[{}]", all.join(", "))
}

fn write_if_set(script: &mut String, variable: &str, value: &str, action: &str) {
    let _ = writeln!(script, "if string :is \"${{{variable}}}\" \"{value}\" {{\n    {action}\n}}");
}

fn vacation_action(Vacation { subject, text, days, addresses }: &Vacation) -> String {
    let mut action = format!("vacation :days {days}");
    if let Some(subject) = subject {
        let _ = write!(action, " :subject {}", quoted(subject));
    }
    if !addresses.is_empty() {
        let addresses: Vec<String> = addresses.iter().map(|address| quoted(address.as_str())).collect();
        let _ = write!(action, " :addresses [{}]", addresses.join(", "));
    }
    // A line ends with CRLF in Sieve, but as the user wrote it in the answer.
    let lines: Vec<&str> = text.lines().map(|line| line.trim_end_matches('\r')).collect();
    format!("{action} {};", quoted(&lines.join("\r\n")))
}

/// Returns a quoted string (RFC 5228 section 2.4.2) without variables.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"").replace("${", "${dollar}{"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(text: &str) -> RuleSet {
        RuleSet::from_text(text).unwrap()
    }

    #[test]
    fn only_enabled_rules_make_a_script() {
        assert_eq!(RuleSet::default().to_sieve(), None);
        assert_eq!(rules("rule\toff\tx\ndo\tstop\n").to_sieve(), None);
        assert!(rules("rule\ton\tx\ndo\tstop\n").to_sieve().is_some());
    }

    #[test]
    fn a_text_of_a_user_ends_neither_its_quotes_nor_is_a_variable() {
        assert_eq!(quoted(r#"a"b\c${d}$e{"#), r#""a\"b\\c${dollar}{d}$e{""#);
        assert_eq!(quoted("$${x}"), "\"$${dollar}{x}\"");
    }

    #[test]
    fn texts_are_compared_in_several_spellings() {
        assert_eq!(spellings("News"), "[\"News\"]");
        assert_eq!(spellings("Éü"), "[\"Éü\", \"éü\", \"ÉÜ\"]");
        assert_eq!(spellings("Ünal"), "[\"Ünal\", \"ünal\"]", "Sieve ignores the case of ASCII");
        let of_an_address = spellings("zoe@münchen.example");
        assert!(of_an_address.ends_with(", \"zoe@xn--mnchen-3ya.example\"]"), "{of_an_address}");
    }

    #[test]
    fn only_rules_about_the_recipient_look_for_it() {
        let without = rules("rule\ton\tx\nif\tto\tis\ta@b.example\ndo\tstop\n").to_sieve().unwrap();
        assert!(!without.contains("envelope"), "{without}");
        let script = rules("rule\ton\tx\nif\trecipient\tis\tSales@b.example\ndo\tstop\n").to_sieve().unwrap();
        assert!(script.starts_with(&format!("{REQUIRE}{RECIPIENT_REQUIRE}\n")), "{script}");
        assert!(script.contains("string :is \"${recipient}\" [\"sales@b.example\"]"), "{script}");
    }

    #[test]
    fn actions_wait_for_the_end_of_the_script() {
        let set = rules(
            "rule\ton\tone\nif\tsubject\tcontains\tnews\ndo\tfolder\tNews\ndo\tforward\tbob@far.example\n\
             rule\ton\ttwo\nif\tspam\nif\tover\t9999999999\ndo\tflag\t\\\\Seen\ndo\tstop\ndo\tflag\tx\n\
             rule\ton\tthree\ndo\treject\tNo.\n",
        );
        let script = set.to_sieve().unwrap();
        let end = script.find("if not string :is \"${reject}\"").unwrap();
        for action in
            ["redirect :copy \"bob@far.example\";", "fileinto :create \"${folder}\";", "reject \"${reject}\";"]
        {
            assert!(script.find(action).unwrap() > end, "{script}");
        }
        assert!(script.contains("header :contains \"Subject\" [\"news\"]"), "{script}");
        assert!(script.contains("string :is \"${spam}\" \"1\",\n    size :over 2147483647\n"), "{script}");
        assert!(!script.contains("addflag \"x\""), "{script}");
    }
}
