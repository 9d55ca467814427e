//! The arguments for new names of tensors.

use std::path::Path;

use hashbrown::{HashMap, HashSet};
use tensorfile::File;
use tensorfile::file::FileTensor;
use tensorfile::view::{FileView, RenameRule, names_after_file};

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
///
/// Most often, a file of a million tensors keeps all of its names. Then none is copied.
#[derive(Debug, Clone)]
pub struct NewNames<'f> {
    file: &'f File,
    /// The names without the rules, by position, unless they are those of the file.
    old: Option<Vec<String>>,
    /// The new names by position, unless all tensors keep their old ones.
    new: Option<Vec<String>>,
    /// The positions of the written tensors, unless all are written.
    pub chosen: Option<Vec<usize>>,
    /// The names taken from the path of the file.
    after_file: Vec<String>,
}

impl Rename {
    /// Returns whether there are no rules.
    pub fn is_empty(&self) -> bool {
        self.renames.is_empty()
    }

    /// Returns the new names for the tensors of files, for each file. `chosen` tells the tensors that are written from
    /// the others.
    ///
    /// Fails if a rule renames no tensor. [`NewNames::expect_unique`] checks that names stay distinct.
    pub fn new_names<'f>(
        &self,
        files: &[(&'f File, &Path)],
        unnamed: Unnamed,
        chosen: Option<&dyn Fn(&FileTensor<'_>) -> bool>,
    ) -> Outcome<Vec<NewNames<'f>>> {
        let mut is_used = vec![false; self.renames.len()];
        let mut all = Vec::with_capacity(files.len());
        let mut first = 0;
        for (file, _) in files {
            let mut new = NewNames::of(file, unnamed, first);
            new.chosen = chosen.map(|is_chosen| {
                file.tensors().filter(is_chosen).map(|tensor| tensor.position()).collect::<Vec<usize>>()
            });
            let is_renamed = self.rename(&mut new, first, &mut is_used);
            if unnamed == Unnamed::AfterFile && new.old.is_some() {
                let has_name = |i: usize| file.nth(i).is_some_and(|tensor| tensor.has_name());
                let kept = new.positions().filter(|i| !has_name(*i) && !is_renamed.contains(i));
                new.after_file = kept.map(|i| new.old_name(i).to_owned()).collect();
            }
            first += file.len();
            all.push(new);
        }
        match self.renames.iter().zip(&is_used).find(|(_, is_used)| !**is_used) {
            Some((rule, _)) => {
                let names = all.iter().flat_map(|new| new.positions().map(|i| new.old_name(i)));
                let unused = tensorfile::Error::from(rule.unused(&names.collect::<Vec<_>>()));
                Err(Failure::not_found(format_args!("--rename: {unused}")))
            }
            None => Ok(all),
        }
    }

    /// Renames the tensors of a file by the rules, and returns the positions of those without names. `first` is the number
    /// of tensors of earlier files.
    fn rename(&self, names: &mut NewNames<'_>, first: usize, is_used: &mut [bool]) -> HashSet<usize> {
        let mut unnamed = HashSet::new();
        if self.renames.is_empty() {
            return unnamed;
        }
        let mut new: Vec<String> = (0..names.file.len()).map(|i| names.old_name(i).to_owned()).collect();
        for i in names.positions() {
            let Some(tensor) = names.file.nth(i) else { continue };
            // A tensor without a name also goes by its position in the file.
            let by_rule = |rule: &RenameRule| {
                let by_number = || rule.rename(first + i, tensor.name()).filter(|_| !tensor.has_name());
                rule.rename(first + i, names.old_name(i)).or_else(by_number)
            };
            let mut renamed = self.renames.iter().map(by_rule).zip(&mut *is_used);
            if let Some((name, is_used)) = renamed.find_map(|(name, is_used)| Some((name?, is_used))) {
                *is_used = true;
                new[i] = name;
                if !tensor.has_name() {
                    unnamed.insert(i);
                }
            }
        }
        names.new = Some(new);
        unnamed
    }
}

impl<'f> NewNames<'f> {
    /// The names of a file without rules. `first` is the number of tensors of earlier files.
    fn of(file: &'f File, unnamed: Unnamed, first: usize) -> Self {
        let old = match unnamed {
            _ if file.tensors().all(|tensor| tensor.has_name()) => None,
            Unnamed::AfterFile => Some(names_after_file(file)),
            // The file numbers them in the same way.
            Unnamed::Numbered(number) if number + first == 0 => None,
            Unnamed::Numbered(number) => {
                let name = |tensor: FileTensor<'_>| match tensor.has_name() {
                    true => tensor.name().to_owned(),
                    false => (number + first + tensor.position()).to_string(),
                };
                Some(file.tensors().map(name).collect())
            }
        };
        Self { file, old, new: None, chosen: None, after_file: Vec::new() }
    }

    /// Returns the tensors under their new names, without those that are not written.
    pub fn view<'n>(&'n self, path: &'n Path) -> FileView<'n> {
        let mut view = FileView::new(self.file, path);
        if let Some(names) = self.new.as_deref().or(self.old.as_deref()) {
            view = view.with_names(names);
        }
        match &self.chosen {
            Some(chosen) => view.with_positions(chosen.clone()),
            None => view,
        }
    }

    /// Returns the new name of the tensor at a position.
    pub fn name(&self, i: usize) -> &str {
        self.new.as_ref().map_or_else(|| self.old_name(i), |names| names[i].as_str())
    }

    fn old_name(&self, i: usize) -> &str {
        let in_file = || self.file.nth(i).map_or("", |tensor| tensor.name());
        self.old.as_ref().map_or_else(in_file, |names| names[i].as_str())
    }

    /// Returns the positions of the written tensors.
    fn positions(&self) -> impl Iterator<Item = usize> {
        let all = if self.chosen.is_none() { 0..self.file.len() } else { 0..0 };
        self.chosen.iter().flatten().copied().chain(all)
    }

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
        self.new = Some((0..self.file.len()).map(|i| format!("{prefix}.{}", self.name(i))).collect());
    }

    /// Fails if one of the written tensors gets the name of another.
    pub fn expect_unique(&self, path: &Path) -> Outcome<()> {
        self.expect_unique_among(path, &mut self.positions())
    }

    /// Fails if one of these tensors gets the name of another. Names repeated already, as in some streams, are left to
    /// the writer.
    pub fn expect_unique_among(&self, path: &Path, positions: &mut dyn Iterator<Item = usize>) -> Outcome<()> {
        if self.new.is_none() {
            return Ok(());
        }
        let mut old_names = HashMap::new();
        for i in positions {
            let (old, new) = (self.old_name(i), self.name(i));
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
