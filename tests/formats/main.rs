//! Bytes and messages, format by format.
//!
//! Files are written out by hand, from the specifications: our writer is no evidence for our reader, nor the other way
//! around.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on may panic")]
#![allow(clippy::cast_possible_truncation, reason = "the numbers of tests are small")]

mod btf;
mod changed;
mod errors;
#[cfg(feature = "derive")]
mod hostile;
#[cfg(feature = "npy")]
mod npy;
#[cfg(feature = "npz")]
mod npz;
#[cfg(feature = "ptd")]
mod ptd;
#[cfg(feature = "safetensors")]
mod safetensors;
mod ten;
#[cfg(all(feature = "tensorbuffers", feature = "derive"))]
mod tensorbuffers;
mod tfrt;

use std::io::Read;

/// The bytes of a dump in hexadecimal, in which all behind a `|` is a comment.
fn hex(dump: &str) -> Vec<u8> {
    let digits: String = dump.lines().filter_map(|line| line.split('|').next()).collect();
    let digits: Vec<char> = digits.chars().filter(|digit| !digit.is_whitespace()).collect();
    let pairs = digits.chunks(2).map(|pair| pair.iter().collect::<String>());
    pairs.map(|pair| u8::from_str_radix(&pair, 16).unwrap()).collect()
}

/// Little-endian numbers of 64 bits.
fn u64s(numbers: &[u64]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
}

/// The whole message of an error.
#[track_caller]
fn message<T>(result: tensorfile::Result<T>) -> String {
    match result {
        Ok(_) => panic!("no error"),
        Err(error) => error.to_string(),
    }
}

/// Compares messages, case by case, and shows all that differ.
#[derive(Default)]
struct Messages(Vec<String>);

impl Messages {
    fn compare<T>(&mut self, what: impl std::fmt::Display, found: tensorfile::Result<T>, expected: &str) {
        let found = found.err().map_or_else(|| "no error".to_owned(), |error| error.to_string());
        if found != expected {
            self.0.push(format!("{what}\n   found: {found}\nexpected: {expected}\n"));
        }
    }

    #[track_caller]
    fn end(self) {
        assert!(self.0.is_empty(), "\n{}", self.0.join("\n"));
    }
}

/// A reader that yields a few bytes at a time: one, two, three, one, ….
struct Dribble<'a>(&'a [u8], usize);

impl Read for Dribble<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        self.1 = self.1 % 3 + 1;
        let now = self.1.min(buffer.len());
        self.0.read(&mut buffer[..now])
    }
}
