/// Width and height of a tile.
const TILE: usize = 8;

/// Transposes rows of `columns` numbers. Rows of the result are `stride` apart.
///
/// The experts of gpt-oss are stored \[out, in\], and loaded \[in, out\].
///
/// ```
/// let mut transposed = [0; 6];
/// tensorfile_quant::transpose(&[1, 2, 3, 4, 5, 6], 3, &mut transposed, 2);
/// assert_eq!(transposed, [1, 4, 2, 5, 3, 6]);
/// ```
///
/// # Panics
///
/// If the lengths of `numbers` and `out` do not match.
pub fn transpose<T: Copy>(numbers: &[T], columns: usize, out: &mut [T], stride: usize) {
    assert!(
        columns > 0 && numbers.len().is_multiple_of(columns),
        "{} numbers are not rows of {columns}",
        numbers.len()
    );
    let rows = numbers.len() / columns;
    assert!(rows <= stride || columns == 1, "rows of {rows} numbers are not {stride} apart");
    let needed = (columns - 1).saturating_mul(stride).saturating_add(rows);
    assert!(needed <= out.len(), "{columns} rows of {rows} numbers, {stride} apart, are not in {}", out.len());
    for row in (0..rows).step_by(TILE) {
        for column in (0..columns).step_by(TILE) {
            let (height, width) = (TILE.min(rows - row), TILE.min(columns - column));
            if (height, width) == (TILE, TILE) {
                // The same with known lengths, which is faster.
                transpose_tile::<T, TILE>(
                    &numbers[row * columns + column..],
                    columns,
                    &mut out[column * stride + row..],
                    stride,
                );
                continue;
            }
            for i in column..column + width {
                for j in row..row + height {
                    out[i * stride + j] = numbers[j * columns + i];
                }
            }
        }
    }
}

#[inline(always)]
fn transpose_tile<T: Copy, const TILE: usize>(numbers: &[T], columns: usize, out: &mut [T], stride: usize) {
    let rows: [&[T; TILE]; TILE] = std::array::from_fn(|i| numbers[i * columns..].first_chunk().expect("a tile"));
    for i in 0..TILE {
        let out: &mut [T; TILE] = out[i * stride..].first_chunk_mut().expect("a tile");
        for (out, row) in out.iter_mut().zip(rows) {
            *out = row[i];
        }
    }
}
