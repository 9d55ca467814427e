use std::collections::HashMap;

use ::safetensors::SafeTensors;
use ::safetensors::tensor::{Dtype as Tag, TensorView as View};
use indexmap::IndexMap;
use ndarray::{Array1, ArrayView1, CowArray, Ix1, array};
use num_complex::Complex;
use tensorfile::{
    Arrays, Blob, Category, CooTensor, Dtype, File, Limits, Tensor, TensorFile, TensorInfo, TensorMap, safetensors,
};

use crate::support::{Dribble, Messages, message, root, u64s};

/// The file of a header and data.
fn file(json: &str, data: &[u8]) -> Vec<u8> {
    [&u64s(&[json.len() as u64]), json.as_bytes(), data].concat()
}

/// Two tensors and an entry of metadata, by hand.
fn golden() -> Vec<u8> {
    let mut file = vec![0x98, 0, 0, 0, 0, 0, 0, 0];
    file.extend(br#"{"__metadata__":{"format":"pt"},"#);
    file.extend(br#""scale":{"dtype":"F64","shape":[],"data_offsets":[0,8]},"#);
    file.extend(br#""w.0":{"dtype":"I16","shape":[1,3],"data_offsets":[8,14]}}"#);
    file.extend(b"      ");
    file.extend([0, 0, 0, 0, 0, 0, 0xf8, 0x3f]);
    file.extend([1, 0, 0xff, 0xff, 0, 1]);
    file
}

fn tensors() -> TensorMap {
    let (scale, w) = (Tensor::from_slice(&[1.5_f64], []), Tensor::from_slice(&[1_i16, -1, 256], [1, 3]));
    [("scale", scale.unwrap()), ("w.0", w.unwrap())].into_iter().collect()
}

fn names(map: &TensorMap) -> Vec<&str> {
    map.names().collect()
}

/// Tensors of all dtypes, in the order in which the crate writes them.
fn of_all_dtypes() -> Vec<(Tag, Dtype)> {
    vec![
        (Tag::U64, Dtype::U64),
        (Tag::I64, Dtype::I64),
        (Tag::F64, Dtype::F64),
        (Tag::C64, Dtype::C64),
        (Tag::F32, Dtype::F32),
        (Tag::U32, Dtype::U32),
        (Tag::I32, Dtype::I32),
        (Tag::BF16, Dtype::Bf16),
        (Tag::F16, Dtype::F16),
        (Tag::U16, Dtype::U16),
        (Tag::I16, Dtype::I16),
        (Tag::F8_E5M2FNUZ, Dtype::F8E5M2Fnuz),
        (Tag::F8_E4M3FNUZ, Dtype::F8E4M3Fnuz),
        (Tag::F8_E8M0, Dtype::F8E8M0),
        (Tag::F8_E4M3, Dtype::F8E4M3Fn),
        (Tag::F8_E5M2, Dtype::F8E5M2),
        (Tag::I8, Dtype::I8),
        (Tag::U8, Dtype::U8),
        (Tag::F6_E3M2, Dtype::F6E3M2),
        (Tag::F6_E2M3, Dtype::F6E2M3),
        (Tag::F4, Dtype::F4),
        (Tag::BOOL, Dtype::Bool),
    ]
}

/// Reads a file with the `safetensors` crate.
fn by_the_crate(file: &[u8]) -> Result<HashMap<String, Tensor>, String> {
    let read = SafeTensors::deserialize(file).map_err(|error| error.to_string())?;
    let dtypes = of_all_dtypes();
    let tensors = read.tensors().into_iter().map(|(name, view)| {
        let (_, dtype) = dtypes.iter().find(|(tag, _)| *tag == view.dtype()).ok_or("a dtype of theirs alone")?;
        let tensor = Tensor::new(TensorInfo::new(*dtype, view.shape()), view.data());
        Ok((name, tensor.map_err(|error| error.to_string())?))
    });
    tensors.collect()
}

#[test]
fn reads_and_writes_a_file() {
    let file = golden();
    assert_eq!(safetensors::from_slice::<TensorMap>(&file).unwrap(), tensors());
    assert_eq!(safetensors::from_reader::<TensorMap>(&file[..]).unwrap(), tensors());
    assert_eq!(safetensors::from_reader::<TensorMap>(Dribble::new(&file)).unwrap(), tensors());
    assert_eq!(safetensors::metadata(&file).unwrap(), IndexMap::from([("format".to_owned(), "pt".to_owned())]));
    let options = safetensors::Options::new().metadata("format", "pt");
    assert_eq!(options.to_vec(&tensors()).unwrap(), file);
    assert_eq!(by_the_crate(&file).unwrap(), tensors().into_iter().collect());
}

#[test]
fn a_file_without_tensors() {
    let file = file("{}      ", &[]);
    assert_eq!(safetensors::to_vec(&TensorMap::new()).unwrap(), file);
    assert_eq!(safetensors::from_slice::<TensorMap>(&file).unwrap(), TensorMap::new());
    assert!(safetensors::metadata(&file).unwrap().is_empty());
}

#[test]
fn writes_the_bytes_of_the_crate_in_its_order() {
    let mut views = HashMap::new();
    let mut map = TensorMap::new();
    let bytes = [1_u8, 0].repeat(48);
    for (at, (tag, dtype)) in of_all_dtypes().into_iter().enumerate() {
        for (shape, name) in [(vec![2, 6], format!("{at:02}.a")), (vec![0, 3], format!("{at:02}.b"))] {
            let info = TensorInfo::new(dtype, &shape[..]);
            let payload = &bytes[..info.payload_bytes().unwrap()];
            views.insert(name.clone(), View::new(tag, shape, payload).unwrap());
            map.insert(name, Tensor::new(info, payload).unwrap());
        }
    }
    let metadata = HashMap::from([("format".to_owned(), "ä\"\\\n".to_owned())]);
    let theirs = ::safetensors::serialize(&views, Some(metadata)).unwrap();
    let ours = safetensors::Options::new().metadata("format", "ä\"\\\n").to_vec(&map).unwrap();
    assert_eq!(ours, theirs);
    assert_eq!(safetensors::from_slice::<TensorMap>(&theirs).unwrap(), map);
    assert_eq!(safetensors::from_reader::<TensorMap>(&theirs[..]).unwrap(), map);
    assert_eq!(safetensors::metadata(&theirs).unwrap()["format"], "ä\"\\\n");
    assert_eq!(map.infos().map(|(_, info)| info.dtype).collect::<std::collections::HashSet<_>>().len(), 22);
    assert_eq!(safetensors::DTYPES.len(), 22);
}

/// A new dtype of the crate fails this test.
#[test]
fn has_all_dtypes_of_the_crate() {
    let error = serde_json::from_str::<Tag>("\"\"").unwrap_err().to_string();
    let (_, listed) = error.split_once("expected one of ").unwrap();
    let listed: Vec<&str> = listed.split('`').skip(1).step_by(2).collect();
    assert_eq!(listed.len(), safetensors::DTYPES.len(), "{error}");
    for name in listed {
        let tag: Tag = serde_json::from_str(&format!("{name:?}")).unwrap();
        let (_, dtype) = of_all_dtypes().into_iter().find(|(known, _)| *known == tag).expect(name);
        assert_eq!(tag.bitsize() * dtype.block_elements(), 8 * dtype.block_bytes(), "{name}");
    }
}

#[test]
fn a_tensor_with_a_block_in_part_is_not_written() {
    let info = TensorInfo::new(Dtype::F4, [3]);
    let error = Tensor::new(info.clone(), &[0; 2]).unwrap_err();
    assert_eq!(error.to_string(), "f4[3] has 3 elements, but f4 stores blocks of 2");
    let map = OneTensor(info);
    let written = tensorfile::Format::named("safetensors").unwrap().to_vec(&map, &tensorfile::WriteOptions::new());
    assert_eq!(message(written), "safetensors: tensor `x`: f4[3] has 3 elements, but f4 stores blocks of 2");
}

/// A tensor of zeros that nothing has checked.
struct OneTensor(TensorInfo);

impl tensorfile::Tensors for OneTensor {
    fn send(&self, sink: &mut dyn tensorfile::model::TensorSink) -> tensorfile::Result<()> {
        let data = vec![0_u8; self.0.payload_bytes().unwrap()];
        sink.tensor(&tensorfile::model::TensorRecord { name: "x", info: &self.0, data: &&*data, tied: None })
    }
}

#[test]
fn complex_arrays_are_fields() {
    #[derive(TensorFile, Debug, PartialEq)]
    struct Spectrum {
        bins: ndarray::Array2<Complex<f32>>,
        list: Vec<Complex<f32>>,
        one: Complex<f32>,
    }

    let c = |re, im| Complex::new(re, im);
    let value = Spectrum { bins: array![[c(1.0, -2.0), c(0.5, 0.0)]], list: vec![c(3.0, 4.0)], one: c(-1.0, 9.0) };
    let file = safetensors::to_vec(&value).unwrap();
    assert_eq!(safetensors::from_slice::<Spectrum>(&file).unwrap(), value);
    assert_eq!(safetensors::from_reader::<Spectrum>(&file[..]).unwrap(), value);
    let map: TensorMap = safetensors::from_slice(&file).unwrap();
    let mut bytes = Vec::new();
    for part in [1.0_f32, -2.0, 0.5, 0.0] {
        bytes.extend(part.to_le_bytes());
    }
    assert_eq!((map["bins"].dtype(), map["bins"].as_bytes()), (Dtype::C64, &bytes[..]));
    assert_eq!(map["bins"].as_view().to_array::<Complex<f32>>().unwrap(), value.bins.clone().into_dyn());
    let real = safetensors::from_slice::<Arrays<HashMap<String, Array1<f32>>>>(&file);
    assert!(message(real).contains("wrong dtype:\n  `bins`  c64[1, 2], but expected f32"));
}

#[test]
fn the_crate_reads_any_order_of_dtypes_and_names() {
    let tensor = |dtype, shape: &[usize]| {
        let info = TensorInfo::new(dtype, shape);
        Tensor::new(info.clone(), &vec![1; info.payload_bytes().unwrap()]).unwrap()
    };
    let mut map: TensorMap =
        of_all_dtypes().into_iter().rev().map(|(_, dtype)| (dtype.name(), tensor(dtype, &[8]))).collect();
    for name in ["", "größe", "\"\\/\n\0\u{7f}\u{2028}", "__metadata", "a.b.c", "0"] {
        map.insert(name, tensor(Dtype::U8, &[0, 5]));
        map.insert(format!("{name} "), tensor(Dtype::F64, &[]));
    }
    let file = safetensors::Options::new().keep_order(true).to_vec(&map).unwrap();
    let read: Vec<String> =
        File::from_bytes(file.clone()).unwrap().tensors().map(|tensor| tensor.name().to_owned()).collect();
    assert_eq!(read, names(&map), "the order of the value is kept");
    assert_eq!(by_the_crate(&file).unwrap(), map.clone().into_iter().collect());
    assert_eq!(safetensors::from_slice::<TensorMap>(&file).unwrap(), map);
}

/// Two tensors of each dtype in an order that is not the crate's, and the file that the crate writes of them. Each
/// tensor has at least `bytes` bytes, but for an empty one.
fn shuffled(bytes: usize) -> (TensorMap, Vec<u8>) {
    let dtypes = of_all_dtypes();
    let (mut map, mut tags) = (TensorMap::new(), Vec::new());
    for number in (0..2 * dtypes.len()).map(|number| number * 17 % (2 * dtypes.len())) {
        let (tag, dtype) = dtypes[number / 2];
        let columns = if number == 5 { 0 } else { bytes.div_ceil(dtype.block_bytes()) };
        let info = TensorInfo::new(dtype, [dtype.block_elements(), columns]);
        // Bools are 0 or 1.
        let payload: Vec<u8> = (0..info.payload_bytes().unwrap()).map(|at| u8::from(at % (number + 2) == 0)).collect();
        let name = format!("{}.{}", ["weight", "bias"][number % 2], 100 - number);
        map.insert(name.clone(), Tensor::new(info, &payload).unwrap());
        tags.push((name, tag));
    }
    let views = tags.iter().map(|(name, tag)| {
        let tensor = &map[name.as_str()];
        (name, View::new(*tag, tensor.shape().to_vec(), tensor.as_bytes()).unwrap())
    });
    let file = ::safetensors::serialize(views, None).unwrap();
    (map, file)
}

/// Tensors, and how often they were sent.
struct Counted<'a>(&'a TensorMap, std::cell::Cell<usize>);

impl tensorfile::Tensors for Counted<'_> {
    fn send(&self, sink: &mut dyn tensorfile::model::TensorSink) -> tensorfile::Result<()> {
        self.1.set(self.1.get() + 1);
        self.0.send(sink)
    }
}

#[test]
fn several_dtypes_are_written_in_the_order_of_the_crate() {
    // One pass, a plan, and more bytes than are held of a stream.
    for bytes in [20, 10_000, 1 << 20] {
        let (map, theirs) = shuffled(bytes);
        assert!(safetensors::to_vec(&map).unwrap() == theirs, "{bytes}");
        let mut file = b"overwritten".to_vec();
        safetensors::Options::new().to_vec_into(&mut file, &map).unwrap();
        assert!(file == theirs, "{bytes} into");
        let mut file = Vec::new();
        safetensors::to_writer(&mut file, &map).unwrap();
        assert!(file == theirs, "{bytes} to a writer");
        let slices = safetensors::Options::new().to_io_slices(&map).unwrap();
        assert!(slices.as_slices().iter().flat_map(|slice| slice.iter()).eq(&theirs), "{bytes} as slices");
        let plan = safetensors::Options::new().plan(&map).unwrap();
        let (mut file, mut first) = (Vec::new(), map.names());
        assert_eq!((plan.file_bytes(), plan.name(0)), (theirs.len() as u64, first.next().unwrap()));
        let mut writer = plan.writer(&mut file);
        tensorfile::Tensors::send(&map, &mut writer).unwrap();
        writer.finish().unwrap();
        assert!(file == theirs, "{bytes} by a plan that is sent once");
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model.safetensors");
        tensorfile::save(&path, &map).unwrap();
        assert!(std::fs::read(&path).unwrap() == theirs, "{bytes} to a path");
        let read: TensorMap = tensorfile::load(&path).unwrap();
        let sorted: Vec<&str> = names(&read);
        assert_eq!(sorted, names(&safetensors::from_slice(&theirs).unwrap()), "{bytes} from a path");
        assert_eq!(
            read.into_iter().collect::<HashMap<_, _>>(),
            map.clone().into_iter().collect(),
            "{bytes} from a path"
        );
        let kept = safetensors::Options::new().keep_order(true).to_vec(&map).unwrap();
        assert!(safetensors::from_slice::<TensorMap>(&kept).unwrap() == map, "{bytes} in the order of the value");
        assert!(kept != theirs, "{bytes} in the order of the value");
    }
}

#[test]
fn one_dtype_keeps_the_order_of_the_value() {
    let map: TensorMap =
        ["b", "a", "c"].map(|name| (name, Tensor::from_slice(&[1.0_f32], [1]).unwrap())).into_iter().collect();
    assert_eq!(names(&safetensors::from_slice(&safetensors::to_vec(&map).unwrap()).unwrap()), ["b", "a", "c"]);
}

#[test]
fn large_values_are_sent_once_for_each_width() {
    const EACH: usize = 6 << 20;
    let mut map = TensorMap::new();
    let dtypes = [Dtype::U8, Dtype::F32, Dtype::F64, Dtype::I16];
    for (at, dtype) in dtypes.iter().cycle().take(16).enumerate() {
        let info = TensorInfo::new(*dtype, [EACH / dtype.block_bytes()]);
        map.insert(format!("{at:02}"), Tensor::new(info, &vec![u8::try_from(at).unwrap(); EACH]).unwrap());
    }
    let counted = Counted(&map, 0.into());
    let format = tensorfile::Format::named("safetensors").unwrap();
    let (written, memory) = crate::support::memory::peak(|| {
        let mut hash = HashingWriter::default();
        format.to_writer(&mut hash, &counted, &tensorfile::WriteOptions::new()).unwrap();
        hash
    });
    let mut expected = HashingWriter::default();
    std::io::Write::write_all(&mut expected, &safetensors::to_vec(&map).unwrap()).unwrap();
    assert_eq!(written, expected);
    // A pass that ends at the first large tensor, one that plans, and one for each width.
    assert_eq!(counted.1.get(), 2 + dtypes.len());
    assert!(memory < 24 << 20, "{memory} bytes of {}", 16 * EACH);

    // In the order of the file, it is written as it comes.
    let sorted: TensorMap = safetensors::from_slice(&safetensors::to_vec(&map).unwrap()).unwrap();
    let counted = Counted(&sorted, 0.into());
    format.to_writer(&mut std::io::sink(), &counted, &tensorfile::WriteOptions::new()).unwrap();
    assert_eq!(counted.1.get(), 3);
}

/// A writer that keeps a hash of its bytes.
#[derive(Default, Debug, PartialEq)]
struct HashingWriter(u64, usize);

impl std::io::Write for HashingWriter {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        for byte in bytes {
            self.0 = (self.0.rotate_left(5) ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
        self.1 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn fields_of_several_dtypes_are_borrowed() {
    #[derive(TensorFile)]
    struct Step<'a> {
        mask: ArrayView1<'a, u8>,
        obs: ArrayView1<'a, f32>,
        time: ArrayView1<'a, f64>,
    }

    let (mask, obs, time) = (array![1_u8, 2, 3], array![0.5_f32], array![0.25_f64]);
    let step = Step { mask: mask.view(), obs: obs.view(), time: time.view() };
    // The allocation may begin at any byte.
    let file = safetensors::to_vec(&step).unwrap();
    let words: Vec<u64> =
        file.chunks(8).map(|word| word.iter().rev().fold(0, |all, byte| all << 8 | u64::from(*byte))).collect();
    let bytes = &bytemuck::cast_slice::<u64, u8>(&words)[..file.len()];
    let read: Step = safetensors::from_slice(bytes).unwrap();
    assert_eq!((read.mask, read.obs, read.time), (mask.view(), obs.view(), time.view()));
    let kept = safetensors::Options::new().keep_order(true).to_vec(&step).unwrap();
    assert!(message(safetensors::from_slice::<Step>(&kept)).contains("`obs`"));
}

#[test]
fn data_begins_at_a_multiple_of_8() {
    for len in 0..20 {
        let map: TensorMap = [("x".repeat(len), Tensor::from_slice(&[1_u64], [1]).unwrap())].into_iter().collect();
        let file = safetensors::to_vec(&map).unwrap();
        let header = u64::from_le_bytes(file[..8].try_into().unwrap());
        assert_eq!((header % 8, file.len() as u64), (0, 8 + header + 8), "{len}");
        assert!(file[..file.len() - 8].trim_ascii_end().ends_with(b"}"), "{len}");
    }
}

#[test]
fn tensors_are_read_in_the_order_of_their_data() {
    let tensor =
        |offsets: &str, shape: &str| format!(r#"{{"dtype":"U8","shape":[{shape}],"data_offsets":[{offsets}]}}"#);
    let json = format!(
        r#"{{"d":{},"c":{},"last":{},"b":{},"none":{},"a":{}}}"#,
        tensor("2,3", "1"),
        tensor("1,2", "1"),
        tensor("3,3", "2,0"),
        tensor("0,1", "1"),
        tensor("1,1", "0"),
        tensor("0,0", "0,2")
    );
    let file = file(&json, &[7, 8, 9]);
    let map: TensorMap = safetensors::from_slice(&file).unwrap();
    assert_eq!(names(&map), ["a", "b", "none", "c", "d", "last"]);
    assert_eq!((map["b"].as_bytes(), map["d"].as_bytes()), (&[7][..], &[9][..]));
    assert_eq!(safetensors::from_reader::<TensorMap>(&file[..]).unwrap(), map);
    let again = safetensors::to_vec(&map).unwrap();
    assert_eq!(safetensors::from_slice::<TensorMap>(&again).unwrap(), map);
    assert_eq!(by_the_crate(&file).unwrap(), map.into_iter().collect());
}

#[test]
fn tensors_without_elements_keep_their_places() {
    let empty = || Tensor::from_slice::<u8>(&[], [0]).unwrap();
    let full = || Tensor::from_slice(&[1_u8], [1]).unwrap();
    let order = ["e", "z", "full", "a", "y", "fuller", "b"];
    let map: TensorMap =
        order.iter().map(|&name| (name, if name.starts_with('f') { full() } else { empty() })).collect();
    let file = safetensors::to_vec(&map).unwrap();
    assert_eq!(names(&safetensors::from_slice(&file).unwrap()), order);
    assert_eq!(names(&safetensors::from_reader(&file[..]).unwrap()), order);
}

#[test]
fn metadata_is_written_sorted_and_read_in_its_order() {
    let json =
        r#"{"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},"__metadata__":{"z":"1","a":"","ä\n":"\u00e4"}}"#;
    let metadata = safetensors::metadata(&file(json, &[])).unwrap();
    let entries = |metadata: &IndexMap<String, String>| -> Vec<_> {
        metadata.iter().map(|(key, value)| format!("{key}={value}")).collect()
    };
    assert_eq!(entries(&metadata), ["z=1", "a=", "ä\n=ä"]);

    let add = |options: safetensors::Options, (key, value)| options.metadata(key, value);
    let forth = metadata.iter().fold(safetensors::Options::new(), add).to_vec(&tensors()).unwrap();
    let back = metadata.iter().rev().fold(safetensors::Options::new(), add).to_vec(&tensors()).unwrap();
    assert_eq!(forth, back);
    assert_eq!(entries(&safetensors::metadata(&forth).unwrap()), ["a=", "z=1", "ä\n=ä"]);
    let read = SafeTensors::read_metadata(&forth).unwrap().1;
    assert_eq!(read.metadata().clone().unwrap(), metadata.into_iter().collect());

    let replaced = safetensors::Options::new().metadata("k", "old").metadata("k", "new");
    assert_eq!(safetensors::metadata(&replaced.to_vec(&TensorMap::new()).unwrap()).unwrap()["k"], "new");
}

#[test]
fn json_may_be_written_in_other_ways() {
    let json =
        "{ \"\\u0061\" :\n\t{\"extra\":[{}],\"data_offsets\":[ 0, 2],\r\n\"shape\":[2],\"dtype\":\"\\u00558\"}\n}\n";
    let file = file(json, &[5, 6]);
    let map: TensorMap = safetensors::from_slice(&file).unwrap();
    assert_eq!((names(&map), map["a"].as_bytes()), (vec!["a"], &[5, 6][..]));
    assert_eq!(by_the_crate(&file).unwrap(), map.into_iter().collect());
}

#[test]
fn reports_malformed_files() {
    let of = |tensors: &str| file(&format!("{{{tensors}}}"), &[0; 16]);
    let entry = |dtype: &str, shape: &str, offsets: &str| {
        format!(r#"{{"dtype":"{dtype}","shape":[{shape}],"data_offsets":[{offsets}]}}"#)
    };
    let one = |dtype: &str, shape: &str, offsets: &str| of(&format!(r#""a":{}"#, entry(dtype, shape, offsets)));
    let two =
        |first: &str, second: &str| of(&format!(r#""a":{},"b":{}"#, entry("U8", "8", first), entry("U8", "8", second)));
    let whole = entry("U8", "16", "0,16");
    let mut messages = Messages::default();
    for (file, expected) in [
        // The header.
        (vec![1, 2, 3], "needs 8 more bytes, but the file has 3 left (at byte 0)"),
        (u64s(&[2]), "needs 2 more bytes, but the file has 0 left (at byte 8)"),
        (u64s(&[1, 0]), "header length is 1, but expected 2 to 100000000 (at byte 0)"),
        (u64s(&[100_000_001, 0]), "header length is 100000001, but expected 2 to 100000000 (at byte 0)"),
        (u64s(&[u64::MAX, 0]), "header length is 18446744073709551615, but expected 2 to 100000000 (at byte 0)"),
        (u64s(&[100_000_000, 0]), "needs 100000000 more bytes, but the file has 8 left (at byte 8)"),
        (file(" {}", &[]), "found ` `, but expected `{` (at byte 8)"),
        (file("[]", &[]), "found `[`, but expected `{` (at byte 8)"),
        ([&u64s(&[4])[..], b"{\"\xff}"].concat(), "the header is not UTF-8 (at byte 10)"),
        (file("{} {}", &[]), "the header cannot be read: trailing characters (at byte 11)"),
        (file("{\"a\":\n\n  }", &[]), "the header cannot be read: expected value (at byte 17)"),
        (
            file(&"{\"a\":".repeat(100_000), &[]),
            "the header cannot be read: EOF while parsing a value (at byte 500007)",
        ),
        // Metadata.
        (
            of(r#""__metadata__":7"#),
            "the header cannot be read: invalid type: integer `7`, expected an object (at byte 24)",
        ),
        (
            of(r#""__metadata__":{"k":7}"#),
            "the header cannot be read: invalid type: integer `7`, expected a string (at byte 29)",
        ),
        (
            file(r#"{"__metadata__":{"k":"1","\u006b":"2"}}"#, &[]),
            "two entries of the metadata have the key `k` (at byte 42)",
        ),
        (of(r#""__metadata__":{},"__metadata__":{}"#), "two tensors are named `__metadata__` (at byte 42)"),
        // A tensor.
        (
            of(r#""a":7"#),
            "tensor `a`: the header cannot be read: invalid type: integer `7`, expected an object of dtype, shape and data_offsets (at byte 13)",
        ),
        (
            of(r#""a":["U8",[16],[0,16]]"#),
            "tensor `a`: the header cannot be read: invalid type: list, expected an object of dtype, shape and \
             data_offsets (at byte 13)",
        ),
        (
            of(r#""a":{"dtype":"U8","shape":[16]}"#),
            "tensor `a`: the header cannot be read: missing field `data_offsets` (at byte 39)",
        ),
        (
            of(r#""a":{"dtype":"U8","dtype":"U8"}"#),
            "tensor `a`: the header cannot be read: duplicate field `dtype` (at byte 33)",
        ),
        (
            one("U8", "-1", "0,16"),
            "tensor `a`: the header cannot be read: invalid value: integer `-1`, expected a whole number (at byte 37)",
        ),
        (
            one("U8", "1.5", "0,16"),
            "tensor `a`: the header cannot be read: invalid type: number `1.5`, expected a whole number (at byte 38)",
        ),
        (one("C64", "3", "0,16"), "tensor `a`: payload is 16 bytes, but c64[3] takes 24 (at byte 13)"),
        (one("F4", "31", "0,16"), "tensor `a`: f4[31] has 31 elements, but f4 stores blocks of 2 (at byte 13)"),
        (one("F4", "30", "0,16"), "tensor `a`: payload is 16 bytes, but f4[30] takes 15 (at byte 13)"),
        (
            one("F6_E2M3", "3,7", "0,16"),
            "tensor `a`: f6_e2m3[3, 7] has 21 elements, but f6_e2m3 stores blocks of 4 (at byte 13)",
        ),
        (
            one("F6_E3M2", "", "0,16"),
            "tensor `a`: f6_e3m2[] has 1 elements, but f6_e3m2 stores blocks of 4 (at byte 13)",
        ),
        (of(&format!(r#""a":{whole},"a":{whole}"#)), "two tensors are named `a` (at byte 67)"),
        (of(&format!(r#""a":{whole},"\u0061":{whole}"#)), "two tensors are named `a` (at byte 72)"),
        // Its place.
        (one("U8", "3", "0,16"), "tensor `a`: payload is 16 bytes, but u8[3] takes 3 (at byte 13)"),
        (
            one("U8", "16", "16,0"),
            "tensor `a`: data offset is 16, but expected 0, as there are no gaps between tensors (at byte 13)",
        ),
        (two("0,8", "8,7"), "tensor `b`: end of the data is 7, but expected at least 8, where it begins (at byte 65)"),
        (
            two("0,8", "9,17"),
            "tensor `b`: data offset is 9, but expected 8, as there are no gaps between tensors (at byte 65)",
        ),
        (
            two("0,8", "7,15"),
            "tensor `b`: data offset is 7, but expected 8, as there are no gaps between tensors (at byte 65)",
        ),
        (
            two("0,8", "0,8"),
            "tensor `b`: data offset is 0, but expected 8, as there are no gaps between tensors (at byte 65)",
        ),
        (one("U8", "17", "0,17"), "tensor `a`: needs 17 more bytes, but the file has 16 left (at byte 63)"),
        (one("U8", "15", "0,15"), "the file continues after the data of its last tensor (at byte 78)"),
        (of(""), "the file continues after the data of its last tensor (at byte 10)"),
    ] {
        let what = String::from_utf8_lossy(&file[..file.len().min(200)]).into_owned();
        messages.compare(&what, safetensors::from_slice::<TensorMap>(&file), &format!("safetensors: {expected}"));
        assert!(safetensors::from_reader::<TensorMap>(&file[..]).is_err(), "{what}");
        // The deviations. A dtype that only the crate has does not count as one.
        let deviates = ["found ` `", "two tensors are named `a`", "two entries", "type: list"];
        if deviates.iter().any(|part| expected.contains(part)) {
            assert!(by_the_crate(&file).is_ok(), "the crate refuses {what}");
        } else {
            assert!(by_the_crate(&file).is_err(), "the crate reads {what}");
        }
    }
    messages.end();
}

#[cfg(target_pointer_width = "64")]
#[test]
fn sizes_that_overflow_are_malformed_but_for_zero_dims() {
    let of = |tensors: &str| file(&format!("{{{tensors}}}"), &[]);
    let mut messages = Messages::default();
    for (tensors, expected) in [
        (
            r#""a":{"dtype":"U16","shape":[9223372036854775808],"data_offsets":[0,0]}"#,
            "tensor `a`: payload is 0 bytes, but u16[9223372036854775808] takes more than can be addressed (at byte 13)",
        ),
        (
            r#""a":{"dtype":"U8","shape":[18446744073709551615],"data_offsets":[0,18446744073709551615]}"#,
            "tensor `a`: needs 18446744073709551615 more bytes, but the file has 0 left (at byte 99)",
        ),
    ] {
        messages.compare(
            tensors,
            safetensors::from_slice::<TensorMap>(&of(tensors)),
            &format!("safetensors: {expected}"),
        );
        assert!(safetensors::from_reader::<TensorMap>(&of(tensors)[..]).is_err(), "{tensors}");
    }
    messages.end();

    let zero = of(r#""a":{"dtype":"U8","shape":[18446744073709551615,2,0],"data_offsets":[0,0]}"#);
    let map: TensorMap = safetensors::from_slice(&zero).unwrap();
    assert_eq!(*map["a"].shape(), [usize::MAX, 2, 0]);
    assert!(by_the_crate(&zero).unwrap_err().starts_with("overflow"));
}

/// Damages a file in many ways, and checks that we agree with the `safetensors` crate, except for the deviations.
#[test]
fn agrees_with_the_crate() {
    let wide = Tensor::from_slice(&[1_u8, 0, 1], [3]).unwrap();
    let mut map = tensors();
    map.insert("b", wide);
    map.insert("none", Tensor::from_slice::<f32>(&[], [0, 7]).unwrap());
    let file = safetensors::Options::new().metadata("k", "v").to_vec(&map).unwrap();
    let header = 8 + u64::from_le_bytes(file[..8].try_into().unwrap()) as usize;
    let (mut both, mut unknown) = (0, 0);
    for at in 0..header {
        for byte in [b'0', b'1', b'7', b'8', b'a', b'b', b'c', b' ', b'"', b',', b'}', b'\\', b'B', b'I', b'F', 0] {
            let mut damaged = file.clone();
            damaged[at] = byte;
            let (ours, theirs) = (safetensors::from_slice::<TensorMap>(&damaged), by_the_crate(&damaged));
            match (ours, theirs) {
                (Ok(ours), Ok(theirs)) => {
                    assert_eq!(ours.into_iter().collect::<HashMap<_, _>>(), theirs, "{byte} at {at}");
                    both += 1;
                }
                (Err(_), Err(_)) => {}
                (Err(error), Ok(_)) => {
                    let text = error.to_string();
                    let deviates = ["two tensors", "two entries"].iter().any(|part| text.contains(part));
                    assert!(deviates, "the crate reads it, we say: {error}");
                }
                (Ok(ours), Err(_)) if ours.infos().any(|(_, info)| info.unknown_dtype().is_some()) => unknown += 1,
                (Ok(_), Err(error)) => panic!("{byte} at {at}: we read it, the crate says: {error}"),
            }
        }
    }
    assert!(both > 100 && unknown > 10, "{both} were read, and {unknown} of unknown dtypes");
}

#[test]
fn limits_hold() {
    let read = |limits| safetensors::Options::new().limits(limits).from_slice::<TensorMap>(&golden());
    let error = read(Limits::new().tensors(1)).unwrap_err();
    assert_eq!(error.category(), Category::Limit);
    assert_eq!(error.to_string(), "safetensors: number of tensors is 2, but the limit is 1 (at byte 8)");
    let message = message(read(Limits::new().rank(1)));
    assert_eq!(message, "safetensors: tensor `w.0`: rank is 2, but the limit is 1 (at byte 102)");
}

#[test]
fn refuses_unsupported_tensors() {
    let one = |name: &str, tensor| [(name, tensor)].into_iter().collect::<TensorMap>();
    let empty = |shape: &[usize]| Tensor::from_slice::<u8>(&[], shape).unwrap();
    let mut messages = Messages::default();
    for (what, result, expected) in [
        (
            "the name of the metadata",
            safetensors::to_vec(&one("__metadata__", empty(&[0]))),
            "tensor `__metadata__`: cannot store a tensor named `__metadata__`; \
             safetensors keeps this name for metadata",
        ),
        (
            "a blob",
            safetensors::to_vec(&Blob(b"x".to_vec())),
            "tensor `0`: cannot store a blob; safetensors stores tensors; npz and ptd store blobs",
        ),
        (
            "sparse",
            safetensors::to_vec(&CooTensor::new([2], vec![1], vec![1_u8]).unwrap()),
            "tensor `0`: cannot store a sparse tensor; safetensors stores dense tensors; btf stores sparse ones",
        ),
        (
            "dims that the crate cannot multiply",
            safetensors::to_vec(&one("a", empty(&[usize::MAX, 2, 0]))),
            &format!(
                "tensor `a`: cannot store u8[{}, 2, 0]; readers of safetensors count its bits, which are too many",
                usize::MAX
            ),
        ),
    ] {
        messages.compare(what, result, &format!("safetensors: {expected}"));
    }
    messages.end();
}

#[test]
fn borrows_aligned_tensors() {
    // In memory that begins at a multiple of 8, like a mapped file.
    let mut words = [0_u64; 64];
    let file = safetensors::to_vec(&Arrays((array![1.0_f64, 2.0], array![7_u8]))).unwrap();
    let memory = &mut bytemuck::cast_slice_mut(&mut words)[..file.len()];
    memory.copy_from_slice(&file);
    let Arrays((view, _)): Arrays<(ArrayView1<'_, f64>, ArrayView1<'_, u8>)> = safetensors::from_slice(memory).unwrap();
    assert_eq!(view, array![1.0, 2.0]);
    assert!(memory.as_ptr_range().contains(&view.as_ptr().cast()));

    let file =
        safetensors::Options::new().keep_order(true).to_vec(&Arrays((array![7_u8], array![1.0_f64, 2.0]))).unwrap();
    let memory = &mut bytemuck::cast_slice_mut(&mut words)[..file.len()];
    memory.copy_from_slice(&file);
    let Arrays((_, owned)): Arrays<(Array1<u8>, Array1<f64>)> = safetensors::from_slice(memory).unwrap();
    assert_eq!(owned, array![1.0, 2.0]);
    let Arrays((_, cow)): Arrays<(ArrayView1<'_, u8>, CowArray<'_, f64, Ix1>)> =
        safetensors::from_slice(memory).unwrap();
    assert!(!cow.is_view());
    assert_eq!(
        message(safetensors::from_slice::<Arrays<(ArrayView1<'_, u8>, ArrayView1<'_, f64>)>>(memory)),
        "safetensors: tensor `1`: cannot borrow f64 from bytes that do not start at a multiple of 8; \
         a `CowArray` would copy them (at byte 121)"
    );
}

#[test]
fn shared_bytes_are_stored_for_each_name() {
    let shared = array![1_u8, 2, 3].into_shared();
    let file = safetensors::to_vec(&Arrays((shared.clone(), shared))).unwrap();
    assert!(file.ends_with(&[1, 2, 3, 1, 2, 3]));
    assert_eq!(by_the_crate(&file).unwrap().len(), 2);
}

#[test]
fn twenty_thousand_tensors() {
    let name = |at: usize| format!("model.layers.{}.block.{}.weight", at / 100, at % 100);
    let tensor = |at: usize| Tensor::from_slice(&[at as u32, 7], [2, 1]).unwrap();
    let map: TensorMap = (0..20_000).map(|at| (name(at), tensor(at))).collect();
    let file = safetensors::to_vec(&map).unwrap();
    assert!(safetensors::from_slice::<TensorMap>(&file).unwrap() == map);
    assert!(safetensors::from_reader::<TensorMap>(&file[..]).unwrap() == map);
    assert!(by_the_crate(&file).unwrap() == map.into_iter().collect());
}

#[test]
fn metadata_that_is_null_is_none() {
    let path = root().join("tests/fixtures/cases/st-null-metadata/null.safetensors");
    let bytes = std::fs::read(&path).unwrap();
    let file = File::open(&path).unwrap();
    assert_eq!(file.array::<f32, Ix1>("a").unwrap(), array![0.0, 1.0, 2.0, 3.0]);
    let metadata = file.metadata().unwrap();
    assert!(metadata.entries.is_empty() && metadata.warnings.is_empty(), "{metadata:?}");
    assert_eq!(safetensors::metadata(&bytes).unwrap().len(), 0);
    assert_eq!(safetensors::from_reader::<TensorMap>(&bytes[..]).unwrap(), safetensors::from_slice(&bytes).unwrap());
    // An entry can be set.
    let mut edited = Vec::new();
    tensorfile::file::MetadataEdit::new().set("format", "pt").to_writer(&file, &mut edited).unwrap();
    assert_eq!(safetensors::metadata(&edited).unwrap()["format"], "pt");
    // Values other than an object are not metadata.
    for (value, found) in [("nul", "expected ident"), ("[]", "invalid type: list"), ("1", "invalid type: integer")] {
        let json = format!("{{\"__metadata__\":{value}}}");
        let file = [&(json.len() as u64).to_le_bytes()[..], json.as_bytes()].concat();
        let error = message(safetensors::from_slice::<TensorMap>(&file));
        assert!(error.contains(found), "{value}: {error}");
    }
}
