//! Derived implementations: each attribute in tensor files and in other serde formats.

use std::fmt::Debug;

use ndarray::{Array, Array1, Array2, ArrayView, ArrayView1, CowArray, Dimension, Ix1, Ix2, array};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tensorfile::report::LoadReport;
use tensorfile::{Category, CooTensor, Element, ErrorKind, Tensor, TensorFile, TensorMap, TensorView, btf, ten};

use crate::support::{btf_file, ten_file, ten_file_of};

/// Sends a value through every format and back.
#[track_caller]
fn assert_round_trips<T: Serialize + DeserializeOwned + PartialEq + Debug>(value: &T) {
    let json = serde_json::to_string(value).unwrap();
    assert_eq!(serde_json::from_str::<T>(&json).unwrap(), *value, "JSON: {json}");
    let postcard = postcard::to_stdvec(value).unwrap();
    assert_eq!(postcard::from_bytes::<T>(&postcard).unwrap(), *value, "postcard");
    let ten = ten_file(value);
    assert_eq!(ten::from_slice::<T>(&ten).unwrap(), *value, "ten");
    assert_eq!(ten::from_reader::<T>(&ten[..]).unwrap(), *value, "ten from a stream");
    let btf = btf_file(value);
    assert_eq!(btf::from_slice::<T>(&btf).unwrap(), *value, "BTF");
}

/// The names that a value has in a file.
fn names<T: Serialize>(value: &T) -> Vec<String> {
    ten::from_slice::<TensorMap>(&ten_file(value)).unwrap().names().map(str::to_owned).collect()
}

/// Returns the error of a file, without the list of names in the file.
fn error<T: DeserializeOwned + Debug>(file: &[u8]) -> String {
    let error = ten::from_slice::<T>(file).unwrap_err().to_string();
    error.split("; the file has").next().unwrap().to_owned()
}

#[derive(TensorFile, Debug, Clone, PartialEq, Default)]
struct Linear {
    weight: Array2<f32>,
    bias: Option<Array1<f32>>,
}

fn linear() -> Linear {
    Linear { weight: array![[1.0, 2.0], [3.0, 4.0]], bias: Some(array![0.5, -0.5]) }
}

#[test]
fn fields_are_names_and_structs_are_prefixes() {
    #[derive(TensorFile, Debug, PartialEq)]
    struct Mlp {
        embed: Linear,
        layers: Vec<Linear>,
        r#type: Array1<u8>,
    }

    let without_bias = Linear { bias: None, ..linear() };
    let mlp = Mlp { embed: linear(), layers: vec![without_bias, linear()], r#type: array![7] };
    let expected = ["embed.weight", "embed.bias", "layers.0.weight", "layers.1.weight", "layers.1.bias", "type"];
    assert_eq!(names(&mlp), expected);
    assert_eq!(
        Mlp::schema().to_string(),
        "embed.weight: f32[_, _]\nembed.bias: f32[_]?\n\
         layers.*.weight: f32[_, _]\nlayers.*.bias: f32[_]?\ntype: u8[_]\n"
    );
    assert_round_trips(&mlp);
}

#[test]
fn newtypes_are_stored_as_their_field() {
    #[derive(TensorFile, Debug, PartialEq)]
    struct Scale(Array1<f64>);

    #[derive(TensorFile, Debug, PartialEq)]
    struct Bias(Option<Scale>);

    #[derive(TensorFile, Debug, PartialEq)]
    struct Norm {
        scale: Scale,
        bias: Bias,
    }

    let norm = Norm { scale: Scale(array![1.0]), bias: Bias(Some(Scale(array![2.0]))) };
    assert_eq!(names(&norm), ["scale", "bias"]);
    assert_round_trips(&norm);
    assert_round_trips(&Norm { bias: Bias(None), ..norm });
}

#[test]
fn tuple_structs_are_numbered() {
    #[derive(TensorFile, Debug, PartialEq)]
    struct Pair(Array1<u8>, #[tensor(skip)] String, Linear, #[tensor(rename = "last")] i32);

    let pair = Pair(array![1], String::new(), linear(), -3);
    assert_eq!(names(&pair), ["0", "2.weight", "2.bias", "last"]);
    assert_round_trips(&pair);
}

#[test]
fn structs_without_fields_hold_no_tensors() {
    #[derive(TensorFile, Debug, PartialEq)]
    struct Unit;

    #[derive(TensorFile, Debug, PartialEq)]
    struct Braces {}

    #[derive(TensorFile, Debug, PartialEq)]
    struct All {
        unit: Unit,
        braces: Braces,
        weight: Array1<f32>,
    }

    assert_round_trips(&Unit);
    let all = All { unit: Unit, braces: Braces {}, weight: array![1.0] };
    assert_eq!(names(&all), ["weight"]);
    assert_round_trips(&all);
}

#[test]
fn rename_and_alias_read_whole_names() {
    #[derive(TensorFile, Debug, PartialEq)]
    struct Model {
        #[tensor(rename = "fc1.weight", alias = "fc.w", alias = "w")]
        head: Array1<f32>,
        fc1: Array1<f32>,
    }

    let model = Model { head: array![0.0], fc1: array![1.0] };
    assert_eq!(names(&model), ["fc1.weight", "fc1"]);
    assert_round_trips(&model);
    for head in ["fc1.weight", "fc.w", "w"] {
        assert_eq!(ten::from_slice::<Model>(&ten_file_of(&[head, "fc1"])).unwrap(), model, "{head}");
        let json = serde_json::to_string(&model).unwrap().replace("fc1.weight", head);
        assert_eq!(serde_json::from_str::<Model>(&json).unwrap(), model, "{head}");
    }
    let twice = serde_json::to_string(&model).unwrap().replace("fc1\"", "w\"");
    assert_eq!(
        serde_json::from_str::<Model>(&twice).unwrap_err().to_string().split(" at").next(),
        Some("duplicate field `fc1.weight`")
    );
}

#[test]
fn rename_all_skips_renamed_fields() {
    #[derive(TensorFile, Debug, PartialEq)]
    #[tensor(rename_all = "camelCase")]
    struct Attention {
        q_proj: Array1<f32>,
        out_proj_bias: Option<Array1<f32>>,
        #[tensor(rename = "k_proj", alias = "key_proj")]
        key: Array1<f32>,
        #[tensor(flatten)]
        v_proj: Linear,
    }

    let attention =
        Attention { q_proj: array![0.0], out_proj_bias: Some(array![1.0]), key: array![2.0], v_proj: linear() };
    assert_eq!(names(&attention), ["qProj", "outProjBias", "k_proj", "weight", "bias"]);
    assert_round_trips(&attention);
}

#[test]
fn tensors_under_two_names_of_a_field_are_a_mismatch() {
    #[derive(TensorFile, Debug)]
    struct Renamed {
        #[tensor(rename = "weight", alias = "w", alias = "kernel")]
        values: Array1<f32>,
    }

    #[derive(TensorFile, Debug)]
    #[tensor(allow_unknown)]
    struct Lenient {
        #[tensor(rename = "weight", alias = "w")]
        values: Option<Array1<f32>>,
    }

    for names in [["weight", "w"], ["w", "weight"], ["kernel", "w"]] {
        let file = ten_file_of(&names);
        for error in [ten::from_slice::<Renamed>(&file), ten::from_reader(&file[..])].map(Result::unwrap_err) {
            assert!(matches!(error.kind(), ErrorKind::RepeatedField { name } if name == "weight"), "{error:?}");
            assert_eq!(error.category(), Category::Mismatch);
            assert_eq!(error.to_string(), "ten: two tensors are for the field `weight`");
        }
    }
    let error = ten::from_slice::<Lenient>(&ten_file_of(&["weight", "w"])).unwrap_err();
    assert_eq!(error.to_string(), "ten: two tensors are for the field `weight`");
}

#[test]
fn unknown_tensors_are_errors_unless_allowed() {
    #[derive(TensorFile, Debug, PartialEq)]
    struct Strict {
        a: Array1<f32>,
    }

    #[derive(TensorFile, Debug, PartialEq)]
    #[tensor(allow_unknown)]
    struct Lenient {
        a: Array1<f32>,
    }

    let file = ten_file_of(&["a", "b.c", "d"]);
    let expected = "ten: 2 unexpected; 1 of 3 tensors fit\nunexpected:\n  `b.c`  f32[1]\n  `d`    f32[1]";
    assert_eq!(error::<Strict>(&file), expected);
    assert_eq!(ten::from_slice::<Lenient>(&file).unwrap(), Lenient { a: array![0.0] });

    let json = r#"{"a": 1, "b": {"c": []}}"#;
    let error = serde_json::from_str::<Strict>(&json.replace('1', &tensor_json())).unwrap_err().to_string();
    assert_eq!(error.split(" at").next(), Some("unknown field `b`, expected `a`"));
    assert_eq!(
        serde_json::from_str::<Lenient>(&json.replace('1', &tensor_json())).unwrap(),
        Lenient { a: array![0.0] }
    );
    assert_round_trips(&Lenient { a: array![1.0] });
}

fn tensor_json() -> String {
    serde_json::to_string(&Tensor::from_slice(&[0.0_f32], [1]).unwrap()).unwrap()
}

#[test]
fn a_missing_tensor_is_an_error() {
    let expected = "ten: 1 missing; 1 of 1 tensor fits\nmissing:\n  `weight`  f32[_, _]";
    assert_eq!(error::<Linear>(&ten_file_of(&["bias"])), expected);
    let error = serde_json::from_str::<Linear>("{}").unwrap_err().to_string();
    assert_eq!(error.split(" at").next(), Some("missing field `weight`"));
    let error = serde_json::from_str::<Linear>("[]").unwrap_err().to_string();
    assert_eq!(error.split(" at").next(), Some("invalid length 0, expected struct Linear"));
}

fn ones() -> Array1<f32> {
    Array1::ones(3)
}

#[test]
fn default_fills_missing_tensors() {
    #[derive(TensorFile, Debug, PartialEq)]
    struct Norm {
        scale: Array1<f32>,
        #[tensor(default)]
        shift: Array1<f32>,
        #[tensor(default = "ones")]
        mean: Array1<f32>,
        #[tensor(default = self::ones, alias = "v", cast)]
        variance: Array1<f32>,
        #[tensor(default)]
        linear: Linear,
    }

    let read: Norm = ten::from_slice(&ten_file_of(&["scale"])).unwrap();
    let norm = Norm {
        scale: array![0.0],
        shift: Array1::default(0),
        mean: ones(),
        variance: ones(),
        linear: Linear::default(),
    };
    assert_eq!(read, norm);
    assert_eq!(serde_json::from_str::<Norm>(&format!("{{\"scale\": {}}}", tensor_json())).unwrap(), norm);
    assert_eq!(serde_json::from_str::<Norm>(&format!("[{}]", tensor_json())).unwrap(), norm);
    let read: Norm = ten::from_slice(&ten_file_of(&["scale", "v", "shift"])).unwrap();
    assert_eq!((read.variance, read.shift), (array![1.0], array![2.0]));
    let expected = "ten: 1 missing; 2 of 2 tensors fit\nmissing:\n  `linear.weight`  f32[_, _]";
    assert_eq!(error::<Norm>(&ten_file_of(&["scale", "linear.bias"])), expected);
    assert_round_trips(&norm);
}

#[test]
fn skipped_fields_are_not_in_the_file() {
    #[derive(Debug, PartialEq, Default)]
    struct Cache(Vec<String>);

    fn seven() -> Cache {
        Cache(vec!["7".to_owned()])
    }

    #[derive(TensorFile, Debug, PartialEq)]
    struct Model {
        #[tensor(skip)]
        cache: Cache,
        weight: Array1<f32>,
        #[tensor(skip, default = "seven")]
        seven: Cache,
    }

    let model = Model { cache: Cache::default(), weight: array![0.0], seven: seven() };
    assert_eq!(names(&model), ["weight"]);
    assert_round_trips(&model);
    let expected = "ten: 1 unexpected; 1 of 2 tensors fit\nunexpected:\n  `cache`  f32[1]";
    assert_eq!(error::<Model>(&ten_file_of(&["weight", "cache"])), expected);
}

#[test]
fn arrays_of_flattened_lists_and_maps_are_adapted() {
    #[derive(Debug, PartialEq, TensorFile)]
    struct Model {
        #[tensor(flatten, cast, shape = [2])]
        items: Vec<Array1<f32>>,
        norm: Array1<f32>,
    }

    let file = |map: &TensorMap| ten::to_vec(map).unwrap();
    let map = |items: [Tensor; 2]| -> TensorMap {
        let norm = Tensor::from_slice(&[0.5_f32], [1]).unwrap();
        let [one, two] = items;
        [("0", one), ("1", two), ("norm", norm)].into_iter().collect()
    };
    let halves = |values: &[f32]| {
        let halves: Vec<_> = values.iter().copied().map(half::f16::from_f32).collect();
        Tensor::from_slice(&halves, [values.len()]).unwrap()
    };
    let model: Model = ten::from_slice(&file(&map([halves(&[1.0, 2.0]), halves(&[3.0, 4.0])]))).unwrap();
    assert_eq!(model.items, [array![1.0, 2.0], array![3.0, 4.0]]);
    let error = ten::from_slice::<Model>(&file(&map([halves(&[1.0, 2.0]), halves(&[3.0])]))).unwrap_err();
    assert_eq!(
        error.to_string(),
        "ten: 1 wrong shape; 2 of 3 tensors fit\nwrong shape:\n  `#1`  f16[1], but expected [2]"
    );
    let schema = Model::schema().to_string();
    assert_eq!(schema, "*: any[2]\nnorm: f32[_]\n");
}

#[test]
fn flattened_fields_share_the_names() {
    #[derive(TensorFile, Debug, PartialEq)]
    struct Model {
        #[tensor(flatten)]
        linear: Linear,
        scale: Array1<f32>,
        #[tensor(flatten)]
        rest: TensorMap,
    }

    let rest =
        [("weights", Tensor::from_slice(&[1_u8], [1]).unwrap()), ("a.b", Tensor::from_slice(&[2_i64], []).unwrap())];
    let model = Model { linear: linear(), scale: array![1.0], rest: rest.into_iter().collect() };
    assert_eq!(names(&model), ["weight", "bias", "scale", "weights", "a.b"]);
    assert_round_trips(&model);
}

#[test]
fn a_prefix_is_a_struct_around() {
    #[derive(TensorFile, Debug, PartialEq)]
    #[tensor(prefix = "model.bert", rename_all = "UPPERCASE")]
    struct Bert<A: Element> {
        embed: Array1<A>,
        #[tensor(flatten)]
        linear: Linear,
        #[tensor(skip)]
        hits: usize,
        #[tensor(rename = "x.y", default)]
        extra: Array1<f32>,
    }

    #[derive(TensorFile, Debug, PartialEq)]
    #[tensor(prefix = "scale", allow_unknown)]
    struct Scale(#[tensor(transpose)] Array2<f32>);

    #[derive(TensorFile, Debug, PartialEq)]
    struct Both {
        bert: Bert<i16>,
        scale: Scale,
    }

    let bert = || Bert { embed: array![1, 2], linear: linear(), hits: 0, extra: array![] };
    let expected = ["model.bert.EMBED", "model.bert.weight", "model.bert.bias", "model.bert.x.y"];
    assert_eq!(names(&bert()), expected);
    assert_eq!(
        Bert::<i16>::schema().to_string(),
        "model.bert.EMBED: i16[_]\nmodel.bert.weight: f32[_, _]\nmodel.bert.bias: f32[_]?\nmodel.bert.x.y: f32[_]?\n"
    );
    assert_round_trips(&bert());
    let both = Both { bert: bert(), scale: Scale(array![[1.0], [2.0]]) };
    assert_eq!(names(&both)[4], "scale.scale");
    assert_round_trips(&both);
}

#[test]
fn allow_unknown_holds_within_the_prefix_and_around_it() {
    #[derive(TensorFile, Debug, PartialEq)]
    #[tensor(prefix = "bert", allow_unknown)]
    struct Bert {
        a: Array1<f32>,
    }

    let read: Bert = ten::from_slice(&ten_file_of(&["head", "bert.b", "bert.a", "bertha"])).unwrap();
    assert_eq!(read, Bert { a: array![2.0] });
}

#[test]
fn cast_transpose_and_shape_adapt_arrays() {
    const WIDTH: usize = 1;

    #[derive(TensorFile, Debug, PartialEq)]
    struct Layer<const OUT: usize> {
        #[tensor(transpose, shape = [WIDTH + 1, OUT])]
        weight: Array2<f64>,
        #[tensor(cast)]
        bias: Option<Array1<f64>>,
        #[tensor(shape = [_])]
        any: Vec<Array1<u8>>,
    }

    let layer = |weight: Array2<f64>| Layer::<3> { weight, bias: Some(array![1.0]), any: vec![array![1], array![]] };
    let good = layer(array![[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]);
    assert_eq!(Layer::<3>::schema().to_string(), "weight: f64[3, 2]\nbias: any[_]?\nany.*: u8[_]\n");
    let map: TensorMap = ten::from_slice(&ten_file(&good)).unwrap();
    assert_eq!(map["weight"].array::<f64>().unwrap(), array![[1.0, 4.0], [2.0, 5.0], [3.0, 6.0]].into_dyn());
    assert_round_trips(&good);

    #[derive(TensorFile)]
    struct Narrow {
        weight: Array2<f64>,
        bias: Array1<f32>,
    }

    let narrow = Narrow { weight: good.weight.t().to_owned(), bias: array![1.0] };
    let read: Layer<3> = ten::from_slice(&ten_file(&narrow)).unwrap();
    assert_eq!(read, Layer { any: vec![], ..good });
    let narrow = Narrow { weight: array![[1.0]], bias: array![1.0] };
    assert_eq!(
        error::<Layer<3>>(&ten_file(&narrow)),
        "ten: 1 wrong shape; 1 of 2 tensors fit\nwrong shape:\n  `weight`  f64[1, 1], but expected [3, 2]"
    );
}

#[test]
fn cast_on_a_struct_is_for_its_arrays() {
    #[derive(TensorFile, Debug, PartialEq)]
    struct Inner {
        bias: Array1<f32>,
    }

    #[derive(TensorFile, Debug, PartialEq)]
    #[tensor(cast)]
    struct Scale(Array1<f32>);

    #[derive(TensorFile, Debug, PartialEq)]
    #[tensor(cast, prefix = "model")]
    struct Model {
        #[tensor(transpose)]
        weight: Array2<f32>,
        layers: Vec<Option<Array1<f64>>>,
        step: u64,
        scale: Scale,
        inner: Inner,
        raw: Tensor,
        sparse: Option<CooTensor<f32>>,
    }

    fn map<A: Element>(numbers: [A; 2], bias: Tensor) -> TensorMap {
        let tensor = |len: usize| Tensor::from_slice(&numbers[..len], [len]).unwrap();
        let step = Tensor::from_slice(&numbers[1..], []).unwrap();
        let weight = Tensor::from_slice(&numbers, [2, 1]).unwrap();
        let raw = Tensor::from_slice(&numbers, [2]).unwrap();
        let tensors = [weight, tensor(1), step, tensor(2), bias, raw];
        let names = ["weight", "layers.0", "step", "scale", "inner.bias", "raw"].map(|name| format!("model.{name}"));
        names.into_iter().zip(tensors).collect()
    }

    let bias = Tensor::from_slice(&[0.5_f32], [1]).unwrap();
    let halves = ten_file(&map([1.0, 2.0].map(half::f16::from_f32), bias.clone()));
    for file in [&halves, &ten_file(&map([1_i32, 2], bias.clone())), &ten_file(&map([1.0_f64, 2.0], bias))] {
        let read: Model = ten::from_slice(file).unwrap();
        assert_eq!(read, ten::from_reader::<Model>(&file[..]).unwrap());
        assert_eq!((&read.weight, &read.layers, read.step), (&array![[1.0, 2.0]], &vec![Some(array![1.0])], 2));
        assert_eq!((&read.scale.0, &read.inner.bias), (&array![1.0, 2.0], &array![0.5]));
        assert_ne!(read.raw.dtype(), f32::DTYPE, "a `Tensor` is not cast");
    }
    // Neither a struct inside nor a sparse tensor.
    let sparse = CooTensor::new([1, 2], vec![0, 1], vec![half::f16::ONE]).unwrap().to_tensor();
    let bias = Tensor::from_slice(&[half::f16::ONE; 2], [2]).unwrap();
    let mut halves = map([1.0, 2.0].map(half::f16::from_f32), bias);
    halves.insert("model.sparse", sparse);
    let infos = halves.infos().map(|(name, info)| (Some(name), info));
    assert_eq!(
        LoadReport::of(&Model::schema(), infos).to_string(),
        "2 wrong dtype; 5 of 7 tensors fit\nwrong dtype (`#[tensor(cast)]` converts numbers):\n  \
         `model.inner.bias`  f16[2], but expected f32\n  \
         `model.sparse`      f16[1, 2] in COO layout with 1 values, but expected f32"
    );
}

#[test]
fn views_are_not_cast() {
    #[derive(TensorFile, Debug)]
    #[tensor(cast)]
    struct View<'a> {
        weight: ArrayView1<'a, f32>,
    }

    #[derive(TensorFile, Debug)]
    #[tensor(cast)]
    struct Copied<'a> {
        weight: CowArray<'a, f32, Ix1>,
    }

    let file = ten_file(&TensorMap::from_iter([("weight", array![1_i32, 2])]));
    assert_eq!(ten::from_slice::<Copied<'_>>(&file).unwrap().weight, array![1.0, 2.0]);
    assert_eq!(
        ten::from_slice::<View<'_>>(&file).unwrap_err().to_string(),
        "ten: tensor `weight`: cannot borrow i32 as f32, which is a cast; use an owned array or a `CowArray` (at byte 96)"
    );
}

#[test]
fn generic_structs_own_or_borrow() {
    #[derive(TensorFile, Debug, PartialEq)]
    struct Owned<A, D: Dimension> {
        weight: Array<A, D>,
    }

    #[derive(TensorFile, Debug, PartialEq)]
    struct View<'a, A, D: Dimension> {
        weight: ArrayView<'a, A, D>,
    }

    #[derive(TensorFile, Debug, PartialEq)]
    struct Cow<'a, T: Element> {
        weight: CowArray<'a, T, Ix2>,
    }

    #[derive(TensorFile, Debug, PartialEq)]
    struct Plain<'a, 'b> {
        weight: ArrayView<'a, u16, Ix2>,
        #[tensor(default)]
        other: Option<TensorView<'b>>,
    }

    #[derive(TensorFile, Debug, PartialEq)]
    struct Pair<T> {
        first: T,
        all: [T; 2],
    }

    let owned = Owned { weight: array![[1_u16, 2], [3, 4]] };
    assert_round_trips(&owned);
    let file = ten_file(&owned);
    let view: View<'_, u16, Ix2> = ten::from_slice(&file).unwrap();
    assert_eq!(view.weight, owned.weight);
    assert!(file.as_ptr_range().contains(&view.weight.as_ptr().cast()), "the view borrows from the file");
    let plain: Plain<'_, '_> = ten::from_slice(&file).unwrap();
    assert_eq!(plain, Plain { weight: view.weight, other: None });
    let cow: Cow<'_, u16> = ten::from_slice(&file).unwrap();
    assert!(cow.weight.is_view());
    let pair =
        Pair { first: Owned::<_, Ix1> { weight: array![1.5] }, all: [(); 2].map(|()| Owned { weight: array![] }) };
    assert_eq!(names(&pair), ["first.weight", "all.0.weight", "all.1.weight"]);
    assert_round_trips(&pair);
}

#[test]
fn structs_that_cannot_be_read_are_written() {
    #[derive(TensorFile)]
    #[tensor(write_only, prefix = "view")]
    struct View<'a> {
        weight: ndarray::ArrayViewMut1<'a, f32>,
        name: &'a Array1<u8>,
        list: &'a [ArrayView1<'a, u8>],
    }

    let (mut weight, name) = (array![1.0, 2.0], array![1]);
    let view = View { weight: weight.view_mut(), name: &name, list: &[name.view()] };
    assert_eq!(names(&view), ["view.weight", "view.name", "view.list.0"]);
    assert_eq!(View::schema().to_string(), "view.weight: f32[_]\nview.name: u8[_]\nview.list.*: u8[_]\n");
}

#[test]
fn recursive_structs_are_read_by_name() {
    #[derive(TensorFile, Debug, PartialEq)]
    struct Tree<A> {
        value: Array1<A>,
        left: Option<Box<Tree<A>>>,
        rest: Vec<Self>,
    }

    let leaf = |value: f32| Tree { value: array![value], left: None, rest: vec![] };
    let tree = Tree { left: Some(Box::new(leaf(2.0))), rest: vec![leaf(3.0), leaf(4.0)], ..leaf(1.0) };
    assert_eq!(names(&tree), ["value", "left.value", "rest.0.value", "rest.1.value"]);
    assert_round_trips(&tree);
}

#[test]
fn files_without_names_are_read_by_position() {
    #[derive(TensorFile, Debug, PartialEq)]
    struct Mlp {
        #[tensor(alias = "e")]
        embed: Linear,
        #[tensor(flatten)]
        inner: Linear2,
        #[tensor(skip)]
        hits: usize,
    }

    #[derive(TensorFile, Debug, PartialEq)]
    #[tensor(prefix = "inner")]
    struct Linear2 {
        mask: Array2<u8>,
        scale: f64,
    }

    let mlp = Mlp { embed: linear(), inner: Linear2 { mask: array![[1], [0]], scale: 0.25 }, hits: 0 };
    let file = btf::to_vec(&mlp).unwrap();
    assert_eq!(btf::from_slice::<Mlp>(&file).unwrap(), mlp);
    let without = Mlp { embed: Linear { bias: None, ..linear() }, ..mlp };
    assert_eq!(btf::from_slice::<Mlp>(&btf::to_vec(&without).unwrap()).unwrap(), without);
}

#[test]
fn a_type_that_is_flattened_into_itself_ends() {
    #[derive(TensorFile, Debug)]
    struct Endless {
        #[allow(dead_code, reason = "what matters is that it is looked for")]
        x: Option<Array1<f32>>,
        #[tensor(flatten)]
        #[allow(dead_code, reason = "as above")]
        inner: Option<Box<Endless>>,
        #[tensor(flatten)]
        #[allow(dead_code, reason = "as above")]
        rest: TensorMap,
    }

    // The innermost value could have any tensor.
    let file = ten_file_of(&["y"]);
    let error = ten::from_slice::<Endless>(&file).unwrap_err();
    let expected = "ten: number of structs flattened into each other is 129, but the limit is 128";
    assert_eq!(error.to_string(), expected);
}
