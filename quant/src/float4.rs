//! Floats of 4 bits, E2M1, two to a byte: weights of NVFP4 and MXFP4.
//!
//! The value is `code * scale`. Groups have 16 weights in NVFP4 and 32 in MXFP4, and scales depend on the producer:
//!
//! | layout | [`Float4`] | scale |
//! |---|---|---|
//! | MXFP4 | `Ocp` | [`E8m0`](crate::Float8::E8m0) |
//! | NVFP4 of compressed-tensors | `Ocp` | [`E4m3Fn`](crate::Float8::E4m3Fn), divided by the tensor's global scale |
//! | NVFP4 of ModelOpt | `ModelOpt` | `E4m3Fn`, multiplied by `weight_scale_2` |
//! | NVFP4 of ComfyUI | `HighFirst` | `E4m3Fn` in tiles ([`tile_index`]), multiplied by `weight_scale_2` |
//! | NVFP4 and MXFP4 of MLX | `Ocp` | `E4m3Fn`, `E8m0` |
//!
//! # Specification
//!
//! OCP Microscaling Formats Specification. Tiles of scales: cuBLAS, "Scaling factors layouts".

use crate::vectors::widest;
use crate::{Float, bits, groups};

/// A variant of the encoding E2M1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Float4 {
    /// The code in the low bits is first.
    Ocp,
    /// The code in the low bits is first, and code 8 is positive zero.
    ModelOpt,
    /// The code in the high bits is first.
    HighFirst,
}

impl Float4 {
    /// Decodes weights: `code * scale`. Each `group` codes share a scale; the last group may be shorter.
    ///
    /// ```
    /// use tensorfile_quant::Float4;
    ///
    /// let mut weights = [0.0_f32; 4];
    /// Float4::Ocp.decode(&[0x21, 0xf3], &[2.0], 16, &mut weights);
    /// assert_eq!(weights, [1.0, 2.0, 3.0, -12.0]);
    /// ```
    ///
    /// # Panics
    ///
    /// If the lengths of `codes`, `scales` and `out` do not match.
    pub fn decode<F: Float>(self, codes: &[u8], scales: &[f32], group: usize, out: &mut [F]) {
        let count = 2 * codes.len();
        assert!(count == out.len() || count == out.len() + 1, "{count} codes are not {} weights", out.len());
        groups::check(out.len(), group, scales.len());
        let unpack = |first: usize, unpacked: &mut [u8]| {
            let codes = &codes[first / 2..][..unpacked.len().div_ceil(2)];
            if self == Self::HighFirst { unpack_high_first(codes, unpacked) } else { unpack(codes, unpacked) }
        };
        if self == Self::ModelOpt {
            // A sum of zeros is positive.
            bits::decode(
                group,
                out,
                unpack,
                #[inline(always)]
                |index| scales[index],
                #[inline(always)]
                |code, scale| (number(code) + 0.0) * scale,
            );
        } else {
            bits::decode(
                group,
                out,
                unpack,
                #[inline(always)]
                |index| scales[index],
                #[inline(always)]
                |code, scale| number(code) * scale,
            );
        }
    }
}

fn unpack(codes: &[u8], unpacked: &mut [u8]) {
    widest(
        #[inline(always)]
        |codes: &[u8], unpacked: &mut [u8], ()| bits::unpack_stream(codes, 4, unpacked),
        codes,
        unpacked,
        (),
    );
}

fn unpack_high_first(codes: &[u8], unpacked: &mut [u8]) {
    let mut swapped = [0; bits::PIECE / 2];
    for (&byte, swapped) in codes.iter().zip(&mut swapped) {
        *swapped = byte.rotate_left(4);
    }
    unpack(&swapped[..codes.len()], unpacked);
}

/// Returns the number of a code. As that of an 8-bit float, it is the smaller of two.
#[inline(always)]
fn number(code: u8) -> f32 {
    let code = u32::from(code);
    let normal = f32::from_bits(((code & 7) << 22) + (126 << 23));
    let subnormal = normal + normal - 1.0;
    let magnitude = if subnormal < normal { subnormal } else { normal };
    f32::from_bits(magnitude.to_bits() | (code & 8) << 28)
}

/// Returns the index of a group's scale among those stored in tiles of 128 rows and 4 groups, as cuBLAS and ComfyUI do.
///
/// `groups` is the number of groups in a row of weights. Rows and groups are padded to whole tiles.
///
/// ```
/// use tensorfile_quant::float4::tile_index;
///
/// assert_eq!(tile_index(0, 3, 6), 3);
/// assert_eq!(tile_index(1, 0, 6), 16);
/// assert_eq!(tile_index(33, 5, 6), 512 + 16 + 4 + 1);
/// ```
#[inline]
#[must_use]
pub const fn tile_index(row: usize, group: usize, groups: usize) -> usize {
    const ROWS: usize = 128;
    const GROUPS: usize = 4;
    let tile = row / ROWS * groups.div_ceil(GROUPS) + group / GROUPS;
    // A tile holds rows 0, 32, 64 and 96, then 1, 33, 65 and 97, and so on.
    let row = row % ROWS;
    tile * ROWS * GROUPS + (row % 32) * (4 * GROUPS) + row / 32 * GROUPS + group % GROUPS
}
