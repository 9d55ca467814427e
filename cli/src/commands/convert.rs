use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::Parser;
use tensorfile::file::{FileTensor, shown_url};
use tensorfile::report::WarningKind;
use tensorfile::view::TensorCast;
use tensorfile::{ErrorKind, File, Format, LayoutMap, Tensors};
use tensorfile_datasets::splits::{PartWriter, RankPart};
use tensorfile_datasets::{ShardWriter, pack, unpack};

use crate::args::{
    Cast, Decoding, Filter, Input, MapArgs, NewNames, NoClobber, RankArgs, Rename, SplitArgs, Target, Unnamed,
    WriteArgs, has_extension, is_named_shard, is_stdout, is_stream, location, open, parse_bytes, refuse_url, set_map,
    written_kind_names,
};
use crate::exit::{At, Failure, Outcome, Verdict};
use crate::export::{Export, Kept, StaleConfiguration, casts_as_json, torn};
use crate::output::{Stdout, note, warnings};
use crate::receipt::{self, FileDigests, Proof};

/// Convert a file to another format, to other dtypes or to other names.
///
/// The new file replaces an existing one only when it is complete, so input and output may be the same file. Tensors
/// are read and written in pieces, not held in memory.
///
/// If a tensor has no name, as in npy files, it is named after its file where names are stored; several are named by
/// their positions.
///
/// Names the format cannot store are embedded in an additional tensor, but not in gguf. Anything else it cannot store
/// is an error, unless you pass --lossy, which drops names, metadata, blobs and tensors of unknown dtypes. Two kinds of
/// metadata are dropped without --lossy if the format cannot store them: the metadata of PyTorch checkpoints, and the
/// entry `format` of safetensors files, which names the library a file was written for.
///
/// To pack a folder of files into WebDataset shards, pass a pattern such as `train-{000000..}.tar` as OUT; files whose
/// paths agree up to the first dot of the file name form a sample. To unpack a shard, `.tar`, into a folder, pass an
/// OUT without the extension of a format.
///
/// With --split K/N, you share the work among N processes: FILE is a folder, a file, a pattern such as
/// 'train-{000..123}.tar', or with --plan a plan; OUT is a folder, which may be in a store, such as s3://bucket/folder.
/// The process converts its share to one file, `part-0000K-of-0000N`, and prints a line about it for `splits --commit`.
/// Long files are divided too. Samples stay samples, unless you pass --to.
///
/// With --to dcp or hf-sharded, OUT is a new folder with a file for each process of a trainer, and --split K/N writes the
/// files of some of them. The folder can be opened when `splits --commit` has completed it.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Convert {
    #[command(flatten)]
    input: Input,
    /// The file to write, in the format of its extension; `-` for standard output
    #[arg(value_name = "OUT")]
    output: PathBuf,
    /// Output format [default: from the extension]
    #[arg(long, value_name = "FORMAT", value_parser = written_kind_names())]
    to: Option<String>,
    #[command(flatten)]
    filter: Filter,
    #[command(flatten)]
    rename: Rename,
    #[command(flatten)]
    cast: Cast,
    #[command(flatten)]
    decoding: Decoding,
    #[command(flatten)]
    mapping: MapArgs,
    /// Write to this file what became of each element under --map, as JSON; `-` for standard output
    #[arg(long, value_name = "FILE", requires = "map")]
    receipt: Option<PathBuf>,
    /// Read the new file back through the inverted map, and compare the digests of all tensors with those of the input
    #[arg(long, requires = "map", conflicts_with_all = ["dry_run"])]
    prove: bool,
    /// Write shards of at most this size, such as 5GB, and an index of them
    ///
    /// A tensor that is larger has a shard of its own. If everything fits into one shard, one file is written. A WebDataset
    /// shard has no index, and a sample is in one shard.
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    max_shard_size: Option<u64>,
    /// Write an index of WebDataset shards for Python's `wids` to this file, with the number of samples of each
    #[arg(long, value_name = "FILE")]
    wids: Option<PathBuf>,
    #[command(flatten)]
    ranks: RankArgs,
    #[command(flatten)]
    split: SplitArgs,
    #[command(flatten)]
    no_clobber: NoClobber,
    #[command(flatten)]
    write: WriteArgs,
}

const EXAMPLES: &str = "\
Examples:
  tensorfile convert model.ptd model.tbs
  tensorfile convert model.ptd half.ptd --dtype f16 --fail-on overflow
  tensorfile convert model.ptd mixed.ptd --dtype f32=bf16,i64=i32 -v
  tensorfile convert model.ptd encoder.ptd --filter 'encoder.*' --rename 'encoder.*=*'
  tensorfile convert llama.gguf llama.ptd --rename 'blk.*.attn_q.*=layers.*.q_proj.*'
  tensorfile convert model.ptd model.tbs --max-shard-size 5GB --dry-run
  tensorfile convert Qwen3-30B-A3B fused.safetensors --map qwen3-moe --max-shard-size 5GB --prove
  tensorfile convert model.safetensors model.pt
  tensorfile convert model.safetensors run/step-0 --to dcp --ranks 8
  tensorfile convert run/step-1000 run/hf --to hf-sharded --ranks 64 --split 3/8 > lines/3
  tensorfile convert model.ptd - --to ten | ssh host 'cat > model.ten'
  tensorfile convert folder 'train-{000000..}.tar' --max-shard-size 1GB --wids train.json
  tensorfile convert train-000000.tar folder
  tensorfile convert 'train-{000..123}.tar' folder --split 3/40 > lines/3";

impl Convert {
    pub fn run(&self, out: &mut Stdout) -> Outcome {
        self.decoding.apply();
        let map = self.mapping.apply(self.write.lossy)?;
        self.check_map_options()?;
        out.expect_json(self.write.json);
        let folder = self.ranks.folder(self.to.as_deref(), self.split)?;
        if self.split.is_given() && folder.is_none() {
            return self.write_part(out);
        }
        if self.split.is_planned() {
            return Err(Failure::usage("--plan is for files that are shared, not for the ranks of a folder"));
        }
        let shards = Shards::of(self);
        if self.wids.is_some() && !matches!(shards, Some(Shards::Pack)) {
            return Err(Failure::usage("--wids is for a folder that becomes shards, such as `train-{000000..}.tar`"));
        }
        if let Some(shards) = shards {
            return shards.run(self);
        }
        let format = self.to.as_deref().and_then(Format::named);
        let target = match folder {
            Some((ranks, kind)) => Target::folder(&self.output, ranks, kind)?,
            None => Target::new(&self.output, format)?,
        };
        let target = target.in_shards(self.max_shard_size).guard(self.no_clobber)?;
        let file = self.input.open()?;
        let path = self.input.path();
        if file.is_empty() && file.warnings().at(path)?.iter().any(|warning| warning.kind == WarningKind::LeftOut) {
            return Err(Failure::usage_at(path, "has no tensors to convert"));
        }

        // Several tensors without names stay a list.
        let unnamed = match file.len() {
            1 => self.write.unnamed(target.format, false),
            _ => Unnamed::Numbered(0),
        };
        let is_chosen = |tensor: &FileTensor<'_>| self.filter.matches(tensor.name());
        let chosen = Some(&is_chosen as &dyn Fn(&FileTensor<'_>) -> bool).filter(|_| !self.filter.is_empty());
        let names = self.rename.new_names(&[(&file, path)], unnamed, chosen)?;
        names.iter().try_for_each(|names| names.expect_unique(path))?;
        let source = names[0].view(path);
        let cast = self.cast.apply(&source, target.format)?;
        // Nothing stands between the file and the writer that has nothing to do there.
        let tensors: &dyn Tensors = if self.cast.is_given() { &cast } else { &source };
        let mut kept = Kept::of(&file, path)?;
        if self.cast.casts_any(&cast)? {
            kept = kept.cast();
        }
        let export = Export::plan(&self.write, tensors, kept, target)?.with_note(NewNames::note(&names));
        let is_kept = |position| file.nth(position).is_some_and(|tensor| self.filter.matches(tensor.name()));
        let torn = chosen.and_then(|_| torn(&file, &is_kept));
        let export = export.with_note(torn);
        self.filter.expect_some(export.len())?;
        if self.cast.check(&cast, path)? == Verdict::Fail {
            return Ok(Verdict::Fail);
        }
        if self.cast.is_given() {
            self.cast.check_uncast(&cast.casts(), &export.list()?, self.write.lossy)?;
        }
        let (is_sharded, written, files) = (export.files() > 1, export.written_path(), export.job_files());
        if let Some((job, of)) = self.split.numbers() {
            self.check_job()?;
            Export::run_all(&[export], &self.write, &|| cast.casts(), out)?;
            if !self.write.dry_run {
                let part = RankPart::of(job, of, &files).map_err(|error| Failure::from_shards(&self.output, &error))?;
                writeln!(out, "{}", serde_json::to_string(&part).expect("names and numbers are JSON"))?;
                self.cast.report(&cast.casts());
            }
            return Ok(Verdict::Pass);
        }
        Export::run_all(&[export], &self.write, &|| cast.casts(), out)?;
        let proved = match map {
            Some(map) => self.end_map(&map, &file, &written, &cast.casts(), out)?,
            None => Verdict::Pass,
        };
        if self.decoding.is_given()
            && let Some(stale) = StaleConfiguration::beside(&file)
        {
            stale.settle(&self.output, is_sharded, self.write.dry_run)?;
        }
        if !self.write.dry_run {
            self.cast.report(&cast.casts());
        }
        Ok(proved)
    }

    /// Refuses options that need the whole folder, or that print to standard output.
    fn check_job(&self) -> Outcome<()> {
        if self.prove || self.receipt.is_some() || self.write.json {
            return Err(Failure::usage(
                "--split takes no --prove, --receipt or --json: a process writes a part of the folder",
            ));
        }
        Ok(())
    }

    /// Refuses options that contradict `--prove` and `--receipt`.
    fn check_map_options(&self) -> Outcome<()> {
        let is_changed = self.cast.is_given() || !self.filter.is_empty() || !self.rename.is_empty();
        let is_stream = is_stdout(&self.output) || is_stream(&self.output);
        if self.prove && (is_changed || is_stream || self.decoding.is_given() || self.input.is_stdin()) {
            return Err(Failure::usage(
                "--prove compares whole files on disk: it takes no --filter, --rename, --dtype or --dequantize",
            ));
        }
        match &self.receipt {
            Some(receipt) if is_stdout(receipt) && (is_stdout(&self.output) || self.write.json) => {
                Err(Failure::usage("the receipt and other output cannot both go to standard output"))
            }
            Some(receipt) => refuse_url(receipt),
            None => Ok(()),
        }
    }

    /// Prints and writes the receipt, and proves it.
    fn end_map(&self, map: &LayoutMap, file: &File, written: &Path, casts: &[TensorCast], out: &mut Stdout) -> Outcome {
        let Some(receipt) = file.receipt() else { return Ok(Verdict::Pass) };
        let shows =
            self.write.dry_run && !self.write.json && self.receipt.as_deref().is_none_or(|path| !is_stdout(path));
        if shows {
            receipt::print(receipt, casts.len(), out)?;
        }
        let reads =
            !self.write.dry_run && !self.input.is_stdin() && !is_stdout(&self.output) && !is_stream(&self.output);
        let (mut source, mut target, mut proof) = (None, None, None);
        if reads && (self.prove || self.receipt.is_some()) {
            self.mapping.end();
            source = Some(FileDigests::of(&self.input.open()?, self.input.path())?);
        }
        if let Some(source) = source.as_ref().filter(|_| self.prove) {
            // The numbers of the configuration may not be beside the new file.
            let numbers = receipt.numbers.iter().fold(map.clone(), |map, (name, number)| map.set(name, *number));
            set_map(Some(numbers.inverted()));
            let back = open(written, None)?;
            proof = Some(Proof::new(source, &FileDigests::of(&back, written)?));
            self.mapping.end();
        }
        if let Some(path) = &self.receipt {
            if reads {
                target = Some(FileDigests::of(&open(written, None)?, written)?);
            }
            let files = [(self.input.path(), source.as_ref()), (written, target.as_ref())];
            let json = receipt::to_json(map, receipt, files, casts_as_json(casts), proof.as_ref());
            receipt::write(path, &json, out)?;
        }
        let Some(proof) = proof else { return Ok(Verdict::Pass) };
        note(proof.line());
        Ok(Verdict::from_pass(proof.differences.is_empty()))
    }
}

/// A folder that is packed into WebDataset shards, or a shard that is unpacked.
enum Shards {
    Pack,
    Unpack,
}

impl Shards {
    fn of(convert: &Convert) -> Option<Self> {
        let output = convert.output.to_string_lossy();
        if output.split_once('{').is_some_and(|(_, rest)| rest.contains("..}")) {
            return Some(Self::Pack);
        }
        let is_folder = convert.output.is_dir() || !has_extension(&convert.output) && !is_named_shard(&convert.output);
        (convert.to.is_none() && is_folder && !is_stdout(&convert.output) && convert.input.is_shard())
            .then_some(Self::Unpack)
    }

    fn run(&self, convert: &Convert) -> Outcome {
        let (input, output) = (convert.input.location(), &convert.output);
        if convert.to.is_some() || convert.has_other_options() {
            return Err(Failure::usage(
                "WebDataset shards take --max-shard-size, --wids and --no-clobber only: files are not changed",
            ));
        }
        match self {
            Self::Pack if !input.is_dir() => {
                Err(Failure::usage_at(convert.input.path(), "is not a folder to pack into shards"))
            }
            Self::Pack => {
                refuse_url(output)?;
                let writer = ShardWriter::new(output).map_err(|error| Failure::from_shards(output, &error))?;
                let writer = writer.max_bytes(convert.max_shard_size.unwrap_or(u64::MAX)).max_samples(u64::MAX);
                let mut writer = writer.no_replace(convert.no_clobber.is_given());
                if let Some(index) = &convert.wids {
                    refuse_url(index)?;
                    writer = writer.wids(index);
                }
                let packed = pack(input, &mut writer).and_then(|packed| writer.finish().map(|_| packed));
                let packed = packed.map_err(|error| match (error.kind(), error.shard()) {
                    (ErrorKind::Io(io), Some(shard)) if io.kind() == io::ErrorKind::AlreadyExists => {
                        Failure::exists(shard.as_ref())
                    }
                    _ => Failure::from_shards(input, &error),
                })?;
                if packed.samples == 0 {
                    return Err(Failure::usage_at(input, "has no files with an extension"));
                }
                if let Some(first) = packed.left_out.first() {
                    let (count, first) = (packed.left_out.len(), first.display());
                    note(format_args!("left out {count} files that belong to no sample, as {first} does not"));
                }
                Ok(Verdict::Pass)
            }
            Self::Unpack if convert.max_shard_size.is_some() => {
                Err(Failure::usage("--max-shard-size is for files that are written, not for a folder"))
            }
            Self::Unpack if shown_url(output).is_some() => {
                Err(Failure::usage_at(output, "a shard is unpacked into a folder on disk"))
            }
            Self::Unpack => {
                convert.no_clobber.check(output)?;
                let location = location(input)?;
                let unpacked = unpack(&location, output).map_err(|error| Failure::from_shards(input, &error))?;
                warnings::print(convert.input.path(), &unpacked.warnings);
                Ok(Verdict::Pass)
            }
        }
    }
}

impl Convert {
    /// Writes the part of one of several processes.
    fn write_part(&self, out: &mut Stdout) -> Outcome {
        let (input, output) = (self.input.location(), &self.output);
        if self.has_other_options()
            || self.max_shard_size.is_some()
            || self.wids.is_some()
            || self.no_clobber.is_given()
        {
            return Err(Failure::usage("--split takes --to only: tensors are not changed"));
        }
        refuse_url(output)?;
        let in_input = |error| Failure::from_shards(input, &error);
        let Some(own) = self.split.own(input)? else { return Ok(Verdict::Pass) };
        let format = match self.to.as_deref() {
            Some(format) => format,
            None if own.has_samples() => "tar",
            None => {
                return Err(Failure::usage("--split writes tensors in the format of --to, such as --to safetensors"));
            }
        };
        let mut part = PartWriter::new(output, &own, format).map_err(|error| Failure::from_shards(output, &error))?;
        let part = part.copy(&own).and_then(|()| part.finish()).map_err(in_input)?;
        for text in &part.warnings {
            note(format_args!("warning: {text}"));
        }
        let line = serde_json::to_string(&part).expect("names and numbers are JSON");
        writeln!(out, "{line}")?;
        Ok(Verdict::Pass)
    }

    /// Returns whether options are given that change tensors or files.
    fn has_other_options(&self) -> bool {
        let shown = |convert: &Self| {
            format!(
                "{:?}",
                (
                    (&convert.filter, &convert.rename, &convert.cast, &convert.decoding),
                    (&convert.mapping, &convert.ranks, &convert.write),
                )
            )
        };
        #[derive(Parser)]
        struct Defaults {
            #[command(flatten)]
            convert: Convert,
        }
        shown(self) != shown(&Defaults::parse_from(["convert", "in", "out"]).convert)
    }
}
