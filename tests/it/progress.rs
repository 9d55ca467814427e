//! Progress callbacks, and calls ended by them.

use std::fs;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use ndarray::{Array1, array};
use tensorfile::file::Backend;
use tensorfile::{Category, ErrorKind, File, OpenOptions, Progress, Result, SaveOptions, TensorMap, WriteOptions};

use crate::support::{message, multi_tensor_formats};

/// A listener that ends the call the given number of times after the first.
fn end_after(calls: usize) -> impl Fn(Progress) -> ControlFlow<()> + Send + Sync + 'static {
    let left = Arc::new(AtomicUsize::new(calls));
    move |_| match left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)) {
        Ok(_) => ControlFlow::Continue(()),
        Err(_) => ControlFlow::Break(()),
    }
}

#[track_caller]
fn assert_cancelled<T>(result: Result<T>, format: &str) {
    let error = result.err().expect("it was cancelled");
    assert!(matches!(error.kind(), ErrorKind::Cancelled) && error.category() == Category::Call, "{error}");
    assert_eq!(error.without_path().to_string(), format!("{format}: cancelled by the progress listener"));
}

fn map() -> TensorMap {
    TensorMap::from_iter([("a", Array1::<i8>::ones(9 << 20)), ("b", array![1, 2]), ("c", array![3])])
}

/// The files in a folder, and the bytes of each.
fn files(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let files = fs::read_dir(folder).unwrap().map(|file| file.unwrap());
    let mut files: Vec<_> =
        files.map(|file| (file.file_name().into_string().unwrap(), fs::read(file.path()).unwrap())).collect();
    files.sort();
    files
}

#[test]
fn a_save_that_is_cancelled_changes_nothing() {
    for format in multi_tensor_formats() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(format!("model.{}", format.extensions[0]));
        let save = SaveOptions::new().format(format).write(WriteOptions::new().embed_names(true));
        save.save(&path, &TensorMap::from_iter([("old", array![1_i8])])).unwrap();
        let before = files(folder.path());
        // After the first piece, within the file, and when all is written.
        let calls = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&calls);
        let all = save.clone().progress(move |_| _ = counted.fetch_add(1, Ordering::Relaxed));
        all.plan(&path, &map()).unwrap().to_writer(std::io::sink(), &map()).unwrap();
        let calls = calls.load(Ordering::Relaxed);
        assert!(calls >= 2, "{calls}");
        for after in [0, 1, calls - 1] {
            let save = save.clone().progress(end_after(after));
            assert_cancelled(save.save(&path, &map()), format.name);
            assert_cancelled(save.plan(&path, &map()).unwrap().to_writer(Vec::new(), &map()), format.name);
            #[cfg(feature = "safetensors")]
            assert_cancelled(save.max_shard_bytes(1 << 20).save(&path, &map()), format.name);
            assert!(files(folder.path()) == before, "{} after {after}", format.name);
        }
        // Another file is converted.
        let other = folder.path().join("other.ten");
        tensorfile::save(&other, &map()).unwrap();
        let before = files(folder.path());
        assert_cancelled(save.progress(end_after(1)).save(&path, &File::open(&other).unwrap()), format.name);
        assert!(files(folder.path()) == before, "{}", format.name);
    }
}

#[test]
fn a_load_that_is_cancelled_ends() {
    for format in multi_tensor_formats() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(format!("model.{}", format.extensions[0]));
        let save = SaveOptions::new().format(format).write(WriteOptions::new().embed_names(true));
        save.save(&path, &map()).unwrap();
        #[cfg(feature = "safetensors")]
        let shards = {
            let shards = folder.path().join(format!("shards.{}", format.extensions[0]));
            save.max_shard_bytes(1 << 20).save(&shards, &map()).unwrap();
            shards
        };
        for after in 0..3 {
            for backend in [Backend::Mapped, Backend::Positioned] {
                let options = || OpenOptions::new().backend(backend).format(format).progress(end_after(after));
                let open = || options().open(&path).unwrap();
                assert_cancelled(open().load::<TensorMap>(), format.name);
                assert_cancelled(open().deserialize::<TensorMap>(), format.name);
                let mut arrays: std::collections::BTreeMap<String, Array1<i8>> = map().load().unwrap();
                assert_cancelled(open().load_into(&mut arrays), format.name);
                let bytes = fs::read(&path).unwrap();
                assert_cancelled(options().from_bytes(bytes).unwrap().load::<TensorMap>(), format.name);
            }
            #[cfg(feature = "safetensors")]
            {
                let open = OpenOptions::new().progress(end_after(after)).open(&shards).unwrap();
                assert_cancelled(open.load::<TensorMap>(), format.name);
            }
        }
        let file = OpenOptions::new().format(format).progress(end_after(3)).open(&path).unwrap();
        assert_eq!(file.load::<TensorMap>().unwrap(), map());
    }
}

#[test]
fn a_file_that_does_not_fit_is_not_begun() {
    let file = tensorfile::ten::to_vec(&map()).unwrap();
    let file = OpenOptions::new().progress(end_after(0)).from_bytes(file).unwrap();
    assert!(message(file.load::<Vec<Array1<f64>>>()).contains("3 wrong dtype"));
}
