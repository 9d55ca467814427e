use std::ops::Range;

use super::near;
use crate::error::{Error, ErrorKind, Gap, LoadReport, Misfit, MissingTensor, UnexpectedTensor};
use crate::model::Slot;
use crate::tensor::TensorInfo;

/// What a walk has found so far, each finding with what puts it into order.
#[derive(Default)]
pub(super) struct Findings {
    /// By the place in the type.
    missing: Vec<(Vec<usize>, MissingTensor, Slot)>,
    /// Optional tensors that the file does without.
    absent: Vec<(String, Slot)>,
    gaps: Vec<(Vec<usize>, Gap)>,
    /// By the place in the file.
    unexpected: Vec<(usize, UnexpectedTensor)>,
    misfits: Vec<(usize, Kind, Misfit)>,
    refused: Option<String>,
    loaded: usize,
    loaded_bytes: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Dtype,
    Shape,
    Layout,
}

impl Findings {
    pub(super) fn fits(&mut self, info: &TensorInfo) {
        self.loaded += 1;
        self.loaded_bytes =
            self.loaded_bytes.saturating_add(info.payload_bytes().map_or(u64::MAX, |bytes| bytes as u64));
    }

    pub(super) fn missing(&mut self, name: &str, slot: &Slot, trail: &[usize]) {
        let missing = MissingTensor::new(name.to_owned(), slot.to_string());
        self.missing.push((trail.to_vec(), missing, slot.clone()));
    }

    pub(super) fn absent(&mut self, name: &str, slot: &Slot) {
        self.absent.push((name.to_owned(), slot.clone()));
    }

    pub(super) fn gap(&mut self, list: &str, missing: Range<usize>, trail: &[usize]) {
        self.gaps.push((trail.to_vec(), Gap::new(list.to_owned(), missing)));
    }

    pub(super) fn unexpected(&mut self, at: usize, name: String, info: &TensorInfo) {
        self.unexpected.push((at, UnexpectedTensor::new(name, info.clone())));
    }

    /// Notes why a tensor cannot be read where it lies.
    pub(super) fn misfit(&mut self, at: usize, name: String, why: ErrorKind) {
        let (kind, found, expected) = match why {
            ErrorKind::WrongDtype { found, expected } => (Kind::Dtype, found, expected.to_string()),
            ErrorKind::WrongShape { found, expected } => (Kind::Shape, found, expected),
            ErrorKind::WrongLayout { found, expected } => (Kind::Layout, found, expected.to_owned()),
            other => return self.refuse(&Error::new(other).in_tensor(name)),
        };
        self.misfits.push((at, kind, Misfit::new(name, found, expected)));
    }

    /// Notes why the tensors cannot be told from each other; the first reason counts.
    pub(super) fn refuse(&mut self, why: &Error) {
        self.refused.get_or_insert_with(|| why.to_string());
    }

    pub(super) fn is_refused(&self) -> bool {
        self.refused.is_some()
    }

    pub(super) fn report(mut self, tensors: usize) -> LoadReport {
        self.missing.sort_by(|(one, ..), (other, ..)| one.cmp(other));
        self.gaps.sort_by(|(one, _), (other, _)| one.cmp(other));
        self.unexpected.sort_by_key(|(at, _)| *at);
        self.misfits.sort_by_key(|(at, ..)| *at);
        let mut misfits = [Vec::new(), Vec::new(), Vec::new()];
        for (_, kind, misfit) in self.misfits {
            misfits[kind as usize].push(misfit);
        }
        let [wrong_dtype, wrong_shape, wrong_layout] = misfits;
        let missing = self.missing.iter().map(|(_, missing, slot)| (missing.name.clone(), slot.clone()));
        let wanted: Vec<(String, Slot)> = missing.chain(self.absent).collect();
        let mut report = LoadReport {
            tensors,
            loaded: self.loaded,
            loaded_bytes: self.loaded_bytes,
            missing: self.missing.into_iter().map(|(_, missing, _)| missing).collect(),
            unexpected: self.unexpected.into_iter().map(|(_, unexpected)| unexpected).collect(),
            wrong_dtype,
            wrong_shape,
            wrong_layout,
            gaps: self.gaps.into_iter().map(|(_, gap)| gap).collect(),
            refused: self.refused,
        };
        near::find(&mut report, &wanted);
        report
    }
}
