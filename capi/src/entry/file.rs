//! Files: how they are opened, and what they have.

use std::ffi::c_void;
use std::sync::Arc;

use tensorfile::File;

use crate::callbacks::{Release, Source};
use crate::error::{release, run};
use crate::pointers::ForeignBytes;
use crate::{
    Result, options, pointers, tf_entry, tf_error, tf_expected, tf_file, tf_file_info, tf_open_options, tf_release,
    tf_report, tf_report_info, tf_source, tf_status, tf_tensor, tf_text, tf_warning,
};

/// Opens a file, an index of shards or a folder of a trainer. If the library was built for it, `path` may be a URL.
///
/// Only the index is read. The file is mapped into memory when a tensor is first viewed. Close `*file` with
/// `tf_file_close`. `options` may be `NULL`.
#[unsafe(no_mangle)]
pub extern "C" fn tf_open(
    path: tf_text,
    options: *const tf_open_options,
    file: *mut *mut tf_file,
    error: *mut *mut tf_error,
) -> tf_status {
    run(error, || {
        pointers::expect(file, "the pointer for the file")?;
        let options = options::open(&pointers::options(options)?)?;
        give(options.open(path.to_path()?)?, file)
    })
}

/// Opens a file in memory, without a copy. The bytes must stay as they are until the file, its tensors and its plans are
/// closed. Then `release` is called with `context`; it may be `NULL`. It is called after an error too.
#[unsafe(no_mangle)]
pub extern "C" fn tf_open_memory(
    bytes: *const c_void,
    len: usize,
    release: tf_release,
    context: *mut c_void,
    options: *const tf_open_options,
    file: *mut *mut tf_file,
    error: *mut *mut tf_error,
) -> tf_status {
    run(error, || {
        let bytes = ForeignBytes::new(bytes, len, Release::new(release, context))?;
        pointers::expect(file, "the pointer for the file")?;
        let options = options::open(&pointers::options(options)?)?;
        give(options.from_bytes(bytes)?, file)
    })
}

/// Opens a file whose bytes your own function reads. The source is copied; it is released after an error too.
#[unsafe(no_mangle)]
pub extern "C" fn tf_open_source(
    source: *const tf_source,
    options: *const tf_open_options,
    file: *mut *mut tf_file,
    error: *mut *mut tf_error,
) -> tf_status {
    run(error, || {
        let source = Source::new(&pointers::options(source)?)?;
        pointers::expect(file, "the pointer for the file")?;
        let options = options::open(&pointers::options(options)?)?;
        give(options.open_ranges(Arc::new(source))?, file)
    })
}

fn give(opened: File, file: *mut *mut tf_file) -> Result<()> {
    pointers::set(file, pointers::give(tf_file::new(opened)), "the pointer for the file")
}

/// Adds a handle of the same file, so that it has to be closed once more.
#[unsafe(no_mangle)]
pub extern "C" fn tf_file_retain(file: *mut tf_file) -> tf_status {
    run(std::ptr::null_mut(), || pointers::retain(file))
}

/// Closes a file. Its tensors and plans keep its bytes until they are closed. `NULL` is passed over.
#[unsafe(no_mangle)]
pub extern "C" fn tf_file_close(file: *mut tf_file) {
    release(file);
}

/// Fills `info` with the format of the file and the number of its tensors.
#[unsafe(no_mangle)]
pub extern "C" fn tf_file_get_info(
    file: *const tf_file,
    info: *mut tf_file_info,
    error: *mut *mut tf_error,
) -> tf_status {
    run(error, || pointers::fill(info, &pointers::object(file)?.info()))
}

/// Returns the tensor at a position, from 0, in the order of the file. Close `*tensor` with `tf_tensor_close`.
#[unsafe(no_mangle)]
pub extern "C" fn tf_file_tensor(
    file: *const tf_file,
    position: usize,
    tensor: *mut *mut tf_tensor,
    error: *mut *mut tf_error,
) -> tf_status {
    run(error, || {
        pointers::expect(tensor, "the pointer for the tensor")?;
        let file = pointers::share(file)?;
        crate::file::check_position(&crate::file::opened(&file).file, position)?;
        pointers::set(tensor, pointers::give(tf_tensor::new(file, position)), "the pointer for the tensor")
    })
}

/// Finds the tensor with a name; a tensor without a name has its position in digits. If there is none, the error's
/// message has names of the file, similar ones first. Close `*tensor` with `tf_tensor_close`.
#[unsafe(no_mangle)]
pub extern "C" fn tf_file_find(
    file: *const tf_file,
    name: tf_text,
    tensor: *mut *mut tf_tensor,
    error: *mut *mut tf_error,
) -> tf_status {
    run(error, || {
        pointers::expect(tensor, "the pointer for the tensor")?;
        let file = pointers::share(file)?;
        let position = crate::file::opened(&file).file.get(name.to_str()?)?.position();
        pointers::set(tensor, pointers::give(tf_tensor::new(file, position)), "the pointer for the tensor")
    })
}

/// Returns the metadata, as an array in the order of the file. It lives as long as the file.
#[unsafe(no_mangle)]
pub extern "C" fn tf_file_metadata(
    file: *const tf_file,
    entries: *mut *const tf_entry,
    count: *mut usize,
    error: *mut *mut tf_error,
) -> tf_status {
    run(error, || give_array(pointers::object(file)?.metadata()?, entries, count))
}

/// Returns the warnings about the file, as an array: parts that were left out, unknown dtypes, repeated names and
/// others. It lives as long as the file.
#[unsafe(no_mangle)]
pub extern "C" fn tf_file_warnings(
    file: *const tf_file,
    warnings: *mut *const tf_warning,
    count: *mut usize,
    error: *mut *mut tf_error,
) -> tf_status {
    run(error, || give_array(pointers::object(file)?.warnings()?, warnings, count))
}

fn give_array<T>(items: &[T], array: *mut *const T, count: *mut usize) -> Result<()> {
    pointers::expect(count, "the pointer for the count")?;
    pointers::set(array, items.as_ptr(), "the pointer for the array")?;
    pointers::set(count, items.len(), "the pointer for the count")
}

/// Compares the file with the `count` tensors that you expect: names, dtypes and shapes. No element is read. That they
/// differ is no error; see `tf_report_get_info`. Free `*report` with `tf_report_free`.
#[unsafe(no_mangle)]
pub extern "C" fn tf_file_report(
    file: *const tf_file,
    expected: *const tf_expected,
    count: usize,
    report: *mut *mut tf_report,
    error: *mut *mut tf_error,
) -> tf_status {
    run(error, || {
        pointers::expect(report, "the pointer for the report")?;
        let expected = pointers::array(expected, count, "the array of expected tensors")?;
        let made = tf_report::new(&pointers::object(file)?.file, expected)?;
        pointers::set(report, pointers::give(made), "the pointer for the report")
    })
}

/// Fills `info` with a report. Its texts live until the report is freed.
#[unsafe(no_mangle)]
pub extern "C" fn tf_report_get_info(
    report: *const tf_report,
    info: *mut tf_report_info,
    error: *mut *mut tf_error,
) -> tf_status {
    run(error, || pointers::fill(info, &pointers::object(report)?.info()))
}

/// Frees a report. `NULL` is passed over.
#[unsafe(no_mangle)]
pub extern "C" fn tf_report_free(report: *mut tf_report) {
    release(report);
}
