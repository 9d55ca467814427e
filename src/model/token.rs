//! The private names by which our types and our formats know each other across serde.
//!
//! serde has no tensor. A tensor crosses it as a struct of the name [`TENSOR`] with the fields of [`TENSOR_FIELDS`].
//! Our serializer and deserializer recognise the name; any other serde format sees a struct of two strings, a list of
//! numbers and bytes. The other names carry what a derived struct knows and serde has no word for.

use super::path::strip;

/// The struct that is a tensor.
pub(crate) const TENSOR: &str = "$tensorfile::Tensor";

/// Its fields. All are always there, so that formats without field names can read it back.
pub(crate) const TENSOR_FIELDS: &[&str] = &[DTYPE, SHAPE, LAYOUT, DATA];
pub(crate) const DTYPE: &str = "dtype";
pub(crate) const SHAPE: &str = "shape";
pub(crate) const LAYOUT: &str = "layout";
pub(crate) const DATA: &str = "data";

/// The variants of the field `layout`.
pub(crate) const LAYOUTS: &[&str] = &[ROW_MAJOR, DIM_ORDER, COO, BLOB];
pub(crate) const ROW_MAJOR: &str = "row_major";
pub(crate) const DIM_ORDER: &str = "dim_order";
pub(crate) const COO: &str = "coo";
pub(crate) const BLOB: &str = "blob";

/// The newtype around a flattened field: its tensors have the names that they would have without the field.
pub(crate) const FLATTEN: &str = "$tensorfile::Flatten";

/// The newtype variant around a tied field; the variant is the name of the tensor that it is tied to.
pub(crate) const TIED: &str = "$tensorfile::Tied";

/// The struct that `#[derive(TensorFile)]` asks for. The strings of its field list are [`FieldSpec`]s; one that begins
/// with a NUL is no field.
pub(crate) const DERIVED: &str = "$tensorfile::Struct";

/// The struct that ndarray's own `Serialize` writes.
pub(crate) const NDARRAY: &str = "Array";
pub(crate) const NDARRAY_FIELDS: &[&str] = &["v", "dim", "data"];

/// What the field list of a derived struct tells of one field.
///
/// The text is the name, then any of `\0=alias` (another name to read it by), `\0?` (left alone where the file has
/// nothing) and `\0*` (flattened; the name is then only what the visitor calls it).
#[derive(Debug, Clone, Copy)]
pub(crate) struct FieldSpec {
    pub(crate) name: &'static str,
    notes: &'static str,
}

impl FieldSpec {
    /// Takes the text of a field list apart; a plain name is a field without notes.
    pub(crate) fn parse(text: &'static str) -> Self {
        let (name, notes) = text.split_at(text.find('\0').unwrap_or(text.len()));
        Self { name, notes }
    }

    pub(crate) fn is_optional(self) -> bool {
        self.notes().any(|note| note == "?")
    }

    pub(crate) fn is_flattened(self) -> bool {
        self.notes().any(|note| note == "*")
    }

    /// The names that the field may have in a file, the one it is written by first.
    pub(crate) fn names(self) -> impl Iterator<Item = &'static str> {
        std::iter::once(self.name).chain(self.notes().filter_map(|note| note.strip_prefix('=')))
    }

    /// The longest name of the field that `rest` is or lies under.
    pub(crate) fn fit(self, rest: &str) -> Option<&'static str> {
        self.names().filter(|name| strip(rest, name).is_some()).max_by_key(|name| name.len())
    }

    fn notes(self) -> impl Iterator<Item = &'static str> {
        self.notes.split('\0').filter(|note| !note.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spec_tells_names_and_notes() {
        let spec = FieldSpec::parse("head.weight\0=out\0=lm_head\0?");
        assert_eq!(spec.names().collect::<Vec<_>>(), ["head.weight", "out", "lm_head"]);
        assert!(spec.is_optional() && !spec.is_flattened());
        assert!(FieldSpec::parse("rest\0*").is_flattened());
        assert_eq!(FieldSpec::parse("plain").names().collect::<Vec<_>>(), ["plain"]);
    }
}
