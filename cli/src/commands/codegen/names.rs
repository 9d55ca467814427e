//! Identifiers from the segments of names.

use std::collections::HashMap;

/// Keywords of all editions.
const KEYWORDS: &[&str] = &[
    "abstract", "as", "async", "await", "become", "box", "break", "const", "continue", "do", "dyn", "else", "enum",
    "extern", "false", "final", "fn", "for", "gen", "if", "impl", "in", "let", "loop", "macro", "match", "mod", "move",
    "mut", "override", "priv", "pub", "ref", "return", "static", "struct", "trait", "true", "try", "type", "typeof",
    "unsafe", "unsized", "use", "virtual", "where", "while", "yield",
];

/// Keywords not allowed as raw identifiers.
const NOT_RAW: &[&str] = &["_", "crate", "self", "Self", "super"];

/// Type names used in generated code.
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

/// The maximum number of characters of an identifier, so that lines stay short.
const MAX_LEN: usize = 40;

/// Returns whether a struct can have this name.
pub fn is_type_name(name: &str) -> bool {
    let is_start = |c: char| c == '_' || is_letter(c) && !c.is_ascii_digit();
    name.starts_with(is_start)
        && name.chars().all(|c| c == '_' || is_letter(c))
        && ![KEYWORDS, NOT_RAW, TYPES].iter().any(|words| words.contains(&name))
}

/// Converts a segment to snake case, for a field.
pub fn snake(segment: &str) -> String {
    let mut name: String = words(segment).map(str::to_lowercase).collect::<Vec<_>>().join("_");
    if segment.starts_with('_') || name.starts_with(|first: char| !is_letter(first) || first.is_numeric()) {
        name.insert(0, '_');
    }
    name = name.chars().take(MAX_LEN).collect();
    match name.as_str() {
        "" | "_" => "unnamed".to_owned(),
        word if NOT_RAW.contains(&word) => format!("{word}_"),
        word if KEYWORDS.contains(&word) => format!("r#{word}"),
        _ => name,
    }
}

/// Converts a segment to camel case, for a struct. The result may be invalid as the name of a struct.
pub fn camel(segment: &str) -> String {
    let capitalized = |word: &str| {
        let word = word.to_lowercase();
        let mut letters = word.chars();
        letters.next().into_iter().flat_map(char::to_uppercase).chain(letters).collect::<String>()
    };
    words(segment).map(capitalized).collect::<String>().chars().take(MAX_LEN).collect()
}

/// Splits a segment, in any case, into words.
pub fn words(segment: &str) -> impl Iterator<Item = &str> {
    segment.split(|c| !is_letter(c)).flat_map(|part| {
        let mut cuts = vec![0];
        let letters: Vec<(usize, char)> = part.char_indices().collect();
        for index in 1..letters.len() {
            let is_upper = |index: usize| letters.get(index).is_some_and(|(_, c)| c.is_uppercase());
            let begins_word = letters.get(index + 1).is_some_and(|(_, next)| next.is_lowercase());
            if is_upper(index) && (!is_upper(index - 1) || begins_word) {
                cuts.push(letters[index].0);
            }
        }
        cuts.push(part.len());
        cuts.windows(2).map(|cut| &part[cut[0]..cut[1]]).filter(|word| !word.is_empty()).collect::<Vec<_>>()
    })
}

/// Returns whether an identifier keeps a character.
///
/// Rust allows more letters, but it normalizes identifiers. These letters are unaffected.
fn is_letter(c: char) -> bool {
    let is_plain = matches!(c,
        '\u{00c0}'..='\u{024f}' | '\u{0386}'..='\u{03ff}' | '\u{0400}'..='\u{0481}' | '\u{048a}'..='\u{052f}'
        | '\u{3041}'..='\u{30ff}' | '\u{4e00}'..='\u{9fa5}' | '\u{ac00}'..='\u{d7a3}');
    c.is_ascii_alphanumeric() || is_plain && c.is_alphabetic()
}

/// Returns the singular of a plural name.
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

/// Used names.
#[derive(Debug, Default)]
pub struct Taken {
    /// The last number appended to each name.
    names: HashMap<String, usize>,
}

impl Taken {
    /// Returns whether the name is in use.
    pub fn has(&self, name: &str) -> bool {
        self.names.contains_key(name)
    }

    /// Reserves the name, with a number added if it is in use.
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
