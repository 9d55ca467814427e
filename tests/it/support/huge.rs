//! Files of up to 20 GiB that are mostly holes.

use std::fs::{self, File};
use std::io::{self, Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use tensorfile::model::{TensorData, TensorRecord, TensorSink};
use tensorfile::{Dtype, Format, Result, TensorInfo, Tensors, WriteOptions};

pub const GIB: u64 = 1 << 30;

static ZEROS: [u8; 1 << 20] = [0; 1 << 20];

/// Tensors of zeros but for their last four bytes.
pub struct Huge(pub Vec<(String, TensorInfo)>);

impl Huge {
    /// As much as a format can hold of 20 GiB: tensors of 1 GiB, or a single one.
    pub fn new(format: &Format) -> Self {
        let gib = if format.name == "tensorbuffers" { 3 } else { 20 };
        let (tensors, rows) = if format.max_tensors == Some(1) { (1, gib << 14) } else { (gib, 1 << 14) };
        let info = TensorInfo::new(Dtype::F32, [rows, 1 << 14]);
        let name = |at: usize| if format.max_name == Some(0) { at.to_string() } else { format!("t{at}") };
        Self((0..tensors).map(|at| (name(at), info.clone())).collect())
    }

    pub fn bytes(&self) -> u64 {
        self.0.iter().map(|(_, info)| info.payload_bytes().unwrap() as u64).sum()
    }
}

impl Tensors for Huge {
    fn send(&self, sink: &mut dyn TensorSink) -> Result<()> {
        for (name, info) in &self.0 {
            sink.tensor(&TensorRecord { name, info, data: &Zeros(info.payload_bytes().unwrap()), tied: None })?;
        }
        Ok(())
    }
}

/// Zeros, and the number 1.5 at the end.
struct Zeros(usize);

impl TensorData for Zeros {
    fn write_to(&self, out: &mut dyn Write) -> io::Result<()> {
        for _ in 1..self.0 / ZEROS.len() {
            out.write_all(&ZEROS)?;
        }
        out.write_all(&ZEROS[4..])?;
        out.write_all(&1.5_f32.to_le_bytes())
    }
}

/// A file in which [`ZEROS`] become a hole.
struct Sparse(File);

impl Write for Sparse {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if ZEROS.as_ptr_range().contains(&bytes.as_ptr()) {
            self.0.seek(SeekFrom::Current(i64::try_from(bytes.len()).unwrap()))?;
            return Ok(bytes.len());
        }
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// Writes the file; returns `None` where the file system has no holes.
pub fn write(format: &Format, path: &Path) -> Option<Huge> {
    let huge = Huge::new(format);
    // A file that is written out shows it soon.
    File::create(path).unwrap().set_len(GIB).unwrap();
    if fs::metadata(path).unwrap().blocks() * 512 > GIB / 2 {
        return None;
    }
    let file = Sparse(File::create(path).unwrap());
    format.to_writer(file, &huge, &WriteOptions::new()).unwrap();
    assert!(fs::metadata(path).unwrap().len() > huge.bytes());
    Some(huge)
}
