/* Prints the tensors of a GGUF file as the program gguf-dump does: `gguf_dump FILE`. */
#include <tensorfile.h>

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>

static int fail(tf_error *error) {
    tf_error_info info = {.size = sizeof info};
    tf_error_get_info(error, &info);
    fprintf(stderr, "%.*s\n", (int)info.message.len, info.message.data);
    tf_error_free(error);
    return 1;
}

static int print_tensor(const tf_file *file, size_t position) {
    tf_tensor_info info = {.size = sizeof info};
    tf_dtype_info dtype = {.size = sizeof dtype};
    tf_error *error = NULL;
    tf_tensor *tensor;
    uint64_t elements = 1;
    size_t i;
    char name[8] = "";
    if (tf_file_tensor(file, position, &tensor, &error) != TF_OK) return fail(error);
    if (tf_tensor_get_info(tensor, &info, &error) != TF_OK) return fail(error);
    if (tf_dtype_get_info(info.dtype, &dtype, &error) != TF_OK) return fail(error);
    for (i = 0; i < info.rank; i++) elements *= info.dims[i];
    printf("  %5zu: %10" PRIu64 " | ", position + 1, elements);
    /* ggml counts dims from the innermost, and has four of them. */
    for (i = 0; i < 4; i++) printf("%s%5zu", i ? ", " : "", i < info.rank ? info.dims[info.rank - 1 - i] : (size_t)1);
    for (i = 0; i < dtype.name.len && i < sizeof name - 1; i++) name[i] = (char)toupper((unsigned char)dtype.name.data[i]);
    printf(" | %-7s | %.*s\n", name, (int)info.name.len, info.name.data);
    tf_tensor_close(tensor);
    return 0;
}

int main(int count, char **arguments) {
    tf_file_info info = {.size = sizeof info};
    tf_error *error = NULL;
    tf_file *file;
    size_t i;
    if (count != 2) return 2;
    if (tf_open(tf_str(arguments[1]), NULL, &file, &error) != TF_OK) return fail(error);
    if (tf_file_get_info(file, &info, &error) != TF_OK) return fail(error);
    printf("* Dumping %zu tensor(s)\n", info.tensors);
    for (i = 0; i < info.tensors; i++)
        if (print_tensor(file, i) != 0) return 1;
    tf_file_close(file);
    return 0;
}
