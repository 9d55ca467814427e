use super::*;

fn stream() -> Vec<u8> {
    let mut encoder = ten::Encoder::new(Vec::new());
    encoder.encode("policy", &array![[1.0_f32, 2.0], [3.0, 4.0]]).unwrap();
    encoder.encode("policy", &array![[5.0_f32, 6.0]].reversed_axes()).unwrap();
    encoder.encode("", &7_u8).unwrap();
    encoder.flush().unwrap();
    encoder.into_inner()
}

#[test]
fn tensors_go_one_by_one_and_names_may_come_again() {
    let stream = stream();
    let mut decoder = ten::Decoder::new(Dribble::new(&stream));
    let (name, array) = decoder.decode::<Array2<f32>>().unwrap().unwrap();
    assert_eq!((name.as_str(), array), ("policy", array![[1.0, 2.0], [3.0, 4.0]]));
    let (name, info) = decoder.peek().unwrap().unwrap();
    assert_eq!((name, info.to_string().as_str()), ("policy", "f32[2, 1]"));
    let (name, array) = decoder.decode::<Array2<f32>>().unwrap().unwrap();
    assert_eq!((name.as_str(), array), ("policy", array![[5.0], [6.0]]));
    let (name, scalar) = decoder.decode::<u8>().unwrap().unwrap();
    assert_eq!((name.as_str(), scalar), ("", 7));
    assert!(decoder.decode::<u8>().unwrap().is_none());
    assert!(decoder.peek().unwrap().is_none());
    assert!(!decoder.skip_tensor().unwrap());
}

#[test]
fn skips_unwanted_tensors() {
    let stream = stream();
    let mut decoder = ten::Decoder::new(&stream[..]);
    assert!(decoder.skip_tensor().unwrap());
    assert_eq!(
        message(decoder.decode::<Array1<f32>>()),
        "ten: tensor `policy`: the file has f32[2, 1], but expected rank 1 (at byte 256)"
    );
    assert_eq!(decoder.decode::<u8>().unwrap(), Some((String::new(), 7)));
    assert!(decoder.decode::<u8>().unwrap().is_none());
}

#[test]
fn a_stream_goes_on_after_a_tensor_of_unknown_dtype() {
    let stream = [tensor(b"x1", b"a", &[2], &[1, 2, 3]), stream()].concat();
    let mut decoder = ten::Decoder::new(&stream[..]);
    assert_eq!(
        message(decoder.decode::<Array1<u8>>()),
        "ten: tensor `a`: the file has `x1`[2] of unknown dtype, but expected u8 (at byte 96)"
    );
    assert_eq!(decoder.count(), 3);
    let (name, tensor) = ten::Decoder::new(&stream[..]).decode::<Tensor>().unwrap().unwrap();
    assert_eq!((name.as_str(), tensor.as_bytes()), ("a", &[1, 2, 3][..]));
}

#[test]
fn a_malformed_stream_ends_the_iteration() {
    let mut messages = Messages::default();
    for (what, stream, good, expected) in [
        (
            "garbage",
            vec![7; 40],
            0,
            "ten: tensor `#0`: found `\\x07\\x07\\x07\\x07\\x07\\x07\\x07\\x07`, but expected `~TenBin~` (at byte 0)",
        ),
        (
            "cut in a header",
            stream()[..170].to_vec(),
            1,
            "ten: tensor `#1`: needs 8 more bytes, but the file has 2 left (at byte 168)",
        ),
        (
            "cut in the data",
            stream()[..100].to_vec(),
            0,
            "ten: tensor `policy`: needs 16 more bytes, but the file has 4 left (at byte 96)",
        ),
        (
            "cut in the padding",
            stream()[..150].to_vec(),
            1,
            "ten: tensor `#0`: needs 48 more bytes, but the file has 38 left (at byte 112)",
        ),
    ] {
        let mut decoder = ten::Decoder::new(&stream[..]);
        for _ in 0..good {
            decoder.next().unwrap().unwrap();
        }
        messages.compare(what, decoder.next().unwrap(), expected);
        assert!(decoder.next().is_none(), "{what}: an iteration that skips errors ends");
    }
    messages.end();
}

#[test]
fn a_stream_that_breaks_off_in_a_payload_says_how_much_is_missing() {
    let large = Array1::from_elem(10_000, 1.5_f32);
    let mut encoder = ten::Encoder::new(Vec::new());
    encoder.encode("small", &array![1.0_f32]).unwrap();
    encoder.encode("large", &large).unwrap();
    let stream = encoder.into_inner();
    // Two headers of 96 bytes, and the first payload with its padding.
    let start = 96 + 64 + 96;
    assert_eq!(stream.len(), start + 40_000);
    for len in [start, start + 1, start + 700, start + 20_000, stream.len() - 1] {
        let readers: [Box<dyn std::io::Read + '_>; 2] =
            [Box::new(&stream[..len]), Box::new(Dribble::new(&stream[..len]))];
        for reader in readers {
            let mut decoder = ten::Decoder::new(reader);
            assert_eq!(decoder.decode().unwrap(), Some(("small".to_owned(), array![1.0_f32])));
            let left = len - start;
            let expected =
                format!("ten: tensor `large`: needs 40000 more bytes, but the file has {left} left (at byte {start})");
            assert_eq!(message(decoder.decode::<Array1<f32>>()), expected, "{len} bytes");
        }
    }
    let mut decoder = ten::Decoder::new(Dribble::new(&stream));
    decoder.skip_tensor().unwrap();
    assert_eq!(decoder.decode().unwrap(), Some(("large".to_owned(), large)));
    assert_eq!(decoder.decode::<Array1<f32>>().unwrap(), None);
}

#[test]
fn an_encoder_refuses_values_that_are_not_one_tensor() {
    let mut encoder = ten::Encoder::new(Vec::new());
    for (result, expected) in [
        (
            encoder.encode("a", &(array![1], array![2])),
            "ten: tensor `a`: the value is not a tensor; `Encoder::encode` takes one tensor, `ten::to_writer` any number of them",
        ),
        (
            encoder.encode("a", &None::<Array1<f32>>),
            "ten: tensor `a`: the value is not a tensor; `Encoder::encode` takes one tensor, `ten::to_writer` any number of them",
        ),
        (
            encoder.encode("too long a name", &1_u8),
            "ten: tensor `too long a name`: cannot store a name of 15 bytes; ten stores up to 8; rename the tensor, or embed \
             the names",
        ),
    ] {
        assert_eq!(message(result), expected);
    }
    assert_eq!(encoder.into_inner(), [0_u8; 0], "nothing is written");
}

#[test]
fn limits_bound_each_tensor_but_not_their_number() {
    let stream = stream();
    let limits = || tensorfile::Limits::new().tensors(1);
    assert_eq!(ten::Decoder::with_limits(&stream[..], limits()).filter(Result::is_ok).count(), 3);
    let mut decoder = ten::Decoder::with_limits(&stream[..], limits().payload(15));
    assert_eq!(
        message(decoder.decode::<Tensor>()),
        "ten: tensor `policy`: payload in bytes is 16, but the limit is 15"
    );
}

#[test]
fn a_stream_that_ends_early_names_the_tensor_that_is_not_whole() {
    let map: TensorMap =
        ["first", "second"].map(|name| (name, Tensor::from_slice(&[1.5_f32; 5], [5]).unwrap())).into_iter().collect();
    let file = ten::to_vec(&map).unwrap();
    let half = file.len() / 2;
    for end in half + 1..file.len() {
        let errors = [
            ten::from_reader::<TensorMap>(&file[..end]).unwrap_err(),
            ten::from_reader::<TensorMap>(Dribble::new(&file[..end])).unwrap_err(),
            ten::from_reader::<Vec<Tensor>>(&file[..end]).unwrap_err(),
        ];
        for error in errors {
            let name = error.tensor().unwrap();
            // The name comes with the header.
            assert!(name == "second" || end < half + 96 && name == "#1", "{end} of {}: {error}", file.len());
        }
    }
}
