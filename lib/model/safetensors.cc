// The header of a safetensors file.
#include "lib/model/safetensors.h"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include <nlohmann/json.hpp>

#include "lib/core/error.h"
#include "lib/model/json_text.h"

namespace attn {

namespace {

using nlohmann::json;

constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;  // the format's own limit

constexpr std::array<std::pair<std::string_view, int>, 19> kBitsOfDtype{{
    {"BOOL", 8},    {"U8", 8},      {"I8", 8},   {"F8_E4M3", 8}, {"F8_E5M2", 8}, {"F8_E8M0", 8}, {"F4", 4},
    {"F6_E2M3", 6}, {"F6_E3M2", 6}, {"U16", 16}, {"I16", 16},    {"F16", 16},    {"BF16", 16},   {"U32", 32},
    {"I32", 32},    {"F32", 32},    {"U64", 64}, {"I64", 64},    {"F64", 64},
}};

int bits_of(const std::string& dtype) {
  for (const auto& [name, bits] : kBitsOfDtype) {
    if (name == dtype) return bits;
  }
  return 0;
}

// A whole number of a shape or an offset; nothing for any other JSON.
std::optional<std::uint64_t> as_size(const json& value) {
  if (!value.is_number_unsigned()) return std::nullopt;
  const auto size = value.get<std::uint64_t>();
  if (size > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) return std::nullopt;
  return size;
}

std::optional<std::vector<std::int64_t>> as_sizes(const json& value) {
  if (!value.is_array()) return std::nullopt;
  std::vector<std::int64_t> sizes;
  for (const json& item : value) {
    const auto size = as_size(item);
    if (!size) return std::nullopt;
    sizes.push_back(static_cast<std::int64_t>(*size));
  }
  return sizes;
}

// bits * product of the shape, in bytes; nothing when that is no whole number of bytes or beyond 63 bits.
std::optional<std::int64_t> bytes_of(const std::vector<std::int64_t>& shape, int bits) {
  std::int64_t product = bits;
  for (const std::int64_t extent : shape) {
    if (__builtin_mul_overflow(product, extent, &product)) return std::nullopt;
  }
  if (product % 8 != 0) return std::nullopt;
  return product / 8;
}

struct Entry {
  StoredTensor tensor;
  std::int64_t begin = 0, end = 0;  // in the data after the header
};

Entry read_entry(const std::string& name, const json& value, std::string_view where) {
  Entry entry;
  entry.tensor.name = name;
  const auto wrong = [&](std::string_view what) {
    fail(ErrorKind::bad_input, "{}: tensor '{}': {}", where, name, what);
  };
  if (!value.is_object()) wrong("its entry in the header is not an object");
  const auto dtype = value.find("dtype");
  if (dtype == value.end() || !dtype->is_string()) wrong("dtype is missing or not a text");
  entry.tensor.dtype = dtype->get<std::string>();
  const int bits = bits_of(entry.tensor.dtype);
  if (bits == 0) wrong("unknown dtype '" + entry.tensor.dtype + "'");

  const auto shape = value.find("shape");
  auto extents = shape == value.end() ? std::nullopt : as_sizes(*shape);
  if (!extents) wrong("shape is missing or not a list of whole numbers");
  entry.tensor.shape = std::move(*extents);

  const auto offsets = value.find("data_offsets");
  const auto range = offsets == value.end() ? std::nullopt : as_sizes(*offsets);
  if (!range || range->size() != 2) wrong("data_offsets is missing or not a pair of whole numbers");
  entry.begin = (*range)[0];
  entry.end = (*range)[1];
  if (entry.begin > entry.end)
    wrong(fmt::format("data_offsets [{}, {}] end before they begin", entry.begin, entry.end));
  const auto bytes = bytes_of(entry.tensor.shape, bits);
  if (!bytes || *bytes != entry.end - entry.begin) {
    wrong(fmt::format("data_offsets [{}, {}] hold {} bytes, which {} of shape {} does not fill", entry.begin,
                      entry.end, entry.end - entry.begin, entry.tensor.dtype, entry.tensor.shape_text()));
  }
  return entry;
}

void check_overlap(std::vector<Entry>& entries, std::string_view where) {
  std::vector<const Entry*> by_place;
  for (const Entry& entry : entries) {
    if (entry.begin != entry.end) by_place.push_back(&entry);
  }
  std::sort(by_place.begin(), by_place.end(),
            [](const Entry* a, const Entry* b) { return a->begin < b->begin; });
  for (std::size_t i = 1; i < by_place.size(); ++i) {
    if (by_place[i]->begin < by_place[i - 1]->end) {
      fail(ErrorKind::bad_input, "{}: the data of tensors '{}' and '{}' overlap", where,
           by_place[i - 1]->tensor.name, by_place[i]->tensor.name);
    }
  }
}

}  // namespace

std::optional<DType> StoredTensor::element_type() const {
  if (dtype == "F32") return DType::f32;
  if (dtype == "F16") return DType::f16;
  if (dtype == "BF16") return DType::bf16;
  return std::nullopt;
}

std::string StoredTensor::shape_text() const {
  std::string out = "[";
  for (std::size_t axis = 0; axis < shape.size(); ++axis)
    out += (axis > 0 ? ", " : "") + std::to_string(shape[axis]);
  return out + "]";
}

std::vector<StoredTensor> read_safetensors(std::span<const std::byte> file, std::string_view where) {
  constexpr std::size_t kLengthBytes = 8;
  if (file.size() < kLengthBytes)
    fail(ErrorKind::bad_input, "{}: {} bytes are too few for a safetensors file", where, file.size());
  std::uint64_t length = 0;
  for (std::size_t i = 0; i < kLengthBytes; ++i) length |= std::to_integer<std::uint64_t>(file[i]) << (8 * i);
  if (length > kMaxHeaderBytes) {
    fail(ErrorKind::bad_input,
         "{}: its header length {} is above the format's limit {}: not a safetensors file", where, length,
         kMaxHeaderBytes);
  }
  if (length > file.size() - kLengthBytes) {
    fail(ErrorKind::bad_input, "{}: its header length {} is beyond the file's {} bytes", where, length,
         file.size());
  }
  const auto header_bytes = file.subspan(kLengthBytes, static_cast<std::size_t>(length));
  const auto data = file.subspan(kLengthBytes + static_cast<std::size_t>(length));
  const json header =
      parse_json_object({reinterpret_cast<const char*>(header_bytes.data()), header_bytes.size()},
                        std::string(where) + ": header");

  std::vector<Entry> entries;
  std::int64_t described = 0;
  for (const auto& [name, value] : header.items()) {
    if (name == "__metadata__") continue;
    entries.push_back(read_entry(name, value, where));
    described = std::max(described, entries.back().end);
  }
  if (static_cast<std::uint64_t>(described) > data.size()) {
    fail(ErrorKind::bad_input,
         "{}: the header describes {} bytes of data, but {} are there: the file is truncated, fetch it again",
         where, described, data.size());
  }
  check_overlap(entries, where);

  std::vector<StoredTensor> tensors;
  for (Entry& entry : entries) {
    entry.tensor.bytes = data.subspan(static_cast<std::size_t>(entry.begin),
                                      static_cast<std::size_t>(entry.end - entry.begin));
    tensors.push_back(std::move(entry.tensor));
  }
  return tensors;
}

}  // namespace attn
