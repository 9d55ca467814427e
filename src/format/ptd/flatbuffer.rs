use super::header::{BEFORE_HEADER, Frame, HEAD, bad_number};
use crate::error::Result;
use crate::record::{Cursor, FlatbufferReader};
use crate::storage::ReadAt;

/// The index of a file as a flatbuffer, in memory of its own.
///
/// If the file states how long the injected header is, the header is removed: the C++ writer may make it of any length,
/// and the parts of the flatbuffer are aligned only without it.
#[derive(Debug)]
pub(super) struct Flatbuffer {
    pub(super) frame: Frame,
    bytes: Vec<u8>,
}

impl Flatbuffer {
    pub(super) fn read(file: &mut dyn ReadAt) -> Result<Self> {
        let len = file.file_len();
        let mut cursor = Cursor::new(file, 0);
        let head = cursor.array::<HEAD>()?;
        let frame = Frame::parse(&head, len)?;
        let end = frame.flatbuffer_end.max(cursor.offset());
        let mut bytes = Vec::new();
        match len {
            // It takes less to read the head again than to make room for the rest after it.
            Some(_) => Cursor::new(file, 0).append(end, &mut bytes)?,
            None => {
                bytes.extend_from_slice(&head);
                cursor.append(end - HEAD as u64, &mut bytes)?;
            }
        }
        let flatbuffer = Self { frame, bytes };
        flatbuffer.without_header()
    }

    /// Removes the injected header.
    fn without_header(mut self) -> Result<Self> {
        let injected = self.frame.injected;
        let root = u32::from_le_bytes(self.bytes[..4].try_into().expect("the head was read"));
        let moved = u64::from(root).checked_sub(injected).filter(|root| *root >= BEFORE_HEADER);
        let moved = moved.ok_or_else(|| {
            let expected = format!("at least {}, where the header ends", BEFORE_HEADER + injected);
            bad_number("root table offset", root, expected, 0)
        })?;
        let moved = u32::try_from(moved).expect("less than the root offset was");
        self.bytes[..4].copy_from_slice(&moved.to_le_bytes());
        let end = usize::try_from(self.frame.flatbuffer_end).expect("the flatbuffer was read");
        let header_end = usize::try_from(BEFORE_HEADER + injected).expect("the header was read");
        self.bytes.truncate(end);
        let header_start = usize::try_from(BEFORE_HEADER).expect("a few bytes");
        self.bytes.drain(header_start..header_end);
        Ok(self)
    }

    /// Returns a reader of the flatbuffer.
    pub(super) fn reader(&self) -> FlatbufferReader<'_> {
        FlatbufferReader::new(&self.bytes, self.frame.origin())
    }
}
