//! Functions called by code of `#[derive(TensorFile)]`. Not public API: they change with the macro.

pub use ::serde;
pub use typeid::of as id;

pub use crate::model::{
    ArrayField, AskMetadata, BorrowedPayloads, FieldAttrs, FieldDef, Node, Sink, Source, StructDef, TryMetadata,
    field_or, node_of, put,
};
pub use crate::serde::{
    MetadataField, check_metadata, check_written_metadata, deserialize_load, metadata_field, metadata_field_or,
    metadata_node, put_metadata, reload_metadata, serialize_store, unread_metadata_node,
};

use crate::error::{Error, ErrorKind, Result};
use crate::model::{Store, TensorFile};

/// A closure called with the number and the attributes of a field, and a source at its value.
pub type EachField<'x, 'de> =
    &'x mut (dyn FnMut(usize, &mut (dyn Source<'de> + '_), &'static FieldAttrs) -> Result<()> + 'x);

/// Returns a field as a value to write.
#[inline]
pub fn field<T: Store>(value: &T) -> &dyn Store {
    value
}

/// Returns the definition of the struct `node`.
pub fn def_of(node: &Node) -> &'static StructDef {
    match *node {
        Node::Struct(def) => def,
        _ => unreachable!("a struct with fields is `Node::Struct`"),
    }
}

/// Writes the fields of a struct inside `node`, its prefix.
pub fn store_body(sink: &mut dyn Sink, node: &Node, values: &[&dyn Store]) -> Result<()> {
    struct Body<'a> {
        def: &'static StructDef,
        values: &'a [&'a dyn Store],
    }

    impl Store for Body<'_> {
        fn store(&self, sink: &mut dyn Sink, _: &FieldAttrs) -> Result<()> {
            sink.fields(self.def, self.values)
        }
    }

    let def = def_of(node);
    sink.fields(def, &[&Body { def: body_of(def), values }])
}

/// Adds the payloads of fields with the lifetime of their struct.
pub fn borrow_fields<'a>(payloads: &mut BorrowedPayloads<'a>, values: &[&'a dyn Store]) {
    // Not of the references in the list, which have a shorter lifetime.
    values.iter().for_each(|value| (**value).borrow_payloads(payloads));
}

/// Reads the fields of the struct `node`.
pub fn load_fields<'de>(source: &mut dyn Source<'de>, node: &Node, each: EachField<'_, 'de>) -> Result<()> {
    load_def(source, def_of(node), each)
}

/// Reads the fields of a struct inside `node`, its prefix.
pub fn load_body<'de>(source: &mut dyn Source<'de>, node: &Node, each: EachField<'_, 'de>) -> Result<()> {
    let def = def_of(node);
    source.fields(def, &mut |_, source| load_def(source, body_of(def), each))
}

fn load_def<'de>(source: &mut (dyn Source<'de> + '_), def: &'static StructDef, each: EachField<'_, 'de>) -> Result<()> {
    source.fields(def, &mut |index, source| each(index, source, &def.fields[index].attrs))
}

/// The error if a source left out a field.
#[cold]
pub fn incomplete(node: &Node) -> Error {
    ErrorKind::Message(format!("the source left out fields of `{}`", def_of(node).name)).into()
}

/// Fails to compile if an attribute for arrays is on another type.
pub const fn check_array_field<T: ArrayField + ?Sized>() {}

/// Fails to compile if a flattened field is a tensor, whose name would be lost.
#[track_caller]
pub const fn check_flattened<T: TensorFile + ?Sized>() {
    assert!(
        !T::IS_TENSOR,
        "`flatten` needs a struct, map, list or tuple; this field is one tensor, which needs its name in the file"
    );
}

/// Fails to compile if `shape` has another number of dims than the arrays of a field.
#[track_caller]
pub const fn check_rank<T: TensorFile + ?Sized>(dims: usize) {
    let rank = if dims < 64 { 1 << dims } else { 0 };
    assert!(
        T::RANKS & !rank == 0,
        "`shape` has another number of dims than the array, whose rank is fixed by its type"
    );
}

fn body_of(def: &'static StructDef) -> &'static StructDef {
    def_of(&(def.fields[0].node)())
}
