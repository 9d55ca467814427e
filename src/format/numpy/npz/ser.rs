//! Writes npz archives, plain or deflated.

use std::io::{self, Write};

use flate2::Compression;
use flate2::write::DeflateEncoder;
use rawzip::path::{EntryPath, ZipFilePath};
use rawzip::{CompressionMethod, DataDescriptorOutput, ZipArchiveWriter, ZipEntryWriter};

use super::header;
use crate::error::{ErrorKind, Result, cannot_store};
use crate::format::numpy;
use crate::model::{FormatSpec, TensorData};
use crate::tensor::{Layout, TensorInfo};
use crate::write;
use crate::write::zip::{ByteCounter, CrcWriter, check_member, write_zeros, zip_write_error};
use crate::write::{FileLayout, FileWriter, NamePolicy, Output, PlannedTensors};

/// Writes arrays as members of an archive.
#[derive(Debug, Clone, Default)]
pub struct Encode {
    pub(super) compress: bool,
    pub(super) keep_dim_order: bool,
}

impl write::Encode for Encode {
    fn spec(&self) -> &'static FormatSpec {
        &super::FORMAT
    }

    fn names(&self) -> NamePolicy {
        NamePolicy::Stored
    }

    fn keeps_dim_order(&self, info: &TensorInfo) -> bool {
        self.keep_dim_order && numpy::header::has_fortran_order(info)
    }

    fn check(&self, info: &TensorInfo) -> Result<(), ErrorKind> {
        numpy::header::check(info)?;
        check_member(info, super::FORMAT.name)
    }

    fn check_name(&self, name: &str, info: &TensorInfo) -> Result<(), ErrorKind> {
        header::check_blob(name, info)
    }

    /// Writes the archive to nowhere, with zeros for the elements, to find the offsets. In a compressed file they
    /// differ.
    fn lay_out(&self, plan: &PlannedTensors) -> Result<FileLayout> {
        if !plan.is_empty() && (0..plan.len()).all(|index| plan.info(index).layout == Layout::Blob) {
            return Err(
                cannot_store("blobs alone", "npz has at least one array, or it is taken for another archive").into()
            );
        }
        let mut archive = ZipArchiveWriter::new(ByteCounter(0));
        let mut layout = FileLayout::with_capacity(plan.len());
        for index in 0..plan.len() {
            let mut member = start(&mut archive, plan.name(index), plan.info(index), CompressionMethod::STORE)?;
            member.write_all(&array_header(plan.info(index)))?;
            layout.push(&[], member.stream_offset());
            write_zeros(&mut member, plan.payload_bytes(index))?;
            let bytes = member.compressed_bytes();
            member.finish(DataDescriptorOutput::new(0, bytes)).map_err(zip_write_error)?;
        }
        layout.end_offset = archive.finish().map_err(zip_write_error)?.0;
        Ok(layout)
    }

    fn has_writer(&self) -> bool {
        true
    }

    fn writer<'w>(&self, plan: &'w PlannedTensors, _: &'w FileLayout, out: Output<'w>) -> Box<dyn FileWriter<'w> + 'w> {
        Box::new(Archive { plan, compress: self.compress, zip: ZipArchiveWriter::new(out) })
    }
}

/// A zip archive under construction.
struct Archive<'w> {
    plan: &'w PlannedTensors,
    compress: bool,
    zip: ZipArchiveWriter<Output<'w>>,
}

impl<'w> FileWriter<'w> for Archive<'w> {
    fn tensor(&mut self, index: usize, data: &dyn TensorData) -> Result<()> {
        let (name, info) = (self.plan.name(index), self.plan.info(index));
        if info.layout == Layout::Blob {
            check_blob(data).map_err(|error| error.in_tensor(name))?;
        }
        let written = if self.compress {
            let mut member = start(&mut self.zip, name, info, CompressionMethod::DEFLATE)?;
            let mut encoder = DeflateEncoder::new(&mut member, Compression::default());
            let contents = fill(&mut encoder, info, data)?;
            encoder.finish()?;
            member.finish(contents)
        } else {
            let mut member = start(&mut self.zip, name, info, CompressionMethod::STORE)?;
            let contents = fill(&mut member, info, data)?;
            member.finish(contents)
        };
        written.map(drop).map_err(zip_write_error)
    }

    fn finish(self: Box<Self>) -> Result<Output<'w>> {
        self.zip.finish().map_err(zip_write_error)
    }
}

/// Refuses a blob that would be read as an array.
fn check_blob(data: &dyn TensorData) -> Result<()> {
    let mut begin = Begin { bytes: Vec::new() };
    match data.as_bytes() {
        Some(bytes) => begin.write_all(bytes),
        None => data.write_to(&mut begin),
    }
    .or_else(|error| if begin.is_full() { Ok(()) } else { Err(error) })?;
    if begin.bytes == numpy::header::MAGIC {
        return Err(cannot_store("a blob that begins as an array does", "it would be read as one").into());
    }
    Ok(())
}

/// The first bytes of a payload. It fails once it has them.
struct Begin {
    bytes: Vec<u8>,
}

impl Begin {
    fn is_full(&self) -> bool {
        self.bytes.len() == numpy::header::MAGIC.len()
    }
}

impl Write for Begin {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.is_full() {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let now = bytes.len().min(numpy::header::MAGIC.len() - self.bytes.len());
        self.bytes.extend_from_slice(&bytes[..now]);
        Ok(now)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Begins a member with its contents at a multiple of [`ALIGNMENT`](crate::write::zip::ALIGNMENT).
fn start<'a, W: Write>(
    archive: &'a mut ZipArchiveWriter<W>,
    name: &str,
    info: &TensorInfo,
    method: CompressionMethod,
) -> Result<ZipEntryWriter<'a, W>> {
    let name = header::member_name(name, info);
    let offset = archive.stream_offset();
    // The writer only sets the flag for UTF-8 on names it would not change.
    let is_kept = ZipFilePath::from_str(&name).as_str() == name && !name.ends_with('/');
    let path = if is_kept { EntryPath::conformant(name.as_str()) } else { EntryPath::verbatim(name.as_bytes()) };
    // Unix permissions mark the archive as made by Unix. Info-ZIP then takes names unchanged, instead of converting
    // them from a DOS code page.
    let member = archive.new_file(path).compression_method(method).unix_permissions(0o100_644);
    header::PADDING.start(member, offset, &name)
}

/// Returns the bytes before the elements of an array. Blobs have none.
fn array_header(info: &TensorInfo) -> Vec<u8> {
    let mut header = Vec::new();
    if info.layout != Layout::Blob {
        numpy::header::write(info, &mut header);
    }
    header
}

/// Writes the contents of a member. Returns their checksum and length.
fn fill(out: &mut dyn Write, info: &TensorInfo, data: &dyn TensorData) -> Result<DataDescriptorOutput> {
    let mut contents = CrcWriter::new(out);
    contents.write_all(&array_header(info))?;
    data.copy_to(&mut contents)?;
    Ok(contents.finish())
}
