//! Compares the program's filters with a matcher that tries everything.

use tensorfile_cli::Filter;

use crate::budget::bounded;
use crate::input::Input;

pub fn run(input: &[u8]) {
    let mut input = Input(input);
    let globs: Vec<String> = (0..1 + input.below(3)).map(|_| text(input.before_nul())).collect();
    let globs: Vec<&str> = globs.iter().map(String::as_str).collect();
    let own = text(input.0);
    let len = globs.iter().map(|glob| glob.len()).sum();
    let Ok(filter) = bounded("parsing", len, || Filter::parse(&globs)) else { return };
    // Globs with brackets, braces or escapes have rules of their own.
    let is_simple = !globs.iter().any(|glob| glob.contains(['[', ']', '{', '}', '\\', ',']));
    for name in [&own, "", "a", "layers.0.weight", "layers.10.bias", "ä.b", "a/b", "a\\b"] {
        let found = bounded("matching", len + name.len(), || filter.matches(name));
        if is_simple {
            let (excludes, includes): (Vec<&str>, Vec<&str>) = globs.iter().partition(|glob| glob.starts_with('!'));
            let any = |globs: &[&str]| globs.iter().any(|glob| matches(glob, name));
            let excludes: Vec<&str> = excludes.iter().map(|glob| &glob[1..]).collect();
            let expected = (includes.is_empty() || any(&includes)) && !any(&excludes);
            assert_eq!(found, expected, "{globs:?} and `{name}`");
        }
    }
}

/// Returns the beginning of a text, because trying all ways takes long.
fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).chars().take(24).collect()
}

/// Returns whether a glob of `*`, `?` and other characters matches.
fn matches(glob: &str, name: &str) -> bool {
    let glob: Vec<char> = glob.chars().collect();
    let name: Vec<char> = name.chars().collect();
    // For each beginning of the name, `true` if the glob so far matches it.
    let mut reached = vec![false; name.len() + 1];
    reached[0] = true;
    for c in glob {
        let mut next = vec![false; name.len() + 1];
        for at in 0..=name.len() {
            next[at] = match c {
                '*' => reached[..=at].contains(&true),
                '?' => at > 0 && reached[at - 1],
                c => at > 0 && reached[at - 1] && name[at - 1] == c,
            };
        }
        reached = next;
    }
    reached[name.len()]
}

/// Inputs: the number of globs minus one, the globs, and a name.
pub fn seeds() -> Vec<Vec<u8>> {
    let texts: &[&str] = &[
        "\0*.weight\0a.weight",
        "\u{1}layers.*\0!*.bias\0layers.0.x",
        "\0{a,b}?[0-9]\0ac7",
        "\0[!a-z]\\*\0Z*",
        "\0?\0ä",
        "\0**\0x",
    ];
    texts.iter().map(|text| text.as_bytes().to_vec()).collect()
}
