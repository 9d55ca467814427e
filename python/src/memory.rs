//! All `unsafe` code: memory lent to Python by the buffer protocol and by DLPack, and memory borrowed from Python.
//!
//! The rules:
//!
//! - Memory lent to Python is a private mapping of a file for consumers only ([`LentBytes`]), or a copy
//!   ([`Payload::own`]). Consumers may write to it, and torch does so even if told not to. The caller's bytes, given to
//!   [`open_bytes`](crate::file::open_bytes), are lent read-only ([`Payload::borrow`]). DLPack never lends them,
//!   because its consumers ignore the flag. Everybody with a pointer holds a reference to its owner, which never moves.
//! - Memory borrowed from Python stays in place while we hold its [`PyUntypedBuffer`] or its DLPack tensor. Another
//!   thread of Python may change the bytes meanwhile, which is a mistake of that program, as with numpy and
//!   safetensors. Bytes are only copied here, never trusted, so the worst result is a file with a mixture of both.

#![expect(unsafe_code, reason = "the buffer protocol and DLPack pass pointers")]

use std::ffi::{CStr, c_int, c_void};
#[cfg(unix)]
use std::fs;
use std::io;
#[cfg(unix)]
use std::os::fd::{BorrowedFd, RawFd};
use std::ptr::{self, NonNull};
use std::slice;
use std::sync::Arc;

use pyo3::buffer::PyUntypedBuffer;
use pyo3::exceptions::{PyBufferError, PyTypeError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyCapsuleMethods};
use tensorfile::file::LentBytes;
use tensorfile::{ErrorKind, File, Result};

/// Bytes of a tensor, together with their owner.
pub struct Payload {
    bytes: *mut u8,
    len: usize,
    owner: Lender,
}

/// Keeps the bytes of a payload where they are.
enum Lender {
    /// A file in the caller's memory.
    File(#[expect(dead_code, reason = "it is dropped")] Arc<File>),
    Mapping(#[expect(dead_code, reason = "it is dropped")] LentBytes),
    /// A copy, aligned for elements of any dtype.
    Own(#[expect(dead_code, reason = "it is dropped")] Box<[u128]>),
}

// SAFETY: the bytes of a file in memory are only read. Mappings and copies are only used by the consumers they are lent to.
unsafe impl Send for Payload {}
// SAFETY: as above.
unsafe impl Sync for Payload {}

impl Payload {
    /// Returns bytes that `borrow` finds in the memory of a file.
    pub fn borrow<E>(
        file: &Arc<File>,
        borrow: impl for<'f> FnOnce(&'f File) -> Result<&'f [u8], E>,
    ) -> Result<Self, E> {
        let bytes = borrow(file)?;
        let (bytes, len) = (bytes.as_ptr().cast_mut(), bytes.len());
        Ok(Self { bytes, len, owner: Lender::File(Arc::clone(file)) })
    }

    /// Returns bytes of a private mapping.
    pub fn lend(lent: LentBytes) -> Self {
        Self { bytes: lent.as_mut_ptr(), len: lent.len(), owner: Lender::Mapping(lent) }
    }

    /// Returns new memory of `len` bytes, filled by `fill`.
    ///
    /// The length comes from a file, so there may not be enough memory for it.
    pub fn own(len: usize, fill: impl FnOnce(&mut [u8]) -> Result<()>) -> Result<Self> {
        let words = bytemuck::allocation::try_zeroed_slice_box::<u128>(len.div_ceil(size_of::<u128>()));
        let mut words = words.map_err(|()| ErrorKind::OutOfMemory { bytes: len as u64 })?;
        let bytes = words.as_mut_ptr().cast::<u8>();
        // SAFETY: the words have at least `len` bytes, and nobody else has them.
        fill(unsafe { slice::from_raw_parts_mut(bytes, len) })?;
        Ok(Self { bytes, len, owner: Lender::Own(words) })
    }

    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether the bytes may be changed.
    pub fn is_writable(&self) -> bool {
        !matches!(self.owner, Lender::File(_))
    }

    /// Returns whether the bytes are a copy.
    pub fn is_copied(&self) -> bool {
        matches!(self.owner, Lender::Own(_))
    }

    /// Returns whether the address is a multiple of `bytes`.
    pub fn is_aligned_to(&self, bytes: usize) -> bool {
        self.bytes.addr().is_multiple_of(bytes)
    }
}

/// A payload as an array with the buffer protocol.
///
/// It is a separate object, and the owner of the views of a [`Tensor`](crate::file::PyTensor). The memory lives as long
/// as a reference to this object: `numpy.ndarray(…, buffer)` keeps one, but releases its view at once.
#[pyclass(frozen, name = "Memory", module = "tensorfile")]
pub struct PyMemory {
    pub payload: Payload,
    pub format: &'static CStr,
    pub item: usize,
    pub shape: Vec<isize>,
    /// The strides, in bytes.
    pub strides: Vec<isize>,
}

impl PyMemory {
    /// Returns an array of plain bytes, for any dtype.
    pub fn of_bytes(payload: Payload) -> Self {
        let shape = vec![payload.len().cast_signed()];
        Self { payload, format: c"B", item: 1, shape, strides: vec![1] }
    }
}

#[pymethods]
impl PyMemory {
    unsafe fn __getbuffer__(slf: Bound<'_, Self>, view: *mut ffi::Py_buffer, flags: c_int) -> PyResult<()> {
        // SAFETY: Python passes a view to be filled.
        unsafe { export(slf, view, flags) }
    }
}

/// Fills the view of a consumer.
///
/// # Safety
///
/// `view` is to be filled, as Python promises to `__getbuffer__`.
pub unsafe fn export(memory: Bound<'_, PyMemory>, view: *mut ffi::Py_buffer, flags: c_int) -> PyResult<()> {
    let array = memory.get();
    let asks = |flag: c_int| flags & flag == flag;
    let in_rows = is_contiguous(array.shape.iter().zip(&array.strides).rev(), array.item);
    let in_columns = is_contiguous(array.shape.iter().zip(&array.strides), array.item);
    let fits = match () {
        () if asks(ffi::PyBUF_C_CONTIGUOUS) => in_rows,
        () if asks(ffi::PyBUF_F_CONTIGUOUS) => in_columns,
        () if asks(ffi::PyBUF_ANY_CONTIGUOUS) => in_rows || in_columns,
        () => in_rows || asks(ffi::PyBUF_STRIDES),
    };
    if asks(ffi::PyBUF_WRITABLE) && !array.payload.is_writable() {
        return Err(PyBufferError::new_err("the bytes of a file in memory are read-only; make a copy"));
    }
    if !fits {
        return Err(PyBufferError::new_err("the elements are in another order; make a copy"));
    }
    let ndim = c_int::try_from(array.shape.len()).unwrap_or(c_int::MAX);
    // SAFETY: the promise of the caller. All pointers are into memory that never moves and is dropped after the view, which
    // holds a reference to its owner. Consumers that did not ask for writable memory only read through them.
    unsafe {
        (*view).buf = array.payload.bytes.cast();
        (*view).len = array.payload.len.cast_signed();
        (*view).itemsize = array.item.cast_signed();
        (*view).readonly = c_int::from(!asks(ffi::PyBUF_WRITABLE));
        (*view).ndim = ndim;
        (*view).format = if asks(ffi::PyBUF_FORMAT) { array.format.as_ptr().cast_mut() } else { ptr::null_mut() };
        (*view).shape = if asks(ffi::PyBUF_ND) { array.shape.as_ptr().cast_mut() } else { ptr::null_mut() };
        (*view).strides = if asks(ffi::PyBUF_STRIDES) { array.strides.as_ptr().cast_mut() } else { ptr::null_mut() };
        (*view).suboffsets = ptr::null_mut();
        (*view).internal = ptr::null_mut();
        (*view).obj = memory.into_ptr();
    }
    Ok(())
}

/// Returns whether dims, innermost first, leave no gaps. Dims of one element have no place in the order.
fn is_contiguous<'a>(dims: impl Iterator<Item = (&'a isize, &'a isize)>, item: usize) -> bool {
    let (mut expected, mut fits, mut is_empty) = (item.cast_signed(), true, false);
    for (dim, stride) in dims {
        is_empty |= *dim == 0;
        fits &= *dim == 1 || *stride == expected;
        expected = expected.wrapping_mul(*dim);
    }
    fits || is_empty
}

/// Memory of an object with the buffer protocol.
pub struct Buffer(PyUntypedBuffer);

impl Buffer {
    /// Returns the memory of an object, in one run: contiguous, in the order of rows or of columns.
    pub fn contiguous(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        let buffer = PyUntypedBuffer::get(object)?;
        if !buffer.is_c_contiguous() && !buffer.is_fortran_contiguous() {
            return Err(PyBufferError::new_err("the buffer is not contiguous"));
        }
        Ok(Self(buffer))
    }

    /// Returns memory that may be changed, in one run.
    pub fn writable(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        let buffer = Self::contiguous(object)?;
        if buffer.0.readonly() {
            return Err(PyBufferError::new_err("the buffer is read-only"));
        }
        Ok(buffer)
    }

    pub fn len(&self) -> usize {
        self.0.len_bytes()
    }

    /// Returns all bytes of [writable](Self::writable) memory.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        let bytes = self.0.buf_ptr().cast::<u8>();
        match self.len() {
            0 => &mut [],
            // SAFETY: the memory has this length and is held by the buffer; see the rules of this module about threads.
            len => unsafe { slice::from_raw_parts_mut(bytes, len) },
        }
    }
}

impl AsRef<[u8]> for Buffer {
    fn as_ref(&self) -> &[u8] {
        match self.len() {
            0 => &[],
            // SAFETY: as in `bytes_mut`.
            len => unsafe { slice::from_raw_parts(self.0.buf_ptr().cast::<u8>(), len) },
        }
    }
}

/// Returns another descriptor of the open file that a file object of Python has.
#[cfg(unix)]
pub fn duplicate(descriptor: RawFd) -> io::Result<fs::File> {
    // SAFETY: the file object keeps its descriptor open for as long as the caller holds the interpreter.
    let borrowed = unsafe { BorrowedFd::borrow_raw(descriptor) };
    borrowed.try_clone_to_owned().map(fs::File::from)
}

/// An array of Python: bytes at strides.
pub struct Borrowed {
    start: *const u8,
    pub item: usize,
    pub dims: Vec<usize>,
    /// The strides, in bytes.
    strides: Vec<isize>,
    _owner: Owner,
}

/// Keeps the memory of an array where it is.
enum Owner {
    Buffer(#[expect(dead_code, reason = "it is dropped")] PyUntypedBuffer),
    DlPack(#[expect(dead_code, reason = "it is dropped")] DlPackTensor),
}

// SAFETY: the bytes are only read; see the rules of this module about threads.
unsafe impl Send for Borrowed {}
// SAFETY: as above.
unsafe impl Sync for Borrowed {}

/// The element type of a borrowed array, as its owner states it.
pub enum Elements {
    Buffer { format: Box<CStr>, bytes: usize },
    DlPack { code: u8, bits: u8 },
}

impl Borrowed {
    /// Borrows from an object with the buffer protocol.
    pub fn from_buffer(object: &Bound<'_, PyAny>) -> PyResult<(Self, Elements)> {
        let buffer = PyUntypedBuffer::get(object)?;
        if buffer.suboffsets().is_some() {
            return Err(PyBufferError::new_err("the buffer is a list of pointers"));
        }
        let (start, item) = (buffer.buf_ptr().cast::<u8>().cast_const(), buffer.item_size());
        let (dims, strides) = (buffer.shape().to_vec(), buffer.strides().to_vec());
        let elements = Elements::Buffer { format: buffer.format().into(), bytes: item };
        Ok((Self { start, item, dims, strides, _owner: Owner::Buffer(buffer) }, elements))
    }

    /// Borrows from an object with `__dlpack__`, in the memory of the processor.
    pub fn from_dlpack(object: &Bound<'_, PyAny>) -> PyResult<(Self, Elements)> {
        let tensor = DlPackTensor::take(object)?;
        let refused = |what: &str| Err(PyTypeError::new_err(format!("cannot take a tensor {what}; make a copy")));
        let DlTensor { data, device, ndim, dtype, shape, strides, byte_offset } = *tensor.tensor();
        // Pinned memory is that of the processor too.
        if ![1, 3].contains(&device.device_type) {
            return refused("of another device than the processor");
        }
        if dtype.lanes != 1 || !dtype.bits.is_multiple_of(8) {
            return refused("of packed elements");
        }
        let rank = usize::try_from(ndim).unwrap_or_default();
        // SAFETY: DLPack states the number of dims; the strides may be missing.
        let (shape, strides) = unsafe { (numbers(shape, rank), numbers(strides, rank)) };
        let Some(dims) = shape.iter().map(|dim| usize::try_from(*dim).ok()).collect::<Option<Vec<_>>>() else {
            return refused("with a negative dim");
        };
        let item = usize::from(dtype.bits / 8);
        let strides = if strides.len() == rank {
            let bytes = |stride: &i64| isize::try_from(*stride).ok()?.checked_mul(item.cast_signed());
            let Some(strides) = strides.iter().map(bytes).collect() else { return refused("with such strides") };
            strides
        } else {
            let mut strides = vec![item.cast_signed(); rank];
            for dim in (1..rank).rev() {
                strides[dim - 1] = strides[dim].wrapping_mul(dims[dim].cast_signed());
            }
            strides
        };
        let start = data.cast::<u8>().cast_const().wrapping_add(usize::try_from(byte_offset).unwrap_or_default());
        let elements = Elements::DlPack { code: dtype.code, bits: dtype.bits };
        Ok((Self { start, item, dims, strides, _owner: Owner::DlPack(tensor) }, elements))
    }

    fn is_empty(&self) -> bool {
        self.dims.contains(&0)
    }

    /// Returns all bytes, if they are in one run in the order of rows.
    pub fn as_bytes(&self) -> Option<&[u8]> {
        if self.is_empty() {
            return Some(&[]);
        }
        let dims: Vec<isize> = self.dims.iter().map(|dim| dim.cast_signed()).collect();
        let len = self.dims.iter().product::<usize>() * self.item;
        // SAFETY: the array has as many bytes, in one run.
        is_contiguous(dims.iter().zip(&self.strides).rev(), self.item)
            .then(|| unsafe { slice::from_raw_parts(self.start, len) })
    }

    /// Passes on the bytes of all elements in pieces, row-major.
    pub fn in_rows(&self, piece: &mut dyn FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
        // SAFETY: the walk over dims and strides stays inside of the array.
        let run = |start, len| unsafe { slice::from_raw_parts(self.start.wrapping_offset(start), len) };
        tensorfile::model::in_rows(self.item, &self.dims, &self.strides, &run, piece)
    }
}

/// Returns `len` numbers; none if they are missing.
///
/// # Safety
///
/// `start` is null or points to as many numbers, which live as long as the result is used.
unsafe fn numbers<'a>(start: *const i64, len: usize) -> &'a [i64] {
    if start.is_null() || len == 0 {
        return &[];
    }
    // SAFETY: the promise of the caller.
    unsafe { slice::from_raw_parts(start, len) }
}

// The structs of `dlpack.h`, version 1.0.

#[repr(C)]
#[derive(Clone, Copy)]
struct DlDevice {
    device_type: i32,
    device_id: i32,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct DlDataType {
    code: u8,
    bits: u8,
    lanes: u16,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct DlTensor {
    data: *mut c_void,
    device: DlDevice,
    ndim: i32,
    dtype: DlDataType,
    shape: *mut i64,
    strides: *mut i64,
    byte_offset: u64,
}

#[repr(C)]
struct DlManaged {
    tensor: DlTensor,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Self)>,
}

#[repr(C)]
struct DlManagedVersioned {
    major: u32,
    minor: u32,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Self)>,
    flags: u64,
    tensor: DlTensor,
}

const IS_COPIED: u64 = 2;

const LEGACY: &CStr = c"dltensor";
const VERSIONED: &CStr = c"dltensor_versioned";

/// A tensor to be lent by DLPack.
pub struct Lent {
    pub payload: Payload,
    pub code: u8,
    pub bits: u8,
    pub shape: Vec<i64>,
    /// The strides, in elements.
    pub strides: Vec<i64>,
}

impl Lent {
    fn tensor(&mut self) -> DlTensor {
        DlTensor {
            data: self.payload.bytes.cast(),
            device: DlDevice { device_type: 1, device_id: 0 },
            ndim: i32::try_from(self.shape.len()).unwrap_or(i32::MAX),
            dtype: DlDataType { code: self.code, bits: self.bits, lanes: 1 },
            shape: self.shape.as_mut_ptr(),
            strides: self.strides.as_mut_ptr(),
            byte_offset: 0,
        }
    }

    /// Returns a capsule of DLPack 1.0, which says whether the memory is a copy.
    pub fn versioned(self, py: Python<'_>) -> PyResult<Bound<'_, PyCapsule>> {
        unsafe extern "C" fn delete(managed: *mut DlManagedVersioned) {
            // SAFETY: the consumer deletes each tensor once. Both were boxed below.
            drop(unsafe { (Box::from_raw((*managed).context.cast::<Lent>()), Box::from_raw(managed)) });
        }
        let mut lent = Box::new(self);
        let (tensor, is_copied) = (lent.tensor(), lent.payload.is_copied());
        let managed = Box::new(DlManagedVersioned {
            major: 1,
            minor: 0,
            context: Box::into_raw(lent).cast(),
            deleter: Some(delete),
            flags: if is_copied { IS_COPIED } else { 0 },
            tensor,
        });
        capsule(py, NonNull::from(Box::leak(managed)).cast(), VERSIONED, destroy_versioned)
    }

    /// Returns a capsule in the form from before DLPack 1.0.
    pub fn legacy(self, py: Python<'_>) -> PyResult<Bound<'_, PyCapsule>> {
        unsafe extern "C" fn delete(managed: *mut DlManaged) {
            // SAFETY: as in `versioned`.
            drop(unsafe { (Box::from_raw((*managed).context.cast::<Lent>()), Box::from_raw(managed)) });
        }
        let mut lent = Box::new(self);
        let tensor = lent.tensor();
        let managed = Box::new(DlManaged { tensor, context: Box::into_raw(lent).cast(), deleter: Some(delete) });
        capsule(py, NonNull::from(Box::leak(managed)).cast(), LEGACY, destroy_legacy)
    }
}

fn capsule<'py>(
    py: Python<'py>,
    pointer: NonNull<c_void>,
    name: &'static CStr,
    destroy: ffi::PyCapsule_Destructor,
) -> PyResult<Bound<'py, PyCapsule>> {
    // SAFETY: the pointer is that of a managed tensor, which `destroy` deletes unless a consumer took it.
    unsafe { PyCapsule::new_with_pointer_and_destructor(py, pointer, name, Some(destroy)) }
}

unsafe extern "C" fn destroy_versioned(capsule: *mut ffi::PyObject) {
    // SAFETY: a consumer that takes the tensor renames the capsule.
    unsafe {
        if ffi::PyCapsule_IsValid(capsule, VERSIONED.as_ptr()) == 1 {
            let managed: *mut DlManagedVersioned = ffi::PyCapsule_GetPointer(capsule, VERSIONED.as_ptr()).cast();
            if let Some(delete) = (*managed).deleter {
                delete(managed);
            }
        }
    }
}

unsafe extern "C" fn destroy_legacy(capsule: *mut ffi::PyObject) {
    // SAFETY: as above.
    unsafe {
        if ffi::PyCapsule_IsValid(capsule, LEGACY.as_ptr()) == 1 {
            let managed: *mut DlManaged = ffi::PyCapsule_GetPointer(capsule, LEGACY.as_ptr()).cast();
            if let Some(delete) = (*managed).deleter {
                delete(managed);
            }
        }
    }
}

/// A tensor taken from another library.
enum DlPackTensor {
    Legacy(NonNull<DlManaged>),
    Versioned(NonNull<DlManagedVersioned>),
}

impl DlPackTensor {
    /// Takes the tensor of an object with `__dlpack__`.
    fn take(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        let py = object.py();
        let arguments = pyo3::types::PyDict::new(py);
        arguments.set_item("max_version", (1, 0))?;
        let capsule = match object.call_method("__dlpack__", (), Some(&arguments)) {
            // Libraries from before DLPack 1.0 do not know the argument.
            Err(error) if error.is_instance_of::<PyTypeError>(py) => object.call_method0("__dlpack__")?,
            capsule => capsule?,
        };
        let capsule = capsule.cast_into::<PyCapsule>()?;
        let take = |name: &CStr, used: &'static CStr| -> PyResult<NonNull<c_void>> {
            let pointer = capsule.pointer_checked(Some(name))?;
            // SAFETY: the capsule is valid. With the new name, its destructor leaves the tensor to us.
            match unsafe { ffi::PyCapsule_SetName(capsule.as_ptr(), used.as_ptr()) } {
                0 => Ok(pointer),
                _ => Err(PyErr::fetch(py)),
            }
        };
        if capsule.is_valid_checked(Some(VERSIONED)) {
            let managed: NonNull<DlManagedVersioned> = take(VERSIONED, c"used_dltensor_versioned")?.cast();
            // SAFETY: the name states the type. The version is at the start in any version.
            let major = unsafe { managed.as_ref().major };
            let taken = Self::Versioned(managed);
            if major != 1 {
                return Err(PyTypeError::new_err(format!("DLPack {major} is unknown; this is version 1")));
            }
            return Ok(taken);
        }
        Ok(Self::Legacy(take(LEGACY, c"used_dltensor")?.cast()))
    }

    fn tensor(&self) -> &DlTensor {
        // SAFETY: the tensor lives until it is deleted in `drop`.
        unsafe {
            match self {
                Self::Legacy(managed) => &managed.as_ref().tensor,
                Self::Versioned(managed) => &managed.as_ref().tensor,
            }
        }
    }
}

impl Drop for DlPackTensor {
    fn drop(&mut self) {
        // Deleters of some libraries use Python.
        // SAFETY: the tensor was taken, so that nobody else deletes it.
        Python::attach(|_| unsafe {
            match self {
                Self::Legacy(managed) => {
                    if let Some(delete) = managed.as_ref().deleter {
                        delete(managed.as_ptr());
                    }
                }
                Self::Versioned(managed) => {
                    if let Some(delete) = managed.as_ref().deleter {
                        delete(managed.as_ptr());
                    }
                }
            }
        });
    }
}
