//! Mixed traffic at a steady pace, to detect a growing server.

mod imap;
mod samples;
mod traffic;

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use mailapi_testkit::SmtpSink;
use tokio::time::Instant;

use crate::machine;
use crate::mail_site::{MailHost, MailSite};
use crate::outcome::{Failure, Outcome, same};
use crate::scale::{FULL, Scale};
use crate::server::Product;
pub(crate) use imap::{Appending, Selecting};
use samples::{Growth, Snapshot, WINDOWS, Watch};
use traffic::{Count, Traffic};

/// The interval of the samples.
const LOOK: Duration = Duration::from_secs(10);
/// Maximum growth of a server per hour: a leak of a hundredth of an byte per request would be detected.
const MOST_BYTES_PER_HOUR: f64 = 1024.0 * 1024.0;
/// Pools of connections and threads grow when more requests than before coincide, which may happen late. The
/// traffic makes hundreds of times as many sessions per hour.
const MOST_FILES_PER_HOUR: f64 = 8.0;
const MIB: f64 = 1024.0 * 1024.0;

/// Settings that fill the caches within the first minutes. By default there is space for 10,000 callers, which an
/// hour of this traffic does not fill.
const SMALL_CACHES: &[(&str, &str)] = &[("MAILAPI_ADVANCED__AUTH__CACHED_CALLERS", "100")];

/// As in the unit of docs/operating.md. Otherwise the C library creates up to eight heaps per processor, and the
/// server grows by some MiB whenever more threads than before coincide.
const FEW_HEAPS: (&str, &str) = ("MALLOC_ARENA_MAX", "2");

/// The mail of the external INBOX; sent mail is discarded there.
const FEW: Scale = Scale { messages: 1_000, ..FULL };

/// How long, how fast, and where the figures go.
#[derive(Debug, clap::Args)]
pub(crate) struct Soak {
    /// Duration of the traffic in minutes
    #[arg(long, default_value_t = 60)]
    minutes: u64,
    /// Speed as a multiple of the usual one, about forty requests and messages a second
    #[arg(long, default_value_t = 1.0, value_name = "TIMES")]
    haste: f64,
    /// Use a private Postfix and Dovecot instead of the built-in mail server
    #[arg(long)]
    external: bool,
    /// The directory for the figures
    #[arg(long, value_name = "DIRECTORY")]
    write: Option<PathBuf>,
}

/// Runs the traffic; fails if the server grows.
pub(crate) async fn run(soak: &Soak, product: &Product) -> Outcome {
    // The version at the start: the binary may be replaced during the run.
    let machine = machine::in_short()?;
    let sink = SmtpSink::start().await;
    let mut product = product.with("MAILAPI_MAIL__EMBEDDED__RELAY", &sink.address().to_string());
    for (name, value) in SMALL_CACHES.iter().chain([&FEW_HEAPS]) {
        product = product.with(name, value);
    }
    let host = if soak.external { Some(MailHost::open(&FEW).await?) } else { None };
    if let Some(host) = &host {
        product = host.in_front(&product);
    }
    let site = MailSite::with_people(&product).await?;
    let end = Instant::now() + Duration::from_secs(soak.minutes * 60);
    let mut watch = Watch::new(&site.server, site.directory());
    let traffic = Traffic::begin(&site, soak.haste, end).await?;
    let (counts, ()) = tokio::try_join!(traffic.ended(), snapshots(&mut watch, end))?;
    site.server.settle().await?;
    let at_rest = watch.snapshot()?;
    if host.is_none() {
        let of = |count: &&Count| count.what == traffic::TO_ANOTHER_SERVER;
        // The embedded mail server relays to the sink, so no message may be missing there.
        let sent = counts.iter().find(of).map_or(0, |count| count.times);
        same("messages at the other server", sink.received().len(), sent)?;
    }
    site.stop().await?;

    // The sample at rest is reported on its own.
    watch.snapshots.pop();
    let name = if soak.external { "soak-external" } else { "soak" };
    let report = Report { machine: &machine, name, snapshots: &watch.snapshots, at_rest, counts: &counts };
    let text = report.text()?;
    writeln!(std::io::stdout(), "{text}")?;
    if let Some(directory) = &soak.write {
        std::fs::create_dir_all(directory)?;
        std::fs::write(directory.join(format!("{name}.md")), text)?;
    }
    if report.verdicts().iter().all(|verdict| verdict.holds) {
        return Ok(());
    }
    Err(Failure::new("the server grew"))
}

/// Takes samples until the end, and prints each.
async fn snapshots(watch: &mut Watch, end: Instant) -> Outcome {
    let mut pace = tokio::time::interval(LOOK);
    pace.tick().await;
    while tokio::time::timeout_at(end, pace.tick()).await.is_ok() {
        let Snapshot { at, resident, files, threads, database, cpu, .. } = watch.snapshot()?;
        let (resident, database) = (resident as f64 / MIB, database as f64 / MIB);
        let (at, cpu) = (at.as_secs(), cpu.as_secs_f64());
        writeln!(
            std::io::stdout(),
            "{at} s: {resident:.1} MiB resident, {files} files, {threads} threads, {database:.0} MiB of database, {cpu:.1} s of processor"
        )?;
    }
    Ok(())
}

/// The result for a figure that must not grow.
struct Verdict {
    figure: &'static str,
    growth: Growth,
    /// The value of one unit.
    unit: f64,
    holds: bool,
}

struct Report<'a> {
    machine: &'a str,
    /// The base name of its files.
    name: &'a str,
    snapshots: &'a [Snapshot],
    /// The sample after the end of the traffic.
    at_rest: Snapshot,
    counts: &'a [Count],
}

impl Report<'_> {
    fn verdicts(&self) -> [Verdict; 3] {
        let verdict = |figure, unit, allowance, of: fn(&Snapshot) -> f64| {
            let growth = Growth::of(self.snapshots, of);
            Verdict { figure, growth, unit, holds: growth.is_none(allowance) }
        };
        [
            verdict("resident memory, MiB", MIB, MOST_BYTES_PER_HOUR, |snapshot| snapshot.resident as f64),
            verdict("open files", 1.0, MOST_FILES_PER_HOUR, |snapshot| snapshot.files as f64),
            verdict("threads", 1.0, MOST_FILES_PER_HOUR, |snapshot| snapshot.threads as f64),
        ]
    }

    fn text(&self) -> Outcome<String> {
        let last = self.snapshots.last().copied().unwrap_or_default();
        let first = self.snapshots.first().copied().unwrap_or_default();
        let minutes = last.at.as_secs_f64() / 60.0;
        let mut text = format!(
            "# Soak: {minutes:.0} minutes of mixed traffic{}\n\nWritten by `mailapi-bench soak`. {}\n\n",
            if self.name == "soak" { "" } else { " in front of Postfix and Dovecot" },
            self.machine
        );
        let share = (last.cpu.saturating_sub(first.cpu)).as_secs_f64() / (last.at - first.at).as_secs_f64().max(1.0);
        let times: usize = self.counts.iter().map(|count| count.times).sum();
        writeln!(
            text,
            "The server used {:.0} % of one processor. Caches fill during the \
             first sixth; growth is the median of the slopes between the medians of the other {} parts.\n",
            share * 100.0,
            WINDOWS - 1
        )?;
        text.push_str("| figure | from | to | growth per hour | noise of one sample | |\n|---|--:|--:|--:|--:|---|\n");
        for Verdict { figure, growth: Growth { from, to, per_hour, noise, .. }, unit, holds } in self.verdicts() {
            writeln!(
                text,
                "| {figure} | {:.2} | {:.2} | {:+.2} | {:.2} | {} |",
                from / unit,
                to / unit,
                per_hour / unit,
                noise / unit,
                if holds { "does not grow" } else { "**grows**" }
            )?;
        }
        writeln!(
            text,
            "\nPeak {:.1} MiB; at rest afterwards {:.1} MiB. The database had {:.0} MiB at the end: sent mail and \
             logs are kept, and emptying a mailbox removes its mail.\n\n| operation ({times} in all) | times |\n|---|--:|",
            self.at_rest.peak as f64 / MIB,
            self.at_rest.resident as f64 / MIB,
            last.database as f64 / MIB,
        )?;
        for Count { what, times } in self.counts {
            writeln!(text, "| {what} | {times} |")?;
        }
        Ok(text)
    }
}
