//! Names from untrusted files in messages: they must not control a terminal.

use tensorfile::TensorMap;
use tensorfile::file::load_tensor;

use crate::support::{folder, tensor, written_formats};

const NAMES: [&str; 4] = ["\x1b[2J", "a\nb", "\u{9b}1m", "a\0b"];

#[test]
fn control_characters_are_escaped() {
    let folder = folder(true);
    let mut seen = 0;
    for format in written_formats() {
        for name in NAMES {
            let map: TensorMap = [(name, tensor(format.dtypes[0], &[2]))].into_iter().collect();
            let path = folder.path().join(format!("file.{}", format.extensions[0]));
            let saved = tensorfile::save(&path, &map);
            let error = saved.and_then(|()| load_tensor(&path, "nowhere").map(drop)).unwrap_err();
            let message = error.to_string();
            assert!(!message.contains(char::is_control), "{}: {message:?}", format.name);
            // Formats without names show the position.
            seen += usize::from(message.contains(&name.escape_default().to_string()));
        }
    }
    assert!(seen >= NAMES.len(), "only {seen} messages have the name");
}
