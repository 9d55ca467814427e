use super::*;

#[test]
fn keeps_shared_bytes_shared() {
    let file = hex(FT01);
    let map: TensorMap = ptd::from_slice(&file).unwrap();
    assert_eq!(map["w"].as_bytes().as_ptr(), map["v"].as_bytes().as_ptr());
    assert_eq!(Options::new().alignment(16).to_vec(&map).unwrap(), hex(WRITTEN_FT01));
    let views: BTreeMap<String, TensorView<'_>> = ptd::from_slice(&file).unwrap();
    assert_eq!(segments(&ptd::to_vec(&views).unwrap()), 2);
    // Streams have no addresses.
    let map: TensorMap = ptd::from_reader(&file[..]).unwrap();
    assert_eq!(segments(&ptd::to_vec(&map).unwrap()), 3);
    assert_eq!(segments(&Options::new().dedup(true).to_vec(&map).unwrap()), 2);
}

#[test]
fn stores_shared_memory_once() {
    let array = ArcArray1::from(vec![1.0_f32, 2.0, 3.0]);
    let shared = Arrays([array.clone(), array.clone(), array.slice_move(ndarray::s![..2])]);
    let file = ptd::to_vec(&shared).unwrap();
    assert_eq!(segments(&file), 2);
    assert_eq!(ptd::from_slice::<Arrays<[ArcArray1<f32>; 3]>>(&file).unwrap(), shared);
    // The same bytes as something else.
    let floats = [1.0_f32, 2.0];
    let bits: &[u8] = &[0, 0, 0x80, 0x3f, 0, 0, 0, 0x40];
    let as_bits = TensorInfo::new(Dtype::I32, [2]);
    let views = [TensorView::from_slice(&floats, [2]).unwrap(), TensorView::from_slice(&floats, [1, 2]).unwrap()];
    assert_eq!(segments(&ptd::to_vec(&views).unwrap()), 1);
    let views = [TensorView::new(as_bits.clone(), bits).unwrap(), TensorView::new(as_bits, bits).unwrap()];
    assert_eq!(segments(&ptd::to_vec(&views).unwrap()), 1);
}

#[test]
fn an_address_alone_shares_nothing() {
    // Numbers pass through the same place of the stack one after the other.
    #[derive(serde::Serialize)]
    struct Numbers {
        a: f32,
        b: f32,
        c: f32,
    }

    let file = ptd::to_vec(&Numbers { a: 1.0, b: 2.0, c: 1.0 }).unwrap();
    let read: BTreeMap<String, Tensor> = ptd::from_slice(&file).unwrap();
    assert_eq!(read["b"], Tensor::from_slice(&[2.0_f32], []).unwrap());
    assert_eq!(read["c"], Tensor::from_slice(&[1.0_f32], []).unwrap());

    /// Tensors that are made for the moment, in memory that the next one is given again.
    struct Temporary;

    impl Serialize for Temporary {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            let mut map = serializer.serialize_map(None)?;
            for at in 0..20_u8 {
                let tensor = Tensor::from_slice(&[at / 2; 1000], [1000]).unwrap();
                map.serialize_entry(&format!("t{at}"), &tensor)?;
            }
            map.end()
        }
    }

    for options in [Options::new(), Options::new().dedup(true)] {
        let map: TensorMap = ptd::from_slice(&options.to_vec(&Temporary).unwrap()).unwrap();
        for (at, (_, tensor)) in map.iter().enumerate() {
            assert_eq!(tensor.as_bytes(), [u8::try_from(at / 2).unwrap(); 1000]);
        }
    }
    assert_eq!(segments(&Options::new().dedup(true).to_vec(&Temporary).unwrap()), 10);
}

#[test]
fn refuses_shared_bytes_that_change() {
    struct Turncoat {
        passes: Cell<u8>,
        at: u8,
    }

    impl Serialize for Turncoat {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            let pass = self.passes.replace(self.passes.get() + 1);
            let tensor =
                |change| Tensor::from_slice(&[1, 2, if change && pass == self.at { 4 } else { 3_u8 }], [3]).unwrap();
            let mut map = serializer.serialize_map(None)?;
            map.serialize_entry("a", &tensor(false))?;
            map.serialize_entry("b", &tensor(true))?;
            map.end()
        }
    }

    // Planning, comparing what may be equal, and writing.
    let changed = Turncoat { passes: Cell::new(0), at: 2 };
    let expected = "ptd: tensor `b`: the value changed between planning and writing: the bytes it shares with other tensors changed";
    assert_eq!(message(Options::new().dedup(true).to_vec(&changed)), expected);
    let told_apart = Turncoat { passes: Cell::new(0), at: 1 };
    let file = Options::new().dedup(true).to_vec(&told_apart).unwrap();
    assert_eq!(segments(&file), 2);
}

#[test]
fn equal_bytes_of_small_tensors_are_shared_on_request() {
    let pair = Arrays([array![1.5_f32, 2.5], array![1.5, 2.5]]);
    assert_eq!(segments(&ptd::to_vec(&pair).unwrap()), 2);
    let file = Options::new().dedup(true).to_vec(&pair).unwrap();
    assert_eq!(segments(&file), 1);
    assert_eq!(ptd::from_slice::<Arrays<[Array1<f32>; 2]>>(&file).unwrap(), pair);
}

#[test]
fn tied_tensors_must_be_equal() {
    let mut model = bert();
    model.decoder[[6, 3]] = -1.0;
    let expected = "ptd: tensor `cls.decoder.weight`: cannot tie it to `embeddings.word_embeddings.weight`; their bytes are not the same";
    assert_eq!(message(ptd::to_vec(&model)), expected);
    model.decoder = Array2::zeros((1, 1));
    let expected = "ptd: tensor `cls.decoder.weight`: cannot tie it to `embeddings.word_embeddings.weight`; it takes 4 bytes, and that one 112";
    assert_eq!(message(ptd::to_vec(&model)), expected);

    #[derive(TensorFile)]
    struct Before {
        #[tensor(tied = "embed")]
        head: Option<Array1<u8>>,
        embed: Option<Array1<u8>>,
    }

    let both = Before { head: Some(array![1, 2]), embed: Some(array![1, 2]) };
    assert_eq!(segments(&ptd::to_vec(&both).unwrap()), 1);
    let expected = "ptd: tensor `head`: cannot tie it to `embed`; the value has no tensor of that name";
    assert_eq!(message(ptd::to_vec(&Before { embed: None, ..both })), expected);
    assert_eq!(segments(&ptd::to_vec(&Before { head: None, embed: None }).unwrap()), 0);
}
