/// A finished table in the builder of the crate `flatbuffers`.
pub(crate) type BuiltTable = flatbuffers::WIPOffset<flatbuffers::TableFinishedWIPOffset>;

/// Returns the builder's name for a field: its place in the list of fields.
pub(crate) fn slot(field: usize) -> flatbuffers::VOffsetT {
    flatbuffers::field_index_to_field_offset(u16::try_from(field).expect("a table has a few fields"))
}
