/// A table that the builder of the crate `flatbuffers` has finished.
pub(crate) type BuiltTable = flatbuffers::WIPOffset<flatbuffers::TableFinishedWIPOffset>;

/// Returns the name that the builder of the crate `flatbuffers` has for a field: its place in the list of fields.
pub(crate) fn slot(field: usize) -> flatbuffers::VOffsetT {
    flatbuffers::field_index_to_field_offset(u16::try_from(field).expect("a table has a few fields"))
}
