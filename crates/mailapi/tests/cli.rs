//! The command line, by the real binary: what it refuses, what it prints, what it leaves behind.

mod support;

use std::os::unix::fs::PermissionsExt;

use support::Place;

#[test]
fn a_mistake_is_told_in_one_line_and_by_the_exit_code() {
    let place = Place::new();
    for (arguments, code, expected) in [
        (&["fly"][..], 2, "unrecognized subcommand 'fly'"),
        (&["token", "create", "--type", "admin"], 2, "--name <NAME>"),
        (&["token", "create", "--type", "user", "--name", "x"], 2, "--email <ADDRESS>"),
        (&["token", "create", "--type", "root", "--name", "x"], 2, "invalid value 'root'"),
        (&["user", "add", "nobody"], 2, "invalid value 'nobody'"),
        (&["user", "add", "ann@example.org", "--password", "secret"], 2, "unexpected argument '--password'"),
        (&["--config", "none.toml", "config", "check"], 1, "none.toml cannot be read"),
        (&["token", "revoke", "99"], 1, "the token does not exist"),
        (&["domain", "remove", "example.org"], 1, "example.org: the domain does not exist"),
        (&["user", "remove", "ann@example.org"], 1, "ann@example.org: the user does not exist"),
        (&["user", "passwd", "ann@example.org"], 1, "ann@example.org: the user does not exist"),
        (&["token", "create", "--type", "user", "--name", "x", "--email", "a@b.example"], 1, "the user does not exist"),
    ] {
        let answer = place.run(arguments);
        assert_eq!(answer.code, Some(code), "{arguments:?}: {answer:?}");
        let complaint = answer.complaint();
        assert!(complaint.contains(expected), "{arguments:?}: {complaint}");
    }
}

#[test]
fn a_wrong_configuration_is_told_with_its_place() {
    let place = Place::new();
    std::fs::write(place.path().join("mailapi.toml"), "[http]\nlisen = \"127.0.0.1:1\"\n").unwrap();
    let complaint = place.run(&["config", "check"]).complaint();
    assert_eq!(complaint, "mailapi.toml:2: unknown key `http.lisen`; did you mean `http.listen`?");
    std::fs::write(place.path().join("mailapi.toml"), "[mail]\nbackend = \"external\"\n").unwrap();
    let complaint = place.run(&["serve"]).complaint();
    assert_eq!(complaint, "mail.external.imap.master_password: missing");
    let mut command = place.command(&["config", "check"]);
    command.env("MAILAPI_CONFIG", "other.toml").env("MAILAPI_HTP__LISTEN", "x");
    std::fs::write(place.path().join("other.toml"), "").unwrap();
    let output = command.output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(stderr.contains("did you mean MAILAPI_HTTP__LISTEN?"), "{stderr}");
    assert!(!place.data().exists(), "a refused configuration must leave nothing behind");
}

#[test]
fn the_configuration_is_printed_as_it_is_in_force_and_without_secrets() {
    let place = Place::new();
    std::fs::write(place.path().join("mailapi.toml"), "[database]\nurl = \"sqlite:hidden.db\"\n").unwrap();
    let printed = place.run(&["config", "print"]).answer();
    assert!(printed.contains("url = \"(redacted)\"") && !printed.contains("hidden"), "{printed}");
    assert!(printed.contains("password_rounds = 1000"), "the environment is in force: {printed}");
    assert_eq!(place.run(&["config", "check"]).answer(), "the configuration is fine\n");
}

#[test]
fn help_and_version_are_answers() {
    let place = Place::new();
    for arguments in [&["--help"][..], &["help", "user", "add"], &["token", "create", "--help"], &["serve", "-h"]] {
        let help = place.run(arguments).answer();
        assert!(help.contains("Usage: mailapi"), "{help}");
    }
    let version = place.run(&["--version"]).answer();
    assert_eq!(version, format!("mailapi {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn the_openapi_document_needs_no_configuration() {
    let place = Place::new();
    std::fs::write(place.path().join("mailapi.toml"), "broken").unwrap();
    let document: serde_json::Value = serde_json::from_str(&place.run(&["openapi"]).answer()).unwrap();
    assert!(document["paths"]["/api/v1/mail/send"]["post"].is_object());
}

#[test]
fn migrating_makes_a_private_database_and_can_be_repeated() {
    let place = Place::new();
    for _ in 0..2 {
        assert_eq!(place.run(&["migrate"]).answer(), "the database is up to date\n");
    }
    let mode = |path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(place.data()), 0o700);
    assert_eq!(mode(place.data().join("mailapi.db")), 0o600);
}

#[test]
fn domains_users_and_tokens_come_and_go() {
    let place = Place::new();
    let user = ["user", "add", "ann@example.org", "--name", "Ann", "--quota", "1GiB"];
    let complaint = place.run_with_input(&user, "correct horse\n").complaint();
    assert_eq!(complaint, "ann@example.org: the domain does not exist");

    assert_eq!(place.run(&["domain", "add", "example.org", "--description", "ours"]).answer(), "");
    assert_eq!(place.run(&["domain", "add", "Example.ORG"]).complaint(), "example.org: the domain exists already");
    let domains = place.run(&["domain", "list"]).answer();
    assert!(domains.contains("example.org") && domains.contains("ours"), "{domains}");

    assert!(place.run_with_input(&user, "short\n").complaint().contains("at least 8 characters"));
    assert!(place.run_with_input(&user, "").complaint().contains("no password"));
    assert_eq!(place.run_with_input(&user, "correct horse\n").answer(), "");
    assert_eq!(place.run_with_input(&user, "correct horse\n").complaint(), "ann@example.org: the user exists already");
    assert_eq!(place.run_with_input(&["user", "passwd", "ann@example.org"], "battery staple\r\n").answer(), "");
    let users = place.run(&["user", "list", "--domain", "example.org"]).answer();
    assert!(users.contains("ann@example.org") && users.contains("1073741824"), "{users}");
    assert_eq!(
        place.run(&["domain", "remove", "example.org"]).complaint(),
        "example.org: the domain still has mailboxes"
    );

    let token = ["token", "create", "--type", "user", "--name", "Ann's", "--email", "ann@example.org"];
    let value = place.run(&token).answer();
    assert!(value.starts_with("mapi_") && value.trim_end().len() == 48 && value.ends_with('\n'), "the value alone");
    let tokens = place.run(&["token", "list"]).answer();
    assert!(tokens.contains(&value[..12]) && !tokens.contains(value.trim_end()), "{tokens}");
    let id = tokens.lines().nth(1).unwrap().split_whitespace().next().unwrap();
    assert_eq!(place.run(&["token", "revoke", id]).answer(), "");
    assert!(place.run(&["token", "list"]).answer().contains("revoked"));

    assert_eq!(place.run(&["user", "remove", "ann@example.org"]).answer(), "");
    assert_eq!(place.run(&["domain", "remove", "example.org"]).answer(), "");
}

#[test]
fn users_can_be_added_before_the_mail_server_runs() {
    let place = Place::new();
    // Nobody listens there.
    let nobody = mailapi_testkit::free_port().port();
    let settings = format!(
        "[mail]\nbackend = \"external\"\n[mail.external.imap]\nport = {nobody}\nmaster_password = \"secret\"\n\
         [mail.external.smtp]\nport = {nobody}\n[database]\nurl = \"sqlite:accounts.db\"\n"
    );
    std::fs::write(place.path().join("mailapi.toml"), settings).unwrap();
    place.run(&["domain", "add", "example.org"]).answer();
    assert_eq!(place.run_with_input(&["user", "add", "ann@example.org"], "correct horse battery\n").answer(), "");
    let again = place.run_with_input(&["user", "add", "ann@example.org"], "correct horse battery\n");
    let complaint = again.complaint();
    assert!(complaint.contains("exists"), "{complaint}");
}

#[test]
fn a_name_that_only_this_machine_knows_is_named_everywhere() {
    let place = Place::new();
    place.run(&["migrate"]).answer();
    let run = |listen: &str, hostname: &str, arguments: &[&str]| {
        let mut command = place.command(arguments);
        command.env("MAILAPI_MAIL__EMBEDDED__SMTP_LISTEN", listen).env("MAILAPI_MAIL__EMBEDDED__HOSTNAME", hostname);
        String::from_utf8(command.output().unwrap().stdout).unwrap()
    };
    for arguments in [&["config", "check"][..], &["doctor"]] {
        let shown = run("0.0.0.0:0", "localhost", arguments);
        assert!(shown.contains("set mail.embedded.hostname") && shown.contains("smtp_listen is 0.0.0.0:0"), "{shown}");
        for (listen, hostname) in [("127.0.0.1:0", "localhost"), ("[::1]:0", "mx"), ("0.0.0.0:0", "mx.example.org")] {
            let shown = run(listen, hostname, arguments);
            assert!(!shown.contains("set mail.embedded.hostname"), "{listen} {hostname}: {shown}");
        }
    }
    // A domain that was verified under an earlier name.
    place.run(&["domain", "add", "example.org"]).answer();
    let database = rusqlite::Connection::open(place.data().join("mailapi.db")).unwrap();
    assert_eq!(database.execute("UPDATE domains SET verified_at = created_at", []).unwrap(), 1);
    let shown = run("127.0.0.1:0", "localhost", &["doctor"]);
    assert!(shown.contains("set mail.embedded.hostname") && shown.contains("example.org was verified"), "{shown}");
}
