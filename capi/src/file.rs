//! Open files and their tensors.

use std::sync::{Arc, OnceLock};

use tensorfile::file::{FileTensor, LentBytes};
use tensorfile::{Dtype, File, Layout, TensorInfo};

use crate::pointers::{Shared, Tag};
use crate::{
    Failure, Result, TF_NO_OFFSET, dtype, tf_entry, tf_file_info, tf_layout, tf_tensor_info, tf_text, tf_warning,
};

/// An open file. Any number of threads may use it at once. Its tensors and plans keep it alive when you close it.
#[derive(Debug)]
pub struct tf_file(Shared<FileObject>);

/// A tensor of an open file, which it keeps alive. Any number of threads may use it at once.
#[derive(Debug)]
pub struct tf_tensor(Shared<TensorObject>);

#[derive(Debug)]
pub struct FileObject {
    pub file: File,
    warnings: OnceLock<Owned<tf_warning>>,
    metadata: OnceLock<Owned<tf_entry>>,
}

#[derive(Debug)]
pub struct TensorObject {
    file: Arc<tf_file>,
    position: usize,
    places: OnceLock<Places>,
    view: OnceLock<View>,
}

/// Where the elements are.
#[derive(Debug)]
struct Places {
    /// The offset in the file, or `TF_NO_OFFSET`.
    offset: u64,
    strides: Option<Box<[isize]>>,
}

/// Structs of C, and the texts that they point to.
#[derive(Debug)]
struct Owned<T> {
    structs: Vec<T>,
    texts: Vec<Box<str>>,
}

/// The bytes of a tensor.
#[derive(Debug)]
enum View {
    Mapped(LentBytes),
    /// Of a file in memory: the caller's, or one that was a pipe.
    InMemory,
}

impl tf_file {
    pub(crate) fn new(file: File) -> Self {
        Self(Shared::new(FileObject { file, warnings: OnceLock::new(), metadata: OnceLock::new() }))
    }
}

impl FileObject {
    pub fn info(&self) -> tf_file_info {
        tf_file_info {
            size: size_of::<tf_file_info>(),
            format: self.file.format().name.into(),
            tensors: self.file.len(),
            bytes: self.file.file_bytes(),
        }
    }

    pub fn warnings(&self) -> Result<&[tf_warning]> {
        if self.warnings.get().is_none() {
            let mut owned = Owned { structs: Vec::new(), texts: Vec::new() };
            for warning in self.file.warnings()? {
                let (message, tensor) = (owned.keep(warning.text), owned.keep(warning.tensor.unwrap_or_default()));
                let (kind, offset) = (warning.kind.name().into(), warning.offset.unwrap_or(TF_NO_OFFSET));
                owned.structs.push(tf_warning { kind, message, tensor, offset });
            }
            // Another thread may have been first, and its texts may be in use.
            let _ = self.warnings.set(owned);
        }
        Ok(&self.warnings.get().expect("it was just set").structs)
    }

    pub fn metadata(&self) -> Result<&[tf_entry]> {
        if self.metadata.get().is_none() {
            let mut owned = Owned { structs: Vec::new(), texts: Vec::new() };
            for (key, value) in self.file.metadata()?.entries {
                let entry = tf_entry { key: owned.keep(key), value: owned.keep(value) };
                owned.structs.push(entry);
            }
            let _ = self.metadata.set(owned);
        }
        Ok(&self.metadata.get().expect("it was just set").structs)
    }
}

impl<T> Owned<T> {
    fn keep(&mut self, text: String) -> tf_text {
        let text = text.into_boxed_str();
        let lent = (*text).into();
        self.texts.push(text);
        lent
    }
}

impl tf_tensor {
    pub(crate) fn new(file: Arc<tf_file>, position: usize) -> Self {
        Self(Shared::new(TensorObject { file, position, places: OnceLock::new(), view: OnceLock::new() }))
    }
}

impl TensorObject {
    pub fn file(&self) -> &File {
        &opened(&self.file).file
    }

    pub fn get(&self) -> FileTensor<'_> {
        self.file().nth(self.position).expect("a tensor has a position in its file")
    }

    pub fn info(&self) -> tf_tensor_info {
        let tensor = self.get();
        let Places { offset, strides } = self.places.get_or_init(|| {
            let places = tensor.places();
            let offset = if places.len() == 1 { places[0].1.start } else { TF_NO_OFFSET };
            Places { offset, strides: strides(tensor.info()) }
        });
        tf_tensor_info {
            size: size_of::<tf_tensor_info>(),
            name: tensor.name().into(),
            dtype: dtype::number(tensor.dtype()),
            layout: layout(tensor.layout()) as i32,
            rank: tensor.shape().rank(),
            dims: tensor.shape().dims().as_ptr(),
            strides: strides.as_deref().map_or(std::ptr::null(), <[isize]>::as_ptr),
            bytes: usize::try_from(tensor.payload_bytes()).unwrap_or(usize::MAX),
            offset: *offset,
            alignment: if *offset == TF_NO_OFFSET { 1 } else { 1 << offset.trailing_zeros().min(12) },
            unknown_dtype: tensor.info().unknown_dtype().unwrap_or_default().into(),
        }
    }

    /// Returns the address and the length of the elements.
    pub fn view(&self) -> Result<(*const u8, usize)> {
        let view = match self.view.get() {
            Some(view) => view,
            None => self.view.get_or_init({
                let view = self.make_view()?;
                || view
            }),
        };
        match view {
            View::Mapped(lent) => Ok((lent.as_mut_ptr().cast_const(), lent.len())),
            View::InMemory => {
                let bytes = self.get().view()?.as_bytes();
                Ok((bytes.as_ptr(), bytes.len()))
            }
        }
    }

    fn make_view(&self) -> Result<View> {
        let tensor = self.get();
        tensor.view()?;
        // A file in memory is not mapped for others, but its bytes are not those of a file on disk.
        Ok(tensor.lend().map_or(View::InMemory, View::Mapped))
    }
}

pub fn layout(layout: &Layout) -> tf_layout {
    match layout {
        Layout::RowMajor => tf_layout::TF_LAYOUT_ROW_MAJOR,
        Layout::DimOrder(_) => tf_layout::TF_LAYOUT_DIM_ORDER,
        Layout::Coo { .. } => tf_layout::TF_LAYOUT_COO,
        Layout::Blob => tf_layout::TF_LAYOUT_BLOB,
        _ => tf_layout::TF_LAYOUT_UNKNOWN,
    }
}

/// Returns the strides in bytes; `None` if the elements have none.
fn strides(info: &TensorInfo) -> Option<Box<[isize]>> {
    let dims = info.shape.dims();
    if info.dtype.block_elements() != 1 {
        return None;
    }
    let inner_first: Vec<usize> = match &info.layout {
        Layout::RowMajor | Layout::Blob => (0..dims.len()).rev().collect(),
        Layout::DimOrder(order) => order.as_slice().iter().rev().map(|dim| usize::from(*dim)).collect(),
        _ => return None,
    };
    let (mut strides, mut stride) = (vec![0; dims.len()], info.dtype.block_bytes());
    for dim in inner_first {
        strides[dim] = isize::try_from(stride).unwrap_or(isize::MAX);
        stride = stride.saturating_mul(dims[dim].max(1));
    }
    Some(strides.into())
}

impl Tag for tf_file {
    type Object = FileObject;
    const TAG: u64 = u64::from_le_bytes(*b"tf_file\0");
    const NAME: &str = "file";

    fn shared(&self) -> &Shared<FileObject> {
        &self.0
    }
}

impl Tag for tf_tensor {
    type Object = TensorObject;
    const TAG: u64 = u64::from_le_bytes(*b"tf_tenso");
    const NAME: &str = "tensor";

    fn shared(&self) -> &Shared<TensorObject> {
        &self.0
    }
}

/// Returns the object of an owned handle.
pub fn opened(file: &tf_file) -> &FileObject {
    &file.0.object
}

/// Returns whether a file has a tensor at a position.
pub fn check_position(file: &File, position: usize) -> Result<()> {
    if position < file.len() {
        return Ok(());
    }
    Err(Failure::argument(format!("there is no tensor {position}; the file has {}", file.len())))
}

/// Returns whether elements of a dtype have addresses of their own.
pub fn has_elements(dtype: Dtype) -> bool {
    dtype.block_elements() == 1
}
