use std::io::{self, Write};

use crate::error::Result;
use crate::model::{TensorData, TensorRecord};
use crate::tensor::{Layout, TensorInfo, write_row_major};

/// Calls `then` with a tensor in the order in which it is stored.
pub(super) fn in_stored_order(
    tensor: &TensorRecord<'_>,
    keeps_dim_order: bool,
    then: &mut dyn FnMut(&TensorRecord<'_>) -> Result<()>,
) -> Result<()> {
    if !matches!(tensor.info.layout, Layout::DimOrder(_)) || keeps_dim_order {
        return then(tensor);
    }
    let info = TensorInfo { layout: Layout::RowMajor, ..tensor.info.clone() };
    then(&TensorRecord { info: &info, data: &RowMajor { data: tensor.data, info: tensor.info }, ..*tensor })
}

/// The elements of a tensor in a dim order, in row-major order.
struct RowMajor<'a> {
    data: &'a dyn TensorData,
    info: &'a TensorInfo,
}

impl TensorData for RowMajor<'_> {
    fn write_to(&self, out: &mut dyn Write) -> io::Result<()> {
        let Layout::DimOrder(order) = &self.info.layout else { return self.data.write_to(out) };
        let gathered;
        let bytes = match self.data.as_bytes() {
            Some(bytes) => bytes,
            None => {
                let mut all = Vec::new();
                self.data.write_to(&mut all)?;
                gathered = all;
                &gathered
            }
        };
        match self.info.payload_bytes() == Some(bytes.len()) {
            true => write_row_major(bytes, self.info.dtype.block_bytes(), &self.info.shape, order, out),
            // The writer reports the difference.
            false => out.write_all(bytes),
        }
    }

    fn storage_id(&self) -> Option<u64> {
        self.data.storage_id()
    }
}
