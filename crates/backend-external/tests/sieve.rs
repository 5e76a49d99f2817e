//! The Sieve scripts of rules, compiled by Pigeonhole.

use std::fs;
use std::path::Path;
use std::process::Command;

use mailapi_model::{ActionFields, ConditionFields, ConditionValue, EmailAddress, RuleFields, RuleSet};
use proptest::prelude::*;

const COMPILER: &str = "/usr/bin/sievec";

/// Panics if Pigeonhole refuses the script of these rules.
fn compile(directory: &Path, rules: &RuleSet) {
    let file = directory.join("rules.sieve");
    let script = rules.to_sieve().expect("an enabled rule");
    fs::write(&file, &script).unwrap();
    let mut command = Command::new(COMPILER);
    command.arg("-c").arg(directory.join("dovecot.conf")).arg(&file).arg(directory.join("rules.svbin"));
    let output = command.output().expect("sievec is installed");
    assert!(output.status.success(), "{}\n{script}", String::from_utf8_lossy(&output.stderr));
}

fn directory() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("dovecot.conf"), "ssl = no\nmail_uid = nobody\nmail_gid = nogroup\n").unwrap();
    directory
}

fn owner() -> EmailAddress {
    "bob@example.org".parse().unwrap()
}

fn text() -> impl Strategy<Value = String> {
    r#"(\$\{|\}|"|\\|#|/\*|[a-z]|é|\PC|text:){1,12}x"#
}

fn condition() -> impl Strategy<Value = ConditionFields> {
    let of = |field: &str, op: &str, value| ConditionFields {
        field: field.to_owned(),
        name: Some("X-List".to_owned()),
        op: op.to_owned(),
        value,
    };
    let field = prop::sample::select(vec!["from", "to", "recipient", "subject", "header"]);
    let op = prop::sample::select(vec!["contains", "is"]);
    prop_oneof![
        4 => (field, op, text()).prop_map(move |(field, op, value)| of(field, op, ConditionValue::Text(value))),
        1 => any::<u64>().prop_map(move |bytes| of("size", "over", ConditionValue::Number(bytes))),
    ]
}

fn action() -> impl Strategy<Value = ActionFields> {
    let of = |kind: &str| ActionFields { kind: kind.to_owned(), ..ActionFields::default() };
    let ascii = r#"(\$\{|\}|"|\\|[a-z ]){1,12}x"#;
    prop_oneof![
        r#"(\$\{|"|\\|[a-z]|é){1,12}x"#.prop_map(move |folder| ActionFields { folder: Some(folder), ..of("folder") }),
        "\\$?[a-zA-Z0-9_.-]{1,20}".prop_map(move |flag| ActionFields { flag: Some(flag), ..of("flag") }),
        r"[a-z]{1,3}@far\.example".prop_map(move |to| ActionFields { to: to.parse().ok(), ..of("forward") }),
        ascii.prop_map(move |text| ActionFields { text: Some(text), ..of("reject") }),
        (text(), text(), 1..=90_u64).prop_map(move |(text, subject, days)| ActionFields {
            text: Some(format!("{text}\r\n{subject}\n.\n")),
            subject: Some(subject),
            days: Some(days),
            addresses: Some(vec!["rob@example.org".parse().unwrap()]),
            ..of("vacation")
        }),
        Just(of("stop")),
    ]
}

fn rule() -> impl Strategy<Value = RuleFields> {
    let parts = (prop::collection::vec(condition(), 0..4), prop::collection::vec(action(), 1..5), text());
    parts.prop_map(|(conditions, actions, name)| RuleFields { name, enabled: true, conditions, actions })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn any_rules_compile(rules in prop::collection::vec(rule(), 1..4)) {
        let rules = RuleSet::check(&owner(), rules).expect("rules that are accepted");
        let directory = directory();
        compile(directory.path(), &rules);
    }
}

/// Returns what Pigeonhole does with a message to this final recipient.
fn run(directory: &Path, rules: &RuleSet, recipient: &str, message: &str) -> String {
    compile(directory, rules);
    let file = directory.join("message.eml");
    fs::write(&file, message).unwrap();
    let mut command = Command::new("/usr/bin/sieve-test");
    command.arg("-c").arg(directory.join("dovecot.conf")).args(["-r", recipient, "-f", "eve@far.example"]);
    // It reads no mailbox, but wants to know where one would be.
    command.arg("-l").arg(format!("maildir:{}/mail", directory.display())).env("HOME", directory);
    let output = command.arg(directory.join("rules.sieve")).arg(&file).output().expect("sieve-test is installed");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_recipient_is_what_the_receiving_servers_wrote() {
    let fields = RuleFields {
        enabled: true,
        conditions: vec![ConditionFields {
            field: "recipient".to_owned(),
            name: None,
            op: "is".to_owned(),
            value: ConditionValue::Text("Sales@example.org".to_owned()),
        }],
        actions: vec![ActionFields {
            kind: "folder".to_owned(),
            folder: Some("Sold".to_owned()),
            ..ActionFields::default()
        }],
        ..RuleFields::default()
    };
    let rules = RuleSet::check(&owner(), vec![fields]).unwrap();
    let lmtp =
        "Received: from mx.example.org\r\n\tby mx.example.org with LMTP\r\n\tid x for <bob@example.org>; Fri\r\n";
    let postfix = |clause: &str| {
        format!(
            "Received: from far.example (far.example [192.0.2.1])\r\n\tby mx.example.org (Postfix) with ESMTP id 4C{clause};\r\n\tFri\r\n"
        )
    };
    let (named, unnamed) = (postfix("\r\n\tfor <sales@example.org>"), postfix(""));
    let forged =
        "Delivered-To: sales@example.org\r\nReceived: by x for <sales@example.org>; Fri\r\nTo: sales@example.org\r\n";
    let directory = directory();
    for (recipient, trace, is_filed) in [
        ("bob@example.org", format!("{lmtp}{named}"), true),
        ("bob@example.org", named, true),
        ("sales@example.org", format!("{lmtp}{unnamed}"), true),
        ("bob@example.org", format!("{lmtp}{unnamed}"), false),
        ("bob@example.org", unnamed, false),
        ("sales@example.org", format!("{lmtp}{}", postfix(" for <bob@example.org>")), false),
    ] {
        let message = format!("{trace}{forged}Subject: x\r\n\r\nHello\r\n");
        let done = run(directory.path(), &rules, recipient, &message);
        assert_eq!(done.contains("Sold"), is_filed, "{recipient} {trace}\n{done}");
    }
}

#[test]
fn the_most_rules_compile() {
    let condition = |at: usize| ConditionFields {
        field: "header".to_owned(),
        name: Some(format!("X-{at}")),
        op: "contains".to_owned(),
        value: ConditionValue::Text("ü".repeat(3)),
    };
    let action = |at: usize| ActionFields {
        kind: if at < 10 { "forward" } else { "vacation" }.to_owned(),
        to: format!("a{at}@far.example").parse().ok(),
        text: Some("I am away.".to_owned()),
        ..ActionFields::default()
    };
    let rule = |at: usize| RuleFields {
        name: format!("rule {at}"),
        enabled: true,
        conditions: (0..RuleSet::MAX_CONDITIONS).map(condition).collect(),
        actions: vec![action(at)],
    };
    let rules = RuleSet::check(&owner(), (0..RuleSet::MAX_RULES).map(rule).collect()).unwrap();
    assert!(rules.to_text().len() > RuleSet::MAX_BYTES / 2, "{}", rules.to_text().len());
    let directory = directory();
    compile(directory.path(), &rules);
}
