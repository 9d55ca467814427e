//! PyTorch checkpoints, and new ones.

use std::fs;
use std::path::Path;

use super::{Session, weights};

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
    // Metadata is kept if the format has a place for it.
    let output = session.run(&["convert", "checkpoint.pt", "checkpoint.safetensors"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let info = String::from_utf8(session.run(&["info", "checkpoint.safetensors"]).stdout).unwrap();
    assert!(info.contains("epoch"), "{info}");
}

#[test]
fn tensors_of_other_kinds_can_be_left_out() {
    let session = session();
    let listed = String::from_utf8(session.run(&["ls", "--diffable", "unknown.pt"]).stdout).unwrap();
    assert!(
        listed.contains("quantized torch.qint8 (quantized, scale 0.5, zero point 10)[2, 3] of unknown dtype 6\n"),
        "{listed}"
    );
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
    // Dense tensors, of which the others consist, can be kept.
    let (parts, names): (Vec<&str>, Vec<&str>) = names.into_iter().partition(|name| name.contains("indices"));
    assert_eq!((parts.len(), &names[..2]), (12, &["bsc.values", "bsr.values"][..]));
    assert!(["first", "last", "lists.1", "middle"].iter().all(|name| names.contains(name)), "{names:?}");
}

#[test]
fn they_are_written() {
    let session = session();
    session.write("plain.ptd", &[("a.weight", weights(&[5, 3])), ("a.bias", weights(&[5]))].into_iter().collect());
    let digest = |name: &str| {
        let output = session.run(&["hash", name]);
        assert!(output.status.success());
        String::from_utf8(output.stdout).unwrap().split_whitespace().next().unwrap().to_owned()
    };
    for target in ["new.pt", "new.pth", "new.bin"] {
        let output = session.run(&["convert", "plain.ptd", target]);
        assert!(output.status.success(), "{output:?}");
        assert_eq!(digest(target), digest("plain.ptd"), "{target}");
        let listed = String::from_utf8(session.run(&["info", target]).stdout).unwrap();
        assert!(listed.contains("pytorch"), "{listed}");
    }
    // The bytes do not depend on the path.
    let piped = session.run(&["convert", "plain.ptd", "-", "--to", "pytorch"]).stdout;
    assert_eq!(piped, fs::read(session.path("new.pt")).unwrap());
}

#[test]
fn what_is_not_a_checkpoint_is_refused_by_name() {
    let session = session();
    let output = session.run(&["ls", "script.pt"]);
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success() && message.contains("this is TorchScript"), "{message}");
    // An object of another class is left out.
    let output = session.run(&["ls", "namespace.pt"]);
    assert!(output.status.success() && String::from_utf8(output.stdout).unwrap().contains("model.embed.weight"));
}

#[test]
fn other_values_make_other_digests() {
    let session = session();
    let cases = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures/cases");
    for (name, file) in [("a.pt", "quantized-a.pt"), ("b.pt", "quantized-b.pt")] {
        fs::copy(cases.join("check-passes-unread").join(file), session.path(name)).unwrap();
    }
    // The elements are equal, and the scale is not.
    let hash = |file: &str| String::from_utf8(session.run(&["hash", file]).stdout).unwrap()[..64].to_owned();
    assert_ne!(hash("a.pt"), hash("b.pt"));
    assert_eq!(session.run(&["diff", "a.pt", "b.pt"]).status.code(), Some(1));
    assert_eq!(session.run(&["diff", "a.pt", "a.pt"]).status.code(), Some(0));
    // Conjugates are not the numbers that are stored.
    fs::copy(cases.join("pt-conj-neg/zip.pt"), session.path("conj.pt")).unwrap();
    let shown = String::from_utf8(session.run(&["show", "conj.pt", "conj"]).stdout).unwrap();
    assert!(shown.contains("1.-2.j") && shown.contains("3.-4.j"), "{shown}");
    let stats = String::from_utf8(session.run(&["stats", "conj.pt", "--filter", "neg"]).stdout).unwrap();
    assert!(stats.contains("-3") && stats.contains("-1"), "{stats}");
    for target in ["conj.safetensors", "conj.npz"] {
        assert!(session.run(&["convert", "conj.pt", target]).status.success());
        assert_eq!(session.run(&["diff", "conj.pt", target]).status.code(), Some(0), "{target}");
        let shown = String::from_utf8(session.run(&["show", target, "neg"]).stdout).unwrap();
        assert!(shown.contains("-1") && shown.contains("-3"), "{shown}");
    }
}

#[test]
fn transformers_takes_what_is_converted() {
    let session = session();
    for (source, target) in [("state_dict.pt", "a.safetensors"), ("legacy.pth", "b.safetensors")] {
        assert!(session.run(&["convert", source, target]).status.success());
        let file = tensorfile::File::open(session.path(target)).unwrap();
        assert_eq!(file.metadata().unwrap().entries["format"], "pt");
    }
    // Other formats do without, and without a note.
    let output = session.run(&["convert", "state_dict.pt", "a.ptd"]);
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "");
    let file = tensorfile::File::open(session.path("a.ptd")).unwrap();
    assert!(file.metadata().unwrap().entries.is_empty());
}

#[test]
fn an_unzipped_checkpoint_is_recognized() {
    let session = session();
    fs::create_dir_all(session.path("model/data")).unwrap();
    fs::write(session.path("model/data.pkl"), "").unwrap();
    for command in [&["ls", "model"][..], &["verify", "model"], &["convert", "model", "new.ptd"]] {
        let output = session.run(command);
        let message = [output.stdout, output.stderr].concat();
        let message = String::from_utf8(message).unwrap();
        assert!(!output.status.success() && message.contains("that was unzipped"), "{command:?}: {message}");
    }
}
