//! PyTorch checkpoints. `tests/fixtures/pytorch/write.py` made the files, and records the values that PyTorch reads
//! from them.

use std::fs;

use ndarray::{Array1, Array2, Ix1, Ix2, array};
use tensorfile::file::Backend;
use tensorfile::model::{TensorData, ValueNode};
use tensorfile::report::WarningKind;
use tensorfile::{
    Category, Dtype, Element, ErrorKind, File, Layout, Limits, OpenOptions, Tensor, TensorFile, TensorInfo, TensorMap,
    WriteOptions, pytorch,
};

use crate::support::memory::peak;
use crate::support::{Dribble, message, root};

fn fixture(name: &str) -> Vec<u8> {
    fs::read(root().join("tests/fixtures/pytorch").join(name)).unwrap()
}

/// Returns the files that PyTorch reads, each with its tensors, in row-major order.
fn expected() -> Vec<(String, TensorMap)> {
    let text = String::from_utf8(fixture("expected.txt")).unwrap();
    let mut files: Vec<(String, TensorMap)> = Vec::new();
    for line in text.lines() {
        let (file, rest) = line.split_once(' ').unwrap();
        // Names can have blanks.
        let columns: Vec<&str> = rest.rsplitn(4, ' ').collect();
        let [elements, shape, dtype, name] = columns[..] else { panic!("{line}") };
        let shape: Vec<usize> = shape.split('x').filter_map(|dim| dim.parse().ok()).collect();
        let elements = crate::support::hex(elements.trim_matches('-'));
        let tensor = Tensor::new(TensorInfo::new(dtype.parse::<Dtype>().unwrap(), shape), &elements).unwrap();
        if files.last().is_none_or(|(last, _)| last != file) {
            files.push((file.to_owned(), TensorMap::new()));
        }
        files.last_mut().unwrap().1.insert(name, tensor);
    }
    files
}

/// Returns a tensor in row-major order.
pub fn row_major(tensor: &Tensor) -> Tensor {
    let info = TensorInfo::new(tensor.dtype(), tensor.shape().dims());
    let Layout::DimOrder(order) = &tensor.info().layout else { return tensor.clone() };
    let (size, dims) = (tensor.dtype().block_bytes(), tensor.shape().dims());
    let mut strides = vec![0; dims.len()];
    let mut stride = size;
    for &dim in order.as_slice().iter().rev() {
        strides[usize::from(dim)] = stride;
        stride *= dims[usize::from(dim)];
    }
    let mut bytes = Vec::new();
    for mut at in 0..dims.iter().product() {
        let mut offset = 0;
        for (dim, stride) in dims.iter().zip(&strides).rev() {
            offset += at % dim * stride;
            at /= dim;
        }
        bytes.extend_from_slice(&tensor.as_bytes()[offset..offset + size]);
    }
    Tensor::new(info, &bytes).unwrap()
}

pub fn all_row_major(map: &TensorMap) -> TensorMap {
    map.iter().map(|(name, tensor)| (name, row_major(tensor))).collect()
}

/// Returns the elements in row-major order.
fn elements<A: Element>(tensor: &Tensor) -> Vec<A> {
    row_major(tensor).array::<A>().unwrap().iter().copied().collect()
}

/// Returns the second half of each dim of a row-major tensor.
pub fn halves(tensor: &Tensor) -> Tensor {
    let dims = tensor.shape().dims();
    let size = tensor.dtype().block_bytes();
    let part: Vec<usize> = dims.iter().map(|dim| dim - dim / 2).collect();
    let mut bytes = Vec::new();
    for mut at in 0..part.iter().product() {
        let (mut offset, mut stride) = (0, size);
        for (dim, part) in dims.iter().zip(&part).rev() {
            offset += (dim / 2 + at % part) * stride;
            at /= part;
            stride *= dim;
        }
        bytes.extend_from_slice(&tensor.as_bytes()[offset..offset + size]);
    }
    Tensor::new(TensorInfo::new(tensor.dtype(), part), &bytes).unwrap()
}

#[test]
fn files_have_the_tensors_that_pytorch_reads() {
    for (name, tensors) in expected() {
        let file = fixture(&name);
        let slice = pytorch::from_slice::<TensorMap>(&file).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(all_row_major(&slice), tensors, "{name}");
        assert_eq!(pytorch::from_reader::<TensorMap>(Dribble::new(&file)).unwrap(), slice, "{name}");
        let path = root().join("tests/fixtures/pytorch").join(&name);
        for backend in [Backend::Mapped, Backend::Positioned] {
            let file = OpenOptions::new().backend(backend).open(&path).unwrap();
            assert_eq!(file.format().name, "pytorch", "{name}");
            assert_eq!(file.load::<TensorMap>().unwrap(), slice, "{name}");
            for tensor in file.tensors() {
                let whole = &slice[tensor.name()];
                assert_eq!(tensor.read().unwrap(), *whole, "{name}: {tensor:?}");
                let ranges: Vec<_> = tensor.shape().iter().map(|dim| dim / 2..*dim).collect();
                let part = tensor.slice(&ranges).unwrap();
                assert_eq!(part, halves(&tensors[tensor.name()]), "{name}: {tensor:?}");
            }
        }
    }
}

#[test]
fn a_dtype_that_is_not_known_costs_its_tensor() {
    let file = File::from_bytes(fixture("complex_half.pt")).unwrap();
    let infos: Vec<String> = file.tensors().map(|tensor| tensor.info().to_string()).collect();
    assert_eq!(infos, ["torch.complex32[2] of unknown dtype", "f32[2]"]);
    assert_eq!(file.array::<f32, Ix1>("y").unwrap(), array![1.0, 1.0]);
    let error = message(file.array::<f32, Ix1>("x"));
    assert!(error.contains("tensor `x`") && error.contains("torch.complex32"), "{error}");
    assert_eq!(file.tensor("x").unwrap().as_bytes(), [0x00, 0x3c, 0x00, 0x40, 0, 0x80, 0x00, 0xc3]);
}

/// A tensor listed by PyTorch in `unknown.txt`: its name, shape, bytes and kind.
struct Listed {
    name: String,
    shape: Vec<usize>,
    bytes: Option<Vec<u8>>,
    what: String,
}

fn listed(file: &str) -> Vec<Listed> {
    let text = String::from_utf8(fixture("unknown.txt")).unwrap();
    let lines = text.lines().filter_map(|line| line.strip_prefix(file)?.strip_prefix(' '));
    let lines = lines.map(|line| {
        let columns: Vec<&str> = line.splitn(4, ' ').collect();
        let [name, shape, bytes, what] = columns[..] else { panic!("{line}") };
        let shape = shape.split('x').filter_map(|dim| dim.parse().ok()).collect();
        let bytes = (bytes != "-").then(|| crate::support::hex(bytes));
        Listed { name: name.to_owned(), shape, bytes, what: what.to_owned() }
    });
    lines.collect()
}

#[test]
fn tensors_of_other_kinds_are_listed_next_to_those_that_are_read() {
    for (file, least) in [("unknown.pt", 20), ("unknown_legacy.pth", 15)] {
        let bytes = fixture(file);
        let opened = File::open(root().join("tests/fixtures/pytorch").join(file)).unwrap();
        let map: TensorMap = pytorch::from_slice(&bytes).unwrap();
        assert_eq!(opened.load::<TensorMap>().unwrap(), map);
        assert_eq!(pytorch::from_reader::<TensorMap>(Dribble::new(&bytes)).unwrap(), map);
        let listed = listed(file);
        assert!(listed.len() >= least);
        let mut unknown = 0;
        for Listed { name, shape, bytes, what } in &listed {
            let tensor = &map[name.as_str()];
            // PyTorch counts the bytes of 4-bit floats, and two floats share a byte.
            let elements = tensor.dtype().block_elements();
            assert_eq!(tensor.shape().iter().map(|dim| dim / elements).collect::<Vec<_>>(), *shape, "{name}");
            assert_eq!(tensor.as_bytes(), bytes.as_deref().unwrap_or_default(), "{name}");
            match tensor.info().unknown_dtype() {
                Some(tag) => {
                    assert_eq!(tag, what, "{name}");
                    let error = message(opened.array::<f32, ndarray::IxDyn>(name));
                    assert!(
                        error.contains(&format!("tensor `{name}`: cannot read elements of dtype {tag};")),
                        "{error}"
                    );
                    unknown += 1;
                }
                None => {
                    let known = ["torch.int64", "torch.float32", "torch.float4_e2m1fn_x2"];
                    assert!(known.contains(&what.as_str()), "{name}");
                }
            }
        }
        let has_f4 = listed.iter().any(|listed| listed.name == "float4");
        assert_eq!(listed.len() - unknown, 3 + usize::from(has_f4), "{file}");
        let info = |name: &str| map[name].info().to_string();
        assert_eq!(info("lists.0.sparse_parameter"), "torch.float32 (sparse_coo)[2, 2] of unknown dtype");
        assert_eq!(info("lists.1"), "i8[1]");
        // Two more tensors, and the parts of sparse and quantized tensors.
        assert_eq!(map.len(), listed.len() + 2 + 22);
        assert_eq!(opened.metadata().unwrap().entries["dtype"], "torch.int4");
        // No format stores them.
        let error = message(tensorfile::safetensors::to_vec(&map));
        let expected = "safetensors: tensor `quantized`: cannot store torch.qint8 (quantized, scale 0.5, zero point \
                        10)[2, 3] of unknown dtype; leave the tensor out";
        assert_eq!(error, expected);
    }
}

#[test]
fn nested_tensors_have_the_shape_of_all_elements() {
    let map: TensorMap = pytorch::from_slice(&fixture("nested.pt")).unwrap();
    let infos: Vec<String> = map.infos().map(|(name, info)| format!("{name} {info}")).collect();
    let expected = [
        "nested torch.float32 (nested)[5] of unknown dtype",
        "nested.sizes i64[2, 1]",
        "nested.strides i64[2, 1]",
        "nested.storage_offsets i64[2]",
        "jagged torch.float32 (jagged)[5] of unknown dtype",
        "jagged.offsets i64[3]",
        "jagged._metadata_cache.min_seqlen f32[2, 0]",
        "jagged._metadata_cache.max_seqlen f32[3, 0]",
        "uninitialized uninitialized[] of unknown dtype",
        "last f32[2]",
    ];
    assert_eq!(infos, expected);
    let elements = [1.0_f32, 1.0, 0.0, 0.0, 0.0].map(f32::to_le_bytes).concat();
    assert_eq!((map["nested"].as_bytes(), map["jagged"].as_bytes()), (&elements[..], &elements[..]));
    assert_eq!(map["last"].array::<f32>().unwrap(), array![0.0, 1.0].into_dyn());
    for (name, info) in [
        ("sparse.pt", "torch.float32 (sparse_coo)[2, 2] of unknown dtype"),
        ("sparse_csr.pt", "torch.float32 (sparse_csr)[2, 2] of unknown dtype"),
        ("quantized.pt", "torch.qint8 (quantized, scale 0.1, zero point 10)[2] of unknown dtype"),
        ("meta.pt", "torch.float32 (meta)[2] of unknown dtype"),
    ] {
        assert_eq!(pytorch::from_slice::<TensorMap>(&fixture(name)).unwrap()["x"].info().to_string(), info, "{name}");
    }
}

/// Pickles that PyTorch wrote once, or would write on devices that are not here. They are made by hand, after
/// `torch/_utils.py` and `torch/serialization.py`.
#[test]
fn tensors_without_elements_are_listed() {
    let meta = |key: &str| {
        let storage =
            [b"(".to_vec(), text("storage"), b"ctorch\nFloatStorage\n".to_vec(), text(key), text("meta"), int(6)];
        [storage.concat(), b"tQ".to_vec()].concat()
    };
    let tensor_of = |storage: &[u8]| {
        let args = [int(0), tuple(&[2, 3]), tuple(&[3, 1]), b"\x89}tR".to_vec()].concat();
        [b"ctorch._utils\n_rebuild_tensor_v2\n(", storage, &args].concat()
    };
    let wrapper = [
        b"ctorch._utils\n_rebuild_wrapper_subclass\n(ctorch._subclasses.fake_tensor\nFakeTensor\nctorch\nbfloat16\n"
            .to_vec(),
        tuple(&[7]),
        tuple(&[1]),
        int(0),
        b"ctorch\nstrided\nNNtR".to_vec(),
    ];
    let layout_of_1_0 = [
        b"ctorch._utils\n_rebuild_sparse_tensor\n(ctorch\nsparse_coo\n(".to_vec(),
        tensor_of(&meta("0")),
        tensor_of(&meta("0")),
        b"ctorch\nSize\n".to_vec(),
        tuple(&[9, 9]),
        b"\x85RttR".to_vec(),
    ];
    let device = [b"ctorch._utils\n_rebuild_device_tensor_from_cpu_tensor\n(".to_vec(), tensor_of(&meta("0"))];
    for (what, value, expected) in [
        ("a tensor", tensor_of(&meta("0")), "torch.float32 (meta)[2, 3] of unknown dtype"),
        ("a storage", meta("0"), "torch.float32 (meta)[6] of unknown dtype"),
        ("a subclass", wrapper.concat(), "torch.bfloat16 (wrapper subclass)[7] of unknown dtype"),
        ("a constant", layout_of_1_0.concat(), "torch.float32 (sparse_coo)[9, 9] of unknown dtype"),
        (
            "another device",
            [device.concat(), b"ctorch\nfloat32\n".to_vec(), text("xla:0"), b"\x89tR".to_vec()].concat(),
            "torch.float32 (meta)[2, 3] of unknown dtype",
        ),
        ("no arguments", b"ctorch._utils\n_rebuild_sparse_tensor\n)R".to_vec(), "sparse[] of unknown dtype"),
        ("wrong ones", b"ctorch._utils\n_rebuild_nested_tensor\n(NNtR".to_vec(), "nested[] of unknown dtype"),
        ("no dict", b"ctorch.nested._internal.nested_tensor\n_rebuild_njt\n(]tR".to_vec(), "jagged[] of unknown dtype"),
    ] {
        let pickle = [b"}".to_vec(), text("x"), value, b"s".to_vec()].concat();
        let map: TensorMap =
            pytorch::from_slice(&legacy(&pickle, &[])).unwrap_or_else(|error| panic!("{what}: {error}"));
        assert_eq!((map["x"].info().to_string().as_str(), map["x"].as_bytes().len()), (expected, 0), "{what}");
    }
    let quantized = [b"}".to_vec(), text("x"), b"ctorch._utils\n_rebuild_qtensor\n(NtRs".to_vec()].concat();
    let message = refused(&legacy(&quantized, &[]));
    assert!(message.starts_with("the pickle makes a tensor of None, but expected a storage"), "{message}");
    let size =
        [b"}".to_vec(), text("x"), b"ctorch._utils\n_rebuild_meta_tensor_no_storage\n(ctorch\nfloat32\n".to_vec()];
    for (dims, expected) in
        [(&[-1][..], "tensor `x`: dim is -1"), (&[1; 256], "tensor `x`: rank is 256, but the limit")]
    {
        let pickle = [size.concat(), tuple(dims), b"tRs".to_vec()].concat();
        let message = refused(&legacy(&pickle, &[]));
        assert!(message.starts_with(expected), "{message}");
    }
    // Nothing is called for them either.
    let system = [
        b"ctorch._utils\n_rebuild_sparse_tensor\n(".to_vec(),
        b"cos\nsystem\n".to_vec(),
        text("ls"),
        b"\x85RtR".to_vec(),
    ];
    let map: TensorMap = pytorch::from_slice(&legacy(&system.concat(), &[])).unwrap();
    assert_eq!(map.infos().map(|(_, info)| info.to_string()).collect::<Vec<_>>(), ["sparse[] of unknown dtype"]);
}

#[test]
fn archives_that_are_cut_off_are_of_either_format() {
    let folder = tempfile::tempdir().unwrap();
    let npz = tensorfile::npz::to_vec(&expected()[0].1).unwrap();
    let cut_off = "the zip archive is cut off: the file does not end with its directory (at byte ";
    for (what, bytes) in [("pytorch", fixture("state_dict.pt")), ("npz", npz)] {
        for len in [200, bytes.len() / 2, bytes.len() - 22] {
            for (name, format) in [("a.pt", "pytorch: "), ("a.npz", "npz: "), ("a.bin", ""), ("a", "")] {
                let path = folder.path().join(name);
                fs::write(&path, &bytes[..len]).unwrap();
                let error = message(File::open(&path));
                assert_eq!(error, format!("{format}{cut_off}{len})"), "{what} as {name}");
            }
        }
    }
}

/// Returns a message without the offset.
fn without_offset(message: &str) -> &str {
    message.split(" (at byte ").next().unwrap()
}

#[test]
fn what_cannot_be_read_is_refused_by_name() {
    for (name, expected) in [
        (
            "compressed.pt",
            "the member `list/data.pkl` is compressed, which PyTorch does not do; unpack the archive and zip it without \
             compression (`zip -0`)",
        ),
        (
            "script.pt",
            "this is TorchScript, a program with its weights, which has `constants.pkl`; save the weights with \
             `torch.save(torch.jit.load(path).state_dict(), …)`",
        ),
    ] {
        let error = pytorch::from_slice::<TensorMap>(&fixture(name)).unwrap_err();
        assert_eq!(without_offset(&error.to_string()), format!("pytorch: {expected}"), "{name}");
        assert_eq!(error.category(), Category::File, "{name}");
    }
}

/// Returns the names in a file, and the warnings about parts left out.
fn names_and_warnings(file: &[u8]) -> (Vec<String>, Vec<String>) {
    let file = OpenOptions::new().format(&pytorch::FORMAT).from_bytes(file.to_vec()).unwrap();
    let names = file.tensors().map(|tensor| tensor.name().to_owned()).collect();
    let warnings = file.warnings().unwrap().into_iter();
    let left_out = warnings.filter(|warning| warning.kind == WarningKind::LeftOut).map(|warning| warning.text);
    (names, left_out.collect())
}

fn case(name: &str) -> Vec<u8> {
    fs::read(root().join("tests/fixtures/cases").join(name)).unwrap()
}

#[test]
fn an_object_of_another_class_costs_itself() {
    for (name, found, warning) in [
        ("pt-foreign-objects/namespace.pt", "", "`args` is left out: `argparse.Namespace`"),
        (
            "pt-foreign-objects/lightning.ckpt",
            "",
            "`hyper_parameters` is left out: `pytorch_lightning.utilities.parsing.AttributeDict`",
        ),
        ("pt-foreign-objects/numpy-scalar.pt", "0.93", ""),
    ] {
        let file = case(name);
        let map: TensorMap = pytorch::from_slice(&file).unwrap();
        assert_eq!(elements::<f32>(&map["state_dict.layer.weight"]), [0.0, 1.0, 2.0, 3.0, 4.0, 5.0], "{name}");
        assert_eq!(elements::<f32>(&map["state_dict.layer.bias"]), [0.0, 1.0], "{name}");
        assert_eq!(map.len(), 2);
        let metadata = pytorch::metadata(&file).unwrap();
        assert_eq!(crate::support::warnings(&metadata).join(""), warning, "{name}");
        assert_eq!(metadata.entries.get("best_acc").map_or("", String::as_str), found, "{name}");
    }
    for (name, count, expected) in [
        ("namespace.pt", 8, "`args` is left out: `argparse.Namespace`"),
        ("numpy_scalar.pt", 8, ""),
        ("subclass.pt", 2, "`x` is taken for a plain tensor: `__main__.Sub`"),
        ("module.pt", 2, "of `0`, only the tensors are read: `torch.nn.modules.linear.Linear`"),
    ] {
        let (names, warnings) = names_and_warnings(&fixture(name));
        assert_eq!((names.len(), warnings.join("\n").as_str()), (count, expected), "{name}");
    }
    assert_eq!(names_and_warnings(&fixture("module.pt")).0, ["weight", "bias"]);
    assert_eq!(pytorch::metadata(&fixture("numpy_scalar.pt")).unwrap().entries["loss"], "1.0");
}

#[test]
fn tensors_in_objects_are_read() {
    for name in ["objects.pt", "objects_protocol_5.pt", "objects_legacy.pt"] {
        let (names, warnings) = names_and_warnings(&fixture(name));
        let expected = "weight args.ema sub noted noted.scale point.1 net.0.weight net.0.bias net.1.weight net.1.bias \
                        net.1.running_mean net.1.running_var net.1.num_batches_tracked trainer.model array transposed";
        let names = names.iter().map(String::as_str).collect::<Vec<_>>().join(" ");
        assert_eq!(names, format!("{expected} big endian bools empty texts objects.1 last"), "{name}");
        let expected = [
            "of `args`, only the tensors are read: `argparse.Namespace`",
            "`color` is left out: `__main__.Color`",
            "`path` is left out: `pathlib.PurePosixPath`",
            "`time` is left out: `datetime.datetime`",
            "`relu` is left out: `torch.nn.functional.relu`",
            "`sub` is taken for a plain tensor: `__main__.Sub`",
            "of the attributes of `noted`, only the tensors are read",
            "of `point`, only the tensors are read: `__main__.Point`",
            "of `net`, only the tensors are read: `torch.nn.modules.container.Sequential`",
            "of `trainer`, only the tensors are read: `__main__.Trainer`",
        ];
        assert_eq!(warnings, expected, "{name}");
        let map: TensorMap = pytorch::from_slice(&fixture(name)).unwrap();
        assert_eq!(elements::<f32>(&map["trainer.model"]), [7.0]);
        assert_eq!(elements::<f32>(&map["noted.scale"]), [0.5]);
        // Arrays of numpy.
        let numbers = array![[0.0_f32, 1.0, 2.0], [3.0, 4.0, 5.0]];
        let file = File::open(root().join("tests/fixtures/pytorch").join(name)).unwrap();
        for name in ["array", "big endian"] {
            assert_eq!(map[name].array::<f32>().unwrap(), numbers.clone().into_dyn(), "{name}");
            assert_eq!(file.array::<f32, Ix2>(name).unwrap(), numbers);
            assert_eq!(elements::<f32>(&file.get(name).unwrap().slice(&[1..2, 1..3]).unwrap()), [4.0, 5.0]);
        }
        assert_eq!(file.array::<f32, Ix2>("transposed").unwrap(), numbers.t());
        assert_eq!(elements::<bool>(&map["bools"]), [false, false, false, true, true, true]);
        assert_eq!(*map["empty"].shape(), [0, 3]);
        assert_eq!(map["texts"].info().to_string(), "numpy.U2[2] of unknown dtype");
        assert_eq!(map["texts"].as_bytes(), b"a\0\0\0\0\0\0\0b\0\0\0c\0\0\0");
    }
}

#[test]
fn lazy_conjugates_and_negatives_are_computed() {
    let folder = root().join("tests/fixtures/cases");
    let complex = |numbers: &[(f32, f32)]| numbers.iter().flat_map(|(re, im)| [*re, *im]).collect::<Vec<_>>();
    let floats = |tensor: &Tensor| -> Vec<f32> {
        tensor.as_bytes().as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()
    };
    let file = case("pt-conj-neg/zip.pt");
    let map: TensorMap = pytorch::from_slice(&file).unwrap();
    assert_eq!(floats(&map["conj"]), complex(&[(1.0, -2.0), (3.0, -4.0)]));
    assert_eq!(floats(&map["plain"]), complex(&[(1.0, 2.0), (3.0, 4.0)]));
    assert_eq!(floats(&map["neg"]), [-1.0, -3.0]);
    let conj = File::open(folder.join("torch/one-conj.pt")).unwrap().tensor("x").unwrap();
    let plain: Vec<f32> = floats(&conj).chunks(2).map(|number| number[1]).collect();
    assert!(plain.len() == 12 && plain.iter().all(|im| im.is_sign_negative() || *im != 0.0));
    let neg = File::open(folder.join("torch/one-neg-view.pt")).unwrap().tensor("x").unwrap();
    assert_eq!(floats(&neg), (0..24_u8).map(|number| -f32::from(number)).collect::<Vec<_>>());

    let text = String::from_utf8(fixture("bits.txt")).unwrap();
    for name in ["bits.pt", "bits_legacy.pt"] {
        let path = root().join("tests/fixtures/pytorch").join(name);
        let map: TensorMap = pytorch::from_slice(&fixture(name)).unwrap();
        let stream: TensorMap = pytorch::from_reader(Dribble::new(&fixture(name))).unwrap();
        assert_eq!(stream, map);
        for backend in [Backend::Mapped, Backend::Positioned] {
            let file = OpenOptions::new().backend(backend).open(&path).unwrap();
            for line in text.lines() {
                let (tensor, elements) = line.split_once(' ').unwrap();
                let (read, elements) = (&map[tensor], crate::support::hex(elements));
                assert_eq!(row_major(read).as_bytes(), elements, "{name}: {tensor}");
                let tensor = file.get(tensor).unwrap();
                assert_eq!(tensor.read().unwrap(), *read, "{tensor:?}");
                let mut written = Vec::new();
                tensor.write_row_major_to(&mut written).unwrap();
                assert_eq!(written, elements, "{tensor:?}");
                let ranges: Vec<_> = tensor.shape().iter().map(|dim| dim / 2..*dim).collect();
                assert_eq!(tensor.slice(&ranges).unwrap(), halves(&row_major(read)), "{tensor:?}");
                if tensor.name() != "plain" {
                    assert!(tensor.view().unwrap_err().to_string().contains("cannot borrow"), "{tensor:?}");
                    assert!(tensor.read_at(0, &mut [0]).is_err(), "{tensor:?}");
                }
            }
        }
    }
    // Numbers of 16 bits in pairs are not read, and not without the bit.
    let map: TensorMap = pytorch::from_slice(&fixture("bits.pt")).unwrap();
    assert_eq!(map["half"].info().to_string(), "torch.complex32 (conj)[1] of unknown dtype");
    // Unknown bits, or bits of another dtype.
    for (bits, expected, warnings) in [
        (&b"}"[..], "f32[4]", 0),
        (b"}X\x03\0\0\0neg\x89s", "f32[4]", 0),
        (b"N", "f32[4]", 0),
        (b"}X\x04\0\0\0conj\x88s", "torch.float32 (conj)[4] of unknown dtype", 0),
        (b"}X\x03\0\0\0odd\x88s", "torch.float32 (changed by unknown metadata)[4] of unknown dtype", 1),
        (b"}X\x03\0\0\0negK\x01s", "torch.float32 (changed by unknown metadata)[4] of unknown dtype", 1),
        (b"]", "torch.float32 (changed by unknown metadata)[4] of unknown dtype", 1),
    ] {
        let pickle = tensor("0", 4, 0, &[4], &[1]);
        let end = b"tRs".len();
        let pickle = [&pickle[..pickle.len() - end], bits, b"tRs"].concat();
        let file = legacy(&pickle, &[("0", 4, 16)]);
        let map: TensorMap = pytorch::from_slice(&file).unwrap();
        assert_eq!(map["x"].info().to_string(), expected, "{}", bits.escape_ascii());
        assert_eq!(pytorch::metadata(&file).unwrap().warnings.len(), warnings);
    }
}

#[test]
fn values_are_printed_as_json() {
    let text = String::from_utf8(fixture("values.txt")).unwrap();
    let expected: Vec<(String, String)> = text
        .lines()
        .map(|line| {
            let mut values = serde_json::Deserializer::from_str(line).into_iter::<String>().map(Result::unwrap);
            (values.next().unwrap(), values.next().unwrap())
        })
        .collect();
    assert!(expected.len() > 30);
    for name in ["values.pt", "values_legacy.pt", "values_protocol_4.pt", "values_protocol_1.pt"] {
        let mut metadata = pytorch::metadata(&fixture(name)).unwrap();
        for (key, value) in &expected {
            // A list of tuples has an entry for each.
            if key == "sizes" {
                assert_eq!(metadata.entries["sizes.1"], "[1]");
            } else if key == "big" && name == "values_protocol_1.pt" {
                // Protocol 1 has decimal digits.
                let expected = "[9223372036854775808, -9223372036854775809, 18446744073709551616, \
                                170141183460469231731687303715884105728, \
                                \"-1606938044258990275541962092341162602522202993782792835301376\", \
                                \"10000000000000000000000000000000000000000\"]";
                assert_eq!(metadata.entries.shift_remove(key).as_deref(), Some(expected));
            } else if key == "huge" && name == "values_protocol_1.pt" {
                assert!(metadata.entries.shift_remove(key).unwrap().starts_with("1747871251722651609"));
            } else {
                assert_eq!(metadata.entries.shift_remove(key).as_ref(), Some(value), "{name}: {key}");
            }
        }
        assert_eq!(metadata.entries.len(), 2);
        assert_eq!(metadata.warnings, []);
    }
    let floats = pytorch::metadata(&case("torch/value-floats.pt")).unwrap().entries;
    let floats: Vec<&str> = floats.values().map(String::as_str).collect();
    let expected = "0.1 1e-8 1e16 1e100 -0.0 Infinity -Infinity NaN 5e-324 1.7976931348623157e308 \
                    1.2345678901234568e17 1000000000000000.0 0.0001 1e-5 2.0 1e22";
    assert_eq!(floats.join(" "), expected);
}

#[test]
fn files_of_other_versions_of_pytorch_are_read() {
    let map: TensorMap = pytorch::from_slice(&case("pt-old-parameter/zip.pt")).unwrap();
    assert_eq!(elements::<f32>(&map["p"]), [0.0, 1.0, 2.0]);
    // Parameters of 0.3 have their state set.
    let x = tensor("0", 4, 0, &[4], &[1]);
    let x = [&x[..x.len() - 1], b"\x85R\x89\x89N\x87bs"].concat();
    let x = [&x[..7], b"ctorch.nn.parameter\nParameter\n", &x[7..]].concat();
    let map: TensorMap = pytorch::from_slice(&legacy(&x, &[("0", 4, 16)])).unwrap();
    assert_eq!(map["x"].info().to_string(), "f32[4]");

    let map: TensorMap = pytorch::from_slice(&case("pt-legacy-storage-view/view.pt")).unwrap();
    assert_eq!(elements::<f32>(&map["all"]), (0..10_u8).map(f32::from).collect::<Vec<_>>());
    assert_eq!(map["part"].array::<f32>().unwrap(), array![[4.0, 5.0], [6.0, 7.0]].into_dyn());
    let view = case("pt-legacy-storage-view/view.pt");
    let at = view.windows(4).position(|bytes| bytes == b"K\x04K\x04").unwrap();
    let mut outside = view.clone();
    outside[at + 1] = 7;
    let error = pytorch::from_slice::<TensorMap>(&outside).unwrap_err().to_string();
    let expected = "pytorch: tensor `part`: 4 elements from 7 on are not in storage `94000000`, which has 10";
    assert_eq!(without_offset(&error), expected);

    // What libtorch saves.
    let map: TensorMap = pytorch::from_slice(&fixture("libtorch.pt")).unwrap();
    assert_eq!(map.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["0.a", "3.0"]);
    let metadata = pytorch::metadata(&fixture("libtorch.pt")).unwrap();
    assert_eq!(
        metadata.entries.into_iter().map(|(name, text)| format!("{name}={text}")).collect::<Vec<_>>(),
        ["1=[1, 2]", "2=[0.5]", "4=[true]", "5=x"]
    );
    assert_eq!(metadata.warnings, []);

    let map: TensorMap = pytorch::from_slice(&case("torch/container-defaultdict-plain.pt")).unwrap();
    assert_eq!(map.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["s.0.step"]);
    let map: TensorMap = pytorch::from_slice(&case("torch/quantized-quint4x2.pt")).unwrap();
    let infos: Vec<String> = map.infos().map(|(name, info)| format!("{name}: {info}")).collect();
    assert_eq!(
        infos,
        [
            "w: torch.quint4x2 (quantized along dim 0)[4, 6] of unknown dtype",
            "w.scales: f32[4]",
            "w.zero_points: f32[4]",
            "x: f32[2]"
        ]
    );
    assert_eq!(map["w"].as_bytes().len(), 12);
}

#[test]
fn overlapping_elements_are_gathered() {
    let map: TensorMap = pytorch::from_slice(&case("torch/one-unfold.pt")).unwrap();
    let expected: Vec<f32> = [0_u8, 1, 2, 1, 2, 3, 2, 3, 4, 3, 4, 5].map(f32::from).to_vec();
    assert_eq!(elements::<f32>(&map["x"]), expected);
    let map: TensorMap = pytorch::from_slice(&fixture("overlapping.pt")).unwrap();
    assert_eq!(elements::<f32>(&map["x"]), [0.0, 1.0, 1.0, 2.0, 2.0, 3.0]);
}

#[test]
fn a_second_value_in_a_file_is_said() {
    let (names, warnings) = names_and_warnings(&case("pt-two-in-one/zip.pt"));
    let expected = "the file holds something before the archive, up to byte 1108, which is left out; it may be what an \
                    earlier `torch.save` wrote";
    assert_eq!((names, warnings), (vec!["second".to_owned()], vec![expected.to_owned()]));
    let first = legacy(&tensor("0", 4, 0, &[4], &[1]), &[("0", 4, 16)]);
    for second in [first.clone(), fixture("legacy_protocol_4.pt"), fixture("values_protocol_1.pt")] {
        let (names, warnings) = names_and_warnings(&[&first[..], &second].concat());
        let expected = format!(
            "the file holds another value after the first one, from byte {} on, which is left out",
            first.len()
        );
        assert_eq!((names, warnings), (vec!["x".to_owned()], vec![expected]));
    }
    let metadata = pytorch::metadata(&[&first[..], &[0; 20]].concat()).unwrap();
    assert_eq!(metadata.warnings[0].kind, WarningKind::TrailingBytes);
}

#[test]
fn lists_and_sets_of_others_are_copies() {
    // `b = list(a)`, then `a` grows.
    for (class, make) in [("list", "]"), ("set", "]"), ("tuple", "]")] {
        let pickle = [
            b"}X\x01\0\0\0a".to_vec(),
            make.as_bytes().to_vec(),
            b"q\x00K\x01asX\x01\0\0\0b".to_vec(),
            [b"c__builtin__\n", class.as_bytes(), b"\nh\x00\x85Rs"].concat(),
            b"X\x01\0\0\0ch\x00K\x02as".to_vec(),
        ]
        .concat();
        let entries = pytorch::metadata(&legacy(&pickle, &[])).unwrap().entries;
        let entries: Vec<&str> = entries.values().map(String::as_str).collect();
        assert_eq!(entries, ["[1, 2]", "[1]", "[1, 2]"], "{class}");
    }
    // The last value of a key counts.
    let pickle = b"}(X\x01\0\0\0aK\x01X\x01\0\0\0aK\x02u";
    let metadata = pytorch::metadata(&legacy(pickle, &[])).unwrap();
    assert_eq!((metadata.entries["a"].as_str(), metadata.warnings.len()), ("2", 0));
}

#[test]
fn parts_of_sparse_and_quantized_tensors_are_tensors() {
    let map: TensorMap = pytorch::from_slice(&fixture("unknown.pt")).unwrap();
    let info = |name: &str| map[name].info().to_string();
    for (name, expected) in [
        ("channels.scales", "f64[2]"),
        ("channels.zero_points", "i64[2]"),
        ("coo.indices", "i64[2, 3]"),
        ("coo.values", "f64[3]"),
        ("csr.crow_indices", "i64[3]"),
        ("csr.col_indices", "i64[2]"),
        ("csc.ccol_indices", "i64[3]"),
        ("bsr.values", "f32[2, 2, 2]"),
        ("lists.0.sparse_parameter.values", "f32[2]"),
    ] {
        assert!(info(name).starts_with(expected), "{name}: {}", info(name));
    }
}

#[derive(TensorFile, Debug)]
struct Linear {
    weight: Array2<f32>,
    bias: Option<Array1<f32>>,
}

#[derive(TensorFile, Debug)]
struct Embedding {
    weight: Array2<f32>,
}

#[derive(TensorFile, Debug)]
struct Conv {
    weight: ndarray::Array4<f32>,
    bias: Array1<f32>,
}

/// The model of `write.py`.
#[derive(TensorFile, Debug)]
struct Model {
    steps: ndarray::Array0<i64>,
    embed: Embedding,
    layers: Vec<Linear>,
    conv: Conv,
    head: Embedding,
}

#[test]
fn state_dicts_are_loaded_into_structs() {
    for name in ["state_dict.pt", "legacy.pth"] {
        let path = root().join("tests/fixtures/pytorch").join(name);
        let model: Model = tensorfile::load(&path).unwrap();
        assert_eq!(model.layers.len(), 2);
        assert!(model.layers[0].bias.is_some() && model.layers[1].bias.is_none());
        assert_eq!(model.steps[()], 7);
        assert_eq!(model.embed.weight, model.head.weight);
        // The memory of the convolution is channels last, and so are the strides of the array.
        assert_eq!(model.conv.weight.strides(), [12, 1, 6, 2]);
        assert_eq!(model.conv.bias.len(), 2);
        let report = File::open(&path).unwrap().report::<Linear>();
        assert_eq!(report.missing[0].name, "weight");
    }
}

#[test]
fn stored_tensors_are_borrowed_from_the_file() {
    let file = File::open(root().join("tests/fixtures/pytorch/state_dict.pt")).unwrap();
    for tensor in file.tensors() {
        assert_eq!(tensor.range().start % 64, 0, "{tensor:?}");
        if cfg!(feature = "mmap") {
            assert_eq!(tensor.view().unwrap().as_bytes(), tensor.read().unwrap().as_bytes());
        }
    }
    assert_eq!(file.get("embed.weight").unwrap().range(), file.get("head.weight").unwrap().range(), "tied");
    let file = File::open(root().join("tests/fixtures/pytorch/views.pt")).unwrap();
    assert_eq!(file.get("base").unwrap().range().start, file.get("transposed").unwrap().range().start);
    let error = file.get("columns").unwrap().view().unwrap_err().to_string();
    let expected = "pytorch: tensor `columns`: cannot borrow from a tensor that is packed; read the tensor";
    assert!(error.ends_with(expected), "{error}");
}

#[test]
fn fields_are_read_from_what_is_not_a_tensor() {
    #[derive(TensorFile, Debug, PartialEq)]
    #[tensor(allow_unknown)]
    struct Run {
        #[tensor(metadata)]
        epoch: u32,
        #[tensor(metadata)]
        lr: f64,
        #[tensor(metadata)]
        name: String,
        #[tensor(metadata)]
        done: bool,
        #[tensor(metadata, rename = "optimizer.param_groups.0.lr")]
        rate: f32,
        #[tensor(metadata)]
        missing: Option<u8>,
    }
    let expected = Run { epoch: 3, lr: 0.01, name: "run \u{e4}".to_owned(), done: false, rate: 0.01, missing: None };
    let file = fixture("checkpoint.pt");
    assert_eq!(pytorch::from_slice::<Run>(&file).unwrap(), expected);
    assert_eq!(File::from_bytes(file).unwrap().load::<Run>().unwrap(), expected);
}

#[test]
fn what_is_not_a_tensor_is_metadata() {
    let metadata = pytorch::metadata(&fixture("checkpoint.pt")).unwrap();
    assert_eq!(metadata.version.as_deref(), Some("3"));
    assert_eq!(metadata.warnings, []);
    let file = File::open(root().join("tests/fixtures/pytorch/checkpoint.pt")).unwrap();
    assert_eq!(file.metadata().unwrap(), metadata);
    let entries: Vec<String> = metadata.entries.iter().map(|(key, value)| format!("{key}: {value}")).collect();
    let expected = [
        "epoch: 3",
        "lr: 0.01",
        "name: run \u{e4}",
        "best: null",
        "done: false",
        "seed: 9223372036854775813",
        "huge: 0x100000000000000000000000000000000000000000000000000",
        "negative: -1099511627776",
    ];
    assert_eq!(entries[..expected.len()], expected);
    for entry in [
        "optimizer.param_groups.0.lr: 0.01",
        "optimizer.param_groups.0.betas: [0.9, 0.999]",
        "optimizer.param_groups.0.amsgrad: false",
        "size: [2, 3]",
        "dtype: torch.float16",
        "device: cpu",
        "bytes: a\u{ff}",
        "set: [1]",
        r#"tuple: [1, 2.5, "x"]"#,
        "0: zero",
        "counts.a: 1",
    ] {
        assert!(entries.iter().any(|found| found == entry), "{entry} is not in {entries:#?}");
    }
    let legacy = pytorch::metadata(&fixture("legacy.pth")).unwrap();
    assert_eq!((legacy.version.as_deref(), legacy.entries.len()), (Some("1001"), 0));
    let old = pytorch::metadata(&fixture("protocol_1.pt")).unwrap();
    assert_eq!(old.entries["k"], r#"[1, true, null, "x\ny"]"#);
}

#[test]
fn files_are_recognized_by_their_contents() {
    let folder = tempfile::tempdir().unwrap();
    let open = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        fs::write(&path, bytes).unwrap();
        File::open(&path).map(|file| file.format().name)
    };
    for fixture_name in ["state_dict.pt", "legacy.pth", "legacy_protocol_4.pt"] {
        for name in ["pytorch_model.bin", "model", "model.npz", "model.pth"] {
            assert_eq!(open(name, &fixture(fixture_name)).unwrap(), "pytorch", "{fixture_name} as {name}");
        }
    }
    let npz = tensorfile::npz::to_vec(&expected()[0].1).unwrap();
    for name in ["arrays.npz", "arrays", "arrays.bin", "arrays.pt"] {
        assert_eq!(open(name, &npz).unwrap(), "npz", "{name}");
    }
    let script = open("model.bin", &fixture("script.pt")).unwrap_err().to_string();
    assert!(script.contains("pytorch: this is TorchScript"), "{script}");
    let error = open("a.pt", b"what\x01is this?").unwrap_err().to_string();
    let expected =
        "the file is neither a zip archive (`PK`) nor the pickle of a number; it begins with `what` (at byte 0)";
    assert!(error.ends_with(expected), "{error}");
    let mut tar = vec![0; 512];
    tar[..8].copy_from_slice(b"sys_info");
    tar[257..262].copy_from_slice(b"ustar");
    let error = open("a.pth", &tar).unwrap_err().to_string();
    let expected = "the file is a tar archive, as PyTorch before 0.1.10 wrote them; load and save it with a newer one";
    assert!(error.contains(expected), "{error}");
    let empty = b"PK\x05\x06".iter().copied().chain([0; 18]).collect::<Vec<u8>>();
    assert!(open("empty.pt", &empty).is_err() || open("empty.pt", &empty).unwrap() == "npz");
}

#[cfg(feature = "ptd")]
#[test]
fn other_formats_take_the_tensors() {
    for (name, tensors) in expected() {
        let file = OpenOptions::new().format(&pytorch::FORMAT).from_bytes(fixture(&name)).unwrap();
        // ExecuTorch has no complex numbers, and numpy not all floats.
        let is_complex = tensors.iter().any(|(_, tensor)| tensor.dtype().is_complex());
        let other = if is_complex { &tensorfile::npz::FORMAT } else { &tensorfile::ptd::FORMAT };
        let written = other.to_vec(&file, &WriteOptions::new()).unwrap();
        assert_eq!(all_row_major(&other.from_slice(&written).unwrap()), tensors, "{name}");
    }
}

/// A file in the older form, of a pickle without its `STOP`, and storages of `f32` with their names and bytes.
fn legacy(pickle: &[u8], storages: &[(&str, u64, usize)]) -> Vec<u8> {
    let mut file = b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19.\x80\x02M\xe9\x03.\x80\x02}.".to_vec();
    file.extend_from_slice(pickle);
    file.extend_from_slice(b".\x80\x02](");
    storages.iter().for_each(|(key, ..)| file.extend(text(key)));
    file.extend_from_slice(b"e.");
    for (_, count, bytes) in storages {
        file.extend(count.to_le_bytes());
        file.extend(vec![0; *bytes]);
    }
    file
}

/// An archive of a pickle without its `STOP`, and of storages.
fn zip_of(pickle: &[u8], storages: &[(&str, &[u8])]) -> Vec<u8> {
    let pickle = [b"\x80\x02", pickle, b"."].concat();
    let mut members = vec![("archive/data.pkl".to_owned(), &*pickle)];
    members.extend(storages.iter().map(|(key, bytes)| (format!("archive/data/{key}"), *bytes)));
    let own = |len: usize| u32::try_from(len).unwrap().to_le_bytes();
    let (mut file, mut directory) = (Vec::new(), Vec::new());
    for (name, contents) in &members {
        let name_bytes = u16::try_from(name.len()).unwrap().to_le_bytes();
        // The version, flags, the method, the time and no checksum.
        let len = own(contents.len());
        let both = [&b"\x14\0\0\0\0\0\0\0\0\0\0\0\0\0"[..], &len, &len, &name_bytes].concat();
        directory.extend([b"PK\x01\x02\0\0", &both[..], &[0; 12], &own(file.len()), name.as_bytes()].concat());
        file.extend([b"PK\x03\x04", &both[..], &[0; 2], name.as_bytes(), contents].concat());
    }
    let count = u16::try_from(members.len()).unwrap().to_le_bytes();
    let end = [b"PK\x05\x06\0\0\0\0", &count[..], &count, &own(directory.len()), &own(file.len()), &[0; 2]].concat();
    [file, directory, end].concat()
}

fn text(text: &str) -> Vec<u8> {
    [b"X", &u32::try_from(text.len()).unwrap().to_le_bytes()[..], text.as_bytes()].concat()
}

fn int(number: i64) -> Vec<u8> {
    [b"\x8a\x08", &number.to_le_bytes()[..]].concat()
}

fn tuple(numbers: &[i64]) -> Vec<u8> {
    [b"(".to_vec(), numbers.iter().flat_map(|number| int(*number)).collect(), b"t".to_vec()].concat()
}

/// A pickle of a dict with the tensor `x` of a part of a storage of `f32`.
fn tensor(key: &str, count: i64, start: i64, shape: &[i64], strides: &[i64]) -> Vec<u8> {
    let id = [b"(".to_vec(), text("storage"), b"ctorch\nFloatStorage\n".to_vec(), text(key), text("cpu"), int(count)];
    let args = [int(start), tuple(shape), tuple(strides), b"\x89}tR".to_vec()].concat();
    [
        b"}".to_vec(),
        text("x"),
        b"ctorch._utils\n_rebuild_tensor_v2\n(".to_vec(),
        id.concat(),
        b"tQ".to_vec(),
        args,
        b"s".to_vec(),
    ]
    .concat()
}

/// A checkpoint of vectors of zeros, each in a separate member, without checksums.
#[cfg(feature = "http")]
pub fn checkpoint(count: usize, elements: usize) -> Vec<u8> {
    let mut pickle = b"\x80\x02}".to_vec();
    for i in 0..count {
        let len = i64::try_from(elements).unwrap();
        // The tensor of a dict with another name.
        let item = tensor(&i.to_string(), len, 0, &[len], &[1]);
        pickle.extend(text(&format!("t{i}")));
        pickle.extend_from_slice(&item[1 + text("x").len()..]);
    }
    pickle.push(b'.');
    let mut members = vec![("m/data.pkl".to_owned(), pickle)];
    members.extend((0..count).map(|i| (format!("m/data/{i}"), vec![0; 4 * elements])));
    let (mut file, mut directory) = (Vec::new(), Vec::new());
    for (name, contents) in &members {
        let (len, name_len) = (u32::try_from(contents.len()).unwrap(), u16::try_from(name.len()).unwrap());
        let mut fields = vec![0; 14];
        fields.extend([len, len].iter().flat_map(|len| len.to_le_bytes()));
        fields.extend(name_len.to_le_bytes());
        fields.extend([0; 2]);
        let offset = u32::try_from(file.len()).unwrap();
        directory
            .extend([b"PK\x01\x02\0\0".as_slice(), &fields, &[0; 10], &offset.to_le_bytes(), name.as_bytes()].concat());
        file.extend([b"PK\x03\x04", &fields[..], name.as_bytes(), contents].concat());
    }
    let count = u16::try_from(members.len()).unwrap().to_le_bytes();
    let numbers = [directory.len(), file.len()].map(|number| u32::try_from(number).unwrap().to_le_bytes()).concat();
    file.extend(directory);
    file.extend([b"PK\x05\x06\0\0\0\0".as_slice(), &count, &count, &numbers, &[0; 2]].concat());
    file
}

#[track_caller]
fn refused(file: &[u8]) -> String {
    let (error, used) = peak(|| pytorch::from_slice::<TensorMap>(file).unwrap_err());
    assert!(matches!(error.category(), Category::File | Category::Limit), "{error:?}");
    assert!(used < 200 * file.len() + (3 << 20), "{} bytes took {used}: {error}", file.len());
    let message = error.to_string();
    message.strip_prefix("pytorch: ").unwrap().to_owned()
}

#[test]
fn nothing_in_a_pickle_is_run() {
    for (pickle, name) in [
        (&b"cos\nsystem\n(X\x02\x00\x00\x00lstR"[..], "os.system"),
        (b"cposix\nsystem\n)R", "posix.system"),
        (b"cbuiltins\neval\n(X\x01\x00\x00\x001tR", "builtins.eval"),
        (b"c__builtin__\ngetattr\n)R", "builtins.getattr"),
        (b"c__builtin__\ngetattr\ncos\npath\nX\x01\x00\x00\x00x\x86R", "os.path.x"),
        (b"(X\x02\x00\x00\x00lsios\nsystem\n", "os.system"),
        (b"\x8c\x02os\x8c\x06system\x93", "os.system"),
        (b"ctorch\nload\n)R", "torch.load"),
        (b"ctorch._utils\n_rebuild_tensor_v2.__globals__\n)R", "torch._utils._rebuild_tensor_v2.__globals__"),
        (b"ctorch\n\xff\n", "torch.\u{fffd}"),
        (b"ccopyreg\n__newobj__\ncos\nsystem\n\x85R", "os.system"),
        (b"ccopy_reg\n_reconstructor\ncmain\nModel\nc__builtin__\nobject\nN\x87R", "main.Model"),
        (b"cmain\nf\n)R)R)R", "main.f"),
        (b"cmain\nf\n)}\x92", "main.f"),
    ] {
        let (names, warnings) = names_and_warnings(&legacy(pickle, &[]));
        assert_eq!((names.len(), warnings), (0, vec![format!("`0` is left out: `{name}`")]));
    }
}

#[test]
fn what_is_left_out_is_said_in_few_warnings() {
    // Objects in a list, of many classes and many of one.
    let mut pickle = b"]".to_vec();
    (0..40).for_each(|number| pickle.extend([format!("cmain\nC{}\n", number.min(20)).as_bytes(), b")\x81a"].concat()));
    let (_, warnings) = names_and_warnings(&legacy(&pickle, &[]));
    assert_eq!(warnings.len(), 17);
    assert_eq!(warnings[0], "`0` is left out: `main.C0`");
    assert_eq!(warnings[16], "24 more values are left out, or only their tensors are read");
    let pickle = b"]cmain\nC\nq\x00)\x81ah\x00)\x81ah\x00)\x81a";
    let (_, warnings) = names_and_warnings(&legacy(pickle, &[]));
    assert_eq!(warnings, ["`0` and 2 other values are left out: `main.C`"]);
    // Objects that have one another, and that are in themselves.
    let pickle = b"cmain\nC\n)\x81q\x00}X\x01\0\0\0xh\x00sb";
    assert_eq!(names_and_warnings(&legacy(pickle, &[])).1, ["`0` is left out: `main.C`"]);
    let mut pickle = b"cmain\nC\nq\xff)\x81q\x00".to_vec();
    for level in 0..40_u8 {
        pickle.extend([b'h', 0xff, b'h', level, b'h', level, 0x86, b'R', b'q', level + 1]);
    }
    assert_eq!(names_and_warnings(&legacy(&pickle, &[])).1, ["`0` is left out: `main.C`"]);
}

#[test]
fn calls_of_anything_else_are_refused() {
    for (pickle, expected) in [
        (&b"X\x01\x00\x00\x00a)R"[..], "the pickle calls a string, which cannot be called (at byte 30)"),
        (b"ctorch\nFloatStorage\n)R", "the pickle calls a function, which cannot be called (at byte 45)"),
        (b"ctorch\nSize\nNR", "the arguments of a call are not a tuple (at byte 37)"),
        (b"ctorch\nSize\n(K\x01tR", "the pickle makes a container of an integer (at byte 40)"),
        (b"]Nb", "the pickle sets attributes of a list (at byte 26)"),
        (b"NNs", "an opcode of the pickle needs more values than there are (at byte 26)"),
        (b"NNNs", "the pickle adds items to None, but expected a dict (at byte 27)"),
        (b"](Ne", ""),
        (b"}(Nu", "a key of a dict in the pickle has no value (at byte 27)"),
        (b"0", "an opcode of the pickle needs more values than there are (at byte 24)"),
        (b"1", "the pickle has no mark (at byte 24)"),
        (b"h\x01", "the pickle has not memoized a value 1 (at byte 24)"),
        (b"Px\n", "the pickle names a storage by a text, but expected a tuple (at byte 24)"),
        (b"NQ", "the pickle refers to something that is not a storage (at byte 25)"),
        (b"\x82\x01", "opcode 0x82 is not one that checkpoints have (at byte 24)"),
        (b"\x80\x06N", "protocol of the pickle is 6, but expected 0 to 5 (at byte 24)"),
        (b"X\xff\xff\xff\xffa", "needs 4294967295 more bytes, but the file has 8 left (at byte 29)"),
        (b"\x8b\xff\xff\xff\x7f", "needs 2147483647 more bytes, but the file has 7 left (at byte 29)"),
        (b"X\x01\x00\x00\x00\xff", "a string in the pickle is not UTF-8 (at byte 24)"),
        (b"I1x\n", "a number in the pickle is `1x` (at byte 24)"),
    ] {
        if expected.is_empty() {
            assert!(pytorch::from_slice::<TensorMap>(&legacy(pickle, &[])).unwrap().is_empty());
            continue;
        }
        let message = refused(&legacy(pickle, &[]));
        assert_eq!(without_offset(&message), without_offset(expected), "{}", pickle.escape_ascii());
    }
}

#[test]
fn tensors_outside_of_their_storages_are_refused() {
    let x = |count, start, shape: &[i64], strides: &[i64]| {
        refused(&legacy(&tensor("0", count, start, shape, strides), &[("0", 4, 16)]))
    };
    for (found, expected) in [
        (x(4, 0, &[5], &[1]), "tensor `x`: its last element is 4 of its storage, which has 4"),
        (x(4, 4, &[], &[]), "tensor `x`: its last element is 4 of its storage, which has 4"),
        (x(4, 0, &[2, 2], &[3, 1]), "tensor `x`: its last element is 4 of its storage, which has 4"),
        (
            x(4, 0, &[i64::MAX, i64::MAX], &[i64::MAX, 1]),
            "tensor `x`: its last element is one that is out of range of its storage, which has 4",
        ),
        (x(4, i64::MAX, &[2], &[1]), "tensor `x`: its last element is 9223372036854775808 of its storage, which has 4"),
        (x(4, 0, &[i64::MAX], &[0]), "tensor `x`: f32[9223372036854775807] takes more bytes than can be addressed"),
        (x(4, 0, &[1 << 40], &[0]), "tensor `x`: sum of payloads"),
        (x(4, -1, &[2], &[1]), "offset in the storage is -1, but expected 0 or more"),
        (x(4, 0, &[-2], &[1]), "tensor `x`: dim is -2, but expected 0 or more"),
        (x(4, 3, &[2], &[-1]), "tensor `x`: stride is -1, but expected 0 or more"),
        (x(4, 0, &[2], &[1, 1]), "tensor `x`: it has 1 dims, but 2 strides"),
        (x(3, 0, &[2], &[1]), "tensor `x`: storage `0` is 16 bytes, but the pickle says 3 elements of 4 bytes"),
        (x(5, 0, &[2], &[1]), "tensor `x`: storage `0` is 16 bytes, but the pickle says 5 elements of 4 bytes"),
        (
            x(i64::MAX, 0, &[2], &[1]),
            "tensor `x`: storage `0` is 16 bytes, but the pickle says 9223372036854775807 elements of 4 bytes",
        ),
        (x(-1, 0, &[2], &[1]), "length of a storage is -1, but expected 0 or more"),
        (x(4, 0, &[1; 256], &[1; 256]), "tensor `x`: rank is 256, but the limit is 255"),
    ] {
        assert!(found.starts_with(expected), "{found}\n{expected}");
    }
    let x = tensor("0", 4, 0, &[4], &[1]);
    for (storages, expected) in [
        (&[][..], "tensor `x`: the file does not have the storage `0`"),
        (&[("1", 4, 16)], "the pickle does not have the storage `1` of the list"),
        (&[("0", 4, 16), ("0", 4, 16)], "the storage `0` is in the list twice"),
        (&[("0", 4, 15)], "tensor `storage 0`: needs 16 more bytes, but the file has 15 left"),
        (
            &[("0", u64::MAX, 16)],
            "tensor `storage 0`: length of a storage is -1, but expected one that fits into the file",
        ),
        (
            &[("0", 1 << 62, 16)],
            "tensor `storage 0`: length of a storage is 4611686018427387904, but expected one that fits",
        ),
        (&[("0", 1 << 60, 16)], "tensor `storage 0`: needs 4611686018427387904 more bytes, but the file has 16 left"),
    ] {
        let found = refused(&legacy(&x, storages));
        assert!(found.starts_with(expected), "{found}\n{expected}");
    }
    let strings =
        [b"}".to_vec(), text("x"), b"ctorch._utils\n_rebuild_tensor_v2\n(".to_vec(), text("0"), b"tRs".to_vec()]
            .concat();
    assert_eq!(
        refused(&legacy(&strings, &[])),
        "the pickle makes a tensor of a string, but expected a storage, an integer, a tuple, a tuple (at byte 73)"
    );
}

#[test]
fn shared_containers_do_not_blow_up() {
    // Each list has the one before it twice.
    for leaf in [&b"]"[..], b"](NNNNNNNNe", &[&b"]"[..], &text(&"x".repeat(100)), b"a"].concat()] {
        let mut pickle = [leaf, b"q\x00"].concat();
        for level in 0..60_u8 {
            pickle.extend([b']', b'(', b'h', level, b'h', level, b'e', b'q', level + 1]);
        }
        let message = refused(&legacy(&pickle, &[]));
        assert!(message.contains("so many values") || message.contains("limit"), "{message}");
    }
    // A list that has itself, and one that has it in a list.
    for (pickle, expected) in [
        (&b"]q\x00h\x00a"[..], "`0` is left out: `a container that contains itself`"),
        (b"]q\x00](h\x00h\x00ea", "`0.0` and 1 other value are left out: `a container that contains itself`"),
    ] {
        assert_eq!(names_and_warnings(&legacy(pickle, &[])).1, [expected]);
    }
    // Lists in one another.
    for depth in [102, 100_000] {
        let pickle = [b"]".repeat(depth), b"a".repeat(depth - 1)].concat();
        let (_, warnings) = names_and_warnings(&legacy(&pickle, &[]));
        let name = ["0"; 100].join(".");
        assert_eq!(warnings, [format!("`{name}` is left out: `a container that is in 100 others`")]);
    }
    let pickle = [b"]".repeat(101), b"a".repeat(100)].concat();
    assert!(pytorch::from_slice::<TensorMap>(&legacy(&pickle, &[])).unwrap().is_empty());
    // Tuples whose calls copy: a long list of pairs, made a dict many times.
    let limits = Limits::new().shared(1 << 16);
    let mut pickle = b"ccollections\nOrderedDict\nq\x00](".to_vec();
    pickle.extend(b"NN\x86".repeat(1000));
    pickle.extend(b"e\x85q\x01]");
    pickle.extend(b"h\x00h\x01Ra".repeat(1000));
    let error = pytorch::Options::new().limits(limits).from_slice::<TensorMap>(&legacy(&pickle, &[])).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Limit { .. }), "{error}");
}

#[test]
fn memory_is_in_proportion_to_the_pickle() {
    const COUNT: usize = 20_000;
    let limits = |len: usize| Limits::new().shared(8 * len as u64);
    for (what, pickle) in [
        ("nothing", [b"N".repeat(COUNT), b"]".to_vec()].concat()),
        ("lists", [b"]".repeat(COUNT), b"]".to_vec()].concat()),
        ("lists of one", [b"]Na".repeat(COUNT), b"]".to_vec()].concat()),
        ("tuples", [b"(t".repeat(COUNT), b"]".to_vec()].concat()),
        ("marks", [b"(".repeat(COUNT), b"]".to_vec()].concat()),
        ("memo", [b"N".to_vec(), b"\x94".repeat(COUNT), b"]".to_vec()].concat()),
        (
            "sparse memo",
            (0..COUNT as u32).flat_map(|at| [&b"Nr"[..], &(at * 7919).to_le_bytes()].concat()).chain(*b"]").collect(),
        ),
        ("a list", [b"](".to_vec(), b"N".repeat(COUNT), b"e".to_vec()].concat()),
        (
            "many entries",
            [
                b"}(".to_vec(),
                (0..COUNT).flat_map(|at| [text(&at.to_string()), b"N".to_vec()].concat()).collect(),
                b"u".to_vec(),
            ]
            .concat(),
        ),
    ] {
        let file = legacy(&pickle, &[]);
        let options = pytorch::Options::new().limits(limits(file.len()));
        let (_, used) = peak(|| options.from_slice::<TensorMap>(&file));
        assert!(used < 160 * file.len() + (64 << 10), "{what}: {} bytes took {used}", file.len());
    }
}

#[test]
fn long_texts_are_left_out_with_a_warning() {
    let pickle =
        [b"}".to_vec(), text("a"), text(&"x".repeat(70_000)), b"s".to_vec(), text("b"), b"K\x05s".to_vec()].concat();
    let metadata = pytorch::metadata(&legacy(&pickle, &[])).unwrap();
    assert_eq!(crate::support::warnings(&metadata), ["`a` is left out, as its text has over 65536 bytes"]);
    assert_eq!(metadata.entries.len(), 1);
    let name = [b"}".to_vec(), text(&"x".repeat(70_000)), b"Ns".to_vec()].concat();
    let (_, warnings) = names_and_warnings(&legacy(&name, &[]));
    let x = "x".repeat(112);
    assert_eq!(warnings, [format!("`{x}[… 69776 characters …]{x}` is left out: `a name of more than 65535 bytes`")]);
}

/// Values next to a value left out are read, and so are its contents before the limit.
#[test]
fn names_and_nesting_beyond_the_limits_cost_themselves() {
    let long = "x".repeat(70_000);
    // A name that is too long only together with its prefix.
    let half = "y".repeat(40_000);
    let deep = [b"]".repeat(200), b"a".repeat(199)].concat();
    let inner = [b"}".to_vec(), text(&half), b"K\x01s".to_vec(), text("z"), b"K\x02s".to_vec()].concat();
    let pickle = [
        b"}".to_vec(),
        [text(&long), b"K\x05s".to_vec()].concat(),
        [text("a"), b"K\x06s".to_vec()].concat(),
        [text(&half), inner, b"s".to_vec()].concat(),
        [text("deep"), deep, b"s".to_vec()].concat(),
        [text("b"), b"K\x07s".to_vec()].concat(),
    ]
    .concat();
    let metadata = pytorch::metadata(&legacy(&pickle, &[])).unwrap();
    let entries: Vec<(usize, &str)> = metadata.entries.iter().map(|(key, text)| (key.len(), text.as_str())).collect();
    assert_eq!(entries, [(1, "6"), (40_002, "2"), (1, "7")]);
    assert!(metadata.warnings.iter().all(|warning| warning.kind == WarningKind::LeftOut));
    assert_eq!(metadata.warnings.len(), 2, "{:?}", metadata.warnings);
    assert!(metadata.warnings[0].text.contains(" and 1 other value are left out: `a name of more than 65535 bytes`"));
}

#[test]
fn a_dtype_of_a_later_pytorch_costs_its_tensor() {
    let file = File::from_bytes(case("torch2/dtype-torch.bcomplex32.pt")).unwrap();
    let x = file.get("x").unwrap();
    assert_eq!(x.info().to_string(), "torch.bcomplex32[2, 4] of unknown dtype");
    assert_eq!(x.read().unwrap().as_bytes().len(), 32);
    assert_eq!(file.array::<f32, Ix1>("y").unwrap().len(), 2);
    // Of a storage whose type is new.
    let tensor = |class: &str, key: &str, start: u8| {
        [
            b"ctorch._utils\n_rebuild_tensor_v2\n((".to_vec(),
            text("storage"),
            format!("ctorch\n{class}\n").into_bytes(),
            text(key),
            text("cpu"),
            [b"K\x02tQK", &[start][..], b"K\x01\x85K\x01\x85\x89NtR"].concat(),
        ]
        .concat()
    };
    let pickle = |class: &str| {
        let pair = |key: &str, class: &str, start| [text(key), tensor(class, key, start), b"s".to_vec()].concat();
        [b"}".to_vec(), pair("x", class, 0), pair("y", class, 1), pair("z", "FloatStorage", 1)].concat()
    };
    let archive = zip_of(&pickle("LaterStorage"), &[("x", &[1; 10]), ("y", &[2; 10]), ("z", &[0; 8])]);
    let file = File::from_bytes(archive).unwrap();
    let found: Vec<_> = file.tensors().map(|tensor| (tensor.info().to_string(), tensor.payload_bytes())).collect();
    let later = "torch.LaterStorage[1] of unknown dtype".to_owned();
    // The bytes of a part of a storage are not known.
    assert_eq!(found, [(later.clone(), 10), (later, 0), ("f32[1]".to_owned(), 4)]);
    // In the older form, the next storage begins at its end.
    let message = refused(&legacy(&pickle("LaterStorage"), &[("x", 2, 8), ("y", 2, 8), ("z", 2, 8)]));
    assert!(
        message.starts_with("the storage `x` is of an unknown type, `torch.LaterStorage`, so its length is not known"),
        "{message}"
    );
}

#[test]
fn floats_of_4_bits_are_read() {
    let file = File::from_bytes(case("torch2/other-f4.pt")).unwrap();
    let x = file.get("x").unwrap();
    // PyTorch says that these are 4 elements, as it counts bytes.
    assert_eq!((x.info().to_string().as_str(), x.payload_bytes()), ("f4[8]", 4));
    assert_eq!(x.read().unwrap().as_bytes(), x.view().unwrap().as_bytes());
    assert_eq!(file.array::<i64, Ix1>("plain").unwrap().len(), 3);
    let written = tensorfile::safetensors::FORMAT.to_vec(&file, &WriteOptions::new()).unwrap();
    assert_eq!(File::from_bytes(written).unwrap().get("x").unwrap().info(), x.info());
}

#[test]
fn a_tensor_of_several_processes_is_not_taken_for_a_plain_one() {
    let (names, warnings) = names_and_warnings(&case("trainer-folders/dtensor_rank0.pt"));
    assert_eq!(names.iter().filter(|name| name.ends_with("._local_tensor")).count(), 2, "{names:?}");
    let expected = [
        "of the attributes of `w` and 1 other value, only the tensors are read",
        "of `w` and 1 other value, only the part of one process is read: `torch.distributed.tensor.DTensor`",
    ];
    assert_eq!(warnings, expected);
}

#[test]
fn a_model_without_weights_says_where_they_are() {
    let file = File::from_bytes(case("trainer-folders/zero_pp_rank_0_mp_rank_00_model_states.pt")).unwrap();
    let warnings = file.warnings().unwrap();
    let parts: Vec<_> =
        warnings.iter().filter(|warning| warning.kind == WarningKind::Part).map(|part| &*part.text).collect();
    let expected = "`module.layer.weight` and all other weights have no elements: DeepSpeed's ZeRO-3 saves them in parts in the \
                    `*_optim_states.pt` files, which its `zero_to_fp32.py` puts together";
    assert_eq!(parts, [expected]);
}

#[test]
fn names_are_not_given_twice() {
    let pair = |key: &str| [text(key), b"h\x00".to_vec()].concat();
    let storage = [
        b"(".to_vec(),
        text("storage"),
        b"ctorch\nFloatStorage\n".to_vec(),
        text("0"),
        text("cpu"),
        int(1),
        b"tQq\x00".to_vec(),
    ]
    .concat();
    // `a.b` is a key, and `b` one in `a`.
    let pickle = [storage, b"0}(".to_vec(), pair("a.b"), text("a"), b"}(".to_vec(), pair("b"), b"uu".to_vec()].concat();
    let file = legacy(&pickle, &[("0", 1, 4)]);
    let error = pytorch::from_slice::<TensorMap>(&file).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::AmbiguousName { name } if name == "a.b"), "{error}");
    // They can be read by their positions.
    let opened = File::from_bytes(file).unwrap();
    assert_eq!(opened.len(), 2);
    assert_eq!((opened.tensor("#0").unwrap(), opened.tensor("#1").is_ok()), (opened.tensor("#1").unwrap(), true));
    assert!(opened.tensor("a.b").is_err());
    let warnings = opened.warnings().unwrap();
    let repeated = warnings.iter().find(|warning| warning.kind == WarningKind::DuplicateName).unwrap();
    assert_eq!(repeated.text, "tensors that have the same name can only be read by position: `a.b`");
    let pickle = b"}(X\x03\0\0\0a.bK\x01X\x01\0\0\0a}X\x01\0\0\0bK\x02su";
    let metadata = pytorch::metadata(&legacy(pickle, &[])).unwrap();
    assert_eq!(crate::support::warnings(&metadata), ["two values are named `a.b`; the last one is kept"]);
}

#[test]
fn a_checkpoint_that_was_unzipped_is_recognized() {
    let folder = tempfile::tempdir().unwrap();
    let model = folder.path().join("model");
    fs::create_dir_all(model.join("data")).unwrap();
    fs::write(model.join("data.pkl"), b"").unwrap();
    let error = message(File::open(&model));
    let expected = "is a checkpoint of PyTorch that was unzipped, with `data.pkl` and `data/`; zip it again, without \
                    compression: `zip -0 -r model.pt model` next to it";
    assert!(error.contains(expected), "{error}");
}

#[test]
fn checksums_are_compared_where_members_are_read_in_full() {
    let (good, bad) = (case("check-passes-unread/no-checksums.pt"), case("check-passes-unread/flipped-bit.pt"));
    let file = File::from_bytes(good).unwrap();
    file.tensors().for_each(|tensor| assert!(tensor.read().is_ok()));
    file.check_other_checksums().unwrap();

    let error = pytorch::from_slice::<TensorMap>(&bad).unwrap_err().to_string();
    assert!(error.contains(": the CRC-32 is "), "{error}");
    let file = File::from_bytes(bad).unwrap();
    let tensor = file.tensors().find(|tensor| tensor.read().is_err()).unwrap();
    let expected = tensor.read().unwrap_err().to_string();
    assert!(expected.contains(": the CRC-32 is "), "{expected}");
    let written = tensor.write_to(&mut std::io::sink()).unwrap_err();
    assert_eq!(written.to_string(), expected);
    // Checksums of borrowed or partly read tensors are not compared.
    let ranges: Vec<_> = tensor.shape().iter().map(|dim| 0..*dim).collect();
    assert!(tensor.view().is_ok() && tensor.slice(&ranges).is_ok());
}

/// Every bit that belongs to a checksum is looked at by one of the two.
#[test]
fn no_bit_of_a_member_is_left_out_of_the_checks() {
    let good = fs::read(root().join("tests/fixtures/pytorch/views.pt")).unwrap();
    let check = |bytes: Vec<u8>| -> tensorfile::Result<()> {
        let file = File::from_bytes(bytes)?;
        file.tensors().try_for_each(|tensor| tensor.write_to(&mut std::io::sink()))?;
        file.check_other_checksums()
    };
    check(good.clone()).unwrap();
    let starts: Vec<usize> = (0..good.len()).filter(|at| good[*at..].starts_with(b"PK\x03\x04")).collect();
    let number = |at: usize| usize::from(u16::from_le_bytes([good[at], good[at + 1]]));
    let mut checked = 0;
    for start in starts {
        let contents = start + 30 + number(start + 26) + number(start + 28);
        let end = (contents..good.len()).find(|at| good[*at..].starts_with(b"PK")).unwrap();
        for at in contents..end {
            let mut bad = good.clone();
            bad[at] ^= 1;
            assert!(check(bad).is_err(), "byte {at} of the member at byte {start}");
            checked += 1;
        }
    }
    assert!(checked > 500, "{checked} bytes");
}

/// Returns the names that lead to tensors of a tree, with the positions of the tensors.
fn named_tensors(nodes: &[ValueNode], node: usize, name: &str, found: &mut Vec<(String, usize)>) {
    let joined = |part: &str| if name.is_empty() { part.to_owned() } else { format!("{name}.{part}") };
    let key = |node: usize| match &nodes[node] {
        ValueNode::Text(text) => String::from_utf8_lossy(text).into_owned(),
        ValueNode::Int(number) => number.to_string(),
        other => format!("{other:?}"),
    };
    match &nodes[node] {
        ValueNode::Tensor { position, .. } => found.push((name.to_owned(), *position)),
        ValueNode::Object(_, tensors) => {
            found.extend(
                tensors
                    .iter()
                    .map(|(own, position)| (if own.is_empty() { name.to_owned() } else { joined(own) }, *position)),
            );
        }
        ValueNode::Tuple(values) | ValueNode::List(values) | ValueNode::Set(values) => {
            for (i, value) in values.iter().enumerate() {
                named_tensors(nodes, *value, &joined(&i.to_string()), found);
            }
        }
        ValueNode::Dict(pairs, _) => {
            for (own, value) in pairs {
                named_tensors(nodes, *value, &joined(&key(*own)), found);
            }
        }
        _ => {}
    }
}

/// The names of tensors are their places in the tree.
#[test]
fn the_tree_of_a_checkpoint_has_the_tensors_of_its_index() {
    let (mut files, mut tensors) = (0, 0);
    for path in fs::read_dir(root().join("tests/fixtures/pytorch")).unwrap() {
        let Ok(file) = File::open(path.unwrap().path()) else { continue };
        let tree = file.value_tree().unwrap().expect("it is a checkpoint");
        let nodes = tree.nodes();
        for (i, node) in nodes.iter().enumerate() {
            let inner: Vec<usize> = match node {
                ValueNode::Dict(pairs, attributes) => {
                    pairs.iter().flat_map(|(key, value)| [*key, *value]).chain(*attributes).collect()
                }
                ValueNode::List(values) | ValueNode::Tuple(values) | ValueNode::Set(values) => values.clone(),
                _ => Vec::new(),
            };
            assert!(inner.iter().all(|inner| *inner < i));
        }
        let mut found = Vec::new();
        named_tensors(nodes, nodes.len() - 1, "", &mut found);
        for (position, tensor) in file.tensors().enumerate() {
            let names: Vec<&String> =
                found.iter().filter(|(_, found)| *found == position).map(|(name, _)| name).collect();
            // Parts of tensors that are not read, attributes, and further names of one container have no place of their
            // own.
            let is_named = names.iter().any(|name| *name == tensor.name() || file.len() == 1);
            assert!(names.is_empty() || is_named, "{file:?} {} {names:?}", tensor.name());
            tensors += usize::from(is_named);
        }
        files += 1;
    }
    assert!(files > 30 && tensors > 200, "{files} files, {tensors} tensors");
    let file = File::from_bytes(fixture("checkpoint.pt")).unwrap();
    let tree = file.value_tree().unwrap().unwrap();
    let nodes = tree.nodes();
    let Some(ValueNode::Dict(pairs, None)) = nodes.last() else { panic!() };
    let value = |name: &str| {
        let is_it =
            |(key, _): &&(usize, usize)| matches!(&nodes[*key], ValueNode::Text(text) if **text == *name.as_bytes());
        &nodes[pairs.iter().find(is_it).unwrap().1]
    };
    assert_eq!(*value("epoch"), ValueNode::Int(3));
    assert_eq!(*value("lr"), ValueNode::Float(0.01));
    assert_eq!(*value("best"), ValueNode::None);
    assert_eq!(*value("bytes"), ValueNode::Bytes(b"a\xff"[..].into(), false));
    assert_eq!(*value("dtype"), ValueNode::Torch("float16".into()));
    assert!(matches!(value("model"), ValueNode::Dict(_, Some(_))), "the versions of modules");
    let other = tensorfile::ten::to_vec(&TensorMap::from_iter([("a", array![1.0_f32])])).unwrap();
    assert!(File::from_bytes(other).unwrap().value_tree().unwrap().is_none());
}
