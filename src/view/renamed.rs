use std::collections::HashMap;
use std::fmt;

use crate::error::Result;
use crate::model::{MetadataValue, TensorRecord, TensorSink, Tensors};

/// The tensors of another collection under other names.
///
/// Two tensors that get the same name are an error when the view is written.
///
/// ```
/// use tensorfile::view::Renamed;
/// use tensorfile::{File, TensorMap};
///
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("model.safetensors");
/// let map = TensorMap::from_iter([("model.weight", ndarray::array![1.0_f32])]);
/// let renamed = Renamed::new(&map, |name| name.strip_prefix("model.").map(str::to_owned));
/// tensorfile::save(&path, &renamed)?;
/// assert!(File::open(&path)?.get("weight").is_ok());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Renamed<'t> {
    tensors: &'t dyn Tensors,
    names: NewNames<'t>,
}

/// Returns the new name of a tensor, or `None` if it keeps its name.
type Rename<'t> = dyn Fn(&str) -> Option<String> + 't;

enum NewNames<'t> {
    By(Box<Rename<'t>>),
    Positions,
}

impl<'t> Renamed<'t> {
    /// Returns the tensors under the names that `rename` returns; `None` keeps a name.
    pub fn new(tensors: &'t dyn Tensors, rename: impl Fn(&str) -> Option<String> + 't) -> Self {
        Self { tensors, names: NewNames::By(Box::new(rename)) }
    }

    /// Returns the tensors without their names: each is named by its position, from 0.
    ///
    /// Formats that store no names, such as BTF, take tensors so.
    ///
    /// ```
    /// use tensorfile::view::{Renamed, SaveReport};
    /// use tensorfile::{Format, TensorMap};
    ///
    /// let map = TensorMap::from_iter([("encoder.weight", ndarray::array![1.0_f32])]);
    /// let ten = Format::named("ten").expect("it is always there");
    /// assert_eq!(SaveReport::new(&map, ten)?.unstored_names, 1);
    /// assert_eq!(SaveReport::new(&Renamed::by_position(&map), ten)?.unstored_names, 0);
    /// # Ok::<(), tensorfile::Error>(())
    /// ```
    pub fn by_position(tensors: &'t dyn Tensors) -> Self {
        Self { tensors, names: NewNames::Positions }
    }
}

impl Tensors for Renamed<'_> {
    fn send(&self, sink: &mut dyn TensorSink) -> Result<()> {
        match &self.names {
            NewNames::By(rename) => self.tensors.send(&mut RenamedSink { rename, sink }),
            NewNames::Positions => self.tensors.send(&mut PositionSink { next: 0, positions: HashMap::new(), sink }),
        }
    }
}

struct RenamedSink<'a> {
    rename: &'a Rename<'a>,
    sink: &'a mut dyn TensorSink,
}

impl TensorSink for RenamedSink<'_> {
    fn tensor(&mut self, tensor: &TensorRecord<'_>) -> Result<()> {
        let name = (self.rename)(tensor.name);
        let tied = tensor.tied.map(|tied| (self.rename)(tied).unwrap_or_else(|| tied.to_owned()));
        self.sink.tensor(&TensorRecord {
            name: name.as_deref().unwrap_or(tensor.name),
            tied: tied.as_deref(),
            ..*tensor
        })
    }

    fn metadata(&mut self, key: &str, value: &MetadataValue) -> Result<()> {
        self.sink.metadata(key, value)
    }
}

struct PositionSink<'a> {
    next: usize,
    /// The positions of the tensors sent so far, by their old names.
    positions: HashMap<String, String>,
    sink: &'a mut dyn TensorSink,
}

impl TensorSink for PositionSink<'_> {
    fn tensor(&mut self, tensor: &TensorRecord<'_>) -> Result<()> {
        let name = self.next.to_string();
        self.next += 1;
        let tied = tensor.tied.and_then(|tied| self.positions.get(tied)).map(String::as_str);
        self.sink.tensor(&TensorRecord { name: &name, tied, ..*tensor })?;
        self.positions.insert(tensor.name.to_owned(), name);
        Ok(())
    }

    fn metadata(&mut self, key: &str, value: &MetadataValue) -> Result<()> {
        self.sink.metadata(key, value)
    }
}

impl fmt::Debug for Renamed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Renamed").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::super::support::{Sent, tied};
    use super::*;

    #[test]
    fn renames_tensors_and_ties() {
        let tensors = tied(&[("old.a", None), ("b", Some("old.a"))]);
        let view = Renamed::new(&tensors, |name| name.strip_prefix("old.").map(|rest| format!("new.{rest}")));
        let sent = Sent::by(&view);
        assert_eq!(sent.names(), ["new.a", "b"]);
        assert_eq!(sent.ties(), [None, Some("new.a")]);
    }

    #[test]
    fn positions_count_from_zero_each_time() {
        let tensors = tied(&[("a", None), ("b", Some("a"))]);
        let view = Renamed::by_position(&tensors);
        for _ in 0..2 {
            let sent = Sent::by(&view);
            assert_eq!(sent.names(), ["0", "1"]);
            assert_eq!(sent.ties(), [None, Some("0")]);
        }
    }
}
