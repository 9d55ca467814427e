use std::path::{Path, PathBuf};
use std::str::FromStr;

use globset::GlobMatcher;
use indexmap::IndexMap;
use tensorfile::File;

use crate::failure::{At, Failure, Outcome, Verdict};
use crate::filter::glob_of;
use crate::input::Input;
use crate::made::{Made, Planned};
use crate::out::Out;
use crate::target::{Target, beside, bytes};
use crate::writing::Writing;

/// Split a file into several: by size, by the beginnings of names, or by patterns.
///
/// By size, the files are shards with an index, `model-00001-of-00003.ptd` and so on and `model.ptd.index.json`, which
/// other verbs open as one file. Otherwise each is a file by itself. All keep the metadata. The file that is split stays.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Split {
    #[command(flatten)]
    input: Input,
    #[command(flatten)]
    by: By,
    /// The path that the new files are named after; by itself, that of the file
    #[arg(long, value_name = "PATH", conflicts_with = "by")]
    out: Option<PathBuf>,
    #[command(flatten)]
    writing: Writing,
}

#[derive(Debug, clap::Args)]
#[group(required = true, multiple = false)]
struct By {
    /// Write shards of up to this size, such as 5GB, and an index of them
    #[arg(long, value_name = "SIZE", value_parser = bytes)]
    max_shard_size: Option<u64>,
    /// Write a file for each beginning of names of N parts between dots: `model-encoder.ptd`, `model-head.ptd`
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    by_prefix: Option<u16>,
    /// Write the tensors whose names match to a file, of the format that its extension tells
    ///
    /// Given several times, a tensor goes to the first that it matches. One that matches none is an error; a last `*=FILE` takes
    /// the rest.
    #[arg(long, value_name = "GLOB=OUT")]
    by: Vec<Pattern>,
}

#[derive(Debug, Clone)]
struct Pattern {
    glob: GlobMatcher,
    path: PathBuf,
}

impl FromStr for Pattern {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (glob, path) = text.split_once('=').ok_or("expected GLOB=OUT")?;
        let glob = glob_of(glob).map_err(|error| error.to_string())?.compile_matcher();
        Ok(Self { glob, path: path.into() })
    }
}

const EXAMPLES: &str = "\
Examples:
  tensorfile split model.ptd --max-shard-size 5GB
  tensorfile split model.ptd --by-prefix 1
  tensorfile split model.ptd --by 'encoder.*=encoder.ptd' --by '*=rest.ptd'";

impl Split {
    pub fn run(&self, out: &mut Out) -> Outcome {
        let file = self.input.open()?;
        let path = self.input.path();
        let metadata = file.metadata().at(path)?.entries;
        // By itself, the files are as the one that is split; else as their names tell.
        let format = Some(file.format()).filter(|_| self.by.by.is_empty() && self.out.is_none());
        let mut outputs = Vec::new();
        for (place, tensors) in self.groups(&file)? {
            let target = Target::new(&place, format)?.in_shards(self.by.max_shard_size);
            outputs.push(self.writing.plan(Made::of(tensors)?, metadata.clone(), target)?);
        }
        // Nothing is written before all could be.
        outputs.iter().try_for_each(|output| self.writing.write(output, out))?;
        Ok(Verdict::Fine)
    }

    /// The tensors of each new file.
    fn groups<'f>(&'f self, file: &'f File) -> Outcome<IndexMap<PathBuf, Vec<Planned<'f>>>> {
        let mut groups: IndexMap<PathBuf, Vec<Planned<'f>>> = IndexMap::new();
        for tensor in Planned::of(file, self.input.path()) {
            groups.entry(self.place(&tensor.name)?).or_default().push(tensor);
        }
        Ok(groups)
    }

    fn place(&self, name: &str) -> Outcome<PathBuf> {
        if !self.by.by.is_empty() {
            let found = self.by.by.iter().find(|pattern| pattern.glob.is_match(name));
            let none = || Failure::usage(format_args!("`{name}` matches no --by; a last `*=FILE` would take it"));
            return found.map(|pattern| pattern.path.clone()).ok_or_else(none);
        }
        let base = self.base()?;
        let Some(parts) = self.by.by_prefix else { return Ok(base.to_owned()) };
        let end = name.match_indices('.').nth(usize::from(parts) - 1).map_or(name.len(), |(dot, _)| dot);
        match &name[..end] {
            prefix if prefix.contains(['/', '\\', '\0']) => {
                Err(Failure::usage(format_args!("`{name}` begins with what is no name of a file")))
            }
            prefix => Ok(beside(base, prefix)),
        }
    }

    /// What the new files are named after.
    fn base(&self) -> Outcome<&Path> {
        let own = self.input.path();
        let path = self.out.as_deref().unwrap_or(own);
        let is_file = self.out.is_some() || self.input.is_file();
        // Shards that are split anew are named as they were.
        let text = path.to_str().and_then(|text| text.strip_suffix(".index.json"));
        match is_file {
            true => Ok(text.map_or(path, Path::new)),
            false => Err(Failure::usage("standard input has no name that files could have; give --out")),
        }
    }
}
