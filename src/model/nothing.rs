//! Values that store nothing: no tensor and no metadata.

use std::fmt;

use super::{Entries, FieldAttrs, List, MetadataValue, Sink, Store, StructDef, TensorData};
use crate::error::{ErrorKind, Result};
use crate::tensor::TensorInfo;

/// Returns whether a value stores nothing. A value that cannot be stored at all does not.
pub(crate) fn stores_nothing(value: &dyn Store, attrs: &FieldAttrs) -> bool {
    let mut search = Search { found: false };
    value.store(&mut search, attrs).is_ok() && !search.found
}

/// Looks for the first tensor or entry of metadata, and passes over the rest.
struct Search {
    found: bool,
}

impl Search {
    fn items(&mut self, items: &dyn List, attrs: &FieldAttrs) -> Result<()> {
        (0..items.len()).try_for_each(|index| self.part(items.item(index), attrs))
    }

    fn part(&mut self, value: &dyn Store, attrs: &FieldAttrs) -> Result<()> {
        if self.found { Ok(()) } else { value.store(self, attrs) }
    }
}

impl Sink for Search {
    // If it were `false`, arrays would be copied to row-major order.
    fn takes_dim_order(&self) -> bool {
        true
    }

    fn tensor(&mut self, _: &TensorInfo, _: &dyn TensorData) -> Result<()> {
        self.found = true;
        Ok(())
    }

    fn fields(&mut self, def: &'static StructDef, values: &[&dyn Store]) -> Result<()> {
        def.fields.iter().zip(values).try_for_each(|(field, value)| self.part(*value, &field.attrs))
    }

    fn list(&mut self, items: &dyn List, attrs: &FieldAttrs) -> Result<()> {
        self.items(items, attrs)
    }

    fn tuple(&mut self, items: &dyn List, attrs: &FieldAttrs) -> Result<()> {
        self.items(items, attrs)
    }

    fn map(&mut self, entries: &dyn Entries, attrs: &FieldAttrs) -> Result<()> {
        entries.for_each(&mut |_, value| self.part(value, attrs))
    }

    fn option(&mut self, value: Option<&dyn Store>, attrs: &FieldAttrs) -> Result<()> {
        value.map_or(Ok(()), |value| self.part(value, attrs))
    }

    fn metadata(&mut self, _: &MetadataValue) -> Result<()> {
        self.found = true;
        Ok(())
    }
}

/// Returns a field with a default as a value to write.
pub fn field_or<T: Store>(value: &T, default: fn() -> T) -> FieldOr<'_, T> {
    FieldOr { value, default }
}

/// A field with a default. It is refused in a tensor file if it stores nothing and the default is something: reading
/// would give the default.
pub struct FieldOr<'a, T> {
    value: &'a T,
    default: fn() -> T,
}

impl<T: Store> Store for FieldOr<'_, T> {
    fn store(&self, sink: &mut dyn Sink, attrs: &FieldAttrs) -> Result<()> {
        store_or(sink, attrs, self.value, &|| stores_nothing(&(self.default)(), attrs))
    }
}

impl<T> fmt::Debug for FieldOr<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FieldOr").finish_non_exhaustive()
    }
}

/// Stores a value, unless it is nothing and its default is something.
pub(crate) fn store_or(
    sink: &mut (dyn Sink + '_),
    attrs: &FieldAttrs,
    value: &dyn Store,
    default_is_nothing: &dyn Fn() -> bool,
) -> Result<()> {
    if sink.drops_empty_values() && stores_nothing(value, attrs) && !default_is_nothing() {
        let what = "store nothing for a field with another default".to_owned();
        let instead = "it would be read as its default; give it a value, or a default that is empty too".to_owned();
        return Err(ErrorKind::Unsupported { what, instead }.into());
    }
    value.store(sink, attrs)
}
