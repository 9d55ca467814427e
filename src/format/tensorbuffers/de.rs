use super::{header, metadata};
use crate::error::Result;
use crate::limits::Limits;
use crate::source::ByteSource;
use crate::wire::Entry;

/// Reads the index of a TensorBuffers file, which is the flatbuffer at its end.
#[derive(Debug, Default)]
pub struct Walk {
    /// The tensors that are not walked to yet, once the index is read.
    entries: Option<std::vec::IntoIter<Entry>>,
}

impl crate::wire::Walk for Walk {
    const FORMAT: &'static str = "tensorbuffers";
    const IN_FILE_ORDER: bool = true;

    fn next<'de, B: ByteSource<'de>>(&mut self, source: &mut B, limits: &Limits) -> Result<Option<Entry>> {
        let entries = match &mut self.entries {
            Some(entries) => entries,
            unread => unread.insert(read_index(source, limits)?.into_iter()),
        };
        Ok(entries.next())
    }
}

/// Reads all tensors, in the order of their data.
fn read_index<'de, B: ByteSource<'de>>(source: &mut B, limits: &Limits) -> Result<Vec<Entry>> {
    header::read_magic(|offset, bytes| source.read_at(offset, bytes))?;
    source.keep_rest(limits.payload.min(header::MAX_FILE))?;
    let len = source.len().expect("all of it is held");
    metadata::open_rest(
        len,
        |offset, bytes| source.read_at(offset, bytes),
        |root, start| {
            let entry =
                |tensor: metadata::Record<'_>| Ok(Entry::new(Some(tensor.name.to_owned()), tensor.info, tensor.range));
            metadata::each_tensor(&root, start, limits, entry)
        },
    )
}
