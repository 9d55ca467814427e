//! What is left when the program is stopped while it writes a file.

use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

use tensorfile::TensorMap;

use crate::{Session, weights};

/// Returns a session with a file whose conversion takes a while, and an old file to replace.
fn session() -> Session {
    let session = Session::new();
    let weights = weights(&[8 << 20]);
    session.write("large.ten", &[("a", weights.clone()), ("b", weights)].into_iter().collect::<TensorMap>());
    std::fs::write(session.path("out.safetensors"), "old").unwrap();
    session
}

fn convert(session: &Session) -> Child {
    session.command(&["convert", "large.ten", "out.safetensors"]).spawn().unwrap()
}

/// Returns the names of the files that are not those of the session.
fn left(session: &Session) -> Vec<String> {
    let names = std::fs::read_dir(session.folder.path()).unwrap();
    let mut names: Vec<String> = names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.retain(|name| !["model.ptd", "sparse.btf", "large.ten", "out.safetensors"].contains(&name.as_str()));
    names
}

fn send(signal: &str, child: &Child) {
    assert!(Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap().success());
}

/// Sends a signal once there is a temporary file; `None` if the program was faster.
fn interrupted(session: &Session, signal: &str) -> Option<ExitStatus> {
    let mut child = convert(session);
    let limit = Instant::now() + Duration::from_secs(60);
    while left(session).is_empty() {
        if let Some(status) = child.try_wait().unwrap() {
            assert!(status.success() && Instant::now() < limit);
            return None;
        }
    }
    send(signal, &child);
    let status = child.wait().unwrap();
    (!status.success()).then_some(status)
}

#[test]
fn sigint_and_sigterm_remove_temporary_files() {
    let session = session();
    for (signal, code) in [("-INT", 130), ("-TERM", 143)] {
        let status = (0..20).find_map(|_| {
            std::fs::write(session.path("out.safetensors"), "old").unwrap();
            interrupted(&session, signal)
        });
        assert_eq!(status.unwrap().code(), Some(code));
        assert_eq!(std::fs::read(session.path("out.safetensors")).unwrap(), b"old");
        assert_eq!(left(&session), [""; 0]);
    }
}

#[test]
fn a_save_removes_what_killed_ones_left() {
    let session = session();
    let mut killed = 0;
    assert!(convert(&session).wait().unwrap().success());
    let new = std::fs::read(session.path("out.safetensors")).unwrap();
    std::fs::write(session.path("out.safetensors"), "old").unwrap();
    for round in 0..60 {
        let mut child = convert(&session);
        std::thread::sleep(Duration::from_millis(round * 7 % 61));
        // It may have ended.
        let _ = child.kill();
        killed += usize::from(!child.wait().unwrap().success());
        let content = std::fs::read(session.path("out.safetensors")).unwrap();
        assert!(content == b"old" || content == new, "round {round}");
        assert!(left(&session).len() <= 1, "{:?}", left(&session));
    }
    assert!(killed > 0);
    assert!(convert(&session).wait().unwrap().success());
    assert_eq!(left(&session), [""; 0]);
}

#[test]
fn a_limit_of_the_file_size_is_an_error() {
    let session = session();
    let program = env!("CARGO_BIN_EXE_tensorfile");
    let script = format!("ulimit -f 100; exec '{program}' convert large.ten out.safetensors");
    let output = Command::new("sh").args(["-c", &script]).current_dir(session.folder.path()).output().unwrap();
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(3), "{message}");
    assert!(message.starts_with("tensorfile: out.safetensors: ") && message.contains("File too large"), "{message}");
    assert_eq!(std::fs::read(session.path("out.safetensors")).unwrap(), b"old");
    assert_eq!(left(&session), [""; 0]);
}

#[test]
fn charts_and_manual_pages_are_replaced_as_a_whole() {
    let session = Session::new();
    for name in ["chart.svg", "man/tensorfile-ls.1"] {
        let path = session.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, "old").unwrap();
        // Another name of the old file shows whether it was written to.
        std::fs::hard_link(&path, path.with_extension("other")).unwrap();
    }
    for arguments in [["stats", "model.ptd", "--plot", "chart.svg"].as_slice(), &["man", "--out", "man"]] {
        assert!(session.run(arguments).status.success(), "{arguments:?}");
    }
    for name in ["chart", "man/tensorfile-ls"] {
        assert_eq!(std::fs::read(session.path(&format!("{name}.other"))).unwrap(), b"old");
    }
    assert!(std::fs::read(session.path("chart.svg")).unwrap().starts_with(b"<svg"));
    assert!(std::fs::read(session.path("man/tensorfile-ls.1")).unwrap().len() > 100);
    for folder in [session.path(""), session.path("man")] {
        let mut names = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
        assert!(names.all(|name| !name.to_str().unwrap().ends_with(".tmp")));
    }
}
