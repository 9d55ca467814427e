//! Implementations of public traits that break their promises. The result is an error or a value, never a panic.

use std::io::{self, Cursor, IoSlice, Read, Seek, SeekFrom, Write};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tensorfile::cast::Caster;
use tensorfile::file::MetadataEdit;
use tensorfile::format::{Encode, Format, FormatSpec, Index, IndexReader, ReadAt};
use tensorfile::model::{FieldAttrs, FromTensors, Sink, Source, Store, TensorData, TensorRecord, TensorSink};
use tensorfile::{
    DimOrder, Dtype, FORMATS, File, Layout, Limits, OpenOptions, Result, SaveOptions, Tensor, TensorFile, TensorInfo,
    TensorMap, Tensors, WriteOptions, ten,
};

fn written() -> impl Iterator<Item = &'static Format> {
    FORMATS.iter().copied()
}

/// One tensor, which every format stores.
fn map(len: usize) -> TensorMap {
    let numbers: Vec<f32> = (0..len).map(|at| at as f32).collect();
    [("0", Tensor::from_slice(&numbers, [len]).unwrap())].into_iter().collect()
}

/// Reads in pieces, and says once that it read more than it did.
struct Boasting {
    bytes: Cursor<Vec<u8>>,
    /// The number of reads before the lie.
    honest: usize,
    by: usize,
}

impl Read for Boasting {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let piece = bytes.len().min(1000);
        let read = self.bytes.read(&mut bytes[..piece])?;
        match self.honest.checked_sub(1) {
            Some(left) => self.honest = left,
            None => return Ok(bytes.len().saturating_add(self.by)),
        }
        Ok(read)
    }
}

impl Seek for Boasting {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.bytes.seek(to)
    }
}

const BOAST: &str = "the reader returned that it read ";

#[test]
fn readers_that_return_more_than_they_were_given_are_errors() {
    for format in written() {
        for (len, by) in [(3, 1), (100_000, 1), (100_000, usize::MAX)] {
            let bytes = format.to_vec(&map(len), &WriteOptions::new()).unwrap();
            let honests = if len == 3 { 0..2 } else { 0..6 };
            for honest in honests {
                let reader = || Boasting { bytes: Cursor::new(bytes.clone()), honest, by };
                let mut messages = vec![
                    format.from_reader(reader()).map(drop),
                    OpenOptions::new().format(format).read_index(reader()).map(drop),
                    OpenOptions::new().read_index(reader()).map(drop),
                    File::from_reader(reader()).and_then(|file| file.load::<TensorMap>().map(drop)),
                ];
                if format.name == "ten" {
                    messages.push(ten::Decoder::new(reader()).decode::<Tensor>().map(drop));
                }
                for (at, read) in messages.into_iter().enumerate() {
                    // All may be read before the lie.
                    if let Err(error) = read {
                        assert!(error.to_string().contains(BOAST), "{} {at}: {error}", format.name);
                    } else {
                        assert!(honest > 0, "{} {at}", format.name);
                    }
                }
            }
        }
    }
}

/// Says that it wrote more than it was given.
struct Bragging;

impl Write for Bragging {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(bytes.len() + 1)
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        Ok(slices.iter().map(|slice| slice.len()).sum::<usize>() + 1)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn writers_that_return_more_than_they_were_given_are_errors() {
    for format in written() {
        for len in [3, 100_000] {
            let map = map(len);
            let file = File::from_bytes(format.to_vec(&map, &WriteOptions::new()).unwrap()).unwrap();
            let path = format!("model.{}", format.extensions[0]);
            let mut outcomes = vec![
                format.to_writer(Bragging, &map, &WriteOptions::new()).map_err(|error| error.to_string()),
                SaveOptions::new()
                    .progress(|_| ())
                    .plan(path, &map)
                    .and_then(|plan| plan.to_writer(Bragging, &map))
                    .map_err(|error| error.to_string()),
                file.get("0").unwrap().write_row_major_to(&mut Bragging).map_err(|error| error.to_string()),
                TensorData::write_to(&file.get("0").unwrap(), &mut Bragging).map_err(|error| error.to_string()),
            ];
            if format.edits_metadata() {
                outcomes.push(MetadataEdit::new().to_writer(&file, Bragging).map_err(|error| error.to_string()));
            }
            for (at, outcome) in outcomes.into_iter().enumerate() {
                let message = outcome.unwrap_err();
                assert!(message.contains("the writer returned that it wrote "), "{} {at}: {message}", format.name);
            }
        }
    }
    // Bools are checked on their way, and numpy's may be normalized there.
    #[cfg(feature = "npy")]
    for bytes in [[0, 1, 1, 0], [0, 255, 1, 0]] {
        let bools = Tensor::from_slice(&[false, true, true, false], [4]).unwrap();
        let mut file = tensorfile::npy::to_vec(&bools).unwrap();
        let start = file.len() - bytes.len();
        file[start..].copy_from_slice(&bytes);
        let file = File::from_bytes(file).unwrap();
        let message = TensorData::write_to(&file.get("0").unwrap(), &mut Bragging).unwrap_err().to_string();
        assert!(message.contains("the writer returned that it wrote "), "{bytes:?}: {message}");
    }
    let message =
        ten::Options::new().to_io_slices(&map(1000)["0"]).unwrap().write_to(Bragging).unwrap_err().to_string();
    assert!(message.contains("the writer returned that it wrote "), "{message}");
    for len in [3, 100_000] {
        let mut encoder = ten::Encoder::new(Bragging);
        let message = encoder.encode("a", &map(len)["0"]).unwrap_err().to_string();
        assert!(message.contains("the writer returned that it wrote "), "{message}");
    }
    let mut caster = Caster::new(Dtype::F32, Dtype::F16).unwrap();
    let message = caster.writer(Bragging).write_all(&[0; 4000]).unwrap_err().to_string();
    assert!(message.contains("the writer returned that it wrote "), "{message}");
}

/// A file whose length is a lie.
struct Lying(Cursor<Vec<u8>>, u64);

impl Read for Lying {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.0.read(bytes)
    }
}

impl Seek for Lying {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        match to {
            SeekFrom::End(_) => Ok(self.1),
            to => self.0.seek(to),
        }
    }
}

#[test]
fn lengths_of_readers_can_be_wrong() {
    for format in written() {
        let bytes = format.to_vec(&map(3000), &WriteOptions::new()).unwrap();
        let right = bytes.len() as u64;
        for len in [0, 1, right / 2, right - 1, right + 1, 1 << 40, u64::MAX - 1, u64::MAX] {
            for options in [OpenOptions::new(), OpenOptions::new().format(format)] {
                if let Ok(file) = options.from_reader(Lying(Cursor::new(bytes.clone()), len)) {
                    let _ = (file.load::<TensorMap>(), file.metadata());
                }
            }
        }
    }
}

/// Bytes that change, or become fewer, after some reads.
struct Fickle {
    before: Vec<u8>,
    after: Vec<u8>,
    looks: AtomicUsize,
    change_at: usize,
    changes_back: bool,
}

impl AsRef<[u8]> for Fickle {
    fn as_ref(&self) -> &[u8] {
        let look = self.looks.fetch_add(1, Ordering::Relaxed);
        let is_after = if self.changes_back { look == self.change_at } else { look >= self.change_at };
        if is_after { &self.after } else { &self.before }
    }
}

#[test]
fn bytes_can_change_while_they_are_read() {
    for format in written() {
        let before = format.to_vec(&map(300), &WriteOptions::new()).unwrap();
        let afters = [
            Vec::new(),
            before[..1].to_vec(),
            before[..before.len() / 2].to_vec(),
            before[..before.len() - 1].to_vec(),
            vec![0xff; before.len()],
            vec![0; before.len()],
        ];
        for after in afters {
            for change_at in 0..40 {
                for changes_back in [false, true] {
                    let (before, after, looks) = (before.clone(), after.clone(), AtomicUsize::new(0));
                    let file = Fickle { before, after, looks, change_at, changes_back };
                    let Ok(file) = OpenOptions::new().format(format).from_bytes(file) else { continue };
                    let _ = (file.metadata(), file.file_bytes());
                    let _ = file.load::<TensorMap>();
                    let _ = file.array::<f32, ndarray::Ix1>("0");
                    for tensor in file.tensors() {
                        let _ = (tensor.read(), tensor.view().map(drop), tensor.range());
                        let _ = tensor.slice(std::slice::from_ref(&(1..2)));
                        let _ = tensor.read_at(4, &mut [0; 8]);
                        let _ = tensor.write_row_major_to(&mut Vec::new());
                    }
                }
            }
        }
    }
}

/// Pushes one tensor with any range.
struct Pushes(TensorInfo, Range<u64>);

impl IndexReader for Pushes {
    fn read_on(&mut self, _: &mut dyn ReadAt, _: &Limits, index: &mut Index) -> Result<bool> {
        if self.1 == (u64::MAX..u64::MAX) {
            return Ok(false);
        }
        index.push(Some("a"), self.0.clone(), self.1.clone())?;
        self.1 = u64::MAX..u64::MAX;
        Ok(true)
    }
}

fn nothing_written(_: &WriteOptions) -> Result<Arc<dyn Encode>> {
    unreachable!("nothing is written")
}

macro_rules! pushing {
    ($info:expr, $range:expr) => {{
        static PUSHING: Format =
            Format::new(FormatSpec::new("pushing", &[Dtype::F32]), || Box::new(Pushes($info, $range)), nothing_written);
        &PUSHING
    }};
}

#[test]
fn ranges_of_other_formats_are_checked() {
    // Not all zeros, which would be no tensor file.
    let file = [1; 64];
    for (format, expected) in [
        (
            pushing!(TensorInfo::new(Dtype::F32, [2]), Range { start: 16, end: 8 }),
            "pushing: tensor `a`: the payload ends at byte 8, before it begins at 16 (at byte 16)",
        ),
        (
            pushing!(TensorInfo::new(Dtype::F32, [2]), Range { start: u64::MAX - 1, end: 0 }),
            "pushing: tensor `a`: the payload ends at byte 0, before it begins at 18446744073709551614 (at byte 18446744073709551614)",
        ),
        (
            pushing!(TensorInfo::new(Dtype::F32, [2]), 8..15),
            "pushing: tensor `a`: payload is 7 bytes, but f32[2] takes 8 (at byte 8)",
        ),
        (
            pushing!(TensorInfo::new(Dtype::F32, [usize::MAX]), 8..16),
            "pushing: tensor `a`: payload is 8 bytes, but f32[18446744073709551615] takes more than can be addressed (at byte 8)",
        ),
        (
            pushing!(TensorInfo::new(Dtype::F32, [2]), 60..68),
            "pushing: tensor `a`: needs 8 more bytes, but the file has 4 left (at byte 60)",
        ),
        (
            pushing!(TensorInfo::new(Dtype::F32, [2]), u64::MAX - 16..u64::MAX - 8),
            "pushing: tensor `a`: needs 8 more bytes, but the file has 0 left (at byte 18446744073709551599)",
        ),
        (
            pushing!(
                TensorInfo {
                    layout: Layout::DimOrder(DimOrder::new(&[1, 0]).unwrap()),
                    ..TensorInfo::new(Dtype::F32, [2])
                },
                8..16
            ),
            "pushing: tensor `a`: dim order has 2 dims, but the tensor has rank 1 (at byte 8)",
        ),
    ] {
        let options = OpenOptions::new().format(format);
        for error in [
            options.from_bytes(file).map(drop).unwrap_err(),
            options.from_reader(Cursor::new(file)).map(drop).unwrap_err(),
            format.from_slice(&file).map(drop).unwrap_err(),
        ] {
            assert_eq!(error.to_string(), expected);
        }
        // The message for a stream may differ, because its length is not known.
        assert!(format.from_reader(&file[..]).is_err(), "{expected}");
        assert!(options.read_index(&file[..]).is_err(), "{expected}");
    }
}

/// Pushes two tensors, the second before the first, and says that they are in order.
struct Backwards(u64);

impl IndexReader for Backwards {
    fn read_on(&mut self, _: &mut dyn ReadAt, _: &Limits, index: &mut Index) -> Result<bool> {
        let Some(start) = self.0.checked_sub(16_000) else { return Ok(false) };
        self.0 = start;
        index.push(None, TensorInfo::new(Dtype::F32, [2]), start..start + 8)?;
        Ok(true)
    }

    fn is_in_file_order(&self) -> bool {
        true
    }
}

static BACKWARDS: Format =
    Format::new(FormatSpec::new("backwards", &[Dtype::F32]), || Box::new(Backwards(48_000)), nothing_written);

#[test]
fn streams_are_not_read_backwards() {
    let file = vec![0; 64_000];
    assert_eq!(BACKWARDS.from_slice(&file).unwrap().len(), 3);
    let error = BACKWARDS.from_reader(&file[..]).unwrap_err().to_string();
    assert!(error.contains("cannot read a stream backwards"), "{error}");
    // An index alone has no payloads to go back to.
    let _ = OpenOptions::new().format(&BACKWARDS).read_index(&file[..]);
}

/// Looks at the file in every way that is not meant.
struct Curious;

impl IndexReader for Curious {
    fn read_on(&mut self, file: &mut dyn ReadAt, _: &Limits, _: &mut Index) -> Result<bool> {
        let _ = file.peek_at(0, &mut [0; 5000]);
        let _ = file.bytes(0..u64::MAX, &mut Vec::new());
        let _ = file.bytes(Range { start: 9, end: 3 }, &mut Vec::new());
        let _ = file.bytes(u64::MAX - 1..u64::MAX, &mut Vec::new());
        let _ = file.read_at(u64::MAX, &mut [0; 5]);
        let _ = file.read_at(3, &mut [0; 5]);
        let _ = file.peek_at(u64::MAX - 3, &mut [0; 5]);
        let _ = file.keep_rest(100);
        let _ = file.keep_rest(0);
        file.will_read(&mut [7, 3, u64::MAX].into_iter());
        let _ = (file.ends_at(0), file.ends_at(u64::MAX), file.file_len());
        Ok(false)
    }
}

static CURIOUS: Format = Format::new(FormatSpec::new("curious", &[Dtype::F32]), || Box::new(Curious), nothing_written);

#[test]
fn index_readers_can_ask_for_anything() {
    for len in [0, 100, 10_000, 100_000] {
        let file = vec![0_u8; len];
        let options = OpenOptions::new().format(&CURIOUS);
        let _ = options.from_bytes(file.clone());
        let _ = options.from_reader(Cursor::new(file.clone()));
        let _ = options.from_reader(Lying(Cursor::new(file.clone()), u64::MAX));
        let _ = options.read_index(&file[..]);
        let _ = CURIOUS.from_slice(&file);
        let _ = CURIOUS.from_reader(&file[..]);
    }
}

/// A tensor whose bytes change each time, and never have the right number.
struct Wrong {
    in_memory: Option<Vec<u8>>,
    written: AtomicUsize,
    id: Option<u64>,
}

impl TensorData for Wrong {
    fn as_bytes(&self) -> Option<&[u8]> {
        self.in_memory.as_deref()
    }

    fn write_to(&self, out: &mut dyn Write) -> io::Result<()> {
        let len = self.written.fetch_add(5, Ordering::Relaxed);
        out.write_all(&vec![len as u8; len])
    }

    fn storage_id(&self) -> Option<u64> {
        self.id
    }
}

/// Two tensors of 3 floats, with any info and data.
struct TwoWrong {
    info: TensorInfo,
    bytes: usize,
    in_memory: bool,
    id: Option<u64>,
    /// Says other names each time.
    renames: AtomicUsize,
}

impl Tensors for TwoWrong {
    fn send(&self, sink: &mut dyn TensorSink) -> Result<()> {
        let renames = self.renames.load(Ordering::Relaxed);
        let time = if renames > 0 { self.renames.fetch_add(1, Ordering::Relaxed) } else { 0 };
        let names = if time % 2 == 0 { ["a", "b"] } else { ["a", "a"] };
        for (name, at) in names.into_iter().zip(0..2 + time) {
            let in_memory = self.in_memory.then(|| vec![at as u8; self.bytes]);
            let data = Wrong { in_memory, written: AtomicUsize::new(self.bytes), id: self.id };
            sink.tensor(&TensorRecord { name, info: &self.info, data: &data, tied: None })?;
        }
        Ok(())
    }
}

#[test]
fn tensors_can_have_any_data() {
    let floats = TensorInfo::new(Dtype::F32, [3]);
    let order = |order: &[u8], shape: &[usize]| TensorInfo {
        layout: Layout::DimOrder(DimOrder::new(order).unwrap()),
        ..TensorInfo::new(Dtype::F32, shape)
    };
    let infos = [
        floats.clone(),
        order(&[1, 0], &[3]),
        order(&[0], &[3, 1]),
        order(&[2, 1, 0], &[3]),
        TensorInfo { layout: Layout::Coo { entries: 1 }, ..floats.clone() },
        TensorInfo { layout: Layout::Coo { entries: usize::MAX }, ..floats.clone() },
        TensorInfo { layout: Layout::Blob, ..floats.clone() },
        TensorInfo::new(Dtype::Bool, [12]),
        TensorInfo::new(Dtype::F32, [usize::MAX]),
        TensorInfo::new(Dtype::F32, [usize::MAX, usize::MAX, 0]),
    ];
    for format in written() {
        for info in &infos {
            for bytes in [12, 11, 13, 0, 4000] {
                for (in_memory, id) in [(true, None), (false, None), (true, Some(1)), (false, Some(1))] {
                    for renames in [0, 1] {
                        let model = || TwoWrong {
                            info: info.clone(),
                            bytes,
                            in_memory,
                            id,
                            renames: AtomicUsize::new(renames),
                        };
                        for options in [WriteOptions::new(), WriteOptions::new().keep_dim_order(true).embed_names(true)]
                        {
                            let _ = format.to_vec(&model(), &options);
                            let written = format.to_writer(io::sink(), &model(), &options);
                            let is_right = *info == floats && bytes == 12 && in_memory && renames == 0;
                            if is_right && format.max_tensors.is_none() && id.is_none() {
                                written.unwrap_or_else(|error| panic!("{}: {error}", format.name));
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Calls its sink and its source as often as it says.
#[derive(Debug)]
struct Times<const N: usize>;

impl<const N: usize> Store for Times<N> {
    fn store(&self, sink: &mut dyn Sink, attrs: &FieldAttrs) -> Result<()> {
        (0..N).try_for_each(|_| ndarray::array![1.0_f32].store(sink, attrs))
    }
}

impl<const N: usize> TensorFile for Times<N> {
    const NODE: tensorfile::model::Node = <ndarray::Array1<f32> as TensorFile>::NODE;
}

impl<'de, const N: usize> FromTensors<'de> for Times<N> {
    fn load(source: &mut dyn Source<'de>, attrs: &FieldAttrs) -> Result<Self> {
        (0..N).try_for_each(|_| ndarray::Array1::<f32>::load(source, attrs).map(drop))?;
        Ok(Self)
    }
}

#[derive(TensorFile, Debug)]
struct Fields<const N: usize> {
    a: Times<N>,
    b: Vec<Times<N>>,
}

#[test]
fn values_can_send_and_take_any_number_of_tensors() {
    fn check<const N: usize>() {
        let value = || Fields::<N> { a: Times, b: vec![Times, Times] };
        let folder = tempfile::tempdir().unwrap();
        for format in written() {
            let path = folder.path().join(format!("model.{}", format.extensions[0]));
            let saved = tensorfile::save(&path, &value());
            // Where tensors have names, two of one name are refused.
            assert!(N < 2 || saved.is_err() || format.max_name == Some(0), "{} {N}", format.name);
            let named: TensorMap = ["a", "b.0", "b.1"].into_iter().map(|name| (name, map(1)["0"].clone())).collect();
            let options = WriteOptions::new().embed_names(format.max_name.is_some());
            let Ok(file) = format.to_vec(&named, &options) else { continue };
            let file = File::from_bytes(file).unwrap();
            let loaded = file.load::<Fields<N>>();
            assert_eq!(loaded.is_ok(), N == 1, "{} {N}", format.name);
            let _ = file.load::<Times<N>>();
        }
        let _ = ten::to_vec(&value());
        let _ = ten::from_slice::<Fields<N>>(&ten::to_vec(&map(1)).unwrap());
    }
    check::<0>();
    check::<1>();
    check::<2>();
}
