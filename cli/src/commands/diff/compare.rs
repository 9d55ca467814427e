//! Compares the elements of two tensors: how many differ, where, and by how much.

use std::cmp;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::ScopedJoinHandle;

use serde::{Serialize, Serializer};
use tensorfile::cast::Number;
use tensorfile::threads::max_threads;
use tensorfile::view::Scalar;
use tensorfile::{Dtype, Tensor};

use crate::commands::show::Sparse;
use crate::exit::Outcome;
use crate::output::numbers::count;
use crate::output::tensors::row_major_index;

/// The arguments that allow small differences.
#[derive(Debug, Clone, Copy, Default, clap::Args)]
pub struct Tolerance {
    /// Treat values as equal if they differ by at most X
    #[arg(long, value_name = "X", default_value_t = 0.0, value_parser = parse, allow_negative_numbers = true)]
    #[arg(conflicts_with_all = ["names_only", "no_values"])]
    atol: f64,
    /// Treat values as equal if they differ by at most Y times the value in B; with --atol, by at most the sum of both,
    /// as numpy's `allclose`
    #[arg(long, value_name = "Y", default_value_t = 0.0, value_parser = parse, allow_negative_numbers = true)]
    #[arg(conflicts_with_all = ["names_only", "no_values"])]
    rtol: f64,
}

fn parse(text: &str) -> Result<f64, String> {
    let number: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    if number >= 0.0 { Ok(number) } else { Err("must not be negative".to_owned()) }
}

/// The differences between the values of two tensors.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ValueDiff {
    /// The number of differing elements.
    pub differing: u64,
    /// The number of elements compared; for sparse tensors, the coordinates stored by either of them.
    pub of: u64,
    /// The number of differing elements with a NaN or an infinity.
    not_finite: u64,
    first: Option<DifferingElement>,
    first_not_finite: Option<DifferingElement>,
    /// The largest differences between finite numbers.
    max_abs: Option<Extreme>,
    max_rel: Option<Extreme>,
}

impl Serialize for ValueDiff {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Row<'a> {
            differing: u64,
            of: u64,
            not_finite: u64,
            first: Option<&'a DifferingElement>,
            first_not_finite: Option<&'a DifferingElement>,
            /// Infinite if a number became NaN or infinite.
            max_abs: Option<Extreme>,
            max_finite_abs: Option<&'a Extreme>,
            /// Of finite numbers.
            max_rel: Option<&'a Extreme>,
        }

        let infinite =
            self.first_not_finite.as_ref().map(|place| Extreme { difference: f64::INFINITY, place: place.clone() });
        let row = Row {
            differing: self.differing,
            of: self.of,
            not_finite: self.not_finite,
            first: self.first.as_ref(),
            first_not_finite: self.first_not_finite.as_ref(),
            max_abs: infinite.or_else(|| self.max_abs.clone()),
            max_finite_abs: self.max_abs.as_ref(),
            max_rel: self.max_rel.as_ref(),
        };
        row.serialize(serializer)
    }
}

/// A differing element.
#[derive(Debug, Clone, PartialEq, Serialize)]
struct DifferingElement {
    index: Vec<u64>,
    /// `None` if a sparse tensor does not store the element.
    a: Option<Scalar>,
    b: Option<Scalar>,
}

/// The element with the largest difference.
#[derive(Debug, Clone, PartialEq, Serialize)]
struct Extreme {
    #[serde(serialize_with = "as_scalar")]
    difference: f64,
    #[serde(flatten)]
    place: DifferingElement,
}

/// Serializes a number as an element, as JSON has no infinity.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn as_scalar<S: Serializer>(number: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    Scalar::from(*number).serialize(serializer)
}

/// The number of elements compared at once, for every dtype.
pub const PIECE: usize = 1 << 17;

/// Fills memory with the bytes of both tensors, each from an offset on.
pub type ReadBoth<'r> = &'r (dyn Fn(u64, &mut [u8], u64, &mut [u8]) -> Outcome<()> + Sync);

/// Compares dense tensors, read in pieces.
#[derive(Debug, Clone)]
pub struct Comparison<'a> {
    dtypes: [Dtype; 2],
    shape: &'a [usize],
    tolerance: Tolerance,
    diff: ValueDiff,
}

impl<'a> Comparison<'a> {
    /// Starts to compare tensors of equal shape and [comparable](are_comparable) dtypes.
    pub fn new(dtypes: [Dtype; 2], shape: &'a [usize], tolerance: Tolerance) -> Self {
        Self { dtypes, shape, tolerance, diff: ValueDiff::default() }
    }

    /// Compares all elements, with several threads; see [`tensorfile::threads::max_threads`].
    ///
    /// With `until_first`, nothing is read after the first difference. `advance` is called with numbers of bytes.
    pub fn of_all(
        mut self,
        elements: usize,
        read: ReadBoth<'_>,
        until_first: bool,
        advance: &mut dyn FnMut(usize),
    ) -> Outcome<ValueDiff> {
        // The length of a number of elements in bytes. Only the last piece may end with a partial block.
        let bytes = |elements| self.dtypes.map(|dtype| dtype.bytes_for(elements).unwrap_or_default());
        let (next, done, stop) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicBool::new(false));
        let compare = |advance: &mut dyn FnMut(usize)| {
            let [mut a, mut b] = bytes(PIECE.min(elements)).map(|bytes| vec![0; bytes]);
            let mut diffs = Vec::new();
            while !stop.load(Ordering::Relaxed) {
                let start = next.fetch_add(PIECE, Ordering::Relaxed);
                let Some(left) = elements.checked_sub(start).filter(|left| *left > 0) else { break };
                let ([start_a, start_b], [len_a, len_b]) = (bytes(start), bytes(left.min(PIECE)));
                let (a, b) = (&mut a[..len_a], &mut b[..len_b]);
                let diff = read(start_a as u64, a, start_b as u64, b).map(|()| {
                    let mut piece = Self { diff: ValueDiff::default(), ..self };
                    piece.diff.of = (start_a / self.dtypes[0].block_bytes()) as u64;
                    piece.update(a, b);
                    piece.finish()
                });
                let differs = diff.as_ref().map_or(true, |diff| diff.differing > 0);
                if differs {
                    stop.fetch_or(until_first || diff.is_err(), Ordering::Relaxed);
                    diffs.push((start, diff));
                }
                done.fetch_add(len_a + len_b, Ordering::Relaxed);
                advance(done.swap(0, Ordering::Relaxed));
            }
            diffs
        };
        let threads = max_threads().min(elements.div_ceil(PIECE));
        let mut diffs = std::thread::scope(|scope| {
            let help = || compare(&mut |bytes| _ = done.fetch_add(bytes, Ordering::Relaxed));
            // Without other threads, this one does all the work.
            let start = |_| std::thread::Builder::new().spawn_scoped(scope, help).ok();
            let others: Vec<_> = (1..threads).filter_map(start).collect();
            let mut diffs = compare(advance);
            let join = |other: ScopedJoinHandle<'_, _>| other.join().unwrap_or_else(|panic| resume_unwind(panic));
            diffs.extend(others.into_iter().flat_map(join));
            diffs
        });
        advance(done.load(Ordering::Relaxed));
        diffs.sort_unstable_by_key(|(start, _)| *start);
        for (_, diff) in diffs {
            self.diff.append(diff?);
        }
        self.diff.of = (bytes(elements)[0] / self.dtypes[0].block_bytes()) as u64;
        Ok(self.diff)
    }

    /// Compares the next elements, the same number of both tensors.
    pub fn update(&mut self, a: &[u8], b: &[u8]) {
        /// The number of elements skipped at once if their bytes are equal.
        const BLOCK: usize = 256;
        let [size_a, size_b] = self.dtypes.map(Dtype::block_bytes);
        let same_dtype = self.dtypes[0] == self.dtypes[1];
        for (a, b) in a.chunks(BLOCK * size_a).zip(b.chunks(BLOCK * size_b)) {
            if same_dtype && a != b && !self.dtypes[0].has_elements() {
                self.update_blocks(a, b);
            } else if !(same_dtype && a == b) {
                for (i, (a, b)) in a.chunks_exact(size_a).zip(b.chunks_exact(size_b)).enumerate() {
                    let [a, b] = [(self.dtypes[0], a), (self.dtypes[1], b)]
                        .map(|(dtype, bytes)| Scalar::from_le_bytes(dtype, bytes));
                    self.compare(i, a, b);
                }
            }
            self.diff.of += (a.len() / size_a) as u64;
        }
    }

    /// Compares blocks of several elements, whose values are unknown. The index of a difference is the index of the
    /// block's first element.
    fn update_blocks(&mut self, a: &[u8], b: &[u8]) {
        let (size, elements) = (self.dtypes[0].block_bytes(), self.dtypes[0].block_elements() as u64);
        for (i, _) in a.chunks_exact(size).zip(b.chunks_exact(size)).enumerate().filter(|(_, (a, b))| a != b) {
            let (i, shape) = ((self.diff.of + i as u64) * elements, self.shape);
            self.diff.add(Gap::Other, || DifferingElement { index: row_major_index(i, shape), a: None, b: None });
        }
    }

    /// Compares the elements `i` positions after those already counted.
    fn compare(&mut self, i: usize, a: Scalar, b: Scalar) {
        let Some(gap) = gap(self.dtypes, a, b, self.tolerance) else { return };
        let (i, shape) = (self.diff.of + i as u64, self.shape);
        self.diff.add(gap, || DifferingElement { index: row_major_index(i, shape), a: Some(a), b: Some(b) });
    }

    /// Returns whether any elements compared so far differ.
    pub fn has_differences(&self) -> bool {
        self.diff.differing > 0
    }

    pub fn finish(self) -> ValueDiff {
        self.diff
    }
}

/// Compares sparse tensors of equal shape by their stored elements. An element stored by only one of them is a
/// difference, even if it is zero.
pub fn compare_sparse(a: &Tensor, b: &Tensor, tolerance: Tolerance) -> ValueDiff {
    let dtypes = [a.dtype(), b.dtype()];
    let (a, b) = (Sparse::new(a), Sparse::new(b));
    let (mut a, mut b) = (a.sorted().peekable(), b.sorted().peekable());
    let mut diff = ValueDiff::default();
    loop {
        let order = match (a.peek(), b.peek()) {
            (None, None) => return diff,
            (Some((in_a, _)), Some((in_b, _))) => in_a.cmp(in_b),
            (Some(_), None) => cmp::Ordering::Less,
            (None, Some(_)) => cmp::Ordering::Greater,
        };
        diff.of += 1;
        let (a, b) = (a.next_if(|_| order.is_le()), b.next_if(|_| order.is_ge()));
        let gap = match (&a, &b) {
            (Some((_, a)), Some((_, b))) => gap(dtypes, *a, *b, tolerance),
            _ => Some(Gap::Other),
        };
        if let Some(gap) = gap {
            let index = a.iter().chain(&b).map(|(index, _)| index).next().cloned().unwrap_or_default();
            let value = |element: &Option<(Vec<u64>, Scalar)>| element.as_ref().map(|(_, value)| *value);
            diff.add(gap, || DifferingElement { index: index.clone(), a: value(&a), b: value(&b) });
        }
    }
}

/// Returns whether elements of these dtypes can be compared. Bits without a numeric meaning compare only with the same
/// dtype.
pub fn are_comparable(dtypes: [Dtype; 2]) -> bool {
    dtypes[0] == dtypes[1] || !dtypes.iter().any(|dtype| dtype.is_opaque())
}

/// The difference between two elements.
enum Gap {
    /// A finite number, with the element of B.
    Number { difference: f64, b: f64 },
    /// NaN or infinity.
    NotFinite,
    /// Different bits or truth values, or a missing element.
    Other,
}

/// Returns the difference between two elements, or `None` if they are equal. NaN equals NaN, and 0.0 equals -0.0.
fn gap(dtypes: [Dtype; 2], a: Scalar, b: Scalar, tolerance: Tolerance) -> Option<Gap> {
    use Number::{Float, Integer};

    if dtypes[0] == dtypes[1] && (dtypes[0].is_opaque() || dtypes[0] == Dtype::Bool) {
        return (a != b).then_some(Gap::Other);
    }
    let (Some(number_a), Some(number_b)) = (a.to_number(), b.to_number()) else {
        return complex_gap(a.to_complex(), b.to_complex(), tolerance);
    };
    let (difference, b) = match (number_a, number_b) {
        (Integer(a), Integer(b)) if a == b => return None,
        (Integer(a), Integer(b)) => (a.abs_diff(b) as f64, b as f64),
        (Float(a), Float(b)) if a == b || a.is_nan() && b.is_nan() => return None,
        (Float(a), Float(b)) => ((a - b).abs(), b),
        (Integer(a), Float(b)) => (mixed_difference(a, b)?, b),
        (Float(a), Integer(b)) => (mixed_difference(b, a)?, b as f64),
    };
    tolerance.gap(difference, b)
}

/// Returns the distance between two complex numbers, as [`gap`].
fn complex_gap(a: (f64, f64), b: (f64, f64), tolerance: Tolerance) -> Option<Gap> {
    let is_nan = |(real, imaginary): (f64, f64)| real.is_nan() || imaginary.is_nan();
    if a == b || is_nan(a) && is_nan(b) {
        return None;
    }
    tolerance.gap((a.0 - b.0).hypot(a.1 - b.1), b.0.hypot(b.1))
}

impl Tolerance {
    /// Returns the gap between two numbers, unless it is tolerated. `b` is the second number.
    fn gap(self, difference: f64, b: f64) -> Option<Gap> {
        match difference.is_finite() {
            true if difference <= self.atol + self.rtol * b.abs() => None,
            true => Some(Gap::Number { difference, b }),
            false => Some(Gap::NotFinite),
        }
    }
}

/// Returns the difference between an integer and a float, or `None` if they are exactly equal.
fn mixed_difference(integer: i128, float: f64) -> Option<f64> {
    /// Larger than the integers of every dtype.
    const LARGE: f64 = 1e30;
    if float.fract() != 0.0 || float.abs() > LARGE {
        return Some((integer as f64 - float).abs());
    }
    #[expect(clippy::cast_possible_truncation, reason = "it is a whole number, and not that large")]
    let difference = integer.abs_diff(float as i128);
    (difference > 0).then_some(difference as f64)
}

impl ValueDiff {
    /// Adds a differing element. `place` is only called if the element is kept.
    fn add(&mut self, gap: Gap, place: impl Fn() -> DifferingElement) {
        self.differing += 1;
        if self.first.is_none() {
            self.first = Some(place());
        }
        match gap {
            Gap::Number { difference, b } => {
                raise(&mut self.max_abs, difference, &place);
                // Infinite if `b` is zero, which `raise` ignores.
                raise(&mut self.max_rel, difference / b.abs(), &place);
            }
            Gap::NotFinite => {
                self.not_finite += 1;
                self.first_not_finite.get_or_insert_with(place);
            }
            Gap::Other => {}
        }
    }

    /// Adds the differences between later elements of the same tensors.
    fn append(&mut self, later: Self) {
        self.differing += later.differing;
        self.not_finite += later.not_finite;
        self.first = self.first.take().or(later.first);
        self.first_not_finite = self.first_not_finite.take().or(later.first_not_finite);
        for (extreme, later) in [(&mut self.max_abs, later.max_abs), (&mut self.max_rel, later.max_rel)] {
            if let Some(Extreme { difference, place }) = later {
                raise(extreme, difference, || place.clone());
            }
        }
    }

    /// Returns the largest difference, infinite if a number became NaN or infinite.
    pub fn max_abs(&self) -> Option<f64> {
        let infinite = self.first_not_finite.as_ref().map(|_| f64::INFINITY);
        infinite.or_else(|| self.max_abs.as_ref().map(|extreme| extreme.difference))
    }

    /// Describes the differences in a line of text.
    pub fn summary(&self) -> String {
        let Self { differing, of, not_finite, .. } = *self;
        let verb = if differing == 1 { "differs" } else { "differ" };
        let mut parts = vec![format!("{} of {} {verb}", count(differing), count(of))];
        // These come first: no other difference is as large.
        let mut others = "";
        if let Some(first) = &self.first_not_finite {
            parts.push(format!("{} by NaN or infinity, max abs inf, first {}", count(not_finite), first.phrase(None)));
            others = "others ";
        }
        match (&self.max_abs, &self.max_rel) {
            (Some(abs), Some(rel)) if abs.place == rel.place => {
                let place = abs.place.phrase(Some((abs.difference, Measure::Absolute)));
                let (abs, rel) = (short(abs.difference), short(rel.difference));
                parts.push(format!("{others}max abs {abs}, max rel {rel} {place}"));
            }
            (abs, rel) => {
                let extremes = [("abs", abs, Measure::Absolute), ("rel", rel, Measure::Relative)].into_iter();
                let extremes = extremes.filter_map(|(kind, extreme, measure)| Some((kind, extreme.as_ref()?, measure)));
                parts.extend(extremes.map(|(kind, extreme, measure)| {
                    let difference = Some((extreme.difference, measure));
                    format!("{others}max {kind} {} {}", short(extreme.difference), extreme.place.phrase(difference))
                }));
            }
        }
        if let Some(first) = self.first.as_ref().filter(|_| self.max_abs().is_none()) {
            parts.push(format!("first {}", first.phrase(None)));
        }
        parts.join("; ")
    }
}

/// Replaces the extreme if the difference is finite and larger.
fn raise(extreme: &mut Option<Extreme>, difference: f64, place: impl Fn() -> DifferingElement) {
    if difference.is_finite() && extreme.as_ref().is_none_or(|extreme| difference > extreme.difference) {
        *extreme = Some(Extreme { difference, place: place() });
    }
}

impl DifferingElement {
    /// Describes the place, the elements and their difference.
    fn phrase(&self, difference: Option<(f64, Measure)>) -> String {
        let Self { index, a, b } = self;
        let text = |value: Option<Scalar>| value.map_or_else(|| "missing".to_owned(), |value| value.to_string());
        match [*a, *b] {
            [None, None] => format!("at {index:?}: the bytes of the block"),
            values if differ_as_texts(values, difference) => format!("at {index:?}: {} -> {}", text(*a), text(*b)),
            values => {
                let [a, b] = values.map(|value| text(value.map(Scalar::with_all_digits)));
                format!("at {index:?}: {a} -> {b}")
            }
        }
    }
}

/// The measure of a difference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Measure {
    Absolute,
    /// In parts of the element of B.
    Relative,
}

/// Returns whether the texts of two elements differ, and by as much as the elements do. For narrow floats, or for two
/// dtypes, the texts may be equal, or differ by a few digits.
fn differ_as_texts(values: [Option<Scalar>; 2], difference: Option<(f64, Measure)>) -> bool {
    let [Some(a), Some(b)] = values else { return true };
    let texts = [a, b].map(|value| value.to_string());
    let Some((difference, measure)) = difference else { return texts[0] != texts[1] };
    match [a, b] {
        [Scalar::Complex(..), _] | [_, Scalar::Complex(..)] => false,
        // They have all digits, and a float may not.
        [Scalar::Integer(_) | Scalar::Bool(_), Scalar::Integer(_) | Scalar::Bool(_)] => true,
        _ => match [&texts[0], &texts[1]].map(|text| text.parse::<f64>()) {
            [Ok(a), Ok(b)] => {
                let found = (a - b).abs() / if measure == Measure::Relative { b.abs() } else { 1.0 };
                short(found) == short(difference)
            }
            _ => true,
        },
    }
}

/// Formats a number with six digits.
fn short(number: f64) -> String {
    let rounded = format!("{number:.5e}").parse().unwrap_or(number);
    Scalar::from(rounded).to_string().trim_end_matches(".0").to_owned()
}

#[cfg(test)]
mod tests {
    use tensorfile::{CooTensor, Element, TensorView};

    use crate::exit::Failure;

    use super::*;

    const EXACT: Tolerance = Tolerance { atol: 0.0, rtol: 0.0 };

    fn compared<A: Element, B: Element>(a: &[A], b: &[B], tolerance: Tolerance) -> ValueDiff {
        let (a, b) = (TensorView::from_slice(a, [a.len()]).unwrap(), TensorView::from_slice(b, [b.len()]).unwrap());
        let mut comparison = Comparison::new([A::DTYPE, B::DTYPE], a.shape(), tolerance);
        comparison.update(a.as_bytes(), b.as_bytes());
        comparison.finish()
    }

    fn count_of<A: Element, B: Element>(a: &[A], b: &[B]) -> u64 {
        compared(a, b, EXACT).differing
    }

    #[test]
    fn compares_exactly_across_dtypes() {
        assert_eq!(count_of(&[1.0_f32, -2.0, 0.0], &[1_i8, -2, 0]), 0);
        assert_eq!(count_of(&[true, false], &[1.0_f64, 0.0]), 0);
        assert_eq!(count_of(&[u64::MAX], &[u64::MAX as f64]), 1);
        assert_eq!(count_of(&[(1_i64 << 53) + 1], &[(1_u64 << 53) as f64]), 1);
        assert_eq!(count_of(&[-1_i64], &[u64::MAX]), 1);
        assert_eq!(count_of(&[0.1_f32], &[0.1_f64]), 1);
        assert_eq!(count_of(&[1_i32], &[f32::INFINITY]), 1);
        assert_eq!(count_of(&[0.5_f32], &[half::bf16::from_f32(0.5)]), 0);
        assert!(!are_comparable([Dtype::QInt8, Dtype::I8]));
    }

    #[test]
    fn nan_equals_nan_and_zeros_are_equal() {
        assert_eq!(count_of(&[f32::NAN, 0.0], &[-f32::NAN, -0.0]), 0);
        let found = compared(&[f32::NAN, 1.0, f32::INFINITY], &[1.0, f32::NAN, f32::INFINITY], EXACT);
        assert_eq!(found.summary(), "2 of 3 differ; 2 by NaN or infinity, max abs inf, first at [0]: nan -> 1.0");
    }

    #[test]
    fn numbers_that_became_infinite_come_first() {
        let (mut a, mut b) = ([1.0_f32; 100], [1.0_f32; 100]);
        (a[0], b[0]) = (3.0, 3.5);
        (a[33], b[33]) = (20.0, 4.5);
        (a[70], b[70]) = (70_000.0, f32::INFINITY);
        (a[80], b[80]) = (f32::NAN, 0.0);
        let found = compared(&a, &b, EXACT);
        let expected = "4 of 100 differ; 2 by NaN or infinity, max abs inf, first at [70]: 70000.0 -> inf; \
                        others max abs 15.5, max rel 3.44444 at [33]: 20.0 -> 4.5";
        assert_eq!((found.summary().as_str(), found.max_abs()), (expected, Some(f64::INFINITY)));
        let json = serde_json::to_value(&found).unwrap();
        assert_eq!((&json["max_abs"]["difference"], &json["max_abs"]["index"][0]), (&"Infinity".into(), &70.into()));
        assert_eq!((&json["max_finite_abs"]["difference"], &json["first"]["index"][0]), (&15.5.into(), &0.into()));
    }

    #[test]
    fn texts_differ_by_what_is_said() {
        use half::f16;

        let found = compared(&[1.1_f32], &[1.1_f64], EXACT).summary();
        assert_eq!(found, "1 of 1 differs; max abs 2.38419e-08, max rel 2.16744e-08 at [0]: 1.100000023841858 -> 1.1");
        // numpy prints both as `46700.0`.
        let [a, b] = [46_688.0_f32, 46_656.0].map(f16::from_f32);
        let found = compared(&[a], &[b], EXACT).summary();
        assert_eq!(found, "1 of 1 differs; max abs 32, max rel 0.000685871 at [0]: 46688.0 -> 46656.0");
        let found = compared(&[f16::from_f32(46_688.0)], &[46_700.0_f32], EXACT).summary();
        assert_eq!(found, "1 of 1 differs; max abs 12, max rel 0.000256959 at [0]: 46688.0 -> 46700.0");
        // Blocks have no elements to print.
        let blocks = [[0_u8; 18], [1; 18]];
        let mut comparison = Comparison::new([Dtype::Q4_0; 2], &[64], EXACT);
        comparison.update(&blocks.concat(), &[blocks[0], [2; 18]].concat());
        assert_eq!(comparison.finish().summary(), "1 of 2 differs; first at [32]: the bytes of the block");
    }

    #[test]
    fn tolerances_are_those_of_numpy() {
        let close = |atol, rtol| compared(&[1.1_f64, 10.5], &[1.0_f64, 10.0], Tolerance { atol, rtol }).differing;
        assert_eq!((close(0.2, 0.0), close(0.6, 0.0)), (1, 0));
        assert_eq!((close(0.0, 0.06), close(0.0, 0.11)), (1, 0));
        assert_eq!(close(0.05, 0.051), 0);
        let infinite = compared(&[1.0_f32], &[f32::INFINITY], Tolerance { atol: 1.0, rtol: 1.0 });
        assert_eq!(infinite.differing, 1);
    }

    #[test]
    fn reports_where_differences_are_largest() {
        let mut comparison = Comparison::new([Dtype::U8; 2], &[2, 3], EXACT);
        comparison.update(&[1, 2, 3], &[1, 2, 13]);
        comparison.update(&[4, 0, 6], &[4, 1, 6]);
        let found = comparison.finish();
        assert_eq!(found.summary(), "2 of 6 differ; max abs 10 at [0, 2]: 3 -> 13; max rel 1 at [1, 1]: 0 -> 1");
    }

    #[test]
    fn threads_find_what_pieces_find() {
        let a: Vec<f32> = (0..5 * PIECE + 7).map(|i| (i % 1000) as f32).collect();
        let mut b = a.clone();
        for (i, by) in [(PIECE - 1, 2.0), (PIECE, f32::NAN), (3 * PIECE, 5.0), (4 * PIECE + 1, 5.0), (a.len() - 1, 1.0)]
        {
            b[i] += by;
        }
        let (a, b) = (TensorView::from_slice(&a, [a.len()]).unwrap(), TensorView::from_slice(&b, [b.len()]).unwrap());
        let comparison = || Comparison::new([Dtype::F32; 2], a.shape(), EXACT);
        let mut pieces = comparison();
        for (a, b) in a.as_bytes().chunks(4 * PIECE).zip(b.as_bytes().chunks(4 * PIECE)) {
            pieces.update(a, b);
        }
        let read = |start_a: u64, to_a: &mut [u8], start_b: u64, to_b: &mut [u8]| {
            for (from, start, to) in [(&a, start_a, to_a), (&b, start_b, to_b)] {
                let start = usize::try_from(start).unwrap();
                to.copy_from_slice(&from.as_bytes()[start..start + to.len()]);
            }
            Ok(())
        };
        let (elements, mut done) = (a.shape().elements().unwrap(), 0);
        let all = comparison().of_all(elements, &read, false, &mut |bytes| done += bytes).unwrap();
        // As text, as NaN is not equal to itself.
        assert_eq!((format!("{all:?}"), done), (format!("{:?}", pieces.finish()), 2 * a.as_bytes().len()));
        let first = comparison().of_all(elements, &read, true, &mut |_| ()).unwrap();
        assert!((1..5).contains(&first.differing));
        let fail = |_: u64, _: &mut [u8], _: u64, _: &mut [u8]| Err(Failure::usage("gone"));
        assert!(comparison().of_all(elements, &fail, false, &mut |_| ()).is_err());
    }

    #[test]
    fn bools_have_no_size_of_difference() {
        let found = compared(&[true, false], &[true, true], EXACT);
        assert_eq!(found.summary(), "1 of 2 differs; first at [1]: False -> True");
    }

    #[test]
    fn compares_stored_elements_of_sparse_tensors() {
        let tensor = |coordinates: &[u64], values: &[f32]| {
            CooTensor::new([3, 3], coordinates.to_vec(), values.to_vec()).unwrap().to_tensor()
        };
        // In another order, and with duplicate coordinates.
        let a = tensor(&[2, 2, 0, 1, 0, 1], &[5.0, 9.0, 1.0]);
        let b = tensor(&[0, 1, 2, 2], &[1.0, 5.0]);
        assert_eq!(compare_sparse(&a, &b, EXACT), ValueDiff { of: 2, ..ValueDiff::default() });
        let found = compare_sparse(&a, &tensor(&[0, 1, 1, 0], &[1.0, 0.0]), EXACT);
        assert_eq!(found.summary(), "2 of 3 differ; first at [1, 0]: missing -> 0.0");
    }
}
