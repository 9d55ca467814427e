//! Reads the rows of a split.

use std::path::Path;

use tensorfile::file::FileTensor;
use tensorfile::view::names_after_file;
use tensorfile::{File, Tensor, TensorInfo};

use super::plan::shown;
use super::{Extent, Piece, Split, is_shard, refused};
use crate::batches::Batch;
use crate::error::{Error, Result};
use crate::role::{Kind, Member};
use crate::sample::Sample;
use crate::shard::Shard;
use crate::shards::ShardWarning;

/// The rows of a split: samples of shards, or tensors of other files.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Rows {
    /// Samples, with tensors stacked where their shapes agree.
    Samples(Batch),
    /// Tensors, one for each row.
    Tensors(Vec<TensorRow>),
}

/// A tensor of a file.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct TensorRow {
    /// The path of the file, or its URL without secrets.
    pub path: String,
    /// The name of the tensor in the file.
    pub name: String,
    /// Its dtype, shape and layout.
    pub info: TensorInfo,
    /// Its elements, if the column `data` was asked for.
    pub data: Option<Tensor>,
}

impl Split {
    /// Reads all rows into memory.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Message`](tensorfile::ErrorKind::Message) if the length of a file changed after the plan, and
    /// errors of reading the files.
    pub fn read(&self) -> Result<Rows> {
        self.read_columns(None)
    }

    /// Reads only some columns of all rows.
    ///
    /// For samples, these are the columns with the given names. For tensors, `data` is the only column that takes
    /// reading; you get all others anyway.
    ///
    /// # Errors
    ///
    /// As [`read`](Self::read), and [`ErrorKind::Message`](tensorfile::ErrorKind::Message) if there is no such column.
    pub fn read_columns(&self, columns: Option<&[&str]>) -> Result<Rows> {
        self.read_with_warnings(columns).map(|(rows, _)| rows)
    }

    /// Reads as [`read_columns`](Self::read_columns) does, and also returns the warnings about shards. If a shard is
    /// divided, you get them with the split at its end.
    ///
    /// # Errors
    ///
    /// As [`read_columns`](Self::read_columns).
    pub fn read_with_warnings(&self, columns: Option<&[&str]>) -> Result<(Rows, Vec<ShardWarning>)> {
        if !self.has_samples() {
            const COLUMNS: [&str; 5] = ["path", "name", "dtype", "shape", "data"];

            if let Some(column) = columns.unwrap_or_default().iter().find(|column| !COLUMNS.contains(column)) {
                return Err(refused(format!("tensors have no column `{column}`, but {}", COLUMNS.join(", "))));
            }
            let has_data = columns.is_none_or(|columns| columns.contains(&"data"));
            let mut rows = Vec::new();
            self.each_tensor(&mut |found| {
                let tensor = found.tensor();
                let data = has_data.then(|| tensor.read()).transpose().map_err(|error| in_file(error, found.path))?;
                let (path, name) = (found.path.to_owned(), tensor.name().to_owned());
                rows.push(TensorRow { path, name, info: tensor.info().clone(), data });
                Ok(())
            })?;
            return Ok((Rows::Tensors(rows), Vec::new()));
        }
        let mut samples = Vec::new();
        let warnings = self.each_sample(&mut |sample| {
            samples.push(sample);
            Ok(())
        })?;
        if let Some(columns) = columns {
            for sample in &mut samples {
                // A sample that cannot be read may still have none of the columns.
                let is_full = sample.has_clash().unwrap_or(false);
                sample.keep(is_full, &|member| columns.iter().any(|column| is_of(member, column)));
            }
        }
        let mut batch = Batch::new(&samples)?;
        if let Some(columns) = columns {
            batch.tensors.retain(|name, _| columns.contains(&&**name));
            batch.metadata.retain(|name, _| columns.contains(&&**name));
        }
        Ok((Rows::Samples(batch), warnings))
    }

    /// Calls `each` with all samples. Returns the warnings about the shards.
    pub(super) fn each_sample(&self, each: &mut dyn FnMut(Sample) -> Result<()>) -> Result<Vec<ShardWarning>> {
        self.check()?;
        let mut warnings = Vec::new();
        for piece in &self.pieces {
            let mut shard = open_shard(piece)?;
            shard.by_ref().try_for_each(|sample| each(sample?))?;
            warnings.extend(ShardWarning::all(&shard));
        }
        Ok(warnings)
    }

    /// Returns whether the rows are samples.
    #[must_use]
    pub fn has_samples(&self) -> bool {
        self.pieces.first().is_some_and(|piece| is_shard(&piece.location))
    }

    /// Iterates over the samples.
    ///
    /// # Errors
    ///
    /// As [`read`](Self::read), and [`ErrorKind::Message`](tensorfile::ErrorKind::Message) if the rows are tensors.
    pub fn samples(&self) -> Result<impl Iterator<Item = Result<Sample>>> {
        if !self.has_samples() {
            return Err(refused("the split has tensors, not samples".to_owned()));
        }
        self.check()?;
        let shards = self.pieces.iter().map(open_shard);
        Ok(shards.flat_map(|shard| {
            let (samples, error) = match shard {
                Ok(samples) => (Some(samples), None),
                Err(error) => (None, Some(Err(error))),
            };
            samples.into_iter().flatten().chain(error)
        }))
    }

    pub(super) fn each_tensor(&self, each: &mut dyn FnMut(TensorFound<'_>) -> Result<()>) -> Result<()> {
        self.check()?;
        for piece in &self.pieces {
            let file = File::open(&piece.location)?;
            let (path, names) = (shown(&piece.location), names_after_file(&file));
            let positions = match &piece.extent {
                Extent::All => 0..file.len(),
                Extent::Tensors(range) if range.end <= file.len() => range.clone(),
                _ => return Err(piece.changed()),
            };
            for position in positions {
                each(TensorFound { path: &path, file: &file, names: &names, position })?;
            }
        }
        Ok(())
    }

    /// Checks that the files still have the lengths of the plan.
    fn check(&self) -> Result<()> {
        self.pieces.iter().try_for_each(Piece::check)
    }

    /// Returns the name of a tensor in the part. If there are several files, it begins with the path in their folder.
    pub(super) fn name_of(&self, found: &TensorFound<'_>) -> String {
        let name = &found.names[found.position];
        let Some(root) = &self.root else { return name.clone() };
        let rest = found.path.strip_prefix(&**root).unwrap_or(found.path);
        if !found.tensor().has_name() {
            return Path::new(rest).with_file_name(name).to_string_lossy().into_owned();
        }
        format!("{}.{name}", Path::new(rest).with_extension("").display())
    }
}

fn open_shard(piece: &Piece) -> Result<Shard> {
    let shard = Shard::open(&piece.location)?;
    match &piece.extent {
        Extent::All => Ok(shard),
        Extent::Bytes(range) => shard.with_range(range.clone()),
        Extent::Tensors(_) => Err(refused(format!("{} has samples, not tensors", shown(&piece.location)))),
    }
}

/// A tensor of a split.
pub(super) struct TensorFound<'f> {
    /// The path or URL without secrets.
    pub(super) path: &'f str,
    pub(super) file: &'f File,
    /// The names of all tensors of the file, unique as in a file with names.
    names: &'f [String],
    pub(super) position: usize,
}

impl<'f> TensorFound<'f> {
    pub(super) fn tensor(&self) -> FileTensor<'f> {
        self.file.nth(self.position).expect("it is a position in the file")
    }
}

/// Adds the path of the file to an error of reading a tensor.
pub(super) fn in_file(error: tensorfile::Error, path: &str) -> Error {
    Error::from(error).in_shard(path)
}

/// Returns whether a file of a sample belongs to a column.
fn is_of(member: &Member, column: &str) -> bool {
    let is_below = |name: &str| column.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
    match member.kind() {
        Kind::Tensors(_) => is_below(member.name()) || is_below(&member.extension),
        Kind::Number | Kind::Text | Kind::Blob => member.name() == column,
    }
}
