//! Weights that are stored \[in, out\], and decoded to \[out, in\].

use std::ops::Range;

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

/// Columns and rows of a tile: a line of the cache of words, and whole words of codes.
pub(crate) const WIDTH: usize = 16;
pub(crate) const HEIGHT: usize = 512;

/// The codes of a tile, each column by itself.
pub(crate) type Tile = [[u8; HEIGHT]; WIDTH];

impl Columns<'_> {
    /// Decodes tiles: `(code - zero) * scale`. `unpack` writes the codes of rows from a column on, which is a multiple of
    /// [`WIDTH`]. Rows begin at a multiple of [`HEIGHT`].
    pub(crate) fn decode<F: Float>(
        &self,
        out: &mut [F],
        stride: usize,
        mut unpack: impl FnMut(Range<usize>, Range<usize>, &mut Tile),
    ) {
        self.check(stride, out.len());
        let mut tile = [[0; HEIGHT]; WIDTH];
        for (i, groups) in self.groups.chunks(HEIGHT).enumerate() {
            let row = i * HEIGHT;
            let groups = Groups::new(groups);
            for first in (0..self.count).step_by(WIDTH) {
                let columns = first..self.count.min(first + WIDTH);
                unpack(row..row + groups.all.len(), columns.clone(), &mut tile);
                for (column, codes) in columns.zip(&tile) {
                    let out = &mut out[column * stride + row..][..groups.all.len()];
                    F::collect(out, HEIGHT, &mut |_, out| self.decode_column(column, &groups, codes, out));
                }
            }
        }
    }

    /// Decodes rows of a column.
    fn decode_column(&self, column: usize, groups: &Groups<'_>, codes: &[u8], out: &mut [f32]) {
        let Self { count, zeros, scales, .. } = *self;
        widest(
            #[inline(always)]
            |groups: &Groups<'_>, codes: &[u8], out: &mut [f32]| {
                let pieces = groups.all.chunks(LANES).zip(&groups.is_one);
                for (((groups, &is_one), codes), out) in pieces.zip(codes.chunks(LANES)).zip(out.chunks_mut(LANES)) {
                    let index = |group: u32| group as usize * count + column;
                    if is_one {
                        let index = index(groups[0]);
                        let (zero, scale) = (i16::from(zeros[index]), scales[index]);
                        for (&code, out) in codes.iter().zip(out) {
                            *out = f32::from(i16::from(code) - zero) * scale;
                        }
                    } else {
                        for ((&group, &code), out) in groups.iter().zip(codes).zip(out) {
                            let index = index(group);
                            *out = f32::from(i16::from(code) - i16::from(zeros[index])) * scales[index];
                        }
                    }
                }
            },
            groups,
            codes,
            out,
        );
    }

    /// Panics unless the lengths match, also that of rows of `stride` weights.
    fn check(&self, stride: usize, out: usize) {
        let Self { count, zeros, scales, groups } = *self;
        assert_eq!(zeros.len(), scales.len(), "{} zeros are not {} scales", zeros.len(), scales.len());
        let values = groups.iter().max().map_or(0, |&last| (last as usize + 1).saturating_mul(count));
        assert!(values <= scales.len(), "groups of {count} columns have {values} scales, not {}", scales.len());
        assert!(groups.len() <= stride || count <= 1, "rows of {} weights are not {stride} apart", groups.len());
        let needed = count.checked_sub(1).map_or(0, |rows| rows.saturating_mul(stride).saturating_add(groups.len()));
        assert!(needed <= out, "{count} rows of weights, {stride} apart, are not in {out}");
    }
}

/// The groups of up to [`HEIGHT`] rows.
struct Groups<'a> {
    all: &'a [u32],
    /// Whether the next [`LANES`] rows have the same group.
    is_one: [bool; HEIGHT / LANES],
}

/// Rows that may have the same group: the smallest groups in use.
const LANES: usize = 32;

impl<'a> Groups<'a> {
    fn new(all: &'a [u32]) -> Self {
        let mut is_one = [false; HEIGHT / LANES];
        for (groups, is_one) in all.chunks(LANES).zip(&mut is_one) {
            *is_one = groups.iter().all(|group| group == &groups[0]);
        }
        Self { all, is_one }
    }
}
