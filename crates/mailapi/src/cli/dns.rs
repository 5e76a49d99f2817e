//! `mailapi domain dns` and `mailapi dns`: the records of a domain, and the name server that takes changes of them.

use clap::{Args, Subcommand};
use mailapi_http::{dns_applied_json, dns_changes_json, dns_plan_json, dns_rolled_back_json, domain_dns_json};
use mailapi_model::{
    ChangeState, DnsProvider, DomainName, RecordSet, RecordedChange, Secret, SetChange, TsigAlgorithm, UpdateServer,
    Violations,
};
use mailapi_service::Service;
use mailapi_service::domains::{
    AccountFields, AppliedPlan, AttemptedChange, DnsPlan, PROVIDERS, PlanOptions, ProviderFields, ProviderInfo,
    Publication, ServerState, WantedRecord, hosted_provider,
};

use super::pages::every_page;
use super::table::{fields, table};
use super::{Shown, caller, password, print};
use crate::config::Config;
use crate::failure::{Failure, Outcome};
use crate::terminal_text::shown as shown_text;
use crate::wiring::{self, Create};

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(super) struct DomainDns {
    /// The domain's name
    #[arg(required = true)]
    name: Option<DomainName>,
    /// Print the records as a zone file to paste
    #[arg(long, conflicts_with = "json")]
    zone: bool,
    #[command(flatten)]
    shown: Shown,
    #[command(subcommand)]
    step: Option<Step>,
}

#[derive(Debug, Subcommand)]
enum Step {
    /// Show the changes that the records need at the domain's provider; change nothing
    Plan {
        /// The domain's name
        name: DomainName,
        #[command(flatten)]
        options: Options,
        #[command(flatten)]
        shown: Shown,
    },
    /// Show the plan, and make its changes with --yes
    ///
    /// Waits until the name servers of the zone have the records, and verifies the domain. The exit code is 1 if a change
    /// was not made.
    Apply {
        /// The domain's name
        name: DomainName,
        /// Apply this plan only, not another one that DNS needs by now
        #[arg(long, value_name = "ID")]
        plan: Option<String>,
        /// Make the changes
        #[arg(long)]
        yes: bool,
        #[command(flatten)]
        options: Options,
        #[command(flatten)]
        shown: Shown,
    },
    /// Show what the newest applied plan has changed, and undo it with --yes
    Rollback {
        /// The domain's name
        name: DomainName,
        /// Undo the changes
        #[arg(long)]
        yes: bool,
        #[command(flatten)]
        shown: Shown,
    },
    /// Show the changes that were sent to the provider, newest first
    History {
        /// The domain's name
        name: DomainName,
        #[command(flatten)]
        shown: Shown,
    },
}

#[derive(Debug, Args)]
struct Options {
    /// Also replace the record of this purpose, such as MX, although it leads elsewhere; may be repeated
    #[arg(long, value_name = "PURPOSE")]
    replace: Vec<String>,
}

impl From<Options> for PlanOptions {
    fn from(options: Options) -> Self {
        Self::replacing(options.replace)
    }
}

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Manage the name servers and hosted providers that take changes of domains' records
    #[command(subcommand)]
    Provider(ProviderCommand),
}

#[derive(Debug, Subcommand)]
pub(super) enum ProviderCommand {
    /// List the providers, and what each one needs
    List,
    /// Set who takes changes of a domain's records: a name server (RFC 2136, TSIG) or a hosted provider
    ///
    /// Asks for secrets on a terminal; otherwise each is a line of the standard input, in the order of `dns provider list`.
    /// The secret of a key is in base64. The server must accept the key, or the provider the account; nothing is changed
    /// there.
    Set {
        /// The domain's name
        name: DomainName,
        /// A hosted provider, such as cloudflare
        #[arg(long, conflicts_with_all = ["server", "key_name", "algorithm"])]
        provider: Option<String>,
        /// A field of the hosted provider that is no secret; may be repeated
        #[arg(long, value_name = "NAME=VALUE", requires = "provider")]
        field: Vec<String>,
        /// The name server: a host or an address, with or without a port
        #[arg(long, required_unless_present = "provider")]
        server: Option<String>,
        /// The name of the key
        #[arg(long, value_name = "NAME", required_unless_present = "provider")]
        key_name: Option<String>,
        /// hmac-sha256, hmac-sha384 or hmac-sha512
        #[arg(long, default_value_t = TsigAlgorithm::HmacSha256)]
        algorithm: TsigAlgorithm,
    },
    /// Show the provider of a domain, without secrets
    Show {
        /// The domain's name
        name: DomainName,
    },
    /// Forget the provider of a domain; the published records stay
    Remove {
        /// The domain's name
        name: DomainName,
    },
}

pub(super) async fn run(command: Command, config: &Config) -> Outcome {
    let Command::Provider(command) = command;
    wiring::with_service(config, Create::Nothing, async |service| match command {
        ProviderCommand::List => print(&provider_list()),
        ProviderCommand::Set { name, provider, field, server, key_name, algorithm } => {
            let provider = match provider {
                Some(provider) => hosted(provider, &field)?,
                None => {
                    let (server, key_name) = (server.unwrap_or_default(), key_name.unwrap_or_default());
                    let secret = password::read_known("Secret of the key, in base64: ")?;
                    let fields = ProviderFields { server, key_name, algorithm: Some(algorithm), secret };
                    fields.parse().map_err(|violations| all_of(&violations))?
                }
            };
            service.set_dns_provider(&caller(), &name, provider).await.map_err(|error| about(&name, error))
        }
        ProviderCommand::Show { name } => {
            let provider = service.get_dns_provider(&caller(), &name).await.map_err(|error| about(&name, error))?;
            print(&fields(&shown(&provider)))
        }
        ProviderCommand::Remove { name } => {
            service.remove_dns_provider(&caller(), &name).await.map_err(|error| about(&name, error))
        }
    })
    .await
}

/// Reads the account at a hosted provider.
fn hosted(provider: String, given: &[String]) -> Outcome<DnsProvider> {
    let unknown = || Failure::new(format!("{provider}: unknown provider; see `mailapi dns provider list`"));
    let info = hosted_provider(&provider).ok_or_else(unknown)?;
    let mut credentials = Vec::new();
    for field in given {
        let (name, value) =
            field.split_once('=').ok_or_else(|| Failure::new(format!("{field}: must be NAME=VALUE")))?;
        // Every user of the machine can list the arguments of commands.
        if info.field(name).is_some_and(|field| field.is_secret) {
            return Err(Failure::new(format!("{name}: is a secret, and is read from the standard input")));
        }
        credentials.push((name.to_owned(), Secret::new(value.to_owned())));
    }
    let secrets: Vec<_> = info.fields.iter().filter(|field| field.is_secret).collect();
    let questions: Vec<_> = secrets.iter().map(|field| format!("{}: ", field.title)).collect();
    let names = secrets.iter().map(|field| field.name.to_owned());
    credentials.extend(names.zip(password::read_several(&questions)?));
    AccountFields { provider, credentials }.parse().map_err(|violations| all_of(&violations))
}

fn all_of(violations: &Violations) -> Failure {
    let texts = violations.all().iter().map(|violation| format!("{}: {}", violation.field, violation.message));
    Failure::new(texts.collect::<Vec<_>>().join("; "))
}

fn provider_list() -> String {
    let rows: Vec<_> = PROVIDERS.iter().map(provider_row).collect();
    let server = ["rfc2136", "--server, --key-name, --algorithm", "secret", "yes"].map(ToOwned::to_owned);
    table(["PROVIDER", "FIELDS", "SECRETS", "TESTED"], &[&[server], &rows[..]].concat())
}

fn provider_row(info: &ProviderInfo) -> [String; 4] {
    let fields = |is_secret: bool| {
        let fields = info.fields.iter().filter(|field| field.is_secret == is_secret);
        let named =
            fields.map(|field| if field.is_required { field.name.to_owned() } else { format!("[{}]", field.name) });
        named.collect::<Vec<_>>().join(", ")
    };
    let tested = if info.is_tested { "yes" } else { "no" };
    [info.name.to_owned(), fields(false), fields(true), tested.to_owned()]
}

/// Returns what is shown of a provider.
fn shown(provider: &DnsProvider) -> Vec<(&str, String)> {
    match provider {
        DnsProvider::NameServer(UpdateServer { server, key }) => vec![
            ("server", server.clone()),
            ("key name", key.name.clone()),
            ("algorithm", key.algorithm.as_str().to_owned()),
        ],
        DnsProvider::Hosted(account) => {
            let title = hosted_provider(&account.provider).map_or("", |info| info.title);
            vec![("provider", account.provider.clone()), ("name", title.to_owned())]
        }
    }
}

pub(super) async fn run_of_domain(service: &Service, dns: DomainDns) -> Outcome {
    let DomainDns { name, zone, shown, step } = dns;
    match (step, name) {
        (None, None) => Ok(()),
        (None, Some(name)) => records(service, &name, zone, &shown).await,
        (Some(Step::Plan { name, options, shown }), _) => {
            let plan =
                service.plan_dns(&caller(), &name, &options.into()).await.map_err(|error| about(&name, error))?;
            if shown.json { print(&dns_plan_json(plan)) } else { print(&plan_text(&plan)) }
        }
        (Some(Step::Apply { name, plan, yes, options, shown }), _) => {
            apply(service, &name, (plan, yes), &options.into(), &shown).await
        }
        (Some(Step::Rollback { name, yes, shown }), _) => roll_back(service, &name, yes, &shown).await,
        (Some(Step::History { name, shown }), _) => {
            let changes = history(service, &name).await?;
            if shown.json { print(&dns_changes_json(changes)) } else { print(&history_text(&changes)) }
        }
    }
}

async fn records(service: &Service, name: &DomainName, zone: bool, shown: &Shown) -> Outcome {
    let setup = service.get_dns(&caller(), name).await.map_err(|error| about(name, error))?;
    if shown.json {
        return print(&domain_dns_json(setup));
    }
    if zone {
        return print(&setup.zone_file);
    }
    print(&dns_table(&setup.records))
}

/// Formats what DNS has of the records, with a hint for each that is not published.
pub(super) fn dns_table(records: &[WantedRecord]) -> String {
    let rows: Vec<_> = records.iter().map(dns_row).collect();
    let table = table(["PURPOSE", "STATUS", "REQUIRED", "TYPE", "NAME", "VALUE"], &rows);
    let open = records.iter().filter(|record| record.status != Publication::Found);
    let hints: Vec<_> = open.map(|record| (record.purpose, record.hint.clone())).collect();
    if hints.is_empty() { table } else { format!("{table}\n{}", fields(&hints)) }
}

fn dns_row(record: &WantedRecord) -> [String; 6] {
    [
        record.purpose.to_owned(),
        record.status.as_str().to_owned(),
        if record.required { "yes" } else { "no" }.to_owned(),
        record.record_type.to_owned(),
        record.name.clone(),
        record.value.clone().unwrap_or_else(|| "-".to_owned()),
    ]
}

async fn apply(
    service: &Service,
    name: &DomainName,
    (wanted, yes): (Option<String>, bool),
    options: &PlanOptions,
    shown: &Shown,
) -> Outcome {
    let plan = service.plan_dns(&caller(), name, options).await.map_err(|error| about(name, error))?;
    if wanted.is_some_and(|wanted| wanted != plan.plan_id) {
        return Err(about(name, "the plan has changed; look at it again with `mailapi domain dns plan`"));
    }
    if !yes {
        print(&plan_text(&plan))?;
        return if plan.changes.is_empty() {
            Ok(())
        } else {
            print("Nothing was changed; --yes makes these changes.\n")
        };
    }
    let plan_id = plan.plan_id;
    let applied = service.apply_dns(&caller(), name, &plan_id, options).await.map_err(|error| about(name, error))?;
    let is_done = applied.changes.iter().all(|change| change.state == Some(ChangeState::Applied));
    if shown.json {
        print(&dns_applied_json(applied))?
    } else {
        print(&applied_text(&applied))?
    }
    if is_done { Ok(()) } else { Err(about(name, "not all changes were made")) }
}

async fn roll_back(service: &Service, name: &DomainName, yes: bool, shown: &Shown) -> Outcome {
    let recorded = history(service, name).await?;
    let Some(newest) = recorded.iter().find(|change| change.state == ChangeState::Applied) else {
        return Err(about(name, "there is no applied plan to undo"));
    };
    let plan_id = newest.plan.clone();
    if !yes {
        let of_plan = |change: &&RecordedChange| change.plan == plan_id && change.state == ChangeState::Applied;
        let changes: Vec<_> = recorded.iter().filter(of_plan).cloned().collect();
        print(&history_text(&changes))?;
        return print("Nothing was changed; --yes restores the records from before these changes.\n");
    }
    let undone = service.roll_back_dns(&caller(), name, &plan_id).await.map_err(|error| about(name, error))?;
    let is_done = undone.iter().all(|change| change.state == Some(ChangeState::RolledBack));
    if shown.json {
        print(&dns_rolled_back_json(undone))?
    } else {
        print(&attempted_text(&undone))?
    }
    if is_done { Ok(()) } else { Err(about(name, "not all changes were undone")) }
}

async fn history(service: &Service, name: &DomainName) -> Outcome<Vec<RecordedChange>> {
    let caller = caller();
    every_page(|page| service.dns_history(&caller, name, page)).await.map_err(|error| about(name, error))
}

fn plan_text(plan: &DnsPlan) -> String {
    let mut text = fields(&[
        ("plan", plan.plan_id.clone()),
        ("zone", plan.zone.clone()),
        ("name servers", plan.name_servers.join(", ")),
    ]);
    for planned in &plan.changes {
        text += &format!("\n{} {}: {}\n", planned.action.as_str(), planned.purpose, shown_text(&planned.reason));
        text += &lines_of(&planned.change);
    }
    for conflict in &plan.conflicts {
        text += &format!("\nleft alone {}: {}\n", conflict.purpose, shown_text(&conflict.reason));
        for found in &conflict.found {
            text += &format!("  = {} {} {}\n", conflict.name, conflict.record_type, shown_text(found));
        }
        if conflict.is_replaceable {
            text += &format!("  --replace {} replaces it\n", conflict.purpose);
        }
    }
    if plan.changes.is_empty() {
        text += "\nNo record needs a change.\n";
    }
    text
}

/// Formats the records that go and come, as a comparison of two zone files.
fn lines_of(change: &SetChange) -> String {
    let SetChange { name, kind, before, after, .. } = change;
    let line = |mark: char, set: &RecordSet, data: &str| {
        let ttl = set.ttl;
        format!("  {mark} {name}. {ttl} IN {} {data}\n", kind.as_str())
    };
    let gone = before.records.iter().filter(|data| !after.records.contains(data));
    let come = after.records.iter().filter(|data| !before.records.contains(data));
    let gone: String = gone.map(|data| line('-', before, &data.to_string())).collect();
    gone + &come.map(|data| line('+', after, &data.to_string())).collect::<String>()
}

fn attempted_text(changes: &[AttemptedChange]) -> String {
    let lines = changes.iter().map(|attempted| {
        let state = attempted.state.map_or("not tried", ChangeState::as_str);
        let why = attempted.error.as_ref().map(|error| format!(": {}", shown_text(error))).unwrap_or_default();
        format!(
            "{state} {} {}{why}\n{}",
            attempted.change.name,
            attempted.change.kind.as_str(),
            lines_of(&attempted.change)
        )
    });
    lines.collect()
}

fn applied_text(applied: &AppliedPlan) -> String {
    let mut text = attempted_text(&applied.changes);
    for view in &applied.servers {
        let state = match view.state {
            ServerState::Seen => "has all records".to_owned(),
            ServerState::Waiting => "does not have all records yet".to_owned(),
            ServerState::Unknown => {
                format!("does not answer: {}", shown_text(view.error.as_deref().unwrap_or_default()))
            }
        };
        text += &format!("{} {state}\n", view.server);
    }
    text + if applied.verified { "The domain is verified.\n" } else { "The domain is not verified yet.\n" }
}

fn history_text(changes: &[RecordedChange]) -> String {
    let lines = changes.iter().map(|recorded| {
        let RecordedChange { plan, change, state, at, .. } = recorded;
        format!("{at} {} {plan}\n{}", state.as_str(), lines_of(change))
    });
    lines.collect()
}

fn about(name: &DomainName, error: impl std::fmt::Display) -> Failure {
    Failure::new(format!("{}: {error}", name.shown()))
}
