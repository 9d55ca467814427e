//! Files written as slices, whose payloads borrow from the value, and files in reused memory.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::{self, IoSlice, Write};
use std::rc::Rc;

use ndarray::{Array1, Array2, ArrayView2, ShapeBuilder, s};
use tensorfile::format::IoSlices;
use tensorfile::model::{FieldAttrs, Sink, Store};
use tensorfile::{Format, Result, Tensor, TensorFile, TensorMap, TensorView, WriteOptions};

use crate::support::{tensor, written_formats};

use super::{file_of, holds, samples};

/// The bytes of all slices.
fn concatenated(file: &IoSlices<'_>) -> Vec<u8> {
    let slices = file.as_slices();
    assert!(slices.iter().all(|slice| !slice.is_empty()));
    slices.iter().flat_map(|slice| slice.to_vec()).collect()
}

/// Returns whether a slice is the memory of a payload.
fn is_borrowed<A>(file: &IoSlices<'_>, payload: &[A]) -> bool {
    file.as_slices()
        .iter()
        .any(|slice| slice.as_ptr() == payload.as_ptr().cast() && slice.len() == size_of_val(payload))
}

#[test]
fn samples_are_the_same_in_slices_and_in_reused_memory() {
    for format in written_formats() {
        let mut reused = vec![7; 100_000];
        let address = reused.as_ptr();
        for (map, file) in samples(format) {
            for options in [WriteOptions::new(), WriteOptions::new().embed_names(true)] {
                let expected = format.to_vec(&map, &options);
                let slices = format.to_io_slices(&map, &options).map(|file| concatenated(&file));
                let into = format.to_vec_into(&mut reused, &map, &options).map(|()| reused.clone());
                let [expected, slices, into] =
                    [expected, slices, into].map(|file| file.map_err(|error| error.to_string()));
                assert_eq!((&slices, &into), (&expected, &expected), "{}", format.name);
            }
            assert_eq!(file_of(format, &map), file);
        }
        format.to_vec_into(&mut reused, &TensorMap::new(), &WriteOptions::new()).unwrap_or_default();
        assert!(reused.capacity() == 0 || reused.as_ptr() == address, "{}: it is not allocated again", format.name);
    }
}

/// Compares a file in memory, which needs no plan if the value is one tensor, with one in slices, which is
/// written by a plan.
#[track_caller]
fn compare(format: &Format, value: &impl Store, options: &WriteOptions) {
    let expected =
        format.to_io_slices(value, options).map(|file| concatenated(&file)).map_err(|error| error.to_string());
    let mut streamed = Vec::new();
    let written = format.to_writer(&mut streamed, value, options).map(|()| streamed);
    for file in [format.to_vec(value, options), written] {
        assert!(file.map_err(|error| error.to_string()) == expected, "{}, {options:?}", format.name);
    }
}

#[test]
fn one_tensor_is_written_as_by_a_plan() {
    let lengths = [0, 1, 100, 600, 3000, 20_000];
    for format in written_formats() {
        let aligned = [1, 64, 4096, 8192].map(|bytes| WriteOptions::new().alignment(bytes));
        let key = |key: &str| [(key.to_owned(), "value".to_owned())].into_iter().collect();
        let options = [
            WriteOptions::new(),
            WriteOptions::new().embed_names(true),
            WriteOptions::new().keep_dim_order(true),
            WriteOptions::new().metadata(key("format")),
        ];
        for options in options.iter().chain(&aligned) {
            for dtype in [format.dtypes[0], format.dtypes[format.dtypes.len() - 1]] {
                for shape in [&[][..], &[3], &[0, 4], &[32, 2], &[2, 1, 2, 1, 32], &[1, 1, 1, 1, 1, 1, 32]] {
                    compare(format, &tensor(dtype, shape), options);
                    compare(format, &TensorMap::from_iter([("name", tensor(dtype, shape))]), options);
                }
            }
            for first in lengths {
                compare(format, &Array1::from_elem(first, 1.5_f32), options);
                compare(format, &Array2::from_elem((3, first).f(), 1.5_f32), options);
                for second in lengths {
                    let arrays = [first, second, 2].map(|len| Array1::from_elem(len, len as f32));
                    compare(format, &arrays.to_vec(), options);
                }
            }
        }
    }
}

/// A value that stores itself several times, which none should do.
struct Repeated(Array1<f32>, fn(Result<()>) -> Result<()>);

impl Store for Repeated {
    fn store(&self, sink: &mut dyn Sink, attrs: &FieldAttrs) -> Result<()> {
        self.0.store(sink, attrs)?;
        (self.1)(self.0.store(sink, attrs))?;
        self.0.store(sink, attrs)
    }
}

#[test]
fn a_tensor_that_turns_out_not_to_be_all_is_planned() {
    for format in written_formats() {
        for after_error in [|result| result, |_| Ok(())] as [fn(Result<()>) -> Result<()>; 2] {
            compare(format, &Repeated(Array1::from_elem(3, 1.5), after_error), &WriteOptions::new());
        }
    }
}

#[test]
fn metadata_of_a_value_may_make_the_header_shorter() {
    #[derive(TensorFile)]
    #[tensor(write_only)]
    struct Run {
        #[tensor(metadata)]
        epochs: u32,
        weight: Array1<f32>,
    }

    for format in written_formats().filter(|format| format.keeps_metadata("epochs")) {
        let long = [("epochs".to_owned(), "many ".repeat(100))].into_iter().collect();
        compare(format, &Run { epochs: 3, weight: Array1::from_elem(100, 1.5) }, &WriteOptions::new().metadata(long));
    }
}

#[test]
fn large_tensors_are_borrowed_in_every_format() {
    for format in written_formats() {
        let large = |len| Tensor::from_slice(&vec![3_u8; len], [len]).unwrap();
        let map: TensorMap = match format.max_tensors {
            Some(_) => [("0", large(600))].into_iter().collect(),
            None => [("0", large(600)), ("1", large(10)), ("2", large(100_000))].into_iter().collect(),
        };
        if !format.dtypes.contains(&tensorfile::Dtype::U8) || !holds(format, &map) {
            println!("{} cannot store the map", format.name);
            continue;
        }
        let file = format.to_io_slices(&map, &WriteOptions::new()).unwrap();
        assert_eq!(concatenated(&file), file_of(format, &map), "{}", format.name);
        assert_eq!(file.file_bytes(), file_of(format, &map).len() as u64);
        for (_, tensor) in map.iter().filter(|(_, tensor)| tensor.as_bytes().len() >= 512) {
            assert!(is_borrowed(&file, tensor.as_bytes()), "{}", format.name);
        }
        assert!(file.copied_bytes() < 2000, "{}: {} bytes were copied", format.name, file.copied_bytes());
    }
}

#[derive(TensorFile)]
#[tensor(write_only)]
struct Model<'a> {
    plain: Array2<f32>,
    option: Option<Array1<f64>>,
    #[tensor(rename = "n")]
    numbers: Vec<f32>,
    list: Vec<Layer>,
    map: BTreeMap<String, Rc<Array1<f32>>>,
    view: ArrayView2<'a, f32>,
    cow: Cow<'a, [i32]>,
    tuple: (Array1<i16>, Box<f32>),
    column_major: Array2<f32>,
    gaps: ArrayView2<'a, f32>,
    #[tensor(transpose)]
    transposed: Array2<f32>,
    #[tensor(skip)]
    _skipped: Vec<f32>,
}

#[derive(TensorFile)]
#[tensor(prefix = "w")]
struct Layer(Array1<f32>, Array1<u8>);

#[test]
fn derived_structs_lend_their_arrays() {
    let memory = Array2::from_elem((40, 40), 1.5_f32);
    let model = Model {
        plain: Array2::from_elem((20, 30), 2.5),
        option: Some(Array1::from_elem(300, 0.5)),
        numbers: vec![1.0; 200],
        list: vec![
            Layer(Array1::from_elem(400, 1.0), Array1::from_elem(600, 1)),
            Layer(Array1::zeros(3), Array1::zeros(2)),
        ],
        map: BTreeMap::from([("a.b".to_owned(), Rc::new(Array1::from_elem(500, 3.5)))]),
        view: memory.slice(s![3..33, ..]),
        cow: Cow::Borrowed(&[5; 700]),
        tuple: (Array1::from_elem(900, 3), Box::new(1.0)),
        column_major: Array2::from_shape_fn((30, 20).f(), |(row, column)| (20 * row + column) as f32),
        gaps: memory.slice(s![.., ..30]),
        transposed: Array2::from_shape_fn((30, 20), |(row, column)| (20 * row + column) as f32),
        _skipped: Vec::new(),
    };

    macro_rules! check {
        ($($(#[$only:meta])? $format:ident $options:expr;)*) => {$(
            $(#[$only])?
            {
                use tensorfile::$format;
                let options = $options;
                let (file, expected) = (options.to_io_slices(&model).unwrap(), options.to_vec(&model).unwrap());
                let what = stringify!($format);
                assert_eq!(concatenated(&file), expected, "{what}");
                assert!(is_borrowed(&file, model.plain.as_slice().unwrap()), "{what}");
                assert!(is_borrowed(&file, model.option.as_ref().unwrap().as_slice().unwrap()), "{what}");
                assert!(is_borrowed(&file, &model.numbers), "{what}");
                assert!(is_borrowed(&file, model.list[0].0.as_slice().unwrap()), "{what}");
                assert!(is_borrowed(&file, model.list[0].1.as_slice().unwrap()), "{what}");
                assert!(is_borrowed(&file, model.map["a.b"].as_slice().unwrap()), "{what}");
                assert!(is_borrowed(&file, model.view.as_slice().unwrap()), "{what}");
                assert!(is_borrowed(&file, &model.cow), "{what}");
                assert!(is_borrowed(&file, model.tuple.0.as_slice().unwrap()), "{what}");
                assert_eq!(concatenated(&$format::Options::new().to_io_slices(&model.plain).unwrap()), $format::to_vec(&model.plain).unwrap());
                let mut reused = vec![1; 10];
                options.to_vec_into(&mut reused, &model).unwrap();
                assert_eq!(reused, expected, "{what}");
            }
        )*};
    }
    check! {
        btf btf::Options::new().embed_names(true);
        ten ten::Options::new().embed_names(true);
        #[cfg(feature = "ptd")]
        ptd ptd::Options::new();
        #[cfg(feature = "tensorbuffers")]
        tensorbuffers tensorbuffers::Options::new();
        #[cfg(feature = "safetensors")]
        safetensors safetensors::Options::new();
        #[cfg(feature = "npz")]
        npz npz::Options::new();
    }

    #[cfg(feature = "ptd")]
    {
        let file = tensorfile::ptd::Options::new().keep_dim_order(true).to_io_slices(&model).unwrap();
        assert!(is_borrowed(&file, model.column_major.as_slice_memory_order().unwrap()), "stored as it is in memory");
    }
    #[cfg(feature = "npz")]
    {
        let options = tensorfile::npz::Options::new().compress(true);
        let file = options.to_io_slices(&model).unwrap();
        assert_eq!((concatenated(&file), file.as_slices().len()), (options.to_vec(&model).unwrap(), 1));
    }
}

#[test]
fn payloads_that_are_not_lent_are_copied() {
    /// A value that makes its payload when it is asked for one.
    struct Bytes;

    impl Store for Bytes {
        fn store(&self, sink: &mut dyn Sink, attrs: &FieldAttrs) -> Result<()> {
            vec![9_u8; 2000].store(sink, attrs)
        }
    }

    let value = [Bytes, Bytes];
    let file = tensorfile::ten::Options::new().to_io_slices(&value[..]).unwrap();
    let expected = tensorfile::ten::FORMAT.to_vec(&&value[..], &WriteOptions::new()).unwrap();
    assert_eq!((concatenated(&file), file.copied_bytes()), (expected.clone(), expected.len()));
}

#[test]
fn a_writer_may_take_any_number_of_bytes() {
    /// Takes up to a number of bytes of the first slice that is not empty, and is interrupted in between.
    struct Few(Vec<u8>, usize, bool);

    impl Write for Few {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.write_vectored(&[IoSlice::new(bytes)])
        }

        fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
            self.2 = !self.2;
            if self.2 {
                return Err(io::ErrorKind::Interrupted.into());
            }
            let bytes: Vec<u8> = slices.iter().flat_map(|slice| slice.to_vec()).take(self.1).collect();
            self.0.extend_from_slice(&bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            panic!("the file ends later than the writer")
        }
    }

    let numbers = vec![1.5_f32; 200];
    let views: Vec<TensorView> = (0..3000).map(|_| TensorView::from_slice(&numbers, [200]).unwrap()).collect();
    let file = tensorfile::btf::Options::new().to_io_slices(&views).unwrap();
    assert_eq!(file.as_slices().len(), 6000);
    let expected = concatenated(&file);
    for most in [1000, 100_000, usize::MAX] {
        let mut writer = Few(Vec::new(), most, false);
        file.write_to(&mut writer).unwrap();
        assert!(writer.0 == expected, "at most {most} bytes");
    }
    let error = file.write_to(Few(Vec::new(), 0, false)).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::WriteZero);
}
