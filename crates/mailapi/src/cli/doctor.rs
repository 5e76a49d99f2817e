//! `mailapi doctor`: checks the whole installation and suggests fixes.

mod arrived;
mod bounces;
mod certificate;
mod disk;
mod finding;
mod follower;
mod local;
mod log_access;
mod logrotate;
mod users;

use mailapi_backend::Mailboxes;
use mailapi_backend_embedded::Embedded;
use mailapi_backend_external::External;
use mailapi_backend_external::submission::Relaying;
use mailapi_model::{Clock as _, EmailAddress, Page};
use mailapi_service::{Caller, Service};

use super::print;
use crate::config::Config;
use crate::data_dir::DataDir;
use crate::failure::{Failure, Outcome};
use crate::host_name;
use crate::rights_thread::RightsThread;
use crate::system::SystemClock;
use crate::wiring::{self, Assembly, Create, MailServer, data_directory};
pub(super) use finding::Finding;
pub(super) use local::table_reader;

/// A local domain and mailbox, used as keys for lookups.
struct Example {
    domain: Option<String>,
    mailbox: Option<EmailAddress>,
}

/// `tables` looks keys up in Postfix's tables.
pub(super) async fn run(config: &Config, tables: &RightsThread) -> Outcome {
    let mut findings = vec![match config.check_files() {
        Ok(()) => Finding::fine("configuration", format!("valid; {}", config.origin())),
        Err(error) => Finding::wrong("configuration", error, "correct the named setting"),
    }];
    let is_configured = !findings.iter().any(Finding::is_wrong);
    if is_configured {
        findings.push(certificate::certificate(config, SystemClock::new().now()));
        findings.extend(certificate::authorities(mailapi_tls::has_system_authorities()));
    }
    let opened = if is_configured { open(config, &mut findings).await } else { None };
    if let Some(assembly) = opened {
        examine(config, &assembly, tables, &mut findings).await;
        assembly.close().await;
    }
    findings.push(local::clock());
    print(&findings.iter().map(Finding::shown).collect::<String>())?;
    match findings.iter().filter(|finding| finding.is_wrong()).count() {
        0 => Ok(()),
        1 => Err(Failure::new("1 check failed")),
        count => Err(Failure::new(format!("{count} checks failed"))),
    }
}

async fn open(config: &Config, findings: &mut Vec<Finding>) -> Option<Assembly> {
    let mut asking = config.clone();
    asking.mail.external.forget_log();
    let opened = async {
        let directory = DataDir::existing(&config.data_dir)?;
        if let Some(replaced) = wiring::replaced_database(config, &directory)? {
            return Ok(Err(replaced));
        }
        Assembly::open(&asking, &data_directory(config, Create::Nothing)?).await.map(Ok)
    };
    let opened = match opened.await {
        Ok(Ok(assembly)) => Ok(assembly),
        Ok(Err(replaced)) => {
            findings.push(Finding::wrong("database", replaced.why, replaced.advice));
            return None;
        }
        Err(error) => Err(error),
    };
    match opened {
        Ok(assembly) => {
            findings.push(Finding::fine("database", "reachable, and its tables are up to date"));
            Some(assembly)
        }
        Err(error) => {
            let mend = "check that the database runs, and that [database] has its address and user";
            findings.push(Finding::wrong("database", &error, mend));
            None
        }
    }
}

async fn examine(config: &Config, assembly: &Assembly, tables: &RightsThread, findings: &mut Vec<Finding>) {
    if let Some((sqlite, database)) = assembly.database(config) {
        findings.push(disk::disk(sqlite, &database).await);
    }
    findings.push(host_name(config, &assembly.service).await);
    let external = match &assembly.mail {
        MailServer::External(external) => external,
        MailServer::Embedded(embedded) => {
            examine_embedded(embedded, &assembly.service, findings).await;
            return;
        }
    };
    let backend = external.backend();
    let submission = check(
        "SMTP",
        backend.submission.check().await,
        "check that Postfix runs and listens at the address in [mail.external.smtp]; `mailapi config postfix` \
         prints that listener",
    );
    let takes_mail = !submission.is_wrong();
    findings.push(submission);
    if takes_mail {
        findings.push(relaying(external).await);
    }
    let imap = check(
        "IMAP",
        backend.mailboxes.check().await,
        "check that Dovecot runs and listens at the address in [mail.external.imap], with the same TLS mode",
    );
    let is_reached = !imap.is_wrong();
    findings.push(imap);
    let (found, first) = users::users(&assembly.service).await;
    findings.extend(found);
    let mut example = example(&assembly.service, findings).await;
    if example.mailbox.is_none() {
        // No account has been copied from the user database yet.
        example.domain = example.domain.or(first.as_ref().map(|mailbox| mailbox.domain_str().to_owned()));
        example.mailbox = first;
    }
    findings.push(master_login(backend.mailboxes.as_ref(), is_reached, example.mailbox.as_ref()).await);
    findings.push(match external.check_doveadm().await {
        Some(answer) => {
            check("doveadm", answer, "compare [mail.external.doveadm] with Dovecot's doveadm_api_key and listener")
        }
        None => Finding::unknown("doveadm", "not configured: mail is removed over IMAP; caches expire by themselves"),
    });
    findings.push(bounces::bounces(config, &backend).await);
    findings.push(local::log(config));
    findings.extend(log_access::log_access(config));
    findings.extend(follower::losses(config, SystemClock::new().now()));
    findings.extend(follower::rotation(config));
    findings.extend(follower::clock(config));
    findings.extend(follower::queue(config).await);
    findings.extend(follower::queue_changes(config).await);
    // In front of an existing installation, Postfix has its own lookup of mailboxes.
    let maps = (!config.mail.external.users.is_set()).then_some(example);
    findings.extend(local::postfix(maps.as_ref(), tables));
}

async fn examine_embedded(embedded: &Embedded, service: &Service, findings: &mut Vec<Finding>) {
    findings.push(Finding::fine("mail server", "built in"));
    findings.push(local::quarantine(service.quarantined().await));
    findings.push(local::broken_mailboxes(embedded.message_store().broken_mailboxes().await));
    findings.extend(spam_filter(service).await);
    findings.push(arrived::mail_from_outside(service.arrived_mail().await));
}

/// Checks that other servers can find the mail server by its name.
async fn host_name(config: &Config, service: &Service) -> Finding {
    const WHAT: &str = "host name";
    match host_name::missing_with(config, service).await {
        Ok(None) => Finding::fine(WHAT, config.mail_host()),
        Ok(Some(why)) => Finding::wrong(WHAT, why, host_name::ADVICE),
        Err(error) => Finding::unknown(WHAT, error),
    }
}

/// Checks that rspamd answers, if mail is checked by it.
async fn spam_filter(service: &Service) -> Option<Finding> {
    let advice = "check that rspamd runs, and that mail.embedded.inbound.rspamd is the address of its worker; without an \
                  answer, mail passes unchecked";
    Some(check("rspamd", service.check_spam_filter().await?, advice))
}

/// Checks that the SMTP port rejects mail for other domains.
async fn relaying(external: &External) -> Finding {
    const WHAT: &str = "relaying";
    match external.check_relaying().await {
        Ok(Relaying::Allowed) => Finding::fine(WHAT, "mail for other domains is accepted"),
        Ok(Relaying::Denied(reply)) => Finding::wrong(
            WHAT,
            format!("mail for other domains is rejected: {reply}"),
            "set [mail.external.smtp] to the listener that `mailapi config postfix` prints; other ports of Postfix \
             accept mail only for its own domains",
        ),
        Ok(Relaying::Unclear(reply)) => Finding::unknown(WHAT, format!("unclear from the server's reply: {reply}")),
        Err(error) => Finding::unknown(WHAT, error),
    }
}

/// Checks that Dovecot lets the master user open a mailbox.
async fn master_login(mailboxes: &dyn Mailboxes, is_reached: bool, mailbox: Option<&EmailAddress>) -> Finding {
    const WHAT: &str = "master login";
    match mailbox {
        // The cause is reported already.
        _ if !is_reached => Finding::unknown(WHAT, "not checked, because IMAP does not work"),
        None => Finding::unknown(WHAT, "not checked, because there is no user"),
        Some(mailbox) => check(
            WHAT,
            mailboxes.folders(mailbox).await.map(drop),
            "compare master_user and master_password with Dovecot's master users, and Dovecot's SQL lookups with \
             `mailapi config dovecot`; Dovecot's log has the reason",
        ),
    }
}

/// Chooses a domain and a mailbox for lookups. It uses the database alone, because the mail server may be the part
/// that fails.
async fn example(service: &Service, findings: &mut Vec<Finding>) -> Example {
    let mailbox = service.newest_mailbox().await.unwrap_or_else(|error| {
        findings.push(Finding::wrong("users", error, "check that the database runs, and that its user may read"));
        None
    });
    let domains = service.list_domains(&Caller::operator(), Page::new(1, 0)).await;
    let domain = domains.ok().and_then(|list| list.items.into_iter().next()).map(|domain| domain.name.to_string());
    Example { domain, mailbox }
}

fn check<E: std::fmt::Display>(what: &'static str, outcome: Result<(), E>, mend: &str) -> Finding {
    match outcome {
        Ok(()) => Finding::fine(what, "works"),
        Err(error) => Finding::wrong(what, error, mend),
    }
}
