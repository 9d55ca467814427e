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

use crate::{Float, codebook};

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
        let code_8 = if self == Self::ModelOpt { 0.0 } else { -0.0 };
        let map = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, code_8, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -6.0];
        let shifts = if self == Self::HighFirst { [4, 0] } else { [0, 4] };
        codebook::decode_halves(codes, &map, shifts, scales, group, out);
    }
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
