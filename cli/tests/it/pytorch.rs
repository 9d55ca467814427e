//! Checkpoints of PyTorch, which are read but not written.

use std::fs;
use std::path::Path;

use super::Session;

fn session() -> Session {
    let session = Session::new();
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures/pytorch");
    for name in ["state_dict.pt", "legacy.pth", "views.pt", "checkpoint.pt", "namespace.pt", "script.pt", "unknown.pt"]
    {
        fs::copy(fixtures.join(name), session.path(name)).unwrap();
    }
    fs::copy(fixtures.join("state_dict.pt"), session.path("pytorch_model.bin")).unwrap();
    session
}

#[test]
fn every_command_reads_them() {
    let session = session();
    for (file, format) in
        [("state_dict.pt", "zip"), ("legacy.pth", "older"), ("pytorch_model.bin", "zip"), ("views.pt", "")]
    {
        for command in ["ls", "info", "stats", "verify", "hash", "codegen"] {
            let output = session.run(&[command, file]);
            let message = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(0), "{command} {file} ({format}): {message}");
        }
    }
    let listed = session.run(&["ls", "state_dict.pt"]);
    let listed = String::from_utf8(listed.stdout).unwrap();
    assert!(listed.contains("layers.1.weight") && listed.contains("[4, 3]"), "{listed}");
    let info = String::from_utf8(session.run(&["info", "checkpoint.pt"]).stdout).unwrap();
    assert!(info.contains("pytorch") && info.contains("epoch") && info.contains("0.01"), "{info}");
    let shown = session.run(&["show", "views.pt", "columns"]);
    let shown = String::from_utf8(shown.stdout).unwrap();
    assert!(shown.contains("19 20 21"), "{shown}");
}

#[test]
fn they_are_converted_to_other_formats() {
    let session = session();
    for source in ["state_dict.pt", "legacy.pth", "views.pt", "pytorch_model.bin"] {
        for target in ["model.ptd", "model.safetensors", "model.npz", "model.tbs"] {
            if source == "views.pt" && target == "model.tbs" {
                continue;
            }
            let output = session.run(&["convert", source, target]);
            assert!(output.status.success(), "{source}: {}", String::from_utf8_lossy(&output.stderr));
            let same = session.run(&["diff", source, target]);
            assert_eq!(same.status.code(), Some(0), "{source}: {}", String::from_utf8_lossy(&same.stdout));
            fs::remove_file(session.path(target)).unwrap();
        }
    }
    // Metadata is kept where there is room for it.
    let output = session.run(&["convert", "checkpoint.pt", "checkpoint.safetensors"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let info = String::from_utf8(session.run(&["info", "checkpoint.safetensors"]).stdout).unwrap();
    assert!(info.contains("epoch"), "{info}");
}

#[test]
fn tensors_of_other_kinds_can_be_left_out() {
    let session = session();
    let listed = String::from_utf8(session.run(&["ls", "--diffable", "unknown.pt"]).stdout).unwrap();
    assert!(listed.contains("quantized torch.qint8 (quantized)[2, 3] of unknown dtype 6\n"), "{listed}");
    assert!(listed.contains("coo torch.float64 (sparse_coo)[3, 5] of unknown dtype 0\n"), "{listed}");
    for command in ["info", "stats", "verify", "hash", "codegen"] {
        let output = session.run(&[command, "unknown.pt"]);
        let message = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{command}: {message}");
    }
    let refused = session.run(&["convert", "unknown.pt", "new.safetensors"]);
    assert_eq!(refused.status.code(), Some(2));
    let output = session.run(&["convert", "unknown.pt", "new.safetensors", "--lossy"]);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let listed = String::from_utf8(session.run(&["ls", "--diffable", "new.safetensors"]).stdout).unwrap();
    let names: Vec<&str> = listed.lines().map(|line| line.split(' ').next().unwrap()).collect();
    assert_eq!(names, ["first", "last", "lists.1", "middle"]);
}

#[test]
fn they_are_not_written() {
    let session = session();
    for target in ["new.pt", "new.pth"] {
        let output = session.run(&["convert", "model.ptd", target]);
        assert_eq!(output.status.code(), Some(2));
        assert_eq!(
            String::from_utf8(output.stderr).unwrap(),
            format!("tensorfile: {target}: pytorch files are only read; choose another format\n")
        );
        assert!(!session.path(target).exists());
    }
    let output = session.run(&["convert", "model.ptd", "new.bin", "--to", "pytorch"]);
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn what_is_not_a_checkpoint_is_refused_by_name() {
    let session = session();
    for (file, expected) in [("namespace.pt", "`argparse.Namespace`"), ("script.pt", "this is TorchScript")] {
        let output = session.run(&["ls", file]);
        let message = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && message.contains(expected), "{message}");
    }
}
