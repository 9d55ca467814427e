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
        "btf: 1 wrong dtype; 1 of 2 tensors fit\nwrong dtype (`#[tensor(cast)]` converts numbers):\n  `#1`  u8[1, 2], but expected f32",
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
