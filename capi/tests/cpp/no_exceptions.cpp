// Uses the header without exceptions. It is compiled only.

#include <tensorfile.hpp>

double sum(const char* path) {
    auto file = tensorfile::file::try_open(path);
    if (!file) return -file.error().status();
    double sum = 0;
    for (auto tensor : *file) {
        if (auto view = tensor.try_view<float>())
            for (float value : *view) sum += value;
        else if (auto read = tensor.try_read<double>())
            for (double value : *read) sum += value;
    }
    tensorfile::writer writer;
    const float one[] = {1};
    if (!writer.try_add("one", one, {1})) return -1;
    tensorfile::save_options options;
    options.format = tensorfile::text("ten");
    options.on_progress = [](auto, auto) { return true; };
    auto done = writer.try_write([](tensorfile::span<const std::byte>) {}, options);
    return done ? sum : -done.error().os_error();
}
