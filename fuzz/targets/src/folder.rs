//! Opens trainers' folders with arbitrary metadata, next to files with items that some metadata names.

use std::fs;

use tensorfile::file::FileTensor;
use tensorfile::{SaveOptions, Tensor, TensorMap};

use crate::backends::open_both;
use crate::dcp_writer::{Chunk, Entry, Item, Pickle, metadata, number_item, tensor_item};

/// The length of the metadata is in the first two bytes. The rest is the file of the second process.
pub fn run(input: &[u8]) {
    let Some((len, rest)) = input.split_first_chunk() else { return };
    let (saved, own) = rest.split_at(rest.len().min(u16::from_le_bytes(*len).into()));
    let folder = tempfile::tempdir().unwrap();
    let ([first, _], _) = files();
    fs::write(folder.path().join(".metadata"), saved).unwrap();
    fs::write(folder.path().join("__0_0.distcp"), &first).unwrap();
    fs::write(folder.path().join("__1_0.distcp"), own).unwrap();
    let _ = open_both(folder.path(), input.len() + first.len(), &show);
}

fn show(tensor: &FileTensor<'_>, read: &Result<Tensor, String>) -> String {
    if let Ok(whole) = read {
        let mut written = Vec::new();
        tensor.write_row_major_to(&mut written).unwrap();
        assert_eq!(written.len(), whole.as_bytes().len());
        // The first half of each dim, as a part of what was read.
        let half: Vec<_> = tensor.shape().iter().map(|dim| 0..dim.div_ceil(2)).collect();
        if let Ok(part) = tensor.slice(&half) {
            let bytes = part.as_bytes();
            assert!(bytes.is_empty() || bytes[0] == written[0], "{tensor:?}");
        }
    }
    format!("{tensor:?} {:?} {read:?}", tensor.places())
}

/// Returns the files of two processes, and the entries of their items: `a` in rows, `b` in columns, `c` and a number.
fn files() -> ([Vec<u8>; 2], Vec<(String, Entry)>) {
    let (mut first, mut second) = (Vec::new(), Vec::new());
    let mut item = |is_first: bool, bytes: &[u8]| {
        let (file, path) = if is_first { (&mut first, "__0_0.distcp") } else { (&mut second, "__1_0.distcp") };
        let offset = file.len() as u64;
        file.extend_from_slice(bytes);
        Item { path: path.to_owned(), offset, length: bytes.len() as u64, transforms: Vec::new() }
    };
    let bytes = |shape: &[u64], strides: &[u64]| {
        let (mut bytes, after) = tensor_item("ShortStorage", 2, shape, strides);
        let elements = shape.iter().product::<u64>();
        bytes.extend((0..elements).flat_map(|i| (i as u16).to_le_bytes()));
        bytes.extend(after);
        bytes
    };
    let chunk = |offsets: &[u64], sizes: &[u64], item| Chunk { offsets: offsets.to_vec(), sizes: sizes.to_vec(), item };
    let rows = vec![
        chunk(&[0, 0], &[2, 2], item(true, &bytes(&[2, 2], &[1, 2]))),
        chunk(&[2, 0], &[1, 2], item(false, &bytes(&[1, 2], &[2, 1]))),
    ];
    let columns = vec![
        chunk(&[0, 0], &[3, 1], item(true, &bytes(&[3, 1], &[1, 1]))),
        chunk(&[0, 1], &[3, 2], item(false, &bytes(&[3, 2], &[2, 1]))),
    ];
    let entries = vec![
        ("a".to_owned(), Entry::Tensor("int16", vec![3, 2], rows)),
        ("b".to_owned(), Entry::Tensor("int16", vec![3, 3], columns)),
        ("c".to_owned(), Entry::Tensor("int16", vec![4], vec![chunk(&[0], &[4], item(false, &bytes(&[4], &[1])))])),
        ("step".to_owned(), Entry::Object(item(true, &number_item(7)))),
    ];
    ([first, second], entries)
}

/// Returns the metadata of a folder that we write for two processes, and the file of the second.
fn written() -> [Vec<u8>; 2] {
    let folder = tempfile::tempdir().unwrap();
    let tensor = |len: usize| Tensor::from_slice(&vec![7_i16; len], [len]).unwrap();
    let map: TensorMap = [("a", tensor(5)), ("b", tensor(1)), ("c.d", tensor(0))].into_iter().collect();
    SaveOptions::new().ranks(2).save(folder.path(), &map).unwrap();
    [".metadata", "__1_0.distcp"].map(|name| fs::read(folder.path().join(name)).unwrap())
}

/// Complete folders, and wrong metadata.
pub fn seeds() -> Vec<Vec<u8>> {
    let [saved, written] = written();
    let ([_, own], entries) = files();
    let input = |saved: Vec<u8>| [&(saved.len() as u16).to_le_bytes(), &saved[..], &own].concat();
    let mut call = Pickle::from_ops(b"");
    call.global("posix", "system").op(b"(").text("ls").op(b"tR");
    let mut changed = entries.clone();
    let mut hole = entries.clone();
    if let (Entry::Tensor(_, _, chunks), Entry::Tensor(_, _, others)) = (&mut changed[0].1, &mut hole[1].1) {
        chunks[1].item.transforms.push("zstd".to_owned());
        chunks.push(chunks[0].clone());
        others.pop();
    }
    vec![
        input(metadata(&entries, b"N")),
        input(metadata(&entries, &call.0)),
        input(metadata(&changed, b"N")),
        input(metadata(&hole, b"N")),
        [&(saved.len() as u16).to_le_bytes(), &saved[..], &written].concat(),
        input(Vec::new()),
        input(b"\x80\x04N.".to_vec()),
    ]
}
