use std::io::{self, Write};

/// The longest piece in bytes: small enough for progress to be seen, and large enough for several threads.
const LONGEST: usize = 32 << 20;

/// A writer that passes each write to a closure.
pub struct Pieces<F>(pub F);

impl<F: FnMut(&[u8]) -> io::Result<()>> Write for Pieces<F> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let piece = &bytes[..bytes.len().min(LONGEST)];
        (self.0)(piece)?;
        Ok(piece.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
