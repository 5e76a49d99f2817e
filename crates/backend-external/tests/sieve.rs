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
    let field = prop::sample::select(vec!["from", "to", "subject", "header"]);
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
