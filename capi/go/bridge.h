// Functions between Go and tensorfile.h.
//
// Structs that hold pointers are built here, in C: Go may pass a pointer to Go memory as an argument, but not inside a
// struct. Handles of callbacks are numbers in Go, and pointers only in C, because the collector rejects small pointers.

#ifndef TENSORFILE_GO_BRIDGE_H
#define TENSORFILE_GO_BRIDGE_H

#include "tensorfile.h"

// tf_open_options without pointers. `progress` is a handle, or 0.
typedef struct tfgo_open_numbers {
    uint32_t flags;
    int32_t dequantize;
    uint64_t max_tensors, max_rank, max_shared, max_memory;
    uintptr_t progress;
} tfgo_open_numbers;

// tf_save_options without pointers. `progress` is a handle, or 0.
typedef struct tfgo_save_numbers {
    uint32_t flags;
    int32_t floats;
    uint64_t max_shard_bytes, alignment;
    uintptr_t progress;
} tfgo_save_numbers;

tf_status tfgo_open(const char *path, size_t path_len, const char *format, size_t format_len, const char *deny,
                    size_t deny_len, tfgo_open_numbers numbers, tf_file **file, tf_error **error);

// Owns `bytes`, which malloc returned.
tf_status tfgo_open_memory(void *bytes, size_t len, const char *format, size_t format_len, const char *deny,
                           size_t deny_len, tfgo_open_numbers numbers, tf_file **file, tf_error **error);

tf_status tfgo_open_source(const char *name, size_t name_len, uint64_t len, uintptr_t source, const char *format,
                           size_t format_len, const char *deny, size_t deny_len, tfgo_open_numbers numbers,
                           tf_file **file, tf_error **error);

tf_status tfgo_find(const tf_file *file, const char *name, size_t name_len, tf_tensor **tensor, tf_error **error);

// Names lie one after the other, and so do the dims of all tensors.
tf_status tfgo_report(const tf_file *file, const char *names, const size_t *name_lens, const int32_t *dtypes,
                      const size_t *dims, const size_t *ranks, size_t count, tf_report **report, tf_error **error);

tf_status tfgo_read(const tf_tensor *tensor, int32_t dtype, uint8_t *memory, size_t len, tf_error **error);

tf_status tfgo_slice(const tf_tensor *tensor, const tf_range *ranges, size_t rank, int32_t dtype, uint8_t *memory,
                     size_t len, const ptrdiff_t *strides, tf_error **error);

// Names and ranges lie one after the other. A part is a whole tensor if `whole` is not 0. No `ranks` means all tensors.
tf_status tfgo_plan(const tf_file *file, const char *names, const size_t *name_lens, const tf_range *ranges,
                    const size_t *ranks, const uint8_t *whole, size_t count, size_t align, uintptr_t progress,
                    tf_plan **plan, tf_error **error);

tf_status tfgo_plan_read(const tf_plan *plan, uint8_t *memory, size_t len, tf_error **error);

tf_status tfgo_dtype_find(const char *name, size_t name_len, int32_t *dtype, tf_error **error);

// `data` is C memory, which has to outlive the saves.
tf_status tfgo_writer_add(tf_writer *writer, const char *name, size_t name_len, int32_t dtype, const size_t *dims,
                          const ptrdiff_t *strides, size_t rank, const void *data, tf_error **error);

tf_status tfgo_writer_metadata(tf_writer *writer, const char *key, size_t key_len, const char *value,
                               size_t value_len, tf_error **error);

tf_status tfgo_save(const tf_writer *writer, const char *path, size_t path_len, const char *format,
                    size_t format_len, tfgo_save_numbers numbers, tf_error **error);

tf_status tfgo_write(const tf_writer *writer, uintptr_t sink, const char *format, size_t format_len,
                     tfgo_save_numbers numbers, tf_error **error);

tf_status tfgo_convert(const char *from, size_t from_len, const char *from_format, size_t from_format_len,
                       const char *deny, size_t deny_len, tfgo_open_numbers open, const char *to, size_t to_len,
                       const char *to_format, size_t to_format_len, tfgo_save_numbers save, tf_error **error);

#endif
