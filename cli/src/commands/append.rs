use std::path::{Path, PathBuf};

use tensorfile::File;
use tensorfile::Tensors;
use tensorfile::file::atomic::FileLock;
use tensorfile::view::FileView;

use crate::args::{NewNames, Rename, Target, Unnamed, WriteArgs, display_name, expand_joined, file_at, is_stdin, open};
use crate::exit::{At, Failure, Outcome, Verdict};
use crate::export::{Export, Kept, join};
use crate::output::Stdout;

/// Add the tensors of other files to a file.
///
/// The file keeps its format and its metadata; the metadata of the other files is ignored. A new file is written, and
/// replaces the old one when it is complete. If you run several of these commands on one file at the same time, they
/// wait for each other.
///
/// If a tensor has no name, as in npy files, it is named after its file, unless FILE has no names either. Use --rename
/// to rename the tensors of the other files.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Append {
    /// The file to extend
    file: PathBuf,
    /// The files with the tensors to add, in any format, or directories or patterns of them; `-` for standard input
    #[arg(required = true, value_name = "OTHER")]
    others: Vec<PathBuf>,
    /// Replace tensors by those with the same name in later files
    #[arg(long)]
    replace: bool,
    #[command(flatten)]
    rename: Rename,
    #[command(flatten)]
    write: WriteArgs,
}

const EXAMPLES: &str = "\
Examples:
  tensorfile append model.ptd lora.ptd
  tensorfile append model.ptd fixed.tbs --replace
  tensorfile append model.ptd one.ten two.ten --dry-run
  tensorfile append model.ptd head.npy --rename '#0=head.weight'";

impl Append {
    pub fn run(&self, out: &mut Stdout) -> Outcome {
        out.expect_json(self.write.json);
        let path = file_at(&self.file)?;
        // Otherwise two commands would read the same old file, and the later one would drop the tensors added by the
        // other.
        let is_written = !self.write.dry_run && !is_stdin(&path);
        let _lock = is_written.then(|| FileLock::acquire(&path).at(&path)).transpose()?;
        let file = open(&path, None)?;
        if !file.shards().is_empty() {
            let advice = "cannot append to a model in shards; `tensorfile merge` makes one file of them";
            return Err(Failure::usage_at(&path, advice));
        }
        let others = expand_joined(&self.others)?;
        let others: Vec<(File, &Path)> =
            others.iter().map(|path| Ok((open(path, None)?, display_name(path)))).collect::<Outcome<_>>()?;

        let base = FileView::new(&file, &path);
        let opened: Vec<(&File, &Path)> = others.iter().map(|(other, path)| (other, *path)).collect();
        let names = self.rename.new_names(&opened, self.unnamed(&file), None)?;
        for (new, (_, path)) in names.iter().zip(&others) {
            new.expect_unique(path)?;
        }
        let sources: Vec<FileView<'_>> = names.iter().zip(&others).map(|(new, (_, path))| new.view(path)).collect();
        let mut parts: Vec<(&dyn Tensors, &Path)> = vec![(&base, path.as_path())];
        parts.extend(sources.iter().map(|source| (source as &dyn Tensors, source.path())));
        let hint = "; --replace keeps that of the later file, and --rename renames it";
        let joined = join(&parts, (!self.replace).then_some(hint))?;

        let target = Target::new(&path, Some(file.format()))?;
        let mut kept = Kept::of(&file, &path)?;
        others.iter().try_for_each(|(other, path)| Kept::of(other, path).map(|other| kept.join(&other)))?;
        let export = Export::plan(&self.write, &joined, kept, target)?.with_note(NewNames::note(&names));
        Export::run_all(&[export], &self.write, &Vec::new, out)?;
        Ok(Verdict::Pass)
    }

    /// Returns the names for unnamed tensors. In a file without names, their positions follow the existing ones.
    fn unnamed(&self, file: &File) -> Unnamed {
        let is_named = file.tensors().any(|tensor| tensor.has_name());
        match self.write.unnamed(file.format(), is_named) {
            Unnamed::AfterFile if is_named || file.is_empty() => Unnamed::AfterFile,
            _ => Unnamed::Numbered(file.len()),
        }
    }
}
