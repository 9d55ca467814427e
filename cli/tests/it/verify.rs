use tensorfile::{CooTensor, Tensor, TensorMap};

use super::{Session, model, weights};

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
fn damage_that_costs_a_tensor_is_a_problem() {
    let session = Session::new();
    let cases = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures/cases");
    for (file, name) in
        [("ptd-damaged/segment_short.ptd", "short.ptd"), ("ptd-damaged/sizes_more_than_segment.ptd", "sizes.ptd")]
    {
        std::fs::copy(cases.join(file), session.path(name)).unwrap();
    }
    insta::assert_snapshot!(session.transcript(&[
        "verify short.ptd sizes.ptd",
        "verify --json short.ptd",
        "ls short.ptd",
        "show short.ptd b",
        "show short.ptd w",
        "convert short.ptd left.safetensors",
        "convert short.ptd left.safetensors --lossy",
        "ls left.safetensors",
        "codegen short.ptd",
    ]));
}

#[test]
fn checks_payloads_on_request() {
    let session = Session::new();
    let bools: TensorMap = [("0", Tensor::from_slice(&[true; 9], [9]).unwrap())].into_iter().collect();
    session.write("bools.safetensors", &bools);
    let mut file = std::fs::read(session.path("bools.safetensors")).unwrap();
    let at = file.len() - 2;
    file[at] = 7;
    std::fs::write(session.path("bools.safetensors"), &file).unwrap();

    let sparse = CooTensor::new([3, 300], vec![2, 0x34], vec![1.5_f32]).unwrap();
    session.write("far.btf", &[("0", sparse.to_tensor())].into_iter().collect());
    let mut file = std::fs::read(session.path("far.btf")).unwrap();
    let at = file.windows(8).position(|bytes| bytes == 0x34_u64.to_le_bytes()).unwrap();
    file[at + 1] = 0x12;
    std::fs::write(session.path("far.btf"), &file).unwrap();

    insta::assert_snapshot!(
        session.transcript(&["verify bools.safetensors far.btf", "verify --payload bools.safetensors far.btf"])
    );
}

#[test]
fn coordinates_outside_the_shape_are_found_without_payloads() {
    let session = Session::new();
    // More entries than are read at once, and the wrong one is the last.
    let entries = 70_000;
    let coordinates = (0..entries).flat_map(|at| [at % 3, at % 300]).collect();
    let sparse = CooTensor::new([3, 300], coordinates, vec![1.5_f32; 70_000]).unwrap();
    session.write("far.btf", &[("0", weights(&[2])), ("1", sparse.to_tensor())].into_iter().collect());
    let good = std::fs::read(session.path("far.btf")).unwrap();
    let output = session.run(&["verify", "far.btf"]);
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "far.btf: ok\n");

    let indices =
        good.windows(16).rposition(|bytes| bytes == [0_u64, 99].map(u64::to_le_bytes).as_flattened()).unwrap();
    let elements = 8 + 70_000 * 4;
    assert_eq!(indices, good.len() - elements - 16);
    for (axis, dim) in [3, 300].into_iter().enumerate() {
        // The last ones are inside the shape in fewer bits, or as offsets that wrap around.
        for found in [dim, 1 << 62, u64::MAX, (1 << 32) + 1, (1 << 63) + 1, 300_u64.wrapping_neg()] {
            let mut file = good.clone();
            let at = indices + axis * 8;
            file[at..at + 8].copy_from_slice(&found.to_le_bytes());
            std::fs::write(session.path("far.btf"), &file).unwrap();
            let message = format!("index {found} of coordinate 69999 is outside dim {axis}, which is {dim}");
            let expected = format!("far.btf: btf: tensor `#1`: {message} (at byte {at})\n");
            for arguments in [&["verify", "far.btf"][..], &["verify", "--payload", "far.btf"]] {
                let output = session.run(arguments);
                assert_eq!(String::from_utf8(output.stdout).unwrap(), expected, "{arguments:?}");
                assert_eq!(output.status.code(), Some(4), "{arguments:?}");
            }
        }
    }
}

#[test]
fn checks_manifests_and_other_formats() {
    let session = Session::new();
    let mut changed = model();
    changed.insert("steps", weights(&[1]));
    session.write("changed.ptd", &changed);
    session.write("changed.npz", &[("steps", weights(&[1]))].into_iter().collect());
    std::fs::write(session.path("tensors"), session.run(&["hash", "--tensors", "model.ptd"]).stdout).unwrap();
    insta::assert_snapshot!(session.transcript(&[
        "verify --manifest tensors model.ptd changed.ptd",
        "verify --manifest tensors sparse.btf",
        "hash --tensors --check tensors sparse.btf",
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
    let name: TensorMap = [("a\0b", weights(&[1]))].into_iter().collect();
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
    let two: TensorMap = [("0", weights(&[2])), ("1", weights(&[2]))].into_iter().collect();
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
        let map: TensorMap = [("bias", weights(&[2]))].into_iter().collect();
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
