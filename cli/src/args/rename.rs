use std::collections::HashMap;
use std::str::FromStr;

use tensorfile::Tensors;
use tensorfile::view::Renamed;

use super::complete::tensor_name_and_new;
use crate::exit::{Failure, Outcome};
use crate::export;

/// The argument that renames tensors.
#[derive(Debug, Clone, clap::Args)]
pub struct Rename {
    /// Rename tensor OLD to NEW; if both end with `*`, replace the prefix OLD of names by NEW
    ///
    /// `encoder.*=model.encoder.*` adds `model.` to names that start with `encoder.`, and `model.*=*` removes it. If given
    /// several times, the first rule that matches a tensor renames it. A rule that renames no tensor is an error.
    #[arg(long = "rename", value_name = "OLD=NEW", allow_hyphen_values = true, add = tensor_name_and_new())]
    renames: Vec<RenameRule>,
}

#[derive(Debug, Clone)]
enum RenameRule {
    Name { old: String, new: String },
    Prefix { old: String, new: String },
}

impl FromStr for RenameRule {
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
                Ok(Self::Name { old, new })
            }
            _ => Err("either both names end with `*` or neither".to_owned()),
        }
    }
}

impl RenameRule {
    fn apply(&self, name: &str) -> Option<String> {
        match self {
            Self::Name { old, new } => (name == old).then(|| new.clone()),
            Self::Prefix { old, new } => name.strip_prefix(old.as_str()).map(|rest| format!("{new}{rest}")),
        }
    }
}

impl Rename {
    /// Returns the tensors under their new names.
    ///
    /// Fails if a rule renames no tensor, or gives a tensor the name of another. Names that several tensors have already, as
    /// in some streams, are left to the writer.
    pub fn apply<'t>(&'t self, tensors: &'t dyn Tensors) -> Outcome<Renamed<'t>> {
        let mut is_used = vec![false; self.renames.len()];
        let mut old_names = HashMap::new();
        for (old, _) in export::list(tensors)? {
            let rule = self.renames.iter().position(|rule| rule.apply(&old).is_some());
            rule.into_iter().for_each(|rule| is_used[rule] = true);
            let new = self.new_name(&old).unwrap_or_else(|| old.clone());
            if let Some(other) = old_names.insert(new.clone(), old.clone())
                && (old != new || other != new)
            {
                return Err(Failure::usage(format_args!(
                    "--rename: `{other}` and `{old}` would both be named `{new}`"
                )));
            }
        }
        match is_used.iter().zip(&self.renames).find(|(is_used, _)| !**is_used) {
            Some((_, RenameRule::Name { old, .. })) => {
                Err(Failure::not_found(format_args!("--rename: no tensor is named `{old}`")))
            }
            Some((_, RenameRule::Prefix { old, .. })) => {
                Err(Failure::not_found(format_args!("--rename: no tensor's name starts with `{old}`")))
            }
            None => Ok(Renamed::new(tensors, |name| self.new_name(name))),
        }
    }

    fn new_name(&self, name: &str) -> Option<String> {
        self.renames.iter().find_map(|rule| rule.apply(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_replace_names_or_prefixes() {
        let renamed = |rule: &str, name: &str| rule.parse::<RenameRule>().unwrap().apply(name);
        assert_eq!(renamed("a=b", "a").as_deref(), Some("b"));
        assert_eq!(renamed("a=b", "a.c"), None);
        assert_eq!(renamed("a.*=b.*", "a.c").as_deref(), Some("b.c"));
        assert_eq!(renamed("*=b.*", "a.c").as_deref(), Some("b.a.c"));
        assert_eq!(renamed("a.*=*", "a.c").as_deref(), Some("c"));
        assert_eq!(renamed("a=b=c", "a").as_deref(), Some("b=c"));
        for wrong in ["a", "a*=b", "a=b*"] {
            assert!(wrong.parse::<RenameRule>().is_err(), "{wrong}");
        }
    }
}
