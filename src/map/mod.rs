//! Layout maps: the tensors of a model in the layout of other software.
//!
//! ```text
//! text ── parse ──► equations ── solve, with headers ──► instances and sizes ── plan ──► moves of elements, and a receipt
//! ```
//!
//! A map is a list of equations, each a bijection between the elements of the tensors on its sides. The file adds the
//! checks that no tensor is missing, unused or made twice. Nothing is read but headers.

mod cursor;
mod expression;
mod layout_map;
mod misfits;
mod moves;
mod names;
mod parse;
mod plan;
mod receipt;
mod sizes;
mod solve;

pub use layout_map::LayoutMap;
pub(crate) use plan::{MapPlan, MappedElements, MappedTensor, SourceCheck, SourceCheckKind, SourceMoves};
pub use receipt::{LeftElements, MadeElements, Receipt, ReceiptTotals, RuleReceipt};
pub(crate) use solve::MapSource;
