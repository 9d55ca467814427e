//! Names and metadata that try to control the terminal, or to break out of JSON, SVG, CSV and Rust code.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;

use serde_json::Value;
use tensorfile::{Format, TensorMap, WriteOptions};

use super::{Session, weights};

pub const NAMES: &[&str] = &[
    "\u{1b}]0;title\u{7}",
    "\u{1b}[2J.weight",
    "\u{9b}31m",
    "line\r\nbreak\ttab\u{8}",
    "\u{202e}thgir",
    "no\u{200b}room\u{feff}",
    "\u{e0041}\u{fff9}",
    "soft\u{ad}\u{61c}\u{180e}",
    "\u{2060}\u{2066}x\u{2069}\u{206f}",
    "\u{fe00}w\u{fe0f}\u{e0100}\u{e01ef}",
    "</text><script>alert(1)</script>&amp;\"'",
    "]]><!--",
    "\",\"x\":{\"",
    "=1+1,2;\"3\"",
    "*/ } fn evil() {} /*",
    "\"]\nfn evil() {}\n#[doc = \"",
    "\"##;",
    "\\u{41}\\n{}$(id)`id`",
    "//!\n",
];

/// A session with the names in `names.EXT` of formats that store any name, and in metadata.
fn session(format: &Format) -> (Session, String) {
    let session = Session::new();
    let map: TensorMap = NAMES.iter().enumerate().map(|(at, name)| (*name, weights(&[at + 1]))).collect();
    let keeps = |key: &str| format.keeps_metadata(key);
    let metadata = NAMES.iter().filter(|name| keeps(name)).map(|name| ((*name).to_owned(), (*name).to_owned()));
    let options = WriteOptions::new().metadata(metadata.collect());
    let name = format!("names.{}", format.extensions[0]);
    std::fs::write(session.path(&name), format.to_vec(&map, &options).unwrap()).unwrap();
    (session, name)
}

/// Characters that take no room, change the direction of text, or choose a variant of the character before.
const INVISIBLE: &[RangeInclusive<char>] = &[
    '\u{ad}'..='\u{ad}',
    '\u{61c}'..='\u{61c}',
    '\u{180e}'..='\u{180e}',
    '\u{200b}'..='\u{200f}',
    '\u{2028}'..='\u{202e}',
    '\u{2060}'..='\u{206f}',
    '\u{fe00}'..='\u{fe0f}',
    '\u{feff}'..='\u{feff}',
    '\u{fff9}'..='\u{fffb}',
    '\u{e0000}'..='\u{e007f}',
    '\u{e0100}'..='\u{e01ef}',
];

/// Returns the first character that a terminal does not just print.
pub fn control(text: &str) -> Option<char> {
    let is_invisible = |c| INVISIBLE.iter().any(|range| range.contains(&c));
    text.chars().find(|&c| c != '\n' && (c.is_control() || is_invisible(c)))
}

fn formats() -> impl Iterator<Item = &'static Format> {
    let written = tensorfile::FORMATS.iter().copied();
    written.filter(|format| NAMES.iter().all(|name| format.stores_name(name)))
}

#[test]
fn output_does_not_control_the_terminal() {
    let mut wrong = BTreeSet::new();
    for format in formats() {
        let (session, file) = session(format);
        session.write("other.ptd", &[("\u{1b}[2J.weight", weights(&[3]))].into_iter().collect());
        for arguments in [
            &["ls", &file][..],
            &["ls", "--tree", &file],
            &["ls", "--patterns", &file],
            &["ls", "--diffable", &file],
            &["ls", "--json", &file],
            &["info", &file],
            &["info", "--json", &file],
            &["stats", &file],
            &["stats", "--long", &file],
            &["stats", "--diffable", &file],
            &["stats", "--json", &file],
            &["hash", &file],
            &["hash", "--json", &file],
            &["verify", "--for", "ten", &file],
            &["verify", "--json", &file],
            &["diff", &file, "other.ptd"],
            &["diff", "--json", &file, "other.ptd"],
            &["convert", &file, "out.ten"],
            &["append", "other.ptd", &file],
            &["edit", &file, "--set", "\u{1b}[2J=\u{1b}[2J", "--dry-run"],
            &["edit", &file, "--set", "\u{1b}[2J=\u{1b}[2J", "--dry-run", "--json"],
            &["edit", &file, "--unset", "\u{1b}[2J"],
            &["show", &file, "\u{1b}[2J"],
            &["show", &file, "\u{1b}[2J.weight"],
            &["show", &file, "\u{1b}[2J.weight", "--format", "csv"],
            &["show", &file, "\u{1b}[2J.weight", "--format", "json"],
            &["show", "\u{1b}[2J.ptd", "x"],
            &["split", &file, "--by-prefix", "1", "--dry-run"],
            &["report", "--json", &file],
            &["report", "--json", &file, "other.ptd"],
            &["codegen", &file],
        ] {
            let output = session.run(arguments);
            for text in [&output.stdout, &output.stderr] {
                if let Some(c) = control(&String::from_utf8_lossy(text)) {
                    wrong.insert(format!("{}: {arguments:?} prints {c:?}", format.name));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn no_invisible_character_is_printed() {
    let session = Session::new();
    let all: Vec<char> =
        INVISIBLE.iter().cloned().flatten().chain('\u{1}'..='\u{1f}').chain('\u{7f}'..='\u{9f}').collect();
    let names = all.iter().map(|c| (format!("a{c}b"), weights(&[1])));
    session.write("names.safetensors", &names.collect());
    for arguments in [&["ls", "names.safetensors"][..], &["ls", "--json", "names.safetensors"]] {
        let text = String::from_utf8(session.run(arguments).stdout).unwrap();
        assert_eq!(control(&text), None, "{arguments:?}");
    }
    let output = session.run(&["hash", "--tensors", "names.safetensors"]);
    std::fs::write(session.path("tensors"), &output.stdout).unwrap();
    let output = session.run(&["hash", "--tensors", "--check", "tensors", "names.safetensors"]);
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "names.safetensors: ok\n", "escapes are read back");
}

#[test]
fn json_has_the_names_as_they_are() {
    for format in formats() {
        let (session, file) = session(format);
        for command in ["ls", "stats"] {
            let output = session.run(&[command, "--json", &file]);
            let json: Value = serde_json::from_slice(&output.stdout).unwrap();
            let found: BTreeSet<&str> =
                json[0]["tensors"].as_array().unwrap().iter().map(|row| row["name"].as_str().unwrap()).collect();
            assert_eq!(found, NAMES.iter().copied().collect(), "{command}: {}", format.name);
        }
    }
}

#[test]
fn charts_embed_names_as_text() {
    for format in formats() {
        let (session, file) = session(format);
        let output = session.run(&["stats", "--plot", "names.svg", &file]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let picture = std::fs::read_to_string(session.path("names.svg")).unwrap();
        assert_eq!(control(&picture.replace('\t', "")), None, "{}", format.name);
        let tags = picture.split('<').skip(1).map(|tag| tag.split([' ', '>', '\n']).next().unwrap());
        let tags: BTreeSet<&str> = tags.map(|tag| tag.trim_start_matches('/')).collect();
        let drawn = ["circle", "line", "path", "polygon", "polyline", "rect", "svg", "text"];
        assert!(tags.iter().all(|tag| drawn.contains(tag)), "{}: {tags:?}", format.name);
        for entity in picture.split('&').skip(1) {
            assert!(["amp;", "lt;", "gt;", "quot;", "apos;", "#"].iter().any(|known| entity.starts_with(known)));
        }
    }
}

/// Returns text without the styles of this program.
fn without_styles(text: &str) -> String {
    let mut rest = text;
    let mut plain = String::new();
    while let Some((before, style)) = rest.split_once("\u{1b}[") {
        let end = style.find(|c: char| !c.is_ascii_digit() && c != ';').unwrap_or(style.len());
        plain += before;
        rest = match style[end..].strip_prefix('m') {
            Some(rest) => rest,
            None => {
                plain.push('\u{1b}');
                style
            }
        };
    }
    plain + rest
}

/// Dtypes, metadata and names of files are as hostile as names, in every command, with styles too.
#[test]
fn dtypes_metadata_and_file_names_do_not_control_the_terminal() {
    const HOSTILE: &str = "\u{202e}F\u{1b}[2J\u{200b}\u{9b}31m\u{7}";
    let session = Session::new();
    let header = serde_json::json!({
        "a\u{202e}": {"dtype": HOSTILE, "shape": [2], "data_offsets": [0, 8]},
        "b": {"dtype": "F32", "shape": [2], "data_offsets": [8, 16]},
        "__metadata__": {HOSTILE: HOSTILE},
    });
    let header = header.to_string();
    let file = [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &[0; 16]].concat();
    let name = format!("{HOSTILE}.safetensors");
    let link = format!("{HOSTILE}.link.safetensors");
    let missing = format!("{HOSTILE}.missing.safetensors");
    std::fs::write(session.path(&name), &file).unwrap();
    std::fs::write(session.path(&link), &file[..file.len() - 1]).unwrap();
    let html = format!("{HOSTILE}.html");
    let mut wrong = BTreeSet::new();
    for arguments in [
        &["ls", &name][..],
        &["ls", &name, &link, &missing],
        &["ls", "."],
        &["ls", "--tree", &name],
        &["ls", "--patterns", &name],
        &["ls", "--diffable", &name],
        &["ls", "--json", &name, &link],
        &["info", &name],
        &["info", "--json", &name],
        &["stats", &name],
        &["stats", "--long", &name],
        &["stats", "--diffable", &name],
        &["stats", "--json", &name],
        &["stats", "--fail-on", "nan", &name],
        &["hash", &name, &link],
        &["hash", "--tensors", &name],
        &["hash", "--json", &name],
        &["hash", "--check", &name],
        &["verify", &name],
        &["verify", "--strict", "--payload", &name, &link],
        &["verify", "--for", "npz", &name],
        &["verify", "--json", &name],
        &["diff", &name, "model.ptd"],
        &["diff", "--json", &name, "model.ptd"],
        &["diff", "--metadata", &name, "model.ptd"],
        &["show", &name],
        &["show", &name, "b", "--format", "csv"],
        &["show", &name, HOSTILE],
        &["show", "--json", &name],
        &["convert", &name, "out.ten"],
        &["convert", &name, "out.ptd", "--lossy", "--dry-run"],
        &["convert", &name, HOSTILE],
        &["merge", &name, &link, "out.ptd"],
        &["append", "model.ptd", &name],
        &["edit", &name, "--set", "k=v", "--dry-run"],
        &["edit", &name, "--unset", "k"],
        &["split", &name, "--by-prefix", "1", "--dry-run"],
        &["split", &name, "--by", &format!("*={link}"), "--by", &format!("b={name}")],
        &["report", &name, "-o", &html],
        &["report", "--json", &name],
        &["codegen", &name],
        &["codegen", &link],
    ] {
        for color in ["never", "always"] {
            let output = session.run(&[arguments, &["--color", color]].concat());
            for text in [&output.stdout, &output.stderr] {
                let text = String::from_utf8_lossy(text);
                let text = if color == "always" { without_styles(&text) } else { text.into_owned() };
                if let Some(c) = control(&text) {
                    wrong.insert(format!("{arguments:?} prints {c:?}: {}", text.escape_debug()));
                }
            }
            if arguments.contains(&"--json") && !output.stdout.is_empty() {
                serde_json::from_slice::<Value>(&output.stdout)
                    .unwrap_or_else(|error| panic!("{arguments:?}: {error}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
