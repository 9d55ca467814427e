//! Collects the differences between a type and a file into a load report.

use std::collections::HashMap;
use std::ops::Range;

use indexmap::IndexMap;

use super::near;
use crate::error::{
    Error, ErrorKind, Gap, InvalidMetadata, LoadReport, Misfit, MissingMetadata, MissingTensor, Result,
    UnexpectedTensor,
};
use crate::model::{TensorRecord, TensorSink, TensorSpec};
use crate::tensor::{Dtype, TensorInfo, sorted};

/// All findings of a comparison, with keys to sort them.
#[derive(Default)]
pub(super) struct Findings {
    /// The numbers of the fields and items around the current one.
    pub(super) trail: Vec<usize>,
    /// For each tensor of the file, whether the type has a place for it.
    pub(super) taken: Vec<bool>,
    /// Ordered by the place in the type.
    missing: Vec<(Vec<usize>, MissingTensor, TensorSpec)>,
    /// Optional tensors missing from the file.
    absent: Vec<(String, TensorSpec)>,
    gaps: Vec<(Vec<usize>, Gap)>,
    /// Ordered by the place in the file.
    unexpected: Vec<(usize, UnexpectedTensor)>,
    /// Tensors skipped by the type.
    skipped: Vec<UnexpectedTensor>,
    misfits: Vec<(usize, Kind, Misfit)>,
    missing_metadata: Vec<MissingMetadata>,
    invalid_metadata: Vec<InvalidMetadata>,
    refused: Option<String>,
    /// The value to compare the file with.
    pub(super) like: Option<Box<Like>>,
    /// The matching tensors, in the order of reading.
    pub(super) loaded: Vec<usize>,
    loaded_bytes: u64,
    /// The tensors at fields with the attribute `dequantize`, each with the dtype to decode it to.
    pub(super) dequantized: Vec<(usize, Dtype)>,
}

/// The tensors of a value to compare a file with.
#[derive(Default)]
pub(super) struct Like {
    /// Each tensor by its name, and whether the file has it.
    tensors: IndexMap<String, (TensorInfo, bool)>,
    /// Aliases found in the file, and prefixes of names below an alias, with the value's names for them.
    aliases: HashMap<String, String>,
}

impl TensorSink for Like {
    fn tensor(&mut self, tensor: &TensorRecord<'_>) -> Result<()> {
        self.tensors.insert(tensor.name.to_owned(), (tensor.info.clone(), false));
        Ok(())
    }
}

impl Like {
    /// Adds a field found under an alias.
    pub(super) fn alias(&mut self, found: &str, alias: &str, name: &str) {
        let own = format!("{}{name}", found.strip_suffix(alias).unwrap_or_default());
        self.aliases.insert(found.to_owned(), own);
    }

    /// Returns the value's name for a tensor of the file.
    fn own_name(&self, found: &str) -> String {
        let (mut name, mut end) = (found.to_owned(), Some(found.len()));
        // Aliases of inner fields come first: they were found below outer ones.
        while let Some(at) = end.filter(|_| !self.aliases.is_empty()) {
            match self.aliases.get(&name[..at]) {
                Some(own) => {
                    name.replace_range(..at, own);
                    end = own.rfind('.');
                }
                None => end = name[..at].rfind('.'),
            }
        }
        name
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Dtype,
    Codes,
    Shape,
    Layout,
}

impl Findings {
    /// Nothing was found in a file of `tensors` tensors yet.
    pub(super) fn new(tensors: usize) -> Self {
        Self { taken: vec![false; tensors], ..Self::default() }
    }

    /// Adds a tensor with a place in the type.
    pub(super) fn take(&mut self, at: usize) {
        self.taken[at] = true;
    }

    /// Adds a tensor that fits its place.
    pub(super) fn fits(&mut self, at: usize, info: &TensorInfo) {
        self.loaded.push(at);
        self.loaded_bytes =
            self.loaded_bytes.saturating_add(info.payload_bytes().map_or(u64::MAX, |bytes| bytes as u64));
    }

    /// Adds a tensor with a checked header, after comparing it with the value's tensor, if any. `path` is its place in
    /// the type, and `label` its name in messages.
    pub(super) fn checked(
        &mut self,
        at: usize,
        path: &str,
        label: String,
        info: &TensorInfo,
        spec: &TensorSpec,
        are_codes: &mut dyn FnMut(usize) -> bool,
    ) {
        let mut checked = spec.check(info);
        if spec.is_dequantized() {
            self.dequantized.push((at, spec.decoded_dtype()));
        }
        if spec.needs_numbers(info) && are_codes(at) {
            let expected = spec.casts(info).unwrap_or_else(|| spec.decoded_dtype());
            return self.misfits.push((at, Kind::Codes, Misfit::new(label, info.clone(), expected.to_string())));
        }
        if let Some(like) = &mut self.like {
            let name = like.own_name(path);
            let Some((own, is_found)) = like.tensors.get_mut(&name) else { return self.unexpected(at, label, info) };
            *is_found = true;
            // All types except arbitrary tensors require a dtype.
            let is_other = spec.takes_bytes() && info.dtype != own.dtype;
            checked = checked.and_then(|()| match (is_other, info.shape == own.shape) {
                (true, _) => Err(ErrorKind::WrongDtype { found: info.clone(), expected: own.dtype }),
                (_, false) => Err(ErrorKind::WrongShape { found: info.clone(), expected: own.shape.to_string() }),
                (false, true) => Ok(()),
            });
        }
        match checked {
            Ok(()) => self.fits(at, info),
            Err(kind) => self.misfit(at, label, kind),
        }
    }

    /// Adds the tensors of the value missing from the file.
    pub(super) fn end_like(&mut self) {
        let Some(mut like) = self.like.take() else { return };
        for (_, missing, _) in &self.missing {
            let name = like.own_name(&missing.name);
            like.tensors.get_mut(&name).into_iter().for_each(|(_, is_found)| *is_found = true);
        }
        for (name, (info, _)) in like.tensors.iter().filter(|(_, (_, is_found))| !is_found) {
            let missing = MissingTensor::new(name.clone(), info.to_string());
            // After the tensors missing for the type, in the order of the value.
            self.missing.push((vec![usize::MAX], missing, TensorSpec::ANY));
        }
    }

    pub(super) fn missing(&mut self, name: &str, spec: &TensorSpec) {
        let missing = MissingTensor::new(name.to_owned(), spec.to_string());
        self.missing.push((self.trail.clone(), missing, *spec));
    }

    /// Adds a list or a map without any findings.
    pub(super) fn missing_parts(&mut self, name: &str, expected: &str) {
        let missing = MissingTensor::new(name.to_owned(), expected.to_owned());
        self.missing.push((self.trail.clone(), missing, TensorSpec::ANY));
    }

    /// Returns whether anything does not fit.
    pub(super) fn has_any(&self) -> bool {
        let tensors = self.missing.len() + self.gaps.len() + self.unexpected.len() + self.misfits.len();
        tensors + self.missing_metadata.len() + self.invalid_metadata.len() > 0
    }

    pub(super) fn missing_count(&self) -> usize {
        self.missing.len()
    }

    pub(super) fn absent(&mut self, name: &str, spec: TensorSpec) {
        self.absent.push((name.to_owned(), spec));
    }

    pub(super) fn gap(&mut self, list: &str, missing: Range<usize>) {
        self.gaps.push((self.trail.clone(), Gap::new(list.to_owned(), missing)));
    }

    pub(super) fn unexpected(&mut self, at: usize, name: String, info: &TensorInfo) {
        self.unexpected.push((at, UnexpectedTensor::new(name, info.clone())));
    }

    /// Adds a skipped tensor. It may be a missing one under another name.
    pub(super) fn skipped(&mut self, name: String, info: &TensorInfo) {
        self.skipped.push(UnexpectedTensor::new(name, info.clone()));
    }

    /// Adds a tensor with the wrong dtype, shape or layout for its place.
    pub(super) fn misfit(&mut self, at: usize, name: String, why: ErrorKind) {
        let (kind, found, expected) = match why {
            ErrorKind::WrongDtype { found, expected } => (Kind::Dtype, found, expected.to_string()),
            ErrorKind::WrongShape { found, expected } => (Kind::Shape, found, expected),
            ErrorKind::WrongLayout { found, expected } => (Kind::Layout, found, expected.to_owned()),
            other => return self.refuse(&Error::new(other).in_tensor(name)),
        };
        self.misfits.push((at, kind, Misfit::new(name, found, expected)));
    }

    /// Adds missing or invalid metadata. Any other error is a failure to read the file.
    pub(super) fn metadata(&mut self, error: Error) -> Result<()> {
        match error.kind() {
            ErrorKind::MissingMetadata { key, expected, found } => {
                let near = near::similar(key, found);
                self.missing_metadata.push(MissingMetadata::new(key.clone(), expected.clone(), near));
            }
            ErrorKind::InvalidMetadata { key, what } => {
                self.invalid_metadata.push(InvalidMetadata::new(key.clone(), what.clone()));
            }
            _ => return Err(error),
        }
        Ok(())
    }

    /// Adds the reason why the tensors cannot be matched with the type. The first one counts.
    pub(super) fn refuse(&mut self, why: &Error) {
        self.refused.get_or_insert_with(|| why.to_string());
    }

    pub(super) fn report(mut self, tensors: usize) -> LoadReport {
        self.missing = sorted::values(self.missing, &mut |(one, ..), (other, ..)| one.cmp(other));
        self.gaps = sorted::values(self.gaps, &mut |(one, _), (other, _)| one.cmp(other));
        self.unexpected = sorted::values(self.unexpected, &mut |(one, _), (other, _)| one.cmp(other));
        self.misfits = sorted::values(self.misfits, &mut |(one, ..), (other, ..)| one.cmp(other));
        let mut misfits = [const { Vec::new() }; 4];
        for (_, kind, misfit) in self.misfits {
            misfits[kind as usize].push(misfit);
        }
        let [wrong_dtype, codes, wrong_shape, wrong_layout] = misfits;
        let missing = self.missing.iter().map(|(_, missing, spec)| (missing.name.clone(), *spec));
        let wanted: Vec<(String, TensorSpec)> = missing.chain(self.absent).collect();
        let mut report = LoadReport {
            tensors,
            loaded: self.loaded.len(),
            loaded_bytes: self.loaded_bytes,
            missing: self.missing.into_iter().map(|(_, missing, _)| missing).collect(),
            unexpected: self.unexpected.into_iter().map(|(_, unexpected)| unexpected).collect(),
            wrong_dtype,
            codes,
            wrong_shape,
            wrong_layout,
            gaps: self.gaps.into_iter().map(|(_, gap)| gap).collect(),
            missing_metadata: self.missing_metadata,
            invalid_metadata: self.invalid_metadata,
            refused: self.refused,
        };
        // They are not unexpected, but missing tensors may have their names.
        let unexpected = report.unexpected.len();
        report.unexpected.append(&mut self.skipped);
        near::find(&mut report, &wanted);
        report.unexpected.truncate(unexpected);
        report
    }
}
