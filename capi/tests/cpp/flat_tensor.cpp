// Prints the tensors of a .ptd file as tests/interop/flat_tensor.cpp does with ExecuTorch's own reader, a line for each:
//
//     scalar type|sizes|dim order|bytes|FNV-1a of the bytes|key
//
//     flat_tensor FILE

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <iostream>
#include <numeric>
#include <vector>

#include <tensorfile.hpp>

namespace {

using tensorfile::dtype;

/// ExecuTorch's number of a dtype.
int scalar_type(dtype type) {
    // In the order of its ScalarType; -1 for the two that no dtype has.
    static const dtype types[] = {
        dtype::u8, dtype::i8, dtype::i16, dtype::i32, dtype::i64, dtype::f16, dtype::f32, dtype::f64, dtype::stored, dtype::c64,
        dtype::c128, dtype::boolean, dtype::qint8, dtype::quint8, dtype::qint32, dtype::bf16, dtype::quint4x2, dtype::quint2x4,
        dtype::stored, dtype::stored, dtype::stored, dtype::stored, dtype::bits16, dtype::f8_e5m2, dtype::f8_e4m3fn,
        dtype::f8_e5m2fnuz, dtype::f8_e4m3fnuz, dtype::u16, dtype::u32, dtype::u64,
    };
    return static_cast<int>(std::find(std::begin(types), std::end(types), type) - std::begin(types));
}

void print_list(const std::vector<std::size_t>& list) {
    for (std::size_t at = 0; at < list.size(); at++) std::printf(at == 0 ? "%zu" : ",%zu", list[at]);
    std::putchar('|');
}

/// The dims from the one with the longest strides to the one with the shortest.
std::vector<std::size_t> dim_order(const tensorfile::tensor& tensor) {
    std::vector<std::size_t> order(tensor.dims().size());
    std::iota(order.begin(), order.end(), std::size_t(0));
    const auto strides = tensor.strides();
    if (!strides.empty())
        std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return strides[a] > strides[b]; });
    return order;
}

std::vector<std::byte> in_file_order(const tensorfile::tensor& tensor) {
    const auto view = tensor.view();
    return {view.begin(), view.end()};
}

} // namespace

int main(int count, char** arguments) {
    if (count != 2) return std::fprintf(stderr, "usage: flat_tensor FILE\n"), 2;
    try {
        for (const auto tensor : tensorfile::file::open(arguments[1])) {
            if (tensor.layout() == tensorfile::layout::blob) {
                std::printf("-|-|-|");
            } else {
                std::printf("%d|", scalar_type(tensor.dtype()));
                print_list({tensor.dims().begin(), tensor.dims().end()});
                print_list(dim_order(tensor));
            }
            // Bools of a mapped file are not lent; others are read in row-major order, and not in that of the file.
            const auto bytes = tensor.dtype() == dtype::boolean ? tensor.read<std::byte>() : in_file_order(tensor);
            std::uint64_t hash = 0xcbf29ce484222325;
            for (const auto byte : bytes) hash = (hash ^ static_cast<std::uint64_t>(byte)) * 0x100000001b3;
            std::printf("%zu|%016llx|%.*s\n", bytes.size(), static_cast<unsigned long long>(hash),
                        static_cast<int>(tensor.name().size()), tensor.name().data());
        }
    } catch (const tensorfile::error& error) {
        return std::fprintf(stderr, "%s\n", error.what()), 1;
    }
    return 0;
}
