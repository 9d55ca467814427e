//! The memory that writing and reading allocate. It is less than a payload, and does not follow a length that a file
//! merely states.

use std::io::{self, Read};

use ndarray::{Array1, Array2, ArrayView2, s};
use tensorfile::{Arrays, CooTensor, FORMATS, Tensor, TensorMap, TensorView, WriteOptions, btf, ten};

use crate::support::memory::peak;
use crate::support::{u64s, written_formats};

const MIB: usize = 1 << 20;

#[test]
fn writing_takes_the_same_memory_for_any_size() {
    for format in ["btf", "ten"] {
        let write = |array: ArrayView2<f32>| match format {
            "btf" => btf::to_writer(io::sink(), &Arrays([array])),
            _ => ten::to_writer(io::sink(), &Arrays([array])),
        };
        let peaks = |rows: usize| {
            let array = Array2::<f32>::ones((rows, 1024));
            let orders = [
                ("contiguous", array.view()),
                ("transposed", array.t()),
                ("rows apart", array.slice(s![..;2, ..])),
                ("columns apart", array.slice(s![.., ..;2])),
                ("backwards", array.slice(s![..;-1, ..;-1])),
            ];
            orders.map(|(order, array)| (order, peak(|| write(array).unwrap()).1))
        };
        // The first use of a format makes its default options.
        peaks(1);
        let (small, large) = (peaks(64), peaks(2048));
        assert_eq!(small, large, "{format}: of 256 KiB, and of 8 MiB");
        for (order, peak) in large {
            assert!(peak < MIB / 4, "{format}: {order}: {peak} bytes");
        }
    }
}

#[test]
fn rows_with_gaps_are_gathered_in_parts() {
    let every_second = Array1::<f32>::ones(4 * MIB);
    let value = Arrays(every_second.slice(s![..;2]));
    let ((), bytes) = peak(|| btf::to_writer(io::sink(), &value).unwrap());
    assert!(bytes < MIB / 4, "{bytes} bytes");

    let numbers = Array2::from_shape_fn((3, 40_000), |(row, column)| (row * 40_000 + column) as f32);
    for view in [numbers.slice(s![.., 1..39_999]), numbers.slice(s![..;2, ..;3]), numbers.slice(s![..;-1, ..;-7])] {
        let file = btf::to_vec(&Arrays(view)).unwrap();
        assert_eq!(btf::from_slice::<Arrays<Array2<f32>>>(&file).unwrap().0, view);
    }
}

#[test]
fn writing_sparse_and_dynamic_tensors_does_not_copy_them() {
    let entries = 512 * 1024;
    let coordinates = (0..entries as u64).collect();
    let sparse = CooTensor::new([entries], coordinates, vec![1.0_f64; entries]).unwrap();
    let ((), bytes) = peak(|| btf::to_writer(io::sink(), &sparse).unwrap());
    assert!(bytes < MIB / 4, "{bytes} bytes");

    let map = TensorMap::from_iter([("0", Tensor::from_array(&Array1::<i8>::ones(8 * MIB)))]);
    for format in written_formats() {
        let ((), bytes) = peak(|| format.to_writer(io::sink(), &map, &WriteOptions::new()).unwrap());
        assert!(bytes < MIB / 4, "{}: {bytes} bytes", format.name);
    }
}

#[test]
fn writing_to_memory_takes_the_file_and_little_more() {
    let map = TensorMap::from_iter([("0", Tensor::from_array(&Array1::<i8>::ones(8 * MIB)))]);
    for format in written_formats() {
        let (file, bytes) = peak(|| format.to_vec(&map, &WriteOptions::new()).unwrap());
        assert_eq!(file.capacity(), file.len(), "{}", format.name);
        assert!(bytes < file.len() + MIB / 4, "{}: {bytes} bytes", format.name);
    }
}

#[test]
fn reading_takes_the_arrays_and_little_more() {
    let map = TensorMap::from_iter([("0", Tensor::from_array(&Array1::<f32>::ones(2 * MIB)))]);
    for format in written_formats() {
        let file = format.to_vec(&map, &WriteOptions::new()).unwrap();
        let (read, bytes) = peak(|| format.from_slice(&file).unwrap());
        assert_eq!(read, map);
        assert!(bytes < file.len() + MIB / 4, "{}: {bytes} bytes", format.name);
    }

    let file = btf::to_vec(&map).unwrap();
    let (views, bytes) = peak(|| btf::from_slice::<Vec<TensorView>>(&file).unwrap());
    assert_eq!(views.len(), 1);
    assert!(bytes < MIB / 4, "views: {bytes} bytes");
}

/// Files that promise far more than they hold.
#[test]
fn reading_does_not_allocate_stated_lengths() {
    for (what, file) in promises() {
        let (name, _) = what.split_once(": ").unwrap();
        let Some(format) = FORMATS.iter().find(|format| format.name == name) else { continue };
        let (read, bytes) = peak(|| format.from_slice(&file).map(drop));
        assert!(read.is_err(), "{what}");
        assert!(bytes < MIB, "{what}, from memory: {bytes} bytes");

        // The bytes that are there, then 8 MiB of zeros, then the end.
        let delivered = 8 * MIB;
        for (more, most) in [(0, 2 * MIB), (delivered, 4 * delivered)] {
            let stream = io::Cursor::new(file.clone()).chain(io::repeat(0).take(more as u64));
            let (read, bytes) = peak(|| format.from_reader(stream).map(drop));
            assert!(read.is_err(), "{what}");
            assert!(bytes < most, "{what}, from a stream with {more} bytes: {bytes} bytes");
        }
    }
}

fn promises() -> Vec<(&'static str, Vec<u8>)> {
    let ten = |shape: &[u64]| {
        let mut file = b"~TenBin~".to_vec();
        file.extend(u64s(&[8 * (3 + shape.len() as u64)]));
        file.extend(b"u1\0\0\0\0\0\0\0\0\0\0\0\0\0\0");
        file.extend(u64s(&[shape.len() as u64]));
        file.extend(u64s(shape));
        file.resize(16 + (file.len() - 16).next_multiple_of(64), 0);
        file.extend(b"~TenBin~");
        file.extend(u64s(&[shape.iter().product()]));
        file
    };
    let safetensors = |header: &str| [&u64s(&[header.len() as u64]), header.as_bytes()].concat();
    const TIB: u64 = 1 << 40;
    let (f32, u8) = (4, 6);
    let coo = 2 << 8;
    vec![
        ("btf: tensors", u64s(&[1 << 60, 16])),
        ("btf: tensors, in the limits", u64s(&[1 << 20, 16])),
        ("btf: elements", u64s(&[1, 16, 1, u8, TIB / 2])),
        ("btf: elements by two dims", u64s(&[1, 16, 2, f32, 1 << 19, 1 << 18])),
        ("btf: rank", u64s(&[1, 16, 1 << 60, f32])),
        ("btf: sparse values", u64s(&[1, 16, 1, f32 + coo, 1 << 40, 1 << 35, 1])),
        ("ten: elements", ten(&[TIB / 2])),
        ("ten: elements by two dims", ten(&[1 << 20, 1 << 19])),
        ("ten: header", [&b"~TenBin~"[..], &u64s(&[1 << 60])].concat()),
        ("safetensors: header", [&u64s(&[100_000_000]), &b"{"[..]].concat()),
        (
            "safetensors: elements",
            safetensors(r#"{"a":{"dtype":"U8","shape":[549755813888],"data_offsets":[0,549755813888]}}"#),
        ),
    ]
}
