// DocumentSelection: which documents of a data set a list of names asks for.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace attn {

// A name is a document's own ("10146.txt.zst", "set.jsonl.zst:12") or that without .zst, or also without the
// extension before it ("10146.txt", "10146", "set:12"). The own name comes first: where one document is named
// in full, another that only the shorter form fits is not taken.
class DocumentSelection {
 public:
  // No names: every document. Error{usage}: an empty name, or one that comes twice.
  explicit DocumentSelection(std::vector<std::string> names = {});

  bool all() const { return names_.empty(); }
  // Whether this document is asked for; to be called once for each, in their order. Error{bad_input}: a
  // shorter form fits a second document.
  bool takes(std::string_view document);
  // Every name has been met in full, so that no later document can be asked for. Never true without names.
  bool exhausted() const;
  // Error{bad_input}, to be asked after the last document: the names that fit none, and some that there are.
  void require_all(std::string_view source) const;

 private:
  struct Name {
    std::string text;
    std::string met;  // the document that it took; empty: none yet
  };
  std::vector<Name> names_;
  std::vector<std::string> seen_;  // the first few documents, for the message
  std::size_t documents_ = 0;
};

// A document's name without .zst, and without the extension before it: the other names that it goes by.
std::vector<std::string> shorter_names(std::string_view document);

}  // namespace attn
