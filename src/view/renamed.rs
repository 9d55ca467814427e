//! Tensors under different names.

use std::borrow::Cow;
use std::fmt;
use std::path::Path;

use super::RenameRules;
use super::sent_names::SentNames;
use crate::error::Result;
use crate::file::File;
use crate::model::{FromTensors, TensorRecord, TensorSink, Tensors, forward};

/// The tensors of a collection under different names.
///
/// If two tensors get the same name, writing the view fails.
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

/// Returns the new name of a tensor by its position and its name, or `None` if it keeps its name.
type RenameAt<'t> = dyn Fn(usize, &str) -> Option<String> + 't;

enum NewNames<'t> {
    By(Box<Rename<'t>>),
    /// Tensors of one name, as in some streams, may get several.
    At(Box<RenameAt<'t>>),
    /// The names in order, which need no copy for each tensor.
    Listed(Vec<String>),
}

impl NewNames<'_> {
    /// Returns the new name of a tensor. `None` keeps its name.
    fn get(&self, position: usize, name: &str) -> Option<Cow<'_, str>> {
        match self {
            Self::By(rename) => rename(name).map(Cow::Owned),
            Self::At(rename) => rename(position, name).map(Cow::Owned),
            Self::Listed(names) => names.get(position).map(|name| Cow::Borrowed(&**name)),
        }
    }
}

impl<'t> Renamed<'t> {
    /// Returns the tensors under the names returned by `rename`; `None` keeps a name.
    pub fn new(tensors: &'t dyn Tensors, rename: impl Fn(&str) -> Option<String> + 't) -> Self {
        Self { tensors, names: NewNames::By(Box::new(rename)) }
    }

    /// Returns the tensors without their names: each is named by its position, from 0.
    ///
    /// Formats without names, such as BTF, accept the tensors in this form.
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
        Self { tensors, names: NewNames::At(Box::new(|position, _| Some(position.to_string()))) }
    }

    /// Returns the tensors under these names, in order. If there are more tensors, the last ones keep their names.
    pub fn with_names(tensors: &'t dyn Tensors, names: Vec<String>) -> Self {
        Self { tensors, names: NewNames::Listed(names) }
    }

    /// Returns the tensors renamed by rules. [`RenameRules::check`] finds unused rules.
    ///
    /// ```
    /// use tensorfile::view::{RenameRules, Renamed};
    /// use tensorfile::{File, TensorMap};
    ///
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("model.safetensors");
    /// let map = TensorMap::from_iter([("blk.0.ffn_up.weight", ndarray::array![1.0_f32])]);
    /// let rules = RenameRules::parse(["blk.*.ffn_up.*=model.layers.*.mlp.up_proj.*"])?;
    /// tensorfile::save(&path, &Renamed::by_rules(&map, &rules))?;
    /// assert!(File::open(&path)?.get("model.layers.0.mlp.up_proj.weight").is_ok());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn by_rules(tensors: &'t dyn Tensors, rules: &'t RenameRules) -> Self {
        Self { tensors, names: NewNames::At(Box::new(|position, name| rules.rename(position, name))) }
    }

    /// Returns the tensors of a file, with unnamed ones named after the file, as by [`names_after_file`].
    ///
    /// ```
    /// use tensorfile::view::Renamed;
    /// use tensorfile::{File, TensorMap, btf};
    ///
    /// # let folder = tempfile::tempdir()?;
    /// # let (path, new) = (folder.path().join("weight.btf"), folder.path().join("model.safetensors"));
    /// std::fs::write(&path, btf::to_vec(&TensorMap::from_iter([("0", ndarray::array![1.0_f32])]))?)?;
    /// tensorfile::save(&new, &Renamed::after_file(&File::open(&path)?))?;
    /// assert!(File::open(&new)?.get("weight").is_ok());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn after_file(file: &'t File) -> Self {
        Self::with_names(file, names_after_file(file))
    }

    /// Loads the tensors into a type.
    ///
    /// ```
    /// use ndarray::{Array1, array};
    /// use tensorfile::view::{RenameRules, Renamed};
    /// use tensorfile::{TensorFile, TensorMap};
    ///
    /// #[derive(TensorFile)]
    /// struct Norm {
    ///     scale: Array1<f32>,
    /// }
    ///
    /// let map = TensorMap::from_iter([("model.norm.gamma", array![0.5_f32])]);
    /// let rules = RenameRules::parse(["model.norm.gamma=scale"])?;
    /// let norm: Norm = Renamed::by_rules(&map, &rules).load()?;
    /// assert_eq!(norm.scale, array![0.5]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`TensorMap::load`](crate::TensorMap::load), and errors of reading the tensors.
    pub fn load<T: for<'f> FromTensors<'f>>(&self) -> Result<T> {
        (self as &dyn Tensors).load()
    }
}

/// Returns the names of the tensors of a file, in their order. Tensors without names are named after the file.
///
/// A single tensor in `weight.npy` is named `weight`; several are named `weight.0`, `weight.1` and so on, by position.
/// Without a path, as for bytes in memory, the names are `arr_0`, `arr_1` and so on, as in numpy.
#[must_use]
pub fn names_after_file(file: &File) -> Vec<String> {
    let stem = file.path().and_then(Path::file_stem).map(|stem| stem.to_string_lossy());
    let name = |position: usize| match &stem {
        Some(stem) if file.len() == 1 => stem.to_string(),
        Some(stem) => format!("{stem}.{position}"),
        None => format!("arr_{position}"),
    };
    let tensors = file.tensors();
    tensors.map(|tensor| if tensor.has_name() { tensor.name().to_owned() } else { name(tensor.position()) }).collect()
}

impl Tensors for Renamed<'_> {
    fn send(&self, sink: &mut dyn TensorSink) -> Result<()> {
        let (mut next_position, mut sent) = (0, SentNames::new(self.tensors));
        self.tensors.send(&mut forward(sink, &mut |tensor, next| {
            let position = next_position;
            next_position += 1;
            let name = self.names.get(position, tensor.name);
            let name = name.as_deref().unwrap_or(tensor.name);
            let tied = match (&self.names, tensor.tied) {
                (_, None) => None,
                (NewNames::By(rename), Some(tied)) => Some(rename(tied).unwrap_or_else(|| tied.to_owned())),
                // The position of the other tensor decides on its name.
                (_, Some(tied)) => sent
                    .last_before(position, tied)?
                    .map(|at| self.names.get(at, tied).map_or_else(|| tied.to_owned(), Cow::into_owned)),
            };
            next.tensor(&TensorRecord { name, tied: tied.as_deref(), ..*tensor })
        }))
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
    fn rules_rename_by_position_too() {
        let tensors = tied(&[("a", None), ("a", None), ("b", Some("a"))]);
        let rules = RenameRules::parse(["#1=second", "*=x.*"]).unwrap();
        let sent = Sent::by(&Renamed::by_rules(&tensors, &rules));
        assert_eq!(sent.names(), ["x.a", "second", "x.b"]);
        assert_eq!(sent.ties(), [None, None, Some("second")]);
        let sent = Sent::by(&Renamed::with_names(&tensors, vec!["x".to_owned()]));
        assert_eq!(sent.names(), ["x", "a", "b"]);
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
