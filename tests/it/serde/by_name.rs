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
        m.compare(format!("{names:?}, from a stream"), ten::from_reader::<Model>(&ten_file_of(names)[..]), expected);
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
        "ten: tensor `weight`: the file has f32[1], but expected f64; `#[tensor(cast)]` converts it (at byte 96)",
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
        m.compare("BTF", embed.to_writer(&mut file, &Twice(names)), &format!("btf: two tensors are named `{name}`"));
    }
    assert!(file.is_empty(), "nothing is written");
    m.end();
    // Formats without names accept duplicate names.
    assert_eq!(btf::from_slice::<Vec<Tensor>>(&btf::to_vec(&Twice(&["a", "a"])).unwrap()).unwrap().len(), 2);
}
