//! Sorting through one function that is not generic.
//!
//! The standard library's sorts are compiled for each type and each comparison, and are large. `benches/compile` shows the
//! code of programs that load and save.

use std::cmp::Ordering;

/// Returns the positions from 0 to `len` in the order of a comparison. Positions that are equal keep their order.
pub(crate) fn positions(len: usize, compare: &mut dyn FnMut(usize, usize) -> Ordering) -> Vec<usize> {
    let mut order: Vec<usize> = (0..len).collect();
    order.sort_by(|&one, &other| compare(one, other));
    order
}

/// Returns numbers with their positions, in the order of the numbers. Positions of equal numbers keep their order.
///
/// Many numbers are sorted by one byte after the other, which takes a fifth of the time of comparing them.
#[cfg(feature = "tensorbuffers")]
pub(crate) fn by_number(numbers: &[u64]) -> Vec<(u64, usize)> {
    const FEW: usize = 100;
    let mut order: Vec<(u64, usize)> = numbers.iter().copied().zip(0..).collect();
    if numbers.len() < FEW || numbers.is_sorted() {
        order.sort_unstable();
        return order;
    }
    let byte_of = |number: u64, byte: u32| usize::from(number.to_le_bytes()[byte as usize]);
    let different = numbers.iter().fold(0, |different, number| different | (number ^ numbers[0]));
    let mut sorted = order.clone();
    for byte in (0..u64::BITS / 8).filter(|byte| byte_of(different, *byte) > 0) {
        // The place of the next number with each value of the byte.
        let mut next = [0; 256];
        order.iter().for_each(|(number, _)| next[byte_of(*number, byte)] += 1);
        let mut start = 0;
        for place in &mut next {
            start += std::mem::replace(place, start);
        }
        for item in &order {
            let place = &mut next[byte_of(item.0, byte)];
            sorted[*place] = *item;
            *place += 1;
        }
        std::mem::swap(&mut order, &mut sorted);
    }
    order
}

/// Sorts values. Those that are equal keep their order.
pub(crate) fn values<T>(values: Vec<T>, compare: &mut dyn FnMut(&T, &T) -> Ordering) -> Vec<T> {
    let order = positions(values.len(), &mut |one, other| compare(&values[one], &values[other]));
    let mut values: Vec<Option<T>> = values.into_iter().map(Some).collect();
    order.into_iter().filter_map(|at| values[at].take()).collect()
}

#[cfg(all(test, feature = "tensorbuffers"))]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_sorted_as_by_comparing() {
        for (count, factor) in [(0, 1), (1, 1), (99, u64::MAX / 7), (1000, u64::MAX / 7), (1000, 3), (1000, 1 << 40)] {
            let numbers: Vec<u64> = (0..count).map(|at| (at * 7919 % 500_u64).wrapping_mul(factor)).collect();
            let order = positions(numbers.len(), &mut |one, other| numbers[one].cmp(&numbers[other]));
            let expected: Vec<_> = order.into_iter().map(|at| (numbers[at], at)).collect();
            assert_eq!(by_number(&numbers), expected, "{count} times {factor}");
        }
    }
}
