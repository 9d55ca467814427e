//! Calls functions of the C interface in any order, also in wrong ways: `NULL`, closed files whose tensors are open,
//! numbers out of range, and memory of other lengths.
//!
//! Pointers that point to nothing are left out: no library can tell them from others.

use std::ffi::c_void;
use std::ptr::{null, null_mut};

use tensorfile_c::entry::{
    tf_dtype_get_info, tf_error_free, tf_error_get_info, tf_file_close, tf_file_find, tf_file_get_info,
    tf_file_metadata, tf_file_report, tf_file_retain, tf_file_tensor, tf_file_warnings, tf_open_memory, tf_plan_free,
    tf_plan_new, tf_plan_piece, tf_plan_read, tf_read, tf_report_free, tf_slice, tf_tensor_close, tf_tensor_get_info,
    tf_view, tf_write, tf_writer_add, tf_writer_free, tf_writer_metadata, tf_writer_new,
};
use tensorfile_c::{
    tf_array, tf_dtype_info, tf_error, tf_error_info, tf_expected, tf_file, tf_file_info, tf_open_options, tf_part,
    tf_piece, tf_plan, tf_range, tf_save_options, tf_status, tf_tensor, tf_tensor_info, tf_text, tf_writer,
};

use crate::budget::bounded;
use crate::input::Input;
use crate::samples;

/// The most bytes that a tensor or a plan is read into.
const MEMORY: usize = 1 << 20;

pub(crate) fn run(input: &[u8]) {
    let mut input = Input(input);
    let calls = input.before_nul();
    make(calls, input.0);
}

/// Opens a file, and makes calls. Returns the number of those that read elements.
fn make(calls: &[u8], file: &[u8]) -> usize {
    bounded("calls of C", file.len() + 64 * MEMORY * calls.len().min(8), || Calls::new(file).make(calls))
}

/// The handles that C has.
struct Calls<'a> {
    file_bytes: &'a [u8],
    files: Vec<*mut tf_file>,
    /// Files that were closed, each with a tensor that keeps its memory.
    closed: Vec<(*mut tf_file, *mut tf_tensor)>,
    tensors: Vec<*mut tf_tensor>,
    plans: Vec<*mut tf_plan>,
    writers: Vec<*mut tf_writer>,
    error: *mut tf_error,
    memory: Vec<u8>,
    /// The number of calls that read elements.
    reads: usize,
}

impl<'a> Calls<'a> {
    fn new(file_bytes: &'a [u8]) -> Self {
        let (files, closed, tensors, plans, writers) = Default::default();
        Self {
            file_bytes,
            files,
            closed,
            tensors,
            plans,
            writers,
            error: null_mut(),
            memory: vec![0; MEMORY],
            reads: 0,
        }
    }

    fn make(mut self, calls: &[u8]) -> usize {
        // With the defaults.
        let opened = self.open(&mut Input(&[100, 0, 0, 1]));
        self.check(opened);
        let mut input = Input(calls);
        while !input.0.is_empty() {
            let status = self.call(&mut input);
            self.check(status);
        }
        for tensor in self.closed.iter().map(|(_, tensor)| *tensor).chain(self.tensors.drain(..)) {
            tf_tensor_close(tensor);
        }
        for plan in self.plans.drain(..) {
            tf_plan_free(plan);
        }
        for writer in self.writers.drain(..) {
            tf_writer_free(writer);
        }
        for file in self.files.drain(..) {
            tf_file_close(file);
        }
        self.reads
    }

    /// An error has a cause with the same status, and no call ends with a mistake of the library.
    fn check(&mut self, status: tf_status) {
        assert_ne!(status, tf_status::TF_INTERNAL);
        if status == tf_status::TF_OK {
            assert!(self.error.is_null());
            return;
        }
        let mut info = tf_error_info {
            size: size_of::<tf_error_info>(),
            status: 0,
            kind: text(""),
            message: text(""),
            tensor: text(""),
            offset: 0,
            os_error: 0,
        };
        assert_eq!(tf_error_get_info(self.error, &raw mut info), tf_status::TF_OK);
        assert_eq!(info.status, status as i32);
        assert!(info.message.len > 0 && info.kind.len > 0);
        tf_error_free(std::mem::replace(&mut self.error, null_mut()));
    }

    fn call(&mut self, input: &mut Input<'_>) -> tf_status {
        let error = &raw mut self.error;
        let (file, tensor) = (pick(&self.files, input), pick(&self.tensors, input));
        match input.below(20) {
            0 => self.open(input),
            1 => {
                let mut found = null_mut();
                let status = tf_file_tensor(file, input.below(9), &raw mut found, error);
                self.add_tensor(status, found)
            }
            2 => {
                let mut found = null_mut();
                let name = String::from_utf8_lossy(input.bytes(5)).into_owned();
                let status = tf_file_find(file, text(&name), &raw mut found, error);
                self.add_tensor(status, found)
            }
            3 => {
                let mut info =
                    tf_file_info { size: size::<tf_file_info>(input), format: text(""), tensors: 0, bytes: 0 };
                tf_file_get_info(file, &raw mut info, error)
            }
            4 => {
                let (mut entries, mut count) = (null(), 0);
                tf_file_metadata(file, &raw mut entries, &raw mut count, error)
            }
            5 => {
                let (mut warnings, mut count) = (null(), 0);
                tf_file_warnings(file, &raw mut warnings, &raw mut count, error)
            }
            6 => {
                let mut info = tensor_info(size::<tf_tensor_info>(input));
                tf_tensor_get_info(tensor, &raw mut info, error)
            }
            7 => {
                let (mut bytes, mut len) = (null(), 0);
                let status = tf_view(tensor, &raw mut bytes, &raw mut len, error);
                self.count(status)
            }
            8 => {
                let mut info = tensor_info(size_of::<tf_tensor_info>());
                tf_tensor_get_info(tensor, &raw mut info, null_mut());
                let len = info.bytes.min(MEMORY) / (1 + input.below(3));
                let status = tf_read(tensor, number(input), self.memory.as_mut_ptr().cast(), len, error);
                self.count(status)
            }
            9 => {
                let ranges = ranges(input);
                let strides: Vec<isize> = ranges.iter().map(|_| isize::from(input.byte().cast_signed()) * 4).collect();
                let strides = if input.below(2) == 0 { null() } else { strides.as_ptr() };
                let len = input.below(256).min(MEMORY) * 4;
                let memory = self.memory.as_mut_ptr().cast();
                tf_slice(tensor, ranges.as_ptr(), ranges.len(), number(input), memory, len, strides, error)
            }
            10 => self.plan(file, input),
            11 => {
                let plan = pick(&self.plans, input);
                tf_plan_read(plan, self.memory.as_mut_ptr().cast(), MEMORY / (1 + input.below(2) * 100_000), error)
            }
            12 => {
                let mut piece = tf_piece {
                    size: size::<tf_piece>(input),
                    name: text(""),
                    dtype: 0,
                    layout: 0,
                    rank: 0,
                    dims: null(),
                    offset: 0,
                    bytes: 0,
                };
                tf_plan_piece(pick(&self.plans, input), input.below(9), &raw mut piece, error)
            }
            13 => self.close_file(input),
            14 => {
                if let Some(tensor) = self.tensors.pop() {
                    tf_tensor_close(tensor);
                }
                tf_status::TF_OK
            }
            15 => {
                let (dims, mut report) = ([input.below(9), 3], null_mut());
                let expected =
                    tf_expected { name: text("a"), dtype: number(input), rank: input.below(3), dims: dims.as_ptr() };
                let status = tf_file_report(file, &raw const expected, input.below(2), &raw mut report, error);
                tf_report_free(report);
                status
            }
            16 => self.add_array(input),
            17 => {
                let options = tf_save_options {
                    size: size::<tf_save_options>(input),
                    format: text(tensorfile::FORMATS[input.below(tensorfile::FORMATS.len())].name),
                    flags: u32::from(input.byte() / 16),
                    floats: number(input),
                    max_shard_bytes: 0,
                    alignment: u64::from(input.byte() / 64),
                    progress: None,
                    progress_context: null_mut(),
                };
                tf_write(pick(&self.writers, input), Some(take), null_mut(), &raw const options, error)
            }
            18 => {
                let mut info = tf_dtype_info {
                    size: size::<tf_dtype_info>(input),
                    name: text(""),
                    block_elements: 0,
                    block_bytes: 0,
                };
                tf_dtype_get_info(number(input), &raw mut info, error)
            }
            _ => {
                let closed: Vec<_> = self.closed.iter().map(|(file, _)| *file).collect();
                let closed = pick(&closed, input);
                let mut info = tf_file_info { size: size_of::<tf_file_info>(), format: text(""), tensors: 0, bytes: 0 };
                let status = tf_file_get_info(closed, &raw mut info, error);
                assert_eq!(status, tf_status::TF_CALL, "a closed file is used");
                status
            }
        }
    }

    fn open(&mut self, input: &mut Input<'_>) -> tf_status {
        let options = tf_open_options {
            size: size::<tf_open_options>(input),
            format: text(""),
            flags: u32::from(input.byte() / 64),
            dequantize: 0,
            deny_warnings: text(["", "all", "left-out", "x"][input.below(4)]),
            max_tensors: 1000,
            max_rank: 0,
            max_shared: 1 << 16,
            max_memory: MEMORY as u64,
            progress: None,
            progress_context: null_mut(),
        };
        let (bytes, len) = (self.file_bytes.as_ptr().cast::<c_void>(), self.file_bytes.len());
        let mut file = null_mut();
        let error = &raw mut self.error;
        let status = tf_open_memory(bytes, len, None, null_mut(), &raw const options, &raw mut file, error);
        if status == tf_status::TF_OK {
            self.files.push(file);
            if input.below(4) == 0 {
                self.files.push(file);
                return tf_file_retain(file);
            }
        }
        status
    }

    fn count(&mut self, status: tf_status) -> tf_status {
        self.reads += usize::from(status == tf_status::TF_OK);
        status
    }

    fn add_tensor(&mut self, status: tf_status, tensor: *mut tf_tensor) -> tf_status {
        if status == tf_status::TF_OK {
            self.tensors.push(tensor);
        }
        status
    }

    fn plan(&mut self, file: *mut tf_file, input: &mut Input<'_>) -> tf_status {
        let ranges = ranges(input);
        let part = tf_part { name: text("a"), ranges: ranges.as_ptr(), rank: ranges.len() };
        let parts = if input.below(2) == 0 { null() } else { &raw const part };
        let mut plan = null_mut();
        let status = tf_plan_new(file, parts, input.below(2), null(), &raw mut plan, &raw mut self.error);
        if status == tf_status::TF_OK {
            self.plans.push(plan);
        }
        status
    }

    fn close_file(&mut self, input: &mut Input<'_>) -> tf_status {
        if self.files.is_empty() {
            tf_file_close(null_mut());
            return tf_status::TF_OK;
        }
        let file = self.files.swap_remove(input.below(self.files.len()));
        let mut tensor = null_mut();
        // A tensor keeps the memory, so that the closed file can be told from an open one.
        let has_tensor = tf_file_tensor(file, 0, &raw mut tensor, null_mut()) == tf_status::TF_OK;
        tf_file_close(file);
        if has_tensor && !self.files.contains(&file) {
            self.closed.push((file, tensor));
        } else if has_tensor {
            tf_tensor_close(tensor);
        }
        tf_status::TF_OK
    }

    fn add_array(&mut self, input: &mut Input<'_>) -> tf_status {
        if input.below(2) == 0 || self.writers.is_empty() {
            let mut writer = null_mut();
            let status = tf_writer_new(&raw mut writer, &raw mut self.error);
            self.writers.push(writer);
            return status;
        }
        let writer = pick(&self.writers, input);
        let (dims, mut strides) = ([input.below(20), input.below(20)], [0_isize; 2]);
        // All elements lie in the memory, also if the strides are negative.
        strides.fill_with(|| isize::from(input.byte().cast_signed()) * 8);
        let name = String::from_utf8_lossy(input.bytes(3)).into_owned();
        tf_writer_metadata(writer, text(&name), text("1"), null_mut());
        let array = tf_array {
            size: size::<tf_array>(input),
            name: text(&name),
            dtype: number(input),
            rank: input.below(3),
            dims: dims.as_ptr(),
            strides: if input.below(2) == 0 { null() } else { strides.as_ptr() },
            data: self.memory[MEMORY / 2..].as_ptr().cast(),
        };
        tf_writer_add(writer, &raw const array, &raw mut self.error)
    }
}

extern "C" fn take(_: *mut c_void, _: *const c_void, _: usize) -> i32 {
    0
}

/// Returns one of the handles, or sometimes `NULL`.
fn pick<T>(handles: &[*mut T], input: &mut Input<'_>) -> *mut T {
    let number = input.byte();
    if number == 255 || handles.is_empty() { null_mut() } else { handles[usize::from(number) % handles.len()] }
}

fn text(text: &str) -> tf_text {
    tf_text { data: text.as_ptr().cast(), len: text.len() }
}

/// Returns the size of a struct: mostly its own, and sometimes that of an older version, or none.
fn size<T>(input: &mut Input<'_>) -> usize {
    match input.byte() {
        byte @ ..8 => size_of::<T>().saturating_sub(usize::from(byte) * 8),
        8 => 0,
        9 => usize::MAX,
        _ => size_of::<T>(),
    }
}

fn tensor_info(size: usize) -> tf_tensor_info {
    tf_tensor_info {
        size,
        name: text(""),
        dtype: 0,
        layout: 0,
        rank: 0,
        dims: null(),
        strides: null(),
        bytes: 0,
        offset: 0,
        alignment: 0,
        unknown_dtype: text(""),
    }
}

fn number(input: &mut Input<'_>) -> i32 {
    i32::from(input.byte() % 64) - 2
}

fn ranges(input: &mut Input<'_>) -> Vec<tf_range> {
    (0..input.below(4)).map(|_| tf_range { start: input.below(4), end: input.below(6) }).collect()
}

/// Makes calls of all kinds with a file. Returns the number of those that read elements.
pub fn run_on_file(file: &[u8]) -> usize {
    // Each call begins with the numbers of a file and a tensor, and is followed by its arguments.
    let tensors = (0..9).flat_map(|position| [1, 1, 21, position]);
    // A view, and all as it is stored.
    let reads = (0..9).flat_map(|tensor| [1, tensor, 27, 1, tensor, 28, 2, 3]);
    let others = (1..9).flat_map(|tensor| (22..40).flat_map(move |call| [1, tensor, call, 66, 33, 2, 41, 1, 3]));
    make(&tensors.chain(reads).chain(others).collect::<Vec<_>>(), file)
}

/// Calls, NUL, and a file.
pub fn seeds() -> Vec<Vec<u8>> {
    let calls: Vec<u8> = (1..=19).flat_map(|call| [1, 1, 20 + call, 20, 7, 33, 2, 41, 1, 3]).collect();
    let calls = [&calls[..], &calls].concat();
    // The first byte of a sample is the row of its format.
    samples::files().iter().map(|file| [&calls[..], &[0], &file[1..]].concat()).collect()
}
