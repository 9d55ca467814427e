//! Tensors in another layout.

use std::fmt;
use std::io::{self, Write};

use hashbrown::HashMap;

use crate::error::{ErrorKind, Result};
use crate::fetch::TensorMove;
use crate::map::{LayoutMap, MapPlan, MapSource, MappedElements, MappedTensor, Receipt, SourceCheckKind, SourceMoves};
use crate::model::{FromTensors, Meaning, MetadataValue, TensorData, TensorRecord, TensorSink, Tensors};
use crate::quant::{TensorHeaders, may_be_quantized, recognize};
use crate::tensor::{Layout, Shape, TensorInfo, try_zeros};

/// The tensors of a collection in another layout, as the equations of a [`LayoutMap`] say.
///
/// It is for tensors in memory: each tensor of the other layout is put together when it is sent, in memory of its own.
/// [`OpenOptions::map`](crate::OpenOptions::map) is for files, and reads only what is needed. Numbers that the map takes from a
/// configuration have to be [set](LayoutMap::set).
///
/// ```
/// use tensorfile::view::Mapped;
/// use tensorfile::{File, LayoutMap, TensorMap};
///
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("model.safetensors");
/// let map: LayoutMap = "experts.{e}.weight [h] = experts.weight [e h]".parse()?;
/// let names = ["experts.0.weight", "experts.1.weight"];
/// let tensors: TensorMap = names.iter().map(|name| (*name, ndarray::array![1.0_f32, 2.0])).collect();
///
/// tensorfile::save(&path, &Mapped::new(&tensors, &map)?)?;
/// assert_eq!(File::open(&path)?.get("experts.weight")?.shape().dims(), [2, 2]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Mapped<'t> {
    tensors: &'t dyn Tensors,
    /// The tensors, in order.
    sources: Vec<ListedTensor>,
    plan: MapPlan,
}

impl<'t> Mapped<'t> {
    /// Maps a collection. Its tensors are listed, and no payload is read.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Unmapped`] if the map does not fit, [`ErrorKind::Unsupported`] if the elements of a sparse tensor, or of the
    /// codes or scales of a quantized weight, would be moved, and errors of the collection.
    pub fn new(tensors: &'t dyn Tensors, map: &LayoutMap) -> Result<Self> {
        map.check()?;
        let sources = ListedTensors::of(tensors)?;
        let listed = sources.iter().map(|ListedTensor { name, info, codes }| {
            let refusal = match codes {
                _ if matches!(info.layout, Layout::Coo { .. } | Layout::Blob | Layout::Unknown(_)) => Some(
                    ["it is sparse, or its dtype is unknown", "it can be kept, or get another name"].map(str::to_owned),
                ),
                // Blocks have their scales inside.
                Some(codes) if info.dtype.block_elements() == 1 => Some([
                    format!("it {}", codes.what),
                    "`view::Dequantized` decodes weights before they are mapped".to_owned(),
                ]),
                _ => None,
            };
            MapSource { name, info, refusal }
        });
        let listed: Vec<MapSource<'_>> = listed.collect();
        let plan = MapPlan::new(map, &listed, &mut |_| Ok(None), u64::from(u32::MAX))?;
        Ok(Self { tensors, sources, plan })
    }

    /// Returns what became of each element.
    #[must_use]
    pub fn receipt(&self) -> &Receipt {
        &self.plan.receipt
    }

    /// Loads the tensors into a type.
    ///
    /// ```
    /// use ndarray::{Array2, array};
    /// use tensorfile::view::Mapped;
    /// use tensorfile::{LayoutMap, TensorFile, TensorMap};
    ///
    /// #[derive(TensorFile)]
    /// struct Layer {
    ///     turned: Array2<f32>,
    /// }
    ///
    /// let map: LayoutMap = "weight [o i] = turned [i o]".parse()?;
    /// let tensors = TensorMap::from_iter([("weight", array![[1.0_f32, 2.0]])]);
    /// let layer: Layer = Mapped::new(&tensors, &map)?.load()?;
    /// assert_eq!(layer.turned, array![[1.0], [2.0]]);
    /// # Ok::<(), tensorfile::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`TensorMap::load`](crate::TensorMap::load), and errors of reading the tensors.
    pub fn load<T: for<'f> FromTensors<'f>>(&self) -> Result<T> {
        (self as &dyn Tensors).load()
    }

    /// Puts a tensor together.
    fn gather(&self, info: &TensorInfo, moves: &SourceMoves) -> Result<Vec<u8>> {
        let mut bytes = try_zeros(info.payload_bytes().unwrap_or(usize::MAX))?;
        let mut wanted: HashMap<usize, Vec<u8>> = moves.moves.iter().map(|(source, _)| (*source, Vec::new())).collect();
        wanted.extend(moves.checks.iter().map(|check| (check.source, Vec::new())));
        let mut payloads = SourcePayloads { wanted, position: 0 };
        self.tensors.send(&mut payloads)?;
        let payload = |source: usize| -> &[u8] { payloads.wanted.get(&source).map_or(&[], |bytes| bytes) };
        let (element, strides) = (info.dtype.block_bytes(), stored_strides(info));
        for (source, moved) in &moves.moves {
            moved.copy(element, &strides, payload(*source), &mut bytes);
        }
        for check in &moves.checks {
            let (name, line) = (&self.sources[check.source].name, check.line);
            let what = match &check.kind {
                SourceCheckKind::Zeros { start, axes } => {
                    let padding = TensorMove::rows(*start, axes);
                    let (count, shape) = (padding.elements(), axes.iter().map(|(len, _)| *len).collect::<Shape>());
                    let mut zeros = try_zeros(count * element)?;
                    padding.copy(element, &shape.row_major_strides(), payload(check.source), &mut zeros);
                    if zeros.iter().all(|byte| *byte == 0) {
                        continue;
                    }
                    format!("the padding of `{name}` is not zero: line {line} leaves it out")
                }
                SourceCheckKind::Equals(other) if payload(*other) == payload(check.source) => continue,
                SourceCheckKind::Equals(_) => {
                    format!("`{name}` differs from the tensor that it is a copy of: line {line}")
                }
            };
            return Err(ErrorKind::Unmapped { misfits: vec![what], count: 1 }.into());
        }
        Ok(bytes)
    }
}

/// Returns the distance between neighbours of each dim of a row-major tensor, in elements or blocks.
fn stored_strides(info: &TensorInfo) -> Vec<usize> {
    let mut dims = info.shape.dims().to_vec();
    dims.last_mut().into_iter().for_each(|last| *last /= info.dtype.block_elements());
    Shape::from(dims).row_major_strides()
}

/// A tensor of the collection, without its payload.
struct ListedTensor {
    name: String,
    info: TensorInfo,
    /// Set if its elements are codes or scales.
    codes: Option<CodesRefusal>,
}

/// What the codes or scales are; the fields of [`ErrorKind::Codes`].
struct CodesRefusal {
    what: String,
    can_be_decoded: bool,
}

impl CodesRefusal {
    fn new(refusal: ErrorKind) -> Option<Self> {
        match refusal {
            ErrorKind::Codes { what, can_be_decoded, .. } => Some(Self { what, can_be_decoded }),
            _ => None,
        }
    }
}

/// Lists the tensors of a collection. Where it does not say what they are, the names decide.
#[derive(Default)]
struct ListedTensors {
    tensors: Vec<ListedTensor>,
    headers: TensorHeaders,
    /// The positions of tensors of which the collection says nothing.
    unstated: Vec<usize>,
}

impl ListedTensors {
    fn of(tensors: &dyn Tensors) -> Result<Vec<ListedTensor>> {
        let mut listed = Self::default();
        tensors.send(&mut listed)?;
        let Self { mut tensors, headers, unstated } = listed;
        if unstated.iter().any(|at| may_be_quantized(&tensors[*at].name, &tensors[*at].info)) {
            let recognized = recognize(&headers);
            for at in unstated {
                tensors[at].codes = recognized.refusal(at).and_then(CodesRefusal::new);
            }
        }
        Ok(tensors)
    }
}

impl TensorSink for ListedTensors {
    fn tensor(&mut self, tensor: &TensorRecord<'_>) -> Result<()> {
        let codes = match tensor.data.meaning()? {
            Meaning::Numbers => None,
            Meaning::Codes(refusal) => CodesRefusal::new(refusal),
            Meaning::Unstated => {
                self.unstated.push(self.tensors.len());
                None
            }
        };
        self.headers.push(tensor.name, tensor.info);
        self.tensors.push(ListedTensor { name: tensor.name.to_owned(), info: tensor.info.clone(), codes });
        Ok(())
    }
}

/// Holds the payloads of some tensors, by their positions.
struct SourcePayloads {
    wanted: HashMap<usize, Vec<u8>>,
    position: usize,
}

impl TensorSink for SourcePayloads {
    fn tensor(&mut self, tensor: &TensorRecord<'_>) -> Result<()> {
        let place = self.wanted.get_mut(&self.position);
        self.position += 1;
        place.map_or(Ok(()), |bytes| Ok(tensor.data.write_to(bytes)?))
    }
}

/// Passes on the metadata of a collection.
struct MetadataOnly<'s>(&'s mut dyn TensorSink);

impl TensorSink for MetadataOnly<'_> {
    fn tensor(&mut self, _: &TensorRecord<'_>) -> Result<()> {
        Ok(())
    }

    fn metadata(&mut self, key: &str, value: &MetadataValue) -> Result<()> {
        self.0.metadata(key, value)
    }
}

struct MappedData<'a, 't> {
    view: &'a Mapped<'t>,
    tensor: &'a MappedTensor,
}

impl TensorData for MappedData<'_, '_> {
    fn write_to(&self, out: &mut dyn Write) -> io::Result<()> {
        match &self.tensor.elements {
            MappedElements::Moves(moves) => out.write_all(&self.view.gather(&self.tensor.info, moves)?),
            MappedElements::Source(source) => {
                let mut payloads = SourcePayloads { wanted: HashMap::from_iter([(*source, Vec::new())]), position: 0 };
                self.view.tensors.send(&mut payloads)?;
                payloads.wanted.values().try_for_each(|bytes| out.write_all(bytes))
            }
        }
    }

    fn meaning(&self) -> Result<Meaning> {
        let source = match &self.tensor.elements {
            MappedElements::Moves(moves) => moves.moves.first().map(|(source, _)| *source),
            MappedElements::Source(source) => Some(*source),
        };
        let codes = source.and_then(|source| self.view.sources[source].codes.as_ref());
        Ok(codes.map_or(Meaning::Numbers, |CodesRefusal { what, can_be_decoded }| {
            let (name, what) = (self.tensor.name.clone(), what.clone());
            Meaning::Codes(ErrorKind::Codes { name, what, can_be_decoded: *can_be_decoded })
        }))
    }
}

impl Tensors for Mapped<'_> {
    fn send(&self, sink: &mut dyn TensorSink) -> Result<()> {
        self.tensors.send(&mut MetadataOnly(sink))?;
        self.plan.tensors.iter().try_for_each(|tensor| {
            let data = MappedData { view: self, tensor };
            sink.tensor(&TensorRecord { name: &tensor.name, info: &tensor.info, data: &data, tied: None })
        })
    }
}

impl fmt::Debug for Mapped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mapped").field("tensors", &self.plan.tensors.len()).finish_non_exhaustive()
    }
}
