//! Which tensors a verb is about.

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};

use crate::failure::{Failure, Outcome};

/// `--filter`, for verbs that go over the tensors of a file.
#[derive(Debug, Clone, clap::Args)]
pub struct Filter {
    /// Only tensors whose name matches; `!GLOB` leaves out those that match
    ///
    /// `*` is any text, dots included, `?` one character, `[ab]` one of these, `{a,b}` either. Given several times, a
    /// tensor is kept that any of them keeps and none leaves out.
    #[arg(long = "filter", value_name = "GLOB", value_parser = parse, allow_hyphen_values = true)]
    globs: Vec<Glob>,
}

#[derive(Debug, Clone)]
struct Glob {
    glob: globset::Glob,
    excludes: bool,
}

fn parse(text: &str) -> Result<Glob, globset::Error> {
    let (excludes, glob) = match text.strip_prefix('!') {
        Some(glob) => (true, glob),
        None => (false, text),
    };
    Ok(Glob { glob: glob_of(glob)?, excludes })
}

/// The glob that a text is, on names.
pub fn glob_of(text: &str) -> Result<globset::Glob, globset::Error> {
    // A name is no path: `/` is a character as any other, and so is `\` but before a special one.
    GlobBuilder::new(text).literal_separator(false).backslash_escape(true).build()
}

impl Filter {
    /// The filter, ready to be asked.
    ///
    /// Each glob is fine by itself; together they may still be more than an automaton takes.
    pub fn build(&self) -> Outcome<Matcher> {
        let set = |excludes| {
            let mut set = GlobSetBuilder::new();
            for glob in self.globs.iter().filter(|glob| glob.excludes == excludes) {
                set.add(glob.glob.clone());
            }
            set.build().map_err(|error| Failure::usage(format_args!("--filter: {error}")))
        };
        Ok(Matcher { includes: set(false)?, excludes: set(true)? })
    }
}

/// Tells whether a tensor is meant.
#[derive(Debug)]
pub struct Matcher {
    includes: GlobSet,
    excludes: GlobSet,
}

impl Matcher {
    /// Refuses to go on about no tensors, where the globs are why: a slip of the finger would pass for a clean bill.
    pub fn expect_some(&self, kept: usize) -> Outcome<()> {
        let is_filter = !(self.includes.is_empty() && self.excludes.is_empty());
        match is_filter && kept == 0 {
            true => Err(Failure::finding("--filter: no tensor has such a name")),
            false => Ok(()),
        }
    }

    /// Whether the tensor of that name is meant.
    pub fn keeps(&self, name: &str) -> bool {
        (self.includes.is_empty() || self.includes.is_match(name)) && !self.excludes.is_match(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept<'a>(globs: &[&str], names: &[&'a str]) -> Vec<&'a str> {
        let globs = globs.iter().map(|glob| parse(glob).unwrap()).collect();
        let matcher = Filter { globs }.build().unwrap();
        names.iter().copied().filter(|name| matcher.keeps(name)).collect()
    }

    #[test]
    fn globs_are_on_whole_names() {
        let names = ["layers.0.weight", "layers.0.bias", "head.weight", "a/b"];
        assert_eq!(kept(&[], &names), names);
        assert_eq!(kept(&["weight"], &names), [""; 0]);
        assert_eq!(kept(&["*.weight"], &names), ["layers.0.weight", "head.weight"]);
        assert_eq!(kept(&["layers.*", "!*.bias"], &names), ["layers.0.weight"]);
        assert_eq!(kept(&["!*.bias"], &names), ["layers.0.weight", "head.weight", "a/b"]);
        assert_eq!(kept(&["head.*", "a?b"], &names), ["head.weight", "a/b"]);
        assert_eq!(kept(&["{head,layers.[0-9]}.weight"], &names), ["layers.0.weight", "head.weight"]);
    }

    #[test]
    fn a_glob_that_is_none_is_told() {
        assert!(parse("a[").is_err());
    }
}
