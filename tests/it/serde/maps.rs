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
