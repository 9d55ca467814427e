use super::header::{JsonValue, LENGTH, METADATA, TAGS};
use crate::limits::Limits;
use crate::record::{Packed, Waiting};
use crate::tensor::{Shape, TensorInfo};

/// The members of a header.
#[derive(Debug)]
pub(super) struct JsonHeader<'a> {
    pub(super) metadata: Option<JsonValue<'a>>,
    /// In the order of the header. Their spans count from the end of the header.
    pub(super) tensors: Packed,
}

/// Reads a header in the form in which nearly all are written: strings without escapes, and no other keys than the
/// three of a tensor. Returns `None` for any other, right or wrong, and if a limit is passed.
///
/// This takes a third of the time that parsing with `serde_json` takes, which reads the rest and words the errors.
pub(super) fn scan<'a>(json: &'a str, limits: &Limits) -> Option<JsonHeader<'a>> {
    let mut scanner = Scanner { json, at: 0 };
    let mut header = JsonHeader { metadata: None, tensors: Packed::default() };
    scanner.object(&mut |scanner, name| {
        if name != METADATA {
            let tensor = scanner.tensor(name, limits)?;
            header.tensors.push(&tensor);
            return (header.tensors.len() as u64 <= limits.tensors).then_some(());
        }
        let start = scanner.at;
        scanner.object(&mut |scanner, _| scanner.string().map(drop))?;
        let value = JsonValue::part(json, start..scanner.at);
        header.metadata.replace(value).is_none().then_some(())
    })?;
    scanner.skip_space();
    let is_right = scanner.at == json.len() && header.tensors.find_duplicate().is_none();
    is_right.then_some(header)
}

/// A position in the JSON of a header.
struct Scanner<'a> {
    json: &'a str,
    at: usize,
}

impl<'a> Scanner<'a> {
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

    fn tensor<'n>(&mut self, name: &'n str, limits: &Limits) -> Option<Waiting<'n>> {
        let place = LENGTH + self.at as u64;
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
        let (dtype, shape) = (dtype?, shape?);
        let (_, dtype) = TAGS.iter().find(|(tag, _)| *tag == dtype)?;
        let &[start, end] = data_offsets?.dims() else { return None };
        let is_limited = shape.rank() as u64 <= limits.rank;
        let span = (start as u64, end as u64);
        is_limited.then(|| Waiting { place, span, ..Waiting::new(name, TensorInfo::new(*dtype, shape), &(0..0)) })
    }

    /// Reads a list of numbers.
    fn numbers(&mut self) -> Option<Shape> {
        let mut numbers = Shape::default();
        self.take(b'[')?;
        if self.take(b']').is_some() {
            return Some(numbers);
        }
        loop {
            numbers.push(self.number()?);
            if self.take(b',').is_none() {
                return self.take(b']').map(|()| numbers);
            }
        }
    }

    fn number(&mut self) -> Option<usize> {
        /// The most digits whose numbers all have 64 bits.
        const MOST: usize = 19;
        self.skip_space();
        let rest = &self.json.as_bytes()[self.at..];
        let (mut number, mut len) = (0_u64, 0);
        while let Some(digit @ b'0'..=b'9') = rest.get(len)
            && len < MOST
        {
            number = number * 10 + u64::from(digit - b'0');
            len += 1;
        }
        // JSON has no numbers with leading zeros.
        let is_right = len == 1 || len > 1 && rest[0] != b'0';
        self.at += len;
        usize::try_from(number).ok().filter(|_| is_right)
    }

    /// Reads a string without escapes.
    fn string(&mut self) -> Option<&'a str> {
        self.take(b'"')?;
        let rest = &self.json[self.at..];
        let len = find_special(rest.as_bytes())?;
        self.at += len;
        self.take_here(b'"').map(|()| &rest[..len])
    }

    /// Skips white space and then a byte, if it is this one.
    fn take(&mut self, byte: u8) -> Option<()> {
        self.skip_space();
        self.take_here(byte)
    }

    fn take_here(&mut self, byte: u8) -> Option<()> {
        let is_here = self.json.as_bytes().get(self.at) == Some(&byte);
        self.at += usize::from(is_here);
        is_here.then_some(())
    }

    #[inline]
    fn skip_space(&mut self) {
        while let Some(b' ' | b'\n' | b'\r' | b'\t') = self.json.as_bytes().get(self.at) {
            self.at += 1;
        }
    }
}

/// Returns the position of the first byte that ends a string or is not itself in one: a quote, a backslash or a control
/// character.
fn find_special(bytes: &[u8]) -> Option<usize> {
    const ONES: u64 = u64::MAX / 0xff;
    const HIGH: u64 = 0x80 * ONES;
    // The high bit of each byte that is below `limit`, up to and with the first one.
    let below = |word: u64, limit: u64| word.wrapping_sub(limit * ONES) & !word & HIGH;
    let (words, rest) = bytes.as_chunks();
    for (at, word) in words.iter().enumerate() {
        let word = u64::from_le_bytes(*word);
        let is = |byte: u8| below(word ^ (u64::from(byte) * ONES), 1);
        let special = is(b'"') | is(b'\\') | below(word, b' '.into());
        if special != 0 {
            return Some(at * 8 + special.trailing_zeros() as usize / 8);
        }
    }
    let special = rest.iter().position(|byte| matches!(byte, b'"' | b'\\' | 0..b' '))?;
    Some(bytes.len() - rest.len() + special)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_first_special_byte() {
        for (special, before) in
            (0..=u8::MAX).flat_map(|special| [b'a', b' ', b'!', 0x7f, 0x80, 0xff].map(|before| (special, before)))
        {
            for (at, len) in (0..20).flat_map(|at| (at + 1..24).map(move |len| (at, len))) {
                // All bytes after the first special one are special too.
                let mut bytes = vec![before; len];
                bytes[at..].fill(special);
                let is_special = matches!(special, b'"' | b'\\' | 0..b' ');
                assert_eq!(find_special(&bytes), is_special.then_some(at), "{special} in {bytes:?}");
            }
        }
    }
}
