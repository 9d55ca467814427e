//! Values as named tensors, and named tensors as values.
//!
//! ```text
//!                     Store::store                  names and order              TensorSink
//! value ────────────► dyn Sink ◄── Serializer ─────► TensorRecord ──────────────► Plan, PlanWriter, digest, …
//!
//!                     FromTensors::load
//! value ◄──────────── dyn Source ◄── find::Deserializer ◄── record::Reader ◄── IndexReader (format) ◄── Storage
//! ```
//!
//! A tensor on its way from `btf::to_writer(file, &model)` to the writer passes through:
//!
//! 1. `btf::to_writer`, `Options::to_writer` (`format/btf/mod.rs`), which call
//! 2. `record::to_writer` (`record/write.rs`): makes a `Plan`, then sends the value to the plan's writer,
//! 3. `SerdeValue::send` (`serde/mod.rs`), `own::serialize` (`serde/own.rs`): from serde's bounds to `dyn Store`,
//! 4. `Store::store` of the struct (derived) and of the array (`array/store.rs`), which call `Sink::fields` and
//!    `Sink::tensor` of
//! 5. `Serializer` (`model/serializer.rs`): gives the tensor its name,
//! 6. `PlanWriter::tensor` (`record/write.rs`): compares it with the plan,
//! 7. `LayoutWriter::tensor` (`record/write.rs`): writes padding, header and payload.
//!
//! `tensorfile::save` skips step 3: types that map to tensors need no serde.

mod containers;
mod lent;
mod loaded;
mod maps;
mod metadata;
mod node;
mod path;
mod pointers;
mod positional;
mod record;
mod schema;
mod serializer;
mod shared;
mod sizes;
mod spec;
mod traits;
mod values;

pub use lent::Lent;
pub use loaded::Loaded;
pub use maps::{FromMapKey, MapKey};
pub use metadata::{AskMetadata, MetadataKind, MetadataValue, TryMetadata};
pub use node::{FieldDef, KeyPart, Node, StructDef};
pub use record::{TensorData, TensorRecord, TensorSink, Tensors};
pub use schema::{Schema, SchemaEntry, SchemaMetadata};
pub use serializer::Serializer;
pub use shared::{ArraysOf, SharedArrays};
pub use spec::{Adapt, Adaptable, TensorSpec};
pub use traits::{EachEntry, EachPart, Entries, FromTensors, List, Sink, Source, Store, TensorFile, node_of, put};

pub(crate) use loaded::{Payload, misaligned};
pub(crate) use maps::not_a_key;
pub(crate) use metadata::asked_for;
pub(crate) use path::{Mark, Path, first_segment, is_index, strip};
pub(crate) use positional::{NamesByPosition, names as names_by_position, needs_names};
pub(crate) use serializer::{Header, Numbers, not_bytes};
pub(crate) use spec::dims_text;
pub(crate) use traits::{LoadFrom, MetadataOf};
