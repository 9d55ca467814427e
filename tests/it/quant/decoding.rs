//! Weights decoded right to the bit, in every way in which a file is read.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::ops::Range;

use half::bf16;
use ndarray::{ArrayD, ArrayViewD};
use sha2::{Digest as _, Sha256};
use tensorfile::view::Dequantized;
use tensorfile::{Dequantize, Dtype, File, OpenOptions, Tensor, TensorInfo, TensorMap, safetensors};

use super::{Case, cases};

/// The cases that are decoded.
pub fn decoded() -> impl Iterator<Item = Case> {
    cases().into_iter().filter(|case| case.kind == "quantized")
}

fn to(dtype: Dtype) -> OpenOptions {
    OpenOptions::new().dequantize(Dequantize::to(dtype))
}

/// Returns the digest of little-endian elements, with one NaN for all.
fn digest(dtype: Dtype, bytes: &[u8]) -> String {
    let mut sha = Sha256::new();
    match dtype {
        Dtype::F32 => {
            for bytes in bytes.as_chunks::<4>().0 {
                let is_nan = f32::from_le_bytes(*bytes).is_nan();
                sha.update(if is_nan { 0x7fc0_0000_u32.to_le_bytes() } else { *bytes });
            }
        }
        _ => {
            for bytes in bytes.as_chunks::<2>().0 {
                let is_nan = bf16::from_le_bytes(*bytes).is_nan();
                sha.update(if is_nan { 0x7fc0_u16.to_le_bytes() } else { *bytes });
            }
        }
    }
    sha.finalize().iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").unwrap();
        text
    })
}

/// Checks all weights of a file against those of a case.
pub fn check(case: &Case, what: &str, dtype: Dtype, weights: &BTreeMap<String, Tensor>) {
    for (name, weight) in &case.tensors {
        let tensor = weights.get(name).unwrap_or_else(|| panic!("{}: {what}: no {name}", case.name));
        let context = format!("{}: {what}: `{name}` in {dtype}", case.name);
        assert_eq!((tensor.dtype(), tensor.shape().dims()), (dtype, &weight.shape[..]), "{context}");
        let expected = if dtype == Dtype::F32 { &weight.f32 } else { &weight.bf16 };
        assert_eq!(&digest(dtype, tensor.as_bytes()), expected, "{context}");
    }
}

pub fn all(file: &File) -> BTreeMap<String, Tensor> {
    file.tensors().map(|tensor| (tensor.name().to_owned(), tensor.read().unwrap())).collect()
}

#[test]
fn every_case_is_right_to_the_bit() {
    for case in decoded() {
        for dtype in [Dtype::F32, Dtype::Bf16] {
            let file = to(dtype).open(case.path()).unwrap();
            assert!(file.quantized().unwrap().is_empty(), "{}", case.name);
            check(&case, "one by one", dtype, &all(&file));
            let map: TensorMap = file.load().unwrap();
            check(&case, "loaded", dtype, &map.into_iter().collect());
            let mut written = BTreeMap::new();
            for tensor in file.tensors() {
                let mut bytes = Vec::new();
                tensor.write_row_major_to(&mut bytes).unwrap();
                written.insert(tensor.name().to_owned(), Tensor::new(tensor.info().clone(), &bytes).unwrap());
            }
            check(&case, "written", dtype, &written);
            let copy =
                File::from_bytes(safetensors::FORMAT.to_vec(&file, &tensorfile::WriteOptions::new()).unwrap()).unwrap();
            check(&case, "converted", dtype, &all(&copy));
        }
    }
}

#[test]
fn parts_may_be_in_memory_and_in_any_order() {
    for case in decoded() {
        let file = case.open();
        if file.format().name == "gguf" {
            continue;
        }
        let map: TensorMap = file.load().unwrap();
        let backwards: TensorMap = map.into_iter().rev().collect();
        let mut options = to(Dtype::F32);
        for name in ["config.json", "hf_quant_config.json"] {
            let path = case.path().join(name);
            if path.is_file() && std::fs::read_to_string(&path).unwrap().contains("quantization") {
                options = options.config(path);
            }
        }
        let file = options.from_bytes(safetensors::to_vec(&backwards).unwrap()).unwrap();
        check(&case, "backwards", Dtype::F32, &all(&file));
    }
}

#[test]
fn maps_are_decoded_as_they_are_sent() {
    let mut decoded_weights = 0;
    for case in decoded() {
        let map: TensorMap = case.open().load().unwrap();
        for dtype in [Dtype::F32, Dtype::Bf16] {
            let decoded = Dequantized::new(&map, &Dequantize::to(dtype)).unwrap();
            let weights: BTreeMap<String, Tensor> = decoded.load::<TensorMap>().unwrap().into_iter().collect();
            // Without the configuration, some are unknown.
            if case.tensors.keys().all(|name| weights.contains_key(name) && weights.get(name) != map.get(name)) {
                check(&case, "map", dtype, &weights);
                decoded_weights += 1;
            }
            if let Ok(bytes) = safetensors::FORMAT.to_vec(&decoded, &tensorfile::WriteOptions::new()) {
                assert_eq!(all(&File::from_bytes(bytes).unwrap()), weights, "{}", case.name);
            }
        }
    }
    assert!(decoded_weights >= 50, "{decoded_weights}");
    assert!(
        Dequantized::new(&TensorMap::new(), &Dequantize::to(Dtype::F32))
            .unwrap()
            .load::<TensorMap>()
            .unwrap()
            .is_empty()
    );
}

fn view(tensor: &Tensor) -> ArrayD<f32> {
    tensor.as_view().to_array::<f32>().unwrap()
}

/// Numbers that are compared as bits, with one NaN for all.
fn bits(array: &ArrayViewD<'_, f32>) -> Vec<u32> {
    array.iter().map(|number| if number.is_nan() { 0x7fc0_0000 } else { number.to_bits() }).collect()
}

/// Boxes of a shape: halves, single rows and columns, and ranges that begin and end within groups.
fn boxes(shape: &[usize]) -> Vec<Vec<Range<usize>>> {
    let cuts = |dim: usize| {
        let third = dim / 3;
        vec![0..dim, 0..dim / 2, dim / 2..dim, dim - 1..dim, third..(third + 5).min(dim), 1.min(dim - 1)..dim]
    };
    let choices: Vec<Vec<Range<usize>>> = shape.iter().map(|dim| cuts(*dim)).collect();
    let one =
        |pick: &dyn Fn(usize) -> usize| choices.iter().enumerate().map(|(dim, cuts)| cuts[pick(dim)].clone()).collect();
    let mut boxes: Vec<Vec<Range<usize>>> = (0..6).map(|cut| one(&|_| cut)).collect();
    boxes.extend((0..6).map(|cut| one(&|dim| if dim + 1 == shape.len() { cut } else { 0 })));
    boxes.extend((0..6).map(|cut| one(&|dim| if dim + 1 == shape.len() { 0 } else { cut })));
    boxes.extend((0..6).map(|cut| one(&|dim| (cut + 2 * dim) % 6)));
    boxes
}

#[test]
fn any_slice_equals_that_of_the_whole() {
    for case in decoded() {
        let file = to(Dtype::F32).open(case.path()).unwrap();
        for name in case.tensors.keys() {
            let tensor = file.get(name).unwrap();
            let whole = view(&tensor.read().unwrap());
            for ranges in boxes(tensor.shape().dims()) {
                let part = view(&tensor.slice(&ranges).unwrap());
                let expected = whole.slice_each_axis(|axis| {
                    let range = &ranges[axis.axis.index()];
                    ndarray::Slice::from(range.clone())
                });
                assert_eq!(bits(&part.view()), bits(&expected), "{}: {ranges:?}", case.name);
            }
        }
    }
}

#[test]
fn bytes_are_read_from_any_offset() {
    for case in decoded() {
        let file = to(Dtype::Bf16).open(case.path()).unwrap();
        for name in case.tensors.keys() {
            let tensor = file.get(name).unwrap();
            let whole = tensor.read().unwrap();
            for (offset, len) in [(0, 1), (1, 7), (63, 300), (whole.as_bytes().len() - 5, 5)] {
                let mut bytes = vec![0; len];
                tensor.read_at(offset as u64, &mut bytes).unwrap();
                assert_eq!(bytes, whole.as_bytes()[offset..offset + len], "{}: {offset}", case.name);
            }
        }
    }
}

/// Opens tensors with a configuration of compressed-tensors, decoded to f32.
fn of_compressed_tensors(map: &TensorMap) -> tensorfile::Result<File> {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("config.json");
    std::fs::write(&config, r#"{"quantization_config": {"quant_method": "compressed-tensors"}}"#).unwrap();
    to(Dtype::F32).config(config).from_bytes(safetensors::to_vec(map).unwrap())
}

/// Checks a weight, whole and in slices, against its numbers.
fn check_slices(file: &File, name: &str, expected: &ndarray::Array2<f32>) {
    let tensor = file.get(name).unwrap();
    for ranges in boxes(tensor.shape().dims()) {
        let expected = expected.slice_each_axis(|axis| ndarray::Slice::from(ranges[axis.axis.index()].clone()));
        assert_eq!(bits(&view(&tensor.slice(&ranges).unwrap()).view()), bits(&expected.into_dyn()), "{ranges:?}");
    }
}

/// `weight_g_idx` of compressed-tensors: each column names its group.
#[test]
fn columns_in_any_order_have_the_scales_of_their_groups() {
    let (rows, columns, groups) = (40, 96, 3);
    let code = |row: usize, column: usize| (7 * row + 5 * column + column / 3) % 16;
    let zero = |row: usize, group: usize| (3 * row + 5 * group) % 16;
    let scale = |row: usize, group: usize| (row as f32 - 7.3) / (group as f32 + 1.7);
    let group = |column: usize| (column * 7 + column / 8) % groups;
    let word = |codes: [usize; 8]| codes.iter().rev().fold(0_u32, |word, code| word << 4 | *code as u32).cast_signed();
    let packed = ndarray::Array2::from_shape_fn((rows, columns / 8), |(row, i)| {
        word(std::array::from_fn(|at| code(row, 8 * i + at)))
    });
    let zeros = ndarray::Array2::from_shape_fn((rows / 8, groups), |(i, group)| {
        word(std::array::from_fn(|at| zero(8 * i + at, group)))
    });
    let mut map = TensorMap::new();
    map.insert("a.weight_packed", packed);
    map.insert("a.weight_scale", ndarray::Array2::from_shape_fn((rows, groups), |(row, group)| scale(row, group)));
    map.insert("a.weight_shape", ndarray::arr1(&[rows, columns].map(|dim| i64::try_from(dim).unwrap())));
    map.insert("a.weight_g_idx", ndarray::Array1::from_shape_fn(columns, |column| number(group(column))));
    let expected = |zero: &dyn Fn(usize, usize) -> usize| {
        ndarray::Array2::from_shape_fn((rows, columns), |(row, column)| {
            let group = group(column);
            (code(row, column) as f32 - zero(row, group) as f32) * scale(row, group)
        })
    };
    check_slices(&of_compressed_tensors(&map).unwrap(), "a.weight", &expected(&|_, _| 8));
    map.insert("a.weight_zero_point", zeros);
    check_slices(&of_compressed_tensors(&map).unwrap(), "a.weight", &expected(&zero));

    // A group that is none, and one that has no column: programs differ in which scales come after it.
    for (index, expected) in [
        (|column: usize| number(column % 4), "`a.weight_g_idx` has the group 3, but `a.weight_scale` has 3"),
        (|_| -1, "`a.weight_g_idx` has the group -1, but `a.weight_scale` has 3"),
        (
            |column| number(2 * (column % 2)),
            "`a.weight_g_idx` has no column of the group 1, of which `a.weight_scale` has 3",
        ),
    ] as [(fn(usize) -> i32, &str); 3]
    {
        map.insert("a.weight_g_idx", ndarray::Array1::from_shape_fn(columns, index));
        let error = of_compressed_tensors(&map).unwrap().tensor("a.weight").unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}

fn number(group: usize) -> i32 {
    i32::try_from(group).unwrap()
}

/// `weight_zero_point` beside i8 of compressed-tensors: one for each scale.
#[test]
fn integers_of_a_byte_may_have_zeros() {
    let (rows, columns) = (24, 50);
    let code = |row: usize, column: usize| ((11 * row + 7 * column) % 256) as u8;
    let zero = |row: usize| (37 * row % 256) as u8;
    let codes: Vec<u8> = (0..rows * columns).map(|i| code(i / columns, i % columns)).collect();
    for scales in [1, rows] {
        let of_row = |row: usize| if scales == 1 { 0 } else { row };
        let scale = |row: usize| 0.013 * (of_row(row) as f32 + 1.0);
        let mut map = TensorMap::new();
        map.insert("a.weight", Tensor::new(TensorInfo::new(Dtype::I8, [rows, columns]), &codes).unwrap());
        let zeros: Vec<u8> = (0..scales).map(zero).collect();
        let shape = if scales == 1 { vec![1] } else { vec![rows, 1] };
        let of_scales: Vec<f32> = (0..scales).map(scale).collect();
        map.insert("a.weight_scale", Tensor::from_slice(&of_scales, shape.clone()).unwrap());
        map.insert("a.weight_zero_point", Tensor::new(TensorInfo::new(Dtype::I8, shape), &zeros).unwrap());
        let expected = ndarray::Array2::from_shape_fn((rows, columns), |(row, column)| {
            let [code, zero] = [code(row, column), zero(of_row(row))].map(|byte| f32::from(byte.cast_signed()));
            (code - zero) * scale(row)
        });
        check_slices(&of_compressed_tensors(&map).unwrap(), "a.weight", &expected);
        // Another shape than that of the scales fits nothing.
        map.insert("a.weight_zero_point", Tensor::new(TensorInfo::new(Dtype::I8, [2, 1]), &[0, 0]).unwrap());
        let file = of_compressed_tensors(&map).unwrap();
        assert_eq!(file.quantized().unwrap().unknown().len(), 1);
    }
}

#[test]
fn schemes_that_are_only_recognized_are_refused_by_name() {
    for case in cases().into_iter().filter(|case| case.kind == "recognise") {
        let error = to(Dtype::F32).open(case.path()).unwrap_err().to_string();
        assert!(error.contains("cannot dequantize") && error.contains("recognized, but not decoded"), "{error}");
        // Left out, it stays as it is stored.
        let file = OpenOptions::new().dequantize(Dequantize::to(Dtype::F32).only(|_| false)).open(case.path()).unwrap();
        assert!(!file.quantized().unwrap().is_empty());
    }
}

#[test]
fn decoys_and_unknown_weights_stay_as_they_are() {
    for case in cases().into_iter().filter(|case| matches!(case.kind.as_str(), "decoy" | "ambiguous")) {
        let stored: TensorMap = case.open().load().unwrap();
        let opened: TensorMap = to(Dtype::F32).open(case.path()).unwrap().load().unwrap();
        assert_eq!(stored, opened, "{}", case.name);
    }
}

#[test]
fn weights_are_decoded_to_floats_only() {
    for dtype in [Dtype::I8, Dtype::F64, Dtype::F8E4M3Fn] {
        let error = to(dtype).open(decoded().next().unwrap().path()).unwrap_err().to_string();
        assert!(
            error.contains(&format!("cannot dequantize to {dtype}; weights are decoded to f32, bf16 or f16")),
            "{error}"
        );
    }
}

#[test]
fn some_weights_may_be_chosen() {
    let case = decoded().find(|case| case.name == "fp8-block").unwrap();
    let dequantize = Dequantize::to(Dtype::F16).only(|name| name.contains("down_proj"));
    let file = OpenOptions::new().dequantize(dequantize).open(case.path()).unwrap();
    assert_eq!(file.get("model.layers.0.mlp.down_proj.weight").unwrap().dtype(), Dtype::F16);
    assert!(file.position("model.layers.0.mlp.down_proj.weight_scale_inv").is_none());
    assert_eq!(file.get("lm_head.weight").unwrap().dtype(), Dtype::Bf16);
    assert!(file.view("model.layers.0.mlp.down_proj.weight").is_err());
    // The others keep their places, and their metadata.
    assert_eq!(file.metadata().unwrap().entries, case.open().metadata().unwrap().entries);
}
