//! Compiles the output of `tensorfile codegen`, loads files with it and saves them.

#![expect(clippy::cast_possible_truncation, reason = "the numbers of tests are small")]

use std::ffi::OsString;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use tensorfile::{
    Blob, CooTensor, Dtype, FORMATS, Format, Layout, SaveOptions, Tensor, TensorFile, TensorInfo, TensorMap,
    WriteOptions,
};

/// Names that cover every kind of generated code, with a description.
const NAMES: &[(&str, &[&str])] = &[
    ("empty", &[]),
    (
        "bert",
        &[
            "embeddings.word_embeddings.weight:9,4",
            "embeddings.position_embeddings.weight:6,4",
            "embeddings.LayerNorm.bias:4",
            "embeddings.LayerNorm.weight:4",
            "encoder.layer.0.attention.self.query.weight:4,4",
            "encoder.layer.0.attention.self.query.bias:4",
            "encoder.layer.0.attention.output.dense.weight:4,4",
            "encoder.layer.0.attention.output.dense.bias:4",
            "encoder.layer.0.attention.output.LayerNorm.weight:4",
            "encoder.layer.0.attention.output.LayerNorm.bias:4",
            "encoder.layer.1.attention.self.query.weight:4,4",
            "encoder.layer.1.attention.self.query.bias:4",
            "encoder.layer.1.attention.output.dense.weight:4,4",
            "encoder.layer.1.attention.output.dense.bias:4",
            "encoder.layer.1.attention.output.LayerNorm.weight:4",
            "encoder.layer.1.attention.output.LayerNorm.bias:4",
        ],
    ),
    (
        "numbers_with_gaps",
        &[
            "features.0.weight:2,1,3,3",
            "features.0.bias:2",
            "features.3.weight:3,2,3,3",
            "features.3.bias:3",
            "features.10.weight:3,3,3,3",
            "features.10.bias:3",
            "classifier.1.weight:2,3",
            "classifier.4.scale:2",
            "lists.2.0.w:1",
            "lists.2.1.w:1",
            "lists.5.0.w:1",
            "maps.2.3:1",
            "maps.2.5:1",
            "maps.7.1:1",
            "maps.7.4:1",
            "mixed.1:2",
            "mixed.4:3",
            "mixed.name:4",
            "zeros.00:1",
            "zeros.01:1",
        ],
    ),
    (
        "items_that_differ",
        &[
            "layer.0.conv.weight:1,1,2,2",
            "layer.0.norm.weight:2",
            "layer.0.steps.0:1",
            "layer.0.steps.1:1",
            "layer.0.gaps.1:1",
            "layer.0.gaps.3:1",
            "layer.1.conv.weight:2,2",
            "layer.1.conv.bias:2",
            "layer.2.down.0.weight:2,2",
            "layer.2.down.1.weight:2",
            "layer.2.down.1.mean:2",
            "layer.2.only:",
            "layer.2.gaps.0:1",
            "ranks.0:2",
            "ranks.1:2,2",
            "shapes.0:2,3",
            "shapes.1:2,4",
            "nested.0.0.w:1",
            "nested.0.1.w:1",
            "nested.1.0.w:1",
            "beside.0.w:1",
            "beside.1.w:1",
            "beside.norm.w:1",
            "beside.norm.v:1",
        ],
    ),
    (
        "items_of_no_common_type",
        &["a.0:1", "a.1.w:1", "b.0.x:1", "b.1.x.y:1", "c.0.l.0:1", "c.0.l.1:1", "c.1.l.2:1", "c.1.l.5.x:1"],
    ),
    (
        "tensors_with_more_below",
        &[
            "a:1",
            "a.b:2",
            "a.b.c:3",
            "a.0:1",
            "a.1.x:2",
            "b.c.d:1",
            "b.c:2",
            "b.c.e.f:3",
            "l.0.a:1",
            "l.0.a.b:2",
            "l.1.a:1",
            "l.2.c:1",
            "m.0:1",
            "m.0.w:1",
            "m.1:1",
        ],
    ),
    (
        "names_that_no_field_can_have",
        &[
            ":1",
            ".:1",
            "..:2",
            "a..b:1",
            "a.:1",
            "a.c:3",
            ".x:1",
            "l.0.w:1",
            "l.0..w:1",
            "l.1.w:2",
            "q:1",
            "q..x:2",
            "deep.er..x:1",
            "only..x:1",
            "gaps.1:1",
            "gaps.3:1",
            "gaps..x:1",
        ],
    ),
    (
        "identifiers",
        &[
            "type:1",
            "self.super:1",
            "Self.crate.fn.w:1",
            "self_:1",
            "a-b:1",
            "a_b:2",
            "a b:3",
            "a\"\\\n\u{202e}b:1",
            "1x1.w:1",
            "LayerNorm.x:1",
            "layer_norm.y:1",
            "layerNorm.z:1",
            "größe.höhe:1",
            "Ärger.Österreich:1",
            "gro\u{308}ße.w:1",
            "日本.テンソル:1",
            "𝕏.𝒚:1",
            "\u{212b}.w:1",
            "\u{c5}.w:1",
            "_:1",
            "__:1",
            "-:1",
            "__a__b:1",
            "r#type:1",
            "async.await.gen.try:1",
            "union.auto.macro_rules:1",
            "'static:1",
        ],
    ),
    (
        "hostile",
        &[
            "*/ } fn evil() {} /*:1",
            "\"]\nfn evil() {}\n#[doc = \":1",
            "\"##;:1",
            "\\u{41}\\n{}:2",
            "//!\n:1",
            "\u{1b}[2J.weight:1",
            "\u{9b}31m\r:1",
            "\u{e0041}\u{feff}:1",
        ],
    ),
    (
        "names_of_types",
        &[
            "vec.a:1",
            "option.b:1",
            "tensor.c:1",
            "array2.d:1",
            "model.e:1",
            "blob.f:1",
            "string.g:1",
            "result.h:1",
            "box.i:1",
            "some.j:1",
            "ok.k:1",
            "t.l:1",
            "a.m:1",
            "d.n:1",
            "default.o:1",
            "items.0.p:1",
            "items.1.p:1",
            "items.x:1",
            "f32.q:1",
            "tensor_file.r:1",
            "debug.s:1",
            "one.out.t:1",
            "two.out.u:1",
            "two.out_2.v:1",
        ],
    ),
    (
        "a_list_at_the_root",
        &[
            "1.weight:2",
            "10.weight:2",
            "0.weight:2",
            "2.weight:2",
            "3.weight:2",
            "4.weight:2",
            "5.weight:2",
            "6.weight:2",
            "7.weight:2",
            "8.weight:2",
            "9.weight:2",
        ],
    ),
    ("tensors_at_the_root", &["1:2", "0:3"]),
    ("a_map_at_the_root", &["1.weight:2", "0.weight:2", "4.weight:2"]),
    ("a_list_and_more_at_the_root", &["1.weight:2", "0.weight:2", "norm:4"]),
    ("tensors_and_more_at_the_root", &["1:2", "0:2", "norm:4"]),
    (
        "addresses",
        &[
            "state.140204938483712.exp_avg:2,3",
            "state.140204938483712.exp_avg_sq:2,3",
            "state.140204938483856.exp_avg:3",
            "buffers.140204938483712:3",
            "only.140204938483712.w:3",
        ],
    ),
    (
        "ranks",
        &[
            "r0:",
            "r1:1",
            "r2:1,2",
            "r3:1,2,1",
            "r4:1,2,1,2",
            "r5:1,1,1,1,2",
            "r6:2,1,1,1,1,1",
            "r7:1,1,1,2,1,1,1",
            "zero:0,3",
        ],
    ),
];

/// The descriptions for which `--views --shapes` is tested too.
const ALSO_VIEWS: &[&str] = &["bert", "items_that_differ", "ranks"];

#[test]
fn generated_code_loads_and_saves() {
    let folder = tempfile::tempdir().unwrap();
    let mut cases = Cases { folder: folder.path(), modules: String::new(), checks: String::new(), count: 0 };
    let named = |name: &str| FORMATS.iter().copied().find(|format| format.name == name).unwrap();
    let (btf, ptd, tbs) = (named("btf"), named("ptd"), named("tensorbuffers"));

    for (about, names) in NAMES {
        let map: TensorMap = names.iter().enumerate().map(|(at, name)| of_name(at, name)).collect();
        cases.add(about, btf, &map, true, &[]);
        if map.names().all(|name| !name.is_empty()) {
            cases.add(about, tbs, &map, false, &["--shapes", "--cast", "f32"]);
        }
        if ALSO_VIEWS.contains(about) {
            cases.add(about, tbs, &map, false, &["--views", "--shapes", "--root", "Größe"]);
        }
    }

    let deep = vec!["x"; 300].join(".");
    let names = [
        format!("{deep}.weight:1"),
        format!("{deep}.0.weight:1"),
        format!("{deep}.1:1"),
        format!("{deep}:1"),
        format!("{}.{}:2", "long".repeat(20), "LongName".repeat(20)),
        format!("{}.{}:3", "long".repeat(20), "LongName".repeat(21)),
        format!("layers.0.{}:3", vec!["y"; 30].join(".")),
        format!("layers.1.{}:3", vec!["y"; 31].join(".")),
    ];
    let map: TensorMap = names.iter().enumerate().map(|(at, name)| of_name(at, name)).collect();
    cases.add("long names", btf, &map, true, &[]);

    for format in FORMATS {
        // All dtypes of one format that has every dtype, and a few of the others, as each takes long to compile.
        let shown = if format.name == ptd.name { format.dtypes.len() } else { 2 };
        let dtypes = || format.dtypes.iter().rev().take(shown).enumerate();
        let mut map: TensorMap =
            dtypes().map(|(_, &dtype)| (format!("of.{dtype}"), tensor(dtype, &[2, 3], 1))).collect();
        map.extend(dtypes().map(|(at, &dtype)| (format!("list.{at}"), tensor(dtype, &[4], 1))));
        if format.sparse {
            map.insert("sparse".to_owned(), sparse());
            map.insert("list_with_sparse.0".to_owned(), sparse());
            map.insert("list_with_sparse.1".to_owned(), tensor(Dtype::F32, &[2], 1));
        }
        // Formats with a fixed number of tensors have no names.
        if format.max_tensors.is_none() {
            cases.add("dtypes", format, &map, true, &[]);
        }
        let tensors = map.into_iter().take(format.max_tensors.unwrap_or(usize::MAX));
        let nameless = tensors.enumerate().map(|(at, (_, tensor))| (at.to_string(), tensor)).collect();
        if format.max_name == Some(0) {
            cases.add("without names", format, &nameless, false, &[]);
        } else {
            cases.add("without names", format, &nameless, false, &["--views", "--shapes"]);
        }
    }

    // Embedded names end with NUL.
    let map = ["nul\0.x:1", "nul.\0:1", "nul.y:2"].into_iter().map(|name| of_name(0, name)).collect();
    cases.add("names with NUL", tbs, &map, false, &[]);

    let nhwc = TensorInfo {
        layout: Layout::from_dim_order(&[0, 2, 3, 1]).unwrap(),
        ..TensorInfo::new(Dtype::I16, [1, 2, 2, 3])
    };
    let mut map: TensorMap = [("nhwc", Tensor::new(nhwc, &[1; 24]).unwrap())].into_iter().collect();
    let blob = ptd
        .to_vec(&Blobs { blob: Blob(vec![1, 2, 3]), blobs: vec![Blob(vec![]), Blob(vec![1])] }, &WriteOptions::new());
    map.extend(ptd.from_slice(&blob.unwrap()).unwrap());
    cases.add("layouts", ptd, &map, false, &[]);

    let bert: TensorMap = NAMES[1].1.iter().enumerate().map(|(at, name)| of_name(at, name)).collect();
    cases.add("filtered", tbs, &bert, false, &["--filter", "encoder.*", "--filter", "!*.query.*", "--shapes"]);
    cases.add("an item of a list", tbs, &bert, false, &["--filter", "encoder.layer.0.*", "--views"]);
    for (from, to) in [(Dtype::Bf16, "f32"), (Dtype::F32, "f16"), (Dtype::F64, "f64"), (Dtype::F8E5M2, "bf16")] {
        let map = ["a", "list.0", "list.1", "0", "1"].map(|name| (name.to_owned(), tensor(from, &[2, 2], 1)));
        cases.add("cast", ptd, &map.into_iter().collect(), false, &["--shapes", "--views", "--cast", to]);
    }
    cases.add_samples();
    cases.run();
}

#[derive(TensorFile)]
struct Blobs {
    blob: Blob,
    blobs: Vec<Blob>,
}

/// Returns a tensor with the name and dims in a text such as `a.weight:2,3`.
fn of_name(at: usize, text: &str) -> (String, Tensor) {
    let (name, dims) = text.rsplit_once(':').unwrap();
    let dims: Vec<usize> = dims.split(',').filter(|dim| !dim.is_empty()).map(|dim| dim.parse().unwrap()).collect();
    (name.to_owned(), tensor(Dtype::F32, &dims, at))
}

/// Returns a tensor whose bytes count up from `first`, all of them valid for its dtype, with blocks for the innermost
/// elements if it has them.
fn tensor(dtype: Dtype, shape: &[usize], first: usize) -> Tensor {
    let mut shape = shape.to_vec();
    if let Some(last) = shape.last_mut() {
        *last *= dtype.block_elements();
    }
    let info = TensorInfo::new(dtype, shape);
    let last = if dtype == Dtype::Bool { 2 } else { 120 };
    let bytes: Vec<u8> = (0..info.payload_bytes().unwrap()).map(|at| ((at + first) % last) as u8).collect();
    Tensor::new(info, &bytes).unwrap()
}

fn sparse() -> Tensor {
    CooTensor::new([3, 300], vec![0, 1, 2, 299, 1, 0], vec![1.5_f32, -2.0, 0.25]).unwrap().to_tensor()
}

/// Files, with a module of generated code for each, and a program that loads and saves all of them.
struct Cases<'a> {
    folder: &'a Path,
    modules: String,
    checks: String,
    count: usize,
}

impl Cases<'_> {
    /// Adds a file with the tensors of a map. `embed` embeds the names if they are too long for the format.
    fn add(&mut self, about: &str, format: &'static Format, map: &TensorMap, embed: bool, arguments: &[&str]) {
        let module = format!("case_{}", self.count);
        self.count += 1;
        let path = self.folder.join(&module).with_extension(format.extensions[0]);
        let embed = embed && format.max_name.is_some_and(|most| map.names().any(|name| name.len() > most));
        let options = SaveOptions::new().format(format).write(WriteOptions::new().embed_names(embed));
        options.save(&path, map).unwrap_or_else(|error| panic!("{about}: {error}"));

        let code = codegen(&path, format, arguments);
        std::fs::write(self.folder.join(&module).with_extension("rs"), &code).unwrap();
        let root = arguments.iter().skip_while(|argument| **argument != "--root").nth(1).unwrap_or(&"Model");
        writeln!(self.modules, "pub mod {module} {{ // {about}\n{code}}}\n").unwrap();
        // Otherwise something else is saved than was loaded.
        let is_changed = ["--views", "--filter", "--cast"].iter().any(|argument| arguments.contains(argument));
        let check = if is_changed { "loads" } else { "saves" };
        let options = if embed { "Options::new().embed_names(true)" } else { "Options::new()" };
        let format = format.name;
        writeln!(self.checks, "    {check}!({module}::{root}, {about:?}, {path:?}, {format}, {options});").unwrap();
    }

    /// Adds the files of other software, with every option.
    fn add_samples(&mut self) {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let folders =
            ["../tests/fixtures/gguf", "../tests/fixtures/numpy", "../tests/fixtures/ptd", "../tests/fixtures/pytorch"];
        let folders = folders.iter().chain(&["tests/fixtures/codegen"]).map(|folder| root.join(folder));
        let mut paths: Vec<_> =
            folders.flat_map(|folder| std::fs::read_dir(folder).unwrap()).map(|entry| entry.unwrap().path()).collect();
        paths.sort();
        let (mut count, mut kinds) = (0, std::collections::HashSet::new());
        for path in &paths {
            let extension = path.extension().unwrap().to_str().unwrap();
            let Some(format) = FORMATS.iter().copied().find(|format| format.extensions.contains(&extension)) else {
                continue;
            };
            // Tensors of one name are read by position, which structs are not.
            if tensorfile::File::open(path).map_or(true, |file| codegen_fails(path, &file)) {
                continue;
            }
            let options = [&["--shapes"][..], &["--views", "--shapes"], &["--cast", "f32"]];
            // All options for the first file of a kind, as each takes long to compile, and one of them for the others.
            let is_first = kinds.insert(extension.to_owned());
            let options = options.iter().enumerate().filter(|(at, _)| is_first || at == &(count % 3));
            options.for_each(|(_, arguments)| self.add_file(path, format, arguments));
            count += 1;
        }
        assert!(count > 20, "{count} samples");
    }

    /// Adds a file that exists.
    fn add_file(&mut self, path: &Path, format: &'static Format, arguments: &[&str]) {
        let module = format!("case_{}", self.count);
        self.count += 1;
        let code = codegen(path, format, arguments);
        std::fs::write(self.folder.join(&module).with_extension("rs"), &code).unwrap();
        let (about, format) = (format!("{} {arguments:?}", path.display()), format.name);
        writeln!(self.modules, "pub mod {module} {{ // {about}\n{code}}}\n").unwrap();
        writeln!(self.checks, "    loads!({module}::Model, {about:?}, {path:?}, {format}, Options::new());").unwrap();
    }

    /// Compiles and runs the program. It is linked to the library that these tests were built with: Cargo would compile
    /// the library and all of its dependencies once more.
    fn run(&self) {
        self.check_style();
        let source = self.folder.join("program.rs");
        let program = include_str!("program.rs").replace("    // The checks are inserted here.\n", &self.checks);
        std::fs::write(&source, format!("{program}\n{}", self.modules)).unwrap();
        let path = self.folder.join("program").with_extension(std::env::consts::EXE_EXTENSION);
        let output = rustc(&source, &library(self.folder)).arg("-o").arg(&path).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let output = Command::new(path).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    /// Checks that rustfmt changes nothing, if it is installed.
    fn check_style(&self) {
        if Command::new("rustfmt").arg("--version").output().is_err() {
            return;
        }
        let files = (0..self.count).map(|at| format!("case_{at}.rs"));
        let mut rustfmt = Command::new("rustfmt");
        rustfmt.args(["--check", "--edition", "2024"]).args(files).current_dir(self.folder);
        let output = rustfmt.output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{text}");
    }
}

/// Returns a command that compiles a program with `library`, its only dependency.
fn rustc(source: &Path, library: &Path) -> Command {
    let with_name = |name: &str, path: &Path| {
        let mut argument = OsString::from(name);
        argument.push(path);
        argument
    };
    let mut rustc = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
    rustc.args(["--edition", "2024", "--extern"]).arg(with_name("tensorfile=", library));
    rustc.arg("-L").arg(with_name("dependency=", library.parent().unwrap())).arg(source);
    rustc
}

/// Returns the newest build of the library with the formats that the program uses. The folder may also have builds with
/// other features, but none of older sources that is newer: Cargo has just built these tests.
fn library(folder: &Path) -> PathBuf {
    let probe = folder.join("probe.rs");
    std::fs::write(&probe, "pub use tensorfile::{TensorFile, gguf, npz, ptd, pytorch, safetensors, tensorbuffers};\n")
        .unwrap();
    let tests = std::env::current_exe().unwrap();
    let is_library = |path: &PathBuf| {
        let name = path.file_name().unwrap().to_string_lossy();
        name.starts_with("libtensorfile-") && name.ends_with(".rlib")
    };
    let entries = std::fs::read_dir(tests.parent().unwrap()).unwrap().map(|entry| entry.unwrap().path());
    let mut libraries: Vec<PathBuf> = entries.filter(is_library).collect();
    libraries.sort_by_key(|path| std::cmp::Reverse(path.metadata().unwrap().modified().unwrap()));
    let has_features = |library: &PathBuf| {
        let mut rustc = rustc(&probe, library);
        rustc.args(["--crate-type", "lib", "--emit", "metadata", "-o"]).arg(folder.join("probe.rmeta"));
        rustc.output().unwrap().status.success()
    };
    libraries.into_iter().find(has_features).expect("these tests are linked to the library")
}

/// Returns whether a file has tensors that no struct can load.
fn codegen_fails(path: &Path, file: &tensorfile::File) -> bool {
    let is_repeated = |tensor: tensorfile::file::FileTensor<'_>| file.get(tensor.name()).is_err();
    let output = Command::new(env!("CARGO_BIN_EXE_tensorfile")).arg("codegen").arg(path).output().unwrap();
    let fails = !output.status.success();
    assert_eq!(fails, file.tensors().any(is_repeated), "{}", String::from_utf8_lossy(&output.stderr));
    fails
}

/// Returns the output of `codegen` for a file.
fn codegen(path: &Path, format: &Format, arguments: &[&str]) -> String {
    let mut program = Command::new(env!("CARGO_BIN_EXE_tensorfile"));
    let output = program.args(["codegen", "--from", format.name]).args(arguments).arg(path).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}
