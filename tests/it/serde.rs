//! The neighbours: ordinary serde types in tensor files, and our types in other serde formats.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Debug;
use std::io::Read;

use half::{bf16, f16};
use ndarray::{ArcArray, Array, Array0, Array1, Array2, Array3, ArrayD, Axis, CowArray, Ix2, IxDyn, array, s};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tensorfile::{
    Arrays, Category, CooTensor, Deserializer, Dtype, Element, ErrorKind, FromTensors, Layout, Tensor, TensorFile,
    TensorInfo, TensorMap, TensorView, btf, ten,
};

use crate::support::{Dribble, Messages, btf_file, contents, info, message, ten_file, ten_file_of};

/// Sends a value through the formats of this crate, with names.
#[track_caller]
fn assert_files_round_trip<T: Serialize + DeserializeOwned + PartialEq + Debug>(value: &T) {
    let file = ten_file(value);
    assert_eq!(ten::from_slice::<T>(&file).unwrap(), *value, "ten");
    assert_eq!(ten::from_reader::<T>(&file[..]).unwrap(), *value, "ten from a stream");
    let file = btf_file(value);
    assert_eq!(btf::from_slice::<T>(&file).unwrap(), *value, "BTF");
    assert_eq!(btf::from_reader::<T>(&file[..]).unwrap(), *value, "BTF from a stream");
    assert_eq!(btf::from_reader::<T>(Dribble::new(&file)).unwrap(), *value, "BTF from a slow stream");
}

/// Sends a value through formats that know nothing of tensors.
#[track_caller]
fn assert_others_round_trip<T: Serialize + DeserializeOwned + PartialEq + Debug>(value: &T) {
    let json = serde_json::to_string(value).unwrap();
    assert_eq!(serde_json::from_str::<T>(&json).unwrap(), *value, "JSON: {json}");
    assert_eq!(serde_json::from_reader::<_, T>(json.as_bytes()).unwrap(), *value, "JSON from a stream");
    // A map of JSON sorts its keys, so a tensor's data comes first.
    let tree = serde_json::to_value(value).unwrap();
    assert_eq!(serde_json::from_value::<T>(tree).unwrap(), *value, "a JSON tree");
    let postcard = postcard::to_stdvec(value).unwrap();
    assert_eq!(postcard::from_bytes::<T>(&postcard).unwrap(), *value, "postcard");
}

#[track_caller]
fn assert_round_trips<T: Serialize + DeserializeOwned + PartialEq + Debug>(value: &T) {
    assert_files_round_trip(value);
    assert_others_round_trip(value);
}

#[derive(Serialize, Deserialize, Debug, Clone, PartialEq)]
struct Linear {
    #[serde(with = "tensorfile::array")]
    weight: Array2<f32>,
    #[serde(with = "tensorfile::array", default)]
    bias: Option<Array1<f32>>,
}

fn linear(first: f32) -> Linear {
    Linear { weight: array![[first, 2.0], [3.0, 4.0]], bias: Some(array![first]) }
}

fn without_bias() -> Linear {
    Linear { bias: None, ..linear(9.0) }
}

mod plain_types {
    use super::*;

    #[test]
    fn arrays_numbers_and_lists_stand_side_by_side() {
        #[derive(Serialize, Deserialize, Debug, PartialEq)]
        struct Sample {
            #[serde(with = "tensorfile::array")]
            image: Array3<u8>,
            native: Array2<f64>,
            label: i64,
            scores: Vec<f32>,
            crop: (u16, u16, u16),
            corners: [[i32; 2]; 3],
            #[serde(with = "serde_bytes")]
            text: Vec<u8>,
            layers: Vec<Linear>,
        }

        let sample = Sample {
            image: Array3::from_shape_fn((2, 3, 1), |(a, b, _)| (a * 3 + b) as u8),
            native: array![[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]],
            label: -7,
            scores: vec![0.25, 0.5],
            crop: (1, 2, 3),
            corners: [[1, 2], [3, 4], [5, 6]],
            text: b"tensors".to_vec(),
            layers: vec![linear(1.0), without_bias()],
        };
        let expected = [
            "image: u8[2, 3, 1]",
            "native: f64[3, 2]",
            "label: i64[]",
            "scores: f32[2]",
            "crop: u16[3]",
            "corners.0: i32[2]",
            "corners.1: i32[2]",
            "corners.2: i32[2]",
            "text: u8[7]",
            "layers.0.weight: f32[2, 2]",
            "layers.0.bias: f32[1]",
            "layers.1.weight: f32[2, 2]",
        ];
        assert_eq!(contents(&sample), expected);
        assert_files_round_trip(&sample);
    }

    #[test]
    fn a_number_is_a_tensor_of_rank_0_and_a_list_of_them_of_rank_1() {
        #[derive(Serialize, Deserialize, Debug, PartialEq)]
        struct Meters(f32);

        #[derive(Serialize, Deserialize, Debug, PartialEq)]
        struct Pair(f32, f32);

        fn check<T: Serialize + DeserializeOwned + PartialEq + Debug>(value: T, expected: &str) {
            let field = BTreeMap::from([("x", value)]);
            assert_eq!(contents(&field), [format!("x: {expected}")]);
            let field = field.into_iter().map(|(name, value)| (name.to_owned(), value)).collect::<BTreeMap<_, _>>();
            assert_files_round_trip(&field);
        }

        check(1_i8, "i8[]");
        check(1_i16, "i16[]");
        check(1_i32, "i32[]");
        check(1_i64, "i64[]");
        check(1_u8, "u8[]");
        check(1_u16, "u16[]");
        check(1_u32, "u32[]");
        check(u64::MAX, "u64[]");
        check(1.5_f32, "f32[]");
        check(1.5_f64, "f64[]");
        check(vec![1.5_f32, 2.5], "f32[2]");
        check([1_i64, i64::MIN], "i64[2]");
        check((1_u64, u64::MAX), "u64[2]");
        check(Meters(2.0), "f32[]");
        check(vec![Meters(2.0), Meters(3.0)], "f32[2]");
        check(Pair(2.0, 3.0), "f32[2]");
        check(Some(1_u8), "u8[]");
        check(Box::new([1_u8]), "u8[1]");
        check(serde_bytes::ByteBuf::from([1, 2, 3]), "u8[3]");
    }

    #[test]
    fn a_value_that_is_one_tensor_takes_the_only_one() {
        let vector = vec![1.0_f32, 2.0, 3.0];
        let file = ten::to_vec(&BTreeMap::from([("x", &vector)])).unwrap();
        assert_eq!(ten::from_slice::<Arrays<Vec<f32>>>(&file).unwrap(), Arrays(vector.clone()));
        assert_eq!(ten::from_slice::<Tensor>(&file).unwrap(), Tensor::from_slice(&vector, [3]).unwrap());
        assert_eq!(ten::from_slice::<serde_bytes::ByteBuf>(&ten_file(&serde_bytes::Bytes::new(b"x"))).unwrap(), b"x");
        assert_eq!(ten::from_slice::<f32>(&ten_file(&1.5_f32)).unwrap(), 1.5);
    }

    #[test]
    fn lists_of_numbers_are_read_without_names_too() {
        #[derive(Serialize, Deserialize, Debug, PartialEq)]
        struct Sample {
            scores: Vec<f32>,
            crop: (u16, u16),
            label: i64,
            last: [f64; 3],
        }

        let sample = Sample { scores: vec![0.25, 0.5], crop: (1, 2), label: 3, last: [1.0, 2.0, 3.0] };
        for file in [btf::to_vec(&sample).unwrap(), btf::to_vec(&sample).unwrap()] {
            assert_eq!(btf::from_slice::<Sample>(&file).unwrap(), sample);
            assert_eq!(btf::from_reader::<Sample>(&file[..]).unwrap(), sample);
        }
        let vector = vec![1.0_f32, 2.0, 3.0];
        assert_eq!(btf::from_slice::<Vec<f32>>(&btf::to_vec(&vector).unwrap()).unwrap(), vector);
        assert_eq!(ten::from_slice::<Vec<f32>>(&ten::to_vec(&vector).unwrap()).unwrap(), vector);
        assert_eq!(btf::from_slice::<(f32, f32)>(&btf::to_vec(&(1.0_f32, 2.0_f32)).unwrap()).unwrap(), (1.0, 2.0));
        let rows = vec![vec![1_u8, 2], vec![3]];
        assert_eq!(btf::from_slice::<Vec<Vec<u8>>>(&btf::to_vec(&rows).unwrap()).unwrap(), rows);
        assert_eq!(ten::from_reader::<Vec<Vec<u8>>>(&ten::to_vec(&rows).unwrap()[..]).unwrap(), rows);
        // Numbers of a file that are tensors of their own are a list too.
        let file = btf::to_vec(&[Tensor::from_slice(&[1_u8], []).unwrap(), Tensor::from_slice(&[2_u8], []).unwrap()]);
        assert_eq!(btf::from_slice::<Vec<u8>>(&file.unwrap()).unwrap(), [1, 2]);
    }

    #[test]
    fn arrays_in_ndarrays_own_representation_are_tensors() {
        fn check<T: Serialize + DeserializeOwned + PartialEq + Debug>(value: T, expected: &str) {
            assert_eq!(contents(&BTreeMap::from([("x", &value)])), [format!("x: {expected}")]);
            assert_files_round_trip(&BTreeMap::from([("x".to_owned(), value)]));
        }

        check(Array0::from_elem((), 1.5_f32), "f32[]");
        check(array![1_u8, 2, 3], "u8[3]");
        check(array![[1_i16, 2, 3], [4, 5, 6]], "i16[2, 3]");
        check(ArrayD::<f64>::ones(IxDyn(&[1, 2, 1, 2, 1, 2, 1])), "f64[1, 2, 1, 2, 1, 2, 1]");
        check(ArcArray::<i64, Ix2>::ones((2, 2)), "i64[2, 2]");
        check(array![[1_i32, 2, 3], [4, 5, 6]].reversed_axes(), "i32[3, 2]");
        // Element for element the same as through the tensor path.
        let array = Array3::from_shape_fn((3, 4, 5), |(a, b, c)| (a * 20 + b * 5 + c) as u32).reversed_axes();
        assert_eq!(btf::to_vec(&array).unwrap(), btf::to_vec(&Arrays(&array)).unwrap());
        assert_eq!(btf::from_slice::<Array3<u32>>(&btf::to_vec(&array).unwrap()).unwrap(), array);
        assert_eq!(
            message(btf::to_vec(&BTreeMap::from([("x", Array2::<f32>::zeros((2, 0)))]))),
            "btf: tensor `x`: an empty array in ndarray's own representation is not a tensor; its dtype cannot be told; \
             `#[serde(with = \"tensorfile::array\")]` tells it"
        );
    }

    #[test]
    fn maps_are_names() {
        type Layers<K> = HashMap<K, Linear>;
        let layers = Layers::from([("a".to_owned(), linear(1.0)), ("b".to_owned(), without_bias())]);
        let mut found = contents(&layers);
        found.sort();
        assert_eq!(found, ["a.bias: f32[1]", "a.weight: f32[2, 2]", "b.weight: f32[2, 2]"]);
        assert_round_trips(&layers);
        assert_round_trips(&Layers::from([(10_u32, linear(1.0)), (9, linear(2.0)), (100, without_bias())]));
        assert_round_trips(&BTreeMap::from([(-1_i64, linear(1.0)), (1, linear(2.0))]));
        assert_round_trips(&BTreeMap::from([('x', linear(1.0)), ('ä', linear(2.0))]));
        assert_round_trips(&BTreeMap::from([("x".to_owned(), BTreeMap::from([(3_u8, linear(2.0))]))]));
        assert_round_trips(&BTreeMap::from([("x".to_owned(), vec![linear(1.0), linear(2.0)])]));
        assert_files_round_trip(&BTreeMap::from([("x".to_owned(), vec![1.0_f32]), ("y.z".to_owned(), vec![2.0, 3.0])]));
        assert_round_trips(&BTreeMap::from([
            ("x".to_owned(), Arrays(array![1.0_f32])),
            ("y.z".to_owned(), Arrays(array![])),
        ]));
    }

    #[test]
    fn enum_keys_are_their_names() {
        #[derive(Serialize, Deserialize, Debug, PartialEq, Eq, PartialOrd, Ord)]
        #[serde(rename_all = "lowercase")]
        enum Part {
            Encoder,
            Decoder,
        }

        let model = BTreeMap::from([(Part::Encoder, linear(1.0)), (Part::Decoder, without_bias())]);
        assert_eq!(
            contents(&model),
            ["encoder.weight: f32[2, 2]", "encoder.bias: f32[1]", "decoder.weight: f32[2, 2]"]
        );
        assert_round_trips(&model);
    }

    /// An entry whose value reads nothing must not be found again and again.
    #[test]
    fn a_name_without_a_dot_ends_a_map_of_maps() {
        fn refuses<T: DeserializeOwned + Debug>(file: &[u8]) {
            let error = ten::from_slice::<T>(file).unwrap_err();
            assert_eq!(error.category(), Category::Mismatch, "{error}");
            assert_eq!(error.tensor().unwrap_or("weight"), "weight", "{error}");
        }

        let file = ten_file(&BTreeMap::from([("weight", Arrays(array![1.0_f32]))]));
        refuses::<BTreeMap<String, BTreeMap<String, Tensor>>>(&file);
        refuses::<HashMap<String, HashMap<String, Tensor>>>(&file);
        refuses::<BTreeMap<String, BTreeMap<String, Option<Tensor>>>>(&file);
        refuses::<BTreeMap<String, BTreeMap<String, f32>>>(&file);
        refuses::<BTreeMap<String, TensorMap>>(&file);
        refuses::<Arrays<BTreeMap<String, BTreeMap<String, Tensor>>>>(&file);
        refuses::<Arrays<BTreeMap<String, TensorMap>>>(&file);
    }

    #[test]
    fn a_key_with_dots_holds_a_tensor_and_nothing_else() {
        // A reader could not tell where one key ends and the next begins.
        type Nested<T> = BTreeMap<&'static str, T>;
        let tensor = || Arrays(array![1.0_f32]);
        assert_eq!(contents(&Nested::from([("a.b", tensor())])), ["a.b: f32[1]"]);
        for (what, result) in [
            ("a struct", ten::to_vec(&Nested::from([("a.b", linear(1.0))]))),
            ("a map", ten::to_vec(&Nested::from([("a.b", Nested::from([("c", tensor())]))]))),
            ("a list", ten::to_vec(&Nested::from([("a.b", vec![tensor()])]))),
        ] {
            let error = result.unwrap_err();
            assert_eq!(error.category(), Category::Call, "{what}: {error}");
        }
    }

    #[test]
    fn map_keys_must_be_numbers() {
        let file = ten_file(&BTreeMap::from([("one", Arrays(array![1.0_f32]))]));
        assert_eq!(
            message(ten::from_slice::<BTreeMap<u32, Arrays<Array1<f32>>>>(&file)),
            "ten: the name `one`, but the keys of the map are numbers"
        );
        assert_eq!(
            message(ten::to_vec(&BTreeMap::from([((1, 2), 3)]))),
            "ten: tensor `0`: map keys must be strings or numbers"
        );
    }

    #[test]
    fn attributes_of_serde_work() {
        #[derive(Serialize, Deserialize, Debug, PartialEq, Default)]
        #[serde(rename_all = "camelCase")]
        struct Model {
            #[serde(with = "tensorfile::array", rename = "fc.weight", alias = "w")]
            head: Array1<f32>,
            #[serde(with = "tensorfile::array", default)]
            out_proj: Array1<f32>,
            #[serde(skip)]
            cache: Vec<String>,
        }

        let model = Model { head: array![1.0], out_proj: array![2.0], ..Model::default() };
        assert_eq!(contents(&model), ["fc.weight: f32[1]", "outProj: f32[1]"]);
        assert_round_trips(&model);
        let tensor = |value: f32| Arrays(array![value]);
        let file = ten_file(&BTreeMap::from([("w", tensor(1.0)), ("outProj", tensor(2.0))]));
        assert_eq!(ten::from_slice::<Model>(&file).unwrap(), model);
        let file = ten_file(&BTreeMap::from([("fc.weight", tensor(1.0)), ("unknown", tensor(2.0))]));
        assert_eq!(
            ten::from_slice::<Model>(&file).unwrap(),
            Model { out_proj: Array1::default(0), ..model },
            "as in other formats, unknown names are ignored"
        );
    }

    #[test]
    fn unknown_tensors_are_passed_over_by_plain_serde_and_refused_on_demand() {
        #[derive(Deserialize, Debug)]
        struct Lenient {
            #[serde(with = "tensorfile::array")]
            a: Array1<f32>,
        }

        #[derive(Deserialize, Debug)]
        #[serde(deny_unknown_fields)]
        struct Strict {
            #[serde(with = "tensorfile::array")]
            #[expect(dead_code, reason = "it is never read")]
            a: Array1<f32>,
        }

        let tensor = |value: f32| Arrays(array![value]);
        let file = ten_file(&BTreeMap::from([
            ("a", tensor(1.0)),
            ("b", tensor(2.0)),
            ("c.d", tensor(3.0)),
            ("c.e", tensor(4.0)),
        ]));
        assert_eq!(ten::from_slice::<Lenient>(&file).unwrap().a, array![1.0]);
        assert_eq!(ten::from_reader::<Lenient>(&file[..]).unwrap().a, array![1.0]);
        assert_eq!(message(ten::from_slice::<Strict>(&file)), "ten: unexpected tensor `b`; expected `a`");
        assert_eq!(message(ten::from_reader::<Strict>(&file[..])), "ten: unexpected tensor `b`; expected `a`");
    }

    #[test]
    fn flatten_of_serde_works() {
        #[derive(Serialize, Deserialize, Debug, PartialEq)]
        struct Model {
            #[serde(with = "tensorfile::array")]
            scale: Array1<f64>,
            #[serde(flatten)]
            rest: BTreeMap<String, Tensor>,
        }

        let tensor = |value: i32| Tensor::from_slice(&[value], [1]).unwrap();
        let model = Model {
            scale: array![0.5],
            rest: BTreeMap::from([("bias".to_owned(), tensor(1)), ("weight".to_owned(), tensor(2))]),
        };
        assert_eq!(contents(&model), ["scale: f64[1]", "bias: i32[1]", "weight: i32[1]"]);
        assert_files_round_trip(&model);
        let json = serde_json::to_string(&model).unwrap();
        assert_eq!(serde_json::from_str::<Model>(&json).unwrap(), model);
    }

    #[test]
    fn refuses_values_that_are_not_tensors_with_advice() {
        #[derive(Serialize)]
        enum Choice {
            Unit,
            Newtype(Vec<f32>),
            Tuple(f32, f32),
            Struct { a: f32 },
        }

        #[derive(Serialize)]
        struct Field<T> {
            a: Inner<T>,
        }

        #[derive(Serialize)]
        struct Inner<T> {
            b: T,
        }

        fn refused<T: Serialize>(messages: &mut Messages, value: T, expected: &str) {
            let mut file = Vec::new();
            messages.compare("ten", ten::to_writer(&mut file, &Field { a: Inner { b: &value } }), expected);
            messages.compare(
                "BTF",
                btf::to_writer(&mut file, &Field { a: Inner { b: value } }),
                &expected.replace("ten:", "btf:"),
            );
            assert!(file.is_empty(), "nothing is written");
        }

        let m = &mut Messages::default();
        let instead = "expected a tensor, a number, or a struct, map, list or tuple of them";
        refused(m, "text", &format!("ten: tensor `a.b`: a string is not a tensor; {instead}"));
        refused(m, format_args!("{}", 1), &format!("ten: tensor `a.b`: a string is not a tensor; {instead}"));
        refused(m, 'c', &format!("ten: tensor `a.b`: a char is not a tensor; {instead}"));
        refused(m, 1_i128, &format!("ten: tensor `a.b`: an i128 is not a tensor; {instead}"));
        refused(m, 1_u128, &format!("ten: tensor `a.b`: a u128 is not a tensor; {instead}"));
        for choice in [Choice::Unit, Choice::Newtype(vec![1.0]), Choice::Tuple(1.0, 2.0), Choice::Struct { a: 1.0 }] {
            refused(m, choice, &format!("ten: tensor `a.b`: an enum is not a tensor; {instead}"));
        }
        refused(m, vec!["text"], &format!("ten: tensor `a.b.0`: a string is not a tensor; {instead}"));
        refused(m, BTreeMap::from([("c", "d")]), &format!("ten: tensor `a.b.c`: a string is not a tensor; {instead}"));
        let several = "a list of numbers of several types is not a tensor; a list of numbers is a tensor when they are all of one type";
        refused(m, (1_u8, 2_u16), &format!("ten: tensor `a.b.0`: {several}"));
        refused(m, (1_f32, 2_i32, 3_f32), &format!("ten: tensor `a.b.0`: {several}"));
        let mixed = format!("a list of numbers and something else is not a tensor; {instead}");
        refused(m, (1_u8, Arrays(array![1_u8])), &format!("ten: tensor `a.b.0`: {mixed}"));
        refused(m, (Arrays(array![1_u8]), 1_u8), &format!("ten: tensor `a.b`: {mixed}"));
        refused(m, vec![Some(1_u8), None], &format!("ten: tensor `a.b.0`: {mixed}"));
        let hole = "cannot store a list with an item that holds no tensor; its length could not be told";
        refused(m, vec![None, Some(1_u8)], &format!("ten: tensor `a.b.0`: {hole}"));
        std::mem::take(m).end();
    }

    #[test]
    fn numbers_that_a_format_lacks_are_refused_by_it() {
        let flags = BTreeMap::from([("flags", vec![true, false])]);
        assert_eq!(
            message(btf::to_vec(&flags)),
            "btf: tensor `flags`: cannot store bool; btf stores i8, i16, i32, i64, f32, f64, u8, u16, u32, u64"
        );
        assert_eq!(
            message(ten::to_vec(&flags)),
            "ten: tensor `flags`: cannot store bool; ten stores f16, f32, f64, i8, i16, i32, i64, u8, u16, u32, u64"
        );
    }

    #[test]
    fn refuses_types_that_are_not_tensors() {
        #[derive(Deserialize, Debug)]
        enum Choice {
            Unit,
        }

        let file = ten_file(&BTreeMap::from([("x", vec![1_u8, 2])]));
        let instead = "the file can hold a tensor, a number, or a struct, map, list or tuple of them";
        let mut m = Messages::default();
        m.compare(
            "string",
            ten::from_slice::<BTreeMap<String, String>>(&file),
            &format!("ten: tensor `x`: a string is not a tensor; {instead}"),
        );
        m.compare(
            "char",
            ten::from_slice::<BTreeMap<String, char>>(&file),
            &format!("ten: tensor `x`: a char is not a tensor; {instead}"),
        );
        m.compare(
            "enum",
            ten::from_slice::<BTreeMap<String, Choice>>(&file),
            &format!("ten: tensor `x`: an enum is not a tensor; {instead}"),
        );
        m.compare(
            "number",
            ten::from_slice::<BTreeMap<String, u8>>(&file),
            "ten: tensor `x`: the file has u8[2], but expected rank 0 (at byte 96)",
        );
        m.compare(
            "dtype",
            ten::from_slice::<BTreeMap<String, Vec<u16>>>(&file),
            "ten: tensor `x`: the file has u8[2], but expected u16 (at byte 96)",
        );
        m.compare(
            "signed",
            ten::from_slice::<BTreeMap<String, Vec<i8>>>(&file),
            "ten: tensor `x`: the file has u8[2], but expected i8 (at byte 96)",
        );
        m.compare(
            "too few",
            ten::from_slice::<BTreeMap<String, [u8; 3]>>(&file),
            "ten: tensor `x`: invalid length 2, expected an array of length 3 (at byte 96)",
        );
        m.compare(
            "too many",
            ten::from_slice::<BTreeMap<String, [u8; 1]>>(&file),
            "ten: tensor `x`: the file has u8[2], but expected [1] (at byte 96)",
        );
        m.compare(
            "native",
            ten::from_slice::<BTreeMap<String, Array2<u8>>>(&file),
            "ten: tensor `x`: invalid length 1, expected an array of length 2 (at byte 96)",
        );
        m.compare(
            "native",
            ten::from_slice::<BTreeMap<String, Array1<f32>>>(&file),
            "ten: tensor `x`: the file has u8[2], but expected f32 (at byte 96)",
        );
        m.compare(
            "bytes",
            ten::from_slice::<BTreeMap<String, serde_bytes::ByteBuf>>(&ten_file(&BTreeMap::from([("x", 1_u16)]))),
            "ten: tensor `x`: the file has u16[], but expected u8 (at byte 96)",
        );
        m.end();
    }
}

mod other_formats {
    use super::*;

    #[test]
    fn json_contains_dtype_shape_and_bytes() {
        let tensor = Tensor::from_slice(&[1_i16, -2], [1, 2]).unwrap();
        assert_eq!(
            serde_json::to_string(&tensor).unwrap(),
            r#"{"dtype":"i16","shape":[1,2],"layout":"row_major","data":[1,0,254,255]}"#
        );
        let sparse = CooTensor::new([300], vec![259], vec![7_u8]).unwrap();
        assert_eq!(
            serde_json::to_string(&sparse).unwrap(),
            r#"{"dtype":"u8","shape":[300],"layout":{"coo":1},"data":[3,1,0,0,0,0,0,0,1,0,0,0,0,0,0,0,7]}"#
        );
        let layout = Layout::from_dim_order(&[1, 0]).unwrap();
        let info = TensorInfo { layout, ..TensorInfo::new(Dtype::U8, [1, 2]) };
        assert_eq!(
            serde_json::to_string(&Tensor::new(info, &[1, 2]).unwrap()).unwrap(),
            r#"{"dtype":"u8","shape":[1,2],"layout":{"dim_order":[1,0]},"data":[1,2]}"#
        );
    }

    #[test]
    fn postcard_has_the_numbers_of_dtypes_and_layouts() {
        // Files of formats without field names hold these numbers, so they may not change.
        let dtypes = [
            "bool",
            "i8",
            "i16",
            "i32",
            "i64",
            "u8",
            "u16",
            "u32",
            "u64",
            "f16",
            "bf16",
            "f32",
            "f64",
            "f8_e5m2",
            "f8_e4m3fn",
            "f8_e5m2fnuz",
            "f8_e4m3fnuz",
            "qint8",
            "quint8",
            "qint32",
            "quint4x2",
            "quint2x4",
            "bits16",
            "f8_e8m0",
            "f4",
            "f6_e2m3",
            "f6_e3m2",
            "c64",
            "c128",
            "q4_0",
            "q4_1",
            "q5_0",
            "q5_1",
            "q8_0",
            "q8_1",
            "q2_k",
            "q3_k",
            "q4_k",
            "q5_k",
            "q6_k",
            "q8_k",
            "iq2_xxs",
            "iq2_xs",
            "iq3_xxs",
            "iq1_s",
            "iq4_nl",
            "iq3_s",
            "iq2_s",
            "iq4_xs",
            "iq1_m",
            "tq1_0",
            "tq2_0",
            "mxfp4",
            "nvfp4",
            "q1_0",
            "q2_0",
        ];
        assert_eq!(dtypes.len(), Dtype::ALL.len());
        for (number, name) in (0_u8..).zip(dtypes) {
            let tensor = Tensor::new(TensorInfo::new(name.parse().unwrap(), [0]), &[]).unwrap();
            assert_eq!(postcard::to_stdvec(&tensor).unwrap(), [number, 1, 0, 0, 0], "{name}");
        }
        let dense = Tensor::from_slice(&[1.0_f32], [1, 1]).unwrap();
        assert_eq!(postcard::to_stdvec(&dense).unwrap(), [11, 2, 1, 1, 0, 4, 0, 0, 128, 63]);
        let layout = Layout::from_dim_order(&[1, 0]).unwrap();
        let info = TensorInfo { layout, ..TensorInfo::new(Dtype::U8, [1, 2]) };
        let turned = Tensor::new(info, &[8, 9]).unwrap();
        assert_eq!(postcard::to_stdvec(&turned).unwrap(), [5, 2, 1, 2, 1, 2, 1, 0, 2, 8, 9]);
        let sparse = CooTensor::new([3], vec![2], vec![7_u8]).unwrap();
        let expected = [5, 1, 3, 2, 1, 17, 2, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 7];
        assert_eq!(postcard::to_stdvec(&sparse).unwrap(), expected);
    }

    #[test]
    fn every_dtype_and_layout_round_trips() {
        for &dtype in Dtype::ALL {
            for shape in [&[][..], &[3], &[2, 0], &[1, 2, 3]] {
                let info = info(dtype, shape);
                let bytes: Vec<u8> = (0..info.payload_bytes().unwrap()).map(|at| (at % 2) as u8).collect();
                assert_others_round_trip(&Tensor::new(info, &bytes).unwrap());
            }
        }
        assert_others_round_trip(&CooTensor::new([3, 300], vec![0, 1, 2, 299], vec![1.5_f32, -2.0]).unwrap());
        assert_others_round_trip(&CooTensor::new([3], vec![0], vec![true]).unwrap());
        let layout = Layout::from_dim_order(&[0, 2, 3, 1]).unwrap();
        let info = TensorInfo { layout, ..TensorInfo::new(Dtype::U8, [1, 2, 3, 2]) };
        assert_others_round_trip(&Tensor::new(info, &[7; 12]).unwrap());
        let map: TensorMap =
            // In the order in which a JSON tree has its keys.
            [("", Tensor::from_slice(&[2.0], [1]).unwrap()), ("ä.b", Tensor::from_slice(&[1_u8], []).unwrap())]
                .into_iter()
                .collect();
        assert_others_round_trip(&map);
        assert_others_round_trip(&TensorMap::new());
    }

    #[test]
    fn arrays_round_trip() {
        assert_round_trips(&linear(1.0));
        assert_round_trips(&vec![linear(1.0), linear(2.0)]);
        assert_others_round_trip(&Arrays(array![[true, false]]));
        assert_others_round_trip(&Arrays((array![f16::ONE, f16::NEG_INFINITY], array![bf16::EPSILON])));
        assert_others_round_trip(&Arrays((1.5_f32, vec![1_u64, u64::MAX], [1_i8; 3])));
        assert_others_round_trip(&Arrays(array![[1, 2, 3], [4, 5, 6]].reversed_axes()));
        assert_others_round_trip(&Arrays(ArrayD::<f64>::zeros(IxDyn(&[2, 0, 3]))));
        assert_round_trips(&Arrays(BTreeMap::from([("a.b".to_owned(), array![1.0]), ("c".to_owned(), array![])])));
        assert_round_trips(&Arrays(vec![Array1::<f32>::ones(3), Array1::zeros(0)]));
    }

    #[cfg(target_pointer_width = "64")]
    #[test]
    fn json_that_contradicts_itself_is_an_error() {
        for (json, expected) in [
            (
                r#"{"dtype":"i9","shape":[1],"layout":"row_major","data":[1]}"#,
                "unknown variant `i9`, expected one of `bool`, `i8`, `i16`, `i32`, `i64`, `u8`, `u16`, `u32`, `u64`, `f16`, `bf16`, \
                 `f32`, `f64`, `f8_e5m2`, `f8_e4m3fn`, `f8_e5m2fnuz`, `f8_e4m3fnuz`, `qint8`, `quint8`, `qint32`, `quint4x2`, \
                 `quint2x4`, `bits16`, `f8_e8m0`, `f4`, `f6_e2m3`, `f6_e3m2`, `c64`, `c128`, \
                 `q4_0`, `q4_1`, `q5_0`, `q5_1`, `q8_0`, `q8_1`, `q2_k`, `q3_k`, `q4_k`, `q5_k`, `q6_k`, \
                 `q8_k`, `iq2_xxs`, `iq2_xs`, `iq3_xxs`, `iq1_s`, `iq4_nl`, `iq3_s`, `iq2_s`, `iq4_xs`, `iq1_m`, `tq1_0`, \
                 `tq2_0`, `mxfp4`, `nvfp4`, `q1_0`, `q2_0`",
            ),
            (r#"{"dtype":"u8","shape":[2],"layout":"row_major","data":[1]}"#, "payload is 1 bytes, but u8[2] takes 2"),
            (
                r#"{"dtype":"f6_e2m3","shape":[3],"layout":"row_major","data":[1,2,3]}"#,
                "f6_e2m3[3] has 3 elements, but f6_e2m3 stores blocks of 4",
            ),
            (
                r#"{"dtype":"f4","shape":[2,1],"layout":{"dim_order":[1,0]},"data":[1]}"#,
                "blocks of several elements are row-major, but expected f4[2, 1] in dim order [1, 0]",
            ),
            (r#"{"dtype":"u8","shape":[0],"layout":"row_major","data":[1]}"#, "payload is longer than 0 bytes"),
            (r#"{"data":[1],"dtype":"u8","shape":[2],"layout":"row_major"}"#, "payload is 1 bytes, but u8[2] takes 2"),
            (r#"{"dtype":"u8","shape":[1],"layout":"row_major","data":[256]}"#, "256 is not a byte"),
            (r#"{"dtype":"u8","shape":[1],"layout":"row_major","data":[-1]}"#, "-1 is not a byte"),
            (
                r#"{"dtype":"u8","shape":[-1],"layout":"row_major","data":[]}"#,
                "invalid value: integer `-1`, expected usize",
            ),
            (
                r#"{"dtype":"u8","shape":[4294967296,4294967296],"layout":"row_major","data":[]}"#,
                "u8[4294967296, 4294967296] takes more bytes than can be addressed",
            ),
            (
                r#"{"dtype":"u8","shape":[1],"layout":"col_major","data":[1]}"#,
                "unknown variant `col_major`, expected one of `row_major`, `dim_order`, `coo`, `blob`",
            ),
            (
                r#"{"dtype":"u8","shape":[1,1],"layout":{"dim_order":[1,1]},"data":[1]}"#,
                "dim order [1, 1] is not a permutation of 0..2",
            ),
            (
                r#"{"dtype":"u8","shape":[1,1],"layout":{"dim_order":[0]},"data":[1]}"#,
                "dim order has 1 dims, but the tensor has rank 2",
            ),
            (
                r#"{"dtype":"u8","shape":[3],"layout":{"coo":1},"data":[3,0,0,0,0,0,0,0,1,0,0,0,0,0,0,0,7]}"#,
                "index 3 of coordinate 0 is outside dim 0, which is 3",
            ),
            (
                r#"{"dtype":"u8","shape":[3],"layout":{"coo":18446744073709551615},"data":[]}"#,
                "u8[3] takes more bytes than can be addressed",
            ),
            (r#"{"dtype":"u8","shape":[1],"layout":"row_major"}"#, "missing field `data`"),
            (r#"{"shape":[1],"layout":"row_major","data":[1]}"#, "missing field `dtype`"),
            (
                r#"{"dtype":"u8","shape":[1],"layout":"row_major","data":[1],"dtype":"u8"}"#,
                "a tensor has a field twice",
            ),
            (
                r#"{"dtype":"u8","shape":[1],"layout":"row_major","date":[1]}"#,
                "unknown variant `date`, expected one of `dtype`, `shape`, `layout`, `data`",
            ),
            ("7", "invalid type: integer `7`, expected a tensor"),
        ] {
            let error = serde_json::from_str::<Tensor>(json).unwrap_err().to_string();
            assert_eq!(error.split(" at line").next(), Some(expected), "{json}");
        }
        let error = serde_json::from_str::<Arrays<Array2<f32>>>(
            r#"{"dtype":"u8","shape":[1],"layout":"row_major","data":[1]}"#,
        );
        assert!(error.unwrap_err().to_string().starts_with("the file has u8[1], but expected f32 at line"));
        let error = serde_json::from_str::<Arrays<Array1<bool>>>(
            r#"{"dtype":"bool","shape":[1],"layout":"row_major","data":[2]}"#,
        );
        assert!(error.unwrap_err().to_string().starts_with("element 0 is the byte 2, which is not a bool"));
    }

    #[test]
    fn postcard_borrows_and_json_cannot() {
        let tensor = Tensor::from_slice(&[1_u8, 2, 3], [3]).unwrap();
        let bytes = postcard::to_stdvec(&tensor).unwrap();
        let view: TensorView<'_> = postcard::from_bytes(&bytes).unwrap();
        assert_eq!(view, tensor.as_view());
        assert!(bytes.as_ptr_range().contains(&view.as_bytes().as_ptr()));
        let json = serde_json::to_string(&tensor).unwrap();
        assert!(serde_json::from_str::<TensorView<'_>>(&json).is_err());
        let Arrays(cow): Arrays<CowArray<'_, u8, ndarray::Ix1>> = serde_json::from_str(&json).unwrap();
        assert!(!cow.is_view());
    }

    #[test]
    fn wrappers_around_our_deserializer_work() {
        #[derive(Serialize, Deserialize, Debug, PartialEq)]
        struct Model {
            encoder: Vec<Linear>,
            head: Linear,
            rest: TensorMap,
        }

        let rest: TensorMap = [("a.b", Tensor::from_slice(&[1_u8], []).unwrap())].into_iter().collect();
        let mut model = Model { encoder: vec![linear(1.0), without_bias()], head: linear(2.0), rest };
        let file = ten_file(&model);
        let mut deserializer = Deserializer::from_slice(&ten::FORMAT, &file);
        let read: Model = serde_path_to_error::deserialize(&mut deserializer).unwrap();
        deserializer.end().unwrap();
        assert_eq!(read, model);
        let mut deserializer = Deserializer::from_reader(&ten::FORMAT, &file[..]);
        assert_eq!(serde_path_to_error::deserialize::<_, Model>(&mut deserializer).unwrap(), model);
        deserializer.end().unwrap();

        model.encoder[1].weight = array![[]];
        let mut file = ten_file(&model);
        // The dtype of `encoder.0.bias`, in the header of the second tensor, at 80 + 16 + 64 + 16.
        assert_eq!(&file[176..178], b"f4");
        file[176..178].copy_from_slice(b"i4");
        let mut deserializer = Deserializer::from_slice(&ten::FORMAT, &file);
        let error = serde_path_to_error::deserialize::<_, Model>(&mut deserializer).unwrap_err();
        assert_eq!(error.path().to_string(), "encoder[0].bias");
        assert_eq!(
            error.inner().to_string(),
            "tensor `encoder.0.bias`: the file has i32[1], but expected f32 (at byte 256)"
        );
    }
}

mod memory_orders {
    use ndarray::{ArrayBase, Data, Dimension, ShapeBuilder};

    use super::*;

    /// Checks that an array is written in row-major order, regardless of its order in memory.
    #[track_caller]
    fn check<A: Element, S: Data<Elem = A>, D: Dimension>(what: &str, array: &ArrayBase<S, D>) {
        let elements: Vec<A> = array.iter().copied().collect();
        let expected = Tensor::from_slice(&elements, array.shape()).unwrap();
        let file = btf::to_vec(&Arrays(array)).unwrap();
        assert_eq!(btf::from_slice::<Tensor>(&file).unwrap(), expected, "{what}");
        let mut written = Vec::new();
        btf::to_writer(&mut written, &Arrays(array)).unwrap();
        assert_eq!(written, file, "{what}");
        assert_eq!(Tensor::from_array(array), expected, "{what}");
        let postcard = postcard::to_stdvec(&Arrays(array)).unwrap();
        assert_eq!(postcard::from_bytes::<Tensor>(&postcard).unwrap(), expected, "{what}, in postcard");
    }

    /// Sends an array of every kind of memory order through [`check`].
    fn check_all<A: Element>(element: impl Fn(usize) -> A) {
        // More elements than are gathered at once, and not a multiple of that number.
        let array = Array3::from_shape_fn((7, 41, 61), |(a, b, c)| element((a * 41 + b) * 61 + c));
        check("row-major", &array);
        check("reversed axes", &array.t());
        check("some axes swapped", &array.view().permuted_axes([1, 0, 2]));
        check("column-major", &Array::from_shape_fn((7, 41).f(), |(a, b)| array[(a, b, 0)]));
        check("first axis backwards", &array.slice(s![..;-1, .., ..]));
        check("last axis backwards", &array.slice(s![.., .., ..;-1]));
        check("all axes backwards", &array.slice(s![..;-1, ..;-1, ..;-1]));
        check("a window", &array.slice(s![1..6, 3..40, 2..59]));
        check("steps", &array.slice(s![..;2, ..;3, ..;5]));
        check("steps backwards", &array.slice(s![..;-2, ..;-3, ..;-5]).t());
        check("a column", &array.slice(s![2, .., 3]));
        check("one element", &array.slice(s![2..3, 3..4, 4..5]));
        check("no elements", &array.slice(s![.., 3..3, ..]));
        check("a scalar", &array.slice(s![2, 3, 4]));
        check("broadcast", &array.slice(s![0, .., ..]).broadcast((9, 41, 61)).unwrap());
        check("broadcast along the last axis", &array.slice(s![0, .., 0..1]).broadcast((5, 41, 300)).unwrap());
        check("one element, many times", &array.slice(s![0, 0, 0]).broadcast((3, 10_000)).unwrap());
        check("inserted axes", &array.view().insert_axis(Axis(0)).insert_axis(Axis(4)));
        check("of dynamic rank", &array.view().into_dyn().reversed_axes());
        check("inverted", &{
            let mut view = array.view();
            view.invert_axis(Axis(1));
            view
        });
    }

    #[test]
    fn arrays_are_written_in_row_major_order() {
        check_all(|at| at as u8);
        check_all(|at| at as u16);
        check_all(|at| at as f32);
        check_all(|at| at as u64);
    }

    #[test]
    fn rows_longer_than_a_piece_are_written_whole() {
        for columns in [8191, 8192, 8193, 16384, 20_000] {
            let array = Array2::from_shape_fn((3, columns + 1), |(row, column)| (row * columns + column) as u32);
            check("rows of one run", &array.slice(s![.., 1..]));
            check("rows of steps", &array.slice(s![.., ..;2]));
        }
    }

    #[test]
    fn every_representation_gives_the_same_bytes() {
        let array = Array2::from_shape_fn((130, 70), |(row, column)| (row * 70 + column) as f64);
        let file = btf::to_vec(&Arrays(&array)).unwrap();
        let turned = array.t().to_owned();
        assert_eq!(btf::to_vec(&Arrays(turned.t())).unwrap(), file);
        assert_eq!(btf::to_vec(&Arrays(array.to_shared())).unwrap(), file);
        assert_eq!(btf::to_vec(&Arrays(CowArray::from(turned.t()))).unwrap(), file);
        assert_eq!(btf::to_vec(&Arrays(array.clone().into_dyn())).unwrap(), file);
        assert_eq!(btf::to_vec(&array).unwrap(), file, "ndarray's own representation");
        assert_eq!(btf::to_vec(&turned.t()).unwrap(), file, "ndarray's own representation");
        assert_eq!(btf::to_vec(&Tensor::from_array(&turned.t())).unwrap(), file);
        assert_eq!(btf::to_vec(&Arrays(Box::new(std::sync::Arc::new(&array)))).unwrap(), file);
    }

    #[cfg(target_pointer_width = "64")]
    #[test]
    fn a_view_of_absurd_size_is_an_error() {
        let one = array![1.0_f64];
        // 2⁶² bytes of one number, and 2⁶³.
        for (rows, columns) in [(1 << 29, 1 << 30), (1 << 30, 1 << 30)] {
            let view = one.broadcast((rows, columns)).unwrap();
            let error = btf::to_vec(&Arrays(view)).unwrap_err();
            assert_eq!(error.category(), Category::Io);
            assert_eq!(error.to_string(), "btf: out of memory");
            let error = ten::to_vec(&Arrays(view)).unwrap_err();
            assert_eq!(error.to_string(), "ten: out of memory");
        }
        // Whose bytes are more than 2⁶⁴.
        let view = one.broadcast((1 << 31, 1 << 31)).unwrap();
        let mut file = Vec::new();
        for result in [btf::to_vec(&Arrays(view)).map(drop), btf::to_writer(&mut file, &Arrays(view))] {
            assert_eq!(
                message(result),
                "btf: tensor `0`: cannot store f64[2147483648, 2147483648]; the file would be longer than can be addressed"
            );
        }
        assert!(file.is_empty(), "nothing is written");
        let several = vec![one.broadcast(1 << 60).unwrap(); 3];
        let error = btf::to_vec(&Arrays(&several)).unwrap_err();
        assert_eq!(error.category(), Category::Call, "no file is wrong");
        assert_eq!(
            error.to_string(),
            "btf: tensor `1`: cannot store f64[1152921504606846976]; the file would be longer than can be addressed"
        );
    }
}

mod streams {
    use super::*;

    /// A reader that returns a fixed number of bytes at a time.
    struct Steps<'a>(&'a [u8], usize);

    impl Read for Steps<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            let now = self.1.min(buffer.len());
            self.0.read(&mut buffer[..now])
        }
    }

    #[test]
    fn large_arrays_come_in_pieces() {
        fn check<A: Element + Debug>(element: impl Fn(usize) -> A) {
            // More than the buffer of a stream, and more than is allocated at once.
            let array = Array2::from_shape_fn((450, 1001), |(row, column)| element(row * 1001 + column));
            let values = Arrays((array![1_u8], array, array![2_u8, 3]));
            let file = btf::to_vec(&values).unwrap();
            for step in [1013, 65_536, usize::MAX] {
                assert!(btf::from_reader::<Arrays<_>>(Steps(&file, step)).unwrap() == values, "{} in {step}", A::DTYPE);
            }
            let map: TensorMap = btf::from_slice(&file).unwrap();
            assert!(btf::from_reader::<TensorMap>(Steps(&file, 8191)).unwrap() == map);
            let file = ten::to_vec(&values).unwrap();
            assert!(ten::from_reader::<Arrays<_>>(Steps(&file, 4099)).unwrap() == values);
        }

        check(|at| at as u8);
        check(|at| at as u16);
        check(|at| at as f32);
        check(|at| at as f64);
    }

    #[test]
    fn tensors_are_found_by_name_in_any_order() {
        #[derive(Deserialize, Debug, PartialEq)]
        struct Model {
            #[serde(with = "tensorfile::array")]
            last: Array1<u8>,
            layers: Vec<Linear>,
            #[serde(with = "tensorfile::array")]
            first: Array1<f64>,
        }

        let tensor = |value: f32, shape: &[usize]| Tensor::from_array(&ArrayD::from_elem(IxDyn(shape), value));
        let tensors = [
            ("layers.1.weight", tensor(1.0, &[1, 1])),
            ("first", Tensor::from_slice(&[0.5_f64], [1]).unwrap()),
            ("layers.0.bias", tensor(2.0, &[2])),
            ("last", Tensor::from_slice(&[1_u8, 2], [2]).unwrap()),
            ("layers.0.weight", tensor(3.0, &[2, 2])),
        ];
        let model = Model {
            last: array![1, 2],
            layers: vec![
                Linear { weight: array![[3.0, 3.0], [3.0, 3.0]], bias: Some(array![2.0, 2.0]) },
                Linear { weight: array![[1.0]], bias: None },
            ],
            first: array![0.5],
        };
        for turn in 0..tensors.len() {
            let mut tensors = tensors.clone();
            tensors.rotate_left(turn);
            let map: TensorMap = tensors.into_iter().collect();
            for (what, file) in [("ten", ten_file(&map)), ("BTF", btf_file(&map))] {
                let read = |reader: Dribble<'_>| match what {
                    "ten" => ten::from_reader::<Model>(reader),
                    _ => btf::from_reader::<Model>(reader),
                };
                assert_eq!(read(Dribble::new(&file)).unwrap(), model, "{what}, turned by {turn}");
            }
        }

        #[derive(Deserialize, Debug, PartialEq)]
        struct Short {
            #[serde(with = "tensorfile::array")]
            c: Array1<u8>,
            #[serde(with = "tensorfile::array")]
            a: Array1<u8>,
            #[serde(with = "tensorfile::array")]
            b: Array1<u8>,
        }

        // With the names in the stream itself.
        for names in
            [["a", "b", "c"], ["a", "c", "b"], ["b", "a", "c"], ["b", "c", "a"], ["c", "a", "b"], ["c", "b", "a"]]
        {
            let map: TensorMap =
                names.map(|name| (name, Tensor::from_slice(name.as_bytes(), [1]).unwrap())).into_iter().collect();
            let file = ten::to_vec(&map).unwrap();
            let expected = Short { a: array![b'a'], b: array![b'b'], c: array![b'c'] };
            assert_eq!(ten::from_reader::<Short>(Dribble::new(&file)).unwrap(), expected, "{names:?}");
            let expected: BTreeMap<String, Arrays<Array1<u8>>> =
                names.into_iter().map(|name| (name.to_owned(), Arrays(array![name.as_bytes()[0]]))).collect();
            assert_eq!(ten::from_reader::<BTreeMap<_, _>>(Dribble::new(&file)).unwrap(), expected, "{names:?}");
        }
    }

    #[test]
    fn a_reader_that_fails_is_reported() {
        struct Failing<'a>(&'a [u8]);

        impl Read for Failing<'_> {
            fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
                match self.0.read(buffer)? {
                    0 => Err(std::io::Error::other("the disk is on fire")),
                    len => Ok(len),
                }
            }
        }

        let file = btf::to_vec(&Arrays((array![1_u8, 2], array![3_u8]))).unwrap();
        for len in 0..file.len() - 7 {
            let error = btf::from_reader::<TensorMap>(Failing(&file[..len])).unwrap_err();
            assert_eq!(error.category(), Category::Io, "cut at {len}");
            assert!(error.to_string().contains("the disk is on fire"), "cut at {len}: {error}");
        }
    }

    #[test]
    fn interruptions_are_no_failures() {
        struct Interrupted<'a>(&'a [u8], bool);

        impl Read for Interrupted<'_> {
            fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
                self.1 = !self.1;
                if self.1 { Err(std::io::ErrorKind::Interrupted.into()) } else { self.0.read(buffer) }
            }
        }

        let map: TensorMap = [("a", Tensor::from_slice(&[1_u8], [1]).unwrap())].into_iter().collect();
        let file = ten::to_vec(&map).unwrap();
        assert_eq!(ten::from_reader::<TensorMap>(Interrupted(&file, false)).unwrap(), map);
    }
}

mod by_name {
    use super::*;

    #[test]
    fn lists_have_no_gaps() {
        #[derive(TensorFile, Debug, PartialEq)]
        struct Model {
            layers: Vec<Array1<f32>>,
        }

        let read: Model = ten::from_slice(&ten_file_of(&["layers.1", "layers.0", "layers.2"])).unwrap();
        assert_eq!(read.layers, [array![1.0], array![0.0], array![2.0]]);
        let names: Vec<String> = (0..12).map(|at| format!("layers.{at}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let read: Model = ten::from_slice(&ten_file_of(&names)).unwrap();
        assert_eq!(read.layers.len(), 12);

        let mut m = Messages::default();
        for (names, expected) in [
            (
                &["layers.0", "layers.2"][..],
                "1 gap in a list; 2 of 2 tensors fit\ngaps in lists:\n  `layers.1`  missing, but `layers.2` is there",
            ),
            (
                &["layers.1"],
                "1 gap in a list; 1 of 1 tensor fits\ngaps in lists:\n  `layers.0`  missing, but `layers.1` is there",
            ),
            (
                &["layers.0", "layers.1", "layers.10"],
                "1 gap in a list; 3 of 3 tensors fit\n\
                 gaps in lists:\n  `layers.2`  to `layers.9` missing, but `layers.10` is there",
            ),
            (&["layers.0", "layers.x"], "1 unexpected; 1 of 2 tensors fit\nunexpected:\n  `layers.x`  f32[1]"),
            (&["layers.0", "layers.01"], "1 unexpected; 1 of 2 tensors fit\nunexpected:\n  `layers.01`  f32[1]"),
            (
                &["layers.0", "layers.1.weight"],
                "1 missing, 1 unexpected; 1 of 2 tensors fit\n\
                 missing:\n  `layers.1`  f32[_]; did you mean `layers.1.weight`?\n\
                 unexpected:\n  `layers.1.weight`  f32[1]",
            ),
        ] {
            let expected = &format!("ten: {expected}");
            m.compare(format!("{names:?}"), ten::from_slice::<Model>(&ten_file_of(names)), expected);
            m.compare(
                format!("{names:?}, from a stream"),
                ten::from_reader::<Model>(&ten_file_of(names)[..]),
                expected,
            );
        }
        m.end();
    }

    #[test]
    fn missing_tensors_are_reported_with_the_names_in_the_file() {
        let mut m = Messages::default();
        let file = ten_file_of(&["decoder.bias", "encoder.weight", "encoder.bias"]);
        m.compare(
            "a field of a field",
            ten::from_slice::<BTreeMap<String, Linear>>(&file),
            "ten: missing tensor `decoder.weight`; the file has `encoder.weight`, `encoder.bias`",
        );
        #[derive(Deserialize, Debug)]
        #[expect(dead_code, reason = "it is never made")]
        struct Model {
            encoder: Linear,
            head: Linear,
        }
        m.compare(
            "a field",
            ten::from_slice::<Model>(&ten_file_of(&["x"])),
            "ten: missing tensor `encoder`; the file has `x`",
        );
        let many: Vec<String> = (0..10).map(|at| format!("n{at}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        m.compare(
            "many names",
            ten::from_slice::<Linear>(&ten_file_of(&many)),
            "ten: missing tensor `weight`; the file has `n0`, `n1`, `n2`, `n3`, `n4` and 5 more",
        );
        m.compare("an empty file", ten::from_slice::<Linear>(&[]), "ten: missing tensor `weight`");
        let expected = "ten: 1 missing; 0 of 0 tensors fit\nmissing:\n  `0`  any[..]";
        m.compare("one tensor of none", ten::from_slice::<Tensor>(&[]), expected);
        let expected = "ten: 1 unexpected; 1 of 2 tensors fit\nunexpected:\n  `b`  f32[1]";
        let file = ten_file_of(&["a", "b"]);
        m.compare("one tensor of two", ten::from_slice::<Tensor>(&file), expected);
        m.compare("an array of two", ten::from_slice::<Arrays<Array1<f32>>>(&file), expected);
        m.end();
    }

    #[test]
    fn wrong_dtypes_and_shapes_are_named() {
        let mut m = Messages::default();
        let file = ten_file_of(&["weight", "bias"]);
        m.compare(
            "rank",
            ten::from_slice::<Linear>(&file),
            "ten: tensor `weight`: the file has f32[1], but expected rank 2 (at byte 96)",
        );
        type Map<T> = BTreeMap<String, Arrays<T>>;
        m.compare(
            "dtype",
            ten::from_slice::<Map<Array1<f64>>>(&file),
            "ten: tensor `weight`: the file has f32[1], but expected f64 (at byte 96)",
        );
        m.compare(
            "element",
            ten::from_slice::<Map<f32>>(&file),
            "ten: tensor `weight`: the file has f32[1], but expected rank 0 (at byte 96)",
        );
        m.compare(
            "length",
            ten::from_slice::<Map<[f32; 2]>>(&file),
            "ten: tensor `weight`: the file has f32[1], but expected [2] (at byte 96)",
        );
        m.compare(
            "layout",
            ten::from_slice::<BTreeMap<String, CooTensor<f32>>>(&file),
            "ten: tensor `weight`: the file has f32[1], but expected COO layout (at byte 96)",
        );
        let sparse = btf::to_vec(&CooTensor::new([2], vec![1], vec![1.0_f32]).unwrap()).unwrap();
        m.compare(
            "layout",
            btf::from_slice::<Arrays<Array1<f32>>>(&sparse),
            "btf: 1 wrong layout; 0 of 1 tensor fits\nwrong layout:\n  `#0`  f32[2] in COO layout with 1 values, but \
             expected a dense tensor (`CooTensor` reads this one)",
        );
        m.compare(
            "layout",
            btf::from_slice::<Array1<f32>>(&sparse),
            "btf: tensor `#0`: the file has f32[2] in COO layout with 1 values, but expected row-major order (at byte 56)",
        );
        m.end();
    }

    #[test]
    fn duplicate_names_are_not_written() {
        struct Twice(&'static [&'static str]);

        impl Serialize for Twice {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_map(self.0.iter().map(|name| (name, Arrays(array![1.0_f32]))))
            }
        }

        let mut m = Messages::default();
        let mut file = Vec::new();
        let embed = btf::Options::new().embed_names(true);
        for (names, name) in [(&["a", "a"][..], "a"), (&["a.b", "c", "a.b"], "a.b")] {
            let error = ten::to_vec(&Twice(names)).unwrap_err();
            assert_eq!(error.category(), Category::Call, "there is no file that could be wrong");
            m.compare("ten", ten::to_writer(&mut file, &Twice(names)), &format!("ten: two tensors are named `{name}`"));
            m.compare(
                "BTF",
                embed.to_writer(&mut file, &Twice(names)),
                &format!("btf: two tensors are named `{name}`"),
            );
        }
        assert!(file.is_empty(), "nothing is written");
        m.end();
        // Formats without names accept duplicate names.
        assert_eq!(btf::from_slice::<Vec<Tensor>>(&btf::to_vec(&Twice(&["a", "a"])).unwrap()).unwrap().len(), 2);
    }
}

mod by_position {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    #[derive(TensorFile, Debug, PartialEq, Clone)]
    struct Layer {
        weight: Array2<f32>,
        bias: Option<Array1<f32>>,
    }

    #[derive(TensorFile, Debug, PartialEq, Clone)]
    struct Model {
        scale: Option<Array0<f64>>,
        layers: Vec<Layer>,
        embed: Array3<i8>,
        steps: Vec<u32>,
        counts: [Array1<i64>; 2],
    }

    fn layer(bias: bool) -> Layer {
        Layer { weight: array![[1.0, 2.0]], bias: bias.then(|| array![0.5]) }
    }

    fn model(scale: bool, layers: &[bool]) -> Model {
        Model {
            scale: scale.then(|| Array0::from_elem((), 0.25)),
            layers: layers.iter().copied().map(layer).collect(),
            embed: Array3::ones((1, 2, 3)),
            steps: vec![1, 2, 3],
            counts: [array![1], array![2, 3]],
        }
    }

    #[test]
    fn options_and_lists_are_resolved_where_there_is_one_way() {
        for scale in [true, false] {
            for layers in [&[][..], &[true], &[false], &[true, false], &[false, true, true, false, false]] {
                let model = model(scale, layers);
                let file = btf::to_vec(&model).unwrap();
                assert_eq!(btf::from_slice::<Model>(&file).unwrap(), model);
                assert_eq!(btf::from_reader::<Model>(Dribble::new(&file)).unwrap(), model);
                // A list of them without names is nothing else.
                let file = ten::to_vec(&Vec::from_iter(btf::from_slice::<Vec<Tensor>>(&file).unwrap())).unwrap();
                assert_eq!(ten::from_slice::<Model>(&file).unwrap(), model);
            }
        }
    }

    #[test]
    fn two_ways_are_an_error_that_embedded_names_settle() {
        type Two = Arrays<(Option<Array1<f32>>, Option<Array1<f32>>)>;
        let ambiguous = "btf: the file has no names, and its tensors fit the type in more than one way; \
                         `Options::embed_names` writes names";
        for value in [Arrays((Some(array![1.0]), None)), Arrays((None, Some(array![1.0])))] {
            let value: Two = value;
            assert_eq!(message(btf::from_slice::<Two>(&btf::to_vec(&value).unwrap())), ambiguous);
            assert_eq!(message(btf::from_reader::<Two>(&btf::to_vec(&value).unwrap()[..])), ambiguous);
            assert_eq!(btf::from_slice::<Two>(&btf_file(&value)).unwrap(), value);
            assert_eq!(btf::from_reader::<Two>(&btf_file(&value)[..]).unwrap(), value);
        }
        for value in [Arrays((Some(array![1.0]), Some(array![2.0]))), Arrays((None, None))] {
            let value: Two = value;
            assert_eq!(btf::from_slice::<Two>(&btf::to_vec(&value).unwrap()).unwrap(), value);
        }
        type Lists = Arrays<(Vec<Array1<f32>>, Vec<Array1<f32>>)>;
        let lists: Lists = Arrays((vec![array![1.0]], vec![array![2.0], array![3.0]]));
        assert_eq!(message(btf::from_slice::<Lists>(&btf::to_vec(&lists).unwrap())), ambiguous);
        assert_eq!(btf::from_slice::<Lists>(&btf_file(&lists)).unwrap(), lists);
    }

    #[test]
    fn mismatches_are_reported_with_the_slots() {
        type Pair = Arrays<(Array1<f32>, Array2<u8>)>;
        let mut m = Messages::default();
        let file = |tensors: &[Tensor]| btf::to_vec(tensors).unwrap();
        let vector = || Tensor::from_slice(&[1.0_f32], [1]).unwrap();
        let matrix = || Tensor::from_slice(&[1_u8, 2], [1, 2]).unwrap();
        for (what, tensors, expected) in [
            ("dtype", vec![vector(), vector()], "btf: tensor `#1`: the file has f32[1], but expected `1`: u8[_, _]"),
            ("order", vec![matrix(), vector()], "btf: tensor `#0`: the file has u8[1, 2], but expected `0`: f32[_]"),
            ("too few", vec![vector()], "btf: the file ends, but expected `1`: u8[_, _]"),
            ("none", vec![], "btf: 2 missing; 0 of 0 tensors fit\nmissing:\n  `0`  f32[_]\n  `1`  u8[_, _]"),
            (
                "too many",
                vec![vector(), matrix(), matrix()],
                "btf: tensor `#2`: the file has u8[1, 2], but expected the end",
            ),
        ] {
            m.compare(what, btf::from_slice::<Pair>(&file(&tensors)), expected);
            m.compare(format!("{what}, from a stream"), btf::from_reader::<Pair>(&file(&tensors)[..]), expected);
        }
        m.compare(
            "several slots",
            btf::from_slice::<Model>(&file(&[vector()])),
            "btf: tensor `#0`: the file has f32[1], but expected `scale`: f64[] or `layers.0.weight`: f32[_, _] or `embed`: i8[_, _, _]",
        );
        m.compare(
            "a list",
            btf::from_slice::<Arrays<Vec<Array1<f32>>>>(&file(&[vector(), matrix()])),
            "btf: 1 wrong dtype; 1 of 2 tensors fit\nwrong dtype:\n  `#1`  u8[1, 2], but expected f32",
        );
        m.compare(
            "a tensor of two",
            btf::from_slice::<Tensor>(&file(&[vector(), matrix()])),
            "btf: 1 unexpected; 1 of 2 tensors fit\nunexpected:\n  `#1`  u8[1, 2]",
        );
        m.compare(
            "a map of structs",
            btf::from_slice::<Arrays<(BTreeMap<String, Array1<f32>>, Array2<u8>)>>(&file(&[vector(), matrix()])),
            "btf: cannot read a map by position; write the file with `Options::embed_names`",
        );
        m.end();
    }

    #[test]
    fn plain_structs_are_read_by_position() {
        #[derive(Serialize, Deserialize, Debug, PartialEq)]
        struct Plain {
            #[serde(with = "tensorfile::array")]
            image: Array2<u8>,
            label: i64,
            native: Array1<f32>,
        }

        let plain = Plain { image: array![[1, 2]], label: 3, native: array![4.0] };
        let file = btf::to_vec(&plain).unwrap();
        assert_eq!(btf::from_slice::<Plain>(&file).unwrap(), plain);
        assert_eq!(btf::from_reader::<Plain>(&file[..]).unwrap(), plain);
        let file = btf::to_vec(&[Tensor::from_array(&plain.image), Tensor::from_slice(&[3_i64], []).unwrap()]).unwrap();
        assert_eq!(message(btf::from_slice::<Plain>(&file)), "btf: the file has 2 tensors, but expected at least 3");
        let one = || Tensor::from_slice(&[3_i64], []).unwrap();
        let native = Tensor::from_array(&plain.native);
        let file = btf::to_vec(&[Tensor::from_array(&plain.image), one(), native.clone(), one()]).unwrap();
        assert_eq!(message(btf::from_slice::<Plain>(&file)), "btf: the file has 4 tensors, but expected 3");
        let file = btf::to_vec(&[Tensor::from_array(&plain.image), native, one()]).unwrap();
        assert_eq!(
            message(btf::from_slice::<Plain>(&file)),
            "btf: tensor `#1`: the file has f32[1], but expected rank 0 (at byte 96)"
        );
    }

    /// A value and what reading its file without names may say: the value, or that there is more than one way.
    #[track_caller]
    fn assert_not_guessed<T: TensorFile + for<'de> FromTensors<'de> + Debug + PartialEq>(value: T) {
        let value = Arrays(value);
        let named = btf_file(&value);
        assert_eq!(btf::from_slice::<Arrays<T>>(&named).unwrap(), value);
        assert_eq!(ten::from_reader::<Arrays<T>>(&ten_file(&value)[..]).unwrap(), value);
        let file = btf::to_vec(&value).unwrap();
        for read in [btf::from_slice::<Arrays<T>>(&file), btf::from_reader(&file[..])] {
            match read {
                Ok(read) => assert_eq!(read, value),
                Err(error) => assert!(matches!(error.kind(), ErrorKind::Ambiguous), "{value:?}: {error}"),
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn nothing_is_guessed(
            options in vec(any::<bool>(), 8),
            lengths in vec(0..4_usize, 4),
        ) {
            let vector = |at: usize| options[at].then(|| Array1::from_elem(at, at as f32));
            let matrix = |at: usize| options[at].then(|| Array2::from_elem((1, at), at as f32));
            let list = |at: usize| (0..lengths[at]).map(|item| Array1::from_elem(item, at as f32)).collect::<Vec<_>>();
            let layers = |at: usize| {
                let layer = |item: usize| Layer { weight: Array2::from_elem((item, at), 1.0), bias: vector((item + at) % 8) };
                (0..lengths[at]).map(layer).collect::<Vec<_>>()
            };
            assert_not_guessed((vector(0), matrix(1), vector(2)));
            assert_not_guessed((vector(0), vector(1), matrix(2), vector(3)));
            assert_not_guessed((list(0), matrix(1), list(1), Array0::from_elem((), 1.0_f32)));
            assert_not_guessed((list(0), list(1)));
            assert_not_guessed((layers(0), vector(1), layers(2)));
            assert_not_guessed((layers(0), matrix(1), list(2)));
            assert_not_guessed((vector(0), [(matrix(1), vector(2)), (matrix(3), vector(4))], layers(3)));
            assert_not_guessed(vec![(Array0::from_elem((), 1.0_f32), list(0), matrix(1)), (Array0::from_elem((), 2.0), list(2), None)]);
            assert_not_guessed((options[5].then(|| (Array2::<f32>::zeros((1, 1)), vector(6))), vector(7), matrix(0)));
        }
    }

    #[test]
    fn unused_schemas_are_dropped() {
        #[derive(Deserialize)]
        struct Outer {
            #[serde(flatten)]
            layer: Layer,
        }

        #[derive(Serialize, Deserialize, Debug, PartialEq)]
        struct Plain {
            #[serde(with = "tensorfile::array")]
            second: Array2<f32>,
        }

        // A derived struct tells its schema to a deserializer of serde's, which does not take it.
        let file = ten_file(&layer(true));
        let outer: Outer = ten::from_slice(&file).unwrap();
        assert_eq!(outer.layer, layer(true));
        let plain = Plain { second: array![[1.0, 2.0]] };
        assert_eq!(btf::from_slice::<Plain>(&btf::to_vec(&plain).unwrap()).unwrap(), plain);
    }

    #[test]
    fn positions_are_the_names_of_a_map() {
        let arrays = Arrays(vec![array![1.0_f32], array![2.0]]);
        let file = btf::to_vec(&arrays).unwrap();
        let map: Arrays<BTreeMap<u32, Array1<f32>>> = btf::from_slice(&file).unwrap();
        assert_eq!(map.0, BTreeMap::from([(0, array![1.0]), (1, array![2.0])]));
        let map: Arrays<HashMap<String, Array1<f32>>> = btf::from_reader(&file[..]).unwrap();
        assert_eq!(map.0, HashMap::from([("0".to_owned(), array![1.0]), ("1".to_owned(), array![2.0])]));
    }

    #[test]
    fn the_same_map_gives_the_same_bytes() {
        let names: Vec<String> = (0..100).map(|at| format!("n{at}")).collect();
        let map = || Arrays(HashMap::<String, u16>::from_iter(names.iter().cloned().zip(0..)));
        let file = ten_file(&map());
        for _ in 0..5 {
            assert_eq!(ten_file(&map()), file);
        }
    }
}

mod maps {
    use super::*;

    /// A value that reads nothing.
    #[derive(Deserialize, Debug)]
    struct Unit;

    #[test]
    fn a_tensor_is_not_a_map_in_a_map() {
        let tensor = || Tensor::from_slice(&[1_u8], [1]).unwrap();
        let file = ten_file(&BTreeMap::from([("a", tensor()), ("b", tensor())]));
        let expected = "ten: tensor `a`: the file has u8[1], but expected a map (at byte 96)";
        let error = ten::from_slice::<BTreeMap<String, BTreeMap<String, Tensor>>>(&file).unwrap_err();
        assert_eq!(error.to_string(), expected);
        let error = ten::from_slice::<Arrays<BTreeMap<String, BTreeMap<String, Array1<u8>>>>>(&file).unwrap_err();
        let expected = "ten: 2 wrong layout; 0 of 2 tensors fit\nwrong layout:\n  `a`  u8[1], but expected a map\n  \
                        `b`  u8[1], but expected a map";
        assert_eq!(error.to_string(), expected);
    }

    #[test]
    fn an_entry_that_reads_nothing_ends_the_map() {
        let file = ten_file(&BTreeMap::from([("a", Tensor::from_slice(&[1_u8], [1]).unwrap())]));
        let error = ten::from_slice::<BTreeMap<String, Unit>>(&file).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Unexpected { .. }), "{error}");
        let error = ten::from_slice::<HashMap<String, ()>>(&file).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Unexpected { .. }), "{error}");
    }
}
