//! Writing tensors of one or more files to another file.
//!
//! ```text
//! FileView -> CastView, Joined -> Export::plan -> Export::run_all
//! ```
//!
//! Everything up to `run` reads the indices of files only.

mod configuration;
mod sources;

use std::collections::HashMap;
use std::ffi::OsStr;
use std::io::Write;
use std::path::{Path, PathBuf};

use indexmap::{IndexMap, IndexSet};
use serde::Serialize;
use tensorfile::cast::Caster;
use tensorfile::file::SavePlan;
use tensorfile::model::{FileMetadata, TensorRecord, TensorSink, describes_dtypes, describes_layout};
use tensorfile::quant::{LogicalTensor, Role};
use tensorfile::view::{Joined, Renamed, TensorCast};
use tensorfile::{
    Dtype, Error, ErrorKind, File, Format, Layout, Result, SaveOptions, TensorInfo, Tensors, WriteOptions,
};

use crate::args::{Names, Target, WriteArgs, is_stream, open_output_stream};
use crate::exit::{At, Failure, Outcome, in_own_words};
use crate::identity::check_distinct;
use crate::output::numbers::counted;
use crate::output::tensors::type_label;
use crate::output::{Column, HEADER, Stdout, Table, escape, note};

pub use configuration::StaleConfiguration;
pub use sources::Advancing;
use sources::{Storable, Watched};

/// The metadata key of safetensors for the library a file was written for.
///
/// Nearly every safetensors file has it, and it means nothing in another format.
pub const FILE_METADATA: &str = "format";

/// Returns the name and info of every tensor.
pub fn list(tensors: &dyn Tensors) -> Outcome<Vec<(String, TensorInfo)>> {
    struct List(Vec<(String, TensorInfo)>);

    impl TensorSink for List {
        fn tensor(&mut self, tensor: &TensorRecord<'_>) -> Result<()> {
            self.0.push((tensor.name.to_owned(), tensor.info.clone()));
            Ok(())
        }
    }

    let mut list = List(Vec::new());
    // The tensors of an open file are listed without I/O; only a cast can fail.
    tensors.send(&mut list).map_err(|error| Failure::usage(in_own_words(&error)))?;
    Ok(list.0)
}

/// Properties of the input files kept in a new file, apart from the tensors.
#[derive(Debug, Clone)]
pub struct Kept {
    pub entries: IndexMap<String, String>,
    /// The keys of entries that are not true of another file.
    dropped: IndexSet<String>,
    /// The metadata of the files, with the types of its entries.
    metadata: Vec<FileMetadata>,
    /// The format, if all files have the same.
    format: Option<&'static str>,
    /// Some sparse tensors have the layout number of TFRT's code.
    tfrt_coo: bool,
}

impl Kept {
    pub fn of(file: &File, path: &Path) -> Outcome<Self> {
        let metadata = file.metadata().at(path)?;
        let tfrt_coo = metadata.coo_layouts.contains(&1);
        let (dropped, entries): (IndexMap<_, _>, _) =
            metadata.entries.clone().into_iter().partition(|(key, _)| describes_layout(key));
        let dropped = dropped.into_keys().collect();
        Ok(Self { entries, dropped, metadata: vec![metadata], format: Some(file.format().name), tfrt_coo })
    }

    /// Adds the types of the entries of another file.
    pub fn keep_types(&mut self, other: &Self) {
        self.metadata.extend(other.metadata.iter().cloned());
    }

    /// Leaves out what is not true of tensors of other dtypes.
    pub fn cast(mut self) -> Self {
        let (cast, entries): (IndexMap<_, _>, _) = self.entries.into_iter().partition(|(key, _)| describes_dtypes(key));
        self.entries = entries;
        self.dropped.extend(cast.into_keys());
        self
    }

    /// Adds another file, except for its metadata.
    pub fn join(&mut self, other: &Self) {
        self.dropped.extend(other.dropped.clone());
        self.format = self.format.filter(|format| Some(*format) == other.format);
        self.tfrt_coo |= other.tfrt_coo;
    }
}

/// Adds the name of the faulty file to an error: an input file, or else the file to write.
fn in_its_file(result: Result<()>, written: &Path) -> Outcome<()> {
    result.map_err(|error| Failure::from_error(error.path().unwrap_or(written).display(), &error))
}

/// Says which parts of a quantized weight go to different files, or are left out; `None` if all stay together. `place` returns
/// the new file of the tensor at a position.
pub fn torn<P: PartialEq>(file: &File, place: &dyn Fn(usize) -> P) -> Option<String> {
    let quantized = file.quantized().ok()?;
    let is_torn = |weight: &&LogicalTensor| {
        let mut needed = weight.parts().iter().filter(|part| part.role() != Role::Other);
        let first = needed.next().map(|part| place(part.position()));
        needed.any(|part| Some(place(part.position())) != first)
    };
    let mut torn = quantized.tensors().iter().filter(is_torn);
    let first = torn.next()?;
    let apart = first.parts().iter().find(|part| place(part.position()) != place(first.parts()[0].position()));
    let more = match torn.count() {
        0 => String::new(),
        more => format!("; so it is with {}", counted(more + 1, "weight")),
    };
    let (weight, codes) = (escape(first.name()), escape(first.parts()[0].name()));
    let other = apart.map(|part| format!(": `{}` is not with `{codes}`", escape(part.name()))).unwrap_or_default();
    Some(format!("the parts of the quantized weight `{weight}` are torn from each other{other}{more}"))
}

/// Joins the tensors of files. If a name occurs in several files, the error message ends with a hint.
pub fn join<'t>(parts: &[(&'t dyn Tensors, &Path)], refuse: Option<&str>) -> Outcome<Joined<'t>> {
    let tensors: Vec<&dyn Tensors> = parts.iter().map(|(tensors, _)| *tensors).collect();
    let joined = Joined::new(&tensors).map_err(|error| Failure::usage(in_own_words(&error)))?;
    let Some((name, [one, two])) = joined.repeated() else { return Ok(joined) };
    let Some(hint) = refuse else { return Ok(joined) };
    let (one, two) = (parts[one].1.display(), parts[two].1.display());
    Err(Failure::usage(format_args!("both {one} and {two} have a tensor `{name}`{hint}")))
}

/// Tensors to write to a file.
pub struct Export<'t> {
    tensors: Storable<'t>,
    contents: Contents,
    target: Target,
    drops_names: bool,
    plan: SavePlan,
    /// Messages about dropped and changed parts, printed after the file is written.
    notes: Vec<String>,
}

impl<'t> Export<'t> {
    /// Decides how names and metadata are stored, and checks that the file can be written.
    pub fn plan(args: &WriteArgs, tensors: &'t dyn Tensors, kept: Kept, target: Target) -> Outcome<Self> {
        let (contents, mut notes) = (Contents::of(tensors, target.format)?, Vec::new());
        drop_opaque(args, &contents.opaque, &target, &mut notes)?;
        let tensors = Storable { tensors, format: target.format };
        let mut entries = kept.entries;
        if target.ranks.is_some() && target.format.has_values() {
            // They are values of the folder that was read, and are copied as such.
            entries.retain(|key, _| !kept.metadata.iter().any(|metadata| metadata.has_value(key)));
        }
        drop_metadata(args, &mut entries, kept.format, &target, &mut notes)?;
        let dropped: Vec<String> = kept.dropped.into_iter().collect();
        if !dropped.is_empty() {
            let (path, describe) = (target.path.display(), if dropped.len() == 1 { "describes" } else { "describe" });
            notes.push(format!("{path}: dropped the metadata {}, which {describe} the old file", quoted(&dropped)));
        }
        // Hugging Face's `transformers` refuses a safetensors file without the name of its library.
        if kept.format == Some("pytorch") && target.format.name == "safetensors" {
            entries.entry(FILE_METADATA.to_owned()).or_insert_with(|| "pt".to_owned());
        }
        let Naming { embeds, drops } = Naming::of(args, &contents, &target, &mut notes)?;
        let keeps_dim_order = args.keep_dim_order || kept.format == Some(target.format.name);
        let options = kept.metadata.iter().fold(WriteOptions::new(), WriteOptions::keep_metadata);
        let mut options = options
            .metadata(entries)
            .embed_names(embeds)
            .long_names(args.long_names)
            .keep_dim_order(keeps_dim_order)
            .keep_order(args.keep_order)
            .tfrt_coo(args.tfrt_coo || kept.tfrt_coo);
        if let Some(bytes) = args.align {
            options = options.alignment(bytes);
        }
        let mut save = SaveOptions::new()
            .format(target.format)
            .write(options)
            .no_replace(target.no_replace)
            .durable(!args.no_flush)
            .keep_single(target.keeps_single);
        if let Some((ranks, _)) = &target.ranks {
            save = save.ranks(ranks.clone());
        }
        if let Some(bytes) = target.max_shard {
            if target.is_stdout() {
                return Err(Failure::usage("shards cannot be written to standard output"));
            }
            if is_stream(&target.path) {
                return Err(Failure::usage_at(&target.path, "shards cannot be written to a pipe or a device"));
            }
            save = save.max_shard_bytes(bytes);
        }
        let plan = save.plan(&target.path, &*named(&tensors, drops));
        // Only the limit of gguf can be raised.
        let is_long = target.format.max_name.is_some_and(|most| contents.longest_name > most);
        let can_allow = !args.long_names && target.format.name == "gguf" && is_long;
        let plan = plan.map_err(|error| cannot_write(&target, &tensors, &error, can_allow))?;
        // The index of shards; a single file was looked for before.
        if target.no_replace && plan.path().symlink_metadata().is_ok() {
            return Err(Failure::exists(&plan.path()));
        }
        // A single file hides it from most programs, and others still open it.
        let mut index = target.path.as_os_str().to_owned();
        index.push(".index.json");
        let index = PathBuf::from(index);
        if plan.path() == target.path && !target.is_stdout() && index.is_file() {
            let (path, index) = (target.path.display(), index.display());
            notes.push(format!("{path}: {index} and its shards are of an earlier save, and stay"));
        }
        Ok(Self { tensors, contents, target, drops_names: drops, plan, notes })
    }

    /// Adds a message, printed after the file is written.
    pub fn with_note(mut self, note: Option<String>) -> Self {
        let path = self.target.path.display();
        self.notes.extend(note.map(|note| format!("{path}: {note}")));
        self
    }

    /// Returns the number of files, without the index of shards.
    pub fn files(&self) -> usize {
        self.plan.files()
    }

    pub fn path(&self) -> &Path {
        &self.target.path
    }

    /// Returns the path to open after writing: of the file, or of the index of shards.
    pub fn written_path(&self) -> PathBuf {
        self.plan.path()
    }

    /// Returns the paths of the files of a job, if the folder is written by several.
    pub fn job_files(&self) -> Vec<PathBuf> {
        self.plan.rank_files()
    }

    /// Returns the names and infos of the tensors in the file.
    pub fn list(&self) -> Outcome<Vec<(String, TensorInfo)>> {
        list(&self.tensors)
    }

    /// Returns the number of tensors.
    pub fn len(&self) -> usize {
        self.contents.tensors
    }

    /// Writes files, or prints what would be written.
    pub fn run_all(
        exports: &[Self],
        args: &WriteArgs,
        casts: &dyn Fn() -> Vec<TensorCast>,
        out: &mut Stdout,
    ) -> Outcome<()> {
        // The later file would replace the earlier one, or one of its shards.
        check_distinct(exports.iter().map(Self::path))?;
        if !args.json {
            let mut run =
                |export: &Self| if args.dry_run { export.print(args, &casts(), out) } else { export.write(out) };
            return exports.iter().try_for_each(|export| {
                run(export)?;
                export.print_notes();
                Ok(())
            });
        }
        if exports.iter().any(|export| export.target.is_stdout()) {
            return Err(Failure::usage("--json and the file cannot both go to standard output"));
        }
        out.expect_json(true);
        if !args.dry_run {
            exports.iter().try_for_each(|export| export.write(out))?;
        }
        exports.iter().for_each(Self::print_notes);
        let casts = casts();
        out.json_list(|list| {
            exports.iter().try_for_each(|export| {
                let Self { target, contents, plan, .. } = export;
                list.push(&Written {
                    file: plan.path().display().to_string(),
                    shards: Some(plan.files()).filter(|files| *files > 1),
                    format: target.format_name(),
                    tensors: contents.tensors,
                    bytes: plan.file_bytes(),
                    written: !args.dry_run,
                    casts: casts.iter().map(CastRow::from).collect(),
                })
            })
        })??;
        Ok(())
    }

    fn print_notes(&self) {
        self.notes.iter().for_each(note);
    }

    fn write(&self, out: &mut Stdout) -> Outcome<()> {
        let named = named(&self.tensors, self.drops_names);
        let tensors = &Watched::new(&*named, self.contents.payload_bytes);
        if !self.target.is_stdout() {
            if let Some(stream) = open_output_stream(&self.target.path)? {
                return in_its_file(self.plan.to_writer(stream, tensors), &self.target.path);
            }
            return in_its_file(self.plan.save(tensors), &self.target.path);
        }
        if out.is_terminal() {
            return Err(Failure::usage("refusing to write binary data to a terminal; redirect standard output"));
        }
        in_its_file(self.plan.to_writer(out.raw()?, tensors), Path::new("standard output"))
    }

    fn print(&self, args: &WriteArgs, casts: &[TensorCast], out: &mut Stdout) -> Outcome<()> {
        let sizes = args.sizes;
        let casts: HashMap<&str, Dtype> = casts.iter().map(|cast| (cast.name.as_str(), cast.from)).collect();
        let mut table = Table::new([("name", Column::Left), ("tensor", Column::Left), ("bytes", Column::Right)]);
        for (index, (name, info)) in self.list()?.iter().enumerate() {
            let label = type_label(info);
            let label = casts.get(name.as_str()).map_or_else(|| label.clone(), |from| format!("{from} -> {label}"));
            let name = if self.drops_names { &index.to_string() } else { name };
            table.row([name, &label, &sizes.cell(info.payload_bytes().unwrap_or_default() as u64)]);
        }
        table.print(args.wide.width(out), out)?;
        let (path, format) = (self.plan.path().display().to_string(), self.target.format_name());
        let mut tensors = counted(self.contents.tensors, "tensor");
        if self.plan.files() > 1 {
            tensors += &format!(" in {}", counted(self.plan.files(), "shard"));
        }
        let line = format!("{}: {format}, {tensors}, {}", escape(&path), sizes.phrase(self.plan.file_bytes()));
        writeln!(out, "{}", out.styled(HEADER, &line).into_owned())?;
        Ok(())
    }
}

/// Returns the tensors under their stored names.
fn named<'t>(tensors: &'t Storable<'_>, drops_names: bool) -> Box<dyn Tensors + 't> {
    if drops_names { Box::new(Renamed::by_position(tensors)) } else { Box::new(*tensors) }
}

/// Facts about the tensors of a new file, for which a list of a million tensors need not be held.
#[derive(Default)]
struct Contents {
    tensors: usize,
    payload_bytes: u64,
    /// A tensor has a name that is not its position.
    has_names: bool,
    shortest_name: usize,
    longest_name: usize,
    /// The name of the first tensor.
    first: String,
    opaque: Opaque,
}

/// The names of the tensors that are opaque to the format.
#[derive(Default)]
struct Opaque {
    damaged: Vec<String>,
    unknown: Vec<String>,
    blobs: Vec<String>,
}

impl Contents {
    fn of(tensors: &dyn Tensors, format: &'static Format) -> Outcome<Self> {
        struct Count(Contents, &'static Format);

        impl TensorSink for Count {
            fn tensor(&mut self, tensor: &TensorRecord<'_>) -> Result<()> {
                let Self(contents, format) = self;
                contents.add(tensor, format);
                Ok(())
            }
        }

        let mut count = Count(Self { shortest_name: usize::MAX, ..Self::default() }, format);
        // The tensors of an open file are listed without I/O; only a cast can fail.
        tensors.send(&mut count).map_err(|error| Failure::usage(in_own_words(&error)))?;
        Ok(count.0)
    }

    fn add(&mut self, TensorRecord { name, info, .. }: &TensorRecord<'_>, format: &Format) {
        if !format.stores_opaque(&info.layout) {
            let Opaque { damaged, unknown, blobs } = &mut self.opaque;
            let names = match info.layout {
                Layout::Blob => blobs,
                _ if info.is_damaged() => damaged,
                _ => unknown,
            };
            names.push((*name).to_owned());
            return;
        }
        if self.tensors == 0 {
            (*name).clone_into(&mut self.first);
        }
        // A tensor without a name is named by its position.
        self.has_names = self.has_names || *name != self.tensors.to_string();
        self.tensors += 1;
        self.payload_bytes += info.payload_bytes().unwrap_or_default() as u64;
        self.shortest_name = self.shortest_name.min(name.len());
        self.longest_name = self.longest_name.max(name.len());
    }
}

/// Returns casts as JSON.
pub fn casts_as_json(casts: &[TensorCast]) -> Vec<serde_json::Value> {
    let row = |cast| serde_json::to_value(CastRow::from(cast)).expect("names and numbers are JSON");
    casts.iter().map(row).collect()
}

/// A file, in the output of `--json`.
#[derive(Serialize)]
struct Written<'c> {
    /// The file, or the index of shards.
    file: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    shards: Option<usize>,
    format: &'static str,
    tensors: usize,
    bytes: u64,
    written: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    casts: Vec<CastRow<'c>>,
}

#[derive(Serialize)]
struct CastRow<'c> {
    name: &'c str,
    from: &'static str,
    to: &'static str,
    elements: u64,
    rounded: u64,
    overflowed: u64,
    underflowed: u64,
    nan_to_zero: u64,
}

impl<'c> From<&'c TensorCast> for CastRow<'c> {
    fn from(TensorCast { name, from, to, report, .. }: &'c TensorCast) -> Self {
        Self {
            name,
            from: from.name(),
            to: to.name(),
            elements: report.elements,
            rounded: report.rounded,
            overflowed: report.overflowed,
            underflowed: report.underflowed,
            nan_to_zero: report.nan_to_zero,
        }
    }
}

/// How names are stored. If neither is set, as the format stores them.
struct Naming {
    embeds: bool,
    drops: bool,
}

impl Naming {
    fn of(args: &WriteArgs, contents: &Contents, target: &Target, notes: &mut Vec<String>) -> Outcome<Self> {
        let (path, format) = (target.path.display(), target.format);
        let has_names = contents.has_names;
        match args.names {
            Some(Names::Embed) => return Ok(Self { embeds: true, drops: false }),
            Some(Names::Index) => return Ok(Self { embeds: false, drops: true }),
            None => {}
        }
        if let (Some(0), Some(count)) = (format.max_name, format.max_tensors) {
            // A tensor named after its file gets this name again.
            let stem = target.path.file_stem().unwrap_or_default();
            let is_kept = contents.tensors == 1 && OsStr::new(&contents.first) == stem;
            // The error to report is then the number of tensors.
            if has_names && !is_kept && contents.tensors == count {
                refuse_or_drop(args, target, "names", "them", notes)?;
            }
            return Ok(Self { embeds: false, drops: true });
        }
        let embeds = match format.max_name {
            None => false,
            // The index of shards lists tensors by name.
            Some(0) => has_names || target.max_shard.is_some(),
            // The error to report is then a name that is still too long.
            Some(_) if args.long_names && target.format.name == "gguf" => false,
            Some(longest) => contents.shortest_name == 0 || contents.longest_name > longest,
        };
        // The list of names is a tensor of bytes. Without `u8`, the error to report is a long name.
        if embeds && !format.dtypes.contains(&Dtype::U8) {
            if args.lossy {
                refuse_or_drop(args, target, "names", "them", notes)?;
            }
            return Ok(Self { embeds: false, drops: args.lossy });
        }
        if embeds {
            notes.push(format!("{path}: names are embedded, because {} cannot store all of them", format.name));
        }
        Ok(Self { embeds, drops: false })
    }
}

/// Converts an error of planning a file.
fn cannot_write(target: &Target, tensors: &dyn Tensors, error: &Error, can_allow_names: bool) -> Failure {
    let path = &target.path;
    match error.kind() {
        ErrorKind::Unsupported { .. } if can_allow_names => {
            let message = in_own_words(&error.without_path());
            Failure::usage_at(path, format_args!("{message}; --long-names allows them"))
        }
        ErrorKind::Unsupported { .. } => {
            let cast = || {
                let (from, to) = cast_that_helps(target.format, tensors, error)?;
                Some(format!("`convert --dtype {from}={to}` casts it"))
            };
            match cast() {
                Some(advice) => {
                    Failure::usage_at(path, format_args!("{}; {advice}", in_own_words(&error.without_path())))
                }
                None => Failure::from_error(path.display(), error),
            }
        }
        // Some streams repeat names, and are read by position.
        ErrorKind::RepeatedName { .. } => {
            let advice = "--rename '#1=NEW' renames the one at position 1, and --names index stores them without names";
            Failure::usage_at(path, format_args!("{}; {advice}", in_own_words(error)))
        }
        _ => Failure::from_error(path.display(), error),
    }
}

/// Returns a cast that lets a format store the tensor of an error.
fn cast_that_helps(format: &Format, tensors: &dyn Tensors, error: &Error) -> Option<(Dtype, Dtype)> {
    /// The dtypes of most formats, sorted by loss.
    const USUAL: [Dtype; 12] = [
        Dtype::F32,
        Dtype::F64,
        Dtype::F16,
        Dtype::I64,
        Dtype::I32,
        Dtype::U64,
        Dtype::U32,
        Dtype::I16,
        Dtype::U16,
        Dtype::I8,
        Dtype::U8,
        Dtype::Bf16,
    ];
    let tensors = list(tensors).ok()?;
    let (_, info) = tensors.iter().find(|(name, _)| Some(name.as_str()) == error.tensor())?;
    let from = info.dtype;
    if format.dtypes.contains(&from) || matches!(info.layout, Layout::Unknown(_) | Layout::Coo { .. } | Layout::Blob) {
        return None;
    }
    let helps = |to: &&Dtype| {
        let is_alike = to.is_float() == from.is_float() || !from.is_integer();
        is_alike && format.dtypes.contains(to) && Caster::new(from, **to).is_ok()
    };
    USUAL.iter().find(helps).map(|to| (from, *to))
}

/// Leaves out tensors that are opaque to the format, if `--lossy` allows it: damaged ones, those of unknown dtypes, unless the format
/// knows the dtype from its own files, and blobs.
fn drop_opaque(args: &WriteArgs, opaque: &Opaque, target: &Target, notes: &mut Vec<String>) -> Outcome<()> {
    for (names, what, one, several) in [
        (&opaque.damaged, "tensor", ", which is damaged", ", which are damaged"),
        (&opaque.unknown, "tensor", ", whose dtype is unknown", ", whose dtypes are unknown"),
        (&opaque.blobs, "blob", "", ""),
    ] {
        let shown = quoted(names);
        match names.len() {
            0 => {}
            1 => refuse_or_drop(args, target, &format!("the {what} {shown}{one}"), "it", notes)?,
            _ => refuse_or_drop(args, target, &format!("the {what}s {shown}{several}"), "them", notes)?,
        }
    }
    Ok(())
}

/// Removes metadata without a place in the format, if `--lossy` allows it.
fn drop_metadata(
    args: &WriteArgs,
    metadata: &mut IndexMap<String, String>,
    from: Option<&str>,
    target: &Target,
    notes: &mut Vec<String>,
) -> Outcome<()> {
    let lost: Vec<String> = metadata.keys().filter(|key| !target.format.keeps_metadata(key)).cloned().collect();
    let (about_file, others): (Vec<String>, Vec<String>) = lost.iter().cloned().partition(|key| key == FILE_METADATA);
    // The other values of a checkpoint, such as the state of an optimizer, are not about its tensors.
    let is_checkpoint = from.and_then(Format::named).is_some_and(Format::has_values);
    if !others.is_empty() && is_checkpoint {
        notes.push(format!("{}: dropped the metadata {}", target.path.display(), quoted(&others)));
    } else if !others.is_empty() {
        let pronoun = if others.len() == 1 { "it" } else { "them" };
        refuse_or_drop(args, target, &format!("the metadata {}", quoted(&others)), pronoun, notes)?;
    }
    for key in about_file {
        let (path, value) = (target.path.display(), &metadata[&key]);
        notes.push(format!("{path}: dropped the metadata `{key}` = `{value}`, which describes the old file"));
    }
    metadata.retain(|key, _| !lost.contains(key));
    Ok(())
}

/// Fails if the format cannot store `what`, unless `--lossy` is given.
fn refuse_or_drop(
    args: &WriteArgs,
    target: &Target,
    what: &str,
    pronoun: &str,
    notes: &mut Vec<String>,
) -> Outcome<()> {
    let (path, format) = (target.path.display(), target.format.name);
    if !args.lossy {
        let message = format_args!("{format} cannot store {what}; --lossy drops {pronoun}");
        return Err(Failure::usage_at(&target.path, message));
    }
    notes.push(format!("{path}: dropped {what}"));
    Ok(())
}

/// Lists the first names, and the number of others.
pub fn quoted(names: &[String]) -> String {
    const SHOWN: usize = 5;
    let shown: Vec<String> = names.iter().take(SHOWN).map(|name| format!("`{name}`")).collect();
    let more = names.len().saturating_sub(SHOWN);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{more}", shown.join(", "))
}
