//! Named tensors in order, owned.

use hashbrown::DefaultHashBuilder;
use indexmap::IndexMap;

use super::{Tensor, TensorInfo};

/// Named tensors in the order of the file.
///
/// Holds any file without repeated names, without a struct to describe it. Unnamed tensors of a file are named by
/// position, `0`, `1`, …. Two maps are equal if they have the same names and tensors in the same order.
///
/// ```
/// use ndarray::array;
/// use tensorfile::{TensorMap, ptd};
///
/// let mut map = TensorMap::new();
/// map.insert("weight", array![[1.0_f32, 2.0], [3.0, 4.0]]);
/// map.insert("bias", array![0.5_f32, 0.25]);
///
/// let read: TensorMap = ptd::from_slice(&ptd::to_vec(&map)?)?;
/// assert_eq!(read["bias"].shape().dims(), [2]);
/// # Ok::<(), tensorfile::Error>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct TensorMap(IndexMap<String, Tensor, DefaultHashBuilder>);

impl TensorMap {
    /// Creates an empty map.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    pub(crate) fn reserve(&mut self, tensors: usize) {
        self.0.reserve(tensors);
    }

    /// Returns the number of tensors.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns `true` if the map has no tensors.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the tensor called `name`.
    ///
    /// ```
    /// use ndarray::array;
    /// use tensorfile::TensorMap;
    ///
    /// let map = TensorMap::from_iter([("weight", array![1.0_f32])]);
    /// assert_eq!(map.get("weight").map(|tensor| tensor.info().to_string()).as_deref(), Some("f32[1]"));
    /// assert!(map.get("bias").is_none());
    /// ```
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Tensor> {
        self.0.get(name)
    }

    /// Returns the tensor called `name`, mutably.
    ///
    /// ```
    /// use ndarray::array;
    /// use tensorfile::TensorMap;
    ///
    /// let mut map = TensorMap::from_iter([("weight", array![1.0_f32, 2.0])]);
    /// if let Some(weight) = map.get_mut("weight") {
    ///     *weight = (weight.to_array::<f32>()? * 0.5).into();
    /// }
    /// assert_eq!(map["weight"].array::<f32>()?, array![0.5, 1.0].into_dyn());
    /// # Ok::<(), tensorfile::Error>(())
    /// ```
    pub fn get_mut(&mut self, name: &str) -> Option<&mut Tensor> {
        self.0.get_mut(name)
    }

    /// Returns `true` if the map has a tensor called `name`.
    ///
    /// ```
    /// use tensorfile::TensorMap;
    ///
    /// let map = TensorMap::from_iter([("lm_head.weight", ndarray::array![1.0_f32])]);
    /// assert!(map.contains("lm_head.weight") && !map.contains("lm_head.bias"));
    /// ```
    #[must_use]
    pub fn contains(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// Adds a tensor or an array at the end, or replaces the one called `name` in place and returns the replaced one.
    ///
    /// ```
    /// use ndarray::array;
    /// use tensorfile::TensorMap;
    ///
    /// let mut map = TensorMap::new();
    /// assert!(map.insert("weight", array![[1.0_f32]]).is_none());
    /// let old = map.insert("weight", array![2_i64]).expect("it was there");
    /// assert_eq!((old.info().to_string(), map["weight"].info().to_string()), ("f32[1, 1]".into(), "i64[1]".into()));
    /// ```
    pub fn insert(&mut self, name: impl Into<String>, tensor: impl Into<Tensor>) -> Option<Tensor> {
        self.0.insert(name.into(), tensor.into())
    }

    /// Removes and returns the tensor called `name`. The remaining tensors keep their order.
    ///
    /// ```
    /// use ndarray::array;
    /// use tensorfile::TensorMap;
    ///
    /// // Renames a tensor.
    /// let mut map = TensorMap::from_iter([("gamma", array![1.0_f32])]);
    /// if let Some(tensor) = map.remove("gamma") {
    ///     map.insert("weight", tensor);
    /// }
    /// assert!(map.contains("weight"));
    /// ```
    pub fn remove(&mut self, name: &str) -> Option<Tensor> {
        self.0.shift_remove(name)
    }

    /// Iterates over names and tensors in order.
    ///
    /// ```
    /// use ndarray::array;
    /// use tensorfile::TensorMap;
    ///
    /// let map = TensorMap::from_iter([("a", array![1.0_f32, 2.0]), ("b", array![3.0])]);
    /// let bytes: usize = map.iter().map(|(_, tensor)| tensor.as_bytes().len()).sum();
    /// assert_eq!(bytes, 12);
    /// ```
    pub fn iter(&self) -> indexmap::map::Iter<'_, String, Tensor> {
        self.0.iter()
    }

    /// Iterates over the names in order, as [`names`](Self::names) does, under the name used by maps of the standard
    /// library.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.names()
    }

    /// Iterates over the names in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// Iterates over names with dtype, shape and layout, in order.
    pub fn infos(&self) -> impl Iterator<Item = (&str, &TensorInfo)> {
        self.0.iter().map(|(name, tensor)| (name.as_str(), tensor.info()))
    }
}

impl PartialEq for TensorMap {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len() && self.iter().eq(other.iter())
    }
}

impl Eq for TensorMap {}

impl<N: Into<String>, T: Into<Tensor>> FromIterator<(N, T)> for TensorMap {
    fn from_iter<I: IntoIterator<Item = (N, T)>>(tensors: I) -> Self {
        Self(tensors.into_iter().map(|(name, tensor)| (name.into(), tensor.into())).collect())
    }
}

impl<N: Into<String>, T: Into<Tensor>> Extend<(N, T)> for TensorMap {
    fn extend<I: IntoIterator<Item = (N, T)>>(&mut self, tensors: I) {
        self.0.extend(tensors.into_iter().map(|(name, tensor)| (name.into(), tensor.into())));
    }
}

impl IntoIterator for TensorMap {
    type Item = (String, Tensor);
    type IntoIter = indexmap::map::IntoIter<String, Tensor>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<'a> IntoIterator for &'a TensorMap {
    type Item = (&'a String, &'a Tensor);
    type IntoIter = indexmap::map::Iter<'a, String, Tensor>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}
