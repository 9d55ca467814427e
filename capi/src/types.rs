//! The structs that C and Rust pass to each other.

use std::ffi::{c_char, c_int, c_void};

/// Text in UTF-8 with its length. It does not end with a NUL. `tf_str` makes it from a C string.
///
/// Text that you pass only has to live until the function returns. Text that you get belongs to the object it is about
/// and lives as long.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct tf_text {
    /// The first byte. It may be `NULL` if the length is 0.
    pub data: *const c_char,
    /// The number of bytes.
    pub len: usize,
}

/// A key and a value of a file's metadata.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct tf_entry {
    /// The key, which is unique in its file.
    pub key: tf_text,
    /// The value as text. Values of GGUF that are numbers or lists are JSON.
    pub value: tf_text,
}

/// An oddity of a file that can be read.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct tf_warning {
    /// The kind, such as `left-out` or `unknown-dtype`.
    pub kind: tf_text,
    /// The sentence to show.
    pub message: tf_text,
    /// The name of the tensor; empty if the warning is about the file.
    pub tensor: tf_text,
    /// The offset in the file in bytes, or `TF_NO_OFFSET`.
    pub offset: u64,
}

/// The indices `start` to `end`, without `end`, along one dim.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct tf_range {
    /// The first index.
    pub start: usize,
    /// One more than the last index.
    pub end: usize,
}

/// Is called as bytes are read or written: `bytes` so far, of `total`. Return 0 to go on, and anything else to end the
/// call with `TF_CANCELLED`. The calls may come from another thread, one at a time.
pub type tf_progress = Option<extern "C" fn(context: *mut c_void, bytes: u64, total: u64) -> c_int>;

/// Is called once when bytes or callbacks that you lent are not used any more.
pub type tf_release = Option<extern "C" fn(context: *mut c_void)>;

/// Fills `bytes` with the `len` bytes of a source from `offset` on. Return 0, or a number of `errno`. The range lies within
/// the source. Several threads may call it at once.
pub type tf_read_at = Option<extern "C" fn(context: *mut c_void, offset: u64, bytes: *mut c_void, len: usize) -> c_int>;

/// Takes the next `len` bytes of a file. Return 0, or a number of `errno`.
pub type tf_sink = Option<extern "C" fn(context: *mut c_void, bytes: *const c_void, len: usize) -> c_int>;

/// How to open a file. Make it with `tf_open_options_default`, which sets the size; 0 elsewhere means the default.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct tf_open_options {
    /// `sizeof(tf_open_options)`.
    pub size: usize,
    /// The name of the format, such as `safetensors`. By default, it is found by the content, or else by the name.
    pub format: tf_text,
    /// `TF_OPEN_POSITIONED`, or 0.
    pub flags: u32,
    /// Decode quantized weights to this `tf_dtype`: f32, bf16 or f16. Decoded weights take the place of their codes and
    /// scales, and cannot be viewed.
    pub dequantize: i32,
    /// Kinds of warnings that are errors, separated by commas, such as `left-out,unknown-dtype`; or `all`.
    pub deny_warnings: tf_text,
    /// The most tensors in the file.
    pub max_tensors: u64,
    /// The most dims of a tensor.
    pub max_rank: u64,
    /// The most bytes that tensors may have more than the file, by sharing bytes.
    pub max_shared: u64,
    /// The most bytes that one call may read, as they are stored, and that the index may take.
    pub max_memory: u64,
    /// Is called while plans are read, and whole tensors that are not cast.
    pub progress: tf_progress,
    /// Is passed to `progress`. It lives as long as the file, its tensors and its plans.
    pub progress_context: *mut c_void,
}

/// A source of bytes: an object in a store, a cache, an encrypted file.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct tf_source {
    /// `sizeof(tf_source)`.
    pub size: usize,
    /// The name for messages. Its extension decides the format if the content does not. It may be empty.
    pub name: tf_text,
    /// The number of bytes.
    pub len: u64,
    /// Reads bytes.
    pub read_at: tf_read_at,
    /// Is called when the last handle of the file and its tensors is closed, or if the file cannot be opened. It may be
    /// `NULL`.
    pub release: tf_release,
    /// Is passed to both.
    pub context: *mut c_void,
}

/// What is known of an open file.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct tf_file_info {
    /// `sizeof(tf_file_info)`, set by you.
    pub size: usize,
    /// The name of the format, such as `gguf`.
    pub format: tf_text,
    /// The number of tensors.
    pub tensors: usize,
    /// The number of bytes of the file, or of all its shards.
    pub bytes: u64,
}

/// What is known of a tensor, without reading its elements.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct tf_tensor_info {
    /// `sizeof(tf_tensor_info)`, set by you.
    pub size: usize,
    /// The name, or the position in digits if the tensor has no name.
    pub name: tf_text,
    /// The `tf_dtype`. If `unknown_dtype` has text, it is `TF_DTYPE_U8` and means nothing.
    pub dtype: i32,
    /// A `tf_layout`.
    pub layout: i32,
    /// The number of dims.
    pub rank: usize,
    /// The dims, in elements.
    pub dims: *const usize,
    /// The distance of neighbours along each dim in bytes, as `tf_view` has the elements. `NULL` for sparse tensors,
    /// unknown dtypes and dtypes with several elements in a block.
    pub strides: *const isize,
    /// The number of bytes of the elements, decoded.
    pub bytes: usize,
    /// The offset of the elements in their file, or of the compressed bytes of an archive. If they are in several places, as a trainer saves them, it is
    /// `TF_NO_OFFSET`.
    pub offset: u64,
    /// The largest power of two, up to 4096, that divides the offset. The address of a view of a mapped file is a
    /// multiple of it. It is 1 if there is no offset.
    pub alignment: usize,
    /// The name of a dtype that this library does not know, as in the file; mostly empty.
    pub unknown_dtype: tf_text,
}

/// The order of a tensor's elements in its file.
#[repr(i32)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum tf_layout {
    /// Dense; the last dim is innermost.
    TF_LAYOUT_ROW_MAJOR = 0,
    /// Dense, with the dims in another order: see the strides.
    TF_LAYOUT_DIM_ORDER = 1,
    /// Sparse: the indices of each element, 64 bits for each dim, then their number in 64 bits, then the elements.
    TF_LAYOUT_COO = 2,
    /// Named bytes that are not a tensor.
    TF_LAYOUT_BLOB = 3,
    /// A tensor of an unknown dtype, or a damaged one. Its bytes can be read as they are stored.
    TF_LAYOUT_UNKNOWN = 4,
}

/// A tensor, or a part of one, to be read by a plan.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct tf_part {
    /// The name of the tensor, or its position in digits if it has no name.
    pub name: tf_text,
    /// A range for each dim; `NULL` for the whole tensor.
    pub ranges: *const tf_range,
    /// The number of ranges.
    pub rank: usize,
}

/// How to plan. Make it with `tf_plan_options_default`, which sets the size; 0 elsewhere means the default.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct tf_plan_options {
    /// `sizeof(tf_plan_options)`.
    pub size: usize,
    /// The alignment of each piece from the start of the memory, in bytes. The default is 64.
    pub align: usize,
    /// Is called while the plan is read.
    pub progress: tf_progress,
    /// Is passed to `progress`. It lives as long as the plan.
    pub progress_context: *mut c_void,
}

/// What is known of a plan.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct tf_plan_info {
    /// `sizeof(tf_plan_info)`, set by you.
    pub size: usize,
    /// The number of pieces: one for each part, or for each tensor of the file.
    pub pieces: usize,
    /// The length of the memory for all of them, in bytes.
    pub bytes: usize,
    /// The number of bytes that will be read from the file.
    pub bytes_read: u64,
}

/// A piece of a plan.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct tf_piece {
    /// `sizeof(tf_piece)`, set by you.
    pub size: usize,
    /// The name of the tensor.
    pub name: tf_text,
    /// The `tf_dtype`.
    pub dtype: i32,
    /// The `tf_layout` in memory.
    pub layout: i32,
    /// The number of dims.
    pub rank: usize,
    /// The dims, in elements.
    pub dims: *const usize,
    /// The offset in the memory of `tf_plan_read`.
    pub offset: usize,
    /// The number of bytes.
    pub bytes: usize,
}

/// A tensor in your memory, to be written.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct tf_array {
    /// `sizeof(tf_array)`.
    pub size: usize,
    /// The name.
    pub name: tf_text,
    /// The `tf_dtype`.
    pub dtype: i32,
    /// The number of dims.
    pub rank: usize,
    /// The dims, in elements.
    pub dims: *const usize,
    /// The distance of neighbours along each dim in bytes; `NULL` if the elements lie in row-major order without gaps.
    /// Distances may be negative, or 0 to repeat an element.
    pub strides: *const isize,
    /// The element at index 0 of each dim.
    pub data: *const c_void,
}

/// How to save. Make it with `tf_save_options_default`, which sets the size; 0 elsewhere means the default.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct tf_save_options {
    /// `sizeof(tf_save_options)`.
    pub size: usize,
    /// The name of the format. By default, the extension of the path names it.
    pub format: tf_text,
    /// `TF_SAVE_NOT_DURABLE`, `TF_SAVE_NO_REPLACE`, `TF_SAVE_WITHOUT_METADATA`, or several with `|`.
    pub flags: u32,
    /// Cast tensors of floats to this `tf_dtype`.
    pub floats: i32,
    /// Write shards of at most this number of bytes, and their index.
    pub max_shard_bytes: u64,
    /// The alignment of the elements in the file in bytes, for formats that have one.
    pub alignment: u64,
    /// Is called while bytes are written.
    pub progress: tf_progress,
    /// Is passed to `progress`.
    pub progress_context: *mut c_void,
}

/// A tensor that a file should have.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct tf_expected {
    /// The name.
    pub name: tf_text,
    /// The `tf_dtype`.
    pub dtype: i32,
    /// The number of dims.
    pub rank: usize,
    /// The dims, in elements.
    pub dims: *const usize,
}

/// A comparison of a file with the tensors that you expect.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct tf_report_info {
    /// `sizeof(tf_report_info)`, set by you.
    pub size: usize,
    /// The number of differences; 0 if the file fits.
    pub differences: usize,
    /// The report as text, one line for each difference.
    pub text: tf_text,
    /// The report as JSON.
    pub json: tf_text,
}

/// The cause of an error.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct tf_error_info {
    /// `sizeof(tf_error_info)`, set by you.
    pub size: usize,
    /// The status that the function returned.
    pub status: i32,
    /// The kind: a variant of `ErrorKind` of the crate `tensorfile` in lower case, such as `truncated`, `missing` or
    /// `not-tensors`; or `argument` for a wrong call.
    pub kind: tf_text,
    /// The message to show. It names the file, the tensor and the offset.
    pub message: tf_text,
    /// The name of the tensor; empty if the error is not about one.
    pub tensor: tf_text,
    /// The offset in the file in bytes, or `TF_NO_OFFSET`.
    pub offset: u64,
    /// The number of the system's error, as in `errno`; 0 if there is none.
    pub os_error: c_int,
}

/// A dtype.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct tf_dtype_info {
    /// `sizeof(tf_dtype_info)`, set by you.
    pub size: usize,
    /// The name, such as `f32`.
    pub name: tf_text,
    /// The number of elements in a block: 1 for most dtypes.
    pub block_elements: usize,
    /// The number of bytes of a block.
    pub block_bytes: usize,
}

/// An offset that is not known.
pub const TF_NO_OFFSET: u64 = u64::MAX;

/// The version of the binary interface. It is 0 as long as it may change with each release.
pub const TF_ABI_VERSION: u32 = 0;

/// Read the file at positions, instead of mapping it into memory. Tensors cannot be viewed then. Use it for files that
/// other programs may truncate.
pub const TF_OPEN_POSITIONED: u32 = 1;

/// Do not wait until the system has written the file to disk.
pub const TF_SAVE_NOT_DURABLE: u32 = 1;

/// It is an error if the file exists.
pub const TF_SAVE_NO_REPLACE: u32 = 2;

/// `tf_convert` does not copy metadata.
pub const TF_SAVE_WITHOUT_METADATA: u32 = 4;
