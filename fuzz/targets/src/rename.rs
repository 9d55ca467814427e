//! Compares the rules of `--rename` with a matcher that tries everything.

use tensorfile::view::RenameRule;

use crate::budget::bounded;
use crate::input::Input;

pub fn run(input: &[u8]) {
    let mut input = Input(input);
    let rule = String::from_utf8_lossy(input.before_nul()).into_owned();
    let own: String = String::from_utf8_lossy(input.0).chars().take(24).collect();
    let Ok(parsed) = bounded("parsing", rule.len(), || rule.parse::<RenameRule>()) else { return };
    let (old, new) = rule.split_once('=').expect("a rule has one");
    for name in [&own, "", "a", "blk.0.attn_q.weight", "layers.10.bias", "ä.b", "aa.aa", "*"] {
        let renamed = bounded("renaming", rule.len() + name.len(), || parsed.rename(7, name));
        assert_eq!(renamed.is_some(), parsed.matches(7, name), "`{rule}` and `{name}`");
        // Escapes and positions have rules of their own.
        if rule.contains('\\') || old.starts_with('#') || old.len() > 24 {
            continue;
        }
        let captures = captures(old, name);
        assert_eq!(renamed.is_some(), captures.is_some(), "`{rule}` and `{name}`");
        if let (Some(renamed), Some(captures)) = (renamed, captures) {
            let mut expected = String::new();
            let mut captures = captures.into_iter();
            new.chars().for_each(|c| match c {
                '*' => expected.push_str(captures.next().expect("both have as many")),
                c => expected.push(c),
            });
            assert_eq!(renamed, expected, "`{rule}` and `{name}`");
        }
    }
}

/// Returns the match of each `*`. From left to right, each is as short as possible.
fn captures<'n>(pattern: &str, name: &'n str) -> Option<Vec<&'n str>> {
    let mut letters = pattern.chars();
    match letters.next() {
        None => name.is_empty().then(Vec::new),
        Some('*') => {
            let ends = name.char_indices().map(|(at, _)| at).chain([name.len()]);
            ends.into_iter().find_map(|end| {
                let mut others = captures(letters.as_str(), &name[end..])?;
                others.insert(0, &name[..end]);
                Some(others)
            })
        }
        Some(own) => captures(letters.as_str(), name.strip_prefix(own)?),
    }
}

/// A rule, and a name.
pub fn seeds() -> Vec<Vec<u8>> {
    let texts: &[&str] = &[
        "blk.*.attn_q.*=layers.*.q.*\0blk.1.attn_q.w",
        "*.*=*/*\0a.b.c",
        "**=*x*\0ab",
        "#7=w\0a",
        "a\\*\\==b\0a*=",
        "aba*aba=*\0ababa",
        "ä*=*\0äö",
        "*a*a*a*b=****\0aaaaaa",
    ];
    texts.iter().map(|text| text.as_bytes().to_vec()).collect()
}
