//! The arguments for new names of tensors.

use std::collections::HashMap;
use std::path::Path;

use tensorfile::File;
use tensorfile::file::FileTensor;
use tensorfile::view::{RenameRule, names_after_file};

use super::complete::tensor_name_and_new;
use crate::exit::{Failure, Outcome};
use crate::export::quoted;

/// The argument that renames tensors.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct Rename {
    /// Rename tensor OLD to NEW; each `*` of OLD matches any text, which replaces the `*` of NEW in their order
    ///
    /// `encoder.*=model.encoder.*` adds `model.` to names that start with `encoder.`, `model.*=*` removes it, and
    /// `blk.*.attn_q.*=model.layers.*.self_attn.q_proj.*` renames that tensor of all layers. `#0=NEW` renames the
    /// tensor at position 0 of what is read, and so does `0=NEW` if it has no name. `\*`, `\=` and `\\` are the
    /// characters.
    ///
    /// If you give several rules, the first one matching a tensor renames it. A rule that renames no tensor is an
    /// error.
    #[arg(long = "rename", value_name = "OLD=NEW", allow_hyphen_values = true, add = tensor_name_and_new())]
    renames: Vec<RenameRule>,
}

/// The names for unnamed tensors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unnamed {
    /// Positions among all written tensors, starting at this number.
    Numbered(usize),
    /// The name of the file without its extension.
    AfterFile,
}

/// The names of the tensors of a file in a new file.
#[derive(Debug, Clone, Default)]
pub struct NewNames {
    /// The names by the positions of the tensors.
    pub names: Vec<String>,
    /// The names without the rules.
    old_names: Vec<String>,
    /// The positions of the written tensors.
    pub chosen: Vec<usize>,
    /// The names taken from the path of the file.
    after_file: Vec<String>,
}

impl Rename {
    /// Returns whether there are no rules.
    pub fn is_empty(&self) -> bool {
        self.renames.is_empty()
    }

    /// Returns the new names for the tensors of files, for each file.
    ///
    /// Fails if a rule renames no tensor. [`NewNames::expect_unique`] checks that names stay distinct.
    pub fn new_names(
        &self,
        files: &[(&File, &Path)],
        unnamed: Unnamed,
        chosen: &dyn Fn(&FileTensor<'_>) -> bool,
    ) -> Outcome<Vec<NewNames>> {
        let mut is_used = vec![false; self.renames.len()];
        let mut all = Vec::with_capacity(files.len());
        let mut first = 0;
        for (file, _) in files {
            let stems = (unnamed == Unnamed::AfterFile).then(|| names_after_file(file));
            let mut new = NewNames { names: Vec::with_capacity(file.len()), ..NewNames::default() };
            for tensor in file.tensors() {
                let (name, position) = (tensor.name(), tensor.position());
                let old = match (unnamed, &stems) {
                    _ if tensor.has_name() => name,
                    (Unnamed::Numbered(number), _) => &(number + first + position).to_string(),
                    (_, Some(stems)) => &stems[position],
                    (_, None) => name,
                };
                // A tensor without a name also goes by its position in the file.
                let rename = |rule: &RenameRule| {
                    let by_number = || rule.rename(first + position, name).filter(|_| !tensor.has_name());
                    rule.rename(first + position, old).or_else(by_number)
                };
                let is_chosen = chosen(&tensor);
                let mut rules = self.renames.iter().map(rename).enumerate().filter(|_| is_chosen);
                let renamed = rules.find_map(|(rule, renamed)| Some((rule, renamed?)));
                if is_chosen {
                    new.chosen.push(position);
                    if renamed.is_none() && stems.is_some() && !tensor.has_name() {
                        new.after_file.push(old.to_owned());
                    }
                }
                new.names.push(match renamed {
                    Some((rule, renamed)) => {
                        is_used[rule] = true;
                        renamed
                    }
                    None => old.to_owned(),
                });
                new.old_names.push(old.to_owned());
            }
            first += file.len();
            all.push(new);
        }
        match self.renames.iter().zip(&is_used).find(|(_, is_used)| !**is_used) {
            Some((rule, _)) => {
                let names =
                    all.iter().flat_map(|new| new.chosen.iter().map(|position| new.old_names[*position].as_str()));
                let unused = tensorfile::Error::from(rule.unused(&names.collect::<Vec<_>>()));
                Err(Failure::not_found(format_args!("--rename: {unused}")))
            }
            None => Ok(all),
        }
    }
}

impl NewNames {
    /// Returns a message listing the names taken from files, if any.
    pub fn note(all: &[Self]) -> Option<String> {
        let names: Vec<String> = all.iter().flat_map(|new| new.after_file.iter().cloned()).collect();
        match (names.len(), quoted(&names)) {
            (0, _) => None,
            (1, name) => Some(format!("the tensor without a name is named after its file: {name}")),
            (_, names) => Some(format!("tensors without names are named after their files: {names}")),
        }
    }

    /// Puts a prefix and a dot before all names.
    pub fn put_under(&mut self, prefix: &str) {
        self.names.iter_mut().for_each(|name| *name = format!("{prefix}.{name}"));
    }

    /// Fails if one of these tensors gets the name of another. Names repeated already, as in some streams, are left to
    /// the writer.
    pub fn expect_unique(&self, path: &Path, positions: &[usize]) -> Outcome<()> {
        let mut old_names = HashMap::new();
        for position in positions {
            let (old, new) = (self.old_names[*position].as_str(), self.names[*position].as_str());
            if let Some(other) = old_names.insert(new, old)
                && (old != new || other != new)
            {
                let message = format_args!("--rename: `{other}` and `{old}` would both be named `{new}`");
                return Err(Failure::usage_at(path, message));
            }
        }
        Ok(())
    }
}
