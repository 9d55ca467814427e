//! Building blocks for programs that show, check and convert tensor files.
//!
//! - [`Subset`], [`Renamed`], [`Mapped`], [`CastView`], [`Joined`] and [`FileView`] change tensors in transit. Each is a view of
//!   [`Tensors`](crate::Tensors), so they stack, and no payload is read before a view is written or loaded into a type.
//!   With [`forward`], your own view takes a few lines.
//! - [`RenameRules`] map names to names, such as from one framework to another.
//! - [`SaveReport`] lists what a format cannot store, before anything is written.
//! - [`ByteMap`] counts which bytes of a file are payload, padding or unused.
//! - [`Scalar`] is one element of any dtype, and [`PrintOptions`] prints arrays as numpy does.
//!
//! ```
//! use tensorfile::view::{CastView, Renamed, Subset};
//! use tensorfile::{Dtype, Tensor, TensorMap};
//!
//! let model: TensorMap = [
//!     ("encoder.weight", Tensor::from_slice(&[0.5_f32, 0.1], [2])?),
//!     ("head.weight", Tensor::from_slice(&[1.0_f32], [1])?),
//! ]
//! .into_iter()
//! .collect();
//!
//! let encoder = Subset::new(&model, |name| name.starts_with("encoder."));
//! let renamed = Renamed::new(&encoder, |name| name.strip_prefix("encoder.").map(str::to_owned));
//! let halves = CastView::new(&renamed, |_, _| Dtype::F16);
//! # use tensorfile::model::{TensorRecord, TensorSink};
//! # use tensorfile::Tensors;
//! # struct Names(Vec<String>);
//! # impl TensorSink for Names {
//! #     fn tensor(&mut self, tensor: &TensorRecord<'_>) -> tensorfile::Result<()> {
//! #         self.0.push(format!("{} {}", tensor.name, tensor.info));
//! #         Ok(tensor.data.write_to(&mut std::io::sink())?)
//! #     }
//! # }
//! # let mut names = Names(Vec::new());
//! # halves.send(&mut names)?;
//! # assert_eq!(names.0, ["weight f16[2]"]);
//! // Here `halves` is saved.
//! assert_eq!(halves.casts()[0].report.rounded, 1);
//! # Ok::<(), tensorfile::Error>(())
//! ```

mod cast;
mod file_view;
mod joined;
mod mapped;
mod print;
mod renamed;
mod save_report;
mod scalar;
mod sent_names;
mod serialize;
mod storage_ids;
mod subset;

#[cfg(test)]
mod support;

#[cfg(feature = "quant")]
pub use crate::file::Dequantized;
pub use crate::file::{ByteMap, is_aligned};
pub use crate::model::{InvalidRenameRule, RenameRule, RenameRules, forward};
pub use cast::{CastView, TensorCast};
pub use file_view::FileView;
pub use joined::Joined;
pub use mapped::Mapped;
pub use print::{PrintOptions, Summary};
pub use renamed::{Renamed, names_after_file};
pub use save_report::SaveReport;
pub use scalar::{Float, Scalar, scalars};
pub use subset::Subset;
