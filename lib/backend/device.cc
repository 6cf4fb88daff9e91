// Allocation through the ledger.
#include "lib/backend/device.h"

#include "lib/backend/out_of_memory.h"

namespace attn {

Buffer Device::allocate(std::size_t bytes, MemoryUse use) {
  if (bytes == 0) return {};
  void* data = raw_allocate(bytes);
  if (data == nullptr) {
    const MemoryRequest request{bytes, use, ledger_->live_bytes()};
    throw OutOfMemory(
        fmt::format("{}: {} bytes for {} are not to be had ({} bytes are in use by this program)",
                    info().spec, bytes, kMemoryUseNames.name(use), request.in_use),
        request);
  }
  ledger_->add(bytes, use);
  return {data, bytes, [this, use](void* memory, std::size_t size) {
            raw_release(memory, size);
            ledger_->remove(size, use);
          }};
}

void Device::upload_filled(void* target, std::size_t bytes, const std::function<void(void*)>& fill) {
  const std::unique_ptr<std::byte[]> made(new std::byte[bytes]);
  fill(made.get());
  upload(target, made.get(), bytes);
}

void Device::read(const void*, std::size_t) {
  fail(ErrorKind::unsupported, "{}: there is no kernel that only reads", info().spec);
}

Tensor Device::allocate_tensor(DType dtype, const Shape& shape, MemoryUse use) {
  Tensor tensor;
  tensor.buffer = allocate(static_cast<std::size_t>(shape.elements()) * size_of(dtype), use);
  tensor.view = TensorView(tensor.buffer.data(), dtype, shape);
  return tensor;
}

}  // namespace attn
