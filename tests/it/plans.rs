//! Read plans: tensors and parts of tensors, read into the caller's memory.

use std::borrow::Cow;
use std::io;
use std::ops::{ControlFlow, Range};
use std::sync::{Arc, Mutex};

use ndarray::{Array1, Array2, ShapeBuilder};
use tensorfile::file::{Backend, PlanPiece, ReadRanges, Slabs};
use tensorfile::model::TensorData;
use tensorfile::{Dtype, ErrorKind, File, Layout, OpenOptions, Result, Tensor, TensorFile, TensorMap, WriteOptions};

use crate::every_format::{file_of, packed_samples, samples};
#[cfg(feature = "ptd")]
use crate::support::format;
use crate::support::memory::peak;
use crate::support::{message, multi_tensor_formats, tensor};

/// Bytes that count what they are asked for, and check that calls keep the promises.
struct Source {
    bytes: Vec<u8>,
    /// The ranges of each call.
    calls: Mutex<Vec<Vec<Range<u64>>>>,
}

impl Source {
    fn new(bytes: Vec<u8>) -> Arc<Self> {
        Arc::new(Self { bytes, calls: Mutex::default() })
    }

    fn open(self: &Arc<Self>) -> File {
        OpenOptions::new().open_ranges(Arc::clone(self) as Arc<dyn ReadRanges>).unwrap()
    }

    /// Returns the number of calls, of ranges, and of bytes since the last time.
    fn take(&self) -> (usize, usize, u64) {
        let calls = std::mem::take(&mut *self.calls.lock().unwrap());
        let ranges = || calls.iter().flatten();
        (calls.len(), ranges().count(), ranges().map(|range| range.end - range.start).sum())
    }
}

impl ReadRanges for Source {
    fn len(&self) -> io::Result<u64> {
        Ok(self.bytes.len() as u64)
    }

    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        self.read_many(&mut [(offset, bytes)])
    }

    fn read_many(&self, ranges: &mut [(u64, &mut [u8])]) -> io::Result<()> {
        let mut call = Vec::new();
        for (offset, bytes) in ranges {
            let range = *offset..*offset + bytes.len() as u64;
            let last: u64 = call.last().map_or(0, |last: &Range<u64>| last.end);
            assert!(last <= range.start, "{range:?} after {call:?}");
            bytes.copy_from_slice(&self.bytes[usize::try_from(range.start).unwrap()..][..bytes.len()]);
            call.push(range);
        }
        self.calls.lock().unwrap().push(call);
        Ok(())
    }

    fn name(&self) -> Cow<'_, str> {
        "store".into()
    }
}

/// Opens a file in all ways of access.
fn opened(bytes: &[u8]) -> Vec<(&'static str, File)> {
    let folder = crate::support::folder(true);
    let path = folder.path().join("file");
    std::fs::write(&path, bytes).unwrap();
    let open = |backend| OpenOptions::new().backend(backend).open(&path).unwrap();
    vec![
        ("memory", File::from_bytes(bytes.to_vec()).unwrap()),
        ("mapped", open(Backend::Mapped)),
        ("positioned", open(Backend::Positioned)),
        ("reader", File::from_reader(io::Cursor::new(bytes.to_vec())).unwrap()),
        ("source", Source::new(bytes.to_vec()).open()),
    ]
}

/// The elements of a tensor as the plan should read them.
fn row_major(file: &File, name: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    file.get(name).unwrap().write_row_major_to(&mut bytes).unwrap();
    bytes
}

/// The part of row-major elements, taken one by one.
fn part(bytes: &[u8], shape: &[usize], element: usize, ranges: &[Range<usize>]) -> Vec<u8> {
    let count: usize = ranges.iter().map(ExactSizeIterator::len).product();
    let mut found = Vec::new();
    for mut i in 0..count {
        let (mut offset, mut stride) = (0, element);
        for (range, dim) in ranges.iter().zip(shape).rev() {
            offset += (range.start + i % range.len()) * stride;
            i /= range.len();
            stride *= dim;
        }
        found.extend_from_slice(&bytes[offset..offset + element]);
    }
    found
}

/// Files of every format, with each order and encoding that it has.
fn files() -> Vec<(String, Vec<u8>)> {
    let mut files = Vec::new();
    let columns = Array2::from_shape_fn((30, 20).f(), |(row, column)| (100 * row + column) as f32);
    let bools = Array1::from_shape_fn(70, |i| i % 3 == 0);
    for format in tensorfile::FORMATS {
        let kept = samples(format).into_iter().chain(packed_samples(format)).map(|(_, file)| file);
        files.extend(kept.map(|file| (format.name.to_owned(), file)));
        if format.max_tensors.is_none() {
            let map = TensorMap::from_iter([("columns", Tensor::from_array(&columns))]);
            let options = WriteOptions::new().embed_names(true).keep_dim_order(true);
            files.extend(format.to_vec(&map, &options).ok().map(|file| (format!("{} of columns", format.name), file)));
            let map = TensorMap::from_iter([("bools", Tensor::from_array(&bools))]);
            files.extend(
                format.to_vec(&map, &WriteOptions::new()).ok().map(|file| (format!("{} of bools", format.name), file)),
            );
        }
    }
    // Tensors that share bytes, and read them as they are, conjugated, transposed, or from different places.
    #[cfg(feature = "pytorch")]
    for name in ["bits.pt", "overlapping.pt", "views.pt"] {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/pytorch").join(name);
        files.push((name.to_owned(), std::fs::read(path).unwrap()));
    }
    #[cfg(feature = "npz")]
    for compress in [false, true] {
        let options = tensorfile::npz::Options::new().compress(compress).keep_dim_order(true);
        let maps = [TensorMap::from_iter([("a", Tensor::from_array(&columns))]), {
            TensorMap::from_iter([("a", Tensor::from_array(&bools))])
        }];
        files.extend(maps.map(|map| (format!("npz, compressed: {compress}"), options.to_vec(&map).unwrap())));
    }
    // A file of no tensors may have no bytes.
    files.retain(|(_, file)| !file.is_empty());
    files
}

#[test]
fn every_format_is_read_whole() {
    for (what, bytes) in files() {
        for (way, file) in opened(&bytes) {
            for align in [1, 16, 4096] {
                let plan = file.read_plan().all().unwrap().align(align).finish().unwrap();
                let mut memory = vec![0x55; plan.bytes() + 3];
                plan.read_into(&mut memory).unwrap_or_else(|error| panic!("{what}, {way}: {error}"));
                assert_eq!((plan.pieces().len(), &memory[plan.bytes()..]), (file.len(), &[0x55; 3][..]));
                let mut end = 0;
                for piece in plan.pieces() {
                    let range = piece.range();
                    assert!(range.start >= end && range.start < end + align && range.start.is_multiple_of(align));
                    assert!(memory[end..range.start].iter().all(|byte| *byte == 0x55), "{what}, {way}: padding");
                    end = range.end;
                    let (name, tensor) = (piece.name(), piece.tensor());
                    assert_eq!(piece.info().shape, *tensor.shape(), "{what}, {way}, `{name}`");
                    assert!(!matches!(piece.info().layout, Layout::DimOrder(_)), "{what}, {way}, `{name}`");
                    let expected = row_major(&file, &format!("#{}", tensor.position()));
                    assert_eq!(memory[range], expected, "{what}, {way}, `{name}`");
                }
                assert_eq!(end, plan.bytes());
                let mut buffers: Vec<Vec<u8>> =
                    plan.pieces().iter().map(|piece| vec![0x55; piece.range().len()]).collect();
                plan.read_vectored(buffers.iter_mut().map(|buffer| &mut buffer[..]).collect()).unwrap();
                for (piece, buffer) in plan.pieces().iter().zip(buffers) {
                    assert_eq!(buffer, memory[piece.range()], "{what}, {way}, `{}`", piece.name());
                }
            }
        }
    }
}

#[test]
fn every_format_is_read_in_parts() {
    for (what, bytes) in files() {
        for (way, file) in opened(&bytes) {
            for tensor in file.tensors().filter(|tensor| !matches!(tensor.layout(), Layout::Coo { .. })) {
                let name = format!("#{}", tensor.position());
                let all = row_major(&file, &name);
                let (shape, element) = (tensor.shape().dims(), tensor.dtype().block_bytes());
                if tensor.dtype().block_elements() > 1 || tensor.info().unknown_dtype().is_some() {
                    continue;
                }
                for parts in 1..4 {
                    let ranges: Vec<_> = shape.iter().map(|dim| dim / (parts + 1)..dim.div_ceil(parts)).collect();
                    let plan = file.read_plan().slice(&name, &ranges).unwrap().tensor(&name).unwrap();
                    // Both read the same bytes.
                    let plan = plan.slice(&name, &ranges).unwrap().align(1).finish().unwrap();
                    let mut memory = vec![0; plan.bytes()];
                    plan.read_into(&mut memory).unwrap_or_else(|error| panic!("{what}, {way}, {ranges:?}: {error}"));
                    let expected = part(&all, shape, element, &ranges);
                    let expected = [&expected[..], &all, &expected].concat();
                    assert!(memory == expected, "{what}, {way}, `{name}` {ranges:?}");
                    let expected = part(&all, shape, element, &ranges);
                    assert_eq!(file.slice(&name, &ranges).unwrap().as_bytes(), expected);
                    let mut bytes = vec![0x55; expected.len()];
                    tensor.slice_into(&ranges, &mut bytes).unwrap();
                    assert_eq!(bytes, expected, "{what}, {way}, `{name}` {ranges:?}");
                }
            }
        }
    }
}

/// A `.ten` or other file of one matrix of bytes.
fn matrix(rows: usize, columns: usize) -> Vec<u8> {
    let bytes: Vec<u8> = (0..=250).cycle().take(rows * columns).collect();
    let map = TensorMap::from_iter([("m", Tensor::from_slice(&bytes, [rows, columns]).unwrap())]);
    file_of(multi_tensor_formats().next().unwrap(), &map)
}

#[test]
fn parts_read_little_more_than_their_bytes() {
    for (rows, columns, ranges, most) in [
        // A quarter along dimension 0.
        (400, 4096, [100..200, 0..4096], 1.0),
        (16, 1 << 20, [4..8, 0..1 << 20], 1.0),
        // A quarter along dimension 1, with long runs, and with short runs, for which whole rows may be read.
        (64, 256 << 10, [0..64, 64 << 10..128 << 10], 1.0),
        (8, 1 << 20, [0..8, 256 << 10..512 << 10], 1.0),
        (400, 4096, [0..400, 1024..2048], 4.0),
        (100, 80 << 10, [0..100, 0..20 << 10], 4.0),
        // Nearly all of the rows, with short and with long runs.
        (4000, 1000, [0..4000, 1..1000], 1.0011),
        (64, 80 << 10, [0..64, 0..64 << 10], 1.25),
        (64, 66 << 10, [0..64, 0..64 << 10], 1.04),
        // A column.
        (1000, 100, [0..1000, 7..8], 100.0),
    ] {
        let bytes = matrix(rows, columns);
        let source = Source::new(bytes.clone());
        for (way, file) in [("file", File::from_bytes(bytes).unwrap()), ("source", source.open())] {
            source.take();
            let plan = file.read_plan().slice("m", &ranges).unwrap().finish().unwrap();
            assert_eq!(source.take().2, 0, "headers only");
            let mut memory = vec![0; plan.bytes()];
            plan.read_into(&mut memory).unwrap();
            let share = plan.bytes_read() as f64 / plan.bytes() as f64;
            assert!((1.0..=most).contains(&share), "{way}: {share} of {rows} × {columns}, {ranges:?}");
            let asked = source.take().2;
            assert!(way == "file" || asked == plan.bytes_read(), "{asked} bytes for {ranges:?}");
            let spans = plan.spans();
            assert!(spans.windows(2).all(|pair| pair[0].end < pair[1].start), "{spans:?}");
        }
    }
}

#[test]
fn a_source_is_asked_for_many_ranges_together() {
    for format in multi_tensor_formats() {
        let names: Vec<String> = (0..200).map(|i| format!("layer.{i}")).collect();
        let map: TensorMap = names.iter().map(|name| (name, tensor(format.dtypes[0], &[20, 30]))).collect();
        let source = Source::new(file_of(format, &map));
        let file = source.open();
        source.take();
        let mut plan = file.read_plan();
        for i in 0..200 {
            plan = plan.tensor(&names[i * 77 % 200]).unwrap();
        }
        let plan = plan.align(1).finish().unwrap();
        let mut memory = vec![0; plan.bytes()];
        plan.read_into(&mut memory).unwrap();
        // Checksums cover the headers of members, too.
        let heads = if format.name == "npz" { 200 * 128 } else { 0 };
        let (calls, _, bytes) = source.take();
        assert_eq!((calls, bytes), (1, plan.bytes() as u64 + heads), "{}", format.name);
        for piece in plan.pieces() {
            assert_eq!(memory[piece.range()], *file.tensor(piece.name()).unwrap().as_bytes(), "{}", format.name);
        }
    }
}

#[test]
fn a_failure_of_a_source_names_its_tensor() {
    /// Bytes of which some are lost. The error does not say where.
    struct Damaged(Vec<u8>, Range<u64>);

    impl ReadRanges for Damaged {
        fn len(&self) -> io::Result<u64> {
            Ok(self.0.len() as u64)
        }

        fn read_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
            let range = offset..offset + bytes.len() as u64;
            if range.start < self.1.end && self.1.start < range.end {
                return Err(io::Error::other("a bad sector"));
            }
            bytes.copy_from_slice(&self.0[usize::try_from(offset).unwrap()..][..bytes.len()]);
            Ok(())
        }

        fn name(&self) -> Cow<'_, str> {
            "disk".into()
        }
    }

    let map = many(20);
    for format in multi_tensor_formats() {
        let bytes = file_of(format, &map);
        let lost = File::from_bytes(bytes.clone()).unwrap().get("layer.012").unwrap().range();
        let file = OpenOptions::new().open_ranges(Arc::new(Damaged(bytes, lost.end - 9..lost.end - 8))).unwrap();
        let expected = format!("disk: {}: tensor `layer.012`: a bad sector (at byte {})", format.name, lost.start);
        let plan = file.read_plan().all().unwrap().finish().unwrap();
        let (rows, columns) = (0..50, 0..99);
        let parts =
            map.iter().try_fold(file.read_plan(), |plan, (name, _)| plan.slice(name, &[rows.clone(), columns.clone()]));
        let parts = parts.unwrap().finish().unwrap();
        let errors = [
            plan.read_into(&mut vec![0; plan.bytes()]).unwrap_err(),
            parts.read_into(&mut vec![0; parts.bytes()]).unwrap_err(),
            file.load::<TensorMap>().unwrap_err(),
            file.load_into(&mut map.clone()).unwrap_err(),
        ];
        assert_eq!(errors.map(|error| error.to_string()), [(); 4].map(|()| expected.clone()));
    }
}

/// A file of two tensors of rows of 100 numbers with the same bytes, and a third.
#[cfg(feature = "ptd")]
fn tied(rows: usize) -> (TensorMap, Vec<u8>) {
    let shared = tensor(Dtype::F32, &[rows, 100]);
    let map = TensorMap::from_iter([("head", shared.clone()), ("bias", tensor(Dtype::F32, &[30])), ("embed", shared)]);
    let bytes = tensorfile::ptd::Options::new().dedup(true).to_vec(&map).unwrap();
    (map, bytes)
}

#[cfg(feature = "ptd")]
#[test]
fn tied_tensors_are_read_once() {
    let (map, bytes) = tied(300);
    let source = Source::new(bytes.clone());
    let file = source.open();
    assert_eq!(file.get("head").unwrap().range(), file.get("embed").unwrap().range());
    source.take();
    assert!(file.load::<TensorMap>().unwrap() == map);
    assert_eq!(source.take(), (1, 2, 120_120), "a load");
    for (way, file) in opened(&bytes) {
        let plan = file.read_plan().all().unwrap().slice("embed", &[0..300, 0..100]).unwrap().finish().unwrap();
        let mut memory = vec![0; plan.bytes()];
        plan.read_into(&mut memory).unwrap();
        for piece in plan.pieces() {
            assert!(memory[piece.range()] == *map[piece.name()].as_bytes(), "{way}, `{}`", piece.name());
        }
    }
    let plan = file.read_plan().all().unwrap().finish().unwrap();
    plan.read_into(&mut vec![0; plan.bytes()]).unwrap();
    assert_eq!(source.take(), (1, 2, 120_120), "a plan");
}

/// A long payload is not read together with others.
#[cfg(feature = "ptd")]
#[test]
fn long_tied_tensors_are_read_once() {
    #[derive(TensorFile)]
    struct Cast {
        #[tensor(cast)]
        head: Array2<f64>,
        bias: Array1<f32>,
        embed: Array2<f32>,
    }

    const ROWS: usize = 85_000;
    let (map, bytes) = tied(ROWS);
    let source = Source::new(bytes);
    let file = source.open();
    source.take();
    assert!(file.load::<TensorMap>().unwrap() == map);
    assert_eq!(source.take().2, 34_000_120);
    let cast: Cast = file.load().unwrap();
    assert_eq!((source.take().2, cast.bias.len(), cast.head.len()), (34_000_120, 30, cast.embed.len()));
    assert!((0..100).all(|i| f64::from(cast.embed[[ROWS - 1, i]]) == cast.head[[ROWS - 1, i]]));
    // No extra memory for the bytes of a tensor: they are read into the caller's.
    file.load_into(&mut map.clone()).unwrap();
    assert_eq!(source.take().2, 68_000_120);
}

/// A model of many small tensors, in order.
fn many(count: usize) -> TensorMap {
    (0..count).map(|i| (format!("layer.{i:03}"), tensor(Dtype::I32, &[50, 100]))).collect()
}

#[test]
fn a_load_asks_a_source_for_payloads_together() {
    for format in multi_tensor_formats() {
        let map = many(200);
        let source = Source::new(file_of(format, &map));
        let file = source.open();
        let all: u64 = file.tensors().map(|tensor| tensor.payload_bytes()).sum();
        source.take();
        let mut loaded: TensorMap = file.load().unwrap();
        let (calls, _, bytes) = source.take();
        assert!(loaded == map && calls == 1 && bytes < all + all / 50, "{}: {calls}, {bytes}", format.name);
        file.load_into(&mut loaded).unwrap();
        let (calls, _, bytes) = source.take();
        assert!(loaded == map && calls == 1 && bytes < all + all / 50, "{}: {calls}, {bytes}", format.name);
        // One of them alone.
        assert_eq!(file.get("layer.007").unwrap().load::<Tensor>().unwrap(), map["layer.007"]);
        assert!(source.take().2 < 21_000);
    }
}

#[test]
fn a_load_of_a_source_holds_little_more_than_its_value() {
    let map: TensorMap =
        (0..3).map(|i| (i.to_string(), Tensor::from_array(&Array1::from_elem(5 << 20, i as f32)))).collect();
    for format in multi_tensor_formats() {
        let source = Source::new(file_of(format, &map));
        let file = source.open();
        let (loaded, peak) = peak(|| file.load::<TensorMap>().unwrap());
        assert!(loaded == map && peak <= (60 << 20) + (32 << 20) + (1 << 20), "{}: {peak}", format.name);
    }
}

/// The payloads of some tensors, one after the other.
fn streamed(file: &File, step: usize) -> Vec<Vec<u8>> {
    let payload = |tensor: tensorfile::file::FileTensor<'_>| {
        let mut bytes = Vec::new();
        tensor.write_to(&mut bytes).unwrap();
        bytes
    };
    file.tensors().step_by(step).map(payload).collect()
}

#[test]
fn a_source_is_read_ahead_as_a_stream() {
    for format in multi_tensor_formats() {
        let map = many(400);
        let source = Source::new(file_of(format, &map));
        let file = source.open();
        source.take();
        assert!(streamed(&file, 1).iter().zip(map.iter()).all(|(bytes, (_, tensor))| bytes == tensor.as_bytes()));
        let (calls, _, bytes) = source.take();
        assert!(calls < 10 && bytes <= file.file_bytes(), "{}: {calls}, {bytes}", format.name);
        // Nothing is read between tensors that are far from each other.
        let payloads = streamed(&file, 9).len();
        let (calls, _, bytes) = source.take();
        assert!(calls <= 2 * payloads && bytes <= 20_200 * payloads as u64, "{}: {calls}, {bytes}", format.name);
    }
}

#[cfg(feature = "digest")]
#[test]
fn long_payloads_of_a_source_are_read_in_blocks() {
    let numbers = Array1::from_shape_fn(9 << 20, |i| (i >> 10) as u32);
    let map = TensorMap::from_iter([("a", Tensor::from_array(&numbers)), ("b", tensor(Dtype::U8, &[10]))]);
    let mut files = vec![file_of(multi_tensor_formats().next().unwrap(), &map)];
    #[cfg(feature = "npz")]
    files
        .extend([false, true].map(|compress| tensorfile::npz::Options::new().compress(compress).to_vec(&map).unwrap()));
    #[cfg(feature = "npy")]
    {
        let mut big_endian = tensorfile::npy::to_vec(&tensorfile::Arrays(&numbers)).unwrap();
        big_endian[..128].iter_mut().filter(|byte| **byte == b'<').for_each(|byte| *byte = b'>');
        files.push(big_endian);
    }
    for bytes in files {
        let expected = File::from_bytes(bytes.clone()).unwrap().nth(0).unwrap().read().unwrap();
        let source = Source::new(bytes);
        let file = source.open();
        let first = file.nth(0).unwrap();
        source.take();
        let digest = |data: &dyn TensorData| {
            let mut digester = tensorfile::digest::TensorDigester::new(first.info());
            data.write_to(&mut digester).unwrap();
            digester.finish().unwrap()
        };
        let (found, peak) = peak(|| digest(&first));
        assert_eq!(found, digest(&expected.as_bytes()));
        let (calls, ranges, bytes) = source.take();
        assert!(calls <= 3 && ranges <= 6 && bytes <= file.file_bytes(), "{calls}, {ranges}, {bytes}");
        assert!(peak <= 65 << 20, "{peak}");
        assert!(first.read().unwrap() == expected && source.take().0 <= 3);
        let loaded: TensorMap = file.load().unwrap();
        assert!(*loaded.iter().next().unwrap().1 == expected && source.take().0 <= 5);
        let plan = file.read_plan().all().unwrap().finish().unwrap();
        let mut memory = vec![0; plan.bytes()];
        plan.read_into(&mut memory).unwrap();
        assert!(memory[plan.pieces()[0].range()] == *expected.as_bytes() && source.take().0 <= 5);
    }
}

#[test]
fn calls_that_cannot_be_are_refused_before_anything_is_read() {
    let source = Source::new(matrix(4, 5));
    let file = source.open();
    source.take();
    let plan = file.read_plan().tensor("m").unwrap().slice("m", &[0..1, 0..5]).unwrap().align(16).finish().unwrap();
    let mut memory = [7; 36];
    let error = plan.read_into(&mut memory).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Unsupported { .. }));
    let format = file.format().name;
    let expected = format!(
        "store: {format}: cannot read 37 bytes into memory of 36; `ReadPlan::bytes` is the length of all pieces"
    );
    assert_eq!((error.to_string(), memory, source.take().0), (expected, [7; 36], 0));
    for (lens, expected) in [
        (vec![20], format!("store: {format}: cannot read 2 pieces into 1 buffers; each piece has a buffer")),
        (
            vec![20, 6],
            format!(
                "store: {format}: tensor `m`: cannot read 5 bytes into memory of 6; a buffer is as long as its piece"
            ),
        ),
    ] {
        let mut buffers: Vec<Vec<u8>> = lens.into_iter().map(|len| vec![7; len]).collect();
        let error = plan.read_vectored(buffers.iter_mut().map(|buffer| &mut buffer[..]).collect()).unwrap_err();
        assert_eq!((error.to_string(), source.take().0), (expected, 0));
        assert!(
            matches!(error.kind(), ErrorKind::Unsupported { .. }) && buffers.concat().iter().all(|byte| *byte == 7)
        );
    }

    for (found, expected) in [
        (file.read_plan().tensor("x").map(drop), format!("store: {format}: missing tensor `x`; the file has `m`")),
        (
            file.read_plan().slice("m", std::slice::from_ref(&(0..1))).map(drop),
            format!("store: {format}: tensor `m`: cannot take 1 range; the shape is [4, 5], of rank 2"),
        ),
        (
            file.read_plan().slice("m", &[0..1, 3..6]).map(drop),
            format!("store: {format}: tensor `m`: cannot take the range 3..6; the shape is [4, 5]"),
        ),
        (
            file.read_plan().tensors(Source::new(matrix(4, 5)).open().tensors()).map(drop),
            format!("store: {format}: tensor `m`: cannot read a tensor of another file; a plan is of one file"),
        ),
        (
            file.get("m").unwrap().slice_into(&[0..1, 0..5], &mut [0; 4]),
            format!(
                "store: {format}: tensor `m`: cannot read 5 bytes into memory of 4; the memory is as long as the part"
            ),
        ),
        (
            file.get("m").unwrap().slice_into(&[0..1, 3..6], &mut [0; 3]),
            format!("store: {format}: tensor `m`: cannot take the range 3..6; the shape is [4, 5]"),
        ),
        (
            file.read_plan().align(0).finish().map(drop),
            "cannot align pieces to 0 bytes; the least alignment is 1".to_owned(),
        ),
        (
            file.read_plan()
                .tensor("m")
                .unwrap()
                .align(1 << 62)
                .tensor("m")
                .unwrap()
                .align(usize::MAX)
                .tensor("m")
                .unwrap()
                .finish()
                .map(drop),
            format!("store: {format}: tensor `m`: memory for tensors in bytes"),
        ),
    ] {
        let found = found.unwrap_err().to_string();
        assert!(found.starts_with(&expected), "{found}");
    }
}

/// Slabs of a fixed length, and the pieces that were complete in each.
struct Log {
    slab: Vec<u8>,
    lent: Vec<usize>,
    complete: Vec<Vec<String>>,
    bytes: Vec<u8>,
}

impl Slabs for Log {
    fn lend(&mut self, bytes: usize) -> Result<&mut [u8]> {
        self.lent.push(bytes);
        Ok(&mut self.slab)
    }

    fn complete(&mut self, pieces: &[PlanPiece<'_>]) -> Result<()> {
        let start = pieces[0].range().start;
        self.complete.push(pieces.iter().map(|piece| piece.name().to_owned()).collect());
        for piece in pieces {
            self.bytes.extend_from_slice(&self.slab[piece.range().start - start..piece.range().end - start]);
        }
        Ok(())
    }
}

#[test]
fn slabs_are_filled_in_the_order_of_the_pieces() {
    let map: TensorMap = [("a", 30), ("b", 10), ("c", 0), ("d", 16), ("e", 40)]
        .map(|(name, len)| (name, tensor(Dtype::U8, &[len])))
        .into_iter()
        .collect();
    for (way, file) in opened(&file_of(multi_tensor_formats().next().unwrap(), &map)) {
        let plan = file.read_plan().all().unwrap().align(16).finish().unwrap();
        let log = |len| Log { slab: vec![0; len], lent: Vec::new(), complete: Vec::new(), bytes: Vec::new() };
        let mut slabs = log(48);
        plan.read_to(&mut slabs).unwrap();
        assert_eq!(
            (slabs.lent, slabs.complete),
            (
                vec![30, 16, 40],
                vec![vec!["a", "b", "c"], vec!["d"], vec!["e"]]
                    .into_iter()
                    .map(|names| names.into_iter().map(str::to_owned).collect())
                    .collect::<Vec<Vec<String>>>()
            ),
            "{way}"
        );
        let expected: Vec<u8> = map.iter().flat_map(|(_, tensor)| tensor.as_bytes().to_vec()).collect();
        assert_eq!(slabs.bytes, expected, "{way}");

        let mut slabs = log(39);
        let error = plan.read_to(&mut slabs).unwrap_err().without_path().to_string();
        let expected =
            "tensor `e`: cannot read 40 bytes into a slab of 39; `Slabs::lend` is called with the least length";
        assert_eq!(error, format!("{}: {expected}", file.format().name), "{way}");
        assert_eq!(slabs.complete.len(), 2, "{way}");
        struct Failing;
        impl Slabs for Failing {
            fn lend(&mut self, _: usize) -> Result<&mut [u8]> {
                Err(io::Error::other("no slab").into())
            }

            fn complete(&mut self, _: &[PlanPiece<'_>]) -> Result<()> {
                Ok(())
            }
        }
        assert_eq!(message(plan.read_to(&mut Failing)), "no slab");
    }
}

#[test]
fn a_type_chooses_its_tensors() {
    #[derive(TensorFile)]
    #[tensor(allow_unknown)]
    struct Model {
        #[tensor(rename = "c")]
        _c: Array1<u8>,
        #[tensor(rename = "a")]
        _a: Array1<u8>,
    }

    let map = TensorMap::from_iter(["a", "b", "c"].map(|name| (name, tensor(Dtype::U8, &[3]))));
    let file = File::from_bytes(file_of(multi_tensor_formats().next().unwrap(), &map)).unwrap();
    let plan = file.read_plan().of::<Model>().unwrap().align(1).finish().unwrap();
    let mut names: Vec<&str> = plan.pieces().iter().map(|piece| piece.name()).collect();
    names.sort_unstable();
    assert_eq!(names, ["a", "c"]);
    assert_eq!(plan.spans(), [file.get("a").unwrap().range(), file.get("c").unwrap().range()]);

    #[derive(Debug, TensorFile)]
    struct Other {
        #[tensor(rename = "a")]
        _a: Array1<f32>,
    }
    let error = file.read_plan().of::<Other>().unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Load(_)), "{error}");
    assert_eq!(error.to_string(), file.load::<Other>().unwrap_err().to_string());
}

/// The error names the first bad tensor in the order of the file, for any order of reading.
#[test]
fn malformed_payloads_are_named() {
    let mut map = TensorMap::new();
    for name in ["a", "b", "c", "d"] {
        map.insert(name, Tensor::from_array(&Array1::from_elem(3 << 20, true)));
    }
    // In archives, the checksum of a whole payload is wrong.
    for format in multi_tensor_formats().filter(|format| !["npz", "pytorch"].contains(&format.name)) {
        let Ok(mut bytes) = format.to_vec(&map, &WriteOptions::new().embed_names(true)) else { continue };
        let file = File::from_bytes(bytes.clone()).unwrap();
        let places = ["b", "c"].map(|name| usize::try_from(file.get(name).unwrap().range().start).unwrap() + 12345);
        places.iter().for_each(|place| bytes[*place] = 9);
        for (way, file) in opened(&bytes) {
            let mut plan = file.read_plan();
            for name in ["d", "c", "b", "a"] {
                plan = plan.tensor(name).unwrap();
            }
            let plan = plan.finish().unwrap();
            let error = plan.read_into(&mut vec![0; plan.bytes()]).unwrap_err();
            let found = (error.tensor(), error.offset(), error.without_path().to_string());
            let expected = file.tensor("b").unwrap_err();
            assert_eq!(
                found,
                (Some("b"), Some(places[0] as u64), expected.without_path().to_string()),
                "{}, {way}",
                format.name
            );
            // A part that begins elsewhere names the same element.
            let plan = file.read_plan().slice("b", std::slice::from_ref(&(1000..20_000))).unwrap().finish().unwrap();
            let error = plan.read_into(&mut vec![0; plan.bytes()]).unwrap_err();
            assert_eq!(error.offset(), Some(places[0] as u64), "{}, {way}: {error}", format.name);
        }
    }
}

#[cfg(feature = "npz")]
#[test]
fn checksums_are_compared() {
    let map = TensorMap::from_iter([("a", Array1::from_elem(300_000, 1.0_f32)), ("b", Array1::from_elem(3, 2.0))]);
    let mut bytes = tensorfile::npz::to_vec(&map).unwrap();
    let place = usize::try_from(File::from_bytes(bytes.clone()).unwrap().get("a").unwrap().range().start).unwrap();
    bytes[place + 700_000] ^= 1;
    for (way, file) in opened(&bytes) {
        let plan = file.read_plan().all().unwrap().finish().unwrap();
        let error = plan.read_into(&mut vec![0; plan.bytes()]).unwrap_err();
        let expected = file.tensor("a").unwrap_err().to_string();
        assert!(expected.contains("the CRC-32 is"), "{expected}");
        assert_eq!(error.to_string(), expected, "{way}");
    }
}

#[cfg(feature = "ptd")]
#[test]
fn little_memory_is_taken_besides_the_destination() {
    const ROWS: usize = 6000;
    const COLUMNS: usize = 16 << 10;
    const MOST: usize = 64 << 20;
    let numbers = Tensor::from_slice(&vec![3_u8; ROWS * COLUMNS], [ROWS, COLUMNS]).unwrap();
    let columns = Array2::from_elem((ROWS / 8, COLUMNS).f(), 1.5_f64);
    let maps = [TensorMap::from_iter([("m", numbers)]), TensorMap::from_iter([("m", Tensor::from_array(&columns))])];
    for (map, way) in maps.iter().zip(["rows", "columns"]) {
        let format = format("ptd");
        let bytes = format.to_vec(map, &WriteOptions::new().embed_names(true).keep_dim_order(true)).unwrap();
        for file in [Source::new(bytes.clone()).open(), File::from_bytes(bytes).unwrap()] {
            let dims = file.get("m").unwrap().shape().clone();
            for ranges in [[0..dims[0], 5..6], [0..dims[0], 0..dims[1] - 1], [0..dims[0], 0..dims[1]]] {
                let plan = file.read_plan().slice("m", &ranges).unwrap().finish().unwrap();
                let mut memory = vec![0; plan.bytes()];
                let ((), peak) = peak(|| plan.read_into(&mut memory).unwrap());
                assert!(peak <= MOST, "{peak} bytes for {ranges:?} of {way}");
                assert_eq!(memory[memory.len() - 8..], memory[..8], "{ranges:?} of {way}");
            }
        }
    }
}

#[test]
fn listeners_count_all_bytes_and_end_reading() {
    let map: TensorMap = (0..20).map(|i| (format!("t{i}"), tensor(Dtype::U8, &[1000, 100 + i]))).collect();
    let bytes = file_of(multi_tensor_formats().next().unwrap(), &map);
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&seen);
    let options = OpenOptions::new().progress(move |progress| {
        log.lock().unwrap().push((progress.bytes, progress.total));
        ControlFlow::Continue(())
    });
    let file = options.from_bytes(bytes.clone()).unwrap();
    let plan = file.read_plan().all().unwrap().align(1).finish().unwrap();
    seen.lock().unwrap().clear();
    plan.read_into(&mut vec![0; plan.bytes()]).unwrap();
    let seen = seen.lock().unwrap().clone();
    assert!(seen.windows(2).all(|pair| pair[0].0 < pair[1].0), "{seen:?}");
    assert_eq!(seen.last(), Some(&(plan.bytes() as u64, plan.bytes() as u64)));

    // A listener of the plan replaces the file's.
    let plan = file.read_plan().all().unwrap().progress(|_| ControlFlow::Break(())).finish().unwrap();
    let error = plan.read_into(&mut vec![0; plan.bytes()]).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Cancelled), "{error}");
    let file = OpenOptions::new().progress(|_| ControlFlow::Break(())).from_bytes(bytes).unwrap();
    let plan = file.read_plan().all().unwrap().finish().unwrap();
    let error = plan.read_into(&mut vec![0; plan.bytes()]).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Cancelled), "{error}");
    let plan = file.read_plan().all().unwrap().progress(|_| ()).finish().unwrap();
    plan.read_into(&mut vec![0; plan.bytes()]).unwrap();
}
