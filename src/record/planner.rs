use std::sync::Arc;

use super::candidates::Candidates;
use super::order::in_stored_order;
use super::{Encode, Names, Plan};
use crate::error::Result;
use crate::model::{TensorRecord, TensorSink, Tensors};

impl Plan {
    /// Plans the file of some tensors.
    pub(crate) fn new(tensors: &dyn Tensors, encode: Arc<dyn Encode>) -> Result<Self> {
        let mut plan = Self::empty(encode, false);
        plan.add_all(tensors)?;
        plan.lay_out()?;
        Ok(plan)
    }

    /// Plans the file of one tensor that has the name that it is sent with, even if that is a number.
    pub(crate) fn of_named(tensors: &dyn Tensors, encode: Arc<dyn Encode>) -> Result<Self> {
        let mut plan = Self::empty(encode, true);
        plan.add_all(tensors)?;
        plan.lay_out()?;
        Ok(plan)
    }

    /// Plans the tensors of a checkpoint, which may be more than one file can address.
    #[cfg(feature = "shards")]
    pub(crate) fn without_layout(tensors: &dyn Tensors, encode: Arc<dyn Encode>) -> Result<Self> {
        let mut plan = Self::empty(encode, false);
        plan.add_all(tensors)?;
        Ok(plan)
    }

    pub(super) fn add_all(&mut self, tensors: &dyn Tensors) -> Result<()> {
        let mut candidates = Candidates::new(self.encode().sharing());
        tensors.send(&mut Planner { plan: self, candidates: &mut candidates })?;
        if self.len() > 1 && self.encode().names() != Names::Omitted {
            self.check_names()?;
        }
        self.shared = candidates.compare(self, tensors)?;
        Ok(())
    }
}

/// Makes a plan of the tensors that are sent to it.
struct Planner<'a> {
    plan: &'a mut Plan,
    candidates: &'a mut Candidates,
}

impl TensorSink for Planner<'_> {
    fn tensor(&mut self, tensor: &TensorRecord<'_>) -> Result<()> {
        let keeps_dim_order = self.plan.encode().keeps_dim_order();
        in_stored_order(tensor, keeps_dim_order, &mut |tensor| self.add(tensor))
            .map_err(|error| error.in_tensor(tensor.name))
    }
}

impl Planner<'_> {
    fn add(&mut self, tensor: &TensorRecord<'_>) -> Result<()> {
        let plan = &mut *self.plan;
        let encode = plan.encode();
        encode.format().check(tensor.name, encode.name_bytes(tensor.name), tensor.info, encode.names())?;
        encode.check(tensor.name, tensor.info)?;
        plan.push(tensor.name, tensor.info)?;
        let at = plan.len() - 1;
        self.candidates.add(at, plan.payload_bytes(at), tensor);
        Ok(())
    }
}
