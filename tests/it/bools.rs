//! Bytes of bools other than 0 and 1. In files of numpy and PyTorch they are true; in all other formats, reading the
//! tensor is an error.

#![allow(clippy::single_range_in_vec_init, reason = "a vector is sliced by one range")]

use ndarray::{Array1, ArrayView1, Ix1};
use tensorfile::file::Backend;
use tensorfile::model::{TensorData, TensorRecord, TensorSink};
use tensorfile::stats::Stats;
use tensorfile::{Arrays, File, Format, OpenOptions, Tensor, TensorMap, TensorView, WriteOptions, npy};

use crate::support::{crc32, format, message, root};

/// The bytes 255, 255, 0 and 1 as numpy saves a view of them as bools.
fn numpy() -> Vec<u8> {
    std::fs::read(root().join("tests/fixtures/cases/bool-255/a.npy")).unwrap()
}

const RIGHT: [bool; 4] = [true, true, false, true];

/// A file of the bools `RIGHT` with 255 for the second one.
fn file_of(format: &'static Format) -> (Vec<u8>, u64) {
    let map: TensorMap = [("a", Tensor::from_slice(&RIGHT, [4]).unwrap())].into_iter().collect();
    let mut file = format.to_vec(&map, &WriteOptions::new()).unwrap();
    let place = OpenOptions::new().format(format).from_bytes(file.clone()).unwrap().nth(0).unwrap().range().start;
    file[usize::try_from(place).unwrap() + 1] = 255;
    (file, place)
}

/// The payloads that a sink gets.
#[derive(Default)]
struct Payloads(Vec<Vec<u8>>);

impl TensorSink for Payloads {
    fn tensor(&mut self, tensor: &TensorRecord<'_>) -> tensorfile::Result<()> {
        let mut payload = Vec::new();
        tensor.data.write_to(&mut payload)?;
        self.0.push(payload);
        Ok(())
    }
}

/// Reads the bools of a file in each way. Returns the results by the names of the ways.
fn read(
    bytes: &[u8],
    format: &'static Format,
    backend: Option<Backend>,
) -> Vec<(&'static str, tensorfile::Result<Vec<u8>>)> {
    let folder = tempfile::tempdir().unwrap();
    let options = OpenOptions::new().format(format);
    let file = match backend {
        Some(backend) => {
            let path = folder.path().join("file");
            std::fs::write(&path, bytes).unwrap();
            options.backend(backend).open(&path).unwrap()
        }
        None => options.from_bytes(bytes.to_vec()).unwrap(),
    };
    let tensor = file.nth(0).unwrap();
    let of = |bools: &[bool]| bools.iter().map(|bool| u8::from(*bool)).collect::<Vec<u8>>();
    let written = |result: std::io::Result<()>, bytes: Vec<u8>| result.map(|()| bytes).map_err(tensorfile::Error::from);
    let mut all = Vec::new();
    let all_written = tensor.write_to(&mut all);
    let mut rows = Vec::new();
    let rows_written = tensor.write_row_major_to(&mut rows);
    let slice = tensor.slice(&[0..4]).map(|slice| slice.as_bytes().to_vec());
    let last = tensor.slice(&[1..2]).map(|slice| [&[1], slice.as_bytes(), &[0, 1]].concat());
    let mut part = [0; 3];
    let part = match tensor.read_at(1, &mut part) {
        // Those with a checksum are read whole.
        Err(error) if error.category() == tensorfile::Category::Call => Ok(of(&RIGHT)),
        read => read.map(|()| [&[1][..], &part].concat()),
    };
    let mut stream = Payloads::default();
    // Archives cannot be read in order, and are not this short otherwise.
    let streamed = OpenOptions::new().format(format).read_in_order(bytes, &mut stream);
    let mut ways = vec![
        ("tensor", tensor.read().map(|tensor| tensor.as_bytes().to_vec())),
        ("array", tensor.array::<bool, Ix1>().map(|array| of(array.as_slice().unwrap()))),
        ("Vec", tensor.load::<Vec<bool>>().map(|bools| of(&bools))),
        ("Tensor", tensor.load::<Tensor>().map(|tensor| tensor.as_bytes().to_vec())),
        ("map", file.load::<TensorMap>().map(|map| map.iter().next().unwrap().1.as_bytes().to_vec())),
        ("slice", slice),
        ("part", last),
        ("read_at", part),
        ("write_to", written(all_written, all)),
        ("write_row_major_to", written(rows_written, rows)),
        ("stream", streamed.map(|_| stream.0.pop().unwrap())),
        ("from_slice", format.from_slice(bytes).map(|map| map.iter().next().unwrap().1.as_bytes().to_vec())),
    ];
    let copied = npy::FORMAT.to_vec(&file, &WriteOptions::new());
    ways.push(("convert", copied.map(|copy| copy[copy.len() - 4..].to_vec())));
    #[cfg(feature = "digest")]
    ways.push((
        "digest",
        tensor.digest().map(|digest| {
            let expected = Tensor::from_slice(&RIGHT, [4]).unwrap();
            if digest == tensorfile::digest::Digest::new(&expected.as_view()) { of(&RIGHT) } else { Vec::new() }
        }),
    ));
    ways
}

#[test]
fn any_byte_but_0_is_true_for_numpy_and_pytorch() {
    let mut files = vec![("npy", numpy())];
    #[cfg(feature = "npz")]
    {
        let zipped = |compress: bool| {
            let (mut file, place) = file_of(format("npz"));
            let place = usize::try_from(place).unwrap();
            let array = [&numpy()[..128], &file[place..place + 4]].concat();
            // The checksum matches these bytes.
            let sum = crc32(&array).to_le_bytes();
            let start = place - 128;
            file[start..place + 4].copy_from_slice(&array);
            let directory = file.windows(4).rposition(|bytes| bytes == b"PK\x01\x02").unwrap();
            file[directory + 16..directory + 20].copy_from_slice(&sum);
            if !compress {
                return file;
            }
            // A stored deflate block, in an archive of the same member.
            let mut deflated = vec![1, 132, 0, 123, 255];
            deflated.extend(&array);
            let local =
                [b"PK\x03\x04\x14\0\0\0\x08\0\0\0\0\0", &sum[..], &[137, 0, 0, 0, 132, 0, 0, 0, 5, 0, 0, 0]].concat();
            let mut file = [&local[..], b"a.npy", &deflated].concat();
            let end = file.len() as u32;
            file.extend(
                [b"PK\x01\x02\x14\0\x14\0\0\0\x08\0\0\0\0\0", &sum[..], &[137, 0, 0, 0, 132, 0, 0, 0, 5, 0]].concat(),
            );
            file.extend([0; 16]);
            file.extend(b"a.npy");
            file.extend(b"PK\x05\x06\0\0\0\0\x01\0\x01\0\x33\0\0\0");
            file.extend(end.to_le_bytes());
            file.extend([0; 2]);
            file
        };
        files.extend([("npz", zipped(false)), ("npz", zipped(true))]);
    }
    for (name, bytes) in &files {
        for backend in [None, Some(Backend::Mapped), Some(Backend::Positioned)] {
            for (way, found) in read(bytes, format(name), backend) {
                if way == "stream" && bytes.len() > 8 << 10 {
                    continue;
                }
                assert_eq!(found.unwrap(), [1, 1, 0, 1], "{name}, {way}, {backend:?}");
            }
        }
    }
    let file = File::from_bytes(numpy()).unwrap();
    let mut stats = Stats::from_info(file.nth(0).unwrap().info()).unwrap();
    file.nth(0).unwrap().write_to(&mut stats).unwrap();
    assert_eq!((stats.mean(), stats.max().unwrap().to_string()), (Some(0.75), "1".to_owned()));
    let array: Array1<bool> = npy::from_reader::<Arrays<_>>(&numpy()[..]).unwrap().0;
    assert_eq!(array.as_slice(), Some(&RIGHT[..]));
}

#[cfg(feature = "pytorch")]
#[test]
fn bools_of_pytorch_are_those_of_its_storages() {
    for name in ["legacy_dtypes.pth", "dtypes.pt"] {
        let mut bytes = std::fs::read(root().join("tests/fixtures/pytorch").join(name)).unwrap();
        let file = File::from_bytes(bytes.clone()).unwrap();
        let tensor = file.tensors().find(|tensor| tensor.dtype() == tensorfile::Dtype::Bool).unwrap();
        let (label, place, right) = (tensor.name().to_owned(), tensor.range(), tensor.read().unwrap());
        let place = usize::try_from(place.start).unwrap()..usize::try_from(place.end).unwrap();
        let old = crc32(&bytes[place.clone()]).to_le_bytes();
        bytes[place].iter_mut().filter(|byte| **byte != 0).for_each(|byte| *byte = 0x80);
        // Zeros are no checksum.
        if name.ends_with(".pt") {
            let sum = bytes.windows(4).rposition(|sum| sum == old).unwrap();
            bytes[sum..sum + 4].fill(0);
        }
        let file = File::from_bytes(bytes).unwrap();
        assert_eq!(file.tensor(&label).unwrap(), right, "{name}");
        let mut written = Vec::new();
        file.get(&label).unwrap().write_to(&mut written).unwrap();
        assert_eq!(written, right.as_bytes(), "{name}");
        let error = file.view(&label).unwrap_err().to_string();
        assert!(
            error.ends_with("cannot borrow bools of other bytes than 0 and 1; read the tensor, in which they are true"),
            "{error}"
        );
    }
}

#[test]
fn other_bytes_are_an_error_of_other_formats() {
    for &format in tensorfile::FORMATS {
        let takes_any = ["npy", "npz", "pytorch"].contains(&format.name);
        if takes_any || !format.dtypes.contains(&tensorfile::Dtype::Bool) {
            continue;
        }
        let (bytes, place) = file_of(format);
        let expected = format!("element 1 is the byte 255, which is not a bool (at byte {})", place + 1);
        for backend in [None, Some(Backend::Mapped), Some(Backend::Positioned)] {
            for (way, found) in read(&bytes, format, backend) {
                let error = message(found);
                assert!(error.ends_with(&expected), "{}, {way}, {backend:?}: {error}", format.name);
            }
        }
    }
}

#[test]
fn borrowed_bools_are_0_and_1() {
    let good = npy::to_vec(&Tensor::from_slice(&RIGHT, [4]).unwrap()).unwrap();
    let view: ArrayView1<bool> = npy::from_slice::<Arrays<_>>(&good).unwrap().0;
    assert_eq!(view.as_slice(), Some(&RIGHT[..]));
    assert!(good.as_ptr_range().contains(&view.as_ptr().cast()), "it is not copied");
    let file = File::from_bytes(good).unwrap();
    assert_eq!(file.view("0").unwrap().as_bytes(), [1, 1, 0, 1]);
    let bad = numpy();
    let borrowed = "cannot borrow bools from a stream, of other bytes than 0 and 1, or from a mapped file, which another \
                    process could change; use ";
    let error = message(npy::from_slice::<Arrays<ArrayView1<'_, bool>>>(&bad));
    assert_eq!(error, format!("npy: tensor `#0`: {borrowed}an owned array (at byte 128)"));
    let error = message(npy::from_slice::<TensorView<'_>>(&bad));
    assert_eq!(error, format!("npy: tensor `#0`: {borrowed}a `Tensor` (at byte 128)"));
    let file = File::from_bytes(bad).unwrap();
    let view =
        "npy: tensor `#0`: cannot borrow bools of other bytes than 0 and 1; read the tensor, in which they are true";
    assert_eq!(message(file.view("0")), view);
    // Nobody can make such a tensor to write it.
    let info = tensorfile::TensorInfo::new(tensorfile::Dtype::Bool, [2]);
    let error = TensorView::new(info, &[1, 2]).unwrap_err().to_string();
    assert_eq!(error, "element 1 is the byte 2, which is not a bool");
}
