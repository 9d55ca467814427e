use serde_json::Value;
use tensorfile::{CooTensor, Tensor, TensorMap};

use super::{Session, model, sparse, weights};

/// Returns the model with a change of every kind.
fn changed() -> TensorMap {
    let mut changed = model();
    changed.remove("none");
    changed.insert("new.bias", weights(&[4]));
    let mut numbers: Vec<f32> = bytemuck::pod_collect_to_vec(changed["head.weight"].as_bytes());
    numbers[17] += 0.5;
    numbers[63] = 0.0;
    changed.insert("head.weight", Tensor::from_slice(&numbers, [4, 16]).unwrap());
    changed.insert("steps", Tensor::from_slice(&[1234.0_f64], []).unwrap());
    changed.insert("mask", Tensor::from_slice(&[true, false, true, true, true, false], [2, 3]).unwrap());
    let halves = [0.1, f32::NAN, 1.0, -2.25].map(half::f16::from_f32);
    changed.insert("halves", Tensor::from_slice(&halves, [4]).unwrap());
    changed.insert("encoder.layer.0.attention.bias", weights(&[4, 6]));
    changed
}

fn session() -> Session {
    let session = Session::new();
    session.write("changed.ptd", &changed());
    session
}

#[test]
fn prints_differences() {
    let session = session();
    insta::assert_snapshot!(session.transcript(&[
        "diff model.ptd model.ptd",
        "diff model.ptd changed.ptd",
        "diff --no-values model.ptd changed.ptd",
        "diff --names-only model.ptd changed.ptd",
        "diff --ignore-dtype --filter steps model.ptd changed.ptd",
        "diff --atol 0.5 --filter head.* model.ptd changed.ptd",
        "diff --quiet model.ptd changed.ptd",
        "diff --atol -1 model.ptd changed.ptd",
        "diff - -",
    ]));
}

#[test]
fn prints_json() {
    let session = session();
    insta::assert_snapshot!(session.transcript(&[
        "diff --json --filter h* --filter new* model.ptd changed.ptd",
        "diff --json model.ptd model.ptd"
    ]));
}

#[test]
fn reports_tensors_that_cannot_be_compared() {
    let session = session();
    let mut other = sparse();
    let entries = CooTensor::new([3, 300], vec![2, 299, 1, 0, 0, 2], vec![-2.0_f32, 0.5, 1.0]).unwrap();
    other.insert("0", entries.to_tensor());
    session.write("other.btf", &other);
    let dense: TensorMap = [("w", weights(&[3, 300])), ("bias", weights(&[2, 3]))].into_iter().collect();
    session.write("dense.ptd", &dense);
    session.write(
        "bits.npz",
        &[("packed", Tensor::from_slice(&[0x21_u8, 0x43, 0xff], [3]).unwrap())].into_iter().collect(),
    );
    insta::assert_snapshot!(session.transcript(&[
        "diff --ignore-dtype --filter packed model.ptd bits.npz",
        "diff sparse.btf other.btf",
        "diff sparse.btf dense.ptd",
        "diff --by-position sparse.btf dense.ptd",
    ]));
}

#[test]
fn compares_metadata_on_request() {
    let session = session();
    let format = tensorfile::FORMATS.iter().find(|format| format.name == "safetensors").unwrap();
    for (name, entries) in
        [("a.safetensors", [("epoch", "1"), ("by", "me")]), ("b.safetensors", [("epoch", "2"), ("to", "you")])]
    {
        let entries = entries.map(|(key, value)| (key.to_owned(), value.to_owned())).into_iter().collect();
        let options = tensorfile::WriteOptions::new().metadata(entries);
        std::fs::write(session.path(name), format.to_vec(&dense(), &options).unwrap()).unwrap();
    }
    insta::assert_snapshot!(session.transcript(&[
        "diff a.safetensors b.safetensors",
        "diff --metadata a.safetensors b.safetensors",
        "diff --metadata --quiet a.safetensors b.safetensors",
    ]));
}

fn dense() -> TensorMap {
    [("w", weights(&[2, 3]))].into_iter().collect()
}

/// The tensors have more pieces than are read ahead, and dtypes of different sizes.
#[test]
fn compares_large_tensors_in_pieces() {
    let session = Session::new();
    let (rows, columns) = (1000, 1500);
    let numbers: Vec<u16> = (0..rows * columns).map(|at| u16::try_from(at % 50_000).unwrap()).collect();
    let mut wide: Vec<f64> = numbers.iter().copied().map(f64::from).collect();
    session.write("a.npz", &[("w", Tensor::from_slice(&numbers, [rows, columns]).unwrap())].into_iter().collect());
    session.write("b.ptd", &[("w", Tensor::from_slice(&wide, [rows, columns]).unwrap())].into_iter().collect());
    let output = session.run(&["diff", "--ignore-dtype", "a.npz", "b.ptd"]);
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "1 tensor equal\n");

    wide[750 * columns + 7] += 1.0;
    session.write("b.ptd", &[("w", Tensor::from_slice(&wide, [rows, columns]).unwrap())].into_iter().collect());
    let output = session.run(&["diff", "--json", "a.npz", "b.ptd"]);
    assert_eq!(output.status.code(), Some(1));
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    let values = &found["tensors"][0]["values"];
    assert_eq!(values["differing"], 1);
    assert_eq!(values["of"], rows * columns);
    assert_eq!(values["first"]["index"], serde_json::json!([750, 7]));
    for quiet in [("b.ptd", 1), ("a.npz", 0)] {
        assert_eq!(session.run(&["diff", "--quiet", "a.npz", quiet.0]).status.code(), Some(quiet.1));
    }
}

/// Tensors of one name are pairs where they have the same position.
#[test]
fn compares_repeated_names() {
    use tensorfile::ten;

    let session = Session::new();
    let mut file = Vec::new();
    let mut encoder = ten::Encoder::new(&mut file);
    for value in [1.0_f32, 2.0] {
        encoder.encode("x", &ndarray::arr1(&[value])).unwrap();
    }
    std::fs::write(session.path("twice.ten"), file).unwrap();
    let output = session.run(&["diff", "twice.ten", "twice.ten"]);
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "2 tensors equal\n");
}

#[test]
fn ignores_memory_order() {
    use tensorfile::{Dtype, Layout, TensorInfo, ptd};

    let session = Session::new();
    let by_columns =
        TensorInfo { layout: Layout::from_dim_order(&[1, 0]).unwrap(), ..TensorInfo::new(Dtype::U8, [2, 3]) };
    let columns: TensorMap = [("w", Tensor::new(by_columns, &[1, 4, 2, 5, 3, 6]).unwrap())].into_iter().collect();
    let rows: TensorMap = [("w", Tensor::from_slice(&[1_u8, 2, 3, 4, 5, 7], [2, 3]).unwrap())].into_iter().collect();
    let file = ptd::Options::new().keep_dim_order(true).to_vec(&columns).unwrap();
    std::fs::write(session.path("columns.ptd"), file).unwrap();
    session.write("rows.ten", &rows);
    let output = session.run(&["diff", "columns.ptd", "rows.ten"]);
    let expected =
        "~  w  1 of 6 differs; max abs 1, max rel 0.142857 at [1, 2]: 6 -> 7\n0 tensors equal, 1 different\n";
    assert_eq!(String::from_utf8(output.stdout).unwrap(), expected);
}
