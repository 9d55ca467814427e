//! Padding, copies, parts, blocks and quantized weights of mapped files.

use ndarray::array;
use tensorfile::file::Backend;
use tensorfile::view::ByteMap;
use tensorfile::{
    Dequantize, Dtype, ErrorKind, LayoutMap, OpenOptions, Tensor, TensorInfo, TensorMap, gguf, npz, safetensors,
};

use super::{counting, folder, parse};

fn open(map: &LayoutMap, file: Vec<u8>) -> tensorfile::File {
    OpenOptions::new().map(map).from_bytes(file).unwrap()
}

#[test]
fn padding_is_made_and_checked() {
    let map = parse("let pad = 2\nembed.{p:a|b} [v h+pad] = embed [(p v)+pad h]");
    let file = open(&map.clone().inverted(), counting(&[("embed", &[6, 1])]));
    assert_eq!(file.receipt().unwrap().left_elements(), 2);
    let error = file.tensor("embed.b").unwrap_err();
    assert_eq!(
        error.to_string(),
        "safetensors: the map does not fit: 1 misfit\n  the padding of `embed` is not zero: line 2 leaves it out"
    );
    assert!(matches!(error.kind(), ErrorKind::Unmapped { .. }));
    assert!(file.tensor("embed.a").is_ok(), "the rows before the padding are read with the last of them");
    let file = open(&map.clone().inverted().lossy(), counting(&[("embed", &[6, 1])]));
    assert_eq!(file.array::<u16, _>("embed.b").unwrap(), array![[3_u16, 0, 0], [4, 0, 0]]);
    assert_eq!(file.receipt().unwrap().made_elements(), 8);
    // Zeros are taken.
    let zeros = TensorMap::from_iter([("embed", array![[1_u8], [2], [3], [4], [0], [0]])]);
    let file = open(&map.inverted(), safetensors::to_vec(&zeros).unwrap());
    assert_eq!(file.array::<u8, _>("embed.b").unwrap(), array![[3, 0, 0], [4, 0, 0]]);
}

#[test]
fn copies_are_compared_on_the_way_back() {
    let map = parse("embed = tokens\ncopy tokens -> head");
    let file = open(&map, counting(&[("embed", &[2, 2])]));
    assert_eq!(file.tensor("head").unwrap(), file.tensor("tokens").unwrap());
    assert_eq!(file.receipt().unwrap().copied, [("tokens".to_owned(), "head".to_owned(), 4)]);
    let back = |head: u8| {
        let tied = TensorMap::from_iter([("tokens", array![[1_u8, 2]]), ("head", array![[1, head]])]);
        open(&map.clone().inverted(), safetensors::to_vec(&tied).unwrap())
    };
    assert_eq!(back(2).array::<u8, _>("embed").unwrap(), array![[1, 2]]);
    assert_eq!((back(2).len(), back(2).receipt().unwrap().left_elements()), (1, 2));
    let error = back(3).tensor("embed").unwrap_err().to_string();
    assert!(error.contains("`head` differs from the tensor that it is a copy of: line 2"), "{error}");
}

#[test]
fn blocks_keep_their_last_dim() {
    let info = TensorInfo::new(Dtype::Q8_0, [4, 64]);
    let bytes: Vec<u8> = (0..=250).cycle().take(info.payload_bytes().unwrap()).collect();
    let map = TensorMap::from_iter([("q", Tensor::new(info, &bytes).unwrap())]);
    let file = gguf::to_vec(&map).unwrap();
    let rows = parse("let two = 2\nq [(n two) h] = rows [(two n) h]");
    let mapped = open(&rows, file.clone());
    let order = [0, 2, 1, 3].into_iter().flat_map(|row| bytes[row * 68..][..68].to_vec());
    assert_eq!(mapped.tensor("rows").unwrap().as_bytes(), order.collect::<Vec<u8>>());
    let columns = parse("let two = 2\nq [n (a two)] = columns [n (two a)]");
    let error = OpenOptions::new().map(&columns).from_bytes(file.clone()).unwrap_err().to_string();
    assert_eq!(
        error,
        "gguf: cannot move the elements of `q` by line 2, which divides its last dim; q8_0 has blocks of 32 elements along \
         it; whole rows can be moved"
    );
    let decoded = OpenOptions::new().dequantize(Dequantize::to(Dtype::F32)).map(&columns).from_bytes(file).unwrap();
    assert_eq!(decoded.get("columns").unwrap().info(), &TensorInfo::new(Dtype::F32, [4, 64]));
    decoded.tensor("columns").unwrap();
}

#[test]
fn a_weight_and_its_scales_stay_together() {
    let mut map = TensorMap::new();
    map.insert("up.weight", Tensor::new(TensorInfo::new(Dtype::F8E4M3Fn, [2, 2]), &[0x38, 0x40, 0xb8, 0]).unwrap());
    map.insert("up.weight_scale", array![[0.5_f32], [2.0]]);
    let bytes = safetensors::to_vec(&map).unwrap();
    let turned = parse("up.weight [o i] = up.turned [i o]\nkeep up.weight_scale");
    let error = OpenOptions::new().map(&turned).from_bytes(bytes.clone()).unwrap_err().to_string();
    assert_eq!(
        error,
        "safetensors: cannot move the elements of `up.weight` by line 1: it is a part of the fp8 weight `up.weight`, as \
         `up.weight_scale` is; `OpenOptions::dequantize` decodes the weights before they are mapped"
    );
    let decoded = OpenOptions::new().dequantize(Dequantize::to(Dtype::F32));
    let decoded = decoded.map(&parse("up.weight [o i] = up.turned [i o]")).from_bytes(bytes.clone()).unwrap();
    assert_eq!(decoded.array::<f32, _>("up.turned").unwrap(), array![[0.5, -2.0], [1.0, 0.0]]);
    // Another name is no move, and the numbers are still known to be codes.
    let renamed = open(&parse("up.{x:*} = layers.0.{x:*}"), bytes);
    assert_eq!(renamed.quantized().unwrap().tensors()[0].name(), "layers.0.weight");
}

#[test]
fn maps_in_memory_know_codes_too() {
    use tensorfile::view::{CastView, Mapped};

    let mut map = TensorMap::new();
    map.insert("up.weight", Tensor::new(TensorInfo::new(Dtype::F8E4M3Fn, [2, 2]), &[0x38, 0x40, 0xb8, 0]).unwrap());
    map.insert("up.weight_scale", array![[0.5_f32], [2.0]]);
    let file = tensorfile::File::from_bytes(safetensors::to_vec(&map).unwrap()).unwrap();
    for tensors in [&map as &dyn tensorfile::Tensors, &file] {
        let turned = parse("up.weight [o i] = up.turned [i o]\nkeep up.weight_scale");
        let error = Mapped::new(tensors, &turned).map(drop).unwrap_err().to_string();
        assert_eq!(
            error,
            "cannot move the elements of `up.weight` by line 1: it holds fp8 codes; `up.weight_scale` has their scales; \
             `view::Dequantized` decodes weights before they are mapped"
        );
        // Names that say nothing do not make numbers of codes.
        let renamed = parse("up.weight = a\nup.weight_scale = b");
        let renamed = Mapped::new(tensors, &renamed).unwrap();
        let cast = CastView::new(&renamed, |_, _| Dtype::F32);
        let error = safetensors::FORMAT.to_vec(&cast, &tensorfile::WriteOptions::new()).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Codes { name, .. } if name == "a"), "{error}");
    }
}

#[test]
fn tensors_without_elements_are_mapped() {
    let none: &[(&str, &[usize])] = &[("a", &[0, 3]), ("b", &[3, 0])];
    let map = parse("a [x y] = turned [y x]\nb [(u v) w] = b [u v w]").set("u", 1);
    let file = open(&map, counting(none));
    for (name, shape) in [("turned", &[3, 0][..]), ("b", &[1, 3, 0])] {
        let tensor = file.tensor(name).unwrap();
        assert_eq!((tensor.shape().dims(), tensor.as_bytes().len()), (shape, 0));
        let all: Vec<_> = shape.iter().map(|dim| 0..*dim).collect();
        assert_eq!(file.slice(name, &all).unwrap(), tensor);
    }
    // Everything is padding: it is not left out unseen.
    let padded = parse("let pad = 2\na [v+pad h] = b [v h]");
    let file = OpenOptions::new().map(&padded).from_bytes(counting(&[("a", &[2, 3])]));
    let read = file.and_then(|file| file.slice("b", &[0..0, 0..3]).and_then(|_| file.tensor("b")));
    let error = read.unwrap_err().to_string();
    assert!(error.contains("line 2"), "{error}");
    // Experts of no elements, stacked and back.
    let stacked = open(&parse("e.{e} [h] = e [e h]"), counting(&[("e.0", &[0]), ("e.1", &[0])]));
    assert_eq!(stacked.tensor("e").unwrap().shape().dims(), [2, 0]);
    let apart = open(&parse("e.{e} [h] = e [e h]").inverted(), counting(&[("e", &[2, 0])]));
    assert_eq!(apart.len(), 2);
}

#[test]
fn compressed_tensors_are_renamed_and_not_moved() {
    let map = TensorMap::from_iter([("a", array![[1.0_f32, 2.0]])]);
    let bytes = npz::Options::new().compress(true).to_vec(&map).unwrap();
    assert_eq!(open(&parse("a = b"), bytes.clone()).array::<f32, _>("b").unwrap(), array![[1.0, 2.0]]);
    let error = OpenOptions::new().map(&parse("a [x y] = b [y x]")).from_bytes(bytes).unwrap_err().to_string();
    assert_eq!(
        error,
        "npz: cannot move the elements of `a` by line 1: it is compressed; load the tensors, and map them in memory with \
         `view::Mapped`"
    );
}

#[test]
fn a_split_tensor_is_borrowed_from_its_file() {
    let file = open(&parse("a.{e} [h] = a [e h]").inverted(), counting(&[("a", &[3, 4])]));
    assert_eq!(file.view("a.1").unwrap().to_array::<u16>().unwrap(), array![5, 6, 7, 8].into_dyn());
    // The file is mapped before its tensors are renamed.
    let rules = tensorfile::view::RenameRules::parse(["a.*=b.*"]).unwrap();
    let map = parse("a.{e} [h] = a [e h]").inverted();
    let renamed = OpenOptions::new().map(&map).rename(rules).from_bytes(counting(&[("a", &[3, 4])])).unwrap();
    assert_eq!(renamed.tensors().map(|tensor| tensor.name()).collect::<Vec<_>>(), ["b.0", "b.1", "b.2"]);
}

#[test]
fn a_map_does_not_take_a_stream() {
    let options = OpenOptions::new().map(&parse("a = b"));
    struct Nothing;
    impl tensorfile::model::TensorSink for Nothing {
        fn tensor(&mut self, _: &tensorfile::model::TensorRecord<'_>) -> tensorfile::Result<()> {
            Ok(())
        }
    }
    let error = options.read_in_order(&counting(&[("a", &[2])])[..], &mut Nothing).unwrap_err().to_string();
    assert_eq!(
        error,
        "cannot map a stream that is read in order; a map puts tensors together from several places; open the file"
    );
}

#[test]
fn large_transposes_are_read_in_blocks() {
    type Order = fn([usize; 3]) -> [usize; 3];
    // All of a move is held; its elements are among others; between its rows are gaps; two dims change places around a third.
    let cases: [(&str, [usize; 3], Order); 4] = [
        ("let p = 1\na [x (p y)] = b [(y p) x]", [700, 1, 900], |[x, p, y]| [y, p, x]),
        ("let p = 3\na [x (y p)] = b [p (y x)]", [300, 400, 3], |[x, y, p]| [p, y, x]),
        ("let p = 3\na [x (p y)] = b [p (y x)]", [150, 3, 3000], |[x, p, y]| [p, y, x]),
        ("let p = 40\na [x (p y)] = b [y (p x)]", [60, 40, 90], |[x, p, y]| [y, p, x]),
    ];
    for (map, dims, order) in cases {
        let numbers: Vec<u16> = (0..dims.iter().product::<usize>()).map(|number| (number % 65_521) as u16).collect();
        let tensor = Tensor::from_slice(&numbers, [dims[0], dims[1] * dims[2]]).unwrap();
        let path = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(&path, safetensors::to_vec(&TensorMap::from_iter([("a", tensor)])).unwrap()).unwrap();
        let options = OpenOptions::new().map(&parse(map));
        let shape = order(dims);
        let mut turned = vec![0; 2 * numbers.len()];
        for (number, value) in numbers.iter().enumerate() {
            let to = order([number / dims[2] / dims[1], number / dims[2] % dims[1], number % dims[2]]);
            let place = (to[0] * shape[1] + to[1]) * shape[2] + to[2];
            turned[2 * place..2 * place + 2].copy_from_slice(&value.to_le_bytes());
        }
        for backend in [Backend::Positioned, Backend::Mapped] {
            let file = options.clone().backend(backend).open(path.path()).unwrap();
            let tensor = file.get("b").unwrap();
            for (start, len) in [(0, 1), (5, 4096), (100_001, 70_000), (turned.len() - 3, 3)] {
                let mut window = vec![0; len];
                tensor.read_at(start as u64, &mut window).unwrap();
                assert!(window == turned[start..start + len], "{map} at {start}");
            }
            assert!(tensor.read().unwrap().as_bytes() == turned, "{map}");
        }
    }
}

#[test]
fn bytes_are_counted_where_they_are() {
    let path = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(&path, counting(&[("a.0", &[4, 6]), ("kept", &[3]), ("a.1", &[4, 6])])).unwrap();
    for map in
        ["a.{n} [v h] = b [n v h]\nkeep *", "a.{n} [v h] = b.{n} [h v]\nkeep *", "a.{n} [v h] = b.{h} [v n]\nkeep *"]
    {
        let file = OpenOptions::new().map(&parse(map)).open(&path).unwrap();
        let count = ByteMap::from_file(&file);
        assert_eq!((count.payload, count.shared, count.gaps), (102, 0, 0), "{map}");
        assert_eq!(count.before + count.payload + count.after, file.file_bytes(), "{map}");
        let places: Vec<_> = file.tensors().flat_map(|tensor| tensor.places()).collect();
        assert!(places.iter().all(|(file, _)| *file == Some(path.path())), "{places:?}");
    }
}

#[test]
fn numbers_come_from_the_configuration_that_is_named() {
    let case = folder().join("cases/qwen3_moe");
    let bytes = std::fs::read(case.join("left.safetensors")).unwrap();
    let map = LayoutMap::named("qwen3-moe").unwrap();
    assert!(OpenOptions::new().map(&map).from_bytes(bytes.clone()).is_err());
    let file = OpenOptions::new().map(&map).config(case.join("config.json")).from_bytes(bytes.clone()).unwrap();
    assert_eq!(file.get("model.layers.1.mlp.experts.down_proj").unwrap().shape().dims()[0], 3);
    let set = map.set("e", 3).set("l", 2);
    assert!(OpenOptions::new().map(&set).from_bytes(bytes).is_ok());
}
