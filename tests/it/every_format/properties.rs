//! Random values and random files.

use proptest::collection::vec;
use proptest::prelude::*;
use tensorfile::{CooTensor, Dtype, ErrorKind, Format, Tensor, TensorMap, WriteOptions};

use crate::support::{Dribble, in_written_order, info};

fn format() -> impl Strategy<Value = &'static Format> {
    proptest::sample::select(crate::support::written_formats().collect::<Vec<_>>())
}

fn shape(most: usize) -> impl Strategy<Value = Vec<usize>> {
    vec(prop_oneof![4 => 0..5_usize, 1 => Just(1), 1 => 5..20_usize], 0..=most)
}

fn dense(dtypes: &'static [Dtype], rank: usize) -> impl Strategy<Value = Tensor> {
    (proptest::sample::select(dtypes), shape(rank)).prop_flat_map(|(dtype, shape)| {
        let info = info(dtype, &shape);
        let bytes = vec(if dtype == Dtype::Bool { 0..=1 } else { 0..=u8::MAX }, info.payload_bytes().unwrap());
        bytes.prop_map(move |bytes| Tensor::new(info.clone(), &bytes).unwrap())
    })
}

fn sparse() -> impl Strategy<Value = Tensor> {
    let entries = |dims: Vec<usize>| {
        let row: Vec<_> = dims.iter().map(|&dim| 0..dim as u64).collect();
        (Just(dims), vec((row, any::<i32>()), 0..5))
    };
    vec(1..400_usize, 0..4).prop_flat_map(entries).prop_map(|(dims, entries)| {
        let (coordinates, values): (Vec<Vec<u64>>, Vec<i32>) = entries.into_iter().unzip();
        CooTensor::new(dims, coordinates.concat(), values).unwrap().to_tensor()
    })
}

fn tensor(format: &'static Format) -> BoxedStrategy<Tensor> {
    let dense = dense(format.dtypes, format.max_rank.unwrap_or(6).min(6));
    if format.sparse && format.dtypes.contains(&Dtype::I32) {
        prop_oneof![3 => dense, 1 => sparse()].boxed()
    } else {
        dense.boxed()
    }
}

/// Names as people give them, as positions, and of any letters but NUL.
fn name() -> impl Strategy<Value = String> {
    prop_oneof![
        3 => "[a-z]{1,4}(\\.[a-z0-9]{1,3}){0,3}",
        2 => "[0-9]{1,2}",
        1 => "[^\\x00]{1,10}",
    ]
}

fn map(format: &'static Format) -> impl Strategy<Value = TensorMap> {
    let tensors = vec((name(), tensor(format)), 0..8).prop_map(|tensors| tensors.into_iter().collect());
    match format.max_tensors {
        None => tensors.boxed(),
        Some(count) => vec(tensor(format), count)
            .prop_map(|tensors| tensors.into_iter().enumerate().map(|(at, tensor)| (at.to_string(), tensor)).collect())
            .boxed(),
    }
}

fn format_and_map() -> impl Strategy<Value = (&'static Format, TensorMap)> {
    format().prop_flat_map(|format| (Just(format), map(format)))
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn maps_round_trip_with_their_names((format, map) in format_and_map(), sizes in vec(1..500_usize, 1..5)) {
        let file = format.to_vec(&map, &WriteOptions::new().embed_names(true)).unwrap();
        let ordered = in_written_order(format, &map);
        prop_assert_eq!(&format.from_slice(&file).unwrap(), &ordered);
        prop_assert_eq!(&format.from_reader(Dribble::in_sizes(&file, &sizes)).unwrap(), &ordered);
        prop_assert_eq!(&format.to_vec(&map, &WriteOptions::new().embed_names(true)).unwrap(), &file);
        let mut written = Vec::new();
        format.to_writer(&mut written, &map, &WriteOptions::new().embed_names(true)).unwrap();
        prop_assert_eq!(&written, &file);
    }

    #[test]
    fn maps_round_trip_without_more_than_the_format_has((format, map) in format_and_map(), sizes in vec(1..500_usize, 1..5)) {
        let Ok(file) = format.to_vec(&map, &WriteOptions::new()) else {
            prop_assert!(map.names().any(|name| format.max_name.is_some_and(|most| most > 0 && name.len() > most)));
            return Ok(());
        };
        let read = format.from_slice(&file).unwrap();
        prop_assert_eq!(&format.from_reader(Dribble::in_sizes(&file, &sizes)).unwrap(), &read);
        if format.max_name == Some(0) {
            let positions = map.into_iter().enumerate().map(|(at, (_, tensor))| (at.to_string(), tensor));
            prop_assert_eq!(read, positions.collect());
        } else {
            prop_assert_eq!(read, in_written_order(format, &map));
        }
    }

    #[test]
    fn damaged_files_do_no_harm(
        (format, map) in format_and_map(),
        damage in vec((any::<proptest::sample::Index>(), any::<u8>()), 1..6),
        cut in any::<proptest::sample::Index>(),
    ) {
        let mut file = format.to_vec(&map, &WriteOptions::new().embed_names(true)).unwrap();
        if !file.is_empty() {
            for (at, byte) in damage {
                let at = at.index(file.len());
                file[at] = byte;
            }
            file.truncate(file.len() - cut.index(file.len()) / 8);
        }
        let (slice, stream) = (format.from_slice(&file), format.from_reader(&file[..]));
        match (slice, stream) {
            (Ok(slice), Ok(stream)) => prop_assert_eq!(slice, stream),
            (Err(_), Err(_)) => {}
            // A stream may not tell where a tensor of an unknown dtype ends.
            (Ok(_), Err(error)) if matches!(error.kind(), ErrorKind::UnknownDtype { .. }) => {}
            (slice, stream) => prop_assert!(false, "a slice gave {slice:?}, a stream {stream:?}"),
        }
    }

    #[test]
    fn random_bytes_do_no_harm(format in format(), file in vec(prop_oneof![Just(0_u8), 0..20_u8, any::<u8>()], 0..400)) {
        prop_assert_eq!(format.from_slice(&file).is_ok(), format.from_reader(&file[..]).is_ok());
    }
}
