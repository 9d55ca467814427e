use super::number::{Number, Numeric};

/// Returns the nearest element, ties to even, and `true` if the number is out of range.
///
/// Out of range, the nearest float is infinity, or NaN if there is none, and the nearest integer the largest or
/// smallest. The integer for NaN is 0.
pub(super) fn nearest<A: Numeric>(number: Number) -> (A, bool) {
    let number = match number {
        Number::Float(float) if A::DTYPE.is_integer() && float.is_nan() => Number::Integer(0),
        Number::Float(float) if A::DTYPE.is_integer() => Number::Float(float.round_ties_even()),
        number => number,
    };
    match A::from_number(number) {
        Some(element) => (element, false),
        None => (out_of_range(number.is_negative()), true),
    }
}

fn out_of_range<A: Numeric>(negative: bool) -> A {
    let infinity = if negative { f64::NEG_INFINITY } else { f64::INFINITY };
    let float = [infinity, f64::NAN].into_iter().find_map(|float| A::from_number(Number::Float(float)));
    float.unwrap_or_else(|| {
        let is_signed = A::from_number(Number::Integer(-1)).is_some();
        let largest = (1_i128 << (8 * size_of::<A>() - usize::from(is_signed))) - 1;
        let smallest = if is_signed { -largest - 1 } else { 0 };
        let limit = Number::Integer(if negative { smallest } else { largest });
        A::from_number(limit).expect("an integer type has its own limits")
    })
}

#[cfg(test)]
mod tests {
    use half::f16;

    use super::*;
    use crate::tensor::{F8E4M3Fn, F8E4M3Fnuz, F8E5M2};

    #[test]
    fn numbers_out_of_range_become_the_limit() {
        let infinity = Number::Float(f64::INFINITY);
        assert_eq!(nearest::<i8>(Number::Integer(128)), (127, true));
        assert_eq!(nearest::<i64>(Number::Float(-1e19)), (i64::MIN, true));
        assert_eq!(nearest::<u64>(infinity), (u64::MAX, true));
        assert_eq!(nearest::<u16>(Number::Integer(-1)), (0, true));
        assert_eq!(nearest::<f16>(Number::Integer(-65520)), (f16::NEG_INFINITY, true));
        assert_eq!(nearest::<f16>(infinity), (f16::INFINITY, false));
        assert_eq!(nearest::<F8E5M2>(Number::Float(-1e9)), (F8E5M2(0xfc), true));
        assert_eq!(nearest::<F8E4M3Fn>(infinity), (F8E4M3Fn(0x7f), true));
        assert_eq!(nearest::<F8E4M3Fnuz>(Number::Integer(-1000)), (F8E4M3Fnuz(0x80), true));
    }

    #[test]
    fn fractions_round_to_the_nearest_integer() {
        for (number, integer) in [(0.5, 0), (1.5, 2), (-2.5, -2), (127.49, 127), (f64::NAN, 0)] {
            assert_eq!(nearest::<i8>(Number::Float(number)), (integer, false), "{number}");
        }
        assert_eq!(nearest::<i8>(Number::Float(127.5)), (127, true));
        assert_eq!(nearest::<u8>(Number::Float(-0.5)), (0, false));
    }
}
