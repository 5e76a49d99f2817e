//! Plays every file in `tests/dialogs/smtp` over a connection.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use mailapi_backend_embedded::net::ServerTls;
use mailapi_testkit::dialog::Dialog;

use crate::mail_host::MailHost;
use crate::socket::SocketPeer;
use crate::tls::certificate;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_dialog_goes_as_written() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/dialogs/smtp");
    let mut failures = Vec::new();
    let mut played = 0;
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().display().to_string();
        let dialog = Dialog::parse(&fs::read_to_string(&path).unwrap()).unwrap_or_else(|what| panic!("{name}, {what}"));
        if let Err(what) = play(dialog).await {
            failures.push(format!("{name}, {what}"));
        }
        played += 1;
    }
    assert!(played > 0, "no dialog was found");
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

async fn play(dialog: Dialog) -> Result<(), String> {
    let settings: Vec<_> = dialog.settings.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
    let host = MailHost::open_with(|listeners, message_store| {
        for (key, value) in &settings {
            let number = || value.parse::<usize>().expect("the setting is a number");
            match (*key, *value) {
                ("door", _) => {}
                ("tls", "available") => {
                    let (certificate, key) = certificate();
                    listeners.tls = Some(ServerTls::from_pem(certificate.as_bytes(), key.as_bytes()).unwrap());
                }
                ("max-hops", _) => (listeners.smtp.max_hops, listeners.submission.max_hops) = (number(), number()),
                ("max-message", _) => message_store.max_message_bytes = number(),
                _ => panic!("unknown setting {key} {value}"),
            }
        }
    });
    let host = Arc::new(host.await);
    let listener = if settings.contains(&("door", "submission")) { host.submission } else { host.smtp };
    let mut peer = SocketPeer::new(host, listener).await;
    tokio::task::spawn_blocking(move || dialog.play(&mut peer)).await.unwrap()
}
