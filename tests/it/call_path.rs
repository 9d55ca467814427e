//! The docs of `model` list the functions on a tensor's way to the writer. These tests check the list against a
//! backtrace, and its length.

use std::backtrace::Backtrace;
use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Write};
use std::path::Path;

use ndarray::{Array1, Array2};
use tensorfile::{Result, TensorFile, btf};

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

/// Returns the functions that the docs list, with their files.
fn documented() -> BTreeSet<(String, String)> {
    let docs = include_str!("../../src/model/mod.rs");
    let (_, list) = docs.split_once("passes through:").expect("the list");
    let (list, _) = list.split_once("`tensorfile::save`").expect("what comes after the list");
    let functions = list.lines().filter(|line| line.contains(".rs`)")).map(|line| {
        let mut code = line.split('`').skip(1).step_by(2);
        let (function, file) = (code.next().expect("a function"), code.next().expect("a file"));
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
    let documented = documented();
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
