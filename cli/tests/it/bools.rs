//! A numpy file with the bytes 255, 255, 0 and 1 as bools: every command must read them as the same values.

use tensorfile::{Tensor, TensorMap};

use super::Session;

fn case(name: &str) -> Vec<u8> {
    std::fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/fixtures/cases/").to_owned() + name).unwrap()
}

#[test]
fn every_command_reads_any_byte_but_0_as_true() {
    let session = Session::new();
    std::fs::write(session.path("a.npy"), case("bool-255/a.npy")).unwrap();
    let right: TensorMap = [("0", Tensor::from_slice(&[true, true, false, true], [4]).unwrap())].into_iter().collect();
    session.write("right.npy", &right);
    insta::assert_snapshot!(session.transcript(&[
        "stats a.npy",
        "show a.npy",
        "show --slice 0:2 a.npy",
        "diff a.npy right.npy",
        "verify --strict --payload a.npy",
        "convert a.npy b.npy",
        "convert a.npy c.safetensors",
        "verify --payload b.npy c.safetensors",
    ]));
    assert_eq!(std::fs::read(session.path("b.npy")).unwrap(), std::fs::read(session.path("right.npy")).unwrap());
    let hash = |name: &str| session.run(&["hash", "--tensors", name]).stdout;
    assert_eq!(hash("a.npy"), hash("right.npy"));
    let stream = session.run_with_input(&["stats", "-"], &case("bool-255/a.npy"));
    let stats = String::from_utf8(session.run(&["stats", "a.npy"]).stdout).unwrap();
    assert_eq!(String::from_utf8(stream.stdout).unwrap(), stats);
}

#[test]
fn other_bytes_are_an_error_of_every_command_that_reads_them() {
    let session = Session::new();
    session.write("a.safetensors", &[("a", Tensor::from_slice(&[true; 4], [4]).unwrap())].into_iter().collect());
    let mut file = std::fs::read(session.path("a.safetensors")).unwrap();
    let last = file.len() - 2;
    file[last] = 255;
    std::fs::write(session.path("a.safetensors"), &file).unwrap();
    let expected =
        format!("safetensors: tensor `a`: element 2 is the byte 255, which is not a bool (at byte {last})\n");
    for arguments in [
        &["stats", "a.safetensors"][..],
        &["show", "a.safetensors", "a"],
        &["hash", "a.safetensors"],
        &["hash", "--tensors", "a.safetensors"],
        &["verify", "--payload", "a.safetensors"],
        &["convert", "a.safetensors", "b.npz"],
    ] {
        let output = session.run(arguments);
        let text = String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap();
        assert!(text.ends_with(&expected), "{arguments:?}: {text}");
        assert_eq!(output.status.code(), Some(4), "{arguments:?}");
    }
    std::fs::copy(session.path("a.safetensors"), session.path("b.safetensors")).unwrap();
    let output = session.run(&["diff", "a.safetensors", "b.safetensors"]);
    assert_eq!(output.status.code(), Some(4), "{output:?}");
    // What reads no elements lists it.
    assert!(session.run(&["ls", "a.safetensors"]).status.success());
}
