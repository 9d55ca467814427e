//! Shared by all tests: tensors, files, slow readers, and comparisons of messages.

#[cfg(unix)]
pub mod child;
#[cfg(feature = "pytorch")]
pub mod dcp_writer;
#[cfg(target_os = "linux")]
pub mod disk;
#[cfg(target_os = "linux")]
pub mod huge;
pub mod interop;
pub mod memory;
#[cfg(feature = "http")]
pub mod server;
mod skipped;
#[cfg(all(feature = "ptd", feature = "tensorbuffers"))]
pub mod verifier;

use std::cmp::Reverse;
use std::io::Read;
use std::path::Path;

use serde::Serialize;
use tensorfile::model::FileMetadata;
use tensorfile::{Dtype, FORMATS, Format, Layout, Tensor, TensorInfo, TensorMap, btf, ten};

pub use skipped::skipped;

/// The root of the repository.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the tests are a folder of the repository")
}

/// Returns a new folder: in memory if the system has a place for that, or on disk.
///
/// In memory, a writer spends most of its time in other steps than flushing.
pub fn folder(in_memory: bool) -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    if in_memory && memory.is_dir() { tempfile::tempdir_in(memory).unwrap() } else { tempfile::tempdir().unwrap() }
}

/// Returns the texts of the warnings about a file.
pub fn warnings(metadata: &FileMetadata) -> Vec<String> {
    metadata.warnings.iter().map(ToString::to_string).collect()
}

/// Parses a hex dump, in which everything after a `|` is a comment.
pub fn hex(dump: &str) -> Vec<u8> {
    let digits: String = dump.lines().filter_map(|line| line.split('|').next()).collect();
    let digits: Vec<char> = digits.chars().filter(|digit| !digit.is_whitespace()).collect();
    let pairs = digits.chunks(2).map(|pair| pair.iter().collect::<String>());
    pairs.map(|pair| u8::from_str_radix(&pair, 16).unwrap()).collect()
}

/// Returns the CRC-32 of bytes, as zip archives have it.
#[cfg(all(feature = "npz", feature = "npy"))]
pub fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0_u32, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| (crc >> 1) ^ (0xedb8_8320 & (crc & 1).wrapping_neg()))
    })
}

/// Writes little-endian numbers of 64 bits.
pub fn u64s(numbers: &[u64]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
}

/// Describes a tensor with blocks for elements, if the dtype has several elements in a block.
pub fn info(dtype: Dtype, shape: &[usize]) -> TensorInfo {
    let (mut shape, block) = (shape.to_vec(), dtype.block_elements());
    match shape.last_mut() {
        Some(last) => *last *= block,
        None if block > 1 => shape.push(block),
        None => {}
    }
    TensorInfo::new(dtype, shape)
}

/// Makes a tensor with bytes that count up; each is a value of every dtype but `bool`. As [`info`] otherwise.
pub fn tensor(dtype: Dtype, shape: &[usize]) -> Tensor {
    let info = info(dtype, shape);
    let last = if dtype == Dtype::Bool { 2 } else { 251 };
    let bytes: Vec<u8> = (0..info.payload_bytes().unwrap()).map(|at| (at % last) as u8).collect();
    Tensor::new(info, &bytes).unwrap()
}

pub fn format(name: &str) -> &'static Format {
    Format::named(name).unwrap()
}

/// Formats that can be written.
pub fn written_formats() -> impl Iterator<Item = &'static Format> {
    FORMATS.iter().copied()
}

/// Formats that can hold several tensors, and can be written.
pub fn multi_tensor_formats() -> impl Iterator<Item = &'static Format> {
    written_formats().filter(|format| format.max_tensors.is_none())
}

/// Returns the tensors in the order in which a format writes them: safetensors files of several dtypes are sorted.
pub fn in_written_order(format: &Format, map: &TensorMap) -> TensorMap {
    let rank = |tensor: &Tensor| Reverse(format.dtypes.iter().position(|known| *known == tensor.dtype()));
    let is_unknown = |tensor: &Tensor| matches!(tensor.info().layout, Layout::Unknown(_));
    let mut tensors: Vec<(String, Tensor)> = map.clone().into_iter().collect();
    if format.name == "safetensors"
        && !tensors.iter().any(|(_, tensor)| is_unknown(tensor))
        && tensors.iter().any(|(_, tensor)| rank(tensor) != rank(&tensors[0].1))
    {
        tensors.sort_by_cached_key(|(name, tensor)| (rank(tensor), name.clone()));
    }
    tensors.into_iter().collect()
}

/// Writes a ten file that keeps names of any length.
pub fn ten_file<T: Serialize + ?Sized>(value: &T) -> Vec<u8> {
    ten::Options::new().embed_names(true).to_vec(value).unwrap()
}

/// Writes a BTF file that keeps names.
pub fn btf_file<T: Serialize + ?Sized>(value: &T) -> Vec<u8> {
    btf::Options::new().embed_names(true).to_vec(value).unwrap()
}

/// Writes a ten file of vectors that hold their positions.
pub fn ten_file_of(names: &[&str]) -> Vec<u8> {
    let tensor = |at: usize| Tensor::from_slice(&[at as f32], [1]).unwrap();
    ten_file(&names.iter().enumerate().map(|(at, name)| (*name, tensor(at))).collect::<TensorMap>())
}

/// Lists the tensors in the file of a value: name, dtype and shape.
pub fn contents<T: Serialize + ?Sized>(value: &T) -> Vec<String> {
    let map: TensorMap = ten::from_slice(&ten_file(value)).unwrap();
    map.infos().map(|(name, info)| format!("{name}: {info}")).collect()
}

/// Returns the message of an error, without the path of the file.
#[track_caller]
pub fn message<T>(result: tensorfile::Result<T>) -> String {
    match result {
        Ok(_) => panic!("no error"),
        Err(error) => error.without_path().to_string(),
    }
}

/// Compares messages case by case, and shows all differences.
#[derive(Default)]
pub struct Messages(Vec<String>);

impl Messages {
    pub fn compare<T>(&mut self, what: impl std::fmt::Display, found: tensorfile::Result<T>, expected: &str) {
        let found = found.err().map_or_else(|| "no error".to_owned(), |error| error.to_string());
        if found != expected {
            self.0.push(format!("{what}\n   found: {found}\nexpected: {expected}\n"));
        }
    }

    #[track_caller]
    pub fn end(self) {
        assert!(self.0.is_empty(), "\n{}", self.0.join("\n"));
    }
}

/// A reader that yields a few bytes at a time: `sizes` of them, over and over.
pub struct Dribble<'a> {
    bytes: &'a [u8],
    sizes: std::iter::Cycle<std::slice::Iter<'a, usize>>,
}

impl<'a> Dribble<'a> {
    /// Yields one byte, two, three, one, ….
    pub fn new(bytes: &'a [u8]) -> Self {
        Self::in_sizes(bytes, &[1, 2, 3])
    }

    pub fn in_sizes(bytes: &'a [u8], sizes: &'a [usize]) -> Self {
        Self { bytes, sizes: sizes.iter().cycle() }
    }
}

impl Read for Dribble<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let now = self.sizes.next().map_or(1, |size| *size).min(buffer.len());
        self.bytes.read(&mut buffer[..now])
    }
}
