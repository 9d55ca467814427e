/* Prints the sum of each tensor of floats: `sum model.safetensors`. */
#include <stdio.h>
#include <stdlib.h>
#include <tensorfile.h>

static int fail(tf_error *error) {
    tf_error_info info = {.size = sizeof info};
    tf_error_get_info(error, &info);
    fprintf(stderr, "%.*s\n", (int)info.message.len, info.message.data);
    tf_error_free(error);
    return 1;
}

int main(int count, char **arguments) {
    tf_file *file;
    tf_file_info info = {.size = sizeof info};
    tf_error *error = NULL;
    if (count != 2) return 2;
    if (tf_open(tf_str(arguments[1]), NULL, &file, &error) != TF_OK) return fail(error);
    tf_file_get_info(file, &info, NULL);
    for (size_t i = 0; i < info.tensors; i++) {
        tf_tensor *tensor;
        tf_tensor_info facts = {.size = sizeof facts};
        size_t elements = 1;
        if (tf_file_tensor(file, i, &tensor, &error) != TF_OK) return fail(error);
        tf_tensor_get_info(tensor, &facts, NULL);
        for (size_t dim = 0; dim < facts.rank; dim++) elements *= facts.dims[dim];
        double *values = malloc(elements * sizeof *values), sum = 0;
        if (tf_read(tensor, TF_DTYPE_F64, values, elements * sizeof *values, &error) != TF_OK) return fail(error);
        for (size_t n = 0; n < elements; n++) sum += values[n];
        printf("%.*s %g\n", (int)facts.name.len, facts.name.data, sum);
        free(values);
        tf_tensor_close(tensor);
    }
    tf_file_close(file);
    return 0;
}
