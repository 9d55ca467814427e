//! Files with a tensor of an unknown dtype.

use super::Session;

/// Writes a safetensors file of two tensors. The first has the dtype `F99`.
pub fn write(session: &Session, name: &str, first: u8) {
    let json = r#"{"a":{"dtype":"F99","shape":[2,2],"data_offsets":[0,3]},"b":{"dtype":"U8","shape":[1],"data_offsets":[3,4]}}"#;
    let bytes = [&(json.len() as u64).to_le_bytes(), json.as_bytes(), &[first, 2, 3, 4]].concat();
    std::fs::write(session.path(name), bytes).unwrap();
}

#[test]
fn tensors_of_unknown_dtypes_are_listed_and_can_be_left_out() {
    let session = Session::new();
    write(&session, "new.safetensors", 1);
    write(&session, "other.safetensors", 9);
    let run = |arguments: &[&str]| {
        let output = session.run(arguments);
        let [out, err] = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
        (output.status.code(), out, err)
    };
    let (code, out, _) = run(&["ls", "--diffable", "new.safetensors"]);
    assert_eq!((code, out.as_str()), (Some(0), "a F99[2, 2] of unknown dtype 3\nb u8[1] 1\n"));
    let (code, out, _) = run(&["ls", "--json", "new.safetensors"]);
    let listed: serde_json::Value = serde_json::from_str(&out).unwrap();
    let first = &listed[0]["tensors"][0];
    assert_eq!((code, &first["dtype"], &first["layout"]), (Some(0), &"F99".into(), &"unknown".into()));
    let (code, out, _) = run(&["info", "new.safetensors"]);
    assert!(code == Some(0) && out.contains("F99: 1 tensor"), "{out}");
    let warning = "1 tensor cannot be read, because of an unknown dtype; the first is `a`, F99[2, 2] of unknown dtype";
    let (code, out, _) = run(&["verify", "--payload", "new.safetensors"]);
    assert!(code == Some(0) && out.contains(warning), "{out}");
    assert_eq!(run(&["verify", "--strict", "new.safetensors"]).0, Some(1));

    let (code, _, err) = run(&["show", "new.safetensors", "a"]);
    assert!(code == Some(2) && err.contains("cannot show elements of `a`, F99[2, 2] of unknown dtype"), "{err}");
    assert_eq!(run(&["show", "new.safetensors", "a", "--format", "raw"]).1, "\u{1}\u{2}\u{3}");
    assert_eq!(run(&["stats", "new.safetensors"]).0, Some(0));
    assert_eq!(run(&["hash", "new.safetensors"]).0, Some(0));
    assert_eq!(run(&["diff", "new.safetensors", "new.safetensors"]).0, Some(0));
    let (code, out, _) = run(&["diff", "new.safetensors", "other.safetensors"]);
    assert!(code == Some(1) && out.contains("a  1 of 3 differs"), "{out}");

    for target in ["new.npz", "copy.ptd"] {
        let (code, _, err) = run(&["convert", "new.safetensors", target]);
        assert!(
            code == Some(2) && err.contains("cannot store the tensor `a`, whose dtype is unknown; --lossy"),
            "{err}"
        );
        assert!(!session.path(target).exists());
        let (code, _, err) = run(&["convert", "new.safetensors", target, "--lossy"]);
        assert!(code == Some(0) && err.contains("dropped the tensor `a`, whose dtype is unknown"), "{err}");
        assert_eq!(run(&["ls", "--diffable", target]).1, "b u8[1] 1\n");
        let (code, _, err) = run(&["convert", "--filter", "!a", "new.safetensors", target]);
        assert_eq!(code, Some(0), "{err}");
        assert_eq!(run(&["ls", "--diffable", target]).1, "b u8[1] 1\n");
    }
}

#[test]
fn the_format_of_the_file_writes_them_again() {
    let session = Session::new();
    write(&session, "new.safetensors", 1);
    let run = |arguments: &[&str]| {
        let output = session.run(arguments);
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned())
    };
    let payload = |file: &str| run(&["show", file, "a", "--format", "raw"])[0].clone();
    let listed = |file: &str| run(&["ls", "--diffable", file])[0].clone();
    let both = "a F99[2, 2] of unknown dtype 3\nb u8[1] 1\n";
    for arguments in [
        &["convert", "new.safetensors", "copy.safetensors"][..],
        &["convert", "new.safetensors", "copy.safetensors", "--lossy"],
        &["convert", "new.safetensors", "copy.safetensors", "--dtype", "u8=i16"],
        &["convert", "new.safetensors", "copy.safetensors", "--rename", "b=c"],
        &["edit", "new.safetensors", "--set", "k=v", "-o", "copy.safetensors"],
    ] {
        let [_, err] = run(arguments);
        assert!(!err.contains("dropped"), "{err}");
        assert_eq!(payload("copy.safetensors"), "\u{1}\u{2}\u{3}", "{arguments:?}");
        assert!(listed("copy.safetensors").starts_with("a F99[2, 2] of unknown dtype 3\n"), "{arguments:?}");
        std::fs::remove_file(session.path("copy.safetensors")).unwrap();
    }
    run(&["split", "new.safetensors", "--by-prefix", "1"]);
    assert_eq!(listed("new-a.safetensors"), "a F99[2, 2] of unknown dtype 3\n");
    run(&["merge", "new-a.safetensors", "new-b.safetensors", "-o", "merged.safetensors"]);
    assert_eq!(
        (listed("merged.safetensors").as_str(), payload("merged.safetensors").as_str()),
        (both, "\u{1}\u{2}\u{3}")
    );
    run(&["convert", "--filter", "a", "new.safetensors", "only.safetensors"]);
    assert_eq!(listed("only.safetensors"), "a F99[2, 2] of unknown dtype 3\n");
    run(&["split", "new.safetensors", "--max-shard-size", "3B", "--out", "shards.safetensors"]);
    assert_eq!(listed("shards.safetensors.index.json"), both);
    assert_eq!(session.run(&["diff", "new.safetensors", "merged.safetensors"]).status.code(), Some(0));
}

#[test]
fn generated_structs_leave_them_out() {
    let session = Session::new();
    write(&session, "new.safetensors", 1);
    let output = session.run(&["codegen", "new.safetensors"]);
    assert_eq!(
        String::from_utf8(output.stdout).unwrap(),
        r#"use tensorfile::TensorFile;
use tensorfile::ndarray::Array1;

/// The tensors of `new.safetensors`, by `tensorfile codegen`.
///
/// `tensorfile::load::<Model>("new.safetensors")` loads them.
///
/// Without `a`, whose elements cannot be read.
#[derive(Debug, TensorFile)]
#[tensor(allow_unknown)]
pub struct Model {
    /// `u8[1]`
    pub b: Array1<u8>,
}
"#
    );

    #[derive(tensorfile::TensorFile)]
    #[tensor(allow_unknown)]
    struct Model {
        b: ndarray::Array1<u8>,
    }
    let model: Model = tensorfile::load(session.path("new.safetensors")).unwrap();
    assert_eq!(model.b, ndarray::array![4]);
}

/// Other tensors are matched by position, and a struct without fields loads nothing.
#[test]
fn generated_structs_have_their_bytes_where_nothing_can_be_left_out() {
    let session = Session::new();
    write(&session, "new.safetensors", 1);
    let one = ["convert", "new.safetensors", "only.safetensors", "--filter", "a"];
    assert_eq!(session.run(&one).status.code(), Some(0));
    let expected = r#"/// `tensorfile::load::<Model>("FILE")` loads them.
#[derive(Debug, TensorFile)]
pub struct Model {
    /// `SHAPE` of unknown dtype: bytes only
    pub NAME: Tensor,
}
"#;
    let npy = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/fixtures/numpy/mixed_names.npy");
    for (file, name, shape) in [("only.safetensors", "a", "[2, 2]"), (npy, "t0", "[3]")] {
        let output = session.run(&["codegen", "--shapes", "--cast", "f32", file]);
        let code = String::from_utf8(output.stdout).unwrap();
        let expected = expected.replace("FILE", file).replace("NAME", name).replace("SHAPE", shape);
        assert!(code.starts_with("use tensorfile::{Tensor, TensorFile};\n") && code.ends_with(&expected), "{code}");
    }

    #[derive(tensorfile::TensorFile)]
    struct Named {
        a: tensorfile::Tensor,
    }
    #[derive(tensorfile::TensorFile)]
    struct ByPosition {
        t0: tensorfile::Tensor,
    }
    let named: Named = tensorfile::load(session.path("only.safetensors")).unwrap();
    assert_eq!(named.a.as_bytes(), [1, 2, 3]);
    let by_position: ByPosition = tensorfile::load(npy).unwrap();
    assert_eq!(by_position.t0.as_bytes().len(), 3 * 5 * 4);
}
