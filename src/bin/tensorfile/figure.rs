//! Figures of statistics, as people read them.

use tensorfile::Number;

/// The significant digits of figures in tables.
pub const DIGITS: usize = 6;
/// What stands for a figure that there is none of.
pub const NONE: &str = "-";

/// The number with up to so many significant digits, as `%g` of C has it: with an exponent where that is shorter.
pub fn general(value: f64, digits: usize) -> String {
    let behind = digits.saturating_sub(1);
    let text = format!("{value:.behind$e}");
    let Some((mantissa, exponent)) = text.split_once('e') else { return text };
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let whole = i32::try_from(digits).unwrap_or(i32::MAX);
    if (-4..whole).contains(&exponent) {
        let places = usize::try_from(whole - 1 - exponent).unwrap_or(0);
        return without_zeros(&format!("{value:.places$}")).to_owned();
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{}e{sign}{:02}", without_zeros(mantissa), exponent.unsigned_abs())
}

fn without_zeros(text: &str) -> &str {
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { text }
}

/// The significant digits that tell numbers from `min` to `max` apart.
pub fn digits_between(min: f64, max: f64) -> usize {
    let (length, largest) = (max - min, min.abs().max(max.abs()));
    let (mut digits, mut told) = (DIGITS, length * 1000.0);
    while length > 0.0 && told < largest && digits < 17 {
        digits += 1;
        told *= 10.0;
    }
    digits
}

/// A figure in a table.
pub fn float(value: Option<f64>) -> String {
    value.map_or_else(|| NONE.to_owned(), |value| general(value, DIGITS))
}

/// A figure in a table; integers are exact.
pub fn number(value: Option<Number>) -> String {
    match value {
        Some(Number::Integer(integer)) => integer.to_string(),
        Some(Number::Float(value)) => float(Some(value)),
        None => NONE.to_owned(),
    }
}

/// The nearest float.
#[expect(clippy::cast_precision_loss, reason = "to compare by, and to draw")]
pub fn approximate(number: Number) -> f64 {
    match number {
        Number::Integer(integer) => integer as f64,
        Number::Float(float) => float,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What C prints for `%.6g`.
    #[test]
    fn figures_are_as_c_has_them() {
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
    fn numbers_near_each_other_have_more_digits() {
        assert_eq!(digits_between(0.0, 1e-300), DIGITS);
        assert_eq!(digits_between(1e6, 1e6), DIGITS);
        assert_eq!(digits_between(f64::MIN, f64::MAX), DIGITS);
        assert_eq!(digits_between(1e6, 1e6 + 10.0), 9);
        assert_eq!(digits_between(1e16, 1e16 + 2.0), 17);
    }
}
