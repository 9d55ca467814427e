//! Streams read in order give the tensors of the file, and no payload is held.

use std::io::{self, Read, Write};

use tensorfile::model::{TensorData, TensorRecord, TensorSink};
use tensorfile::report::InvalidTensor;
use tensorfile::{
    CooTensor, Dtype, Error, ErrorKind, File, Format, Layout, Limits, OpenOptions, Result, Tensor, TensorInfo,
    TensorMap, Tensors, WriteOptions, btf,
};

use super::stream_index::{NOT_IN_ORDER, files, is_in_order};
use crate::support::memory::peak;
use crate::support::{Dribble, format, multi_tensor_formats, tensor, written_formats};

/// Calls a function with each tensor.
struct Each<F>(F);

impl<F: FnMut(&TensorRecord<'_>) -> Result<()>> TensorSink for Each<F> {
    fn tensor(&mut self, tensor: &TensorRecord<'_>) -> Result<()> {
        self.0(tensor)
    }
}

/// The name, the description and the payload of a tensor.
type Sent = (String, TensorInfo, Vec<u8>);

/// Returns the file, and the tensors that were sent.
fn read(stream: impl Read) -> Result<(File, Vec<Sent>)> {
    let mut sent = Vec::new();
    let file = OpenOptions::new().read_in_order(
        stream,
        &mut Each(|tensor: &TensorRecord<'_>| {
            let mut bytes = Vec::new();
            tensor.data.write_to(&mut bytes)?;
            sent.push((tensor.name.to_owned(), tensor.info.clone(), bytes));
            Ok(())
        }),
    )?;
    Ok((file, sent))
}

fn formats() -> impl Iterator<Item = &'static Format> {
    written_formats().filter(|format| is_in_order(format))
}

#[test]
fn payloads_are_those_of_the_file() {
    for format in formats() {
        for bytes in files(format) {
            let expected = File::from_bytes(bytes.clone()).unwrap();
            let (file, sent) = read(Dribble::in_sizes(&bytes, &[1, 5000, 70_000])).unwrap();
            assert_eq!(file.len(), sent.len());
            for (at, (name, info, bytes)) in sent.into_iter().enumerate() {
                let tensor = expected.nth(at).unwrap();
                // Embedded names are at the end of the file.
                assert!(name == tensor.name() || name == at.to_string(), "{}: {name}", format.name);
                assert_eq!(file.nth(at).unwrap().name(), tensor.name());
                assert_eq!((&info, &bytes[..]), (tensor.info(), tensor.read().unwrap().as_bytes()), "{}", format.name);
            }
        }
    }
}

#[test]
fn payloads_that_are_not_written_are_passed_over() {
    for format in multi_tensor_formats().filter(|format| is_in_order(format)) {
        let bytes = files(format).remove(0);
        let expected = File::from_bytes(bytes.clone()).unwrap();
        for wanted in 0..expected.len() {
            let (mut at, mut found) = (0, Vec::new());
            let mut sink = Each(|tensor: &TensorRecord<'_>| {
                if at == wanted {
                    tensor.data.write_to(&mut found)?;
                }
                at += 1;
                Ok(())
            });
            OpenOptions::new().read_in_order(&bytes[..], &mut sink).unwrap();
            assert_eq!(found, expected.nth(wanted).unwrap().read().unwrap().as_bytes(), "{} {wanted}", format.name);
        }
    }
}

#[test]
fn files_that_are_not_in_order_are_refused_before_a_tensor_is_sent() {
    let mut refused: Vec<Vec<u8>> =
        written_formats().filter(|format| !is_in_order(format)).map(|format| files(format).remove(0)).collect();
    // The records of the last two tensors change places.
    let mut swapped = files(format("btf")).remove(0);
    let (second, third) = (swapped[16..24].to_vec(), swapped[24..32].to_vec());
    swapped[16..24].copy_from_slice(&third);
    swapped[24..32].copy_from_slice(&second);
    refused.push(swapped);
    for bytes in refused {
        let mut sink = Each(|tensor: &TensorRecord<'_>| panic!("{tensor:?} was sent"));
        let error = OpenOptions::new().read_in_order(&bytes[..], &mut sink).unwrap_err();
        assert!(error.to_string().contains(NOT_IN_ORDER), "{error}");
    }
}

#[test]
fn errors_are_those_of_the_file() {
    struct Broken;

    impl Read for Broken {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::Error::other("the line is dead"))
        }
    }

    for format in formats() {
        let bytes = files(format).remove(0);
        let options = OpenOptions::new().format(format);
        for file in [&bytes[..bytes.len() - 1], &bytes[..12_000], &[&bytes[..], b"more"].concat()] {
            match (read(file), options.from_bytes(file.to_vec())) {
                (Err(found), Err(expected)) => assert_eq!(found.to_string(), expected.to_string()),
                (found, expected) => assert!(found.is_ok() && expected.is_ok(), "{}", format.name),
            }
        }
        let error = read(bytes[..10_000].chain(Broken)).map(drop).unwrap_err();
        assert!(error.to_string().ends_with("the line is dead (at byte 10000)"), "{}: {error}", format.name);
        // Even if the sink does not mind.
        let mut lenient = Each(|tensor: &TensorRecord<'_>| {
            let _ = tensor.data.write_to(&mut io::sink());
            Ok(())
        });
        let error = OpenOptions::new().read_in_order(bytes[..10_000].chain(Broken), &mut lenient).unwrap_err();
        assert!(error.to_string().ends_with("the line is dead (at byte 10000)"), "{}: {error}", format.name);
    }
}

#[test]
fn payloads_are_limited_in_short_streams_too() {
    for format in formats() {
        let mut found = [0, 0];
        // A stream of a few bytes is read whole before its tensors are sent.
        for (elements, found) in [200, 20_000].into_iter().zip(&mut found) {
            let tensor = tensor(format.dtypes[0], &[elements]);
            let (bytes, payload) =
                (tensor.as_bytes().len() as u64, format.to_vec(&tensor, &WriteOptions::new()).unwrap());
            let read = |limit| {
                let limits = Limits::new().payload(limit);
                OpenOptions::new().limits(limits).read_in_order(&payload[..], &mut Each(|_: &TensorRecord<'_>| Ok(())))
            };
            read(bytes).unwrap();
            let error = read(bytes - 1).unwrap_err();
            let name = error.tensor().unwrap().to_owned();
            let (name, limit) = (format.name.to_owned() + ": tensor `" + &name + "`", bytes - 1);
            assert_eq!(error.to_string(), format!("{name}: payload in bytes is {bytes}, but the limit is {limit}"));
            *found = payload.len();
        }
        assert!(found[0] < 8 << 10 && found[1] > 8 << 10, "{}: {found:?}", format.name);
    }
}

#[test]
fn errors_of_the_sink_end_the_stream_and_those_of_a_writer_do_not() {
    /// Takes some bytes.
    struct Full(usize);

    impl Write for Full {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 = self.0.checked_sub(bytes.len()).ok_or_else(|| io::Error::other("full"))?;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    for format in formats() {
        let bytes = files(format).remove(0);
        let mut sent = 0;
        let mut sink = Each(|_: &TensorRecord<'_>| {
            sent += 1;
            Err(Error::from(io::Error::other("enough")))
        });
        let error = OpenOptions::new().read_in_order(&bytes[..], &mut sink).unwrap_err();
        assert_eq!((error.to_string().as_str(), sent), ("enough", 1), "{}", format.name);

        let mut messages = Vec::new();
        let mut sink = Each(|tensor: &TensorRecord<'_>| {
            let written = tensor.data.write_to(&mut Full(9));
            messages.extend([written, tensor.data.write_to(&mut io::sink())].map(|written| match written {
                Ok(()) => "written".to_owned(),
                Err(error) => error.to_string(),
            }));
            Ok(())
        });
        let file = OpenOptions::new().read_in_order(&bytes[..], &mut sink).unwrap();
        let again = "cannot write the payload of a tensor of a stream twice; it is gone";
        let expected = file.tensors().flat_map(|tensor| {
            [if tensor.payload_bytes() > 9 { "full".to_owned() } else { "written".to_owned() }, again.to_owned()]
        });
        assert_eq!(messages, expected.collect::<Vec<_>>(), "{}", format.name);
    }
}

#[test]
fn the_memory_is_that_of_a_chunk() {
    /// The largest chunk, and the buffer of a stream.
    const MOST: usize = 10 << 20;
    const LEN: usize = 40 << 20;

    /// Zeros, and the sparse tensor of the same number of bytes.
    struct Zeros(Layout);

    impl Tensors for Zeros {
        fn send(&self, sink: &mut dyn TensorSink) -> Result<()> {
            let shape = if self.0 == Layout::RowMajor { [LEN / 4] } else { [1 << 20] };
            let info = TensorInfo { layout: self.0.clone(), ..TensorInfo::new(Dtype::F32, shape) };
            sink.tensor(&TensorRecord { name: "0", info: &info, data: self, tied: None })
        }
    }

    impl TensorData for Zeros {
        fn write_to(&self, out: &mut dyn Write) -> io::Result<()> {
            let zeros = |len: usize, out: &mut dyn Write| io::copy(&mut io::repeat(0).take(len as u64), out).map(drop);
            let Layout::Coo { entries } = self.0 else { return zeros(LEN, out) };
            zeros(8 * entries, out)?;
            out.write_all(&entries.to_le_bytes())?;
            zeros(4 * entries, out)
        }
    }

    let sparse = Zeros(Layout::Coo { entries: LEN / 12 });
    let dense = formats().map(|format| (format, Zeros(Layout::RowMajor)));
    for (format, tensors) in dense.chain([(format("btf"), sparse)]) {
        let bytes = format.to_vec(&tensors, &WriteOptions::new()).unwrap();
        let write = |data: &dyn TensorData| {
            let mut sizes = Sizes::default();
            data.write_to(&mut sizes).unwrap();
            sizes.0
        };
        let mut sent = Vec::new();
        let mut sink = Each(|tensor: &TensorRecord<'_>| {
            sent = write(tensor.data);
            Ok(())
        });
        let (file, used) = peak(|| OpenOptions::new().read_in_order(&bytes[..], &mut sink).unwrap());
        assert!(used < MOST, "{}: {used} bytes", format.name);
        assert_eq!(sent.iter().sum::<usize>() as u64, file.nth(0).unwrap().payload_bytes());

        // Chunks are the same as in the file, so numbers that depend on the order of sums are equal.
        let opened = File::from_reader(io::Cursor::new(bytes)).unwrap();
        let (written, used) = peak(|| write(&opened.nth(0).unwrap()));
        assert_eq!(written, sent, "{}", format.name);
        assert!(used < MOST, "{}: {used} bytes", format.name);
    }
}

/// Notes the sizes of writes.
#[derive(Default)]
struct Sizes(Vec<usize>);

impl Write for Sizes {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.push(bytes.len());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn coordinates_are_checked() {
    const ENTRIES: usize = 700_000;
    let indices = vec![1; 2 * ENTRIES];
    let sparse = CooTensor::new([3, 5], indices, vec![1_u8; ENTRIES]).unwrap().to_tensor();
    let map: TensorMap =
        [("a", tensor(Dtype::U8, &[9])), ("sparse", sparse), ("z", tensor(Dtype::U8, &[10]))].into_iter().collect();
    let bytes = btf::Options::new().embed_names(true).to_vec(&map).unwrap();
    let opened = OpenOptions::new().from_bytes(bytes.clone()).unwrap();
    let range = opened.get("sparse").unwrap().range();
    let count = usize::try_from(range.start).unwrap() + 16 * ENTRIES;
    let mut messages = Vec::new();
    for (at, value) in [(count - 8, 5), (count - 16, 3), (count - (9 << 20), u64::MAX)] {
        let mut wrong = bytes.clone();
        wrong[at..at + 8].copy_from_slice(&value.to_le_bytes());
        let mut errors = Vec::new();
        let mut sink = Each(|tensor: &TensorRecord<'_>| {
            errors.push(tensor.data.write_to(&mut io::sink()).err());
            Ok(())
        });
        let file = OpenOptions::new().read_in_order(&wrong[..], &mut sink).unwrap();
        let errors: Vec<Option<Error>> = errors.into_iter().map(|error| error.map(Error::from)).collect();
        let [None, Some(found), None] = <[_; 3]>::try_from(errors).unwrap() else { panic!("of the second") };
        assert!(matches!(found.kind(), ErrorKind::InvalidTensor(InvalidTensor::Coordinate { .. })));
        let found = file.get("sparse").unwrap().locate(found);
        for file in [File::from_bytes(wrong.clone()), File::from_reader(io::Cursor::new(wrong))] {
            let (file, mut written) = (file.unwrap(), Vec::new());
            let tensor = file.get("sparse").unwrap();
            assert_eq!(found.to_string(), tensor.read().unwrap_err().to_string());
            assert_eq!(found.to_string(), tensor.write_to(&mut written).unwrap_err().to_string());
            assert!(written.len() as u64 <= at as u64 - range.start);
        }
        assert_eq!(found.offset(), Some(at as u64));
        messages.push(found.to_string());
    }
    assert!(messages[0].contains("tensor `sparse`: index 5 of coordinate 699999 is outside dim 1"), "{}", messages[0]);

    // The number of values is part of the structure of the file, and wrong whether the payload is written or not.
    let mut wrong = bytes;
    wrong[count] += 1;
    let expected = File::from_bytes(wrong.clone()).map(drop).unwrap_err();
    assert_eq!(read(&wrong[..]).map(drop).unwrap_err().to_string(), expected.to_string());
    assert!(OpenOptions::new().read_index(&wrong[..]).is_err());
}

/// A tensor that begins as a list of names does is looked at before its turn.
#[test]
fn a_tensor_like_a_list_of_names_is_sent() {
    for format in multi_tensor_formats().filter(|format| is_in_order(format) && format.dtypes.contains(&Dtype::U8)) {
        let like_names = [&b"tensorfile.names.v1\0"[..], &[7; 9 << 20]].concat();
        let tensors = [
            tensor(Dtype::U8, &[10_000]),
            Tensor::from_slice(&like_names, [like_names.len()]).unwrap(),
            tensor(Dtype::U8, &[10]),
        ];
        let map: TensorMap = ["0", "1", "2"].into_iter().zip(tensors).collect();
        let (_, sent) = read(&format.to_vec(&map, &WriteOptions::new()).unwrap()[..]).unwrap();
        let lens: Vec<usize> = sent.iter().map(|(_, _, bytes)| bytes.len()).collect();
        assert_eq!(lens, [10_000, like_names.len(), 10], "{}", format.name);
        assert!(sent[1].2 == like_names, "{}", format.name);
    }
}
