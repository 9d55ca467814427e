use std::fmt;
use std::str::FromStr;

/// Declares the dtypes; everything else in the crate asks this table.
macro_rules! dtypes {
    ($($variant:ident $name:literal $elements:literal / $bytes:literal $class:ident $doc:literal;)*) => {
        /// The element type of a tensor, as files name it.
        ///
        /// Sizes are a block's: most dtypes have one element in a block, the packed ones several.
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

            /// The name in lower case, such as `f32`.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Dtype::$variant => $name,)* }
            }

            const fn row(self) -> (usize, usize, Class) {
                match self { $(Dtype::$variant => ($elements, $bytes, Class::$class),)* }
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

// NOTE: serde formats without names write a dtype as its number here, so new ones go to the end.
dtypes! {
    Bool        "bool"         1/1 Logical  "One byte, 0 or 1.";
    I8          "i8"           1/1 Signed   "Signed 8-bit integer.";
    I16         "i16"          1/2 Signed   "Signed 16-bit integer.";
    I32         "i32"          1/4 Signed   "Signed 32-bit integer.";
    I64         "i64"          1/8 Signed   "Signed 64-bit integer.";
    U8          "u8"           1/1 Unsigned "Unsigned 8-bit integer.";
    U16         "u16"          1/2 Unsigned "Unsigned 16-bit integer.";
    U32         "u32"          1/4 Unsigned "Unsigned 32-bit integer.";
    U64         "u64"          1/8 Unsigned "Unsigned 64-bit integer.";
    F16         "f16"          1/2 Float    "IEEE 754 half precision.";
    Bf16        "bf16"         1/2 Float    "bfloat16: the upper half of an `f32`.";
    F32         "f32"          1/4 Float    "IEEE 754 single precision.";
    F64         "f64"          1/8 Float    "IEEE 754 double precision.";
    F8E5M2      "f8_e5m2"      1/1 Float    "8-bit float, 5 exponent bits, with infinities.";
    F8E4M3Fn    "f8_e4m3fn"    1/1 Float    "8-bit float, 4 exponent bits, no infinities.";
    F8E5M2Fnuz  "f8_e5m2fnuz"  1/1 Float    "8-bit float, 5 exponent bits, no infinities, no negative zero.";
    F8E4M3Fnuz  "f8_e4m3fnuz"  1/1 Float    "8-bit float, 4 exponent bits, no infinities, no negative zero.";
    QInt8       "qint8"        1/1 Opaque   "Quantised signed 8-bit integer; opaque.";
    QUint8      "quint8"       1/1 Opaque   "Quantised unsigned 8-bit integer; opaque.";
    QInt32      "qint32"       1/4 Opaque   "Quantised signed 32-bit integer; opaque.";
    QUint4x2    "quint4x2"     1/1 Opaque   "Quantised unsigned 4-bit integers, two to a byte; opaque. ExecuTorch counts bytes as elements.";
    QUint2x4    "quint2x4"     1/1 Opaque   "Quantised unsigned 2-bit integers, four to a byte; opaque. ExecuTorch counts bytes as elements.";
    Bits16      "bits16"       1/2 Opaque   "16 uninterpreted bits.";
}

/// What arithmetic a dtype allows.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    Logical,
    Signed,
    Unsigned,
    Float,
    Opaque,
}

impl Dtype {
    /// Elements in one block: 1, or more for packed dtypes.
    #[must_use]
    pub const fn block_elements(self) -> usize {
        self.row().0
    }

    /// Bytes in one block.
    #[must_use]
    pub const fn block_bytes(self) -> usize {
        self.row().1
    }

    /// Bytes that `elements` elements take, a last partial block counted whole. `None` on overflow.
    #[must_use]
    pub fn bytes_for(self, elements: usize) -> Option<usize> {
        elements.div_ceil(self.block_elements()).checked_mul(self.block_bytes())
    }

    /// Whether this is a floating-point dtype of any width.
    #[must_use]
    pub const fn is_float(self) -> bool {
        matches!(self.row().2, Class::Float)
    }

    /// Whether this is a signed or unsigned integer dtype; `bool` is not.
    #[must_use]
    pub const fn is_integer(self) -> bool {
        matches!(self.row().2, Class::Signed | Class::Unsigned)
    }

    /// Whether elements are bytes without arithmetic, as quantised and packed dtypes are.
    #[must_use]
    pub const fn is_opaque(self) -> bool {
        matches!(self.row().2, Class::Opaque)
    }
}

impl fmt::Display for Dtype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A name that is no dtype's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnknownDtypeName;

impl fmt::Display for UnknownDtypeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("unknown dtype name")
    }
}

impl std::error::Error for UnknownDtypeName {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_back_to_their_dtype() {
        for &dtype in Dtype::ALL {
            assert_eq!(dtype.name().parse(), Ok(dtype));
        }
        assert_eq!("float".parse::<Dtype>(), Err(UnknownDtypeName));
    }

    #[test]
    fn sizes_overflow_to_none() {
        assert_eq!(Dtype::F64.bytes_for(usize::MAX), None);
        assert_eq!(Dtype::F32.bytes_for(3), Some(12));
    }
}
