//! The way from an empty zone of a real name server to a verified domain, and back, by commands.

mod support;

use std::process::{Child, Command, Stdio};

use mailapi_testkit::{NameServerProgram, RealNameServer};
use serde_json::Value;
use support::{Answer, WorkDir};

const DOMAIN: &str = "example.test";

/// Runs of a command that is killed as soon as it has begun a change.
const KILLS: u32 = 8;

struct Fixture {
    work_dir: WorkDir,
    name_server: RealNameServer,
}

impl Fixture {
    /// An installation with a domain, whose zone has the address of the mail server.
    fn new(program: NameServerProgram) -> Self {
        // A policy of DMARC is looked for above the domain, too.
        let zones = [(DOMAIN, "mx IN A 192.0.2.25\n@ IN TXT \"other\"\n"), ("test", "")];
        let name_server = RealNameServer::start(program, &zones);
        let fixture = Self { work_dir: WorkDir::new(), name_server };
        fixture.run(&["domain", "add", DOMAIN, "--init"]).answer();
        fixture
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.work_dir.command(arguments);
        let servers = self.name_server.address().to_string();
        command.env("MAILAPI_DNS__SERVERS", servers).env("MAILAPI_MAIL__EMBEDDED__HOSTNAME", "mx.example.test");
        command
    }

    fn run(&self, arguments: &[&str]) -> Answer {
        Answer::of_command(self.command(arguments), "")
    }

    fn set_provider(&self) {
        let server = self.name_server.address().to_string();
        let set = ["dns", "provider", "set", DOMAIN, "--server", &server, "--key-name", RealNameServer::KEY];
        Answer::of_command(self.command(&set), &format!("{}\n", RealNameServer::SECRET)).answer();
    }

    fn json(&self, arguments: &[&str]) -> Value {
        let text = self.run(&[arguments, &["--json"]].concat()).answer();
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{arguments:?}: {error}: {text}"))
    }

    fn plan(&self) -> Value {
        self.json(&["domain", "dns", "plan", DOMAIN])
    }

    fn apply(&self) -> Child {
        let mut command = self.command(&["domain", "dns", "apply", DOMAIN, "--yes"]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    }

    /// Counts the changes that were begun. Each row is there before its change is sent.
    fn begun(&self) -> i64 {
        let database = rusqlite::Connection::open(self.work_dir.data().join("mailapi.db")).unwrap();
        database.query_row("SELECT COUNT(*) FROM dns_changes", [], |row| row.get(0)).unwrap()
    }

    fn states(&self) -> Vec<String> {
        let changes = self.json(&["domain", "dns", "history", DOMAIN]);
        changes.as_array().unwrap().iter().map(|change| change["state"].as_str().unwrap().to_owned()).collect()
    }
}

fn number_of(list: &Value) -> usize {
    list.as_array().unwrap().len()
}

#[test]
fn one_command_makes_a_verified_domain_and_one_undoes_it() {
    for program in RealNameServer::ALL {
        let fixture = Fixture::new(program);
        let without = fixture.run(&["domain", "dns", "plan", DOMAIN]).complaint();
        assert!(without.contains("has no DNS provider"), "{without}");
        fixture.set_provider();
        let shown = fixture.run(&["dns", "provider", "show", DOMAIN]).answer();
        assert!(shown.contains("hmac-sha256") && !shown.contains(RealNameServer::SECRET), "{shown}");
        let before = fixture.plan();
        assert!(number_of(&before["changes"]) >= 4, "{before}");
        let dry = fixture.run(&["domain", "dns", "apply", DOMAIN]).answer();
        assert!(
            dry.contains("+ example.test. 3600 IN MX 10 mx.example.test.") && dry.contains("Nothing was changed"),
            "{dry}"
        );
        assert_eq!(fixture.plan(), before, "{program:?}");
        let applied = fixture.run(&["domain", "dns", "apply", DOMAIN, "--yes"]).answer();
        assert!(applied.contains("ns.example.test has all records"), "{applied}");
        assert!(applied.contains("The domain is verified."), "{applied}");
        assert_eq!(number_of(&fixture.plan()["changes"]), 0);
        let found = fixture.json(&["domain", "dns", DOMAIN]);
        let required = found["records"].as_array().unwrap().iter().filter(|record| record["required"] == true);
        assert!(required.clone().count() >= 4 && required.clone().all(|record| record["status"] == "found"), "{found}");
        let dry = fixture.run(&["domain", "dns", "rollback", DOMAIN]).answer();
        assert!(dry.contains("Nothing was changed"), "{dry}");
        fixture.run(&["domain", "dns", "rollback", DOMAIN, "--yes"]).answer();
        assert_eq!(fixture.plan(), before, "{program:?}: all is as it was");
        let again = fixture.run(&["domain", "dns", "rollback", DOMAIN, "--yes"]).complaint();
        assert!(again.contains("no applied plan"), "{again}");
    }
}

#[test]
fn a_wrong_key_is_named_and_changes_nothing() {
    let fixture = Fixture::new(NameServerProgram::Bind);
    let server = fixture.name_server.address().to_string();
    let set = ["dns", "provider", "set", DOMAIN, "--server", &server, "--key-name", "unknown"];
    let refused = Answer::of_command(fixture.command(&set), &format!("{}\n", RealNameServer::SECRET)).complaint();
    assert!(refused.contains("does not accept the key") && !refused.contains(RealNameServer::SECRET), "{refused}");
    let missing = fixture.run(&["dns", "provider", "show", DOMAIN]).complaint();
    assert!(missing.contains("has no DNS provider"), "{missing}");
}

#[test]
fn after_each_kill_the_history_agrees_with_dns() {
    let fixture = Fixture::new(NameServerProgram::Bind);
    fixture.set_provider();
    let all = number_of(&fixture.plan()["changes"]);
    for kill in 0..KILLS {
        let (begun, mut running) = (fixture.begun(), fixture.apply());
        while fixture.begun() == begun && running.try_wait().unwrap().is_none() {
            std::thread::yield_now();
        }
        let _ = running.kill();
        running.wait().unwrap();
        // The history looks at the changes without an answer.
        let states = fixture.states();
        assert!(!states.iter().any(|state| state == "pending"), "{states:?}");
        let applied = states.iter().filter(|state| *state == "applied").count();
        assert_eq!(applied + number_of(&fixture.plan()["changes"]), all, "kill {kill}: {states:?}");
    }
    fixture.run(&["domain", "dns", "apply", DOMAIN, "--yes"]).answer();
    assert_eq!(number_of(&fixture.plan()["changes"]), 0);
}

#[test]
fn of_two_commands_at_once_one_makes_the_changes() {
    let fixture = Fixture::new(NameServerProgram::Bind);
    fixture.set_provider();
    let all = number_of(&fixture.plan()["changes"]);
    let mut running: Vec<_> = (0..2).map(|_| fixture.apply()).collect();
    let codes: Vec<_> = running.iter_mut().map(|command| command.wait().unwrap().code()).collect();
    assert!(codes.contains(&Some(0)), "{codes:?}");
    assert_eq!(fixture.states(), vec!["applied"; all]);
    assert_eq!(number_of(&fixture.plan()["changes"]), 0);
}
