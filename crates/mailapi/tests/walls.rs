//! The dependencies between the crates, as ARCHITECTURE.md draws them. A change of a dependency changes the map,
//! this table and the manifest in one commit.

use std::path::Path;

use cargo_metadata::{DependencyKind, Metadata, MetadataCommand, Package};

/// Allowed dependencies of each crate on the others; all other dependencies are forbidden.
const ARROWS: &[(&str, &[&str])] = &[
    (
        "mailapi",
        &[
            "http",
            "console",
            "service",
            "acme",
            "archive",
            "backend-embedded",
            "backend-external",
            "dns",
            "backend",
            "files",
            "store",
            "tls",
            "metrics",
            "proxy",
            "model",
        ],
    ),
    ("acme", &["files", "tls", "model"]),
    ("archive", &["backend", "imap", "files", "model"]),
    ("console", &["http", "service", "model"]),
    ("http", &["service", "metrics", "tls", "proxy", "model"]),
    (
        "service",
        &["backend", "hosted-dns", "rspamd", "security", "store", "webhooks", "metrics", "tls", "events", "model"],
    ),
    ("rspamd", &["backend", "model"]),
    ("security", &["backend", "model"]),
    ("webhooks", &["backend", "tls", "model"]),
    ("backend-external", &["backend", "smtp-client", "smtp", "imap", "files", "tls", "model"]),
    ("backend-embedded", &["backend", "smtp-client", "smtp", "imap", "store", "tls", "proxy", "events", "model"]),
    ("smtp-client", &["smtp", "model"]),
    ("dns", &["backend", "tls", "model"]),
    // The program that talks to hosted providers of DNS. The server starts it, and links only `hosted-dns`.
    ("dns-agent", &["hosted-dns", "model"]),
    ("hosted-dns", &["model"]),
    ("backend", &["model"]),
    ("store", &["tls", "events", "model"]),
    ("tls", &[]),
    ("files", &[]),
    ("proxy", &[]),
    ("metrics", &[]),
    ("events", &["model"]),
    ("smtp", &[]),
    ("imap", &[]),
    ("model", &[]),
];

/// Not part of the product: these may depend on every crate, and only tests depend on them.
const TOOLS: &[&str] = &["testkit", "bench"];

/// External crates with a home: only these crates of the workspace may depend on them.
const HOMES: &[(&[&str], &[&str])] = &[
    // The search index of an external mail server is in SQLite files; accounts and sent mail are not.
    (&["rusqlite"], &["store", "backend-embedded", "backend-external"]),
    (&["tokio-postgres", "sqlx"], &["store"]),
    (&["axum"], &["http", "console"]),
    (&["utoipa", "utoipa-axum", "utoipa-swagger-ui", "tower", "tower-http"], &["http"]),
    (&["ammonia", "askama", "multer"], &["console"]),
    // A backend calls a mail server's administration over HTTP, or fetches policies of other domains; webhooks, orders
    // of certificates and messages to check are sent over HTTP.
    (&["hyper"], &["http", "backend-embedded", "backend-external", "webhooks", "acme", "rspamd"]),
    (&["toml", "clap", "csv", "rpassword", "tracing-subscriber", "tracing-appender", "getrandom"], &["mailapi"]),
    (&["tokio-rustls"], &["backend-embedded", "backend-external", "smtp-client", "webhooks", "http", "acme"]),
    (&["instant-acme", "rcgen"], &["acme"]),
    (&["rustls-native-certs"], &["tls"]),
    (&["hickory-resolver"], &["dns"]),
    (&["dns-update", "quick-xml"], &["dns-agent"]),
    (&["prometheus-client"], &["metrics"]),
    (&["proxy-header"], &["proxy"]),
    // In `events` JSON is the stored body of an event. In `backend` it is the form of a stored message structure, in
    // `backend-external` and `acme` that of a state on disk, and in `mailapi` that of log lines: not of a protocol. In
    // `rspamd` it is the form of an answer, and in `hosted-dns` and `dns-agent` that of the lines between two processes.
    (
        &["serde_json"],
        &["http", "events", "backend", "backend-external", "acme", "rspamd", "hosted-dns", "dns-agent", "mailapi"],
    ),
    (&["sha-crypt", "mail-auth"], &["service"]),
];

/// Crates without I/O: no runtime, no sockets, no files.
const PURE: &[&str] = &["model", "smtp", "imap", "metrics", "security"];
const IO_CRATES: &[&str] = &["tokio", "async-trait", "futures-util", "rustls", "tokio-rustls", "serde", "serde_json"];

#[test]
fn arrows_point_down_only() {
    let metadata = workspace();
    for package in metadata.workspace_packages().into_iter().filter(|package| !is_tool(package)) {
        let name = short(package);
        let allowed = ARROWS.iter().find(|(from, _)| *from == name).map(|(_, to)| *to);
        let allowed = allowed.unwrap_or_else(|| panic!("{name} is not in the table of dependencies"));
        for target in dependencies(package).filter_map(|name| ours(&name)) {
            assert!(allowed.contains(&target.as_str()), "{name} must not depend on {target}");
        }
    }
}

#[test]
fn what_has_a_home_is_used_nowhere_else() {
    let metadata = workspace();
    for package in metadata.workspace_packages().into_iter().filter(|package| !is_tool(package)) {
        let name = short(package);
        for dependency in dependencies(package) {
            for (crates, homes) in HOMES {
                let at_home = homes.contains(&name.as_str());
                assert!(
                    at_home || !crates.contains(&dependency.as_str()),
                    "{dependency} is for {homes:?}, not for {name}"
                );
            }
            let io = PURE.contains(&name.as_str()) && IO_CRATES.contains(&dependency.as_str());
            assert!(!io, "{name} does no IO and does not serialize, so it needs no {dependency}");
        }
    }
}

#[test]
fn the_environment_and_the_network_are_touched_only_at_home() {
    let metadata = workspace();
    for package in metadata.workspace_packages().into_iter().filter(|package| !is_tool(package)) {
        let name = short(package);
        let source = package.manifest_path.parent().expect("a manifest lies in a directory").join("src");
        for_each_source(source.as_std_path(), &mut |path, text| {
            let shown = path.display();
            // `dns-agent` is a program with arguments of its own.
            if name != "mailapi" && name != "dns-agent" {
                assert!(!text.contains("std::env") && !text.contains("env::var"), "{shown} reads the environment");
            }
            let homes = [
                "backend-embedded",
                "backend-external",
                "smtp-client",
                "webhooks",
                "http",
                "acme",
                "rspamd",
                // Changes records at the name servers of zones.
                "dns",
                // Reads the first bytes of connections that others accept.
                "proxy",
                "mailapi",
            ];
            if !homes.contains(&name.as_str()) {
                let socket = ["TcpStream", "TcpListener", "UdpSocket"].iter().find(|socket| text.contains(**socket));
                assert!(socket.is_none(), "{shown} opens sockets");
            }
        });
    }
}

/// A program that a command of root starts must leave root's session: see `own_session.rs` and `agent_process.rs`. The
/// follower of the journal runs in servers only, which keep their identity.
#[test]
fn programs_are_started_at_few_places() {
    let metadata = workspace();
    let homes = ["own_session.rs", "command.rs", "journal_source.rs", "waker.rs", "local.rs", "agent_process.rs"];
    for package in metadata.workspace_packages().into_iter().filter(|package| !is_tool(package)) {
        let source = package.manifest_path.parent().expect("a manifest lies in a directory").join("src");
        for_each_source(source.as_std_path(), &mut |path, text| {
            let product = text.split("#[cfg(test)]").next().unwrap_or_default();
            let is_test = path.components().any(|part| part.as_os_str() == "tests");
            let named = |line: &str| line.contains("process::") && line.contains("Command");
            let starts = product.lines().any(named);
            let at_home = path.file_name().is_some_and(|name| homes.iter().any(|home| name == *home));
            assert!(is_test || at_home || !starts, "{} starts programs", path.display());
        });
    }
}

/// In the workspace, another crate may bring the feature along.
#[test]
fn tests_that_stop_the_clock_compile_alone() {
    let metadata = workspace();
    for package in metadata.workspace_packages() {
        let tokio = package.dependencies.iter().filter(|dependency| dependency.name == "tokio");
        let has_feature = tokio.flat_map(|tokio| &tokio.features).any(|feature| feature == "test-util");
        let home = package.manifest_path.parent().expect("a manifest lies in a directory");
        for directory in ["src", "tests"].map(|name| home.join(name)).iter().filter(|path| path.exists()) {
            for_each_source(directory.as_std_path(), &mut |path, text| {
                let stops_the_clock = text.contains(concat!("start", "_paused"));
                assert!(has_feature || !stops_the_clock, "{} needs tokio's feature test-util", path.display());
            });
        }
    }
}

fn workspace() -> Metadata {
    MetadataCommand::new().no_deps().exec().expect("cargo describes its own workspace")
}

/// Returns the names of a package's dependencies outside of its tests.
fn dependencies(package: &Package) -> impl Iterator<Item = String> {
    let needed = package.dependencies.iter().filter(|dependency| dependency.kind == DependencyKind::Normal);
    needed.map(|dependency| dependency.name.to_string())
}

fn is_tool(package: &Package) -> bool {
    TOOLS.contains(&short(package).as_str())
}

fn short(package: &Package) -> String {
    ours(package.name.as_ref()).unwrap_or_else(|| package.name.to_string())
}

fn ours(name: &str) -> Option<String> {
    if name == "mailapi" { Some(name.to_owned()) } else { name.strip_prefix("mailapi-").map(str::to_owned) }
}

fn for_each_source(directory: &Path, visit: &mut impl FnMut(&Path, &str)) {
    for entry in std::fs::read_dir(directory).expect("every crate has sources") {
        let path = entry.expect("a directory can be read to its end").path();
        if path.is_dir() {
            for_each_source(&path, visit);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            visit(&path, &std::fs::read_to_string(&path).expect("sources are UTF-8"));
        }
    }
}
