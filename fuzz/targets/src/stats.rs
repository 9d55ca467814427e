//! Compares statistics of arbitrary elements with exact arithmetic.

use tensorfile::cast::Number;
use tensorfile::stats::Stats;
use tensorfile::{Dtype, Element};

use crate::input::Input;

/// The most elements whose squares are summed exactly.
const MOST: usize = 4096;

pub fn run(input: &[u8]) {
    let mut input = Input(input);
    match input.below(2) {
        0 => any_dtype(&mut input),
        _ => exact(&mut input),
    }
}

/// Computes statistics of pieces of a payload.
fn of(dtype: Dtype, bytes: &[u8], piece: usize) -> Option<Stats> {
    let mut stats = Stats::new(dtype)?;
    bytes.chunks(piece.max(1)).for_each(|piece| stats.update(piece));
    Some(stats)
}

/// Checks that the numbers are consistent for any elements.
fn any_dtype(input: &mut Input<'_>) {
    let dtype = Dtype::ALL[input.below(Dtype::ALL.len())];
    let piece = usize::from(input.byte());
    let bytes = &input.0[..input.0.len() / dtype.block_bytes() * dtype.block_bytes()];
    let Some(stats) = of(dtype, bytes, piece) else { return };
    let elements = (bytes.len() / dtype.block_bytes()) as u64;
    assert_eq!(stats.count(), elements);
    let finite = elements - stats.nans() - stats.positive_infinities() - stats.negative_infinities();
    assert_eq!(stats.first_nan().is_some(), stats.nans() > 0);
    assert_eq!(stats.first_infinity().is_some(), stats.positive_infinities() + stats.negative_infinities() > 0);
    let [min, max] = [stats.min(), stats.max()].map(|limit| {
        limit.map(|limit| match limit {
            Number::Integer(integer) => integer as f64,
            Number::Float(float) => float,
        })
    });
    assert_eq!((min.is_some(), stats.mean().is_some(), stats.std().is_some()), (finite > 0, finite > 0, finite > 0));
    let (Some(min), Some(max), Some(mean), Some(std)) = (min, max, stats.mean(), stats.std()) else { return };
    assert!(min <= mean && mean <= max, "{mean} is not in {min}..={max}");
    // Integers near each other may be one float.
    let half = match (stats.min(), stats.max()) {
        (Some(Number::Integer(min)), Some(Number::Integer(max))) => (max - min) as f64 / 2.0,
        _ => max / 2.0 - min / 2.0,
    };
    let most = half * (1.0 + 1e-15) + f64::MIN_POSITIVE;
    assert!(0.0 <= std && std <= most, "{std} is too large for {min}..={max}");
    let whole = of(dtype, bytes, bytes.len()).unwrap();
    assert_eq!(
        (whole.first_nan(), whole.first_infinity(), whole.min()),
        (stats.first_nan(), stats.first_infinity(), stats.min())
    );
    // Chunks of other elements are rounded in other places.
    let scale = min.abs().max(max.abs());
    assert!((whole.mean().unwrap() / 2.0 - mean / 2.0).abs() <= scale * 1e-15);
    assert!((whole.std().unwrap() - std).abs() <= std * 1e-12 + scale * 1e-14);
}

/// Numbers far from zero, whose sums and squares fit into 128 bits.
fn exact(input: &mut Input<'_>) {
    let (bits, piece) = (1 + input.below(40), usize::from(input.byte()));
    let far = |bytes: &[u8]| bytes.iter().fold(0_i64, |number, byte| number << 8 | i64::from(*byte));
    let from = far(input.bytes(6)) << 4;
    let from = if from & 16 > 0 { -from } else { from };
    let distances: Vec<i64> = input.0.chunks(5).take(MOST).map(|bytes| far(bytes) >> (40 - bits)).collect();
    if distances.is_empty() {
        return;
    }
    let count = distances.len() as i128;
    let sum: i128 = distances.iter().map(|distance| i128::from(*distance)).sum();
    let squares: i128 = distances.iter().map(|distance| i128::from(*distance).pow(2)).sum();
    let std = ((count * squares - sum * sum) as f64).sqrt() / count as f64;
    let mean = (i128::from(from) + sum.div_euclid(count)) as f64 + sum.rem_euclid(count) as f64 / count as f64;
    let integers: Vec<i64> = distances.iter().map(|distance| from + distance).collect();
    let floats: Vec<f64> = integers.iter().map(|integer| *integer as f64).collect();
    let near = |found: f64, expected: f64, part: f64| (found - expected).abs() <= expected.abs() * part;
    let of_integers = of(Dtype::I64, &i64::as_le_bytes(&integers), piece).unwrap();
    // Floats hold the integers only if they have up to 53 bits.
    let of_floats = of(Dtype::F64, &f64::as_le_bytes(&floats), piece).unwrap();
    let are_exact = integers.iter().zip(&floats).all(|(integer, float)| *float as i64 == *integer);
    for stats in [Some(of_integers), Some(of_floats).filter(|_| are_exact)].into_iter().flatten() {
        assert!(near(stats.mean().unwrap(), mean, 4e-16), "mean {:?}, expected {mean}", stats.mean());
        assert!(near(stats.std().unwrap(), std, 1e-14), "standard deviation {:?}, expected {std}", stats.std());
    }
}

pub fn seeds() -> Vec<Vec<u8>> {
    let number = |number: f64| number.to_le_bytes().to_vec();
    let mut seeds: Vec<Vec<u8>> =
        (0..Dtype::ALL.len() as u8).map(|dtype| vec![0, dtype, 3, 0, 0xff, 0x7f, 1, 2, 3, 4]).collect();
    let f64s = Dtype::ALL.iter().position(|dtype| *dtype == Dtype::F64).unwrap() as u8;
    for numbers in [[1e15, 1e15 + 1.0], [1e200, -1e200], [1.7e308, 1.7e308], [5e-324, -1e-200], [f64::NAN, f64::MAX]] {
        seeds.push([vec![0, f64s, 9], numbers.map(number).concat()].concat());
    }
    seeds.push([vec![1, 39, 200], vec![0x7f; 6], (0..=255).collect()].concat());
    seeds.push([vec![1, 0, 7], vec![0xff; 6], [1, 0, 1, 0, 1, 1].repeat(900)].concat());
    seeds
}
