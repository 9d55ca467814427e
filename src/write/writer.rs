//! Writes a planned file. The tensors are sent a second time and compared with the plan, because a value may have
//! changed since.

use std::fmt;
use std::fs::File;
use std::io::{self, Seek, Write};

use super::digest_check::{Checked, changed};
use super::row_major::RowMajor;
use super::{Encode, FileWriter, LentEncode, Output, Plan, small};
use crate::error::{Error, Result, Short};
use crate::model::{MetadataValue, TensorData, TensorRecord, TensorSink, Tensors};
use crate::storage::{Durability, ProgressCount, ProgressWriter, WriteBehind, allocate};
use crate::tensor::checked_io;

/// Writes some tensors to a file in memory.
pub(crate) fn to_vec(tensors: &dyn Tensors, encode: &dyn LentEncode) -> Result<Vec<u8>> {
    let mut file = Vec::new();
    to_vec_into(&mut file, tensors, encode)?;
    // A compressed file is shorter than planned. Otherwise, hardly more memory was taken than is used.
    if file.capacity() / 2 > file.len() {
        file.shrink_to_fit();
    }
    Ok(file)
}

/// Writes tensors to a file in memory, reusing its allocation.
pub(crate) fn to_vec_into(file: &mut Vec<u8>, tensors: &dyn Tensors, encode: &dyn LentEncode) -> Result<()> {
    file.clear();
    if small::write(tensors, encode.encode(), file) {
        return Ok(());
    }
    let plan = Plan::new(tensors, encode.shared())?;
    plan.reserve(file)?;
    *file = plan.write(tensors, Output::memory(std::mem::take(file)))?;
    Ok(())
}

/// Writes some tensors to a writer.
pub(crate) fn to_writer(out: &mut dyn Write, tensors: &dyn Tensors, encode: &dyn LentEncode) -> Result<()> {
    let mut file = Vec::new();
    if small::write(tensors, encode.encode(), &mut file) {
        return write_all(&file, out, encode.encode());
    }
    let plan = Plan::new(tensors, encode.shared())?;
    plan.write(tensors, Output::stream(out, plan.file_bytes())).map(drop)
}

fn write_all(file: &[u8], out: &mut dyn Write, encode: &dyn Encode) -> Result<()> {
    let written = checked_io::write_all(out, file).and_then(|()| out.flush());
    written.map_err(|error| Error::from(error).in_format(encode.spec().name))
}

impl Plan {
    /// Returns a writer of the file.
    ///
    /// In a sorted file, it holds the payloads of tensors sent before their turn.
    ///
    /// ```
    /// use tensorfile::{Tensor, TensorMap, Tensors, ten};
    ///
    /// let map: TensorMap = [("bias", Tensor::from_slice(&[1.0_f32], [1])?)].into_iter().collect();
    /// let plan = ten::Options::new().plan(&map)?;
    /// let mut file = Vec::new();
    /// let mut writer = plan.writer(&mut file);
    /// map.send(&mut writer)?;
    /// writer.finish()?;
    /// assert_eq!(file.len() as u64, plan.file_bytes());
    /// # Ok::<(), tensorfile::Error>(())
    /// ```
    pub fn writer<'w>(&'w self, out: &'w mut dyn Write) -> PlanWriter<'w> {
        PlanWriter::new(self, Output::stream(out, self.file_bytes()).holding_all())
    }

    /// Writes the planned tensors with another writer than that of the format.
    pub(crate) fn write_with<'w>(&'w self, tensors: &dyn Tensors, file: Box<dyn FileWriter<'w> + 'w>) -> Result<()> {
        let mut writer = PlanWriter { plan: self, file, done: 0, metadata_done: 0 };
        tensors.send(&mut writer)?;
        writer.finish()
    }

    /// Writes the planned tensors to a stream.
    pub(crate) fn write_stream(
        &self,
        tensors: &dyn Tensors,
        out: &mut dyn Write,
        count: Option<&mut ProgressCount<'_>>,
    ) -> Result<()> {
        let mut counted;
        let out: &mut dyn Write = match count {
            Some(count) => {
                counted = ProgressWriter { out, count };
                &mut counted
            }
            None => out,
        };
        self.write(tensors, Output::stream(out, self.file_bytes())).map(drop)
    }

    /// Writes the planned tensors to a new file, as [`write_stream`](Self::write_stream) does.
    pub(crate) fn write_file(
        &self,
        tensors: &dyn Tensors,
        file: &mut File,
        durability: Durability,
        count: Option<&mut ProgressCount<'_>>,
    ) -> Result<()> {
        allocate(file, self.file_bytes())?;
        self.write_stream(tensors, &mut WriteBehind::new(file, durability == Durability::Flushed), count)?;
        // A compressed file is shorter than planned.
        let end = file.stream_position()?;
        if end < self.file_bytes() {
            file.set_len(end)?;
        }
        Ok(())
    }

    /// Makes room for the whole file. If there is not enough memory, `file` is empty.
    fn reserve(&self, file: &mut Vec<u8>) -> Result<()> {
        let more = usize::try_from(self.file_bytes()).ok().map(|len| len - file.len());
        // A view can have far more elements than there is memory, so the allocation may fail.
        more.and_then(|more| file.try_reserve_exact(more).ok()).ok_or_else(|| {
            file.clear();
            Error::from(io::Error::from(io::ErrorKind::OutOfMemory)).in_format(self.encode().spec().name)
        })
    }

    /// Writes the planned tensors. Returns the file if it is written to memory.
    pub(crate) fn write<'w>(&'w self, tensors: &dyn Tensors, out: Output<'w>) -> Result<Vec<u8>> {
        let mut writer = PlanWriter::new(self, out);
        loop {
            tensors.send(&mut writer).map_err(|error| error.in_format(self.encode().spec().name))?;
            if !writer.starts_over() {
                return writer.into_output();
            }
        }
    }
}

/// Writes the file described by a [`Plan`]: a sink for the planned tensors. Call [`finish`](Self::finish) after the
/// last one.
///
/// ```
/// use tensorfile::{TensorMap, Tensors, ten};
///
/// let map = TensorMap::from_iter([("a", ndarray::array![1.0_f32])]);
/// let plan = ten::Options::new().plan(&map)?;
/// let mut file = Vec::new();
/// let mut writer = plan.writer(&mut file);
/// map.send(&mut writer)?;
/// writer.finish()?;
/// assert_eq!(file, ten::to_vec(&map)?);
/// # Ok::<(), tensorfile::Error>(())
/// ```
pub struct PlanWriter<'w> {
    plan: &'w Plan,
    file: Box<dyn FileWriter<'w> + 'w>,
    /// The number of tensors written.
    done: usize,
    /// The number of metadata entries received.
    metadata_done: usize,
}

impl<'w> PlanWriter<'w> {
    pub(super) fn new(plan: &'w Plan, out: Output<'w>) -> Self {
        Self { plan, file: plan.encode().writer(&plan.tensors, &plan.layout, out), done: 0, metadata_done: 0 }
    }

    /// Writes the end of the file and flushes the writer.
    ///
    /// # Errors
    ///
    /// - [`ErrorKind::Changed`](crate::ErrorKind::Changed): a planned tensor was not sent.
    /// - [`ErrorKind::Io`](crate::ErrorKind::Io): writing failed.
    pub fn finish(self) -> Result<()> {
        self.into_output().map(drop)
    }

    /// Returns whether all tensors came, but must be sent again.
    fn starts_over(&mut self) -> bool {
        let starts_over = self.done == self.sent_tensors() && self.file.starts_over();
        if starts_over {
            (self.done, self.metadata_done) = (0, 0);
        }
        starts_over
    }

    /// Returns the number of tensors sent: all but the list of names.
    fn sent_tensors(&self) -> usize {
        self.plan.len() - usize::from(self.plan.embedded().is_some())
    }

    fn into_output(mut self) -> Result<Vec<u8>> {
        let plan = self.plan;
        let finish = || {
            if self.done < self.sent_tensors() {
                return Err(changed(format!("`{}` did not come again", Short(plan.name(self.done)))));
            }
            if self.metadata_done < plan.metadata.len() {
                let (came, planned) = (self.metadata_done, plan.metadata.len());
                return Err(changed(format!("only {came} of {planned} entries of metadata came again")));
            }
            if let Some(names) = plan.embedded() {
                self.file.tensor(self.done, &names)?;
            }
            Ok(self.file.finish()?.finish()?)
        };
        finish().map_err(|error: Error| error.in_format(plan.encode().spec().name))
    }

    /// Checks the next tensor against the plan.
    fn check(&self, tensor: &TensorRecord<'_>) -> Result<()> {
        let (plan, name, info) = (self.plan, tensor.name, tensor.info);
        if self.done >= self.sent_tensors() {
            return Err(changed(format!("`{}` was not there before", Short(name))));
        }
        let (planned, before) = (plan.name(self.done), plan.info(self.done));
        if name != planned || info != before {
            let (planned, name) = (Short(planned), Short(name));
            return Err(changed(format!("`{planned}` was {before}, then came `{name}`, {info}")));
        }
        Ok(())
    }
}

impl TensorSink for PlanWriter<'_> {
    fn tensor(&mut self, tensor: &TensorRecord<'_>) -> Result<()> {
        let (plan, index) = (self.plan, self.done);
        if RowMajor::is_needed(tensor, plan.encode()) {
            return self.tensor(&RowMajor::new(tensor).record());
        }
        let written = self.check(tensor).and_then(|()| {
            let data = Checked { data: tensor.data, planned: plan.payload_bytes(index), digest: plan.digest(index) };
            if plan.owner(index) == index {
                self.file.tensor(index, &data)
            } else {
                Ok(data.write_to(&mut io::sink())?)
            }
        });
        self.done += usize::from(written.is_ok());
        written.map_err(|error| error.in_tensor(tensor.name).in_format(plan.encode().spec().name))
    }

    fn metadata(&mut self, key: &str, value: &MetadataValue) -> Result<()> {
        let shown =
            |(key, value): (&str, &MetadataValue)| format!("`{}` = `{}`", Short(key), Short(&value.to_string()));
        let planned = self.plan.metadata.get(self.metadata_done).map(|(key, value)| (key.as_str(), value));
        self.metadata_done += 1;
        // Compared as text, in which NaN equals itself.
        if planned.is_some_and(|(before, planned)| before == key && planned.to_string() == value.to_string()) {
            return Ok(());
        }
        let before = planned.map_or("was not there".to_owned(), |planned| format!("was {}", shown(planned)));
        let what = format!("metadata {before}, then came {}", shown((key, value)));
        Err(changed(what).in_format(self.plan.encode().spec().name))
    }
}

impl fmt::Debug for PlanWriter<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PlanWriter").field("plan", self.plan).field("done", &self.done).finish_non_exhaustive()
    }
}
