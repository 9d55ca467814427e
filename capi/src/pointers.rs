//! All `unsafe` blocks: what C passes by pointers.
//!
//! The rules, which `tensorfile.h` tells to its readers:
//!
//! - A pointer to a handle was made by this library, and its handle was not closed. A handle has a mark and a count, so that
//!   `NULL`, a handle of another kind, and a closed handle that its tensors keep alive are errors. Other pointers cannot be
//!   told from right ones.
//! - A pointer to a struct with a size points to that many bytes. Other structs, arrays and texts have the length that is
//!   passed with them. `NULL` is an error unless the length is 0.
//! - Memory that C passes for reading does not change during the call; memory for results belongs to the call. Bytes of
//!   [`tf_open_memory`](crate::entry::tf_open_memory) and arrays of a writer stay in place until they are released.
//! - Callbacks return: they do not throw, and do not jump out.
//!
//! Functions of this module take raw pointers and are not `unsafe`, because these rules are all that can be said about
//! any of them, and it is C that keeps them.

#![expect(unsafe_code, reason = "C passes pointers")]

use std::ffi::{c_char, c_void};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::{fmt, io, ptr, slice};

use tensorfile::File;
use tensorfile::file::ReadPlan;

use crate::{Failure, Result, tf_file, tf_text};

/// A type of which C has handles.
pub trait Tag: Sized + Send + Sync {
    type Object;
    /// Tells its handles from others.
    const TAG: u64;
    /// The word for it in messages.
    const NAME: &str;

    fn shared(&self) -> &Shared<Self::Object>;
}

/// An object with the number of its handles that C has.
#[repr(C)]
#[derive(Debug)]
pub struct Shared<T> {
    tag: AtomicU64,
    handles: AtomicUsize,
    pub object: T,
}

impl<T> Shared<T> {
    /// An object without a handle; [`give`] makes one.
    pub fn new(object: T) -> Self {
        Self { tag: AtomicU64::new(0), handles: AtomicUsize::new(0), object }
    }
}

impl<T> Drop for Shared<T> {
    fn drop(&mut self) {
        // Who uses a closed handle mostly finds this, as long as nobody else has the memory.
        self.tag.store(0, Ordering::Relaxed);
    }
}

/// Returns the first handle of an object.
pub fn give<T: Tag>(handle: T) -> *mut T {
    let shared = handle.shared();
    shared.tag.store(T::TAG, Ordering::Relaxed);
    shared.handles.store(1, Ordering::Relaxed);
    Arc::into_raw(Arc::new(handle)).cast_mut()
}

/// Returns what a handle stands for.
pub fn borrow<'a, T: Tag>(handle: *const T) -> Result<&'a T> {
    if handle.is_null() {
        return Err(Failure::argument(format!("the {} is NULL", T::NAME)));
    }
    if !handle.is_aligned() {
        return Err(Failure::argument(format!("this is not a pointer to a {}", T::NAME)));
    }
    // SAFETY: the first rule of this module.
    let found = unsafe { &*handle };
    let shared = found.shared();
    if shared.tag.load(Ordering::Relaxed) != T::TAG {
        return Err(Failure::argument(format!("this is not an open {}", T::NAME)));
    }
    if shared.handles.load(Ordering::Relaxed) == 0 {
        return Err(Failure::argument(format!("the {} was closed", T::NAME)));
    }
    Ok(found)
}

/// Returns the object of a handle.
pub fn object<'a, T: Tag + 'a>(handle: *const T) -> Result<&'a T::Object> {
    borrow(handle).map(|found| &found.shared().object)
}

/// Returns an owner of what a handle stands for, which stays when the handle is closed.
pub fn share<T: Tag>(handle: *const T) -> Result<Arc<T>> {
    borrow(handle)?;
    // SAFETY: the handle came from `Arc::into_raw`, and has not been closed.
    unsafe {
        Arc::increment_strong_count(handle);
        Ok(Arc::from_raw(handle))
    }
}

/// Adds a handle: as many have to be closed as there are.
pub fn retain<T: Tag>(handle: *const T) -> Result<()> {
    borrow(handle)?.shared().handles.fetch_add(1, Ordering::Relaxed);
    Ok(())
}

/// Closes a handle. `NULL` and closed ones are passed over.
pub fn release<T: Tag>(handle: *const T) {
    let Ok(found) = borrow(handle) else { return };
    let closed = found.shared().handles.fetch_update(Ordering::AcqRel, Ordering::Relaxed, |count| count.checked_sub(1));
    if closed == Ok(1) {
        // SAFETY: this was the last handle, and C's part of the count is given back once.
        drop(unsafe { Arc::from_raw(handle) });
    }
}

/// Writes a result.
pub fn set<T>(to: *mut T, value: T, what: &str) -> Result<()> {
    if to.is_null() || !to.is_aligned() {
        return Err(Failure::argument(format!("{what} is NULL or misaligned")));
    }
    // SAFETY: the pointer is to a `T`, whose bytes have no meaning yet.
    unsafe { to.write(value) };
    Ok(())
}

/// Returns whether a result can be written, before there is one that would be lost.
pub fn expect<T>(to: *mut T, what: &str) -> Result<()> {
    if to.is_null() || !to.is_aligned() {
        return Err(Failure::argument(format!("{what} is NULL or misaligned")));
    }
    Ok(())
}

/// A struct of `types.rs` that begins with its size, and may have more fields in later versions.
///
/// # Safety
///
/// The first field is the size, and the type is valid if all of its bytes are 0.
pub unsafe trait SizedStruct: Copy {}

macro_rules! sized {
    ($($name:ident),* $(,)?) => {
        $(
            // SAFETY: numbers, pointers, texts and optional functions may be 0, and the first number is the size.
            unsafe impl SizedStruct for crate::$name {}
        )*
    };
}

sized! {
    tf_array, tf_dtype_info, tf_error_info, tf_file_info, tf_open_options, tf_piece, tf_plan_info, tf_plan_options,
    tf_report_info, tf_save_options, tf_source, tf_tensor_info,
}

/// Reads a struct with a size. `NULL` is all defaults. A field that this version does not know has to be 0.
pub fn options<T: SizedStruct>(from: *const T) -> Result<T> {
    // SAFETY: the type allows it.
    let mut read: T = unsafe { std::mem::zeroed() };
    if from.is_null() {
        return Ok(read);
    }
    let size = size_of_struct(from.cast())?;
    let known = size.min(size_of::<T>());
    // SAFETY: the struct has `size` bytes, as it says.
    let unknown = unsafe { slice::from_raw_parts(from.cast::<u8>().add(known), size - known) };
    if unknown.iter().any(|byte| *byte != 0) {
        return Err(Failure::argument("a struct has a field that is newer than this library"));
    }
    // SAFETY: as above, and `read` has at least `known` bytes.
    unsafe { ptr::copy_nonoverlapping(from.cast::<u8>(), (&raw mut read).cast::<u8>(), known) };
    Ok(read)
}

/// Fills a struct as far as its size goes.
pub fn fill<T: SizedStruct>(to: *mut T, value: &T) -> Result<()> {
    let size = size_of_struct(to.cast())?;
    let (known, first) = (size.min(size_of::<T>()), size_of::<usize>());
    let from = ptr::from_ref(value).cast::<u8>();
    // SAFETY: both structs have `known` bytes. The size stays.
    unsafe {
        ptr::copy_nonoverlapping(from.add(first), to.cast::<u8>().add(first), known - first);
        to.cast::<u8>().add(known).write_bytes(0, size - known);
    }
    Ok(())
}

/// Reads the size at the start of a struct.
fn size_of_struct(start: *const usize) -> Result<usize> {
    /// No struct gets as large.
    const LARGEST: usize = 4096;
    if start.is_null() || !start.is_aligned() {
        return Err(Failure::argument("a struct is NULL or misaligned"));
    }
    // SAFETY: the struct begins with its size.
    let size = unsafe { start.read() };
    if !(size_of::<usize>()..=LARGEST).contains(&size) {
        return Err(Failure::argument(format!("the size of a struct is {size}; set it to sizeof the struct")));
    }
    Ok(size)
}

/// Returns an array.
pub fn array<'a, T: Copy>(data: *const T, len: usize, what: &str) -> Result<&'a [T]> {
    check_array(data, len, what)?;
    // SAFETY: the array has that many items, which stay until the end of the call.
    Ok(if len == 0 { &[] } else { unsafe { slice::from_raw_parts(data, len) } })
}

/// Returns memory to be filled.
pub fn bytes_mut<'a>(data: *mut c_void, len: usize) -> Result<&'a mut [u8]> {
    check_array(data.cast::<u8>(), len, "the memory")?;
    // SAFETY: the memory has that many bytes, and belongs to the call.
    Ok(if len == 0 { &mut [] } else { unsafe { slice::from_raw_parts_mut(data.cast::<u8>(), len) } })
}

/// Returns whether no two memories overlap, as rules for them require.
pub fn expect_apart(memories: &[&mut [u8]]) -> Result<()> {
    let mut places: Vec<_> =
        memories.iter().filter(|memory| !memory.is_empty()).map(|memory| memory.as_ptr_range()).collect();
    places.sort_unstable_by_key(|place| place.start);
    if places.windows(2).any(|two| two[0].end > two[1].start) {
        return Err(Failure::argument("two of the memories overlap"));
    }
    Ok(())
}

fn check_array<T>(data: *const T, len: usize, what: &str) -> Result<()> {
    if len > 0 && (data.is_null() || !data.is_aligned()) {
        return Err(Failure::argument(format!("{what} is NULL or misaligned, but has {len} items")));
    }
    let bytes = len.checked_mul(size_of::<T>()).filter(|bytes| isize::try_from(*bytes).is_ok());
    if bytes.is_none_or(|bytes| data.addr().checked_add(bytes).is_none()) {
        return Err(Failure::argument(format!("{what} has {len} items, more than memory holds")));
    }
    Ok(())
}

impl tf_text {
    /// Returns the text.
    pub fn to_str<'a>(self) -> Result<&'a str> {
        std::str::from_utf8(self.bytes()?).map_err(|error| Failure::argument(format!("a text is not UTF-8: {error}")))
    }

    /// Returns the text, or `None` if it is empty.
    pub fn non_empty<'a>(self) -> Result<Option<&'a str>> {
        Ok(Some(self.to_str()?).filter(|text| !text.is_empty()))
    }

    /// Returns a path, which need not be UTF-8 on Unix.
    pub fn to_path(self) -> Result<PathBuf> {
        #[cfg(unix)]
        let path = PathBuf::from(<std::ffi::OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(self.bytes()?));
        #[cfg(not(unix))]
        let path = PathBuf::from(self.to_str()?);
        Ok(path)
    }

    fn bytes<'a>(self) -> Result<&'a [u8]> {
        array(self.data.cast::<u8>(), self.len, "a text")
    }
}

impl From<&str> for tf_text {
    /// Lends a text, which C may use as long as its owner lives.
    fn from(text: &str) -> Self {
        Self { data: text.as_ptr().cast::<c_char>(), len: text.len() }
    }
}

// SAFETY: a text is only read, as long as its owner lives.
unsafe impl Send for tf_text {}
// SAFETY: as above.
unsafe impl Sync for tf_text {}

/// The pointer that C passes to its callbacks.
#[derive(Clone, Copy)]
pub struct Context(pub *mut c_void);

// SAFETY: only C uses what it points to, and it was told that callbacks come from other threads.
unsafe impl Send for Context {}
// SAFETY: as above.
unsafe impl Sync for Context {}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Bytes that C lends until it is told that they are not used any more.
#[derive(Debug)]
pub struct ForeignBytes {
    data: Context,
    len: usize,
    #[expect(dead_code, reason = "it is dropped with the bytes, and tells")]
    release: crate::callbacks::Release,
}

impl ForeignBytes {
    pub fn new(data: *const c_void, len: usize, release: crate::callbacks::Release) -> Result<Self> {
        check_array(data.cast::<u8>(), len, "the file in memory")?;
        Ok(Self { data: Context(data.cast_mut()), len, release })
    }
}

impl AsRef<[u8]> for ForeignBytes {
    fn as_ref(&self) -> &[u8] {
        match self.len {
            0 => &[],
            // SAFETY: C leaves them in place until they are released, which is when this is dropped.
            len => unsafe { slice::from_raw_parts(self.data.0.cast::<u8>(), len) },
        }
    }
}

/// Elements of C at strides, for a writer.
#[derive(Debug)]
pub struct ForeignElements {
    first: Context,
    item: usize,
    dims: Vec<usize>,
    /// The distances of neighbours, in bytes.
    strides: Vec<isize>,
    bytes: usize,
}

impl ForeignElements {
    /// Elements without gaps, or blocks of a packed dtype.
    pub fn in_one_run(first: *const c_void, bytes: usize) -> Result<Self> {
        Self::at_strides(first, bytes, &[], &[], bytes)
    }

    /// Elements of `item` bytes, which are `bytes` together.
    pub fn at_strides(
        first: *const c_void,
        item: usize,
        dims: &[usize],
        strides: &[isize],
        bytes: usize,
    ) -> Result<Self> {
        check_array(first.cast::<u8>(), usize::from(bytes > 0), "the data of an array")?;
        let first = Context(first.cast_mut());
        Ok(Self { first, item, dims: dims.to_vec(), strides: strides.to_vec(), bytes })
    }

    /// Returns the elements, if they were said to be without gaps.
    pub fn as_bytes(&self) -> Option<&[u8]> {
        (self.bytes == 0 || self.dims.is_empty()).then(|| self.run(0, self.bytes))
    }

    /// Passes on the elements in pieces, in row-major order.
    pub fn in_rows(&self, piece: &mut dyn FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
        tensorfile::model::in_rows(self.item, &self.dims, &self.strides, &|start, len| self.run(start, len), piece)
    }

    fn run(&self, start: isize, len: usize) -> &[u8] {
        match len {
            0 => &[],
            // SAFETY: the elements stay in place until the writer is freed, and `in_rows` asks for runs of them, by the dims
            // and strides that C passed.
            len => unsafe { slice::from_raw_parts(self.first.0.cast::<u8>().wrapping_offset(start), len) },
        }
    }
}

/// A plan, and the file that it borrows from.
pub struct OwnedPlan {
    /// Is dropped before the file.
    plan: ReadPlan<'static>,
    _file: Arc<tf_file>,
}

impl OwnedPlan {
    pub fn new(file: Arc<tf_file>, plan: impl for<'f> FnOnce(&'f File) -> Result<ReadPlan<'f>>) -> Result<Self> {
        let opened = ptr::from_ref(&file.shared().object.file);
        // SAFETY: the file is in an `Arc`, which does not move it and lives as long as the plan. Nobody gets the plan with
        // this lifetime: `get` returns it with the lifetime of `self`.
        let plan = plan(unsafe { &*opened })?;
        Ok(Self { plan, _file: file })
    }

    pub fn get(&self) -> &ReadPlan<'_> {
        &self.plan
    }
}

impl fmt::Debug for OwnedPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.plan.fmt(f)
    }
}
