//! Tensors of a file, viewed and read.

use std::ffi::c_void;

use crate::error::{release, run};
use crate::{Result, dtype, pointers, read, tf_error, tf_range, tf_status, tf_tensor, tf_tensor_info};

/// Adds a handle of the same tensor, so that it has to be closed once more.
#[unsafe(no_mangle)]
pub extern "C" fn tf_tensor_retain(tensor: *mut tf_tensor) -> tf_status {
    run(std::ptr::null_mut(), || pointers::retain(tensor))
}

/// Closes a tensor. The bytes of its view end with it. `NULL` is passed over.
#[unsafe(no_mangle)]
pub extern "C" fn tf_tensor_close(tensor: *mut tf_tensor) {
    release(tensor);
}

/// Fills `info` with the name, the dtype and the shape of a tensor. What it points to lives as long as the tensor.
#[unsafe(no_mangle)]
pub extern "C" fn tf_tensor_get_info(
    tensor: *const tf_tensor,
    info: *mut tf_tensor_info,
    error: *mut *mut tf_error,
) -> tf_status {
    run(error, || pointers::fill(info, &pointers::object(tensor)?.info()))
}

/// Returns the elements without a copy, in the order of the file: see the strides of `tf_tensor_get_info`. The bytes live
/// until the tensor is closed. If `alignment` there is less than an element needs, read single elements with `memcpy`.
///
/// A file on disk is mapped privately: if you cast the `const` away and write, the change stays in this process, and
/// views of the same file share it. Tensors that are compressed, decoded, in several places, or of a file that is read at
/// positions cannot be viewed; neither can bools of a mapped file, because other programs may change them to bytes that
/// are not bools. The error says so, and `tf_read` reads them.
#[unsafe(no_mangle)]
pub extern "C" fn tf_view(
    tensor: *const tf_tensor,
    bytes: *mut *const c_void,
    len: *mut usize,
    error: *mut *mut tf_error,
) -> tf_status {
    run(error, || {
        let (start, count) = pointers::object(tensor)?.view()?;
        pointers::expect(len, "the pointer for the length")?;
        pointers::set(bytes, start.cast(), "the pointer for the bytes")?;
        pointers::set(len, count, "the pointer for the length")
    })
}

/// Reads all elements into your memory, in row-major order without gaps. `len` is exactly the number of bytes they take.
///
/// `dtype` is a `tf_dtype` to cast numbers to, or `TF_DTYPE_STORED`. Each number becomes the nearest one, so that integers
/// out of range become the largest or the smallest. The codes of quantized
/// weights are not cast: that is an error. Sparse tensors and those of unknown dtypes are read as they are stored. After
/// an error, the memory is undefined.
#[unsafe(no_mangle)]
pub extern "C" fn tf_read(
    tensor: *const tf_tensor,
    dtype: i32,
    memory: *mut c_void,
    len: usize,
    error: *mut *mut tf_error,
) -> tf_status {
    run(error, || {
        let (tensor, to) = (pointers::object(tensor)?, dtype::from_number(dtype)?);
        read::read(tensor, None, to, pointers::bytes_mut(memory, len)?, None)
    })
}

/// Reads a part of a tensor into your memory: `rank` ranges, one for each dim. Otherwise as `tf_read`.
///
/// `strides` has the distance of neighbours along each dim in your memory, in bytes; `NULL` is row-major order without
/// gaps, and then `len` is exact. With strides, bytes between the elements stay as they are. Strides are not negative,
/// and put no element over another.
#[unsafe(no_mangle)]
pub extern "C" fn tf_slice(
    tensor: *const tf_tensor,
    ranges: *const tf_range,
    rank: usize,
    dtype: i32,
    memory: *mut c_void,
    len: usize,
    strides: *const isize,
    error: *mut *mut tf_error,
) -> tf_status {
    run(error, || {
        let (tensor, to) = (pointers::object(tensor)?, dtype::from_number(dtype)?);
        let ranges = pointers::array(ranges, rank, "the array of ranges")?;
        let strides = strides_of(strides, rank)?;
        read::read(tensor, Some(ranges), to, pointers::bytes_mut(memory, len)?, strides)
    })
}

fn strides_of<'a>(strides: *const isize, rank: usize) -> Result<Option<&'a [isize]>> {
    if strides.is_null() { Ok(None) } else { pointers::array(strides, rank, "the array of strides").map(Some) }
}
