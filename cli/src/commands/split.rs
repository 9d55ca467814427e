use std::path::{Path, PathBuf};
use std::str::FromStr;

use indexmap::IndexMap;
use tensorfile::File;
use tensorfile::view::FileView;

use crate::args::{Glob, Input, InvalidGlob, NewNames, NoClobber, Rename, Target, Unnamed, WriteArgs, parse_bytes};
use crate::exit::{Failure, Outcome, Verdict};
use crate::export::{Export, Kept, torn};
use crate::identity::is_same_file;
use crate::output::{Stdout, note};

/// Split a file by size, by the prefixes of names, or by patterns.
///
/// By size, you get shards, `model-00001-of-00003.ptd` and so on, and an index, `model.ptd.index.json`, which all
/// commands open as one file. If one file is enough, nothing is written unless you pass --out. By names, the new files
/// are independent. Each has the metadata of FILE, and FILE is not changed. Use --rename to rename the tensors in the
/// new files; --by and --by-prefix match the old names.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Split {
    #[command(flatten)]
    input: Input,
    #[command(flatten)]
    by: By,
    /// The path from which the names of new files are derived; by default, the path of the file
    #[arg(long, short, visible_alias = "output", value_name = "PATH", conflicts_with = "by")]
    out: Option<PathBuf>,
    #[command(flatten)]
    no_clobber: NoClobber,
    #[command(flatten)]
    rename: Rename,
    #[command(flatten)]
    write: WriteArgs,
}

#[derive(Debug, clap::Args)]
#[group(required = true, multiple = false)]
struct By {
    /// Write shards of at most this size, such as 5GB, and an index of them
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    max_shard_size: Option<u64>,
    /// Write a file for each prefix of N segments of names, such as `model-encoder.ptd` and `model-head.ptd`
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    by_prefix: Option<u16>,
    /// Write the tensors whose names match GLOB to OUT, in the format of its extension
    ///
    /// If given several times, a tensor goes to the first OUT whose GLOB matches. A tensor that matches none is an
    /// error; end with `*=OUT` to write all others to OUT. Any other GLOB that gets no tensor is an error too.
    #[arg(long, value_name = "GLOB=OUT")]
    by: Vec<SplitRule>,
}

#[derive(Debug, Clone)]
struct SplitRule {
    glob: Glob,
    /// The glob as it was given.
    text: String,
    path: PathBuf,
}

impl FromStr for SplitRule {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (text, path) = text.split_once('=').ok_or("expected GLOB=OUT")?;
        let glob = text.parse().map_err(|error: InvalidGlob| error.to_string())?;
        Ok(Self { glob, text: text.to_owned(), path: path.into() })
    }
}

const EXAMPLES: &str = "\
Examples:
  tensorfile split model.ptd --max-shard-size 5GB
  tensorfile split model.ptd --by-prefix 1
  tensorfile split model.ptd --by 'encoder.*=encoder.ptd' --by '*=rest.ptd'
  tensorfile split model.ptd --by 'encoder.*=encoder.ptd' --by '*=rest.ptd' --rename 'encoder.*=*'";

impl Split {
    pub fn run(&self, out: &mut Stdout) -> Outcome {
        out.expect_json(self.write.json);
        let file = self.input.open()?;
        let path = self.input.path();
        let kept = Kept::of(&file, path)?;
        // Files named after the input have its format. Others have the format of their extension.
        let format = Some(file.format()).filter(|_| self.by.by.is_empty() && self.out.is_none());
        let groups = self.groups(&file)?;
        let targets = groups.keys().map(|path| {
            let keeps = file.path().is_some_and(|input| is_same_file(path, input));
            Target::new(path, format)?.in_shards(self.by.max_shard_size).keep_single(keeps).guard(self.no_clobber)
        });
        let targets: Vec<Target> = targets.collect::<Outcome<_>>()?;
        // Several tensors without names stay a list, as in `convert`.
        let unnamed = match targets.as_slice() {
            [target] if file.len() == 1 => self.write.unnamed(target.format, false),
            _ => Unnamed::Numbered(0),
        };
        let names = self.rename.new_names(&[(&file, path)], unnamed, None)?;
        for positions in groups.values() {
            names[0].expect_unique_among(path, &mut positions.iter().copied())?;
        }
        // Shards are opened together, and their parts find each other.
        let apart = self.by.max_shard_size.is_none().then(|| {
            let place = |position| groups.values().position(|positions| positions.binary_search(&position).is_ok());
            torn(&file, &place)
        });
        if let Some(torn) = apart.flatten() {
            note(format_args!("{}: {torn}", path.display()));
        }
        let source = names[0].view(path);
        let subsets: Vec<FileView<'_>> =
            groups.into_values().map(|positions| source.with_positions(positions)).collect();
        // All files are checked before the first one is written.
        let mut exports = Vec::with_capacity(subsets.len());
        for (subset, target) in subsets.iter().zip(targets) {
            let export = Export::plan(&self.write, subset, kept.clone(), target)?;
            exports.push(export.with_note(NewNames::note(&names)));
        }
        if self.by.max_shard_size.is_some() && self.out.is_none() {
            // One file would replace the input.
            exports.retain(|export| export.files() > 1);
            if exports.is_empty() {
                let path = path.display();
                note(format_args!("{path}: one file is enough, so nothing is written; --out writes it"));
            }
        }
        for export in exports.iter().filter(|export| export.files() == 1) {
            let mut inputs = file.path().into_iter().chain(file.shards().iter().map(PathBuf::as_path));
            if inputs.any(|input| is_same_file(input, export.path())) {
                return Err(Failure::usage_at(export.path(), "the file that is split would be replaced"));
            }
        }
        Export::run_all(&exports, &self.write, &Vec::new, out)?;
        Ok(Verdict::Pass)
    }

    /// Returns the positions of the tensors in each new file.
    fn groups(&self, file: &File) -> Outcome<IndexMap<PathBuf, Vec<usize>>> {
        let mut groups: IndexMap<PathBuf, Vec<usize>> = IndexMap::new();
        for tensor in file.tensors() {
            groups.entry(self.path_for(file, tensor.name())?).or_default().push(tensor.position());
        }
        self.expect_used(file)?;
        Ok(groups)
    }

    /// Fails if a glob has no tensor, so that its file would be missing. There may be no others for `*`.
    fn expect_used(&self, file: &File) -> Outcome<()> {
        let mut is_used = vec![false; self.by.by.len()];
        for tensor in file.tensors() {
            let rule = self.by.by.iter().position(|rule| rule.glob.matches(tensor.name()));
            rule.into_iter().for_each(|rule| is_used[rule] = true);
        }
        let mut unused = self.by.by.iter().zip(is_used).filter(|(rule, is_used)| !is_used && rule.text != "*");
        match unused.next() {
            Some((SplitRule { text, .. }, _)) => {
                let message = format_args!("--by: no tensor matches `{text}`, or all of them match an earlier --by");
                Err(Failure::not_found(message))
            }
            None => Ok(()),
        }
    }

    /// Returns the path of the new file that a tensor goes to.
    fn path_for(&self, file: &File, name: &str) -> Outcome<PathBuf> {
        if !self.by.by.is_empty() {
            let pattern = self.by.by.iter().find(|pattern| pattern.glob.matches(name));
            let no_match =
                || Failure::usage(format_args!("`{name}` matches no --by; end with `*=OUT` to match all others"));
            return pattern.map(|pattern| pattern.path.clone()).ok_or_else(no_match);
        }
        let base = self.base(file)?;
        let Some(segments) = self.by.by_prefix else { return Ok(base.to_owned()) };
        let end = name.match_indices('.').nth(usize::from(segments) - 1).map_or(name.len(), |(dot, _)| dot);
        match &name[..end] {
            prefix if prefix.contains(['/', '\\', '\0']) => {
                Err(Failure::usage(format_args!("the prefix of `{name}` cannot be part of a file name")))
            }
            prefix => Ok(with_suffix(base, prefix)),
        }
    }

    /// Returns the path from which the names of new files are derived.
    fn base<'a>(&'a self, file: &'a File) -> Outcome<&'a Path> {
        if self.out.is_none() && self.input.is_stdin() {
            return Err(Failure::usage("standard input has no name from which to derive those of files; use --out"));
        }
        let path = self.out.as_deref().or(file.path()).unwrap_or(self.input.path());
        // New shards of sharded files are named as the old ones.
        Ok(path.to_str().and_then(|path| path.strip_suffix(".index.json")).map_or(path, Path::new))
    }
}

/// Adds `-` and a suffix to the name of a file, before its extension.
fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.file_stem().unwrap_or_default().to_owned();
    name.push(format!("-{suffix}"));
    if let Some(extension) = path.extension() {
        name.push(".");
        name.push(extension);
    }
    path.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suffixes_precede_the_extension() {
        assert_eq!(with_suffix(Path::new("a/model.v1.ptd"), "encoder"), Path::new("a/model.v1-encoder.ptd"));
        assert_eq!(with_suffix(Path::new("model"), "encoder"), Path::new("model-encoder"));
    }
}
