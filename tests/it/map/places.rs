//! Mapped files at other places: at URLs, in shards, and in the folders of trainers.

use std::collections::BTreeMap;

#[cfg(feature = "pytorch")]
use tensorfile::Layout;
use tensorfile::{File, LayoutMap, OpenOptions, Tensor};

use super::{case, folder, folders};

fn all(file: &File) -> BTreeMap<String, Tensor> {
    file.tensors().map(|tensor| (tensor.name().to_owned(), tensor.read().unwrap())).collect()
}

#[cfg(feature = "http")]
#[test]
fn files_at_urls_are_mapped_and_read_once() {
    use crate::support::server::Server;

    for path in folders("cases") {
        let map = LayoutMap::open(folder().join(case(&path).map)).unwrap();
        let expected = all(&File::open(path.join("right.safetensors")).unwrap());
        let bytes = std::fs::read(path.join("left.safetensors")).unwrap();
        let server = Server::new();
        server.put("/config.json", std::fs::read(path.join("config.json")).unwrap());
        let url = server.put("/left.safetensors", bytes.clone());
        let file = OpenOptions::new().map(&map).open(&url).unwrap();
        let opened = server.sent();
        assert_eq!(all(&file), expected, "{}", path.display());
        let (sent, held) = (server.sent() - opened, bytes.len());
        // The whole file was in the block that was read for its header, or each byte is sent once.
        assert!(sent <= held, "{}: {sent} of {held} bytes", path.display());
        for tensor in file.tensors() {
            let half: Vec<_> = tensor.shape().iter().map(|dim| dim / 2..*dim).collect();
            let (whole, part) = (&expected[tensor.name()], tensor.slice(&half).unwrap());
            let element = tensor.dtype().block_bytes();
            let last = |bytes: &[u8]| bytes[bytes.len().saturating_sub(element)..].to_vec();
            assert_eq!(last(part.as_bytes()), last(whole.as_bytes()), "{}", tensor.name());
        }
    }
}

#[cfg(feature = "http")]
#[test]
fn a_stacked_tensor_at_a_url_costs_its_bytes() {
    use crate::support::server::Server;

    let (experts, rows, columns) = (8, 256, 1024);
    let mut map = tensorfile::TensorMap::new();
    for e in 0..experts {
        let numbers = vec![u16::try_from(e).unwrap(); rows * columns];
        map.insert(format!("e.{e}.w"), Tensor::from_slice(&numbers, [rows, columns]).unwrap());
    }
    let server = Server::new();
    let url = server.put("/model.safetensors", tensorfile::safetensors::to_vec(&map).unwrap());
    let file = OpenOptions::new().map(&super::parse("e.{e}.w [r c] = w [e r c]")).open(&url).unwrap();
    let before = server.sent();
    let stacked = file.tensor("w").unwrap();
    let (sent, payload) = (server.sent() - before, stacked.as_bytes().len());
    assert!(sent <= payload + payload / 100, "{sent} bytes for {payload}");
    assert!(
        stacked
            .as_bytes()
            .chunks_exact(2 * rows * columns)
            .zip(0_u16..)
            .all(|(expert, e)| expert[..2] == e.to_le_bytes())
    );
    let before = server.sent();
    file.slice("w", &[2..3, 0..rows, 0..columns]).unwrap();
    let (sent, payload) = (server.sent() - before, 2 * rows * columns);
    assert!(sent <= payload + payload / 100, "{sent} bytes for {payload}");
}

/// Each matrix of a folder, turned and turned back.
#[cfg(feature = "pytorch")]
#[test]
fn chunks_of_trainers_are_mapped() {
    let folders = crate::support::root().join("tests/fixtures/dcp");
    let mut matrices = 0;
    for name in ["hugging_face_4", "old_2", "plain", "sharded_4"] {
        let path = folders.join(name);
        let plain = File::open(&path).unwrap();
        let is_matrix = |tensor: &tensorfile::file::FileTensor<'_>| {
            matches!(tensor.layout(), Layout::RowMajor | Layout::DimOrder(_)) && tensor.shape().rank() == 2
        };
        let is_written = |name: &str| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte));
        let names: Vec<&str> = plain
            .tensors()
            .filter(|tensor| is_matrix(tensor) && tensor.payload_bytes() > 0)
            .map(|tensor| tensor.name())
            .filter(|name| is_written(name))
            .collect();
        let mut text: String = names.iter().map(|name| format!("{name} [a b] = turned.{name} [b a]\n")).collect();
        text.push_str("keep *\n");
        let map = super::parse(&text);
        let Ok(turned) = OpenOptions::new().map(&map).open(&path) else {
            // Tensors whose elements cannot be moved are refused by name.
            let error = OpenOptions::new().map(&map).open(&path).unwrap_err().to_string();
            assert!(error.contains("cannot move the elements of"), "{name}: {error}");
            continue;
        };
        for name in names {
            let (stored, turned) = (plain.get(name).unwrap(), turned.get(&format!("turned.{name}")).unwrap());
            let element = stored.dtype().block_bytes();
            let mut rows = Vec::new();
            stored.write_row_major_to(&mut rows).unwrap();
            let [height, width] = [0, 1].map(|dim| stored.shape().dims()[dim]);
            let expected: Vec<u8> = (0..width)
                .flat_map(|column| (0..height).map(move |row| (row * width + column) * element))
                .flat_map(|at| rows[at..at + element].to_vec())
                .collect();
            assert_eq!(turned.read().unwrap().as_bytes(), expected, "{name}");
            matrices += 1;
        }
    }
    assert!(matrices > 0);
}

#[cfg(feature = "safetensors")]
#[test]
fn shards_are_mapped() {
    let path = folder().join("cases/qwen3_moe");
    let file = File::open(path.join("left.safetensors")).unwrap();
    let target = tempfile::tempdir().unwrap();
    let shards = target.path().join("model.safetensors");
    tensorfile::SaveOptions::new().max_shard_bytes(1000).save(&shards, &file).unwrap();
    std::fs::copy(path.join("config.json"), target.path().join("config.json")).unwrap();
    let map = LayoutMap::named("qwen3-moe").unwrap();
    let mapped = OpenOptions::new().map(&map).open(target.path()).unwrap();
    assert!(mapped.shards().len() > 2);
    assert_eq!(all(&mapped), all(&File::open(path.join("right.safetensors")).unwrap()));
    // An error names the shard with the bytes.
    let first = &mapped.shards()[0];
    std::fs::OpenOptions::new().write(true).open(first).unwrap().set_len(100).unwrap();
    let options = OpenOptions::new().map(&map).backend(tensorfile::file::Backend::Positioned);
    let error = options.open(target.path()).unwrap_err().to_string();
    assert!(error.contains(&*first.file_name().unwrap().to_string_lossy()), "{error}");
}
