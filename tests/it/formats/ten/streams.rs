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
            "ten: tensor `a`: the value is not a tensor; `Encoder::encode` takes one tensor under a name, and any number of them under an empty one",
        ),
        (
            encoder.encode("a", &None::<Array1<f32>>),
            "ten: tensor `a`: the value is not a tensor; `Encoder::encode` takes one tensor under a name, and any number of them under an empty one",
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

#[derive(TensorFile, Debug, PartialEq)]
struct Step {
    obs: Array1<f32>,
    #[tensor(alias = "act")]
    action: Array1<u8>,
    agent: Agent,
}

#[derive(TensorFile, Debug, PartialEq)]
struct Agent {
    #[tensor(cast)]
    v: f64,
    w: [i16; 2],
}

fn step(number: u8) -> Step {
    let obs = Array1::from_elem(1000 * usize::from(number), f32::from(number));
    Step { obs, action: Array1::from_elem(2, number), agent: Agent { v: 0.5, w: [1, i16::from(number)] } }
}

/// The tensors of a step in another order, one of them under its other name.
fn foreign_step(number: u8) -> Vec<u8> {
    let Step { obs, action, agent } = step(number);
    let mut encoder = ten::Encoder::new(Vec::new());
    encoder.encode("agent.w", &agent.w).unwrap();
    encoder.encode("act", &action).unwrap();
    encoder.encode("agent.v", &(agent.v as f32)).unwrap();
    encoder.encode("obs", &obs).unwrap();
    encoder.into_inner()
}

fn steps(numbers: impl IntoIterator<Item = u8>) -> Vec<u8> {
    let mut encoder = ten::Encoder::new(Vec::new());
    for number in numbers {
        encoder.encode("", &step(number)).unwrap();
    }
    encoder.into_inner()
}

#[test]
fn a_struct_is_a_message() {
    let stream = [ten::to_vec(&step(0)).unwrap(), steps(1..4), foreign_step(4), steps([5])].concat();
    assert_eq!(steps(0..3), (0..3).flat_map(|number| ten::to_vec(&step(number)).unwrap()).collect::<Vec<_>>());
    let readers: [Box<dyn std::io::Read + '_>; 2] = [Box::new(&stream[..]), Box::new(Dribble::new(&stream))];
    for reader in readers {
        let mut decoder = ten::Decoder::new(reader);
        for number in 0..6 {
            if number == 3 {
                assert_eq!(decoder.peek().unwrap().unwrap().0, "obs");
            }
            assert_eq!(decoder.decode::<Step>().unwrap(), Some((String::new(), step(number))), "{number}");
        }
        assert_eq!(decoder.decode::<Step>().unwrap(), None);
        assert_eq!(decoder.decode::<u8>().unwrap(), None);
    }
    // Messages and tensors follow each other, also under one name.
    let mut encoder = ten::Encoder::new(steps([1]));
    encoder.encode("obs", &1_u8).unwrap();
    encoder.encode("obs", &2_u8).unwrap();
    let stream = [encoder.into_inner(), steps([2])].concat();
    let mut decoder = ten::Decoder::new(&stream[..]);
    assert_eq!(decoder.decode::<Step>().unwrap(), Some((String::new(), step(1))));
    assert_eq!(decoder.decode::<u8>().unwrap(), Some(("obs".to_owned(), 1)));
    assert!(decoder.skip_tensor().unwrap());
    assert_eq!(decoder.decode::<Step>().unwrap(), Some((String::new(), step(2))));
    assert_eq!(decoder.next().transpose().unwrap(), None);
}

#[test]
fn a_message_without_names_is_read_by_position() {
    let Step { obs, action, agent } = step(1);
    let mut encoder = ten::Encoder::new(Vec::new());
    for _ in 0..2 {
        encoder.encode("", &(&obs, &action, agent.v as f32, &agent.w)).unwrap();
    }
    let stream = encoder.into_inner();
    assert_eq!(ten::Decoder::new(&stream[..]).filter(|tensor| tensor.as_ref().unwrap().0.is_empty()).count(), 8);
    let steps: Vec<Step> = {
        let mut decoder = ten::Decoder::new(&stream[..]);
        std::iter::from_fn(|| decoder.decode().unwrap()).map(|(_, step)| step).collect()
    };
    assert_eq!(steps, [step(1), step(1)]);
}

#[test]
fn a_stream_that_ends_within_a_message_is_an_error() {
    let stream = steps([1, 2]);
    for reversed in [false, true] {
        let stream = if reversed { [foreign_step(1), foreign_step(2)].concat() } else { stream.clone() };
        let whole = steps([1]).len();
        // The padding at the end of a message is only read with what comes after it.
        let is_end = |len: &usize| [whole, stream.len()].iter().any(|end| (end - 64..=*end).contains(len));
        let cuts = (16..stream.len()).step_by(16).filter(|len| !is_end(len));
        let mut messages = std::collections::BTreeMap::<String, usize>::new();
        for len in cuts {
            let mut decoder = ten::Decoder::new(&stream[..len]);
            if len > whole {
                assert_eq!(decoder.decode::<Step>().unwrap(), Some((String::new(), step(1))));
            }
            let error = decoder.decode::<Step>().unwrap_err();
            assert_eq!(error.category(), tensorfile::Category::File, "{error}");
            let text = error.to_string();
            if let Some((text, _)) = text.split_once(" of a value (at byte ") {
                *messages.entry(text.to_owned()).or_default() += 1;
            }
            for _ in 0..2 {
                let again = decoder.decode::<Step>().unwrap_err();
                assert_eq!(again.category(), tensorfile::Category::File, "{again}");
                let text = text.strip_prefix("ten: ").unwrap();
                assert_eq!(again.to_string(), format!("ten: the stream broke off before: {text}"));
                assert_eq!(message(decoder.peek().map(|_| ())), again.to_string());
                assert_eq!(message(decoder.skip_tensor()), again.to_string());
            }
        }
        let expected = (1..4).map(|count| (format!("ten: the stream ends after {count} of the 4 tensors"), 2));
        assert_eq!(messages, expected.collect());
    }
}

#[test]
fn a_message_that_does_not_fit_is_skipped_by_its_error() {
    let mut encoder = ten::Encoder::new(steps([1]));
    encoder.encode("obs", &array![1_u8]).unwrap();
    encoder.encode("reward", &1_u8).unwrap();
    encoder.encode("agent.v", &1.0_f64).unwrap();
    encoder.encode("agent.w", &[1_i16, 2]).unwrap();
    encoder.encode("", &step(2)).unwrap();
    let stream = encoder.into_inner();
    let mut decoder = ten::Decoder::new(&stream[..]);
    assert_eq!(decoder.decode::<Step>().unwrap(), Some((String::new(), step(1))));
    assert_eq!(
        message(decoder.decode::<Step>()),
        "ten: 1 missing, 1 unexpected, 1 wrong dtype; 2 of 4 tensors fit\nmissing:\n  `action`  u8[_]\nunexpected:\n  \
         `reward`  u8[]\nwrong dtype (`#[tensor(cast)]` converts numbers):\n  `obs`  u8[1], but expected f32"
    );
    assert_eq!(decoder.decode::<Step>().unwrap(), Some((String::new(), step(2))));
    assert_eq!(decoder.decode::<Step>().unwrap(), None);
}

#[test]
fn what_a_message_leaves_is_not_held() {
    #[derive(TensorFile, Debug)]
    struct Other {
        a: Array1<f32>,
        b: Array1<f32>,
    }

    let large = Array1::<f32>::zeros(100_000);
    let mut encoder = ten::Encoder::new(Vec::new());
    encoder.encode("x", &large).unwrap();
    encoder.encode("a", &large).unwrap();
    let messages = encoder.into_inner().repeat(20);
    let (count, memory) = crate::support::memory::peak(|| {
        let mut decoder = ten::Decoder::new(&messages[..]);
        std::iter::from_fn(|| decoder.decode::<Other>().transpose()).filter(Result::is_err).count()
    });
    assert_eq!(count, 20);
    assert!(memory < 3 << 20, "{memory} bytes");
}

#[test]
fn a_struct_without_an_end_is_no_message() {
    #[derive(TensorFile, Debug)]
    struct Optional {
        obs: Array1<f32>,
        done: Option<Array1<u8>>,
    }

    #[derive(TensorFile, Debug)]
    struct Endless {
        next: Box<Endless>,
    }

    let stream = steps([1]);
    let mut decoder = ten::Decoder::new(&stream[..]);
    let expected = |name: &str| {
        format!(
            "ten: cannot read a `{name}` from a stream that goes on; its end is only known if it has the same number of tensors \
             each time, and at least one: no `Option`, `Vec` or map"
        )
    };
    assert_eq!(message(decoder.decode::<Optional>()), expected("Optional"));
    assert_eq!(message(decoder.decode::<Endless>()), expected("Endless"));
    assert_eq!(decoder.decode::<Step>().unwrap(), Some((String::new(), step(1))), "nothing was taken");
}
