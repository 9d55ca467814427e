//! What GPTQ and AWQ share: integers in words, with zeros and scales for groups of rows.

use super::candidate::said;
use crate::tensor::TensorInfo;

/// The parts beside the codes.
pub(super) struct ColumnParts<'o> {
    pub(super) zeros: &'o TensorInfo,
    pub(super) scales: &'o TensorInfo,
}

/// Returns the number of rows in a group: all of them for -1.
pub(super) fn group(stated: Option<i64>, rows: usize) -> Result<usize, String> {
    match stated {
        Some(-1) if rows > 0 => Ok(rows),
        Some(group) if group > 0 => Ok(usize::try_from(group).unwrap_or(usize::MAX)),
        other => Err(format!("the configuration says {} for the size of groups", said(other))),
    }
}
