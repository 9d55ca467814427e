//! Files written: from memory, and from other files.

use std::ffi::c_void;

use crate::callbacks::Sink;
use crate::error::{release, run};
use crate::{
    options, pointers, tf_array, tf_error, tf_open_options, tf_save_options, tf_sink, tf_status, tf_text, tf_writer,
    writer,
};

/// Makes a writer without tensors. Free `*writer` with `tf_writer_free`.
#[unsafe(no_mangle)]
pub extern "C" fn tf_writer_new(writer: *mut *mut tf_writer, error: *mut *mut tf_error) -> tf_status {
    run(error, || {
        pointers::expect(writer, "the pointer for the writer")?;
        pointers::set(writer, pointers::give(tf_writer::new()), "the pointer for the writer")
    })
}

/// Frees a writer. `NULL` is passed over.
#[unsafe(no_mangle)]
pub extern "C" fn tf_writer_free(writer: *mut tf_writer) {
    release(writer);
}

/// Adds a tensor. Its elements are not copied: they must stay as they are until the last save with this writer. Name,
/// dims and strides are copied.
#[unsafe(no_mangle)]
pub extern "C" fn tf_writer_add(
    writer: *mut tf_writer,
    array: *const tf_array,
    error: *mut *mut tf_error,
) -> tf_status {
    run(error, || {
        let array = pointers::options(array)?;
        pointers::borrow(writer)?.lock().add(&array)
    })
}

/// Sets an entry of the metadata. A later one with the same key replaces it.
#[unsafe(no_mangle)]
pub extern "C" fn tf_writer_metadata(
    writer: *mut tf_writer,
    key: tf_text,
    value: tf_text,
    error: *mut *mut tf_error,
) -> tf_status {
    run(error, || {
        let (key, value) = (key.to_str()?, value.to_str()?);
        pointers::borrow(writer)?.lock().set_metadata(key, value);
        Ok(())
    })
}

/// Saves the tensors as a file. It replaces an existing one only when it is complete, and on disk; otherwise the old file
/// stays, and there is no part of a new one. `options` may be `NULL`.
///
/// What the format cannot store is an error before anything is written.
#[unsafe(no_mangle)]
pub extern "C" fn tf_save(
    writer: *const tf_writer,
    path: tf_text,
    options: *const tf_save_options,
    error: *mut *mut tf_error,
) -> tf_status {
    run(error, || pointers::borrow(writer)?.lock().save(&path.to_path()?, &pointers::options(options)?))
}

/// Passes the file to `sink` piece by piece, in order. `format` of the options has to name the format.
#[unsafe(no_mangle)]
pub extern "C" fn tf_write(
    writer: *const tf_writer,
    sink: tf_sink,
    context: *mut c_void,
    options: *const tf_save_options,
    error: *mut *mut tf_error,
) -> tf_status {
    run(error, || pointers::borrow(writer)?.lock().write(Sink::new(sink, context)?, &pointers::options(options)?))
}

/// Copies all tensors and the metadata of a file to another file, in pieces. The formats are those of the extensions, or of
/// the options, which may be `NULL`. Both may be the same file.
///
/// Metadata that the new format cannot store is an error; `TF_SAVE_WITHOUT_METADATA` leaves it out.
#[unsafe(no_mangle)]
pub extern "C" fn tf_convert(
    from: tf_text,
    open: *const tf_open_options,
    to: tf_text,
    save: *const tf_save_options,
    error: *mut *mut tf_error,
) -> tf_status {
    run(error, || {
        let save = pointers::options(save)?;
        let file = options::open(&pointers::options(open)?)?.open(from.to_path()?)?;
        writer::convert(&file, &to.to_path()?, &save)
    })
}
