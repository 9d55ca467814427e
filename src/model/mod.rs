//! How a tensor travels through serde.

mod adapt;
mod collection;
mod containers;
mod de;
mod handoff;
#[cfg(feature = "shards")]
mod part;
mod path;
mod payload;
mod positional;
mod receive;
mod schema;
mod ser;
mod sink;
mod source;
mod tensors;
pub(crate) mod token;
mod traits;

pub use adapt::{Adapt, Adaptable};
pub use collection::Collection;
pub use de::Deserializer;
pub use schema::{Field, Node, Schema, SchemaEntry, Slot};
pub use ser::Serializer;
pub use traits::{FromTensors, TensorFile};

pub(crate) use adapt::{accept, dims_text};
pub(crate) use containers::{Flattened, Loaded, Stored, Tied};
pub(crate) use handoff::with_schema;
#[cfg(feature = "shards")]
pub(crate) use part::Part;
pub(crate) use path::{Path, first_segment, is_index, list_key};
pub(crate) use payload::{InPieces, Pieces, serialize_tensor};
pub(crate) use positional::{names as names_by_position, needs_names};
pub(crate) use receive::{Gathered, Receive, deserialize_tensor};
pub(crate) use ser::{Memory, Payload};
pub(crate) use sink::TensorSink;
pub(crate) use source::TensorSource;
pub(crate) use tensors::cannot_borrow;
pub(crate) use token::FieldSpec;
