//! The blocks of ggml, as GGUF files store them.
//!
//! A block has 32 to 256 weights and their scales. Each type has a function that unpacks or decodes them; its documentation shows the bytes.
//!
//! Codes that share a byte are not neighbours, except in Q1_0 and Q2_0. In `codes: u4[32]`, the low bits of all 16 bytes are first, and then the high
//! bits. Larger fields repeat this: every 32 bytes of `u4[256]` have 64 codes, and every 32 bytes of `u2[256]` have 128.
//!
//! # Specification
//!
//! ggml: `src/ggml-common.h` has the blocks, `src/ggml-quants.c` the functions.

mod decode;
mod grids;
mod iq1;
mod iq2;
mod iq3;
mod iq4;
mod k;
mod masks;
mod one_scale;
mod ternary;

use crate::Float;
use crate::float::PIECE;

macro_rules! blocks {
    ($($variant:ident $name:literal $weights:literal / $bytes:literal $value:ident($unpack:path), $doc:literal;)*) => {
        /// A block type of ggml that has weights.
        ///
        /// `q8_1` is absent: ggml makes such blocks of activations, and never decodes them.
        ///
        /// ```
        /// use tensorfile_quant::Block;
        ///
        /// assert_eq!(Block::ALL.len(), 26);
        /// assert_eq!((Block::Q4K.weights(), Block::Q4K.bytes()), (256, 144));
        /// ```
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Block {
            $(#[doc = $doc] $variant,)*
        }

        impl Block {
            /// Every block type.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// Returns the block type with a name in lower case.
            ///
            /// ```
            /// use tensorfile_quant::Block;
            ///
            /// assert_eq!(Block::from_name("q4_k"), Some(Block::Q4K));
            /// assert_eq!(Block::from_name("q8_1"), None);
            /// ```
            #[must_use]
            pub fn from_name(name: &str) -> Option<Self> {
                match name {
                    $($name => Some(Self::$variant),)*
                    _ => None,
                }
            }

            /// Returns the name in lower case, such as `q4_0`.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// Returns the number of weights in a block.
            #[must_use]
            pub const fn weights(self) -> usize {
                match self { $(Self::$variant => $weights,)* }
            }

            /// Returns the number of bytes of a block.
            #[must_use]
            pub const fn bytes(self) -> usize {
                match self { $(Self::$variant => $bytes,)* }
            }

            /// Decodes whole blocks.
            ///
            /// ```
            /// use tensorfile_quant::Block;
            ///
            /// let mut block = [0x98; 18];
            /// block[..2].copy_from_slice(&[0x00, 0x38]); // A scale of 0.5.
            /// let mut weights = [0.0_f32; 32];
            /// Block::Q4_0.decode(&block, &mut weights);
            /// assert_eq!((weights[0], weights[16]), (0.0, 0.5));
            /// ```
            ///
            /// # Panics
            ///
            /// If `bytes` is not whole blocks, or has another number of weights than `out`.
            pub fn decode<F: Float>(self, bytes: &[u8], out: &mut [F]) {
                let (blocks, weights) = (bytes.len() / self.bytes(), self.weights());
                assert!(
                    bytes.len() % self.bytes() == 0 && blocks.checked_mul(weights) == Some(out.len()),
                    "{} bytes of {} are not {} weights, at {weights} in {} bytes",
                    bytes.len(),
                    self.name(),
                    out.len(),
                    self.bytes()
                );
                F::collect(out, &mut [0.0; PIECE], &mut |first, out| {
                    self.decode_f32(&bytes[first / weights * self.bytes()..][..out.len() / weights * self.bytes()], out);
                });
            }

            fn decode_f32(self, bytes: &[u8], out: &mut [f32]) {
                match self {
                    $(Self::$variant => blocks!(@$value $weights / $bytes $unpack, bytes, out),)*
                }
            }
        }
    };
    (@scaled $weights:literal / $bytes:literal $unpack:path, $from:ident, $out:ident) => {
        decode::scaled::<$bytes, $weights, { $weights / 16 }>($from, $out, #[inline(always)] |block, codes, scales| {
            $unpack(block, codes, scales)
        })
    };
    (@points $weights:literal / $bytes:literal $unpack:path, $from:ident, $out:ident) => {
        decode::points::<$bytes, $weights>($from, $out, #[inline(always)] |block, out| {
            $unpack(block, out)
        })
    };
    (@shifted $weights:literal / $bytes:literal $unpack:path, $from:ident, $out:ident) => {
        decode::shifted::<$bytes, $weights, { $weights / 16 }>($from, $out, #[inline(always)] |block, codes, scales, shifts| {
            $unpack(block, codes, scales, shifts)
        })
    };
}

blocks! {
    Q4_0   "q4_0"    32/18   scaled(one_scale::q4_0), "4 bits, centred.";
    Q4_1   "q4_1"    32/20   shifted(one_scale::q4_1),"4 bits and a minimum.";
    Q5_0   "q5_0"    32/22   scaled(one_scale::q5_0), "5 bits, centred.";
    Q5_1   "q5_1"    32/24   shifted(one_scale::q5_1),"5 bits and a minimum.";
    Q8_0   "q8_0"    32/34   scaled(one_scale::q8_0), "8 bits.";
    Q2K    "q2_k"    256/84  shifted(k::q2_k),        "2 bits, with scales and minima for 16 weights.";
    Q3K    "q3_k"    256/110 scaled(k::q3_k),         "3 bits, with scales for 16 weights.";
    Q4K    "q4_k"    256/144 shifted(k::q4_k),        "4 bits, with scales and minima for 32 weights.";
    Q5K    "q5_k"    256/176 shifted(k::q5_k),        "5 bits, with scales and minima for 32 weights.";
    Q6K    "q6_k"    256/210 scaled(k::q6_k),         "6 bits, with scales for 16 weights.";
    Q8K    "q8_k"    256/292 scaled(k::q8_k),         "8 bits, and sums that are not decoded.";
    Iq2Xxs "iq2_xxs" 256/66  points(iq2::iq2_xxs),    "Points of 8 weights on a grid of 256.";
    Iq2Xs  "iq2_xs"  256/74  points(iq2::iq2_xs),     "Points of 8 weights on a grid of 512.";
    Iq3Xxs "iq3_xxs" 256/98  points(iq3::iq3_xxs),    "Points of 4 weights on a grid of 256.";
    Iq1S   "iq1_s"   256/50  scaled(iq1::iq1_s),      "Points of 8 weights on a grid of 2048.";
    Iq4Nl  "iq4_nl"  32/18   scaled(iq4::iq4_nl),     "4 bits, by a map.";
    Iq3S   "iq3_s"   256/110 points(iq3::iq3_s),      "Points of 4 weights on a grid of 512.";
    Iq2S   "iq2_s"   256/82  points(iq2::iq2_s),      "Points of 8 weights on a grid of 1024.";
    Iq4Xs  "iq4_xs"  256/136 scaled(iq4::iq4_xs),     "4 bits, by a map, with scales for 32 weights.";
    Iq1M   "iq1_m"   256/56  scaled(iq1::iq1_m),      "Points of 8 weights on a grid of 2048, with scales for 16 weights.";
    Tq1_0  "tq1_0"   256/54  scaled(ternary::tq1_0),  "Ternary, 5 weights to a byte.";
    Tq2_0  "tq2_0"   256/66  scaled(ternary::tq2_0),  "Ternary, 2 bits.";
    Mxfp4  "mxfp4"   32/17   scaled(iq4::mxfp4),      "E2M1 and a power of two. 255 is 2^128, not NaN.";
    Nvfp4  "nvfp4"   64/36   scaled(iq4::nvfp4),      "E2M1, with E4M3 scales for 16 weights.";
    Q1_0   "q1_0"    128/18  scaled(one_scale::q1_0), "1 bit: the scale or its negative.";
    Q2_0   "q2_0"    64/18   scaled(one_scale::q2_0), "2 bits: -1, 0, 1 or 2 times the scale.";
}

/// Returns the bytes of a field. Its bounds are checked by the compiler where it is inlined.
#[inline(always)]
fn field<const N: usize>(block: &[u8], offset: usize) -> &[u8; N] {
    block[offset..].first_chunk().expect("blocks have all fields")
}

/// Returns the `f16` at an offset.
#[inline(always)]
fn scale(block: &[u8], offset: usize) -> f32 {
    half::f16::from_le_bytes(*field(block, offset)).widen()
}
