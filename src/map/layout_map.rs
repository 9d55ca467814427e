//! A map: its equations, and how they are read.

use std::fmt;
use std::fs;
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;

use super::parse::MapLines;
use crate::error::{Error, ErrorKind, Result};

/// The maps that come with the crate.
const SHIPPED: &[(&str, &str)] = &[
    ("fused", include_str!("shipped/fused.map")),
    ("llama-gguf", include_str!("shipped/llama-gguf.map")),
    ("qwen3-moe", include_str!("shipped/qwen3-moe.map")),
];

/// A layout map: equations between the tensors of two layouts of a model.
///
/// A line says that two names hold the same numbers. An axis may stand in a name or in a dim: `{e}` in a name and `e` in
/// a dim stack tensors, or split one; another order of axes transposes. The [guide](crate::guide) explains the language.
///
/// ```
/// use tensorfile::{LayoutMap, OpenOptions, TensorMap, safetensors};
/// use ndarray::array;
///
/// let map: LayoutMap = "experts.{e}.weight [h] = experts.weight [e h]".parse()?;
/// let one_by_one = TensorMap::from_iter([("experts.0.weight", array![1.0_f32, 2.0]), ("experts.1.weight", array![3.0, 4.0])]);
///
/// let file = OpenOptions::new().map(&map).from_bytes(safetensors::to_vec(&one_by_one)?)?;
/// assert_eq!(file.array::<f32, _>("experts.weight")?, array![[1.0, 2.0], [3.0, 4.0]]);
/// # Ok::<(), tensorfile::Error>(())
/// ```
#[derive(Clone)]
pub struct LayoutMap {
    pub(super) lines: Arc<MapLines>,
    text: Arc<str>,
    name: Option<String>,
    pub(super) sets: Vec<(String, u64)>,
    is_inverted: bool,
    is_lossy: bool,
}

impl LayoutMap {
    /// Reads the equations of a text.
    ///
    /// ```
    /// use tensorfile::LayoutMap;
    ///
    /// let error = LayoutMap::parse("experts.{e}.weight [h] = experts.weight [h]").unwrap_err();
    /// assert_eq!(
    ///     error.to_string(),
    ///     "line 1, column 10: `e` is only on the left side\n  \
    ///      experts.{e}.weight [h] = experts.weight [h]\n           ^"
    /// );
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Map`] with the place of the first mistake.
    pub fn parse(text: &str) -> Result<Self> {
        let lines = Arc::new(MapLines::parse(text)?);
        let (text, sets) = (text.into(), Vec::new());
        Ok(Self { lines, text, name: None, sets, is_inverted: false, is_lossy: false })
    }

    /// Reads the equations of a file.
    ///
    /// ```
    /// use tensorfile::LayoutMap;
    ///
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("own.map");
    /// std::fs::write(&path, "{t:a|b}.weight = {t:first|second}.weight")?;
    /// assert_eq!(LayoutMap::open(&path)?.name(), path.to_str());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`parse`](Self::parse), and those of reading the file.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        fn open(path: &Path) -> Result<LayoutMap> {
            let map = fs::read_to_string(path).map_err(Error::from).and_then(|text| LayoutMap::parse(&text));
            let map = map.map_err(|error| error.in_file(path))?;
            Ok(LayoutMap { name: Some(path.display().to_string()), ..map })
        }
        open(path.as_ref())
    }

    /// Returns a map that comes with the crate: `fused`, `llama-gguf` or `qwen3-moe`.
    ///
    /// ```
    /// use tensorfile::LayoutMap;
    ///
    /// assert!(LayoutMap::named("qwen3-moe").is_some() && LayoutMap::named("qwen").is_none());
    /// ```
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        let (name, text) = SHIPPED.iter().find(|(own, _)| *own == name)?;
        let map = Self::parse(text).unwrap_or_else(|error| unreachable!("{name}: {error}"));
        Some(Self { name: Some((*name).to_owned()), ..map })
    }

    /// Returns the names of the maps that come with the crate.
    ///
    /// ```
    /// use tensorfile::LayoutMap;
    ///
    /// assert!(LayoutMap::names().all(|name| LayoutMap::named(name).is_some()));
    /// ```
    pub fn names() -> impl Iterator<Item = &'static str> {
        SHIPPED.iter().map(|(name, _)| *name)
    }

    /// Sets a number, instead of its `let`. The name may also be that of an axis without a `let`.
    ///
    /// Using the map is an error if it does not have the name.
    ///
    /// ```
    /// use tensorfile::LayoutMap;
    ///
    /// let map = LayoutMap::named("qwen3-moe").expect("it is shipped").set("e", 128).set("l", 48);
    /// ```
    #[must_use]
    pub fn set(mut self, name: &str, number: u64) -> Self {
        self.sets.retain(|(own, _)| own != name);
        self.sets.push((name.to_owned(), number));
        self
    }

    /// Returns the map read from right to left. Inverted twice, it is the map itself.
    ///
    /// ```
    /// use tensorfile::{LayoutMap, OpenOptions, TensorMap, safetensors};
    /// use ndarray::array;
    ///
    /// let map: LayoutMap = "experts.{e}.weight [h] = experts.weight [e h]".parse()?;
    /// let stacked = TensorMap::from_iter([("experts.weight", array![[1.0_f32, 2.0], [3.0, 4.0]])]);
    /// let file = OpenOptions::new().map(&map.inverted()).from_bytes(safetensors::to_vec(&stacked)?)?;
    /// assert_eq!(file.array::<f32, _>("experts.1.weight")?, array![3.0, 4.0]);
    /// # Ok::<(), tensorfile::Error>(())
    /// ```
    #[must_use]
    pub fn inverted(mut self) -> Self {
        self.is_inverted = !self.is_inverted;
        self
    }

    /// Takes padding that is not zero. By default, it is an error, because it would be left out.
    ///
    /// ```
    /// use tensorfile::{LayoutMap, OpenOptions, TensorMap, safetensors};
    /// use ndarray::array;
    ///
    /// let map = LayoutMap::parse("let pad = 1\nembed [v+pad] = embed [v]")?;
    /// let padded = safetensors::to_vec(&TensorMap::from_iter([("embed", array![1.0_f32, 2.0, 9.0])]))?;
    /// assert!(OpenOptions::new().map(&map).from_bytes(padded.clone())?.tensor("embed").is_err());
    /// let file = OpenOptions::new().map(&map.lossy()).from_bytes(padded)?;
    /// assert_eq!(file.array::<f32, _>("embed")?, array![1.0, 2.0]);
    /// # Ok::<(), tensorfile::Error>(())
    /// ```
    #[must_use]
    pub fn lossy(mut self) -> Self {
        self.is_lossy = true;
        self
    }

    /// Returns the name of a shipped map, or the path of a file. `None` for a text.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// Returns the text of the equations.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the digest of the text.
    ///
    /// ```
    /// use tensorfile::LayoutMap;
    ///
    /// let map = LayoutMap::parse("a = b")?;
    /// assert_eq!(map.digest(), map.clone().inverted().digest());
    /// # Ok::<(), tensorfile::Error>(())
    /// ```
    #[cfg(feature = "digest")]
    #[must_use]
    pub fn digest(&self) -> crate::digest::Digest {
        blake3::hash(self.text.as_bytes()).into()
    }

    /// Returns whether the equations are read from right to left.
    #[must_use]
    pub fn is_inverted(&self) -> bool {
        self.is_inverted
    }

    /// Returns the numbers that were set.
    #[must_use]
    pub fn sets(&self) -> &[(String, u64)] {
        &self.sets
    }

    /// Returns whether padding may have any elements.
    #[must_use]
    pub fn is_lossy(&self) -> bool {
        self.is_lossy
    }

    /// Returns whether numbers of the configuration are used.
    pub(crate) fn uses_config(&self) -> bool {
        let is_set = |name: &String| self.sets.iter().any(|(own, _)| own == name);
        self.lines.lets.iter().any(|own| !is_set(&own.name) && own.value.uses_config())
    }

    /// Checks that the names of the set numbers exist, and that the map can be read in its direction.
    pub(crate) fn check(&self) -> Result<()> {
        let malformed = |what: String| Err(ErrorKind::Map { what, line: 0, column: 0, text: String::new() }.into());
        let has_axis =
            |name: &str| self.lines.equations.iter().flat_map(|equation| &equation.axes).any(|axis| axis.name == name);
        let lists = |name: &str| self.lines.list(name).is_some();
        for (name, _) in &self.sets {
            if lists(name) || !self.lines.has_let(name) && !has_axis(name) {
                let names: Vec<String> = self.lines.lets.iter().map(|own| format!("`{}`", own.name)).collect();
                return malformed(format!("the map has no number `{name}` to set; it has {}", names.join(", ")));
            }
        }
        match self.lines.drops.first() {
            Some(drop) if self.is_inverted => {
                malformed(format!("line {} drops tensors, so that there is no way back from right to left", drop.line))
            }
            _ => Ok(()),
        }
    }
}

impl FromStr for LayoutMap {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::parse(text)
    }
}

impl fmt::Debug for LayoutMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut map = f.debug_struct("LayoutMap");
        map.field("name", &self.name).field("sets", &self.sets).field("is_inverted", &self.is_inverted);
        map.finish_non_exhaustive()
    }
}
