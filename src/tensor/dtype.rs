//! The dtypes, all from one list.

use std::fmt;
use std::str::FromStr;

use bytemuck::{Pod, Zeroable};

/// Calls `$callback!` with one row for each dtype: the list behind everything else about dtypes.
///
/// A callback matches the rows like this:
///
/// ```text
/// macro_rules! callback {
///     ($($variant:ident $name:literal $elements:literal / $bytes:literal $class:ident $scalar:ty as $bits:ty, $doc:literal;)*) => {
///         $( /* once for each dtype */ )*
///     };
/// }
/// for_each_dtype!(callback);
/// ```
///
/// - `variant` of [`Dtype`] and `name` in text.
/// - `elements` and `bytes` in one block: 1 element but for packed dtypes.
/// - `class`. Match it as a token to treat some dtypes differently:
///   - `Logical`: `bool`.
///   - `Signed`, `Unsigned`: integers of Rust.
///   - `Float`: floats of Rust or `half`.
///   - `Float8`: floats of 8 bits. `cast/float8.rs` has a row for the encoding of each.
///   - `Quantized`: one integer per block, without its scale.
///   - `Opaque`: packed or uninterpreted bits.
///   - `Complex`: a real and an imaginary part.
///   - `Block`: blocks of bytes for several elements. There is no scalar, and so no compiled code for the row.
/// - `scalar`: the Rust type of an element, an [`Element`](super::Element) with this dtype; `()` for `Block`. The
///   scalars of `Float8`, `Quantized` and `Opaque` are declared from this list too, named after the variant.
/// - `bits`: the integer with the bits of an element, or of each part of a complex number; `u8` for `Block`.
/// - `doc`: the documentation of the variant.
macro_rules! for_each_dtype {
    ($callback:ident) => {
        // NOTE: serde formats without names write a dtype as its number here, so new ones go to the end.
        $callback! {
            Bool       "bool"        1/1 Logical   bool as u8,                      "One byte, 0 or 1.";
            I8         "i8"          1/1 Signed    i8 as i8,                        "Signed 8-bit integer.";
            I16        "i16"         1/2 Signed    i16 as i16,                      "Signed 16-bit integer.";
            I32        "i32"         1/4 Signed    i32 as i32,                      "Signed 32-bit integer.";
            I64        "i64"         1/8 Signed    i64 as i64,                      "Signed 64-bit integer.";
            U8         "u8"          1/1 Unsigned  u8 as u8,                        "Unsigned 8-bit integer.";
            U16        "u16"         1/2 Unsigned  u16 as u16,                      "Unsigned 16-bit integer.";
            U32        "u32"         1/4 Unsigned  u32 as u32,                      "Unsigned 32-bit integer.";
            U64        "u64"         1/8 Unsigned  u64 as u64,                      "Unsigned 64-bit integer.";
            F16        "f16"         1/2 Float     half::f16 as u16,                "IEEE 754 half precision.";
            Bf16       "bf16"        1/2 Float     half::bf16 as u16,               "bfloat16: the upper half of an `f32`.";
            F32        "f32"         1/4 Float     f32 as u32,                      "IEEE 754 single precision.";
            F64        "f64"         1/8 Float     f64 as u64,                      "IEEE 754 double precision.";
            F8E5M2     "f8_e5m2"     1/1 Float8    crate::tensor::F8E5M2 as u8,     "8-bit float, 5 exponent bits, with infinities.";
            F8E4M3Fn   "f8_e4m3fn"   1/1 Float8    crate::tensor::F8E4M3Fn as u8,   "8-bit float, 4 exponent bits, no infinities.";
            F8E5M2Fnuz "f8_e5m2fnuz" 1/1 Float8    crate::tensor::F8E5M2Fnuz as u8, "8-bit float, 5 exponent bits, no infinities, no negative zero.";
            F8E4M3Fnuz "f8_e4m3fnuz" 1/1 Float8    crate::tensor::F8E4M3Fnuz as u8, "8-bit float, 4 exponent bits, no infinities, no negative zero.";
            QInt8      "qint8"       1/1 Quantized crate::tensor::QInt8 as i8,      "Quantized signed 8-bit integer; opaque.";
            QUint8     "quint8"      1/1 Quantized crate::tensor::QUint8 as u8,     "Quantized unsigned 8-bit integer; opaque.";
            QInt32     "qint32"      1/4 Quantized crate::tensor::QInt32 as i32,    "Quantized signed 32-bit integer; opaque.";
            QUint4x2   "quint4x2"    1/1 Opaque    crate::tensor::QUint4x2 as u8,   "Quantized unsigned 4-bit integers, two to a byte; opaque. ExecuTorch counts bytes as elements.";
            QUint2x4   "quint2x4"    1/1 Opaque    crate::tensor::QUint2x4 as u8,   "Quantized unsigned 2-bit integers, four to a byte; opaque. ExecuTorch counts bytes as elements.";
            Bits16     "bits16"      1/2 Opaque    crate::tensor::Bits16 as u16,    "16 uninterpreted bits.";
            F8E8M0     "f8_e8m0"     1/1 Float8    crate::tensor::F8E8M0 as u8,     "8-bit power of two: 8 exponent bits, no sign, no zero, no infinities. The scales of MX formats.";
            F4         "f4"          2/1 Block     () as u8,                        "4-bit floats, E2M1, two to a byte; opaque.";
            F6E2M3     "f6_e2m3"     4/3 Block     () as u8,                        "6-bit floats, 2 exponent bits, four to three bytes; opaque.";
            F6E3M2     "f6_e3m2"     4/3 Block     () as u8,                        "6-bit floats, 3 exponent bits, four to three bytes; opaque.";
            C64        "c64"         1/8 Complex   num_complex::Complex<f32> as u32, "Complex number of two `f32`, the real part first.";
            C128       "c128"        1/16 Complex  num_complex::Complex<f64> as u64, "Complex number of two `f64`, the real part first.";
            Q4_0       "q4_0"        32/18 Block () as u8, "ggml's `q4_0`: 32 weights in 18 bytes; opaque.";
            Q4_1       "q4_1"        32/20 Block () as u8, "ggml's `q4_1`: 32 weights in 20 bytes; opaque.";
            Q5_0       "q5_0"        32/22 Block () as u8, "ggml's `q5_0`: 32 weights in 22 bytes; opaque.";
            Q5_1       "q5_1"        32/24 Block () as u8, "ggml's `q5_1`: 32 weights in 24 bytes; opaque.";
            Q8_0       "q8_0"        32/34 Block () as u8, "ggml's `q8_0`: 32 weights in 34 bytes; opaque.";
            Q8_1       "q8_1"        32/36 Block () as u8, "ggml's `q8_1`: 32 weights in 36 bytes; opaque.";
            Q2K        "q2_k"        256/84 Block () as u8, "ggml's `q2_k`: 256 weights in 84 bytes; opaque.";
            Q3K        "q3_k"        256/110 Block () as u8, "ggml's `q3_k`: 256 weights in 110 bytes; opaque.";
            Q4K        "q4_k"        256/144 Block () as u8, "ggml's `q4_k`: 256 weights in 144 bytes; opaque.";
            Q5K        "q5_k"        256/176 Block () as u8, "ggml's `q5_k`: 256 weights in 176 bytes; opaque.";
            Q6K        "q6_k"        256/210 Block () as u8, "ggml's `q6_k`: 256 weights in 210 bytes; opaque.";
            Q8K        "q8_k"        256/292 Block () as u8, "ggml's `q8_k`: 256 weights in 292 bytes; opaque.";
            Iq2Xxs     "iq2_xxs"     256/66 Block () as u8, "ggml's `iq2_xxs`: 256 weights in 66 bytes; opaque.";
            Iq2Xs      "iq2_xs"      256/74 Block () as u8, "ggml's `iq2_xs`: 256 weights in 74 bytes; opaque.";
            Iq3Xxs     "iq3_xxs"     256/98 Block () as u8, "ggml's `iq3_xxs`: 256 weights in 98 bytes; opaque.";
            Iq1S       "iq1_s"       256/50 Block () as u8, "ggml's `iq1_s`: 256 weights in 50 bytes; opaque.";
            Iq4Nl      "iq4_nl"      32/18 Block () as u8, "ggml's `iq4_nl`: 32 weights in 18 bytes; opaque.";
            Iq3S       "iq3_s"       256/110 Block () as u8, "ggml's `iq3_s`: 256 weights in 110 bytes; opaque.";
            Iq2S       "iq2_s"       256/82 Block () as u8, "ggml's `iq2_s`: 256 weights in 82 bytes; opaque.";
            Iq4Xs      "iq4_xs"      256/136 Block () as u8, "ggml's `iq4_xs`: 256 weights in 136 bytes; opaque.";
            Iq1M       "iq1_m"       256/56 Block () as u8, "ggml's `iq1_m`: 256 weights in 56 bytes; opaque.";
            Tq1_0      "tq1_0"       256/54 Block () as u8, "ggml's `tq1_0`: 256 weights in 54 bytes; opaque.";
            Tq2_0      "tq2_0"       256/66 Block () as u8, "ggml's `tq2_0`: 256 weights in 66 bytes; opaque.";
            Mxfp4      "mxfp4"       32/17 Block () as u8, "ggml's `mxfp4`: 32 weights in 17 bytes; opaque.";
            Nvfp4      "nvfp4"       64/36 Block () as u8, "ggml's `nvfp4`: 64 weights in 36 bytes; opaque.";
            Q1_0       "q1_0"        128/18 Block () as u8, "ggml's `q1_0`: 128 weights in 18 bytes; opaque.";
            Q2_0       "q2_0"        64/18 Block () as u8, "ggml's `q2_0`: 64 weights in 18 bytes; opaque.";
        }
    };
}

pub(crate) use for_each_dtype;

macro_rules! dtypes {
    ($($variant:ident $name:literal $elements:literal / $bytes:literal $class:ident $scalar:ty as $bits:ty, $doc:literal;)*) => {
        /// The element type of a tensor.
        ///
        /// Sizes are per block: most dtypes have one element in a block, packed ones several.
        ///
        /// ```
        /// use tensorfile::{Dtype, Element};
        ///
        /// assert_eq!(f32::DTYPE, Dtype::F32);
        /// assert_eq!("bf16".parse(), Ok(Dtype::Bf16));
        /// assert_eq!(Dtype::F8E4M3Fn.to_string(), "f8_e4m3fn");
        /// ```
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum Dtype {
            $(#[doc = $doc] $variant,)*
        }

        impl Dtype {
            /// Every dtype, in declaration order.
            pub const ALL: &'static [Dtype] = &[$(Dtype::$variant,)*];

            /// The names, in the same order.
            pub(crate) const NAMES: &'static [&'static str] = &[$($name,)*];

            /// Returns the name in lower case, such as `f32`.
            ///
            /// ```
            /// use tensorfile::Dtype;
            ///
            /// assert_eq!(Dtype::F32.name(), "f32");
            /// ```
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Dtype::$variant => $name,)* }
            }

            const ROWS: &[Row] = &[
                $(Row { elements: $elements, bytes: $bytes, unit: size_of::<$bits>(), class: Class::$class },)*
            ];

            #[inline]
            const fn row(self) -> &'static Row {
                &Self::ROWS[self as usize]
            }
        }

        impl FromStr for Dtype {
            type Err = UnknownDtypeName;

            fn from_str(name: &str) -> Result<Self, UnknownDtypeName> {
                match name {
                    $($name => Ok(Dtype::$variant),)*
                    _ => Err(UnknownDtypeName),
                }
            }
        }
    };
}

for_each_dtype!(dtypes);

/// Declares scalars missing in Rust.
macro_rules! scalars {
    ($($variant:ident $name:literal $elements:literal / $bytes:literal $class:ident $scalar:ty as $bits:ty, $doc:literal;)*) => {
        $(scalar!($class $variant, $bits);)*
    };
}

macro_rules! scalar {
    (Logical $variant:ident, $bits:ty) => {};
    (Signed $variant:ident, $bits:ty) => {};
    (Unsigned $variant:ident, $bits:ty) => {};
    (Float $variant:ident, $bits:ty) => {};
    (Complex $variant:ident, $bits:ty) => {};
    (Block $variant:ident, $bits:ty) => {};
    ($class:ident $variant:ident, $bits:ty) => {
        #[doc = concat!("An element of [`Dtype::", stringify!($variant), "`], as its bits.")]
        ///
        /// ```
        #[doc = concat!("use tensorfile::scalar::", stringify!($variant), ";\nuse tensorfile::{Dtype, Tensor};")]
        ///
        #[doc = concat!("let tensor = Tensor::from_slice(&[", stringify!($variant), "(1), ", stringify!($variant), "(2)], [2])?;")]
        #[doc = concat!("assert_eq!(tensor.dtype(), Dtype::", stringify!($variant), ");")]
        /// # Ok::<(), tensorfile::Error>(())
        /// ```
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Pod, Zeroable)]
        #[repr(transparent)]
        pub struct $variant(
            /// The bits as the file holds them.
            pub $bits,
        );
    };
}

for_each_dtype!(scalars);

/// The line of a dtype in [`for_each_dtype`].
struct Row {
    elements: usize,
    bytes: usize,
    unit: usize,
    class: Class,
}

/// The classes of dtypes; see [`for_each_dtype`].
#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    Logical,
    Signed,
    Unsigned,
    Float,
    Float8,
    Quantized,
    Opaque,
    Complex,
    Block,
}

impl Dtype {
    /// Returns the number of elements in one block: 1, or more for packed dtypes.
    #[inline]
    #[must_use]
    pub const fn block_elements(self) -> usize {
        self.row().elements
    }

    /// Returns the number of bytes in one block.
    #[inline]
    #[must_use]
    pub const fn block_bytes(self) -> usize {
        self.row().bytes
    }

    /// Returns the number of bytes swapped between little- and big-endian, which is also the alignment of elements in
    /// memory: the size of an element, of a part of a complex number, and 1 for packed dtypes.
    #[inline]
    pub(crate) const fn unit_bytes(self) -> usize {
        self.row().unit
    }

    /// Returns the number of bytes for `elements`, including a last partial block. `None` on overflow.
    ///
    /// ```
    /// use tensorfile::Dtype;
    ///
    /// assert_eq!(Dtype::F32.bytes_for(3), Some(12));
    /// assert_eq!(Dtype::F32.bytes_for(usize::MAX), None);
    /// ```
    #[inline]
    #[must_use]
    pub fn bytes_for(self, elements: usize) -> Option<usize> {
        match self.block_elements() {
            1 => elements.checked_mul(self.block_bytes()),
            several => elements.div_ceil(several).checked_mul(self.block_bytes()),
        }
    }

    /// Returns `true` for floating-point dtypes of any width.
    ///
    /// ```
    /// use tensorfile::Dtype;
    ///
    /// let floats: Vec<&str> = Dtype::ALL.iter().filter(|dtype| dtype.is_float()).map(|dtype| dtype.name()).collect();
    /// assert_eq!(floats[..4], ["f16", "bf16", "f32", "f64"]);
    /// ```
    #[must_use]
    pub const fn is_float(self) -> bool {
        matches!(self.row().class, Class::Float | Class::Float8)
    }

    /// Returns `true` for signed and unsigned integer dtypes, but not for `bool`.
    ///
    /// ```
    /// use tensorfile::Dtype;
    ///
    /// assert!(Dtype::U8.is_integer());
    /// assert!(!Dtype::Bool.is_integer() && !Dtype::QUint8.is_integer());
    /// ```
    #[must_use]
    pub const fn is_integer(self) -> bool {
        matches!(self.row().class, Class::Signed | Class::Unsigned)
    }

    /// Returns `true` for complex dtypes. They are neither cast nor counted by statistics.
    #[must_use]
    pub const fn is_complex(self) -> bool {
        matches!(self.row().class, Class::Complex)
    }

    /// Returns `true` for dtypes without arithmetic: quantized, packed and uninterpreted ones.
    ///
    /// ```
    /// use tensorfile::Dtype;
    ///
    /// assert!(Dtype::QInt8.is_opaque());
    /// assert!(!Dtype::I8.is_opaque());
    /// ```
    #[must_use]
    pub const fn is_opaque(self) -> bool {
        matches!(self.row().class, Class::Quantized | Class::Opaque | Class::Block)
    }

    /// Returns `true` if an element takes bytes of its own, and `false` for dtypes with several elements in a block.
    ///
    /// The elements of blocks have no scalar in Rust: such tensors are read and written whole.
    #[must_use]
    pub const fn has_elements(self) -> bool {
        self.block_elements() == 1
    }
}

impl fmt::Display for Dtype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The error for an unknown name of a dtype.
///
/// ```
/// use tensorfile::scalar::UnknownDtypeName;
/// use tensorfile::Dtype;
///
/// assert_eq!("float".parse::<Dtype>(), Err(UnknownDtypeName));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnknownDtypeName;

impl fmt::Display for UnknownDtypeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("unknown dtype name")
    }
}

impl std::error::Error for UnknownDtypeName {}

/// Returns the dtypes of a format's table of tags. `N` is the length of the table.
pub(crate) const fn dtypes<T, const N: usize>(tags: &[(T, Dtype)]) -> [Dtype; N] {
    let mut dtypes = [Dtype::U8; N];
    let mut index = 0;
    while index < N {
        dtypes[index] = tags[index].1;
        index += 1;
    }
    dtypes
}

/// Returns the tag of each dtype, from a format's table of tags.
pub(crate) const fn tags_of<T: Copy>(tags: &[(T, Dtype)]) -> [Option<T>; Dtype::ALL.len()] {
    let mut of = [None; Dtype::ALL.len()];
    let mut index = 0;
    while index < tags.len() {
        of[tags[index].1 as usize] = Some(tags[index].0);
        index += 1;
    }
    of
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_parses_to_its_dtype() {
        for &dtype in Dtype::ALL {
            assert_eq!(dtype.name().parse(), Ok(dtype));
        }
        assert_eq!("float".parse::<Dtype>(), Err(UnknownDtypeName));
    }

    #[test]
    fn sizes_that_overflow_are_none() {
        assert_eq!(Dtype::F64.bytes_for(usize::MAX), None);
        assert_eq!(Dtype::F32.bytes_for(3), Some(12));
    }

    #[test]
    fn sizes_are_those_of_the_scalars() {
        macro_rules! check {
            ($($variant:ident $name:literal $elements:literal / $bytes:literal $class:ident $scalar:ty as $bits:ty, $doc:literal;)*) => {$(
                check_one!($class $variant, $name $elements / $bytes, $scalar, $bits);
            )*};
        }

        macro_rules! check_one {
            (Block $variant:ident, $name:literal $elements:literal / $bytes:literal, $scalar:ty, $bits:ty) => {
                assert_eq!((size_of::<$scalar>(), size_of::<$bits>()), (0, 1), $name);
                assert!($elements > 1 && !Dtype::$variant.has_elements(), $name);
            };
            ($class:ident $variant:ident, $name:literal $elements:literal / $bytes:literal, $scalar:ty, $bits:ty) => {
                let parts = if Dtype::$variant.is_complex() { 2 } else { 1 };
                assert_eq!((size_of::<$scalar>(), parts * size_of::<$bits>()), ($bytes, $bytes), $name);
                assert_eq!(<$scalar as crate::tensor::Element>::DTYPE, Dtype::$variant);
            };
        }
        for_each_dtype!(check);
    }
}
