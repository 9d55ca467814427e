//! Load reports: their text, and their agreement with loading.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::io::{Read, Seek, SeekFrom};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ndarray::{Array1, Array2, ArrayD};
use tensorfile::model::FromTensors;
use tensorfile::report::LoadReport;
use tensorfile::{
    Arrays, Blob, Category, CooTensor, Dtype, Error, ErrorKind, File, Tensor, TensorFile, TensorInfo, TensorMap, btf,
    ptd, ten,
};

use crate::support::memory::peak;

#[derive(TensorFile, Debug, Default)]
struct Linear {
    weight: Array2<f32>,
    bias: Option<Array1<f32>>,
}

#[derive(TensorFile, Debug)]
struct Mlp {
    embed: Linear,
    layers: Vec<Linear>,
    #[tensor(rename = "lm_head.weight", alias = "out.weight", alias = "out")]
    head: Array2<f32>,
    #[tensor(skip)]
    _steps: usize,
}

#[derive(TensorFile, Debug)]
#[tensor(allow_unknown)]
struct Lenient {
    layers: Vec<Linear>,
    pair: (Array1<f32>, Option<Linear>),
    two: [Linear; 2],
    #[tensor(alias = "out.weight", alias = "out")]
    head: Option<Array2<f32>>,
}

#[derive(TensorFile, Debug)]
struct Adapted {
    #[tensor(transpose, shape = [2, _])]
    weight: Array2<f32>,
    #[tensor(cast)]
    bias: Array1<f32>,
    #[tensor(cast)]
    pair: (Array1<f32>, Array1<i8>),
    #[tensor(shape = [_])]
    layers: Vec<Array1<f32>>,
    #[tensor(shape = [3])]
    out: Option<ArrayD<f32>>,
}

#[derive(TensorFile, Debug)]
struct Flat {
    #[tensor(flatten)]
    linear: Linear,
    #[tensor(flatten)]
    maybe: Option<Scale>,
    head: Array2<f32>,
    #[tensor(default)]
    layers: Vec<Linear>,
}

#[derive(TensorFile, Debug)]
struct Rest {
    #[tensor(flatten)]
    linear: Linear,
    #[tensor(flatten)]
    rest: TensorMap,
}

#[derive(TensorFile, Debug)]
struct Scale {
    scale: f32,
    mean: [f32; 2],
    #[tensor(tied = "scale")]
    std: f32,
}

#[derive(TensorFile, Debug)]
#[tensor(prefix = "layers.0")]
struct Under {
    weight: Array2<f32>,
    #[tensor(default)]
    bias: Array1<f32>,
    #[tensor(default)]
    embed: Linear,
}

#[derive(TensorFile, Debug)]
#[tensor(prefix = "layers", allow_unknown)]
struct UnderLenient {
    #[tensor(rename = "0")]
    first: Linear,
    #[tensor(rename = "1.weight")]
    second: Array2<f32>,
    #[tensor(rename = "1")]
    third: Option<Bias>,
}

#[derive(TensorFile, Debug)]
struct Bias {
    bias: Option<Array1<f32>>,
}

#[derive(TensorFile, Debug)]
struct Tree {
    bias: Array1<f32>,
    out: Option<Box<Tree>>,
    layers: Vec<Tree>,
}

#[derive(TensorFile, Debug)]
struct Maps {
    layers: BTreeMap<String, Linear>,
    embed: BTreeMap<String, Array2<f32>>,
    out: BTreeMap<String, Vec<Bias>>,
    pair: BTreeMap<String, (Bias, Bias)>,
    two: BTreeMap<String, BTreeMap<String, Tensor>>,
}

#[derive(TensorFile, Debug)]
struct Kinds {
    blob: Option<Blob>,
    coo: Option<CooTensor<f32>>,
    any: Option<Tensor>,
    numbers: Vec<f32>,
    number: Option<u8>,
}

#[derive(TensorFile, Debug)]
struct Newtype(#[tensor(cast)] Option<Array1<f64>>);

#[derive(TensorFile, Debug)]
struct Newtypes {
    bias: Newtype,
    out: Vec<Newtype>,
    embed: Empty,
}

#[derive(TensorFile, Debug, Default)]
struct Empty {}

/// Numbers that are the same in each run.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % end
    }

    fn of<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.below(all.len())]
    }
}

const NAMES: &[&str] = &[
    "embed.weight",
    "embed.bias",
    "layers.0.weight",
    "layers.0.bias",
    "layers.1.weight",
    "layers.1.bias",
    "layers.2.weight",
    "layers.10.weight",
    "layers.0",
    "layers.1",
    "layers.3",
    "layers.x",
    "layers",
    "layers.-1.weight",
    "layers.01.weight",
    "lm_head.weight",
    "lm_head",
    "out.weight",
    "out",
    "out.bias",
    "out.0",
    "out.1",
    "out.0.bias",
    "out.x.0.bias",
    "out.x.bias",
    "out.x",
    "out.out.bias",
    "out.layers.0.bias",
    "head",
    "head.weight",
    "weight",
    "bias",
    "scale",
    "mean",
    "std",
    "pair.0",
    "pair.1",
    "pair.1.weight",
    "pair.1.bias",
    "pair.2",
    "pair.x.0.bias",
    "pair",
    "two.0.weight",
    "two.1.weight",
    "two.1.bias",
    "two.2",
    "two.a.b",
    "two.a.c",
    "two.a",
    "two",
    "blob",
    "coo",
    "any",
    "numbers",
    "number",
    "linear",
    "rest",
    "layers.0.embed.weight",
    "layers.0.embed",
    "0",
    "1",
    "2",
    "0.weight",
    "1.weight",
    "1.bias",
    "x.y",
    "embed",
    "embed.a.b",
    "a",
    "b",
];

fn infos() -> Vec<TensorInfo> {
    let f32s = [&[2, 2][..], &[3, 2], &[2], &[3], &[], &[0], &[0, 2]].map(|shape| TensorInfo::new(Dtype::F32, shape));
    let others = [Dtype::F64, Dtype::U8, Dtype::I8, Dtype::Bool, Dtype::QInt8]
        .map(|dtype| TensorInfo::new(dtype, if dtype == Dtype::F64 { &[2, 2][..] } else { &[2] }));
    [f32s.to_vec(), others.to_vec(), vec![TensorInfo::new(Dtype::U8, []), TensorInfo::blob(2)]].concat()
}

fn tensor(info: &TensorInfo) -> Tensor {
    Tensor::new(info.clone(), &vec![0; info.payload_bytes().unwrap()]).unwrap()
}

type Named = Vec<(String, TensorInfo)>;

/// Files that a type can be read from, in the names and dims of its fields.
fn good(texts: &str) -> Named {
    let one = |text: &str| {
        let (name, info) = text.split_once(": ").unwrap();
        let (dtype, dims) = info.split_once('[').unwrap();
        let dims = dims.trim_end_matches(']').split(',').filter(|dim| !dim.is_empty());
        let dims: Vec<usize> = dims.map(|dim| dim.parse().unwrap()).collect();
        (name.to_owned(), TensorInfo::new(dtype.parse().unwrap(), dims))
    };
    texts.split("; ").filter(|text| !text.is_empty()).map(one).collect()
}

fn mutate(file: &mut Named, random: &mut Random) {
    let infos = infos();
    let name = (*random.of(NAMES)).to_owned();
    if file.is_empty() || random.below(4) == 0 {
        return file.insert(random.below(file.len() + 1), (name, random.of(&infos).clone()));
    }
    let at = random.below(file.len());
    match random.below(6) {
        0 => _ = file.remove(at),
        1 => file[at].0 = name,
        2 => file[at].0.push_str([".x", "x", ".0"][random.below(3)]),
        3 => file[at].1 = random.of(&infos).clone(),
        4 => file[at].1.shape = random.of(&infos).shape.clone(),
        _ => {
            let other = random.below(file.len());
            file.swap(at, other);
        }
    }
}

/// Reads a file and makes its report; both must be of the same mind.
fn agree<T: for<'de> FromTensors<'de>>(named: &Named) -> bool {
    let mut names = std::collections::HashSet::new();
    let map: TensorMap =
        named.iter().filter(|(name, _)| names.insert(name)).map(|(name, info)| (name.clone(), tensor(info))).collect();
    let Ok(file) = ptd::to_vec(&map) else { return false };
    let map: TensorMap = ptd::from_slice(&file).unwrap();
    let report = LoadReport::of(&T::schema(), map.iter().map(|(name, tensor)| (Some(name.as_str()), tensor.info())));
    let read = ptd::from_slice::<Arrays<T>>(&file).map(drop);
    let listed = map.iter().fold(String::new(), |mut text, (name, tensor)| {
        writeln!(text, "  {name}: {}", tensor.info()).unwrap();
        text
    });
    let name = std::any::type_name::<T>();
    assert_eq!(report.is_ok(), read.is_ok(), "{name} from\n{listed}{read:?}\n{report}");
    assert_reported("ptd", read, &report);
    assert_reported("ptd", ptd::from_reader::<Arrays<T>>(&file[..]).map(drop), &report);
    if report.is_ok() {
        assert!(report.loaded <= map.len());
    }

    let infos: Vec<TensorInfo> = map.iter().map(|(_, tensor)| tensor.info().clone()).collect();
    if let Ok(file) = btf::to_vec(&map.iter().map(|(_, tensor)| tensor.clone()).collect::<Vec<_>>()) {
        let report = LoadReport::of(&T::schema(), infos.iter().map(|info| (None, info)));
        let read = btf::from_slice::<Arrays<T>>(&file).map(drop);
        assert_eq!(report.is_ok(), read.is_ok(), "{name} from {infos:?}\n{read:?}\n{report}");
        assert_reported("btf", read, &report);
        assert_reported("btf", btf::from_reader::<Arrays<T>>(&file[..]).map(drop), &report);
    }
    report.is_ok()
}

/// Checks that the error of reading is the report, or a more precise error.
fn assert_reported(format: &str, read: tensorfile::Result<()>, report: &LoadReport) {
    let Err(error) = read else { return };
    match error.kind() {
        ErrorKind::Load(found) => assert_eq!(found.to_string(), report.to_string()),
        // In a report, one of the tensors is unexpected or has another layout.
        ErrorKind::RepeatedField { .. } => {}
        _ => {
            assert_eq!(report.count(), 1, "{error}: {report}");
            let expected = format!("{format}: {}", report.refused.as_deref().unwrap_or_default());
            assert_eq!(error.to_string(), expected);
        }
    }
}

#[test]
fn a_report_is_good_where_a_file_can_be_read() {
    fn check<T: for<'de> FromTensors<'de>>(files: &[&str]) {
        let mut random = Random(7);
        let mut good_ones = 0;
        for file in files {
            let file = good(file);
            assert!(agree::<T>(&file), "{} from {file:?}", std::any::type_name::<T>());
            for _ in 0..300 {
                let mut file = file.clone();
                for _ in 0..=random.below(4) {
                    mutate(&mut file, &mut random);
                }
                good_ones += usize::from(agree::<T>(&file));
            }
        }
        assert!(good_ones > 0, "{} is never read", std::any::type_name::<T>());
    }

    const LAYERS: &str = "layers.0.weight: f32[2,2]; layers.0.bias: f32[2]; layers.1.weight: f32[2,2]";
    check::<Mlp>(&[
        &format!("embed.weight: f32[2,2]; embed.bias: f32[2]; {LAYERS}; lm_head.weight: f32[3,2]"),
        "embed.weight: f32[2,2]; out: f32[3,2]",
    ]);
    check::<Lenient>(&[
        &format!("{LAYERS}; pair.0: f32[2]; pair.1.weight: f32[2,2]; two.0.weight: f32[2,2]; two.1.weight: f32[2,2]"),
        "two.1.weight: f32[2,2]; two.0.weight: f32[2,2]; pair.0: f32[1]; out.weight: f32[1,1]; layers.0.weight: f32[1,1]",
    ]);
    check::<Adapted>(&[
        "weight: f32[3,2]; bias: i8[2]; pair.0: u8[2]; pair.1: i8[2]; layers.0: f32[2]; out: f32[3]",
        "bias: f32[2]; weight: f32[2,2]; pair.0: f32[2]; pair.1: f32[0]",
    ]);
    check::<Flat>(&[
        "weight: f32[2,2]; bias: f32[2]; scale: f32[]; mean: f32[2]; std: f32[]; head: f32[2,2]",
        &format!("head: f32[2,2]; weight: f32[2,2]; {LAYERS}"),
    ]);
    check::<Rest>(&["weight: f32[2,2]; a.b: u8[2]", "x: f32[1]; weight: f32[2,2]; bias: f32[2]; y: bool[2]"]);
    check::<Under>(&["layers.0.weight: f32[2,2]; layers.0.bias: f32[2]", "layers.0.weight: f32[2,2]"]);
    check::<UnderLenient>(&[LAYERS, "layers.1.weight: f32[2,2]; layers.0.weight: f32[2,2]; layers.1.bias: f32[2]"]);
    check::<Tree>(&[
        "bias: f32[2]; out.bias: f32[2]; out.layers.0.bias: f32[2]; layers.0.bias: f32[3]",
        "bias: f32[2]",
    ]);
    check::<Maps>(&[
        "layers.0.weight: f32[2,2]; embed.a.b: f32[2,2]; out.x.0.bias: f32[2]; pair.x.0.bias: f32[2]; two.a.b: u8[2]",
        "",
        "two.a.b: u8[2]; two.a.c: f32[2]; out.x: f32[0]; embed.weight: f32[2,2]",
    ]);
    check::<Kinds>(&["numbers: f32[3]; any: u8[2]; number: u8[]", "numbers: f32[0]"]);
    check::<Newtypes>(&["bias: f32[2]; out.0: u8[2]; out.1: f64[2]", ""]);
    check::<Empty>(&["", ""]);
    check::<TensorMap>(&["a: f32[2]; b.c: u8[]"]);
    check::<Array1<f32>>(&["a: f32[2]"]);
    check::<Option<Array1<f32>>>(&["a: f32[2]", ""]);
    check::<Vec<Array1<f32>>>(&["a: f32[2]; b: f32[3]", "0: f32[2]; 1: f32[3]", ""]);
    check::<Vec<Option<Array1<f32>>>>(&["a: f32[2]; b: f32[3]", "0: f32[2]; 1: f32[3]", ""]);
    check::<Vec<[Array1<f32>; 2]>>(&["a: f32[2]; b: f32[3]", "0.0: f32[2]; 0.1: f32[3]", ""]);
    check::<Vec<Linear>>(&["0.weight: f32[2,2]; 1.weight: f32[2,2]; 1.bias: f32[2]", ""]);
    check::<Option<Vec<Linear>>>(&["0.weight: f32[2,2]; 1.weight: f32[2,2]; 1.bias: f32[2]", ""]);
    check::<[Linear; 2]>(&["0.weight: f32[2,2]; 1.weight: f32[2,2]; 1.bias: f32[2]"]);
    check::<(Array1<f32>, Linear)>(&["0: f32[2]; 1.weight: f32[2,2]"]);
    check::<(Array1<f32>, (Array1<f32>, Array2<f32>))>(&["a: f32[2]; b: f32[2]; c: f32[2,2]"]);
    check::<(Linear, Vec<Linear>)>(&["0.weight: f32[2,2]; 1.0.weight: f32[2,2]"]);
    check::<BTreeMap<String, Linear>>(&["a.weight: f32[2,2]; b.weight: f32[2,2]; b.bias: f32[2]", ""]);
}

/// The report on a file in the names and dims that `good` reads.
fn report<T: TensorFile>(file: &str) -> LoadReport {
    let file = good(file);
    LoadReport::of(&T::schema(), file.iter().map(|(name, info)| (Some(name.as_str()), info)))
}

#[test]
fn a_report_reads_well() {
    for (report, expected) in [
        (report::<Linear>("weight: f32[2,2]"), "1 of 1 tensor fits"),
        (
            report::<Lenient>("x: f32[]"),
            "4 missing; 0 of 1 tensor fits
missing:
  `layers.0.weight`  f32[_, _]
  `pair.0`           f32[_]
  `two.*.weight`     f32[_, _] (2 times)",
        ),
        (
            report::<Mlp>(
                "embed.weight: f64[2,2]; embed.bais: f32[2]; layers.0.weight: f32[2]; layers.3.weight: f32[2,2]",
            ),
            "1 missing, 1 unexpected, 1 wrong dtype, 1 wrong shape, 1 gap in a list; 1 of 4 tensors fit
missing:
  `lm_head.weight`  f32[_, _]
unexpected:
  `embed.bais`  f32[2]; did you mean `embed.bias`?
wrong dtype (`#[tensor(cast)]` converts numbers):
  `embed.weight`  f64[2, 2], but expected f32
wrong shape:
  `layers.0.weight`  f32[2], but expected rank 2
gaps in lists:
  `layers.1`  to `layers.2` missing, but `layers.3` is there",
        ),
    ] {
        assert_eq!(report.to_string(), expected);
    }
}

#[test]
fn equal_mismatches_of_items_are_one_line() {
    let mut file = "embed.weight: f32[2,2]; lm_head.weight: f32[2,2]".to_owned();
    for at in 0..32 {
        write!(file, "; layers.{at}.wieght: f32[2,2]; layers.{at}.bias: f32[{at}]").unwrap();
    }
    let report = report::<Mlp>(&file);
    assert_eq!((report.count(), report.missing[7].near.clone()), (64, vec!["layers.7.wieght".to_owned()]));
    assert_eq!(report.unexpected[7].near, ["layers.7.weight"]);
    assert_eq!(
        report.to_string(),
        "32 missing, 32 unexpected; 34 of 66 tensors fit
missing:
  `layers.*.weight`  f32[_, _] (32 times); did you mean `layers.*.wieght`?
unexpected:
  `layers.*.wieght`  f32[2, 2] (32 times)"
    );
}

#[test]
fn long_lists_are_cut() {
    let file: Vec<String> = (0..50).map(|at| format!("x{at}: f32[]")).collect();
    let report = report::<Linear>(&file.join("; ")).to_string();
    assert!(report.ends_with("`x19`  f32[]\n  and 30 more"), "{report}");
    // Tensors that share a line are counted one by one, as in the first line of the report.
    let file: Vec<String> = file.into_iter().chain((0..5).map(|at| format!("y.{at}: f32[]"))).collect();
    let report = self::report::<Linear>(&file.join("; ")).to_string();
    assert!(report.ends_with("`x19`  f32[]\n  and 35 more"), "{report}");
}

#[test]
fn programs_are_told_all() {
    let report = report::<Linear>("weihgt: f32[2,3]; bias: f64[2]");
    assert_eq!(
        serde_json::to_value(&report).unwrap(),
        serde_json::json!({
            "ok": false, "tensors": 2, "loaded": 0, "loaded_bytes": 0,
            "missing": [{ "name": "weight", "expected": "f32[_, _]", "near": ["weihgt"] }],
            "unexpected": [{ "name": "weihgt", "info": { "dtype": "f32", "shape": [2, 3] }, "near": ["weight"] }],
            "wrong_dtype": [{ "name": "bias", "found": { "dtype": "f64", "shape": [2] }, "expected": "f32" }],
            "wrong_shape": [], "codes": [], "wrong_layout": [], "gaps": [], "missing_metadata": [], "invalid_metadata": [],
            "refused": null
        })
    );
}

#[test]
fn an_error_carries_the_report() {
    let report = report::<Linear>("bias: f32[2]");
    let error = Error::from(ErrorKind::Load(Box::new(report.clone())));
    assert_eq!((error.category(), error.to_string()), (Category::Mismatch, report.to_string()));
}

#[test]
fn files_without_names_are_reported_by_position() {
    let infos = [[2, 2].into(), [2].into()].map(|shape: tensorfile::Shape| TensorInfo::new(Dtype::F32, shape));
    let report = |infos: &[TensorInfo]| LoadReport::of(&Scale::schema(), infos.iter().map(|info| (None, info)));
    assert_eq!(
        report(&infos).to_string(),
        "tensor `#0`: the file has f32[2, 2], but expected `scale`: f32[]; 0 of 2 tensors fit"
    );
    let scalar = TensorInfo::new(Dtype::F32, []);
    let good = report(&[scalar.clone(), infos[1].clone(), scalar]);
    assert_eq!((good.is_ok(), good.loaded, good.loaded_bytes), (true, 3, 16));
}

#[test]
fn many_tensors_are_reported() {
    let info = TensorInfo::new(Dtype::F32, [2, 2]);
    let letters = |mut at: usize| {
        let mut name = String::from("encoder.attention.");
        for _ in 0..6 {
            name.push(char::from(b'a' + u8::try_from(at % 10).unwrap()));
            at /= 10;
        }
        name
    };
    #[derive(TensorFile)]
    struct Many {
        layers: Vec<Linear>,
        rest: BTreeMap<String, Linear>,
    }
    let names: Vec<String> = (0..20_000)
        .map(|at| match at % 2 {
            0 => format!("layers.{at}.weight"),
            _ => format!("rest.{}", letters(at)),
        })
        .collect();
    let report = LoadReport::of(&Many::schema(), names.iter().map(|name| (Some(name.as_str()), &info)));
    assert_eq!((report.loaded, report.unexpected.len(), report.gaps.len()), (10_000, 10_000, 9_999));
    assert!(report.to_string().ends_with("and 9979 more"));
}

#[test]
fn the_rest_of_a_stream_is_compared_but_not_held() {
    #[derive(TensorFile, Debug)]
    struct Model {
        a: Array1<f64>,
        b: Array1<f32>,
        c: Array1<f64>,
    }

    const BYTES: usize = 4 << 20;
    let numbers = vec![0.0_f32; BYTES / 4];
    let tensor = |name: &'static str| (name, Tensor::from_slice(&numbers, [numbers.len()]).unwrap());
    let map: TensorMap = ["a", "b", "c", "d"].map(tensor).into_iter().collect();
    let info = "f32[1048576]";
    let expected = format!(
        "1 unexpected, 2 wrong dtype; 1 of 4 tensors fit\nunexpected:\n  `d`  {info}\n\
         wrong dtype (`#[tensor(cast)]` converts numbers):\n  `a`  {info}, but expected f64\n  `c`  {info}, but expected f64"
    );
    for format in crate::support::written_formats().filter(|format| format.max_tensors.is_none()) {
        let name = format.name;
        let file = format.to_vec(&map, &tensorfile::WriteOptions::new().embed_names(true)).unwrap();
        let opened = tensorfile::OpenOptions::new().format(format).from_bytes(file.clone()).unwrap();
        assert_eq!(opened.load::<Model>().unwrap_err().to_string(), format!("{name}: {expected}"));
        assert_eq!(opened.deserialize::<Model>().unwrap_err().to_string(), format!("{name}: {expected}"));
    }
    let file = ten::to_vec(&map).unwrap();
    let (read, peak) = peak(|| ten::from_reader::<Model>(&file[..]));
    let error = read.unwrap_err();
    assert_eq!((error.to_string(), error.category()), (format!("ten: {expected}"), Category::Mismatch));
    assert!(matches!(error.kind(), ErrorKind::Load(_)));
    assert!(peak < BYTES / 4, "{peak}");

    // A file that is cut is not compared: the error is the first difference.
    let error = ten::from_reader::<Model>(&file[..file.len() - 1]).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("ten: tensor `a`: the file has {info}, but expected f64; `#[tensor(cast)]` converts it (at byte 96)")
    );
}

/// A file that counts the bytes that are read.
struct Counting {
    file: std::io::Cursor<Vec<u8>>,
    read: Arc<AtomicU64>,
}

impl Read for Counting {
    fn read(&mut self, bytes: &mut [u8]) -> std::io::Result<usize> {
        let read = self.file.read(bytes)?;
        self.read.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }
}

impl Seek for Counting {
    fn seek(&mut self, to: SeekFrom) -> std::io::Result<u64> {
        self.file.seek(to)
    }
}

#[test]
fn a_large_file_is_compared_before_a_payload_is_read() {
    // The last of the tensors does not fit.
    for (elements, is_large) in [(1 << 10, false), (5 << 20, true)] {
        let map = TensorMap::from_iter([
            ("a", Array1::<f32>::zeros(elements).into_dyn()),
            ("b", Array2::<f32>::zeros((1, 1)).into_dyn()),
        ]);
        let read = Arc::new(AtomicU64::new(0));
        let bytes = ptd::to_vec(&map).unwrap();
        let file = Counting { file: std::io::Cursor::new(bytes), read: Arc::clone(&read) };
        let file = File::from_reader(file).unwrap();
        let opened = read.load(Ordering::Relaxed);
        let report = file.report::<BTreeMap<String, Array1<f32>>>();
        let error = file.load::<BTreeMap<String, Array1<f32>>>().unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Load(found) if **found == report), "{error}");
        assert_eq!(read.load(Ordering::Relaxed) == opened, is_large, "{elements} elements");
    }
}
