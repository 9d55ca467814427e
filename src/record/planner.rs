use std::sync::Arc;

use super::candidates::Candidates;
use super::order::in_stored_order;
use super::{Encode, Names, Plan};
use crate::error::Result;
use crate::model::{TensorRecord, TensorSink, Tensors};

impl Plan {
    /// Plans the file of some tensors.
    pub(crate) fn new(tensors: &dyn Tensors, encode: Arc<dyn Encode>) -> Result<Self> {
        Self::with_names(tensors, encode, false).and_then(Self::laid_out)
    }

    /// Plans the file of one tensor that has the name that it is sent with, even if that is a number.
    pub(crate) fn of_named(tensors: &dyn Tensors, encode: Arc<dyn Encode>) -> Result<Self> {
        Self::with_names(tensors, encode, true).and_then(Self::laid_out)
    }

    /// Plans the tensors of a checkpoint, which may be more than one file can address.
    #[cfg(feature = "shards")]
    pub(crate) fn without_layout(tensors: &dyn Tensors, encode: Arc<dyn Encode>) -> Result<Self> {
        Self::with_names(tensors, encode, false)
    }

    fn with_names(tensors: &dyn Tensors, encode: Arc<dyn Encode>, is_named: bool) -> Result<Self> {
        let candidates = Candidates::new(encode.sharing());
        let mut planner = Planner { plan: Self::empty(encode, is_named), candidates };
        tensors.send(&mut planner)?;
        let Planner { mut plan, candidates } = planner;
        if plan.len() > 1 && plan.encode().names() != Names::Omitted {
            plan.check_names()?;
        }
        plan.shared = candidates.compare(&plan, tensors)?;
        Ok(plan)
    }
}

/// Makes a plan of the tensors that are sent to it.
struct Planner {
    plan: Plan,
    candidates: Candidates,
}

impl TensorSink for Planner {
    fn tensor(&mut self, tensor: &TensorRecord<'_>) -> Result<()> {
        let encode = Arc::clone(&self.plan.encode);
        in_stored_order(tensor, &*encode, &mut |tensor| self.add(tensor)).map_err(|error| error.in_tensor(tensor.name))
    }
}

impl Planner {
    fn add(&mut self, tensor: &TensorRecord<'_>) -> Result<()> {
        let plan = &mut self.plan;
        let encode = plan.encode();
        encode.format().check(encode.name_bytes(tensor.name), tensor.info, encode.names())?;
        encode.check(tensor.name, tensor.info)?;
        plan.push(tensor.name, tensor.info)?;
        let at = plan.len() - 1;
        self.candidates.add(at, plan.payload_bytes(at), tensor);
        Ok(())
    }
}
