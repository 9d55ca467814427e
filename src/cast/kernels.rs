//! The ways from one dtype to another.
//!
//! Each number could go by [`Number`], and where nothing else is said it does. Floats of up to 32 bits go by `f32`
//! instead, which holds all of their numbers, a chunk at a time; and a few pairs go directly.

use bytemuck::Pod;
use half::{bf16, f16};
use num_traits::{AsPrimitive, Bounded, Float};

use super::CastLoss;
use crate::tensor::{
    CHUNK, Dtype, Element, F8E4M3Fn, F8E4M3Fnuz, F8E5M2, F8E5M2Fnuz, Number, SmallFloat, in_chunks, nearest, number,
    to_le_bytes,
};

/// How many elements changed.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Tally {
    /// All numbers that became others, also those that follow.
    pub(super) changed: u64,
    pub(super) overflowed: u64,
    pub(super) underflowed: u64,
    pub(super) nan_to_zero: u64,
}

impl Tally {
    fn of(from: Number, to: Number, is_beyond: bool) -> Self {
        let changed = !from.is_nan() && !from.is(to);
        Self {
            changed: changed.into(),
            overflowed: (changed && is_beyond).into(),
            underflowed: (changed && !is_beyond && to.is(Number::Integer(0))).into(),
            nan_to_zero: (from.is_nan() && !to.is_nan()).into(),
        }
    }

    fn add(&mut self, other: Self) {
        self.changed += other.changed;
        self.overflowed += other.overflowed;
        self.underflowed += other.underflowed;
        self.nan_to_zero += other.nan_to_zero;
    }

    pub(super) fn losses(&self) -> u64 {
        self.overflowed + self.underflowed + self.nan_to_zero
    }
}

/// Casts elements of one dtype to another.
#[derive(Debug, Clone, Copy)]
pub(super) struct Kernel {
    from: Dtype,
    encode: Encode,
    way: Way,
}

#[derive(Debug, Clone, Copy)]
enum Way {
    Copy,
    Direct(Direct),
    ToF32(Widen),
    ByF32(Widen, Narrow),
    ByNumber,
}

/// Adds the bytes of the nearest element; returns its number, and whether the one given lies beyond the largest.
type Encode = fn(Number, &mut Vec<u8>) -> (Number, bool);
type Direct = fn(&[u8], &mut Vec<u8>) -> Tally;
type Widen = fn(&[u8], &mut dyn FnMut(&[f32]));
/// Narrows up to a chunk; the other slice is room to work in.
type Narrow = fn(&[f32], &mut [f32; CHUNK], &mut Vec<u8>) -> Tally;

/// What is known of a dtype.
struct Row {
    dtype: Dtype,
    encode: Encode,
    by_f32: Option<(Widen, Narrow)>,
}

macro_rules! rows {
    ($($scalar:ty),*; small floats: $($small:ty),*) => {
        &[
            $(Row { dtype: <$scalar>::DTYPE, encode: encode::<$scalar>, by_f32: None },)*
            $(Row {
                dtype: <$small>::DTYPE,
                encode: encode::<$small>,
                by_f32: Some((widen::<$small>, narrow::<$small>)),
            },)*
        ]
    };
}

const ROWS: &[Row] = rows! {
    i8, i16, i32, i64, u8, u16, u32, u64, f64;
    small floats: f32, f16, bf16, F8E5M2, F8E4M3Fn, F8E5M2Fnuz, F8E4M3Fnuz
};

/// Pairs that are common and do not go by `f32`.
const DIRECT: &[(Dtype, Dtype, Direct)] = &[
    (Dtype::F64, Dtype::F32, narrow_float::<f64, f32>),
    (Dtype::F32, Dtype::F64, convert::<f32, f64>),
    (Dtype::I64, Dtype::I32, narrow_integer::<i64, i32>),
    (Dtype::I32, Dtype::I64, convert::<i32, i64>),
];

impl Kernel {
    /// The kernel for these dtypes, if both are of numbers.
    pub(super) fn between(from: Dtype, to: Dtype) -> Option<Self> {
        let row = |dtype: Dtype| ROWS.iter().find(|row| row.dtype == dtype);
        let direct = DIRECT.iter().find(|(a, b, _)| (*a, *b) == (from, to));
        let way = match (row(from)?.by_f32, row(to)?.by_f32) {
            _ if from == to => Way::Copy,
            (Some((widen, _)), Some(_)) if to == Dtype::F32 => Way::ToF32(widen),
            (Some((widen, _)), Some((_, narrow))) => Way::ByF32(widen, narrow),
            _ => direct.map_or(Way::ByNumber, |(_, _, direct)| Way::Direct(*direct)),
        };
        Some(Self { from, encode: row(to)?.encode, way })
    }

    /// Adds the bytes of whole elements, cast.
    pub(super) fn cast(&self, elements: &[u8], out: &mut Vec<u8>) -> Tally {
        let mut tally = Tally::default();
        match self.way {
            Way::Copy => out.extend_from_slice(elements),
            Way::Direct(direct) => tally = direct(elements, out),
            Way::ToF32(widen) => widen(elements, &mut |wide| out.extend_from_slice(&to_le_bytes(wide))),
            Way::ByF32(widen, narrow) => {
                let mut back = [0.0; CHUNK];
                widen(elements, &mut |wide| tally.add(narrow(wide, &mut back, out)));
            }
            Way::ByNumber => self.one_by_one(elements).for_each(|from| {
                let (to, is_beyond) = (self.encode)(from, out);
                tally.add(Tally::of(from, to, is_beyond));
            }),
        }
        tally
    }

    /// The first of these elements that more happens to than rounding.
    pub(super) fn first_loss(&self, elements: &[u8]) -> Option<CastLoss> {
        let mut bytes = Vec::new();
        (0..).zip(self.one_by_one(elements)).find_map(|(element, from)| {
            bytes.clear();
            let (to, is_beyond) = (self.encode)(from, &mut bytes);
            let is_lost = Tally::of(from, to, is_beyond).losses() > 0;
            is_lost.then(|| CastLoss { element, from: from.to_string(), to: to.to_string() })
        })
    }

    fn one_by_one(&self, elements: &[u8]) -> impl Iterator<Item = Number> {
        let from = self.from;
        let number = move |bytes| number(from, bytes).expect("the rows are of numbers");
        elements.chunks_exact(from.block_bytes()).map(number)
    }
}

fn encode<A: Element + Into<Number>>(number: Number, out: &mut Vec<u8>) -> (Number, bool) {
    let (element, is_beyond) = nearest::<A>(number);
    out.extend_from_slice(&to_le_bytes(&[element]));
    (element.into(), is_beyond)
}

fn widen<A: SmallFloat>(bytes: &[u8], take: &mut dyn FnMut(&[f32])) {
    let mut wide = [0.0; CHUNK];
    in_chunks::<A>(bytes, |elements| {
        let wide = &mut wide[..elements.len()];
        A::widen(elements, wide);
        take(wide);
    });
}

fn narrow<A: SmallFloat>(from: &[f32], back: &mut [f32; CHUNK], out: &mut Vec<u8>) -> Tally {
    let mut to = [A::zeroed(); CHUNK];
    let (to, back) = (&mut to[..from.len()], &mut back[..from.len()]);
    A::narrow(from, to);
    A::widen(to, back);
    out.extend_from_slice(&to_le_bytes(to));
    compare(from, back)
}

fn convert<A, B>(bytes: &[u8], out: &mut Vec<u8>) -> Tally
where
    A: Element<Bits = A> + Pod + AsPrimitive<B>,
    B: Element + Pod,
{
    let mut to = [B::zeroed(); CHUNK];
    in_chunks::<A>(bytes, |from| {
        let to = &mut to[..from.len()];
        from.iter().zip(&mut *to).for_each(|(from, to)| *to = from.as_());
        out.extend_from_slice(&to_le_bytes(to));
    });
    Tally::default()
}

fn narrow_float<A, B>(bytes: &[u8], out: &mut Vec<u8>) -> Tally
where
    A: Element<Bits = A> + Pod + Float + AsPrimitive<B>,
    B: Element + Pod + AsPrimitive<A>,
{
    let (mut to, mut back) = ([B::zeroed(); CHUNK], [A::zeroed(); CHUNK]);
    let mut tally = Tally::default();
    in_chunks::<A>(bytes, |from| {
        let (to, back) = (&mut to[..from.len()], &mut back[..from.len()]);
        for ((from, to), back) in from.iter().zip(&mut *to).zip(&mut *back) {
            *to = from.as_();
            *back = to.as_();
        }
        out.extend_from_slice(&to_le_bytes(to));
        tally.add(compare(from, back));
    });
    tally
}

fn narrow_integer<A, B>(bytes: &[u8], out: &mut Vec<u8>) -> Tally
where
    A: Element<Bits = A> + Pod + Ord + AsPrimitive<B>,
    B: Element + Pod + Bounded + AsPrimitive<A>,
{
    let mut to = [B::zeroed(); CHUNK];
    let (smallest, largest) = (B::min_value().as_(), B::max_value().as_());
    let mut beyond = 0;
    in_chunks::<A>(bytes, |from| {
        let to = &mut to[..from.len()];
        for (from, to) in from.iter().zip(&mut *to) {
            let nearest = (*from).clamp(smallest, largest);
            beyond += u64::from(nearest != *from);
            *to = nearest.as_();
        }
        out.extend_from_slice(&to_le_bytes(to));
    });
    Tally { changed: beyond, overflowed: beyond, ..Tally::default() }
}

/// Counts the changes between numbers and what they are after narrowing, up to a chunk of them.
fn compare<F: Float>(from: &[F], to: &[F]) -> Tally {
    let [mut changed, mut overflowed, mut underflowed] = [0_u32; 3];
    // Without branches, so that many are done at once.
    for (&from, &to) in from.iter().zip(to) {
        let (is_changed, is_finite) = (from != to, to.abs() < F::infinity());
        changed += u32::from(is_changed);
        overflowed += u32::from(is_changed & !is_finite);
        underflowed += u32::from(is_changed & (to == F::zero()));
    }
    let mut nan = 0;
    if overflowed > 0 {
        // NaN stays what it is, but is equal to nothing and below no infinity.
        nan = from.iter().map(|from| u64::from(from.is_nan())).sum();
    }
    let [changed, overflowed, underflowed] = [changed, overflowed, underflowed].map(u64::from);
    Tally { changed: changed - nan, overflowed: overflowed - nan, underflowed, nan_to_zero: 0 }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    /// Kernels with a way of their own, each with the same by numbers.
    fn quick_kernels() -> Vec<(Dtype, Kernel, Kernel)> {
        let pairs = ROWS.iter().flat_map(|from| ROWS.iter().map(|to| (from.dtype, to.dtype)));
        let kernels = pairs.filter_map(|(from, to)| Some((to, Kernel::between(from, to)?)));
        let quick = kernels.filter(|(_, kernel)| !matches!(kernel.way, Way::ByNumber | Way::Copy));
        quick.map(|(to, kernel)| (to, kernel, Kernel { way: Way::ByNumber, ..kernel })).collect()
    }

    /// Bytes of any element, and often of one near a power of two or a limit.
    fn bytes() -> impl Strategy<Value = Vec<u8>> {
        let near_a_power = (-1080..1030_i32, -4..4_i32, any::<bool>()).prop_map(|(exponent, step, is_negative)| {
            let number = 2.0_f64.powi(exponent) * (1.0 + f64::from(step) * 2.0_f64.powi(-11));
            if is_negative { -number } else { number }
        });
        #[expect(clippy::cast_possible_truncation, reason = "any numbers do")]
        let element = prop_oneof![
            any::<u64>().prop_map(|bits| bits.to_le_bytes().to_vec()),
            near_a_power.clone().prop_map(|number| number.to_le_bytes().to_vec()),
            near_a_power.clone().prop_map(|number| (number as f32).to_le_bytes().repeat(2)),
            near_a_power.clone().prop_map(|number| f16::from_f64(number).to_le_bytes().repeat(4)),
            near_a_power.prop_map(|number| (number as i64).to_le_bytes().to_vec()),
        ];
        vec(element, 0..40).prop_map(|elements| elements.concat())
    }

    /// The numbers in `bytes`; all NaN are one.
    fn numbers(dtype: Dtype, bytes: &[u8]) -> Vec<String> {
        let number = |bytes| number(dtype, bytes).unwrap().to_string();
        bytes.chunks_exact(dtype.block_bytes()).map(number).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn quick_ways_lead_to_where_the_exact_one_does(bytes in bytes()) {
            for (to, quick, exact) in quick_kernels() {
                let (mut quick_out, mut exact_out) = (Vec::new(), Vec::new());
                let (found, expected) = (quick.cast(&bytes, &mut quick_out), exact.cast(&bytes, &mut exact_out));
                let context = format!("{} to {to}: {:?}", quick.from, numbers(quick.from, &bytes));
                prop_assert_eq!(numbers(to, &quick_out), numbers(to, &exact_out), "{}", context);
                prop_assert_eq!(format!("{found:?}"), format!("{expected:?}"), "{}", context);
            }
        }
    }

    #[test]
    fn every_16_bit_float_goes_the_exact_way() {
        let bytes: Vec<u8> = (0..=u16::MAX).flat_map(u16::to_le_bytes).collect();
        for (to, quick, exact) in quick_kernels().into_iter().filter(|(_, kernel, _)| kernel.from.block_bytes() == 2) {
            let (mut quick_out, mut exact_out) = (Vec::new(), Vec::new());
            let (found, expected) = (quick.cast(&bytes, &mut quick_out), exact.cast(&bytes, &mut exact_out));
            assert!(numbers(to, &quick_out) == numbers(to, &exact_out), "{} to {to}", quick.from);
            assert_eq!(format!("{found:?}"), format!("{expected:?}"), "{} to {to}", quick.from);
        }
    }
}
