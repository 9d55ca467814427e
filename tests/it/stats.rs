//! Statistics and histograms, compared with literal results and with plain sums.

#![allow(clippy::cast_possible_wrap, clippy::cast_sign_loss, reason = "small numbers, and any bits")]

use half::{bf16, f16};
use proptest::collection::vec;
use proptest::prelude::*;
use tensorfile::cast::{Caster, Number};
use tensorfile::scalar::{Bits16, F8E4M3Fn, F8E5M2, QInt8};
use tensorfile::stats::Stats;
use tensorfile::{CooTensor, Dtype, Element, Tensor, TensorInfo};

fn of<A: Element>(elements: &[A]) -> Stats {
    let mut stats = Stats::new(A::DTYPE).unwrap();
    stats.update(Tensor::from_slice(elements, [elements.len()]).unwrap().as_bytes());
    stats
}

fn counts(stats: &Stats) -> [u64; 5] {
    [stats.count(), stats.nans(), stats.positive_infinities(), stats.negative_infinities(), stats.zeros()]
}

fn range(stats: &Stats) -> String {
    let shown = |limit: Option<Number>| limit.map_or("none".to_owned(), |limit| limit.to_string());
    format!("{} to {}", shown(stats.min()), shown(stats.max()))
}

#[test]
fn nan_and_infinities_are_counted_separately() {
    let stats = of(&[1.0_f32, f32::NAN, -0.0, f32::INFINITY, -3.0, f32::NEG_INFINITY, f32::NEG_INFINITY, 0.0]);
    assert_eq!((counts(&stats), range(&stats).as_str()), ([8, 1, 1, 2, 2], "-3 to 1"));
    assert_eq!((stats.mean(), stats.std()), (Some(-0.5), Some(2.25_f64.sqrt())));
    assert_eq!(stats.quantiles(&[0.0, 0.5, 1.0]), Some(vec![-3.0, 0.0, 1.0]));

    assert_eq!(counts(&of(&[F8E4M3Fn(0x7f), F8E4M3Fn(0x80)])), [2, 1, 0, 0, 1]);
    assert_eq!(counts(&of(&[F8E5M2(0x7c), F8E5M2(0xfc), F8E5M2(0x7d)])), [3, 1, 1, 1, 0]);
    assert_eq!(counts(&of(&[f64::NAN, f64::INFINITY, f64::MAX])), [3, 1, 1, 0, 0]);
}

#[test]
fn statistics_are_the_same_with_any_number_of_threads() {
    let mut numbers: Vec<f32> = (0..3_000_000_u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 8) as f32).collect();
    (numbers[5], numbers[2_500_000]) = (f32::NAN, f32::INFINITY);
    // Whole chunks of elements, so that no other sums are rounded.
    let sum = |piece: usize| {
        let mut stats = Stats::new(Dtype::F32).unwrap();
        f32::as_le_bytes(&numbers).chunks(4 * piece).for_each(|piece| stats.update(piece));
        let mut histogram = stats.histogram(7).unwrap();
        histogram.update(&f32::as_le_bytes(&numbers));
        let bits = [stats.mean(), stats.std()].map(|number| number.unwrap().to_bits());
        let quantiles = stats.quantiles(&[1.0, 0.0, 0.5, 0.99]).unwrap().into_iter().map(f64::to_bits);
        (counts(&stats), range(&stats), bits, quantiles.collect::<Vec<_>>(), histogram.counts().to_vec())
    };
    let most = tensorfile::threads::max_threads();
    let expected = sum(1024);
    for threads in [1, 2, 5] {
        tensorfile::threads::set_max_threads(threads);
        for piece in [1 << 20, numbers.len()] {
            assert_eq!(sum(piece), expected, "{threads} threads, pieces of {piece}");
        }
    }
    tensorfile::threads::set_max_threads(most);
}

#[test]
fn quantiles_may_be_asked_for_in_any_order() {
    let many: Vec<i32> = (0..2_000_000).collect();
    let quantiles = of(&many).quantiles(&[0.75, 0.25, 1.0]).unwrap();
    for (quantile, expected) in quantiles.into_iter().zip([1.5e6, 0.5e6, 2e6]) {
        assert!((quantile / expected - 1.0).abs() < 0.002, "{quantile}, expected {expected}");
    }
}

#[test]
fn without_elements_there_are_no_statistics() {
    for stats in [of::<f32>(&[]), of(&[f16::NAN, f16::INFINITY]), of::<u64>(&[])] {
        assert_eq!(range(&stats), "none to none");
        assert_eq!((stats.mean(), stats.std(), stats.quantiles(&[0.5])), (None, None, None));
        assert!(stats.histogram(3).is_none());
    }
    for dtype in [Dtype::QUint4x2, Dtype::QUint2x4, Bits16::DTYPE, Dtype::F4, Dtype::F6E2M3] {
        assert!(Stats::new(dtype).is_none(), "{dtype}");
    }
    assert!(Stats::from_info(&TensorInfo::blob(4)).is_none());
}

#[test]
fn limits_are_exact() {
    assert_eq!(range(&of(&[i64::MIN + 1, i64::MAX - 1])), "-9223372036854775807 to 9223372036854775806");
    assert_eq!(range(&of(&[u64::MAX, (1 << 53) + 1])), "9007199254740993 to 18446744073709551615");
    assert_eq!(range(&of(&[i32::MIN, i32::MAX])), "-2147483648 to 2147483647");
    assert_eq!(range(&of(&[f32::from_bits(1), 0.1])), "1.401298464324817e-45 to 0.10000000149011612");
    assert_eq!(range(&of(&[-f64::MAX, f64::MAX])), format!("-{0:e} to {0:e}", f64::MAX));
    // Their distances pass what an `f64` holds.
    let stats = of(&[-f64::MAX, f64::MAX]);
    assert_eq!((stats.std(), stats.quantiles(&[0.5])), (Some(f64::MAX), Some(vec![0.0])));
    let mut histogram = stats.histogram(2).unwrap();
    histogram.update(bytemuck::cast_slice(&[-f64::MAX, f64::MAX, 1.0]));
    assert_eq!((histogram.edges(), histogram.counts()), (&[-f64::MAX, 0.0, f64::MAX][..], &[1, 2][..]));
}

#[test]
fn booleans_and_quantized_elements_are_integers() {
    let stats = of(&[true, false, true, true]);
    assert_eq!((counts(&stats), range(&stats).as_str(), stats.mean()), ([4, 0, 0, 0, 1], "0 to 1", Some(0.75)));
    let stats = of(&[QInt8(-3), QInt8(5)]);
    assert_eq!((range(&stats).as_str(), stats.mean()), ("-3 to 5", Some(1.0)));
}

#[test]
fn stored_elements_of_sparse_tensors_count() {
    let tensor = CooTensor::new([9, 9], vec![1, 2, 3, 4], vec![5_i16, 7]).unwrap().to_tensor();
    let mut stats = Stats::from_info(tensor.info()).unwrap();
    tensor.as_bytes().chunks(3).for_each(|piece| stats.update(piece));
    assert_eq!((counts(&stats), range(&stats).as_str()), ([2, 0, 0, 0, 0], "5 to 7"));
    let mut histogram = stats.histogram(2).unwrap();
    tensor.as_bytes().chunks(5).for_each(|piece| histogram.update(piece));
    assert_eq!(histogram.counts(), [1, 1]);
}

#[test]
fn small_deviations_of_large_numbers_are_not_lost() {
    let elements: Vec<f64> = (0..10_000).map(|at| 1e9 + f64::from(at % 2)).collect();
    let stats = of(&elements);
    assert_eq!((stats.mean(), stats.std()), (Some(1e9 + 0.5), Some(0.5)));
}

#[test]
fn equal_elements_share_one_bin() {
    let mut histogram = of(&[2.5_f32; 3]).histogram(10).unwrap();
    histogram.update(bytemuck::cast_slice(&[2.5_f32, 2.5, 2.5, f32::NAN]));
    assert_eq!((histogram.edges(), histogram.counts()), (&[2.5, 2.5][..], &[3][..]));
}

#[test]
fn bins_include_their_lower_edge() {
    let elements: Vec<f32> = (0..=1000).map(|at| f32::from(at as u16) * 0.1).collect();
    let mut histogram = of(&elements).histogram(1000).unwrap();
    histogram.update(bytemuck::cast_slice(&elements));
    let mut expected = vec![0; 1000];
    for &element in &elements {
        let after = histogram.edges().iter().filter(|&&edge| edge <= element.into()).count();
        expected[after.min(1000) - 1] += 1;
    }
    assert_eq!(histogram.counts(), expected);
}

/// More elements than are kept as they are.
const MANY: u32 = (1 << 20) + 5;

#[test]
fn quantiles_of_many_16_bit_floats_are_exact() {
    let parts = [0.0, 0.1, 0.5, 0.77, 1.0];
    let bits = |at: u32| (at.wrapping_mul(2_654_435_761) >> 16) as u16;
    let halves: Vec<f16> = (0..MANY).map(|at| f16::from_bits(bits(at))).collect();
    let mut finite: Vec<f64> = halves.iter().map(|half| half.to_f64()).filter(|half| half.is_finite()).collect();
    finite.sort_by(f64::total_cmp);
    let expected = |part: f64| {
        let place = part * (finite.len() - 1) as f64;
        let (below, above) = (finite[place as usize], finite[place.ceil() as usize]);
        below * (1.0 - place.fract()) + above * place.fract()
    };
    assert_eq!(of(&halves).quantiles(&parts), Some(parts.map(expected).to_vec()));
    assert_eq!(of(&vec![bf16::MIN_POSITIVE; 1 << 21]).quantiles(&[0.5]), Some(vec![bf16::MIN_POSITIVE.to_f64()]));
}

#[test]
fn quantiles_of_many_elements_are_close() {
    for scale in [1e-300, 1e-30, 1.0, 1e300] {
        let elements: Vec<f64> = (0..MANY).map(|at| (f64::from(at) - f64::from(MANY) / 4.0) * scale).collect();
        let stats = of(&elements);
        for part in [0.0, 0.001, 0.2, 0.24999, 0.5, 0.999, 1.0] {
            let exact = elements[(part * f64::from(MANY - 1)).round() as usize];
            let found = stats.quantiles(&[part]).unwrap()[0];
            assert!((found - exact).abs() <= exact.abs() * 0.002 + scale, "{part}: {found}, not {exact}");
        }
    }
}

#[test]
fn merges_many_elements_with_few() {
    let all: Vec<i32> = (0..MANY as i32).collect();
    let (few, many) = (of(&all[..1000]), of(&all[1000..]));
    for (mut one, other) in [(few.clone(), &many), (many.clone(), &few), (Stats::new(Dtype::I32).unwrap(), &of(&all))] {
        one.merge(other);
        assert_eq!((counts(&one), range(&one)), (counts(&of(&all)), range(&of(&all))));
        assert_eq!(one.quantiles(&[0.1, 0.9]), of(&all).quantiles(&[0.1, 0.9]));
    }
    let without = of(&all[..3]).without_quantiles();
    assert_eq!((without.quantiles(&[0.5]), without.mean()), (None, Some(1.0)));
}

#[test]
fn statistics_serialize_to_json() {
    let expected = serde_json::json!({
        "dtype": "u64", "count": 2, "min": 1, "max": u64::MAX, "mean": 9_223_372_036_854_775_808_u64 as f64,
        "std": 9_223_372_036_854_775_808_u64 as f64, "nans": 0, "first_nan": null,
        "positive_infinities": 0, "negative_infinities": 0, "first_infinity": null, "zeros": 0, "quantiles": null,
    });
    assert_eq!(serde_json::to_value(of(&[1, u64::MAX]).without_quantiles()).unwrap(), expected);
    let json = serde_json::to_value(of(&[-1.5_f32])).unwrap();
    assert_eq!((&json["min"], &json["quantiles"][3]), (&serde_json::json!(-1.5), &serde_json::json!([0.5, -1.5])));
    let histogram = of(&[0_u8, 1]).histogram(2).unwrap();
    assert_eq!(serde_json::to_string(&histogram).unwrap(), r#"{"edges":[0.0,0.5,1.0],"counts":[0,0]}"#);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Compares with exact arithmetic.
    #[test]
    fn moments_are_those_of_exact_arithmetic(
        from in -(1_i64 << 52)..1 << 52,
        distances in vec(0..1_u64 << 40, 1..4000),
        bits in 1..40_u32,
        power in -900..900_i32,
        piece in 1..9000_usize,
    ) {
        let distances: Vec<i64> = distances.into_iter().map(|distance| (distance >> (40 - bits)) as i64).collect();
        let count = distances.len() as i128;
        let sum: i128 = distances.iter().map(|distance| i128::from(*distance)).sum();
        let squares: i128 = distances.iter().map(|distance| i128::from(*distance).pow(2)).sum();
        let std = ((count * squares - sum * sum) as f64).sqrt() / count as f64;
        let whole = i128::from(from) + sum.div_euclid(count);
        let mean = whole as f64 + sum.rem_euclid(count) as f64 / count as f64;
        // Of a power of two, the number and the deviation have the same digits.
        let scale = 2.0_f64.powi(power);
        let floats: Vec<f64> = distances.iter().map(|distance| (from + distance) as f64 * scale).collect();
        let integers: Vec<i64> = distances.iter().map(|distance| from * 1024 + distance).collect();
        let near = |found: f64, expected: f64| (found - expected).abs() <= expected.abs() * 4e-16;
        // Squares are rounded, and so are their sums in a chunk.
        let is_std = |found: f64, expected: f64| (found - expected).abs() <= expected.abs() * 1e-14;

        let [mut of_floats, mut of_integers] = [Dtype::F64, Dtype::I64].map(|dtype| Stats::new(dtype).unwrap());
        f64::as_le_bytes(&floats).chunks(piece).for_each(|piece| of_floats.update(piece));
        i64::as_le_bytes(&integers).chunks(piece).for_each(|piece| of_integers.update(piece));
        prop_assert!(near(of_floats.mean().unwrap(), mean * scale), "{:?}, expected {}", of_floats.mean(), mean * scale);
        prop_assert!(is_std(of_floats.std().unwrap(), std * scale), "{:?}, expected {}", of_floats.std(), std * scale);
        let mean = (whole + i128::from(from) * 1023) as f64 + sum.rem_euclid(count) as f64 / count as f64;
        prop_assert!(near(of_integers.mean().unwrap(), mean), "{:?}, expected {mean}", of_integers.mean());
        prop_assert!(is_std(of_integers.std().unwrap(), std), "{:?}, expected {std}", of_integers.std());
    }

    #[test]
    fn every_dtype_has_the_statistics_of_its_numbers(
        dtype in proptest::sample::select(Dtype::ALL).prop_filter("numbers", |dtype| dtype.is_float() || dtype.is_integer()),
        bytes in vec(any::<u8>(), 0..20_000),
        piece in 1..9000_usize,
        cut in any::<proptest::sample::Index>(),
    ) {
        let bytes = &bytes[..bytes.len() / 8 * 8];
        let mut wide = Vec::new();
        Caster::between_kinds(dtype, Dtype::F64).unwrap().cast(bytes, &mut wide);
        let all: Vec<f64> = wide.chunks_exact(8).map(|bytes| f64::from_le_bytes(bytes.try_into().unwrap())).collect();
        let finite: Vec<f64> = all.iter().copied().filter(|number| number.is_finite()).collect();
        // So that squares and sums stay in range.
        let scale = finite.iter().fold(0.0_f64, |largest, number| largest.max(number.abs()));
        prop_assume!(scale < 1e150);

        let mut stats = Stats::new(dtype).unwrap();
        bytes.chunks(piece).for_each(|piece| stats.update(piece));
        let (front, back) = bytes.split_at(if bytes.is_empty() { 0 } else { cut.index(bytes.len()) / 8 * 8 });
        let [mut merged, mut other] = [0, 1].map(|_| Stats::new(dtype).unwrap());
        merged.update(front);
        other.update(back);
        merged.merge(&other);

        let count = |is: fn(&f64) -> bool| all.iter().filter(|number| is(number)).count() as u64;
        let expected = [
            all.len() as u64,
            count(|number| number.is_nan()),
            count(|number| *number == f64::INFINITY),
            count(|number| *number == f64::NEG_INFINITY),
            count(|number| *number == 0.0),
        ];
        let mean = finite.iter().sum::<f64>() / finite.len() as f64;
        let std = (finite.iter().map(|number| (number - mean).powi(2)).sum::<f64>() / finite.len() as f64).sqrt();
        let mut sorted = finite.clone();
        sorted.sort_by(f64::total_cmp);
        for stats in [&stats, &merged] {
            prop_assert_eq!(counts(stats), expected);
            if finite.is_empty() {
                continue;
            }
            prop_assert!((stats.mean().unwrap() - mean).abs() <= scale * 1e-12);
            prop_assert!((stats.std().unwrap() - std).abs() <= scale * 1e-12);
            let middle = stats.quantiles(&[0.0, 0.5, 1.0]).unwrap();
            let between = f64::midpoint(sorted[(sorted.len() - 1) / 2], sorted[sorted.len() / 2]);
            prop_assert_eq!(middle, [sorted[0], between, sorted[sorted.len() - 1]]);
            let limit = |limit: Option<Number>| match limit.unwrap() {
                Number::Integer(integer) => integer as f64,
                Number::Float(float) => float,
            };
            prop_assert_eq!([limit(stats.min()), limit(stats.max())], [sorted[0], sorted[sorted.len() - 1]]);

            let mut histogram = stats.histogram(7).unwrap();
            bytes.chunks(piece).for_each(|piece| histogram.update(piece));
            prop_assert_eq!(histogram.counts().iter().sum::<u64>(), finite.len() as u64);
        }
    }
}

#[test]
fn quantiles_are_close_if_elements_are_far_from_zero() {
    // Every number once, in an order without order.
    let numbers: Vec<f64> = (0..2_000_003_u64).map(|at| 1e9 + (at * 7_919 % 2_000_003) as f64 / 1e3).collect();
    let bytes: &[u8] = bytemuck::cast_slice(&numbers);
    let mut stats = Stats::new(Dtype::F64).unwrap();
    bytes.chunks(1 << 20).for_each(|piece| stats.update(piece));
    let mut merged = Stats::new(Dtype::F64).unwrap();
    merged.merge(&stats);
    merged.merge(&Stats::new(Dtype::F64).unwrap());
    for stats in [stats, merged] {
        let quantiles = stats.quantiles(&[0.01, 0.25, 0.5, 0.99]).unwrap();
        for (quantile, part) in quantiles.into_iter().zip([0.01, 0.25, 0.5, 0.99]) {
            let expected = 1e9 + part * 2000.002;
            assert!((quantile - expected).abs() < 4.0, "{part}: {quantile} instead of {expected}");
        }
    }
}

/// Returns the mean and the standard deviation as literals say it.
fn moments<A: Element>(elements: &[A]) -> (f64, f64) {
    let stats = of(elements);
    (stats.mean().unwrap(), stats.std().unwrap())
}

#[test]
fn moments_far_from_zero_have_all_digits() {
    let alternating = |from: f64, step: f64| (0..3000).map(|at| from + step * f64::from(at % 2)).collect::<Vec<_>>();
    assert_eq!(moments(&alternating(1e15, 1.0)), (1_000_000_000_000_000.5, 0.5));
    // The mean is between two floats.
    assert_eq!(moments(&alternating(9e15, 2.0)).1, 1.0);
    assert_eq!(moments(&alternating(-9e15, 2.0)).1, 1.0);
    assert_eq!(moments(&[1e200, -1e200]), (0.0, 1e200));
    assert_eq!(moments(&[1.7e308, 1.7e308]), (1.7e308, 0.0));
    assert_eq!(moments(&[1.5e308, 1.7e308]).0, 1.6e308);
    assert_eq!(moments(&[3e-200, 1e-200]).0, 2e-200);
    assert!((moments(&[3e-200, 1e-200]).1 / 1e-200 - 1.0).abs() < 1e-15);
    assert_eq!(moments(&[1e16, 1.0, -1e16, 2.0]).0, 0.75);
    assert_eq!(moments(&[0.1_f64; 5000]), (0.1, 0.0));
    assert_eq!(moments(&[0.1_f32; 5000]), (0.1_f32.into(), 0.0));

    let far: Vec<u64> = (0..7001).map(|at| (1 << 63) + at).collect();
    let (mean, std) = moments(&far);
    assert_eq!(mean, 9_223_372_036_854_779_308.0);
    assert!((std - 2021.01).abs() < 0.01, "{std}");
    assert_eq!(moments(&[u64::MAX, u64::MAX - 1, u64::MAX, u64::MAX - 1]).1, 0.5);
    assert_eq!(moments(&[i64::MIN, i64::MAX]), (-0.5, (u64::MAX as f64) / 2.0));
    assert_eq!(moments(&[i64::MIN, i64::MIN + 1]).1, 0.5);
    assert_eq!(moments(&[0_i64; 2000]), (0.0, 0.0));

    // Chunks of other magnitudes: zeros, tiny, ordinary and huge.
    let mut mixed = vec![0.0; 1024];
    mixed.extend([1e-300; 1024]);
    mixed.extend([1.0; 1024]);
    assert_eq!(moments(&mixed), (1.0 / 3.0, (2.0_f64 / 9.0).sqrt()));
    mixed.extend([3e300; 1024]);
    let (mean, std) = moments(&mixed);
    assert!((mean / 0.75e300 - 1.0).abs() < 1e-15 && (std / (0.75e300 * 3.0_f64.sqrt()) - 1.0).abs() < 1e-15);
    mixed.reverse();
    let reversed = moments(&mixed);
    assert!((reversed.0 / mean - 1.0).abs() < 1e-15 && (reversed.1 / std - 1.0).abs() < 1e-15);
}

#[test]
fn the_first_numbers_that_are_not_finite_are_found() {
    let mut elements = vec![1.0_f32; 5000];
    assert_eq!((of(&elements).first_nan(), of(&elements).first_infinity()), (None, None));
    elements[4321] = f32::NAN;
    elements[1024] = f32::NEG_INFINITY;
    elements[4999] = f32::INFINITY;
    assert_eq!((of(&elements).first_nan(), of(&elements).first_infinity()), (Some(4321), Some(1024)));
    let (mut first, second) = (of(&elements[..1000]), of(&elements[1000..]));
    first.merge(&second);
    assert_eq!((first.first_nan(), first.first_infinity()), (Some(4321), Some(1024)));
}

#[test]
fn complex_numbers_count_as_their_magnitudes() {
    let bytes: Vec<u8> = [3.0_f32, 4.0, 0.0, -0.0, f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 1.0, 1.0, f32::NAN]
        .iter()
        .flat_map(|part| part.to_le_bytes())
        .collect();
    let mut stats = Stats::new(Dtype::C64).unwrap();
    bytes.chunks(3).for_each(|piece| stats.update(piece));
    assert_eq!((counts(&stats), range(&stats).as_str(), stats.mean()), ([5, 2, 1, 0, 1], "0 to 5", Some(2.5)));
    assert_eq!((stats.first_nan(), stats.first_infinity()), (Some(2), Some(3)));
    let bytes: Vec<u8> = [3e200_f64, 4e200].iter().flat_map(|part| part.to_le_bytes()).collect();
    let mut stats = Stats::new(Dtype::C128).unwrap();
    stats.update(&bytes);
    assert_eq!(
        (stats.mean(), stats.std(), stats.quantiles(&[0.5])),
        (Some(4.999_999_999_999_999_5e200), Some(0.0), Some(vec![4.999_999_999_999_999_5e200]))
    );
}

#[test]
fn any_byte_but_zero_is_true() {
    let mut stats = Stats::new(Dtype::Bool).unwrap();
    stats.update(&[1, 255, 0, 2]);
    assert_eq!((stats.max().unwrap().to_string(), stats.mean(), stats.zeros()), ("1".to_owned(), Some(0.75), 1));
}
