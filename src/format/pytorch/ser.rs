//! Writes archives of one pickle: a dict of tensors, whose storages are the other members.

use rawzip::{DataDescriptorOutput, ZipArchiveWriter};

use super::archive::{StoredIn, begin, end, put_tensor, start_storage};
use super::header;
use super::write_pickle::{PickleWriter, Protocol};
use crate::error::{ErrorKind, Result};
use crate::model::{FormatSpec, TensorData};
use crate::tensor::TensorInfo;
use crate::write;
use crate::write::zip::{ByteCounter, CrcWriter, check_member, write_zeros, zip_write_error};
use crate::write::{FileLayout, FileWriter, NamePolicy, Output, PlannedTensors, Sharing};

/// Writes a dict of tensors. Tensors with the same bytes share a storage.
#[derive(Debug, Clone, Default)]
pub struct Encode {
    pub(super) keep_dim_order: bool,
    /// Tensors with the same bytes are stored several times.
    pub(super) stores_copies: bool,
}

impl write::Encode for Encode {
    fn spec(&self) -> &'static FormatSpec {
        &super::FORMAT
    }

    fn names(&self) -> NamePolicy {
        NamePolicy::Stored
    }

    fn keeps_dim_order(&self, _: &TensorInfo) -> bool {
        self.keep_dim_order
    }

    fn sharing(&self) -> Sharing {
        if self.stores_copies { Sharing::Never } else { Sharing::SameMemory }
    }

    fn check(&self, info: &TensorInfo) -> Result<(), ErrorKind> {
        header::check(info)?;
        check_member(info, super::FORMAT.name)
    }

    /// Writes the archive to nowhere, with zeros for the elements, to find the offsets.
    fn lay_out(&self, plan: &PlannedTensors) -> Result<FileLayout> {
        let mut archive = ZipArchiveWriter::new(ByteCounter(0));
        begin(&mut archive, &pickle(plan))?;
        let mut layout = FileLayout::with_capacity(plan.len());
        for index in 0..plan.len() {
            let owner = plan.owner(index);
            if owner < index {
                layout.push(&[], layout.payload(owner));
                continue;
            }
            let mut member = start_storage(&mut archive, index)?;
            layout.push(&[], member.stream_offset());
            write_zeros(&mut member, plan.payload_bytes(index))?;
            let bytes = member.compressed_bytes();
            member.finish(DataDescriptorOutput::new(0, bytes)).map_err(zip_write_error)?;
        }
        layout.end_offset = end(archive)?.0;
        Ok(layout)
    }

    fn has_writer(&self) -> bool {
        true
    }

    fn writer<'w>(&self, plan: &'w PlannedTensors, _: &'w FileLayout, out: Output<'w>) -> Box<dyn FileWriter<'w> + 'w> {
        Box::new(CheckpointWriter { plan, zip: ZipArchiveWriter::new(out), has_begun: false })
    }
}

/// An archive under construction.
struct CheckpointWriter<'w> {
    plan: &'w PlannedTensors,
    zip: ZipArchiveWriter<Output<'w>>,
    has_begun: bool,
}

impl CheckpointWriter<'_> {
    fn begin(&mut self) -> Result<()> {
        if std::mem::replace(&mut self.has_begun, true) { Ok(()) } else { begin(&mut self.zip, &pickle(self.plan)) }
    }
}

impl<'w> FileWriter<'w> for CheckpointWriter<'w> {
    fn tensor(&mut self, index: usize, data: &dyn TensorData) -> Result<()> {
        self.begin()?;
        let mut member = start_storage(&mut self.zip, index)?;
        let mut contents = CrcWriter::new(&mut member);
        data.copy_to(&mut contents)?;
        let contents = contents.finish();
        member.finish(contents).map(drop).map_err(zip_write_error)
    }

    fn finish(mut self: Box<Self>) -> Result<Output<'w>> {
        self.begin()?;
        end(self.zip)
    }
}

/// Returns the pickle of all tensors.
fn pickle(plan: &PlannedTensors) -> Vec<u8> {
    // PyTorch gives a storage the dtype of the first tensor that refers to it, unless no tensor's storage has one.
    let mut is_untyped = vec![false; plan.len()];
    for index in 0..plan.len() {
        let owner = plan.owner(index);
        is_untyped[owner] |= plan.info(index).dtype != plan.info(owner).dtype;
    }
    let mut pickle = PickleWriter::new(Protocol::Two);
    pickle.dict(&mut |pickle| {
        for index in 0..plan.len() {
            let (info, owner) = (plan.info(index), plan.owner(index));
            pickle.text(plan.name(index));
            let tag = header::tag_of(info.dtype);
            let storage = StoredIn {
                key: owner,
                bytes: plan.payload_bytes(index),
                tag: Some(tag).filter(|tag| !tag.storage.is_empty() && !is_untyped[owner]),
            };
            put_tensor(pickle, info, tag, &storage);
        }
    });
    pickle.finish()
}
