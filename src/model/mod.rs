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
//! 1. `btf::to_writer` and `Options::to_writer` (`format/btf/mod.rs`),
//! 2. `serde::to_writer` (`serde/mod.rs`), which has serde's bounds, and `record::to_writer` (`record/write.rs`), which has
//!    none: it sends the value to make a `Plan`, and once more to the plan's writer, unless the plan has copies of all
//!    payloads, as those of small tensors are. It is sent by
//! 3. `SerdeValue::send` (`serde/mod.rs`), `serialize_store` (`serde/sink.rs`) and `own::serialize` (`serde/own.rs`): back
//!    from serde to `dyn Store`, of which
//! 4. `Store::store` of the struct (derived) and of the array (`array/store.rs`) call
//! 5. `Serializer::fields` and `Serializer::tensor` (`model/serializer.rs`): the tensor gets its name,
//! 6. `PlanWriter::tensor` (`record/write.rs`): it is compared with the plan,
//! 7. `LayoutWriter::tensor` (`record/write.rs`): padding, header and payload are written.
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
pub(crate) use serializer::{HeaderField, Numbers, not_bytes};
pub(crate) use spec::dims_text;
pub(crate) use traits::{LoadFrom, MetadataOf};
