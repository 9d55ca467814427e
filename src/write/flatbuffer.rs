/// Writes a flatbuffer from its start to its end, the tables before the parts that they refer to.
///
/// `FlatBufferBuilder` grows towards the start instead, and looks up the list of fields of each table by its bytes. For
/// an index of many small tables that takes several times as long.
///
/// Positions are in bytes from the start of the buffer. The caller checks before that the flatbuffer will be shorter than 2³¹
/// bytes.
#[derive(Debug)]
pub(crate) struct FlatbufferWriter {
    /// The buffer with the flatbuffer so far, and zeros after it.
    bytes: Vec<u8>,
    /// The end of the flatbuffer so far.
    end: usize,
    /// The lists of fields so far, each with its position.
    lists: [Option<(&'static FieldList, usize)>; MAX_LISTS],
    /// That of the last table, as one of the same kind often follows.
    last: Option<(&'static FieldList, usize)>,
}

/// The fields of a kind of table, laid out when the program is compiled. Kinds are told apart by their addresses, so each is
/// a `static`.
#[derive(Debug)]
pub(crate) struct TableFields<const N: usize> {
    list: FieldList,
    /// The offset of each field in a table.
    offsets: [u16; N],
}

/// A list of fields that tables of one kind share.
#[derive(Debug)]
struct FieldList {
    /// The list as it is stored, and zeros after it.
    bytes: [u8; LONGEST_LIST],
    len: usize,
    /// The largest size of a field, and at least that of an offset.
    alignment: usize,
    table_bytes: usize,
}

/// The zeros that are added at once: as many as stay in the processor's cache until they are written.
const AHEAD: usize = 4 << 10;

/// The most kinds of tables in a flatbuffer.
const MAX_LISTS: usize = 6;

/// The size of an offset, and of the length of a vector.
const OFFSET: usize = 4;

/// The length of a list of eight fields.
const LONGEST_LIST: usize = 4 + 2 * 8;

/// A vector of offsets.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OffsetVector {
    start: usize,
}

impl OffsetVector {
    /// Returns the position of an offset, by its number.
    #[inline]
    pub(crate) fn at(self, number: usize) -> usize {
        self.start + OFFSET * number
    }
}

impl<const N: usize> TableFields<N> {
    /// Fields of these sizes in bytes, in the order of the schema; a field of size 0 is absent.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the list and the table are short, and constants convert with `as`"
    )]
    pub(crate) const fn new(sizes: [u8; N]) -> Self {
        let (mut bytes, mut offsets) = ([0; LONGEST_LIST], [0; N]);
        // The largest fields come right after the distance to the list.
        let (mut end, mut alignment, mut size) = (OFFSET as u16, OFFSET, 8);
        while size > 0 {
            let mut at = 0;
            while at < N {
                if sizes[at] == size {
                    offsets[at] = end;
                    [bytes[4 + 2 * at], bytes[5 + 2 * at]] = end.to_le_bytes();
                    end += size as u16;
                    if size as usize > alignment {
                        alignment = size as usize;
                    }
                }
                at += 1;
            }
            size /= 2;
        }
        let len = 4 + 2 * N;
        [bytes[0], bytes[1]] = (len as u16).to_le_bytes();
        [bytes[2], bytes[3]] = end.to_le_bytes();
        Self { list: FieldList { bytes, len, alignment, table_bytes: end as usize }, offsets }
    }
}

impl FlatbufferWriter {
    /// A flatbuffer in a buffer, after its bytes, whose number is a multiple of 8. It begins with `front` zeros, where the offset of the root and more can be [set](Self::set). In the
    /// end it is likely to have up to `expected` bytes.
    pub(crate) fn new(mut bytes: Vec<u8>, front: usize, expected: usize) -> Self {
        let start = bytes.len();
        // The expected length is an upper bound, and a buffer that has memory most often has enough.
        if bytes.capacity() == 0 {
            bytes.reserve_exact(expected);
        }
        bytes.resize((start + expected.min(AHEAD)).min(bytes.capacity()).max(start + front), 0);
        Self { bytes, end: start + front, lists: [None; MAX_LISTS], last: None }
    }

    /// Adds a table of zeros, which the offset at `from` refers to. Returns the positions of the fields.
    // A part of what is done for each tensor, and most of it is known when the program is compiled.
    #[inline(always)]
    pub(crate) fn table<const N: usize>(&mut self, from: usize, fields: &'static TableFields<N>) -> [usize; N] {
        let mut positions = [self.add_table(from, &fields.list); N];
        for (at, position) in positions.iter_mut().enumerate() {
            *position += usize::from(fields.offsets[at]);
        }
        positions
    }

    /// Returns the position of the table.
    #[inline(always)]
    fn add_table(&mut self, from: usize, list: &'static FieldList) -> usize {
        let position = match self.last {
            Some((last, position)) if std::ptr::eq(last, list) => position,
            _ => self.find_list(list),
        };
        let start = align(self.end + OFFSET, list.alignment) - OFFSET;
        self.go_to(start + list.table_bytes);
        self.set(start, distance(position, start).to_le_bytes());
        self.set(from, distance(from, start).to_le_bytes());
        start
    }

    /// Returns the position of a list, which is added if it is new.
    fn find_list(&mut self, list: &'static FieldList) -> usize {
        let is_it = |known: &Option<(&FieldList, usize)>| known.is_none_or(|(known, _)| std::ptr::eq(known, list));
        let at = self.lists.iter().position(is_it).expect("there are fewer kinds of tables");
        let position = match self.lists[at] {
            Some((_, position)) => position,
            None => self.add_list(list),
        };
        self.lists[at] = Some((list, position));
        self.last = self.lists[at];
        position
    }

    /// Returns the position of the list.
    fn add_list(&mut self, list: &FieldList) -> usize {
        let position = self.end.next_multiple_of(2);
        self.go_to(position + LONGEST_LIST);
        self.set(position, list.bytes);
        self.end = position + list.len;
        position
    }

    /// Adds a string, which the offset at `from` refers to.
    pub(crate) fn string(&mut self, from: usize, text: &str) {
        let start = align(self.end + OFFSET, OFFSET);
        let end = start + text.len();
        // It ends with a NUL.
        self.add_vector(from, start, end + 1, text.len());
        self.bytes[start..end].copy_from_slice(text.as_bytes());
    }

    /// Adds a vector of little-endian numbers, which the offset at `from` refers to.
    pub(crate) fn vector<const N: usize>(&mut self, from: usize, numbers: impl ExactSizeIterator<Item = [u8; N]>) {
        let start = self.vector_of_zeros(from, numbers.len(), N);
        let (places, _) = self.bytes[start..self.end].as_chunks_mut();
        for (at, number) in numbers.enumerate() {
            places[at] = number;
        }
    }

    /// Adds a vector of offsets, which the offset at `from` refers to.
    pub(crate) fn offsets(&mut self, from: usize, len: usize) -> OffsetVector {
        OffsetVector { start: self.vector_of_zeros(from, len, OFFSET) }
    }

    /// Returns the position of the first element.
    fn vector_of_zeros(&mut self, from: usize, len: usize, element: usize) -> usize {
        let start = align(self.end + OFFSET, element.max(OFFSET));
        self.add_vector(from, start, start + element * len, len);
        start
    }

    #[inline]
    fn add_vector(&mut self, from: usize, start: usize, end: usize, len: usize) {
        self.go_to(end);
        self.set(from, distance(from, start - OFFSET).to_le_bytes());
        self.set(start - OFFSET, u32::try_from(len).expect("the length was checked").to_le_bytes());
    }

    /// Adds zeros up to a position.
    #[inline]
    fn go_to(&mut self, end: usize) {
        if end > self.bytes.len() {
            self.grow(end);
        }
        self.end = end;
    }

    #[cold]
    fn grow(&mut self, end: usize) {
        self.bytes.resize((end + AHEAD).min(self.bytes.capacity()).max(end), 0);
    }

    /// Makes the offset at `from` refer to what the one at `other`, which lies before or after it, refers to.
    #[cfg(feature = "ptd")]
    pub(crate) fn share(&mut self, from: usize, other: usize) {
        let bytes = self.bytes[other..].first_chunk().expect("these bytes were added");
        let to = other + usize::try_from(u32::from_le_bytes(*bytes)).expect("an address has 32 bits at least");
        self.set(from, distance(from, to).to_le_bytes());
    }

    /// Sets some bytes, such as those of a field.
    #[inline]
    pub(crate) fn set<const N: usize>(&mut self, position: usize, bytes: [u8; N]) {
        *self.bytes[position..].first_chunk_mut().expect("these bytes were added") = bytes;
    }

    /// Returns the buffer with the flatbuffer, whose length is a multiple of 8.
    pub(crate) fn finish(mut self) -> Vec<u8> {
        self.go_to(self.end.next_multiple_of(8));
        self.bytes.truncate(self.end);
        self.bytes
    }
}

/// Returns the next multiple of an alignment, a power of two.
fn align(position: usize, alignment: usize) -> usize {
    (position + alignment - 1) & !(alignment - 1)
}

/// Returns the distance between two positions. It is the same number of 32 bits with a sign and without.
fn distance(from: usize, to: usize) -> i32 {
    i32::try_from(to - from).expect("the length was checked")
}
