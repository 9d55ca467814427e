use tensorfile::{TensorMap, WriteOptions, npz};

use super::{Session, file_of, weights};

#[test]
fn describes_files() {
    let session = Session::new();
    insta::assert_snapshot!(session.transcript(&[
        "info model.ptd",
        "info --bytes sparse.btf",
        "info --json model.ptd"
    ]));
}

#[test]
fn describes_how_bytes_are_stored() {
    let session = Session::new();
    let zeros: TensorMap =
        [("a", ndarray::Array2::<f32>::zeros((100, 100))), ("b", ndarray::Array2::zeros((1, 0)))].into_iter().collect();
    std::fs::write(session.path("deflated.npz"), npz::Options::new().compress(true).to_vec(&zeros).unwrap()).unwrap();
    let numbers: TensorMap = [("0", weights(&[3]))].into_iter().collect();
    let file = file_of(tensorfile::Format::named("npy").unwrap(), &numbers);
    let swapped: Vec<u8> = file.into_iter().map(|byte| if byte == b'<' { b'>' } else { byte }).collect();
    std::fs::write(session.path("big.npy"), swapped).unwrap();
    let save = tensorfile::SaveOptions::new().write(WriteOptions::new()).max_shard_bytes(12_000);
    save.save(
        session.path("sharded.safetensors"),
        &[("a", weights(&[50, 50])), ("b", weights(&[50, 50]))].into_iter().collect::<TensorMap>(),
    )
    .unwrap();

    insta::assert_snapshot!(session.transcript(&[
        "info deflated.npz",
        "info big.npy",
        "info sharded.safetensors.index.json",
        "info --json big.npy",
    ]));
}
