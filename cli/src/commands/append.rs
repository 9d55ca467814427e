use std::path::{Path, PathBuf};

use tensorfile::File;
use tensorfile::Tensors;
use tensorfile::atomic::FileLock;
use tensorfile::view::Renamed;

use crate::args::{Target, WriteArgs, display_name, file_at, is_stdin, open};
use crate::exit::{At, Failure, Outcome, Verdict};
use crate::export::{Duplicates, Export, Joined, Kept, Source};
use crate::output::Stdout;

/// Add the tensors of other files to a file.
///
/// The file keeps its format and its metadata; the metadata of the other files is ignored. A new file is written and
/// replaces the old one when it is complete. Commands that append to the same file at the same time wait for each other.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Append {
    /// The file to extend
    file: PathBuf,
    /// The files with the tensors to add, in any format; `-` for standard input
    #[arg(required = true, value_name = "OTHER")]
    others: Vec<PathBuf>,
    /// Replace tensors by those with the same name in later files
    #[arg(long)]
    replace: bool,
    #[command(flatten)]
    write: WriteArgs,
}

const EXAMPLES: &str = "\
Examples:
  tensorfile append model.ptd lora.ptd
  tensorfile append model.ptd fixed.tbs --replace
  tensorfile append model.ptd one.ten two.ten --dry-run";

impl Append {
    pub fn run(&self, out: &mut Stdout) -> Outcome {
        out.expect_json(self.write.json);
        let path = file_at(&self.file)?;
        // Otherwise two commands would read the same old file, and the later one would drop what the other added.
        let is_written = !self.write.dry_run && !is_stdin(&path);
        let _lock = is_written.then(|| FileLock::acquire(&path).at(&path)).transpose()?;
        let file = open(&path, None)?;
        if !file.shards().is_empty() {
            let advice = "cannot append to an index of shards; `tensorfile merge` makes one file of them";
            return Err(Failure::usage_at(&path, advice));
        }
        let others: Vec<(File, &Path)> =
            self.others.iter().map(|path| Ok((open(path, None)?, display_name(path)))).collect::<Outcome<_>>()?;

        let base = Source::new(&file, &path);
        let sources: Vec<Source<'_>> = others.iter().map(|(other, path)| Source::new(other, path)).collect();
        let mut count = file.len();
        let mut renamed = Vec::with_capacity(others.len());
        for ((other, _), source) in others.iter().zip(&sources) {
            renamed.push(renumbered(other, source, count));
            count += other.len();
        }
        let mut parts: Vec<(&dyn Tensors, &Path)> = vec![(&base, path.as_path())];
        parts.extend(renamed.iter().zip(&others).map(|(tensors, (_, path))| (tensors as &dyn Tensors, *path)));
        let duplicates = match self.replace {
            true => Duplicates::Replace,
            false => Duplicates::Refuse { hint: "; --replace keeps that of the later file" },
        };
        let joined = Joined::new(&parts, duplicates)?;

        let target = Target::new(&path, Some(file.format()))?;
        let mut kept = Kept::of(&file, &path)?;
        others.iter().try_for_each(|(other, path)| Kept::of(other, path).map(|other| kept.join(&other)))?;
        let export = Export::plan(&self.write, &joined, kept, target)?;
        Export::run_all(&[export], &self.write, &Vec::new, out)?;
        Ok(Verdict::Pass)
    }
}

/// Numbers the tensors without names from `first` on, as they follow that many others.
fn renumbered<'t>(file: &'t File, source: &'t Source<'_>, first: usize) -> Renamed<'t> {
    Renamed::new(source, move |name| {
        let tensor = file.get(name).ok().filter(|tensor| !tensor.has_name())?;
        Some((first + tensor.position()).to_string())
    })
}
