use super::complete::tensor_name;
use super::{Glob, InvalidGlob};
use crate::exit::{Failure, Outcome};

/// The argument that chooses tensors by name.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct Filter {
    /// Only tensors whose name matches GLOB; `!GLOB` excludes tensors that match
    ///
    /// `*` matches any text including dots, `?` one character, `[ab]` one of these characters, `{a,b}` one of these
    /// texts. If given several times, a tensor must match at least one GLOB and no `!GLOB`.
    #[arg(long = "filter", value_name = "GLOB", value_parser = FilterGlob::parse, allow_hyphen_values = true,
        add = tensor_name())]
    filters: Vec<FilterGlob>,
}

#[derive(Debug, Clone)]
struct FilterGlob {
    glob: Glob,
    excludes: bool,
}

impl FilterGlob {
    fn parse(text: &str) -> Result<Self, InvalidGlob> {
        let (excludes, glob) = match text.strip_prefix('!') {
            Some(glob) => (true, glob),
            None => (false, text),
        };
        Ok(Self { glob: glob.parse()?, excludes })
    }
}

impl Filter {
    /// Parses globs, as the command line does.
    ///
    /// # Errors
    ///
    /// If a glob is malformed.
    pub fn parse(globs: &[&str]) -> Result<Self, InvalidGlob> {
        let filters = globs.iter().map(|glob| FilterGlob::parse(glob)).collect::<Result<_, _>>()?;
        Ok(Self { filters })
    }

    /// Returns whether every tensor is chosen.
    pub(crate) fn is_empty(&self) -> bool {
        self.filters.is_empty()
    }

    /// Returns whether a tensor with this name is chosen.
    #[must_use]
    pub fn matches(&self, name: &str) -> bool {
        let any = |excludes: bool| {
            let mut patterns = self.filters.iter().filter(move |pattern| pattern.excludes == excludes);
            patterns.any(|pattern| pattern.glob.matches(name))
        };
        let includes_all = self.filters.iter().all(|pattern| pattern.excludes);
        (includes_all || any(false)) && !any(true)
    }

    /// Fails if a filter was given and no tensor matched: a typo would look like a clean result.
    pub(crate) fn expect_some(&self, matched: usize) -> Outcome<()> {
        if !self.filters.is_empty() && matched == 0 {
            Err(Failure::not_found("--filter: no tensor matches"))
        } else {
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matched<'a>(globs: &[&str], names: &[&'a str]) -> Vec<&'a str> {
        let filter = Filter::parse(globs).unwrap();
        names.iter().copied().filter(|name| filter.matches(name)).collect()
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
        assert!(FilterGlob::parse("a[").is_err());
    }
}
