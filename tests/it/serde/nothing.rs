//! Values that store nothing: empty lists and maps, absent options, and structs of them. Such a value is read back the
//! same, or refused before the first byte.

use proptest::collection::{btree_map, vec};
use proptest::prelude::*;

use super::*;

/// A plain serde struct whose parts may all be empty.
#[derive(Serialize, Deserialize, Debug, PartialEq, Clone)]
struct Plain {
    step: f32,
    list: Vec<i32>,
    rows: Vec<Vec<f32>>,
    map: BTreeMap<String, Vec<f32>>,
    option: Option<i8>,
    option_of_list: Option<Vec<f32>>,
    pair: (Vec<f32>, f32),
    inner: Inner,
    items: Vec<Inner>,
    entries: BTreeMap<String, Inner>,
    #[serde(with = "tensorfile::array")]
    array: Option<Array1<f32>>,
    #[serde(with = "tensorfile::array", default)]
    arrays: Vec<Array1<f32>>,
    #[serde(default)]
    defaulted: Vec<f32>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    skipped: Vec<f32>,
    none: [f32; 0],
    unit: (),
}

#[derive(Serialize, Deserialize, Debug, PartialEq, Clone)]
struct Inner {
    option: Option<f32>,
    list: Vec<f32>,
}

/// Structs with flattened maps are maps to serde.
#[derive(Serialize, Deserialize, Debug, PartialEq, Clone)]
struct Flat {
    step: f32,
    option: Option<f32>,
    #[serde(flatten)]
    rest: BTreeMap<String, Vec<i16>>,
}

#[derive(TensorFile, Debug, PartialEq, Clone)]
struct Derived {
    step: f32,
    list: Vec<i32>,
    arrays: Vec<Array1<f32>>,
    map: BTreeMap<String, Option<Array1<f32>>>,
    lists: BTreeMap<String, Vec<Array1<f32>>>,
    maps: BTreeMap<String, BTreeMap<String, f32>>,
    option: Option<Part>,
    option_of_list: Option<Vec<Array1<f32>>>,
    pair: (Option<f32>, Vec<Array1<f32>>),
    items: Vec<Part>,
    #[tensor(flatten)]
    flat: Option<Other>,
    #[tensor(default)]
    defaulted: Vec<Array1<f32>>,
    #[tensor(default = "one_array")]
    one: Vec<Array1<f32>>,
    #[tensor(default = "one_number")]
    number: Option<f32>,
}

fn one_array() -> Vec<Array1<f32>> {
    vec![array![1.0]]
}

fn one_number() -> Option<f32> {
    Some(1.0)
}

#[derive(TensorFile, Debug, PartialEq, Clone, Default)]
struct Part {
    down: Option<Array1<f32>>,
    up: Option<Array2<f32>>,
}

#[derive(TensorFile, Debug, PartialEq, Clone, Default)]
struct Other {
    left: Option<Array1<f32>>,
    right: Vec<Array1<f32>>,
}

/// Unknown tensors are skipped, so an empty list is a missing one.
#[derive(TensorFile, Debug, PartialEq, Clone)]
#[tensor(allow_unknown)]
struct Lenient {
    step: Option<f32>,
    list: Vec<Array1<f32>>,
    part: Other,
    #[tensor(default)]
    map: BTreeMap<String, Array1<f32>>,
}

fn floats() -> impl Strategy<Value = Vec<f32>> {
    vec((0..9_i32).prop_map(|number| number as f32), 0..3)
}

fn array() -> impl Strategy<Value = Array1<f32>> {
    floats().prop_map(Array1::from)
}

fn key() -> impl Strategy<Value = String> {
    "[a-c]".prop_map(|key| key)
}

fn inner() -> impl Strategy<Value = Inner> {
    (proptest::option::of(Just(0.5)), floats()).prop_map(|(option, list)| Inner { option, list })
}

prop_compose! {
    fn plain()(
        (list, rows, map, option) in (vec(0..9, 0..3), vec(floats(), 0..3), btree_map(key(), floats(), 0..2), any::<Option<i8>>()),
        (option_of_list, first, part) in (proptest::option::of(floats()), floats(), inner()),
        (items, entries) in (vec(inner(), 0..2), btree_map(key(), inner(), 0..2)),
        (array, arrays) in (proptest::option::of(array()), vec(array(), 0..2)),
        (defaulted, skipped) in (floats(), floats()),
    ) -> Plain {
        Plain {
            step: 1.0, list, rows, map, option, option_of_list, pair: (first, 2.0), inner: part, items, entries, array, arrays,
            defaulted, skipped, none: [], unit: (),
        }
    }
}

prop_compose! {
    fn part()(down in proptest::option::of(array()), up in proptest::option::of(Just(array![[1.0_f32]]))) -> Part {
        Part { down, up }
    }
}

prop_compose! {
    fn other()(left in proptest::option::of(array()), right in vec(array(), 0..2)) -> Other {
        Other { left, right }
    }
}

prop_compose! {
    fn derived()(
        (list, arrays) in (vec(0..9, 0..3), vec(array(), 0..2)),
        map in btree_map(key(), proptest::option::of(array()), 0..2),
        lists in btree_map(key(), vec(array(), 0..2), 0..2),
        maps in btree_map(key(), btree_map(key(), Just(2.0_f32), 0..2), 0..2),
        (option, option_of_list) in (proptest::option::of(part()), proptest::option::of(vec(array(), 0..2))),
        (first, second) in (proptest::option::of(Just(1.0_f32)), vec(array(), 0..2)),
        (items, flat) in (vec(part(), 0..2), proptest::option::of(other())),
        (defaulted, one, number) in (vec(array(), 0..2), vec(array(), 0..2), proptest::option::of(Just(2.0_f32))),
    ) -> Derived {
        Derived {
            step: 1.0, list, arrays, map, lists, maps, option, option_of_list, pair: (first, second), items, flat, defaulted, one,
            number,
        }
    }
}

/// Checks that a value is read again, or refused.
#[track_caller]
fn check<T: Serialize + DeserializeOwned + PartialEq + Debug>(value: &T) {
    check_roads(value, roads(value));
    check_short_names(value);
}

/// As [`check`], for ten without a list of names: it leaves out names that equal positions.
#[track_caller]
fn check_short_names<T: Serialize + DeserializeOwned + PartialEq + Debug>(value: &T) {
    let Ok(file) = ten::to_vec(value) else { return };
    let mut written = Vec::new();
    ten::to_writer(&mut written, value).unwrap();
    assert_eq!(written, file);
    let is_ambiguous =
        |read: &tensorfile::Result<T>| read.as_ref().is_err_and(|error| matches!(error.kind(), ErrorKind::Ambiguous));
    for read in [ten::from_slice::<T>(&file), ten::from_reader(Dribble::new(&file))] {
        if !is_ambiguous(&read) {
            assert_eq!(read.unwrap(), *value);
        }
    }
}

/// As [`check`], for a map. Without names, the positions of the tensors are its keys.
#[track_caller]
fn check_map<T: Serialize + DeserializeOwned + PartialEq + Debug>(map: &T) {
    check_roads(map, roads(map).into_iter().filter(|road| road.has_names).collect());
}

#[track_caller]
fn check_roads<T: PartialEq + Debug>(value: &T, roads: Vec<Road<T>>) {
    for Road { format, has_names, file, from_slice, from_reader } in roads {
        let Ok(file) = file else { continue };
        for read in [from_slice(&file), from_reader(&file)] {
            match read {
                Ok(read) => assert_eq!(read, *value, "{format}, with names: {has_names}"),
                Err(error) if !has_names && matches!(error.kind(), ErrorKind::Ambiguous) => {}
                Err(error) if !has_names && error.to_string().contains("by position") => {}
                Err(error) => panic!("{format}, with names: {has_names}: {error}\n{value:?}"),
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn values_that_store_nothing_are_read_again_or_refused(
        plain in plain(),
        (first, second) in (floats(), floats()),
        rest in btree_map("[a-c](\\.[0-9])?", vec(-9..9_i16, 0..3), 0..3),
        option in proptest::option::of(Just(1.0_f32)),
    ) {
        check(&plain);
        check(&plain.inner);
        check(&plain.items);
        check(&plain.rows);
        check(&plain.list);
        check_map(&plain.map);
        check_map(&plain.entries);
        check(&(first.clone(), second.clone()));
        check(&(first.clone(), second.clone(), plain.inner.clone()));
        check(&(plain.map.clone(), first, second));
        check_map(&Flat { step: 1.0, option, rest });
    }

    #[test]
    fn derived_values_that_store_nothing_are_read_again_or_refused(
        derived in derived(),
        lenient in (proptest::option::of(Just(1.0_f32)), vec(array(), 0..2), other(), btree_map(key(), array(), 0..2)),
    ) {
        check(&derived);
        check(&derived.items);
        check_map(&derived.map);
        check_map(&derived.lists);
        check_map(&derived.maps);
        check(&(derived.option.clone(), derived.flat.clone()));
        let (step, list, part, map) = lenient;
        check(&Lenient { step, list, part, map });
    }
}

/// Most of the values above are refused for one of their parts, so each part is tested alone, too.
#[test]
fn each_part_that_stores_nothing() {
    #[derive(Serialize, Deserialize, Debug, PartialEq)]
    struct Field<T> {
        step: f32,
        value: T,
    }

    #[derive(TensorFile, Debug, PartialEq)]
    struct DerivedField<T> {
        step: f32,
        value: T,
    }

    /// Checks whether a value is saved in each format with names, and in BTF without.
    #[track_caller]
    fn plain<T: Serialize + DeserializeOwned + PartialEq + Debug>(value: T, [named, unnamed]: [bool; 2]) {
        let value = Field { step: 1.0, value };
        check(&value);
        for road in roads(&value) {
            let expected = if road.has_names { named } else { unnamed };
            assert_eq!(road.file.is_ok(), expected, "{value:?} in {}, with names: {}", road.format, road.has_names);
        }
    }

    #[track_caller]
    fn derived<T: TensorFile + for<'de> FromTensors<'de> + PartialEq + Debug>(value: T, [named, unnamed]: [bool; 2]) {
        let value = DerivedField { step: 1.0, value };
        check(&value);
        for road in roads(&value) {
            let expected = if road.has_names { named } else { unnamed };
            assert_eq!(road.file.is_ok(), expected, "{value:?} in {}, with names: {}", road.format, road.has_names);
        }
    }

    type Map<T> = BTreeMap<String, T>;
    fn map<T>(value: T) -> Map<T> {
        Map::from([("a".to_owned(), value)])
    }
    let one = || Some(array![1.0_f32]);

    plain(Vec::<f32>::new(), [true, false]);
    plain(Map::<f32>::new(), [true, false]);
    plain(None::<f32>, [true, false]);
    plain(Inner { option: None, list: vec![] }, [true, false]);
    plain((), [true, true]);
    plain([0.0_f32; 0], [true, true]);
    plain((Vec::<f32>::new(), vec![1.0_f32]), [true, false]);
    plain(vec![Inner { option: Some(1.0), list: vec![] }], [true, false]);
    plain(Some(Vec::<f32>::new()), [false; 2]);
    plain(Some(()), [false; 2]);
    plain(Some(None::<f32>), [false; 2]);
    plain(map(None::<f32>), [false; 2]);
    plain(Map::from([("a".to_owned(), vec![]), ("b".to_owned(), vec![1.0_f32])]), [false; 2]);
    plain(vec![Vec::<f32>::new()], [false; 2]);
    plain(vec![Some(1.0_f32)], [true; 2]);
    plain(vec![None::<f32>], [false; 2]);

    derived(Vec::<Array1<f32>>::new(), [true; 2]);
    derived(Map::<Array1<f32>>::new(), [true; 2]);
    derived(None::<Array1<f32>>, [true; 2]);
    derived(Part::default(), [true; 2]);
    derived((), [true; 2]);
    derived([None, one()], [true; 2]);
    derived(Some(Vec::<Array1<f32>>::new()), [false; 2]);
    derived(Some(Part::default()), [false; 2]);
    derived(Some(()), [false; 2]);
    derived(Some(TensorMap::new()), [false; 2]);
    derived(map(None::<Array1<f32>>), [false; 2]);
    derived(map(Vec::<Array1<f32>>::new()), [false; 2]);
    derived(map(Part::default()), [false; 2]);
    derived(map(()), [false; 2]);
    derived(map(TensorMap::new()), [false; 2]);
    derived(map(one()), [true; 2]);
    derived(vec![Part::default()], [false; 2]);
}

#[test]
fn refused_values_say_what_would_be_lost() {
    let mut m = Messages::default();
    let map = BTreeMap::from([("a".to_owned(), None::<f32>)]);
    let lost = "tensor `a`: cannot store a map with an entry that holds no tensor; its key would be lost; leave it out";
    m.compare("a plain map", ten::to_vec(&map), &format!("ten: {lost}"));
    m.compare("a map", ten::to_vec(&Arrays(&map)), &format!("ten: {lost}"));
    let expected = "ten: cannot store a `Some` that holds no tensor; it would be read as `None`";
    m.compare(
        "an option",
        ten::to_vec(&Arrays((Some(Vec::<Array1<f32>>::new()),))),
        &expected.replace("ten: ", "ten: tensor `0`: "),
    );
    let inner = Inner { option: Some(1.0), list: vec![] };
    let expected = "btf: tensor `list`: cannot store an empty list without names; the next value would be read in its place; \
                    embed names, by `Options::embed_names`";
    m.compare("an empty list", btf::to_vec(&inner), expected);
    let other = Other { left: Some(array![1.0]), right: vec![] };
    let lenient = Lenient { step: None, list: vec![], part: other, map: BTreeMap::new() };
    let expected = "ten: tensor `list`: cannot store an empty list or map in a struct with `#[tensor(allow_unknown)]`; it would be \
                    missing, as its tensors may be unknown ones; `#[tensor(default)]` reads it as empty";
    m.compare("among unknown tensors", ten::Options::new().embed_names(true).to_vec(&lenient), expected);
    #[derive(Serialize)]
    struct Nested {
        #[serde(flatten)]
        rest: BTreeMap<String, Inner>,
    }
    let nested = Nested { rest: BTreeMap::from([("a".to_owned(), inner)]) };
    let expected = "ten: tensor `a`: cannot store a value of several tensors in a struct with `#[serde(flatten)]`, or in a map of \
                    unknown length; it could not be read again; `#[derive(TensorFile)]` has `#[tensor(flatten)]`";
    m.compare("in a flattened map", ten::Options::new().embed_names(true).to_vec(&nested), expected);
    m.end();
}

/// In ten, a name that equals a position is left out, unless it is needed to tell that the parts after it are empty.
#[test]
fn positions_are_names_where_parts_store_nothing() {
    #[derive(Serialize, Deserialize, Debug, PartialEq)]
    struct Renamed {
        #[serde(rename = "0")]
        zero: Vec<f32>,
        rest: Vec<f32>,
    }

    type Lists = (Vec<f32>, Vec<f32>, Vec<f32>);
    let (none, one) = (Vec::<f32>::new, || vec![1.0_f32]);
    let lists: [Lists; 5] = [
        (one(), none(), none()),
        (none(), one(), none()),
        (one(), none(), one()),
        (one(), one(), none()),
        (one(), one(), one()),
    ];
    for lists in &lists {
        let file = ten::to_vec(lists).unwrap();
        assert_eq!(ten::from_slice::<Lists>(&file).unwrap(), *lists);
        check(lists);
        // Short enough to be made in one pass, or not.
        check(&(lists.clone(), vec![0.0_f32; 20_000], Vec::<f32>::new()));
        check(&(vec![0.0_f32; 20_000], lists.0.clone(), lists.1.clone()));
    }
    let without_names = ten::to_vec(&[one(), one(), one()]).unwrap();
    assert_eq!(ten::to_vec(&lists[4]).unwrap(), without_names, "nothing is empty, so no name is needed");
    // A saved file gets the names that it needs.
    let folder = tempfile::tempdir().unwrap();
    for name in ["lists.ten", "lists.btf"] {
        let path = folder.path().join(name);
        for lists in &lists {
            tensorfile::save(&path, &SerdeValue(lists)).unwrap();
            assert_eq!(tensorfile::File::open(&path).unwrap().deserialize::<Lists>().unwrap(), *lists, "{name}");
        }
    }
    check(&Renamed { zero: one(), rest: none() });
    check(&(Some(1.0_f32), None::<f32>));
    check(&(1.0_f32, BTreeMap::<String, f32>::new()));
    check(&(vec![1.0_f32], ((), none())));
}

/// A file of other software: one tensor, and the second list is not guessed to be empty.
#[test]
fn by_position_what_got_nothing_is_missing() {
    let file = btf::to_vec(&[vec![1.0_f32, 2.0]]).unwrap();
    type Lists = (Vec<f32>, Vec<f32>, Vec<f32>);
    let expected = "btf: the file has 1 tensor, but expected at least 2";
    assert_eq!(message(btf::from_slice::<Lists>(&file)), expected);
    assert_eq!(message(btf::from_reader::<Lists>(&file[..])), expected);
}

/// A plain list without tensors is empty, but what else is missing is an error, and a default is taken.
#[test]
fn required_lists_are_empty_and_other_fields_are_not() {
    fn three() -> Vec<f32> {
        vec![3.0]
    }

    #[derive(Serialize, Deserialize, Debug, PartialEq)]
    struct Log {
        losses: Vec<f32>,
        #[serde(default = "three")]
        rates: Vec<f32>,
        #[serde(default)]
        seed: u8,
        items: Vec<Inner>,
    }

    let file = ten_file_of(&["items.0.option", "other"]);
    let tensors = BTreeMap::from([("items.0.option", 1.0_f32), ("items.1.option", 2.0)]);
    let read: Log = ten::from_slice(&ten_file(&tensors)).unwrap();
    let item = |option| Inner { option: Some(option), list: vec![] };
    let expected = Log { losses: vec![], rates: vec![3.0], seed: 0, items: vec![item(1.0), item(2.0)] };
    assert_eq!(read, expected);
    assert!(ten::from_slice::<Log>(&file).is_err(), "a list is not a number");

    #[derive(Deserialize, Debug)]
    #[expect(dead_code, reason = "it is never made")]
    struct Step {
        losses: Vec<f32>,
        step: f32,
    }

    // A stream longer than the part that is kept.
    let expected = "ten: missing tensor `losses`; the file has `a`";
    for len in [1, 1 << 19] {
        let file = ten_file(&BTreeMap::from([("a", vec![0.0_f32; len])]));
        assert_eq!(message(ten::from_slice::<Step>(&file)), expected);
        let of_stream = message(ten::from_reader::<Step>(&file[..]));
        let advice = of_stream.strip_prefix(expected).unwrap();
        assert_eq!(advice.contains("add `#[serde(default)]`"), len > 1, "{of_stream}");
    }
}

/// The rest of a stream is read to look for a list that may be empty. If that fails, the error must not blame the list.
#[cfg(feature = "safetensors")]
#[test]
fn a_stream_that_fails_is_not_a_missing_list() {
    use std::io::{self, Read};

    use tensorfile::safetensors;

    struct Fails;

    impl Read for Fails {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::ErrorKind::ConnectionReset.into())
        }
    }

    #[derive(Deserialize, PartialEq, Debug)]
    struct Log {
        empty: Vec<f32>,
        losses: Vec<f32>,
    }

    let losses = vec![1.0_f32; 10_000];
    let file = safetensors::to_vec(&BTreeMap::from([("losses", losses.clone())])).unwrap();
    let read: Log = safetensors::from_reader(&file[..]).unwrap();
    assert_eq!(read, Log { empty: vec![], losses });
    let error = safetensors::from_reader::<Log>(file[..file.len() - 1].chain(Fails)).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Io(error) if error.kind() == io::ErrorKind::ConnectionReset), "{error}");
    assert_eq!(error.format(), Some("safetensors"));
}
