//! `--max-memory`, and the checksums and names of archives.

use tensorfile::{TensorMap, WriteOptions, npy, npz};

use super::{Session, weights};

fn case(name: &str) -> Vec<u8> {
    std::fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/fixtures/cases/").to_owned() + name).unwrap()
}

#[test]
fn bounds_what_is_held_at_once() {
    let session = Session::new();
    let map: TensorMap = [("w", weights(&[100, 100])), ("b", weights(&[4]))].into_iter().collect();
    std::fs::write(session.path("w.npz"), npz::Options::new().compress(true).to_vec(&map).unwrap()).unwrap();
    let columns = weights(&[100, 100]).to_array::<f32>().unwrap().reversed_axes();
    let order = WriteOptions::new().keep_dim_order(true);
    std::fs::write(session.path("t.npy"), npy::FORMAT.to_vec(&columns, &order).unwrap()).unwrap();
    insta::assert_snapshot!(session.transcript(&[
        "hash --tensors --max-memory 10KB t.npy",
        "hash --tensors --max-memory 40KB t.npy",
        "show --max-memory 10KB w.npz w --slice :1,:",
        "--max-memory 10KB show w.npz b",
        "--max-memory 1GiB show w.npz w --slice :1,:3",
        "stats --max-memory 1KB w.npz",
        "verify --payload --max-memory 1KB w.npz",
        "ls --max-memory 0 w.npz",
    ]));
}

#[test]
fn every_checksum_and_local_name_is_verified() {
    let session = Session::new();
    for (path, name) in [
        ("check-passes-unread/flipped-bit.pt", "flipped-bit.pt"),
        ("check-passes-unread/no-checksums.pt", "no-checksums.pt"),
        ("zip-local-name/a.npz", "local.npz"),
        ("npz-one-bad-member/long-header.npz", "long-header.npz"),
        ("npz-one-bad-member/macos.npz", "macos.npz"),
        ("npz-member-names/none-ends-in-npy.npz", "names.npz"),
        ("npz-one-bad-member/python2-names.npy", "python2.npy"),
    ] {
        std::fs::write(session.path(name), case(path)).unwrap();
    }
    // The name of a member of PyTorch, in its local header alone.
    let mut file = case("check-passes-unread/no-checksums.pt");
    let name = file.windows(6).position(|text| text == b"data/0").unwrap();
    file[name + 5] = b'7';
    std::fs::write(session.path("local.pt"), file).unwrap();
    insta::assert_snapshot!(session.transcript(&[
        "verify --payload flipped-bit.pt",
        "verify --payload no-checksums.pt",
        "verify local.npz local.pt",
        "verify --payload long-header.npz macos.npz",
        "ls names.npz",
        "ls python2.npy",
        "convert macos.npz macos.safetensors",
        "convert --align 64 names.npz aligned.npz",
        "convert --align 128 names.npz aligned.npz",
    ]));
}
