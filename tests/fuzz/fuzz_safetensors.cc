// libFuzzer: any bytes as a safetensors file give tensors whose bytes lie in the file, or an Error.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "lib/core/error.h"
#include "lib/model/safetensors.h"

namespace {

void read(const std::vector<std::byte>& file) {
  try {
    std::size_t bytes = 0;
    std::byte all{};
    for (const attn::StoredTensor& tensor : attn::read_safetensors(file, "fuzz")) {
      for (const std::byte b : tensor.bytes)
        all ^= b;  // a byte outside the file is a report of the sanitizer
      bytes += tensor.bytes.size();
      if (tensor.shape_text().empty() || tensor.name.size() > file.size()) std::abort();
    }
    volatile std::byte keep = all;
    static_cast<void>(keep);
    if (bytes > file.size()) std::abort();  // tensors that overlap
  } catch (const attn::Error& error) {
    if (error.kind() != attn::ErrorKind::bad_input) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto* bytes = reinterpret_cast<const std::byte*>(data);
  read({bytes, bytes + size});
  // The same bytes as a header with its right length, and up to 255 bytes of data: past the first check at
  // once.
  if (size == 0) return 0;
  const std::size_t data_bytes = data[0];
  const std::size_t header_bytes = size - 1;
  std::vector<std::byte> file(8 + header_bytes + data_bytes);
  for (std::size_t i = 0; i < 8; ++i) file[i] = static_cast<std::byte>(header_bytes >> (8 * i));
  std::copy(bytes + 1, bytes + size, file.begin() + 8);
  read(file);
  return 0;
}
