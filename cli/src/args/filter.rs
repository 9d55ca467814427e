use globset::{GlobBuilder, GlobSet, GlobSetBuilder};

use crate::exit::{Failure, Outcome};

/// The argument that chooses tensors by name.
#[derive(Debug, Clone, clap::Args)]
pub struct Filter {
    /// Only tensors whose name matches GLOB; `!GLOB` excludes tensors that match
    ///
    /// `*` matches any text including dots, `?` one character, `[ab]` one of these characters, `{a,b}` one of these texts.
    /// If given several times, a tensor must match at least one GLOB and no `!GLOB`.
    #[arg(long = "filter", value_name = "GLOB", value_parser = Pattern::parse, allow_hyphen_values = true)]
    filters: Vec<Pattern>,
}

#[derive(Debug, Clone)]
struct Pattern {
    glob: globset::Glob,
    excludes: bool,
}

impl Pattern {
    fn parse(text: &str) -> Result<Self, globset::Error> {
        let (excludes, glob) = match text.strip_prefix('!') {
            Some(glob) => (true, glob),
            None => (false, text),
        };
        Ok(Self { glob: parse_glob(glob)?, excludes })
    }
}

/// Parses a glob that matches whole names.
pub fn parse_glob(text: &str) -> Result<globset::Glob, globset::Error> {
    // Names are not paths: `/` and `\` are ordinary characters.
    GlobBuilder::new(text).literal_separator(false).backslash_escape(true).build()
}

impl Filter {
    /// Compiles the globs.
    ///
    /// Fails if they are too large together, although each is valid.
    pub fn build(&self) -> Outcome<Matcher> {
        let set = |excludes| {
            let mut set = GlobSetBuilder::new();
            for pattern in self.filters.iter().filter(|pattern| pattern.excludes == excludes) {
                set.add(pattern.glob.clone());
            }
            set.build().map_err(|error| Failure::usage(format_args!("--filter: {error}")))
        };
        Ok(Matcher { includes: set(false)?, excludes: set(true)? })
    }
}

/// The compiled globs of a [`Filter`].
#[derive(Debug)]
pub struct Matcher {
    includes: GlobSet,
    excludes: GlobSet,
}

impl Matcher {
    /// Returns whether a tensor with this name is chosen.
    pub fn matches(&self, name: &str) -> bool {
        (self.includes.is_empty() || self.includes.is_match(name)) && !self.excludes.is_match(name)
    }

    /// Fails if a filter was given and no tensor matched: a typo would look like a clean result.
    pub fn expect_some(&self, matched: usize) -> Outcome<()> {
        let is_given = !(self.includes.is_empty() && self.excludes.is_empty());
        match is_given && matched == 0 {
            true => Err(Failure::not_found("--filter: no tensor matches")),
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matched<'a>(globs: &[&str], names: &[&'a str]) -> Vec<&'a str> {
        let filters = globs.iter().map(|glob| Pattern::parse(glob).unwrap()).collect();
        let matcher = Filter { filters }.build().unwrap();
        names.iter().copied().filter(|name| matcher.matches(name)).collect()
    }

    #[test]
    fn globs_match_whole_names() {
        let names = ["layers.0.weight", "layers.0.bias", "head.weight", "a/b"];
        assert_eq!(matched(&[], &names), names);
        assert_eq!(matched(&["weight"], &names), [""; 0]);
        assert_eq!(matched(&["*.weight"], &names), ["layers.0.weight", "head.weight"]);
        assert_eq!(matched(&["layers.*", "!*.bias"], &names), ["layers.0.weight"]);
        assert_eq!(matched(&["!*.bias"], &names), ["layers.0.weight", "head.weight", "a/b"]);
        assert_eq!(matched(&["head.*", "a?b"], &names), ["head.weight", "a/b"]);
        assert_eq!(matched(&["{head,layers.[0-9]}.weight"], &names), ["layers.0.weight", "head.weight"]);
    }

    #[test]
    fn rejects_an_invalid_glob() {
        assert!(Pattern::parse("a[").is_err());
    }
}
