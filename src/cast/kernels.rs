//! Casts of whole elements.
//!
//! A cast takes two steps: from the source dtype to a hub and from there to the target dtype, a chunk at a time. Hubs
//! are `f32`, `f64`, `i32` and `i64`. Each pair of dtypes has a hub that represents the numbers of the source exactly,
//! or precisely enough to round them correctly. [`Kernel::one_by_one`] defines the results; the steps are tested
//! against it.
//!
//! Loops over elements have no branches, and only operations with vector instructions on every processor.

use std::ops::AddAssign;

use bytemuck::Pod;
use half::{bf16, f16};
use num_traits::Float;

use super::changes::Changes;
use super::nearest::nearest;
use super::number::{Number, Numeric, if_number, round_to_f32, round_to_odd_f32};
use super::small_float::SmallFloat;
use super::vectors::{map, round_and_count, widest};
use super::{CHUNK, elements, in_chunks};
use crate::tensor::{Dtype, Element, for_each_dtype};

const TWO_TO_32: f64 = 4_294_967_296.0;

/// Casts elements of one dtype to another.
#[derive(Debug, Clone, Copy)]
pub(super) struct Kernel {
    from: Dtype,
    encode: EncodeNumber,
    route: Route,
}

#[derive(Debug, Clone, Copy)]
enum Route {
    Copy,
    Direct(Direct),
    ByF32(ToHub<f32>, FromHub<f32>),
    ByF64(ToHub<f64>, FromHub<f64>),
    ByI32(ToHub<i32>, FromHub<i32>),
    ByI64(ToHub<i64>, FromHub<i64>),
}

/// Appends the bytes of the nearest element. Returns its number, and `true` if the number given is out of range.
type EncodeNumber = fn(Number, &mut Vec<u8>) -> (Number, bool);
type Direct = fn(&[u8], &mut Vec<u8>) -> Changes;
/// Calls the function with the elements in little-endian bytes, a chunk at a time.
type ToHub<H> = fn(&[u8], &mut dyn FnMut(&[H]));
/// Appends the little-endian bytes of a chunk of numbers.
type FromHub<H> = fn(&[H], &mut Vec<u8>) -> Changes;

impl Kernel {
    /// Returns the kernel for a pair of numeric dtypes; otherwise `None`.
    pub(super) fn between(from: Dtype, to: Dtype) -> Option<Self> {
        let (source, target) = (steps(from)?, steps(to)?);
        let direct = DIRECT.iter().find(|(a, b, _)| (*a, *b) == (from, to));
        let route = match (direct, source, target) {
            _ if from == to => Route::Copy,
            (Some((_, _, direct)), ..) => Route::Direct(*direct),
            (_, _, Steps { from_odd_f32: Some(from), .. }) => Route::ByF32(source.to_odd_f32, *from),
            (_, Steps { to_i32: Some(to), .. }, Steps { from_i32: Some(from), .. }) => Route::ByI32(*to, *from),
            (_, Steps { to_i64: Some(to), .. }, Steps { from_i64: Some(from), .. }) => Route::ByI64(*to, *from),
            (_, Steps { to_f32: Some(to), .. }, Steps { from_f32: Some(from), .. }) => Route::ByF32(*to, *from),
            (_, _, Steps { from_f64: Some(from), .. }) => Route::ByF64(source.to_f64, *from),
            _ => return None,
        };
        Some(Self { from, encode: target.encode, route })
    }

    /// Casts little-endian elements, and appends the little-endian results to `out`.
    pub(super) fn cast(&self, elements: &[u8], out: &mut Vec<u8>) -> Changes {
        fn by_hub<H>(to: ToHub<H>, from: FromHub<H>, elements: &[u8], out: &mut Vec<u8>) -> Changes {
            let mut changes = Changes::default();
            to(elements, &mut |chunk| changes.add(from(chunk, out)));
            changes
        }

        match self.route {
            Route::Copy => {
                out.extend_from_slice(elements);
                Changes::default()
            }
            Route::Direct(direct) => direct(elements, out),
            Route::ByF32(to, from) => by_hub(to, from, elements, out),
            Route::ByF64(to, from) => by_hub(to, from, elements, out),
            Route::ByI32(to, from) => by_hub(to, from, elements, out),
            Route::ByI64(to, from) => by_hub(to, from, elements, out),
        }
    }

    /// Returns the number of elements in `elements`.
    pub(super) fn count(&self, elements: &[u8]) -> usize {
        elements.len() / self.from.block_bytes()
    }

    /// Finds the first element whose change `is_wanted`: its index, its number, and its new number. A combined change
    /// of several elements must be wanted exactly if one of their changes is.
    pub(super) fn first(
        &self,
        elements: &[u8],
        is_wanted: impl Fn(Changes) -> bool,
    ) -> Option<(usize, Number, Number)> {
        let mut out = Vec::new();
        let has_wanted = |chunk: &[u8]| {
            out.clear();
            is_wanted(self.cast(chunk, &mut out))
        };
        let chunk_bytes = CHUNK * self.from.block_bytes();
        let before = elements.chunks(chunk_bytes).position(has_wanted)? * CHUNK;
        let mut casts = self.one_by_one(&elements[before * self.from.block_bytes()..]).enumerate();
        casts.find_map(|(index, (from, to, changes))| is_wanted(changes).then_some((before + index, from, to)))
    }

    /// Casts the numbers one by one.
    fn one_by_one(&self, elements: &[u8]) -> impl Iterator<Item = (Number, Number, Changes)> {
        let Self { from, encode, .. } = *self;
        let mut bytes = Vec::new();
        elements.chunks_exact(from.block_bytes()).map(move |element| {
            let number = Number::from_le_bytes(from, element).expect("a kernel is between numeric dtypes");
            bytes.clear();
            let (to, is_out_of_range) = encode(number, &mut bytes);
            (number, to, Changes::between(number, to, is_out_of_range))
        })
    }
}

/// Reads the elements of a numeric dtype as floats, exactly, except for integers of 64 bits.
#[derive(Debug, Clone, Copy)]
pub(crate) enum FloatChunks {
    F32(ToHub<f32>),
    F64(ToHub<f64>),
}

/// Returns a function that reads elements as `f32`, or as `f64` if `f32` is not exact. `None` for non-numeric dtypes.
pub(crate) fn float_chunks(dtype: Dtype) -> Option<FloatChunks> {
    let steps = steps(dtype)?;
    Some(steps.to_f32.map_or(FloatChunks::F64(steps.to_f64), FloatChunks::F32))
}

/// The steps from a dtype to the hubs and back.
struct Steps {
    encode: EncodeNumber,
    to_f32: Option<ToHub<f32>>,
    from_f32: Option<FromHub<f32>>,
    /// Inexact numbers are rounded to odd, so that a second rounding is correct.
    to_odd_f32: ToHub<f32>,
    /// Floats of fewer bits than `f32` only.
    from_odd_f32: Option<FromHub<f32>>,
    /// 64-bit integers are rounded to odd, so that a second rounding is correct.
    to_f64: ToHub<f64>,
    from_f64: Option<FromHub<f64>>,
    /// Set for integers, if `i32` holds all of them.
    to_i32: Option<ToHub<i32>>,
    from_i32: Option<FromHub<i32>>,
    /// Set for integers. Larger ones become the largest `i64`.
    to_i64: Option<ToHub<i64>>,
    from_i64: Option<FromHub<i64>>,
}

/// Pairs without a sufficiently precise hub, and pairs that are faster without one.
const DIRECT: &[(Dtype, Dtype, Direct)] = &[
    (Dtype::I8, Dtype::F16, append_exact::<i8, f16>),
    (Dtype::I8, Dtype::Bf16, append_exact::<i8, bf16>),
    (Dtype::U8, Dtype::F16, append_exact::<u8, f16>),
    (Dtype::U8, Dtype::Bf16, append_exact::<u8, bf16>),
    (Dtype::I32, Dtype::F32, |bytes, out| append_nearest(bytes, nearest_f32::<i32>, out)),
    (Dtype::U32, Dtype::F32, |bytes, out| append_nearest(bytes, nearest_f32::<u32>, out)),
    (Dtype::I64, Dtype::F64, |bytes, out| append_nearest(bytes, nearest_f64::<i64>, out)),
    (Dtype::U64, Dtype::F64, |bytes, out| append_nearest(bytes, nearest_f64::<u64>, out)),
    (Dtype::I8, Dtype::U8, append_clamped::<i8, u8>),
    (Dtype::U8, Dtype::I8, append_clamped::<u8, i8>),
    (Dtype::I16, Dtype::U16, append_clamped::<i16, u16>),
    (Dtype::U16, Dtype::I16, append_clamped::<u16, i16>),
    (Dtype::I32, Dtype::U32, append_clamped::<i32, u32>),
    (Dtype::U32, Dtype::I32, append_clamped::<u32, i32>),
    (Dtype::I64, Dtype::U64, append_clamped::<i64, u64>),
    (Dtype::U64, Dtype::I64, append_clamped::<u64, i64>),
];

/// Returns the steps of a numeric dtype.
fn steps(dtype: Dtype) -> Option<&'static Steps> {
    macro_rules! steps {
        ($($variant:ident $name:literal $elements:literal / $bytes:literal $class:ident $scalar:ty as $bits:ty, $doc:literal;)*) => {
            match dtype {
                $(Dtype::$variant => if_number!($class => Some(&<$scalar as Cast>::STEPS), else None),)*
            }
        };
    }

    for_each_dtype!(steps)
}

trait Cast {
    const STEPS: Steps;
}

macro_rules! casts {
    ($($variant:ident $name:literal $elements:literal / $bytes:literal $class:ident $scalar:ty as $bits:ty, $doc:literal;)*) => {
        $(cast!($class $scalar);)*
    };
}

macro_rules! cast {
    (Signed $scalar:ty) => { cast!(Integer $scalar); };
    (Unsigned $scalar:ty) => { cast!(Integer $scalar); };
    (Float8 $scalar:ty) => { cast!(SmallFloat $scalar); };
    (Integer $scalar:ty) => {
        impl Cast for $scalar {
            const STEPS: Steps = integer_steps::<$scalar>();
        }

        // All of these are parts of loops that `vectors::widest` compiles for the vectors of the processor. It compiles
        // only what is inlined, and a conversion that can fail would keep the loop from being vectorized.
        impl Integer for $scalar {
            const BEGIN: f64 = <$scalar>::MIN as f64;
            const END: f64 = <$scalar>::MAX as f64 + 1.0;
            const LARGEST: Self = <$scalar>::MAX;

            #[allow(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "the halves of an integer of up to 64 bits"
            )]
            #[inline(always)]
            fn halves(self) -> (i64, u32) {
                let wide = i128::from(self);
                ((wide >> 32) as i64, wide as u32)
            }

            #[allow(clippy::cast_precision_loss, reason = "rounds to the nearest")]
            #[inline(always)]
            fn to_f32(self) -> f32 {
                self as f32
            }

            #[allow(clippy::cast_precision_loss, reason = "only what `f32` holds is cast")]
            #[inline(always)]
            fn to_odd_f32(self) -> f32 {
                match size_of::<Self>() {
                    1 | 2 => self as f32,
                    4 => {
                        // Without the low 8 bits, `f32` holds any integer of 32 bits. The next bit is set if they had
                        // one.
                        let (low, next) = (Self::from_low_bits(0xff), Self::from_low_bits(0x100));
                        let end = Self::from_low_bits(1 << 24);
                        let is_exact = (self <= end) & (self >= Self::from_i64(-(1 << 24)));
                        let odd = self & !low | ((self & low) + low) & next;
                        (if is_exact { self } else { odd }) as f32
                    }
                    _ => round_to_odd_f32(to_odd_f64(self)),
                }
            }

            #[inline(always)]
            fn to_f64(self) -> f64 {
                self as f64
            }

            #[allow(clippy::cast_possible_truncation, clippy::cast_possible_wrap, reason = "only called where it is exact")]
            #[inline(always)]
            fn to_i32(self) -> i32 {
                self as i32
            }

            #[inline(always)]
            fn to_i64(self) -> i64 {
                self.try_into().unwrap_or(i64::MAX)
            }

            #[allow(
                clippy::cast_possible_truncation,
                clippy::cast_possible_wrap,
                clippy::cast_sign_loss,
                reason = "the low bits are what is asked for"
            )]
            #[inline(always)]
            fn from_low_bits(bits: u64) -> Self {
                bits as Self
            }

            fn from_i64(number: i64) -> Self {
                number.try_into().unwrap_or(if number < 0 { Self::MIN } else { Self::MAX })
            }
        }
    };
    (SmallFloat $scalar:ty) => {
        impl Cast for $scalar {
            const STEPS: Steps = small_float_steps::<$scalar>();
        }
    };
    // Floats of Rust and `half` follow below.
    ($class:ident $scalar:ty) => {};
}

for_each_dtype!(casts);
cast!(SmallFloat f16);
cast!(SmallFloat bf16);

impl Cast for f32 {
    const STEPS: Steps = Steps {
        encode: encode::<f32>,
        to_f32: Some(|bytes, take| in_chunks(bytes, take)),
        from_f32: Some(append_unchanged),
        to_odd_f32: |bytes, take| in_chunks(bytes, take),
        from_odd_f32: None,
        to_f64: |bytes, take| convert::<f32, f64>(bytes, Into::into, take),
        from_f64: Some(|numbers, out| append_rounded(numbers, round_to_f32, Into::into, out)),
        to_i32: None,
        from_i32: None,
        to_i64: None,
        from_i64: None,
    };
}

impl Cast for f64 {
    const STEPS: Steps = Steps {
        encode: encode::<f64>,
        to_f32: None,
        from_f32: None,
        to_odd_f32: |bytes, take| convert(bytes, round_to_odd_f32, take),
        from_odd_f32: None,
        to_f64: |bytes, take| in_chunks(bytes, take),
        from_f64: Some(append_unchanged),
        to_i32: None,
        from_i32: None,
        to_i64: None,
        from_i64: None,
    };
}

const fn small_float_steps<A: SmallFloat>() -> Steps {
    Steps {
        encode: encode::<A>,
        to_f32: Some(widen::<A>),
        from_f32: None,
        to_odd_f32: widen::<A>,
        from_odd_f32: Some(narrow::<A>),
        to_f64: |bytes, take| {
            let mut wide = [0.0; CHUNK];
            widen::<A>(bytes, &mut |floats| {
                let wide = &mut wide[..floats.len()];
                map(floats, wide, f64::from);
                take(wide);
            });
        },
        from_f64: None,
        to_i32: None,
        from_i32: None,
        to_i64: None,
        from_i64: None,
    }
}

const fn integer_steps<A: Integer>() -> Steps {
    // `f32` holds all integers of 16 bits.
    let is_small = size_of::<A>() <= 2;
    let to_f32: ToHub<f32> = |bytes, take| convert(bytes, A::to_f32, take);
    let to_i32: ToHub<i32> = |bytes, take| convert(bytes, A::to_i32, take);
    let to_f64: ToHub<f64> = |bytes, take| convert(bytes, A::to_f64, take);
    Steps {
        encode: encode::<A>,
        to_f32: if is_small { Some(to_f32) } else { None },
        from_f32: if is_small { Some(append_integers::<A, f32>) } else { None },
        to_odd_f32: |bytes, take| convert(bytes, A::to_odd_f32, take),
        from_odd_f32: None,
        to_f64: if size_of::<A>() < size_of::<u64>() {
            to_f64
        } else {
            |bytes, take| convert(bytes, to_odd_f64::<A>, take)
        },
        from_f64: Some(append_integers::<A, f64>),
        to_i32: if A::END <= i32::END { Some(to_i32) } else { None },
        from_i32: Some(append_in_range::<A, i32>),
        to_i64: Some(|bytes, take| convert(bytes, A::to_i64, take)),
        from_i64: Some(append_in_range::<A, i64>),
    }
}

/// An integer with the conversions of `as`.
trait Integer: Numeric + Ord {
    /// The smallest integer.
    const BEGIN: f64;
    /// The largest integer, plus 1.
    const END: f64;
    const LARGEST: Self;

    /// Returns the high bits, with the sign, and the low 32 bits.
    fn halves(self) -> (i64, u32);
    fn to_f32(self) -> f32;
    fn to_odd_f32(self) -> f32;
    fn to_f64(self) -> f64;
    fn to_i32(self) -> i32;
    /// Converts a number, and saturates.
    fn to_i64(self) -> i64;
    fn from_low_bits(bits: u64) -> Self;
    /// Converts a number, and saturates.
    fn from_i64(number: i64) -> Self;
}

/// A float rounded to an integer by adding [`SHIFT`](Self::SHIFT). The low bits of the sum are the integer.
trait Rounded: Float + Into<f64> {
    /// From here on, floats are whole numbers and 1 apart.
    const SHIFT: Self;
    /// An integer of the same size, so that counting has the same number of lanes.
    type Count: Copy + Default + From<bool> + Into<u64> + AddAssign;

    fn low_bits(self) -> u64;
    fn nearest(number: f64) -> Self;
}

// Inlined into loops for wide vectors, in both implementations.
impl Rounded for f32 {
    const SHIFT: Self = 1.5 * (1 << (Self::MANTISSA_DIGITS - 1)) as Self;
    type Count = u32;

    #[inline(always)]
    fn low_bits(self) -> u64 {
        self.to_bits().into()
    }

    #[inline(always)]
    fn nearest(number: f64) -> Self {
        round_to_f32(number)
    }
}

impl Rounded for f64 {
    const SHIFT: Self = 1.5 * (1_u64 << (Self::MANTISSA_DIGITS - 1)) as Self;
    type Count = u64;

    #[inline(always)]
    fn low_bits(self) -> u64 {
        self.to_bits()
    }

    #[inline(always)]
    fn nearest(number: f64) -> Self {
        number
    }
}

fn encode<A: Numeric>(number: Number, out: &mut Vec<u8>) -> (Number, bool) {
    let (element, is_out_of_range) = nearest::<A>(number);
    out.extend_from_slice(&Element::as_le_bytes(&[element]));
    (element.into(), is_out_of_range)
}

fn convert<A: Numeric, H: Copy + Default>(bytes: &[u8], to: impl Fn(A) -> H + Copy, take: &mut dyn FnMut(&[H])) {
    let mut converted = [H::default(); CHUNK];
    in_chunks::<A>(bytes, |elements| {
        let converted = &mut converted[..elements.len()];
        map(elements, converted, to);
        take(converted);
    });
}

fn widen<A: SmallFloat>(bytes: &[u8], take: &mut dyn FnMut(&[f32])) {
    let mut wide = [0.0; CHUNK];
    in_chunks::<A>(bytes, |elements| {
        let wide = &mut wide[..elements.len()];
        A::widen(elements, wide);
        take(wide);
    });
}

/// Rounds to odd: the last bit of the result is set if bits were lost.
// These are inlined into loops for wide vectors.
#[inline(always)]
fn to_odd_f64<A: Integer>(integer: A) -> f64 {
    let (nearest, lost) = to_nearest_f64(integer);
    let is_above = (lost < 0.0) & (nearest > 0.0) | (lost > 0.0) & (nearest < 0.0);
    let toward_zero = if is_above { nearest.to_bits().wrapping_sub(1) } else { nearest.to_bits() };
    f64::from_bits(if lost == 0.0 { nearest.to_bits() } else { toward_zero | 1 })
}

/// Rounds to the nearest float, ties to even. Returns the difference too.
#[inline(always)]
fn to_nearest_f64<A: Integer>(integer: A) -> (f64, f64) {
    /// From here on, floats are whole numbers and 1 apart.
    const WHOLE: f64 = (1_u64 << (f64::MANTISSA_DIGITS - 1)) as f64;
    let (high, low) = integer.halves();
    // An integer in the low bits of a large float is added to it.
    let high = f64::from_bits(high.cast_unsigned().wrapping_add(f64::SHIFT.to_bits())) - f64::SHIFT;
    let low = f64::from_bits(u64::from(low) | WHOLE.to_bits()) - WHOLE;
    let high = high * TWO_TO_32;
    let nearest = high + low;
    // Exact, because `high` is 0 or larger than `low`.
    (nearest, low - (nearest - high))
}

fn append_unchanged<A: Element>(elements: &[A], out: &mut Vec<u8>) -> Changes {
    out.extend_from_slice(&Element::as_le_bytes(elements));
    Changes::default()
}

/// Appends up to a chunk of numbers, rounded; `back` is exact.
fn append_rounded<A: Numeric, F: Float>(
    numbers: &[F],
    round: impl Fn(F) -> A,
    back: impl Fn(A) -> F,
    out: &mut Vec<u8>,
) -> Changes {
    elements::append(out, numbers.len(), |rounded| round_and_count(numbers, rounded, round, back)).of(numbers)
}

fn narrow<A: SmallFloat>(numbers: &[f32], out: &mut Vec<u8>) -> Changes {
    elements::append(out, numbers.len(), |narrowed| A::narrow_and_count(numbers, narrowed)).of(numbers)
}

/// Rounds to the nearest integer in range. NaN becomes 0.
fn append_integers<A: Integer, F: Rounded>(numbers: &[F], out: &mut Vec<u8>) -> Changes {
    elements::append(out, numbers.len(), |integers| {
        let changes = widest(round_in_range::<A, F>, (numbers, &mut *integers));
        // Few chunks have numbers out of range.
        changes.unwrap_or_else(|| widest(round_any::<A, F>, (numbers, integers)))
    })
}

const fn is_wide<A>() -> bool {
    size_of::<A>() == size_of::<u64>()
}

/// Rounds numbers to integers of up to 32 bits. `None` if one is out of range or NaN.
// Inlined into `widest`, as `round_any`, which is for chunks with a number out of range: most have none, and are
// counted by less.
#[inline(always)]
fn round_in_range<A: Integer, F: Rounded>((numbers, integers): (&[F], &mut [A])) -> Option<Changes> {
    if is_wide::<A>() {
        return None;
    }
    let (begin, last) = (F::nearest(A::BEGIN), F::nearest(A::END - 1.0));
    let [mut changed, mut underflowed, mut out_of_range] = [F::Count::default(); 3];
    for (&number, integer) in numbers.iter().zip(integers) {
        // NaN becomes `begin`.
        let in_range = if number > begin { number } else { begin };
        let in_range = if in_range < last { in_range } else { last };
        let shifted = in_range + F::SHIFT;
        let rounded = shifted - F::SHIFT;
        *integer = A::from_low_bits(shifted.low_bits());
        changed += F::Count::from(rounded != number);
        underflowed += F::Count::from((rounded == F::zero()) & (number != F::zero()));
        out_of_range += F::Count::from(in_range != number);
    }
    let changes = Changes { changed: changed.into(), underflowed: underflowed.into(), ..Changes::default() };
    (out_of_range.into() == 0).then_some(changes)
}

#[inline(always)]
fn round_any<A: Integer, F: Rounded>((numbers, integers): (&[F], &mut [A])) -> Changes {
    let (begin, end) = (F::nearest(A::BEGIN), F::nearest(A::END));
    let (step, part) = (F::nearest(TWO_TO_32), F::nearest(1.0 / TWO_TO_32));
    // The largest float in range.
    let last = F::nearest(if is_wide::<A>() { A::END.next_down() } else { A::END - 1.0 });
    // Ties go to the limits, which are even, and not beyond them. From 2^53 on there are no halves.
    let (low, high) = (F::nearest(A::BEGIN - 0.5), F::nearest(A::END - 0.5));
    debug_assert!(is_wide::<A>() || end - begin < F::SHIFT, "the integers are in the low bits");

    let [mut changed, mut overflowed, mut underflowed, mut nan_to_zero] = [F::Count::default(); 4];
    for (&number, integer) in numbers.iter().zip(integers) {
        let is_nan = number.is_nan();
        let number = if is_nan { F::zero() } else { number };
        let in_range = if number < begin { begin } else { number };
        let in_range = if in_range > last { last } else { in_range };
        let is_out_of_range = (number < low) | (number >= high);
        let rounded;
        if is_wide::<A>() {
            // The high and the low 32 bits, each rounded to the nearest, so the low ones may be negative.
            let high_bits = in_range * part + F::SHIFT;
            let high_part = (high_bits - F::SHIFT) * step;
            let low_bits = (in_range - high_part) + F::SHIFT;
            rounded = high_part + (low_bits - F::SHIFT);
            let bits = low_bits.low_bits().wrapping_sub(F::SHIFT.low_bits());
            let nearest = A::from_low_bits((high_bits.low_bits() << 32).wrapping_add(bits));
            *integer = if number >= high { A::LARGEST } else { nearest };
        } else {
            let shifted = in_range + F::SHIFT;
            rounded = shifted - F::SHIFT;
            *integer = A::from_low_bits(shifted.low_bits());
        }
        changed += F::Count::from(rounded != number);
        overflowed += F::Count::from(is_out_of_range);
        underflowed += F::Count::from((rounded == F::zero()) & (number != F::zero()) & !is_out_of_range);
        nan_to_zero += F::Count::from(is_nan);
    }
    Changes {
        changed: changed.into(),
        overflowed: overflowed.into(),
        underflowed: underflowed.into(),
        nan_to_zero: nan_to_zero.into(),
    }
}

/// Appends the nearest integers in range.
fn append_in_range<A: Integer, H: Integer + Into<i64>>(numbers: &[H], out: &mut Vec<u8>) -> Changes {
    // Inlined into `widest`.
    #[inline(always)]
    fn clamp<A: Integer, H: Integer + Into<i64>>((numbers, integers): (&[H], &mut [A])) -> u32 {
        // The limits of `A`, or of the hub if it has less room. Compared in the hub, more are done at once.
        let (smallest, largest) =
            (H::from_i64(A::from_i64(i64::MIN).to_i64()), H::from_i64(A::from_i64(i64::MAX).to_i64()));
        let mut overflowed = 0;
        for (&number, integer) in numbers.iter().zip(integers) {
            overflowed += u32::from((number < smallest) | (number > largest));
            let in_range: i64 = number.clamp(smallest, largest).into();
            *integer = A::from_low_bits(in_range.cast_unsigned());
        }
        overflowed
    }

    if (A::BEGIN, A::END) == (H::BEGIN, H::END) {
        return append_unchanged(numbers, out);
    }
    let overflowed = elements::append(out, numbers.len(), |integers| widest(clamp::<A, H>, (numbers, integers))).into();
    Changes { changed: overflowed, overflowed, ..Changes::default() }
}

/// Returns the nearest float, ties to even, and `true` if it is another number.
// Both are inlined into the loop below.
#[inline(always)]
fn nearest_f32<A: Integer>(integer: A) -> (f32, bool) {
    let nearest = integer.to_f32();
    (nearest, f64::from(nearest) != integer.to_f64())
}

/// Returns the nearest float, ties to even, and `true` if it is another number.
#[inline(always)]
fn nearest_f64<A: Integer>(integer: A) -> (f64, bool) {
    let (nearest, lost) = to_nearest_f64(integer);
    (nearest, lost != 0.0)
}

/// Appends rounded integers. All are in range.
fn append_nearest<A: Integer, F: Element + Pod>(
    bytes: &[u8],
    round: impl Fn(A) -> (F, bool) + Copy,
    out: &mut Vec<u8>,
) -> Changes {
    // Inlined into `widest`.
    #[inline(always)]
    fn each<A: Integer, F>((integers, floats, round): (&[A], &mut [F], impl Fn(A) -> (F, bool))) -> u32 {
        let mut changed = 0;
        for (integer, float) in integers.iter().zip(floats) {
            let (nearest, is_changed) = round(*integer);
            *float = nearest;
            changed += u32::from(is_changed);
        }
        changed
    }

    let mut changed = 0;
    in_chunks::<A>(bytes, |integers| {
        let now = elements::append(out, integers.len(), |floats| widest(each, (integers, floats, round)));
        changed += u64::from(now);
    });
    Changes { changed, ..Changes::default() }
}

/// Appends integers as floats, exactly.
// No change is looked for: converting back and comparing took 13.4 instead of 3.9 instructions for each element of
// `i8`.
fn append_exact<A: Integer, F: SmallFloat>(bytes: &[u8], out: &mut Vec<u8>) -> Changes {
    convert(bytes, A::to_f32, &mut |wide| elements::append(out, wide.len(), |floats| F::narrow(wide, floats)));
    Changes::default()
}

/// Appends the nearest integers in range, of the same size.
fn append_clamped<A: Integer, B: Integer>(bytes: &[u8], out: &mut Vec<u8>) -> Changes {
    // Integers of one size are clamped without being widened first. Inlined into `widest`.
    #[inline(always)]
    fn clamp<A: Integer, B: Integer>(integer: A) -> A {
        let (smallest, largest) = (B::from_i64(i64::MIN).to_i64(), B::from_i64(i64::MAX).to_i64());
        integer.clamp(A::from_i64(smallest), A::from_i64(largest))
    }

    #[inline(always)]
    fn each<A: Integer, B: Integer>((integers, clamped): (&[A], &mut [B])) -> bool {
        let mut any_overflowed = false;
        for (&integer, to) in integers.iter().zip(clamped) {
            let in_range = clamp::<A, B>(integer);
            any_overflowed |= in_range != integer;
            *to = B::from_low_bits(in_range.to_i64().cast_unsigned());
        }
        any_overflowed
    }

    let mut overflowed = 0;
    in_chunks::<A>(bytes, |integers| {
        // Counters have more bits than small integers, so counting has fewer lanes.
        if elements::append(out, integers.len(), |clamped| widest(each::<A, B>, (integers, clamped))) {
            let out_of_range = integers.iter().filter(|integer| clamp::<A, B>(**integer) != **integer);
            overflowed += out_of_range.count() as u64;
        }
    });
    Changes { changed: overflowed, overflowed, ..Changes::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The kernels of all pairs of numeric dtypes.
    fn kernels() -> impl Iterator<Item = (Dtype, Kernel)> {
        let pairs = Dtype::ALL.iter().flat_map(|&from| Dtype::ALL.iter().map(move |&to| (from, to)));
        pairs.filter_map(|(from, to)| Some((to, Kernel::between(from, to)?)))
    }

    /// Compares a kernel with the casts of each number by itself.
    fn check(kernel: &Kernel, to: Dtype, bytes: &[u8]) -> Result<(), String> {
        let mut out = Vec::new();
        let changes = kernel.cast(bytes, &mut out);
        // The same with an unaligned destination.
        let mut after_one = vec![7];
        let changes_after_one = kernel.cast(bytes, &mut after_one);
        assert!(changes_after_one == changes && after_one[0] == 7 && after_one[1..] == out, "{} to {to}", kernel.from);
        let (mut numbers, mut expected) = (Vec::new(), Changes::default());
        for (_, number, changes) in kernel.one_by_one(bytes) {
            numbers.push(NumberBits::from(number));
            expected.add(changes);
        }
        if changes == expected && self::numbers(to, &out) == numbers {
            return Ok(());
        }
        Err(format!(
            "{} to {to}: {:?} became {:?}, expected {numbers:?}; {changes:?}, expected {expected:?}",
            kernel.from,
            self::numbers(kernel.from, bytes),
            self::numbers(to, &out),
        ))
    }

    /// A number compared by its bits. All NaNs are equal.
    #[derive(Debug, PartialEq)]
    enum NumberBits {
        Integer(i128),
        Float(u64),
    }

    impl From<Number> for NumberBits {
        fn from(number: Number) -> Self {
            match number {
                Number::Integer(integer) => Self::Integer(integer),
                Number::Float(float) if float.is_nan() => Self::Float(f64::NAN.to_bits()),
                Number::Float(float) => Self::Float(float.to_bits()),
            }
        }
    }

    /// Returns the next number of a pseudorandom sequence: SplitMix64.
    fn next(state: &mut u64) -> u64 {
        *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// The bytes of any element, and often of one near a power of two or a limit.
    #[expect(clippy::cast_possible_truncation, reason = "any numbers do")]
    fn element(state: &mut u64) -> Vec<u8> {
        let mut below = |bound: i32| (next(state) % u64::from(bound.unsigned_abs())) as i32;
        let (exponent, step, sign) = (below(2110) - 1080, below(8) - 4, if below(2) == 0 { 1.0 } else { -1.0 });
        let near_a_power = sign * 2.0_f64.powi(exponent) * (1.0 + f64::from(step) * 2.0_f64.powi(-11));
        let (half, kind, near) = (f64::from(below(1 << 16) - (1 << 15)) / 2.0, below(8), i64::from(below(5) - 2));
        match kind {
            0 => next(state).to_le_bytes().to_vec(),
            1 => near_a_power.to_le_bytes().to_vec(),
            2 => (near_a_power as f32).to_le_bytes().repeat(2),
            3 => f16::from_f64(near_a_power).to_le_bytes().repeat(4),
            4 => (near_a_power as i64).to_le_bytes().to_vec(),
            5 => (near_a_power as i64).wrapping_add(near).to_le_bytes().to_vec(),
            6 => half.to_le_bytes().to_vec(),
            _ => (half as f32).to_le_bytes().repeat(2),
        }
    }

    fn numbers(dtype: Dtype, bytes: &[u8]) -> Vec<NumberBits> {
        let number = |bytes| Number::from_le_bytes(dtype, bytes).unwrap().into();
        bytes.chunks_exact(dtype.block_bytes()).map(number).collect()
    }

    #[test]
    fn every_kernel_casts_as_numbers_by_themselves() {
        let mut state = 0;
        for case in 0..64_usize {
            let bytes: Vec<u8> = (0..case % 40).flat_map(|_| element(&mut state)).collect();
            for (to, kernel) in kernels() {
                check(&kernel, to, &bytes).unwrap();
            }
        }
    }

    #[test]
    fn numbers_near_the_limits_of_integers_are_cast_as_numbers_by_themselves() {
        let mut bytes = Vec::new();
        for exponent in [0, 7, 8, 15, 16, 31, 32, 63, 64] {
            for from_limit in [-1.5, -1.0, -0.5, 0.0, 0.5, 1.0] {
                let limit = 2.0_f64.powi(exponent) + from_limit;
                for near in [limit.next_down(), limit, limit.next_up()] {
                    bytes.extend_from_slice(&Element::as_le_bytes(&[near, -near]));
                }
            }
        }
        for (to, kernel) in kernels().filter(|(_, kernel)| kernel.from == Dtype::F64) {
            check(&kernel, to, &bytes).unwrap();
        }
    }

    #[test]
    fn every_element_of_up_to_16_bits_is_cast_as_numbers_by_themselves() {
        let all_of_8_bits: Vec<u8> = (0..=u8::MAX).collect();
        let all_of_16_bits: Vec<u8> = (0..=u16::MAX).flat_map(u16::to_le_bytes).collect();
        for (to, kernel) in kernels() {
            let elements = match kernel.from.block_bytes() {
                1 => &all_of_8_bits,
                2 => &all_of_16_bits,
                _ => continue,
            };
            for bytes in elements.chunks(2048) {
                check(&kernel, to, bytes).unwrap();
            }
        }
    }
}
