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

/// The words of a tile, each column by itself.
pub(crate) type Words = [[[u8; 4]; HEIGHT]; WIDTH];

/// Copies words out of rows of `width` words.
pub(crate) fn gather(words: &[[u8; 4]], width: usize, rows: Range<usize>, columns: Range<usize>, to: &mut Words) {
    for (i, row) in rows.enumerate() {
        let words = &words[row * width..][columns.clone()];
        if let Ok(words) = <&[_; WIDTH]>::try_from(words) {
            // The same with a known length, which is faster.
            to.iter_mut().zip(words).for_each(|(to, word)| to[i] = *word);
        } else {
            to.iter_mut().zip(words).for_each(|(to, word)| to[i] = *word);
        }
    }
}

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
        let mut buffer = [0.0; HEIGHT];
        for (i, groups) in self.groups.chunks(HEIGHT).enumerate() {
            let row = i * HEIGHT;
            let groups = Groups::new(groups);
            for first in (0..self.count).step_by(WIDTH) {
                let columns = first..self.count.min(first + WIDTH);
                unpack(row..row + groups.all.len(), columns.clone(), &mut tile);
                for (column, codes) in columns.zip(&tile) {
                    let out = &mut out[column * stride + row..][..groups.all.len()];
                    F::collect(out, &mut buffer, &mut |_, out| self.decode_column(column, &groups, codes, out));
                }
            }
        }
    }

    /// Decodes rows of a column.
    fn decode_column(&self, column: usize, groups: &Groups<'_>, codes: &[u8], out: &mut [f32]) {
        let Self { count, zeros, scales, .. } = *self;
        let index = |group: u32| group as usize * count + column;
        let runs = groups.runs.iter().scan(0, |start, run| {
            let range = *start..run.end;
            *start = run.end;
            Some((range, run.group))
        });
        for (run, group) in runs {
            let (groups, codes, out) = (&groups.all[run.clone()], &codes[run.clone()], &mut out[run]);
            if let Some(group) = group {
                let index = index(group);
                let (zero, scale) = (i16::from(zeros[index]), scales[index]);
                widest(
                    #[inline(always)]
                    |codes: &[u8], out: &mut [f32], ()| {
                        for (&code, out) in codes.iter().zip(out) {
                            *out = f32::from(i16::from(code) - zero) * scale;
                        }
                    },
                    codes,
                    out,
                    (),
                );
            } else {
                for ((&group, &code), out) in groups.iter().zip(codes).zip(out) {
                    let index = index(group);
                    *out = f32::from(i16::from(code) - i16::from(zeros[index])) * scales[index];
                }
            }
        }
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
