//! Values that change between the two passes of a save, and writers that fail. The result is an error, never a corrupt
//! file in silence.

use std::cell::Cell;
use std::io::{self, Write};

use ndarray::{Array1, Array2, array};
use serde::ser::{Serialize, SerializeMap, SerializeSeq, SerializeStruct, Serializer};
use tensorfile::{
    Arrays, Category, Dtype, ErrorKind, File, Format, SerdeValue, Tensor, TensorMap, WriteOptions, btf, ten,
};

use crate::support::Messages;

/// A value that is the first of two until it was planned, in the second pass, and the second when it is written. The
/// first pass stops at the large tensor.
struct Turncoat<'a> {
    passes: Cell<usize>,
    values: [&'a [(&'a str, Tensor)]; 2],
    /// A tensor that is too large for the value to be sent only once.
    large: Option<Tensor>,
}

impl<'a> Turncoat<'a> {
    fn new(values: [&'a [(&'a str, Tensor)]; 2]) -> Self {
        Self { passes: Cell::new(0), values, large: Some(vector(&[0.0; 20_000])) }
    }
}

impl Serialize for Turncoat<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let pass = self.passes.replace(self.passes.get() + 1);
        let value = self.values[usize::from(pass >= 2)];
        let mut map = serializer.serialize_map(None)?;
        if let Some(large) = &self.large {
            map.serialize_entry("large", large)?;
        }
        for (name, tensor) in value {
            map.serialize_entry(name, tensor)?;
        }
        map.end()
    }
}

fn vector(numbers: &[f32]) -> Tensor {
    Tensor::from_slice(numbers, [numbers.len()]).unwrap()
}

#[test]
fn a_value_that_changes_is_an_error() {
    let before = [("a", vector(&[1.0, 2.0])), ("b", vector(&[3.0]))];
    let again = || before[0].clone();
    let mut messages = Messages::default();
    for (what, after, expected) in [
        (
            "a name",
            vec![again(), ("c", vector(&[3.0]))],
            "tensor `c`: the value changed between planning and writing: `b` was f32[1], then came `c`, f32[1]",
        ),
        (
            "a longer name",
            vec![("ab", vector(&[1.0, 2.0])), ("", vector(&[3.0]))],
            "tensor `ab`: the value changed between planning and writing: `a` was f32[2], then came `ab`, f32[2]",
        ),
        (
            "the order",
            vec![before[1].clone(), again()],
            "tensor `b`: the value changed between planning and writing: `a` was f32[2], then came `b`, f32[1]",
        ),
        (
            "a shape",
            vec![("a", Tensor::from_slice(&[1.0_f32, 2.0], [1, 2]).unwrap()), before[1].clone()],
            "tensor `a`: the value changed between planning and writing: `a` was f32[2], then came `a`, f32[1, 2]",
        ),
        (
            "a length",
            vec![again(), ("b", vector(&[3.0, 4.0]))],
            "tensor `b`: the value changed between planning and writing: `b` was f32[1], then came `b`, f32[2]",
        ),
        (
            "a dtype",
            vec![again(), ("b", Tensor::from_slice(&[3_i32], [1]).unwrap())],
            "tensor `b`: the value changed between planning and writing: `b` was f32[1], then came `b`, i32[1]",
        ),
        ("one less", vec![again()], "the value changed between planning and writing: `b` did not come again"),
        ("none", vec![], "the value changed between planning and writing: `a` did not come again"),
        (
            "one more",
            vec![again(), before[1].clone(), ("c", vector(&[]))],
            "tensor `c`: the value changed between planning and writing: `c` was not there before",
        ),
    ] {
        for embed in [false, true] {
            let value = Turncoat::new([&before, &after]);
            let result = btf::Options::new().embed_names(embed).to_vec(&value);
            assert!(matches!(result.as_ref().unwrap_err().kind(), ErrorKind::Changed { .. }), "{what}");
            assert_eq!(result.as_ref().unwrap_err().category(), Category::Call, "{what}");
            messages.compare(format!("{what}, BTF, {embed}"), result, &format!("btf: {expected}"));
            let value = Turncoat::new([&before, &after]);
            let result = ten::Options::new().embed_names(embed).to_writer(Vec::new(), &value);
            messages.compare(format!("{what}, ten, {embed}"), result, &format!("ten: {expected}"));
        }
    }
    messages.end();
}

#[test]
fn a_value_of_no_tensors_may_not_grow_some() {
    let after = [("a", vector(&[1.0]))];
    let value = Turncoat::new([&[], &after]);
    assert_eq!(
        btf::to_vec(&value).unwrap_err().to_string(),
        "btf: tensor `a`: the value changed between planning and writing: `a` was not there before"
    );
}

#[test]
fn the_contents_of_a_tensor_may_change() {
    // Which of two versions of a payload is written is the value's business.
    let (before, after) = ([("a", vector(&[1.0]))], [("a", vector(&[2.0]))]);
    let value = Turncoat::new([&before, &after]);
    let map: TensorMap = ten::from_slice(&ten::to_vec(&value).unwrap()).unwrap();
    assert_eq!(map["a"], vector(&[2.0]));
}

#[test]
fn a_value_of_small_tensors_is_sent_once() {
    let (before, after) = ([("a", vector(&[1.0]))], [("b", vector(&[2.0; 3]))]);
    for format in ["btf", "ten", "ptd", "tensorbuffers", "safetensors"].map(|name| Format::named(name).unwrap()) {
        let value = Turncoat { large: None, ..Turncoat::new([&before, &after]) };
        let file = format.to_vec(&SerdeValue(&value), &WriteOptions::new()).unwrap();
        assert_eq!(value.passes.get(), 1, "{}", format.name);
        let map: TensorMap = File::from_bytes(file).unwrap().load().unwrap();
        assert!(map.iter().map(|(_, tensor)| tensor).eq([&before[0].1]), "{}: {map:?}", format.name);
    }
    // Elements in another order than in the file come one after the other, so the value is planned.
    let columns = Array2::from_shape_fn((3, 5), |(row, column)| row * 10 + column).mapv(|number| number as f32);
    let strided = Arrays((columns.t(), columns.slice(ndarray::s![.., 1..;2]), columns.slice(ndarray::s![..;-1, 0])));
    let dense = Arrays((
        columns.t().as_standard_layout().into_owned(),
        columns.slice(ndarray::s![.., 1..;2]).as_standard_layout().into_owned(),
        array![20.0_f32, 10.0, 0.0],
    ));
    assert_eq!(btf::to_vec(&strided).unwrap(), btf::to_vec(&dense).unwrap());
}

/// A list of numbers that has another length each time, and is too long to be sent only once.
struct Growing(Cell<u8>);

impl Serialize for Growing {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.set(self.0.get() + 1);
        let mut seq = serializer.serialize_seq(None)?;
        for _ in 0..70_000 + usize::from(self.0.get()) {
            seq.serialize_element(&self.0.get())?;
        }
        seq.end()
    }
}

#[test]
fn a_list_that_grows_is_an_error() {
    assert_eq!(
        btf::to_writer(io::sink(), &Growing(Cell::new(0))).unwrap_err().to_string(),
        "btf: tensor `0`: the value changed between planning and writing: `0` was u8[70002], then came `0`, u8[70003]"
    );
}

/// A tensor that uses the private names, whose length depends on the pass.
struct Forged {
    passes: Cell<usize>,
    payloads: [&'static [u8]; 2],
}

/// An enum's name, and the number and name of a variant.
struct Variant(&'static str, u32, &'static str);

impl Serialize for Variant {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_unit_variant(self.0, self.1, self.2)
    }
}

impl Serialize for Forged {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let pass = self.passes.replace(self.passes.get() + 1);
        let payload = self.payloads[usize::from(pass >= 2)];
        let mut tensor = serializer.serialize_struct("$tensorfile::Tensor", 4)?;
        tensor.serialize_field("dtype", &Variant("dtype", Dtype::U8 as u32, "u8"))?;
        tensor.serialize_field("shape", &[self.payloads[0].len()])?;
        tensor.serialize_field("layout", &Variant("layout", 0, "row_major"))?;
        tensor.serialize_field("data", serde_bytes::Bytes::new(payload))?;
        tensor.end()
    }
}

#[test]
fn a_payload_of_another_length_is_an_error() {
    let changed = "btf: tensor `0`: the value changed between planning and writing:";
    static BYTES: [u8; 70_001] = [7; 70_001];
    let value = |len| Forged { passes: Cell::new(0), payloads: [&BYTES[..70_000], &BYTES[..len]] };
    let write = |len| btf::to_writer(io::sink(), &value(len));
    write(70_000).unwrap();
    let mut messages = Messages::default();
    messages.compare("shorter", write(69_999), &format!("{changed} 69999 bytes instead of 70000"));
    messages.compare("longer", write(70_001), &format!("{changed} more than 70000 bytes"));
    messages.compare("none", write(0), &format!("{changed} 0 bytes instead of 70000"));
    messages.end();
}

/// A writer that fails after a number of bytes.
struct Full<'a> {
    written: &'a mut Vec<u8>,
    room: usize,
}

impl Write for Full<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match bytes.len().min(self.room - self.written.len()) {
            0 if !bytes.is_empty() => Err(io::ErrorKind::StorageFull.into()),
            len => {
                self.written.extend_from_slice(&bytes[..len]);
                Ok(len)
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_writer_that_fails_is_reported_wherever_it_does() {
    let value = Arrays((array![1_u8, 2, 3], Array1::from_iter(0..20_000_u32), array![[1.0_f64]]));
    for embed in [false, true] {
        let whole = ten::Options::new().embed_names(embed).to_vec(&value).unwrap();
        for room in (0..whole.len()).step_by(97).chain([whole.len() - 1, whole.len()]) {
            let mut written = Vec::new();
            let writer = Full { written: &mut written, room };
            let result = ten::Options::new().embed_names(embed).to_writer(writer, &value);
            if room == whole.len() {
                result.unwrap();
            } else {
                let error = result.unwrap_err();
                assert_eq!(error.category(), Category::Io, "room for {room}");
                assert!(error.to_string().starts_with("ten: "), "room for {room}: {error}");
            }
            assert_eq!(written, whole[..written.len()], "what is written is the file's beginning");
        }
    }
}

#[test]
fn a_writer_that_cannot_flush_is_reported() {
    struct Unflushed;

    impl Write for Unflushed {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Err(io::Error::other("no flush"))
        }
    }

    assert_eq!(btf::to_writer(Unflushed, &1_u8).unwrap_err().to_string(), "btf: no flush");
}

#[test]
fn unsupported_tensors_leave_the_writer_untouched() {
    struct Untouched;

    impl Write for Untouched {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            panic!("something was written");
        }

        fn flush(&mut self) -> io::Result<()> {
            panic!("something was flushed");
        }
    }

    // A large tensor that could be stored comes first.
    let large = || Array1::<f32>::zeros(100_000);
    let mut messages = Messages::default();
    messages.compare(
        "dtype",
        btf::to_writer(Untouched, &Arrays((large(), array![half::f16::ONE]))),
        "btf: tensor `1`: cannot store f16; btf stores i8, i16, i32, i64, f32, f64, u8, u16, u32, u64; \
         `view::CastView` casts",
    );
    messages.compare(
        "text",
        btf::to_writer(Untouched, &(Arrays(large()), "text")),
        "btf: tensor `1`: a string is not a tensor; expected a tensor, a number, or a struct, map, list or tuple of them",
    );
    messages.compare(
        "name",
        ten::to_writer(Untouched, &Arrays(std::collections::BTreeMap::from([("a", large()), ("encoder.w", large())]))),
        "ten: tensor `encoder.w`: cannot store a name of 9 bytes; ten stores up to 8; rename the tensor, or embed \
             the names",
    );
    messages.compare(
        "an error of the value's own",
        btf::to_writer(Untouched, &(Arrays(large()), Failing)),
        "btf: tensor `1`: no value today",
    );
    messages.end();
}

/// A value that cannot be serialized.
struct Failing;

impl Serialize for Failing {
    fn serialize<S: Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
        Err(serde::ser::Error::custom("no value today"))
    }
}

#[test]
fn a_plan_has_the_length_and_writes_the_same_file() {
    let value = Arrays((array![1_u8, 2, 3], array![[1.0_f64]]));
    for embed in [false, true] {
        let options = btf::Options::new().embed_names(embed);
        let plan = options.plan(&value).unwrap();
        let file = options.to_vec(&value).unwrap();
        assert_eq!((plan.file_bytes(), plan.len()), (file.len() as u64, 2 + usize::from(embed)));
        let mut written = Vec::new();
        let mut writer = plan.writer(&mut written);
        let mut serializer = tensorfile::format::Serializer::new(&mut writer);
        value.serialize(&mut serializer).unwrap();
        serializer.end().unwrap();
        writer.finish().unwrap();
        assert_eq!(written, file);
    }
    let plan = btf::Options::new().plan(&value).unwrap();
    let unfinished = plan.writer(&mut Vec::new()).finish().unwrap_err();
    assert_eq!(unfinished.to_string(), "btf: the value changed between planning and writing: `0` did not come again");
}
