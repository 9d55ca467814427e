//! Plans for reading many tensors together.

use std::sync::Arc;

use tensorfile::File;
use tensorfile::file::ReadPlan;

use crate::callbacks::listener;
use crate::file::layout;
use crate::pointers::{self, OwnedPlan, Shared, Tag};
use crate::{Failure, Result, dtype, tf_file, tf_part, tf_piece, tf_plan_info, tf_plan_options};

/// Tensors and parts of tensors that are read together, with several threads. It keeps its file alive.
#[derive(Debug)]
pub struct tf_plan(Shared<OwnedPlan>);

impl tf_plan {
    /// Plans to read parts, or all tensors.
    pub fn new(file: Arc<tf_file>, parts: Option<&[tf_part]>, options: &tf_plan_options) -> Result<Self> {
        OwnedPlan::new(file, |file| plan(file, parts, options)).map(|plan| Self(Shared::new(plan)))
    }
}

fn plan<'f>(file: &'f File, parts: Option<&[tf_part]>, options: &tf_plan_options) -> Result<ReadPlan<'f>> {
    let mut plan = file.read_plan();
    if options.align > 0 {
        plan = plan.align(options.align);
    }
    if let Some(listener) = listener(options.progress, options.progress_context) {
        plan = plan.progress(listener);
    }
    let Some(parts) = parts else { return Ok(plan.all()?.finish()?) };
    for part in parts {
        let name = part.name.to_str()?;
        plan = if part.ranges.is_null() && part.rank == 0 {
            plan.tensor(name)?
        } else {
            let ranges = pointers::array(part.ranges, part.rank, "the ranges of a part")?;
            let ranges: Vec<_> = ranges.iter().map(|range| range.start..range.end).collect();
            plan.slice(name, &ranges)?
        };
    }
    Ok(plan.finish()?)
}

pub fn info(plan: &ReadPlan<'_>) -> tf_plan_info {
    tf_plan_info {
        size: size_of::<tf_plan_info>(),
        pieces: plan.pieces().len(),
        bytes: plan.bytes(),
        bytes_read: plan.bytes_read(),
    }
}

pub fn piece(plan: &ReadPlan<'_>, index: usize) -> Result<tf_piece> {
    let piece = plan.pieces().get(index);
    let piece = piece
        .ok_or_else(|| Failure::argument(format!("there is no piece {index}; the plan has {}", plan.pieces().len())))?;
    let (info, range) = (piece.info(), piece.range());
    Ok(tf_piece {
        size: size_of::<tf_piece>(),
        name: piece.name().into(),
        dtype: dtype::number(info.dtype),
        layout: layout(&info.layout) as i32,
        rank: info.shape.rank(),
        dims: info.shape.dims().as_ptr(),
        offset: range.start,
        bytes: range.len(),
    })
}

pub fn read(plan: &ReadPlan<'_>, memory: &mut [u8]) -> Result<()> {
    if memory.len() < plan.bytes() {
        let (len, needed) = (memory.len(), plan.bytes());
        return Err(Failure::argument(format!("the memory has {len} bytes, but the plan needs {needed}")));
    }
    Ok(plan.read_into(memory)?)
}

impl Tag for tf_plan {
    type Object = OwnedPlan;
    const TAG: u64 = u64::from_le_bytes(*b"tf_plan\0");
    const NAME: &str = "plan";

    fn shared(&self) -> &Shared<OwnedPlan> {
        &self.0
    }
}
