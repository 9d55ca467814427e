//! Programs and packages of ExecuTorch, as `tests/fixtures/executorch/write.py` has ExecuTorch write them.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};
use tensorfile::format::READ_FORMATS;
use tensorfile::{File, Format, Layout, SaveOptions, TensorMap, WriteOptions};

use crate::support::{message, root, warnings};

fn fixture(name: &str) -> PathBuf {
    root().join("tests/fixtures/executorch").join(name)
}

/// Describes the tensors of a file as the script does.
fn described(file: &File) -> BTreeMap<String, Value> {
    let tensor = |tensor: tensorfile::file::FileTensor<'_>| {
        let (mut bytes, info) = (Vec::new(), tensor.info().clone());
        tensor.write_row_major_to(&mut bytes).unwrap();
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let dtype = match info.dtype.name() {
            "f32" => "float32",
            "bf16" => "bfloat16",
            "i64" => "int64",
            other => other,
        };
        let value =
            if info.layout == Layout::Blob { json!(["blob", hex]) } else { json!([dtype, info.shape.dims(), hex]) };
        (tensor.name().to_owned(), value)
    };
    file.tensors().map(tensor).collect()
}

fn expected() -> BTreeMap<String, BTreeMap<String, Value>> {
    serde_json::from_slice(&fs::read(fixture("expected.json")).unwrap()).unwrap()
}

#[test]
fn programs_and_packages_have_what_executorch_put_there() {
    for (name, tensors) in expected() {
        let file = File::open(fixture(&name)).unwrap();
        let found = described(&file);
        for (tensor, value) in &tensors {
            assert_eq!(found.get(tensor), Some(value), "{name}: {tensor}");
        }
        file.check_other_checksums().unwrap();
        // Programs have constants of their own, too.
        if name.ends_with(".ptn") {
            assert_eq!(found, tensors, "{name}");
        }
        // From memory and from a stream.
        let bytes = fs::read(fixture(&name)).unwrap();
        assert_eq!(described(&File::from_bytes(bytes.clone()).unwrap()), found, "{name}");
        let format = file.format();
        let map: TensorMap = format.from_slice(&bytes).unwrap();
        assert_eq!(map.len(), found.len());
        // A stream is not read backwards, to data in the flatbuffer.
        if format.name == "pte" && name != "delegate_inline.pte" {
            assert_eq!(format.from_reader(&*bytes).unwrap(), map, "{name}");
        }
    }
}

#[test]
fn programs_say_what_they_are() {
    let file = File::open(fixture("external.pte")).unwrap();
    let metadata = file.metadata().unwrap();
    assert_eq!(metadata.version.as_deref(), Some("ET12, version 0; methods: forward"));
    let expected = "the data of 2 tensors is in another file, a `.ptd`; the first is `fc.weight`";
    assert_eq!(warnings(&metadata), [expected]);
    let named = File::open(fixture("named.pte")).unwrap();
    let names: Vec<&str> = named.tensors().map(|tensor| tensor.name()).collect();
    assert_eq!(names, ["forward.delegates.0.BackendWithNamedDataMap", "aten.add.Tensor"]);
}

#[test]
fn aliases_are_tied_tensors() {
    let file = File::open(fixture("package.ptn")).unwrap();
    let [owner, alias] = ["fc.weight", "tied.weight"].map(|name| file.get(name).unwrap().range());
    assert_eq!(owner, alias);

    let bytes = fs::read(fixture("package.ptn")).unwrap();
    let text = br#""tied.weight": "fc.weight""#;
    let at = bytes.windows(text.len()).position(|window| window == text).unwrap();
    let with = |new: &[u8]| {
        let mut bytes = bytes.clone();
        bytes[at..at + new.len()].copy_from_slice(new);
        message(File::from_bytes(bytes))
    };
    let error = with(br#""tied.weight": "fc.Weight""#);
    assert!(error.contains("`tied.weight`: it is an alias of a tensor that is not there, `fc.Weight`"), "{error}");
    let error = with(br#""fc.weight":   "fc.weight""#);
    assert!(error.contains("`fc.weight`: it is stored, and is also an alias of `fc.weight`"), "{error}");
    let error = with(br#""tied.weight":  fc.weight""#);
    assert!(error.contains("`aliases.json` is malformed"), "{error}");
}

#[test]
fn they_are_not_written() {
    let map: TensorMap = TensorMap::new();
    for format in READ_FORMATS {
        let expected = format!("cannot write {} files; ExecuTorch makes them; they are only read", format.name);
        assert_eq!(message(format.to_vec(&map, &WriteOptions::new())), expected);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model").with_extension(format.extensions[0]);
        assert!(message(SaveOptions::new().save(&path, &map)).ends_with(&expected));
        assert!(!path.exists());
        assert!(std::ptr::eq(Format::named(format.name).unwrap(), *format));
    }
}

/// Makes a program without a header: one `f32[2]` whose data is in the flatbuffer, with this offset and dim order.
fn program(storage_offset: i32, order: &[u8]) -> Vec<u8> {
    // The numbers of fields in `program.fbs`, as distances in a list of fields.
    const fn field(number: u16) -> u16 {
        4 + 2 * number
    }
    let mut builder = flatbuffers::FlatBufferBuilder::new();
    let buffer = |builder: &mut flatbuffers::FlatBufferBuilder<'static>, bytes: &[u8]| {
        let bytes = builder.create_vector(bytes);
        let table = builder.start_table();
        builder.push_slot_always(field(0), bytes);
        builder.end_table(table)
    };
    let elements: Vec<u8> = [1.5_f32, -2.0].iter().flat_map(|number| number.to_le_bytes()).collect();
    let buffers = [buffer(&mut builder, &[]), buffer(&mut builder, &elements)];
    let buffers = builder.create_vector(&buffers);
    let (sizes, order) = (builder.create_vector(&[2_i32]), builder.create_vector(order));
    let tensor = builder.start_table();
    builder.push_slot(field(0), 6_i8, 0);
    builder.push_slot(field(1), storage_offset, 0);
    builder.push_slot_always(field(2), sizes);
    builder.push_slot_always(field(3), order);
    builder.push_slot(field(5), 1_u32, 0);
    let tensor = builder.end_table(tensor);
    let value = builder.start_table();
    builder.push_slot(field(0), 5_u8, 0);
    builder.push_slot_always(field(1), tensor);
    let value = builder.end_table(value);
    let (name, values) = (builder.create_string("forward"), builder.create_vector(&[value]));
    let plan = builder.start_table();
    builder.push_slot_always(field(0), name);
    builder.push_slot_always(field(2), values);
    let plan = builder.end_table(plan);
    let plans = builder.create_vector(&[plan]);
    let root = builder.start_table();
    builder.push_slot_always(field(1), plans);
    builder.push_slot_always(field(2), buffers);
    let root = builder.end_table(root);
    builder.finish(root, Some("ET12"));
    builder.finished_data().to_vec()
}

/// Programs of ExecuTorch before September 2024 have their constants in the flatbuffer.
#[test]
fn constants_in_the_flatbuffer_are_read() {
    let file = File::from_bytes(program(0, &[0])).unwrap();
    assert_eq!(file.array::<f32, ndarray::Ix1>("constants.1").unwrap(), ndarray::array![1.5, -2.0]);
    let error = message(File::from_bytes(program(1, &[0])));
    assert!(error.contains("tensor `constants.1`: its storage offset is not 0"), "{error}");
    let error = message(File::from_bytes(program(0, &[])));
    assert!(error.contains("tensor `constants.1`: "), "{error}");
}

/// Opens a file and reads all of it. It may fail, but must end.
fn read(bytes: Vec<u8>) -> bool {
    File::from_bytes(bytes).and_then(|file| file.load::<TensorMap>()).is_ok()
}

#[test]
fn damaged_files_are_errors_or_other_files() {
    let files = fs::read_dir(fixture("")).unwrap().map(|entry| entry.unwrap().path());
    for path in files.filter(|path| path.extension().is_some_and(|end| end == "pte" || end == "ptn")) {
        let bytes = fs::read(&path).unwrap();
        assert!(read(bytes.clone()), "{}", path.display());
        for at in 0..bytes.len() {
            for change in [0x01, 0x80, 0xff] {
                let mut damaged = bytes.clone();
                damaged[at] ^= change;
                read(damaged);
            }
            if at % 7 == 0 {
                read(bytes[..at].to_vec());
            }
        }
    }
}
