//! Digests, compared with their definition and with each other.

use proptest::collection::vec;
use proptest::prelude::*;
use tensorfile::digest::{CollectionDigester, Digest, InvalidDigest, TensorDigester};
use tensorfile::{CooTensor, Dtype, Layout, Tensor, TensorInfo, TensorMap, TensorView, WriteOptions};

use crate::support::{u64s, written_formats};

const MAGIC: &[u8] = b"tensorfile.digest.v1\0";

fn by_hand(parts: &[&[u8]]) -> Digest {
    Digest(*blake3::hash(&[MAGIC, &parts.concat()].concat()).as_bytes())
}

fn of(tensor: &Tensor) -> Digest {
    Digest::new(&tensor.as_view())
}

fn of_map(map: &TensorMap) -> Digest {
    map.iter().map(|(name, tensor)| (name.as_str(), of(tensor))).collect::<CollectionDigester>().finish()
}

#[test]
fn hashes_the_bytes_of_the_definition() {
    let matrix = Tensor::from_slice(&[1.0_f32, 2.0, 3.0], [3, 1]).unwrap();
    let elements: Vec<u8> = [1.0_f32, 2.0, 3.0].iter().flat_map(|number| number.to_le_bytes()).collect();
    assert_eq!(of(&matrix), by_hand(&[b"dense\0f32\0", &u64s(&[2, 3, 1]), &elements]));

    let scalar = Tensor::from_slice(&[-2_i16], []).unwrap();
    assert_eq!(of(&scalar), by_hand(&[b"dense\0i16\0", &u64s(&[0]), &[0xfe, 0xff]]));
    let empty = Tensor::from_slice::<u8>(&[], [0, 7]).unwrap();
    assert_eq!(of(&empty), by_hand(&[b"dense\0u8\0", &u64s(&[2, 0, 7])]));
    let blob = Tensor::new(TensorInfo::blob(3), b"abc").unwrap();
    assert_eq!(of(&blob), by_hand(&[b"blob\0abc"]));

    // The entry at [1, 0] comes last in row-major order, and its second value is the one that counts.
    let sparse = CooTensor::new([2, 300], vec![1, 0, 0, 256, 0, 2, 1, 0], vec![7_u8, 8, 9, 10]).unwrap().to_tensor();
    let entries = u64s(&[0, 2, 0, 256, 1, 0, 3]);
    assert_eq!(of(&sparse), by_hand(&[b"coo\0u8\0", &u64s(&[2, 2, 300]), &entries, &[9, 8, 10]]));

    let map = TensorMap::from_iter([("ä", scalar.clone()), ("b.weight", matrix.clone()), ("a", blob.clone())]);
    let listed = [
        &u64s(&[3, 1])[..],
        b"a",
        &of(&blob).0,
        &u64s(&[8]),
        b"b.weight",
        &of(&matrix).0,
        &u64s(&[2]),
        "ä".as_bytes(),
        &of(&scalar).0,
    ];
    assert_eq!(of_map(&map), by_hand(&[b"collection\0", &listed.concat()]));
    assert_eq!(of_map(&TensorMap::new()), by_hand(&[b"collection\0", &u64s(&[0])]));
}

#[test]
fn differs_for_the_same_bytes_of_different_tensors() {
    let bytes = [0_u8; 8];
    let infos = [
        TensorInfo::new(Dtype::U8, [8]),
        TensorInfo::new(Dtype::I8, [8]),
        TensorInfo::new(Dtype::U8, [2, 4]),
        TensorInfo::new(Dtype::U8, [8, 1]),
        TensorInfo::new(Dtype::I16, [4]),
        TensorInfo::new(Dtype::F64, []),
        TensorInfo::blob(8),
        TensorInfo { layout: Layout::Coo { entries: 0 }, ..TensorInfo::new(Dtype::U8, [8]) },
    ];
    let mut digests = infos.map(|info| Digest::new(&TensorView::new(info, &bytes).unwrap()));
    digests.sort_unstable();
    assert!(digests.windows(2).all(|pair| pair[0] < pair[1]));
}

#[test]
fn is_the_same_in_every_format() {
    let map = TensorMap::from_iter([
        ("weight", Tensor::from_slice(&[1.0_f32, 2.0, 3.0, 4.0], [2, 2]).unwrap()),
        ("bias", Tensor::from_slice(&[0.5_f64], [1]).unwrap()),
    ]);
    for format in written_formats().filter(|format| format.max_tensors.is_none()) {
        let file = format.to_vec(&map, &WriteOptions::new().embed_names(true)).unwrap();
        assert_eq!(of_map(&format.from_slice(&file).unwrap()), of_map(&map), "{}", format.name);
    }
}

#[test]
fn rejects_invalid_payloads() {
    let finish = |info: &TensorInfo, payload: &[u8]| {
        let mut digester = TensorDigester::new(info);
        payload.chunks(3).for_each(|piece| digester.update(piece));
        digester.finish().unwrap_err().to_string()
    };
    let rows = TensorInfo::new(Dtype::F32, [2]);
    assert_eq!(finish(&rows, &[0; 7]), "payload is 7 bytes, but f32[2] takes 8");
    let columns = TensorInfo { layout: Layout::from_dim_order(&[1, 0]).unwrap(), ..TensorInfo::new(Dtype::U8, [1, 2]) };
    assert_eq!(finish(&columns, &[0; 9]), "payload is 9 bytes, but u8[1, 2] in dim order [1, 0] takes 2");
    let sparse = TensorInfo { layout: Layout::Coo { entries: 1 }, ..TensorInfo::new(Dtype::U8, [2]) };
    let payload = [&u64s(&[2, 1])[..], &[7]].concat();
    assert_eq!(finish(&sparse, &payload), "index 2 of coordinate 0 is outside dim 0, which is 2");
}

#[test]
fn digests_display_as_64_hexadecimal_digits() {
    let digest = Digest([0xab; 32]);
    let text = "ab".repeat(32);
    assert_eq!(digest.to_string(), text);
    assert_eq!(format!("{digest:?}"), format!("Digest({text})"));
    assert_eq!(text.to_uppercase().parse(), Ok(digest));
    assert_eq!(serde_json::to_string(&digest).unwrap(), format!("\"{text}\""));
    assert_eq!(serde_json::from_str::<Digest>(&format!("\"{text}\"")).unwrap(), digest);
    for text in ["", &text[1..], &format!("{text}0"), &"xy".repeat(32)] {
        assert_eq!(text.parse::<Digest>(), Err(InvalidDigest), "{text}");
    }
    let error = serde_json::from_str::<Digest>("\"ab\"").unwrap_err();
    assert_eq!(error.to_string(), "a digest is 64 hexadecimal digits");
}

/// A tensor of any memory order, with its elements in row-major order.
fn of_any_order() -> impl Strategy<Value = (TensorInfo, Vec<u8>, Vec<u8>)> {
    let dtype = proptest::sample::select(&[Dtype::U8, Dtype::Bf16, Dtype::F32, Dtype::I64][..]);
    (dtype, vec(0..5_usize, 0..5)).prop_flat_map(|(dtype, dims)| {
        let order: Vec<u8> = (0_u8..).take(dims.len()).collect();
        (Just(dtype), Just(dims), Just(order).prop_shuffle()).prop_map(|(dtype, dims, order)| {
            let size = dtype.block_bytes();
            let rows = TensorInfo::new(dtype, dims.clone());
            let rows: Vec<u8> = (0..rows.payload_bytes().unwrap()).map(|at| u8::try_from(at % 251).unwrap()).collect();
            // Element by element: where each coordinate of the memory lies among the rows.
            let mut memory = Vec::with_capacity(rows.len());
            for at in 0..rows.len() / size {
                let (mut rest, mut coordinate) = (at, vec![0; dims.len()]);
                for &dim in order.iter().rev() {
                    coordinate[usize::from(dim)] = rest % dims[usize::from(dim)];
                    rest /= dims[usize::from(dim)];
                }
                let row = coordinate.iter().zip(&dims).fold(0, |row, (index, dim)| row * dim + index);
                memory.extend_from_slice(&rows[row * size..][..size]);
            }
            let layout = Layout::from_dim_order(&order).unwrap();
            (TensorInfo { layout, ..TensorInfo::new(dtype, dims) }, memory, rows)
        })
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn is_the_same_in_every_memory_order((info, memory, rows) in of_any_order(), piece in 1..40_usize) {
        let expected = Digest::new(&TensorView::new(TensorInfo::new(info.dtype, info.shape.clone()), &rows).unwrap());
        let mut digester = TensorDigester::new(&info);
        memory.chunks(piece).for_each(|piece| digester.update(piece));
        prop_assert_eq!(digester.finish().unwrap(), expected);
        prop_assert_eq!(Digest::new(&TensorView::new(info, &memory).unwrap()), expected);
    }

    #[test]
    fn is_the_same_in_every_order_of_entries(
        entries in proptest::collection::btree_map(vec(0..300_u64, 2), any::<u16>(), 0..9)
            .prop_flat_map(|entries| Just(entries.into_iter().collect::<Vec<_>>()).prop_shuffle()),
    ) {
        let sparse = |entries: &[(Vec<u64>, u16)]| {
            let (coordinates, values): (Vec<Vec<u64>>, Vec<u16>) = entries.iter().cloned().unzip();
            of(&CooTensor::new([300, 300], coordinates.concat(), values).unwrap().to_tensor())
        };
        let mut sorted = entries.clone();
        sorted.sort();
        prop_assert_eq!(sparse(&entries), sparse(&sorted));
    }
}
