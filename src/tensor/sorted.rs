//! Sorting through one non-generic function.
//!
//! The standard library's sorts are compiled for each type and each comparison, and are large. `benches/compile` shows
//! the code of programs that load and save.

use std::cmp::Ordering;

use smallvec::SmallVec;

/// Returns the positions from 0 to `len` in the order of a comparison. Equal positions keep their order.
pub(crate) fn positions(len: usize, compare: &mut dyn FnMut(usize, usize) -> Ordering) -> Vec<usize> {
    let mut order: Vec<usize> = (0..len).collect();
    order.sort_by(|&one, &other| compare(one, other));
    order
}

/// Returns numbers with their positions, in the order of the numbers. Positions of equal numbers keep their order.
pub(crate) fn by_number(numbers: &[u64]) -> SmallVec<[(u64, usize); 1]> {
    const FEW: usize = 100;
    if numbers.len() < FEW || u32::try_from(numbers.len()).is_err() || numbers.is_sorted() {
        let mut order: SmallVec<[(u64, usize); 1]> = numbers.iter().copied().zip(0..).collect();
        order.sort_unstable();
        return order;
    }
    // Hashes and offsets are spread evenly. With about as many buckets as numbers, by the upper differing bits, few are
    // left to compare.
    let different = numbers.iter().fold(0, |different, number| different | (number ^ numbers[0]));
    let same_bits = different.leading_zeros();
    let unused = (u64::BITS - same_bits).saturating_sub(numbers.len().ilog2() + 1);
    let bucket_of = |number: u64| {
        let bucket = (number << same_bits) >> same_bits >> unused;
        usize::try_from(bucket).expect("there are hardly more buckets than numbers")
    };
    // The place of the next number of each bucket. Half of the processor's cache stays free.
    let mut next = vec![0_u32; bucket_of(!0) + 1];
    numbers.iter().for_each(|number| next[bucket_of(*number)] += 1);
    let mut start = 0;
    for place in &mut next {
        start += std::mem::replace(place, start);
    }
    let mut order = SmallVec::from_elem((0, 0), numbers.len());
    let sorted = order.as_mut_slice();
    for (index, &number) in numbers.iter().enumerate() {
        let place = &mut next[bucket_of(number)];
        sorted[*place as usize] = (number, index);
        *place += 1;
    }
    // Now each place is the end of its bucket.
    let mut start = 0;
    for end in next {
        let end = end as usize;
        match &mut sorted[start..end] {
            [] | [_] => {}
            [one, other] if *one < *other => {}
            several => several.sort_unstable(),
        }
        start = end;
    }
    order
}

/// Sorts values. Equal values keep their order.
pub(crate) fn values<T>(values: Vec<T>, compare: &mut dyn FnMut(&T, &T) -> Ordering) -> Vec<T> {
    let order = positions(values.len(), &mut |one, other| compare(&values[one], &values[other]));
    let mut values: Vec<Option<T>> = values.into_iter().map(Some).collect();
    order.into_iter().filter_map(|index| values[index].take()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_sorted_as_by_comparing() {
        for (count, factor) in [(0, 1), (1, 1), (99, u64::MAX / 7), (1000, u64::MAX / 7), (1000, 3), (1000, 1 << 40)] {
            let numbers: Vec<u64> = (0..count).map(|index| (index * 7919 % 500_u64).wrapping_mul(factor)).collect();
            let order = positions(numbers.len(), &mut |one, other| numbers[one].cmp(&numbers[other]));
            let expected: Vec<_> = order.into_iter().map(|index| (numbers[index], index)).collect();
            assert_eq!(by_number(&numbers).as_slice(), expected, "{count} times {factor}");
        }
    }
}
