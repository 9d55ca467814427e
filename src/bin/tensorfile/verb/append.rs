use std::collections::HashMap;
use std::path::PathBuf;

use crate::failure::{At, Failure, Outcome, Verdict};
use crate::input::{self, name_of};
use crate::made::{Made, Planned};
use crate::out::Out;
use crate::target::Target;
use crate::writing::Writing;

/// Add the tensors of other files to a file.
///
/// The file keeps its format and its metadata; those of the others are not looked at. It is written anew beside the old
/// one, which it replaces once it is whole.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Append {
    /// The file that gets more tensors
    file: PathBuf,
    /// The files whose tensors are added, of any format; `-` for standard input
    #[arg(required = true, value_name = "OTHER")]
    others: Vec<PathBuf>,
    /// Let tensors of later files take the place of those of the same name
    #[arg(long)]
    replace: bool,
    #[command(flatten)]
    writing: Writing,
}

const EXAMPLES: &str = "\
Examples:
  tensorfile append model.ptd lora.ptd
  tensorfile append model.ptd fixed.tbs --replace
  tensorfile append model.ptd one.ten two.ten --dry-run";

impl Append {
    pub fn run(&self, out: &mut Out) -> Outcome {
        let file = input::open(&self.file, None)?;
        if !file.shards().is_empty() {
            let path = self.file.display();
            return Err(Failure::usage(format_args!("{path}: is an index of shards; `tensorfile merge` makes one file of them")));
        }
        let mut opened = Vec::with_capacity(self.others.len());
        for path in &self.others {
            opened.push((input::open(path, None)?, name_of(path)));
        }

        let mut tensors: Vec<_> = Planned::of(&file, &self.file).collect();
        for (other, path) in &opened {
            add(&mut tensors, Planned::of(other, path), self.replace);
        }
        let target = Target::new(&self.file, Some(file.format()))?;
        let output = self.writing.plan(Made::of(tensors)?, file.metadata().at(&self.file)?.entries, target)?;
        self.writing.write(&output, out)?;
        Ok(Verdict::Fine)
    }
}

/// Adds tensors, in the place of those of the same name where that is asked for. Those without names get the next
/// positions.
fn add<'f>(tensors: &mut Vec<Planned<'f>>, others: impl Iterator<Item = Planned<'f>>, replace: bool) {
    let before = tensors.len();
    let places = tensors.iter().enumerate().filter(|_| replace).map(|(at, tensor)| (tensor.name.clone(), at));
    let places: HashMap<String, usize> = places.collect();
    for (at, mut other) in others.enumerate() {
        if !other.source.has_name() {
            other.name = (before + at).to_string();
        }
        match places.get(&other.name) {
            Some(&at) => tensors[at] = other,
            None => tensors.push(other),
        }
    }
}
