//! Tensors that begin like the list of embedded names. In a file without names, the last one would be read as that
//! list.

use serde::Serialize;
use tensorfile::model::Store;
use tensorfile::{Format, OpenOptions, Result, SaveOptions, Tensor, TensorMap, Tensors, WriteOptions, btf, ten};

use crate::support::{format, message, multi_tensor_formats};

/// A list of one name, with more bytes after it to make it `len` long.
fn list(len: usize) -> Tensor {
    let mut bytes = b"tensorfile.names.v1\0a\0".to_vec();
    bytes.resize(len, b'x');
    Tensor::from_slice(&bytes, [len]).unwrap()
}

fn number() -> Tensor {
    Tensor::from_slice(&[1.5_f32, 2.0], [2]).unwrap()
}

fn expected(format: &str, name: &str) -> String {
    format!(
        "{format}: tensor `{name}`: cannot store a tensor that begins as a list of names does; as the last tensor of a file \
         without names, it would be read as the names of the others; embed the names, or put another tensor last"
    )
}

/// The file of each way to write one.
fn write_all<T: Tensors + Store + Serialize>(format: &'static Format, value: &T) -> Vec<Result<Vec<u8>>> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    let (options, save) = (WriteOptions::new(), SaveOptions::new().format(format));
    let mut memory = Vec::new();
    let written = format.to_writer(&mut memory, value, &options).map(|()| memory);
    let saved = save.save(&path, value).map(|()| std::fs::read(&path).unwrap());
    let planned = save.plan(&path, value).and_then(|plan| {
        let mut file = Vec::new();
        plan.to_writer(&mut file, value).map(|()| file)
    });
    let (serialized, slices) = match format.name {
        "btf" => (btf::to_vec(value), btf::Options::new().to_io_slices(value)),
        _ => (ten::to_vec(value), ten::Options::new().to_io_slices(value)),
    };
    let slices = slices.map(|file| file.as_slices().iter().flat_map(|slice| slice.to_vec()).collect());
    vec![format.to_vec(value, &options), written, saved, planned, serialized, slices]
}

fn read(format: &Format, file: &[u8]) -> Vec<Tensor> {
    let read = if format.name == "btf" { btf::from_slice(file) } else { ten::from_slice(file) };
    read.unwrap()
}

#[test]
fn a_list_of_names_is_not_written_last_in_a_file_without_names() {
    for format in ["btf", "ten"].map(format) {
        // Small tensors, one of more than 2 KiB, and one that is not gathered.
        for len in [22, 5000, 17 << 20] {
            for value in [vec![number(), list(len)], vec![list(len)], vec![list(len), list(len)]] {
                let name = (value.len() - 1).to_string();
                for written in write_all(format, &value) {
                    assert_eq!(message(written), expected(format.name, &name), "{len}");
                }
            }
            for written in write_all(format, &list(len)) {
                assert_eq!(message(written), expected(format.name, "0"), "{len}");
            }
            // It is a tensor as others if another comes last.
            let value = vec![list(len), number()];
            for written in write_all(format, &value) {
                assert_eq!(read(format, &written.unwrap()), value, "{len}");
            }
        }
        // A tensor that only partly looks like a list is an ordinary tensor.
        let column = Tensor::from_slice(list(22).as_bytes(), [22, 1]).unwrap();
        let signed: Vec<i8> = list(22).as_bytes().iter().map(|byte| byte.cast_signed()).collect();
        let short = Tensor::from_slice(&list(22).as_bytes()[..19], [19]).unwrap();
        for last in [column, Tensor::from_slice(&signed, [22]).unwrap(), short] {
            let value = vec![number(), last];
            for written in write_all(format, &value) {
                assert_eq!(read(format, &written.unwrap()), value);
            }
        }
    }
}

#[test]
fn a_view_with_steps_is_looked_at_too() {
    let bytes: Vec<u8> = list(22).as_bytes().iter().flat_map(|byte| [*byte, 0]).collect();
    let array = ndarray::ArrayView1::from(&bytes).slice_move(ndarray::s![..;2]);
    for format in ["btf", "ten"].map(format) {
        assert_eq!(message(format.to_vec(&array, &WriteOptions::new())), expected(format.name, "0"));
    }
}

#[test]
fn a_list_of_names_is_a_tensor_where_names_are_stored() {
    let map: TensorMap = [("a", number()), ("b", list(22))].into_iter().collect();
    for format in multi_tensor_formats().filter(|format| format.dtypes.contains(&tensorfile::Dtype::U8)) {
        let file = format.to_vec(&map, &WriteOptions::new().embed_names(true)).unwrap();
        assert_eq!(format.from_slice(&file).unwrap(), map, "{}", format.name);
        // Positions as names. The last tensor is the list.
        let unnamed = vec![number(), list(22)];
        let embedded = format.to_vec(&unnamed, &WriteOptions::new().embed_names(true)).unwrap();
        let opened = OpenOptions::new().format(format).from_bytes(embedded).unwrap();
        assert_eq!((opened.len(), opened.nth(1).unwrap().read().unwrap()), (2, list(22)), "{}", format.name);
    }
    assert_eq!(ten::from_slice::<TensorMap>(&ten::to_vec(&map).unwrap()).unwrap(), map);
}

#[cfg(feature = "safetensors")]
#[test]
fn shards_are_files_of_their_own() {
    // The name is the position, in the first shard.
    let map: TensorMap = [("0", list(22)), ("b", number())].into_iter().collect();
    let folder = tempfile::tempdir().unwrap();
    let options = SaveOptions::new().max_shard_bytes(22);
    let saved = options.save(folder.path().join("a.ten"), &map);
    assert_eq!(message(saved), expected("ten", "0"));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    let map: TensorMap = [("b", list(22)), ("c", number())].into_iter().collect();
    options.save(folder.path().join("a.ten"), &map).unwrap();
    let opened = tensorfile::File::open(folder.path().join("a.ten")).unwrap();
    assert_eq!(opened.load::<TensorMap>().unwrap(), map);
}

#[test]
fn a_stream_of_messages_without_names_takes_no_list() {
    for value in [list(22), list(5000)] {
        let mut encoder = ten::Encoder::new(Vec::new());
        let refused = expected("ten", "").replace("tensor ``: ", "tensor `0`: ");
        assert_eq!(message(encoder.encode("", &value)), refused);
        assert_eq!(encoder.get_ref().len(), 0);
        encoder.encode("", &number()).unwrap();
        assert_eq!(message(encoder.encode("", &value)), refused);
        // With a name, and then without one, too.
        encoder.encode("names", &value).unwrap();
        encoder.encode("", &value).unwrap();
        encoder.encode("", &(value.as_view(),).0).unwrap();
        let stream = encoder.into_inner();
        let opened = OpenOptions::new().from_bytes(stream.clone()).unwrap();
        assert_eq!(opened.len(), 4);
        assert!((1..4).all(|at| opened.nth(at).unwrap().read().unwrap() == value));
        assert_eq!(ten::Decoder::new(&stream[..]).filter(|tensor| tensor.as_ref().unwrap().1 == value).count(), 3);
    }
}

#[cfg(feature = "safetensors")]
#[test]
fn a_file_that_somebody_has_keeps_both_tensors() {
    let path = crate::support::root().join("tests/fixtures/cases/names-record-as-tensor/a.safetensors");
    let file = tensorfile::File::open(path).unwrap();
    let names: Vec<String> = file.tensors().map(|tensor| tensor.name().to_owned()).collect();
    assert_eq!(names.len(), 2);
    let unnamed = tensorfile::view::Renamed::by_position(&file);
    let error = message(format("btf").to_vec(&unnamed, &WriteOptions::new()));
    assert_eq!(error, expected("btf", "1"));
    let embedded = format("btf").to_vec(&file, &WriteOptions::new().embed_names(true)).unwrap();
    let map: TensorMap = btf::from_slice(&embedded).unwrap();
    assert_eq!(map, file.load::<TensorMap>().unwrap());
}
