//! `tensorfile.h` has the types and the functions of the source.

use std::fs;

use tensorfile::Dtype;

use crate::root;

/// Returns the files of a folder of the source, as one text.
fn source(paths: &[&str]) -> String {
    let read = |path: &&str| fs::read_to_string(root().join("src").join(path)).unwrap();
    paths.iter().map(read).collect()
}

/// Returns the header without comments, and with single spaces.
fn header() -> String {
    let text = fs::read_to_string(root().join("include/tensorfile.h")).unwrap();
    let mut code = String::new();
    let mut rest = text.as_str();
    while let Some((before, after)) = rest.split_once("/*") {
        code.push_str(before);
        rest = after.split_once("*/").unwrap().1;
    }
    code.push_str(rest);
    single_spaced(&code.replace("struct ", "").replace("enum ", ""))
}

fn single_spaced(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns a declaration of C for a name and a type of Rust.
fn declared(name: &str, of: &str) -> String {
    let (of, pointer) = match of.trim() {
        of if of.starts_with("*mut *mut ") => (of[10..].to_owned(), "**"),
        of if of.starts_with("*mut *const ") => (format!("const {}", c_name(&of[12..])), "**"),
        of if of.starts_with("*const *mut ") => (c_name(&of[12..]), "*const *"),
        of if of.starts_with("*mut ") => (of[5..].to_owned(), "*"),
        of if of.starts_with("*const ") => (format!("const {}", c_name(&of[7..])), "*"),
        of => (of.to_owned(), ""),
    };
    format!("{} {pointer}{name}", c_name(&of)).trim_end().to_owned()
}

fn c_name(of: &str) -> String {
    match of.trim() {
        "c_void" => "void",
        "c_char" => "char",
        "c_int" => "int",
        "usize" => "size_t",
        "isize" => "ptrdiff_t",
        "i32" => "int32_t",
        "u32" => "uint32_t",
        "u64" => "uint64_t",
        other => other,
    }
    .to_owned()
}

/// Splits `name: type` pairs.
fn pairs(list: &str) -> Vec<(String, String)> {
    let pair = |pair: &str| pair.split_once(':').map(|(name, of)| (name.trim().to_owned(), of.trim().to_owned()));
    list.split(',').filter_map(pair).collect()
}

#[test]
fn the_header_has_each_function() {
    let header = header();
    let files = ["entry/library.rs", "entry/file.rs", "entry/tensor.rs", "entry/plan.rs", "entry/writer.rs"];
    let source = source(&files);
    let functions: Vec<&str> = source.split("pub extern \"C\" fn ").skip(1).collect();
    assert!(functions.len() > 30, "{}", functions.len());
    for function in &functions {
        let (name, rest) = function.split_once('(').unwrap();
        let (parameters, rest) = rest.split_once(')').unwrap();
        let result = rest.split_once('{').unwrap().0.trim().strip_prefix("->").unwrap_or("c_void");
        let mut list: Vec<String> = pairs(parameters).iter().map(|(name, of)| declared(name, of)).collect();
        if list.is_empty() {
            list.push("void".to_owned());
        }
        let expected = format!("{}({});", declared(name, result), list.join(", "));
        assert!(header.contains(&expected), "the header lacks `{expected}`; run cbindgen");
    }
    assert_eq!(header.matches("(*tf_").count(), 4, "types of callbacks");
    let declared = header.split("extern \"C\" {").nth(1).unwrap().split("#ifdef").next().unwrap();
    assert_eq!(declared.matches(");").count(), functions.len(), "the header has other functions too");
}

#[test]
fn the_header_has_each_struct() {
    let (header, source) = (header(), source(&["types.rs"]));
    let structs: Vec<&str> = source.split("pub struct ").skip(1).collect();
    assert!(structs.len() > 10);
    for text in structs {
        let (name, rest) = text.split_once('{').unwrap();
        let body = rest.split_once("\n}").unwrap().0;
        let body: String = body.lines().filter(|line| !line.trim().starts_with("///")).collect();
        let fields: Vec<_> = pairs(&body.replace("pub ", "")).iter().map(|(name, of)| declared(name, of)).collect();
        let name = name.trim();
        let expected = format!("typedef {name} {{ {}; }} {name};", fields.join("; "));
        assert!(header.contains(&expected), "the header lacks `{expected}`; run cbindgen");
    }
}

#[test]
fn the_header_has_each_number() {
    let header = header();
    for (i, dtype) in Dtype::ALL.iter().enumerate() {
        let expected = format!("TF_DTYPE_{} = {},", dtype.name().to_uppercase(), i + 1);
        assert!(header.contains(&expected), "the header lacks `{expected}`");
    }
    let numbers = source(&["error.rs", "dtype.rs", "types.rs"]);
    let mut count = 0;
    for line in numbers.lines().map(str::trim).filter(|line| line.starts_with("TF_") && line.ends_with(',')) {
        assert!(header.contains(line), "the header lacks `{line}`; run cbindgen");
        count += 1;
    }
    assert!(count > Dtype::ALL.len() + 10, "{count}");
}

#[test]
fn the_guide_has_the_examples() {
    let read = |path: &str| fs::read_to_string(root().join(path)).unwrap();
    let guide = read("../docs/src/c.md");
    for path in ["examples/sum.c", "examples/half.cpp"] {
        assert!(guide.contains(read(path).trim_end()), "the guide has another {path}");
    }
    let example = read("go/example_test.go");
    let body = example.split_once("func Example() {\n").unwrap().1.split_once("\n\n\t// Output:").unwrap().0;
    let lines: Vec<&str> = body.lines().map(|line| line.strip_prefix('\t').unwrap_or(line)).collect();
    assert!(guide.contains(&lines.join("\n")), "the guide has another example of Go");
}
