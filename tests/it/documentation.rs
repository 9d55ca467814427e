//! Checks that `docs/compatibility.md` has a test in every cell, and that these tests exist.

use std::collections::BTreeSet;

use tensorfile::FORMATS;

use crate::support::root;

/// Returns the rows of the table below a heading, each as its cells.
fn rows<'a>(page: &'a str, heading: &str) -> Vec<Vec<&'a str>> {
    let (_, section) = page.split_once(&format!("\n## {heading}\n")).unwrap();
    let section = section.split_once("\n## ").map_or(section, |(section, _)| section);
    let rows = section.lines().filter_map(|line| line.strip_prefix("| ")?.strip_suffix(" |")).skip(2);
    rows.map(|row| row.split(" | ").collect()).collect()
}

/// Returns the paths of tests in a text: words in backticks with two colons.
fn tests(text: &str) -> Vec<&str> {
    text.split('`').skip(1).step_by(2).filter(|word| word.contains("::")).collect()
}

/// Returns `true` if a test is in the sources of this program.
fn exists(test: &str) -> bool {
    let parts: Vec<&str> = test.split("::").collect();
    let (name, modules) = parts.split_last().unwrap();
    // A module may be inside of a file.
    (1..=modules.len()).rev().any(|len| {
        let path = modules[..len].iter().fold(root().join("tests/it"), |path, module| path.join(module));
        let text = std::fs::read_to_string(path.with_extension("rs"))
            .or_else(|_| std::fs::read_to_string(path.join("mod.rs")));
        text.is_ok_and(|text| {
            // Properties have arguments.
            text.contains(&format!("#[test]\nfn {name}()")) || text.contains(&format!("#[test]\n    fn {name}("))
        })
    })
}

fn page() -> String {
    std::fs::read_to_string(root().join("docs/compatibility.md")).unwrap()
}

#[test]
fn the_tests_of_the_compatibility_page_exist() {
    let page = page();
    let missing: BTreeSet<&str> = tests(&page).into_iter().filter(|test| !exists(test)).collect();
    assert!(missing.is_empty(), "docs/compatibility.md names tests that do not exist: {missing:#?}");
    assert!(tests(&page).len() > 50);
    assert!(!exists("formats::btf::no_such_test") && !exists("no_such_file::has_ten_dtypes"));
}

#[test]
fn the_docs_state_the_size_of_small_files() {
    let read = |path: &str| std::fs::read_to_string(root().join(path)).unwrap();
    let small = read("src/write/small.rs");
    let constant = |name: &str, end: &str| {
        let (_, rest) = small.split_once(&format!("const {name}: usize = ")).unwrap();
        rest.split_once(end).unwrap().0.to_owned()
    };
    let (tensors, kib) = (constant("MOST_TENSORS", ";"), constant("MOST_BYTES", " << 10;"));
    let expected = format!("A file of up to {tensors} tensors and {kib} KiB is made ");
    for page in ["src/format/options.rs", "docs/src/errors.md"] {
        let text = read(page).replace("\n    /// ", " ").replace('\n', " ");
        assert!(text.contains(&expected), "{page}");
    }
}

#[test]
fn each_cell_of_the_compatibility_page_has_a_test() {
    let page = page();
    for (heading, directions) in [("Clients", 3..5), ("Quirks", 4..5)] {
        let rows = rows(&page, heading);
        for row in &rows {
            assert_eq!(row.len(), 5, "{row:?}");
            for cell in &row[directions.clone()] {
                let is_backed = !tests(cell).is_empty() || cell.contains("untested") || *cell == "writes no files";
                assert!(is_backed, "{cell:?} of {row:?} has no test and is not marked as untested");
            }
        }
        let formats: BTreeSet<&str> = rows.iter().map(|row| row[0].trim_matches('`')).collect();
        assert_eq!(formats, FORMATS.iter().map(|format| format.name).collect(), "{heading}");
    }
}

/// The docs of a function that every format has stand on `format::Options`, so a face has little in common with another.
#[test]
fn the_faces_of_formats_share_few_lines() {
    const MOST: usize = 40;
    let formats = ["btf", "gguf", "numpy/npy", "numpy/npz", "ptd", "pytorch", "safetensors", "ten", "tensorbuffers"];
    let faces = formats.map(|format| {
        let text = std::fs::read_to_string(root().join(format!("src/format/{format}/mod.rs"))).unwrap();
        let name = format.rsplit('/').next().unwrap();
        let without_name = |word: &str| {
            let (word, end) = word.split_at(word.trim_end_matches(|c: char| !c.is_alphanumeric()).len());
            format!("{}{end}", if word.eq_ignore_ascii_case(name) { "X" } else { word })
        };
        let words = |line: &str| line.split_inclusive(|c: char| !c.is_alphanumeric()).map(without_name).collect();
        text.lines().map(str::trim).map(words).collect::<Vec<String>>()
    });
    for (i, one) in faces.iter().enumerate() {
        for (j, other) in faces.iter().enumerate().skip(i + 1) {
            // The length of the run of equal lines that ends at each line of the other one.
            let (mut runs, mut longest) = (vec![0; other.len() + 1], 0);
            for line in one {
                for k in (0..other.len()).rev() {
                    runs[k + 1] = if *line == other[k] { runs[k] + 1 } else { 0 };
                    longest = longest.max(runs[k + 1]);
                }
            }
            assert!(longest < MOST, "{} and {} share {longest} lines", formats[i], formats[j]);
        }
    }
}
