//! Reads arbitrary tar archives: samples of a mapped shard and of a stream, and the shard as one file.

use std::fs;
use std::io::Write as _;

use ndarray::array;
use tensorfile::{Category, OpenOptions, TensorMap, safetensors, ten};
use tensorfile_datasets::{OnError, Sample, Shard, ShardWriter, Shards, TAR};

use crate::budget::{bounded_stream, limits};

pub fn run(input: &[u8]) {
    let folder = tempfile::tempdir().unwrap();
    let (plain, packed) = (folder.path().join("a.tar"), folder.path().join("a.tar.gz"));
    fs::write(&plain, input).unwrap();
    let mut gzip = flate2::write::GzEncoder::new(fs::File::create(&packed).unwrap(), flate2::Compression::none());
    gzip.write_all(input).unwrap();
    gzip.finish().unwrap();
    let locations = [&plain, &packed].map(|path| path.to_str().unwrap().to_owned());

    // An input may begin as a compressed file itself.
    let [mapped, streamed] = locations.clone().map(|location| samples(&location, input.len()));
    if input.get(257..262) == Some(b"ustar") {
        assert_eq!(mapped, streamed, "mapped, and a stream");
    }
    let errors = Shards::from_locations([&locations[0]]).limits(limits(input.len())).filter_map(Result::err).next();
    if let Some(error) = &errors {
        assert!(
            matches!(error.category(), Category::File | Category::Limit | Category::Io | Category::Call),
            "{error}"
        );
    }
    // Each range begins where another ends.
    let ranges: Vec<_> =
        Shard::open(&locations[0]).into_iter().flatten().flatten().map(|sample| sample.range()).collect();
    if let (None, Some(middle)) = (&errors, ranges.get(ranges.len() / 2)) {
        let half = Shard::open(&locations[0]).unwrap().with_range(middle.start..u64::MAX).unwrap();
        assert_eq!(half.count(), ranges.len() - ranges.len() / 2);
    }
    let file = OpenOptions::new().limits(limits(input.len())).format(&TAR).open(&plain);
    if let (Ok(file), None) = (&file, &errors) {
        let tensors: usize = mapped.iter().filter_map(|sample| sample.tensors).sum();
        let all_load = mapped.iter().all(|sample| sample.tensors.is_some());
        assert!(!all_load || file.len() == tensors, "{} and {tensors} tensors", file.len());
    }
}

/// The content of a sample.
#[derive(Debug, PartialEq)]
struct Read {
    key: String,
    members: String,
    tensors: Option<usize>,
}

fn samples(location: &str, len: usize) -> Vec<Read> {
    let samples = Shards::from_locations([location]).limits(limits(len)).on_error(OnError::Skip);
    // A stream holds a sample, and decompressing takes a window.
    bounded_stream("samples", len, || samples.map(|sample| read(&sample.unwrap())).collect())
}

fn read(sample: &Sample) -> Read {
    for member in &sample.members {
        sample.bytes(&member.extension).unwrap();
    }
    let tensors = sample.load::<TensorMap>();
    let opened = sample.open();
    if let (Ok(tensors), Ok(opened)) = (&tensors, &opened) {
        assert_eq!(tensors.len(), opened.len());
    }
    let members = format!("{:?}", sample.members);
    Read { key: sample.key.clone(), members, tensors: tensors.ok().map(|tensors| tensors.len()) }
}

pub fn seeds() -> Vec<Vec<u8>> {
    let folder = tempfile::tempdir().unwrap();
    let mut writer = ShardWriter::new(folder.path().join("a-{0..}.tar")).unwrap().max_samples(2);
    let map = TensorMap::from_iter([("x", array![1.0_f32, 2.0])]);
    for key in ["1", "b/2", &"long".repeat(40)] {
        let files = [
            ("x.ten", ten::to_vec(&map).unwrap()),
            ("pair.safetensors", safetensors::to_vec(&map).unwrap()),
            ("cls", b"7".to_vec()),
            ("txt", b"text".to_vec()),
            ("jpg", vec![0xff, 0xd8]),
        ];
        writer.write_files(key, files).unwrap();
    }
    let shards = writer.finish().unwrap();
    let mut seeds: Vec<Vec<u8>> = shards.iter().map(|shard| fs::read(&shard.path).unwrap()).collect();
    let pax = {
        let mut tar = tar::Builder::new(Vec::new());
        tar.append_pax_extensions([("path", &b"3.txt"[..]), ("size", b"4")]).unwrap();
        let mut header = tar::Header::new_ustar();
        header.set_size(4);
        header.set_cksum();
        tar.append(&header, &b"text"[..]).unwrap();
        tar.into_inner().unwrap()
    };
    seeds.push(pax);
    seeds.push(seeds[0][..700].to_vec());
    seeds
}
