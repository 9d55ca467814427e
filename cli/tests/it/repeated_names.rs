//! Streams with the same name for several tensors.

use serde_json::Value;
use tensorfile::{File, Tensor, TensorMap, ten};

use super::Session;

/// Adds `rep.ten`, whose tensors are named `a`, `b` and `a`.
fn session() -> Session {
    let session = Session::new();
    let stream = |numbers: &[(&str, f32)]| {
        let tensors = numbers.iter().map(|(name, number)| (*name, Tensor::from_slice(&[*number], [1]).unwrap()));
        ten::to_vec(&tensors.collect::<TensorMap>()).unwrap()
    };
    // A stream is a sequence of tensors, so two of them are one.
    let repeated = [stream(&[("a", 1.0), ("b", 2.0)]), stream(&[("a", 3.0)])].concat();
    std::fs::write(session.path("rep.ten"), repeated).unwrap();
    std::fs::write(session.path("other.ten"), stream(&[("c", 4.0)])).unwrap();
    session
}

#[test]
fn commands_say_what_can_be_done() {
    let session = session();
    insta::assert_snapshot!(session.transcript(&[
        "ls rep.ten",
        "show rep.ten #2",
        "show rep.ten a",
        "convert rep.ten x.ten",
        "convert rep.ten x.safetensors",
        "convert rep.ten x.btf",
        "convert rep.ten x.ten --rename b=c",
        "convert rep.ten x.ten --rename b=a",
        "convert rep.ten x.ten --rename a=c",
        "convert rep.ten x.ten --filter b",
        "append rep.ten other.ten",
        "append other.ten rep.ten",
        "append other.ten rep.ten --replace",
        "merge rep.ten other.ten x.ptd",
        "split rep.ten --by-prefix 1",
        "codegen rep.ten",
        "codegen --json rep.ten",
        "verify rep.ten other.ten",
        "verify --strict rep.ten",
    ]));
}

#[test]
fn positions_keep_all_tensors() {
    let session = session();
    for out in ["x.ten", "x.btf", "x.safetensors"] {
        let output = session.run(&["convert", "rep.ten", out, "--names", "index"]);
        assert!(output.status.success(), "{out}: {}", String::from_utf8_lossy(&output.stderr));
        let file = File::open(session.path(out)).unwrap();
        let numbers: Vec<f32> = (0..3).map(|at| file.array::<f32, ndarray::Ix1>(&at.to_string()).unwrap()[0]).collect();
        assert_eq!(numbers, [1.0, 2.0, 3.0], "{out}");
    }
}

#[test]
fn verify_lists_each_name_once() {
    let session = session();
    let file = std::fs::read(session.path("rep.ten")).unwrap();
    std::fs::write(session.path("rep.ten"), file.repeat(3)).unwrap();
    let output = session.run(&["verify", "--json", "rep.ten"]);
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json[0]["ok"], true);
    let expected = "tensors that have the same name can only be read by position: `a`, `b`";
    let expected = serde_json::json!({ "kind": "duplicate-name", "tensor": "a", "offset": null, "text": expected });
    assert_eq!(json[0]["warnings"], serde_json::json!([expected]));
}
