//! `mailapi migrate`.

use super::print;
use crate::config::Config;
use crate::data_dir::DataDir;
use crate::failure::Outcome;
use crate::wiring::Parts;

pub(super) async fn run(config: &Config) -> Outcome {
    let parts = Parts::open(config, &DataDir::open(&config.data_dir)?).await?;
    parts.close().await;
    print("the database is up to date\n")
}
