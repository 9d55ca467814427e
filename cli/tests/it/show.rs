use super::Session;

#[test]
fn prints_as_numpy_does() {
    let session = Session::new();
    insta::assert_snapshot!(session.transcript(&[
        "show model.ptd embed.weight",
        "show model.ptd head.weight",
        "show model.ptd steps",
        "show model.ptd mask",
        "show model.ptd halves",
        "show model.ptd none",
        "show model.ptd packed",
        "show model.ptd #2 --precision 2",
        "show sparse.btf 0",
        "show sparse.btf 1",
    ]));
}

#[test]
fn a_name_may_be_a_pattern() {
    let session = Session::new();
    let tensor = |number: f32| tensorfile::Tensor::from_slice(&[number], [1]).unwrap();
    let tensors =
        [("conv1.bias", tensor(1.0)), ("conv2.bias", tensor(2.0)), ("fc.bias", tensor(3.0)), ("a[0]", tensor(4.0))];
    session.write("net.ten", &tensors.into_iter().collect());
    insta::assert_snapshot!(session.transcript(&[
        "show net.ten conv*.bias",
        "show net.ten conv[12].bias fc.bias",
        "show net.ten a[0]",
        "show net.ten conv*.weight",
        "show net.ten conv*.bias --format csv",
        "show net.ten conv1.* --format csv",
        "show net.ten bias",
    ]));
}

#[test]
fn prints_slices() {
    let session = Session::new();
    insta::assert_snapshot!(session.transcript(&[
        "show model.ptd embed.weight --slice 0:2,-3:",
        "show model.ptd embed.weight --slice ...,0",
        "show model.ptd embed.weight -s ::-50,::20",
        "show model.ptd embed.weight -s -1,5",
        "show model.ptd embed.weight -s 5:5",
        "show model.ptd embed.weight -s 100",
        "show model.ptd embed.weight -s 0,0,0",
        "show model.ptd embed.weight -s 0:x",
        "show sparse.btf 0 -s 0",
    ]));
}

#[test]
fn prints_json_and_csv() {
    let session = Session::new();
    insta::assert_snapshot!(session.transcript(&[
        "show model.ptd head.weight --format json -s :2,:3",
        "show model.ptd halves --format json",
        "show model.ptd mask --format json",
        "show model.ptd steps --format json",
        "show model.ptd none --format json",
        "show model.ptd head.weight --format csv -s :2,:3",
        "show model.ptd halves --format csv",
        "show model.ptd steps --format csv",
        "show sparse.btf 0 --format json",
        "show sparse.btf 0 --format csv",
    ]));
}

#[test]
fn json_numbers_are_exact() {
    let session = Session::new();
    let output = session.run(&["show", "model.ptd", "embed.weight", "--format", "json"]);
    let numbers: Vec<Vec<f32>> = serde_json::from_slice(&output.stdout).unwrap();
    let bytes: Vec<u8> = numbers.concat().into_iter().flat_map(f32::to_le_bytes).collect();
    assert_eq!(bytes, super::model()["embed.weight"].as_bytes());
    assert_eq!((numbers.len(), numbers[0].len()), (100, 30));
}

#[test]
fn raw_is_the_payload() {
    let session = Session::new();
    let output = session.run(&["show", "model.ptd", "embed.weight", "--format", "raw"]);
    assert_eq!(output.stdout, super::model()["embed.weight"].as_bytes());
    let output = session.run(&["show", "model.ptd", "packed", "--format", "raw", "--slice", "1:"]);
    assert_eq!(output.stdout, [0x43, 0xff]);
}

#[test]
fn full_prints_every_element() {
    let session = Session::new();
    let output = session.run(&["show", "model.ptd", "embed.weight", "--full"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(!text.contains("..."));
    let numbers = text.lines().skip(1).flat_map(|line| line.split(['[', ']', ' '])).filter(|word| !word.is_empty());
    assert_eq!(numbers.count(), 3000);
}

#[test]
fn rejects_csv_of_rank_3() {
    let session = Session::new();
    session.write("cube.ptd", &[("cube", super::weights(&[2, 2, 2]))].into_iter().collect());
    insta::assert_snapshot!(session.transcript(&[
        "show cube.ptd cube --format csv",
        "show cube.ptd cube --format csv --slice :,:,0",
        "show cube.ptd cubes",
    ]));
}

#[test]
fn npy_is_a_numpy_file() {
    let session = Session::new();
    let output = session.run(&["show", "model.ptd", "embed.weight", "--format", "npy"]);
    let npy = tensorfile::FORMATS.iter().find(|format| format.name == "npy").unwrap();
    let map = npy.from_slice(&output.stdout).unwrap();
    assert_eq!(map.iter().next().unwrap().1, &super::model()["embed.weight"]);
}

#[test]
fn parts_of_large_slices_follow_each_other() {
    let session = Session::new();
    let dims = [3, 700, 300];
    let numbers: Vec<f32> = (0..u16::MAX).cycle().take(dims.iter().product()).map(f32::from).collect();
    let cube = tensorfile::Tensor::from_slice(&numbers, dims).unwrap();
    session.write("cube.ptd", &[("cube", cube)].into_iter().collect());
    let whole = session.run(&["show", "cube.ptd", "cube", "--format=json"]);
    let read: Vec<Vec<Vec<f32>>> = serde_json::from_slice(&whole.stdout).unwrap();
    assert_eq!(read.concat().concat(), numbers);

    let output = session.run(&["show", "cube.ptd", "cube", "--slice=1:, ::-1, 1:", "--format=json"]);
    let read: Vec<Vec<Vec<f32>>> = serde_json::from_slice(&output.stdout).unwrap();
    let at = |i: usize, j: usize, k: usize| numbers[(i * dims[1] + j) * dims[2] + k];
    let row = |i: usize, j: usize| (1..dims[2]).map(|k| at(i, j, k)).collect::<Vec<_>>();
    let expected: Vec<Vec<Vec<f32>>> = (1..3).map(|i| (0..dims[1]).rev().map(|j| row(i, j)).collect()).collect();
    assert!(read == expected);

    let output = session.run(&["show", "cube.ptd", "cube", "--slice=2, :, :", "--format=csv"]);
    let text = String::from_utf8(output.stdout).unwrap();
    let read: Vec<Vec<f32>> =
        text.lines().map(|line| line.split(',').map(|number| number.parse().unwrap()).collect()).collect();
    assert_eq!(read.len(), dims[1]);
    assert!(read.concat() == numbers[2 * dims[1] * dims[2]..]);

    let output = session.run(&["show", "cube.ptd", "cube", "--slice=2, :, :", "--format=raw"]);
    let expected: Vec<u8> = numbers[2 * dims[1] * dims[2]..].iter().flat_map(|number| number.to_le_bytes()).collect();
    assert!(output.stdout == expected);
}

#[test]
fn a_file_of_one_tensor_needs_no_name() {
    let session = Session::new();
    session.write("one.npy", &tensorfile::TensorMap::from_iter([("0", ndarray::array![1, 2])]));
    let output = session.run(&["show", "one.npy", "--format", "csv"]);
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "1\n2\n");
}

/// The elements are printed as they are read, so an error can come after some of them.
#[test]
fn json_is_valid_if_tensors_cannot_be_shown() {
    let session = Session::new();
    let long =
        tensorfile::TensorMap::from_iter([("long", super::weights(&[300, 1000])), ("short", super::weights(&[2]))]);
    let mut npz = super::file_of(&tensorfile::npz::FORMAT, &long);
    // Into the elements, whose checksum is then wrong.
    npz[1000] ^= 1;
    std::fs::write(session.path("damaged.npz"), npz).unwrap();
    let items = |arguments: &[&str], code: i32| {
        let output = session.run(&[&["show", "--json"], arguments].concat());
        assert_eq!(output.status.code(), Some(code), "{arguments:?}");
        let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        json.as_array().unwrap().clone()
    };
    let header =
        r#"{"a":{"dtype":"F4","shape":[2],"data_offsets":[0,1]},"b":{"dtype":"U8","shape":[],"data_offsets":[1,2]}}"#;
    let file = [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &[7, 8]].concat();
    std::fs::write(session.path("packed.safetensors"), file).unwrap();
    let packed = items(&["packed.safetensors", "a", "b", "c"], 2);
    assert_eq!(packed.len(), 3, "{packed:?}");
    assert!(packed.iter().all(|item| item["file"] == "packed.safetensors"), "{packed:?}");
    assert_eq!(packed[0]["error"], "cannot show elements of `a`: f4 packs 2 into a block; use --format raw");
    assert_eq!(packed[1]["data"], 8);
    let damaged = items(&["damaged.npz", "long", "short"], 4);
    assert_eq!((&damaged[0]["file"], &damaged[0]["name"]), (&"damaged.npz".into(), &"long".into()));
    assert!(damaged[0]["error"].as_str().unwrap().contains("CRC-32"), "{}", damaged[0]["error"]);
    assert!(damaged[0]["data"].as_array().unwrap().len() <= 300);
    assert_eq!(damaged[1]["data"].as_array().unwrap().len(), 2);
}

#[test]
fn messages_name_the_file_once() {
    let session = Session::new();
    session.write("none.ten", &tensorfile::TensorMap::new());
    let advice = "name a tensor, as in `tensorfile show FILE NAME`; `tensorfile ls FILE` lists them";
    for (arguments, expected) in [
        (&["model.ptd"][..], format!("model.ptd: {advice}")),
        (&["model.ptd", "sparse.btf"], format!("model.ptd: {advice}\ntensorfile: sparse.btf: {advice}")),
        (&["none.ten"], "none.ten: the file has no tensors".to_owned()),
    ] {
        let message = String::from_utf8(session.run(&[&["show"], arguments].concat()).stderr).unwrap();
        assert_eq!(message, format!("tensorfile: {expected}\n"));
    }
    let message = session.run(&["show", "--json", "model.ptd"]).stdout;
    let items: serde_json::Value = serde_json::from_slice(&message).unwrap();
    assert_eq!((&items[0]["file"], &items[0]["error"]), (&"model.ptd".into(), &advice.into()));
}
