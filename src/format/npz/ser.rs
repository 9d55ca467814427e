use std::io::{self, Write};

use flate2::write::DeflateEncoder;
use flate2::{Compression, Crc};
use rawzip::extra_fields::ExtraFieldId;
use rawzip::path::{EntryPath, ZipFilePath};
use rawzip::{CompressionMethod, DataDescriptorOutput, Header, ZipArchiveWriter, ZipEntryWriter};

use super::header;
use crate::error::{Error, ErrorKind, Result};
use crate::tensor::{Layout, TensorInfo};
use crate::wire::{self, FileLayout, Frame, Names, Plan, Take};

/// Writes arrays as members of an archive.
#[derive(Debug, Clone, Default)]
pub struct Encode {
    pub(super) compress: bool,
    pub(super) keep_dim_order: bool,
}

/// The most bytes of a tensor: planning counts them, a mebibyte at a time.
const MAX_BYTES: usize = 1 << 48;

impl wire::Encode for Encode {
    const FORMAT: &'static str = "npz";

    type Frame<W: Write> = Archive<W>;

    fn names(&self) -> Names {
        Names::Stored
    }

    fn keeps_dim_order(&self) -> bool {
        self.keep_dim_order
    }

    fn check(&self, name: &str, info: &TensorInfo) -> Result<(), ErrorKind> {
        if info.layout != Layout::Blob {
            header::check(Self::FORMAT, info)?;
        }
        if let Some(bytes) = info.payload_bytes().filter(|bytes| *bytes > MAX_BYTES) {
            return Err(wire::cannot_store(format!("{bytes} bytes"), "npz stores tensors of up to 2^48"));
        }
        header::check_name(name, info)
    }

    /// Writes the archive to nowhere, with zeros for the elements, which tells how long it is.
    fn lay_out(&self, plan: &Plan<Self>) -> Result<FileLayout> {
        static ZEROS: [u8; 1 << 20] = [0; 1 << 20];
        let mut archive = ZipArchiveWriter::new(Count(0));
        for at in 0..plan.len() {
            let mut member = start(&mut archive, plan.name(at), plan.info(at), CompressionMethod::STORE)?;
            member.write_all(&head(plan.info(at)))?;
            let mut left = plan.payload_bytes(at);
            while left > 0 {
                let now = left.min(ZEROS.len());
                member.write_all(&ZEROS[..now])?;
                left -= now;
            }
            let bytes = member.compressed_bytes();
            member.finish(DataDescriptorOutput::new(0, bytes)).map_err(write_error)?;
        }
        let Count(end_offset) = archive.finish().map_err(write_error)?;
        Ok(FileLayout { end_offset, ..FileLayout::default() })
    }
}

/// A writer to nowhere.
struct Count(u64);

impl Write for Count {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A zip archive that is being written.
#[derive(Debug)]
pub struct Archive<W>(ZipArchiveWriter<W>);

impl<W: Write> Frame<W, Encode> for Archive<W> {
    fn new(writer: W) -> Self {
        Self(ZipArchiveWriter::new(writer))
    }

    fn tensor(
        &mut self,
        plan: &Plan<Encode>,
        at: usize,
        _: &str,
        pour: impl FnOnce(Take<'_>) -> Result<()>,
    ) -> Result<()> {
        let (name, info) = (plan.name(at), plan.info(at));
        let written = if plan.encode().compress {
            let mut member = start(&mut self.0, name, info, CompressionMethod::DEFLATE)?;
            let mut encoder = DeflateEncoder::new(&mut member, Compression::default());
            let contents = fill(&mut encoder, info, pour)?;
            encoder.finish()?;
            member.finish(contents)
        } else {
            let mut member = start(&mut self.0, name, info, CompressionMethod::STORE)?;
            let contents = fill(&mut member, info, pour)?;
            member.finish(contents)
        };
        written.map(drop).map_err(write_error)
    }

    fn finish(self, _: &Plan<Encode>) -> Result<W> {
        self.0.finish().map_err(write_error)
    }
}

/// Begins a member whose contents lie at a multiple of [`header::ALIGNMENT`].
fn start<'a, W: Write>(
    archive: &'a mut ZipArchiveWriter<W>,
    name: &str,
    info: &TensorInfo,
    method: CompressionMethod,
) -> Result<ZipEntryWriter<'a, W>> {
    let name = header::member_name(name, info);
    let alignment = header::alignment(archive.stream_offset(), &name);
    // The mark for UTF-8 is to be had with names only that the writer would not change.
    let is_kept = ZipFilePath::from_str(&name).as_str() == name && !name.ends_with('/');
    let path = match is_kept {
        true => EntryPath::conformant(name.as_str()),
        false => EntryPath::verbatim(name.as_bytes()),
    };
    let mut file = archive.new_file(path).compression_method(method);
    if let Some(contents) = alignment {
        let id = ExtraFieldId::new(header::ALIGNMENT_FIELD);
        file = file.extra_field(id, &contents, Header::LOCAL).map_err(write_error)?;
    }
    file.start().map(|(member, _)| member).map_err(write_error)
}

/// What stands before the elements of an array; blobs have nothing.
fn head(info: &TensorInfo) -> Vec<u8> {
    let mut head = Vec::new();
    if info.layout != Layout::Blob {
        header::write(info, &mut head);
    }
    head
}

/// Writes the contents of a member; tells what they were.
fn fill(
    out: &mut impl Write,
    info: &TensorInfo,
    pour: impl FnOnce(Take<'_>) -> Result<()>,
) -> Result<DataDescriptorOutput> {
    let (mut crc, mut bytes) = (Crc::new(), 0);
    let mut take = |piece: &[u8]| {
        crc.update(piece);
        bytes += piece.len() as u64;
        Ok(out.write_all(piece)?)
    };
    take(&head(info))?;
    pour(&mut take)?;
    Ok(DataDescriptorOutput::new(crc.sum(), bytes))
}

fn write_error(error: rawzip::Error) -> Error {
    match error.into_kind() {
        rawzip::ErrorKind::IO(error) => error.into(),
        other => ErrorKind::Unsupported { what: "write the archive".to_owned(), instead: other.to_string() }.into(),
    }
}
