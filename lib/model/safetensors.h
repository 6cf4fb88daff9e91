// safetensors: the header of one file, checked, and the bytes of its tensors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/dtype.h"

namespace attn {

// One tensor as it lies in the file: row-major, little-endian.
struct StoredTensor {
  std::string name;
  std::string dtype;  // the file's name for it: "F32", "BF16", "U8", ...
  std::vector<std::int64_t> shape;
  std::span<const std::byte> bytes;

  std::optional<DType> element_type() const;  // of F32, F16, BF16; nothing else is read as numbers
  std::string shape_text() const;             // "[2, 3]"
};

// The format: 8 bytes little-endian header length, a JSON object {name: {dtype, shape, data_offsets}}, then
// data. `file` is the whole file and must outlive the result, which is in order of name. `where` names the
// file in messages. Throws Error{bad_input}: fewer bytes than the header says (the file is truncated), a
// header length beyond the file or the format's limit, JSON that is not of this form, a name given twice,
// offsets that do not fit dtype and shape or overlap, unknown dtypes. Bytes that no tensor uses are allowed.
std::vector<StoredTensor> read_safetensors(std::span<const std::byte> file, std::string_view where);

}  // namespace attn
