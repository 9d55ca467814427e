//! Weights that are stored \[in, out\], and decoded to \[out, in\].

use crate::Float;
use crate::vectors::widest;

/// The zeros and scales of columns of weights, as GPTQ and AWQ store them.
///
/// Any columns of a tensor can be decoded, with the zeros and scales of these columns, and any rows, with their groups.
#[derive(Debug, Clone, Copy)]
pub struct Columns<'a> {
    /// The number of columns, which are rows of the decoded weights.
    pub count: usize,
    /// The zeros: groups * columns. See [`gptq::unpack_zeros`](crate::gptq::unpack_zeros) and
    /// [`awq::unpack_zeros`](crate::awq::unpack_zeros).
    pub zeros: &'a [u8],
    /// The scales: groups * columns.
    pub scales: &'a [f32],
    /// The group of each row.
    pub groups: &'a [u32],
}

/// Columns and rows of a tile.
const WIDTH: usize = 16;
const HEIGHT: usize = 32;

impl Columns<'_> {
    /// Panics unless the lengths match, also that of rows of `stride` weights.
    pub(crate) fn check(&self, stride: usize, out: usize) {
        let Self { count, zeros, scales, groups } = *self;
        assert_eq!(zeros.len(), scales.len(), "{} zeros are not {} scales", zeros.len(), scales.len());
        let values = groups.iter().max().map_or(0, |&last| (last as usize + 1).saturating_mul(count));
        assert!(values <= scales.len(), "groups of {count} columns have {values} scales, not {}", scales.len());
        assert!(groups.len() <= stride || count <= 1, "rows of {} weights are not {stride} apart", groups.len());
        let needed = count.checked_sub(1).map_or(0, |rows| rows.saturating_mul(stride).saturating_add(groups.len()));
        assert!(needed <= out, "{count} rows of weights, {stride} apart, are not in {out}");
    }

    /// Decodes tiles: `(code - zero) * scale`. `unpack` writes the codes of a row from a column on, which is a multiple of
    /// [`WIDTH`].
    pub(crate) fn decode<F: Float>(&self, out: &mut [F], stride: usize, unpack: impl Fn(usize, usize, &mut [u8])) {
        #[inline(always)]
        fn each<F: Float>(
            (columns, out, stride, unpack): (&Columns<'_>, &mut [F], usize, impl Fn(usize, usize, &mut [u8])),
        ) {
            let mut tile = [[0.0; WIDTH]; HEIGHT];
            let mut codes = [0; WIDTH];
            for column in (0..columns.count).step_by(WIDTH) {
                let width = WIDTH.min(columns.count - column);
                for (i, groups) in columns.groups.chunks(HEIGHT).enumerate() {
                    let row = i * HEIGHT;
                    for (i, (&group, tile)) in groups.iter().zip(&mut tile).enumerate() {
                        let codes = &mut codes[..width];
                        unpack(row + i, column, codes);
                        let first = group as usize * columns.count + column;
                        let zeros = &columns.zeros[first..][..width];
                        let scales = &columns.scales[first..][..width];
                        for (((number, &code), &zero), &scale) in tile.iter_mut().zip(&*codes).zip(zeros).zip(scales) {
                            *number = f32::from(i16::from(code) - i16::from(zero)) * scale;
                        }
                    }
                    for i in 0..width {
                        let out = &mut out[(column + i) * stride + row..][..groups.len()];
                        for (out, numbers) in out.iter_mut().zip(&tile) {
                            *out = F::nearest(numbers[i]);
                        }
                    }
                }
            }
        }

        self.check(stride, out.len());
        widest(each, (self, out, stride, unpack));
    }
}
