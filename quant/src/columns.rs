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

/// The codes or words of a tile, each column by itself.
pub(crate) type Tile<T> = [[T; HEIGHT]; WIDTH];

/// Copies words out of rows of `width` words.
pub(crate) fn gather(
    words: &[[u8; 4]],
    width: usize,
    rows: Range<usize>,
    columns: Range<usize>,
    to: &mut Tile<[u8; 4]>,
) {
    for (i, row) in rows.enumerate() {
        let words = &words[row * width..][columns.clone()];
        // Loops of known length are faster: whole tiles of GPTQ, and of AWQ.
        if let Ok(words) = <&[_; WIDTH]>::try_from(words) {
            to.iter_mut().zip(words).for_each(|(to, word)| to[i] = *word);
        } else if let Ok(words) = <&[_; 2]>::try_from(words) {
            to.iter_mut().zip(words).for_each(|(to, word)| to[i] = *word);
        } else {
            to.iter_mut().zip(words).for_each(|(to, word)| to[i] = *word);
        }
    }
}

impl Columns<'_> {
    /// Decodes tiles: `(code - zero) * scale`.
    ///
    /// `fill` writes the codes of rows and columns. Rows begin at a multiple of [`HEIGHT`], and columns at one of [`WIDTH`].
    /// `code` makes a code of what is written for a column, with its shift. `place` has both for a column of the tile. `code` must
    /// be a closure with `#[inline(always)]`.
    #[inline(always)]
    pub(crate) fn decode<T: Copy + Default, F: Float>(
        &self,
        out: &mut [F],
        stride: usize,
        mut fill: impl FnMut(Range<usize>, Range<usize>, &mut Tile<T>),
        place: impl Fn(usize) -> (usize, u32),
        code: impl Fn(T, u32) -> i32,
    ) {
        self.check(stride, out.len());
        let mut tile = [[T::default(); HEIGHT]; WIDTH];
        let mut buffer = [0.0; HEIGHT];
        for (i, groups) in self.groups.chunks(HEIGHT).enumerate() {
            let row = i * HEIGHT;
            let groups = Groups::new(groups);
            for first in (0..self.count).step_by(WIDTH) {
                let columns = first..self.count.min(first + WIDTH);
                fill(row..row + groups.all.len(), columns.clone(), &mut tile);
                for column in columns {
                    let (place, shift) = place(column - first);
                    let out = &mut out[column * stride + row..][..groups.all.len()];
                    F::collect(out, &mut buffer, &mut |_, out| {
                        self.decode_column(
                            column,
                            &groups,
                            &tile[place],
                            out,
                            #[inline(always)]
                            |of_column| code(of_column, shift),
                        );
                    });
                }
            }
        }
    }

    /// Decodes rows of a column.
    #[inline(always)]
    fn decode_column<T: Copy>(
        &self,
        column: usize,
        groups: &Groups<'_>,
        codes: &[T],
        out: &mut [f32],
        code: impl Fn(T) -> i32,
    ) {
        let Self { count, zeros, scales, .. } = *self;
        widest(
            #[inline(always)]
            |groups: &Groups<'_>, codes: &[T], out: &mut [f32]| {
                // The difference is exact.
                let weight = |code: i32, zero: u8, scale: f32| (code - i32::from(zero)) as f32 * scale;
                let index = |group: u32| group as usize * count + column;
                let mut start = 0;
                for run in &groups.runs {
                    let range = start..run.end;
                    start = run.end;
                    let (groups, codes, out) = (&groups.all[range.clone()], &codes[range.clone()], &mut out[range]);
                    if let Some(group) = run.group {
                        let (zero, scale) = (zeros[index(group)], scales[index(group)]);
                        for (&of_column, out) in codes.iter().zip(out) {
                            *out = weight(code(of_column), zero, scale);
                        }
                    } else {
                        for ((&group, &of_column), out) in groups.iter().zip(codes).zip(out) {
                            *out = weight(code(of_column), zeros[index(group)], scales[index(group)]);
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

/// The groups of rows.
struct Groups<'a> {
    all: &'a [u32],
    runs: Vec<Run>,
}

struct Run {
    end: usize,
    /// The group of all rows. `None` if they have several.
    group: Option<u32>,
}

impl<'a> Groups<'a> {
    /// Finds runs of rows that have a group, or several, after each other.
    fn new(all: &'a [u32]) -> Self {
        /// Rows that are compared at once: the smallest groups in use.
        const ROWS: usize = 32;
        let mut runs: Vec<Run> = Vec::with_capacity(HEIGHT / ROWS);
        for (i, groups) in all.chunks(ROWS).enumerate() {
            let group = groups.iter().all(|group| group == &groups[0]).then_some(groups[0]);
            let end = i * ROWS + groups.len();
            match runs.last_mut() {
                Some(last) if last.group == group => last.end = end,
                _ => runs.push(Run { end, group }),
            }
        }
        Self { all, runs }
    }
}
