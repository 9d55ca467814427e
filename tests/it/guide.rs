//! Checks that the guide in `docs/` has every chapter, every kind of error with its message, and the facts of
//! `FORMATS`.
//!
//! The examples of the guide are doctests of the crate.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::PathBuf;

use tensorfile::report::{InvalidTensor, WarningKind};
use tensorfile::{Dtype, ErrorKind, FORMATS, Format, TensorFile, TensorInfo, Warning};

use crate::support::root;

const FORMATS_CHAPTER: &str = include_str!("../../docs/src/formats.md");
const ERRORS_CHAPTER: &str = include_str!("../../docs/src/errors.md");

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap()
}

/// Returns the paths of the chapters.
fn chapters() -> impl Iterator<Item = PathBuf> {
    let files = fs::read_dir(root().join("docs/src")).unwrap().map(|file| file.unwrap().path());
    files.filter(|path| path.extension().is_some_and(|extension| extension == "md"))
}

/// Returns the files to which a page links, without the part after `#`. Calls of generic functions in Go look like links.
fn links(page: &str) -> Vec<&str> {
    let prose = page.split("```").step_by(2);
    let inline = prose.flat_map(|text| text.split("](").skip(1)).filter_map(|rest| rest.split_once(')'));
    let inline = inline.map(|(target, _)| target);
    let targets = inline.chain(definitions(page).map(|(_, target)| target));
    let targets = targets.map(|target| target.split_once('#').map_or(target, |(file, _)| file));
    targets.filter(|target| !target.is_empty() && !target.contains("://")).collect()
}

/// Returns the names and targets of links defined on separate lines.
fn definitions(page: &str) -> impl Iterator<Item = (&str, &str)> {
    page.lines().filter_map(|line| line.strip_prefix('[')?.split_once("]: "))
}

#[test]
fn the_summary_lists_every_chapter() {
    let summary = read("docs/src/SUMMARY.md");
    let listed: BTreeSet<String> = links(&summary).into_iter().map(str::to_owned).collect();
    let names = chapters().map(|path| path.file_name().unwrap().to_str().unwrap().to_owned());
    let mut files: BTreeSet<String> = names.collect();
    assert!(files.remove("SUMMARY.md"));
    assert_eq!(listed, files);
}

#[test]
fn the_links_of_the_guide_lead_somewhere() {
    for file in chapters() {
        let page = fs::read_to_string(&file).unwrap();
        let included = page.strip_prefix("{{#include ").and_then(|rest| rest.strip_suffix("}}\n"));
        for target in links(&page).into_iter().chain(included) {
            assert!(file.with_file_name(target).is_file(), "{} links to {target}", file.display());
        }
    }
}

#[test]
fn every_chapter_is_a_module_whose_examples_are_tested() {
    let modules = read("src/guide.rs");
    let linked = modules.lines().take_while(|line| line.starts_with("//!")).collect::<String>();
    for file in chapters().filter(|file| !file.ends_with("SUMMARY.md")) {
        let page = fs::read_to_string(&file).unwrap();
        let name = file.file_stem().unwrap().to_str().unwrap();
        assert!(linked.contains(&format!("({name})")) || linked.contains(&format!("[{name}]")), "{name} has no link");
        let included = page.strip_prefix("{{#include ").and_then(|rest| rest.strip_suffix("}}\n"));
        let included = included
            .map(|path| path.strip_prefix("../../").map_or_else(|| path.replace("../", "docs/"), str::to_owned));
        let source = included.unwrap_or_else(|| format!("docs/src/{name}.md"));
        let module = format!("#[doc = include_str!(\"../{source}\")] {name}\n");
        assert!(modules.contains(&module), "src/guide.rs lacks: {module}");

        let opening = page.lines().filter_map(|line| line.strip_prefix("```")).step_by(2);
        // `python/tests/test_docs.py` runs the examples in Python, and `capi/test.sh` those in C, C++ and Go.
        let known = BTreeSet::from(["rust", "text", "sh", "toml", "console", "python", "c", "cpp", "go"]);
        assert!(opening.clone().all(|language| known.contains(language)), "{name}: {:?}", opening.collect::<Vec<_>>());

        // Links between chapters lead to files in mdBook, and to modules on docs.rs.
        for (link, target) in definitions(&page).filter(|(_, target)| !target.contains("://")) {
            let module = target.replace(".md", "");
            assert!(
                modules.contains(&format!("[{link}]: crate::guide::{module}")),
                "src/guide.rs does not define [{link}]"
            );
        }
        let inline = page.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(target, _)| target);
        let to_chapters: Vec<&str> =
            inline.filter(|target| target.split('#').next().unwrap().ends_with(".md")).collect();
        assert!(
            to_chapters.iter().all(|target| target.contains("://")),
            "{name} has links that docs.rs breaks: {to_chapters:?}"
        );
    }
}

/// Returns the cells of a row of the table of formats by the name of the format.
fn row(first: &str) -> Vec<(&'static str, &'static str)> {
    let cells = |first: &str| {
        let begin = format!("| {first} |");
        let line = FORMATS_CHAPTER.lines().find(|line| line.starts_with(&begin)).unwrap();
        line.trim_matches('|').split('|').skip(1).map(str::trim).collect::<Vec<_>>()
    };
    let names = FORMATS_CHAPTER.lines().find(|line| line.starts_with("| | ")).unwrap();
    let names = names.trim_matches('|').split('|').skip(1).map(|name| name.trim().trim_matches('`'));
    names.zip(cells(first)).collect()
}

#[test]
fn the_table_of_formats_agrees_with_the_formats() {
    let yes = |yes: bool| if yes { "yes" } else { "no" }.to_owned();
    let expect = |first: &str, cell: &dyn Fn(&Format) -> String| {
        let row = row(first);
        assert_eq!(row.len(), FORMATS.len());
        for (name, found) in row {
            assert_eq!(found, cell(Format::named(name).unwrap()), "{first} of {name}");
        }
    };
    expect("names", &|format| match format.max_name {
        Some(0) => "none".to_owned(),
        Some(bytes) => format!("up to {bytes} bytes"),
        None => "any".to_owned(),
    });
    expect("rank", &|format| format.max_rank.map_or("any".to_owned(), |rank| format!("up to {rank}")));
    expect("sparse (COO)", &|format| yes(format.sparse));
    expect("blobs", &|format| yes(format.blobs));
    expect("`bool`", &|format| yes(format.dtypes.contains(&Dtype::Bool)));

    for (name, complex) in row("complex").into_iter().filter(|(name, _)| *name != "npz") {
        let dtypes = Format::named(name).unwrap().dtypes;
        let stored = [Dtype::C64, Dtype::C128].into_iter().filter(|dtype| dtypes.contains(dtype));
        let stored = stored.map(|dtype| format!("`{}`", dtype.name())).collect::<Vec<_>>().join(", ");
        assert_eq!(complex, if stored.is_empty() { "no" } else { &stored }, "{name}");
    }
    // Rows of `npz` refer to `npy`.
    for (name, floats) in row("floats").into_iter().filter(|(name, _)| *name != "npz") {
        let dtypes = Format::named(name).unwrap().dtypes;
        let all = [Dtype::F16, Dtype::Bf16, Dtype::F32, Dtype::F64];
        let stored = all.iter().filter(|dtype| dtypes.contains(dtype)).map(|dtype| dtype.name());
        let stored = stored.collect::<Vec<_>>().join(" ");
        let small = if dtypes.contains(&Dtype::F8E5M2) { ", 8-bit" } else { "" };
        let smaller = if dtypes.contains(&Dtype::F6E2M3) { "; 4-bit and 6-bit as bits" } else { "" };
        assert_eq!(floats, format!("{stored}{small}{smaller}"), "{name}");
    }
}

/// Returns the names of the variants in the source of `ErrorKind`.
fn kinds() -> Vec<String> {
    let source = read("src/error/kind.rs");
    let (_, kinds) = source.split_once("pub enum ErrorKind {\n").unwrap();
    let (kinds, _) = kinds.split_once("\n}\n").unwrap();
    let indented = kinds.lines().filter_map(|line| line.strip_prefix("    "));
    let names = indented.filter(|line| line.starts_with(|first: char| first.is_ascii_uppercase()));
    names.map(|line| line.chars().take_while(char::is_ascii_alphanumeric).collect()).collect()
}

/// Returns the sections of the chapter: the name of the kind and the text.
fn sections() -> Vec<(&'static str, &'static str)> {
    let sections = ERRORS_CHAPTER.split("\n### `").skip(1);
    sections.map(|section| section.split_once("`\n").unwrap()).collect()
}

#[test]
fn the_chapter_on_errors_has_every_kind_once() {
    let mut kinds = kinds();
    assert!(kinds.len() > 30, "{kinds:?}");
    let mut found: Vec<&str> = sections().into_iter().map(|(name, _)| name).collect();
    kinds.sort_unstable();
    found.sort_unstable();
    assert_eq!(found, kinds);
}

#[test]
fn the_chapter_on_errors_sorts_kinds_by_category() {
    for error in examples() {
        let name = name(&error);
        let (before, _) = ERRORS_CHAPTER.split_once(&format!("\n### `{name}`\n")).unwrap();
        let (_, category) = before.rsplit_once("\nCategory `").unwrap();
        let (category, _) = category.split_once('`').unwrap();
        assert_eq!(category, format!("{:?}", error.category()), "{name}");
    }
}

#[test]
fn the_messages_in_the_chapter_on_errors_are_those_of_the_kinds() {
    let examples = examples();
    assert_eq!(examples.len(), kinds().len());
    for error in examples {
        let name = name(&error);
        let (_, section) = sections().into_iter().find(|(section, _)| *section == name).unwrap();
        let (_, message) = section.split_once("```text\n").unwrap();
        let (message, _) = message.split_once("\n```").unwrap();
        assert_eq!(message, error.to_string(), "{name}");
    }
}

fn name(kind: &ErrorKind) -> String {
    format!("{kind:?}").chars().take_while(char::is_ascii_alphanumeric).collect()
}

#[derive(TensorFile)]
struct Linear {
    weight: ndarray::Array2<f32>,
    bias: ndarray::Array1<f32>,
}

/// A warning about three bytes.
fn trailing_bytes() -> Warning {
    let map = tensorfile::TensorMap::from_iter([("0", ndarray::array![1.0_f32, 2.0])]);
    let mut file = tensorfile::btf::to_vec(&map).unwrap();
    file.extend([0; 3]);
    tensorfile::File::from_bytes(file).unwrap().warnings().unwrap().remove(0)
}

#[test]
fn the_chapter_on_errors_has_every_kind_of_warning() {
    let (_, table) = ERRORS_CHAPTER.split_once("\n## Warnings\n").unwrap();
    let rows = table.lines().filter_map(|line| line.strip_prefix("| `"));
    let found: Vec<&str> = rows.map(|row| row.split_once('`').unwrap().0).collect();
    let kinds: Vec<&str> = WarningKind::ALL.iter().map(|kind| kind.name()).collect();
    assert_eq!(found, kinds);
}

/// An error of each kind, with the fields of the chapter's messages.
fn examples() -> Vec<ErrorKind> {
    let f32_2_3 = || TensorInfo::new(Dtype::F32, [2, 3]);
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let sparse = tensorfile::CooTensor::from_dense(&ndarray::Array2::<f32>::from_shape_fn((3, 4), |(row, column)| {
        if row == column { 1.0 } else { 0.0 }
    }));
    let report = tensorfile::report::LoadReport::of(&Linear::schema(), [(Some("weight"), &f32_2_3())]);
    let cast = tensorfile::report::InvalidCast { element: 3, value: "300".to_owned(), to: Dtype::U8 };
    let btf = Format::named("btf").unwrap().dtypes.iter().map(|dtype| dtype.name()).collect::<Vec<_>>().join(", ");
    vec![
        ErrorKind::Truncated { needed: 8, left: 2 },
        ErrorKind::UnknownFormat { found: b"<html>".to_vec(), formats: vec!["btf", "ten"] },
        ErrorKind::NotTensors { what: "a web page", found: b"<!DOCTYPE html>".to_vec() },
        ErrorKind::AmbiguousFormat { formats: vec!["btf", "safetensors"] },
        ErrorKind::BadMagic { found: b"~tenbin~".to_vec(), expected: b"~TenBin~" },
        ErrorKind::UnknownDtype { tag: "99".to_owned() },
        ErrorKind::UnknownLayout { tag: 3 },
        ErrorKind::BadNumber { what: "dim", found: -1, expected: "0 or more".to_owned() },
        ErrorKind::Overlap { other: "weight".to_owned(), range: 64..128 },
        ErrorKind::InvalidTensor(InvalidTensor::Length { found: 8, info: Box::new(f32_2_3()) }),
        ErrorKind::DuplicateName { name: "weight".to_owned() },
        ErrorKind::Warning { warning: trailing_bytes(), others: 0 },
        ErrorKind::Malformed { what: "the zip archive is damaged: it ends within a record".to_owned() },
        ErrorKind::Load(Box::new(report)),
        ErrorKind::Missing { name: "weight".to_owned(), found: names(&["weigth"]), others: 0, complete: true },
        ErrorKind::MissingMetadata { key: "epochs".to_owned(), expected: "a u32".to_owned(), found: names(&["epoch"]) },
        ErrorKind::InvalidMetadata { key: "epochs".to_owned(), what: "found `many`, but expected a u32".to_owned() },
        ErrorKind::UnsupportedMetadata {
            key: "epochs".to_owned(),
            what: "ten has no place for it; safetensors keeps any metadata, and gguf any whose key is ASCII".to_owned(),
        },
        ErrorKind::UnusedRename {
            old: "blk.*.attn_v.weight".to_owned(),
            found: names(&["blk.0.attn_q.weight"]),
            is_shadowed: false,
        },
        ErrorKind::Unexpected { name: "step".to_owned(), expected: names(&["weight", "bias"]), complete: true },
        ErrorKind::WrongDtype { found: TensorInfo::new(Dtype::F16, [2, 3]), expected: Dtype::F32 },
        ErrorKind::WrongShape { found: TensorInfo::new(Dtype::F32, [3]), expected: "rank 2".to_owned() },
        ErrorKind::WrongLayout {
            found: sparse.to_tensor().info().clone(),
            expected: "a dense tensor (`CooTensor` reads this one)",
        },
        ErrorKind::WrongCount { found: 3, expected: "2".to_owned() },
        ErrorKind::WrongPosition {
            found: Some(TensorInfo::new(Dtype::F64, [2])),
            expected: names(&["`bias`: f32[_]"]),
        },
        ErrorKind::Ambiguous,
        ErrorKind::AmbiguousName { name: "obs".to_owned() },
        ErrorKind::RepeatedField { name: "weight".to_owned() },
        ErrorKind::Unmapped {
            misfits: vec![
                "e = 17 of l = 3 is missing: line 5 needs `model.layers.3.mlp.experts.17.down_proj.weight` (and 1 more)"
                    .to_owned(),
                "no rule uses `model.vision_tower.weight`".to_owned(),
            ],
            count: 3,
        },
        ErrorKind::Map {
            what: "`e` is only on the left side".to_owned(),
            line: 4,
            column: 21,
            text: "model.layers.{l}.e.{e}.w [h] = model.layers.{l}.w [h]".to_owned(),
        },
        ErrorKind::Misaligned { dtype: Dtype::F32, alignment: 4 },
        ErrorKind::Cast(cast),
        ErrorKind::Codes {
            name: "up.weight".to_owned(),
            what: "holds fp8 codes; `up.weight_scale` has their scales".to_owned(),
            can_be_decoded: true,
        },
        ErrorKind::Unsupported {
            what: "store bf16".to_owned(),
            instead: format!("btf stores {btf}; `view::CastView` casts"),
        },
        ErrorKind::FeatureOff { format: "safetensors", feature: "safetensors" },
        ErrorKind::RepeatedName { name: "weight".to_owned() },
        ErrorKind::NotATensor {
            found: "a string",
            instead: "expected a tensor, a number, or a struct, map, list or tuple of them",
        },
        ErrorKind::Changed { what: "`0` did not come again".to_owned() },
        ErrorKind::Cancelled,
        ErrorKind::Message("invalid value: a negative step".to_owned()),
        ErrorKind::Limit { what: "number of tensors", found: 2000, limit: 1000 },
        ErrorKind::OutOfMemory { bytes: 1 << 40 },
        ErrorKind::Io(io::Error::new(io::ErrorKind::NotFound, "No such file or directory (os error 2)")),
        ErrorKind::SourceChanged { what: "its entity tag is another one".to_owned() },
    ]
}
