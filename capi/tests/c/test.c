/* Uses each function of tensorfile.h, in the right way and in wrong ones: `test FOLDER`, an empty folder for files. */
#include <tensorfile.h>
/* The second time has nothing. */
#include <tensorfile.h>

#include <stdio.h>
#include <stdlib.h>

static int checks = 0;

#define CHECK(condition)                                                   \
    do {                                                                   \
        checks++;                                                          \
        if (!(condition)) {                                                \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
            exit(1);                                                       \
        }                                                                  \
    } while (0)

#define OK(call) CHECK((call) == TF_OK)

static int is(tf_text text, const char *expected) {
    return text.len == strlen(expected) && (text.len == 0 || memcmp(text.data, expected, text.len) == 0);
}

static int contains(tf_text text, const char *part) {
    size_t i, len = strlen(part);
    for (i = 0; i + len <= text.len; i++)
        if (memcmp(text.data + i, part, len) == 0) return 1;
    return 0;
}

static tf_error *error = NULL;

/* Checks the status, the kind and a part of the message of an error, and frees it. */
#define FAILS(call, expected, word, part)                                                                     \
    do {                                                                                                      \
        tf_error_info cause = {.size = sizeof cause};                                                           \
        tf_status status = (call);                                                                            \
        if (status != TF_OK) OK(tf_error_get_info(error, &cause));                                             \
        if (status != (expected) || !is(cause.kind, word) || !contains(cause.message, part))                    \
            fprintf(stderr, "status %d, %.*s: %.*s\n", (int)status, (int)cause.kind.len, cause.kind.data,       \
                    (int)cause.message.len, cause.message.data);                                                \
        CHECK(status == (expected) && cause.status == (int32_t)(expected));                                    \
        CHECK(is(cause.kind, word));                                                                           \
        CHECK(contains(cause.message, part));                                                                  \
        tf_error_free(error);                                                                                 \
    } while (0)

static char path[4096];

static tf_text in_folder(const char *folder, const char *name) {
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return tf_str(path);
}

static const float matrix[6] = {0.5f, 1.5f, 2.5f, 3.5f, 4.5f, 5.5f};
static const int64_t steps[2] = {7, -9};

static tf_writer *writer_of_two(void) {
    tf_writer *writer = NULL;
    size_t dims[2] = {2, 3}, count = 2, columns[2] = {3, 2};
    ptrdiff_t strides[2] = {4, 12};
    tf_array array;
    OK(tf_writer_new(&writer, NULL));
    memset(&array, 0, sizeof array);
    array.size = sizeof array;
    array.name = tf_str("matrix");
    array.dtype = TF_DTYPE_F32;
    array.rank = 2;
    array.dims = dims;
    array.data = matrix;
    OK(tf_writer_add(writer, &array, NULL));
    array.name = tf_str("transposed");
    array.dims = columns;
    array.strides = strides;
    OK(tf_writer_add(writer, &array, NULL));
    array.name = tf_str("steps");
    array.dtype = TF_DTYPE_I64;
    array.rank = 1;
    array.dims = &count;
    array.strides = NULL;
    array.data = steps;
    OK(tf_writer_add(writer, &array, NULL));
    return writer;
}

/* A file in memory that grows. */
typedef struct {
    unsigned char bytes[65536];
    size_t len;
    int fails_with;
    int released;
} memory;

static int append(void *context, const void *bytes, size_t len) {
    memory *to = context;
    if (to->fails_with) return to->fails_with;
    if (len > sizeof to->bytes - to->len) return 28;
    memcpy(to->bytes + to->len, bytes, len);
    to->len += len;
    return 0;
}

static int read_memory(void *context, uint64_t offset, void *bytes, size_t len) {
    memory *from = context;
    if (from->fails_with) return from->fails_with;
    memcpy(bytes, from->bytes + offset, len);
    return 0;
}

static void release(void *context) {
    ((memory *)context)->released++;
}

static int cancel(void *context, uint64_t bytes, uint64_t total) {
    (void)context, (void)bytes, (void)total;
    return 1;
}

static int count_bytes(void *context, uint64_t bytes, uint64_t total) {
    CHECK(bytes <= total);
    *(uint64_t *)context = bytes;
    return 0;
}

/* Checks all tensors of a file that was made of `writer_of_two`. */
static void check_values(tf_file *file) {
    tf_tensor *tensor = NULL;
    tf_tensor_info info = {.size = sizeof info};
    tf_range part[2] = {{0, 2}, {1, 3}};
    ptrdiff_t strides[2] = {4, 20};
    float values[6], columns[4], wide[7];
    double doubles[6];
    size_t i;
    OK(tf_file_find(file, tf_str("matrix"), &tensor, NULL));
    OK(tf_tensor_get_info(tensor, &info, NULL));
    CHECK(is(info.name, "matrix") && info.dtype == TF_DTYPE_F32 && info.rank == 2);
    CHECK(info.dims[0] == 2 && info.dims[1] == 3 && info.bytes == 24);
    CHECK(info.layout == TF_LAYOUT_ROW_MAJOR && info.strides[0] == 12 && info.strides[1] == 4);
    CHECK(info.alignment >= 1 && info.offset % info.alignment == 0);
    OK(tf_read(tensor, TF_DTYPE_STORED, values, sizeof values, NULL));
    CHECK(memcmp(values, matrix, sizeof matrix) == 0);
    OK(tf_read(tensor, TF_DTYPE_F64, doubles, sizeof doubles, NULL));
    for (i = 0; i < 6; i++) CHECK(doubles[i] == (double)matrix[i]);
    OK(tf_slice(tensor, part, 2, TF_DTYPE_STORED, columns, sizeof columns, NULL, NULL));
    CHECK(columns[0] == 1.5f && columns[1] == 2.5f && columns[2] == 4.5f && columns[3] == 5.5f);
    for (i = 0; i < 7; i++) wide[i] = -1;
    OK(tf_slice(tensor, part, 2, TF_DTYPE_STORED, wide, sizeof wide, strides, NULL));
    CHECK(wide[0] == 1.5f && wide[1] == 4.5f && wide[2] == -1 && wide[4] == -1 && wide[5] == 2.5f && wide[6] == 5.5f);
    tf_tensor_close(tensor);
    OK(tf_file_find(file, tf_str("transposed"), &tensor, NULL));
    OK(tf_read(tensor, TF_DTYPE_STORED, values, sizeof values, NULL));
    CHECK(values[0] == 0.5f && values[1] == 3.5f && values[2] == 1.5f && values[5] == 5.5f);
    tf_tensor_close(tensor);
    OK(tf_file_find(file, tf_str("steps"), &tensor, NULL));
    {
        int64_t read[2];
        OK(tf_read(tensor, TF_DTYPE_STORED, read, sizeof read, NULL));
        CHECK(read[0] == 7 && read[1] == -9);
    }
    tf_tensor_close(tensor);
}

static void formats(const char *folder) {
    static const char *names[] = {"a.safetensors", "a.ptd", "a.npz", "a.btf", "a.ten", "a.tbs", "a.gguf", "a.pt"};
    tf_writer *writer = writer_of_two();
    size_t i;
    for (i = 0; i < sizeof names / sizeof *names; i++) {
        tf_file *file = NULL;
        tf_file_info info = {.size = sizeof info};
        tf_open_options options = tf_open_options_default();
        OK(tf_save(writer, in_folder(folder, names[i]), NULL, NULL));
        OK(tf_open(in_folder(folder, names[i]), NULL, &file, NULL));
        OK(tf_file_get_info(file, &info, NULL));
        CHECK(info.tensors == 3 && info.bytes > 0);
        check_values(file);
        tf_file_close(file);
        options.flags = TF_OPEN_POSITIONED;
        OK(tf_open(in_folder(folder, names[i]), &options, &file, NULL));
        check_values(file);
        tf_file_close(file);
    }
    tf_writer_free(writer);
}

static void views_and_handles(const char *folder) {
    tf_file *file = NULL;
    tf_tensor *tensor = NULL, *same = NULL;
    tf_file_info info = {.size = sizeof info};
    const void *bytes = NULL;
    size_t len = 0;
    OK(tf_open(in_folder(folder, "a.safetensors"), NULL, &file, NULL));
    OK(tf_file_retain(file));
    tf_file_close(file);
    OK(tf_file_tensor(file, 0, &tensor, NULL));
    OK(tf_file_find(file, tf_str("matrix"), &same, NULL));
    /* A file that was closed while a tensor has it is still there, but not for the caller. */
    tf_file_close(file);
    FAILS(tf_file_get_info(file, &info, &error), TF_CALL, "argument", "the file was closed");
    OK(tf_tensor_retain(same));
    tf_tensor_close(same);
    OK(tf_view(same, &bytes, &len, NULL));
    CHECK(len == sizeof matrix && memcmp(bytes, matrix, len) == 0);
    tf_tensor_close(same);
    tf_tensor_close(tensor);
}

static void in_memory(void) {
    static memory file_bytes, source_bytes;
    tf_writer *writer = writer_of_two();
    tf_save_options options = tf_save_options_default();
    tf_file *file = NULL;
    tf_tensor *tensor = NULL;
    tf_source source;
    const tf_entry *entries = NULL;
    const tf_warning *warnings = NULL;
    const void *bytes = NULL;
    size_t len = 0, count = 0;
    OK(tf_writer_metadata(writer, tf_str("author"), tf_str("nobody"), NULL));
    FAILS(tf_write(writer, append, &file_bytes, &options, &error), TF_CALL, "argument", "names the format");
    options.format = tf_str("safetensors");
    file_bytes.fails_with = 5;
    FAILS(tf_write(writer, append, &file_bytes, &options, &error), TF_IO, "io", "os error 5");
    file_bytes.fails_with = 0;
    file_bytes.len = 0;
    OK(tf_write(writer, append, &file_bytes, &options, NULL));
    tf_writer_free(writer);

    OK(tf_open_memory(file_bytes.bytes, file_bytes.len, release, &file_bytes, NULL, &file, NULL));
    check_values(file);
    OK(tf_file_metadata(file, &entries, &count, NULL));
    CHECK(count == 1 && is(entries[0].key, "author") && is(entries[0].value, "nobody"));
    OK(tf_file_warnings(file, &warnings, &count, NULL));
    CHECK(count == 0);
    OK(tf_file_find(file, tf_str("steps"), &tensor, NULL));
    tf_file_close(file);
    CHECK(file_bytes.released == 0);
    OK(tf_view(tensor, &bytes, &len, NULL));
    CHECK(len == sizeof steps && memcmp(bytes, steps, len) == 0);
    CHECK((const unsigned char *)bytes > file_bytes.bytes);
    tf_tensor_close(tensor);
    CHECK(file_bytes.released == 1);

    source_bytes = file_bytes;
    source_bytes.released = 0;
    memset(&source, 0, sizeof source);
    source.size = sizeof source;
    source.name = tf_str("source.safetensors");
    source.len = source_bytes.len;
    source.read_at = read_memory;
    source.release = release;
    source.context = &source_bytes;
    OK(tf_open_source(&source, NULL, &file, NULL));
    check_values(file);
    OK(tf_file_find(file, tf_str("steps"), &tensor, NULL));
    FAILS(tf_view(tensor, &bytes, &len, &error), TF_CALL, "unsupported", "read the tensor");
    source_bytes.fails_with = 110;
    {
        int64_t read[2];
        FAILS(tf_read(tensor, 0, read, sizeof read, &error), TF_IO, "io", "steps");
    }
    tf_tensor_close(tensor);
    tf_file_close(file);
    CHECK(source_bytes.released == 1);
    FAILS(tf_open_source(&source, NULL, &file, &error), TF_IO, "io", "os error 110");
    CHECK(source_bytes.released == 2);
    source.read_at = NULL;
    FAILS(tf_open_source(&source, NULL, &file, &error), TF_CALL, "argument", "`read_at`");
    CHECK(source_bytes.released == 3);
}

static void plans(const char *folder) {
    tf_file *file = NULL;
    tf_plan *plan = NULL;
    tf_plan_info info = {.size = sizeof info};
    tf_piece piece = {.size = sizeof piece};
    tf_plan_options options = tf_plan_options_default();
    tf_range row[2] = {{1, 2}, {0, 3}};
    tf_part parts[2];
    uint64_t progress = 0;
    unsigned char buffer[256];
    float values[3];
    int64_t numbers[2];
    void *each[2];
    OK(tf_open(in_folder(folder, "a.ptd"), NULL, &file, NULL));
    memset(parts, 0, sizeof parts);
    parts[0].name = tf_str("steps");
    parts[1].name = tf_str("matrix");
    parts[1].ranges = row;
    parts[1].rank = 2;
    options.align = 32;
    options.progress = count_bytes;
    options.progress_context = &progress;
    OK(tf_plan_new(file, parts, 2, &options, &plan, NULL));
    tf_file_close(file);
    OK(tf_plan_get_info(plan, &info, NULL));
    CHECK(info.pieces == 2 && info.bytes == 44 && info.bytes_read == 28);
    OK(tf_plan_piece(plan, 1, &piece, NULL));
    CHECK(is(piece.name, "matrix") && piece.offset == 32 && piece.bytes == 12 && piece.dims[0] == 1);
    OK(tf_plan_read(plan, buffer, sizeof buffer, NULL));
    CHECK(memcmp(buffer, steps, 16) == 0 && memcmp(buffer + 32, matrix + 3, 12) == 0 && progress == 28);
    each[0] = numbers, each[1] = values;
    OK(tf_plan_read_each(plan, each, 2, NULL));
    CHECK(numbers[1] == -9 && values[2] == 5.5f);
    each[1] = numbers;
    FAILS(tf_plan_read_each(plan, each, 2, &error), TF_CALL, "argument", "overlap");
    FAILS(tf_plan_read_each(plan, each, 1, &error), TF_CALL, "argument", "1 memories for 2 pieces");
    FAILS(tf_plan_read(plan, buffer, 43, &error), TF_CALL, "argument", "has 43 bytes, but the plan needs 44");
    FAILS(tf_plan_piece(plan, 2, &piece, &error), TF_CALL, "argument", "there is no piece 2");
    tf_plan_free(plan);
    OK(tf_open(in_folder(folder, "a.ptd"), NULL, &file, NULL));
    options.progress = cancel;
    OK(tf_plan_new(file, NULL, 0, &options, &plan, NULL));
    FAILS(tf_plan_read(plan, buffer, sizeof buffer, &error), TF_CANCELLED, "cancelled", "");
    tf_plan_free(plan);
    tf_file_close(file);
}

static void conversions_and_reports(const char *folder) {
    tf_file *file = NULL;
    tf_report *report = NULL;
    tf_report_info info = {.size = sizeof info};
    tf_save_options options = tf_save_options_default();
    tf_tensor *tensor = NULL;
    tf_tensor_info half = {.size = sizeof half};
    char from[4096];
    size_t dims[2] = {2, 3}, other[2] = {2, 4};
    tf_expected expected[3];
    snprintf(from, sizeof from, "%s/a.safetensors", folder);
    options.floats = TF_DTYPE_BF16;
    OK(tf_convert(tf_str(from), NULL, in_folder(folder, "b.ptd"), &options, NULL));
    OK(tf_open(in_folder(folder, "b.ptd"), NULL, &file, NULL));
    OK(tf_file_find(file, tf_str("matrix"), &tensor, NULL));
    OK(tf_tensor_get_info(tensor, &half, NULL));
    CHECK(half.dtype == TF_DTYPE_BF16 && half.bytes == 12);
    tf_tensor_close(tensor);
    memset(expected, 0, sizeof expected);
    expected[0].name = tf_str("matrix");
    expected[0].dtype = TF_DTYPE_BF16;
    expected[0].rank = 2;
    expected[0].dims = dims;
    expected[1] = expected[0];
    expected[1].name = tf_str("transposed");
    expected[1].dims = other;
    expected[2] = expected[0];
    expected[2].name = tf_str("step");
    OK(tf_file_report(file, expected, 3, &report, NULL));
    OK(tf_report_get_info(report, &info, NULL));
    CHECK(info.differences == 3 && contains(info.text, "`step`") && contains(info.json, "\"missing\""));
    tf_report_free(report);
    OK(tf_file_report(file, NULL, 0, &report, NULL));
    OK(tf_report_get_info(report, &info, NULL));
    CHECK(info.differences == 3 && contains(info.text, "3 unexpected"));
    tf_report_free(report);
    expected[1].name = expected[0].name;
    FAILS(tf_file_report(file, expected, 3, &report, &error), TF_CALL, "argument", "`matrix` is expected twice");
    tf_file_close(file);
    options.flags = TF_SAVE_NO_REPLACE;
    FAILS(tf_convert(tf_str(from), NULL, in_folder(folder, "b.ptd"), &options, &error), TF_IO, "io", "exists");
    options.flags = 64;
    FAILS(tf_convert(tf_str(from), NULL, in_folder(folder, "c.ptd"), &options, &error), TF_CALL, "argument",
           "unknown bits 0x40");
}

static void errors(const char *folder) {
    static unsigned char cut[] = "~TenBin~ and so on";
    tf_file *file = NULL;
    tf_tensor *tensor = NULL;
    tf_plan *plan = NULL;
    tf_writer *writer = NULL;
    tf_array array;
    tf_open_options options = tf_open_options_default();
    tf_range ranges[2] = {{0, 3}, {0, 3}};
    tf_text not_utf8 = {"\xff", 1};
    struct {
        tf_open_options known;
        uint64_t newer;
    } future;
    size_t many[2] = {SIZE_MAX, 3}, len = 0;
    const void *bytes = NULL;
    float values[6];

    FAILS(tf_open(in_folder(folder, "none.ptd"), NULL, &file, &error), TF_IO, "io", "none.ptd");
    FAILS(tf_open(in_folder(folder, "a.ptd"), NULL, NULL, &error), TF_CALL, "argument", "is NULL");
    FAILS(tf_open_memory(cut, 18, NULL, NULL, NULL, &file, &error), TF_FILE, "truncated", "needs 8 more bytes");
    FAILS(tf_open_memory("GGUF", 4, NULL, NULL, NULL, &file, &error), TF_FILE, "truncated", "gguf");
    FAILS(tf_open_memory("{\"a\": 1}\n", 9, NULL, NULL, NULL, &file, &error), TF_FILE, "not-tensors", "JSON");
    FAILS(tf_open_memory(NULL, 5, NULL, NULL, NULL, &file, &error), TF_CALL, "argument", "NULL");
    FAILS(tf_open_memory(cut, SIZE_MAX, NULL, NULL, NULL, &file, &error), TF_CALL, "argument", "more than memory");
    options.max_tensors = 1;
    FAILS(tf_open(in_folder(folder, "a.ptd"), &options, &file, &error), TF_LIMIT, "limit", "3");
    options = tf_open_options_default();
    options.format = tf_str("docx");
    FAILS(tf_open(in_folder(folder, "a.ptd"), &options, &file, &error), TF_CALL, "argument", "unknown format");
    options = tf_open_options_default();
    options.deny_warnings = tf_str("nothing");
    FAILS(tf_open(in_folder(folder, "a.ptd"), &options, &file, &error), TF_CALL, "argument", "unknown kind");
    options = tf_open_options_default();
    options.flags = 1u << 31;
    FAILS(tf_open(in_folder(folder, "a.ptd"), &options, &file, &error), TF_CALL, "argument", "unknown bits");
    options = tf_open_options_default();
    options.size = 0;
    FAILS(tf_open(in_folder(folder, "a.ptd"), &options, &file, &error), TF_CALL, "argument", "set it to sizeof");
    memset(&future, 0, sizeof future);
    future.known.size = sizeof future;
    OK(tf_open(in_folder(folder, "a.ptd"), &future.known, &file, NULL));
    tf_file_close(file);
    future.newer = 1;
    FAILS(tf_open(in_folder(folder, "a.ptd"), &future.known, &file, &error), TF_CALL, "argument", "newer than");

    OK(tf_open(in_folder(folder, "a.ptd"), NULL, &file, NULL));
    FAILS(tf_file_find(file, tf_str("matrx"), &tensor, &error), TF_MISMATCH, "missing", "the file has `matrix`");
    FAILS(tf_file_find(file, not_utf8, &tensor, &error), TF_CALL, "argument", "not UTF-8");
    FAILS(tf_file_tensor(file, 3, &tensor, &error), TF_CALL, "argument", "there is no tensor 3");
    FAILS(tf_file_find(NULL, tf_str("matrix"), &tensor, &error), TF_CALL, "argument", "the file is NULL");
    FAILS(tf_view((tf_tensor *)(void *)file, &bytes, &len, &error), TF_CALL, "argument", "not an open tensor");
    OK(tf_file_find(file, tf_str("matrix"), &tensor, NULL));
    FAILS(tf_read(tensor, 999, values, sizeof values, &error), TF_CALL, "argument", "999 is not a dtype");
    FAILS(tf_read(tensor, TF_DTYPE_STORED, values, 23, &error), TF_CALL, "argument", "has 23 bytes, but needs 24");
    FAILS(tf_read(tensor, TF_DTYPE_STORED, NULL, 24, &error), TF_CALL, "argument", "NULL");
    FAILS(tf_read(tensor, TF_DTYPE_C64, values, 48, &error), TF_CALL, "unsupported", "cannot cast f32 to c64");
    FAILS(tf_slice(tensor, ranges, 2, 0, values, 36, NULL, &error), TF_CALL, "argument", "range 0..3 of dim 0, which has 2");
    FAILS(tf_slice(tensor, ranges, 1, 0, values, 12, NULL, &error), TF_CALL, "argument", "1 ranges for 2 dims");
    FAILS(tf_plan_new(file, NULL, 7, NULL, &plan, &error), TF_CALL, "argument", "NULL, but has 7 items");
    tf_tensor_close(tensor);
    tf_file_close(file);

    OK(tf_writer_new(&writer, NULL));
    memset(&array, 0, sizeof array);
    array.size = sizeof array;
    array.name = tf_str("q");
    array.rank = 2;
    array.dims = many;
    array.data = matrix;
    FAILS(tf_writer_add(writer, &array, &error), TF_CALL, "argument", "TF_DTYPE_STORED");
    array.dtype = TF_DTYPE_F32;
    FAILS(tf_writer_add(writer, &array, &error), TF_CALL, "argument", "exceeds memory");
    many[0] = 2;
    array.data = NULL;
    FAILS(tf_writer_add(writer, &array, &error), TF_CALL, "argument", "NULL");
    array.data = matrix;
    array.dtype = TF_DTYPE_Q4_0;
    FAILS(tf_writer_add(writer, &array, &error), TF_CALL, "argument", "not whole blocks of 32");
    array.dtype = TF_DTYPE_C128;
    many[0] = 0;
    OK(tf_writer_add(writer, &array, NULL));
    FAILS(tf_save(writer, in_folder(folder, "c.btf"), NULL, &error), TF_CALL, "unsupported", "cannot store c128");
    FAILS(tf_save(writer, in_folder(folder, "c.docx"), NULL, &error), TF_CALL, "unsupported", "docx");
    CHECK(tf_open(in_folder(folder, "c.btf"), NULL, &file, NULL) == TF_IO);
    tf_writer_free(writer);

    /* NULL is passed over. */
    tf_file_close(NULL), tf_tensor_close(NULL), tf_plan_free(NULL), tf_writer_free(NULL), tf_report_free(NULL);
    tf_error_free(NULL);
    CHECK(tf_error_get_info(NULL, NULL) == TF_CALL && tf_set_max_threads(0) == TF_CALL);
    OK(tf_set_max_threads(2));
}

/* Arrays at any strides, bools of any byte, and arrays of nothing. */
static void odd_arrays(void) {
    static memory bytes;
    static const unsigned char bools[3] = {0, 1, 7};
    static const float number = 2.5f;
    static const size_t two_by_three[2] = {2, 3}, three = 3, none[2] = {4, 0};
    static const ptrdiff_t repeated[2] = {0, 4}, backwards = -1;
    tf_save_options options = tf_save_options_default();
    tf_writer *writer = NULL;
    tf_file *file = NULL;
    tf_tensor *tensor = NULL;
    float values[6];
    double wide[6];
    unsigned char read[3];
    tf_array arrays[5];
    size_t i;
    memset(arrays, 0, sizeof arrays);
    arrays[0].name = tf_str("repeated");
    arrays[0].dtype = TF_DTYPE_F32;
    arrays[0].rank = 2;
    arrays[0].dims = two_by_three;
    arrays[0].strides = repeated;
    arrays[0].data = matrix;
    arrays[1].name = tf_str("backwards");
    arrays[1].dtype = TF_DTYPE_U8;
    arrays[1].rank = 1;
    arrays[1].dims = &three;
    arrays[1].strides = &backwards;
    arrays[1].data = bools + 2;
    arrays[2].name = tf_str("bools");
    arrays[2].dtype = TF_DTYPE_BOOL;
    arrays[2].rank = 1;
    arrays[2].dims = &three;
    arrays[2].data = bools;
    arrays[3].name = tf_str("scalar");
    arrays[3].dtype = TF_DTYPE_F32;
    arrays[3].data = &number;
    arrays[4].name = tf_str("nothing");
    arrays[4].dtype = TF_DTYPE_F32;
    arrays[4].rank = 2;
    arrays[4].dims = none;
    OK(tf_writer_new(&writer, NULL));
    for (i = 0; i < 5; i++) {
        arrays[i].size = sizeof arrays[i];
        OK(tf_writer_add(writer, &arrays[i], NULL));
    }
    options.format = tf_str("npz");
    OK(tf_write(writer, append, &bytes, &options, NULL));
    OK(tf_open_memory(bytes.bytes, bytes.len, NULL, NULL, NULL, &file, NULL));
    OK(tf_file_find(file, tf_str("repeated"), &tensor, NULL));
    OK(tf_read(tensor, TF_DTYPE_F64, wide, sizeof wide, NULL));
    CHECK(wide[0] == 0.5 && wide[2] == 2.5 && wide[3] == 0.5 && wide[5] == 2.5);
    tf_tensor_close(tensor);
    OK(tf_file_find(file, tf_str("backwards"), &tensor, NULL));
    OK(tf_read(tensor, TF_DTYPE_STORED, read, sizeof read, NULL));
    CHECK(read[0] == 7 && read[1] == 1 && read[2] == 0);
    tf_tensor_close(tensor);
    OK(tf_file_find(file, tf_str("bools"), &tensor, NULL));
    OK(tf_read(tensor, TF_DTYPE_STORED, read, sizeof read, NULL));
    CHECK(read[0] == 0 && read[1] == 1 && read[2] == 1);
    FAILS(tf_read(tensor, TF_DTYPE_F32, values, 12, &error), TF_CALL, "unsupported", "cannot cast bool to f32");
    tf_tensor_close(tensor);
    OK(tf_file_find(file, tf_str("scalar"), &tensor, NULL));
    OK(tf_slice(tensor, NULL, 0, TF_DTYPE_STORED, values, 4, NULL, NULL));
    CHECK(values[0] == 2.5f);
    tf_tensor_close(tensor);
    OK(tf_file_find(file, tf_str("nothing"), &tensor, NULL));
    OK(tf_read(tensor, TF_DTYPE_F64, NULL, 0, NULL));
    tf_tensor_close(tensor);
    tf_file_close(file);

    /* The same name twice, and a report of nothing. */
    OK(tf_writer_add(writer, &arrays[3], NULL));
    bytes.len = 0;
    FAILS(tf_write(writer, append, &bytes, &options, &error), TF_CALL, "repeated-name", "`scalar`");
    CHECK(bytes.len == 0);
    tf_writer_free(writer);
}

/* Quantized weights are not cast as if their codes were the weights, and are decoded on request. */
static void quantized(const char *folder) {
    static const unsigned char codes[4] = {0x38, 0x40, 0x48, 0xb8};
    static const float scale = 0.5f;
    static const size_t dims[2] = {2, 2}, one = 1;
    tf_open_options options = tf_open_options_default();
    tf_writer *writer = NULL;
    tf_file *file = NULL;
    tf_tensor *tensor = NULL;
    tf_array array;
    float values[4];
    tf_status status;
    OK(tf_writer_new(&writer, NULL));
    memset(&array, 0, sizeof array);
    array.size = sizeof array;
    array.name = tf_str("up.weight");
    array.dtype = TF_DTYPE_F8_E4M3FN;
    array.rank = 2;
    array.dims = dims;
    array.data = codes;
    OK(tf_writer_add(writer, &array, NULL));
    array.name = tf_str("up.weight_scale");
    array.dtype = TF_DTYPE_F32;
    array.rank = 1;
    array.dims = &one;
    array.data = &scale;
    OK(tf_writer_add(writer, &array, NULL));
    OK(tf_save(writer, in_folder(folder, "q.safetensors"), NULL, NULL));
    tf_writer_free(writer);
    OK(tf_open(in_folder(folder, "q.safetensors"), NULL, &file, NULL));
    OK(tf_file_find(file, tf_str("up.weight"), &tensor, NULL));
    FAILS(tf_read(tensor, TF_DTYPE_F32, values, sizeof values, &error), TF_CALL, "codes",
          "`dequantize` of the options decodes them, `TF_DTYPE_STORED` reads the stored numbers");
    tf_tensor_close(tensor);
    tf_file_close(file);
    options.dequantize = TF_DTYPE_F32;
    status = tf_open(in_folder(folder, "q.safetensors"), &options, &file, NULL);
    if (status == TF_CALL) {
        printf("NOTE: the library was built without the feature quant\n");
        return;
    }
    CHECK(status == TF_OK);
    OK(tf_file_find(file, tf_str("up.weight"), &tensor, NULL));
    OK(tf_read(tensor, TF_DTYPE_STORED, values, sizeof values, NULL));
    CHECK(values[0] == 0.5f && values[1] == 1.0f && values[2] == 2.0f && values[3] == -0.5f);
    tf_tensor_close(tensor);
    tf_file_close(file);
}

/* Shards are one file, and a pipe is held in memory. */
static void shards_and_pipes(const char *folder) {
    tf_save_options options = tf_save_options_default();
    tf_writer *writer = writer_of_two();
    tf_file *file = NULL;
    tf_tensor *tensor = NULL;
    const void *bytes = NULL;
    size_t len = 0;
    options.max_shard_bytes = 30;
    OK(tf_save(writer, in_folder(folder, "shards.safetensors"), &options, NULL));
    tf_writer_free(writer);
    OK(tf_open(in_folder(folder, "shards.safetensors.index.json"), NULL, &file, NULL));
    check_values(file);
    tf_file_close(file);
    if (getenv("TENSORFILE_TEST_PIPE") == NULL) return;
    OK(tf_open(tf_str(getenv("TENSORFILE_TEST_PIPE")), NULL, &file, NULL));
    check_values(file);
    OK(tf_file_find(file, tf_str("matrix"), &tensor, NULL));
    OK(tf_view(tensor, &bytes, &len, NULL));
    CHECK(len == sizeof matrix && memcmp(bytes, matrix, len) == 0);
    tf_tensor_close(tensor);
    tf_file_close(file);
}

static void dtypes(void) {
    tf_dtype_info info = {.size = sizeof info};
    int32_t dtype = 0;
    OK(tf_dtype_get_info(TF_DTYPE_Q4_K, &info, NULL));
    CHECK(is(info.name, "q4_k") && info.block_elements == 256 && info.block_bytes == 144);
    OK(tf_dtype_find(tf_str("bf16"), &dtype, NULL));
    CHECK(dtype == TF_DTYPE_BF16);
    FAILS(tf_dtype_find(tf_str("bfloat16"), &dtype, &error), TF_CALL, "argument", "not the name of a dtype");
    CHECK(tf_abi_version() == TF_ABI_VERSION && strlen(tf_version()) >= 5);
}

int main(int count, char **arguments) {
    if (count != 2) return 2;
    formats(arguments[1]);
    views_and_handles(arguments[1]);
    in_memory();
    plans(arguments[1]);
    conversions_and_reports(arguments[1]);
    errors(arguments[1]);
    odd_arrays();
    quantized(arguments[1]);
    shards_and_pipes(arguments[1]);
    dtypes();
    printf("c: %d checks\n", checks);
    return 0;
}
