//! `--rename`: other names for tensors.

use std::str::FromStr;

use crate::failure::{Failure, Outcome};
use crate::made::Planned;

/// What tensors are called.
#[derive(Debug, Clone, clap::Args)]
pub struct Renaming {
    /// Call the tensor OLD by the name NEW; where both end with `*`, that is the rest of any name
    ///
    /// `encoder.*=model.encoder.*` puts `model.` before the names that begin with `encoder.`, and `model.*=*` takes it off
    /// again. Given several times, the first one that fits a tensor renames it. One that fits none is an error.
    #[arg(long = "rename", value_name = "OLD=NEW", allow_hyphen_values = true)]
    renames: Vec<Rule>,
}

#[derive(Debug, Clone)]
enum Rule {
    Whole { old: String, new: String },
    Prefix { old: String, new: String },
}

impl FromStr for Rule {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (old, new) = text.split_once('=').ok_or("expected OLD=NEW")?;
        let owned = |old: &str, new: &str| (old.to_owned(), new.to_owned());
        match (old.strip_suffix('*'), new.strip_suffix('*')) {
            (Some(old), Some(new)) => {
                let (old, new) = owned(old, new);
                Ok(Self::Prefix { old, new })
            }
            (None, None) => {
                let (old, new) = owned(old, new);
                Ok(Self::Whole { old, new })
            }
            _ => Err("either both names end with `*` or none".to_owned()),
        }
    }
}

impl Rule {
    fn apply(&self, name: &str) -> Option<String> {
        match self {
            Self::Whole { old, new } => (name == old).then(|| new.clone()),
            Self::Prefix { old, new } => name.strip_prefix(old.as_str()).map(|rest| format!("{new}{rest}")),
        }
    }
}

impl Renaming {
    /// Renames what is to be renamed.
    pub fn apply(&self, tensors: &mut [Planned<'_>]) -> Outcome<()> {
        let mut is_used = vec![false; self.renames.len()];
        for tensor in tensors {
            let renamed = self.renames.iter().enumerate().find_map(|(at, rule)| Some((at, rule.apply(&tensor.name)?)));
            if let Some((at, name)) = renamed {
                is_used[at] = true;
                tensor.name = name;
            }
        }
        match is_used.iter().zip(&self.renames).find(|(is_used, _)| !**is_used) {
            Some((_, Rule::Whole { old, .. })) => {
                Err(Failure::finding(format_args!("--rename: no tensor is named `{old}`")))
            }
            Some((_, Rule::Prefix { old, .. })) => {
                Err(Failure::finding(format_args!("--rename: no tensor's name begins with `{old}`")))
            }
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_renamed_whole_or_by_their_beginning() {
        let renamed = |rule: &str, name: &str| rule.parse::<Rule>().unwrap().apply(name);
        assert_eq!(renamed("a=b", "a").as_deref(), Some("b"));
        assert_eq!(renamed("a=b", "a.c"), None);
        assert_eq!(renamed("a.*=b.*", "a.c").as_deref(), Some("b.c"));
        assert_eq!(renamed("*=b.*", "a.c").as_deref(), Some("b.a.c"));
        assert_eq!(renamed("a.*=*", "a.c").as_deref(), Some("c"));
        assert_eq!(renamed("a=b=c", "a").as_deref(), Some("b=c"));
        for wrong in ["a", "a*=b", "a=b*"] {
            assert!(wrong.parse::<Rule>().is_err(), "{wrong}");
        }
    }
}
