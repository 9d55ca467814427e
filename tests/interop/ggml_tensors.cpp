// Reads a GGUF file with ggml's own reader, prints its tensors as JSON, and writes them to another file with ggml's own writer:
//
//     ggml_tensors FILE [COPY]
//
// The dims of a tensor are ggml's: four, innermost first. Offsets count from the beginning of the file.

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "ggml.h"
#include "gguf.h"

// Tensors in buffers of a device, of which there are none here. ggml's reader and writer link to them.
extern "C" {
void ggml_backend_buffer_get_usage() { std::abort(); }
void ggml_backend_tensor_get() { std::abort(); }
void ggml_backend_tensor_memset() { std::abort(); }
void ggml_backend_tensor_set() { std::abort(); }
}

namespace {

std::string quoted(const char* text) {
  std::string json = "\"";
  for (; *text != 0; text++) {
    unsigned char byte = static_cast<unsigned char>(*text);
    if (byte == '"' || byte == '\\') {
      json += '\\';
      json += *text;
    } else if (byte < 0x20) {
      char escaped[8];
      std::snprintf(escaped, sizeof escaped, "\\u%04x", byte);
      json += escaped;
    } else {
      json += *text;
    }
  }
  return json + "\"";
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2 && argc != 3) {
    std::fprintf(stderr, "usage: ggml_tensors FILE [COPY]\n");
    return 2;
  }
  ggml_context* tensors = nullptr;
  gguf_init_params params = {/*no_alloc=*/false, /*ctx=*/&tensors};
  gguf_context* file = gguf_init_from_file(argv[1], params);
  if (file == nullptr) {
    std::fprintf(stderr, "ggml refuses %s\n", argv[1]);
    return 1;
  }
  std::printf("[");
  for (int64_t i = 0; i < gguf_get_n_tensors(file); i++) {
    const char* name = gguf_get_tensor_name(file, i);
    const ggml_tensor* tensor = ggml_get_tensor(tensors, name);
    const uint8_t* bytes = static_cast<const uint8_t*>(tensor->data);
    std::printf("%s{\"name\": %s, \"dtype\": %s, \"ne\": [%lld, %lld, %lld, %lld], \"offset\": %llu, \"data\": \"", i > 0 ? ",\n" : "",
                quoted(name).c_str(), quoted(ggml_type_name(tensor->type)).c_str(), static_cast<long long>(tensor->ne[0]),
                static_cast<long long>(tensor->ne[1]), static_cast<long long>(tensor->ne[2]),
                static_cast<long long>(tensor->ne[3]),
                static_cast<unsigned long long>(gguf_get_data_offset(file) + gguf_get_tensor_offset(file, i)));
    for (size_t byte = 0; byte < ggml_nbytes(tensor); byte++) std::printf("%02x", bytes[byte]);
    std::printf("\"}");
  }
  std::printf("]\n");
  bool written = true;
  if (argc == 3) {
    gguf_context* copy = gguf_init_empty();
    gguf_set_kv(copy, file);
    for (int64_t i = 0; i < gguf_get_n_tensors(file); i++) {
      gguf_add_tensor(copy, ggml_get_tensor(tensors, gguf_get_tensor_name(file, i)));
    }
    written = gguf_write_to_file(copy, argv[2], /*only_meta=*/false);
    gguf_free(copy);
  }
  gguf_free(file);
  ggml_free(tensors);
  return written ? 0 : 1;
}
