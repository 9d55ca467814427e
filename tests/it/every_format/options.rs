//! Every option of every format is honoured, refused, or documented to have no effect. All ways of writing and reading
//! agree.

use std::io::Cursor;

use ndarray::{Array1, Array2, ShapeBuilder, array};
use tensorfile::file::Backend;
use tensorfile::model::Store;
use tensorfile::{
    Blob, Category, Dtype, FORMATS, File, Format, Layout, Limits, OpenOptions, Result, SaveOptions, TensorFile,
    TensorMap, Tensors, WriteOptions,
};

use super::{holds, sparse};
use crate::support::{folder, tensor, written_formats};

/// The bytes of a file, or the message of an error.
type Written = std::result::Result<Vec<u8>, String>;

fn written(result: Result<Vec<u8>>) -> Written {
    result.map_err(|error| error.without_path().to_string())
}

/// Writes a value in every way, and returns what all of them wrote.
#[track_caller]
fn write<T: Tensors + Store>(format: &'static Format, options: &WriteOptions, value: &T) -> Written {
    let folder = folder(true);
    let path = folder.path().join("file");
    let save = SaveOptions::new().format(format).write(options.clone());
    let saved = |saved: Result<()>| written(saved.map(|()| std::fs::read(&path).unwrap()));
    let expected = written(format.to_vec(value, options));

    let to_writer = |write: &dyn Fn(&mut Vec<u8>) -> Result<()>| {
        // Of `to_vec_into`, the old bytes are replaced.
        let mut file = Vec::new();
        written(write(&mut file).map(|()| file))
    };
    let into = |file: &mut Vec<u8>| {
        file.extend_from_slice(b"old");
        format.to_vec_into(file, value, options)
    };
    let ways = [
        ("to_vec_into", to_writer(&into)),
        ("to_writer", to_writer(&|file| format.to_writer(file, value, options))),
        ("to_io_slices", to_writer(&|file| Ok(format.to_io_slices(value, options)?.write_to(file)?))),
        ("save", saved(save.save(&path, value))),
        ("plan and save", saved(save.plan(&path, value).and_then(|plan| plan.save(value)))),
        #[cfg(feature = "safetensors")]
        ("save as one of shards", saved(save.clone().max_shard_bytes(1 << 40).save(&path, value))),
        ("plan and to_writer", to_writer(&|file| save.plan(&path, value)?.to_writer(file, value))),
    ];
    for (way, found) in ways {
        let [found_len, len] = [&found, &expected].map(|written| written.as_ref().map(Vec::len));
        assert!(found == expected, "{}, {options:?}, {way}: {found_len:?}, but to_vec: {len:?}", format.name);
    }
    let len = format.file_bytes(value, options).map_err(|error| error.to_string());
    assert_eq!(len, expected.as_ref().map(|file| file.len() as u64).map_err(Clone::clone), "{options:?}");
    expected
}

#[derive(TensorFile)]
struct Tied {
    embed: Array1<f32>,
    #[tensor(tied = "embed")]
    head: Array1<f32>,
}

#[derive(TensorFile)]
struct Named {
    weight: Array2<f32>,
    #[tensor(metadata, rename = "general.name")]
    name: Option<String>,
    #[tensor(metadata)]
    model: Option<String>,
    #[tensor(metadata, rename = "ptd.model_name")]
    ptd: Option<String>,
}

fn all_options() -> Vec<WriteOptions> {
    // Saving embeds names where they are needed, unless it is told.
    let new = || WriteOptions::new().embed_names(false);
    let entry = |key: &str, value: &str| new().metadata([(key.to_owned(), value.to_owned())].into_iter().collect());
    let alignments = [0, 1, 3, 8, 64, 4096, 1 << 20, 1 << 33].map(|bytes| new().alignment(bytes));
    let mut all = vec![new(), new().embed_names(true), new().keep_dim_order(true), new().tfrt_coo(true)];
    all.extend(alignments);
    all.extend([entry("model", "a"), entry("general.alignment", "64"), entry("ptd.version", "2"), entry("any", "b")]);
    all.push(new().embed_names(true).keep_dim_order(true).tfrt_coo(true));
    all
}

#[test]
fn all_ways_to_write_agree() {
    let ones = |len: usize| Array1::<f32>::ones(len);
    let columns = |rows: usize| Array2::<f32>::from_shape_fn((rows, 30).f(), |(row, column)| (row * column) as f32);
    let named = |key: usize| {
        let value = |at| (key == at).then(|| "a".to_owned());
        Named { weight: columns(2), name: value(1), model: value(2), ptd: value(3) }
    };
    let (mut files, mut errors) = (0, 0);
    for format in FORMATS {
        for options in all_options() {
            let mut count = |written: Written| if written.is_ok() { files += 1 } else { errors += 1 };
            // Payloads that are copied while the file is planned, and payloads that are not.
            for len in [1, 3000] {
                count(write(format, &options, &ones(len)));
                count(write(format, &options, &columns(len)));
                count(write(format, &options, &Tied { embed: ones(len), head: ones(len) }));
                count(write(format, &options, &TensorMap::from_iter([("a", ones(len)), ("b", array![2.0])])));
            }
            (0..4).for_each(|key| count(write(format, &options, &named(key))));
            count(write(format, &options, &TensorMap::new()));
            count(write(format, &options, &sparse()));
            count(write(format, &options, &Blob(vec![1, 2, 3])));
            count(write(format, &options, &TensorMap::from_iter([("x".repeat(100), ones(1))])));
        }
    }
    assert!(files.min(errors) > 20 * FORMATS.len(), "{files} files, {errors} errors");
}

#[test]
fn alignments_are_honoured_or_refused() {
    for format in written_formats() {
        let map: TensorMap = ["0", "1", "2"].map(|name| (name, tensor(format.dtypes[0], &[3]))).into_iter().collect();
        let map = if holds(format, &map) { map } else { map.into_iter().take(1).collect() };
        for bytes in [0, 1, 3, 8, 64, 4096, 1 << 20] {
            match format.to_vec(&map, &WriteOptions::new().alignment(bytes)) {
                Ok(file) => {
                    let file = File::from_bytes(file).unwrap();
                    assert!(file.tensors().all(|tensor| tensor.range().start % bytes == 0), "{} {bytes}", format.name);
                }
                Err(error) => {
                    assert_eq!(error.category(), Category::Call);
                    assert!(error.to_string().contains(&format!(" to {bytes} bytes; ")), "{error}");
                    let states_it = matches!(format.name, "ptd" | "tensorbuffers" | "gguf");
                    assert!(!states_it || [0, 3].contains(&bytes), "{error}");
                }
            }
        }
    }
}

#[test]
fn dim_orders_are_kept_on_request_where_a_format_has_them() {
    let columns = Array2::<f32>::ones((2, 3).f());
    for format in written_formats().filter(|format| format.dtypes.contains(&Dtype::F32)) {
        for keep in [false, true] {
            let file = format.to_vec(&columns, &WriteOptions::new().keep_dim_order(keep)).unwrap();
            let is_kept = *File::from_bytes(file).unwrap().nth(0).unwrap().layout() != Layout::RowMajor;
            assert_eq!(is_kept, keep && matches!(format.name, "ptd" | "npy" | "npz" | "pytorch"), "{}", format.name);
        }
    }
}

#[test]
fn limits_hold_for_all_ways_to_read() {
    let folder = folder(true);
    for format in written_formats() {
        let tensors: TensorMap =
            ["0", "1", "2"].map(|name| (name, tensor(format.dtypes[0], &[3, 2]))).into_iter().collect();
        let tensors = if holds(format, &tensors) { tensors } else { tensors.into_iter().take(1).collect() };
        let file = format.to_vec(&tensors, &WriteOptions::new()).unwrap();
        let path = folder.path().join("file").with_extension(format.extensions[0]);
        std::fs::write(&path, &file).unwrap();
        for limits in [Limits::new().tensors(tensors.len() as u64 - 1), Limits::new().rank(1)] {
            let options = OpenOptions::new().format(format).limits(limits.clone());
            let ways = [
                options.clone().backend(Backend::Mapped).open(&path),
                options.clone().backend(Backend::Positioned).open(&path),
                options.from_bytes(file.clone()),
                options.from_reader(Cursor::new(file.clone())),
                options.read_index(&file[..]),
            ];
            let errors = ways.map(|file| {
                let error = file.unwrap_err();
                assert_eq!(error.category(), Category::Limit, "{}: {error}", format.name);
                error.without_path().to_string()
            });
            assert!(errors.iter().all(|error| *error == errors[0]), "{errors:?}");
        }
    }
}
