//! Sorting through one non-generic function.
//!
//! The standard library's sorts are compiled for each type and each comparison, and are large. `benches/compile` shows
//! the code of programs that load and save.

use std::cmp::Ordering;

use smallvec::SmallVec;

/// Returns the positions from 0 to `len` in the order of a comparison. Equal positions keep their order.
pub(crate) fn positions(len: usize, compare: &mut dyn FnMut(usize, usize) -> Ordering) -> Vec<usize> {
    let mut order: Vec<usize> = (0..len).collect();
    sort(&mut order, compare);
    order
}

fn sort(order: &mut [usize], compare: &mut dyn FnMut(usize, usize) -> Ordering) {
    order.sort_by(|&one, &other| compare(one, other));
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

/// Returns the positions of texts in the order of their bytes. Equal texts keep their order.
///
/// Names have long beginnings in common. Eight bytes after a common beginning are compared as one number, and the texts
/// are looked at again only where these are the same.
pub(crate) fn texts<'t>(len: usize, text: &dyn Fn(usize) -> &'t str) -> SmallVec<[usize; 8]> {
    /// So few are compared in less time.
    const FEW: usize = 16;

    if len <= FEW {
        let mut order = (0..len).collect::<SmallVec<_>>();
        sort(&mut order, &mut |one, other| text(one).cmp(text(other)));
        return order;
    }
    let mut order: Vec<(u64, usize)> = (0..len).map(|i| (0, i)).collect();
    // Runs of texts that are equal up to `start`, or end before.
    let mut runs = vec![(0..len, 0)];
    while let Some((run, start)) = runs.pop() {
        let rest = |i: usize| text(i).as_bytes().get(start..).unwrap_or_default();
        let (begin, run) = (run.start, &mut order[run]);
        let Some(&(_, first)) = run.first() else { continue };
        let common = run.iter().fold(rest(first), |common, (_, i)| &common[..common_bytes(common, rest(*i))]).len();
        let mut are_over = true;
        for (number, i) in run.iter_mut() {
            let rest = &rest(*i)[common..];
            are_over &= rest.is_empty();
            *number = match rest.first_chunk() {
                Some(chunk) => u64::from_be_bytes(*chunk),
                None => rest.iter().rev().fold(0, |number, byte| number >> 8 | u64::from(*byte) << 56),
            };
        }
        if are_over {
            // They differ in NULs at the end, if at all.
            run.iter_mut().for_each(|(number, i)| *number = text(*i).len() as u64);
        }
        run.sort_unstable();
        if !are_over {
            let mut end = begin;
            for equal in run.chunk_by(|(one, _), (other, _)| one == other) {
                end += equal.len();
                if equal.len() > 1 {
                    runs.push((end - equal.len()..end, start + common + size_of::<u64>()));
                }
            }
        }
    }
    order.into_iter().map(|(_, i)| i).collect()
}

/// Returns the length of the common beginning.
fn common_bytes(one: &[u8], other: &[u8]) -> usize {
    let (words, others) = (one.as_chunks::<8>().0, other.as_chunks::<8>().0);
    let same = 8 * words.iter().zip(others).take_while(|(one, other)| one == other).count();
    same + one[same..].iter().zip(&other[same..]).take_while(|(one, other)| one == other).count()
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

    #[test]
    fn texts_are_sorted_as_by_comparing() {
        let nuls = ["", "\0", "a", "a\0", "a\0\0", "a\0b", "\0\0\0\0\0\0\0\0", "\0\0\0\0\0\0\0\0\0", "b\u{80}", "b~"];
        let nuls = nuls.map(str::to_owned).to_vec();
        let numbered = (0..1000).map(|i: u32| format!("model.layers.{}.weight", i * 7919 % 500)).collect();
        let nested = (0..40).map(|i| "segment.".repeat(i * 7 % 40) + "\u{e9}").collect();
        for list in [[&nuls[..], &nuls, &nuls].concat(), nuls, numbered, nested, vec![]] {
            let expected = positions(list.len(), &mut |one, other| list[one].cmp(&list[other]));
            assert_eq!(texts(list.len(), &|i| &list[i]).into_vec(), expected, "{list:?}");
        }
    }
}
