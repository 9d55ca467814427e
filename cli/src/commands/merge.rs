use std::path::{Path, PathBuf};

use indexmap::map::Entry;
use tensorfile::view::FileView;
use tensorfile::{File, Format, Tensors};

use crate::args::{
    NewNames, NoClobber, Rename, Target, Unnamed, WriteArgs, display_name, expand_joined, is_stdin, is_stdout, open,
    other_parts, written_format_names,
};
use crate::exit::{Failure, Outcome, Verdict};
use crate::export::{Export, Kept, join};
use crate::output::{Stdout, note};

/// Merge several files, or the shards of an index, into one file.
///
/// The last file is the one to write, as in `cp`. If it exists, it is replaced only with --force. If you name the file
/// to write with --output, all others are read, and an existing file is replaced.
///
/// The tensors keep the order of the files. Two tensors with the same name are an error: write `PREFIX=FILE` for FILE
/// to put `PREFIX.` before the names of its tensors, or rename single tensors with --rename, which comes first. `#3` is
/// the tensor at position 3 of all you read. If a tensor has no name, as in npy files, it is named after its file. A
/// directory stands for the tensor files in it.
///
/// Metadata with the same key and different values is an error too. With --lossy, the value of the first file is kept.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, override_usage = USAGE)]
pub struct Merge {
    /// The files to read, in any formats, directories or patterns of them, or the index of shards, and then the file to write;
    /// `-` for standard input or output
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// The file to write, in the format of its extension; `-` for standard output
    #[arg(long, short, value_name = "OUT")]
    output: Option<PathBuf>,
    /// Replace the last file if it exists
    #[arg(long, short, conflicts_with = "no_clobber")]
    force: bool,
    #[command(flatten)]
    no_clobber: NoClobber,
    /// Output format [default: from the extension]
    #[arg(long, value_name = "FORMAT", value_parser = written_format_names())]
    to: Option<String>,
    #[command(flatten)]
    rename: Rename,
    #[command(flatten)]
    write: WriteArgs,
}

const USAGE: &str = "\
tensorfile merge [OPTIONS] <IN>... <OUT>
       tensorfile merge [OPTIONS] --output <OUT> <IN>...";

const EXAMPLES: &str = "\
Examples:
  tensorfile merge encoder.ptd decoder.ptd model.ptd
  tensorfile merge -o model.ptd part-*.ptd
  tensorfile merge teacher=a.safetensors student=b.safetensors both.safetensors
  tensorfile merge weight.npy bias.npy layer.npz
  tensorfile merge weight.npy bias.npy layer.npz --rename '*=layer.*'
  tensorfile merge model.ptd.index.json model.ptd";

/// The way out if two files have a tensor of one name.
const CLASH: &str =
    "; --rename gives one of them another name, and `PREFIX=FILE` instead of FILE all tensors of that file";

/// Returns the prefix and the path of an input `PREFIX=FILE`. An existing file with `=` in its name has no prefix.
fn split_prefix(input: &Path) -> (Option<&str>, &Path) {
    let split = input.to_str().filter(|_| !input.exists()).and_then(|input| input.split_once('='));
    match split {
        Some((prefix, path)) if !prefix.is_empty() && !prefix.contains(['/', ':']) => {
            (Some(prefix.strip_suffix('.').unwrap_or(prefix)), Path::new(path))
        }
        _ => (None, input),
    }
}

impl Merge {
    pub fn run(&self, out: &mut Stdout) -> Outcome {
        out.expect_json(self.write.json);
        let (inputs, output) = self.inputs_and_output()?;
        let target = Target::new(output, self.to.as_deref().and_then(Format::named))?.guard(self.no_clobber)?;
        let (mut prefixes, mut expanded) = (Vec::new(), Vec::new());
        for input in inputs {
            let (prefix, path) = split_prefix(input);
            let paths = expand_joined(&[path.to_owned()])?;
            prefixes.extend(paths.iter().map(|_| prefix));
            expanded.extend(paths);
        }
        let inputs = expanded;
        // The parts of a model that state their numbers are opened together.
        let others = other_parts(&inputs);
        let (prefixes, inputs): (Vec<_>, Vec<_>) =
            prefixes.into_iter().zip(&inputs).filter(|(_, path)| !others.contains(*path)).unzip();
        let inputs = inputs.into_iter();
        let files: Vec<(File, &Path)> =
            inputs.map(|path| Ok((open(path, None)?, display_name(path)))).collect::<Outcome<_>>()?;
        let mut names = self.names(&files, target.format)?;
        for (new, prefix) in names.iter_mut().zip(prefixes) {
            prefix.into_iter().for_each(|prefix| new.put_under(prefix));
        }
        for (new, (_, path)) in names.iter().zip(&files) {
            new.expect_unique(path)?;
        }
        let sources: Vec<FileView<'_>> = names.iter().zip(&files).map(|(new, (_, path))| new.view(path)).collect();
        let parts: Vec<(&dyn Tensors, &Path)> =
            sources.iter().map(|source| (source as &dyn Tensors, source.path())).collect();
        let joined = join(&parts, Some(CLASH))?;
        let kept = self.kept(&files)?;
        let export = Export::plan(&self.write, &joined, kept, target)?.with_note(NewNames::note(&names));
        Export::run_all(&[export], &self.write, &Vec::new, out)?;
        Ok(Verdict::Pass)
    }

    /// Tells the file to write from those to read.
    ///
    /// A last file that exists may be an input after which the output was forgotten, so it is not replaced.
    fn inputs_and_output(&self) -> Outcome<(&[PathBuf], &Path)> {
        if let Some(output) = &self.output {
            return Ok((&self.files, output));
        }
        let (output, inputs) = self.files.split_last().expect("a file is required");
        let Some(first) = inputs.first() else {
            return Err(Failure::usage_at(output, "is a file to read; the one to write follows it"));
        };
        self.no_clobber.check(output)?;
        // A device such as `/dev/stdout` has nothing to lose.
        if !self.force && !is_stdout(output) && output.is_file() {
            let [path, first_path] = [output, first].map(|path| display_name(path).display());
            let hint = if first.exists() || is_stdin(first) {
                format!("use --force or `-o {path}` to replace it")
            } else {
                format!("use `-o {first_path}` to write that file, or --force to replace this one")
            };
            return Err(Failure::usage_at(
                output,
                format_args!("exists, but the last file is the one to write; {hint}"),
            ));
        }
        Ok((inputs, output))
    }

    /// Returns the names of the tensors in the new file.
    fn names<'f>(&self, files: &'f [(File, &Path)], format: &Format) -> Outcome<Vec<NewNames<'f>>> {
        let files: Vec<(&File, &Path)> = files.iter().map(|(file, path)| (file, *path)).collect();
        let is_named = files.iter().any(|(file, _)| file.tensors().any(|tensor| tensor.has_name()));
        let unnamed = match files.as_slice() {
            // Several tensors without names stay a list, as in `convert`.
            [(file, _)] if file.len() != 1 => Unnamed::Numbered(0),
            _ => self.write.unnamed(format, is_named),
        };
        self.rename.new_names(&files, unnamed, None)
    }

    fn kept(&self, files: &[(File, &Path)]) -> Outcome<Kept> {
        let ((first, path), others) = files.split_first().expect("an input is required");
        let mut kept = Kept::of(first, path)?;
        for (other, path) in others {
            let other = Kept::of(other, path)?;
            kept.join(&other);
            kept.keep_types(&other);
            for (key, value) in other.entries {
                match kept.entries.entry(key) {
                    Entry::Vacant(vacant) => drop(vacant.insert(value)),
                    Entry::Occupied(entry) if *entry.get() == value => {}
                    Entry::Occupied(entry) => self.drop_metadata(entry.key(), path)?,
                }
            }
        }
        Ok(kept)
    }

    /// Fails because a file has another value for a key than the files before it, unless `--lossy` is given.
    fn drop_metadata(&self, key: &str, path: &Path) -> Outcome<()> {
        if !self.write.lossy {
            return Err(Failure::usage_at(
                path,
                format_args!(
                    "the metadata `{key}` differs from that of an earlier file; use --lossy to keep the first value"
                ),
            ));
        }
        let path = path.display();
        note(format_args!("{path}: dropped the metadata `{key}`, which differs from that of an earlier file"));
        Ok(())
    }
}
