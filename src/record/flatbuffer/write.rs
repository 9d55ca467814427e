use smallvec::SmallVec;

/// Writes a flatbuffer from its start to its end, the tables before the parts that they refer to.
///
/// `FlatBufferBuilder` grows towards the start instead, and looks up the list of fields of each table by its bytes. For
/// an index of many small tables that takes several times as long.
///
/// Positions are in bytes from the start. The caller checks before that the flatbuffer will be shorter than 2³¹ bytes.
#[derive(Debug)]
pub(crate) struct FlatbufferWriter {
    bytes: Vec<u8>,
    lists: SmallVec<[FieldList; 6]>,
}

/// A list of fields that tables of one kind share.
#[derive(Debug)]
struct FieldList {
    /// The size of each field, as in [`FlatbufferWriter::table`].
    sizes: SmallVec<[u8; 8]>,
    position: usize,
    /// The offset of each field in a table.
    offsets: SmallVec<[u16; 8]>,
    /// The largest size of a field, and at least that of an offset.
    alignment: usize,
    table_bytes: usize,
}

/// The size of an offset, and of the length of a vector.
const OFFSET: usize = 4;

impl FlatbufferWriter {
    /// A flatbuffer that begins with `front`, which has room for the offset of the root.
    pub(crate) fn new(front: Vec<u8>) -> Self {
        Self { bytes: front, lists: SmallVec::new() }
    }

    /// Adds a table of zeros, which the offset at `from` refers to. It has fields of these sizes in bytes, in the order of
    /// the schema; a field of size 0 is absent. Returns the positions of the fields.
    pub(crate) fn table<const N: usize>(&mut self, from: usize, sizes: [u8; N]) -> [usize; N] {
        let found = self.lists.iter().position(|list| *list.sizes == sizes);
        let list = found.unwrap_or_else(|| self.add_list(&sizes));
        let &FieldList { position, alignment, table_bytes, .. } = &self.lists[list];
        // The largest fields come right after the distance to the list.
        let start = (self.bytes.len() + OFFSET).next_multiple_of(alignment) - OFFSET;
        self.bytes.resize(start + table_bytes, 0);
        self.set(start, &distance(position, start).to_le_bytes());
        self.set(from, &distance(from, start).to_le_bytes());
        let offsets = &self.lists[list].offsets;
        std::array::from_fn(|field| start + usize::from(offsets[field]))
    }

    /// Adds a list of fields. Returns its number.
    fn add_list(&mut self, sizes: &[u8]) -> usize {
        // The place of the next field of 8, 4, 2 and 1 bytes: larger ones come first.
        let class = |size: u8| 3 - usize::try_from(size.trailing_zeros()).expect("a few bits");
        let mut next = [4_u16; 4];
        for &size in sizes.iter().filter(|size| **size > 0) {
            next[class(size) + 1..].iter_mut().for_each(|next| *next += u16::from(size));
        }
        let mut end = 4;
        let position = self.bytes.len().next_multiple_of(2);
        let list_bytes = 4 + 2 * sizes.len();
        self.bytes.resize(position + list_bytes, 0);
        let mut offsets = SmallVec::new();
        for (at, &size) in sizes.iter().enumerate() {
            let mut offset = 0;
            if size > 0 {
                let next = &mut next[class(size)];
                offset = *next;
                *next += u16::from(size);
                end = end.max(*next);
            }
            offsets.push(offset);
            self.set(position + 4 + 2 * at, &offset.to_le_bytes());
        }
        self.set(position, &u16::try_from(list_bytes).expect("a schema has few fields").to_le_bytes());
        self.set(position + 2, &end.to_le_bytes());
        let alignment = sizes.iter().map(|size| usize::from(*size)).fold(OFFSET, usize::max);
        self.lists.push(FieldList {
            sizes: SmallVec::from_slice(sizes),
            position,
            offsets,
            alignment,
            table_bytes: end.into(),
        });
        self.lists.len() - 1
    }

    /// Adds a string, which the offset at `from` refers to.
    pub(crate) fn string(&mut self, from: usize, text: &str) {
        self.begin_vector(from, text.len(), 1);
        self.bytes.extend_from_slice(text.as_bytes());
        self.bytes.push(0);
    }

    /// Adds a vector of little-endian numbers, which the offset at `from` refers to.
    pub(crate) fn vector<const N: usize>(&mut self, from: usize, numbers: impl ExactSizeIterator<Item = [u8; N]>) {
        self.begin_vector(from, numbers.len(), N);
        numbers.for_each(|number| self.bytes.extend_from_slice(&number));
    }

    /// Adds a vector of offsets, which the offset at `from` refers to. Returns their positions.
    pub(crate) fn offsets(&mut self, from: usize, len: usize) -> impl DoubleEndedIterator<Item = usize> + use<> {
        self.begin_vector(from, len, OFFSET);
        let start = self.bytes.len();
        self.bytes.resize(start + OFFSET * len, 0);
        (0..len).map(move |at| start + OFFSET * at)
    }

    fn begin_vector(&mut self, from: usize, len: usize, element: usize) {
        let start = (self.bytes.len() + OFFSET).next_multiple_of(element.max(OFFSET)) - OFFSET;
        self.bytes.resize(start, 0);
        self.set(from, &distance(from, start).to_le_bytes());
        self.bytes.extend_from_slice(&u32::try_from(len).expect("the length was checked").to_le_bytes());
    }

    /// Sets the bytes of a field.
    pub(crate) fn set(&mut self, position: usize, bytes: &[u8]) {
        self.bytes[position..position + bytes.len()].copy_from_slice(bytes);
    }

    /// Returns the flatbuffer, whose length is a multiple of 8.
    pub(crate) fn finish(mut self) -> Vec<u8> {
        self.bytes.resize(self.bytes.len().next_multiple_of(8), 0);
        self.bytes
    }
}

/// Returns the distance between two positions. It is the same number of 32 bits with a sign and without.
fn distance(from: usize, to: usize) -> i32 {
    i32::try_from(to - from).expect("the length was checked")
}
