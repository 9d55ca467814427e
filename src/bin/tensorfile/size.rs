//! Numbers of bytes and of things, as people read them.

use std::fmt::Display;

use indicatif::{HumanBytes, HumanCount};

/// How sizes are written.
#[derive(Debug, Clone, Copy, clap::Args)]
pub struct Sizes {
    /// Print sizes as exact numbers of bytes, not as KiB, MiB, …
    #[arg(long)]
    bytes: bool,
}

impl Sizes {
    /// The number alone where it is exact: for a column.
    pub fn cell(self, bytes: u64) -> String {
        if self.bytes { bytes.to_string() } else { HumanBytes(bytes).to_string() }
    }

    /// The number with its unit: for a sentence.
    pub fn phrase(self, bytes: u64) -> String {
        if self.bytes { counted(bytes, "byte") } else { HumanBytes(bytes).to_string() }
    }
}

/// `1 tensor`, `2,000 tensors`.
pub fn counted(count: impl TryInto<u64>, noun: &str) -> String {
    let count = count.try_into().unwrap_or(u64::MAX);
    format!("{} {noun}{}", HumanCount(count), if count == 1 { "" } else { "s" })
}

/// The number with a comma after each three digits.
pub fn count(count: u64) -> impl Display {
    HumanCount(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_binary() {
        let (human, exact) = (Sizes { bytes: false }, Sizes { bytes: true });
        for (bytes, cell, phrase) in [
            (0, "0 B", "0 bytes"),
            (1, "1 B", "1 byte"),
            (1536, "1.50 KiB", "1,536 bytes"),
            (3 << 30, "3.00 GiB", "3,221,225,472 bytes"),
        ] {
            assert_eq!(human.cell(bytes), cell);
            assert_eq!(exact.cell(bytes), bytes.to_string());
            assert_eq!(exact.phrase(bytes), phrase);
        }
    }
}
