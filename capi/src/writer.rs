//! Tensors of the caller on their way to a file.

use std::io::{self, Write};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use indexmap::IndexMap;
use tensorfile::model::{TensorData, TensorRecord, TensorSink};
use tensorfile::view::CastView;
use tensorfile::{Dtype, Format, TensorInfo, Tensors, WriteOptions};

use crate::callbacks::Sink;
use crate::file::has_elements;
use crate::pointers::{self, ForeignElements, Shared, Tag};
use crate::{Failure, Result, TF_SAVE_WITHOUT_METADATA, dtype, options, tf_array, tf_save_options};

/// Named tensors in your memory, and metadata, to be written to files. Use it from one thread at a time.
#[derive(Debug)]
pub struct tf_writer(Shared<Mutex<Arrays>>);

#[derive(Debug, Default)]
pub struct Arrays {
    arrays: Vec<Array>,
    metadata: IndexMap<String, String>,
}

#[derive(Debug)]
struct Array {
    name: String,
    info: TensorInfo,
    elements: ForeignElements,
}

impl tf_writer {
    pub(crate) fn new() -> Self {
        Self(Shared::new(Mutex::default()))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Arrays> {
        self.0.object.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Arrays {
    pub fn add(&mut self, array: &tf_array) -> Result<()> {
        let array = Array::new(array)?;
        self.arrays.push(array);
        Ok(())
    }

    pub fn set_metadata(&mut self, key: &str, value: &str) {
        self.metadata.insert(key.to_owned(), value.to_owned());
    }

    pub fn save(&self, path: &Path, with: &tf_save_options) -> Result<()> {
        save(self, self.write_options(), path, with)
    }

    pub fn write(&self, sink: Sink, with: &tf_save_options) -> Result<()> {
        let options = options::save(with, self.write_options())?;
        if with.format.len == 0 {
            return Err(Failure::argument("a stream has no extension; `format` of the options names the format"));
        }
        let floats = cast_floats(self, with, None)?;
        let tensors: &dyn Tensors = floats.as_ref().map_or(self, |floats| floats);
        Ok(options.plan("", tensors)?.to_writer(sink, tensors)?)
    }

    fn write_options(&self) -> WriteOptions {
        WriteOptions::new().metadata(self.metadata.clone())
    }
}

/// Copies a file to another one.
pub fn convert(file: &tensorfile::File, path: &Path, with: &tf_save_options) -> Result<()> {
    let write = match with.flags & TF_SAVE_WITHOUT_METADATA {
        0 => WriteOptions::new().keep_metadata(&file.metadata()?),
        _ => WriteOptions::new(),
    };
    save(file, write, path, with)
}

fn save(tensors: &dyn Tensors, write: WriteOptions, path: &Path, with: &tf_save_options) -> Result<()> {
    let options = options::save(with, write)?;
    let floats = cast_floats(tensors, with, Format::for_path(path))?;
    Ok(options.save(path, floats.as_ref().map_or(tensors, |floats| floats))?)
}

/// Returns a view of the tensors in which floats are cast; `None` if that is not asked for.
fn cast_floats<'t>(
    tensors: &'t dyn Tensors,
    with: &tf_save_options,
    by_path: Option<&'static Format>,
) -> Result<Option<CastView<'t>>> {
    let Some(floats) = dtype::from_number(with.floats)? else { return Ok(None) };
    if !floats.is_float() {
        return Err(Failure::argument(format!("floats are cast to floats, not to {floats}")));
    }
    let format = with.format.non_empty()?.map_or(by_path, Format::named);
    Ok(Some(CastView::new(tensors, move |_, info| match format {
        _ if !info.dtype.is_float() => info.dtype,
        Some(format) => format.usual_dtype(info, floats),
        None => floats,
    })))
}

impl Array {
    fn new(array: &tf_array) -> Result<Self> {
        let name = array.name.to_str()?.to_owned();
        let refuse = |what: String| Failure::argument(format!("tensor `{name}`: {what}"));
        let dtype = dtype::expect(array.dtype)?;
        let dims = pointers::array(array.dims, array.rank, "the dims of an array")?;
        let info = TensorInfo::new(dtype, dims);
        let elements = info.shape.elements().unwrap_or(usize::MAX);
        if !elements.is_multiple_of(dtype.block_elements()) && info.payload_bytes().is_some() {
            return Err(refuse(format!("{info} is not whole blocks of {}", dtype.block_elements())));
        }
        let bytes = info.payload_bytes().filter(|bytes| isize::try_from(*bytes).is_ok());
        let bytes = bytes.ok_or_else(|| refuse(format!("{info} exceeds memory")))?;
        let elements = if array.strides.is_null() {
            ForeignElements::in_one_run(array.data, bytes)?
        } else if has_elements(dtype) {
            let strides = pointers::array(array.strides, array.rank, "the strides of an array")?;
            ForeignElements::at_strides(array.data, dtype.block_bytes(), dims, strides, bytes)?
        } else {
            return Err(refuse(format!("{dtype} has several elements in a block, which have no strides")));
        };
        Ok(Self { name, info, elements })
    }
}

impl Tensors for Arrays {
    fn send(&self, sink: &mut dyn TensorSink) -> tensorfile::Result<()> {
        sink.expect(self.arrays.len())?;
        self.arrays.iter().try_for_each(|array| {
            sink.tensor(&TensorRecord { name: &array.name, info: &array.info, data: array, tied: None })
        })
    }
}

impl TensorData for Array {
    fn as_bytes(&self) -> Option<&[u8]> {
        let bytes = self.elements.as_bytes()?;
        (self.info.dtype != Dtype::Bool || bytes.iter().all(|byte| *byte < 2)).then_some(bytes)
    }

    fn write_to(&self, out: &mut dyn Write) -> io::Result<()> {
        self.elements.in_rows(&mut |piece| match self.info.dtype {
            // C and C++ take any byte but 0 for true; formats require 1.
            Dtype::Bool => out.write_all(&piece.iter().map(|byte| u8::from(*byte != 0)).collect::<Vec<_>>()),
            _ => out.write_all(piece),
        })
    }
}

impl Tag for tf_writer {
    type Object = Mutex<Arrays>;
    const TAG: u64 = u64::from_le_bytes(*b"tf_write");
    const NAME: &str = "writer";

    fn shared(&self) -> &Shared<Mutex<Arrays>> {
        &self.0
    }
}
