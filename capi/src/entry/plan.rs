//! Plans: many tensors read together.

use std::ffi::c_void;

use crate::error::{release, run};
use crate::{
    Failure, plan, pointers, tf_error, tf_file, tf_part, tf_piece, tf_plan, tf_plan_info, tf_plan_options, tf_status,
};

/// Plans to read `count` tensors and parts of tensors together; all tensors of the file if `parts` is `NULL`. No element
/// is read yet. Free `*plan` with `tf_plan_free`. `options` may be `NULL`.
#[unsafe(no_mangle)]
pub extern "C" fn tf_plan_new(
    file: *const tf_file,
    parts: *const tf_part,
    count: usize,
    options: *const tf_plan_options,
    plan: *mut *mut tf_plan,
    error: *mut *mut tf_error,
) -> tf_status {
    run(error, || {
        pointers::expect(plan, "the pointer for the plan")?;
        let parts = if parts.is_null() { None } else { Some(pointers::array(parts, count, "the array of parts")?) };
        if parts.is_none() && count > 0 {
            return Err(Failure::argument(format!("the array of parts is NULL, but has {count} items")));
        }
        let made = tf_plan::new(pointers::share(file)?, parts, &pointers::options(options)?)?;
        pointers::set(plan, pointers::give(made), "the pointer for the plan")
    })
}

/// Frees a plan. `NULL` is passed over.
#[unsafe(no_mangle)]
pub extern "C" fn tf_plan_free(plan: *mut tf_plan) {
    release(plan);
}

/// Fills `info` with the number of pieces, and the length of the memory for them.
#[unsafe(no_mangle)]
pub extern "C" fn tf_plan_get_info(
    plan: *const tf_plan,
    info: *mut tf_plan_info,
    error: *mut *mut tf_error,
) -> tf_status {
    run(error, || pointers::fill(info, &plan::info(pointers::object(plan)?.get())))
}

/// Fills `piece` with the piece at an index, from 0. What it points to lives as long as the plan.
#[unsafe(no_mangle)]
pub extern "C" fn tf_plan_piece(
    plan: *const tf_plan,
    index: usize,
    piece: *mut tf_piece,
    error: *mut *mut tf_error,
) -> tf_status {
    run(error, || pointers::fill(piece, &plan::piece(pointers::object(plan)?.get(), index)?))
}

/// Reads all pieces into one memory, such as a pinned one, each at its offset. `len` is at least the length of the plan. Bytes between the pieces stay as they are.
/// After an error, or `TF_CANCELLED`, the memory is undefined.
#[unsafe(no_mangle)]
pub extern "C" fn tf_plan_read(
    plan: *const tf_plan,
    memory: *mut c_void,
    len: usize,
    error: *mut *mut tf_error,
) -> tf_status {
    run(error, || plan::read(pointers::object(plan)?.get(), pointers::bytes_mut(memory, len)?))
}

/// Reads each piece into a memory of its own: `memories[i]` has exactly the bytes of piece `i`. They do not overlap.
#[unsafe(no_mangle)]
pub extern "C" fn tf_plan_read_each(
    plan: *const tf_plan,
    memories: *const *mut c_void,
    count: usize,
    error: *mut *mut tf_error,
) -> tf_status {
    run(error, || {
        let plan = pointers::object(plan)?.get();
        let memories = pointers::array(memories, count, "the array of memories")?;
        if count != plan.pieces().len() {
            return Err(Failure::argument(format!("{count} memories for {} pieces", plan.pieces().len())));
        }
        let lens = plan.pieces().iter().map(|piece| piece.range().len());
        let memories: Vec<_> = memories
            .iter()
            .zip(lens)
            .map(|(memory, len)| pointers::bytes_mut(*memory, len))
            .collect::<Result<_, _>>()?;
        pointers::expect_apart(&memories)?;
        Ok(plan.read_vectored(memories)?)
    })
}

/// Sets the most threads that the library uses in this process, at least 1. The results are the same with any number.
#[unsafe(no_mangle)]
pub extern "C" fn tf_set_max_threads(threads: usize) -> tf_status {
    run(std::ptr::null_mut(), || {
        if threads == 0 {
            return Err(Failure::argument("at least one thread is needed"));
        }
        tensorfile::threads::set_max_threads(threads);
        Ok(())
    })
}
