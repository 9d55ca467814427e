//! Every layout, decoded by the shortest loop for one weight, for random codes, scales and lengths.

use half::{bf16, f16};
use tensorfile_quant::gptq::Version;
use tensorfile_quant::packed::Packing;
use tensorfile_quant::{Columns, Float, Float4, Float8, affine, awq, codebook, float4, float32, gptq, int8, packed};

use crate::support::Random;

/// Decodes to all dtypes, and compares with the weights that a function computes.
macro_rules! check {
    ($name:expr, $weights:expr, $out:ident => $decode:expr, $expected:expr) => {{
        let name = $name;
        let expected: Vec<f32> = (0..$weights).map($expected).collect();
        let mut numbers = vec![0.0_f32; expected.len()];
        let $out = &mut numbers[..];
        $decode;
        for (i, (found, expected)) in numbers.iter().zip(&expected).enumerate() {
            let is_same = found.to_bits() == expected.to_bits() || found.is_nan() && expected.is_nan();
            assert!(is_same, "{name}: weight {i} is {found}, not {expected}");
        }
        let mut rounded = vec![bf16::ZERO; expected.len()];
        let $out = &mut rounded[..];
        $decode;
        for (i, (found, expected)) in rounded.iter().zip(&expected).enumerate() {
            let is_same = found.to_bits() == bf16::from_f32(*expected).to_bits() || found.is_nan() && expected.is_nan();
            assert!(is_same, "{name}: weight {i} is {found} in bf16, not {expected}");
        }
        let mut rounded = vec![f16::ZERO; expected.len()];
        let $out = &mut rounded[..];
        $decode;
        for (i, (found, expected)) in rounded.iter().zip(&expected).enumerate() {
            let is_same = found.to_bits() == f16::from_f32(*expected).to_bits() || found.is_nan() && expected.is_nan();
            assert!(is_same, "{name}: weight {i} is {found} in f16, not {expected}");
        }
    }};
}

/// Weights and groups of a call: short, long, of pieces, and with a last group that is shorter.
const LENGTHS: [(usize, usize); 9] =
    [(0, 32), (1, 1), (31, 7), (64, 64), (1000, 128), (1024, 16), (2050, 48), (3000, 4096), (5000, 32)];

/// Returns the code with an index in a stream of codes, one bit at a time.
fn code(bytes: &[u8], bits: u32, index: usize) -> u8 {
    let bit = |i: usize| bytes[i / 8] >> (i % 8) & 1;
    (0..bits as usize).map(|i| bit(index * bits as usize + i) << i).sum()
}

/// Returns the code with an index among those that do not cross words.
fn padded_code(bytes: &[u8], bits: u32, index: usize) -> u8 {
    let per_word = (32 / bits) as usize;
    code(&bytes[index / per_word * 4..][..4], bits, index % per_word)
}

#[test]
fn codes_of_a_byte_are_decoded_as_one_by_one() {
    let mut random = Random::new();
    for (weights, group) in LENGTHS {
        let (codes, scales) = (random.bytes(weights), random.scales(weights.div_ceil(group)));
        for float in [Float8::E4m3Fn, Float8::E5m2, Float8::E4m3Fnuz, Float8::E5m2Fnuz, Float8::E8m0] {
            check!(format!("{float:?}"), weights, out => float.decode(&codes, &scales, group, out), |i| {
                float.to_f32(codes[i]) * scales[i / group]
            });
        }
        check!("int8", weights, out => int8::decode(&codes, &scales, group, out), |i| {
            f32::from(codes[i].cast_signed()) * scales[i / group]
        });
        let zeros = random.bytes(scales.len());
        check!("int8 with zeros", weights, out => int8::decode_with_zeros(&codes, &zeros, &scales, group, out), |i| {
            f32::from(i16::from(codes[i].cast_signed()) - i16::from(zeros[i / group].cast_signed())) * scales[i / group]
        });
        check!("llm int8", weights, out => int8::decode_llm(&codes, &scales, group, out), |i| {
            (f32::from(codes[i].cast_signed()) * scales[i / group]) * 0.007_874_016
        });
        let numbers = random.scales(weights);
        check!("f32", weights, out => float32::decode(&numbers, &scales, group, out), |i| numbers[i] * scales[i / group]);
        let map: [f32; 256] = random.scales(256).try_into().expect("256 numbers");
        let expected = |i: usize| map[usize::from(codes[i])] * scales[i / group] + 0.03;
        let mut absmax = vec![0.0; weights];
        codebook::decode_absmax(&codes, &map, &scales, group, 0.03, &mut absmax);
        let is_same = |(i, found): (usize, &f32)| found.to_bits() == expected(i).to_bits() || found.is_nan();
        assert!(absmax.iter().enumerate().all(is_same));
    }
}

#[test]
fn codes_of_four_bits_are_decoded_as_one_by_one() {
    const NUMBERS: [f32; 8] = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0];
    let mut random = Random::new();
    for (weights, group) in LENGTHS {
        let (codes, scales) = (random.bytes(weights.div_ceil(2)), random.scales(weights.div_ceil(group)));
        let number = |code: u8| if code > 7 { -NUMBERS[usize::from(code - 8)] } else { NUMBERS[usize::from(code)] };
        check!("ocp", weights, out => Float4::Ocp.decode(&codes, &scales, group, out), |i| {
            number(code(&codes, 4, i)) * scales[i / group]
        });
        check!("modelopt", weights, out => Float4::ModelOpt.decode(&codes, &scales, group, out), |i| {
            (number(code(&codes, 4, i)) + 0.0) * scales[i / group]
        });
        check!("high first", weights, out => Float4::HighFirst.decode(&codes, &scales, group, out), |i| {
            number(code(&codes, 4, i ^ 1)) * scales[i / group]
        });
        let map: [f32; 16] = random.scales(16).try_into().expect("16 numbers");
        check!("map", weights, out => codebook::decode(&codes, &map, &scales, group, out), |i| {
            map[usize::from(code(&codes, 4, i ^ 1))] * scales[i / group]
        });
    }
}

#[test]
fn tiles_of_scales_hold_each_scale_once() {
    let (rows, groups) = (300, 11);
    let mut is_taken = vec![false; 384 * 12];
    for (row, group) in (0..rows).flat_map(|row| (0..groups).map(move |group| (row, group))) {
        let is_taken = &mut is_taken[float4::tile_index(row, group, groups)];
        assert!(!*is_taken, "row {row}, group {group}");
        *is_taken = true;
    }
}

#[test]
fn packed_codes_are_decoded_as_one_by_one() {
    let mut random = Random::new();
    for (weights, group) in LENGTHS {
        let groups = weights.div_ceil(group);
        let (scales, biases) = (random.scales(groups), random.scales(groups));
        for bits in 1..=8 {
            let zeros: Vec<_> = random.bytes(groups).iter().map(|zero| zero & u8::MAX >> (8 - bits)).collect();
            let of_code: Vec<u32> =
                random.bytes(weights).iter().map(|i| u32::from(*i) % u32::try_from(groups).unwrap()).collect();
            for packing in [Packing::Padded, Packing::Dense] {
                let words = random.bytes(4 * packing.words(weights, bits));
                let code = |i| match packing {
                    Packing::Padded => padded_code(&words, bits, i),
                    Packing::Dense => code(&words, bits, i),
                };
                check!(
                    format!("{packing:?}, {bits} bits"), weights,
                    out => packed::decode(&words, bits, packing, &zeros, &scales, group, out),
                    |i| (f32::from(code(i)) - f32::from(zeros[i / group])) * scales[i / group]
                );
                check!(
                    format!("{packing:?}, {bits} bits, by index"), weights,
                    out => packed::decode_by_index(&words, bits, packing, &zeros, &scales, &of_code, out),
                    |i| (f32::from(code(i)) - f32::from(zeros[of_code[i] as usize])) * scales[of_code[i] as usize]
                );
                let mut codes = vec![0; weights];
                packed::unpack(&words, bits, packing, &mut codes);
                assert!(codes.iter().enumerate().all(|(i, &found)| found == code(i)));
            }
            let words = random.bytes((weights * bits as usize).div_ceil(8));
            check!(
                format!("affine, {bits} bits"), weights,
                out => affine::decode(&words, bits, &scales, &biases, group, out),
                |i| f32::from(code(&words, bits, i)) * scales[i / group] + biases[i / group]
            );
        }
    }
}

#[test]
fn rows_of_codes_packed_down_columns_are_those_of_the_columns() {
    let mut random = Random::new();
    let (rows, columns) = (70, 5);
    for bits in 1..=8 {
        for packing in [Packing::Padded, Packing::Dense] {
            let height = packing.words(rows, bits);
            let words = random.bytes(4 * height * columns);
            let column = |column| -> Vec<u8> {
                (0..height).flat_map(|i| words[4 * (i * columns + column)..][..4].to_vec()).collect()
            };
            for row in 0..rows {
                let mut found = vec![0; columns];
                packed::unpack_row(&words, bits, packing, row, &mut found);
                for (i, &found) in found.iter().enumerate() {
                    let mut codes = vec![0; rows];
                    packed::unpack(&column(i), bits, packing, &mut codes);
                    assert_eq!(found, codes[row], "{packing:?}, {bits} bits, row {row}, column {i}");
                }
            }
        }
    }
}

/// Rows, columns, and the rows of a group, or groups in any order.
const MATRICES: [(usize, usize, Option<usize>); 7] = [
    (32, 8, Some(32)),
    (64, 24, Some(16)),
    (128, 40, None),
    (544, 16, Some(128)),
    (1056, 48, Some(1056)),
    (96, 8, None),
    (608, 32, Some(32)),
];

fn groups_of_rows(random: &mut Random, rows: usize, group: Option<usize>) -> Vec<u32> {
    let any = random.bytes(rows);
    let group_of = |row| group.map_or(usize::from(any[row] % 4), |group| row / group);
    (0..rows).map(|row| u32::try_from(group_of(row)).expect("a small number")).collect()
}

#[test]
fn gptq_is_decoded_as_one_by_one() {
    let mut random = Random::new();
    for (rows, columns, group) in MATRICES {
        let groups = groups_of_rows(&mut random, rows, group);
        let values = (*groups.iter().max().expect("rows") as usize + 1) * columns;
        for (bits, version) in [(2, Version::V1), (3, Version::V1), (4, Version::V2), (8, Version::V1)] {
            let scales = random.scales(values);
            let words = random.bytes(rows / 8 * bits as usize * columns);
            let mut zeros = vec![0; values];
            let bytes_of_group = 4 * (columns * bits as usize).div_ceil(32);
            let stored = random.bytes(values / columns * bytes_of_group);
            for (words, zeros) in stored.chunks(bytes_of_group).zip(zeros.chunks_mut(columns)) {
                gptq::unpack_zeros(words, bits, version, zeros);
            }
            let zero = |i| {
                let stored = code(&stored[i / columns * bytes_of_group..], bits, i % columns);
                if version == Version::V1 { stored.wrapping_add(1) & u8::MAX >> (8 - bits) } else { stored }
            };
            let of_column = |column| -> Vec<u8> {
                words.chunks(4 * columns).flat_map(|words| words[4 * column..][..4].to_vec()).collect()
            };
            let of_columns: Vec<_> = (0..columns).map(of_column).collect();
            let parts = Columns { count: columns, zeros: &zeros, scales: &scales, groups: &groups };
            check!(format!("{bits} bits"), rows * columns, out => gptq::decode(&words, bits, &parts, out, rows), |i| {
                let (column, row) = (i / rows, i % rows);
                let index = groups[row] as usize * columns + column;
                (f32::from(code(&of_columns[column], bits, row)) - f32::from(zero(index))) * scales[index]
            });
        }
    }
}

#[test]
fn awq_is_decoded_as_one_by_one() {
    /// The column of each code of a word.
    const ORDER: [usize; 8] = [0, 2, 4, 6, 1, 3, 5, 7];
    let mut random = Random::new();
    for (rows, columns, group) in MATRICES {
        let groups = groups_of_rows(&mut random, rows, group);
        let values = (*groups.iter().max().expect("rows") as usize + 1) * columns;
        let scales = random.scales(values);
        let (words, stored) = (random.bytes(rows * columns / 2), random.bytes(values / 2));
        let place = |column: usize| column / 8 * 8 + ORDER.iter().position(|&i| i == column % 8).expect("a place");
        let code = |bytes: &[u8], row, column| code(bytes, 4, row * columns + place(column));
        let mut zeros = vec![0; values];
        awq::unpack_zeros(&stored, &mut zeros);
        let parts = Columns { count: columns, zeros: &zeros, scales: &scales, groups: &groups };
        check!("awq", rows * columns, out => awq::decode(&words, &parts, out, rows), |i| {
            let (column, row) = (i / rows, i % rows);
            let group = groups[row] as usize;
            let zero = code(&stored, group, column);
            (f32::from(code(&words, row, column)) - f32::from(zero)) * scales[group * columns + column]
        });
    }
}

#[test]
fn transposes_are_those_of_one_by_one() {
    for (rows, columns, stride) in [(1, 1, 1), (7, 9, 7), (16, 24, 20), (33, 8, 33), (100, 70, 128)] {
        let numbers: Vec<_> = (0..rows * columns).collect();
        let mut found = vec![usize::MAX; columns * stride];
        tensorfile_quant::transpose(&numbers, columns, &mut found, stride);
        for (i, &found) in found.iter().enumerate() {
            let (column, row) = (i / stride, i % stride);
            assert_eq!(found, if row < rows { row * columns + column } else { usize::MAX });
        }
    }
}

#[test]
fn numbers_of_files_are_widened() {
    let mut found = [0.0; 2];
    f32::widen_bytes(&[0, 0, 0x80, 0x3f, 0, 0, 0, 0xc0], &mut found);
    assert_eq!(found, [1.0, -2.0]);
    bf16::widen_bytes(&[0x80, 0x3f, 0, 0xc0], &mut found);
    assert_eq!(found, [1.0, -2.0]);
    f16::widen_bytes(&[0, 0x3c, 0, 0xc0], &mut found);
    assert_eq!(found, [1.0, -2.0]);
}
