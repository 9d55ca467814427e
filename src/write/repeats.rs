/// Returns the positions of hashes that may repeat, in order, and a few that do not.
///
/// Only their bytes are compared. Finding them takes less time than filling a table of all hashes.
pub(crate) fn may_repeat(hashes: &[u64]) -> Vec<usize> {
    /// The minimum number of places per hash. At most one hash in 16 lands in a taken place by accident.
    const PLACES: usize = 16;
    const FEW: usize = 4;

    let len = hashes.len();
    if len <= FEW {
        return (0..len).collect();
    }
    let bits = len.saturating_mul(PLACES).next_power_of_two().trailing_zeros();
    let words = 1 << (bits - u64::BITS.trailing_zeros());
    let (mut taken, mut shared) = (vec![0_u64; words], vec![0_u64; words]);
    let place = |hash: u64| {
        // The upper bits of a hash are the best ones.
        let place = usize::try_from(hash >> (u64::BITS - bits)).expect("it is a place in memory");
        (place / 64, 1 << (place % 64))
    };
    for &hash in hashes {
        let (word, bit) = place(hash);
        // This is rare, and each table is half of what the processor's cache would have to hold.
        if taken[word] & bit != 0 {
            shared[word] |= bit;
        }
        taken[word] |= bit;
    }
    let is_shared = |index: &usize| {
        let (word, bit) = place(hashes[*index]);
        shared[word] & bit != 0
    };
    (0..len).filter(is_shared).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_all_that_repeat_and_few_others() {
        let hash = |index: usize| (index as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        for len in [2, 5, 64, 1000] {
            for other in (0..len - 1).step_by(7) {
                // The last one is as another.
                let hashes: Vec<u64> =
                    (0..len).map(|index| hash(if index + 1 == len { other } else { index })).collect();
                let found = may_repeat(&hashes);
                assert!(found.contains(&other) && found.contains(&(len - 1)), "{other} of {len}");
                assert!(found.is_sorted() && found.len() <= 5 + len / 8, "{} of {len}", found.len());
            }
        }
    }
}
