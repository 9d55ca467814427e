//! Values loaded from tensors that are in no file, under other names, and into existing arrays.

use std::cell::Cell;
use std::collections::{BTreeMap, HashMap};
use std::io::{self, Write};

use half::f16;
use ndarray::{ArcArray1, Array1, Array2, ArrayD, ShapeBuilder, array};
use tensorfile::file::Backend;
use tensorfile::model::{FromTensors, TensorData, TensorRecord, TensorSink};
use tensorfile::view::{CastView, RenameRules, Renamed, Subset};
use tensorfile::{
    Category, Dtype, ErrorKind, File, OpenOptions, Result, Tensor, TensorFile, TensorInfo, TensorMap, Tensors, btf, ten,
};

use crate::support::memory::peak;
use crate::support::{Messages, btf_file, message, multi_tensor_formats, ten_file};

#[derive(TensorFile, Debug, Clone, PartialEq)]
struct Linear {
    #[tensor(alias = "w")]
    weight: Array2<f32>,
    bias: Option<Array1<f32>>,
}

fn linear() -> Linear {
    Linear { weight: array![[1.0, 2.0], [3.0, 4.0]], bias: Some(array![0.5, -0.5]) }
}

fn map_of(value: &dyn Tensors) -> TensorMap {
    value.load().unwrap()
}

#[test]
fn maps_values_files_and_views_load_into_structs() {
    let map = map_of(&linear());
    assert_eq!(map.load::<Linear>().unwrap(), linear());
    let file = File::from_bytes(ten_file(&map)).unwrap();
    let tensors: [&dyn Tensors; 3] = [&linear(), &map, &file];
    for tensors in tensors {
        assert_eq!(tensors.load::<Linear>().unwrap(), linear());
        let without_bias = Subset::new(tensors, |name| name == "weight");
        assert_eq!(without_bias.load::<Linear>().unwrap(), Linear { bias: None, ..linear() });
        let renamed = Renamed::new(tensors, |name| (name == "weight").then(|| "w".to_owned()));
        assert_eq!(renamed.load::<Linear>().unwrap(), linear());
        let halves = CastView::new(tensors, |_, _| Dtype::F16);
        let halves: BTreeMap<String, ArrayD<f16>> = halves.load().unwrap();
        assert_eq!(halves["bias"], array![0.5, -0.5].map(|number| f16::from_f32(*number)).into_dyn());
        let by_position = Renamed::by_position(tensors);
        assert_eq!(by_position.load::<Linear>().unwrap(), linear(), "tensors without names are matched by position");
    }
}

#[test]
fn all_kinds_of_fields_load() {
    #[derive(TensorFile)]
    struct Kinds {
        a: Array1<f32>,
        b: ArcArray1<bool>,
        empty: Array1<f64>,
        also_empty: Array1<f64>,
        number: u16,
        list: Vec<i64>,
        any: Tensor,
    }

    let value = Kinds {
        a: array![1.0],
        b: array![true, false].into(),
        empty: array![],
        also_empty: array![],
        number: 7,
        list: vec![1, 2],
        any: Tensor::from_slice(&[3_u8], [1]).unwrap(),
    };
    let read: Kinds = (&value as &dyn Tensors).load().unwrap();
    assert_eq!((read.a, read.b, read.number, read.list), (value.a, value.b, 7, vec![1, 2]));
    assert_eq!((read.empty.len(), read.also_empty.len(), read.any), (0, 0, value.any));
}

#[test]
fn payloads_are_copied_once() {
    // Large beside the parts of 2 MiB that wait between the threads of a cast, of which this one may own all or none.
    const BYTES: usize = 32 << 20;
    let map = TensorMap::from_iter([
        ("weight", Array2::<f32>::ones((2, BYTES / 8))),
        ("other", Array2::ones((1, BYTES / 4))),
    ]);
    let subset = Subset::new(&map, |name| name == "weight");
    let cast = CastView::new(&subset, |_, _| Dtype::F64);
    let (linear, bytes) = peak(|| subset.load::<Linear>().unwrap());
    assert_eq!(linear.weight.sum(), BYTES as f32 / 4.0);
    assert!((BYTES..BYTES + BYTES / 4).contains(&bytes), "{bytes}");
    let (_, bytes) = peak(|| cast.load::<BTreeMap<String, Array2<f64>>>().unwrap());
    assert!((2 * BYTES..2 * BYTES + BYTES / 2).contains(&bytes), "{bytes}");
}

#[test]
fn tensors_that_do_not_fit_are_all_reported() {
    let map = TensorMap::from_iter([("weight", array![1_i32]), ("bais", array![2])]);
    let expected = "1 unexpected, 1 wrong dtype; 0 of 2 tensors fit\nunexpected:\n  `bais`  i32[1]\n\
        wrong dtype (`#[tensor(cast)]` converts numbers):\n  `weight`  i32[1], but expected f32";
    let error = map.load::<Linear>().unwrap_err();
    assert_eq!((error.to_string().as_str(), error.category()), (expected, Category::Mismatch));
    assert_eq!(message(File::from_bytes(ten_file(&map)).unwrap().load::<Linear>()), format!("ten: {expected}"));

    #[derive(TensorFile, Debug)]
    #[tensor(cast)]
    struct Bytes {
        #[tensor(rename = "weight")]
        _weight: Array1<u8>,
    }

    // There is no file to have an offset in.
    let map = TensorMap::from_iter([("weight", array![1_i32, 300])]);
    assert_eq!(message(map.load::<Bytes>()), "tensor `weight`: element 1 is 300, which u8 cannot hold");
    let twice = Renamed::new(&map, |_| Some("a".to_owned()));
    let two = TensorMap::from_iter([("a", array![1.0_f32]), ("b", array![2.0])]);
    let two = Renamed::new(&two, |_| Some("a".to_owned()));
    assert_eq!(message(two.load::<TensorMap>()), "two tensors are named `a`");
    assert_eq!(twice.load::<TensorMap>().unwrap().len(), 1);
}

#[test]
fn metadata_of_a_value_is_loaded_too() {
    #[derive(TensorFile, Debug, PartialEq)]
    struct Run {
        weight: Array1<f32>,
        #[tensor(metadata)]
        epochs: u32,
    }

    let run = Run { weight: array![1.0], epochs: 7 };
    assert_eq!((&run as &dyn Tensors).load::<Run>().unwrap(), run);
    let expected = "1 missing metadata; 1 of 1 tensor fits\nmissing metadata:\n  `epochs`  a u32";
    assert_eq!(message(map_of(&run).load::<Run>()), expected);
}

/// Tensors that differ when they are sent a second time.
struct Changing {
    sent: Cell<usize>,
    then: Vec<(&'static str, TensorInfo, Vec<u8>)>,
}

struct Bytes<'a>(&'a [u8]);

impl TensorData for Bytes<'_> {
    fn write_to(&self, out: &mut dyn Write) -> io::Result<()> {
        self.0.chunks(3).try_for_each(|piece| out.write_all(piece))
    }
}

impl Tensors for Changing {
    fn send(&self, sink: &mut dyn TensorSink) -> Result<()> {
        let first = [("a", TensorInfo::new(Dtype::F32, [1]), vec![0; 4])];
        let tensors = if self.sent.replace(1) == 0 { &first[..] } else { &self.then };
        tensors.iter().try_for_each(|(name, info, bytes)| {
            sink.tensor(&TensorRecord { name, info, data: &Bytes(bytes), tied: None })
        })
    }
}

#[test]
fn tensors_that_change_are_an_error() {
    let f32s = |dims: usize| TensorInfo::new(Dtype::F32, [dims]);
    let changed = |name| format!("the tensors changed while they were loaded: `{name}` was sent otherwise before");
    let mut messages = Messages::default();
    for (what, then, expected) in [
        ("name", vec![("b", f32s(1), vec![0; 4])], changed("b")),
        ("shape", vec![("a", f32s(2), vec![0; 8])], changed("a")),
        ("none", vec![], changed("a")),
        ("more", vec![("a", f32s(1), vec![0; 4]), ("b", f32s(1), vec![0; 4])], changed("b")),
        ("short", vec![("a", f32s(1), vec![0; 3])], changed("a")),
        ("long", vec![("a", f32s(1), vec![0; 7])], "tensor `a`: the payload is longer than its header says".to_owned()),
    ] {
        let tensors: &dyn Tensors = &Changing { sent: Cell::new(0), then };
        messages.compare(what, tensors.load::<HashMap<String, Array1<f32>>>(), &expected);
    }
    messages.end();
}

#[test]
fn names_are_mapped_when_a_file_is_opened() {
    #[derive(TensorFile, Debug, PartialEq)]
    struct Model {
        layers: Vec<Linear>,
    }

    let model = Model { layers: vec![linear(), Linear { bias: None, ..linear() }] };
    let map = map_of(&model);
    let other = Renamed::new(&map, |name| Some(name.replace("layers.", "blk.").replace(".weight", ".attn")));
    let other: TensorMap = other.load().unwrap();
    let rules = RenameRules::parse(["blk.*.attn=layers.*.w", "blk.*.*=layers.*.*"]).unwrap();
    let options = OpenOptions::new().rename(rules);
    let folder = tempfile::tempdir().unwrap();
    for format in multi_tensor_formats() {
        let path = folder.path().join("model");
        let write = tensorfile::WriteOptions::new().embed_names(true);
        let save = tensorfile::SaveOptions::new().format(format).write(write);
        save.save(&path, &other).unwrap();
        let file = options.clone().format(format).open(&path).unwrap();
        assert_eq!(file.load::<Model>().unwrap(), model, "{}", format.name);
        assert_eq!(file.get("layers.1.w").unwrap().read().unwrap(), map["layers.1.weight"]);
        let mut names = Names::default();
        file.send(&mut names).unwrap();
        assert_eq!(names.0, ["layers.0.w", "layers.0.bias", "layers.1.w"], "{}", format.name);
    }
}

#[cfg(feature = "safetensors")]
#[test]
fn names_are_mapped_in_a_stream() {
    // Too long to be held.
    let map = TensorMap::from_iter([("blk.0.attn", Array2::<f32>::ones((100, 100))), ("blk.1.attn", array![[1.0]])]);
    let options = OpenOptions::new().rename(RenameRules::parse(["blk.*.attn=layers.*.w"]).unwrap());
    let mut names = Names::default();
    let file = options.read_in_order(&tensorfile::safetensors::to_vec(&map).unwrap()[..], &mut names).unwrap();
    assert_eq!(file.tensors().map(|tensor| tensor.name().to_owned()).collect::<Vec<_>>(), names.0);
    assert_eq!(names.0, ["layers.0.w", "layers.1.w"]);
}

#[derive(Default)]
struct Names(Vec<String>);

impl TensorSink for Names {
    fn tensor(&mut self, tensor: &TensorRecord<'_>) -> Result<()> {
        self.0.push(tensor.name.to_owned());
        Ok(())
    }
}

#[test]
fn rules_that_cannot_be_followed_are_an_error_of_opening() {
    let open =
        |rules: &[&str], file: Vec<u8>| OpenOptions::new().rename(RenameRules::parse(rules).unwrap()).from_bytes(file);
    let file = || ten_file(&TensorMap::from_iter([("a", array![1.0_f32]), ("b", array![2.0])]));
    let mut messages = Messages::default();
    messages.compare("unused", open(&["c=d"], file()), "ten: no tensor matches `c`; the file has `a`, `b`");
    messages.compare(
        "twice",
        open(&["*=x*", "b=c"], file()),
        "ten: each tensor that matches `b` is already renamed by an earlier rule",
    );
    let btf = || btf_file(&TensorMap::from_iter([("a", array![1.0_f32]), ("b", array![2.0])]));
    messages.compare("same", open(&["a=b"], btf()), "btf: two tensors are named `b` (at byte 88)");
    messages.end();

    // Tensors without names keep having none.
    let bare = || btf::to_vec(&[array![1.0_f32], array![2.0]]).unwrap();
    let file = open(&["#1=bias"], bare()).unwrap();
    let names: Vec<_> = file.tensors().map(|tensor| (tensor.name(), tensor.has_name())).collect();
    assert_eq!(names, [("0", false), ("bias", true)]);
    messages = Messages::default();
    messages.compare("position", open(&["#1=0"], bare()), "btf: two tensors are named `0`");
    messages.end();
    assert_eq!(
        open(&["0=weight", "1=bias"], bare()).unwrap().load::<TensorMap>().unwrap().keys().collect::<Vec<_>>(),
        ["weight", "bias"]
    );
    // Embedded names are names.
    let file = open(&["weight=w"], btf_file(&linear())).unwrap();
    assert_eq!(file.load::<Linear>().unwrap(), linear());
}

#[derive(TensorFile, Debug, Clone, PartialEq)]
#[tensor(prefix = "model")]
struct Net {
    embed: Box<Linear>,
    #[tensor(transpose)]
    head: Array2<f64>,
    layers: Vec<Linear>,
    by_name: BTreeMap<String, Array1<i32>>,
    #[tensor(flatten)]
    flat: Flat,
    wrapped: Wrapped,
    #[tensor(cast)]
    cast: Array1<f32>,
    any: Tensor,
    numbers: Vec<f32>,
    step: i64,
    columns: Array2<f32>,
}

#[derive(TensorFile, Debug, Clone, PartialEq)]
struct Flat {
    #[tensor(alias = "old_flat")]
    flat: Array1<f32>,
}

#[derive(TensorFile, Debug, Clone, PartialEq)]
struct Wrapped(Array1<f32>);

fn net(scale: f32) -> Net {
    let linear = || Linear { weight: linear().weight * scale, bias: linear().bias.map(|bias| bias * scale) };
    Net {
        embed: Box::new(linear()),
        head: (array![[1.0, 2.0, 3.0]] * f64::from(scale)).reversed_axes(),
        layers: vec![linear(), Linear { bias: None, ..linear() }],
        by_name: [("a".to_owned(), array![scale as i32]), ("b".to_owned(), array![2, 3])].into(),
        flat: Flat { flat: array![scale] },
        wrapped: Wrapped(array![scale, scale]),
        cast: array![scale],
        any: Tensor::from_slice(&[scale], [1]).unwrap(),
        numbers: vec![scale, 1.0],
        step: scale as i64,
        columns: Array2::from_shape_vec((2, 2).f(), vec![scale, 1.0, 2.0, 3.0]).unwrap(),
    }
}

/// The addresses of the arrays that keep their memory.
fn addresses(net: &Net) -> Vec<usize> {
    let linears = std::iter::once(&*net.embed).chain(&net.layers);
    let arrays = linears.flat_map(|linear| {
        std::iter::once(linear.weight.as_ptr().addr()).chain(linear.bias.iter().map(|bias| bias.as_ptr().addr()))
    });
    let others = [net.head.as_ptr().addr(), net.flat.flat.as_ptr().addr(), net.wrapped.0.as_ptr().addr()];
    arrays.chain(others).chain(net.by_name.values().map(|array| array.as_ptr().addr())).collect()
}

#[test]
fn a_file_is_loaded_into_arrays_that_exist() {
    let (new, folder) = (net(3.0), tempfile::tempdir().unwrap());
    for format in multi_tensor_formats() {
        let options = tensorfile::WriteOptions::new().embed_names(true);
        let bytes = format.to_vec(&new, &options).unwrap();
        let path = folder.path().join(format.name);
        std::fs::write(&path, &bytes).unwrap();
        let open = |backend| OpenOptions::new().format(format).backend(backend).open(&path).unwrap();
        let files = [
            open(Backend::Mapped),
            open(Backend::Positioned),
            OpenOptions::new().format(format).from_bytes(bytes.clone()).unwrap(),
        ];
        for file in &files {
            let mut value = net(1.0);
            let before = addresses(&value);
            assert!(file.report_like(&value).is_ok(), "{}: {}", format.name, file.report_like(&value));
            file.load_into(&mut value).unwrap();
            assert_eq!(value, new, "{}", format.name);
            // The members of an archive have checksums, which are compared after reading.
            if !["npz", "pytorch"].contains(&format.name) {
                assert_eq!(addresses(&value), before, "{}", format.name);
            }
        }
    }
    // No names: by position.
    let linear = Linear { weight: array![[9.0, 8.0]], bias: None };
    let file = File::from_bytes(btf::to_vec(&linear).unwrap()).unwrap();
    let mut value = Linear { weight: array![[0.0, 0.0]], bias: None };
    file.load_into(&mut value).unwrap();
    assert_eq!(value, linear);
    let mut arrays = vec![array![0.0_f32], array![0.0]];
    let file = File::from_bytes(btf::to_vec(&[array![1.0_f32], array![2.0]]).unwrap()).unwrap();
    file.load_into(&mut arrays).unwrap();
    assert_eq!(arrays, [array![1.0], array![2.0]]);
    let mut array = array![0.0_f32, 0.0];
    File::from_bytes(ten::to_vec(&array![1.0_f32, 2.0]).unwrap()).unwrap().load_into(&mut array).unwrap();
    assert_eq!(array, array![1.0, 2.0]);
}

#[test]
fn a_file_is_loaded_into_arrays_of_another_dtype_or_layout() {
    let mut other = map_of(&net(3.0));
    other.insert("model.cast", array![3_i64]);
    let weight = other.remove("model.embed.weight").unwrap();
    other.insert("model.embed.w", weight);
    let flat = other.remove("model.flat").unwrap();
    other.insert("model.old_flat", flat);
    let mut value = net(1.0);
    File::from_bytes(btf_file(&other)).unwrap().load_into(&mut value).unwrap();
    assert_eq!(value, net(3.0));
}

#[test]
fn a_value_that_a_file_is_not_like_stays() {
    let mut file = map_of(&net(3.0));
    for (name, tensor) in [
        ("model.embed.weight", Tensor::from(array![[1.0_f32]])),
        ("model.any", Tensor::from(array![1_u8])),
        ("model.layers.1.bias", Tensor::from(array![1.0_f32])),
        ("model.layers.2.weight", Tensor::from(array![[1.0_f32]])),
        ("model.by_name.c", Tensor::from(array![1])),
        ("model.step", Tensor::from(array![1_i64])),
    ] {
        file.insert(name, tensor);
    }
    for name in ["model.by_name.a", "model.embed.bias"] {
        file.remove(name);
    }
    let file = File::from_bytes(btf_file(&file)).unwrap();
    let mut value = net(1.0);
    let report = file.report_like(&value);
    assert_eq!(
        report.to_string(),
        "2 missing, 3 unexpected, 1 wrong dtype, 2 wrong shape; 10 of 16 tensors fit\n\
         missing:\n  `model.embed.bias`  f32[2]\n  `model.by_name.a`   i32[1]; did you mean `model.by_name.c`?\n\
         unexpected:\n  `model.layers.1.bias`    f32[1]\n  `model.layers.2.weight`  f32[1, 1]\n  `model.by_name.c`        i32[1]\n\
         wrong dtype (`#[tensor(cast)]` converts numbers):\n  `model.any`  u8[1], but expected f32\n\
         wrong shape:\n  `model.embed.weight`  f32[1, 1], but expected [2, 2]\n  `model.step`          i64[1], but expected rank 0"
    );
    let error = file.load_into(&mut value).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Load(found) if **found == report));
    assert_eq!(value, net(1.0));
}

#[cfg(feature = "safetensors")]
#[test]
fn bools_are_checked_before_they_are_replaced() {
    let mut file = tensorfile::safetensors::to_vec(&BTreeMap::from([("flags", array![true, false])])).unwrap();
    let mut flags = BTreeMap::from([("flags".to_owned(), array![false, true])]);
    File::from_bytes(file.clone()).unwrap().load_into(&mut flags).unwrap();
    assert_eq!(flags["flags"], array![true, false]);
    *file.last_mut().unwrap() = 2;
    let error = message(File::from_bytes(file).unwrap().load_into(&mut flags));
    assert!(error.contains("tensor `flags`: "), "{error}");
}

#[test]
fn a_type_without_a_way_of_its_own_is_replaced() {
    struct Angle(f32);

    impl TensorFile for Angle {
        const NODE: tensorfile::model::Node = f32::NODE;
    }

    impl tensorfile::model::Store for Angle {
        fn store(&self, sink: &mut dyn tensorfile::model::Sink, attrs: &tensorfile::model::FieldAttrs) -> Result<()> {
            self.0.store(sink, attrs)
        }
    }

    impl<'de> FromTensors<'de> for Angle {
        fn load(
            source: &mut dyn tensorfile::model::Source<'de>,
            attrs: &tensorfile::model::FieldAttrs,
        ) -> Result<Self> {
            f32::load(source, attrs).map(Self)
        }
    }

    let file = File::from_bytes(ten::to_vec(&[1.0_f32]).unwrap()).unwrap();
    let mut list = vec![Angle(0.0)];
    assert!(file.load_into(&mut list).is_err(), "a list of numbers is one tensor");
    let file = File::from_bytes(ten_file(&BTreeMap::from([("yaw", 2.0_f32)]))).unwrap();
    let mut map = HashMap::from([("yaw".to_owned(), Angle(0.0))]);
    file.load_into(&mut map).unwrap();
    assert_eq!(map["yaw"].0, 2.0);
}
