use serde::de::Visitor;

use crate::error::Result;
use crate::tensor::TensorInfo;

/// Where the tensors of a value come from: the index of a file and its payloads.
///
/// The tensors of a stream become known one after the other. Those whose payload has been given away, or passed over,
/// are *read*; all the searches below see only the others.
pub trait TensorSource<'de> {
    /// The next tensor in file order, reading on in a stream.
    fn peek(&mut self) -> Result<Option<usize>>;

    /// Makes every tensor known.
    fn drain(&mut self) -> Result<()>;

    /// Whether every tensor is known.
    fn is_drained(&self) -> bool;

    /// The tensors known so far.
    fn len(&self) -> usize;

    /// Whether the file has a name for the tensor.
    fn has_name(&self, at: usize) -> bool;

    /// Whether the names are those of one more tensor, not the format's own.
    fn has_embedded_names(&self) -> bool;

    /// The name, or the position where there is none.
    fn name(&self, at: usize) -> &str;

    /// The name in a message: `#3` where the file has none.
    fn label(&self, at: usize) -> String;

    /// Where the payload begins in the file.
    fn offset(&self, at: usize) -> u64;

    /// Dtype, shape and layout.
    fn info(&self, at: usize) -> &TensorInfo;

    /// The tensor of that name.
    fn find(&mut self, name: &str) -> Option<usize>;

    /// The first tensor with a name that is `prefix` or lies under it; of all tensors where there is no prefix.
    fn first_under(&mut self, prefix: Option<&str>) -> Option<usize>;

    /// Names for a message: of the tensors that are not read, or of all where there are none.
    fn names_to_show(&self) -> Vec<String>;

    /// How many tensors are not read.
    fn unread_count(&self) -> usize;

    /// Calls all tensors by other names.
    fn rename(&mut self, names: Vec<String>) -> Result<()>;

    /// Hands the payload to `visitor`: borrowed, as bytes, or as a list of bytes.
    fn payload<V: Visitor<'de>>(&mut self, at: usize, visitor: V) -> Result<V::Value>;

    /// Passes over a tensor.
    fn skip(&mut self, at: usize);
}
