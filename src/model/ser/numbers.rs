use crate::error::ErrorKind;
use crate::tensor::Dtype;

/// The numbers of a list that came one by one, as a tensor's payload.
#[derive(Debug, Default)]
pub(super) struct Numbers {
    dtype: Option<Dtype>,
    pub(super) len: usize,
    pub(super) bytes: Vec<u8>,
}

impl Numbers {
    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The dtype, once there is a number.
    pub(super) fn dtype(&self) -> Option<Dtype> {
        self.dtype
    }

    pub(super) fn push(&mut self, dtype: Dtype, bytes: &[u8]) -> Result<(), ErrorKind> {
        if *self.dtype.get_or_insert(dtype) != dtype {
            let instead = "a list of numbers is a tensor when they are all of one type";
            return Err(ErrorKind::NotATensor { found: "a list of numbers of several types", instead });
        }
        self.len += 1;
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }
}
