//! The commands of mailapi at a hosted provider: from an empty zone to its records, and back.

use std::path::PathBuf;
use std::process::{Output, Stdio};

use mailapi_testkit::{NameServerProgram, RealNameServer};
use serde_json::Value;
use tempfile::TempDir;
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;

use crate::cloudflare;
use crate::store::{ApiTrouble, TroubleAt};
use crate::world::{HostedWorld, ZONE, within};

/// An installation with the domain of the zone, an imitated provider, and a name server that knows the zone.
struct Installation {
    world: HostedWorld,
    name_server: RealNameServer,
    directory: TempDir,
}

impl Installation {
    /// Starts it. The tests of the whole workspace build the command beside the program for hosted DNS.
    async fn new() -> Self {
        let zones = [(ZONE, "mx IN A 192.0.2.25\n"), ("org", "")];
        let name_server = RealNameServer::start(NameServerProgram::Bind, &zones);
        let installation =
            Self { world: HostedWorld::start().await, name_server, directory: tempfile::tempdir().unwrap() };
        installation.answer(&["domain", "add", ZONE, "--init"], "").await;
        installation
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let program = PathBuf::from(env!("CARGO_BIN_EXE_mailapi-dns")).with_file_name("mailapi");
        assert!(program.exists(), "build the whole workspace first: {} is missing", program.display());
        let mut command = Command::new(program);
        command.args(arguments).current_dir(self.directory.path()).kill_on_drop(true);
        command.env_clear().envs(self.world.environment()).env_remove("MAILAPI_TOKEN");
        command.env("MAILAPI_DNS__SERVERS", self.name_server.address().to_string());
        command.env("MAILAPI_MAIL__EMBEDDED__HOSTNAME", "mx.example.org");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    async fn run(&self, arguments: &[&str], input: &str) -> Output {
        let mut child = self.command(arguments).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(input.as_bytes()).await.unwrap();
        drop(stdin);
        let output = within(child.wait_with_output()).await.unwrap();
        let shown = format!("{}{}", text(&output.stdout), text(&output.stderr));
        assert!(!shown.contains(cloudflare::TOKEN), "{arguments:?} shows the token");
        output
    }

    /// Returns what a successful command prints.
    async fn answer(&self, arguments: &[&str], input: &str) -> String {
        let output = self.run(arguments, input).await;
        assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
        text(&output.stdout)
    }

    /// Returns the complaint of a command that fails.
    async fn complaint(&self, arguments: &[&str], input: &str) -> String {
        let output = self.run(arguments, input).await;
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {}", text(&output.stdout));
        text(&output.stderr)
    }

    async fn json(&self, arguments: &[&str]) -> Value {
        serde_json::from_str(&self.answer(&[arguments, &["--json"]].concat(), "").await).unwrap()
    }

    async fn set_provider(&self) {
        let set = ["dns", "provider", "set", ZONE, "--provider", "cloudflare"];
        self.answer(&set, &format!("{}\n", cloudflare::TOKEN)).await;
    }

    async fn planned(&self) -> usize {
        self.json(&["domain", "dns", "plan", ZONE]).await["changes"].as_array().unwrap().len()
    }

    async fn states(&self) -> Vec<String> {
        let history = self.json(&["domain", "dns", "history", ZONE]).await;
        history.as_array().unwrap().iter().map(|change| change["state"].as_str().unwrap().to_owned()).collect()
    }

    /// Returns the records at the provider, sorted.
    fn records(&self) -> Vec<String> {
        let state = self.world.store("cloudflare").lock();
        let mut records: Vec<_> =
            state.records.iter().map(|record| format!("{} {} {}", record.name, record.kind, record.value)).collect();
        records.sort();
        records
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[tokio::test]
async fn an_account_that_the_provider_refuses_is_not_kept() {
    let site = Installation::new().await;
    let set = ["dns", "provider", "set", ZONE, "--provider", "cloudflare"];
    let refused = site.complaint(&set, "wrong-token-of-a-test\n").await;
    assert!(refused.contains(ZONE) && !refused.contains("wrong-token-of-a-test"), "{refused}");
    let unknown = site.complaint(&["dns", "provider", "set", ZONE, "--provider", "nowhere"], "x\n").await;
    assert!(unknown.contains("unknown provider"), "{unknown}");
    let secret = ["dns", "provider", "set", ZONE, "--provider", "cloudflare", "--field", "api_token=x"];
    assert!(site.complaint(&secret, "").await.contains("is a secret"));
    assert!(site.complaint(&["dns", "provider", "show", ZONE], "").await.contains("no DNS provider"));
    assert!(site.answer(&["dns", "provider", "list"], "").await.contains("route53"));
}

#[tokio::test]
async fn an_empty_zone_gets_its_records_and_is_empty_again() {
    let site = Installation::new().await;
    site.set_provider().await;
    let shown = site.answer(&["dns", "provider", "show", ZONE], "").await;
    assert!(shown.contains("Cloudflare"), "{shown}");
    let wanted = site.planned().await;
    assert!(wanted >= 4, "{wanted}");
    assert_eq!(site.records(), [""; 0], "a plan changes nothing");
    site.answer(&["domain", "dns", "apply", ZONE, "--yes"], "").await;
    let published = site.records();
    for expected in ["example.org MX 10 mx.example.org", "_dmarc.example.org TXT", "example.org TXT \"v=spf1"] {
        assert!(published.iter().any(|record| record.contains(expected)), "{expected}: {published:#?}");
    }
    assert!(published.iter().any(|record| record.contains("._domainkey.example.org TXT \"v=DKIM1")), "{published:#?}");
    assert_eq!(site.planned().await, 0);
    assert!(site.states().await.iter().all(|state| state == "applied"));
    site.answer(&["domain", "dns", "rollback", ZONE, "--yes"], "").await;
    assert_eq!((site.records(), site.planned().await), (vec![], wanted));
}

#[tokio::test]
async fn a_plan_that_another_writer_overtakes_is_not_applied() {
    let site = Installation::new().await;
    site.set_provider().await;
    let plan = site.json(&["domain", "dns", "plan", ZONE]).await;
    let id = plan["plan_id"].as_str().unwrap();
    let other = ("_dmarc.example.org", "TXT", "\"v=DMARC1; p=reject\"");
    site.world.store("cloudflare").lock().add(other.0, other.1, 300, other.2);
    let stale = site.complaint(&["domain", "dns", "apply", ZONE, "--yes", "--plan", id], "").await;
    assert!(stale.contains("the plan has changed"), "{stale}");
    assert_eq!(site.records(), [format!("{} {} {}", other.0, other.1, other.2)]);
}

#[tokio::test]
async fn a_command_killed_during_a_change_leaves_none_unknown() {
    let site = Installation::new().await;
    site.set_provider().await;
    let wanted = site.planned().await;
    // The provider makes the change, and does not answer.
    site.world.trouble("cloudflare", TroubleAt::Writes, 1, ApiTrouble::Hang);
    let mut child = site.command(&["domain", "dns", "apply", ZONE, "--yes"]).spawn().unwrap();
    within(site.world.store("cloudflare").troubled.notified()).await;
    within(child.kill()).await.unwrap();
    assert_eq!((site.records().len(), site.states().await), (1, vec!["applied".to_owned()]));
    assert_eq!(site.planned().await, wanted - 1);
    site.answer(&["domain", "dns", "apply", ZONE, "--yes"], "").await;
    assert_eq!(site.planned().await, 0);
}
