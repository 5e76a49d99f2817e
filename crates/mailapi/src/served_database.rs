//! The database that a server has open, or has left when it was killed.
//!
//! Another file may have its name now. SQLite would combine that file with the server's log: the changes in the log would be
//! lost for their own database, and damage the other one.

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use mailapi_store::StoreError;
use mailapi_store::sqlite::HomeRecord;

use crate::data_dir::DataDir;
use crate::failure::{Failure, Outcome};

/// How long a server may need between the removal of its log and its end.
const END_PATIENCE: Duration = Duration::from_secs(2);
/// Pause between two looks.
const END_RETRY: Duration = Duration::from_millis(20);

/// What to do while the server runs.
const STOP_THE_SERVER: &str = "put the former file back; if that is impossible, first stop the server: at its end, it \
                               writes everything that it accepted into the former file, or into a copy named `.former` if \
                               that file was removed, and its log names the file";
/// What to do after it was killed.
const MOVE_THE_LOG: &str = "put the former file back, or move the file `-wal` away together with it: the mail that was \
                            accepted last is in these two alone";

/// Identities of the files of a database, recorded by a server.
#[derive(Debug)]
pub(crate) struct ServedDatabase {
    pub(crate) home: HomeRecord,
    /// The process of a server that runs.
    pub(crate) server: Option<String>,
}

/// Another file has the name of a database that a server has open, or of one whose log a server has left.
#[derive(Debug)]
pub(crate) struct ReplacedDatabase {
    pub(crate) why: String,
    pub(crate) advice: &'static str,
}

impl From<ReplacedDatabase> for Failure {
    fn from(replaced: ReplacedDatabase) -> Self {
        Self::new(format!("{}; {}", replaced.why, replaced.advice))
    }
}

/// Checks the files at a path before SQLite opens them. Returns the identities that they must keep, if a server runs.
pub(crate) fn check(directory: &DataDir, file: &Path) -> Outcome<Result<Option<HomeRecord>, ReplacedDatabase>> {
    let give_up = Instant::now() + END_PATIENCE;
    let place = file.canonicalize().unwrap_or_else(|_| file.to_owned());
    loop {
        let Some(served) = directory.served()? else { return Ok(Ok(None)) };
        let Some(server) = served.server else {
            return Ok(check_left(served.home, file).map(|()| None));
        };
        let moved = match served.home.check(file) {
            Ok(()) => return Ok(Ok(Some(served.home))),
            Err(StoreError::Moved(moved)) => moved,
            Err(error) => return Err(error.into()),
        };
        // A server that ends removes its log a moment before it releases the lock, and another command may create a new one.
        let is_replaced = Path::new(&moved) == place && place.exists();
        if !is_replaced && Instant::now() < give_up {
            thread::park_timeout(END_RETRY);
            continue;
        }
        let why = format!(
            "{moved} is not the file that the running server (process {server}) has open: that one was renamed, removed or \
             replaced; nothing was opened"
        );
        return Ok(Err(ReplacedDatabase { why, advice: STOP_THE_SERVER }));
    }
}

/// Checks the log that a killed server left.
pub(crate) fn check_left(home: HomeRecord, file: &Path) -> Result<(), ReplacedDatabase> {
    home.check_left_log(file).map_err(|_| {
        let shown = file.display();
        let why = format!(
            "{shown} was replaced, but {shown}-wal is the log of the former file, which the last server left when it was \
             killed; nothing was opened"
        );
        ReplacedDatabase { why, advice: MOVE_THE_LOG }
    })
}
