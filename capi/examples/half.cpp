// Copies a model with its floats as bf16, and prints the first numbers of one tensor: `half model.safetensors w half.ptd`.
#include <cstdio>
#include <tensorfile.hpp>

int main(int count, char** arguments) try {
    if (count != 4) return 2;
    const auto file = tensorfile::file::open(arguments[1]);
    const auto weight = file.find(arguments[2]);
    const auto values = weight.view<float>();  // no copy; lives as long as `weight`
    std::printf("%zu numbers, the first is %g\n", values.size(), values.size() ? values[0] : 0.0);

    tensorfile::save_options options;
    options.floats = TF_DTYPE_BF16;
    tensorfile::convert(arguments[1], arguments[3], options);
} catch (const tensorfile::error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
}
