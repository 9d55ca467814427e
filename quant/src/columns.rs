//! Weights that are stored \[in, out\], and decoded to \[out, in\].

use std::ops::Range;

use crate::Float;
use crate::vectors::widest;

/// The zeros and scales of columns of weights, as GPTQ and AWQ store them.
///
/// These may be a tile of a tensor: some of its columns with their zeros and scales, and some of its rows with their groups.
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

/// Columns of a tile: a line of the cache of words.
pub(crate) const WIDTH: usize = 16;
/// Rows of a tile. Their codes end with a word. Each column is written to one row of the result, so longer runs are faster.
pub(crate) const HEIGHT: usize = 1024;

/// Copies words out of rows of `width` words, each column by itself.
pub(crate) fn gather<const ROWS: usize, const COLUMNS: usize>(
    words: &[[u8; 4]],
    width: usize,
    rows: Range<usize>,
    columns: Range<usize>,
    to: &mut [[[u8; 4]; ROWS]; COLUMNS],
) {
    for (i, row) in rows.enumerate() {
        let words = &words[row * width..][columns.clone()];
        if let Ok(words) = <&[_; COLUMNS]>::try_from(words) {
            // The same with a known length, which is faster.
            to.iter_mut().zip(words).for_each(|(to, word)| to[i] = *word);
        } else {
            to.iter_mut().zip(words).for_each(|(to, word)| to[i] = *word);
        }
    }
}

impl Columns<'_> {
    /// Decodes tiles: `(code - zero) * scale`.
    ///
    /// `fill` writes the codes of some rows and columns to a tile, or words with the codes of several columns. Its rows begin at a
    /// multiple of [`HEIGHT`], and its columns at a multiple of [`WIDTH`]. `place` returns the index and the shift of a column in the
    /// tile. `code` returns the code in a word; it must be a closure with `#[inline(always)]`.
    #[inline(always)]
    pub(crate) fn decode<T: Copy + Default, const PLACES: usize, F: Float>(
        &self,
        out: &mut [F],
        stride: usize,
        mut fill: impl FnMut(Range<usize>, Range<usize>, &mut [[T; HEIGHT]; PLACES]),
        place: impl Fn(usize) -> (usize, u32),
        code: impl Fn(T, u32) -> i32,
    ) {
        self.check(stride, out.len());
        let mut tile = [[T::default(); HEIGHT]; PLACES];
        let mut buffer = [0.0; HEIGHT];
        let mut parameters = Vec::new();
        for (i, groups) in self.groups.chunks(HEIGHT).enumerate() {
            let row = i * HEIGHT;
            let groups = Groups::new(groups);
            for first in (0..self.count).step_by(WIDTH) {
                let columns = first..self.count.min(first + WIDTH);
                fill(row..row + groups.of_rows.len(), columns.clone(), &mut tile);
                for column in columns {
                    // Collected once, as they lie far apart.
                    parameters.clear();
                    parameters.extend(groups.distinct.iter().map(|&group| {
                        let index = group as usize * self.count + column;
                        (i32::from(self.zeros[index]), self.scales[index])
                    }));
                    let (place, shift) = place(column - first);
                    let out = &mut out[column * stride + row..][..groups.of_rows.len()];
                    F::collect(out, &mut buffer, &mut |_, out| {
                        decode_column(
                            &groups,
                            &parameters,
                            &tile[place],
                            out,
                            #[inline(always)]
                            |word| code(word, shift),
                        );
                    });
                }
            }
        }
    }

    /// Panics unless the lengths match, also that of rows of `stride` weights.
    fn check(&self, stride: usize, out: usize) {
        let Self { count, zeros, scales, groups } = *self;
        assert!(zeros.len() == scales.len(), "{} zeros are not {} scales", zeros.len(), scales.len());
        let values = groups.iter().max().map_or(0, |&last| (last as usize + 1).saturating_mul(count));
        assert!(values <= scales.len(), "groups of {count} columns have {values} scales, not {}", scales.len());
        assert!(groups.len() <= stride || count <= 1, "rows of {} weights are not {stride} apart", groups.len());
        let needed = count.checked_sub(1).map_or(0, |rows| rows.saturating_mul(stride).saturating_add(groups.len()));
        assert!(needed <= out, "{count} rows of weights, {stride} apart, are not in {out}");
    }
}

/// Decodes rows of a column with the zeros and scales of their groups.
#[inline(always)]
fn decode_column<T: Copy>(
    groups: &Groups,
    parameters: &[(i32, f32)],
    codes: &[T],
    out: &mut [f32],
    code: impl Fn(T) -> i32,
) {
    widest(
        #[inline(always)]
        |parameters: &[(i32, f32)], codes: &[T], out: &mut [f32]| {
            // The difference is exact.
            let weight = |code: i32, (zero, scale): (i32, f32)| (code - zero) as f32 * scale;
            let mut start = 0;
            for run in &groups.runs {
                let (rows, codes, out) =
                    (&groups.of_rows[start..run.end], &codes[start..run.end], &mut out[start..run.end]);
                start = run.end;
                if let Some(group) = run.group {
                    let parameters = parameters[group];
                    for (&word, out) in codes.iter().zip(out) {
                        *out = weight(code(word), parameters);
                    }
                } else {
                    for ((&group, &word), out) in rows.iter().zip(codes).zip(out) {
                        *out = weight(code(word), parameters[group]);
                    }
                }
            }
        },
        parameters,
        codes,
        out,
    );
}

/// The groups of some rows.
struct Groups {
    distinct: Vec<u32>,
    /// The index of each row's group among the distinct ones.
    of_rows: Vec<usize>,
    runs: Vec<Run>,
}

/// Consecutive rows.
struct Run {
    end: usize,
    /// The group of all rows, as in [`Groups::of_rows`]. `None` if there are several.
    group: Option<usize>,
}

impl Groups {
    fn new(groups: &[u32]) -> Self {
        /// Rows that are compared at once: the smallest groups in use.
        const ROWS: usize = 32;
        let mut distinct = groups.to_vec();
        distinct.sort_unstable();
        distinct.dedup();
        let index = |group: &u32| distinct.binary_search(group).expect("the group of a row");
        let of_rows: Vec<_> = groups.iter().map(index).collect();
        let mut runs: Vec<Run> = Vec::new();
        for (i, rows) in of_rows.chunks(ROWS).enumerate() {
            let group = rows.iter().all(|group| group == &rows[0]).then_some(rows[0]);
            let end = i * ROWS + rows.len();
            match runs.last_mut() {
                Some(last) if last.group == group => last.end = end,
                _ => runs.push(Run { end, group }),
            }
        }
        Self { distinct, of_rows, runs }
    }
}
