//! The command line of the real binary: rejected input, output, and files.

mod support;

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;

use support::WorkDir;

#[test]
fn a_failing_command_prints_one_line_and_sets_the_exit_code() {
    let work_dir = WorkDir::new();
    work_dir.run(&["migrate"]).answer();
    for (arguments, code, expected) in [
        (&["fly"][..], 2, "unrecognized subcommand 'fly'"),
        (&["token", "create", "--type", "admin"], 2, "--name <NAME>"),
        (&["token", "create", "--type", "user", "--name", "x"], 2, "--email <ADDRESS>"),
        (&["token", "create", "--type", "root", "--name", "x"], 2, "invalid value 'root'"),
        (&["user", "add", "nobody"], 2, "invalid value 'nobody'"),
        (&["user", "add", "ann@example.org", "--password", "secret"], 2, "unexpected argument '--password'"),
        (&["--config", "none.toml", "config", "check"], 1, "none.toml cannot be read"),
        (&["token", "show", "99"], 1, "the token does not exist"),
        (&["queue", "list", "--state", "lost"], 2, "invalid value 'lost'"),
        (&["queue", "show", "7Q2M"], 1, "7Q2M: the queue does not contain the message"),
        (&["queue", "cancel", "7Q2M"], 1, "7Q2M: the queue does not contain the message"),
        (&["domain", "show", "example.org"], 1, "example.org: the domain does not exist"),
        (&["domain", "dns", "example.org"], 1, "example.org: the domain does not exist"),
        (&["domain", "security", "example.org"], 1, "example.org: the domain does not exist"),
        (&["domain", "dns", "example.org", "--zone", "--json"], 2, "'--zone' cannot be used with '--json'"),
        (&["domain", "remove", "example.org", "--force"], 1, "example.org: the domain does not exist"),
        (&["user", "show", "ann@example.org"], 1, "ann@example.org: the user does not exist"),
        (&["user", "add", "ann@example.org"], 1, "ann@example.org: the domain does not exist"),
        (&["alias", "add", "team@example.org"], 2, "<MEMBER>"),
        (&["alias", "add", "team@example.org", "ann@example.org"], 1, "team@example.org: the domain does not exist"),
        (&["alias", "show", "team@example.org"], 1, "team@example.org: the alias does not exist"),
        (&["alias", "remove", "team@example.org"], 1, "team@example.org: the alias does not exist"),
        (&["token", "revoke", "99"], 1, "the token does not exist"),
        (&["domain", "remove", "example.org"], 1, "example.org: the domain does not exist"),
        (&["user", "remove", "ann@example.org"], 1, "ann@example.org: the user does not exist"),
        (&["user", "passwd", "ann@example.org"], 1, "ann@example.org: the user does not exist"),
        (&["user", "app-password", "add", "ann@example.org"], 2, "--name <NAME>"),
        (&["user", "app-password", "list", "ann@example.org"], 1, "ann@example.org: the user does not exist"),
        (&["user", "app-password", "remove", "ann@example.org", "1"], 1, "ann@example.org: the user does not exist"),
        (&["user", "rules", "get", "ann@example.org"], 1, "ann@example.org: the user does not exist"),
        (&["user", "save-sent", "ann@example.org"], 1, "ann@example.org: the user does not exist"),
        (&["user", "save-sent", "ann@example.org", "some"], 2, "must be off, api or all"),
        (&["user", "rules", "set", "ann@example.org", "missing.json"], 1, "missing.json: "),
        (&["token", "create", "--type", "user", "--name", "x", "--email", "a@b.example"], 1, "the user does not exist"),
    ] {
        let answer = work_dir.run(arguments);
        assert_eq!(answer.code, Some(code), "{arguments:?}: {answer:?}");
        let complaint = answer.complaint();
        assert!(complaint.contains(expected), "{arguments:?}: {complaint}");
    }
}

#[test]
fn a_wrong_configuration_is_reported_with_its_place() {
    let work_dir = WorkDir::new();
    std::fs::write(work_dir.path().join("mailapi.toml"), "[http]\nlisen = \"127.0.0.1:1\"\n").unwrap();
    let complaint = work_dir.run(&["config", "check"]).complaint();
    assert_eq!(complaint, "mailapi.toml:2: unknown key `http.lisen`; did you mean `http.listen`?");
    std::fs::write(work_dir.path().join("mailapi.toml"), "[mail]\nbackend = \"external\"\n").unwrap();
    let complaint = work_dir.run(&["serve"]).complaint();
    assert_eq!(complaint, "mail.external.imap.master_password: missing");
    let mut command = work_dir.command(&["config", "check"]);
    command.env("MAILAPI_CONFIG", "other.toml").env("MAILAPI_HTP__LISTEN", "x");
    std::fs::write(work_dir.path().join("other.toml"), "").unwrap();
    let output = command.output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(stderr.contains("did you mean MAILAPI_HTTP__LISTEN?"), "{stderr}");
    assert!(!work_dir.data().exists(), "a refused configuration must leave nothing behind");
}

#[test]
fn the_effective_configuration_is_printed_without_secrets() {
    let work_dir = WorkDir::new();
    std::fs::write(work_dir.path().join("mailapi.toml"), "[database]\nurl = \"sqlite:hidden.db\"\n").unwrap();
    let printed = work_dir.run(&["config", "print"]).answer();
    assert!(printed.contains("url = \"(redacted)\"") && !printed.contains("hidden"), "{printed}");
    assert!(printed.contains("password_rounds = 1000"), "the environment is in force: {printed}");
    let checked = work_dir.run(&["config", "check"]).answer();
    assert!(checked.starts_with("the configuration is valid: settings from /") && checked.lines().count() == 1);
    assert!(checked.contains("/mailapi.toml, data in /"), "{checked}");
}

#[test]
fn former_settings_are_accepted_and_named() {
    let work_dir = WorkDir::new();
    std::fs::write(work_dir.path().join("mailapi.toml"), "shutdown_grace = \"5s\"\n[stats]\nmax_days = 7\n").unwrap();
    let warnings = [
        "mailapi.toml:1: shutdown_grace is advanced.shutdown_grace now; the next version refuses the former name",
        "mailapi.toml:3: stats.max_days is ignored: it is a constant now; the next version refuses the name",
    ];
    let checked = work_dir.run(&["config", "check"]).answer();
    assert!(checked.starts_with("the configuration is valid: "), "{checked}");
    assert_eq!(checked.lines().skip(1).collect::<Vec<_>>(), warnings.map(|warning| format!("warning: {warning}")));
    // Every other command logs the warnings once.
    let printed = work_dir.run(&["--log-format", "json", "config", "print"]);
    assert!(printed.stdout.contains("shutdown_grace = \"5s\"") && !printed.stdout.contains("max_days"), "{printed:?}");
    for warning in warnings {
        assert_eq!(printed.stderr.matches(warning).count(), 1, "{}", printed.stderr);
    }
}

#[test]
fn help_and_version_are_answers() {
    let work_dir = WorkDir::new();
    for arguments in [&["--help"][..], &["help", "user", "add"], &["token", "create", "--help"], &["serve", "-h"]] {
        let help = work_dir.run(arguments).answer();
        assert!(help.contains("Usage: mailapi"), "{help}");
    }
    let version = work_dir.run(&["--version"]).answer();
    assert_eq!(version, format!("mailapi {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn the_openapi_document_needs_no_configuration() {
    let work_dir = WorkDir::new();
    std::fs::write(work_dir.path().join("mailapi.toml"), "broken").unwrap();
    let document: serde_json::Value = serde_json::from_str(&work_dir.run(&["openapi"]).answer()).unwrap();
    assert!(document["paths"]["/api/v1/mail/send"]["post"].is_object());
}

#[test]
fn migrating_makes_a_private_database_and_can_be_repeated() {
    let work_dir = WorkDir::new();
    for _ in 0..2 {
        assert_eq!(work_dir.run(&["migrate"]).answer(), "the database is up to date\n");
    }
    let mode = |path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(work_dir.data()), 0o700);
    assert_eq!(mode(work_dir.data().join("mailapi.db")), 0o600);
}

#[test]
fn domains_users_and_tokens_come_and_go() {
    let work_dir = WorkDir::new();
    let user = ["user", "add", "ann@example.org", "--name", "Ann", "--quota", "1GiB"];
    assert_eq!(work_dir.run(&["domain", "add", "example.org", "--description", "ours", "--init"]).answer(), "");
    assert_eq!(work_dir.run(&["domain", "add", "Example.ORG"]).complaint(), "example.org: the domain already exists");
    let domains = work_dir.run(&["domain", "list"]).answer();
    assert!(domains.contains("example.org") && domains.contains("ours"), "{domains}");

    assert!(work_dir.run_with_input(&user, "short\n").complaint().contains("at least 8 characters"));
    assert!(work_dir.run_with_input(&user, "").complaint().contains("no password"));
    assert_eq!(work_dir.run_with_input(&user, "correct horse\n").answer(), "");
    assert_eq!(
        work_dir.run_with_input(&user, "correct horse\n").complaint(),
        "ann@example.org: the user already exists"
    );
    assert_eq!(work_dir.run_with_input(&["user", "passwd", "ann@example.org"], "battery staple\r\n").answer(), "");
    let users = work_dir.run(&["user", "list", "--domain", "example.org"]).answer();
    assert!(users.contains("ann@example.org") && users.contains("1073741824"), "{users}");
    assert_eq!(
        work_dir.run(&["domain", "remove", "example.org"]).complaint(),
        "example.org: the domain still has mailboxes"
    );

    let token = ["token", "create", "--type", "user", "--name", "Ann's", "--email", "ann@example.org"];
    let value = work_dir.run(&token).answer();
    assert!(value.starts_with("mapi_") && value.trim_end().len() == 48 && value.ends_with('\n'), "the value alone");
    let tokens = work_dir.run(&["token", "list"]).answer();
    assert!(tokens.contains(&value[..12]) && !tokens.contains(value.trim_end()), "{tokens}");
    let id = tokens.lines().nth(1).unwrap().split_whitespace().next().unwrap();
    assert_eq!(work_dir.run(&["token", "revoke", id]).answer(), "");
    assert!(work_dir.run(&["token", "list"]).answer().contains("revoked"));

    assert_eq!(work_dir.run(&["user", "remove", "ann@example.org"]).answer(), "");
    assert_eq!(work_dir.run(&["domain", "remove", "example.org"]).answer(), "");
}

#[test]
fn aliases_come_and_go_at_the_command_line() {
    let work_dir = WorkDir::new();
    work_dir.run(&["domain", "add", "example.org", "--init"]).answer();
    work_dir.run_with_input(&["user", "add", "ann@example.org"], "correct horse\n").answer();
    let add = ["alias", "add", "team@example.org", "ann@example.org", "bob@example.org"];
    assert_eq!(work_dir.run(&["alias", "list", "--json"]).answer(), "[]\n");
    let complaint = work_dir.run(&["alias", "add", "team@example.org", "team+x@example.org"]).complaint();
    assert_eq!(complaint, "team@example.org: members[0]: must not lead back to the alias");
    assert_eq!(work_dir.run(&add).answer(), "");
    assert_eq!(work_dir.run(&add).complaint(), "team@example.org: the address already belongs to an alias or a user");
    let user = work_dir.run_with_input(&["user", "add", "team@example.org"], "correct horse\n");
    assert_eq!(user.complaint(), "team@example.org: an alias has this address");
    let all = work_dir.run(&["alias", "add", "*@example.org", "ann@example.org", "--inactive", "--json"]).answer();
    let all: serde_json::Value = serde_json::from_str(&all).unwrap();
    assert_eq!((&all["address"], &all["active"]), (&"*@example.org".into(), &false.into()));
    let listed = work_dir.run(&["alias", "list", "--domain", "example.org"]).answer();
    assert!(listed.contains("ann@example.org, bob@example.org") && listed.contains("inactive"), "{listed}");
    assert_eq!(work_dir.run(&["alias", "list", "--q", "bob"]).answer().lines().count(), 2, "the heading and team");
    let shown = work_dir.run(&["alias", "show", "team@example.org", "--json"]).answer();
    let shown: serde_json::Value = serde_json::from_str(&shown).unwrap();
    assert_eq!(shown["members"], serde_json::json!(["ann@example.org", "bob@example.org"]));
    let sales = ["alias", "add", "sales@example.org", "bob@example.org", "--sender", "ann@example.org"];
    assert_eq!(work_dir.run(&sales).answer(), "");
    let shown = work_dir.run(&["alias", "show", "sales@example.org"]).answer();
    assert!(shown.lines().any(|line| line.starts_with("senders") && line.ends_with("ann@example.org")), "{shown}");
    assert_eq!(work_dir.run(&["alias", "remove", "team@example.org"]).answer(), "");
    assert!(work_dir.run(&["alias", "show", "team@example.org"]).complaint().contains("does not exist"));
}

#[test]
fn rules_are_replaced_at_the_command_line() {
    let work_dir = WorkDir::new();
    work_dir.run(&["domain", "add", "example.org", "--init"]).answer();
    work_dir.run_with_input(&["user", "add", "ann@example.org"], "correct horse\n").answer();
    let file = work_dir.path().join("rules.json");
    let set = |json: &str| {
        std::fs::write(&file, json).unwrap();
        work_dir.run(&["user", "rules", "set", "ann@example.org", file.to_str().unwrap()])
    };
    assert!(set("{").complaint().contains("rules.json: "));
    let complaint = set(r#"{"rules":[{"actions":[{"type":"folder"}]}]}"#).complaint();
    assert!(complaint.contains("rules[0].actions[0].folder: must be a folder name"), "{complaint}");
    let get = || work_dir.run(&["user", "rules", "get", "ann@example.org"]).answer();
    let save_sent = || work_dir.run(&["user", "save-sent", "ann@example.org"]).answer();
    assert_eq!(save_sent(), "off\n");
    work_dir.run(&["user", "save-sent", "ann@example.org", "all"]).answer();
    assert_eq!(save_sent(), "all\n");
    assert_eq!(get(), "{\n  \"rules\": []\n}\n");
    assert_eq!(set(r#"{"rules":[{"name":"x","actions":[{"type":"stop"}]}]}"#).answer(), "");
    let shown = get();
    assert!(shown.contains("\"stop\""), "{shown}");
    assert_eq!(set(&shown).answer(), "");
    assert_eq!(get(), shown);
}

#[test]
fn app_passwords_come_and_go() {
    let work_dir = WorkDir::new();
    work_dir.run(&["domain", "add", "example.org", "--init"]).answer();
    work_dir.run_with_input(&["user", "add", "ann@example.org"], "correct horse\n").answer();
    let on = |command: &[&str], rest: &[&str]| {
        work_dir.run(&[&["user", "app-password"], command, &["ann@example.org"], rest].concat())
    };
    assert!(on(&["add"], &["--name", " "]).complaint().contains("must not be empty"));
    let value = on(&["add"], &["--name", "phone"]).answer();
    assert!(value.len() == 24 && value.ends_with('\n') && value.matches('-').count() == 3, "the value alone");
    let created: serde_json::Value =
        serde_json::from_str(&on(&["add"], &["--name", "tablet", "--json"]).answer()).unwrap();
    assert!(created["password"].as_str().unwrap().len() == 23 && created["app_password"]["name"] == "tablet");
    let list = on(&["list"], &[]).answer();
    assert!(list.starts_with("ID  NAME") && !list.contains(value.trim_end()), "{list}");
    let listed: serde_json::Value = serde_json::from_str(&on(&["list"], &["--json"]).answer()).unwrap();
    assert_eq!((&listed[0]["name"], &listed[1]["name"]), (&"tablet".into(), &"phone".into()));
    let id = listed[1]["id"].to_string();
    assert_eq!(on(&["remove"], &[&id]).answer(), "");
    assert_eq!(on(&["remove"], &[&id]).complaint(), "ann@example.org: the app password does not exist");
    assert!(!on(&["list"], &[]).answer().contains("phone"));
    let audit = std::fs::read_to_string(work_dir.data().join("audit.log")).unwrap();
    assert!(audit.contains("app password revoked") && !audit.contains(value.trim_end()), "{audit}");
}

#[test]
fn users_can_be_added_before_the_mail_server_runs() {
    let work_dir = WorkDir::new();
    // No server listens on this port.
    let free = mailapi_testkit::free_port().port();
    let settings = format!(
        "[mail]\nbackend = \"external\"\n[mail.external.imap]\nport = {free}\nmaster_password = \"secret\"\n\
         [mail.external.smtp]\nport = {free}\n[database]\nurl = \"sqlite:accounts.db\"\n"
    );
    std::fs::write(work_dir.path().join("mailapi.toml"), settings).unwrap();
    work_dir.run(&["domain", "add", "example.org", "--init"]).answer();
    assert_eq!(work_dir.run_with_input(&["user", "add", "ann@example.org"], "correct horse battery\n").answer(), "");
    let again = work_dir.run_with_input(&["user", "add", "ann@example.org"], "correct horse battery\n");
    let complaint = again.complaint();
    assert!(complaint.contains("exists"), "{complaint}");
}

#[test]
fn a_name_that_only_this_machine_knows_is_named_everywhere() {
    let work_dir = WorkDir::new();
    work_dir.run(&["migrate"]).answer();
    let run = |listen: &str, hostname: &str, arguments: &[&str]| {
        let mut command = work_dir.command(arguments);
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
    // A domain that was verified under the server's former name.
    work_dir.run(&["domain", "add", "example.org"]).answer();
    let database = rusqlite::Connection::open(work_dir.data().join("mailapi.db")).unwrap();
    assert_eq!(database.execute("UPDATE domains SET verified_at = created_at", []).unwrap(), 1);
    let shown = run("127.0.0.1:0", "localhost", &["doctor"]);
    assert!(shown.contains("set mail.embedded.hostname") && shown.contains("example.org was verified"), "{shown}");
}

#[test]
fn the_doctor_notices_a_journal_that_is_not_postfixs() {
    const WRITER: &str = "/usr/lib/systemd/systemd-journal-remote";
    let work_dir = WorkDir::new();
    work_dir.run(&["migrate"]).answer();
    let journal = work_dir.path().join("journal");
    std::fs::create_dir(&journal).unwrap();
    let doctor = || {
        let mut command = work_dir.command(&["doctor"]);
        command.env("MAILAPI_MAIL__BACKEND", "external").env("MAILAPI_MAIL__EXTERNAL__LOG__JOURNAL", "true");
        command.env("MAILAPI_MAIL__EXTERNAL__LOG__JOURNAL_DIRECTORY", &journal);
        command.env("MAILAPI_MAIL__EXTERNAL__IMAP__MASTER_PASSWORD", "secret of the master");
        let output = command.output().unwrap();
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
    };
    let shown = doctor();
    assert!(shown.contains("note   log: the journal has no entry of the mail facility"), "{shown}");
    for (identifier, expected) in [
        ("dovecot", "WRONG  log: none of the journal's newest 1 entries of the mail facility is a Postfix line"),
        ("postfix/qmgr", "ok     log: the journal can be read"),
    ] {
        let entry = format!(
            "__REALTIME_TIMESTAMP=1795000000000000\n__MONOTONIC_TIMESTAMP=1\n_BOOT_ID={}\nSYSLOG_FACILITY=2\n\
             SYSLOG_IDENTIFIER={identifier}\nSYSLOG_PID=7\nMESSAGE=started\n\n",
            "1".repeat(32)
        );
        let input = work_dir.path().join("entries");
        std::fs::write(&input, entry).unwrap();
        let mut writer = std::process::Command::new(WRITER);
        writer.arg("--output").arg(journal.join(format!("{}.journal", identifier.len()))).arg(&input);
        assert!(writer.output().unwrap().status.success());
        let shown = doctor();
        assert!(shown.contains(expected), "{shown}");
    }
}

#[test]
fn the_doctor_runs_journalctl_once() {
    let work_dir = WorkDir::new();
    work_dir.run(&["migrate"]).answer();
    let programs = work_dir.path().join("programs");
    let (program, runs) = (programs.join("journalctl"), work_dir.path().join("runs"));
    std::fs::create_dir(&programs).unwrap();
    let doctor = |end: &str| {
        let script = format!("#!/bin/sh\necho run >>{}\n{end}\n", runs.display());
        std::fs::write(&program, script).unwrap();
        std::fs::set_permissions(&program, Permissions::from_mode(0o755)).unwrap();
        std::fs::write(&runs, "").unwrap();
        let mut command = work_dir.command(&["doctor"]);
        command.env("PATH", format!("{}:/usr/bin:/bin", programs.display()));
        command.env("MAILAPI_MAIL__BACKEND", "external").env("MAILAPI_MAIL__EXTERNAL__LOG__JOURNAL", "true");
        command.env("MAILAPI_MAIL__EXTERNAL__IMAP__MASTER_PASSWORD", "secret of the master");
        let shown = String::from_utf8(command.output().unwrap().stdout).unwrap();
        (shown, std::fs::read_to_string(&runs).unwrap())
    };
    let (shown, runs) = doctor("exit 0");
    assert!(shown.contains("note   log: the journal has no entry of the mail facility"), "{shown}");
    assert_eq!(runs, "run\n");
    let (shown, runs) = doctor("echo 'No journal files were opened' >&2; exit 1");
    assert!(shown.contains("WRONG  log: ") && shown.contains(": No journal files were opened"), "{shown}");
    assert_eq!(runs, "run\n");
}

/// Every leaf of the command line, with its exit code in an empty directory.
const COMMANDS: &[(&[&str], i32)] = &[
    (&["setup"], 1),
    (&["adopt-mail"], 1),
    (&["follow"], 1),
    (&["token", "create", "--type", "admin", "--name", "x"], 1),
    (&["token", "list"], 1),
    (&["token", "show", "1"], 1),
    (&["token", "revoke", "1"], 1),
    (&["domain", "add", "example.org"], 1),
    (&["domain", "list"], 1),
    (&["domain", "show", "example.org"], 1),
    (&["domain", "dkim", "list", "example.org"], 1),
    (&["domain", "dkim", "rotate", "example.org"], 1),
    (&["domain", "dns", "example.org"], 1),
    (&["domain", "security", "example.org"], 1),
    (&["domain", "dns", "plan", "example.org"], 1),
    (&["domain", "dns", "history", "example.org"], 1),
    (&["dns", "provider", "show", "example.org"], 1),
    (&["domain", "remove", "example.org", "--force"], 1),
    (&["user", "add", "ann@example.org"], 1),
    (&["user", "list"], 1),
    (&["user", "show", "ann@example.org"], 1),
    (&["user", "remove", "ann@example.org"], 1),
    (&["user", "passwd", "ann@example.org"], 1),
    (&["user", "import", "users.csv"], 1),
    (&["user", "app-password", "list", "ann@example.org"], 1),
    (&["user", "rules", "get", "ann@example.org"], 1),
    (&["user", "save-sent", "ann@example.org", "api"], 1),
    (&["user", "rules", "set", "ann@example.org", "rules.json"], 1),
    (&["alias", "add", "team@example.org", "ann@example.org"], 1),
    (&["alias", "list"], 1),
    (&["alias", "show", "team@example.org"], 1),
    (&["alias", "remove", "team@example.org"], 1),
    (&["import", "ann@example.org", "imap", "old.example", "--user", "ann"], 1),
    (&["import", "ann@example.org", "maildir", "Maildir"], 1),
    (&["import", "ann@example.org", "mbox", "old.mbox"], 1),
    (&["import-all", "old.example", "--accounts", "users.csv"], 1),
    (&["export", "ann@example.org", "maildir", "out"], 1),
    (&["export", "ann@example.org", "mbox", "out"], 1),
    (&["backup", "out"], 1),
    (&["restore", "out"], 1),
    (&["events"], 1),
    (&["queue", "list"], 1),
    (&["queue", "show", "1"], 1),
    (&["queue", "retry", "1"], 1),
    (&["queue", "hold", "1"], 1),
    (&["queue", "release", "1"], 1),
    (&["queue", "cancel", "1"], 1),
    (&["webhook", "add", "https://receiver.example/"], 1),
    (&["webhook", "list"], 1),
    (&["webhook", "test", "1"], 1),
    (&["webhook", "replay", "1", "--after", "0"], 1),
    (&["webhook", "remove", "1"], 1),
    (&["config", "check"], 0),
    (&["config", "print"], 0),
    (&["config", "postfix"], 0),
    (&["config", "dovecot"], 1),
    (&["doctor"], 1),
    (&["openapi"], 0),
];

/// Commands that may create a database.
const CREATING: &[&[&str]] = &[
    &["migrate"],
    &["domain", "add", "example.org", "--init"],
    &["token", "create", "--type", "admin", "--name", "x", "--init"],
];

#[test]
fn only_the_start_and_migrate_create_a_database() {
    let work_dir = WorkDir::new();
    for (arguments, code) in COMMANDS {
        let answer = work_dir.run(arguments);
        assert_eq!(answer.code, Some(*code), "{arguments:?}: {answer:?}");
        assert_eq!(std::fs::read_dir(work_dir.path()).unwrap().count(), 0, "{arguments:?} left something behind");
        if ["token", "domain", "user", "export", "backup", "events", "queue", "webhook", "doctor"]
            .contains(&arguments[0])
        {
            let said = format!("{}{}", answer.stdout, answer.stderr);
            let data = work_dir.path().canonicalize().unwrap().join("mailapi-data");
            assert!(said.contains(&format!("{}", data.display())) && said.contains("mailapi migrate"), "{said}");
        }
        std::fs::create_dir(work_dir.data()).unwrap();
        let answer = work_dir.run(arguments);
        assert_eq!(answer.code, Some(*code), "{arguments:?}: {answer:?}");
        assert_eq!(std::fs::read_dir(work_dir.data()).unwrap().count(), 0, "{arguments:?} filled the data directory");
        std::fs::remove_dir(work_dir.data()).unwrap();
    }
    for arguments in CREATING {
        let work_dir = WorkDir::new();
        work_dir.run(arguments).answer();
        assert!(work_dir.data().join("mailapi.db").exists(), "{arguments:?}");
    }
    let answer = work_dir.run_with_input(&["user", "add", "ann@example.org", "--init"], "correct horse\n");
    assert_eq!(answer.complaint(), "ann@example.org: the domain does not exist");
    assert!(work_dir.data().join("mailapi.db").exists());
}

/// Returns the names under `Commands:` in a help text.
fn commands_in(help: &str) -> Vec<String> {
    let (_, list) = help.split_once("Commands:\n").unwrap_or_default();
    let lines = list.lines().take_while(|line| line.starts_with("  "));
    let names = lines.filter(|line| !line.starts_with("   ")).filter_map(|line| line.split_whitespace().next());
    names.filter(|name| *name != "help").map(str::to_owned).collect()
}

#[test]
fn every_command_is_tried_in_an_empty_directory() {
    let work_dir = WorkDir::new();
    let tried: Vec<&[&str]> =
        COMMANDS.iter().map(|(arguments, _)| *arguments).chain(CREATING.iter().copied()).collect();
    let mut seen = 0;
    for command in commands_in(&work_dir.run(&["-h"]).answer()) {
        let inner = commands_in(&work_dir.run(&[&command, "-h"]).answer());
        let leaves = if inner.is_empty() { vec![String::new()] } else { inner };
        for leaf in leaves.iter().filter(|_| command != "serve") {
            seen += 1;
            let is_it = |arguments: &&[&str]| {
                // An address may come before the name.
                arguments[0] == command && (leaf.is_empty() || arguments.iter().skip(1).any(|name| name == leaf))
            };
            assert!(tried.iter().any(is_it), "`{command} {leaf}` is not tried in an empty directory");
        }
    }
    assert!(seen >= 21, "the help has another form: {seen} commands found");
}

#[test]
fn a_group_of_commands_alone_shows_its_help() {
    let work_dir = WorkDir::new();
    for group in ["user", "token", "domain", "config"] {
        let answer = work_dir.run(&[group]);
        assert_eq!((answer.code, answer.stdout.as_str()), (Some(2), ""), "{answer:?}");
        assert!(answer.stderr.contains("Commands:") && answer.stderr.contains("Usage: mailapi"), "{answer:?}");
    }
}

#[test]
fn records_are_shown_to_people_and_as_json() {
    let work_dir = WorkDir::new();
    work_dir.run(&["domain", "add", "example.org", "--init"]).answer();
    work_dir.run_with_input(&["user", "add", "ann@example.org", "--name", "Ann"], "correct horse\n").answer();
    let json = |arguments: &[&str]| -> serde_json::Value {
        serde_json::from_str(&work_dir.run(&[arguments, &["--json"]].concat()).answer()).unwrap()
    };
    let made = json(&["token", "create", "--type", "user", "--name", "mine", "--email", "ann@example.org"]);
    let (id, value) = (made["id"].to_string(), made["token"].as_str().unwrap().to_owned());
    assert!(value.starts_with("mapi_") && made["name"] == "mine", "{made}");
    let member = |record: &serde_json::Value, name: &str| record[name].as_str().unwrap().to_owned();
    for (group, name, label, expected) in [
        ("token", id.as_str(), "email", "ann@example.org"),
        ("domain", "example.org", "domain", "example.org"),
        ("user", "ann@example.org", "email", "ann@example.org"),
    ] {
        let list = json(&[group, "list"]);
        assert_eq!((list.as_array().unwrap().len(), member(&list[0], label)), (1, expected.to_owned()));
        let one = json(&[group, "show", name]);
        assert_eq!(member(&one, label), expected);
        let shown = work_dir.run(&[group, "show", name]).answer();
        assert!(shown.lines().any(|line| line.starts_with(label) && line.ends_with(expected)), "{shown}");
        assert!(!format!("{list}{one}{shown}").contains(&value), "a token's value is shown once");
    }
    let dkim = &json(&["domain", "show", "example.org"])["dkim"];
    assert!(member(dkim, "dns_name").ends_with("._domainkey.example.org"), "{dkim}");
    assert!(work_dir.run(&["domain", "show", "example.org"]).answer().contains(&member(dkim, "dns_value")));
}

#[test]
fn keys_are_created_and_listed_with_their_records() {
    let work_dir = WorkDir::new();
    work_dir.run(&["domain", "add", "example.org", "--init"]).answer();
    let keys = |arguments: &[&str]| -> serde_json::Value {
        let shown: serde_json::Value = serde_json::from_str(&work_dir.run(arguments).answer()).unwrap();
        shown["keys"].clone()
    };
    let states = |keys: &serde_json::Value| -> Vec<(String, String)> {
        let member = |key: &serde_json::Value, name: &str| key[name].as_str().unwrap().to_owned();
        keys.as_array().unwrap().iter().map(|key| (member(key, "algorithm"), member(key, "state"))).collect()
    };
    let of = |algorithm: &str, state: &str| (algorithm.to_owned(), state.to_owned());
    let made = keys(&["domain", "dkim", "rotate", "example.org", "--algorithm", "ed25519-sha256", "--json"]);
    assert_eq!(states(&made), [of("ed25519-sha256", "pending"), of("rsa-sha256", "active")]);
    // A newer key of the same algorithm takes the place of one that waits.
    let made = keys(&["domain", "dkim", "rotate", "example.org", "--algorithm", "ed25519-sha256", "--json"]);
    let all = [of("ed25519-sha256", "pending"), of("rsa-sha256", "active"), of("ed25519-sha256", "retired")];
    assert_eq!(states(&made), all);
    assert_eq!(made, keys(&["domain", "dkim", "list", "example.org", "--json"]));
    let shown = work_dir.run(&["domain", "dkim", "list", "example.org"]).answer();
    for (at, key) in made.as_array().unwrap().iter().enumerate() {
        let [selector, value] = ["selector", "dns_value"].map(|name| key[name].as_str().unwrap());
        assert!(shown.lines().any(|line| line.starts_with(selector)), "{shown}");
        assert_eq!(shown.contains(value), at < 2, "the record of a retired key is not wanted: {shown}");
    }
    let refused = work_dir.run(&["domain", "dkim", "rotate", "example.org", "--algorithm", "md5"]).complaint();
    assert!(refused.contains("must be rsa-sha256 or ed25519-sha256"), "{refused}");
}

#[test]
fn each_change_by_the_command_line_is_one_audit_event() {
    let work_dir = WorkDir::new();
    work_dir.run(&["domain", "add", "example.org", "--init"]).answer();
    work_dir.run_with_input(&["user", "add", "ann@example.org"], "correct horse\n").answer();
    work_dir.run_with_input(&["user", "passwd", "ann@example.org"], "battery staple\n").answer();
    work_dir.run(&["token", "create", "--type", "admin", "--name", "x"]).answer();
    work_dir.run(&["token", "list"]).answer();
    work_dir.run(&["token", "revoke", "99"]).complaint();
    work_dir.run(&["user", "remove", "ann@example.org"]).answer();
    work_dir.run(&["domain", "remove", "example.org"]).answer();
    let file = work_dir.data().join("audit.log");
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let text = std::fs::read_to_string(file).unwrap();
    assert!(!text.contains("horse") && !text.contains("staple") && !text.contains("mapi_"), "{text}");
    let events: Vec<serde_json::Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let what: Vec<&str> = events.iter().map(|event| event["message"].as_str().unwrap()).collect();
    let expected =
        ["domain created", "user created", "password changed", "token created", "user deleted", "domain deleted"];
    assert_eq!(what, expected);
    for event in &events {
        assert_eq!((&event["by"], &event["from"]), (&"command line".into(), &"this machine".into()), "{event}");
        assert!(!event["os_user"].as_str().unwrap().is_empty() && event["target"] == "mailapi::audit", "{event}");
    }
}

#[test]
fn localhost_is_an_address_to_listen_on() {
    let work_dir = WorkDir::new();
    let mut command = work_dir.command(&["serve", "--log-format", "json"]);
    command.env("MAILAPI_HTTP__LISTEN", "localhost:0").env("MAILAPI_MAIL__EMBEDDED__SMTP_LISTEN", "localhost:0");
    let server = support::Server::start(command);
    assert!(server.api("").starts_with("http://127.0.0.1:"), "{}", server.api(""));
    assert!(server.running["smtp"].as_str().unwrap().starts_with("127.0.0.1:"));
}
