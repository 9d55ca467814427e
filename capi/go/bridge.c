#include "bridge.h"

#include <stdlib.h>

#include "_cgo_export.h"

static int on_progress(void *context, uint64_t bytes, uint64_t total) {
    return tfgoProgress((uintptr_t)context, bytes, total);
}

static int on_read_at(void *context, uint64_t offset, void *bytes, size_t len) {
    return tfgoReadAt((uintptr_t)context, offset, bytes, len);
}

static int on_write(void *context, const void *bytes, size_t len) {
    return tfgoWrite((uintptr_t)context, (void *)bytes, len);
}

static void on_release(void *context) { tfgoRelease((uintptr_t)context); }

static tf_text text(const char *data, size_t len) {
    tf_text text = {data, len};
    return text;
}

static tf_open_options open_options(const char *format, size_t format_len, const char *deny, size_t deny_len,
                                    tfgo_open_numbers numbers) {
    tf_open_options options = tf_open_options_default();
    options.format = text(format, format_len);
    options.deny_warnings = text(deny, deny_len);
    options.flags = numbers.flags;
    options.dequantize = numbers.dequantize;
    options.max_tensors = numbers.max_tensors;
    options.max_rank = numbers.max_rank;
    options.max_shared = numbers.max_shared;
    options.max_memory = numbers.max_memory;
    if (numbers.progress) {
        options.progress = on_progress;
        options.progress_context = (void *)numbers.progress;
    }
    return options;
}

static tf_save_options save_options(const char *format, size_t format_len, tfgo_save_numbers numbers) {
    tf_save_options options = tf_save_options_default();
    options.format = text(format, format_len);
    options.flags = numbers.flags;
    options.floats = numbers.floats;
    options.max_shard_bytes = numbers.max_shard_bytes;
    options.alignment = numbers.alignment;
    if (numbers.progress) {
        options.progress = on_progress;
        options.progress_context = (void *)numbers.progress;
    }
    return options;
}

tf_status tfgo_open(const char *path, size_t path_len, const char *format, size_t format_len, const char *deny,
                    size_t deny_len, tfgo_open_numbers numbers, tf_file **file, tf_error **error) {
    tf_open_options options = open_options(format, format_len, deny, deny_len, numbers);
    return tf_open(text(path, path_len), &options, file, error);
}

tf_status tfgo_open_memory(void *bytes, size_t len, const char *format, size_t format_len, const char *deny,
                           size_t deny_len, tfgo_open_numbers numbers, tf_file **file, tf_error **error) {
    tf_open_options options = open_options(format, format_len, deny, deny_len, numbers);
    return tf_open_memory(bytes, len, free, bytes, &options, file, error);
}

tf_status tfgo_open_source(const char *name, size_t name_len, uint64_t len, uintptr_t handle, const char *format,
                           size_t format_len, const char *deny, size_t deny_len, tfgo_open_numbers numbers,
                           tf_file **file, tf_error **error) {
    tf_open_options options = open_options(format, format_len, deny, deny_len, numbers);
    tf_source source = {0};
    source.size = sizeof source;
    source.name = text(name, name_len);
    source.len = len;
    source.read_at = on_read_at;
    source.release = on_release;
    source.context = (void *)handle;
    return tf_open_source(&source, &options, file, error);
}

tf_status tfgo_find(const tf_file *file, const char *name, size_t name_len, tf_tensor **tensor, tf_error **error) {
    return tf_file_find(file, text(name, name_len), tensor, error);
}

// Returns zeroed memory for at least one item. Like Go, it ends the program if there is none.
static void *items(size_t count, size_t size) {
    void *memory = calloc(count ? count : 1, size);
    if (!memory) abort();
    return memory;
}

tf_status tfgo_report(const tf_file *file, const char *names, const size_t *name_lens, const int32_t *dtypes,
                      const size_t *dims, const size_t *ranks, size_t count, tf_report **report, tf_error **error) {
    tf_expected *expected = items(count, sizeof *expected);
    for (size_t i = 0; i < count; i++) {
        expected[i].name = text(names, name_lens[i]);
        expected[i].dtype = dtypes[i];
        expected[i].rank = ranks[i];
        expected[i].dims = dims;
        names += name_lens[i];
        dims += ranks[i];
    }
    tf_status status = tf_file_report(file, expected, count, report, error);
    free(expected);
    return status;
}

tf_status tfgo_read(const tf_tensor *tensor, int32_t dtype, uint8_t *memory, size_t len, tf_error **error) {
    return tf_read(tensor, dtype, memory, len, error);
}

tf_status tfgo_slice(const tf_tensor *tensor, const tf_range *ranges, size_t rank, int32_t dtype, uint8_t *memory,
                     size_t len, const ptrdiff_t *strides, tf_error **error) {
    return tf_slice(tensor, ranges, rank, dtype, memory, len, strides, error);
}

tf_status tfgo_plan(const tf_file *file, const char *names, const size_t *name_lens, const tf_range *ranges,
                    const size_t *ranks, const uint8_t *whole, size_t count, size_t align, uintptr_t progress,
                    tf_plan **plan, tf_error **error) {
    tf_plan_options options = tf_plan_options_default();
    options.align = align;
    if (progress) {
        options.progress = on_progress;
        options.progress_context = (void *)progress;
    }
    if (!ranks) return tf_plan_new(file, NULL, 0, &options, plan, error);
    tf_range none = {0, 0};
    tf_part *parts = items(count, sizeof *parts);
    for (size_t i = 0; i < count; i++) {
        parts[i].name = text(names, name_lens[i]);
        names += name_lens[i];
        if (whole[i]) continue;
        parts[i].ranges = ranks[i] ? ranges : &none;
        parts[i].rank = ranks[i];
        ranges += ranks[i];
    }
    tf_status status = tf_plan_new(file, parts, count, &options, plan, error);
    free(parts);
    return status;
}

tf_status tfgo_plan_read(const tf_plan *plan, uint8_t *memory, size_t len, tf_error **error) {
    return tf_plan_read(plan, memory, len, error);
}

tf_status tfgo_dtype_find(const char *name, size_t name_len, int32_t *dtype, tf_error **error) {
    return tf_dtype_find(text(name, name_len), dtype, error);
}

tf_status tfgo_writer_add(tf_writer *writer, const char *name, size_t name_len, int32_t dtype, const size_t *dims,
                          const ptrdiff_t *strides, size_t rank, const void *data, tf_error **error) {
    tf_array array = {0};
    array.size = sizeof array;
    array.name = text(name, name_len);
    array.dtype = dtype;
    array.rank = rank;
    array.dims = dims;
    array.strides = strides;
    array.data = data;
    return tf_writer_add(writer, &array, error);
}

tf_status tfgo_writer_metadata(tf_writer *writer, const char *key, size_t key_len, const char *value,
                               size_t value_len, tf_error **error) {
    return tf_writer_metadata(writer, text(key, key_len), text(value, value_len), error);
}

tf_status tfgo_save(const tf_writer *writer, const char *path, size_t path_len, const char *format,
                    size_t format_len, tfgo_save_numbers numbers, tf_error **error) {
    tf_save_options options = save_options(format, format_len, numbers);
    return tf_save(writer, text(path, path_len), &options, error);
}

tf_status tfgo_write(const tf_writer *writer, uintptr_t sink, const char *format, size_t format_len,
                     tfgo_save_numbers numbers, tf_error **error) {
    tf_save_options options = save_options(format, format_len, numbers);
    return tf_write(writer, on_write, (void *)sink, &options, error);
}

tf_status tfgo_convert(const char *from, size_t from_len, const char *from_format, size_t from_format_len,
                       const char *deny, size_t deny_len, tfgo_open_numbers open, const char *to, size_t to_len,
                       const char *to_format, size_t to_format_len, tfgo_save_numbers save, tf_error **error) {
    tf_open_options from_options = open_options(from_format, from_format_len, deny, deny_len, open);
    tf_save_options to_options = save_options(to_format, to_format_len, save);
    return tf_convert(text(from, from_len), &from_options, text(to, to_len), &to_options, error);
}
