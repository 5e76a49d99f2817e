//! `mailapi migrate`.

use super::print;
use crate::config::Config;
use crate::data_dir::DataDir;
use crate::failure::Outcome;
use crate::wiring::Assembly;

pub(super) async fn run(config: &Config) -> Outcome {
    let assembly = Assembly::open(config, &DataDir::open(&config.data_dir)?).await?;
    assembly.close().await;
    print("the database is up to date\n")
}
