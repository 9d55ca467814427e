//! Values as Python prints them.

use std::fmt::Write as _;

/// Returns a float.
pub(super) fn float(value: f64) -> String {
    from_digits(&format!("{value:e}"), true)
}

/// Returns a float of 32 bits, as numpy prints it.
pub(super) fn float32(value: f32) -> String {
    from_digits(&format!("{value:e}"), true)
}

/// Returns a complex number.
pub(super) fn complex(re: f64, im: f64) -> String {
    complex_of(
        re == 0.0 && re.is_sign_positive(),
        im.is_sign_negative() && !im.is_nan(),
        [&format!("{re:e}"), &format!("{im:e}")],
    )
}

/// Returns a complex number of 32-bit floats.
pub(super) fn complex32(re: f32, im: f32) -> String {
    complex_of(
        re == 0.0 && re.is_sign_positive(),
        im.is_sign_negative() && !im.is_nan(),
        [&format!("{re:e}"), &format!("{im:e}")],
    )
}

fn complex_of(is_imaginary: bool, is_negative: bool, [re, im]: [&str; 2]) -> String {
    let [re, im] = [from_digits(re, false), from_digits(im, false)];
    match (is_imaginary, is_negative) {
        (true, _) => format!("{im}j"),
        (false, true) => format!("({re}{im}j)"),
        (false, false) => format!("({re}+{im}j)"),
    }
}

/// Returns a float of the shortest digits that give it, as `{:e}` prints them. `has_point` is whether whole numbers
/// have a decimal point.
fn from_digits(text: &str, has_point: bool) -> String {
    let (sign, digits) = text.strip_prefix('-').map_or(("", text), |digits| ("-", digits));
    let Some((digits, exponent)) = digits.split_once('e') else {
        return if digits == "NaN" { "nan".to_owned() } else { format!("{sign}inf") };
    };
    let exponent: i32 = exponent.parse().expect("it was printed");
    let digits = digits.replace('.', "");
    if !(-4..16).contains(&exponent) {
        let (first, rest) = digits.split_at(1);
        let point = if rest.is_empty() { "" } else { "." };
        let exponent_sign = if exponent < 0 { '-' } else { '+' };
        return format!("{sign}{first}{point}{rest}e{exponent_sign}{:02}", exponent.unsigned_abs());
    }
    let Ok(whole) = usize::try_from(exponent + 1) else {
        return format!("{sign}0.{}{digits}", "0".repeat(exponent.unsigned_abs() as usize - 1));
    };
    if whole == 0 {
        return format!("{sign}0.{digits}");
    }
    match digits.split_at_checked(whole) {
        Some((whole, fraction)) if !fraction.is_empty() => format!("{sign}{whole}.{fraction}"),
        _ => format!("{sign}{digits}{}{}", "0".repeat(whole - digits.len()), if has_point { ".0" } else { "" }),
    }
}

/// Appends a string in quotes.
pub(super) fn write_string(value: &str, text: &mut String) {
    let quote = quote(value.contains('\''), value.contains('"'));
    text.push(quote);
    write_characters(value, quote, text);
    text.push(quote);
}

/// Appends a part of a string that is in quotes.
pub(super) fn write_characters(value: &str, quote: char, text: &mut String) {
    for c in value.chars() {
        match c {
            '\n' => text.push_str("\\n"),
            '\r' => text.push_str("\\r"),
            '\t' => text.push_str("\\t"),
            '\\' => text.push_str("\\\\"),
            _ if c == quote => text.extend(['\\', c]),
            _ if is_printable(c) => text.push(c),
            '\0'..='\u{ff}' => _ = write!(text, "\\x{:02x}", u32::from(c)),
            '\u{100}'..='\u{ffff}' => _ = write!(text, "\\u{:04x}", u32::from(c)),
            _ => _ = write!(text, "\\U{:08x}", u32::from(c)),
        }
    }
}

/// Appends bytes as a literal. That of a `bytearray` has an escape for a single quote, whatever quotes are around it.
pub(super) fn write_bytes(bytes: &[u8], is_bytearray: bool, text: &mut String) {
    let quote = quote(bytes.contains(&b'\''), bytes.contains(&b'"'));
    text.extend(['b', quote]);
    for &byte in bytes {
        match byte {
            b'\n' => text.push_str("\\n"),
            b'\r' => text.push_str("\\r"),
            b'\t' => text.push_str("\\t"),
            b'\\' => text.push_str("\\\\"),
            b'\'' if is_bytearray => text.push_str("\\'"),
            _ if char::from(byte) == quote && !is_bytearray => text.extend(['\\', quote]),
            b' '..=b'~' => text.push(char::from(byte)),
            _ => _ = write!(text, "\\x{byte:02x}"),
        }
    }
    text.push(quote);
}

/// Returns the quotes of a string or of bytes.
pub(super) fn quote(has_single: bool, has_double: bool) -> char {
    if has_single && !has_double { '"' } else { '\'' }
}

/// Returns whether Python prints a character as it is.
fn is_printable(c: char) -> bool {
    if c.is_ascii() {
        return (' '..='~').contains(&c);
    }
    // The table of the standard library has the same categories. It escapes combining characters at the start of a text
    // too, which Python does not.
    let after_another = ['a', c].iter().collect::<String>();
    after_another.escape_debug().nth(1) == Some(c)
}

/// Returns an integer of any length, of its little-endian bytes: in decimal, or in hexadecimal if it has more digits
/// than Python prints.
pub(super) fn long(bytes: &[u8]) -> String {
    /// 10⁴³⁰⁰ has so many bytes.
    const MOST: usize = 1785;
    const DIGITS: usize = 9;
    const BASE: u64 = 1_000_000_000;

    let is_negative = bytes.last().is_some_and(|last| last & 0x80 != 0);
    let mut bytes = bytes.to_vec();
    if is_negative {
        // The two's complement.
        let mut carry = true;
        for byte in &mut bytes {
            (*byte, carry) = (!*byte).overflowing_add(u8::from(carry));
        }
    }
    while bytes.last() == Some(&0) {
        bytes.pop();
    }
    let mut text = String::from(if is_negative { "-" } else { "" });
    if bytes.len() > MOST {
        const SHOWN: usize = 40 << 10;
        text.push_str("0x");
        bytes.iter().rev().take(SHOWN).for_each(|byte| _ = write!(text, "{byte:02x}"));
        return text;
    }
    let mut limbs: Vec<u32> =
        bytes.chunks(4).map(|limb| limb.iter().rev().fold(0, |limb, byte| limb << 8 | u32::from(*byte))).collect();
    // Groups of digits, the last one first.
    let mut groups = Vec::new();
    while !limbs.is_empty() {
        let mut rest = 0;
        for limb in limbs.iter_mut().rev() {
            let dividend = rest << 32 | u64::from(*limb);
            let quotient = u32::try_from(dividend / BASE).expect("the rest is less than the base");
            (*limb, rest) = (quotient, dividend % BASE);
        }
        while limbs.last() == Some(&0) {
            limbs.pop();
        }
        groups.push(rest);
    }
    match groups.pop() {
        None => text.push('0'),
        Some(first) => _ = write!(text, "{first}"),
    }
    groups.iter().rev().for_each(|group| _ = write!(text, "{group:0DIGITS$}"));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    // What `repr` of Python prints is compared with more values in `tests/it/formats/pytorch.rs`.
    #[test]
    fn prints_as_python_does() {
        for (value, expected) in [
            (0.1, "0.1"),
            (1e-8, "1e-08"),
            (1.5e-5, "1.5e-05"),
            (1e-4, "0.0001"),
            (1e15, "1000000000000000.0"),
            (1e16, "1e+16"),
            (123_456_789.25, "123456789.25"),
            (-0.0, "-0.0"),
            (5e-324, "5e-324"),
            (f64::MAX, "1.7976931348623157e+308"),
            (f64::NEG_INFINITY, "-inf"),
            (f64::NAN, "nan"),
            (-f64::NAN, "nan"),
        ] {
            assert_eq!(float(value), expected);
        }
        assert_eq!(float32(0.1), "0.1");
        assert_eq!(complex(1.0, -2.5), "(1-2.5j)");
        assert_eq!(complex(-0.0, 1e16), "(-0+1e+16j)");
        assert_eq!(complex(0.0, -0.0), "-0j");
        assert_eq!(complex(f64::NAN, f64::INFINITY), "(nan+infj)");
        let mut text = String::new();
        write_string("it's \"x\"\n\u{e4}\u{301}\u{200b}\u{85}\u{e000}\u{e0001}", &mut text);
        assert_eq!(text, "'it\\'s \"x\"\\n\u{e4}\u{301}\\u200b\\x85\\ue000\\U000e0001'");
        text.clear();
        write_bytes(b"it's\0\xff", false, &mut text);
        assert_eq!(text, "b\"it's\\x00\\xff\"");
        text.clear();
        write_bytes(b"it's", true, &mut text);
        assert_eq!(text, "b\"it\\'s\"");
    }

    #[test]
    fn prints_integers_of_any_length() {
        for value in [0, 1, -1, i128::MAX, i128::MIN, 999_999_999, 1_000_000_000, -1_000_000_000_000_000_000_000] {
            assert_eq!(long(&value.to_le_bytes()), value.to_string());
        }
        assert_eq!(long(&[]), "0");
        assert_eq!(long(&[0, 0, 0, 0, 0, 0, 0, 0, 1]), "18446744073709551616");
        assert!(long(&[1; 3000]).starts_with("0x0101"));
    }
}
