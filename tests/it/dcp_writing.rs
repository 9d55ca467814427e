//! Folders of `torch.distributed.checkpoint` that we write. `interop::dcp` reads them with PyTorch.

use std::fs;
use std::path::Path;

use tensorfile::file::RankFolder;
use tensorfile::{
    Category, Dtype, ErrorKind, File, Layout, SaveOptions, Tensor, TensorInfo, TensorMap, WriteOptions, pytorch,
};

use crate::support::{message, root, tensor};

/// Saves a map for several ranks, in a new folder.
fn save(map: &TensorMap, ranks: impl Into<RankFolder>) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    SaveOptions::new().ranks(ranks).save(folder.path(), map).unwrap();
    folder
}

/// Returns the names of the files in a folder, in order.
fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn map_of(tensors: &[(&str, &[usize])]) -> TensorMap {
    tensors.iter().map(|(name, shape)| (*name, tensor(Dtype::F32, shape))).collect()
}

/// Returns the row ranges of the chunks of a tensor, with the numbers of their ranks.
fn chunks(folder: &Path, name: &str) -> Vec<(String, u64)> {
    let file = File::open(folder).unwrap();
    let places = file.get(name).unwrap().places();
    let rank = |path: &Path| path.file_name().unwrap().to_str().unwrap().to_owned();
    places.into_iter().map(|(path, range)| (rank(path.unwrap()), range.end - range.start)).collect()
}

#[test]
fn any_tensors_for_any_number_of_ranks_are_read_back() {
    let shapes: [&[usize]; 8] = [&[], &[0], &[1], &[7], &[2, 3], &[3, 0, 2], &[9, 2, 1], &[4, 3, 2, 2]];
    let all = pytorch::DTYPES.iter().flat_map(|dtype| shapes.map(|shape| (*dtype, shape)));
    let map: TensorMap = all.map(|(dtype, shape)| (format!("{dtype}{shape:?}"), tensor(dtype, shape))).collect();
    for ranks in [1, 2, 3, 4, 7, 8, 16] {
        for (whole, dim) in [(0, 0), (24, 0), (0, 1)] {
            let division =
                RankFolder::new(ranks).replicate(whole).shard_dim(move |name| dim * usize::from(name.contains(", ")));
            let folder = save(&map, division);
            let file = File::open(folder.path()).unwrap();
            assert_eq!(file.load::<TensorMap>().unwrap(), map, "{ranks} ranks, {whole} bytes, dim {dim}");
            assert_eq!(file.warnings().unwrap(), []);
            file.check_other_checksums().unwrap();
            for tensor in file.tensors() {
                for (_, range) in tensor.places().into_iter().filter(|(_, range)| !range.is_empty()) {
                    assert_eq!(range.start % 64, 0, "{tensor:?}");
                }
            }
        }
    }
}

#[test]
fn rows_go_to_ranks_as_in_pytorch() {
    let folder = save(&map_of(&[("a", &[7, 2]), ("b", &[16]), ("c", &[9])]), 8);
    let lengths = |name| chunks(folder.path(), name).into_iter().map(|(_, bytes)| bytes).collect::<Vec<_>>();
    // `ceil(7 / 8)` is one row, and `ceil(9 / 8)` two.
    assert_eq!(lengths("a"), [8; 7]);
    assert_eq!(lengths("b"), [8; 8]);
    assert_eq!(lengths("c"), [8, 8, 8, 8, 4]);
    let files: Vec<String> = chunks(folder.path(), "b").into_iter().map(|(file, _)| file).collect();
    assert_eq!(files, (0..8).map(|rank| format!("__{rank}_0.distcp")).collect::<Vec<_>>());
    let mut expected = vec![".metadata".to_owned()];
    expected.extend(files);
    assert_eq!(names(folder.path()), expected);
}

#[test]
fn whole_tensors_go_to_the_ranks_with_the_fewest_bytes() {
    let folder = save(&map_of(&[("cut", &[2, 100]), ("a", &[]), ("b", &[]), ("c", &[])]), 3);
    let file_of = |name| chunks(folder.path(), name)[0].0.clone();
    // The third rank has no row of the first tensor.
    assert_eq!(["a", "b", "c"].map(file_of), ["__2_0.distcp"; 3].map(str::to_owned));
    let folder =
        save(&map_of(&[("a", &[10]), ("b", &[10]), ("c", &[5]), ("d", &[5])]), RankFolder::new(3).replicate(1 << 20));
    let file_of = |name| chunks(folder.path(), name)[0].0.clone();
    let expected = ["__0_0.distcp", "__1_0.distcp", "__2_0.distcp", "__2_0.distcp"];
    assert_eq!(["a", "b", "c", "d"].map(file_of), expected.map(str::to_owned));
}

#[test]
fn a_folder_is_divided_again_and_again() {
    let map = map_of(&[("a.weight", &[10, 3]), ("a.bias", &[10]), ("b", &[1, 4]), ("step", &[])]);
    let mut folder = save(&map, 1);
    let file = File::open(folder.path()).unwrap();
    assert!(file.tensors().all(|tensor| tensor.view().is_ok()), "whole items are aligned");
    for ranks in [8, 3, 5, 1] {
        let file = File::open(folder.path()).unwrap();
        let next = tempfile::tempdir().unwrap();
        SaveOptions::new().ranks(ranks).save(next.path(), &file).unwrap();
        assert_eq!(File::open(next.path()).unwrap().load::<TensorMap>().unwrap(), map, "{ranks} ranks");
        folder = next;
    }
}

#[test]
fn values_of_a_folder_of_pytorch_are_kept() {
    for name in ["plain", "sharded_4"] {
        let file = File::open(root().join("tests/fixtures/dcp").join(name)).unwrap();
        let options = WriteOptions::new().keep_metadata(&file.metadata().unwrap());
        let entries = options.metadata.clone();
        let is_value = |key: &String| file.metadata().unwrap().has_value(key);
        assert!(entries.keys().any(is_value), "{name}");
        let mut options = options;
        options.metadata.retain(|key, _| !is_value(key));
        let left = options.metadata.clone();
        options.metadata.clear();
        // What cannot be saved as it is stands with tensors in one item.
        assert!(left.len() < entries.len(), "{left:?}");
        let folder = tempfile::tempdir().unwrap();
        let is_stored = |name: &str| pytorch::FORMAT.stores_opaque(file.get(name).unwrap().layout());
        let stored = tensorfile::view::Subset::new(&file, is_stored);
        SaveOptions::new().ranks(3).write(options).save(folder.path(), &stored).unwrap();
        let new = File::open(folder.path()).unwrap();
        for (key, value) in entries.iter().filter(|(key, _)| is_value(key)) {
            assert_eq!(new.metadata().unwrap().entries.get(key), Some(value), "{name}: {key}");
        }
        for tensor in new.tensors() {
            let old = file.get(tensor.name()).unwrap();
            let [mut one, mut other] = [Vec::new(), Vec::new()];
            tensor.write_row_major_to(&mut one).unwrap();
            old.write_row_major_to(&mut other).unwrap();
            assert_eq!((tensor.shape(), one), (old.shape(), other), "{name}: {tensor:?}");
        }
    }
}

#[test]
fn a_folder_in_use_is_refused_and_stays() {
    let map = map_of(&[("a", &[4])]);
    let folder = save(&map, 2);
    let before = names(folder.path());
    let error = SaveOptions::new().ranks(2).save(folder.path(), &map).unwrap_err();
    let expected =
        format!("{}: is a folder with `.metadata`; save to a new folder, or empty it", folder.path().display());
    assert_eq!(error.to_string(), expected);
    assert_eq!(names(folder.path()), before);
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("notes.txt"), "mine").unwrap();
    let error = message(SaveOptions::new().ranks(2).save(folder.path(), &map));
    assert!(error.ends_with("is a folder with `notes.txt`; save to a new folder, or empty it"), "{error}");
    assert_eq!(names(folder.path()), ["notes.txt"]);
}

#[test]
fn a_folder_that_a_killed_process_left_is_taken_over() {
    let map = map_of(&[("a", &[4, 100]), ("b", &[3])]);
    let whole = save(&map, 2);
    // As much of a folder as there is before the last step.
    let left = tempfile::tempdir().unwrap();
    fs::copy(whole.path().join(".metadata"), left.path().join(".metadata.tmp")).unwrap();
    for file in ["__0_0.distcp", "__1_0.distcp"] {
        fs::write(left.path().join(file), b"half of it").unwrap();
    }
    let error = File::open(left.path()).unwrap_err().to_string();
    assert!(error.contains("that was not saved whole: it has `.metadata.tmp`"), "{error}");
    let other = map_of(&[("a", &[4, 100])]);
    let error = message(SaveOptions::new().ranks(2).save(left.path(), &other));
    assert!(error.contains("`.metadata.tmp`, which a save with other arguments left"), "{error}");
    let error = message(SaveOptions::new().ranks(4).save(left.path(), &map));
    assert!(error.contains("`.metadata.tmp`, which a save with other arguments left"), "{error}");
    SaveOptions::new().ranks(2).save(left.path(), &map).unwrap();
    for name in [".metadata", "__0_0.distcp", "__1_0.distcp"] {
        assert_eq!(fs::read(left.path().join(name)).unwrap(), fs::read(whole.path().join(name)).unwrap(), "{name}");
    }
    assert_eq!(names(left.path()), names(whole.path()));
    let left = tempfile::tempdir().unwrap();
    fs::copy(whole.path().join(".metadata"), left.path().join(".metadata.tmp")).unwrap();
    let error = File::open(left.path()).unwrap_err().to_string();
    assert!(error.contains("it has `.metadata.tmp` until all ranks are saved"), "{error}");
}

#[test]
fn a_save_that_fails_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let (path, map) = (folder.path().join("run"), map_of(&[("a", &[4, 100]), ("b", &[3])]));
    let plan = SaveOptions::new().ranks(3).plan(&path, &map).unwrap();
    assert!(!path.exists());
    assert_eq!((plan.files(), plan.path()), (3, path.clone()));
    let error = plan.save(&map_of(&[("a", &[4, 100]), ("b", &[4])])).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Changed { .. }), "{error:?}");
    assert!(!path.exists());
    fs::create_dir(&path).unwrap();
    plan.save(&map_of(&[("a", &[4, 100])])).unwrap_err();
    assert_eq!(names(&path), [""; 0]);
    plan.save(&map).unwrap();
    let bytes: u64 = names(&path).iter().map(|name| fs::metadata(path.join(name)).unwrap().len()).sum();
    assert_eq!(plan.file_bytes(), bytes);
    assert_eq!(names(folder.path()), ["run"]);
    let error = message(plan.to_writer(Vec::new(), &map));
    assert_eq!(error, "cannot write a folder to one writer; save it");
}

#[test]
fn what_a_folder_cannot_have_is_refused_before_anything_is_made() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run");
    let map = map_of(&[("a", &[4]), ("b", &[3])]);
    let refused = |map: &TensorMap, options: SaveOptions| {
        let error = options.save(&path, map).unwrap_err();
        assert!(matches!(error.category(), Category::Call | Category::Limit), "{error:?}");
        assert!(!path.exists());
        error.to_string()
    };
    let save = SaveOptions::new;
    assert_eq!(refused(&map, save().ranks(0)), "pytorch: cannot save for 0 ranks; expected 1 or more");
    assert_eq!(refused(&map, save().ranks(65_537)), "pytorch: number of ranks is 65537, but the limit is 65536");
    assert_eq!(
        refused(&map, save().ranks(RankFolder::new(3).replicate(100))),
        "pytorch: cannot divide 2 whole tensors among 3 ranks; all have fewer than 100 bytes; take fewer ranks"
    );
    assert_eq!(
        refused(&map, save().ranks(RankFolder::new(2).shard_dim(|_| 1))),
        "pytorch: tensor `a`: cannot cut f32[4] along dim 1; it has 1 dims"
    );
    let large = map_of(&[("a", &[1 << 16, 0])]);
    assert_eq!(save().ranks(1 << 16).plan(&path, &large).unwrap().files(), 1);
    let unnamed: TensorMap = [("", tensor(Dtype::F32, &[2]))].into_iter().collect();
    let error = refused(&unnamed, save().ranks(2));
    assert!(error.ends_with("cannot store a tensor without a name; a state dict has names"), "{error}");
    let quantized: TensorMap = [("q", tensor(Dtype::Q4_0, &[2]))].into_iter().collect();
    assert!(refused(&quantized, save().ranks(2)).starts_with("pytorch: tensor `q`: cannot store q4_0; "));
    let error = refused(&map, save().format(&tensorfile::ten::FORMAT).ranks(2));
    assert_eq!(error, "ten: cannot save ten for several ranks; such a folder is one of pytorch or safetensors");
    let error = refused(&map, save().max_shard_bytes(10).ranks(2));
    assert!(error.contains("cannot limit the size of shards"), "{error}");
    let options = WriteOptions::new().metadata([("a".to_owned(), "b".to_owned())].into_iter().collect());
    let error = refused(&map, save().write(options).ranks(2));
    assert!(error.contains("cannot keep the metadata `a`"), "{error}");
    let url = SaveOptions::new().ranks(2).save("s3://bucket/run", &map).unwrap_err();
    assert!(!url.to_string().is_empty());
}

#[test]
fn other_memory_orders_are_row_major() {
    let layout = Layout::from_dim_order(&[1, 0]).unwrap();
    let info = TensorInfo { layout, ..TensorInfo::new(Dtype::I16, [3, 2]) };
    let bytes: Vec<u8> = [0_i16, 2, 4, 1, 3, 5].iter().flat_map(|number| number.to_le_bytes()).collect();
    let map: TensorMap = [("a", Tensor::new(info, &bytes).unwrap())].into_iter().collect();
    let folder = save(&map, 2);
    let read = File::open(folder.path()).unwrap().load::<TensorMap>().unwrap();
    assert_eq!(read["a"], Tensor::from_slice(&[0_i16, 1, 2, 3, 4, 5], [3, 2]).unwrap());
}

#[test]
fn the_metadata_is_short() {
    let map: TensorMap = (0..1000).map(|at| (format!("layers.{at}.weight"), tensor(Dtype::Bf16, &[4096, 4]))).collect();
    let folder = save(&map, 8);
    let bytes = fs::metadata(folder.path().join(".metadata")).unwrap().len();
    assert!(bytes / 8000 <= 200, "{} bytes for each chunk", bytes / 8000);
}

/// The pickle of one tensor in one chunk, op by op.
#[test]
fn the_metadata_has_the_classes_of_pytorch() {
    let folder = save(&map_of(&[("w", &[2, 3])]), RankFolder::new(1).prefix("model"));
    let metadata = fs::read(folder.path().join(".metadata")).unwrap();
    let item = fs::metadata(folder.path().join("__0_0.distcp")).unwrap().len();
    let module = r"\x8c%torch.distributed.checkpoint.metadata\x94";
    let expected = [
        format!(r"{module}\x8c\x08Metadata\x93\x94)\x81}}(\x8c\x13state_dict_metadata\x94}}(\x8c\x07model.w\x94"),
        r"h\x00\x8c\x15TensorStorageMetadata\x93\x94)\x81}(\x8c\nproperties\x94".to_owned(),
        r"h\x00\x8c\x10TensorProperties\x93\x94)\x81(\x8c\x05torch\x94\x8c\x07float32\x93\x94".to_owned(),
        r"\x8c\x13torch.serialization\x94\x8c\x0b_get_layout\x93\x94(\x8c\rtorch.stridedtR\x94\x89".to_owned(),
        r"h\x00\x8c\x14_MEM_FORMAT_ENCODING\x93\x94(K\x00tR\x94\x89tb".to_owned(),
        r"\x8c\x04size\x94h\x07\x8c\x04Size\x93\x94((K\x02K\x03ttR".to_owned(),
        r"\x8c\x06chunks\x94](h\x00\x8c\x14ChunkStorageMetadata\x93\x94)\x81}(".to_owned(),
        r"\x8c\x07offsets\x94h\x0f((K\x00K\x00ttR\x8c\x05sizes\x94h\x0f((K\x02K\x03ttRubeub".to_owned(),
        r"u\x8c\x0cplanner_data\x94}(h\x03(\x8c\x05model\x8c\x01wtu\x8c\x0cstorage_data\x94}(".to_owned(),
    ]
    .concat();
    let text = metadata.escape_ascii().to_string();
    assert!(text.contains(&expected), "{text}\n{expected}");
    assert!(text.ends_with(r"ubuub."), "{text}");
    assert_eq!(metadata[..3], [0x80, 4, 0x95]);
    assert_eq!(metadata[3..11], (metadata.len() as u64 - 11).to_le_bytes());
    assert!(item > 600 && item < 1000, "{item}");
}
