// NameTable: the one list of an enum's values and their names, read by parsers, writers and help texts.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "lib/core/error.h"

namespace attn {

// Several names may stand for one value (parsing accepts all); the first is the one that is written.
template <typename Enum, std::size_t N>
struct NameTable {
  std::array<std::pair<Enum, std::string_view>, N> entries;

  constexpr std::string_view name(Enum value) const {
    for (const auto& [v, text] : entries) {
      if (v == value) return text;
    }
    return "?";
  }
  constexpr std::optional<Enum> find(std::string_view text) const {
    for (const auto& [v, name] : entries) {
      if (name == text) return v;
    }
    return std::nullopt;
  }
  // Throws Error{kind} naming `what` and all accepted names.
  Enum parse(std::string_view text, std::string_view what, ErrorKind kind = ErrorKind::usage) const {
    if (auto value = find(text)) return *value;
    fail(kind, "{} '{}' is not known; it must be one of: {}", what, text, list());
  }
  std::string list() const {
    std::string all;
    for (const auto& [v, name] : entries) {
      if (!all.empty()) all += ", ";
      all += name;
    }
    return all;
  }
};

template <typename Enum, std::size_t N>
constexpr NameTable<Enum, N> name_table(const std::pair<Enum, std::string_view> (&entries)[N]) {
  return {std::to_array(entries)};
}

}  // namespace attn
