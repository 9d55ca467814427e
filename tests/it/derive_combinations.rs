//! Combinations of attributes. Random values of these types are saved and loaded in every format, from memory and
//! streams, with and without serde, and compared with their load report.

use std::any::type_name;
use std::collections::BTreeMap;
use std::fmt::Debug;

use ndarray::{Array1, Array2, array};
use serde::de::DeserializeOwned;
use tensorfile::format::Deserializer;
use tensorfile::model::FromTensors;
use tensorfile::report::LoadReport;
use tensorfile::{ErrorKind, File, Format, Tensor, TensorFile, TensorMap, WriteOptions, btf, ten};

use crate::support::{multi_tensor_formats, ten_file, ten_file_of};

/// Numbers that are the same in each run.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % end
    }
}

/// Names that a value may have, if it is flattened.
#[derive(Clone, Copy, PartialEq)]
enum Names {
    None,
    Weight,
    Down,
    Deep,
    Index,
    Any,
}

trait Sample: for<'de> FromTensors<'de> + DeserializeOwned + serde::Serialize + PartialEq + Debug {
    const NAMES: Names = Names::None;

    fn sample(random: &mut Random) -> Self;
}

impl Sample for Array1<f32> {
    fn sample(random: &mut Random) -> Self {
        Self::from_shape_fn(1 + random.below(3), |at| at as f32 + random.below(9) as f32)
    }
}

impl Sample for Array2<i32> {
    fn sample(random: &mut Random) -> Self {
        Self::from_elem((1, 1 + random.below(2)), 7)
    }
}

impl<T: Sample> Sample for Option<T> {
    const NAMES: Names = T::NAMES;

    /// `Some` of nothing is `None` in a file.
    fn sample(random: &mut Random) -> Self {
        if random.below(2) == 0 {
            return None;
        }
        let value = T::sample(random);
        let is_empty = ten::from_slice::<TensorMap>(&ten_file(&Lenient { a: &value })).unwrap().is_empty();
        (!is_empty).then_some(value)
    }
}

/// Any value as a field.
#[derive(TensorFile)]
#[tensor(write_only)]
struct Lenient<'a, T: TensorFile> {
    a: &'a T,
}

impl<T: Sample> Sample for Box<T> {
    const NAMES: Names = T::NAMES;

    fn sample(random: &mut Random) -> Self {
        Box::new(T::sample(random))
    }
}

impl<T: Sample> Sample for Vec<T> {
    const NAMES: Names = Names::Index;

    /// Items without tensors are refused.
    fn sample(random: &mut Random) -> Self {
        let items: Vec<T> = (0..random.below(3)).map(|_| T::sample(random)).collect();
        if ten::to_vec(&items).is_ok() { items } else { Vec::new() }
    }
}

impl<T: Sample> Sample for BTreeMap<String, T> {
    const NAMES: Names = Names::Any;

    /// Entries without tensors leave no name.
    fn sample(random: &mut Random) -> Self {
        let keys = ["m", "n.o", "bias.z", "last.x", "items.y"]
            .into_iter()
            .filter(|_| random.below(2) == 0)
            .collect::<Vec<_>>();
        let map: Self = keys.into_iter().map(|key| (key.to_owned(), T::sample(random))).collect();
        let is_lost = map
            .values()
            .any(|value| ten::from_slice::<TensorMap>(&ten_file(&Lenient { a: value })).unwrap().is_empty());
        if is_lost || ten::Options::new().embed_names(true).to_vec(&map).is_err() { Self::new() } else { map }
    }
}

impl<A: Sample, B: Sample> Sample for (A, B) {
    const NAMES: Names = Names::Index;

    fn sample(random: &mut Random) -> Self {
        (A::sample(random), B::sample(random))
    }
}

macro_rules! samples {
    ($($names:ident: $(#[$attribute:meta])* struct $name:ident $(<$($generic:ident),*>)? {
        $($(#[$of_field:meta])* $field:ident: $ty:ty,)*
    })*) => {$(
        #[derive(TensorFile, Debug, PartialEq)]
        $(#[$attribute])*
        struct $name $(<$($generic),*>)? {
            $($(#[$of_field])* $field: $ty,)*
        }

        impl $(<$($generic: Sample),*>)? Sample for $name $(<$($generic),*>)? {
            const NAMES: Names = Names::$names;

            fn sample(random: &mut Random) -> Self {
                Self { $($field: <$ty>::sample(random),)* }
            }
        }
    )*};
}

samples! {
    Weight: struct Linear {
        weight: Array2<i32>,
        bias: Option<Array1<f32>>,
    }

    Down: #[tensor(rename_all = "camelCase")] struct Lora {
        #[tensor(alias = "down")]
        down_proj: Array1<f32>,
        #[tensor(rename = "up.weight")]
        up: Array2<i32>,
    }

    Deep: struct Deep {
        deep: Linear,
        layers: Vec<Lora>,
        maybe: Option<Array1<f32>>,
    }

    Deep: #[tensor(prefix = "inner")] struct Prefixed {
        #[tensor(flatten)]
        lora: Option<Lora>,
        #[tensor(flatten)]
        linear: Option<Linear>,
    }

    None: struct Plain<A, B> {
        a: A,
        #[tensor(rename = "x.y", alias = "z")]
        b: B,
    }

    Weight: struct Flat<A, B> {
        #[tensor(flatten)]
        first: A,
        #[tensor(flatten)]
        second: B,
    }

    None: struct Around<A, B> {
        #[tensor(flatten)]
        first: A,
        last: Array1<f32>,
        #[tensor(flatten)]
        second: B,
        items: Vec<Linear>,
    }
}

/// Reads a file in every way. All must agree with the report.
fn read<T: Sample>(format: &'static Format, file: &[u8]) -> Result<T, String> {
    let with = |mut deserializer: Deserializer<'_>| {
        let value = T::deserialize(&mut deserializer)?;
        deserializer.end().map(|()| value)
    };
    let wrapped = |mut deserializer: Deserializer<'_>| {
        let value = serde_path_to_error::deserialize::<_, T>(&mut deserializer).map_err(|error| error.into_inner())?;
        deserializer.end().map(|()| value)
    };
    let open = File::from_bytes(file.to_vec()).unwrap();
    let loaded = open.load::<T>();
    let report = open.report::<T>();
    let what = format!("{} in {}:\n{report}\n{loaded:?}", type_name::<T>(), format.name);
    assert_eq!(report.is_ok(), loaded.is_ok(), "{what}");
    for (road, other) in [
        ("memory", with(Deserializer::from_slice(format, file))),
        ("stream", with(Deserializer::from_reader(format, file))),
        ("serde", wrapped(Deserializer::from_slice(format, file))),
        ("serde from a stream", wrapped(Deserializer::from_reader(format, file))),
    ] {
        assert_eq!(loaded.as_ref().ok(), other.as_ref().ok(), "{road}, {other:?}: {what}");
    }
    loaded.map_err(|error| error.to_string())
}

fn write<T: Sample>(format: &Format, value: &T) -> tensorfile::Result<Vec<u8>> {
    let embed = matches!(format.name, "btf" | "ten");
    format.to_vec(&tensorfile::SerdeValue(value), &WriteOptions::new().embed_names(embed))
}

fn round_trip<T: Sample>(random: &mut Random) {
    for _ in 0..3 {
        let value = T::sample(random);
        for format in multi_tensor_formats() {
            let file = write(format, &value).unwrap_or_else(|error| panic!("{value:?} as {}: {error}", format.name));
            let read = read::<T>(format, &file);
            assert_eq!(read.as_ref(), Ok(&value), "{} in {}", type_name::<T>(), format.name);
        }
        let json = serde_json::to_string(&value).unwrap();
        assert_eq!(serde_json::from_str::<T>(&json).unwrap(), value, "{json}");
        // Without names, the dtypes and ranks decide. What they leave open is an error, and never another value.
        match btf::from_slice::<T>(&btf::to_vec(&value).unwrap()) {
            Ok(read) => assert_eq!(read, value, "{} by position", type_name::<T>()),
            Err(error) => match error.kind() {
                ErrorKind::Ambiguous => {}
                ErrorKind::Unsupported { what, .. } if what.ends_with("by position") => {}
                _ => panic!("{} by position: {error}: {value:?}", type_name::<T>()),
            },
        }
    }
}

/// Calls `$check` with all pairs of the types.
macro_rules! pairs {
    ($check:ident, $random:expr; $($ty:ty),* $(,)?) => { pairs!(@ $check, $random; [$($ty),*] [$($ty),*]) };
    (@ $check:ident, $random:expr; [$($first:ty),*] $all:tt) => { $(pairs!(@@ $check, $random; $first, $all);)* };
    (@@ $check:ident, $random:expr; $first:ty, [$($second:ty),*]) => { $($check::<$first, $second>($random);)* };
}

#[test]
fn flattened_fields_come_back_in_any_order() {
    fn check<A: Sample, B: Sample>(random: &mut Random) {
        // Two values with the same names cannot be told apart.
        if A::NAMES != B::NAMES {
            round_trip::<Around<A, B>>(random);
            round_trip::<Plain<Flat<A, B>, Option<Flat<A, B>>>>(random);
        }
    }

    pairs! {
        check, &mut Random(1);
        Linear, Option<Lora>, Option<Box<Deep>>, Box<Option<Prefixed>>, Option<Vec<Linear>>,
        BTreeMap<String, Array1<f32>>, Option<BTreeMap<String, Array2<i32>>>,
    }
}

#[test]
fn named_fields_come_back_in_any_order() {
    fn check<A: Sample, B: Sample>(random: &mut Random) {
        round_trip::<Plain<A, B>>(random);
    }

    pairs! {
        check, &mut Random(2);
        Option<Array1<f32>>, Vec<Option<Linear>>, BTreeMap<String, Option<Array1<f32>>>, Option<Option<Linear>>,
        (Option<Linear>, Vec<Lora>), Option<Prefixed>, Vec<Vec<Deep>>,
    }
}

/// The fields of a `Layer` in both orders, with a struct and with a map next to the options.
#[derive(TensorFile, Debug, PartialEq)]
struct LoraFirst {
    #[tensor(flatten)]
    lora: Option<Lora>,
    #[tensor(flatten)]
    base: Linear,
}

#[derive(TensorFile, Debug, PartialEq)]
#[tensor(allow_unknown)]
struct LenientLora {
    #[tensor(flatten)]
    lora: Option<Lora>,
    #[tensor(flatten)]
    linear: Option<Linear>,
    head: Array1<f32>,
}

#[derive(TensorFile, Debug, PartialEq)]
struct RestFirst {
    #[tensor(flatten)]
    rest: TensorMap,
    #[tensor(flatten)]
    lora: Option<Lora>,
    #[tensor(flatten)]
    base: Option<Linear>,
}

fn file_of(names: &[(&str, &[usize])]) -> Vec<u8> {
    let tensor = |shape: &[usize]| match shape.len() {
        1 => Tensor::from_slice(&[1.0_f32], shape.to_vec()).unwrap(),
        _ => Tensor::from_slice(&[1_i32], shape.to_vec()).unwrap(),
    };
    ten_file(&names.iter().map(|(name, shape)| (*name, tensor(shape))).collect::<TensorMap>())
}

#[test]
fn a_flattened_option_is_there_if_one_of_its_names_is() {
    let base = || Linear { weight: array![[1]], bias: None };
    let lora = || Lora { down_proj: array![1.0], up: array![[1]] };
    for format in multi_tensor_formats() {
        let value = LoraFirst { lora: None, base: base() };
        let embed = matches!(format.name, "btf" | "ten");
        let file = format.to_vec(&value, &WriteOptions::new().embed_names(embed)).unwrap();
        assert_eq!(File::from_bytes(file).unwrap().load::<LoraFirst>().unwrap(), value, "{}", format.name);
    }
    // By position too: one tensor is too few for both.
    let value = LoraFirst { lora: None, base: base() };
    assert_eq!(btf::from_slice::<LoraFirst>(&btf::to_vec(&value).unwrap()).unwrap(), value);

    // Any of the names, and aliases.
    let file = file_of(&[("down", &[1]), ("up.weight", &[1, 1]), ("weight", &[1, 1])]);
    let value = LoraFirst { lora: Some(lora()), base: base() };
    assert_eq!(ten::from_slice::<LoraFirst>(&file).unwrap(), value);
    // One name without the others is a mistake.
    let error = ten::from_slice::<LoraFirst>(&file_of(&[("up.weight", &[1, 1]), ("weight", &[1, 1])])).unwrap_err();
    assert_eq!(error.to_string(), "ten: 1 missing; 2 of 2 tensors fit\nmissing:\n  `downProj`  f32[_]");
    // A name that only begins like one of these is unexpected.
    let error = ten::from_slice::<LoraFirst>(&file_of(&[("up.bias", &[1]), ("weight", &[1, 1])])).unwrap_err();
    assert_eq!(
        error.to_string(),
        "ten: 1 unexpected; 1 of 2 tensors fit\nunexpected:\n  `up.bias`  f32[1]; did you mean `bias`?"
    );

    // Unknown tensors do not belong to an option.
    let file = file_of(&[("step", &[1]), ("head", &[1]), ("up.bias", &[1])]);
    let value = LenientLora { lora: None, linear: None, head: array![1.0] };
    assert_eq!(ten::from_slice::<LenientLora>(&file).unwrap(), value);

    // A map takes the remaining tensors, at any place in the struct.
    let file = file_of(&[("a", &[1]), ("weight", &[1, 1]), ("downProj", &[1]), ("up.weight", &[1, 1])]);
    let read = ten::from_slice::<RestFirst>(&file).unwrap();
    assert_eq!((read.rest.names().collect::<Vec<_>>(), read.lora, read.base), (vec!["a"], Some(lora()), Some(base())));
}

#[derive(TensorFile, Debug, PartialEq)]
struct Layer {
    weight: Array1<f32>,
}

#[derive(TensorFile, Debug, PartialEq)]
struct Encoder {
    layers: Vec<Layer>,
}

#[derive(TensorFile, Debug, PartialEq)]
#[tensor(allow_unknown)]
struct Lists {
    layers: Vec<Layer>,
}

#[derive(TensorFile, Debug, PartialEq)]
#[tensor(allow_unknown)]
struct Nested {
    encoder: Encoder,
}

#[derive(TensorFile, Debug, PartialEq)]
#[tensor(allow_unknown)]
struct Maps {
    heads: BTreeMap<String, Array1<f32>>,
}

#[derive(TensorFile, Debug, PartialEq)]
#[tensor(allow_unknown)]
struct Biases {
    biases: Vec<Option<Array1<f32>>>,
}

#[derive(TensorFile, Debug, PartialEq)]
#[tensor(allow_unknown)]
struct Optional {
    head: Array1<f32>,
    layers: Option<Vec<Layer>>,
    #[tensor(default)]
    blocks: Vec<Layer>,
    #[tensor(flatten)]
    rest: BTreeMap<String, Array1<f32>>,
}

#[derive(TensorFile, Debug, PartialEq)]
#[tensor(allow_unknown)]
struct AllOptional {
    head: Option<Array1<f32>>,
    layers: Option<Vec<Layer>>,
}

#[derive(TensorFile, Debug, PartialEq)]
#[tensor(allow_unknown)]
struct Strict {
    head: Array1<f32>,
    encoder: Encoder,
}

impl Sample for Layer {
    fn sample(random: &mut Random) -> Self {
        Self { weight: Array1::sample(random) }
    }
}

macro_rules! never_sampled {
    ($($ty:ty),*) => {$(
        impl Sample for $ty {
            fn sample(_: &mut Random) -> Self {
                unreachable!("it is read from files of other types")
            }
        }
    )*};
}

never_sampled!(Encoder, Lists, Nested, Maps, Biases, Optional, AllOptional, Strict);

#[test]
fn lists_and_maps_that_find_nothing_are_missing_where_unknown_tensors_are_skipped() {
    fn error<T: Sample>(names: &[&str]) -> String {
        read::<T>(&ten::FORMAT, &ten_file_of(names)).unwrap_err()
    }

    let wrong = ["model.0.weight", "model.1.weight"];
    assert_eq!(
        error::<Lists>(&wrong),
        "ten: 1 missing; 0 of 2 tensors fit\nmissing:\n  `layers.0.weight`  f32[_]; did you mean `model.0.weight`?"
    );
    assert_eq!(
        error::<Nested>(&["enc.layers.0.weight"]),
        "ten: 1 missing; 0 of 1 tensor fits\n\
         missing:\n  `encoder.layers.0.weight`  f32[_]; did you mean `enc.layers.0.weight`?"
    );
    assert_eq!(
        error::<Maps>(&["head.a", "head.b"]),
        "ten: 1 missing; 0 of 2 tensors fit\nmissing:\n  `heads`  a map of tensors; did you mean `head.a`?"
    );
    assert_eq!(
        error::<Biases>(&["bias.0"]),
        "ten: 1 missing; 0 of 1 tensor fits\nmissing:\n  `biases`  a list of tensors; did you mean `bias.0`?"
    );
    // A name of the list with something else below it.
    assert!(error::<Lists>(&["layers.first.weight"]).contains("`layers.0.weight`"));
    // An item missing before existing ones.
    assert!(error::<Lists>(&["layers.1.weight"]).contains("`layers.0`  missing, but `layers.1` is there"));

    // Nothing of the file fits, though all may be missing.
    assert_eq!(
        error::<AllOptional>(&wrong),
        "ten: unexpected tensor `model.0.weight`; expected `head`, `layers.*.weight`; 0 of 2 tensors fit"
    );
    let report = LoadReport::of(&AllOptional::schema(), []);
    assert!(report.is_ok(), "{report}");

    // An `Option` and a field with a default may be missing, and a flattened map may be empty.
    let read_back = read::<Optional>(&ten::FORMAT, &ten_file_of(&["head"])).unwrap();
    let expected = Optional { head: array![0.0], layers: None, blocks: Vec::new(), rest: BTreeMap::new() };
    assert_eq!(read_back, expected);

    // Where unknown tensors are errors, an empty list comes back as it was saved.
    let empty = Encoder { layers: Vec::new() };
    for format in multi_tensor_formats() {
        assert_eq!(read::<Encoder>(format, &write(format, &empty).unwrap()), Ok(Encoder { layers: Vec::new() }));
    }
    assert!(error::<Encoder>(&wrong).contains("unexpected"));
    // By position, no tensor is skipped, nor in a file without tensors.
    let head = Array1::from_elem(1, 0.5);
    let strict = Strict { head, encoder: Encoder { layers: Vec::new() } };
    assert_eq!(btf::from_slice::<Strict>(&btf::to_vec(&strict).unwrap()).unwrap(), strict);
    for format in multi_tensor_formats() {
        assert_eq!(read::<Lists>(format, &write(format, &empty).unwrap()), Ok(Lists { layers: Vec::new() }));
    }

    // In other serde formats too.
    assert!(serde_json::from_str::<Lists>(r#"{"model": []}"#).is_err());
    assert_eq!(serde_json::from_str::<Lists>(r#"{"layers": []}"#).unwrap(), Lists { layers: Vec::new() });
    assert_eq!(serde_json::from_str::<Encoder>("{}").unwrap(), Encoder { layers: Vec::new() });
    assert!(serde_json::from_str::<Nested>(r#"{"encoder": {}}"#).is_ok());
}

#[test]
fn files_of_many_tensors_have_the_same_rules() {
    let names: Vec<String> =
        std::iter::once("head".to_owned()).chain((0..40).map(|at| format!("enc.layers.{at}.weight"))).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let error = read::<Strict>(&ten::FORMAT, &ten_file_of(&names)).unwrap_err();
    assert!(error.starts_with("ten: 1 missing; 1 of 41 tensors fit"), "{error}");

    #[derive(TensorFile, Debug, PartialEq)]
    #[tensor(allow_unknown)]
    struct Both {
        blocks: Vec<Layer>,
        layers: Vec<Layer>,
    }
    never_sampled!(Both);

    // All tensors are in the order of the type, which is a shorter way to read them.
    let names: Vec<String> = (0..40).map(|at| format!("blocks.{at}.weight")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let error = read::<Both>(&ten::FORMAT, &ten_file_of(&names)).unwrap_err();
    assert_eq!(error, "ten: 1 missing; 40 of 40 tensors fit\nmissing:\n  `layers.0.weight`  f32[_]");
}

#[test]
fn names_of_any_depth_are_compared_with_types_that_contain_themselves() {
    #[derive(TensorFile, Debug)]
    struct Tree {
        weight: Option<Array1<f32>>,
        next: Option<Box<Tree>>,
    }

    #[derive(TensorFile, Debug)]
    struct Flattened {
        #[tensor(flatten)]
        tree: Option<Tree>,
    }

    let info = tensorfile::TensorInfo::new(tensorfile::Dtype::F32, [1]);
    for (depth, is_ok) in [(0, true), (3, true), (100_000, false)] {
        let name = "next.".repeat(depth) + "weight";
        let report = LoadReport::of(&Flattened::schema(), [(Some(name.as_str()), &info)]);
        assert_eq!(report.is_ok(), is_ok, "{report}");
    }
}

#[test]
fn metadata_alone_is_enough_of_a_file() {
    #[derive(TensorFile, Debug, PartialEq)]
    #[tensor(allow_unknown)]
    struct Run {
        #[tensor(metadata)]
        epochs: Option<u32>,
        head: Option<Array1<f32>>,
    }

    let map = TensorMap::from_iter([("weight", array![1.0_f32])]);
    for format in multi_tensor_formats().filter(|format| format.keeps_metadata("epochs")) {
        let options = WriteOptions::new().metadata([("epochs".to_owned(), "3".to_owned())].into());
        let file = File::from_bytes(format.to_vec(&map, &options).unwrap()).unwrap();
        assert_eq!(file.load::<Run>().unwrap(), Run { epochs: Some(3), head: None });
        assert!(file.report::<Run>().is_ok());
        let file = File::from_bytes(format.to_vec(&map, &WriteOptions::new()).unwrap()).unwrap();
        assert!(file.load::<Run>().is_err() && !file.report::<Run>().is_ok());
    }
}
