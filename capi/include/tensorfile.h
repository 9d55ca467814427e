#ifndef TENSORFILE_H
#define TENSORFILE_H

/* tensorfile.h: tensor files from C, C++ and Go. Made from the source of the crate `tensorfile-c` by cbindgen.
 *
 * Functions return TF_OK or the category of an error. If you pass an address for the error, it gets the cause, which you
 * free with tf_error_free; NULL is fine if you want the status only. On success it is not written.
 *
 * Handles, such as tf_file, are pointers to objects with a count. Close each that you got. A tensor and a plan keep their
 * file alive. Any number of threads may use a file, its tensors and its plans at once.
 *
 * Structs that begin with their size may get more fields in later versions; the others stay as they are. Structs that you
 * fill are made by a function, such as tf_open_options_default; in structs that are filled for you, you set the size:
 *
 *     tf_tensor_info info = {.size = sizeof info};
 *
 * NULL for a handle, wrong numbers, lengths that overflow, and a file that was closed while its tensors are open are errors.
 * Other pointers that are wrong cannot be told from right ones. Callbacks return; they do not throw or jump.
 *
 * Elements are little-endian, in files and in memory. */


#include <stddef.h>
#include <stdint.h>
#include <string.h>

/**
 * An offset that is not known.
 */
#define TF_NO_OFFSET UINT64_MAX

/**
 * The version of the binary interface. It is 0 as long as it may change with each release.
 */
#define TF_ABI_VERSION 0

/**
 * Read the file at positions, instead of mapping it into memory. Tensors cannot be viewed then. Use it for files that
 * other programs may truncate.
 */
#define TF_OPEN_POSITIONED 1

/**
 * Do not wait until the system has written the file to disk.
 */
#define TF_SAVE_NOT_DURABLE 1

/**
 * It is an error if the file exists.
 */
#define TF_SAVE_NO_REPLACE 2

/**
 * `tf_convert` does not copy metadata.
 */
#define TF_SAVE_WITHOUT_METADATA 4

/**
 * What a function returns: `TF_OK`, or the category of its error.
 */
enum tf_status
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
  /**
   * The function did what it says.
   */
  TF_OK = 0,
  /**
   * The file is malformed, or of no known format.
   */
  TF_FILE = 1,
  /**
   * The file does not have what was asked for.
   */
  TF_MISMATCH = 2,
  /**
   * The call is wrong, or asks for something that is not supported.
   */
  TF_CALL = 3,
  /**
   * The file exceeds a limit, or memory ran out.
   */
  TF_LIMIT = 4,
  /**
   * The system, a server or a callback reported an error.
   */
  TF_IO = 5,
  /**
   * A progress callback ended the call.
   */
  TF_CANCELLED = 6,
  /**
   * A mistake of this library. Please report it, with the message.
   */
  TF_INTERNAL = 7,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum tf_status tf_status;
#else
typedef int32_t tf_status;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

/**
 * The element types. The numbers never change, and new ones go to the end.
 *
 * `tf_dtype_get_info` returns the name of each, such as `f32`, and its size.
 */
enum tf_dtype
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
  /**
   * As an argument: the dtype of the file.
   */
  TF_DTYPE_STORED = 0,
  /**
   * One byte, 0 or 1.
   */
  TF_DTYPE_BOOL = 1,
  /**
   * Signed 8-bit integer.
   */
  TF_DTYPE_I8 = 2,
  /**
   * Signed 16-bit integer.
   */
  TF_DTYPE_I16 = 3,
  /**
   * Signed 32-bit integer.
   */
  TF_DTYPE_I32 = 4,
  /**
   * Signed 64-bit integer.
   */
  TF_DTYPE_I64 = 5,
  /**
   * Unsigned 8-bit integer.
   */
  TF_DTYPE_U8 = 6,
  /**
   * Unsigned 16-bit integer.
   */
  TF_DTYPE_U16 = 7,
  /**
   * Unsigned 32-bit integer.
   */
  TF_DTYPE_U32 = 8,
  /**
   * Unsigned 64-bit integer.
   */
  TF_DTYPE_U64 = 9,
  /**
   * IEEE 754 half precision.
   */
  TF_DTYPE_F16 = 10,
  /**
   * bfloat16: the upper half of an `f32`.
   */
  TF_DTYPE_BF16 = 11,
  /**
   * IEEE 754 single precision.
   */
  TF_DTYPE_F32 = 12,
  /**
   * IEEE 754 double precision.
   */
  TF_DTYPE_F64 = 13,
  /**
   * 8-bit float, 5 exponent bits, with infinities.
   */
  TF_DTYPE_F8_E5M2 = 14,
  /**
   * 8-bit float, 4 exponent bits, no infinities.
   */
  TF_DTYPE_F8_E4M3FN = 15,
  /**
   * 8-bit float, 5 exponent bits, no infinities, no negative zero.
   */
  TF_DTYPE_F8_E5M2FNUZ = 16,
  /**
   * 8-bit float, 4 exponent bits, no infinities, no negative zero.
   */
  TF_DTYPE_F8_E4M3FNUZ = 17,
  /**
   * Quantized signed 8-bit integer; opaque.
   */
  TF_DTYPE_QINT8 = 18,
  /**
   * Quantized unsigned 8-bit integer; opaque.
   */
  TF_DTYPE_QUINT8 = 19,
  /**
   * Quantized signed 32-bit integer; opaque.
   */
  TF_DTYPE_QINT32 = 20,
  /**
   * Quantized unsigned 4-bit integers, two to a byte; opaque. ExecuTorch counts bytes as elements.
   */
  TF_DTYPE_QUINT4X2 = 21,
  /**
   * Quantized unsigned 2-bit integers, four to a byte; opaque. ExecuTorch counts bytes as elements.
   */
  TF_DTYPE_QUINT2X4 = 22,
  /**
   * 16 uninterpreted bits.
   */
  TF_DTYPE_BITS16 = 23,
  /**
   * 8-bit power of two: 8 exponent bits, no sign, no zero, no infinities. The scales of MX formats.
   */
  TF_DTYPE_F8_E8M0 = 24,
  /**
   * 4-bit floats, E2M1, two to a byte; opaque.
   */
  TF_DTYPE_F4 = 25,
  /**
   * 6-bit floats, 2 exponent bits, four to three bytes; opaque.
   */
  TF_DTYPE_F6_E2M3 = 26,
  /**
   * 6-bit floats, 3 exponent bits, four to three bytes; opaque.
   */
  TF_DTYPE_F6_E3M2 = 27,
  /**
   * Complex number of two `f32`, the real part first.
   */
  TF_DTYPE_C64 = 28,
  /**
   * Complex number of two `f64`, the real part first.
   */
  TF_DTYPE_C128 = 29,
  /**
   * ggml's `q4_0`: 32 weights in 18 bytes; opaque.
   */
  TF_DTYPE_Q4_0 = 30,
  /**
   * ggml's `q4_1`: 32 weights in 20 bytes; opaque.
   */
  TF_DTYPE_Q4_1 = 31,
  /**
   * ggml's `q5_0`: 32 weights in 22 bytes; opaque.
   */
  TF_DTYPE_Q5_0 = 32,
  /**
   * ggml's `q5_1`: 32 weights in 24 bytes; opaque.
   */
  TF_DTYPE_Q5_1 = 33,
  /**
   * ggml's `q8_0`: 32 weights in 34 bytes; opaque.
   */
  TF_DTYPE_Q8_0 = 34,
  /**
   * ggml's `q8_1`: 32 weights in 36 bytes; opaque.
   */
  TF_DTYPE_Q8_1 = 35,
  /**
   * ggml's `q2_k`: 256 weights in 84 bytes; opaque.
   */
  TF_DTYPE_Q2_K = 36,
  /**
   * ggml's `q3_k`: 256 weights in 110 bytes; opaque.
   */
  TF_DTYPE_Q3_K = 37,
  /**
   * ggml's `q4_k`: 256 weights in 144 bytes; opaque.
   */
  TF_DTYPE_Q4_K = 38,
  /**
   * ggml's `q5_k`: 256 weights in 176 bytes; opaque.
   */
  TF_DTYPE_Q5_K = 39,
  /**
   * ggml's `q6_k`: 256 weights in 210 bytes; opaque.
   */
  TF_DTYPE_Q6_K = 40,
  /**
   * ggml's `q8_k`: 256 weights in 292 bytes; opaque.
   */
  TF_DTYPE_Q8_K = 41,
  /**
   * ggml's `iq2_xxs`: 256 weights in 66 bytes; opaque.
   */
  TF_DTYPE_IQ2_XXS = 42,
  /**
   * ggml's `iq2_xs`: 256 weights in 74 bytes; opaque.
   */
  TF_DTYPE_IQ2_XS = 43,
  /**
   * ggml's `iq3_xxs`: 256 weights in 98 bytes; opaque.
   */
  TF_DTYPE_IQ3_XXS = 44,
  /**
   * ggml's `iq1_s`: 256 weights in 50 bytes; opaque.
   */
  TF_DTYPE_IQ1_S = 45,
  /**
   * ggml's `iq4_nl`: 32 weights in 18 bytes; opaque.
   */
  TF_DTYPE_IQ4_NL = 46,
  /**
   * ggml's `iq3_s`: 256 weights in 110 bytes; opaque.
   */
  TF_DTYPE_IQ3_S = 47,
  /**
   * ggml's `iq2_s`: 256 weights in 82 bytes; opaque.
   */
  TF_DTYPE_IQ2_S = 48,
  /**
   * ggml's `iq4_xs`: 256 weights in 136 bytes; opaque.
   */
  TF_DTYPE_IQ4_XS = 49,
  /**
   * ggml's `iq1_m`: 256 weights in 56 bytes; opaque.
   */
  TF_DTYPE_IQ1_M = 50,
  /**
   * ggml's `tq1_0`: 256 weights in 54 bytes; opaque.
   */
  TF_DTYPE_TQ1_0 = 51,
  /**
   * ggml's `tq2_0`: 256 weights in 66 bytes; opaque.
   */
  TF_DTYPE_TQ2_0 = 52,
  /**
   * ggml's `mxfp4`: 32 weights in 17 bytes; opaque.
   */
  TF_DTYPE_MXFP4 = 53,
  /**
   * ggml's `nvfp4`: 64 weights in 36 bytes; opaque.
   */
  TF_DTYPE_NVFP4 = 54,
  /**
   * ggml's `q1_0`: 128 weights in 18 bytes; opaque.
   */
  TF_DTYPE_Q1_0 = 55,
  /**
   * ggml's `q2_0`: 64 weights in 18 bytes; opaque.
   */
  TF_DTYPE_Q2_0 = 56,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum tf_dtype tf_dtype;
#else
typedef int32_t tf_dtype;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

/**
 * The order of a tensor's elements in its file.
 */
enum tf_layout
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
  /**
   * Dense; the last dim is innermost.
   */
  TF_LAYOUT_ROW_MAJOR = 0,
  /**
   * Dense, with the dims in another order: see the strides.
   */
  TF_LAYOUT_DIM_ORDER = 1,
  /**
   * Sparse: the indices of each element, 64 bits for each dim, then their number in 64 bits, then the elements.
   */
  TF_LAYOUT_COO = 2,
  /**
   * Named bytes that are not a tensor.
   */
  TF_LAYOUT_BLOB = 3,
  /**
   * A tensor of an unknown dtype, or a damaged one. Its bytes can be read as they are stored.
   */
  TF_LAYOUT_UNKNOWN = 4,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum tf_layout tf_layout;
#else
typedef int32_t tf_layout;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

/**
 * An error, which you free with `tf_error_free`.
 */
typedef struct tf_error tf_error;

/**
 * An open file. Any number of threads may use it at once. Its tensors and plans keep it alive when you close it.
 */
typedef struct tf_file tf_file;

/**
 * Tensors and parts of tensors that are read together, with several threads. It keeps its file alive.
 */
typedef struct tf_plan tf_plan;

/**
 * A comparison of a file with the tensors that you expect. Free it with `tf_report_free`.
 */
typedef struct tf_report tf_report;

/**
 * A tensor of an open file, which it keeps alive. Any number of threads may use it at once.
 */
typedef struct tf_tensor tf_tensor;

/**
 * Named tensors in your memory, and metadata, to be written to files. Use it from one thread at a time.
 */
typedef struct tf_writer tf_writer;

/**
 * Text in UTF-8 with its length. It does not end with a NUL. `tf_str` makes it from a C string.
 *
 * Text that you pass only has to live until the function returns. Text that you get belongs to the object it is about
 * and lives as long.
 */
typedef struct tf_text {
  /**
   * The first byte. It may be `NULL` if the length is 0.
   */
  const char *data;
  /**
   * The number of bytes.
   */
  size_t len;
} tf_text;

/**
 * Is called as bytes are read or written: `bytes` so far, of `total`. Return 0 to go on, and anything else to end the
 * call with `TF_CANCELLED`. The calls may come from another thread, one at a time.
 */
typedef int (*tf_progress)(void *context, uint64_t bytes, uint64_t total);

/**
 * How to open a file. Make it with `tf_open_options_default`, which sets the size; 0 elsewhere means the default.
 */
typedef struct tf_open_options {
  /**
   * `sizeof(tf_open_options)`.
   */
  size_t size;
  /**
   * The name of the format, such as `safetensors`. By default, it is found by the content, or else by the name.
   */
  struct tf_text format;
  /**
   * `TF_OPEN_POSITIONED`, or 0.
   */
  uint32_t flags;
  /**
   * Decode quantized weights to this `tf_dtype`: f32, bf16 or f16. Decoded weights take the place of their codes and
   * scales, and cannot be viewed.
   */
  int32_t dequantize;
  /**
   * Kinds of warnings that are errors, separated by commas, such as `left-out,unknown-dtype`; or `all`.
   */
  struct tf_text deny_warnings;
  /**
   * The most tensors in the file.
   */
  uint64_t max_tensors;
  /**
   * The most dims of a tensor.
   */
  uint64_t max_rank;
  /**
   * The most bytes that tensors may have more than the file, by sharing bytes.
   */
  uint64_t max_shared;
  /**
   * The most bytes that one call may read, as they are stored, and that the index may take.
   */
  uint64_t max_memory;
  /**
   * Is called while plans are read, and whole tensors that are not cast.
   */
  tf_progress progress;
  /**
   * Is passed to `progress`. It lives as long as the file, its tensors and its plans.
   */
  void *progress_context;
} tf_open_options;

/**
 * Is called once when bytes or callbacks that you lent are not used any more.
 */
typedef void (*tf_release)(void *context);

/**
 * Fills `bytes` with the `len` bytes of a source from `offset` on. Return 0, or a number of `errno`. The range lies within
 * the source. Several threads may call it at once.
 */
typedef int (*tf_read_at)(void *context, uint64_t offset, void *bytes, size_t len);

/**
 * A source of bytes: an object in a store, a cache, an encrypted file.
 */
typedef struct tf_source {
  /**
   * `sizeof(tf_source)`.
   */
  size_t size;
  /**
   * The name for messages. Its extension decides the format if the content does not. It may be empty.
   */
  struct tf_text name;
  /**
   * The number of bytes.
   */
  uint64_t len;
  /**
   * Reads bytes.
   */
  tf_read_at read_at;
  /**
   * Is called when the last handle of the file and its tensors is closed, or if the file cannot be opened. It may be
   * `NULL`.
   */
  tf_release release;
  /**
   * Is passed to both.
   */
  void *context;
} tf_source;

/**
 * What is known of an open file.
 */
typedef struct tf_file_info {
  /**
   * `sizeof(tf_file_info)`, set by you.
   */
  size_t size;
  /**
   * The name of the format, such as `gguf`.
   */
  struct tf_text format;
  /**
   * The number of tensors.
   */
  size_t tensors;
  /**
   * The number of bytes of the file, or of all its shards.
   */
  uint64_t bytes;
} tf_file_info;

/**
 * A key and a value of a file's metadata.
 */
typedef struct tf_entry {
  /**
   * The key, which is unique in its file.
   */
  struct tf_text key;
  /**
   * The value as text. Values of GGUF that are numbers or lists are JSON.
   */
  struct tf_text value;
} tf_entry;

/**
 * An oddity of a file that can be read.
 */
typedef struct tf_warning {
  /**
   * The kind, such as `left-out` or `unknown-dtype`.
   */
  struct tf_text kind;
  /**
   * The sentence to show.
   */
  struct tf_text message;
  /**
   * The name of the tensor; empty if the warning is about the file.
   */
  struct tf_text tensor;
  /**
   * The offset in the file in bytes, or `TF_NO_OFFSET`.
   */
  uint64_t offset;
} tf_warning;

/**
 * A tensor that a file should have.
 */
typedef struct tf_expected {
  /**
   * The name.
   */
  struct tf_text name;
  /**
   * The `tf_dtype`.
   */
  int32_t dtype;
  /**
   * The number of dims.
   */
  size_t rank;
  /**
   * The dims, in elements.
   */
  const size_t *dims;
} tf_expected;

/**
 * A comparison of a file with the tensors that you expect.
 */
typedef struct tf_report_info {
  /**
   * `sizeof(tf_report_info)`, set by you.
   */
  size_t size;
  /**
   * The number of differences; 0 if the file fits.
   */
  size_t differences;
  /**
   * The report as text, one line for each difference.
   */
  struct tf_text text;
  /**
   * The report as JSON.
   */
  struct tf_text json;
} tf_report_info;

/**
 * The cause of an error.
 */
typedef struct tf_error_info {
  /**
   * `sizeof(tf_error_info)`, set by you.
   */
  size_t size;
  /**
   * The status that the function returned.
   */
  int32_t status;
  /**
   * The kind: a variant of `ErrorKind` of the crate `tensorfile` in lower case, such as `truncated`, `missing` or
   * `not-tensors`; or `argument` for a wrong call.
   */
  struct tf_text kind;
  /**
   * The message to show. It names the file, the tensor and the offset.
   */
  struct tf_text message;
  /**
   * The name of the tensor; empty if the error is not about one.
   */
  struct tf_text tensor;
  /**
   * The offset in the file in bytes, or `TF_NO_OFFSET`.
   */
  uint64_t offset;
  /**
   * The number of the system's error, as in `errno`; 0 if there is none.
   */
  int os_error;
} tf_error_info;

/**
 * A dtype.
 */
typedef struct tf_dtype_info {
  /**
   * `sizeof(tf_dtype_info)`, set by you.
   */
  size_t size;
  /**
   * The name, such as `f32`.
   */
  struct tf_text name;
  /**
   * The number of elements in a block: 1 for most dtypes.
   */
  size_t block_elements;
  /**
   * The number of bytes of a block.
   */
  size_t block_bytes;
} tf_dtype_info;

/**
 * The indices `start` to `end`, without `end`, along one dim.
 */
typedef struct tf_range {
  /**
   * The first index.
   */
  size_t start;
  /**
   * One more than the last index.
   */
  size_t end;
} tf_range;

/**
 * A tensor, or a part of one, to be read by a plan.
 */
typedef struct tf_part {
  /**
   * The name of the tensor, or its position in digits if it has no name.
   */
  struct tf_text name;
  /**
   * A range for each dim; `NULL` for the whole tensor.
   */
  const struct tf_range *ranges;
  /**
   * The number of ranges.
   */
  size_t rank;
} tf_part;

/**
 * How to plan. Make it with `tf_plan_options_default`, which sets the size; 0 elsewhere means the default.
 */
typedef struct tf_plan_options {
  /**
   * `sizeof(tf_plan_options)`.
   */
  size_t size;
  /**
   * The alignment of each piece from the start of the memory, in bytes. The default is 64.
   */
  size_t align;
  /**
   * Is called while the plan is read.
   */
  tf_progress progress;
  /**
   * Is passed to `progress`. It lives as long as the plan.
   */
  void *progress_context;
} tf_plan_options;

/**
 * What is known of a plan.
 */
typedef struct tf_plan_info {
  /**
   * `sizeof(tf_plan_info)`, set by you.
   */
  size_t size;
  /**
   * The number of pieces: one for each part, or for each tensor of the file.
   */
  size_t pieces;
  /**
   * The length of the memory for all of them, in bytes.
   */
  size_t bytes;
  /**
   * The number of bytes that will be read from the file.
   */
  uint64_t bytes_read;
} tf_plan_info;

/**
 * A piece of a plan.
 */
typedef struct tf_piece {
  /**
   * `sizeof(tf_piece)`, set by you.
   */
  size_t size;
  /**
   * The name of the tensor.
   */
  struct tf_text name;
  /**
   * The `tf_dtype`.
   */
  int32_t dtype;
  /**
   * The `tf_layout` in memory.
   */
  int32_t layout;
  /**
   * The number of dims.
   */
  size_t rank;
  /**
   * The dims, in elements.
   */
  const size_t *dims;
  /**
   * The offset in the memory of `tf_plan_read`.
   */
  size_t offset;
  /**
   * The number of bytes.
   */
  size_t bytes;
} tf_piece;

/**
 * What is known of a tensor, without reading its elements.
 */
typedef struct tf_tensor_info {
  /**
   * `sizeof(tf_tensor_info)`, set by you.
   */
  size_t size;
  /**
   * The name, or the position in digits if the tensor has no name.
   */
  struct tf_text name;
  /**
   * The `tf_dtype`. If `unknown_dtype` has text, it is `TF_DTYPE_U8` and means nothing.
   */
  int32_t dtype;
  /**
   * A `tf_layout`.
   */
  int32_t layout;
  /**
   * The number of dims.
   */
  size_t rank;
  /**
   * The dims, in elements.
   */
  const size_t *dims;
  /**
   * The distance of neighbours along each dim in bytes, as `tf_view` has the elements. `NULL` for sparse tensors,
   * unknown dtypes and dtypes with several elements in a block.
   */
  const ptrdiff_t *strides;
  /**
   * The number of bytes of the elements, decoded.
   */
  size_t bytes;
  /**
   * The offset of the elements in their file, or of the compressed bytes of an archive. If they are in several places, as a trainer saves them, it is
   * `TF_NO_OFFSET`.
   */
  uint64_t offset;
  /**
   * The largest power of two, up to 4096, that divides the offset. The address of a view of a mapped file is a
   * multiple of it. It is 1 if there is no offset.
   */
  size_t alignment;
  /**
   * The name of a dtype that this library does not know, as in the file; mostly empty.
   */
  struct tf_text unknown_dtype;
} tf_tensor_info;

/**
 * A tensor in your memory, to be written.
 */
typedef struct tf_array {
  /**
   * `sizeof(tf_array)`.
   */
  size_t size;
  /**
   * The name.
   */
  struct tf_text name;
  /**
   * The `tf_dtype`.
   */
  int32_t dtype;
  /**
   * The number of dims.
   */
  size_t rank;
  /**
   * The dims, in elements.
   */
  const size_t *dims;
  /**
   * The distance of neighbours along each dim in bytes; `NULL` if the elements lie in row-major order without gaps.
   * Distances may be negative, or 0 to repeat an element.
   */
  const ptrdiff_t *strides;
  /**
   * The element at index 0 of each dim.
   */
  const void *data;
} tf_array;

/**
 * How to save. Make it with `tf_save_options_default`, which sets the size; 0 elsewhere means the default.
 */
typedef struct tf_save_options {
  /**
   * `sizeof(tf_save_options)`.
   */
  size_t size;
  /**
   * The name of the format. By default, the extension of the path names it.
   */
  struct tf_text format;
  /**
   * `TF_SAVE_NOT_DURABLE`, `TF_SAVE_NO_REPLACE`, `TF_SAVE_WITHOUT_METADATA`, or several with `|`.
   */
  uint32_t flags;
  /**
   * Cast tensors of floats to this `tf_dtype`.
   */
  int32_t floats;
  /**
   * Write shards of at most this number of bytes, and their index.
   */
  uint64_t max_shard_bytes;
  /**
   * The alignment of the elements in the file in bytes, for formats that have one.
   */
  uint64_t alignment;
  /**
   * Is called while bytes are written.
   */
  tf_progress progress;
  /**
   * Is passed to `progress`.
   */
  void *progress_context;
} tf_save_options;

/**
 * Takes the next `len` bytes of a file. Return 0, or a number of `errno`.
 */
typedef int (*tf_sink)(void *context, const void *bytes, size_t len);

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * Opens a file, an index of shards or a folder of a trainer. If the library was built for it, `path` may be a URL.
 *
 * Only the index is read. The file is mapped into memory when a tensor is first viewed. Close `*file` with
 * `tf_file_close`. `options` may be `NULL`.
 */
tf_status tf_open(struct tf_text path,
                  const struct tf_open_options *options,
                  struct tf_file **file,
                  struct tf_error **error);

/**
 * Opens a file in memory, without a copy. The bytes must stay as they are until the file, its tensors and its plans are
 * closed. Then `release` is called with `context`; it may be `NULL`. It is called after an error too.
 */
tf_status tf_open_memory(const void *bytes,
                         size_t len,
                         tf_release release,
                         void *context,
                         const struct tf_open_options *options,
                         struct tf_file **file,
                         struct tf_error **error);

/**
 * Opens a file whose bytes your own function reads. The source is copied; it is released after an error too.
 */
tf_status tf_open_source(const struct tf_source *source,
                         const struct tf_open_options *options,
                         struct tf_file **file,
                         struct tf_error **error);

/**
 * Adds a handle of the same file, so that it has to be closed once more.
 */
tf_status tf_file_retain(struct tf_file *file);

/**
 * Closes a file. Its tensors and plans keep its bytes until they are closed. `NULL` is passed over.
 */
void tf_file_close(struct tf_file *file);

/**
 * Fills `info` with the format of the file and the number of its tensors.
 */
tf_status tf_file_get_info(const struct tf_file *file, struct tf_file_info *info, struct tf_error **error);

/**
 * Returns the tensor at a position, from 0, in the order of the file. Close `*tensor` with `tf_tensor_close`.
 */
tf_status tf_file_tensor(const struct tf_file *file,
                         size_t position,
                         struct tf_tensor **tensor,
                         struct tf_error **error);

/**
 * Finds the tensor with a name; a tensor without a name has its position in digits. If there is none, the error's
 * message has names of the file, similar ones first. Close `*tensor` with `tf_tensor_close`.
 */
tf_status tf_file_find(const struct tf_file *file,
                       struct tf_text name,
                       struct tf_tensor **tensor,
                       struct tf_error **error);

/**
 * Returns the metadata, as an array in the order of the file. It lives as long as the file.
 */
tf_status tf_file_metadata(const struct tf_file *file,
                           const struct tf_entry **entries,
                           size_t *count,
                           struct tf_error **error);

/**
 * Returns the warnings about the file, as an array: parts that were left out, unknown dtypes, repeated names and
 * others. It lives as long as the file.
 */
tf_status tf_file_warnings(const struct tf_file *file,
                           const struct tf_warning **warnings,
                           size_t *count,
                           struct tf_error **error);

/**
 * Compares the file with the `count` tensors that you expect: names, dtypes and shapes. No element is read. That they
 * differ is no error; see `tf_report_get_info`. Free `*report` with `tf_report_free`.
 */
tf_status tf_file_report(const struct tf_file *file,
                         const struct tf_expected *expected,
                         size_t count,
                         struct tf_report **report,
                         struct tf_error **error);

/**
 * Fills `info` with a report. Its texts live until the report is freed.
 */
tf_status tf_report_get_info(const struct tf_report *report, struct tf_report_info *info, struct tf_error **error);

/**
 * Frees a report. `NULL` is passed over.
 */
void tf_report_free(struct tf_report *report);

/**
 * Returns `TF_ABI_VERSION` of the library. If it differs from that of the header, the two do not fit together.
 */
uint32_t tf_abi_version(void);

/**
 * Returns the version of the library, such as `0.1.0`. It ends with a NUL and is never freed.
 */
const char *tf_version(void);

/**
 * Fills `info` with the cause of an error. Its texts live until the error is freed.
 */
tf_status tf_error_get_info(const struct tf_error *error, struct tf_error_info *info);

/**
 * Frees an error. `NULL` is passed over.
 */
void tf_error_free(struct tf_error *error);

/**
 * Fills `info` with the name and the size of a dtype. The name is never freed.
 */
tf_status tf_dtype_get_info(int32_t dtype, struct tf_dtype_info *info, struct tf_error **error);

/**
 * Finds the dtype with a name, such as `f32`.
 */
tf_status tf_dtype_find(struct tf_text name, int32_t *dtype, struct tf_error **error);

/**
 * Plans to read `count` tensors and parts of tensors together; all tensors of the file if `parts` is `NULL`. No element
 * is read yet. Free `*plan` with `tf_plan_free`. `options` may be `NULL`.
 */
tf_status tf_plan_new(const struct tf_file *file,
                      const struct tf_part *parts,
                      size_t count,
                      const struct tf_plan_options *options,
                      struct tf_plan **plan,
                      struct tf_error **error);

/**
 * Frees a plan. `NULL` is passed over.
 */
void tf_plan_free(struct tf_plan *plan);

/**
 * Fills `info` with the number of pieces, and the length of the memory for them.
 */
tf_status tf_plan_get_info(const struct tf_plan *plan, struct tf_plan_info *info, struct tf_error **error);

/**
 * Fills `piece` with the piece at an index, from 0. What it points to lives as long as the plan.
 */
tf_status tf_plan_piece(const struct tf_plan *plan, size_t index, struct tf_piece *piece, struct tf_error **error);

/**
 * Reads all pieces into one memory, such as a pinned one, each at its offset. `len` is at least the length of the plan. Bytes between the pieces stay as they are.
 * After an error, or `TF_CANCELLED`, the memory is undefined.
 */
tf_status tf_plan_read(const struct tf_plan *plan,
                       void *memory,
                       size_t len,
                       struct tf_error **error);

/**
 * Reads each piece into a memory of its own: `memories[i]` has exactly the bytes of piece `i`. They do not overlap.
 */
tf_status tf_plan_read_each(const struct tf_plan *plan, void *const *memories, size_t count, struct tf_error **error);

/**
 * Sets the most threads that the library uses in this process, at least 1. The results are the same with any number.
 */
tf_status tf_set_max_threads(size_t threads);

/**
 * Adds a handle of the same tensor, so that it has to be closed once more.
 */
tf_status tf_tensor_retain(struct tf_tensor *tensor);

/**
 * Closes a tensor. The bytes of its view end with it. `NULL` is passed over.
 */
void tf_tensor_close(struct tf_tensor *tensor);

/**
 * Fills `info` with the name, the dtype and the shape of a tensor. What it points to lives as long as the tensor.
 */
tf_status tf_tensor_get_info(const struct tf_tensor *tensor, struct tf_tensor_info *info, struct tf_error **error);

/**
 * Returns the elements without a copy, in the order of the file: see the strides of `tf_tensor_get_info`. The bytes live
 * until the tensor is closed. If `alignment` there is less than an element needs, read single elements with `memcpy`.
 *
 * A file on disk is mapped privately: if you cast the `const` away and write, the change stays in this process, and
 * views of the same file share it. Tensors that are compressed, decoded, in several places, or of a file that is read at
 * positions cannot be viewed; neither can bools of a mapped file, because other programs may change them to bytes that
 * are not bools. The error says so, and `tf_read` reads them.
 */
tf_status tf_view(const struct tf_tensor *tensor,
                  const void **bytes,
                  size_t *len,
                  struct tf_error **error);

/**
 * Reads all elements into your memory, in row-major order without gaps. `len` is exactly the number of bytes they take.
 *
 * `dtype` is a `tf_dtype` to cast numbers to, or `TF_DTYPE_STORED`. Each number becomes the nearest one, so that integers
 * out of range become the largest or the smallest. The codes of quantized
 * weights are not cast: that is an error. Sparse tensors and those of unknown dtypes are read as they are stored. After
 * an error, the memory is undefined.
 */
tf_status tf_read(const struct tf_tensor *tensor,
                  int32_t dtype,
                  void *memory,
                  size_t len,
                  struct tf_error **error);

/**
 * Reads a part of a tensor into your memory: `rank` ranges, one for each dim. Otherwise as `tf_read`.
 *
 * `strides` has the distance of neighbours along each dim in your memory, in bytes; `NULL` is row-major order without
 * gaps, and then `len` is exact. With strides, bytes between the elements stay as they are. Strides are not negative,
 * and put no element over another.
 */
tf_status tf_slice(const struct tf_tensor *tensor,
                   const struct tf_range *ranges,
                   size_t rank,
                   int32_t dtype,
                   void *memory,
                   size_t len,
                   const ptrdiff_t *strides,
                   struct tf_error **error);

/**
 * Makes a writer without tensors. Free `*writer` with `tf_writer_free`.
 */
tf_status tf_writer_new(struct tf_writer **writer, struct tf_error **error);

/**
 * Frees a writer. `NULL` is passed over.
 */
void tf_writer_free(struct tf_writer *writer);

/**
 * Adds a tensor. Its elements are not copied: they must stay as they are until the last save with this writer. Name,
 * dims and strides are copied.
 */
tf_status tf_writer_add(struct tf_writer *writer, const struct tf_array *array, struct tf_error **error);

/**
 * Sets an entry of the metadata. A later one with the same key replaces it.
 */
tf_status tf_writer_metadata(struct tf_writer *writer,
                             struct tf_text key,
                             struct tf_text value,
                             struct tf_error **error);

/**
 * Saves the tensors as a file. It replaces an existing one only when it is complete, and on disk; otherwise the old file
 * stays, and there is no part of a new one. `options` may be `NULL`.
 *
 * What the format cannot store is an error before anything is written.
 */
tf_status tf_save(const struct tf_writer *writer,
                  struct tf_text path,
                  const struct tf_save_options *options,
                  struct tf_error **error);

/**
 * Passes the file to `sink` piece by piece, in order. `format` of the options has to name the format.
 */
tf_status tf_write(const struct tf_writer *writer,
                   tf_sink sink,
                   void *context,
                   const struct tf_save_options *options,
                   struct tf_error **error);

/**
 * Copies all tensors and the metadata of a file to another file, in pieces. The formats are those of the extensions, or of
 * the options, which may be `NULL`. Both may be the same file.
 *
 * Metadata that the new format cannot store is an error; `TF_SAVE_WITHOUT_METADATA` leaves it out.
 */
tf_status tf_convert(struct tf_text from,
                     const struct tf_open_options *open,
                     struct tf_text to,
                     const struct tf_save_options *save,
                     struct tf_error **error);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

/** Returns a C string as text. It is not copied. */
static inline tf_text tf_str(const char *string) {
    tf_text text;
    text.data = string;
    text.len = string ? strlen(string) : 0;
    return text;
}

/** Returns options for opening a file, all of them defaults. */
static inline tf_open_options tf_open_options_default(void) {
    tf_open_options options;
    memset(&options, 0, sizeof options);
    options.size = sizeof options;
    return options;
}

/** Returns options for a plan, all of them defaults. */
static inline tf_plan_options tf_plan_options_default(void) {
    tf_plan_options options;
    memset(&options, 0, sizeof options);
    options.size = sizeof options;
    return options;
}

/** Returns options for a save, all of them defaults. */
static inline tf_save_options tf_save_options_default(void) {
    tf_save_options options;
    memset(&options, 0, sizeof options);
    options.size = sizeof options;
    return options;
}

#endif /* TENSORFILE_H */
