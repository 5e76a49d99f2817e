//! Tests of the SQLite engine: failures stay isolated, and answered writes survive.

use std::path::PathBuf;
use std::sync::mpsc;

use mailapi_model::Timestamp;
use mailapi_store::StoreError;
use mailapi_store::sqlite::{
    Migration, Schema, Sqlite, SqliteSettings, check_database, copy_database, remove_foreign_code,
};
use rusqlite::Connection;
use tempfile::TempDir;

const NOW: Timestamp = Timestamp::from_millis(1_763_633_730_123);
const TABLES: &[Migration] = &[Migration {
    version: 1,
    sql: "CREATE TABLE parents (name TEXT PRIMARY KEY);
          CREATE TABLE children (name TEXT PRIMARY KEY, parent TEXT NOT NULL REFERENCES parents (name));",
}];

struct File {
    _folder: TempDir,
    path: PathBuf,
}

impl File {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self { path: folder.path().join("test.db"), _folder: folder }
    }

    fn open(&self) -> Sqlite {
        Sqlite::open(&self.path, SqliteSettings::default()).unwrap()
    }

    async fn open_with_tables(&self) -> Sqlite {
        let sqlite = self.open();
        sqlite.migrate("test", TABLES, NOW).await.unwrap();
        sqlite
    }
}

fn add(connection: &Connection, name: &str) -> Result<(), StoreError> {
    connection.execute("INSERT INTO parents (name) VALUES ($1)", [name])?;
    Ok(())
}

async fn insert(sqlite: &Sqlite, name: impl Into<String>) -> Result<(), StoreError> {
    let name = name.into();
    sqlite.write(move |connection| add(connection, &name)).await
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_written_to_a_file_that_was_renamed_or_replaced() {
    let file = File::new();
    let sqlite = file.open_with_tables().await;
    insert(&sqlite, "before").await.unwrap();
    let is_moved = |outcome: Result<(), StoreError>| matches!(outcome, Err(StoreError::Moved(_)));
    for suffix in ["", "-wal", "-shm"] {
        let place = PathBuf::from(format!("{}{suffix}", file.path.display()));
        let elsewhere = file.path.with_file_name("elsewhere");
        std::fs::rename(&place, &elsewhere).unwrap();
        assert!(is_moved(insert(&sqlite, "renamed").await), "{suffix}");
        std::fs::copy(&elsewhere, &place).unwrap();
        assert!(is_moved(insert(&sqlite, "replaced").await), "{suffix}");
        std::fs::rename(&elsewhere, &place).unwrap();
        insert(&sqlite, format!("back{suffix}")).await.unwrap();
    }
    // Open readers still read the file that is written.
    assert_eq!(names(&sqlite).await, ["back", "back-shm", "back-wal", "before"]);
    sqlite.close().await;
    assert_eq!(names(&file.open()).await.len(), 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_reader_does_not_open_another_file() {
    for suffix in ["", "-wal", "-shm"] {
        let file = File::new();
        let sqlite = file.open_with_tables().await;
        let place = PathBuf::from(format!("{}{suffix}", file.path.display()));
        let elsewhere = file.path.with_file_name("elsewhere");
        std::fs::rename(&place, &elsewhere).unwrap();
        let count = || {
            sqlite.read(|connection| {
                Ok::<i64, StoreError>(connection.query_row("SELECT COUNT(*) FROM parents", [], |row| row.get(0))?)
            })
        };
        assert!(matches!(count().await, Err(StoreError::Moved(_))), "{suffix}");
        assert!(!place.exists(), "{suffix}: the reader created it");
        std::fs::copy(&elsewhere, &place).unwrap();
        assert!(matches!(count().await, Err(StoreError::Moved(_))), "{suffix}");
        std::fs::rename(&elsewhere, &place).unwrap();
        assert_eq!(count().await, Ok(0), "{suffix}");
    }
}

async fn names(sqlite: &Sqlite) -> Vec<String> {
    let read = sqlite.read(|connection| {
        let mut statement = connection.prepare_cached("SELECT name FROM parents ORDER BY name")?;
        let names = statement.query_map([], |row| row.get(0))?.collect::<Result<Vec<String>, _>>()?;
        Ok::<_, StoreError>(names)
    });
    read.await.unwrap()
}

/// Holds the writer inside one job, so that everything queued meanwhile joins the same group.
async fn hold(sqlite: &Sqlite) -> (mpsc::Sender<()>, tokio::task::JoinHandle<Result<(), StoreError>>) {
    let (release, held) = mpsc::channel::<()>();
    let (entered, inside) = tokio::sync::oneshot::channel();
    let sqlite = sqlite.clone();
    let job = tokio::spawn(async move {
        sqlite
            .write(move |connection| {
                let _ = entered.send(());
                held.recv().unwrap();
                add(connection, "first")
            })
            .await
    });
    inside.await.unwrap();
    (release, job)
}

/// Queues `job` at once; the returned task completes with it.
async fn queue<F>(sqlite: &Sqlite, job: F) -> tokio::task::JoinHandle<Result<(), StoreError>>
where
    F: FnOnce(&Connection) -> Result<(), StoreError> + Send + 'static,
{
    let sqlite = sqlite.clone();
    let (began, queued) = tokio::sync::oneshot::channel();
    let task = tokio::spawn(async move {
        let mut write = Box::pin(sqlite.write(job));
        // The first poll puts the job into the queue.
        let first = std::future::poll_fn(|context| std::task::Poll::Ready(write.as_mut().poll(context))).await;
        let _ = began.send(());
        match first {
            std::task::Poll::Ready(done) => done,
            std::task::Poll::Pending => write.await,
        }
    });
    queued.await.unwrap();
    task
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_fails_or_panics_is_rolled_back_alone() {
    let file = File::new();
    let sqlite = file.open_with_tables().await;
    let (release, first) = hold(&sqlite).await;
    let refused = queue(&sqlite, |connection| {
        add(connection, "refused")?;
        Err(StoreError::Reference)
    });
    let refused = refused.await;
    let panicked = queue(&sqlite, |connection| {
        add(connection, "panicked").unwrap();
        panic!("on purpose");
    });
    let panicked = panicked.await;
    let twice = queue(&sqlite, |connection| add(connection, "first")).await;
    let last = queue(&sqlite, |connection| add(connection, "last")).await;

    release.send(()).unwrap();

    assert_eq!(refused.await.unwrap(), Err(StoreError::Reference));
    assert_eq!(panicked.await.unwrap(), Err(StoreError::Panicked));
    assert_eq!(twice.await.unwrap(), Err(StoreError::Conflict("parents.name".to_owned())));
    assert_eq!(first.await.unwrap(), Ok(()));
    assert_eq!(last.await.unwrap(), Ok(()));
    assert_eq!(names(&sqlite).await, ["first", "last"]);
    insert(&sqlite, "after").await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failing_commit_fails_its_group_only() {
    let file = File::new();
    let sqlite = file.open_with_tables().await;
    let (release, first) = hold(&sqlite).await;
    let orphan = queue(&sqlite, |connection| {
        connection.execute_batch("PRAGMA defer_foreign_keys = ON")?;
        connection.execute("INSERT INTO children (name, parent) VALUES ('orphan', 'nobody')", [])?;
        Ok(())
    });
    let orphan = orphan.await;
    release.send(()).unwrap();

    assert_eq!(first.await.unwrap(), Err(StoreError::Reference));
    assert_eq!(orphan.await.unwrap(), Err(StoreError::Reference));
    insert(&sqlite, "after").await.unwrap();
    assert_eq!(names(&sqlite).await, ["after"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_ends_its_transaction_is_not_reported_done() {
    let file = File::new();
    let sqlite = file.open_with_tables().await;
    let broken = sqlite.write(|connection| {
        add(connection, "lost")?;
        connection.execute_batch("ROLLBACK").map_err(StoreError::from)
    });
    assert!(broken.await.unwrap_err().is_unavailable());
    insert(&sqlite, "after").await.unwrap();
    assert_eq!(names(&sqlite).await, ["after"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_cannot_write_and_sees_one_state() {
    let file = File::new();
    let sqlite = file.open_with_tables().await;
    let written = sqlite.read(|connection| add(connection, "by reader")).await;
    assert!(written.is_err());

    let (looked, look) = tokio::sync::oneshot::channel();
    let (go_on, wait) = mpsc::channel::<()>();
    let count = |connection: &Connection| {
        connection.query_row("SELECT COUNT(*) FROM parents", [], |row| row.get::<_, i64>(0)).map_err(StoreError::from)
    };
    let scan = tokio::spawn({
        let sqlite = sqlite.clone();
        async move {
            sqlite
                .scan(move |connection| {
                    let before = count(connection)?;
                    looked.send(()).unwrap();
                    wait.recv().unwrap();
                    Ok::<_, StoreError>((before, count(connection)?))
                })
                .await
        }
    });
    look.await.unwrap();
    insert(&sqlite, "meanwhile").await.unwrap();
    go_on.send(()).unwrap();
    assert_eq!(scan.await.unwrap(), Ok((0, 0)));
    assert_eq!(names(&sqlite).await, ["meanwhile"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_read_statement_cannot_write_and_leaves_no_state() {
    let file = File::new();
    let sqlite = file.open_with_tables().await;
    assert!(sqlite.read_one(|connection| add(connection, "by reader")).await.is_err());
    let panicked: Result<(), StoreError> = sqlite.read_one(|_| panic!("on purpose")).await;
    assert_eq!(panicked, Err(StoreError::Panicked));

    // Neither an open snapshot nor a statement not read to its end may delay the next job.
    let count = |connection: &Connection| {
        connection.query_row("SELECT COUNT(*) FROM parents", [], |row| row.get::<_, i64>(0)).map_err(StoreError::from)
    };
    let open = sqlite.read_one(|connection| {
        connection.execute_batch("BEGIN")?;
        count(connection)
    });
    assert_eq!(open.await, Ok(0));
    for written in 1..=3 {
        insert(&sqlite, format!("{written}")).await.unwrap();
        let first = sqlite.read_one(|connection| {
            let mut statement = connection.prepare_cached("SELECT name FROM parents ORDER BY name")?;
            let first = statement.query([])?.next()?.map(|row| row.get::<_, String>(0)).transpose()?;
            Ok::<_, StoreError>(first)
        });
        assert_eq!(first.await.unwrap().as_deref(), Some("1"));
        assert_eq!(sqlite.read_one(count).await, Ok(written));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_panics_leaves_the_pool_usable() {
    let file = File::new();
    let sqlite = file.open_with_tables().await;
    for _ in 0..10 {
        let read: Result<(), StoreError> = sqlite.read(|_| panic!("on purpose")).await;
        assert_eq!(read, Err(StoreError::Panicked));
        let scan: Result<(), StoreError> = sqlite.scan(|_| panic!("on purpose")).await;
        assert_eq!(scan, Err(StoreError::Panicked));
    }
    assert!(names(&sqlite).await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_do_not_repeat_values() {
    let file = File::new();
    let sqlite = file.open_with_tables().await;
    insert(&sqlite, "a secret").await.unwrap();
    let again = insert(&sqlite, "a secret").await.unwrap_err();
    assert_eq!(again.to_string(), "the row already exists: parents.name");
    let text = sqlite
        .write(|connection| {
            connection.execute_batch("CREATE VIRTUAL TABLE words USING fts5 (word)")?;
            connection.execute("DELETE FROM words WHERE words MATCH $1", ["\"a secret"])?;
            Ok::<_, StoreError>(())
        })
        .await;
    assert!(!text.unwrap_err().to_string().contains("secret"));
}

#[tokio::test(flavor = "multi_thread")]
async fn two_handles_on_one_file_both_write_and_notify() {
    let file = File::new();
    let server = file.open_with_tables().await;
    let command_line = file.open();
    let seen_by_server = server.foreign_changes();
    assert_eq!(seen_by_server.count(), 0, "the server's own migrations are not foreign changes");

    let mut tasks = Vec::new();
    for n in 0..200 {
        for (who, sqlite) in [("server", &server), ("cli", &command_line)] {
            let sqlite = sqlite.clone();
            tasks.push(tokio::spawn(async move { insert(&sqlite, format!("{who} {n}")).await }));
        }
    }
    for task in tasks {
        task.await.unwrap().unwrap();
    }
    assert_eq!(names(&server).await.len(), 400);

    let before = seen_by_server.count();
    insert(&command_line, "one more").await.unwrap();
    seen_by_server.after(before).await;
    assert_eq!(names(&server).await.len(), 401);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_writer_waits_for_another_process_but_not_for_ever() {
    let file = File::new();
    let patient = file.open_with_tables().await;
    let hurried = SqliteSettings { busy_timeout: std::time::Duration::from_millis(300), ..SqliteSettings::default() };
    let hurried = Sqlite::open(&file.path, hurried).unwrap();
    let other = Connection::open(&file.path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    add(&other, "other").unwrap();
    let waiting = queue(&patient, |connection| add(connection, "patient")).await;
    let refused = insert(&hurried, "refused").await.unwrap_err();
    assert!(refused.is_unavailable(), "{refused}");
    assert!(!waiting.is_finished());
    // Its next wait begins anew.
    let hurried = queue(&hurried, |connection| add(connection, "hurried")).await;
    other.execute_batch("COMMIT").unwrap();
    waiting.await.unwrap().unwrap();
    hurried.await.unwrap().unwrap();
    assert_eq!(names(&patient).await, ["hurried", "other", "patient"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn own_writes_are_not_foreign() {
    let file = File::new();
    let sqlite = file.open_with_tables().await;
    for n in 0..10 {
        insert(&sqlite, n.to_string()).await.unwrap();
        names(&sqlite).await;
    }
    assert_eq!(sqlite.foreign_changes().count(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_of_a_newer_program_is_refused_and_left_alone() {
    const NEWER: &[Migration] = &[TABLES[0], Migration { version: 2, sql: "CREATE TABLE newer (id INTEGER)" }];
    let file = File::new();
    file.open().migrate("test", NEWER, NOW).await.unwrap();

    let sqlite = file.open();
    let refused = sqlite.migrate("test", TABLES, NOW).await.unwrap_err();
    assert_eq!(refused, StoreError::NewerSchema { component: "test".to_owned(), found: 2, known: 1 });
    assert!(refused.to_string().contains("use a newer program"));
    assert_eq!(sqlite.migrate("another", &[], NOW).await, Ok(0), "components are independent of each other");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_migration_is_applied_whole_or_not_at_all() {
    const BROKEN: &[Migration] =
        &[TABLES[0], Migration { version: 2, sql: "CREATE TABLE half (id INTEGER); nonsense" }];
    const MENDED: &[Migration] = &[TABLES[0], Migration { version: 2, sql: "CREATE TABLE half (id INTEGER)" }];
    let file = File::new();
    let sqlite = file.open();
    assert!(sqlite.migrate("test", BROKEN, NOW).await.is_err());
    assert_eq!(sqlite.migrate("test", MENDED, NOW).await, Ok(1));
    assert_eq!(sqlite.migrate("test", MENDED, NOW).await, Ok(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_schema_is_refused() {
    const MADE: Schema = Schema { component: "test", migrations: TABLES };
    let damages = [
        ("DROP TABLE children", "the file has no table children"),
        ("DROP TABLE children; CREATE VIEW children AS SELECT name FROM parents", "the file has no table children"),
        (
            "CREATE TRIGGER hidden AFTER INSERT ON parents BEGIN DELETE FROM children; END;
            PRAGMA writable_schema = ON;
            UPDATE sqlite_schema SET name = 'other' WHERE name = 'hidden'",
            "malformed",
        ),
    ];
    let of_another_kind = ["table", "index", "view"].map(|kind| {
        let hidden = "CREATE TRIGGER hidden AFTER INSERT ON parents BEGIN DELETE FROM children; END";
        let renamed = format!("UPDATE sqlite_schema SET type = '{kind}' WHERE name = 'hidden'");
        format!("{hidden}; PRAGMA writable_schema = ON; {renamed}")
    });
    let of_another_kind = of_another_kind.iter().map(|damage| (damage.as_str(), "malformed"));
    for (damage, why) in damages.into_iter().chain(of_another_kind) {
        let file = File::new();
        file.open_with_tables().await.close().await;
        assert_eq!(remove_foreign_code(&file.path, &[MADE]), Ok(vec![]));
        Connection::open(&file.path).unwrap().execute_batch(damage).unwrap();
        let refused = remove_foreign_code(&file.path, &[MADE]).unwrap_err().to_string();
        assert!(refused.contains(why), "{damage}: {refused}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn processes_that_start_together_migrate_once() {
    let file = File::new();
    let path = file.path.clone();
    let starts = (0..4).map(|_| {
        let path = path.clone();
        tokio::spawn(async move {
            let opened = tokio::task::spawn_blocking(move || Sqlite::open(&path, SqliteSettings::default()));
            opened.await.unwrap().unwrap().migrate("test", TABLES, NOW).await.unwrap()
        })
    });
    let mut applied = 0;
    for start in starts.collect::<Vec<_>>() {
        applied += start.await.unwrap();
    }
    assert_eq!(applied, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn closing_writes_what_waits_and_refuses_what_follows() {
    let file = File::new();
    let sqlite = file.open_with_tables().await;
    let (release, first) = hold(&sqlite).await;
    let waiting = queue(&sqlite, |connection| add(connection, "waiting")).await;
    let closing = tokio::spawn({
        let sqlite = sqlite.clone();
        async move { sqlite.close().await }
    });
    release.send(()).unwrap();
    closing.await.unwrap();

    assert_eq!(first.await.unwrap(), Ok(()));
    assert_eq!(waiting.await.unwrap(), Ok(()));
    assert!(insert(&sqlite, "late").await.unwrap_err().is_unavailable());
    assert!(sqlite.read(|_| Ok::<_, StoreError>(())).await.unwrap_err().is_unavailable());
    assert!(sqlite.read_one(|_| Ok::<_, StoreError>(())).await.unwrap_err().is_unavailable());
    sqlite.close().await;
    let log = file.path.with_extension("db-wal");
    assert!(!log.exists(), "the write-ahead log is merged into the file");
    assert_eq!(names(&file.open()).await, ["first", "waiting"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn dropping_the_last_handle_writes_what_waits() {
    let file = File::new();
    let sqlite = file.open_with_tables().await;
    let (release, first) = hold(&sqlite).await;
    let waiting = queue(&sqlite, |connection| add(connection, "waiting")).await;
    first.abort();
    waiting.abort();
    release.send(()).unwrap();
    let _ = (first.await, waiting.await);
    tokio::task::spawn_blocking(move || drop(sqlite)).await.unwrap();
    assert_eq!(names(&file.open()).await, ["first", "waiting"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn lazy_writes_are_visible_at_once_and_outlive_the_process() {
    let file = File::new();
    let settings = SqliteSettings { foreign_check: std::time::Duration::from_secs(3600), ..SqliteSettings::default() };
    let sqlite = Sqlite::open(&file.path, settings).unwrap();
    sqlite.migrate("test", TABLES, NOW).await.unwrap();
    sqlite.write_in_order(|connection| add(connection, "first")).await.unwrap();
    assert_eq!(names(&sqlite).await, ["first"]);
    let twice = sqlite.write_in_order(|connection| add(connection, "first")).await;
    assert_eq!(twice, Err(StoreError::Conflict("parents.name".to_owned())));

    // Copy the files without closing anything, as another process would find them after a kill.
    let left = File::new();
    for suffix in ["db", "db-wal"] {
        std::fs::copy(file.path.with_extension(suffix), left.path.with_extension(suffix)).unwrap();
    }
    assert_eq!(names(&left.open()).await, ["first"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_earlier_processs_log_is_flushed_before_any_answer() {
    let file = File::new();
    let sqlite = file.open_with_tables().await;
    insert(&sqlite, "first").await.unwrap();
    let (killed, kept) = (File::new(), File::new());
    for suffix in ["db", "db-wal"] {
        std::fs::copy(file.path.with_extension(suffix), killed.path.with_extension(suffix)).unwrap();
    }
    let _again = killed.open();
    // Check the database file without its log, whose content on disk is unknown.
    std::fs::copy(&killed.path, &kept.path).unwrap();
    assert_eq!(names(&kept.open()).await, ["first"]);
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn a_database_behind_symbolic_links_is_flushed_where_it_lies() {
    let (far, near) = (File::new(), File::new());
    let between = near.path.with_extension("between");
    std::os::unix::fs::symlink(&far.path, &between).unwrap();
    std::os::unix::fs::symlink(&between, &near.path).unwrap();
    drop(far.open());
    let sqlite = near.open();
    sqlite.migrate("test", TABLES, NOW).await.unwrap();
    insert(&sqlite, "first").await.unwrap();
    assert!(far.path.with_extension("db-wal").exists() && !near.path.with_extension("db-wal").exists());
    assert_eq!((sqlite.keeps(), names(&sqlite).await), (Ok(()), vec!["first".to_owned()]));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_anybody_sees_can_be_waited_for() {
    let file = File::new();
    let sqlite = file.open_with_tables().await;
    sqlite.write_in_order(|connection| add(connection, "first")).await.unwrap();
    sqlite.flushed().await.unwrap();
    sqlite.close().await;
    assert!(sqlite.flushed().await.unwrap_err().is_unavailable());
}

#[cfg(unix)]
#[tokio::test]
async fn the_files_belong_to_their_owner_alone() {
    use std::os::unix::fs::PermissionsExt;
    let file = File::new();
    let _sqlite = file.open_with_tables().await;
    for name in ["test.db", "test.db-wal", "test.db-shm"] {
        let metadata = std::fs::metadata(file.path.with_file_name(name)).unwrap();
        assert_eq!(metadata.permissions().mode() & 0o777, 0o600, "{name}");
    }
}

#[tokio::test]
async fn what_is_no_database_is_refused() {
    let file = File::new();
    std::fs::write(&file.path, "this is not a database, however long one looks at it".repeat(100)).unwrap();
    assert!(Sqlite::open(&file.path, SqliteSettings::default()).is_err());
    assert!(Sqlite::open(&file.path.join("below a file"), SqliteSettings::default()).unwrap_err().is_unavailable());
}

/// Time limit of an endless search. A search that follows it must end within it on a busy machine too.
const SHORT_SEARCH: std::time::Duration = std::time::Duration::from_secs(1);

/// A query that never ends.
const ENDLESS: &str =
    "WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers) SELECT count(*) FROM numbers";

/// Starts a search that ends only when it is stopped, and waits until it runs.
async fn begin_endless_search(sqlite: &Sqlite) -> tokio::task::JoinHandle<Result<i64, StoreError>> {
    let (began, beginning) = tokio::sync::oneshot::channel();
    let sqlite = sqlite.clone();
    let search = tokio::spawn(async move {
        let job = move |connection: &Connection| {
            began.send(()).unwrap();
            Ok::<i64, StoreError>(connection.query_row(ENDLESS, [], |row| row.get(0))?)
        };
        sqlite.search(job).await
    });
    beginning.await.unwrap();
    search
}

#[tokio::test]
async fn a_search_beyond_the_time_limit_is_stopped_and_blocks_no_one() {
    let file = File::new();
    let settings = SqliteSettings {
        search_connections: 1,
        search_timeout: SHORT_SEARCH,
        scan_connections: 1,
        ..SqliteSettings::default()
    };
    let sqlite = Sqlite::open(&file.path, settings).unwrap();
    let endless = begin_endless_search(&sqlite).await;
    let one = |connection: &Connection| Ok::<i64, StoreError>(connection.query_row("SELECT 1", [], |row| row.get(0))?);
    assert_eq!(sqlite.scan(one).await, Ok(1), "a scan does not wait for a search");
    assert!(matches!(endless.await.unwrap(), Err(StoreError::Unavailable(_))));
    assert_eq!(sqlite.search(one).await, Ok(1), "an interrupted search does not affect the next one");
}

#[tokio::test]
async fn a_search_that_panics_fails_alone() {
    let file = File::new();
    // Without a short limit: printing the panic's backtrace takes its time, and belongs to the search.
    let settings = SqliteSettings { search_connections: 1, ..SqliteSettings::default() };
    let sqlite = Sqlite::open(&file.path, settings).unwrap();
    let panicking: Result<(), StoreError> = sqlite.search(|_| panic!("on purpose")).await;
    assert_eq!(panicking, Err(StoreError::Panicked));
    let one = |connection: &Connection| Ok::<i64, StoreError>(connection.query_row("SELECT 1", [], |row| row.get(0))?);
    assert_eq!(sqlite.search(one).await, Ok(1));
}

#[tokio::test]
async fn an_abandoned_search_is_stopped_too() {
    let file = File::new();
    let settings = SqliteSettings { search_connections: 1, search_timeout: SHORT_SEARCH, ..SqliteSettings::default() };
    let sqlite = Sqlite::open(&file.path, settings).unwrap();
    let abandoned = begin_endless_search(&sqlite).await;
    abandoned.abort();
    let one = |connection: &Connection| Ok::<i64, StoreError>(connection.query_row("SELECT 1", [], |row| row.get(0))?);
    assert_eq!(sqlite.search(one).await, Ok(1), "the connection is free again");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_beside_a_busy_writer_has_one_state() {
    let file = File::new();
    let sqlite = file.open_with_tables().await;
    let pair = |number: i32| {
        let sqlite = sqlite.clone();
        async move {
            let job = move |connection: &Connection| {
                add(connection, &format!("parent {number} {}", "x".repeat(2000)))?;
                let sql = "INSERT INTO children (name, parent) SELECT $1, MAX(name) FROM parents";
                connection.execute(sql, [number])?;
                Ok::<_, StoreError>(())
            };
            sqlite.write(job).await.unwrap();
        }
    };
    for number in 0..500 {
        pair(number).await;
    }
    let copy = file.path.with_extension("copy");
    let (source, target) = (file.path.clone(), copy.clone());
    let copying = tokio::task::spawn_blocking(move || copy_database(&source, &target));
    let mut number = 500;
    while !copying.is_finished() {
        pair(number).await;
        number += 1;
    }
    copying.await.unwrap().unwrap();
    check_database(&copy).unwrap();
    let connection = Connection::open(&copy).unwrap();
    let count = |table: &str| -> i32 {
        connection.query_row(&format!("SELECT COUNT(*) FROM {table}"), [], |row| row.get(0)).unwrap()
    };
    assert!((500..=number).contains(&count("parents")), "{}", count("parents"));
    assert_eq!(count("parents"), count("children"));
}

#[tokio::test]
async fn a_copy_overwrites_nothing_and_damage_is_found() {
    let file = File::new();
    let sqlite = file.open_with_tables().await;
    for number in 0..200 {
        insert(&sqlite, format!("{number} {}", "x".repeat(500))).await.unwrap();
    }
    let copy = file.path.with_extension("copy");
    copy_database(&file.path, &copy).unwrap();
    assert!(copy_database(&file.path, &copy).is_err(), "the target exists");
    check_database(&copy).unwrap();
    let mut bytes = std::fs::read(&copy).unwrap();
    // The second page of the file, after the first with the schema.
    bytes[4096..4096 + 512].fill(0xff);
    std::fs::write(&copy, bytes).unwrap();
    assert!(check_database(&copy).is_err());
    assert!(check_database(&file.path.with_extension("none")).unwrap_err().is_unavailable());
}
