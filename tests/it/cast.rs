//! Casts between dtypes, and their reports.

use half::{bf16, f16};
use tensorfile::cast::{CastReport, Caster};
use tensorfile::scalar::{F8E4M3Fn, F8E5M2};
use tensorfile::{Dtype, Element, Tensor};

fn cast<A: Element, B: Element>(elements: &[A], expected: &[B]) -> CastReport {
    let bytes = |len, tensor: tensorfile::Result<Tensor, _>| (len, tensor.unwrap().as_bytes().to_vec());
    let (_, from) = bytes(elements.len(), Tensor::from_slice(elements, [elements.len()]));
    let (_, to) = bytes(expected.len(), Tensor::from_slice(expected, [expected.len()]));

    let mut reports = [1, 3, 8, usize::MAX].map(|piece| {
        let mut caster = Caster::between_kinds(A::DTYPE, B::DTYPE).unwrap();
        let mut out = Vec::new();
        from.chunks(piece).for_each(|piece| caster.cast(piece, &mut out));
        assert_eq!(out, to, "{} to {}: {elements:?} should become {expected:?}", A::DTYPE, B::DTYPE);
        caster.report().clone()
    });
    assert!(reports.iter().all(|report| *report == reports[3]), "the same for pieces of any size");
    std::mem::take(&mut reports[3])
}

fn counts(report: &CastReport) -> [u64; 5] {
    [report.elements, report.rounded, report.overflowed, report.underflowed, report.nan_to_zero]
}

fn first_loss(report: &CastReport) -> String {
    report.first_loss.as_ref().unwrap().to_string()
}

#[test]
fn narrowing_to_f16() {
    let half = f16::from_bits;
    let smallest = 2.0_f32.powi(-24);
    let report = cast(
        &[1.0_f32, 65504.0, 65519.996, 65520.0, f32::INFINITY, -0.0, smallest, smallest / 2.0, smallest * 0.75],
        &[
            half(0x3c00),
            half(0x7bff),
            half(0x7bff),
            half(0x7c00),
            half(0x7c00),
            half(0x8000),
            half(1),
            half(0),
            half(1),
        ],
    );
    assert_eq!(counts(&report), [9, 2, 1, 1, 0]);
    assert_eq!(first_loss(&report), "element 3 is 65520, which became inf");

    // Ties go to even: 1 + 2^-11 lies between two, and so does 1 + 3 * 2^-11.
    let step = 2.0_f32.powi(-11);
    let report = cast(&[1.0 + step, 1.0 + 3.0 * step, f32::NAN], &[half(0x3c00), half(0x3c02), half(0x7e00)]);
    assert_eq!(counts(&report), [3, 2, 0, 0, 0]);
    assert!(!report.is_exact() && report.losses() == 0);
    // Rounded to f32 first, this would be a tie that it is not.
    let report = cast(&[1.0 + 2.0_f64.powi(-11) + 2.0_f64.powi(-40)], &[half(0x3c01)]);
    assert_eq!(counts(&report), [1, 1, 0, 0, 0]);
}

#[test]
fn narrowing_to_bf16() {
    let report = cast(
        &[1.0_f32, 1.0 + 2.0_f32.powi(-8), f32::MAX, -f32::MAX, f32::from_bits(1), f32::from_bits(0x8001)],
        &[bf16::ONE, bf16::ONE, bf16::INFINITY, bf16::NEG_INFINITY, bf16::ZERO, bf16::from_bits(1)],
    );
    assert_eq!(counts(&report), [6, 2, 2, 1, 0]);
    let report = cast(&[f16::MAX, f16::from_f32(0.5)], &[bf16::from_f32(65536.0), bf16::from_f32(0.5)]);
    assert_eq!(counts(&report), [2, 1, 0, 0, 0]);
}

#[test]
fn narrowing_to_8_bits() {
    let report = cast(
        &[448.0_f32, 464.0, 465.0, f32::NEG_INFINITY, 2.0_f32.powi(-10), 2.0_f32.powi(-10) * 1.5],
        &[0x7e, 0x7e, 0x7f, 0x7f, 0, 1].map(F8E4M3Fn),
    );
    assert_eq!(counts(&report), [6, 2, 2, 1, 0]);
    assert_eq!(first_loss(&report), "element 2 is 465, which became NaN");
    let report = cast(&[bf16::from_f32(57344.0), bf16::from_f32(-61440.0)], &[F8E5M2(0x7b), F8E5M2(0xfc)]);
    assert_eq!(counts(&report), [2, 0, 1, 0, 0]);
}

#[test]
fn narrowing_to_f32() {
    let report = cast(&[0.1_f64, 1e39, -1e-50, f64::NAN], &[0.1_f32, f32::INFINITY, -0.0, f32::NAN]);
    assert_eq!(counts(&report), [4, 1, 1, 1, 0]);
    assert_eq!(first_loss(&report), "element 1 is 1e39, which became inf");
    assert!(cast(&[0.1_f32, f32::from_bits(1)], &[0.1_f32.into(), f64::from(f32::from_bits(1))]).is_exact());
    assert!(cast(&[f16::MAX, f16::from_bits(1)], &[65504.0_f32, 2.0_f32.powi(-24)]).is_exact());
}

#[test]
fn integers_out_of_range_become_the_limit() {
    let report = cast(&[7_i64, 1 << 31, i64::MIN], &[7, i32::MAX, i32::MIN]);
    assert_eq!(counts(&report), [3, 0, 2, 0, 0]);
    assert_eq!(first_loss(&report), "element 1 is 2147483648, which became 2147483647");
    let report = cast(&[-1_i8, 127], &[0_u64, 127]);
    assert_eq!((counts(&report), first_loss(&report)), ([2, 0, 1, 0, 0], "element 0 is -1, which became 0".to_owned()));
}

#[test]
fn between_integers_and_floats() {
    let report = cast(&[16_777_217_i32, -3], &[16_777_216.0_f32, -3.0]);
    assert_eq!(counts(&report), [2, 1, 0, 0, 0]);
    let report = cast(&[0.5_f32, 1.5, 2.5, -0.0, f32::NAN, 300.0, f32::NEG_INFINITY], &[0_u8, 2, 2, 0, 0, 255, 0]);
    assert_eq!(counts(&report), [7, 2, 2, 1, 1]);
    assert_eq!(first_loss(&report), "element 0 is 0.5, which became 0");
    let report = cast(&[u64::MAX], &[f16::INFINITY]);
    assert_eq!(counts(&report), [1, 0, 1, 0, 0]);
}

#[test]
fn the_first_loss_is_found_after_many_elements() {
    let mut elements = vec![1.0_f32; 5000];
    elements[4321] = 1e10;
    elements[4999] = 1e-10;
    let mut caster = Caster::new(Dtype::F32, Dtype::F16).unwrap();
    let mut out = Vec::new();
    for _ in 0..2 {
        caster.cast(bytemuck::cast_slice(&elements), &mut out);
    }
    assert_eq!(first_loss(caster.report()), "element 4321 is 10000000000, which became inf");
    assert_eq!((counts(caster.report()), out.len()), ([10_000, 0, 2, 2, 0], 20_000));
}

#[test]
fn reports_serialize_to_json() {
    let report = cast(&[1e9_f32], &[f16::INFINITY]);
    let expected = serde_json::json!({
        "elements": 1, "rounded": 0, "overflowed": 1, "underflowed": 0, "nan_to_zero": 0,
        "first_loss": { "element": 0, "from": "1000000000", "to": "inf" },
    });
    assert_eq!(serde_json::to_value(report).unwrap(), expected);
}

#[test]
fn rejects_dtypes_that_are_not_numeric_or_of_another_class() {
    for (from, to, message) in [
        (Dtype::QInt8, Dtype::F32, "cannot cast qint8 to f32; only integers and floats are cast"),
        (Dtype::F32, Dtype::Bool, "cannot cast f32 to bool; only integers and floats are cast"),
        (
            Dtype::I64,
            Dtype::F16,
            "cannot cast i64 to f16; integers and floats are cast to each other only where that is asked for",
        ),
    ] {
        assert_eq!(Caster::new(from, to).unwrap_err().to_string(), message);
    }
    assert!(Caster::new(Dtype::F32, Dtype::F8E5M2).is_ok() && Caster::new(Dtype::U8, Dtype::I64).is_ok());
}
