//! Archives assembled byte by byte, and shards made of them.

use std::path::{Path, PathBuf};

use tempfile::TempDir;
use tensorfile::Limits;
use tensorfile_datasets::{Sample, Shard};

/// Returns a ustar header with a checksum.
pub fn header(name: &str, size: u64, kind: u8) -> Vec<u8> {
    let mut header = vec![0; 512];
    header[..name.len()].copy_from_slice(name.as_bytes());
    header[100..108].copy_from_slice(b"0000644\0");
    header[124..136].copy_from_slice(format!("{size:011o}\0").as_bytes());
    header[156] = kind;
    header[257..265].copy_from_slice(b"ustar\x0000");
    sum(&mut header);
    header
}

/// Sets the checksum of a header.
pub fn sum(header: &mut [u8]) {
    header[148..156].fill(b' ');
    let sum: u32 = header[..512].iter().map(|byte| u32::from(*byte)).sum();
    header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
}

/// Returns an entry: its header, and its data in blocks.
pub fn entry(name: &str, kind: u8, data: &[u8]) -> Vec<u8> {
    let mut entry = header(name, data.len() as u64, kind);
    entry.extend(data);
    entry.resize(entry.len().next_multiple_of(512), 0);
    entry
}

/// Returns a file in an archive.
pub fn file(name: &str, data: impl AsRef<[u8]>) -> Vec<u8> {
    entry(name, b'0', data.as_ref())
}

/// Returns a PAX block for the next entry.
pub fn pax(records: &[(&str, &str)]) -> Vec<u8> {
    let mut data = String::new();
    for (key, value) in records {
        let rest = key.len() + value.len() + 3;
        let len = (rest..).find(|len| len.to_string().len() + rest == *len).unwrap();
        data.push_str(&format!("{len} {key}={value}\n"));
    }
    entry("PaxHeader", b'x', data.as_bytes())
}

/// Returns an archive of entries.
pub fn archive(entries: &[Vec<u8>]) -> Vec<u8> {
    let mut archive = entries.concat();
    archive.extend([0; 1024]);
    archive
}

/// A shard in a temporary folder.
pub struct ShardFile {
    pub folder: TempDir,
    pub path: PathBuf,
}

impl ShardFile {
    pub fn new(bytes: &[u8]) -> Self {
        Self::named("shard.tar", bytes)
    }

    pub fn named(name: &str, bytes: &[u8]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        Self { folder, path }
    }

    pub fn location(&self) -> &str {
        text(&self.path)
    }

    pub fn open(&self) -> Shard {
        Shard::open(self.location()).unwrap()
    }

    /// Returns the message of the first error, without the folder.
    pub fn error(&self) -> String {
        let error = match Shard::open(self.location()) {
            Ok(shard) => shard.filter_map(Result::err).next().expect("there is an error"),
            Err(error) => error,
        };
        let folder = format!("{}/", self.folder.path().display());
        error.to_string().replace(&folder, "")
    }
}

pub fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

pub fn gzip(bytes: &[u8]) -> Vec<u8> {
    use std::io::Write as _;

    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(bytes).unwrap();
    gzip.finish().unwrap()
}

pub fn zstd(bytes: &[u8]) -> Vec<u8> {
    ruzstd::encoding::compress_to_vec(bytes, ruzstd::encoding::CompressionLevel::Fastest)
}

/// Returns the keys of an iterator of samples.
pub fn keys(samples: impl Iterator<Item = tensorfile_datasets::Result<Sample>>) -> Vec<String> {
    samples.map(|sample| sample.unwrap().key).collect()
}

/// Returns limits with a maximum of bytes held of a stream.
pub fn held(bytes: u64) -> Limits {
    Limits::new().held(bytes)
}
