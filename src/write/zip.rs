//! Zip archives, written from start to end: the length and the checksum of each member follow its contents.

use std::io::{self, Write};

use flate2::Crc;
use rawzip::extra_fields::ExtraFieldId;
use rawzip::{DataDescriptorOutput, Header, ZipEntryWriter, ZipFileBuilder};

use crate::error::{Error, ErrorKind, Result, cannot_store};
use crate::tensor::TensorInfo;

/// The elements of tensors begin at multiples of this.
pub(crate) const ALIGNMENT: u16 = 64;

/// The length of the longest tensor in bytes: planning counts them, a mebibyte at a time.
const MAX_BYTES: usize = 1 << 48;

/// The length of pieces that are in the cache of the processor for the copy that follows the checksum.
pub(crate) const CACHED: usize = 256 << 10;

/// Refuses a tensor that takes too long to plan.
pub(crate) fn check_member(info: &TensorInfo, format: &str) -> Result<(), ErrorKind> {
    match info.payload_bytes().filter(|bytes| *bytes > MAX_BYTES) {
        Some(bytes) => Err(cannot_store(format!("{bytes} bytes"), format!("{format} stores tensors of up to 2^48"))),
        None => Ok(()),
    }
}

/// An extra field in the local header of a member, which moves its contents to a multiple of [`ALIGNMENT`].
pub(crate) struct PaddingField {
    pub(crate) id: u16,
    /// The bytes before the padding.
    pub(crate) begin: &'static [u8],
    pub(crate) padding: u8,
}

impl PaddingField {
    /// Begins a member of this name, with its local header at `offset`.
    pub(crate) fn start<'a, W: Write>(
        &self,
        mut member: ZipFileBuilder<'a, '_, W>,
        offset: u64,
        name: &str,
    ) -> Result<ZipEntryWriter<'a, W>> {
        if let Some(contents) = self.contents(offset, name) {
            let id = ExtraFieldId::new(self.id);
            member = member.extra_field(id, &contents, Header::LOCAL).map_err(zip_write_error)?;
        }
        member.start().map(|(member, _)| member).map_err(zip_write_error)
    }

    /// Returns the contents of the field. `None` if the member is aligned without it.
    fn contents(&self, offset: u64, name: &str) -> Option<Vec<u8>> {
        const LOCAL_HEADER: u64 = 30;
        const FIELD_HEADER: u64 = 4;
        let alignment = u64::from(ALIGNMENT);
        let start = offset + LOCAL_HEADER + name.len() as u64;
        if start.is_multiple_of(alignment) {
            return None;
        }
        let least = start + FIELD_HEADER + self.begin.len() as u64;
        let padding = usize::try_from(least.next_multiple_of(alignment) - least).expect("less than the alignment");
        let mut contents = self.begin.to_vec();
        contents.resize(contents.len() + padding, self.padding);
        Some(contents)
    }
}

/// A writer to nowhere, for an archive that is only laid out.
pub(crate) struct ByteCounter(pub(crate) u64);

impl Write for ByteCounter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Writes zeros in place of a payload.
pub(crate) fn write_zeros(out: &mut dyn Write, len: usize) -> io::Result<()> {
    // They are a part of every program that writes archives, so that more would make it larger.
    static ZEROS: [u8; 16 << 10] = [0; 16 << 10];
    let mut left = len;
    while left > 0 {
        let now = left.min(ZEROS.len());
        out.write_all(&ZEROS[..now])?;
        left -= now;
    }
    Ok(())
}

/// Passes on the contents of a member, with their checksum and length.
pub(crate) struct CrcWriter<'a> {
    out: &'a mut dyn Write,
    crc: Crc,
    bytes: u64,
}

impl<'a> CrcWriter<'a> {
    pub(crate) fn new(out: &'a mut dyn Write) -> Self {
        Self { out, crc: Crc::new(), bytes: 0 }
    }

    /// Returns the checksum and the length.
    pub(crate) fn finish(self) -> DataDescriptorOutput {
        DataDescriptorOutput::new(self.crc.sum(), self.bytes)
    }
}

impl Write for CrcWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_all(bytes)?;
        Ok(bytes.len())
    }

    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.bytes += bytes.len() as u64;
        bytes.chunks(CACHED).try_for_each(|piece| {
            self.crc.update(piece);
            self.out.write_all(piece)
        })
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Converts an error of the zip writer.
pub(crate) fn zip_write_error(error: rawzip::Error) -> Error {
    match error.into_kind() {
        rawzip::ErrorKind::IO(error) => error.into(),
        other => ErrorKind::Unsupported { what: "write the archive".to_owned(), instead: other.to_string() }.into(),
    }
}
