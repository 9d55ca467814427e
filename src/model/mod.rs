//! Values as named tensors, and named tensors as values.
//!
//! ```text
//!                     Store::store                  names and order              TensorSink
//! value ────────────► dyn Sink ◄── Serializer ─────► TensorRecord ──────────────► Plan, PlanWriter, digest, …
//!
//!                     FromTensors::load
//! value ◄──────────── dyn Source ◄── find::Deserializer ◄── read::Reader ◄── IndexReader (format) ◄── Storage
//! ```
//!
//! A tensor on its way from `btf::to_writer(file, &model)` to the writer passes through:
//!
//! 1. `btf::to_writer` (`format/btf/mod.rs`), with serde's bounds, calls
//! 2. `Options::to_writer` (`format/options.rs`), as all formats do.
//! 3. `write::to_writer` (`write/writer.rs`), without type parameters. A file of a few small tensors is written by
//!    `write::small` in one pass. Other values are sent to make a `Plan`.
//! 4. `Plan::write` (`write/writer.rs`) sends the value once more:
//! 5. `SerdeValue::send` (`serde/mod.rs`) has the value serialize itself,
//! 6. `serialize_store` (`serde/sink.rs`), called by derived types, goes back from serde to `dyn Store`. Its `store`
//!    calls
//! 7. `Serializer::fields` (`model/serializer.rs`), which adds the field to the name and stores its value:
//! 8. `ArrayBase::store` (`array/store.rs`) borrows the bytes of the array,
//! 9. `Serializer::tensor` (`model/serializer.rs`) gives the tensor its name,
//! 10. `PlanWriter::tensor` (`write/writer.rs`) compares it with the plan,
//! 11. `LayoutWriter::tensor` (`write/file_writer.rs`) writes padding, header and payload,
//! 12. `Output::write_all` (`write/file_writer.rs`) gathers short writes, and
//! 13. `write_slices` (`write/file_writer.rs`) calls the writer.
//!
//! `tensorfile::save` skips step 6: derived types need no serde.

mod borrowed_payloads;
mod containers;
pub(crate) mod embedded_names;
mod file_metadata;
mod format_spec;
mod forward;
mod layout_keys;
mod loaded;
mod maps;
mod metadata;
mod node;
mod nothing;
mod path;
mod pointers;
mod positional;
mod record;
mod rename_rules;
mod schema;
mod serializer;
mod shared;
mod sizes;
mod spec;
mod strided;
mod traits;
mod value_tree;
mod values;

pub use borrowed_payloads::BorrowedPayloads;
pub use file_metadata::{FileMetadata, FilePart};
#[doc(hidden)]
pub use format_spec::{FormatSpec, Magic};
#[doc(hidden)]
pub use forward::forward;
pub use layout_keys::{describes_dtypes, describes_layout};
pub use loaded::Loaded;
pub use maps::{FromMapKey, MapKey};
#[doc(hidden)]
pub use metadata::{AskMetadata, TryMetadata};
pub use metadata::{MetadataKind, MetadataValue};
pub use node::{FieldDef, KeyPart, Node, StructDef};
#[doc(hidden)]
pub use nothing::{FieldOr, field_or};
pub use record::{Meaning, TensorData, TensorRecord, TensorSink, Tensors};
#[doc(hidden)]
pub use rename_rules::{InvalidRenameRule, RenameRule, RenameRules};
pub use schema::{Schema, SchemaEntry, SchemaMetadata};
#[doc(hidden)]
pub use serializer::Serializer;
#[doc(hidden)]
pub use shared::{ArraysOf, SharedArrays};
pub use spec::{ArrayField, FieldAttrs, TensorSpec};
pub use strided::in_rows;
pub use traits::{EachEntry, EachPart, Entries, FromTensors, List, Sink, Source, Store, TensorFile};
#[doc(hidden)]
pub use traits::{node_of, put};
pub use value_tree::{ValueNode, ValueTree};

pub(crate) use file_metadata::{COO_OF_TFRT, MetadataChanges, PathPart, Rewritten, SavedValues, TypedEntry};
pub(crate) use format_spec::FormatAdvice;
pub(crate) use layout_keys::{PART_COUNT, PART_INDEX, PART_TENSORS, SHARDING_INFO, TOTAL};
pub(crate) use loaded::{Payload, misaligned};
pub(crate) use maps::not_a_key;
pub(crate) use metadata::asked_for;
pub(crate) use nothing::{store_or, stores_nothing};
pub(crate) use path::{Mark, Path, first_segment, is_index, strip};
pub(crate) use positional::{Matched, NamesByPosition, Step, match_by_position, needs_names};
pub(crate) use record::{TemporaryBytes, WithinRange, gather};
pub(crate) use serializer::{HeaderField, Numbers, SentCounts, not_bytes};
pub(crate) use spec::{Copies, dims_text};
pub(crate) use traits::{LoadFrom, MetadataOf};
