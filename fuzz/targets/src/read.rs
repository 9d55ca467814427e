//! Reads arbitrary bytes in every way that the library offers.

use std::cell::OnceCell;
use std::ops::Range;
use std::path::PathBuf;

use ndarray::{ArrayD, Ix2};
use serde::Deserialize;
use serde::de::IgnoredAny;
use tensorfile::digest::Digest;
use tensorfile::file::{Backend, FileTensor};
use tensorfile::format::Deserializer;
use tensorfile::model::{FieldAttrs, FromTensors, TensorData, TensorRecord, TensorSink};
use tensorfile::stats::Stats;
use tensorfile::view::{ByteMap, PrintOptions, SaveReport, is_aligned};
use tensorfile::{
    Category, CooTensor, Error, File, Format, Layout, Result, Tensor, TensorMap, TensorView, ptd, pytorch, safetensors,
    tensorbuffers,
};

use crate::budget::{bounded, bounded_stream, limits};
use crate::input::Input;
use crate::model::{Borrowing, Maps, Model, Plain, Positions};
use crate::rows::{choose, of_slice, open};

/// The number of tensors, and of elements, to check one by one.
const FEW: usize = 64;
const SOME: usize = 4096;

/// The longest message of an error: two shapes of the highest rank, and a few names. Load reports may be longer.
const LONGEST_MESSAGE: usize = 16 << 10;

pub fn run(input: &[u8]) {
    let mut input = Input(input);
    let Some(format) = choose(&mut input) else { return };
    let file = input.0;
    slices(format, file);
    files(format, file);
}

/// Reads values from a slice.
fn slices(format: &Format, file: &[u8]) {
    let map = bounded("a map", file.len(), || read_map(of_slice(format, file)));
    check_error(format, &map, true);
    for (_, tensor) in map.iter().flatten() {
        check_tensor(tensor);
    }
    // A map takes every file, so a file that is malformed to it is malformed to others.
    // Its memory is limited, and others read less.
    let is_valid = map.as_ref().map_or_else(|error| error.category() == Category::Limit, |_| true);
    let check =
        |is_read: bool, what: &str| assert!(!is_read || is_valid, "{}: {what} of a malformed file", format.name);
    check(load::<Model>(format, file).is_some(), "a derived struct");
    // This one skips the tensors that are invalid.
    load::<Borrowing<'_>>(format, file);
    check(load::<Positions>(format, file).is_some(), "a struct by position");
    check(deserialize::<Maps>(format, file).is_some(), "a map of maps");
    deserialize::<Plain>(format, file);
    deserialize::<Vec<Vec<f64>>>(format, file);
    deserialize::<serde_json::Value>(format, file);
    deserialize::<IgnoredAny>(format, file);
    bounded("metadata", file.len(), || match format.name {
        "ptd" => drop(ptd::metadata(file).map(|metadata| format!("{metadata:?}"))),
        "pytorch" => drop(pytorch::metadata(file).map(|metadata| format!("{metadata:?}"))),
        "safetensors" => drop(safetensors::metadata(file).map(|metadata| format!("{metadata:?}"))),
        "tensorbuffers" => drop(tensorbuffers::metadata(file).map(|metadata| format!("{metadata:?}"))),
        _ => {}
    });
}

pub fn read_map(mut deserializer: Deserializer<'_>) -> Result<TensorMap> {
    let map = TensorMap::deserialize(&mut deserializer)?;
    deserializer.end().map(|()| map)
}

fn load<'de, T: FromTensors<'de>>(format: &Format, file: &'de [u8]) -> Option<T> {
    let loaded = bounded("a type", file.len(), || {
        let mut deserializer = of_slice(format, file);
        let value = T::load(&mut deserializer, &FieldAttrs::NONE)?;
        deserializer.end().map(|()| value)
    });
    check_error(format, &loaded, false);
    loaded.ok()
}

fn deserialize<'de, T: Deserialize<'de>>(format: &Format, file: &'de [u8]) -> Option<T> {
    let read = bounded("a plain type", file.len(), || {
        let mut deserializer = of_slice(format, file);
        let value = T::deserialize(&mut deserializer)?;
        deserializer.end().map(|()| value)
    });
    check_error(format, &read, false);
    read.ok()
}

/// Checks that an error blames the file, or the type to read.
#[track_caller]
fn check_error<T>(format: &Format, result: &Result<T>, is_map: bool) {
    let Err(error) = result else { return };
    let is_of_file = matches!(error.category(), Category::File | Category::Limit);
    // A tensor of an unknown dtype cannot be read.
    let is_unknown = matches!(error.kind(), tensorfile::ErrorKind::Unsupported { .. });
    assert!(is_of_file || is_unknown || !is_map || is_ambiguous(error), "{}: {error:?}", format.name);
    assert!(error.category() != Category::Io, "{}: {error:?}", format.name);
    let (message, debug) = (error.to_string(), format!("{error:?}"));
    assert!(!message.is_empty() && !debug.is_empty());
    let is_list = matches!(error.kind(), tensorfile::ErrorKind::Load(_));
    assert!(is_list || message.len() <= LONGEST_MESSAGE, "{}: a message of {} bytes", format.name, message.len());
}

/// Names may repeat in a stream, but not in a map.
pub fn is_ambiguous(error: &Error) -> bool {
    matches!(error.kind(), tensorfile::ErrorKind::AmbiguousName { .. })
}

pub fn check_tensor(tensor: &Tensor) {
    assert_eq!(tensor.info().payload_bytes(), Some(tensor.as_bytes().len()));
    TensorView::new(tensor.info().clone(), tensor.as_bytes()).unwrap();
}

thread_local! {
    /// A folder for the file of the input.
    static FOLDER: OnceCell<tempfile::TempDir> = const { OnceCell::new() };
}

/// Writes the file of an input, in place of the last one.
pub fn write(name: &str, bytes: &[u8]) -> PathBuf {
    let path = FOLDER.with(|folder| folder.get_or_init(|| tempfile::tempdir().unwrap()).path().join(name));
    std::fs::write(&path, bytes).unwrap();
    path
}

/// Opens the file in memory, mapped and positioned, with the row of the table and by detection.
fn files(format: &'static Format, bytes: &[u8]) {
    let len = bytes.len();
    let in_memory = bounded("opening", len, || open(format, len).from_bytes(bytes.to_vec()));
    let path = write("file", bytes);
    let mut found = vec![contents(&in_memory, len)];
    for backend in [Backend::Mapped, Backend::Positioned] {
        let file = bounded("opening by path", len, || open(format, len).backend(backend).open(&path));
        found.push(contents(&file, len));
    }
    assert!(found[0] == found[1], "{}: in memory {:?}, but mapped {:?}", format.name, found[0], found[1]);
    assert!(found[0] == found[2], "{}: in memory {:?}, but positioned {:?}", format.name, found[0], found[2]);
    index_of_stream(format, bytes, &in_memory);
    if let Ok(file) = &in_memory {
        look(file, len);
    }
    if let Ok(file) = open(format, len).backend(Backend::Positioned).open(&path) {
        file.tensors().take(FEW).for_each(|tensor| parts(&tensor, len));
    }
    let detected = bounded("detection", len, || tensorfile::OpenOptions::new().limits(limits(len)).open(&path));
    if let Ok(file) = detected {
        let again = tensorfile::OpenOptions::new().limits(limits(len)).from_bytes(bytes.to_vec());
        assert!(again.is_ok_and(|again| again.format().name == file.format().name), "{file:?} was detected");
    }
}

/// Reads the payloads of the first tensors.
#[derive(Default)]
struct Payloads(Vec<Option<Vec<u8>>>);

impl TensorSink for Payloads {
    fn tensor(&mut self, tensor: &TensorRecord<'_>) -> Result<()> {
        if self.0.len() < FEW {
            self.0.push(payload(tensor.data));
        }
        Ok(())
    }
}

fn payload(data: &dyn TensorData) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    data.write_to(&mut bytes).is_ok().then_some(bytes)
}

/// Reads a stream in order, and checks that it has the same tensors or error as the `whole` file.
pub fn index_of_stream(format: &'static Format, bytes: &[u8], whole: &Result<File>) {
    let len = bytes.len();
    let mut payloads = Payloads::default();
    let read = || open(format, len).read_in_order(bytes, &mut payloads);
    let streamed = bounded_stream("a stream in order", len, read);
    match (&streamed, whole) {
        (Ok(streamed), Ok(whole)) => {
            let expected: Vec<_> = whole.tensors().take(FEW).map(|tensor| payload(&tensor)).collect();
            assert!(payloads.0 == expected, "{}: {:?}, but as a file {expected:?}", format.name, payloads.0);
            let [streamed, whole] = [streamed, whole].map(|file| {
                let entry = |tensor: FileTensor<'_>| (tensor.name().to_owned(), tensor.info().clone(), tensor.range());
                file.tensors().map(entry).collect::<Vec<_>>()
            });
            assert!(streamed == whole, "{}: {streamed:?}, but as a file {whole:?}", format.name);
        }
        (Ok(_), Err(error)) => panic!("{}: as a file {error:?}", format.name),
        (Err(error), Ok(_)) => {
            assert!(payloads.0.is_empty() || error.category() == Category::Limit, "{}: {error:?}", format.name);
            // The index does not come in order, or a tensor ends with the file.
            let kind = error.kind();
            let is_order =
                matches!(kind, tensorfile::ErrorKind::Unsupported { .. } | tensorfile::ErrorKind::UnknownDtype { .. });
            assert!(is_order || error.category() == Category::Limit, "{}: {error:?}", format.name);
        }
        (Err(_), Err(_)) => {}
    }
}

/// The index and the tensors of a file; instead of each, the message if reading failed.
fn contents(file: &Result<File>, len: usize) -> Vec<String> {
    let file = match file {
        Ok(file) => file,
        Err(error) => return vec![error.without_path().to_string()],
    };
    let read = |tensor: FileTensor<'_>| {
        let read = bounded("reading a tensor", len, || tensor.read());
        read.iter().for_each(check_tensor);
        let read = read.map(|tensor| tensor.as_bytes().to_vec()).map_err(|error| error.without_path().to_string());
        format!("{tensor:?} {read:?}")
    };
    file.tensors().take(FEW).map(read).collect()
}

/// Calls every function of a file in memory.
fn look(file: &File, len: usize) {
    let format = file.format();
    let _ = bounded("metadata", len, || file.metadata());
    let _ = bounded("checksums", len, || file.check_other_checksums());
    let report = bounded("a report", len, || file.report::<Model>());
    let loaded = bounded("loading", len, || file.load::<Model>());
    assert!(report.is_ok() || loaded.is_err(), "{}: the report says\n{report}", format.name);
    let _ = bounded("showing the report", len, || format!("{report} {report:?}"));
    let _ = bounded("a report by position", len, || file.report::<Positions>());
    let planned = bounded("a plan of a type", len, || file.read_plan().of::<Model>().and_then(|plan| plan.finish()));
    assert!(planned.is_err() || report.is_ok(), "{}: the report says\n{report}", format.name);
    let _ = file.rest::<Model>().len();
    let _ = (file.get("a"), file.get("#1"), file.get("layers.0.wieght").map_err(|error| error.to_string()));
    let map = bounded("loading a map", len, || file.load::<TensorMap>());
    let whole: Result<Vec<Tensor>> = file.tensors().map(|tensor| tensor.read()).collect();
    match (&map, &whole) {
        (Ok(map), Ok(whole)) => {
            assert!(map.iter().map(|(_, tensor)| tensor).eq(whole), "{}: the map has other tensors", format.name);
        }
        (Err(error), Ok(_)) => {
            // The report says so too.
            let is_load = format.name == "ten" && matches!(error.kind(), tensorfile::ErrorKind::Load(_));
            // All tensors together take more memory than each.
            let is_limit = error.category() == Category::Limit;
            assert!(is_load || is_limit || is_ambiguous(error), "{}: a map fails: {error:?}", format.name);
        }
        (Ok(_), Err(error)) => panic!("{}: a tensor fails, but not the map: {error:?}", format.name),
        (Err(_), Err(_)) => {}
    }
    if let Ok(whole) = &whole {
        planned_like(file, whole, len);
    }
    let covered = bounded("a map of the bytes", len, || format!("{:?}", ByteMap::from_file(file)));
    assert!(!covered.is_empty());
    for to in tensorfile::FORMATS {
        let _ = SaveReport::new(file, to).map(|report| report.problems());
    }
    for tensor in file.tensors().take(FEW) {
        parts(&tensor, len);
        values(&tensor, len);
    }
}

/// Slices a tensor, and compares the slice with the whole tensor.
fn parts(tensor: &FileTensor<'_>, len: usize) {
    if tensor.info().unknown_dtype().is_some() || !tensor.dtype().has_elements() {
        // Blocks are not cut.
        let all: Vec<Range<usize>> = tensor.shape().dims().iter().map(|&dim| 0..dim).collect();
        let _ = bounded("a slice", len, || tensor.slice(&all));
        return;
    }
    let shape = tensor.shape().dims();
    let all: Vec<Range<usize>> = shape.iter().map(|&dim| 0..dim).collect();
    let inner: Vec<Range<usize>> = shape.iter().map(|&dim| dim / 3..dim - dim / 4).collect();
    let last: Vec<Range<usize>> = shape.iter().map(|&dim| dim.saturating_sub(1)..dim).collect();
    let outside: Vec<Range<usize>> = shape.iter().map(|&dim| dim..dim.saturating_add(1)).collect();
    assert!(shape.is_empty() || tensor.slice(&outside).is_err());
    let one_more: Vec<Range<usize>> = all.iter().cloned().chain(std::iter::once(0..1)).collect();
    assert!(tensor.slice(&one_more).is_err());
    let whole = tensor.read();
    for ranges in [all, inner, last] {
        if tensor.shape().elements().is_none_or(|elements| elements > SOME) && tensor.layout() != &Layout::RowMajor {
            continue;
        }
        let part = bounded("a slice", len, || tensor.slice(&ranges));
        match (&part, &whole) {
            (Ok(part), Ok(whole)) => assert!(part.as_bytes() == sliced(whole, &ranges), "{ranges:?} of {tensor:?}"),
            // A part that is decoded takes memory besides.
            (Err(error), Ok(_)) if error.category() == Category::Limit => {}
            (Err(error), Ok(_)) => assert_eq!(error.category(), Category::Call, "{ranges:?} of {tensor:?}: {error:?}"),
            // The bytes that are wrong may be outside of the part.
            _ => {}
        }
    }
}

/// Reads all tensors with a plan, and compares them.
fn planned_like(file: &File, whole: &[Tensor], len: usize) {
    let plan = file.read_plan().all().and_then(|plan| plan.align(16).finish());
    let Ok(plan) = plan.inspect_err(|error| assert_eq!(error.category(), Category::Limit, "{error:?}")) else { return };
    let mut memory = vec![0; plan.bytes()];
    bounded("a plan", len, || plan.read_into(&mut memory)).expect("all tensors were read one by one");
    for (piece, tensor) in plan.pieces().iter().zip(whole) {
        let mut expected = Vec::new();
        piece.tensor().write_row_major_to(&mut expected).expect("it was read");
        assert!(memory[piece.range()] == expected, "the plan reads another {tensor:?}");
    }
}

/// Copies a part of a tensor, element by element.
fn sliced(tensor: &Tensor, ranges: &[Range<usize>]) -> Vec<u8> {
    let shape = tensor.shape().dims();
    let order: Vec<usize> = match tensor.layout() {
        Layout::DimOrder(order) => order.as_slice().iter().map(|dim| usize::from(*dim)).collect(),
        _ => (0..shape.len()).collect(),
    };
    // The other dims of an empty part may be of any length.
    let count =
        if ranges.iter().any(Range::is_empty) { 0 } else { ranges.iter().map(ExactSizeIterator::len).product() };
    let mut strides = vec![0; shape.len()];
    let mut stride = if count == 0 { 0 } else { tensor.as_bytes().len() / shape.iter().product::<usize>() };
    let element = stride;
    for dim in order.into_iter().rev() {
        strides[dim] = stride;
        // Of an empty tensor, this overflows, but is not used.
        stride = stride.wrapping_mul(shape[dim]);
    }
    let mut found = Vec::new();
    for at in 0..count {
        let (mut rest, mut offset) = (at, 0);
        for (range, stride) in ranges.iter().zip(&strides).rev() {
            offset += (range.start + rest % range.len()) * stride;
            rest /= range.len();
        }
        found.extend_from_slice(&tensor.as_bytes()[offset..offset + element]);
    }
    found
}

/// Reads a tensor in all other ways, and checks its elements.
fn values(tensor: &FileTensor<'_>, len: usize) {
    let read = tensor.read();
    let mut written = Vec::new();
    let write = bounded("writing a tensor", 2 * len, || tensor.write_to(&mut written));
    // What is written is not held in memory, which is limited.
    let is_limit = read.as_ref().is_err_and(|error| error.category() == Category::Limit);
    assert!(is_limit || write.is_ok() == read.is_ok(), "{tensor:?}: {write:?}, but {read:?}");
    let Ok(read) = read else { return };
    assert!(written == read.as_bytes(), "{tensor:?}: written otherwise than read");
    if tensor.info().unknown_dtype().is_some() {
        assert!(
            tensor.load::<ArrayD<u8>>().is_err() && read.as_view().array::<u8>().is_err(),
            "{tensor:?}: its elements"
        );
        return;
    }
    let mut row_major = Vec::new();
    bounded("row-major", 2 * len, || tensor.write_row_major_to(&mut row_major).unwrap());
    if let Some(bytes) = tensor.as_bytes() {
        assert!(bytes == read.as_bytes());
    }
    if let Ok(view) = tensor.view() {
        assert!(view.as_bytes() == read.as_bytes());
    }
    if let Ok(array) = tensor.load::<ArrayD<bool>>() {
        let bytes: Vec<u8> = array.as_standard_layout().iter().map(|bool| u8::from(*bool)).collect();
        assert!(bytes == row_major, "{tensor:?}: other bools in an array");
    }
    assert!(tensor.digest().is_ok_and(|digest| digest == Digest::new(&read.as_view())), "{tensor:?}: another digest");
    let _ = is_aligned(tensor);
    let view = read.as_view();
    if let Ok(array) = tensor.array::<u16, Ix2>() {
        assert_eq!(array.into_dyn(), view.array::<u16>().unwrap());
    }
    if let Ok(array) = tensor.load::<ArrayD<u8>>() {
        assert_eq!(array, view.array::<u8>().unwrap());
    }
    let _ = (tensor.load::<CooTensor<f32>>(), tensor.load::<f64>(), tensor.load::<Vec<Vec<i16>>>());
    let _ = bounded("a digest", len, || Digest::new(&view));
    let mut stats = Stats::from_info(read.info());
    if let Some(stats) = &mut stats {
        stats.update(read.as_bytes());
        let _ = (stats.mean(), stats.std(), stats.quantiles(&[0.0, 0.5, 1.0]), stats.histogram(7));
    }
    let printed = PrintOptions::new().threshold(20).print(&view);
    let has_elements = view.dtype().has_elements();
    assert!(
        printed.is_some() || !has_elements || matches!(view.layout(), Layout::Coo { .. } | Layout::Blob),
        "{tensor:?}"
    );
}
