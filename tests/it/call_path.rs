//! The docs of `model` list the functions on a tensor's way to the writer. These tests check the list against a
//! backtrace, and its length.

use std::backtrace::Backtrace;
use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Mutex;

use ndarray::{Array1, Array2};
use tensorfile::file::Backend;
use tensorfile::format::{Format, FormatSpec, Index, IndexReader, ReadAt};
use tensorfile::model::TensorData as _;
use tensorfile::{Dtype, ErrorKind, Limits, OpenOptions, Result, TensorFile, TensorInfo, btf};

use crate::support::root;

#[derive(TensorFile)]
struct Model {
    layer: Layer,
    bias: Array1<f64>,
}

#[derive(TensorFile)]
struct Layer {
    weight: Array2<f32>,
}

/// A writer that keeps the backtrace of each call.
#[derive(Default)]
struct Traces(Vec<String>);

impl Write for Traces {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.push(Backtrace::force_capture().to_string());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Returns the functions that the docs list from `begin` to `end`, with their files.
fn documented(docs: &str, begin: &str, end: &str) -> BTreeSet<(String, String)> {
    let (_, list) = docs.split_once(begin).expect("the list");
    let (list, _) = list.split_once(end).expect("what comes after the list");
    // `function` (`file`)
    let names: Vec<&str> = list.split('`').collect();
    let functions = names.windows(3).filter(|name| name[1] == " (" && name[2].ends_with(".rs")).map(|name| {
        let (function, file) = (name[0], name[2]);
        let text = fs::read_to_string(root().join("src").join(file)).expect("a file of the library");
        let name = function.rsplit("::").next().expect("a name");
        assert!(text.contains(&format!("fn {name}")), "{function} is not in {file}");
        (file.to_owned(), name.to_owned())
    });
    functions.collect()
}

/// Returns the functions of the library that a backtrace shows, with their files.
fn traced(backtrace: &str) -> BTreeSet<(String, String)> {
    let lines: Vec<&str> = backtrace.lines().map(str::trim).collect();
    let functions = lines.windows(2).filter_map(|frame| {
        let (symbol, place) = (frame[0].split_once(": ")?.1, frame[1].strip_prefix("at ")?);
        let file = Path::new(place.split(".rs:").next()?).with_extension("rs");
        let file = file.strip_prefix(root().join("src")).ok()?;
        Some((file.to_string_lossy().into_owned(), name_of(symbol)?.to_owned()))
    });
    functions.collect()
}

/// Returns the name of a function without its path and its parameters; `None` for a closure.
fn name_of(symbol: &str) -> Option<&str> {
    let name = match symbol.rsplit_once(">::") {
        Some((_, name)) => name,
        None => symbol.split('<').next()?.rsplit("::").next()?,
    };
    (!name.contains('{')).then_some(name)
}

#[test]
fn names_are_found_in_symbols() {
    for (symbol, name) in [
        ("write_all", Some("write_all")),
        ("tensorfile::write::writer::to_writer", Some("to_writer")),
        ("store<f32, ndarray::data_repr::OwnedRepr<f32>, ndarray::dimension::dim::Dim<[usize; 2]>>", Some("store")),
        ("<tensorfile::write::writer::Output as std::io::Write>::write_all", Some("write_all")),
        (
            "tensorfile::array::store::<impl tensorfile::model::Store for ndarray::ArrayBase<S,D,A>>::store",
            Some("store"),
        ),
        ("<tensorfile::write::writer::PlanWriter as tensorfile::model::TensorSink>::tensor::{{closure}}", None),
        ("{closure#0}", None),
    ] {
        assert_eq!(name_of(symbol), name, "{symbol}");
    }
}

#[test]
fn a_tensor_passes_through_the_functions_in_the_docs() -> Result<()> {
    let documented = documented(include_str!("../../src/model/mod.rs"), "passes through:", "`tensorfile::save`");
    let files: BTreeSet<_> = documented.iter().map(|(file, _)| file).collect();
    assert!(documented.len() <= 13 && files.len() <= 8, "{documented:#?}");

    let model = Model { layer: Layer { weight: Array2::zeros((200, 200)) }, bias: Array1::zeros(10) };
    let mut traces = Traces::default();
    btf::to_writer(&mut traces, &model)?;
    let traced = traced(&traces.0[0]);
    if traced.is_empty() {
        println!("NOTE: the program has no debug information, so its backtraces tell no files");
    }
    let missing: Vec<_> = traced.difference(&documented).collect();
    assert!(missing.is_empty(), "the docs of `model` do not name {missing:?}");
    Ok(())
}

/// Where the index reader of [`TRACED`] was called from.
static OPENED: Mutex<String> = Mutex::new(String::new());

/// A format whose files are one tensor of two numbers.
static TRACED: Format = Format::new(
    FormatSpec::new("traced", &[Dtype::F32]),
    || Box::new(TracedReader { is_read: false }),
    |_| Err(ErrorKind::Unsupported { what: "write it".to_owned(), instead: "it is only read".to_owned() }.into()),
);

struct TracedReader {
    is_read: bool,
}

impl IndexReader for TracedReader {
    fn read_on(&mut self, _: &mut dyn ReadAt, _: &Limits, index: &mut Index) -> Result<bool> {
        if !std::mem::replace(&mut self.is_read, true) {
            *OPENED.lock().unwrap() = Backtrace::force_capture().to_string();
            index.push(Some("a"), TensorInfo::new(Dtype::F32, [2]), 0..8)?;
            return Ok(true);
        }
        Ok(false)
    }
}

#[test]
fn a_file_is_opened_and_read_by_the_functions_in_the_docs() -> Result<()> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.traced");
    fs::write(&path, [0; 8]).unwrap();
    let options = OpenOptions::new().format(&TRACED).backend(Backend::Positioned);
    let file = options.open(&path)?;
    let opened = traced(&OPENED.lock().unwrap());
    let mut traces = Traces::default();
    file.get("a")?.write_to(&mut traces).unwrap();
    let read = traced(&traces.0[0]);
    let documented = documented(include_str!("../../src/file/mod.rs"), "pass through:", "or another method");
    assert!(documented.len() <= 8, "{documented:#?}");
    let missing: Vec<_> = opened.union(&read).filter(|(file, _)| file.starts_with("file/")).collect();
    let missing: Vec<_> = missing.into_iter().filter(|function| !documented.contains(function)).collect();
    assert!(missing.is_empty(), "the docs of `file` do not name {missing:?}");
    Ok(())
}
