//! Folders saved by `torch.distributed.checkpoint`.
//!
//! `tests/interop/torch_folders.py` made the folders in `tests/fixtures/dcp` with PyTorch 2.13, and `old_2` with 1.13.
//! It also records the values that PyTorch reads from them.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use ndarray::{Array2, array};
use serde::Deserialize;
use tensorfile::file::{Backend, load_tensor};
use tensorfile::model::FileMetadata;
use tensorfile::report::WarningKind;
use tensorfile::{
    Category, Dtype, ErrorKind, File, Layout, Limits, OpenOptions, Shape, Tensor, TensorFile, TensorInfo, TensorMap,
};

use crate::formats::pytorch::{halves, row_major};
use crate::support::dcp_writer::{self, Chunk, Entry, Item, Pickle, number_item, tensor_item};
use crate::support::memory::peak;
use crate::support::{hex, message, root};

fn fixture(name: &str) -> PathBuf {
    root().join("tests/fixtures/dcp").join(name)
}

/// A line of `expected.jsonl`.
#[derive(Deserialize, Debug)]
pub struct Described {
    pub folder: String,
    /// The dtype, the shape and the elements as hexadecimal digits, by name.
    tensors: BTreeMap<String, (String, Vec<usize>, String)>,
    metadata: BTreeMap<String, String>,
    opaque: Vec<String>,
}

/// Returns the folders of a file `expected.jsonl`.
pub fn described(path: &Path) -> Vec<Described> {
    fs::read_to_string(path).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Compares all ways of reading a folder with what PyTorch reads.
pub fn compare(path: &Path, described: &Described) {
    let Described { folder, tensors, metadata, opaque } = described;
    for backend in [Backend::Mapped, Backend::Positioned] {
        let file = OpenOptions::new().backend(backend).open(path).unwrap();
        let found: BTreeMap<_, _> = file.metadata().unwrap().entries.into_iter().collect();
        let of_torch = |(name, _): &(String, String)| name != "format" && name != "DCP_VERSION";
        assert_eq!(found.into_iter().filter(of_torch).collect::<BTreeMap<_, _>>(), *metadata, "{folder}");
        let mut names: Vec<&str> = file.tensors().map(|tensor| tensor.name()).collect();
        let mut expected_names: Vec<&str> = tensors.keys().map(String::as_str).collect();
        names.sort_unstable();
        expected_names.sort_unstable();
        assert_eq!(names, expected_names, "{folder}");
        let warnings = file.warnings().unwrap();
        let mut left_out = warnings.iter().filter(|warning| warning.kind == WarningKind::LeftOut);
        assert!(
            opaque.iter().all(|name| left_out.any(|warning| warning.tensor.as_ref() == Some(name))),
            "{warnings:?}"
        );
        let map: TensorMap = file.load().unwrap();
        let plan = file.read_plan().all().unwrap().finish().unwrap();
        let mut memory = vec![0; plan.bytes()];
        plan.read_into(&mut memory).unwrap();
        assert!(plan.spans().iter().all(|span| span.end <= file.file_bytes() + file.shards().len() as u64));
        for (name, (dtype, shape, elements)) in tensors {
            let info = TensorInfo::new(dtype.parse::<Dtype>().unwrap(), shape.clone());
            let expected = Tensor::new(info, &hex(elements)).unwrap();
            let tensor = file.get(name).unwrap();
            assert_eq!(row_major(&tensor.read().unwrap()), expected, "{folder}: {name}");
            assert_eq!(row_major(&map[name.as_str()]), expected, "{folder}: {name}");
            assert_eq!(row_major(&load_tensor(path, name).unwrap()), expected, "{folder}: {name}");
            let mut written = Vec::new();
            tensor.write_row_major_to(&mut written).unwrap();
            assert_eq!(written, expected.as_bytes(), "{folder}: {name}");
            let piece = plan.pieces().iter().find(|piece| piece.name() == name).unwrap();
            assert_eq!(memory[piece.range()], *expected.as_bytes(), "{folder}: {name}");
            #[cfg(feature = "digest")]
            assert_eq!(
                tensor.digest().unwrap(),
                tensorfile::digest::Digest::new(&expected.as_view()),
                "{folder}: {name}"
            );
            let ranges: Vec<_> = shape.iter().map(|dim| dim / 2..*dim).collect();
            assert_eq!(tensor.slice(&ranges).unwrap(), halves(&expected), "{folder}: {name}");
            let part = file.read_plan().slice(name, &ranges).unwrap().finish().unwrap();
            let mut memory = vec![0; part.bytes()];
            part.read_into(&mut memory).unwrap();
            assert_eq!(memory, halves(&expected).as_bytes(), "{folder}: {name}");
            let is_whole = tensor.places().len() == 1 && !tensor.is_encoded() && tensor.dtype() != Dtype::Bool;
            match tensor.view() {
                Ok(view) => assert_eq!(row_major(&view.to_tensor()), expected, "{folder}: {name}"),
                Err(error) => assert!(!is_whole || backend == Backend::Positioned, "{folder}: {error}"),
            }
        }
        file.check_other_checksums().unwrap();
    }
}

#[test]
fn reads_what_pytorch_reads() {
    let folders = described(&fixture("expected.jsonl"));
    assert_eq!(folders.len(), 4);
    for described in folders {
        compare(&fixture(&described.folder), &described);
    }
}

#[test]
fn a_struct_is_loaded_from_chunks() {
    #[derive(TensorFile)]
    #[tensor(allow_unknown)]
    struct Model {
        rows: Array2<f32>,
        twice: Array2<f32>,
    }

    let file = File::open(fixture("sharded_4")).unwrap();
    let model: Model = file.load().unwrap();
    let expected = Array2::from_shape_fn((7, 5), |(row, column)| (row * 5 + column) as f32 * 0.5);
    assert_eq!((model.rows, model.twice.dim()), (expected, (9, 2)));
    assert!(file.report::<Model>().is_ok());
    let (rows, plain) = (file.get("rows").unwrap(), file.get("plain").unwrap());
    assert_eq!((rows.places().len(), rows.path(), rows.range()), (4, file.path(), 0..140));
    assert_eq!((plain.places().len(), plain.path()), (1, plain.places()[0].0));
    assert_eq!(file.shards().len(), 4);
    assert_eq!(
        message(rows.view()),
        "pytorch: tensor `rows`: cannot borrow from a tensor that is in several chunks; read the tensor"
    );
    let mut bytes = [0; 7];
    rows.read_at(17, &mut bytes).unwrap();
    assert_eq!(bytes, rows.read().unwrap().as_bytes()[17..24]);
}

/// A folder of two files: `a` is rows 0 and 1 in one, and row 2 in the other, `b` a plain vector, and `step` a number.
struct Saved {
    folder: tempfile::TempDir,
    entries: Vec<(String, Entry)>,
}

impl Saved {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut files = [Vec::new(), Vec::new()];
        let mut item = |file: usize, bytes: &[u8]| {
            let offset = files[file].len() as u64;
            files[file].extend_from_slice(bytes);
            Item { path: format!("__{file}_0.distcp"), offset, length: bytes.len() as u64, transforms: Vec::new() }
        };
        let entries = vec![
            ("step".to_owned(), Entry::Object(item(0, &number_item(7)))),
            (
                "a".to_owned(),
                Entry::Tensor(
                    "int32",
                    vec![3, 2],
                    vec![
                        Chunk { offsets: vec![0, 0], sizes: vec![2, 2], item: item(0, &ints(&[0, 1, 2, 3], &[2, 2])) },
                        Chunk { offsets: vec![2, 0], sizes: vec![1, 2], item: item(1, &ints(&[4, 5], &[1, 2])) },
                    ],
                ),
            ),
            (
                "b".to_owned(),
                Entry::Tensor(
                    "int32",
                    vec![3],
                    vec![Chunk { offsets: vec![0], sizes: vec![3], item: item(1, &ints(&[6, 7, 8], &[3])) }],
                ),
            ),
        ];
        for (i, bytes) in files.iter().enumerate() {
            fs::write(folder.path().join(format!("__{i}_0.distcp")), bytes).unwrap();
        }
        Self { folder, entries }
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn tensor(&mut self, name: &str) -> (&mut &'static str, &mut Vec<u64>, &mut Vec<Chunk>) {
        match self.entries.iter_mut().find(|(own, _)| own == name) {
            Some((_, Entry::Tensor(dtype, shape, chunks))) => (dtype, shape, chunks),
            _ => panic!("{name}"),
        }
    }

    fn write(&self) {
        fs::write(self.path().join(".metadata"), dcp_writer::metadata(&self.entries, b"N")).unwrap();
    }

    /// Opens the folder. An error has no paths before names of files.
    fn open(&self) -> Result<File, String> {
        self.write();
        let opened = File::open(self.path()).map_err(|error| error.to_string());
        opened.map_err(|error| {
            let folder = format!("{}/", self.path().display());
            error.replace(&folder, "")
        })
    }
}

/// Returns an item of 32-bit integers.
fn ints(numbers: &[i32], shape: &[u64]) -> Vec<u8> {
    let strides: Vec<u64> = (0..shape.len()).map(|dim| shape[dim + 1..].iter().product()).collect();
    let (mut bytes, after) = tensor_item("IntStorage", 4, shape, &strides);
    bytes.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
    bytes.extend(after);
    bytes
}

#[test]
fn a_folder_of_the_writer_of_tests_is_read() {
    let saved = Saved::new();
    let file = saved.open().unwrap();
    assert_eq!(file.array::<i32, _>("a").unwrap(), array![[0, 1], [2, 3], [4, 5]]);
    assert_eq!(file.array::<i32, _>("b").unwrap(), array![6, 7, 8]);
    assert_eq!(file.metadata().unwrap().entries["step"], "7");
    assert_eq!(File::open(saved.path().join(".metadata")).unwrap().len(), 2);
}

#[test]
fn chunks_must_tile_their_tensor() {
    type Change<'c> = &'c dyn Fn(&mut Vec<u64>, &mut Vec<Chunk>);
    let cases: [(Change<'_>, &str); 6] = [
        (&|_, chunks| drop(chunks.remove(1)), "no chunk has the elements [2..3, 0..2]"),
        (&|shape, _| shape[0] = 4, "no chunk has the elements [3..4, 0..2]"),
        (&|shape, chunks| (shape[0], chunks[1].offsets[0]) = (2, 1), "two chunks have the elements [1..2, 0..2]"),
        (&|shape, _| shape[0] = 2, "a chunk of [1, 2] at [2, 0] is not within the shape [2, 2]"),
        (&|_, chunks| chunks[1].offsets = vec![2], "a chunk of [1, 2] at [2] is not within the shape [3, 2]"),
        (&|_, chunks| chunks.clear(), "no chunk has the elements [0..3, 0..2]"),
    ];
    for (change, expected) in cases {
        let mut saved = Saved::new();
        let (_, shape, chunks) = saved.tensor("a");
        change(shape, chunks);
        let expected = format!(".metadata: pytorch: tensor `a`: {expected}");
        assert_eq!(saved.open().unwrap_err(), expected);
    }
}

#[test]
fn a_copy_of_a_chunk_is_read_once() {
    let mut saved = Saved::new();
    let (_, _, chunks) = saved.tensor("a");
    chunks.push(chunks[0].clone());
    let file = saved.open().unwrap();
    assert_eq!(file.array::<i32, _>("a").unwrap(), array![[0, 1], [2, 3], [4, 5]]);
    assert_eq!(file.get("a").unwrap().places().len(), 2);
}

#[test]
fn items_are_compared_with_the_metadata() {
    type Change<'c> = &'c dyn Fn(&mut Saved);
    let cases: [(Change<'_>, &str); 10] = [
        (
            &|saved| {
                let item = &mut saved.tensor("b").2[0].item;
                (item.offset, item.transforms) = (item.offset + 1, vec!["stream.zstd".to_owned()]);
            },
            "tensor `b`: needs {len} more bytes, but the file has {less} left (at byte {next} of __1_0.distcp)",
        ),
        (
            &|saved| *saved.tensor("b").0 = "float32",
            "tensor `b`: its item has the dtype i32, but the metadata says torch.float32 (at byte {b} of __1_0.distcp)",
        ),
        (
            &|saved| {
                saved.tensor("b").2[0].sizes[0] = 4;
                saved.tensor("b").1[0] = 4;
            },
            "tensor `b`: its item has the shape [3], but the metadata says [4] (at byte {b} of __1_0.distcp)",
        ),
        (
            &|saved| saved.tensor("b").2[0].item.length += 1,
            "tensor `b`: needs {more} more bytes, but the file has {len} left (at byte {b} of __1_0.distcp)",
        ),
        (
            &|saved| saved.tensor("b").2[0].item.offset += 1,
            "tensor `b`: needs {len} more bytes, but the file has {less} left (at byte {next} of __1_0.distcp)",
        ),
        (
            &|saved| saved.tensor("b").2[0].item.length -= 1,
            "tensor `b`: the zip archive is damaged: it ends within a record (at byte {end} of __1_0.distcp)",
        ),
        (
            &|saved| saved.tensor("b").2[0].item = saved.tensor("a").2[1].item.clone(),
            "tensor `b`: its item at byte 0 of `__1_0.distcp` is also a part of `a`",
        ),
        (
            &|saved| {
                let Entry::Object(item) = saved.entries[0].1.clone() else { panic!("it is a number") };
                saved.entries.remove(0);
                saved.tensor("b").2[0].item = item;
            },
            "tensor `b`: its item is not a tensor (at byte 0 of __0_0.distcp)",
        ),
        (
            &|saved| saved.tensor("b").2[0].item.path = "../__1_0.distcp".to_owned(),
            "tensor `b`: it is said to be in `../__1_0.distcp`, which is not the name of a file next to the metadata",
        ),
        (
            &|saved| saved.tensor("b").2[0].item.path = "/etc/passwd".to_owned(),
            "tensor `b`: it is said to be in `/etc/passwd`, which is not the name of a file next to the metadata",
        ),
    ];
    for (change, expected) in cases {
        let mut saved = Saved::new();
        let Item { offset, length, .. } = saved.tensor("b").2[0].item.clone();
        change(&mut saved);
        let mut expected = format!(".metadata: pytorch: {expected}");
        for (name, number) in [
            ("{b}", offset),
            ("{next}", offset + 1),
            ("{end}", offset + length - 22),
            ("{len}", length),
            ("{more}", length + 1),
            ("{less}", length - 1),
        ] {
            expected = expected.replace(name, &number.to_string());
        }
        assert_eq!(saved.open().unwrap_err(), expected);
    }
}

#[test]
fn a_file_that_is_not_there_is_named_with_a_tensor_in_it() {
    let saved = Saved::new();
    saved.write();
    fs::remove_file(saved.path().join("__1_0.distcp")).unwrap();
    let error = File::open(saved.path()).unwrap_err();
    assert!(error.is_not_found());
    assert_eq!(
        error.without_path().to_string(),
        "__1_0.distcp: No such file or directory (os error 2); the metadata says that `a` is in it; the process that saves \
         it did not finish, or it was not copied"
    );
}

#[test]
fn items_that_an_extension_changed_are_unknown() {
    let mut saved = Saved::new();
    saved.tensor("a").2[1].item.transforms = vec!["stream.zstd".to_owned()];
    saved.tensor("b").2[0].item.transforms = vec!["stream.zstd".to_owned(), "x".to_owned()];
    let file = saved.open().unwrap();
    assert_eq!(file.get("a").unwrap().info().unknown_dtype(), Some("torch.int32 (stream.zstd)"));
    let b = file.get("b").unwrap();
    assert_eq!((b.info().unknown_dtype(), b.shape()), (Some("torch.int32 (stream.zstd, x)"), &Shape::from([3])));
    assert_eq!(b.payload_bytes(), b.read().unwrap().as_bytes().len() as u64);
    let warnings = file.warnings().unwrap();
    assert!(warnings.iter().any(|warning| warning.kind == WarningKind::UnknownDtype), "{warnings:?}");
}

/// Returns a call of a global with a text.
fn call(module: &str, name: &str) -> Vec<u8> {
    let mut call = Pickle::from_ops(b"");
    call.global(module, name).op(b"(").text("touch x").op(b"tR");
    call.0
}

#[test]
fn metadata_that_would_run_something_is_named() {
    let others = [
        ("posix", "system", Some("posix.system")),
        ("os", "system", Some("os.system")),
        ("__builtin__", "eval", Some("builtins.eval")),
        ("torch.distributed.checkpoint.planner", "eval", Some("torch.distributed.checkpoint.planner.eval")),
        ("torchx.planner", "SavePlan", Some("torchx.planner.SavePlan")),
        // Names of PyTorch can have dots.
        ("torch.distributed.checkpoint.planner", "os.system", Some("torch.distributed.checkpoint.planner.os.system")),
        ("torch.distributed.checkpoint.planner", "SavePlan", None),
        ("megatron.core.dist_checkpointing.strategies.torch", "_Own", None),
        ("pathlib", "PosixPath", None),
    ];
    for (module, name, shown) in others {
        let saved = Saved::new();
        fs::write(saved.path().join(".metadata"), dcp_writer::metadata(&saved.entries, &call(module, name))).unwrap();
        let file = File::open(saved.path()).unwrap();
        assert_eq!(file.array::<i32, _>("b").unwrap(), array![6, 7, 8]);
        let warnings = crate::support::warnings(&file.metadata().unwrap());
        let text = |shown: &str| {
            format!("the metadata names `{shown}`, which PyTorch would run; it is left out, and nothing is run")
        };
        let left_out: Vec<&String> = warnings.iter().filter(|text| text.contains("nothing is run")).collect();
        assert_eq!(left_out, shown.map(text).iter().collect::<Vec<_>>(), "{module}.{name}");
        // In place of a value that is read, any global is an error.
        for attribute in ["state_dict_metadata", "storage_data"] {
            let mut pickle = Pickle::new();
            pickle.object(dcp_writer::METADATA, "Metadata").text("state_dict_metadata").op(b"}");
            pickle.text(attribute).op(b"}(").text("a").op(&call(module, name)).op(b"u").built().op(b".");
            fs::write(saved.path().join(".metadata"), &pickle.0).unwrap();
            let error = File::open(saved.path()).unwrap_err();
            assert_eq!(error.category(), Category::File, "{error}");
            assert!(error.to_string().contains("expected"), "{error}");
        }
        let mut pickle = Pickle::new();
        pickle.op(&call(module, name)).op(b".");
        fs::write(saved.path().join(".metadata"), &pickle.0).unwrap();
        let text = File::open(saved.path()).unwrap_err().to_string();
        assert!(text.contains(", which PyTorch would run, but expected `Metadata`"), "{text}");
    }
}

/// Returns a folder whose only item is a file.
fn folder_of(name: &str, item: &[u8]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("__0_0.distcp"), [b"before", item].concat()).unwrap();
    let (path, length) = ("__0_0.distcp".to_owned(), item.len() as u64);
    let item = Item { path, offset: 6, length, transforms: Vec::new() };
    let entries = [(name.to_owned(), Entry::Object(item))];
    fs::write(folder.path().join(".metadata"), dcp_writer::metadata(&entries, b"N")).unwrap();
    folder
}

/// For any value written by `torch.save`, an item has the contents of the file, under the name of the item.
#[test]
fn items_are_read_as_files_of_torch_save() {
    let folders = ["pytorch", "cases/torch", "cases/torch2", "cases/pt-conj-neg", "cases/pt-foreign-objects"];
    let (mut compared, mut tensors) = (0, 0);
    for entry in folders.iter().flat_map(|folder| fs::read_dir(root().join("tests/fixtures").join(folder)).unwrap()) {
        let path = entry.unwrap().path();
        let Ok(bytes) = fs::read(&path) else { continue };
        let Ok(file) = OpenOptions::new().format(&tensorfile::pytorch::FORMAT).open(&path) else { continue };
        let shown = path.display();
        if !bytes.starts_with(b"PK") {
            let folder = folder_of("item", &bytes);
            assert_eq!(*File::open(folder.path()).unwrap().tensor("item").unwrap().layout(), Layout::Blob, "{shown}");
            continue;
        }
        let folder = folder_of("item", &bytes);
        let read = File::open(folder.path()).unwrap();
        // The value of the whole file takes its name from the item. So does the first value of a list in the file.
        let metadata = read.metadata().unwrap();
        let named = metadata.warnings.iter().filter_map(|warning| warning.tensor.as_deref());
        let mut named = named.chain(metadata.entries.keys().map(String::as_str));
        let is_whole = read.position("item").is_some() || named.any(|name| name == "item");
        let is_one = |name: &str| if is_whole && name == "0" { "item".to_owned() } else { format!("item.{name}") };
        assert_eq!(read.len(), file.len(), "{shown}");
        for (own, item) in file.tensors().zip(read.tensors()) {
            assert_eq!(is_one(own.name()), item.name(), "{shown}");
            assert_eq!(own.info(), item.info(), "{shown}: {}", own.name());
            assert_eq!(own.read().unwrap().as_bytes(), item.read().unwrap().as_bytes(), "{shown}: {}", own.name());
            if !read.warnings().unwrap().iter().any(|warning| warning.kind == WarningKind::DuplicateName) {
                assert_eq!(load_tensor(folder.path(), item.name()).unwrap(), item.read().unwrap(), "{shown}");
            }
            tensors += 1;
        }
        let (own, read) = (file.metadata().unwrap(), metadata);
        let texts = |metadata: &FileMetadata| metadata.entries.clone().into_iter().collect::<Vec<_>>();
        let expected: Vec<_> = texts(&own).into_iter().map(|(key, text)| (is_one(&key), text)).collect();
        assert_eq!(texts(&read), expected, "{shown}");
        let left_out = |metadata: &FileMetadata| {
            let warnings = metadata.warnings.iter().filter(|warning| warning.kind == WarningKind::LeftOut);
            warnings.map(|warning| warning.tensor.clone().unwrap_or_default()).collect::<Vec<_>>()
        };
        let expected: Vec<_> = left_out(&own).iter().map(|name| is_one(name)).collect();
        assert_eq!(left_out(&read), expected, "{shown}");
        compared += 1;
    }
    assert!(compared > 20 && tensors > 200, "{compared} files, {tensors} tensors");
}

#[test]
fn folders_of_newer_software_cost_what_is_new() {
    let case = |name: &str| root().join("tests/fixtures/cases/torch2").join(name);
    // Megatron-Core 0.16.1: plans of all processes are in the metadata.
    let file = File::open(case("megatron-core-0.16.1")).unwrap();
    let names: Vec<&str> = file.tensors().map(|tensor| tensor.name()).collect();
    assert_eq!(names, ["rows", "cols", "layers.w", "layers.both", "rep", "rng_state/shard_0_1.0.a"]);
    let rows = file.array::<f32, ndarray::Ix2>("rows").unwrap();
    assert_eq!(rows.dim(), (8, 6));
    assert!(rows.iter().zip(rows.iter().skip(1)).all(|(one, next)| one < next), "{rows}");
    assert_eq!(file.metadata().unwrap().entries["rng_state/shard_0_1.0.b"], "3");
    let warnings = file.warnings().unwrap();
    assert!(warnings.iter().all(|warning| warning.kind != WarningKind::LeftOut), "{warnings:?}");
    // PyTorch 2.15: dicts with tensors that were not flattened, and a dtype that is not known here.
    let file = File::open(case("dcp-unflattened")).unwrap();
    let names: Vec<&str> = file.tensors().map(|tensor| tensor.name()).collect();
    assert_eq!(names, ["w", "model.up", "nested.a", "list.0"]);
    let entries = file.metadata().unwrap().entries;
    let entries: Vec<_> = entries.iter().map(|(key, text)| format!("{key}={text}")).collect();
    assert_eq!(entries, ["nested.n=1", "list.1=2", "n=5"]);
    assert_eq!(load_tensor(case("dcp-unflattened"), "nested.a").unwrap(), file.tensor("nested.a").unwrap());
    let file = File::open(case("dcp-bcomplex32")).unwrap();
    let b = file.get("b").unwrap();
    assert_eq!((b.info().unknown_dtype(), b.shape()), (Some("torch.bcomplex32"), &Shape::from([2, 3])));
    assert_eq!(b.read().unwrap().as_bytes().len(), 24);
    assert_eq!(file.array::<f32, ndarray::Ix1>("x").unwrap().len(), 2);
}

#[test]
fn names_that_two_items_make_are_read_by_position() {
    let file = |key: &str| {
        let mut pickle = Pickle::from_ops(b"\x80\x02");
        pickle.op(b"}").text(key).int(7).op(b"s.");
        let (mut item, after) = dcp_writer::archive(&pickle.0, 0);
        item.extend(after);
        item
    };
    let (folder, mut bytes, mut entries) = (tempfile::tempdir().unwrap(), Vec::new(), Vec::new());
    for (name, key) in [("a", "b.c"), ("a.b", "c")] {
        let item = file(key);
        let (path, offset, length) = ("__0_0.distcp".to_owned(), bytes.len() as u64, item.len() as u64);
        entries.push((name.to_owned(), Entry::Object(Item { path, offset, length, transforms: Vec::new() })));
        bytes.extend(item);
    }
    fs::write(folder.path().join("__0_0.distcp"), bytes).unwrap();
    fs::write(folder.path().join(".metadata"), dcp_writer::metadata(&entries, b"N")).unwrap();
    let metadata = File::open(folder.path()).unwrap().metadata().unwrap();
    assert_eq!(metadata.entries["a.b.c"], "7");
    assert_eq!(crate::support::warnings(&metadata), ["two values are named `a.b.c`; the last one is kept"]);
}

/// An item of bytes of a dtype that PyTorch has since 2.3.
fn item_of_dtype(dtype: &str, shape: &[u64], elements: &[u8]) -> Vec<u8> {
    let mut pickle = Pickle::from_ops(b"\x80\x02ctorch._utils\n_rebuild_tensor_v3\n((");
    pickle.text("storage").op(b"ctorch.storage\nUntypedStorage\n").text("0").text("cpu");
    pickle.int(elements.len().cast_signed() as i64).op(b"tQK\0(");
    shape.iter().for_each(|dim| _ = pickle.int(dim.cast_signed()));
    pickle.op(b"t(");
    (0..shape.len()).for_each(|dim| _ = pickle.int(shape[dim + 1..].iter().product::<u64>().cast_signed()));
    pickle.op(b"t\x89N").op(format!("ctorch\n{dtype}\n").as_bytes()).op(b"tR.");
    let (mut item, after) = dcp_writer::archive(&pickle.0, elements.len() as u64);
    item.extend(elements);
    item.extend(after);
    item
}

#[test]
fn chunks_whose_elements_share_bytes_are_put_together() {
    let whole: Vec<u8> = (0..12).collect();
    for (chunks, dtype) in [
        (vec![([0, 0], [3, 4])], "float4_e2m1fn_x2"),
        (vec![([0, 0], [1, 4]), ([1, 0], [2, 4])], "float4_e2m1fn_x2"),
        (vec![([0, 2], [3, 2]), ([0, 0], [3, 2])], "float4_e2m1fn_x2"),
        (vec![([0, 0], [3, 4])], "later"),
        (vec![([0, 2], [3, 2]), ([0, 0], [3, 2])], "later"),
    ] {
        let (folder, mut bytes, mut saved) = (tempfile::tempdir().unwrap(), Vec::new(), Vec::new());
        for (offsets, sizes) in &chunks {
            let rows = offsets[0]..offsets[0] + sizes[0];
            let row = |row: u64| &whole[(row * 4 + offsets[1]) as usize..][..sizes[1] as usize];
            let item = item_of_dtype(dtype, sizes, &rows.flat_map(row).copied().collect::<Vec<_>>());
            let (path, offset, length) = ("__0_0.distcp".to_owned(), bytes.len() as u64, item.len() as u64);
            bytes.extend(&item);
            let item = Item { path, offset, length, transforms: Vec::new() };
            saved.push(Chunk { offsets: offsets.to_vec(), sizes: sizes.to_vec(), item });
        }
        fs::write(folder.path().join("__0_0.distcp"), bytes).unwrap();
        let entries = [("a".to_owned(), Entry::Tensor(dtype, vec![3, 4], saved))];
        fs::write(folder.path().join(".metadata"), dcp_writer::metadata(&entries, b"N")).unwrap();
        let file = File::open(folder.path()).unwrap();
        let a = file.get("a").unwrap();
        if dtype == "later" {
            assert_eq!((a.info().unknown_dtype(), a.shape()), (Some("torch.later"), &Shape::from([3, 4])));
            continue;
        }
        assert_eq!((a.dtype(), a.shape()), (Dtype::F4, &Shape::from([3, 8])), "{chunks:?}");
        assert_eq!(a.read().unwrap().as_bytes(), whole, "{chunks:?}");
        assert_eq!(a.slice(&[1..3, 2..6]).unwrap().as_bytes(), [5, 6, 9, 10], "{chunks:?}");
    }
}

#[test]
fn damaged_metadata_is_an_error_and_takes_little_memory() {
    let saved = Saved::new();
    saved.write();
    let path = saved.path().join(".metadata");
    let good = fs::read(&path).unwrap();
    let mut read = 0;
    for i in 0..good.len() {
        let mut bytes = good.clone();
        match i % 4 {
            0 => bytes.truncate(i),
            1 => bytes[i] = 0xff,
            _ => bytes[i] ^= 1,
        }
        fs::write(&path, bytes).unwrap();
        let (opened, held) = peak(|| File::open(saved.path()).and_then(|file| file.load::<TensorMap>()));
        assert!(held < 4 << 20, "{held} bytes at {i}");
        read += usize::from(opened.is_ok());
    }
    // Names, and values that are not read.
    assert!((1..good.len() / 2).contains(&read), "{read} of {}", good.len());
    // Of an item, too.
    fs::write(&path, good).unwrap();
    let path = saved.path().join("__1_0.distcp");
    let good = fs::read(&path).unwrap();
    for i in 0..good.len() {
        let mut bytes = good.clone();
        bytes[i] ^= 0xff;
        fs::write(&path, bytes).unwrap();
        let (opened, held) = peak(|| File::open(saved.path()).and_then(|file| file.load::<TensorMap>()));
        assert!(held < 4 << 20, "{held} bytes at {i}");
        drop(opened);
    }
}

/// Returns metadata whose only tensor has these chunks: `ops` puts the list on the stack.
fn with_chunks(ops: &[u8]) -> Vec<u8> {
    let mut pickle = Pickle::new();
    pickle.object(dcp_writer::METADATA, "Metadata").text("state_dict_metadata").op(b"}(").text("a");
    pickle.object(dcp_writer::METADATA, "TensorStorageMetadata").text("properties");
    pickle.object(dcp_writer::METADATA, "TensorProperties").text("dtype").global("torch", "int8").built();
    pickle.text("size").size(&[1]).text("chunks").op(ops).built().op(b"u").built().op(b".");
    pickle.0
}

#[test]
fn bombs_are_refused_in_no_time() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(".metadata");
    // Lists in lists, each twice in the next one.
    let mut doubled = Pickle::from_ops(b"]");
    (0..64).for_each(|_| _ = doubled.op(b"2\x862"));
    // An object with very many attributes, asked for very often.
    let mut attributes = Pickle::from_ops(b"");
    attributes.op(b"](}(");
    (0..50_000).for_each(|i| _ = attributes.int(i).int(i));
    attributes.op(b"uq\x000");
    (0..50_000).for_each(|_| _ = attributes.global(dcp_writer::METADATA, "ChunkStorageMetadata").op(b")\x81h\0b"));
    attributes.op(b"e");
    // A size with very many dims.
    let mut dims = Pickle::from_ops(b"");
    dims.op(b"](").object(dcp_writer::METADATA, "ChunkStorageMetadata").text("offsets").op(b"(");
    (0..100_000).for_each(|i| _ = dims.int(i));
    dims.op(b"tq\0").text("sizes").op(b"h\0").built().op(b"e");
    for (ops, expected) in [
        (&doubled.0, "the metadata has no list of `chunks`"),
        (&attributes.0, "an object of the metadata has too many attributes"),
        (&dims.0, "rank is 100000, but the limit is 255"),
    ] {
        fs::write(&path, with_chunks(ops)).unwrap();
        let start = std::time::Instant::now();
        let error = File::open(folder.path()).unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
        assert!(start.elapsed().as_secs() < 5, "{expected}: {:?}", start.elapsed());
    }
    let saved = Saved::new();
    saved.write();
    let limits = OpenOptions::new().limits(Limits::new().tensors(4));
    let error = limits.open(saved.path()).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Limit { found: 6, limit: 4, .. }), "{error}");
}

#[test]
fn a_slice_reads_only_its_chunks() {
    let saved = Saved::new();
    saved.write();
    // A mapped file must not be cut off.
    let file = OpenOptions::new().backend(Backend::Positioned).open(saved.path()).unwrap();
    let spans = |ranges: &[std::ops::Range<usize>]| {
        let plan = file.read_plan().slice("a", ranges).unwrap().finish().unwrap();
        plan.bytes_read()
    };
    assert_eq!(spans(&[0..3, 0..2]), 24);
    assert_eq!(spans(&[2..3, 0..2]), 8);
    assert_eq!(spans(&[2..3, 1..2]), 4);
    assert_eq!(spans(&[1..3, 0..1]), 8);
    // The other file may be damaged.
    let path = saved.path().join("__0_0.distcp");
    fs::File::options().write(true).open(&path).unwrap().set_len(10).unwrap();
    let part = file.slice("a", &[2..3, 0..2]).unwrap();
    assert_eq!(part.array::<i32>().unwrap(), array![[4, 5]].into_dyn());
    let error = file.slice("a", &[1..3, 0..2]).unwrap_err();
    assert_eq!((error.tensor(), error.shard()), (Some("a"), Some(&*path)), "{error}");
}

#[test]
fn files_of_processes_must_fit() {
    let copy = || {
        let folder = tempfile::tempdir().unwrap();
        for entry in fs::read_dir(fixture("hugging_face_4")).unwrap() {
            let entry = entry.unwrap();
            fs::copy(entry.path(), folder.path().join(entry.file_name())).unwrap();
        }
        folder
    };
    let name = |i: usize| format!("shard-{i:05}-model-00001-of-00001.safetensors");
    let folder = copy();
    fs::remove_file(folder.path().join(name(2))).unwrap();
    let error = File::open(folder.path()).unwrap_err();
    assert_eq!(
        error.without_path().to_string(),
        "safetensors: tensor `blocks`: no chunk has the elements [0..3, 3..6]; \
         the folder has no `shard-00002-model-00001-of-00001.safetensors`"
    );
    // A file by itself has the chunks of a process, as before.
    assert_eq!(*File::open(folder.path().join(name(1))).unwrap().get("rows").unwrap().shape(), [2, 5]);
    let folder = copy();
    let path = folder.path().join(name(2));
    let bytes = fs::read(&path).unwrap();
    let at = bytes.windows(13).position(|bytes| bytes == b"saved_offsets").unwrap();
    let mut broken = bytes.clone();
    broken[at] = b'x';
    fs::write(&path, broken).unwrap();
    let error = File::open(folder.path()).unwrap_err();
    let text = error.without_path().to_string();
    assert!(text.contains("`DCP_SHARDING_INFO` has no `saved_offsets` of "), "{text}");
}

#[test]
fn metadata_of_other_software_is_no_folder() {
    let folder = tempfile::tempdir().unwrap();
    let text = || File::open(folder.path()).unwrap_err().without_path().to_string();
    fs::write(folder.path().join(".metadata"), "").unwrap();
    assert_eq!(text(), "the file is empty (at byte 0)");
    fs::write(folder.path().join(".metadata"), "{\"kind\": \"folder\"}").unwrap();
    fs::write(folder.path().join("a.npy"), "").unwrap();
    assert_eq!(
        text(),
        "is a directory without `model.safetensors` or `pytorch_model.bin`, or an index of its shards; open `a.npy` in it"
    );
    let name = "shard-00001-model-00001-of-00001.safetensors";
    fs::copy(fixture("hugging_face_4").join(name), folder.path().join(name)).unwrap();
    assert!(File::open(folder.path()).unwrap().get("rows").is_ok());
    let folder = tempfile::tempdir().unwrap();
    fs::copy(fixture("plain/__0_0.distcp"), folder.path().join("__0_0.distcp")).unwrap();
    let error = File::open(folder.path()).unwrap_err();
    assert_eq!(
        error.without_path().to_string(),
        "is a folder of a trainer that did not finish, or was not copied whole: it has `__0_0.distcp`, but no `.metadata`, which \
         is saved last"
    );
    let expected = "cannot read one file of a folder that a trainer saved; open the folder: its `.metadata` says what is in the \
                    files";
    let error = File::open(fixture("plain/__0_0.distcp")).unwrap_err();
    assert_eq!(error.without_path().to_string(), expected);
}

/// A process that has nothing to save writes no file, so a gap in the numbers alone is a warning.
#[test]
fn gaps_in_the_numbers_of_files_are_named() {
    let missing = |name: &str, unless: &str| format!("the folder has no `{name}`; it is missing, unless {unless}");
    for (files, expected) in [
        (&[(1, 1, 1), (2, 1, 1)][..], Ok(vec![])),
        // Nobody knows how many processes there were.
        (&[(1, 1, 1)], Ok(vec![])),
        (&[(1, 1, 2), (2, 2, 2)], Ok(vec![])),
        (
            &[(1, 1, 1), (3, 1, 1)],
            Ok(vec![missing("shard-00002-model-00001-of-00001.safetensors", "process 2 had nothing to save")]),
        ),
        (
            &[(2, 2, 3), (7, 3, 3)],
            Ok(vec![
                missing("shard-00001-model-*-of-00003.safetensors", "process 1, and 4 others, had nothing to save"),
                missing("shard-*-model-00001-of-00003.safetensors", "no tensor belongs to number 1"),
            ]),
        ),
        (
            &[(1, 2, 4)],
            Ok(vec![missing(
                "shard-*-model-00001-of-00004.safetensors",
                "no tensor belongs to number 1, nor to 2 other numbers",
            )]),
        ),
        (
            &[(1, 1, 1), (1, 1, 2), (1, 2, 2)],
            Err(
                "`shard-00001-model-00001-of-00001.safetensors` and `shard-00001-model-00001-of-00002.safetensors` are not \
                 of one save, as their counts differ; remove the files of the older save",
            ),
        ),
    ] {
        let folder = tempfile::tempdir().unwrap();
        for (process, number, count) in files {
            let name = format!("t{process}.{number}");
            let offsets = format!("{{\"{name}\": {{\"saved_offsets\": [0]}}}}");
            let options = tensorfile::safetensors::Options::new().metadata("DCP_SHARDING_INFO", offsets);
            let bytes = options.to_vec(&TensorMap::from_iter([(name, array![1_i32, 2])])).unwrap();
            let path = format!("shard-{process:05}-model-{number:05}-of-{count:05}.safetensors");
            fs::write(folder.path().join(path), bytes).unwrap();
        }
        let warnings = File::open(folder.path()).map(|file| file.metadata().unwrap().warnings);
        let warnings = warnings.map_err(|error| (error.without_path().to_string(), error.category()));
        let texts = warnings.map(|all| {
            assert!(all.iter().all(|warning| warning.kind == WarningKind::Part), "{files:?}: {all:?}");
            all.into_iter().map(|warning| warning.text).collect::<Vec<_>>()
        });
        assert_eq!(texts, expected.map_err(|text| (text.to_owned(), Category::File)), "{files:?}");
    }
}

#[test]
fn tensors_of_ten_thousand_chunks_are_read() {
    // Each chunk is a separate item, as if each came from another process.
    let (folder, rows) = (tempfile::tempdir().unwrap(), 10_000);
    let (mut bytes, mut chunks) = (Vec::new(), Vec::new());
    for row in 0..rows {
        let (offset, item) = (bytes.len() as u64, ints(&[row as i32, -1], &[1, 2]));
        bytes.extend(&item);
        let item = Item { path: "__0_0.distcp".to_owned(), offset, length: item.len() as u64, transforms: Vec::new() };
        chunks.push(Chunk { offsets: vec![row, 0], sizes: vec![1, 2], item });
    }
    fs::write(folder.path().join("__0_0.distcp"), bytes).unwrap();
    let entries = [("a".to_owned(), Entry::Tensor("int32", vec![rows, 2], chunks))];
    fs::write(folder.path().join(".metadata"), dcp_writer::metadata(&entries, b"N")).unwrap();
    let file = File::open(folder.path()).unwrap();
    let array: Array2<i32> = file.array("a").unwrap();
    assert!(array.rows().into_iter().zip(0..).all(|(row, i)| row == array![i, -1]));
}

#[cfg(feature = "http")]
#[test]
fn folders_are_read_from_a_server() {
    use crate::support::server::Server;

    let server = Server::new();
    for entry in fs::read_dir(fixture("sharded_4")).unwrap() {
        let entry = entry.unwrap();
        server.put(&format!("/run/{}", entry.file_name().display()), fs::read(entry.path()).unwrap());
    }
    let local: TensorMap = File::open(fixture("sharded_4")).unwrap().load().unwrap();
    for path in ["/run/.metadata", "/run/"] {
        let file = File::open(server.url(path)).unwrap();
        assert_eq!(file.load::<TensorMap>().unwrap(), local);
        let mut written = Vec::new();
        file.get("columns").unwrap().write_row_major_to(&mut written).unwrap();
        assert_eq!(written, local["columns"].as_bytes());
        assert_eq!(file.metadata().unwrap().entries["step"], "7");
    }
    assert_eq!(load_tensor(server.url("/run/.metadata"), "rows").unwrap(), local["rows"]);
    let url = server.url("/half/.metadata");
    server.put("/half/.metadata", fs::read(fixture("sharded_4/.metadata")).unwrap());
    let error = File::open(&url).unwrap_err().to_string();
    assert!(error.contains("; the metadata says that `") && error.contains("did not finish"), "{error}");

    // Rows longer than the beginning that is read when a file is opened.
    const ROW: u32 = 20_000;
    let (mut chunks, row) = (Vec::new(), u64::from(ROW));
    for rank in 0..2_u32 {
        let numbers: Vec<i32> = (0..2 * ROW).map(|i| (i * (rank + 1)).cast_signed()).collect();
        let item = ints(&numbers, &[2, row]);
        let path = format!("__{rank}_0.distcp");
        server.put(&format!("/long/{path}"), &item[..]);
        let item = Item { path, offset: 0, length: item.len() as u64, transforms: Vec::new() };
        chunks.push(Chunk { offsets: vec![u64::from(2 * rank), 0], sizes: vec![2, row], item });
    }
    let entries = [("a".to_owned(), Entry::Tensor("int32", vec![4, row], chunks))];
    let file = File::open(server.put("/long/.metadata", dcp_writer::metadata(&entries, b"N"))).unwrap();
    server.take_seen();
    let slice = file.slice("a", &[3..4, 0..ROW as usize]).unwrap();
    assert!(slice.array::<i32>().unwrap().iter().copied().eq((ROW..2 * ROW).map(|i| (2 * i).cast_signed())));
    let asked: Vec<_> = server.take_seen().into_iter().map(|seen| (seen.target.clone(), seen.len())).collect();
    assert_eq!(asked, [("/long/__1_0.distcp".to_owned(), 4 * ROW as usize)]);
    assert_eq!(file.load::<TensorMap>().unwrap()["a"], file.tensor("a").unwrap());
}
