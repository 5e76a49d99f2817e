//! Plays every file in `tests/dialogs` against a session that receives its bytes in pieces of several sizes.

mod scripted;

use std::fs;
use std::path::Path;

use mailapi_testkit::dialog::Dialog;
use scripted::ScriptedHost;

#[test]
fn every_dialog_goes_as_written() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/dialogs");
    let mut failures = Vec::new();
    let mut played = 0;
    for entry in fs::read_dir(folder).expect("the folder of dialogs") {
        let path = entry.expect("a dialog").path();
        let name = path.file_name().unwrap_or_default().display().to_string();
        let text = fs::read_to_string(&path).expect("a dialog is text");
        let dialog = Dialog::parse(&text).unwrap_or_else(|what| panic!("{name}, {what}"));
        for chunk in [usize::MAX, 1, 7] {
            let mut host = ScriptedHost::new(&dialog.settings, chunk);
            if let Err(what) = dialog.play(&mut host) {
                failures.push(format!("{name} in pieces of {chunk}, {what}"));
            }
        }
        played += 1;
    }
    assert!(played > 0, "no dialog was found");
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
