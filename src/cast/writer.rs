use std::io::{self, Write};

use super::Caster;

/// Elements that are cast at once: up to 64 KiB of results.
const PIECE: usize = 8192;

/// A writer that casts the elements written to it; see [`Caster::writer`].
///
/// The last bytes of an element that is cut by the end of a write stay in the [`Caster`], until the rest arrives.
#[derive(Debug)]
pub struct CastWriter<'a, W> {
    caster: &'a mut Caster,
    /// The number of bytes that are yet to be passed on as they are.
    skip: usize,
    cast: Vec<u8>,
    out: W,
}

impl<'a, W: Write> CastWriter<'a, W> {
    pub(super) fn new(caster: &'a mut Caster, skip: usize, out: W) -> Self {
        Self { caster, skip, cast: Vec::new(), out }
    }
}

impl<W: Write> Write for CastWriter<'_, W> {
    /// Casts and writes up to one piece. After an error, the results of that piece are written in part or not at all.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.skip > 0 {
            let written = self.out.write(&bytes[..bytes.len().min(self.skip)])?;
            self.skip -= written;
            return Ok(written);
        }
        let piece = &bytes[..bytes.len().min(PIECE * self.caster.from.block_bytes())];
        self.cast.clear();
        self.caster.cast(piece, &mut self.cast);
        self.out.write_all(&self.cast)?;
        Ok(piece.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::{Dtype, Element};

    /// Remembers the bytes, and the most that came at once.
    #[derive(Default)]
    struct Pieces(Vec<u8>, usize);

    impl Write for Pieces {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.extend_from_slice(bytes);
            self.1 = self.1.max(bytes.len());
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn casts_in_bounded_pieces() {
        let numbers: Vec<u16> = (0..60_000).collect();
        let bytes = Element::as_le_bytes(&numbers[..]);
        let wide: Vec<u64> = numbers.iter().map(|&number| number.into()).collect();
        for written_at_once in [7, 1000, bytes.len()] {
            let mut caster = Caster::new(Dtype::U16, Dtype::U64).unwrap();
            let mut out = Pieces::default();
            let mut writer = caster.writer(&mut out);
            bytes.chunks(written_at_once).for_each(|bytes| writer.write_all(bytes).unwrap());
            assert!(out.0 == *Element::as_le_bytes(&wide[..]) && out.1 <= 64 << 10);
            assert_eq!(caster.report().elements, 60_000);
        }
    }
}
