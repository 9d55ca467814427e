//! Lengths that do not match are found before anything is decoded.

use std::panic::{AssertUnwindSafe, catch_unwind};

use tensorfile_quant::gptq::Version;
use tensorfile_quant::packed::Packing;
use tensorfile_quant::{Block, Columns, Float, Float4, Float8, affine, awq, codebook, float32, gptq, int8, packed};

/// Returns the message of a panic.
fn message(run: impl FnOnce()) -> String {
    let panic = catch_unwind(AssertUnwindSafe(run)).expect_err("it panics");
    panic
        .downcast_ref::<String>()
        .cloned()
        .or_else(|| panic.downcast_ref::<&str>().map(|&text| text.into()))
        .expect("a text")
}

#[test]
fn lengths_that_do_not_match_are_named() {
    let mut out = [0.0_f32; 64];
    let out = &mut out[..];
    let map = [0.0; 16];
    assert_eq!(
        message(|| Block::Q4_0.decode(&[0; 36], &mut out[..32])),
        "36 bytes of q4_0 are not 32 weights, at 32 in 18 bytes"
    );
    assert_eq!(
        message(|| Block::Q4_0.decode(&[0; 35], &mut out[..32])),
        "35 bytes of q4_0 are not 32 weights, at 32 in 18 bytes"
    );
    assert_eq!(message(|| int8::decode(&[0; 63], &[1.0], 64, out)), "63 codes are not 64 weights");
    assert_eq!(
        message(|| Float8::E5m2.decode(&[0; 64], &[1.0], 32, out)),
        "64 codes in groups of 32 have 2 scales, not 1"
    );
    assert_eq!(message(|| float32::decode(&[0.0; 64], &[1.0], 0, out)), "groups have at least one code");
    assert_eq!(message(|| Float4::Ocp.decode(&[0; 33], &[1.0; 4], 16, out)), "66 codes are not 64 weights");
    assert_eq!(message(|| codebook::decode(&[0; 31], &map, &[1.0], 64, out)), "62 codes are not 64 weights");
    assert_eq!(
        message(|| packed::decode(&[0; 32], 3, Packing::Padded, &[0], &[1.0], 64, out)),
        "64 codes of 3 bits are in 28 bytes, not 32"
    );
    assert_eq!(
        message(|| packed::decode(&[0; 24], 3, Packing::Dense, &[0, 0], &[1.0], 64, out)),
        "64 codes in groups of 64 have 1 scales, not 2"
    );
    assert_eq!(
        message(|| packed::decode_by_index(&[0; 4], 4, Packing::Dense, &[0; 2], &[1.0; 2], &[0, 2], &mut out[..2])),
        "3 groups have 3 scales, not 2"
    );
    assert_eq!(
        message(|| int8::decode_with_zeros(&[0; 64], &[0], &[1.0; 2], 32, out)),
        "64 codes in groups of 32 have 2 scales, not 1"
    );
    assert_eq!(message(|| packed::unpack(&[], 9, Packing::Dense, &mut [])), "codes have 1 to 8 bits");
    assert_eq!(
        message(|| packed::unpack_row(&[0; 8], 3, Packing::Dense, 10, &mut [0; 2])),
        "row 10 of 3 bits is in 4 words, not 2"
    );
    assert_eq!(
        message(|| affine::decode(&[0; 32], 5, &[1.0], &[1.0], 64, out)),
        "64 codes of 5 bits are in 40 bytes, not 32"
    );
    assert_eq!(
        message(|| gptq::unpack_zeros(&[0; 8], 4, Version::V1, &mut [0; 8])),
        "8 zeros of 4 bits are in 4 bytes, not 8"
    );
    assert_eq!(message(|| awq::unpack_zeros(&[0; 4], &mut [0; 4])), "4 bytes are not 4 zeros of 4 bits");
    assert_eq!(message(|| half::bf16::widen_bytes(&[0; 3], &mut [0.0])), "3 bytes are not 1 numbers of 2 bytes");
}

#[test]
fn columns_that_do_not_match_are_named() {
    let mut out = [0.0_f32; 64];
    let columns = Columns { count: 8, zeros: &[0; 8], scales: &[1.0; 8], groups: &[0; 8] };
    let mut decode = |columns: &Columns<'_>, words: usize, stride| {
        message(|| gptq::decode(&[0; 36][..words], 4, columns, &mut out, stride))
    };
    assert_eq!(decode(&columns, 36, 8), "8 rows of 8 codes of 4 bits are in 8 words, not 9");
    assert_eq!(decode(&columns, 32, 7), "rows of 8 weights are not 7 apart");
    assert_eq!(decode(&columns, 32, 9), "8 rows of weights, 9 apart, are not in 64");
    assert_eq!(decode(&Columns { zeros: &[0; 7], ..columns }, 32, 8), "7 zeros are not 8 scales");
    let groups = &[0, 0, 0, 0, 0, 0, 0, 1];
    assert_eq!(decode(&Columns { groups, ..columns }, 32, 8), "groups of 8 columns have 16 scales, not 8");
    let groups = &[u32::MAX; 8];
    assert_eq!(decode(&Columns { groups, ..columns }, 32, 8), "groups of 8 columns have 34359738368 scales, not 8");
    assert_eq!(message(|| awq::decode(&[0; 28], &columns, &mut out, 8)), "8 rows of 8 codes are not in 7 words");
}

#[test]
fn nothing_is_decoded_from_nothing() {
    let out: &mut [f32] = &mut [];
    Block::Q4K.decode(&[], out);
    // One scale for all weights is no contradiction.
    Float8::E4m3Fn.decode(&[], &[1.0], 128, out);
    Float4::Ocp.decode(&[], &[], 16, out);
    let columns = Columns { count: 0, zeros: &[], scales: &[], groups: &[] };
    gptq::decode(&[], 4, &columns, out, 0);
    awq::decode(&[], &columns, out, 0);
    tensorfile_quant::transpose::<f32>(&[], 1, out, 0);
}
