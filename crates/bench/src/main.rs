//! Measures the product against its floors: `cargo run --release -p mailapi-bench -- all`.
//!
//! Everything runs on this machine and ends by itself. The release binary runs in a temporary directory, each floor
//! in its own process, and the load generator on one thread. `all` writes its figures into `docs/benchmarks.md`.
//! `smoke` runs each case in small, and asserts only that both sides count the same.

mod cases;
mod client;
mod floor;
mod load;
mod machine;
mod mail;
mod mail_site;
mod measure;
mod outcome;
mod process;
mod random;
mod report;
mod scale;
mod scale_cases;
mod server;
mod settled;
mod soak;

use std::io::Write;
use std::path::PathBuf;

use clap::{Parser, Subcommand, ValueEnum};
use tokio::runtime::{Builder, Runtime};

use cases::{Bench, Case};
use outcome::Outcome;
use scale::{FULL, SMOKE, Scale};
use server::Product;
use soak::Soak;

/// Measures mailapi beside its floors.
#[derive(Debug, Parser)]
#[command(name = "mailapi-bench", max_term_width = 100)]
struct Arguments {
    /// The binary to measure [default: the one beside this program, rebuilt if it is outdated]
    #[arg(long, global = true, value_name = "FILE")]
    product: Option<PathBuf>,

    /// A setting to apply, such as MAILAPI_LOG__LEVEL=warn; may be repeated
    #[arg(long = "set", global = true, value_name = "NAME=VALUE")]
    tried: Vec<String>,

    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Measure everything and write the figures into the documentation
    All {
        /// The file that receives the figures
        #[arg(long, value_name = "FILE", default_value = "docs/benchmarks.md")]
        write: PathBuf,
    },
    #[command(flatten)]
    One(Case),
    /// Run every case in small, and check that both sides count the same
    Smoke,
    /// Run mixed traffic at a steady pace for an hour, and check that the server does not grow
    Soak(Soak),
    /// Measure how costs grow with folders, sent mail, accounts and clients
    Scale(scale_cases::Arguments),
    /// Serve as the HTTP floor for another process of this program
    #[command(hide = true)]
    Floor,
}

fn main() -> Outcome {
    let Arguments { product, tried, command } = Arguments::parse();
    let product = || Product::find(product, tried);
    match command {
        // A multi-threaded runtime, like that of the product.
        Command::Floor => Runtime::new()?.block_on(floor::http::serve()),
        Command::All { write } => on_one_thread(async {
            let figures = measure(product()?, FULL, Case::value_variants()).await?;
            report::write(&write, &figures)
        }),
        Command::One(case) => on_one_thread(measure(product()?, FULL, &[case])).map(drop),
        Command::Soak(soak) => on_one_thread(async { soak::run(&soak, &product()?).await }),
        Command::Scale(scale) => on_one_thread(async { scale_cases::run(&scale, &product()?).await }),
        Command::Smoke => {
            let cases: Vec<Case> = Case::value_variants().iter().copied().filter(|case| *case != Case::Build).collect();
            let product = product()?;
            on_one_thread(async {
                go_through(product.clone(), SMOKE, &cases).await?;
                scale_cases::go_through(&product).await
            })
        }
    }
}

/// Runs the load generator on one thread, which leaves the other processors to the server.
fn on_one_thread<T>(work: impl Future<Output = Outcome<T>>) -> Outcome<T> {
    Builder::new_current_thread().enable_all().build()?.block_on(work)
}

/// Runs cases to verify that they work; figures at this scale are meaningless and not shown.
async fn go_through(product: Product, scale: Scale, cases: &[Case]) -> Outcome {
    let mut bench = Bench::new(product, scale);
    for case in cases {
        bench.run(*case).await?;
        writeln!(std::io::stdout(), "{case:?} works")?;
    }
    bench.end().await
}

/// Measures cases, prints each figure at once, and returns the text for the documentation.
async fn measure(product: Product, scale: Scale, cases: &[Case]) -> Outcome<String> {
    let mut bench = Bench::new(product, scale);
    let mut rows = Vec::new();
    for case in cases {
        for row in bench.run(*case).await? {
            row.show()?;
            rows.push(row);
        }
    }
    bench.end().await?;
    Ok(machine::description(&scale)? + &report::tables(&rows)?)
}
