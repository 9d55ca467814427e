//! Names for what is printed, from the segments of the names in a file.

use std::collections::HashMap;

/// Words that cannot be identifiers, of all editions.
const KEYWORDS: &[&str] = &[
    "abstract", "as", "async", "await", "become", "box", "break", "const", "continue", "do", "dyn", "else", "enum",
    "extern", "false", "final", "fn", "for", "gen", "if", "impl", "in", "let", "loop", "macro", "match", "mod", "move",
    "mut", "override", "priv", "pub", "ref", "return", "static", "struct", "trait", "true", "try", "type", "typeof",
    "unsafe", "unsized", "use", "virtual", "where", "while", "yield",
];

/// Words that cannot be raw identifiers either.
const PATHS: &[&str] = &["_", "crate", "self", "Self", "super"];

/// The types that the printed code may name.
pub const TYPES: &[&str] = &[
    "Array0",
    "Array1",
    "Array2",
    "Array3",
    "Array4",
    "Array5",
    "Array6",
    "ArrayD",
    "ArrayView0",
    "ArrayView1",
    "ArrayView2",
    "ArrayView3",
    "ArrayView4",
    "ArrayView5",
    "ArrayView6",
    "ArrayViewD",
    "BTreeMap",
    "Blob",
    "CooTensor",
    "Debug",
    "Option",
    "Tensor",
    "TensorFile",
    "TensorMap",
    "TensorView",
    "Vec",
];

/// The most letters of an identifier, so that lines stay short.
const LEN: usize = 40;

/// Whether a struct can have that name.
pub fn is_type_name(name: &str) -> bool {
    let is_start = |c: char| c == '_' || is_letter(c) && !c.is_ascii_digit();
    name.starts_with(is_start)
        && name.chars().all(|c| c == '_' || is_letter(c))
        && ![KEYWORDS, PATHS, TYPES].iter().any(|words| words.contains(&name))
}

/// A segment as the name of a field, in snake case.
pub fn snake(segment: &str) -> String {
    let mut name: String = words(segment).map(str::to_lowercase).collect::<Vec<_>>().join("_");
    if segment.starts_with('_') || name.starts_with(|first: char| !is_letter(first) || first.is_numeric()) {
        name.insert(0, '_');
    }
    name = name.chars().take(LEN).collect();
    match name.as_str() {
        "" | "_" => "unnamed".to_owned(),
        word if PATHS.contains(&word) => format!("{word}_"),
        word if KEYWORDS.contains(&word) => format!("r#{word}"),
        _ => name,
    }
}

/// A segment as the name of a struct, in camel case. It may be one that a struct cannot have.
pub fn camel(segment: &str) -> String {
    let capitalized = |word: &str| {
        let word = word.to_lowercase();
        let mut letters = word.chars();
        letters.next().into_iter().flat_map(char::to_uppercase).chain(letters).collect::<String>()
    };
    words(segment).map(capitalized).collect::<String>().chars().take(LEN).collect()
}

/// The words of a segment, which may be in any case.
pub fn words(segment: &str) -> impl Iterator<Item = &str> {
    segment.split(|c| !is_letter(c)).flat_map(|part| {
        let mut cuts = vec![0];
        let letters: Vec<(usize, char)> = part.char_indices().collect();
        for at in 1..letters.len() {
            let is_upper = |at: usize| letters.get(at).is_some_and(|(_, c)| c.is_uppercase());
            let begins_word = letters.get(at + 1).is_some_and(|(_, next)| next.is_lowercase());
            if is_upper(at) && (!is_upper(at - 1) || begins_word) {
                cuts.push(letters[at].0);
            }
        }
        cuts.push(part.len());
        cuts.windows(2).map(|cut| &part[cut[0]..cut[1]]).filter(|word| !word.is_empty()).collect::<Vec<_>>()
    })
}

/// Whether an identifier keeps the character. Of the letters that Rust allows, these are those of which no sequence is
/// another one to Unicode, so that the compiler leaves the name as it is.
fn is_letter(c: char) -> bool {
    let is_plain = matches!(c,
        '\u{00c0}'..='\u{024f}' | '\u{0386}'..='\u{03ff}' | '\u{0400}'..='\u{0481}' | '\u{048a}'..='\u{052f}'
        | '\u{3041}'..='\u{30ff}' | '\u{4e00}'..='\u{9fa5}' | '\u{ac00}'..='\u{d7a3}');
    c.is_ascii_alphanumeric() || is_plain && c.is_alphabetic()
}

/// The name of one of several.
pub fn singular(name: &str) -> &str {
    let lower = name.to_lowercase();
    let cut = match () {
        () if ["sses", "shes", "ches", "xes"].iter().any(|end| lower.ends_with(end)) => 2,
        () if ["ss", "us", "is"].iter().any(|end| lower.ends_with(end)) => 0,
        () if lower.ends_with('s') && name.chars().count() > 2 => 1,
        () => 0,
    };
    &name[..name.len() - cut]
}

/// Names that are given to one thing each.
#[derive(Debug, Default)]
pub struct Taken {
    /// With the number that the next one of that name gets.
    names: HashMap<String, usize>,
}

impl Taken {
    /// Whether the name is given already.
    pub fn has(&self, name: &str) -> bool {
        self.names.contains_key(name)
    }

    /// Gives the name, with a number behind it where it is taken.
    pub fn take(&mut self, name: String, separator: &str) -> String {
        let Some(mut number) = self.names.get(&name).copied() else {
            self.names.insert(name.clone(), 1);
            return name;
        };
        let stem = name.trim_start_matches("r#").trim_end_matches('_');
        let unique = loop {
            number += 1;
            let unique = format!("{stem}{separator}{number}");
            if !self.has(&unique) {
                break unique;
            }
        };
        self.names.insert(unique.clone(), 1);
        self.names.insert(name, number);
        unique
    }
}
