//! A selection of tensors by name or position.

use std::collections::HashSet;
use std::fmt;

use super::sent_names::SentNames;
use crate::error::Result;
use crate::model::{FromTensors, TensorRecord, TensorSink, Tensors, forward};

/// Some of the tensors of another collection, chosen by name.
///
/// The order stays. A tensor tied to one outside the subset is sent without the tie.
///
/// ```
/// use tensorfile::view::Subset;
/// use tensorfile::{File, TensorMap};
///
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("encoder.safetensors");
/// let map = TensorMap::from_iter([("encoder.w", ndarray::array![1.0_f32]), ("head.w", ndarray::array![2.0])]);
/// tensorfile::save(&path, &Subset::new(&map, |name| name.starts_with("encoder.")))?;
/// assert_eq!(File::open(&path)?.len(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Subset<'t> {
    tensors: &'t dyn Tensors,
    chosen: Chosen<'t>,
}

enum Chosen<'t> {
    ByName(Box<dyn Fn(&str) -> bool + 't>),
    /// In order.
    ByPosition(Vec<usize>),
}

impl<'t> Subset<'t> {
    /// Returns the tensors whose names satisfy `keeps`.
    pub fn new(tensors: &'t dyn Tensors, keeps: impl Fn(&str) -> bool + 't) -> Self {
        Self { tensors, chosen: Chosen::ByName(Box::new(keeps)) }
    }

    /// Returns the tensors with these names.
    ///
    /// Names without a tensor are ignored.
    ///
    /// ```
    /// use tensorfile::view::Subset;
    /// use tensorfile::{File, TensorMap};
    ///
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("a.safetensors");
    /// let map = TensorMap::from_iter([("a", ndarray::array![1.0_f32]), ("b", ndarray::array![2.0])]);
    /// tensorfile::save(&path, &Subset::from_names(&map, ["a"]))?;
    /// assert!(File::open(&path)?.get("b").is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn from_names(tensors: &'t dyn Tensors, names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        let names: HashSet<String> = names.into_iter().map(Into::into).collect();
        Self::new(tensors, move |name| names.contains(name))
    }

    /// Returns the tensors at these positions, from 0. Unlike names, positions are unique.
    ///
    /// Positions without a tensor are ignored.
    pub fn from_positions(tensors: &'t dyn Tensors, positions: impl IntoIterator<Item = usize>) -> Self {
        let mut positions: Vec<usize> = positions.into_iter().collect();
        positions.sort_unstable();
        positions.dedup();
        Self { tensors, chosen: Chosen::ByPosition(positions) }
    }

    /// Loads the tensors into a type.
    ///
    /// ```
    /// use ndarray::{Array1, array};
    /// use tensorfile::view::Subset;
    /// use tensorfile::{TensorFile, TensorMap};
    ///
    /// #[derive(TensorFile)]
    /// struct Norm {
    ///     scale: Array1<f32>,
    /// }
    ///
    /// let map = TensorMap::from_iter([("scale", array![0.5_f32]), ("step", array![7.0])]);
    /// let norm: Norm = Subset::new(&map, |name| name != "step").load()?;
    /// assert_eq!(norm.scale, array![0.5]);
    /// # Ok::<(), tensorfile::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`TensorMap::load`](crate::TensorMap::load), and errors of reading the tensors.
    pub fn load<T: for<'f> FromTensors<'f>>(&self) -> Result<T> {
        (self as &dyn Tensors).load()
    }
}

impl Tensors for Subset<'_> {
    fn send(&self, sink: &mut dyn TensorSink) -> Result<()> {
        match &self.chosen {
            Chosen::ByName(keeps) => self.tensors.send(&mut forward(sink, &mut |tensor, next| {
                if !keeps(tensor.name) {
                    return Ok(());
                }
                next.tensor(&TensorRecord { tied: tensor.tied.filter(|name| keeps(name)), ..*tensor })
            })),
            Chosen::ByPosition(positions) => {
                let (mut next_position, mut sent) = (0, SentNames::new(self.tensors));
                let mut left = positions.iter().copied().peekable();
                self.tensors.send(&mut forward(sink, &mut |tensor, next| {
                    let position = next_position;
                    next_position += 1;
                    if left.next_if_eq(&position).is_none() {
                        return Ok(());
                    }
                    let is_sent = |at: usize| positions.binary_search(&at).is_ok();
                    let tied = match tensor.tied {
                        Some(name) if sent.any_before(position, name, &is_sent)? => Some(name),
                        _ => None,
                    };
                    next.tensor(&TensorRecord { tied, ..*tensor })
                }))
            }
        }
    }
}

impl fmt::Debug for Subset<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subset").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::super::support::{Sent, tied};
    use super::*;

    #[test]
    fn keeps_the_order() {
        let tensors = tied(&[("c", None), ("a", None), ("b", None)]);
        assert_eq!(Sent::by(&Subset::new(&tensors, |name| name != "a")).names(), ["c", "b"]);
        assert_eq!(Sent::by(&Subset::from_names(&tensors, ["b", "x", "c"])).names(), ["c", "b"]);
    }

    #[test]
    fn drops_ties_to_tensors_outside() {
        let tensors = tied(&[("a", None), ("b", Some("a")), ("c", Some("b"))]);
        assert_eq!(Sent::by(&Subset::new(&tensors, |name| name != "a")).ties(), [None, Some("b")]);
        let view = Subset::from_positions(&tensors, [2, 1, 7]);
        for _ in 0..2 {
            let sent = Sent::by(&view);
            assert_eq!(sent.names(), ["b", "c"]);
            assert_eq!(sent.ties(), [None, Some("b")]);
        }
    }
}
