//! The warnings of an open file.

use super::{ByteMap, File, FileTensor, is_aligned};
use crate::error::{Result, Short, Warning, WarningKind, counted};
use crate::tensor::TensorInfo;

impl File {
    /// Returns warnings about the file, from its metadata and its index. No payload is read. They equal the warnings of
    /// [`metadata`](Self::metadata), but the types of entries are not read for them.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open), if the metadata was not read with the index.
    pub fn warnings(&self) -> Result<Vec<Warning>> {
        let mut warnings = self.untyped_metadata().map_err(|error| self.place(error))?.warnings;
        warnings.extend(self.index_warnings());
        warnings.extend(self.quantization_warning()?);
        Ok(warnings)
    }

    /// Returns the warning about codes that fit no layout. The configuration may be read for it.
    pub(super) fn quantization_warning(&self) -> Result<Option<Warning>> {
        let unknown = self.quantized()?.unknown();
        let Some((first, part)) = unknown.first().and_then(|first| Some((first, first.parts().first()?))) else {
            return Ok(None);
        };
        let more = match unknown.len() {
            1 => String::new(),
            several => format!("; there are {several} such weights"),
        };
        let text = format!("`{}` may be a quantized weight, but {}{more}", Short(first.name()), first.reason());
        Ok(Some(Warning::new(WarningKind::Quantization, text).in_tensor(part.name())))
    }

    /// Returns the warnings from the index alone.
    pub(super) fn index_warnings(&self) -> impl Iterator<Item = Warning> {
        let found =
            [extension(self), repeated_names(self), damaged(self), unknown_dtypes(self), alignment(self), gap(self)];
        found.into_iter().flatten()
    }
}

fn extension(file: &File) -> Option<Warning> {
    // The path of a checkpoint in shards is the path of its index.
    let named = file.misnamed_as().filter(|_| file.shards().is_empty())?;
    let text = format!("the file is {}, but its extension is that of {}", file.format().name, named.name);
    Some(Warning::new(WarningKind::Extension, text))
}

fn repeated_names(file: &File) -> Option<Warning> {
    /// The names in the text.
    const SHOWN: usize = 5;

    if !file.index.has_repeated_names() {
        return None;
    }
    // A name leads to its first tensor. A set of all names would take more memory than the index.
    let is_first = |tensor: &FileTensor<'_>| file.position(tensor.name()) == Some(tensor.position());
    let mut names: Vec<&str> = file.tensors().filter(|tensor| !is_first(tensor)).map(|tensor| tensor.name()).collect();
    let first = *names.first()?;
    names.sort_unstable();
    names.dedup();
    let shown: Vec<String> = names.iter().take(SHOWN).map(|name| format!("`{}`", Short(name))).collect();
    let more = match names.len().saturating_sub(SHOWN) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let text = format!("tensors that have the same name can only be read by position: {}{more}", shown.join(", "));
    Some(Warning::new(WarningKind::DuplicateName, text).in_tensor(first))
}

fn damaged(file: &File) -> Option<Warning> {
    let mut damaged = file.tensors().filter(|tensor| tensor.info().is_damaged());
    let first = damaged.next()?;
    let (name, info) = (first.name(), first.info());
    let whole = TensorInfo::new(info.dtype, info.shape.clone());
    let takes =
        whole.payload_bytes().map_or_else(|| "more than can be addressed".to_owned(), |bytes| bytes.to_string());
    let has = counted(first.payload_bytes(), "byte");
    let more = match damaged.count() {
        0 => String::new(),
        more => format!("; there are {} such tensors", more + 1),
    };
    let text =
        format!("`{}` cannot be read, as the file has {has} of it, but {whole} takes {takes}{more}", Short(name));
    Some(Warning::new(WarningKind::Damaged, text).in_tensor(name).at(first.range().start))
}

fn unknown_dtypes(file: &File) -> Option<Warning> {
    let is_unknown = |info: &TensorInfo| info.unknown_dtype().is_some() && !info.is_damaged();
    let mut unknown = file.tensors().filter(|tensor| is_unknown(tensor.info()));
    let first = unknown.next()?;
    let (tensors, name, info) = (counted(1 + unknown.count(), "tensor"), first.name(), first.info());
    let text = format!("{tensors} cannot be read, because of an unknown dtype; the first is `{}`, {info}", Short(name));
    Some(Warning::new(WarningKind::UnknownDtype, text).in_tensor(name))
}

fn alignment(file: &File) -> Option<Warning> {
    let mut misaligned = file.tensors().filter(|tensor| !is_aligned(tensor));
    let first = misaligned.next()?;
    let (tensors, name) = (counted(1 + misaligned.count(), "tensor"), first.name());
    let text =
        format!("{tensors} cannot be borrowed, because the elements are not aligned; the first is `{}`", Short(name));
    Some(Warning::new(WarningKind::Alignment, text).in_tensor(name))
}

fn gap(file: &File) -> Option<Warning> {
    /// A number of bytes larger than any record header.
    const MAX_HEADER: u64 = 4096;

    let map = ByteMap::from_file(file);
    let largest_expected = map.alignment.unwrap_or(1).saturating_add(MAX_HEADER);
    let bytes = Some(map.largest_gap).filter(|gap| *gap >= largest_expected)?;
    Some(Warning::new(WarningKind::Gap, format!("there is a gap of {} between payloads", counted(bytes, "byte"))))
}
