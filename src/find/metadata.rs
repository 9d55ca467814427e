//! Fields stored as metadata entries. Their keys equal the name of a tensor in their place.

use indexmap::IndexMap;

use super::{At, Finder};
use crate::error::{Error, ErrorKind, Result, Short};
use crate::model::{EachPart, MetadataKind, MetadataValue, Node, StructDef};
use crate::quant::Quantized;
use crate::read::ReadMetadata;

/// A file with metadata.
pub(crate) trait HasMetadata {
    /// Reads the entries.
    fn entries(&self) -> Result<IndexMap<String, String>>;

    /// Returns the quantized weights.
    fn quantized(&self) -> Result<&Quantized>;
}

/// The metadata of the file, read on first use.
#[derive(Clone)]
pub(crate) enum MetadataSource<'de> {
    /// No metadata is known: only names and shapes are compared.
    Unknown,
    /// From the index, or else from the format's function. A stream has it only in the index.
    Unread(Option<ReadMetadata>),
    /// Read by an open file, which has the entries from then on.
    OfFile(&'de dyn HasMetadata, Option<Box<IndexMap<String, String>>>),
    Read(Box<IndexMap<String, String>>),
}

impl MetadataSource<'_> {
    /// Returns the entries, if they were read.
    fn entries(&self) -> Option<&IndexMap<String, String>> {
        match self {
            Self::Read(entries) | Self::OfFile(_, Some(entries)) => Some(entries),
            Self::Unknown | Self::Unread(_) | Self::OfFile(_, None) => None,
        }
    }
}

impl<'de> Finder<'de> {
    /// Returns the entries, after reading them the first time.
    pub(super) fn metadata_entries(&mut self) -> Result<&IndexMap<String, String>> {
        match &mut self.metadata {
            MetadataSource::Read(_) | MetadataSource::OfFile(_, Some(_)) => {}
            MetadataSource::OfFile(file, entries) => *entries = Some(Box::new(file.entries()?)),
            MetadataSource::Unknown => self.metadata = MetadataSource::Read(Box::default()),
            MetadataSource::Unread(read) => {
                self.metadata = MetadataSource::Read(Box::new(self.reader.metadata_entries(*read)?));
            }
        }
        Ok(self.metadata.entries().expect("they were just read"))
    }

    /// Returns whether there is an entry with this place as its key.
    pub(super) fn has_entry_here(&mut self) -> Result<bool> {
        self.metadata_entries()?;
        Ok(self.metadata.entries().is_some_and(|entries| entries.contains_key(self.path.name())))
    }

    /// Returns whether the file has any metadata entry declared by a type, at a field `name` here, or at this place if
    /// it is flattened.
    pub(super) fn has_entries_of(&mut self, node: Node, name: Option<&str>) -> Result<bool> {
        if matches!(node, Node::Tensor(_) | Node::List(_) | Node::Map(_)) {
            return Ok(false);
        }
        // Most types declare none, and need no look at the file.
        let mut path = std::mem::take(&mut self.path);
        let place = name.map(|name| path.push(name));
        let declares = node.any_metadata(&mut path, &mut Vec::new(), &mut |_| true);
        let found = if declares {
            self.metadata_entries()
                .map(|entries| node.any_metadata(&mut path, &mut Vec::new(), &mut |key| entries.contains_key(key)))
        } else {
            Ok(false)
        };
        if let Some(place) = place {
            path.back_to(place);
        }
        self.path = path;
        found
    }

    /// Calls `each` with the metadata fields of a struct.
    pub(super) fn metadata_fields(&mut self, def: &'static StructDef, each: &mut EachPart<'_, 'de>) -> Result<()> {
        if self.findings.is_some() && matches!(self.metadata, MetadataSource::Unknown) {
            return Ok(());
        }
        let place = self.path.mark();
        for (at, field) in def.fields.iter().enumerate().filter(|(_, field)| field.metadata) {
            let mut found = false;
            for name in std::iter::once(&field.name).chain(field.aliases) {
                self.path.push(name);
                found = self.has_entry_here()?;
                if found {
                    break;
                }
                self.path.back_to(place);
            }
            if !found && field.optional {
                continue;
            }
            if !found {
                self.path.push(field.name);
            }
            self.metadata_field(at, each)?;
            self.path.back_to(place);
        }
        Ok(())
    }

    /// Calls `each` with a field whose key is its place.
    fn metadata_field(&mut self, at: usize, each: &mut EachPart<'_, 'de>) -> Result<()> {
        let outer = std::mem::replace(&mut self.at, At::Metadata);
        let depth = self.findings.as_ref().map_or(0, |findings| findings.trail.len());
        let read = self.part(at, each);
        self.at = outer;
        let Err(error) = read else { return Ok(()) };
        let error = self.explain(error);
        match &mut self.findings {
            Some(findings) => {
                findings.trail.truncate(depth);
                findings.metadata(error)
            }
            None => Err(error),
        }
    }

    /// Adds the key to an error of the type of the field.
    fn explain(&mut self, error: Error) -> Error {
        let ErrorKind::Message(what) = error.kind() else { return error };
        let key = self.path.name().to_owned();
        let found = self.metadata_entries().ok().and_then(|entries| entries.get(&key));
        let found = found.map_or(String::new(), |text| format!("found `{}`: ", Short(text)));
        let what = format!("{found}{what}");
        ErrorKind::InvalidMetadata { key, what }.into()
    }

    /// Returns the entry here.
    pub(super) fn entry_here(&mut self, kind: MetadataKind) -> Result<MetadataValue> {
        let key = self.path.name().to_owned();
        let entries = self.metadata_entries()?;
        let Some(text) = entries.get(&key) else {
            let found = entries.keys().cloned().collect();
            return Err(ErrorKind::missing_metadata(&key, kind.to_string(), found).into());
        };
        let value = kind.parse(text).ok_or_else(|| {
            let what = format!("found `{}`, but expected {kind}", Short(text));
            ErrorKind::InvalidMetadata { key, what }
        })?;
        self.scope.has_read_metadata = true;
        Ok(value)
    }
}
