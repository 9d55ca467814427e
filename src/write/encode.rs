//! The interface of a format to the writer: what it can store, and where it puts everything.

use std::fmt;
use std::sync::Arc;

use super::file_writer::LayoutWriter;
use super::{FileLayout, FileWriter, Output, PlannedTensors, Sharing, SmallFormat};
use crate::error::{ErrorKind, Result};
use crate::model::{FilePart, FormatSpec, MetadataValue};
use crate::tensor::TensorInfo;

/// The writing half of a format: the bytes around the payloads.
///
/// The [`FormatSpec`] lists the allowed dtypes, ranks and names, and is checked first.
pub trait Encode: fmt::Debug + Send + Sync {
    /// Returns what the format can store.
    fn spec(&self) -> &'static FormatSpec;

    /// Returns what happens to the tensors' names.
    fn names(&self) -> NamePolicy;

    /// Returns the stored length of a name, at most `name.len()`. Called only for names longer than
    /// [`FormatSpec::max_name`].
    fn name_bytes(&self, name: &str) -> usize {
        name.len()
    }

    /// Returns whether a dense tensor with a dim order is stored in the order of its memory. Otherwise it is written in
    /// row-major order.
    fn keeps_dim_order(&self, _info: &TensorInfo) -> bool {
        false
    }

    /// Returns which tensors are stored once under several names.
    fn sharing(&self) -> Sharing {
        Sharing::Never
    }

    /// Refuses a tensor, under any name, for a reason not in the [`FormatSpec`], before anything is written.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Unsupported`], made by [`cannot_store`](crate::format::cannot_store).
    fn check(&self, _info: &TensorInfo) -> Result<(), ErrorKind> {
        Ok(())
    }

    /// Refuses the name of a tensor accepted by [`check`](Self::check).
    ///
    /// # Errors
    ///
    /// As [`check`](Self::check).
    fn check_name(&self, _name: &str, _info: &TensorInfo) -> Result<(), ErrorKind> {
        Ok(())
    }

    /// Returns an encoder with additional metadata, from fields with `#[tensor(metadata)]`. They replace entries of the
    /// options with equal keys, and the format keeps all of their keys.
    ///
    /// By default it is an error.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::UnsupportedMetadata`]: the format has no place for one of them.
    fn with_metadata(&self, entries: &[(String, MetadataValue)]) -> Result<Arc<dyn Encode>> {
        let key = entries.first().map_or("", |(key, _)| key);
        Err(self.spec().no_place_for_metadata(key).into())
    }

    /// Returns the limit for the length of a name in bytes, if there is one. Called only for names longer than
    /// [`FormatSpec::max_name`].
    fn longest_name(&self) -> Option<usize> {
        self.spec().max_name
    }

    /// Returns the length limit of names in bytes with another option, if one raises it.
    fn longer_names(&self) -> Option<usize> {
        None
    }

    /// Returns an encoder for a file that states its place among several. `None` if the format does not store it.
    fn with_part(&self, _part: FilePart) -> Option<Arc<dyn Encode>> {
        None
    }

    /// Decides the place of everything, and makes all bytes except payloads.
    ///
    /// # Errors
    ///
    /// If the file as a whole is more than the format can address.
    fn lay_out(&self, tensors: &PlannedTensors) -> Result<FileLayout>;

    /// Returns the writer for files of a few small tensors, which skips the layout. By default, there is none.
    #[doc(hidden)]
    fn small(&self) -> Option<&dyn SmallFormat> {
        None
    }

    /// Returns whether the format has its own writer. Without one, the layout holds all bytes but the payloads.
    #[doc(hidden)]
    fn has_writer(&self) -> bool {
        false
    }

    /// Returns the writer of the file. By default, all bytes but the payloads are in the layout.
    fn writer<'w>(
        &self,
        tensors: &'w PlannedTensors,
        layout: &'w FileLayout,
        out: Output<'w>,
    ) -> Box<dyn FileWriter<'w> + 'w> {
        Box::new(LayoutWriter::new(tensors, layout, out))
    }
}

/// A writing half that is shared only if a file is planned.
///
/// Small files are written without a plan, so their options need no allocation.
pub trait LentEncode {
    /// Returns the writing half.
    fn encode(&self) -> &dyn Encode;

    /// Returns a writing half that a [`Plan`](super::Plan) may keep.
    fn shared(&self) -> Arc<dyn Encode>;
}

impl LentEncode for Arc<dyn Encode> {
    fn encode(&self) -> &dyn Encode {
        &**self
    }

    fn shared(&self) -> Arc<dyn Encode> {
        self.clone()
    }
}

impl<E: Encode + Clone + 'static> LentEncode for E {
    fn encode(&self) -> &dyn Encode {
        self
    }

    fn shared(&self) -> Arc<dyn Encode> {
        Arc::new(self.clone())
    }
}

/// The treatment of the names of a file's tensors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NamePolicy {
    /// Names are left out.
    Omitted,
    /// Names are stored as the format stores them.
    Stored,
    /// They are stored in one more tensor, at the end.
    Embedded,
}
