use smallvec::SmallVec;

use crate::tensor::TensorInfo;

/// Dtypes, shapes and layouts of many tensors. Those that repeat are held once, as most do: the layers of a model are alike.
#[derive(Debug, Default)]
pub(super) struct InfoTable {
    rows: SmallVec<[InfoRow; 1]>,
    /// The row that was added or found last.
    last: usize,
}

#[derive(Debug)]
pub(super) struct InfoRow {
    info: TensorInfo,
    payload: Option<usize>,
    /// The row that came after this one the last time.
    next: usize,
}

impl InfoRow {
    #[inline]
    pub(super) fn info(&self) -> &TensorInfo {
        &self.info
    }
}

impl InfoTable {
    /// Returns the position of an equal row among those that were used not long ago.
    #[inline]
    pub(super) fn find(&mut self, info: &TensorInfo) -> Option<usize> {
        let rows = self.rows.as_slice();
        let likely = rows.get(self.last)?.next;
        let found = if rows[likely].info == *info { likely } else { self.find_recent(info)? };
        self.use_row(found);
        Some(found)
    }

    fn find_recent(&self, info: &TensorInfo) -> Option<usize> {
        const RECENT: usize = 8;

        let rows = self.rows.as_slice();
        (rows.len().saturating_sub(RECENT)..rows.len()).rev().find(|&at| rows[at].info == *info)
    }

    /// Adds a row, and returns its position.
    pub(super) fn push(&mut self, info: TensorInfo) -> usize {
        let at = self.rows.len();
        self.rows.push(InfoRow { payload: info.payload_bytes(), info, next: at });
        self.use_row(at);
        at
    }

    #[inline]
    fn use_row(&mut self, at: usize) {
        self.rows.as_mut_slice()[self.last].next = at;
        self.last = at;
    }

    #[inline]
    pub(super) fn get(&self, at: usize) -> &TensorInfo {
        &self.rows.as_slice()[at].info
    }

    pub(super) fn as_slice(&self) -> &[InfoRow] {
        self.rows.as_slice()
    }

    /// Returns the length of the payload in bytes, if it can be addressed.
    #[inline]
    pub(super) fn payload_bytes(&self, at: usize) -> Option<usize> {
        self.rows.as_slice()[at].payload
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::Dtype;

    #[test]
    fn holds_infos_that_repeat_once() {
        let infos: Vec<TensorInfo> = (0..5).map(|dim| TensorInfo::new(Dtype::F32, [dim, 2])).collect();
        let mut table = InfoTable::default();
        for at in [0, 0, 1, 2, 0, 1, 2, 4, 3, 3, 0, 4] {
            let row = table.find(&infos[at]).unwrap_or_else(|| table.push(infos[at].clone()));
            assert_eq!(*table.get(row), infos[at]);
        }
        assert_eq!(table.rows.len(), 5);
    }
}
