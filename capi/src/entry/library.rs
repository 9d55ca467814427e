//! The library, its dtypes and its errors.

use std::ffi::c_char;

use crate::error::{release, run};
use crate::{TF_ABI_VERSION, dtype, pointers, tf_dtype_info, tf_error, tf_error_info, tf_status, tf_text};

/// Returns `TF_ABI_VERSION` of the library. If it differs from that of the header, the two do not fit together.
#[unsafe(no_mangle)]
pub extern "C" fn tf_abi_version() -> u32 {
    TF_ABI_VERSION
}

/// Returns the version of the library, such as `0.1.0`. It ends with a NUL and is never freed.
#[unsafe(no_mangle)]
pub extern "C" fn tf_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}

/// Fills `info` with the cause of an error. Its texts live until the error is freed.
#[unsafe(no_mangle)]
pub extern "C" fn tf_error_get_info(error: *const tf_error, info: *mut tf_error_info) -> tf_status {
    run(std::ptr::null_mut(), || pointers::fill(info, &pointers::object(error)?.info()))
}

/// Frees an error. `NULL` is passed over.
#[unsafe(no_mangle)]
pub extern "C" fn tf_error_free(error: *mut tf_error) {
    release(error);
}

/// Fills `info` with the name and the size of a dtype. The name is never freed.
#[unsafe(no_mangle)]
pub extern "C" fn tf_dtype_get_info(dtype: i32, info: *mut tf_dtype_info, error: *mut *mut tf_error) -> tf_status {
    run(error, || pointers::fill(info, &dtype::info(dtype)?))
}

/// Finds the dtype with a name, such as `f32`.
#[unsafe(no_mangle)]
pub extern "C" fn tf_dtype_find(name: tf_text, dtype: *mut i32, error: *mut *mut tf_error) -> tf_status {
    run(error, || pointers::set(dtype, dtype::find(name.to_str()?)?, "the pointer for the dtype"))
}
