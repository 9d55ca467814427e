//! PyTorch checkpoints that we write. `interop::pytorch` reads them with PyTorch.

use indexmap::IndexMap;
use ndarray::{Array1, Array2, Array4, ShapeBuilder, array};
use tensorfile::{
    Arrays, Category, CooTensor, Dtype, ErrorKind, File, Format, Layout, SaveOptions, Tensor, TensorFile, TensorInfo,
    TensorMap, TensorView, WriteOptions, pytorch,
};

use crate::support::{crc32, message, tensor};

/// Returns the contents of members, with their offsets, by name. Reads the directory at the end of a file.
fn members(file: &[u8]) -> Vec<(String, usize, Vec<u8>)> {
    let u16 = |at: usize| usize::from(u16::from_le_bytes(file[at..at + 2].try_into().unwrap()));
    let u32 = |at: usize| u32::from_le_bytes(file[at..at + 4].try_into().unwrap());
    let end = file.len() - 22;
    assert_eq!(file[end..end + 4], *b"PK\x05\x06");
    let mut at = u32(end + 16) as usize;
    let mut members = Vec::new();
    for _ in 0..u16(end + 10) {
        assert_eq!(file[at..at + 4], *b"PK\x01\x02");
        let (crc, len, local) = (u32(at + 16), u32(at + 24) as usize, u32(at + 42) as usize);
        let name = String::from_utf8(file[at + 46..at + 46 + u16(at + 28)].to_vec()).unwrap();
        // Plain, with the sizes and the checksum after the contents, as PyTorch writes members.
        assert_eq!((file[local..local + 4].to_vec(), u16(local + 8)), (b"PK\x03\x04".to_vec(), 0), "{name}");
        assert_eq!((u16(local + 6) & 8, u16(at + 8) & 8), (8, 8), "{name}");
        let start = local + 30 + u16(local + 26) + u16(local + 28);
        let contents = file[start..start + len].to_vec();
        assert_eq!(crc32(&contents), crc, "{name}");
        let after = [b"PK\x07\x08", &crc.to_le_bytes()[..], &u32(at + 24).to_le_bytes(), &u32(at + 20).to_le_bytes()];
        assert_eq!(file[start + len..start + len + 16], after.concat(), "{name}");
        members.push((name, start, contents));
        at += 46 + u16(at + 28) + u16(at + 30) + u16(at + 32);
    }
    assert_eq!(at, end);
    members
}

/// Returns the pickle of a file, as text.
fn pickle(file: &[u8]) -> String {
    members(file).iter().find(|(name, ..)| name == "archive/data.pkl").unwrap().2.escape_ascii().to_string()
}

#[test]
fn members_are_plain_and_storages_aligned() {
    let map: TensorMap = [
        ("layer.weight", Tensor::from_slice(&[1.0_f32, 2.0, 3.0, 4.0, 5.0, 6.0], [2, 3]).unwrap()),
        ("layer.count", Tensor::from_slice(&[7_u16], []).unwrap()),
        ("none", Tensor::from_slice(&[0_i64; 0], [2, 0]).unwrap()),
    ]
    .into_iter()
    .collect();
    let file = pytorch::to_vec(&map).unwrap();
    let members = members(&file);
    let names: Vec<&str> = members.iter().map(|(name, ..)| name.as_str()).collect();
    let data = ["archive/data/0", "archive/data/1", "archive/data/2"];
    assert_eq!(names, [&["archive/data.pkl", "archive/byteorder"][..], &data, &["archive/version"]].concat());
    for (name, start, contents) in &members {
        assert!(!data.contains(&name.as_str()) || start % 64 == 0, "{name} at {start}");
        match name.as_str() {
            "archive/byteorder" => assert_eq!(contents, b"little"),
            "archive/version" => assert_eq!(contents, b"3\n"),
            "archive/data/0" => assert_eq!(*contents, map["layer.weight"].as_bytes()),
            "archive/data/1" => assert_eq!(*contents, [7, 0]),
            _ => {}
        }
    }
    let padding = file.windows(4).position(|bytes| bytes[..2] == *b"FB" && bytes[3] == 0).unwrap();
    assert!(file[padding + 4..].starts_with(b"ZZ"));
    assert_eq!(
        pickle(&file),
        [
            r"\x80\x02}(",
            r"X\x0c\x00\x00\x00layer.weightctorch._utils\n_rebuild_tensor_v2\nq\x00(",
            r"(X\x07\x00\x00\x00storageq\x01ctorch\nFloatStorage\nq\x02X\x01\x00\x00\x000X\x03\x00\x00\x00cpuq\x03K\x06tQ",
            r"K\x00(K\x02K\x03t(K\x03K\x01t\x89ccollections\nOrderedDict\nq\x04(tRtR",
            r"X\x0b\x00\x00\x00layer.countctorch._utils\n_rebuild_tensor_v3\nq\x05(",
            r"(h\x01ctorch.storage\nUntypedStorage\nq\x06X\x01\x00\x00\x001h\x03K\x02tQ",
            r"K\x00(t(t\x89h\x04(tRctorch\nuint16\nq\x07tR",
            r"X\x04\x00\x00\x00noneh\x00(",
            r"(h\x01ctorch\nLongStorage\nq\x08X\x01\x00\x00\x002h\x03K\x00tQ",
            r"K\x00(K\x02K\x00t(K\x01K\x01t\x89h\x04(tRtR",
            "u.",
        ]
        .concat()
    );
    assert_eq!(pytorch::from_slice::<TensorMap>(&file).unwrap(), map);
}

#[test]
fn numbers_of_all_lengths_are_read_back() {
    // Counts of one byte, of two, of four, and of more, in the only way to have them without the bytes.
    for dim in [255, 256, 65_535, 65_536, (1 << 31) - 1, 1 << 31, (1 << 32) + 7, 1 << 39, (1 << 40) - 1, 1 << 62] {
        let map: TensorMap = [("a", tensor(Dtype::U8, &[dim, 0]))].into_iter().collect();
        let file = pytorch::to_vec(&map).unwrap();
        assert_eq!(pytorch::from_slice::<TensorMap>(&file).unwrap(), map, "{dim}");
    }
}

#[derive(TensorFile)]
struct Tied {
    embed: Array2<f32>,
    #[tensor(tied = "embed")]
    head: Array2<f32>,
    other: Array1<f32>,
}

#[test]
fn tied_tensors_share_a_storage() {
    let value = Tied { embed: array![[1.0, 2.0]], head: array![[1.0, 2.0]], other: array![1.0, 2.0] };
    let file = pytorch::to_vec(&value).unwrap();
    let names: Vec<String> = members(&file).into_iter().map(|(name, ..)| name).collect();
    assert!(names.contains(&"archive/data/2".to_owned()) && !names.contains(&"archive/data/1".to_owned()), "{names:?}");
    let file = File::from_bytes(file).unwrap();
    assert_eq!(file.get("embed").unwrap().range(), file.get("head").unwrap().range());
    assert_eq!(file.load::<TensorMap>().unwrap().len(), 3);
    // What was read shares its bytes when it is written again.
    let again = pytorch::FORMAT.to_vec(&file, &WriteOptions::new()).unwrap();
    assert_eq!(members(&again).len(), 5);
}

#[test]
fn the_same_memory_with_several_dtypes_has_no_dtype() {
    let storage = [0, 0, 0x80, 0x3f, 0, 0, 0, 0];
    let view = |dtype, dims: &[usize]| TensorView::new(TensorInfo::new(dtype, dims), &storage).unwrap();
    let views = [("f32", view(Dtype::F32, &[2])), ("i16", view(Dtype::I16, &[2, 2])), ("f64", view(Dtype::F64, &[]))];
    let file = pytorch::to_vec(&IndexMap::from(views)).unwrap();
    let pickle = pickle(&file);
    assert!(!pickle.contains("_rebuild_tensor_v2") && pickle.contains("UntypedStorage"), "{pickle}");
    assert_eq!(members(&file).len(), 4);
    let read: TensorMap = pytorch::from_slice(&file).unwrap();
    let found: Vec<String> = read.infos().map(|(name, info)| format!("{name}: {info}")).collect();
    assert_eq!(found, ["f32: f32[2]", "i16: i16[2, 2]", "f64: f64[]"]);
    assert!(read.iter().all(|(_, tensor)| tensor.as_bytes() == storage));
}

#[test]
fn dim_orders_are_strides() {
    let columns = Array2::from_shape_fn((2, 3).f(), |(row, column)| (3 * row + column) as f32);
    let image = Array4::from_shape_fn((2, 4, 5, 3), |(n, y, x, c)| (n * 60 + y * 15 + x * 3 + c) as u8);
    let image = image.permuted_axes([0, 3, 1, 2]);
    let value = (Arrays(columns.clone()), Arrays(image.clone()));
    let file = pytorch::Options::new().keep_dim_order(true).to_vec(&value).unwrap();
    let file = File::from_bytes(file).unwrap();
    assert_eq!(*file.nth(0).unwrap().layout(), Layout::from_dim_order(&[1, 0]).unwrap());
    assert_eq!(*file.nth(1).unwrap().layout(), Layout::from_dim_order(&[0, 2, 3, 1]).unwrap());
    let read: (Array2<f32>, Array4<u8>) = file.load().unwrap();
    assert_eq!(read, (columns, image));
    let file = File::from_bytes(pytorch::to_vec(&value).unwrap()).unwrap();
    assert!(file.tensors().all(|tensor| *tensor.layout() == Layout::RowMajor));
}

#[test]
fn what_pytorch_has_not_is_refused_by_name() {
    let refused = |tensor: Tensor, expected: &str| {
        let map: TensorMap = [("first", tensor)].into_iter().collect();
        let mut written = Vec::new();
        let error = pytorch::to_writer(&mut written, &map).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Unsupported { .. }), "{error:?}");
        assert_eq!(error.category(), Category::Call);
        assert_eq!(error.to_string(), format!("pytorch: tensor `first`: cannot store {expected}"));
        assert!(written.is_empty());
    };
    let sparse = CooTensor::new([3], vec![1], vec![0.5_f32]).unwrap().to_tensor();
    refused(sparse, "a sparse tensor; pytorch stores dense tensors; btf stores sparse ones");
    let blob = Tensor::new(TensorInfo::blob(3), &[1, 2, 3]).unwrap();
    refused(blob, "a blob; pytorch stores tensors; npz and ptd store blobs");
    let unknown = TensorInfo::unknown("torch.complex32", [2], 8);
    refused(Tensor::new(unknown, &[0; 8]).unwrap(), "torch.complex32[2] of unknown dtype; leave the tensor out");
    let dtypes: Vec<&str> = pytorch::DTYPES.iter().map(|dtype| dtype.name()).collect();
    refused(tensor(Dtype::Q4_0, &[2]), &format!("q4_0; pytorch stores {}; gguf stores it", dtypes.join(", ")));
    refused(tensor(Dtype::QInt8, &[2]), &format!("qint8; pytorch stores {}", dtypes.join(", ")));
    let packed = Tensor::new(TensorInfo::new(Dtype::F4, [2, 3]), &[0; 3]).unwrap();
    refused(packed, "f4[2, 3]; in pytorch, rows of f4 are multiples of 2");
    for shape in [vec![1 << 40, 1 << 40, 0], vec![1 << 63, 0]] {
        let info = TensorInfo::new(Dtype::U8, shape);
        let expected = format!("{info}; PyTorch counts elements in 63 bits");
        refused(Tensor::new(info, &[]).unwrap(), &expected);
    }
    let map: TensorMap = [("a".repeat(65_535), tensor(Dtype::F32, &[1]))].into_iter().collect();
    let error = message(pytorch::to_vec(&map));
    let expected = "cannot store a name of 65535 bytes; pytorch stores names of up to 65534";
    assert_eq!(error.rsplit_once(": ").unwrap().1, expected);
    let map: TensorMap = [("a".repeat(65_534), tensor(Dtype::F32, &[1]))].into_iter().collect();
    assert!(pytorch::from_slice::<TensorMap>(&pytorch::to_vec(&map).unwrap()).unwrap() == map);
}

#[test]
fn only_tensors_are_written() {
    #[derive(TensorFile)]
    struct Step {
        weight: Array1<f32>,
        #[tensor(metadata)]
        step: u32,
    }

    let value = Step { weight: array![1.0], step: 7 };
    let error = pytorch::FORMAT.to_vec(&value, &WriteOptions::new()).unwrap_err().to_string();
    let expected = "pytorch: cannot store the metadata `step`; pytorch has no place for it; safetensors keeps any \
                    metadata, and gguf any whose key is ASCII";
    assert_eq!(error, expected);
}

#[test]
fn new_files_have_one_of_three_extensions() {
    let folder = tempfile::tempdir().unwrap();
    let map: TensorMap = [("a", tensor(Dtype::Bf16, &[2, 3]))].into_iter().collect();
    let mut files = Vec::new();
    for name in ["model.pt", "model.pth", "pytorch_model.bin", "MODEL.BIN"] {
        let path = folder.path().join(name);
        tensorfile::save(&path, &map).unwrap();
        let file = File::open(&path).unwrap();
        assert_eq!((file.format().name, file.load::<TensorMap>().unwrap()), ("pytorch", map.clone()), "{name}");
        assert_eq!(file.metadata().unwrap().warnings, [], "{name}");
        files.push(std::fs::read(&path).unwrap());
    }
    assert!(files.iter().all(|file| *file == files[0]), "the bytes do not depend on the path");
    // A file that exists is recognized by its content.
    let path = folder.path().join("ten.bin");
    SaveOptions::new().format(Format::named("ten").unwrap()).save(&path, &map_of_floats()).unwrap();
    assert_eq!(File::open(&path).unwrap().format().name, "ten");
}

fn map_of_floats() -> TensorMap {
    [("a", tensor(Dtype::F32, &[2, 3]))].into_iter().collect()
}

/// More members than the number in the end of the directory can count.
#[test]
fn archives_of_many_members_are_read() {
    const COUNT: usize = 65_600;

    let one = || Tensor::from_slice(&[1_u8], [1]).unwrap();
    let map: TensorMap = (0..COUNT).map(|at| (format!("t{at}"), one())).collect();
    let file = pytorch::to_vec(&map).unwrap();
    assert!(file.windows(4).rev().take(200).any(|bytes| bytes == b"PK\x06\x06"), "the directory has 64 bits");
    assert_eq!(pytorch::from_slice::<TensorMap>(&file).unwrap().len(), COUNT);
}
