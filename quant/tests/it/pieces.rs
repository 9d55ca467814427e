//! Any run of whole groups, blocks or columns has the weights of the whole.

use tensorfile_quant::{Block, Columns, Float4, Float8, affine, awq, gptq};

use crate::support::Random;

fn assert_same(name: &str, found: &[f32], expected: &[f32]) {
    for (i, (found, expected)) in found.iter().zip(expected).enumerate() {
        let is_same = found.to_bits() == expected.to_bits() || found.is_nan() && expected.is_nan();
        assert!(is_same, "{name}: weight {i} is {found}, not {expected}");
    }
}

#[test]
fn blocks_are_decoded_alone_as_together() {
    let mut random = Random::new();
    for &block in Block::ALL {
        assert_eq!(Block::from_name(block.name()), Some(block));
        let blocks = 37;
        let bytes = random.bytes(blocks * block.bytes());
        let mut whole = vec![0.0_f32; blocks * block.weights()];
        block.decode(&bytes, &mut whole);
        for count in [1, 3, 36] {
            let mut pieces = vec![0.0_f32; whole.len()];
            for (bytes, out) in bytes.chunks(count * block.bytes()).zip(pieces.chunks_mut(count * block.weights())) {
                block.decode(bytes, out);
            }
            assert_same(block.name(), &pieces, &whole);
        }
    }
}

#[test]
fn groups_are_decoded_alone_as_together() {
    let mut random = Random::new();
    let (groups, group) = (50, 64);
    let (codes, scales) = (random.bytes(groups * group), random.scales(groups));
    let mut whole = vec![0.0_f32; groups * group];
    let mut pieces = whole.clone();
    for count in [1, 7] {
        Float8::E4m3Fn.decode(&codes, &scales, group, &mut whole);
        for (i, out) in pieces.chunks_mut(count * group).enumerate() {
            let scales = &scales[i * count..][..out.len() / group];
            Float8::E4m3Fn.decode(&codes[i * count * group..][..out.len()], scales, group, out);
        }
        assert_same("float8", &pieces, &whole);

        Float4::Ocp.decode(&codes[..whole.len() / 2], &scales, group, &mut whole);
        for (i, out) in pieces.chunks_mut(count * group).enumerate() {
            let scales = &scales[i * count..][..out.len() / group];
            Float4::Ocp.decode(&codes[i * count * group / 2..][..out.len() / 2], scales, group, out);
        }
        assert_same("float4", &pieces, &whole);

        affine::decode(&codes[..whole.len() / 8 * 3], 3, &scales, &scales, group, &mut whole);
        for (i, out) in pieces.chunks_mut(count * group).enumerate() {
            let scales = &scales[i * count..][..out.len() / group];
            affine::decode(&codes[i * count * group / 8 * 3..][..out.len() / 8 * 3], 3, scales, scales, group, out);
        }
        assert_same("affine", &pieces, &whole);
    }
}

/// Returns the columns of rows of a number of columns.
fn columns_of<T: Copy>(rows: &[T], columns: usize, range: std::ops::Range<usize>) -> Vec<T> {
    rows.chunks(columns).flat_map(|row| &row[range.clone()]).copied().collect()
}

#[test]
fn tiles_of_columns_are_decoded_alone_as_together() {
    let mut random = Random::new();
    let (rows, columns, group) = (640, 56, 64);
    let groups: Vec<_> = (0..rows).map(|row| u32::try_from(row / group).expect("a small number")).collect();
    let zeros = random.bytes(rows / group * columns);
    let scales = random.scales(zeros.len());
    let all = Columns { count: columns, zeros: &zeros, scales: &scales, groups: &groups };
    let words = random.bytes(rows * columns / 2);
    let [mut gptq, mut awq] = [(); 2].map(|()| vec![0.0_f32; rows * columns]);
    gptq::decode(&words, 4, &all, &mut gptq, rows);
    awq::decode(&words, &all, &mut awq, rows);

    let [mut gptq_tiles, mut awq_tiles] = [(); 2].map(|()| vec![0.0_f32; rows * columns]);
    for (row, height) in [(0, 64), (64, 512), (576, 64)] {
        for (column, width) in [(0, 8), (8, 40), (48, 8)] {
            let range = column..column + width;
            let (zeros, scales) =
                (columns_of(&zeros, columns, range.clone()), columns_of(&scales, columns, range.clone()));
            let tile = Columns { count: width, zeros: &zeros, scales: &scales, groups: &groups[row..][..height] };
            let first = column * rows + row;
            let of_rows = &words[row * columns / 2..][..height * columns / 2];
            let of_columns = columns_of(of_rows.as_chunks::<4>().0, columns, range.clone());
            gptq::decode(of_columns.as_flattened(), 4, &tile, &mut gptq_tiles[first..], rows);
            let of_columns = columns_of(of_rows.as_chunks::<4>().0, columns / 8, column / 8..(column + width) / 8);
            awq::decode(of_columns.as_flattened(), &tile, &mut awq_tiles[first..], rows);
        }
    }
    assert_same("gptq", &gptq_tiles, &gptq);
    assert_same("awq", &awq_tiles, &awq);
}
