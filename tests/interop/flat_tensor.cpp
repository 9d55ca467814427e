// Loads a .ptd file through ExecuTorch's own FlatTensorDataMap and prints what it finds, a line for each key:
//
//     scalar type|sizes|dim order|bytes|FNV-1a of the bytes|key
//
// A key that begins with `blob` has no layout, and ExecuTorch crashes when asked for it: its first three parts are `-`.
//
//     flat_tensor FILE

#include <cstdint>
#include <cstdio>
#include <string_view>

#include <executorch/extension/data_loader/file_data_loader.h>
#include <executorch/extension/flat_tensor/flat_tensor_data_map.h>
#include <executorch/runtime/platform/runtime.h>

using executorch::extension::FileDataLoader;
using executorch::extension::FlatTensorDataMap;

namespace {

template <typename Span>
void print_list(const Span& list) {
  for (size_t at = 0; at < list.size(); at++) {
    std::printf(at == 0 ? "%d" : ",%d", static_cast<int>(list[at]));
  }
  std::putchar('|');
}

int fail(const char* what, const char* name, executorch::runtime::Error error) {
  std::fprintf(stderr, "%s `%s`: error 0x%x\n", what, name, static_cast<unsigned>(error));
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: flat_tensor FILE\n");
    return 2;
  }
  executorch::runtime::runtime_init();
  auto loader = FileDataLoader::from(argv[1]);
  if (!loader.ok()) {
    return fail("cannot open", argv[1], loader.error());
  }
  auto map = FlatTensorDataMap::load(&loader.get());
  if (!map.ok()) {
    return fail("cannot load", argv[1], map.error());
  }
  auto keys = map->get_num_keys();
  if (!keys.ok()) {
    return fail("cannot count the keys of", argv[1], keys.error());
  }
  for (uint32_t at = 0; at < keys.get(); at++) {
    auto key = map->get_key(at);
    if (!key.ok()) {
      return fail("no key in", argv[1], key.error());
    }
    const std::string_view name(key.get());
    if (name.substr(0, 4) == "blob") {
      std::printf("-|-|-|");
    } else {
      auto layout = map->get_tensor_layout(name);
      if (!layout.ok()) {
        return fail("no layout of", key.get(), layout.error());
      }
      std::printf("%d|", static_cast<int>(layout->scalar_type()));
      print_list(layout->sizes());
      print_list(layout->dim_order());
    }
    auto data = map->get_data(name);
    if (!data.ok()) {
      return fail("no data of", key.get(), data.error());
    }
    uint64_t hash = 0xcbf29ce484222325;
    const auto* bytes = static_cast<const uint8_t*>(data->data());
    for (size_t byte = 0; byte < data->size(); byte++) {
      hash = (hash ^ bytes[byte]) * 0x100000001b3;
    }
    std::printf("%zu|%016llx|%s\n", data->size(), static_cast<unsigned long long>(hash), key.get());
    data->Free();
  }
  return 0;
}
