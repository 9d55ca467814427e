use super::header::{BEFORE_HEADER, Frame, HEAD, bad_number};
use crate::error::{Error, ErrorKind, Result};
use crate::read::{FlatbufferReader, Table};
use crate::storage::ReadAt;

/// The index of a file as a flatbuffer.
///
/// The header is injected after the first eight bytes, which hold the offset of the root. If the file states the length
/// of the header, the header is not part of the flatbuffer: the C++ writer allows any length, and the parts of the
/// flatbuffer are aligned only without it. All references except the one to the root are relative, so the bytes after
/// the header are read as a flatbuffer of their own.
#[derive(Debug)]
pub(super) struct Flatbuffer<'a> {
    pub(super) frame: Frame,
    reader: FlatbufferReader<'a>,
    /// The position of the root in the reader.
    root: usize,
}

impl<'a> Flatbuffer<'a> {
    pub(super) fn read(file: &'a mut dyn ReadAt, memory: &'a mut Vec<u8>) -> Result<Self> {
        let mut head = [0; HEAD];
        file.peek_at(0, &mut head)?;
        let frame = Frame::parse(&head, file.file_len())?;
        let start = BEFORE_HEADER + frame.injected;
        let root = *head.first_chunk().expect("it has more than four bytes");
        let root = u32::from_le_bytes(root);
        let position = u64::from(root).checked_sub(start).ok_or_else(|| {
            let expected = format!("at least {start}, where the header ends");
            bad_number("root table offset", root, expected, 0)
        })?;
        let bytes = file.bytes(start..frame.flatbuffer_end.max(start), memory)?;
        let root = usize::try_from(position).ok().filter(|root| *root < bytes.len()).ok_or_else(|| {
            let what = "the flatbuffer is broken: a part lies outside of it".to_owned();
            Error::new(ErrorKind::Malformed { what }).at(0)
        })?;
        Ok(Self { frame, reader: FlatbufferReader::new(bytes, start), root })
    }

    pub(super) fn root(&'a self) -> Result<Table<'a>> {
        self.reader.table_at(self.root, self.root)
    }
}
