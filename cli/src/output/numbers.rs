//! Numbers, sizes and counts as text.

use std::fmt::Display;

use indicatif::{HumanBytes, HumanCount};
use tensorfile::cast::Number;

/// The significant digits of numbers in tables.
pub const DIGITS: usize = 6;
/// The text of a missing number.
pub const NONE: &str = "-";

/// Formats a number with up to `digits` significant digits as C's `%g` does: with an exponent if that is shorter.
pub fn general(value: f64, digits: usize) -> String {
    let decimals = digits.saturating_sub(1);
    let text = format!("{value:.decimals$e}");
    let Some((mantissa, exponent)) = text.split_once('e') else { return text };
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let whole = i32::try_from(digits).unwrap_or(i32::MAX);
    if (-4..whole).contains(&exponent) {
        let decimals = usize::try_from(whole - 1 - exponent).unwrap_or(0);
        return without_zeros(&format!("{value:.decimals$}")).to_owned();
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{}e{sign}{:02}", without_zeros(mantissa), exponent.unsigned_abs())
}

fn without_zeros(text: &str) -> &str {
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { text }
}

/// Returns the significant digits that distinguish a thousand steps from `min` to `max`.
pub fn digits_between(min: f64, max: f64) -> usize {
    let (length, largest) = (max - min, min.abs().max(max.abs()));
    let (mut digits, mut distinguished) = (DIGITS, length * 1000.0);
    while length > 0.0 && distinguished < largest && digits < 17 {
        digits += 1;
        distinguished *= 10.0;
    }
    digits
}

/// Formats a float for a table.
pub fn float(value: Option<f64>) -> String {
    value.map_or_else(|| NONE.to_owned(), |value| general(value, DIGITS))
}

/// Formats a number for a table; integers have all their digits.
pub fn number(value: Option<Number>) -> String {
    match value {
        Some(Number::Integer(integer)) => integer.to_string(),
        Some(Number::Float(value)) => float(Some(value)),
        None => NONE.to_owned(),
    }
}

/// Returns the nearest `f64`.
#[expect(clippy::cast_precision_loss, reason = "used to compare and to draw")]
pub fn to_f64(number: Number) -> f64 {
    match number {
        Number::Integer(integer) => integer as f64,
        Number::Float(float) => float,
    }
}

/// The argument that chooses between human-readable and exact sizes.
#[derive(Debug, Clone, Copy, clap::Args)]
pub struct Sizes {
    /// Print sizes as numbers of bytes, not as KiB, MiB, …
    #[arg(long)]
    bytes: bool,
}

impl Sizes {
    /// Formats a size for a column: an exact one has no unit.
    pub fn cell(self, bytes: u64) -> String {
        if self.bytes { bytes.to_string() } else { HumanBytes(bytes).to_string() }
    }

    /// Formats a size with its unit.
    pub fn phrase(self, bytes: u64) -> String {
        if self.bytes { counted(bytes, "byte") } else { HumanBytes(bytes).to_string() }
    }
}

/// Formats a number of items: `1 tensor`, `2,000 tensors`.
pub fn counted(count: impl TryInto<u64>, noun: &str) -> String {
    let count = count.try_into().unwrap_or(u64::MAX);
    format!("{} {noun}{}", HumanCount(count), if count == 1 { "" } else { "s" })
}

/// Formats a number with a comma after every three digits.
pub fn count(count: u64) -> impl Display {
    HumanCount(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Expects what C prints for `%.6g`.
    #[test]
    fn general_is_the_g_of_c() {
        for (value, text) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (1.0, "1"),
            (-2.5, "-2.5"),
            (0.1 + 0.2, "0.3"),
            (123_456.4, "123456"),
            (999_999.5, "1e+06"),
            (1_234_567.0, "1.23457e+06"),
            (0.000_123_456_7, "0.000123457"),
            (0.000_012_345_67, "1.23457e-05"),
            (f64::MAX, "1.79769e+308"),
            (5e-324, "4.94066e-324"),
        ] {
            assert_eq!(general(value, DIGITS), text);
        }
        assert_eq!(general(0.26, 1), "0.3");
    }

    #[test]
    fn close_numbers_have_more_digits() {
        assert_eq!(digits_between(0.0, 1e-300), DIGITS);
        assert_eq!(digits_between(1e6, 1e6), DIGITS);
        assert_eq!(digits_between(f64::MIN, f64::MAX), DIGITS);
        assert_eq!(digits_between(1e6, 1e6 + 10.0), 9);
        assert_eq!(digits_between(1e16, 1e16 + 2.0), 17);
    }

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
