// Names of documents: their shorter forms, and the account of what was met.
#include "lib/text/document_selection.h"

#include <algorithm>
#include <utility>

#include <fmt/ranges.h>

#include "lib/core/error.h"

namespace attn {

namespace {

constexpr std::size_t kShown = 5;  // documents that the message about an unknown name shows

}  // namespace

std::vector<std::string> shorter_names(std::string_view document) {
  const std::size_t colon = document.rfind(':');  // the number of a line, in a file name that has one
  std::string_view file = document.substr(0, colon), number;
  if (colon != std::string_view::npos) number = document.substr(colon);
  std::vector<std::string> names;
  if (file.ends_with(".zst")) {
    file.remove_suffix(4);
    names.push_back(fmt::format("{}{}", file, number));
  }
  const std::size_t dot = file.rfind('.');
  if (dot != std::string_view::npos && dot > 0)
    names.push_back(fmt::format("{}{}", file.substr(0, dot), number));
  return names;
}

DocumentSelection::DocumentSelection(std::vector<std::string> names) {
  for (std::string& name : names) {
    if (name.empty()) fail(ErrorKind::usage, "the list of documents has an empty name");
    const bool twice =
        std::any_of(names_.begin(), names_.end(), [&](const Name& earlier) { return earlier.text == name; });
    if (twice) fail(ErrorKind::usage, "the list of documents names '{}' twice", name);
    names_.push_back({std::move(name), {}});
  }
}

bool DocumentSelection::takes(std::string_view document) {
  if (all()) return true;
  ++documents_;
  if (seen_.size() < kShown) seen_.emplace_back(document);
  for (Name& name : names_) {
    if (name.text == document) {
      name.met = document;
      return true;
    }
  }
  for (const std::string& shorter : shorter_names(document)) {
    const auto name = std::find_if(names_.begin(), names_.end(),
                                   [&](const Name& candidate) { return candidate.text == shorter; });
    if (name == names_.end() || name->met == name->text) continue;
    if (!name->met.empty()) {
      fail(ErrorKind::bad_input, "the name '{}' fits two documents, {} and {}: give it in full", name->text,
           name->met, document);
    }
    name->met = document;
    return true;
  }
  return false;
}

bool DocumentSelection::exhausted() const {
  return !all() &&
         std::all_of(names_.begin(), names_.end(), [](const Name& name) { return name.met == name.text; });
}

void DocumentSelection::require_all(std::string_view source) const {
  std::vector<std::string> unknown;
  for (const Name& name : names_) {
    if (name.met.empty()) unknown.push_back(name.text);
  }
  if (unknown.empty()) return;
  fail(ErrorKind::bad_input, "{}: has no document {}; among its {} are {}", source, fmt::join(unknown, ", "),
       documents_, fmt::join(seen_, ", "));
}

}  // namespace attn
