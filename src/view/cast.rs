use std::fmt;
use std::io::{self, Write};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use super::storage_ids::derived_id;
use crate::cast::{CastReport, Caster};
use crate::error::Result;
use crate::model::{FromTensors, Meaning, TensorData, TensorRecord, TensorSink, Tensors, forward};
use crate::quant::{Quantized, TensorHeaders, may_be_quantized, recognize};
use crate::tensor::{Dtype, Layout, TensorInfo};

/// The tensors of a collection in different dtypes, cast while they are written.
///
/// Each number becomes the nearest one, as [`Caster`] describes. [`casts`](Self::casts) reports how many changed.
///
/// Codes and scales of quantized weights are no such numbers: to cast one is an [error](crate::ErrorKind::Codes) before
/// anything is passed on, unless you ask for them [as stored](Self::as_stored). An open [`File`](crate::File) knows its codes
/// by names, metadata and configuration, through other views too. Of other collections, names, dtypes and shapes decide, as
/// [`quant`](crate::quant) describes, and what only a configuration could tell is refused.
///
/// ```
/// use tensorfile::view::CastView;
/// use tensorfile::model::{TensorRecord, TensorSink};
/// use tensorfile::{Dtype, Tensor, TensorMap, Tensors};
///
/// struct Written(Vec<u8>);
///
/// impl TensorSink for Written {
///     fn tensor(&mut self, tensor: &TensorRecord<'_>) -> tensorfile::Result<()> {
///         Ok(tensor.data.write_to(&mut self.0)?)
///     }
/// }
///
/// let map: TensorMap = [("weight", Tensor::from_slice(&[1.0_f32, 0.1], [2])?)].into_iter().collect();
/// let view = CastView::new(&map, |_, _| Dtype::F64);
/// let mut written = Written(Vec::new());
/// view.send(&mut written)?;
/// assert_eq!(written.0, Tensor::from_slice(&[1.0_f64, f64::from(0.1_f32)], [2])?.as_bytes());
/// assert!(view.casts()[0].report.is_exact());
/// # Ok::<(), tensorfile::Error>(())
/// ```
pub struct CastView<'t> {
    tensors: &'t dyn Tensors,
    target: Box<Target<'t>>,
    /// The cast tensors sent so far, in order.
    casts: Mutex<Vec<TensorCast>>,
    as_stored: bool,
    /// What the names of the tensors say, for those of which the collection says nothing.
    recognized: OnceLock<Quantized>,
}

/// Returns the dtype of a tensor with a name and an info.
type Target<'t> = dyn Fn(&str, &TensorInfo) -> Dtype + 't;

/// A tensor cast by a [`CastView`].
///
/// ```
/// use tensorfile::view::CastView;
/// use tensorfile::{Dtype, TensorMap, ten};
///
/// let map = TensorMap::from_iter([("weight", ndarray::array![0.1_f32, 1e9])]);
/// let halves = CastView::new(&map, |_, _| Dtype::F16);
/// ten::FORMAT.to_vec(&halves, &tensorfile::WriteOptions::new())?;
/// let cast = &halves.casts()[0];
/// assert_eq!((cast.name.as_str(), cast.report.rounded, cast.report.overflowed), ("weight", 1, 1));
/// # Ok::<(), tensorfile::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TensorCast {
    /// The name of the tensor.
    pub name: String,
    /// The dtype it has.
    pub from: Dtype,
    /// The dtype it is cast to.
    pub to: Dtype,
    /// The changed numbers when the tensor was last written; all zero before.
    pub report: CastReport,
}

impl<'t> CastView<'t> {
    /// Returns the tensors in the dtypes returned by `target` for each name and info.
    ///
    /// A tensor already in the target dtype is passed on unchanged, and so are blobs and unknown dtypes. Impossible
    /// casts, see [`Caster::between_kinds`], are an error when the view is written.
    ///
    /// ```
    /// use tensorfile::view::CastView;
    /// use tensorfile::{Dtype, File, TensorMap};
    ///
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("half.safetensors");
    /// let mut map = TensorMap::from_iter([("weight", ndarray::array![0.5_f32])]);
    /// map.insert("step", ndarray::array![9_u64]);
    /// // Casts floats and leaves integers as they are.
    /// let halves = CastView::new(&map, |_, info| if info.dtype.is_float() { Dtype::F16 } else { info.dtype });
    /// tensorfile::save(&path, &halves)?;
    /// assert_eq!(File::open(&path)?.get("weight")?.dtype(), Dtype::F16);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn new(tensors: &'t dyn Tensors, target: impl Fn(&str, &TensorInfo) -> Dtype + 't) -> Self {
        let (casts, recognized) = (Mutex::default(), OnceLock::new());
        Self { tensors, target: Box::new(target), casts, as_stored: false, recognized }
    }

    /// Casts codes and scales of quantized weights too, as if they were the weights. By default, this is an error.
    ///
    /// ```
    /// use tensorfile::view::CastView;
    /// use tensorfile::{Dtype, ErrorKind, Tensor, TensorInfo, TensorMap, WriteOptions, safetensors};
    ///
    /// let mut map = TensorMap::new();
    /// map.insert("up.weight", Tensor::new(TensorInfo::new(Dtype::F8E4M3Fn, [2]), &[0x38, 0x40])?);
    /// map.insert("up.weight_scale", ndarray::array![0.5_f32]);
    /// let to_f32 = || CastView::new(&map, |_, _| Dtype::F32);
    /// let error = safetensors::FORMAT.to_vec(&to_f32(), &WriteOptions::new()).unwrap_err();
    /// assert!(matches!(error.kind(), ErrorKind::Codes { name, .. } if name == "up.weight"));
    /// safetensors::FORMAT.to_vec(&to_f32().as_stored(), &WriteOptions::new())?;
    /// # Ok::<(), tensorfile::Error>(())
    /// ```
    #[must_use]
    pub fn as_stored(mut self) -> Self {
        self.as_stored = true;
        self
    }

    /// Returns the cast tensors sent so far, in order, each with the report of its last write.
    #[must_use]
    pub fn casts(&self) -> Vec<TensorCast> {
        self.lock().clone()
    }

    /// Checks that all tensors to be cast hold numbers.
    fn check_numbers(&self) -> Result<()> {
        let mut cast = CastCheck { view: self, position: 0, unstated: false, may_be_quantized: false };
        self.tensors.send(&mut cast)?;
        if !(cast.unstated && cast.may_be_quantized) {
            return Ok(());
        }
        if self.recognized.get().is_none() {
            let mut headers = TensorHeaders::default();
            self.tensors.send(&mut headers)?;
            self.recognized.get_or_init(|| recognize(&headers));
        }
        self.tensors.send(&mut CastCheck { position: 0, ..cast })
    }

    fn target(&self, name: &str, info: &TensorInfo) -> Dtype {
        if matches!(info.layout, Layout::Blob | Layout::Unknown(_)) { info.dtype } else { (self.target)(name, info) }
    }

    /// Adds a cast, unless it was sent before.
    fn note(&self, number: usize, name: &str, [from, to]: [Dtype; 2]) {
        let mut casts = self.lock();
        if casts.get(number).is_some_and(|cast| cast.name == name && (cast.from, cast.to) == (from, to)) {
            return;
        }
        casts.truncate(number);
        casts.push(TensorCast { name: name.to_owned(), from, to, report: CastReport::default() });
    }

    fn lock(&self) -> MutexGuard<'_, Vec<TensorCast>> {
        // No code that can panic runs under the lock, so the list is always consistent.
        self.casts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Loads the tensors into a type: the numbers are rounded, which `#[tensor(cast)]` refuses except for floats.
    ///
    /// ```
    /// use ndarray::{Array1, array};
    /// use std::collections::BTreeMap;
    /// use tensorfile::view::CastView;
    /// use tensorfile::{Dtype, TensorMap};
    ///
    /// let map = TensorMap::from_iter([("weight", array![0.4_f32, 1.6])]);
    /// let view = CastView::new(&map, |_, _| Dtype::I8);
    /// let whole: BTreeMap<String, Array1<i8>> = view.load()?;
    /// assert_eq!(whole["weight"], array![0, 2]);
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

impl Tensors for CastView<'_> {
    fn send(&self, sink: &mut dyn TensorSink) -> Result<()> {
        if !self.as_stored {
            self.check_numbers()?;
        }
        // The tensors are the same every time, so the same ones are cast: each is found by its number.
        let mut next_cast = 0;
        self.tensors.send(&mut forward(sink, &mut |tensor, next| {
            let (name, from) = (tensor.name, tensor.info.dtype);
            let to = self.target(name, tensor.info);
            // Tied tensors have the same bytes, and keep them only if both casts agree.
            let tied = tensor.tied.filter(|tied| self.target(tied, tensor.info) == to);
            if from == to {
                return next.tensor(&TensorRecord { tied, ..*tensor });
            }
            let caster = Caster::between_kinds(from, to).map_err(|error| error.in_tensor(name))?;
            let number = next_cast;
            next_cast += 1;
            self.note(number, name, [from, to]);
            let info = TensorInfo { dtype: to, ..tensor.info.clone() };
            let data = CastData { view: self, source: tensor, caster, to, number };
            next.tensor(&TensorRecord { info: &info, data: &data, tied, ..*tensor })
        }))
    }
}

/// The tensors of a view, looked at before they are sent.
struct CastCheck<'a, 't> {
    view: &'a CastView<'t>,
    position: usize,
    /// The collection does not say what a tensor holds that is cast.
    unstated: bool,
    /// A name asks for a look at all of them.
    may_be_quantized: bool,
}

impl TensorSink for CastCheck<'_, '_> {
    fn tensor(&mut self, tensor: &TensorRecord<'_>) -> Result<()> {
        let position = self.position;
        self.position += 1;
        self.may_be_quantized |= may_be_quantized(tensor.name, tensor.info);
        if self.view.target(tensor.name, tensor.info) == tensor.info.dtype {
            return Ok(());
        }
        match tensor.data.meaning()? {
            Meaning::Numbers => Ok(()),
            Meaning::Codes(refusal) => Err(refusal.into()),
            Meaning::Unstated => {
                self.unstated = true;
                let recognized = self.view.recognized.get();
                recognized
                    .and_then(|recognized| recognized.refusal(position))
                    .map_or(Ok(()), |refusal| Err(refusal.into()))
            }
        }
    }
}

impl TensorSink for TensorHeaders {
    fn tensor(&mut self, tensor: &TensorRecord<'_>) -> Result<()> {
        self.push(tensor.name, tensor.info);
        Ok(())
    }
}

struct CastData<'a, 't> {
    view: &'a CastView<'t>,
    source: &'a TensorRecord<'a>,
    caster: Caster,
    to: Dtype,
    /// The number of cast tensors before this one.
    number: usize,
}

impl CastData<'_, '_> {
    /// Returns the bytes before the elements: the coordinates of a sparse tensor.
    fn coordinate_bytes(&self) -> usize {
        let info = self.source.info;
        match info.layout {
            Layout::Coo { entries } => {
                let elements = info.dtype.bytes_for(entries).unwrap_or_default();
                info.payload_bytes().unwrap_or_default().saturating_sub(elements)
            }
            _ => 0,
        }
    }
}

impl TensorData for CastData<'_, '_> {
    /// Several threads cast a long chunk, so a copy from file to file is written in the same way.
    fn write_to(&self, out: &mut dyn Write) -> io::Result<()> {
        let mut caster = self.caster.clone();
        self.source.data.write_to(&mut caster.writer_after(self.coordinate_bytes(), out))?;
        if let Some(cast) = self.view.lock().get_mut(self.number) {
            cast.report = caster.report().clone();
        }
        Ok(())
    }

    /// After the cast, they are numbers.
    fn meaning(&self) -> Result<Meaning> {
        Ok(Meaning::Numbers)
    }

    /// The same bytes cast in the same way have the same id. Other ids are equal at most by chance, which does no harm.
    fn storage_id(&self) -> Option<u64> {
        let [from, to] = [self.source.info.dtype, self.to].map(|dtype| dtype as u64);
        Some(derived_id(self.source.data.storage_id()?, from << 8 | to))
    }
}

impl fmt::Debug for CastView<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CastView").field("casts", &self.lock().len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::super::support::{Sent, Stored, tied};
    use super::*;
    use crate::tensor::{CooTensor, Tensor, TensorMap};

    fn floats_to_f16(_: &str, info: &TensorInfo) -> Dtype {
        if info.dtype.is_float() { Dtype::F16 } else { info.dtype }
    }

    #[test]
    fn casts_pieces_that_cut_elements() {
        let bytes = Tensor::from_slice(&[1.0_f32, 0.1, 1e9, -2.0], [4]).unwrap().as_bytes().to_vec();
        let tensors = vec![("a", Stored::new(Dtype::F32, &bytes, 0)), ("b", Stored::new(Dtype::U8, &[7; 5], 1))];
        let view = CastView::new(&tensors, floats_to_f16);
        let sent = Sent::by(&view);
        let halves = [1.0, 0.1, 1e9, -2.0].map(half::f16::from_f32);
        assert_eq!(sent.0[0].bytes, Tensor::from_slice(&halves, [4]).unwrap().as_bytes());
        assert_eq!(sent.0[0].info, TensorInfo::new(Dtype::F16, [4]));
        assert_eq!(sent.0[1].bytes, [7; 5]);

        let casts = view.casts();
        assert_eq!(casts.len(), 1);
        assert_eq!((casts[0].name.as_str(), casts[0].from, casts[0].to), ("a", Dtype::F32, Dtype::F16));
        assert_eq!((casts[0].report.elements, casts[0].report.rounded, casts[0].report.overflowed), (4, 1, 1));
        // Written again, the numbers are not counted twice.
        Sent::by(&view);
        assert_eq!(view.casts(), casts);
    }

    #[test]
    fn coordinates_of_sparse_tensors_are_kept() {
        let sparse = CooTensor::new([3, 300], vec![0, 1, 2, 299], vec![1.5_f32, -2.0]).unwrap();
        let map: TensorMap = [("a", sparse.to_tensor())].into_iter().collect();
        let sent = Sent::by(&CastView::new(&map, floats_to_f16));
        let values = vec![half::f16::from_f32(1.5), half::f16::from_f32(-2.0)];
        let expected = CooTensor::new([3, 300], vec![0, 1, 2, 299], values).unwrap().to_tensor();
        assert_eq!((&sent.0[0].info, sent.0[0].bytes.as_slice()), (expected.info(), expected.as_bytes()));
    }

    #[test]
    fn blobs_are_not_cast() {
        let blob = Stored { info: TensorInfo::blob(3), bytes: vec![1, 2, 3], storage_id: 0 };
        let sent = Sent::by(&CastView::new(&vec![("a", blob)], |_, _| Dtype::F32));
        assert_eq!((sent.0[0].info.dtype, sent.0[0].bytes.as_slice()), (Dtype::U8, &[1, 2, 3][..]));
    }

    #[test]
    fn refuses_dtypes_without_numbers() {
        let tensors = vec![("a", Stored::new(Dtype::Bool, &[1], 0))];
        let error = CastView::new(&tensors, |_, _| Dtype::F32).send(&mut Sent::default()).unwrap_err();
        assert_eq!(error.to_string(), "tensor `a`: cannot cast bool to f32; only integers and floats are cast");
    }

    #[test]
    fn storage_is_shared_by_tensors_cast_alike() {
        let stored = |dtype, id| Stored::new(dtype, &[0; 8], id);
        let tensors = vec![
            ("a", stored(Dtype::F32, 900)),
            ("b", stored(Dtype::F32, 900)),
            ("a.other", stored(Dtype::F32, 900)),
            ("bits", stored(Dtype::U32, 900)),
            ("c", stored(Dtype::F32, 0)),
        ];
        let target = |name: &str, info: &TensorInfo| {
            if name.ends_with("other") { Dtype::F64 } else { floats_to_f16(name, info) }
        };
        let view = CastView::new(&tensors, target);
        for _ in 0..2 {
            let ids: Vec<_> = Sent::by(&view).0.iter().map(|tensor| tensor.storage_id.unwrap()).collect();
            let [a, b, other, bits, c] = ids[..] else { panic!("{ids:?}") };
            assert_eq!((a, bits), (b, 900));
            assert_eq!(std::collections::HashSet::from([a, other, bits, c]).len(), 4, "{ids:?}");
        }
    }

    #[test]
    fn ties_between_different_casts_are_dropped() {
        let tensors = tied(&[("a", None), ("b", Some("a")), ("c", Some("a"))]);
        let view = CastView::new(&tensors, |name, _| if name == "c" { Dtype::F64 } else { Dtype::F16 });
        assert_eq!(Sent::by(&view).ties(), [None, Some("a"), None]);
    }
}
