use std::ops::Range;

use super::header::{JsonValue, LENGTH, METADATA, TAGS};
use crate::limits::Limits;
use crate::read::{Index, LastHeaders, ReadHeader};
use crate::tensor::{Dtype, Shape, TensorInfo};

/// The metadata of a header, and the offset in the file of the description of each tensor.
pub(super) type JsonHeader<'a> = (Option<JsonValue<'a>>, Vec<u64>);

/// Reads a header in the most common form: strings without escapes, and only the three keys of a tensor. Adds its
/// tensors to the index. Their ranges count from the end of the header. Returns `None` for any other header, valid or
/// not, and if a limit is exceeded.
///
/// This takes a third of the time of `serde_json`, which parses the other headers and words the errors.
pub(super) fn scan<'a>(json: &'a str, limits: &Limits, index: &mut Index) -> Option<JsonHeader<'a>> {
    let mut places = Vec::new();
    let metadata = scan_tensors(json, limits, &mut |name, header, offsets, place| {
        if places.is_empty() {
            // Most tensors take about as many bytes as the first, or more.
            let tensors = json.len() / (name.len() + place.len());
            let tensors = usize::try_from(limits.tensors).map_or(tensors, |most| tensors.min(most));
            index.reserve(tensors);
            places.reserve_exact(tensors);
        }
        header.push(index, Some(name), offsets).ok()?;
        places.push(LENGTH + place.start as u64);
        Some(())
    })?;
    index.compare_names().is_ok().then_some((metadata, places))
}

/// Calls `take` for each tensor with its name, its header, its data offsets, which may be in the wrong order, and the
/// range of its description in `json`. Returns the metadata.
///
/// As in [`scan`], `None` is not an error.
pub(super) fn scan_tensors<'a>(
    json: &'a str,
    limits: &Limits,
    take: &mut dyn FnMut(&'a str, ReadHeader, Range<u64>, Range<usize>) -> Option<()>,
) -> Option<Option<JsonValue<'a>>> {
    let mut scanner = Scanner::new(json);
    let (mut metadata, mut count) = (None, 0);
    scanner.object(&mut |scanner, name| {
        let start = scanner.i;
        if name != METADATA {
            let (header, offsets) = match scanner.alike() {
                Some((alike, offsets)) => (ReadHeader::Alike(alike), offsets),
                None => {
                    let (info, offsets) = scanner.tensor(count, limits)?;
                    (ReadHeader::New(info), offsets)
                }
            };
            count += 1;
            take(name, header, offsets, start..scanner.i)?;
            return (count as u64 <= limits.tensors).then_some(());
        }
        scanner.object(&mut |scanner, _| scanner.string().map(drop))?;
        let value = JsonValue::part(json, start..scanner.i);
        metadata.replace(value).is_none().then_some(())
    })?;
    scanner.skip_space();
    (scanner.i == json.len()).then_some(metadata)
}

/// A position in the JSON of a header.
struct Scanner<'a> {
    json: &'a str,
    i: usize,
    /// The last dtype. Most often the next tensor has the same.
    dtype: (&'static str, Dtype),
    /// The last descriptions in the most common form, up to the data offsets.
    last: LastHeaders<&'a str>,
}

impl<'a> Scanner<'a> {
    fn new(json: &'a str) -> Self {
        Self { json, i: 0, dtype: TAGS[0], last: LastHeaders::default() }
    }

    /// Reads an object. `member` reads a value, given the key.
    fn object(&mut self, member: &mut dyn FnMut(&mut Self, &'a str) -> Option<()>) -> Option<()> {
        self.take(b'{')?;
        if self.take(b'}').is_some() {
            return Some(());
        }
        loop {
            let key = self.string()?;
            self.take(b':')?;
            self.skip_space();
            member(self, key)?;
            if self.take(b',').is_none() {
                return self.take(b'}');
            }
        }
    }

    /// Reads two data offsets and the end of a description, without white space.
    fn offsets_here(&mut self) -> Option<Range<u64>> {
        let start = self.number_here()?;
        self.skip(b",")?;
        let end = self.number_here()?;
        self.skip(b"]}").map(|()| start as u64..end as u64)
    }

    /// Reads a tensor with the same description as one of the last tensors. Returns the position of that tensor in the
    /// index, and the data offsets.
    fn alike(&mut self) -> Option<(usize, Range<u64>)> {
        let (start, rest) = (self.i, self.rest());
        let is_here = |(description, _): &&(&str, usize)| rest.starts_with(description.as_bytes());
        let &(description, alike) = self.last.iter().find(is_here)?;
        self.i += description.len();
        let offsets = self.offsets_here();
        if offsets.is_none() {
            self.i = start;
        }
        Some((alike, offsets?))
    }

    /// Reads the header of the tensor at `position` in the index, and its data offsets, which may be in the wrong
    /// order.
    fn tensor(&mut self, position: usize, limits: &Limits) -> Option<(TensorInfo, Range<u64>)> {
        let start = self.i;
        let members = self.compact_members(position).or_else(|| {
            self.i = start;
            self.members()
        });
        let (dtype, shape, data_offsets) = members?;
        if self.dtype.0 != dtype {
            self.dtype = *TAGS.iter().find(|(tag, _)| *tag == dtype)?;
        }
        let is_limited = shape.rank() as u64 <= limits.rank;
        is_limited.then(|| (TensorInfo::new(self.dtype.1, shape), data_offsets))
    }

    /// Reads dtype, shape and data offsets in the most common order, without white space.
    fn compact_members(&mut self, position: usize) -> Option<(&'a str, Shape, Range<u64>)> {
        let start = self.i;
        self.skip(br#"{"dtype":""#)?;
        let dtype = self.string_here()?;
        self.skip(br#","shape":["#)?;
        let shape = self.numbers_here()?;
        self.skip(br#","data_offsets":["#)?;
        let description = &self.json[start..self.i];
        let offsets = self.offsets_here()?;
        self.last.add(description, position);
        Some((dtype, shape, offsets))
    }

    /// Reads dtype, shape and data offsets.
    fn members(&mut self) -> Option<(&'a str, Shape, Range<u64>)> {
        let (mut dtype, mut shape, mut data_offsets) = (None, None, None);
        self.object(&mut |scanner, key| {
            let is_first = match key {
                "dtype" => dtype.replace(scanner.string()?).is_none(),
                "shape" => shape.replace(scanner.numbers()?).is_none(),
                "data_offsets" => data_offsets.replace(scanner.numbers()?).is_none(),
                _ => false,
            };
            is_first.then_some(())
        })?;
        let &[start, end] = data_offsets?.dims() else { return None };
        Some((dtype?, shape?, start as u64..end as u64))
    }

    /// Reads a list of numbers.
    fn numbers(&mut self) -> Option<Shape> {
        let mut numbers = Shape::default();
        self.take(b'[')?;
        if self.take(b']').is_some() {
            return Some(numbers);
        }
        loop {
            self.skip_space();
            numbers.push(self.number_here()?);
            if self.take(b',').is_none() {
                return self.take(b']').map(|()| numbers);
            }
        }
    }

    /// Reads the rest of a list of numbers without white space.
    fn numbers_here(&mut self) -> Option<Shape> {
        let mut numbers = Shape::default();
        if self.skip(b"]").is_some() {
            return Some(numbers);
        }
        loop {
            numbers.push(self.number_here()?);
            if self.skip(b",").is_none() {
                return self.skip(b"]").map(|()| numbers);
            }
        }
    }

    #[inline]
    fn number_here(&mut self) -> Option<usize> {
        /// Any number of this many digits fits into 64 bits.
        const MOST: usize = 19;
        let rest = self.rest();
        let (mut number, mut len) = rest.first_chunk().map_or((0, 0), first_digits);
        while let Some(digit @ b'0'..=b'9') = rest.get(len)
            && len < MOST
        {
            number = number * 10 + u64::from(digit - b'0');
            len += 1;
        }
        // JSON has no numbers with leading zeros.
        let is_right = len == 1 || len > 1 && rest[0] != b'0';
        self.i += len;
        usize::try_from(number).ok().filter(|_| is_right)
    }

    /// Reads a string without escapes.
    fn string(&mut self) -> Option<&'a str> {
        self.take(b'"')?;
        self.string_here()
    }

    /// Reads the rest of a string without escapes.
    fn string_here(&mut self) -> Option<&'a str> {
        let start = self.i;
        let end = start + find_special(self.rest())?;
        self.i = end;
        self.skip(b"\"").map(|()| &self.json[start..end])
    }

    /// Skips white space and then `byte`, if it comes next.
    #[inline]
    fn take(&mut self, byte: u8) -> Option<()> {
        // Most often there is no white space.
        self.skip(&[byte]).or_else(|| {
            self.skip_space();
            self.skip(&[byte])
        })
    }

    /// Skips these bytes, if they come next.
    #[inline]
    fn skip<const N: usize>(&mut self, bytes: &[u8; N]) -> Option<()> {
        let is_here = self.rest().first_chunk() == Some(bytes);
        self.i += if is_here { N } else { 0 };
        is_here.then_some(())
    }

    #[inline]
    fn rest(&self) -> &'a [u8] {
        self.json.as_bytes().get(self.i..).unwrap_or_default()
    }

    #[inline]
    fn skip_space(&mut self) {
        while let Some(b' ' | b'\n' | b'\r' | b'\t') = self.json.as_bytes().get(self.i) {
            self.i += 1;
        }
    }
}

const ONES: u64 = u64::MAX / 0xff;
const HIGH: u64 = 0x80 * ONES;

/// Returns the number written in the first bytes, and its number of digits.
#[inline]
fn first_digits(bytes: &[u8; 8]) -> (u64, usize) {
    let digits = u64::from_le_bytes(*bytes) ^ (u64::from(b'0') * ONES);
    // The lowest bit is the high bit of the first byte above 9. A carry may change the bits after it.
    let others = (digits.wrapping_add(0x76 * ONES) | digits) & HIGH;
    let len = others.trailing_zeros() / 8;
    if len == 0 {
        return (0, 0);
    }
    // Zeros go in front: the first digit is in the lowest byte.
    let digits = digits << (u64::BITS - 8 * len);
    let pairs = (digits * 10 + (digits >> 8)) & (0xff * (u64::MAX / 0xffff));
    let fours = (pairs * 100 + (pairs >> 16)) & (0xffff * (u64::MAX / 0xffff_ffff));
    ((fours * 10_000 + (fours >> 32)) & 0xffff_ffff, len as usize)
}

/// Returns the position of the first quote, backslash or control character. In a string, all other bytes stand for
/// themselves.
fn find_special(bytes: &[u8]) -> Option<usize> {
    // The lowest bit is the high bit of the first byte below `limit`. A borrow may change the bits after it.
    let below = |word: u64, limit: u64| word.wrapping_sub(limit * ONES) & !word & HIGH;
    let (words, rest) = bytes.as_chunks();
    for (i, word) in words.iter().enumerate() {
        let word = u64::from_le_bytes(*word);
        let is = |byte: u8| below(word ^ (u64::from(byte) * ONES), 1);
        let special = is(b'"') | is(b'\\') | below(word, b' '.into());
        if special != 0 {
            return Some(i * 8 + special.trailing_zeros() as usize / 8);
        }
    }
    let special = rest.iter().position(|byte| matches!(byte, b'"' | b'\\' | 0..b' '))?;
    Some(bytes.len() - rest.len() + special)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_members_in_any_order_and_spacing() {
        let read = |json: &str| {
            let mut index = Index::default();
            let (_, places) = scan(json, &Limits::default(), &mut index)?;
            Some((index.entry(0).info().clone(), index.entry(0).range(), places[0]))
        };
        let expected = (TensorInfo::new(Dtype::Bf16, [3, 40]), 8..248, LENGTH + 5);
        for json in [
            r#"{"a":{"dtype":"BF16","shape":[3,40],"data_offsets":[8,248]}}"#,
            r#"{"a":{"dtype":"BF16","data_offsets":[8,248],"shape":[3,40]}}"#,
            r#"{"a":{"dtype":"BF16","shape":[3, 40], "data_offsets":[ 8,248 ]} }"#,
            r#"{"a":{ "shape" : [ 3 , 40 ] , "data_offsets" : [8,248] , "dtype":"BF16" }}"#,
        ] {
            assert_eq!(read(json), Some(expected.clone()), "{json}");
        }
        let scalar = r#"{"a":{"dtype":"U8","shape":[],"data_offsets":[0,1]}}"#;
        assert_eq!(read(scalar), Some((TensorInfo::new(Dtype::U8, []), 0..1, LENGTH + 5)));
        for json in [
            r#"{"a":{"dtype":"BF16","shape":[3,40],"data_offsets":[8,248]}"#,
            r#"{"a":{"dtype":"BF16","shape":[3,40],"data_offsets":[8,248],}}"#,
            r#"{"a":{"dtype":"BF16","shape":[3,40],"data_offsets":[8,248],"shape":[3,40]}}"#,
            r#"{"a":{"dtype":"BF16","shape":[3,40,],"data_offsets":[8,248]}}"#,
            r#"{"a":{"dtype":"BF16","shape":[03,40],"data_offsets":[8,248]}}"#,
            r#"{"a":{"dtype":"BF16","shape":[3,40],"data_offsets":[8]}}"#,
            r#"{"a":{"dtype":"BF16","shape":[3,40]}}"#,
            r#"{"a":{"dtype":"BF16","shape":[3,-40],"data_offsets":[8,248]}}"#,
            r#"{"a":{"dtype":"BF16","shape":[3,99999999999999999999],"data_offsets":[8,248]}}"#,
            r#"{"a":{"dtype":"bf16","shape":[3,40],"data_offsets":[8,248]}}"#,
        ] {
            assert_eq!(read(json), None, "{json}");
        }
    }

    #[test]
    fn numbers_have_up_to_nineteen_digits() {
        for len in 0..=19 {
            let digits = &"9876543210123456789"[..len];
            for after in ["", ",", "/", ":", "x", "\u{80}", "]}12345678"] {
                let json = format!("{digits}{after}");
                let mut scanner = Scanner::new(&json);
                assert_eq!((scanner.number_here(), scanner.i), (digits.parse().ok(), len), "{json}");
            }
        }
        let wrong = ["00", "01", "0123456789", "00000000000000000"];
        assert_eq!(wrong.map(|json| Scanner::new(json).number_here()), [None; 4]);
        assert_eq!(Scanner::new("0").number_here(), Some(0));
    }

    #[test]
    fn finds_the_first_special_byte() {
        for (special, before) in
            (0..=u8::MAX).flat_map(|special| [b'a', b' ', b'!', 0x7f, 0x80, 0xff].map(|before| (special, before)))
        {
            for (i, len) in (0..20).flat_map(|i| (i + 1..24).map(move |len| (i, len))) {
                // All bytes after the first special one are special too.
                let mut bytes = vec![before; len];
                bytes[i..].fill(special);
                let is_special = matches!(special, b'"' | b'\\' | 0..b' ');
                assert_eq!(find_special(&bytes), is_special.then_some(i), "{special} in {bytes:?}");
            }
        }
    }
}
