use std::ops::Range;

use super::near;
use crate::error::{
    Error, ErrorKind, Gap, InvalidMetadata, LoadReport, Misfit, MissingMetadata, MissingTensor, Result,
    UnexpectedTensor,
};
use crate::model::TensorSpec;
use crate::tensor::{TensorInfo, sorted};

/// Everything that was found while comparing a type with a file, with the keys that put it into order.
#[derive(Default)]
pub(super) struct Findings {
    /// The numbers of the fields and items around the current one.
    pub(super) trail: Vec<usize>,
    /// For each tensor of the file, whether the type has a place for it.
    pub(super) taken: Vec<bool>,
    /// Ordered by the place in the type.
    missing: Vec<(Vec<usize>, MissingTensor, TensorSpec)>,
    /// Optional tensors that the file does not have.
    absent: Vec<(String, TensorSpec)>,
    gaps: Vec<(Vec<usize>, Gap)>,
    /// Ordered by the place in the file.
    unexpected: Vec<(usize, UnexpectedTensor)>,
    /// Tensors that the type skips.
    skipped: Vec<UnexpectedTensor>,
    misfits: Vec<(usize, Kind, Misfit)>,
    missing_metadata: Vec<MissingMetadata>,
    invalid_metadata: Vec<InvalidMetadata>,
    refused: Option<String>,
    /// The tensors that fit, in the order of reading.
    pub(super) loaded: Vec<usize>,
    loaded_bytes: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Dtype,
    Shape,
    Layout,
}

impl Findings {
    /// Nothing was found in a file of `tensors` tensors yet.
    pub(super) fn of(tensors: usize) -> Self {
        Self { taken: vec![false; tensors], ..Self::default() }
    }

    /// Adds a tensor that the type has a place for.
    pub(super) fn take(&mut self, at: usize) {
        self.taken[at] = true;
    }

    /// Adds a tensor that fits its place.
    pub(super) fn fits(&mut self, at: usize, info: &TensorInfo) {
        self.loaded.push(at);
        self.loaded_bytes =
            self.loaded_bytes.saturating_add(info.payload_bytes().map_or(u64::MAX, |bytes| bytes as u64));
    }

    pub(super) fn missing(&mut self, name: &str, spec: &TensorSpec) {
        let missing = MissingTensor::new(name.to_owned(), spec.to_string());
        self.missing.push((self.trail.clone(), missing, *spec));
    }

    /// Adds a list or a map of which nothing was found.
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

    /// Adds a tensor that the type skips. It may be one that is missing.
    pub(super) fn skipped(&mut self, name: String, info: &TensorInfo) {
        self.skipped.push(UnexpectedTensor::new(name, info.clone()));
    }

    /// Adds a tensor that does not have the dtype, shape or layout of its place.
    pub(super) fn misfit(&mut self, at: usize, name: String, why: ErrorKind) {
        let (kind, found, expected) = match why {
            ErrorKind::WrongDtype { found, expected } => (Kind::Dtype, found, expected.to_string()),
            ErrorKind::WrongShape { found, expected } => (Kind::Shape, found, expected),
            ErrorKind::WrongLayout { found, expected } => (Kind::Layout, found, expected.to_owned()),
            other => return self.refuse(&Error::new(other).in_tensor(name)),
        };
        self.misfits.push((at, kind, Misfit::new(name, found, expected)));
    }

    /// Adds metadata that is missing or invalid. Any other error is one of reading the file.
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
        let mut misfits = [Vec::new(), Vec::new(), Vec::new()];
        for (_, kind, misfit) in self.misfits {
            misfits[kind as usize].push(misfit);
        }
        let [wrong_dtype, wrong_shape, wrong_layout] = misfits;
        let missing = self.missing.iter().map(|(_, missing, spec)| (missing.name.clone(), *spec));
        let wanted: Vec<(String, TensorSpec)> = missing.chain(self.absent).collect();
        let mut report = LoadReport {
            tensors,
            loaded: self.loaded.len(),
            loaded_bytes: self.loaded_bytes,
            missing: self.missing.into_iter().map(|(_, missing, _)| missing).collect(),
            unexpected: self.unexpected.into_iter().map(|(_, unexpected)| unexpected).collect(),
            wrong_dtype,
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
