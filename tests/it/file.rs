//! Files on disk: how the format is found, how much opening reads, and which files a save leaves.

#![allow(clippy::single_range_in_vec_init, reason = "a vector is sliced by one range")]

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use ndarray::{Array2, ArrayView1, Ix1, Ix2, array};
use tensorfile::file::Backend;
use tensorfile::model::{TensorData, TensorRecord, TensorSink};
use tensorfile::{
    Category, ErrorKind, FORMATS, File, Format, OpenOptions, SaveOptions, Tensor, TensorFile, TensorMap, TensorView,
    Tensors, WriteOptions,
};

use crate::support::{format, in_written_order, multi_tensor_formats};

fn map() -> TensorMap {
    let weight: Vec<f32> = (0_u8..24).map(f32::from).collect();
    [
        ("weight", Tensor::from_slice(&weight, [2, 3, 4]).unwrap()),
        ("bias", Tensor::from_slice(&[1_i32, -1], [2]).unwrap()),
        ("empty", Tensor::from_slice::<f32>(&[], [0, 2]).unwrap()),
        ("scale", Tensor::from_slice(&[0.5_f32], []).unwrap()),
    ]
    .into_iter()
    .collect()
}

/// Saves the map in each of them.
fn for_every_format(mut test: impl FnMut(&'static Format, &Path)) {
    let folder = tempfile::tempdir().unwrap();
    for format in multi_tensor_formats() {
        let path = folder.path().join("file").with_extension(format.extensions[0]);
        SaveOptions::new().write(WriteOptions::new().embed_names(true)).save(&path, &map()).unwrap();
        test(format, &path);
    }
}

fn backends() -> [OpenOptions; 2] {
    [Backend::Mapped, Backend::Positioned].map(|backend| OpenOptions::new().backend(backend))
}

#[test]
fn opens_lists_and_reads_every_format() {
    for_every_format(|format, path| {
        for options in backends() {
            let file = options.open(path).unwrap();
            assert_eq!((file.format().name, file.len()), (format.name, 4));
            assert_eq!(file.file_bytes(), fs::metadata(path).unwrap().len());
            for tensor in file.tensors() {
                assert_eq!(tensor.read().unwrap(), map()[tensor.name()], "{}: {}", format.name, tensor.name());
                let range = tensor.range();
                let bytes = &fs::read(path).unwrap()[usize::try_from(range.start).unwrap()..]
                    [..usize::try_from(tensor.payload_bytes()).unwrap()];
                assert_eq!(bytes, map()[tensor.name()].as_bytes());
            }
            assert_eq!(file.array::<i32, Ix1>("bias").unwrap(), array![1, -1]);
            assert_eq!(file.load::<TensorMap>().unwrap().len(), 4);
            let copied = format.to_vec(&file, &WriteOptions::new().embed_names(true)).unwrap();
            assert_eq!(copied, fs::read(path).unwrap(), "{}: a file is a collection", format.name);
        }
    });
}

#[test]
fn reads_parts_of_payloads() {
    for_every_format(|format, path| {
        for options in backends() {
            let file = options.open(path).unwrap();
            let (tensor, whole) = (file.get("weight").unwrap(), map()["weight"].as_bytes().to_vec());
            let mut part = [0; 10];
            if ["npz", "pytorch"].contains(&format.name) {
                let error = tensor.read_at(0, &mut part).unwrap_err();
                assert!(error.to_string().contains("read a part of a payload that is packed"), "{error}");
                continue;
            }
            for start in [0, 7, whole.len() - 10] {
                tensor.read_at(start as u64, &mut part).unwrap();
                assert_eq!(part, whole[start..start + 10], "{}", format.name);
            }
            tensor.read_at(whole.len() as u64, &mut []).unwrap();
            for start in [whole.len() as u64 - 9, u64::MAX] {
                let error = tensor.read_at(start, &mut part).unwrap_err();
                assert!(matches!(error.kind(), ErrorKind::Truncated { needed: 10, .. }), "{error}");
                assert_eq!(error.tensor(), Some("weight"));
            }
        }
    });
}

#[test]
fn slices_as_ndarray_does() {
    for_every_format(|format, path| {
        for options in backends() {
            let file = options.open(path).unwrap();
            let whole = file.array::<f32, ndarray::Ix3>("weight").unwrap();
            for ranges in
                [[0..2, 0..3, 0..4], [1..2, 0..3, 1..2], [0..2, 2..3, 0..4], [0..2, 1..1, 0..4], [0..1, 0..1, 3..4]]
            {
                let part = file.slice("weight", &ranges).unwrap();
                let [a, b, c] = ranges.clone();
                let expected = whole.slice(ndarray::s![a, b, c]).to_owned();
                assert_eq!(part.as_view().array::<f32>().unwrap(), expected.into_dyn(), "{} {ranges:?}", format.name);
            }
            assert_eq!(file.slice("scale", &[]).unwrap(), map()["scale"]);
            let error = file.slice("bias", &[0..3]).unwrap_err();
            assert_eq!(error.category(), Category::Call);
            assert!(error.to_string().ends_with("cannot take the range 0..3; the shape is [2]"), "{error}");
        }
    });
}

/// A reader that counts the bytes that are read.
struct Counted(io::Cursor<Vec<u8>>, Arc<AtomicUsize>);

impl io::Read for Counted {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let read = self.0.read(bytes)?;
        self.1.fetch_add(read, Ordering::Relaxed);
        Ok(read)
    }
}

impl io::Seek for Counted {
    fn seek(&mut self, to: io::SeekFrom) -> io::Result<u64> {
        self.0.seek(to)
    }
}

#[test]
fn slices_read_at_most_twice_the_rows_that_they_touch() {
    for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        let tensor = |shape: [usize; 3]| {
            let layout = tensorfile::Layout::from_dim_order(&order).unwrap();
            let info = tensorfile::TensorInfo { layout, ..tensorfile::TensorInfo::new(tensorfile::Dtype::F32, shape) };
            let numbers: Vec<u8> = (0..=250).cycle().take(info.payload_bytes().unwrap()).collect();
            (format!("{shape:?}"), Tensor::new(info, &numbers).unwrap())
        };
        let map: TensorMap = [[30, 20, 25], [3, 1, 9000], [2, 4500, 5], [350, 45, 1]].map(tensor).into_iter().collect();
        for format in multi_tensor_formats() {
            let options = WriteOptions::new().embed_names(true);
            // Formats that cannot store this order store rows.
            let in_order = format.to_vec(&map, &options.clone().keep_dim_order(true));
            check_bytes_of_slices(&in_order.or_else(|_| format.to_vec(&map, &options)).unwrap());
        }
    }
}

/// Slices the tensors of a file, all of `f32[_, _, _]`, in several ways, and counts the bytes that are read.
fn check_bytes_of_slices(bytes: &[u8]) {
    let in_memory = File::from_bytes(bytes.to_vec()).unwrap();
    let read = Arc::new(AtomicUsize::new(0));
    let file = File::from_reader(Counted(io::Cursor::new(bytes.to_vec()), Arc::clone(&read))).unwrap();
    for tensor in file.tensors() {
        let dims = tensor.shape().dims();
        let order = match tensor.layout() {
            tensorfile::Layout::DimOrder(order) => order.as_slice().iter().copied().map(usize::from).collect(),
            _ => vec![0, 1, 2],
        };
        let innermost = order.into_iter().rev().find(|dim| dims[*dim] > 1).unwrap();
        // All of a dim, its ends, one in the middle, and a part.
        let parts = |dim: usize| [0..dim, 0..1, dim - 1..dim, dim / 2..dim / 2 + 1, dim / 3..dim.div_ceil(2)];
        for at in 0..125 {
            let chosen = dims.iter().zip([at % 5, at / 5 % 5, at / 25]);
            let ranges: Vec<_> = chosen.map(|(dim, part)| parts(*dim)[part].clone()).collect();
            let others = (0..3).filter(|dim| *dim != innermost).map(|dim| ranges[dim].len());
            let rows = others.product::<usize>() * dims[innermost] * size_of::<f32>();
            read.store(0, Ordering::Relaxed);
            let part = tensor.slice(&ranges).unwrap();
            let (read, what) = (read.load(Ordering::Relaxed), (file.format().name, tensor, &ranges));
            assert!(read <= 2 * rows, "{read} bytes for rows of {rows}: {what:?}");
            assert!(part == in_memory.slice(tensor.name(), &ranges).unwrap(), "{what:?}");
        }
    }
}

#[test]
fn every_way_of_writing_stores_rows_unless_asked() {
    let info = tensorfile::TensorInfo {
        layout: tensorfile::Layout::from_dim_order(&[1, 0]).unwrap(),
        ..tensorfile::TensorInfo::new(tensorfile::Dtype::U8, [3, 2])
    };
    let map: TensorMap = [("0", Tensor::new(info, &[1, 2, 3, 4, 5, 6]).unwrap())].into_iter().collect();
    for_every_format(|format, path| {
        if !format.dtypes.contains(&tensorfile::Dtype::U8) {
            return;
        }
        let read = |what: &str| {
            let file = File::open(path).unwrap();
            let tensor = file.get("0").unwrap();
            assert_eq!(*tensor.layout(), tensorfile::Layout::RowMajor, "{}: {what}", format.name);
            assert_eq!(tensor.read().unwrap().as_bytes(), [1, 4, 2, 5, 3, 6], "{}: {what}", format.name);
        };
        SaveOptions::new().save(path, &map).unwrap();
        read("save");
        fs::write(path, format.to_vec(&map, &WriteOptions::new()).unwrap()).unwrap();
        read("to_vec");
        let mut file = Vec::new();
        format.to_writer(&mut file, &map, &WriteOptions::new()).unwrap();
        fs::write(path, file).unwrap();
        read("to_writer");
    });
}

#[cfg(feature = "ptd")]
#[test]
fn slices_and_writes_other_memory_orders() {
    let info = tensorfile::TensorInfo {
        layout: tensorfile::Layout::from_dim_order(&[1, 0]).unwrap(),
        ..tensorfile::TensorInfo::new(tensorfile::Dtype::U8, [2, 3])
    };
    let map: TensorMap = [("columns", Tensor::new(info, &[1, 4, 2, 5, 3, 6]).unwrap())].into_iter().collect();
    let bytes = format("ptd").to_vec(&map, &WriteOptions::new().keep_dim_order(true)).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("columns.ptd");
    fs::write(&path, bytes).unwrap();
    for options in backends() {
        let file = options.open(&path).unwrap();
        assert_eq!(file.slice("columns", &[0..2, 1..3]).unwrap().as_bytes(), [2, 3, 5, 6]);
        let mut rows = Vec::new();
        file.get("columns").unwrap().write_row_major_to(&mut rows).unwrap();
        assert_eq!(rows, [1, 2, 3, 4, 5, 6]);
    }
}

#[test]
fn borrows_from_a_mapping_only() {
    for_every_format(|format, path| {
        if cfg!(feature = "mmap") {
            let file = File::open(path).unwrap();
            let view = file.view("bias").unwrap();
            assert_eq!(view.as_bytes(), map()["bias"].as_bytes());
            let array: ArrayView1<i32> = file.get("bias").unwrap().load().unwrap();
            assert_eq!(array, array![1, -1]);
        }
        let file = OpenOptions::new().backend(Backend::Positioned).open(path).unwrap();
        let error = file.view("bias").unwrap_err();
        assert_eq!(error.tensor(), Some("bias"));
        assert!(error.to_string().contains("cannot borrow from a file that is read at positions"), "{error}");
        assert_eq!(error.format(), Some(format.name));
    });
}

#[test]
fn loading_a_view_says_what_to_load_instead() {
    #[derive(TensorFile, Debug)]
    struct Viewed<'a> {
        a: ArrayView1<'a, f32>,
    }

    #[derive(TensorFile, Debug)]
    struct Whole<'a> {
        a: TensorView<'a>,
    }

    #[derive(TensorFile, Debug)]
    struct Either<'a> {
        a: ndarray::CowArray<'a, f32, Ix1>,
    }

    #[derive(TensorFile, Debug)]
    struct List<'a> {
        a: std::borrow::Cow<'a, [f32]>,
    }

    let folder = tempfile::tempdir().unwrap();
    let map: TensorMap = [("a", Tensor::from_slice(&[1.0_f32, 2.0], [2]).unwrap())].into_iter().collect();
    for format in crate::support::written_formats().filter(|format| format.max_tensors.is_none()) {
        let path = folder.path().join("a").with_extension(format.extensions[0]);
        SaveOptions::new().write(WriteOptions::new().embed_names(true)).save(&path, &map).unwrap();
        let file = OpenOptions::new().backend(Backend::Positioned).open(&path).unwrap();
        let expected = |owned: &str| {
            let what =
                "cannot borrow from a stream, from a file that is read at positions, or from a tensor that is packed";
            format!("{}: tensor `a`: {what}; use {owned}, or `File::view` of a file in memory (at byte ", format.name)
        };
        let error = crate::support::message(file.load::<Viewed<'_>>());
        assert!(error.starts_with(&expected("an owned array")), "{error}");
        let error = crate::support::message(file.load::<Whole<'_>>());
        assert!(error.starts_with(&expected("a `Tensor`")), "{error}");
        assert!(file.load::<Either<'_>>().unwrap().a.is_owned());
        assert!(matches!(file.load::<List<'_>>().unwrap().a, std::borrow::Cow::Owned(_)));

        // In memory, all of them borrow.
        let file = File::from_bytes(fs::read(&path).unwrap()).unwrap();
        if cfg!(target_endian = "little") && file.get("a").unwrap().view().is_ok() {
            assert_eq!(file.load::<Viewed<'_>>().unwrap().a, array![1.0, 2.0]);
            assert_eq!(file.load::<Whole<'_>>().unwrap().a.shape().dims(), [2]);
        }
    }
}

#[cfg(feature = "mmap")]
#[test]
fn bools_are_not_borrowed_from_a_mapping() {
    let map: TensorMap = [("0", Tensor::from_slice(&[true, false], [2]).unwrap())].into_iter().collect();
    let folder = tempfile::tempdir().unwrap();
    for format in crate::support::written_formats().filter(|format| format.dtypes.contains(&tensorfile::Dtype::Bool)) {
        let path = folder.path().join(format!("bools.{}", format.extensions[0]));
        let bytes = format.to_vec(&map, &WriteOptions::new()).unwrap();
        fs::write(&path, &bytes).unwrap();
        let file = File::open(&path).unwrap();
        let tensor = file.get("0").unwrap();
        let expected = format!(
            "{}: tensor `{}`: cannot borrow bools of a mapped file, which another process could change; use an owned array",
            format.name,
            if tensor.has_name() { "0" } else { "#0" },
        );
        assert_eq!(crate::support::message(tensor.view()), expected);
        assert!(tensor.as_bytes().is_none());
        let error = tensor.load::<ArrayView1<'_, bool>>().unwrap_err().to_string();
        assert!(
            error.contains("cannot borrow bools from a stream, of other bytes than 0 and 1, or from a mapped"),
            "{error}"
        );
        let array = tensor.array::<bool, Ix1>().unwrap();
        assert_eq!(array, array![true, false]);
        let cow: ndarray::CowArray<'_, bool, Ix1> = tensor.load().unwrap();
        assert!(cow.is_owned());
        assert_eq!(file.load::<TensorMap>().unwrap(), map);

        // Owned elements are checked after they are copied.
        let mut changed = fs::OpenOptions::new().write(true).open(&path).unwrap();
        io::Seek::seek(&mut changed, io::SeekFrom::Start(tensor.range().start)).unwrap();
        io::Write::write_all(&mut changed, &[200]).unwrap();
        let takes_any = ["npy", "npz", "pytorch"].contains(&format.name);
        // The checksum in an archive matches the old bytes.
        assert_eq!(tensor.array::<bool, Ix1>().is_err(), format.name != "npy", "{}", format.name);
        let slice = tensor.slice(&[0..1]);
        assert_eq!(slice.is_err(), !takes_any, "{}: {slice:?}", format.name);
        assert_eq!(array, array![true, false]);

        // In memory nobody else changes them.
        let memory = OpenOptions::new().format(format).from_bytes(bytes).unwrap();
        assert!(memory.get("0").unwrap().view().is_ok());
    }
}

#[test]
fn opens_bytes_of_any_owner_and_readers() {
    fn shared<T: Send + Sync>(_: &T) {}

    for format in multi_tensor_formats() {
        let bytes = format.to_vec(&map(), &WriteOptions::new().embed_names(true)).unwrap();
        let owners = [
            File::from_bytes(bytes.clone()).unwrap(),
            File::from_bytes(Arc::<[u8]>::from(bytes.clone())).unwrap(),
            File::from_bytes(&*bytes.clone().leak()).unwrap(),
        ];
        for file in &owners {
            shared(file);
            assert_eq!(file.load::<TensorMap>().unwrap(), in_written_order(format, &map()), "{}", format.name);
            assert_eq!((file.path(), file.file_bytes()), (None, bytes.len() as u64));
            assert!(file.view("weight").is_ok(), "{}: tensors are borrowed", format.name);
        }

        let file = File::from_reader(io::Cursor::new(bytes.clone())).unwrap();
        shared(&file);
        assert!(file.view("weight").is_err(), "{}: nothing is borrowed", format.name);
        let threads: Vec<_> = std::thread::scope(|scope| {
            let load = || file.load::<TensorMap>().unwrap();
            let threads = [scope.spawn(load), scope.spawn(load), scope.spawn(load)];
            threads.map(|thread| thread.join().unwrap()).into()
        });
        assert!(threads.iter().all(|read| *read == in_written_order(format, &map())), "{}", format.name);
        let part = file.slice("weight", &[1..2, 0..3, 3..4]).unwrap();
        assert_eq!(part.to_array::<f32>().unwrap(), array![[[15.0], [19.0], [23.0]]].into_dyn());
    }
}

#[test]
fn readers_that_fail_give_errors() {
    /// A file that cannot be read after it was opened, as one of a network that is gone.
    struct Lost(io::Cursor<Vec<u8>>, Arc<AtomicBool>);

    impl io::Read for Lost {
        fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
            if self.1.load(Ordering::Relaxed) { Err(io::ErrorKind::ConnectionReset.into()) } else { self.0.read(bytes) }
        }
    }

    impl io::Seek for Lost {
        fn seek(&mut self, to: io::SeekFrom) -> io::Result<u64> {
            self.0.seek(to)
        }
    }

    for format in multi_tensor_formats() {
        let bytes = format.to_vec(&map(), &WriteOptions::new().embed_names(true)).unwrap();
        let lost = Arc::default();
        let file = File::from_reader(Lost(io::Cursor::new(bytes), Arc::clone(&lost))).unwrap();
        lost.store(true, Ordering::Relaxed);
        let error = file.tensor("weight").unwrap_err();
        assert_eq!((error.category(), error.tensor()), (Category::Io, Some("weight")), "{}: {error}", format.name);
        lost.store(false, Ordering::Relaxed);
        assert!(file.tensor("weight").is_ok(), "{}", format.name);
    }
}

#[test]
fn tensors_without_names_are_named_after_their_file_on_request() {
    let folder = tempfile::tempdir().unwrap();
    let names = |file: &File| tensorfile::view::names_after_file(file);
    let save = |name: &str, count: usize| {
        let path = folder.path().join(name);
        let tensors: Vec<Tensor> = (0..count).map(|_| Tensor::from_slice(&[1_u8], [1]).unwrap()).collect();
        fs::write(&path, tensorfile::btf::to_vec(&tensors).unwrap()).unwrap();
        File::open(&path).unwrap()
    };
    let one = save("conv1.weight.btf", 1);
    assert_eq!(names(&one), ["conv1.weight"]);
    assert_eq!(one.nth(0).unwrap().name(), "0");
    assert_eq!(names(&save("several.btf", 2)), ["several.0", "several.1"]);
    let in_memory = File::from_bytes(fs::read(folder.path().join("several.btf")).unwrap()).unwrap();
    assert_eq!(names(&in_memory), ["arr_0", "arr_1"]);
    let named = File::from_bytes(format("ten").to_vec(&map(), &WriteOptions::new()).unwrap()).unwrap();
    assert_eq!(names(&named), named.tensors().map(|tensor| tensor.name()).collect::<Vec<_>>());
}

#[test]
fn finds_tensors_by_name_and_by_position() {
    let file = OpenOptions::new().from_bytes(format("btf").to_vec(&map(), &WriteOptions::new()).unwrap()).unwrap();
    assert_eq!(file.get("1").unwrap().info(), file.get("#1").unwrap().info());
    assert!(!file.get("#1").unwrap().has_name());
    assert_eq!((file.position("1"), file.position("4"), file.position("bias")), (Some(1), None, None));
    assert_eq!(file.nth(1).map(|tensor| tensor.name()), Some("1"));
    assert!(file.nth(4).is_none());
    let error = file.array::<f64, Ix1>("#1").unwrap_err();
    assert_eq!(error.tensor(), Some("#1"), "{error}");
    let error = file.get("#4").unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Missing { name, .. } if name == "#4"), "{error}");
    assert_eq!(
        file.get("bias").unwrap_err().to_string(),
        "btf: missing tensor `bias`; the file has no names, but `#0`, `#1`, `#2`, `#3`"
    );
    // Of many, the similar ones come first.
    let many: TensorMap = (0..30_u8).map(|at| (at.to_string(), Tensor::from_slice(&[at], [1]).unwrap())).collect();
    let file = File::from_bytes(format("btf").to_vec(&many, &WriteOptions::new()).unwrap()).unwrap();
    let error = file.get("layers.7").unwrap_err().to_string();
    assert!(error.contains("; the file has no names, but `#7`, `#"), "{error}");
    let file = OpenOptions::new().from_bytes(format("ten").to_vec(&map(), &WriteOptions::new()).unwrap()).unwrap();
    assert_eq!((file.get("bias").unwrap().position(), file.get("#1").unwrap().name()), (1, "bias"));
    assert_eq!((file.position("bias"), file.position("bais")), (Some(1), None));
    assert_eq!(
        file.get("bais").unwrap_err().to_string(),
        "ten: missing tensor `bais`; the file has `bias`, `scale`, `weight`, `empty`"
    );
}

#[test]
fn detects_by_content_then_extension() {
    let folder = tempfile::tempdir().unwrap();
    let open = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        fs::write(&path, bytes).unwrap();
        File::open(path).map(|file| file.format().name)
    };
    for format in multi_tensor_formats() {
        let bytes = format.to_vec(&map(), &WriteOptions::new().embed_names(true)).unwrap();
        assert_eq!(open("noextension", &bytes).unwrap(), format.name);
        if format.name != "btf" {
            assert_eq!(open("wrong.btf", &bytes).unwrap(), format.name, "the magic is asked first");
        }
    }
    let btf = format("btf").to_vec(&map(), &WriteOptions::new()).unwrap();
    assert_eq!(open("ten.TEN", b"").unwrap(), "ten", "an empty stream of tensors");
    assert_eq!(
        open("wrong.ten", &btf).unwrap(),
        "btf",
        "a look at the content beats an extension whose magic is missing"
    );
    assert_eq!(open("wrong.ten", b"\x01what is this?").unwrap_err().format(), Some("ten"), "content that says nothing");
    let error = open("what", b"\x01what is this?").unwrap_err();
    let formats: Vec<_> = FORMATS.iter().map(|format| format.name).collect();
    assert_eq!(
        error.without_path().to_string(),
        format!(
            "the file's format was not recognized: it begins with `\\x01what is`; the formats are {} (at byte 0)",
            formats.join(", ")
        )
    );
    assert_eq!(error.category(), Category::File);
    if cfg!(all(feature = "npz", feature = "ptd")) {
        let both = b"PK\x03\x04FT01";
        let error = open("both", both).unwrap_err();
        assert_eq!(error.without_path().to_string(), "the file could be ptd or npz; name its format");
        assert_eq!(open("both.ptd", both).unwrap_err().format(), Some("ptd"), "here the extension says it");
    }
    assert_eq!(open("nothing", b"").unwrap_err().without_path().to_string(), "the file is empty (at byte 0)");
}

#[test]
fn files_are_shown_in_short() {
    let bytes = format("ten").to_vec(&map(), &WriteOptions::new()).unwrap();
    let file = OpenOptions::new().from_bytes(bytes).unwrap();
    assert_eq!(format!("{file:?}"), "File { location: None, format: \"ten\", tensors: 4, file_bytes: 640, .. }");
    assert!(format!("{:?}", file.get("bias").unwrap()).starts_with("FileTensor { name: \"bias\", info: TensorInfo {"));
}

#[test]
fn a_file_can_be_shared_between_threads() {
    fn is_shared<T: Send + Sync>() {}
    is_shared::<File>();
}

#[test]
fn says_which_path_cannot_be_opened() {
    let folder = tempfile::tempdir().unwrap();
    for path in [folder.path().join("missing.btf"), folder.path().to_owned()] {
        let error = File::open(&path).unwrap_err();
        assert_eq!(error.category(), Category::Io);
        assert!(error.to_string().starts_with(&format!("{}: ", path.display())), "{error}");
    }
}

#[test]
fn a_file_that_shrinks_is_an_error_when_it_is_read_at_positions() {
    for_every_format(|format, path| {
        let file = OpenOptions::new().backend(Backend::Positioned).open(path).unwrap();
        let cut = file.get("weight").unwrap().range().start + 10;
        fs::OpenOptions::new().write(true).open(path).unwrap().set_len(cut).unwrap();
        let error = file.tensor("weight").unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Truncated { needed: 96, left: 10 }), "{}: {error}", format.name);
        assert_eq!((error.tensor(), error.offset()), (Some("weight"), Some(cut - 10)));
        assert!(file.load::<TensorMap>().is_err());
        assert!(file.slice("weight", &[1..2, 0..3, 0..4]).is_err());
        assert!(format.to_vec(&file, &WriteOptions::new().embed_names(true)).is_err());
    });
}

#[test]
fn failed_saves_keep_the_old_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.btf");
    fs::write(&path, "old").unwrap();
    let half: TensorMap = [("h", Tensor::from_slice(&[half::f16::ONE], [1]).unwrap())].into_iter().collect();
    let error = tensorfile::save(&path, &half).unwrap_err();
    assert!(error.to_string().starts_with("btf: tensor `h`: cannot store f16"), "{error}");
    assert_eq!(fs::read(&path).unwrap(), b"old");
    let names: Vec<PathBuf> = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(names, [path]);
}

#[test]
fn saving_by_an_unknown_extension_says_which_there_are() {
    let error = tensorfile::save("model.dat", &map()).unwrap_err().to_string();
    assert!(
        error.starts_with("cannot find the format by the extension `.dat`; known extensions are .btf, .ten"),
        "{error}"
    );
    let error = tensorfile::save("model", &map()).unwrap_err().to_string();
    assert!(error.starts_with("cannot find the format by the file name, which has no extension;"), "{error}");
}

#[test]
fn a_mapped_file_stays_as_it_was_when_it_is_saved_over() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.ten");
    tensorfile::save(&path, &map()).unwrap();
    let file = File::open(&path).unwrap();
    // Converting a file onto itself reads the old one while the new one is written.
    tensorfile::save(&path, &file).unwrap();
    let two: Array2<f32> = array![[1.0, 2.0]];
    tensorfile::save(&path, &vec![two.clone()]).unwrap();
    assert_eq!(file.tensor("bias").unwrap(), map()["bias"]);
    assert_eq!(File::open(&path).unwrap().array::<f32, Ix2>("0").unwrap(), two);
}

#[test]
fn metadata_goes_from_format_to_format() {
    for_every_format(|format, path| {
        let file = File::open(path).unwrap();
        assert!(file.metadata().unwrap().entries.is_empty());
        let metadata = [("no such key".to_owned(), "value".to_owned())].into_iter().collect();
        let options = WriteOptions::new().embed_names(true).metadata(metadata);
        let written = format.to_vec(&file, &options);
        if format.keeps_metadata("no such key") {
            let file = OpenOptions::new().from_bytes(written.unwrap()).unwrap();
            assert_eq!(file.metadata().unwrap().entries.get("no such key").map(String::as_str), Some("value"));
        } else {
            let error = written.unwrap_err().to_string();
            assert!(error.contains("cannot keep the metadata `no such key`"), "{error}");
        }
    });
}

mod load {
    use ndarray::{Array1, Array3};
    use tensorfile::TensorFile;
    use tensorfile::report::LoadReport;

    use super::*;

    #[derive(TensorFile, Debug)]
    #[allow(dead_code, reason = "what matters is what they want")]
    struct Wrong {
        weight: Array3<f64>,
        bias: Array1<i32>,
        emtpy: Array2<f32>,
    }

    #[derive(TensorFile)]
    #[tensor(allow_unknown)]
    struct Part {
        bias: Array1<i32>,
    }

    #[test]
    fn all_that_does_not_fit_is_told_at_once() {
        for_every_format(|format, path| {
            let error = tensorfile::load::<Wrong>(path).unwrap_err();
            let ErrorKind::Load(report) = error.kind() else { panic!("{error}") };
            let LoadReport { missing, unexpected, wrong_dtype, .. } = &**report;
            assert_eq!((missing.len(), unexpected.len(), wrong_dtype.len()), (1, 2, 1), "{error}");
            assert_eq!(missing[0].near, ["empty"]);
            let expected = format!("{}: {}: 1 missing, 2 unexpected, 1 wrong dtype;", path.display(), format.name);
            assert!(error.to_string().starts_with(&expected), "{error}");
            assert_eq!(error.path(), Some(path));
            let json = serde_json::to_value(report).unwrap();
            assert_eq!(json["wrong_dtype"][0]["found"]["dtype"], "f32");
        });
    }

    #[test]
    fn rest_returns_the_tensors_that_a_type_does_not_take() {
        for_every_format(|format, path| {
            let file = File::open(path).unwrap();
            assert_eq!(file.load::<Part>().unwrap().bias, array![1, -1]);
            let rest: Vec<_> = file.rest::<Part>().iter().map(|tensor| tensor.name()).collect();
            let written = in_written_order(format, &map());
            assert_eq!(rest, written.names().filter(|name| *name != "bias").collect::<Vec<_>>());
        });
    }
}

#[test]
fn tensors_can_be_made_of_others() {
    /// The tensors that are not empty, in pieces of three bytes.
    struct Chosen(TensorMap);

    impl Tensors for Chosen {
        fn send(&self, sink: &mut dyn TensorSink) -> tensorfile::Result<()> {
            for (name, tensor) in self.0.iter().filter(|(_, tensor)| !tensor.as_bytes().is_empty()) {
                sink.tensor(&TensorRecord { name, info: tensor.info(), data: &Threes(tensor.as_bytes()), tied: None })?;
            }
            Ok(())
        }
    }

    struct Threes<'a>(&'a [u8]);

    impl TensorData for Threes<'_> {
        fn write_to(&self, out: &mut dyn io::Write) -> io::Result<()> {
            self.0.chunks(3).try_for_each(|piece| out.write_all(piece))
        }
    }

    let chosen = Chosen(map());
    for format in multi_tensor_formats() {
        let file = format.to_vec(&chosen, &WriteOptions::new().embed_names(true)).unwrap();
        let read = format.from_slice(&file).unwrap();
        let written = in_written_order(format, &map());
        let names: Vec<_> = written.names().filter(|name| *name != "empty").collect();
        assert_eq!(read.names().collect::<Vec<_>>(), names, "{}", format.name);
        assert_eq!(read["weight"], map()["weight"]);
    }
    let json = serde_json::to_value(&chosen as &dyn Tensors).unwrap();
    assert_eq!(json["bias"]["data"], serde_json::json!([1, 0, 0, 0, 255, 255, 255, 255]));
}

#[test]
fn progress_is_told_while_files_are_saved_and_loaded() {
    use std::sync::{Arc, Mutex};

    type Calls = Arc<Mutex<Vec<(u64, u64)>>>;

    #[derive(TensorFile)]
    #[tensor(allow_unknown)]
    struct Small {
        small: Tensor,
    }

    fn listener(calls: &Calls) -> impl Fn(tensorfile::Progress) + Send + Sync + 'static {
        let calls = Arc::clone(calls);
        move |progress| calls.lock().unwrap().push((progress.bytes, progress.total))
    }

    /// Returns the calls. Each has more bytes than the one before, and the last has all.
    #[track_caller]
    fn taken(calls: &Calls, what: &str) -> Vec<(u64, u64)> {
        let calls = std::mem::take(&mut *calls.lock().unwrap());
        assert!(calls.is_sorted(), "{what}: {calls:?}");
        assert!(calls.last().is_some_and(|(bytes, total)| bytes == total), "{what}: {calls:?}");
        calls
    }

    let folder = tempfile::tempdir().unwrap();
    let large = Tensor::from_slice(&vec![1_i8; 20 << 20], [20 << 20]).unwrap();
    let map: TensorMap =
        [("large", large), ("small", Tensor::from_slice(&[1.0_f32], [1]).unwrap())].into_iter().collect();
    for format in multi_tensor_formats() {
        let (calls, name) = (Calls::default(), format.name);
        let path = folder.path().join(format!("model.{}", format.extensions[0]));
        let save = SaveOptions::new().write(WriteOptions::new().embed_names(true)).progress(listener(&calls));
        save.save(&path, &map).unwrap();
        let saved = taken(&calls, name);
        assert!(saved.len() >= 3, "{name}: a large tensor has several calls: {saved:?}");
        assert_eq!(saved[0].1, fs::metadata(&path).unwrap().len(), "{name}");

        for backend in [Backend::Mapped, Backend::Positioned] {
            let file = OpenOptions::new().backend(backend).progress(listener(&calls)).open(&path).unwrap();
            file.load::<TensorMap>().unwrap();
            // Sorted tensors begin with the small one.
            let first = if name == "safetensors" { 4 } else { 20 << 20 };
            assert_eq!(taken(&calls, name), [(first, (20 << 20) + 4), ((20 << 20) + 4, (20 << 20) + 4)], "{name}");
            file.deserialize::<TensorMap>().unwrap();
            assert_eq!(taken(&calls, name).len(), 2, "{name}");
            file.load::<Small>().unwrap();
            assert_eq!(taken(&calls, name), [(4, 4)], "{name}");
            // The tensor that is skipped is not known before.
            file.deserialize::<Small>().unwrap();
            assert_eq!(taken(&calls, name).first(), Some(&(4, (20 << 20) + 4)), "{name}");
        }

        #[cfg(feature = "safetensors")]
        {
            save.max_shard_bytes(1 << 20).save(&path, &map).unwrap();
            let saved = taken(&calls, name);
            assert!(saved.iter().all(|(_, total)| *total == saved[0].1), "{name}: {saved:?}");
            let index = folder.path().join(format!("model.{}.index.json", format.extensions[0]));
            let file = OpenOptions::new().progress(listener(&calls)).open(index).unwrap();
            file.load::<TensorMap>().unwrap();
            assert_eq!(taken(&calls, name).len(), 2, "{name}");
        }
    }
}
