//! Derived structs in files without names: fields are matched by dtype and rank, and never guessed.

use std::collections::BTreeMap;

use ndarray::{Array1, Array2, array};
use serde::{Deserialize, Serialize};
use tensorfile::model::{FieldAttrs, FromTensors, Node, Sink, Source, Store, TensorSpec};
use tensorfile::{Arrays, Element, ErrorKind, File, Result, Tensor, TensorFile, TensorMap, btf, ten};

#[derive(TensorFile, Debug, PartialEq, Clone)]
struct Linear {
    weight: Array2<f32>,
    bias: Option<Array1<f32>>,
}

#[derive(TensorFile, Debug, PartialEq)]
struct Mlp {
    embed: Linear,
    layers: Vec<Linear>,
    head: Array2<f64>,
}

fn linear(bias: bool) -> Linear {
    Linear { weight: array![[1.0, 2.0]], bias: bias.then(|| array![3.0]) }
}

#[test]
fn structs_come_back_the_same() {
    for model in [
        Mlp { embed: linear(true), layers: vec![linear(false), linear(true)], head: array![[1.0]] },
        Mlp { embed: linear(false), layers: vec![], head: array![[1.0]] },
    ] {
        let embedded = btf::Options::new().embed_names(true).to_vec(&model).unwrap();
        for file in [btf::to_vec(&model).unwrap(), embedded] {
            assert_eq!(btf::from_slice::<Mlp>(&file).unwrap(), model);
            assert_eq!(btf::from_reader::<Mlp>(&file[..]).unwrap(), model);
        }
    }
}

#[test]
fn lists_of_structs_come_back_the_same() {
    for list in [vec![], vec![linear(false)], vec![linear(false), linear(false), linear(true)]] {
        let embedded = btf::Options::new().embed_names(true).to_vec(&list).unwrap();
        for file in [btf::to_vec(&list).unwrap(), embedded] {
            assert_eq!(btf::from_slice::<Vec<Linear>>(&file).unwrap(), list);
            assert_eq!(btf::from_reader::<Vec<Linear>>(&file[..]).unwrap(), list);
            let Arrays(read): Arrays<Vec<Linear>> = btf::from_slice(&file).unwrap();
            assert_eq!(read, list);
        }
    }
    let pair = (linear(true), vec![linear(false)]);
    let file = btf::to_vec(&Arrays(&pair)).unwrap();
    let Arrays(read): Arrays<(Linear, Vec<Linear>)> = btf::from_slice(&file).unwrap();
    assert_eq!(read, pair);
}

#[test]
fn parts_of_every_kind_come_back_the_same() {
    #[derive(TensorFile, Debug, PartialEq, Clone)]
    #[tensor(prefix = "block.norm")]
    struct Norm {
        scale: Array1<f64>,
        shift: Array1<f64>,
    }

    #[derive(TensorFile, Debug, PartialEq, Clone)]
    struct Named(Array1<i64>);

    #[derive(TensorFile, Debug, PartialEq, Clone)]
    struct Parts {
        #[tensor(default)]
        first: Array2<f64>,
        lists: Vec<(Array1<f32>, Vec<Array2<f32>>)>,
        pair: (u8, Named),
        #[tensor(default)]
        norms: Vec<Norm>,
        #[tensor(transpose, shape = [_, 2])]
        turned: Array2<i32>,
        many: [Array1<u16>; 2],
        maybe: Option<Vec<Array1<i8>>>,
        nothing: (),
        last: Option<Named>,
    }

    let norm = Norm { scale: array![1.0], shift: array![2.0, 3.0] };
    let most = Parts {
        first: array![[0.5]],
        lists: vec![(array![1.0], vec![]), (array![2.0], vec![array![[3.0]], array![[4.0]]])],
        pair: (7, Named(array![8])),
        norms: vec![norm.clone(), norm],
        turned: array![[1, 2], [3, 4], [5, 6]],
        many: [array![1], array![]],
        maybe: Some(vec![array![1], array![2]]),
        nothing: (),
        last: Some(Named(array![9])),
    };
    let fewest = Parts { lists: vec![], norms: vec![], maybe: None, last: None, ..most.clone() };
    for parts in [most, fewest] {
        let embedded = btf::Options::new().embed_names(true).to_vec(&parts).unwrap();
        for file in [btf::to_vec(&parts).unwrap(), embedded] {
            assert_eq!(btf::from_slice::<Parts>(&file).unwrap(), parts);
            assert_eq!(btf::from_reader::<Parts>(&file[..]).unwrap(), parts);
            assert_eq!(File::from_bytes(file).unwrap().load::<Parts>().unwrap(), parts);
        }
    }
    let named = Arrays(Some(Named(array![1])));
    let Arrays(read): Arrays<Option<Named>> = btf::from_slice(&btf::to_vec(&named).unwrap()).unwrap();
    assert_eq!(Arrays(read), named);
}

#[test]
fn errors_in_payloads_name_the_field() {
    #[derive(TensorFile, Debug)]
    struct Layer<A: Element> {
        weight: Array2<f32>,
        #[tensor(cast)]
        count: Array1<A>,
    }

    let layer = |count| Layer { weight: array![[0.0]], count: array![count] };
    let layers = Arrays(vec![layer(1_i16), layer(-1)]);
    for (names, at) in [(false, 176), (true, 184)] {
        let file = btf::Options::new().embed_names(names).to_vec(&layers).unwrap();
        let error = btf::from_slice::<Arrays<Vec<Layer<u8>>>>(&file).unwrap_err();
        let expected = format!("btf: tensor `1.count`: element 0 is -1, which u8 cannot hold (at byte {at})");
        assert_eq!(error.to_string(), expected);
    }
}

#[test]
fn types_that_are_not_what_they_say_are_refused() {
    /// Says to be a list, and calls something else.
    #[derive(Debug)]
    struct Liar<const CALL: usize>;

    impl<const CALL: usize> TensorFile for Liar<CALL> {
        const NODE: Node = Vec::<(Tensor, Tensor)>::NODE;
    }

    impl<const CALL: usize> Store for Liar<CALL> {
        fn store(&self, _: &mut dyn Sink, _: &FieldAttrs) -> Result<()> {
            unreachable!("it is only read")
        }
    }

    impl<'de, const CALL: usize> FromTensors<'de> for Liar<CALL> {
        fn load(source: &mut dyn Source<'de>, _: &FieldAttrs) -> Result<Self> {
            match CALL {
                0 => source.tensor(&TensorSpec::ANY).map(drop),
                1 => source.list(&mut |_, _| Ok(())),
                2 => source.list(&mut |_, source| source.tensor(&TensorSpec::ANY).map(drop)),
                3 => source.tuple(3, &mut |_, source| source.tensor(&TensorSpec::ANY).map(drop)),
                4 => source.option(&mut |_, source| source.tensor(&TensorSpec::ANY).map(drop)),
                5 => source
                    .list(&mut |_, source| source.tuple(3, &mut |_, source| source.tensor(&TensorSpec::ANY).map(drop))),
                _ => Ok(()),
            }?;
            Ok(Self)
        }
    }

    let file = btf::to_vec(&[1_u8; 4].map(|number| Tensor::from_slice(&[number], [1]).unwrap())).unwrap();
    fn error<const CALL: usize>(file: &[u8]) -> String {
        File::from_bytes(file.to_vec()).unwrap().load::<Liar<CALL>>().unwrap_err().to_string()
    }

    let other = "btf: the type asks for something other than its `NODE`";
    let errors = [error::<0>, error::<1>, error::<2>, error::<3>, error::<4>, error::<5>];
    assert_eq!(errors.map(|error| error(&file)), [other; 6]);
    // It does not ask for anything.
    assert_eq!(error::<6>(&file), "btf: unexpected tensor `0.0` (at byte 64)");
}

#[test]
fn ambiguous_files_are_refused() {
    #[derive(TensorFile, Debug)]
    struct Either {
        one: Option<Array1<f32>>,
        other: Option<Array1<f32>>,
    }

    #[derive(Serialize, Deserialize, Debug)]
    struct Plain {
        one: Option<Tensor>,
        other: Option<Tensor>,
    }

    let either = Either { one: None, other: Some(array![1.0]) };
    for file in [btf::to_vec(&either).unwrap(), btf::to_vec(&[&either]).unwrap()] {
        assert!(matches!(btf::from_slice::<Either>(&file).unwrap_err().kind(), ErrorKind::Ambiguous));
    }
    let error = btf::from_slice::<Vec<Either>>(&btf::to_vec(&[either]).unwrap()).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Ambiguous));

    let plain = Plain { one: None, other: Some(Tensor::from_slice(&[1.0_f32], [1]).unwrap()) };
    assert_eq!(
        btf::to_vec(&plain).unwrap_err().to_string(),
        "btf: tensor `one`: cannot store `None` without names; the next value would be read in its place; embed names, \
         by `Options::embed_names`"
    );
    let file = btf::to_vec(&[plain.other.unwrap()]).unwrap();
    let advice = "write the file with `Options::embed_names`";
    let expected = format!("btf: cannot read an `Option` by position; {advice}");
    assert_eq!(btf::from_slice::<Plain>(&file).unwrap_err().to_string(), expected);
    assert_eq!(btf::from_slice::<(Option<Tensor>, Option<Tensor>)>(&file).unwrap_err().to_string(), expected);
    let expected = format!("btf: cannot read a list inside of another value by position; {advice}");
    assert_eq!(btf::from_slice::<(Vec<Tensor>, Vec<Tensor>)>(&file).unwrap_err().to_string(), expected);
}

#[test]
fn embedded_names_do_not_change_the_order_of_a_list() {
    let map: TensorMap = ["1", "0"]
        .map(|name| (name, Tensor::from_slice(&[name.parse::<f32>().unwrap()], [1]).unwrap()))
        .into_iter()
        .collect();
    let file = btf::Options::new().embed_names(true).to_vec(&map).unwrap();
    let slice: Arrays<Vec<Array1<f32>>> = btf::from_slice(&file).unwrap();
    let stream: Arrays<Vec<Array1<f32>>> = btf::from_reader(&file[..]).unwrap();
    assert_eq!(slice.0, [array![1.0], array![0.0]]);
    assert_eq!(stream, slice);
}

#[test]
fn a_struct_is_not_read_where_a_tensor_lies() {
    #[derive(TensorFile, Debug, PartialEq)]
    struct Part {
        x: Option<Array1<f32>>,
    }

    #[derive(Deserialize, Debug)]
    #[allow(dead_code, reason = "only read")]
    struct Outer {
        #[serde(flatten)]
        parts: BTreeMap<String, Part>,
    }

    let parts = BTreeMap::from([("a", Part { x: Some(array![1.0]) })]);
    let file = ten::to_vec(&parts).unwrap();
    let error = ten::from_slice::<Outer>(&file).unwrap_err();
    let expected = "ten: invalid type: floating point `1.0`, expected an array of f32 and rank 1";
    assert_eq!(error.to_string(), expected);
}

#[test]
fn a_type_that_contains_itself_does_not_follow_a_name_without_end() {
    #[derive(TensorFile, Debug)]
    #[allow(dead_code, reason = "only read")]
    struct Tree {
        value: Option<Array1<f32>>,
        left: Option<Box<Tree>>,
    }

    let name = "left.".repeat(10_000) + "value";
    let map = TensorMap::from_iter([(name, Tensor::from_slice(&[1.0_f32], [1]).unwrap())]);
    let file = btf::Options::new().embed_names(true).to_vec(&map).unwrap();
    let error = btf::from_slice::<Tree>(&file).unwrap_err();
    assert_eq!(error.to_string(), "btf: number of segments in a name is 129, but the limit is 128");
}

#[test]
fn a_name_that_is_a_number_is_stored_where_it_was_given() {
    let mut encoder = ten::Encoder::new(Vec::new());
    encoder.encode("0", &1_u8).unwrap();
    encoder.encode("", &2_u8).unwrap();
    let stream = encoder.into_inner();
    let names: Vec<String> = ten::Decoder::new(&stream[..]).map(|tensor| tensor.unwrap().0).collect();
    assert_eq!(names, ["0", ""]);
}

#[test]
fn numbers_keep_their_bits() {
    let signalling = f32::from_bits(0x7f80_0001);
    let read: Vec<f32> = btf::from_slice(&btf::to_vec(&vec![signalling]).unwrap()).unwrap();
    assert_eq!(read[0].to_bits(), 0x7f80_0001);
    let options: Vec<Option<f32>> = btf::from_slice(&btf::to_vec(&vec![Some(1.0_f32)]).unwrap()).unwrap();
    assert_eq!(options, [Some(1.0)]);
}

#[test]
fn the_shape_of_a_field_holds_when_it_is_written_too() {
    #[derive(TensorFile, Debug)]
    struct Pair {
        #[tensor(shape = [2, _])]
        weight: Array2<f32>,
    }

    let error = ten::to_vec(&Pair { weight: Array2::zeros((3, 3)) }).unwrap_err();
    let expected = "ten: tensor `weight`: cannot store an array of shape [3, 3]; its field says `shape = [2, _]`";
    assert_eq!(error.to_string(), expected);
}

#[test]
fn a_refused_tensor_cannot_be_passed_over() {
    struct Careless;

    impl Serialize for Careless {
        fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            use serde::ser::SerializeMap;

            let mut map = serializer.serialize_map(None)?;
            let _ = map.serialize_entry("half", &Tensor::from_slice(&[half::f16::ONE], [1]).unwrap());
            map.end()
        }
    }

    let error = btf::to_vec(&Careless).unwrap_err();
    assert_eq!(error.to_string(), "btf: a tensor was refused, and the value ignored the error");
}
