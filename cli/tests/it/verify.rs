use tensorfile::{CooTensor, Tensor, TensorMap};

use super::{Session, model};

#[test]
fn reports_problems() {
    let session = Session::new();
    std::fs::write(session.path("junk.ptd"), "hello, hello").unwrap();
    let file = std::fs::read(session.path("model.ptd")).unwrap();
    std::fs::write(session.path("cut.ptd"), &file[..file.len() - 1]).unwrap();
    insta::assert_snapshot!(session.transcript(&[
        "verify model.ptd sparse.btf",
        "verify model.ptd junk.ptd cut.ptd missing.ptd",
        "verify --json junk.ptd sparse.btf",
        "verify --payload model.ptd sparse.btf",
    ]));
}

#[test]
fn checks_payloads_on_request() {
    let session = Session::new();
    let bools: TensorMap = [("0", Tensor::from_slice(&[true; 9], [9]).unwrap())].into_iter().collect();
    session.write("bools.npy", &bools);
    let mut file = std::fs::read(session.path("bools.npy")).unwrap();
    let at = file.len() - 2;
    file[at] = 7;
    std::fs::write(session.path("bools.npy"), &file).unwrap();

    let sparse = CooTensor::new([3, 300], vec![2, 0x34], vec![1.5_f32]).unwrap();
    session.write("far.btf", &[("0", sparse.to_tensor())].into_iter().collect());
    let mut file = std::fs::read(session.path("far.btf")).unwrap();
    let at = file.windows(8).position(|bytes| bytes == 0x34_u64.to_le_bytes()).unwrap();
    file[at + 1] = 0x12;
    std::fs::write(session.path("far.btf"), &file).unwrap();

    insta::assert_snapshot!(session.transcript(&["verify bools.npy far.btf", "verify --payload bools.npy far.btf"]));
}

#[test]
fn checks_manifests_and_other_formats() {
    let session = Session::new();
    let mut changed = model();
    changed.insert("steps", super::weights(&[1]));
    session.write("changed.ptd", &changed);
    session.write("changed.npz", &[("steps", super::weights(&[1]))].into_iter().collect());
    std::fs::write(session.path("tensors"), session.run(&["hash", "--tensors", "model.ptd"]).stdout).unwrap();
    insta::assert_snapshot!(session.transcript(&[
        "verify --manifest tensors model.ptd changed.ptd",
        "verify --for ptd model.ptd",
        "verify --for btf model.ptd",
        "verify --for ten model.ptd",
        "verify --for npy model.ptd",
        "verify --for npy changed.npz",
        "verify --for safetensors sparse.btf",
        "verify --for ptd --strict sparse.btf",
        "verify --for tensorbuffers model.ptd",
    ]));
}

#[test]
fn remarks_on_what_the_reference_software_passes_over() {
    let session = Session::new();
    assert!(session.run(&["convert", "sparse.btf", "tfrt.btf", "--tfrt-coo"]).status.success());
    std::fs::write(session.path("zeros.btf"), [0; 4096]).unwrap();
    let name: TensorMap = [("a\0b", super::weights(&[1]))].into_iter().collect();
    std::fs::write(session.path("nul.tbs"), tensorfile::tensorbuffers::to_vec(&name).unwrap()).unwrap();
    insta::assert_snapshot!(session.transcript(&[
        "verify --for btf sparse.btf",
        "verify --for btf tfrt.btf",
        "verify zeros.btf",
        "verify --strict zeros.btf",
        "verify --for ptd nul.tbs",
    ]));
}

#[test]
fn strict_treats_warnings_as_problems() {
    let session = Session::new();
    // numpy pads the header so that elements are aligned; this one is not padded.
    let head = b"{'descr': '<f4', 'fortran_order': False, 'shape': (1,), } \n";
    let len = u16::try_from(head.len()).unwrap().to_le_bytes();
    let file = [b"\x93NUMPY\x01\x00", &len[..], head, &1.0_f32.to_le_bytes()].concat();
    assert_ne!(file.len() % 4, 0);
    std::fs::write(session.path("odd.npy"), file).unwrap();

    // The second record starts 100,000 bytes after the first.
    let two: TensorMap = [("0", super::weights(&[2])), ("1", super::weights(&[2]))].into_iter().collect();
    session.write("hole.btf", &two);
    let file = std::fs::read(session.path("hole.btf")).unwrap();
    let offset = u64::from_le_bytes(file[16..24].try_into().unwrap());
    let (first, second) = file.split_at(usize::try_from(offset).unwrap());
    let mut file = [first, &[0; 100_000], second].concat();
    file[16..24].copy_from_slice(&(offset + 100_000).to_le_bytes());
    std::fs::write(session.path("hole.btf"), file).unwrap();

    // Padding is not a gap, however large it is.
    let ptd = tensorfile::FORMATS.iter().find(|format| format.name == "ptd").unwrap();
    let aligned = ptd.to_vec(&two, &tensorfile::WriteOptions::new().alignment(1 << 16)).unwrap();
    std::fs::write(session.path("aligned.ptd"), aligned).unwrap();
    insta::assert_snapshot!(
        session.transcript(&["verify odd.npy hole.btf aligned.ptd", "verify --strict odd.npy hole.btf aligned.ptd",])
    );
}

#[test]
fn content_beats_the_extension() {
    let session = Session::new();
    for (name, format) in [("model.npz", "safetensors"), ("model.safetensors", "npz"), ("other.ptd", "safetensors")] {
        let map: TensorMap = [("bias", super::weights(&[2]))].into_iter().collect();
        std::fs::write(session.path(name), super::file_of(tensorfile::Format::named(format).unwrap(), &map)).unwrap();
    }
    insta::assert_snapshot!(session.transcript(&[
        "ls model.npz",
        "verify model.safetensors",
        "info other.ptd",
        "verify --from safetensors other.ptd",
        "ls --from ptd other.ptd",
    ]));
}

#[test]
fn groups_what_a_format_cannot_store() {
    let session = Session::new();
    let bools = |at: usize| (format!("mask.{at}"), Tensor::from_slice(&[true, false], [2]).unwrap());
    session.write("bools.safetensors", &(0..9).map(bools).collect());
    session.write("one.safetensors", &(0..1).map(bools).collect());
    insta::assert_snapshot!(session.transcript(&["verify --for ten bools.safetensors one.safetensors model.ptd"]));
    let output = session.run(&["verify", "--for", "ten", "--json", "bools.safetensors"]);
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json[0]["problems"].as_array().unwrap().len(), 9);
}
