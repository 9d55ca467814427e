//! The number of requests for common tasks.

use std::time::Duration;

use tensorfile::file::load_tensor;
use tensorfile::{File, SaveOptions, TensorMap, WriteOptions};

use super::vectors;
use crate::support::format;
use crate::support::server::{Fault, Object, Server};

const MIB: usize = 1 << 20;

/// Returns a file of a format that keeps the names, if it can.
fn file_of(name: &str, map: &TensorMap) -> Vec<u8> {
    if name == "npy" {
        return tensorfile::npy::to_vec(&map["t0"]).unwrap();
    }
    format(name).to_vec(map, &WriteOptions::new().embed_names(true)).unwrap()
}

#[test]
fn an_index_takes_one_request_or_two() {
    for (name, most) in [("ptd", 1), ("safetensors", 1), ("gguf", 1), ("npy", 1), ("tensorbuffers", 2)] {
        for (is_long, count) in [(false, 20), (true, 5000)] {
            if name == "npy" && is_long {
                continue;
            }
            // All files are longer than the first request.
            let map = if name == "npy" { vectors(1, 300_000) } else { vectors(count, 300_000 / count) };
            let server = Server::new();
            let url = server.put(&format!("/model.{}", format(name).extensions[0]), file_of(name, &map));
            let file = File::open(&url).unwrap();
            let seen = server.take_seen();
            let most = if is_long { 2 } else { most };
            assert!(seen.len() <= most, "{name} of {count} tensors: {seen:#?}");
            assert_eq!((file.len(), file.format().name), (map.len(), name));
            assert_eq!((file.path(), file.location().as_deref()), (None, Some(&*url)));
            assert_eq!(seen[0].range, Some((0, 65535)));
            assert_eq!(seen[0].headers["accept-encoding"], "identity");
            file.metadata().unwrap();
            file.warnings().unwrap();
            assert_eq!(server.requests(), 0, "{name} of {count} tensors: the index was read");
            assert_eq!(file.load::<TensorMap>().unwrap().len(), map.len());
        }
    }
}

#[test]
fn a_short_file_takes_one_request_for_all() {
    let map = vectors(10, 1000);
    for name in ["ptd", "safetensors", "gguf", "tensorbuffers", "btf", "npz", "ten"] {
        let server = Server::new();
        let url = server.put("/file", file_of(name, &map));
        let file = File::open(&url).unwrap();
        assert_eq!(file.load::<TensorMap>().unwrap().names().count(), 10);
        assert_eq!(server.requests(), 1, "{name}");
    }
}

#[test]
fn a_long_index_at_the_end_takes_two_requests() {
    // Of more than 512 KiB.
    let map = vectors(12_000, 60);
    let server = Server::new();
    let bytes = file_of("tensorbuffers", &map);
    let all = bytes.len();
    let file = File::open(server.put("/model.tbs", bytes)).unwrap();
    let index = all as u64 - file.tensors().map(|tensor| tensor.range().end).max().unwrap();
    assert!((512 << 10..1 << 20).contains(&index), "{index} bytes");
    assert_eq!((file.len(), server.requests()), (map.len(), 2));
}

#[test]
fn headers_in_many_places_are_read_at_once() {
    const AT_ONCE: usize = 32;

    let count = 96;
    let map = vectors(count, 300_000);
    let mut files = vec![("btf", file_of("btf", &map)), ("npz", file_of("npz", &map))];
    #[cfg(feature = "pytorch")]
    files.push(("pt", crate::formats::pytorch::checkpoint(count, 300_000)));
    for (name, bytes) in files {
        let server = Server::new();
        let latency = Duration::from_millis(200);
        let object = Object { bytes: bytes.into(), etag: Some("\"1\"".into()), latency, ..Object::default() };
        let url = server.put_object(&format!("/model.{name}"), object);
        let file = File::open(&url).unwrap();
        assert_eq!(file.len(), count);
        let (requests, round_trips) = (server.requests(), server.round_trips());
        assert!((count / 2..=3 + count).contains(&requests), "{name}: {requests}");
        assert!((3..=2 + count / AT_ONCE).contains(&round_trips), "{name}: {round_trips} round trips");
        assert!(server.most_at_once() <= AT_ONCE, "{name}: {} at once", server.most_at_once());
    }
}

#[test]
fn headers_at_equal_distances_are_read_at_once() {
    let count = 100;
    let server = Server::new();
    let (bytes, latency) = (file_of("ten", &vectors(count, 300_000)), Duration::from_millis(20));
    let object = Object { bytes: bytes.into(), etag: Some("\"1\"".into()), latency, ..Object::default() };
    let file = File::open(server.put_object("/model.ten", object)).unwrap();
    assert_eq!(file.len(), count);
    assert!(server.requests() <= 3 + count, "{}", server.requests());
    // A header at a time would take 100 round trips.
    assert!((4..=32).contains(&server.most_at_once()), "{} at once", server.most_at_once());
}

/// Tensors of many lengths, so that no header is at a predictable offset.
fn uneven(count: usize) -> TensorMap {
    let tensor = |i: usize| vectors(1, 200_000 + 997 * (i * i % 50))["t0"].clone();
    (0..count).map(|i| (format!("t{i}"), tensor(i))).collect()
}

#[test]
fn a_file_without_an_index_is_loaded_as_one_stream() {
    let map = uneven(40);
    let server = Server::new();
    let bytes = tensorfile::ten::to_vec(&map).unwrap();
    let all = bytes.len();
    let url = server.put("/m.ten", bytes);
    let ranges = || server.take_seen().iter().map(|seen| seen.range.unwrap()).collect::<Vec<_>>();
    let whole = [(0, 65_535), (65_536, all - 1)];
    assert!(tensorfile::load::<TensorMap>(&url).unwrap() == map);
    assert_eq!(ranges(), whole);

    // In another order.
    #[derive(tensorfile::TensorFile)]
    struct Pair {
        t1: Vec<i8>,
        t0: Vec<i8>,
    }
    let pair = Pair { t1: vec![1; 200_000], t0: vec![2; 200_000] };
    let two: TensorMap = [("t0", &pair.t0), ("t1", &pair.t1)]
        .map(|(name, numbers)| (name.to_owned(), tensorfile::Tensor::from_slice(numbers, [numbers.len()]).unwrap()))
        .into_iter()
        .collect();
    let bytes = tensorfile::ten::to_vec(&two).unwrap();
    let end = bytes.len() - 1;
    let loaded: Pair = tensorfile::load(server.put("/two.ten", bytes)).unwrap();
    assert_eq!((loaded.t0, loaded.t1), (pair.t0, pair.t1));
    assert_eq!(ranges(), [(0, 65_535), (65_536, end)]);

    // A truncated body is continued.
    server.change("/m.ten", |object| {
        object.once = [Fault::Header("X-A", "b"), Fault::Cut(1_000_000), Fault::Hang].into();
    });
    assert!(tensorfile::load::<TensorMap>(&url).unwrap() == map);
    assert_eq!(ranges(), [whole[0], whole[1], (1_065_536, all - 1), (1_065_536, all - 1)]);

    // A mismatch has the same message as for an open file.
    let error = tensorfile::load::<Pair>(&url).err().unwrap().to_string();
    assert_eq!(error, File::open(&url).unwrap().load::<Pair>().err().unwrap().to_string());
    server.change("/m.ten", |object| object.bytes = object.bytes[..all - 100_000].to_vec().into());
    let error = tensorfile::load::<TensorMap>(&url).err().unwrap().to_string();
    assert_eq!(error, File::open(&url).err().unwrap().to_string());
    assert!(error.starts_with(&format!("{url}: ten: tensor `t39`: ")), "{error}");
}

#[test]
fn a_type_that_leaves_tensors_out_reads_only_its_own() {
    #[derive(tensorfile::TensorFile)]
    #[tensor(allow_unknown)]
    struct One {
        t30: Vec<i8>,
    }

    let map = uneven(40);
    let server = Server::new();
    let url = server.put("/m.ten", tensorfile::ten::to_vec(&map).unwrap());
    let loaded: One = tensorfile::load(&url).unwrap();
    assert_eq!(loaded.t30.len(), map["t30"].as_bytes().len());
    let seen = server.take_seen();
    let range = File::open(&url).unwrap().get("t30").unwrap().range();
    // The beginning was read with the header.
    let (first, last) = seen.last().unwrap().range.unwrap();
    assert!(last as u64 + 1 == range.end && first as u64 - range.start <= 16 << 10, "{seen:#?}");
}

#[test]
fn a_failure_in_a_batch_names_its_tensor() {
    let map = vectors(9, 300_000);
    for name in ["safetensors", "npz"] {
        let bytes = file_of(name, &map);
        let place = usize::try_from(File::from_bytes(bytes.clone()).unwrap().get("t5").unwrap().range().start).unwrap();
        let server = Server::new();
        let url = server.put(&format!("/m.{name}"), bytes);
        let file = File::open(&url).unwrap();
        let plan = file.read_plan().all().unwrap().finish().unwrap();
        // The server breaks off in the sixth tensor, however often it is asked.
        server.change(&format!("/m.{name}"), |object| object.always = Some(Fault::Before(place + 100_000)));
        let errors = [
            plan.read_into(&mut vec![0; plan.bytes()]).unwrap_err(),
            file.load::<TensorMap>().unwrap_err(),
            file.load_into(&mut map.clone()).unwrap_err(),
        ];
        for error in errors {
            assert_eq!(error.tensor(), Some("t5"), "{error}");
        }
    }
}

#[test]
fn one_tensor_takes_one_request_of_its_bytes() {
    let map = vectors(30, 300_000);
    for name in ["ptd", "safetensors", "gguf", "tensorbuffers", "btf", "npz", "ten"] {
        let server = Server::new();
        let url = server.put(&format!("/model.{}", format(name).extensions[0]), file_of(name, &map));
        let file = File::open(&url).unwrap();
        server.take_seen();
        assert_eq!(file.tensor("t20").unwrap(), map["t20"], "{name}");
        let seen = server.take_seen();
        // The first bytes may have been read with the header.
        assert!(seen.len() == 1 && (299_000..=300_000).contains(&seen[0].len()), "{name}: {seen:#?}");
        let part = file.slice("t21", &[1000..1500]).unwrap();
        assert_eq!(part.as_view().array::<i8>().unwrap()[3], map["t21"].as_view().array::<i8>().unwrap()[1003]);
        let seen = server.take_seen();
        assert_eq!(seen.iter().map(|seen| seen.len()).collect::<Vec<_>>(), [500], "{name}");
    }
}

#[test]
fn rows_of_a_table_are_read_without_the_others() {
    let table = ndarray::Array2::from_shape_fn((1000, 256), |(row, column)| (row * 256 + column) as f32);
    let map = TensorMap::from_iter([("table", tensorfile::Tensor::from_array(&table))]);
    let server = Server::new();
    let file = File::open(server.put("/model.safetensors", file_of("safetensors", &map))).unwrap();
    server.take_seen();
    let part = file.slice("table", &[500..504, 0..256]).unwrap();
    assert_eq!(part.as_view().array::<f32>().unwrap()[[1, 2]], (501 * 256 + 2) as f32);
    assert_eq!(server.take_seen().iter().map(|seen| seen.len()).sum::<usize>(), 4 * 256 * 4);
}

#[test]
fn load_tensor_reads_only_what_leads_to_it() {
    let map = vectors(50, 300_000);
    for (name, most) in [("btf", 4), ("safetensors", 2)] {
        let server = Server::new();
        let bytes = format(name).to_vec(&map, &WriteOptions::new()).unwrap();
        let url = server.put(&format!("/model.{name}"), bytes);
        let tensor = if name == "btf" { "30" } else { "t30" };
        assert_eq!(load_tensor(&url, tensor).unwrap(), map["t30"]);
        let seen = server.take_seen();
        assert!(seen.len() <= most, "{name}: {seen:#?}");
    }
}

#[test]
fn a_large_tensor_is_read_in_spans_at_once() {
    let len = 64 * MIB;
    let map = vectors(1, len);
    let bytes = file_of("safetensors", &map);
    let all = bytes.len();
    let server = Server::new();
    let object = |latency, rate| Object {
        bytes: bytes.clone().into(),
        etag: Some("\"1\"".into()),
        latency,
        rate,
        ..Object::default()
    };
    let url = server.put_object("/model.safetensors", object(Duration::ZERO, None));
    let file = File::open(&url).unwrap();
    assert!(file.load::<TensorMap>().unwrap() == map);
    let seen = server.take_seen();
    assert!(seen.len() <= all / (8 * MIB) + 2, "{seen:#?}");
    let sent: usize = seen.iter().map(|seen| seen.len()).sum();
    assert!(sent <= all + all / 100, "{sent} of {all} bytes");
    assert!((2..=8).contains(&server.most_at_once()), "{}", server.most_at_once());

    // Each connection is as slow as to a distant server.
    server.put_object("/model.safetensors", object(Duration::from_millis(30), Some(40.0 * MIB as f64)));
    File::open(&url).unwrap().load::<TensorMap>().unwrap();
    assert_eq!(server.most_at_once(), 8, "all spans are on their way at once");
}

#[test]
fn many_tensors_are_read_together() {
    let map = vectors(200, 300_000);
    let bytes = file_of("safetensors", &map);
    let all = bytes.len();
    let server = Server::new();
    let file = File::open(server.put("/model.safetensors", bytes)).unwrap();
    for is_plan in [false, true] {
        server.take_seen();
        if is_plan {
            let plan = file.read_plan().all().unwrap().finish().unwrap();
            plan.read_into(&mut vec![0; plan.bytes()]).unwrap();
        } else {
            assert!(file.load::<TensorMap>().unwrap() == map);
        }
        let seen = server.take_seen();
        let sent: usize = seen.iter().map(|seen| seen.len()).sum();
        assert!(seen.len() <= all / (8 * MIB) + 2, "{seen:#?}");
        assert!(sent <= all + all / 100, "{sent} of {all} bytes");
    }
    assert!((2..=8).contains(&server.most_at_once()), "{}", server.most_at_once());

    let mut plan = file.read_plan();
    for i in (0..200).step_by(9) {
        plan = plan.tensor(&format!("t{i}")).unwrap();
    }
    let plan = plan.finish().unwrap();
    server.take_seen();
    let mut memory = vec![0; plan.bytes()];
    plan.read_into(&mut memory).unwrap();
    let piece = plan.pieces().iter().find(|piece| piece.name() == "t198").unwrap();
    assert_eq!(memory[piece.range()], *map["t198"].as_bytes());
    let sent: usize = server.take_seen().iter().map(|seen| seen.len()).sum();
    assert!(sent * 8 <= plan.bytes() * 9, "{sent} of {} bytes", plan.bytes());
}

#[test]
fn shards_are_opened_at_once() {
    let map = vectors(16, 100_000);
    let folder = tempfile::tempdir().unwrap();
    let options = SaveOptions::new().max_shard_bytes(200_000);
    options.save(folder.path().join("model.safetensors"), &map).unwrap();
    let server = Server::new();
    for entry in std::fs::read_dir(folder.path()).unwrap() {
        let entry = entry.unwrap();
        let path = format!("/m/{}", entry.file_name().into_string().unwrap());
        server.put(&path, std::fs::read(entry.path()).unwrap());
        server.change(&path, |object| object.latency = Duration::from_millis(50));
    }
    let url = server.url("/m/model.safetensors.index.json");
    let file = File::open(format!("{url}?token=secret")).unwrap();
    let seen = server.take_seen();
    assert_eq!((file.shards().len(), seen.len()), (8, 9));
    assert!(seen[1..].iter().all(|seen| !seen.target.contains("secret")), "the query is that of one file");
    assert!(server.most_at_once() > 2, "{}", server.most_at_once());
    assert_eq!(file.location().as_deref(), Some(&*url));
    assert_eq!(file.shards()[0].to_str(), Some(&*server.url("/m/model-00001-of-00008.safetensors")));
    assert!(file.load::<TensorMap>().unwrap() == map);
    assert_eq!(load_tensor(&url, "t9").unwrap(), map["t9"]);

    server.take_seen();
    load_tensor(&url, "t9").unwrap();
    assert_eq!(server.requests(), 3, "the index, the header of a shard, and the tensor");
}

#[test]
fn parts_of_a_model_are_found_by_their_numbers() {
    let map = vectors(4, 100_000);
    let folder = tempfile::tempdir().unwrap();
    SaveOptions::new().max_shard_bytes(200_000).save(folder.path().join("model.gguf"), &map).unwrap();
    let server = Server::new();
    for part in ["model-00001-of-00002.gguf", "model-00002-of-00002.gguf"] {
        server.put(&format!("/{part}"), std::fs::read(folder.path().join(part)).unwrap());
    }
    let file = File::open(server.url("/model-00002-of-00002.gguf")).unwrap();
    assert_eq!((file.len(), file.shards().len()), (4, 2));
    assert!(file.load::<TensorMap>().unwrap() == map);

    // Without the other part, the file is opened alone.
    let alone = std::fs::read(folder.path().join("model-00001-of-00002.gguf")).unwrap();
    let server = Server::new();
    let file = File::open(server.put("/model-00001-of-00002.gguf", alone)).unwrap();
    assert_eq!((file.len(), file.shards().len()), (2, 0));
}

#[test]
fn one_file_with_one_tag_is_known_to_be_equal() {
    let server = Server::new();
    let (one, other) = (
        server.put("/a.npy", file_of("npy", &vectors(1, 100))),
        server.put("/b.npy", file_of("npy", &vectors(1, 100))),
    );
    let open = |url: &str| File::open(url).unwrap();
    assert!(open(&one).is_known_equal(&open(&one)));
    assert!(!open(&one).is_known_equal(&open(&other)), "two URLs may have one tag");
    let before = open(&one);
    server.change("/a.npy", |object| object.etag = Some("\"v2\"".into()));
    assert!(!before.is_known_equal(&open(&one)));
    server.change("/a.npy", |object| object.etag = Some("W/\"v2\"".into()));
    assert!(!open(&one).is_known_equal(&open(&one)), "a weak tag does not mean equal bytes");
    for (sha256, is_equal) in [("a".repeat(64), true), ("b".repeat(64), false)] {
        server.change("/a.npy", |object| {
            object.headers = vec![("X-Linked-ETag".into(), format!("\"{}\"", "a".repeat(64)))]
        });
        server.change("/b.npy", |object| object.headers = vec![("X-Linked-ETag".into(), format!("\"{sha256}\""))]);
        assert_eq!(open(&one).is_known_equal(&open(&other)), is_equal);
    }
    let path = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(&path, file_of("npy", &vectors(1, 100))).unwrap();
    assert!(!File::open(&path).unwrap().is_known_equal(&File::open(&path).unwrap()));
}
