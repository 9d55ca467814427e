use std::io::{self, Write};

use super::Encode;
use crate::error::Error;
use crate::model::{TensorData, TensorRecord, gather};
use crate::tensor::checked_io::write_all;
use crate::tensor::{Layout, TensorInfo, write_row_major};

/// A tensor with a dim order, presented in row-major order.
pub(super) struct RowMajor<'a> {
    tensor: &'a TensorRecord<'a>,
    info: TensorInfo,
}

impl<'a> RowMajor<'a> {
    /// Returns whether a tensor is stored in another order than it has.
    #[inline]
    pub(super) fn is_needed(tensor: &TensorRecord<'_>, encode: &dyn Encode) -> bool {
        matches!(tensor.info.layout, Layout::DimOrder(_)) && !encode.keeps_dim_order(tensor.info)
    }

    pub(super) fn new(tensor: &'a TensorRecord<'a>) -> Self {
        Self { tensor, info: TensorInfo { layout: Layout::RowMajor, ..tensor.info.clone() } }
    }

    pub(super) fn record(&self) -> TensorRecord<'_> {
        TensorRecord { info: &self.info, data: self, ..*self.tensor }
    }
}

impl TensorData for RowMajor<'_> {
    fn write_to(&self, out: &mut dyn Write) -> io::Result<()> {
        let TensorRecord { info, data, .. } = *self.tensor;
        let Layout::DimOrder(order) = &info.layout else { return data.write_to(out) };
        // It may have had another order when it was planned.
        info.check_order().map_err(Error::from)?;
        let gathered;
        let bytes = match data.as_bytes() {
            Some(bytes) => bytes,
            None => {
                gathered = gather(info, data)?;
                &gathered
            }
        };
        match info.payload_bytes() == Some(bytes.len()) {
            true => write_row_major(bytes, info.dtype.block_bytes(), &info.shape, order, out),
            // The writer reports the difference.
            false => write_all(out, bytes),
        }
    }

    fn storage_id(&self) -> Option<u64> {
        self.tensor.data.storage_id()
    }
}
