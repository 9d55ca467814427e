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
    // Numbers stored as separate tensors are a list too.
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
    assert_eq!(contents(&model), ["encoder.weight: f32[2, 2]", "encoder.bias: f32[1]", "decoder.weight: f32[2, 2]"]);
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
    let file =
        ten_file(&BTreeMap::from([("a", tensor(1.0)), ("b", tensor(2.0)), ("c.d", tensor(3.0)), ("c.e", tensor(4.0))]));
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

/// In a plain struct, each format stores each dtype that it has, and refuses the others.
#[test]
fn every_format_stores_its_dtypes() {
    #[derive(Serialize, Deserialize, Debug, PartialEq)]
    struct Numbers<T> {
        list: Vec<T>,
        number: T,
        pair: (T, T),
    }

    #[derive(Serialize, Deserialize, Debug, PartialEq)]
    struct Held {
        tensor: Tensor,
    }

    #[track_caller]
    fn check<T: Serialize + DeserializeOwned + PartialEq + Debug>(dtype: Dtype, value: &T) {
        for road in roads(value) {
            let format = tensorfile::Format::named(road.format).unwrap();
            match &road.file {
                Ok(file) => {
                    assert!(format.dtypes.contains(&dtype), "{} stores {dtype}", road.format);
                    assert_eq!((road.from_slice)(file).unwrap(), *value, "{}, {dtype}", road.format);
                    assert_eq!((road.from_reader)(file).unwrap(), *value, "{}, {dtype}, from a stream", road.format);
                }
                Err(error) => assert!(!format.dtypes.contains(&dtype), "{dtype}: {error}"),
            }
        }
    }

    macro_rules! numbers {
        ($($number:ty: $values:expr;)*) => {$({
            let [one, two, three]: [$number; 3] = $values;
            check(<$number>::DTYPE, &Numbers { list: vec![one, two, three], number: two, pair: (three, one) });
        })*};
    }

    numbers! {
        bool: [true, false, true];
        i8: [i8::MIN, 0, i8::MAX];
        i16: [i16::MIN, 0, i16::MAX];
        i32: [i32::MIN, 0, i32::MAX];
        i64: [i64::MIN, 0, i64::MAX];
        u8: [1, 0, u8::MAX];
        u16: [1, 0, u16::MAX];
        u32: [1, 0, u32::MAX];
        u64: [1, 0, u64::MAX];
        f32: [f32::MIN, -0.0, f32::INFINITY];
        f64: [f64::MIN, -0.0, f64::INFINITY];
    }
    for &dtype in Dtype::ALL {
        let info = TensorInfo::new(dtype, [2, 256]);
        let bytes: Vec<u8> = (0..info.payload_bytes().unwrap()).map(|i| (i % 2) as u8).collect();
        check(dtype, &Held { tensor: Tensor::new(info, &bytes).unwrap() });
    }
    let tested: Vec<&str> = roads(&1.0_f32).iter().map(|road| road.format).collect();
    for format in tensorfile::FORMATS.iter().filter(|format| format.name != "npy") {
        assert!(tested.contains(&format.name), "{} is not in `roads`", format.name);
    }
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
        "ten: tensor `x`: the file has u8[2], but expected u16; `#[tensor(cast)]` converts it (at byte 96)",
    );
    m.compare(
        "signed",
        ten::from_slice::<BTreeMap<String, Vec<i8>>>(&file),
        "ten: tensor `x`: the file has u8[2], but expected i8; `#[tensor(cast)]` converts it (at byte 96)",
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
        "ten: tensor `x`: the file has u8[2], but expected f32; `#[tensor(cast)]` converts it (at byte 96)",
    );
    m.compare(
        "bytes",
        ten::from_slice::<BTreeMap<String, serde_bytes::ByteBuf>>(&ten_file(&BTreeMap::from([("x", 1_u16)]))),
        "ten: tensor `x`: the file has u16[], but expected u8; `#[tensor(cast)]` converts it (at byte 96)",
    );
    m.end();
}
