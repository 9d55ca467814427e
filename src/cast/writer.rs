use std::io::{self, Write};

use super::Caster;
use super::changes::Changes;
use crate::tensor::checked_io::{check_written, write_all};
use crate::threads::in_order;

/// The number of elements cast at once: up to 64 KiB of results.
const PIECE: usize = 8192;

/// The number of elements cast at once by a thread: up to 2 MiB of results. Files are written faster in larger pieces.
const PART: usize = 256 << 10;

/// A writer that casts the elements written to it; see [`Caster::writer`].
///
/// An element cut by the end of a write stays in the [`Caster`] until the rest arrives.
///
/// ```
/// use std::io::Write;
/// use tensorfile::cast::Caster;
/// use tensorfile::Dtype;
///
/// let mut caster = Caster::new(Dtype::F32, Dtype::F64)?;
/// let mut out = Vec::new();
/// caster.writer(&mut out).write_all(&1.5_f32.to_le_bytes())?;
/// assert_eq!(out, 1.5_f64.to_le_bytes());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct CastWriter<'a, W> {
    caster: &'a mut Caster,
    /// The number of bytes left to pass on unchanged.
    skip: usize,
    cast: Vec<u8>,
    /// The results of threads.
    parts: Vec<(Vec<u8>, Changes)>,
    out: W,
}

impl<'a, W: Write> CastWriter<'a, W> {
    pub(super) fn new(caster: &'a mut Caster, skip: usize, out: W) -> Self {
        Self { caster, skip, cast: Vec::new(), parts: Vec::new(), out }
    }
}

impl<W: Write> Write for CastWriter<'_, W> {
    /// Casts and writes up to one piece, or many whole elements at once. After an error, their results are written in
    /// part or not at all.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.skip > 0 {
            let passed = &bytes[..bytes.len().min(self.skip)];
            let written = check_written(self.out.write(passed)?, passed.len())?;
            self.skip -= written;
            return Ok(written);
        }
        let (element, is_between) = (self.caster.from.block_bytes(), self.caster.elements.is_between_elements());
        if is_between && bytes.len() > PART * element {
            let whole = &bytes[..bytes.len() - bytes.len() % element];
            return self.write_whole(whole).map(|()| whole.len());
        }
        let piece = &bytes[..bytes.len().min(PIECE * element)];
        self.cast.clear();
        self.caster.cast(piece, &mut self.cast);
        write_all(&mut self.out, &self.cast)?;
        Ok(piece.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

impl<W: Write> CastWriter<'_, W> {
    /// Casts many elements with several threads, and writes the results.
    fn write_whole(&mut self, elements: &[u8]) -> io::Result<()> {
        let Caster { from, kernel, report, .. } = &mut *self.caster;
        let parts: Vec<&[u8]> = elements.chunks(PART * from.block_bytes()).collect();
        let cast = |part: usize, (results, changes): &mut (Vec<u8>, Changes)| {
            results.clear();
            *changes = kernel.cast(parts[part], results);
        };
        let mut taken = parts.iter();
        in_order(&mut self.parts, parts.len(), elements.len(), &cast, &mut |(results, changes)| {
            write_all(&mut self.out, results)?;
            if let Some(part) = taken.next() {
                report.add(kernel, part, *changes);
            }
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::{Dtype, Element};

    /// Remembers the bytes, and the size of the largest write.
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
        check(&numbers, 64 << 10);
    }

    #[test]
    fn casts_large_writes_in_larger_pieces() {
        let numbers: Vec<u16> = (0..=u16::MAX).cycle().take(5 * PART + 3).collect();
        check(&numbers, PART * size_of::<u64>());
    }

    /// Casts numbers written in pieces of several sizes.
    fn check(numbers: &[u16], longest: usize) {
        let bytes = Element::as_le_bytes(numbers);
        let wide: Vec<u64> = numbers.iter().map(|&number| number.into()).collect();
        for written_at_once in [7, 1000, bytes.len() / 2 + 1, bytes.len()] {
            let mut caster = Caster::new(Dtype::U16, Dtype::U64).unwrap();
            let mut out = Pieces::default();
            let mut writer = caster.writer(&mut out);
            bytes.chunks(written_at_once).for_each(|bytes| writer.write_all(bytes).unwrap());
            assert!(out.0 == *Element::as_le_bytes(&wide[..]) && out.1 <= longest);
            assert_eq!(caster.report().elements, numbers.len() as u64);
            assert!(caster.report().is_exact());
        }
    }
}
