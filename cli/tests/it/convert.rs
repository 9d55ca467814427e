use std::fs;
use std::io::Read;
use std::process::Stdio;

use tensorfile::{Dtype, FORMATS, File, Format, Tensor, TensorInfo, TensorMap, WriteOptions};

use super::{Session, weights};

/// Adds `small.ptd`, which has a number that overflows as `f16`.
fn session() -> Session {
    let session = Session::new();
    let mut small = TensorMap::new();
    small.insert("encoder.weight", Tensor::from_slice(&[1.0_f32, 0.1, 70000.0, 1e-9], [2, 2]).unwrap());
    small.insert("encoder.bias", Tensor::from_slice(&[0.5_f32, -0.5], [2]).unwrap());
    small.insert("head.weight", Tensor::from_slice(&[1.0_f64, 2.0], [2]).unwrap());
    small.insert("positions", Tensor::from_slice(&[0_i64, 1, 1 << 40], [3]).unwrap());
    session.write("small.ptd", &small);
    session
}

fn map(session: &Session, name: &str) -> TensorMap {
    File::open(session.path(name)).unwrap().load().unwrap()
}

#[test]
fn reports_conversions() {
    let session = session();
    insta::assert_snapshot!(session.transcript(&[
        "convert small.ptd half.ptd --dtype f16 --dry-run",
        "convert small.ptd half.ptd --dtype f16 --verbose",
        "ls half.ptd",
        "convert small.ptd mixed.ptd --dtype f32=bf16,i64=i32 -v",
        "convert small.ptd floats.ptd --dtype f32 --cast-integers",
        "convert small.ptd encoder.tbs --filter encoder.* --rename encoder.bias=b --rename encoder.*=*",
        "ls encoder.tbs",
        "convert small.ptd plain.btf",
        "convert small.ptd plain.btf --names index",
        "convert small.ptd plain.btf --names index --lossy",
        "ls plain.btf",
        "convert small.ptd positions.npy --filter positions --lossy",
        "ls positions.npy",
    ]));
}

#[test]
fn metadata_about_the_layout_of_a_file_is_not_copied() {
    let session = Session::new();
    let write = |name: &str, tensor: &str, value: &str| {
        let keys = ["DCP_SHARDING_INFO", "DCP_VERSION", "split.count", "total_size"];
        let entries = keys.iter().map(|key| ((*key).to_owned(), value.to_owned()));
        let entries = entries.chain([("author".to_owned(), "me".to_owned())]).collect();
        let map = TensorMap::from_iter([(tensor, weights(&[2, 2]))]);
        let format = Format::named("safetensors").unwrap();
        fs::write(session.path(name), format.to_vec(&map, &WriteOptions::new().metadata(entries)).unwrap()).unwrap();
    };
    write("a.safetensors", "a", &"1".repeat(100));
    write("b.safetensors", "b", "2");
    let map = TensorMap::from_iter([("a", weights(&[2, 2]))]);
    let entries =
        [("general.file_type", "0"), ("general.name", "x")].map(|(key, text)| (key.to_owned(), text.to_owned()));
    let options = WriteOptions::new().metadata(entries.into_iter().collect());
    fs::write(session.path("a.gguf"), Format::named("gguf").unwrap().to_vec(&map, &options).unwrap()).unwrap();
    insta::assert_snapshot!(session.transcript(&[
        "convert a.safetensors copy.safetensors",
        "convert b.safetensors renamed.safetensors --rename b=c",
        "merge a.safetensors b.safetensors both.safetensors",
        "split b.safetensors --by b=part.safetensors",
        "append b.safetensors a.gguf --rename a=c",
        "convert a.gguf same.gguf",
        "convert a.gguf half.gguf --dtype f16",
        "convert a.gguf half.safetensors --dtype f32=bf16",
    ]));
    for (name, expected) in [
        ("copy.safetensors", "author"),
        ("renamed.safetensors", "author"),
        ("both.safetensors", "author"),
        ("part.safetensors", "author"),
        ("b.safetensors", "author"),
        ("same.gguf", "general.file_type general.name"),
        ("half.gguf", "general.name"),
        ("half.safetensors", "general.name"),
    ] {
        let mut keys: Vec<String> =
            File::open(session.path(name)).unwrap().metadata().unwrap().entries.into_keys().collect();
        keys.sort_unstable();
        assert_eq!(keys.join(" "), expected, "{name}");
    }
}

#[test]
fn names_that_cannot_be_embedded_are_refused() {
    let session = Session::new();
    let name = "encoder.layers.0.".repeat(4);
    let map = TensorMap::from_iter([(name.as_str(), Tensor::from_slice(&[1.0_f32], [1]).unwrap())]);
    session.write("long.ptd", &map);
    insta::assert_snapshot!(session.transcript(&[
        "convert long.ptd long.gguf",
        "verify --for gguf long.ptd",
        "convert long.ptd long.gguf --lossy",
        "ls long.gguf",
    ]));
}

#[test]
fn tells_what_is_not_cast() {
    let session = session();
    let dtypes = [Dtype::F32, Dtype::U8, Dtype::I8, Dtype::I16, Dtype::I32, Dtype::I64, Dtype::Bool, Dtype::U16];
    let tensor = |dtype: Dtype| {
        let bytes = vec![0; dtype.bytes_for(2).unwrap()];
        (dtype.name(), Tensor::new(TensorInfo::new(dtype, [2]), &bytes).unwrap())
    };
    session.write("many.ptd", &dtypes.into_iter().map(tensor).collect());
    insta::assert_snapshot!(session.transcript(&[
        "convert model.ptd half.ptd --dtype f16",
        "convert model.ptd mixed.ptd --dtype f16,i64=i32",
        "convert many.ptd half.ptd --dtype f16",
        "convert model.ptd half.ptd --dtype f32=f16",
        "convert model.ptd half.ptd --dtype bf16 --filter *.weight",
        "convert model.ptd packed.ptd --dtype f32 --filter {packed,mask}",
        "convert model.ptd none.ptd --dtype f64=f32 --filter {packed,mask}",
    ]));
}

#[test]
fn rejects_impossible_conversions() {
    let session = session();
    insta::assert_snapshot!(session.transcript(&[
        "convert small.ptd small.xyz",
        "convert small.ptd x.ptd --dtype f99",
        "convert small.ptd x.ptd --dtype i64=f32",
        "convert small.ptd x.ptd --rename a=b",
        "convert small.ptd x.ptd --rename a.*=b",
        "convert small.ptd x.ptd --rename encoder.*=* --rename head.*=*",
        "convert small.ptd x.ptd --filter nothing",
        "convert model.ptd x.btf",
        "convert sparse.btf x.ptd",
        "convert small.ptd x.ten --align 64",
        "convert small.ptd - --to ptd --max-shard-size 1GB",
        "convert small.ptd x.ptd --max-shard-size 1.5GB",
        "convert small.ptd x.npy",
        "convert small.ptd x.npy --lossy",
        "convert small.ptd x.npy --filter positions",
    ]));
    assert!(!session.path("x.ptd").exists() && !session.path("x.btf").exists());
}

#[test]
fn converts_between_all_formats() {
    let session = Session::new();
    let two: TensorMap =
        [("layers.0.weight", weights(&[3, 4])), ("layers.1.weight", weights(&[5]))].into_iter().collect();
    let one: TensorMap = [("0", weights(&[2, 3]))].into_iter().collect();
    let options = WriteOptions::new().embed_names(true);
    let holds_two = |format: &Format| format.to_vec(&two, &options).is_ok();
    for from in FORMATS {
        let [source, made] = ["source", "made"].map(|name| format!("{name}.{}", from.extensions[0]));
        let map_from = if holds_two(from) { &two } else { &one };
        session.write(&source, map_from);
        for to in FORMATS {
            let target = format!("target.{}", to.extensions[0]);
            let output = session.run(&["convert", &source, &target]);
            let message = String::from_utf8_lossy(&output.stderr).into_owned();
            if map_from.len() > 1 && !holds_two(to) {
                assert_eq!(output.status.code(), Some(2), "{} to {}: {message}", from.name, to.name);
                continue;
            }
            assert_eq!(output.status.code(), Some(0), "{} to {}: {message}", from.name, to.name);
            let tensors = |map: &TensorMap| map.iter().map(|(_, tensor)| tensor.clone()).collect::<Vec<_>>();
            assert_eq!(tensors(&map(&session, &target)), tensors(map_from), "{} to {}", from.name, to.name);
            // And back, replacing a file. The tensor is now named after the file.
            let is_named = from.max_tensors == Some(1) && to.max_name != Some(0);
            let lossy: &[&str] = if is_named { &["--lossy"] } else { &[] };
            let output = session.run(&[&["convert", &target, &made], lossy].concat());
            assert_eq!(output.status.code(), Some(0), "{} to {}", to.name, from.name);
            if map_from.len() > 1 {
                assert_eq!(&map(&session, &target), map_from, "{} to {}", from.name, to.name);
                assert_eq!(&map(&session, &made), map_from, "{} to {} and back", from.name, to.name);
            }
        }
    }
}

#[test]
fn input_can_be_the_output() {
    let session = session();
    let output = session.run(&["convert", "small.ptd", "small.ptd", "--dtype", "f32", "--rename", "head.weight=head"]);
    assert!(output.status.success());
    let map = map(&session, "small.ptd");
    assert_eq!(map["head"].dtype(), Dtype::F32);
    assert_eq!(map["positions"].dtype(), Dtype::I64);
}

#[test]
fn reads_and_writes_pipes() {
    let session = session();
    let bytes = fs::read(session.path("small.ptd")).unwrap();
    let output = session.run_with_input(&["convert", "-", "-", "--to", "ptd", "--dtype", "f64=f32"], &bytes);
    assert!(output.status.success());
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "tensorfile: cast 1 tensor: 2 elements, all exact\n");
    fs::write(session.path("piped.ptd"), output.stdout).unwrap();
    assert_eq!(map(&session, "piped.ptd")["encoder.weight"], map(&session, "small.ptd")["encoder.weight"]);

    session.write("long.ptd", &[("a", weights(&[1 << 20]))].into_iter().collect());
    let mut command = session.command(&["convert", "long.ptd", "-", "--to", "ten"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let mut message = String::new();
    child.stderr.take().unwrap().read_to_string(&mut message).unwrap();
    assert_eq!((child.wait().unwrap().code(), message.as_str()), (Some(0), ""));
}

#[test]
fn casts_the_values_of_sparse_tensors() {
    let session = Session::new();
    let output = session.run(&["convert", "sparse.btf", "double.btf", "--dtype", "f64", "-v"]);
    assert_eq!(String::from_utf8_lossy(&output.stderr).matches("all exact").count(), 3);
    let file = File::open(session.path("double.btf")).unwrap();
    let read: tensorfile::CooTensor<f64> = file.get("#0").unwrap().load().unwrap();
    assert_eq!(read.values(), [1.5, -2.0, 0.25]);
    assert_eq!(read.coordinates(), [0, 1, 2, 299, 1, 0]);
}

#[test]
fn tied_tensors_stay_tied() {
    let session = Session::new();
    let tensor = weights(&[50]);
    let tied: TensorMap = [("a", tensor.clone()), ("b", tensor)].into_iter().collect();
    let bytes = tensorfile::ptd::Options::new().dedup(true).to_vec(&tied).unwrap();
    fs::write(session.path("tied.ptd"), bytes).unwrap();
    for dtype in ["f32", "f16"] {
        assert!(session.run(&["convert", "tied.ptd", "copy.ptd", "--dtype", dtype]).status.success());
        let copy = File::open(session.path("copy.ptd")).unwrap();
        assert_eq!(copy.get("a").unwrap().range(), copy.get("b").unwrap().range(), "{dtype}");
    }
}

#[test]
fn converts_dim_order_to_row_major() {
    let session = Session::new();
    let layout = tensorfile::Layout::from_dim_order(&[1, 0]).unwrap();
    let columns = TensorInfo { layout, ..TensorInfo::new(Dtype::U8, [2, 3]) };
    let columns = Tensor::new(columns, &[1, 4, 2, 5, 3, 6]).unwrap();
    session.write("columns.ptd", &[("a", columns)].into_iter().collect());
    assert!(session.run(&["convert", "columns.ptd", "rows.ten"]).status.success());
    assert_eq!(map(&session, "rows.ten")["a"].as_bytes(), [1, 2, 3, 4, 5, 6]);
}

#[test]
fn keeps_dim_order_within_a_format_or_on_request() {
    let session = Session::new();
    let layout = tensorfile::Layout::from_dim_order(&[1, 0]).unwrap();
    let columns = TensorInfo { layout: layout.clone(), ..TensorInfo::new(Dtype::U8, [2, 3]) };
    let columns: TensorMap = [("a", Tensor::new(columns, &[1, 4, 2, 5, 3, 6]).unwrap())].into_iter().collect();
    for format in ["ptd", "npz"] {
        let file = Format::named(format).unwrap().to_vec(&columns, &WriteOptions::new().keep_dim_order(true)).unwrap();
        fs::write(session.path(&format!("columns.{format}")), file).unwrap();
    }
    for (arguments, target, is_kept) in [
        (&["convert", "columns.ptd", "x.ptd"][..], "x.ptd", true),
        (&["convert", "columns.npz", "x.npz"], "x.npz", true),
        (&["convert", "columns.npz", "x.ptd"], "x.ptd", false),
        (&["convert", "columns.npz", "x.ptd", "--keep-dim-order"], "x.ptd", true),
        (&["merge", "model.ptd", "columns.ptd", "x.ptd", "--force"], "x.ptd", true),
        (&["merge", "model.ptd", "columns.npz", "-o", "x.ptd"], "x.ptd", false),
    ] {
        let output = session.run(arguments);
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(*map(&session, target)["a"].layout() == layout, is_kept, "{arguments:?}");
    }
}

#[test]
fn sorts_several_dtypes_or_keeps_their_order() {
    let session = session();
    insta::assert_snapshot!(session.transcript(&[
        "convert small.ptd sorted.safetensors",
        "ls sorted.safetensors",
        "convert small.ptd kept.safetensors --keep-order",
        "ls kept.safetensors",
    ]));
}

#[test]
fn what_is_not_flushed_is_the_same() {
    let session = session();
    for (name, options) in [("flushed", &[][..]), ("cached", &["--no-flush"])] {
        let (file, shards) = (format!("{name}.safetensors"), format!("{name}/model.safetensors"));
        fs::create_dir(session.path(name)).unwrap();
        for arguments in
            [&["convert", "small.ptd", &file][..], &["convert", "small.ptd", &shards, "--max-shard-size", "9"]]
        {
            assert!(session.run(&[arguments, options].concat()).status.success(), "{arguments:?}");
        }
    }
    let read = |name: &str| fs::read(session.path(name)).unwrap();
    assert_eq!(read("flushed.safetensors"), read("cached.safetensors"));
    let index = "model.safetensors.index.json";
    assert_eq!(read(&format!("flushed/{index}")), read(&format!("cached/{index}")));
}

#[test]
fn keeps_the_layout_number_of_sparse_tensors() {
    let session = Session::new();
    let layouts = |name: &str| File::open(session.path(name)).unwrap().metadata().unwrap().coo_layouts;
    let convert = |arguments: &[&str]| assert!(session.run(arguments).status.success(), "{arguments:?}");
    convert(&["convert", "sparse.btf", "same.btf"]);
    assert_eq!(layouts("same.btf"), [2]);
    convert(&["convert", "sparse.btf", "tfrt.btf", "--tfrt-coo"]);
    assert_eq!(layouts("tfrt.btf"), [1]);
    convert(&["convert", "tfrt.btf", "again.btf"]);
    assert_eq!(layouts("again.btf"), [1]);
    convert(&["append", "same.btf", "tfrt.btf"]);
    assert_eq!(layouts("same.btf"), [1]);
}

#[test]
fn files_without_tensors_are_converted() {
    let session = Session::new();
    session.write("empty.ptd", &TensorMap::new());
    for format in FORMATS.iter().filter(|format| format.max_tensors.is_none()) {
        let target = format!("empty.{}", format.extensions[0]);
        let output = session.run(&["convert", "empty.ptd", &target]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(map(&session, &target), TensorMap::new());
    }
}

#[test]
fn drops_metadata_only_with_lossy() {
    let session = session();
    // A format that keeps any key, and one that keeps none.
    let keeps_all = FORMATS.iter().find(|format| format.keeps_metadata("license"));
    let Some(rich) = keeps_all else { return };
    let rich_file = format!("rich.{}", rich.extensions[0]);
    let entries = [("license".to_owned(), "MIT".to_owned())].into_iter().collect();
    let options = WriteOptions::new().embed_names(true).metadata(entries);
    fs::write(session.path(&rich_file), rich.to_vec(&map(&session, "small.ptd"), &options).unwrap()).unwrap();
    let refused = session.run(&["convert", &rich_file, "poor.ten"]);
    assert_eq!(refused.status.code(), Some(2));
    let message = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(message, "tensorfile: poor.ten: ten cannot store the metadata `license`; --lossy drops it\n");
    let dropped = session.run(&["convert", &rich_file, "poor.ten", "--lossy"]);
    assert!(dropped.status.success());
    let message = String::from_utf8(dropped.stderr).unwrap();
    assert!(message.starts_with("tensorfile: poor.ten: dropped the metadata `license`\n"), "{message}");
}

#[test]
fn read_errors_name_the_input() {
    let session = session();
    let mut bytes = fs::read(session.path("sparse.btf")).unwrap();
    // The first coordinate of the sparse tensor is out of bounds.
    let file = File::open(session.path("sparse.btf")).unwrap();
    let start = usize::try_from(file.get("#0").unwrap().range().start).unwrap();
    bytes[start..start + 8].copy_from_slice(&u64::MAX.to_le_bytes());
    fs::write(session.path("wrong.btf"), bytes).unwrap();
    let output = session.run(&["convert", "wrong.btf", "copy.btf"]);
    assert_eq!(output.status.code(), Some(4));
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(message.starts_with("tensorfile: wrong.btf: btf: tensor `#0`: "), "{message}");
    assert!(!session.path("copy.btf").exists());
}

#[test]
fn says_what_a_dtype_may_mean_and_when_nothing_is_cast() {
    let session = Session::new();
    session.write("floats.ptd", &[("a", weights(&[2]))].into_iter().collect());
    insta::assert_snapshot!(session.transcript(&[
        "convert floats.ptd x.ptd --dtype i8",
        "convert floats.ptd x.ptd --dtype f32 --dry-run",
        "convert floats.ptd x.ptd --dtype i64=i32",
        "convert floats.ptd x.safetensor",
        "convert floats.ptd x.ptd --dtype nonsense",
    ]));
    for (name, meant) in [
        ("fp16", "f16"),
        ("float16", "f16"),
        ("half", "f16"),
        ("F16", "f16"),
        ("torch.bfloat16", "bf16"),
        ("float", "f32"),
        ("float32", "f32"),
        ("double", "f64"),
        ("np.int8", "i8"),
        ("uint8", "u8"),
        ("long", "i64"),
    ] {
        let output = session.run(&["convert", "floats.ptd", "x.ptd", "--dtype", name]);
        let message = String::from_utf8(output.stderr).unwrap();
        let expected = format!("unknown dtype `{name}`; did you mean `{meant}`?");
        assert!(output.status.code() == Some(2) && message.contains(&expected), "{message}");
    }
}

/// llama.cpp multiplies rows by norms of f32 only.
#[test]
fn in_gguf_floats_of_rank_1_are_f32_unless_cast_by_name() {
    let session = Session::new();
    let halves: Vec<half::bf16> = (0..8).map(|at| half::bf16::from_f32(at as f32)).collect();
    session.write(
        "model.safetensors",
        &[
            ("blk.0.attn_norm.weight", weights(&[8])),
            ("blk.0.ffn_norm.weight", Tensor::from_slice(&halves, [8]).unwrap()),
            ("blk.0.attn_q.weight", weights(&[4, 8])),
            ("rope.freqs", Tensor::from_slice(&[1_i32, 2], [2]).unwrap()),
        ]
        .into_iter()
        .collect(),
    );
    insta::assert_snapshot!(session.transcript(&[
        "convert model.safetensors model.gguf --dtype f16",
        "ls model.gguf",
        "convert model.safetensors named.gguf --dtype f16,*attn_norm*=bf16",
        "ls named.gguf",
        "convert model.safetensors all.safetensors --dtype f16",
        "convert model.safetensors none.gguf --dtype bf16 --filter *norm*",
        "convert model.safetensors none.safetensors --dtype bf16 --filter rope.*",
        "convert model.safetensors none.safetensors --dtype i8 --filter !rope.*",
        "convert model.safetensors {q,norm}.safetensors --dtype *.{attn_q,attn_norm}.weight=f64",
        "ls {q,norm}.safetensors",
    ]));
    assert!(!session.path("none.safetensors").exists());
}

#[test]
fn blocks_that_are_not_cast_are_named() {
    let session = Session::new();
    let blocks = Tensor::new(TensorInfo::new(Dtype::Q4_0, [2, 32]), &[0; 36]).unwrap();
    session.write("blocks.gguf", &[("a", blocks), ("norm", weights(&[8]))].into_iter().collect());
    insta::assert_snapshot!(session.transcript(&[
        "convert blocks.gguf half.gguf --dtype f16",
        "convert blocks.gguf half.gguf --dtype f16 --lossy",
        "convert blocks.gguf half.gguf --dtype norm=f16",
    ]));
}
