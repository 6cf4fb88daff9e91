// The one table of attention problems.
#include "tests/conformance/attention_cases.h"

#include <cmath>

namespace attn::conformance {

namespace {

struct Sizes {
  int batch, q_len, kv_len, q_heads, kv_heads, head_dim;
};

AttentionProblem problem(const Sizes& s, bool causal = true) {
  AttentionProblem p;
  p.batch = s.batch;
  p.q_len = s.q_len;
  p.kv_len = s.kv_len;
  p.q_heads = s.q_heads;
  p.kv_heads = s.kv_heads;
  p.head_dim = s.head_dim;
  p.scale = 1.0F / std::sqrt(static_cast<float>(s.head_dim));
  p.causal = causal;
  return p;
}

}  // namespace

bool can_hold(DType dtype, Fill fill) {
  const bool exact = fill == Fill::one_hot || fill == Fill::negative || fill == Fill::very_negative;
  return dtype == DType::f32 || !exact;
}

std::vector<Case> attention_cases() {
  std::vector<Case> all;
  const auto add = [&](const char* what, const Sizes& s, Layout layout = Layout::dense,
                       Fill fill = Fill::normal, bool causal = true) {
    all.push_back({what, problem(s, causal), layout, fill});
  };

  add("one query and one key", {1, 1, 1, 1, 1, 64});
  for (int length : {2, 7, 8, 9, 15, 16, 17, 31, 33, 63, 64, 65, 95, 96, 97, 127, 128, 129, 193}) {
    add("odd and round lengths", {1, length, length, 2, 2, 64});
  }
  for (int dim : {32, 64, 80, 96, 128, 256, 1, 2, 3, 20, 33, 63, 100}) {
    add("every head dimension, many queries", {1, 70, 70, 2, 2, dim});
    add("every head dimension, one query", {2, 1, 150, 2, 2, dim}, Layout::cache);
  }
  for (int keys : {1, 2, 3, 15, 16, 17, 127, 128, 129, 511, 512, 513, 1025, 1300}) {
    add("one query over a cache", {1, 1, keys, 3, 3, 64}, Layout::cache);
  }
  for (int queries : {2, 3, 7, 8, 9, 16, 40})
    add("a chunk after a cache", {1, queries, 300, 4, 2, 64}, Layout::cache);
  for (const auto& [q_heads, kv_heads] :
       std::vector<std::pair<int, int>>{{8, 2}, {6, 2}, {25, 25}, {4, 1}, {7, 1}}) {
    add("grouped heads, many queries", {2, 45, 45, q_heads, kv_heads, 64});
    add("grouped heads, one query", {2, 1, 201, q_heads, kv_heads, 80}, Layout::cache);
    add("grouped heads, few queries", {1, 5, 77, q_heads, kv_heads, 32}, Layout::cache);
  }
  add("first queries see no key", {1, 100, 30, 2, 2, 64});
  add("first queries see no key", {1, 239, 1, 2, 1, 64});
  add("first queries see no key", {1, 7, 3, 4, 2, 64}, Layout::cache);
  add("without a mask", {1, 70, 45, 4, 2, 64}, Layout::dense, Fill::normal, false);
  add("without a mask", {1, 45, 170, 2, 2, 80}, Layout::cache, Fill::normal, false);
  add("without a mask", {2, 3, 600, 2, 2, 64}, Layout::cache, Fill::normal, false);
  add("views of a fused product", {2, 65, 65, 4, 4, 64}, Layout::fused);
  add("views of a fused product", {2, 50, 50, 6, 2, 80}, Layout::fused);
  add("views of a fused product", {3, 1, 1, 6, 2, 33}, Layout::fused);
  // head_dim 64 and 16: the scale is a power of two, so that the scores of these fills are exact.
  for (Fill fill : {Fill::large_scores, Fill::constant, Fill::rising, Fill::falling, Fill::outlier_first,
                    Fill::outlier_last, Fill::one_hot, Fill::negative, Fill::very_negative}) {
    add("special numbers, many queries", {1, 130, 260, 2, 2, 64}, Layout::cache, fill);
    add("special numbers, one query", {1, 1, 1100, 4, 2, 64}, Layout::cache, fill);
    add("special numbers, square", {1, 200, 200, 2, 2, 16}, Layout::dense, fill);
  }
  return all;
}

std::vector<Case> grid_cases() {
  struct Lengths {
    int q, kv;
  };
  std::vector<Lengths> lengths{// As flash attention's own tests have them,
                               {1, 1},
                               {64, 128},
                               {128, 192},
                               {239, 1},
                               {799, 3},
                               {113, 203},
                               {128, 217},
                               {113, 211},
                               {108, 256},
                               {384, 256},
                               {640, 128},
                               {1023, 1024},
                               {1024, 1023},
                               {4096, 4096},
                               {4224, 4224},
                               {1, 3},
                               {2, 1},
                               {511, 1},
                               {3, 513},
                               {307, 256},
                               // over a cache,
                               {1, 128},
                               {1, 339},
                               {3, 1024},
                               {64, 800},
                               {16, 20000},
                               {2048, 3577}};
  // and one beside each edge of a tile, of few and of many rows.
  for (const int edge : {16, 64, 112, 128, 176, 192})
    for (const int length : {edge - 1, edge, edge + 1}) lengths.push_back({length, length});
  for (const int length : {2454, 2455, 4501}) {
    lengths.push_back({length, length});
    lengths.push_back({1, length});
  }
  struct Heads {
    int q, kv;
  };
  constexpr Heads kHeads[] = {{1, 1}, {25, 25}, {32, 8}, {6, 2}, {8, 1}, {32, 32}};
  constexpr int kBatches[] = {1, 2, 8, 33};
  constexpr std::int64_t kMostElements = 1000000;             // of q, k and v together
  constexpr std::int64_t kMostPairs = std::int64_t{1} << 26;  // of queries and keys, over heads and batch
  std::vector<Case> all;
  std::size_t turn = 0;
  for (const Lengths& pair : lengths) {
    for (const int head_dim : {64, 80, 96, 128, 256}) {
      for (const bool causal : {true, false}) {
        AttentionProblem p;
        // The next of the lists, or the first after it that is small enough; one head of one sequence always
        // is.
        for (int tried = 0; tried < 24; ++tried, ++turn) {
          const Heads& heads = kHeads[turn % 6];
          p = problem({kBatches[turn / 6 % 4], pair.q, pair.kv, heads.q, heads.kv, head_dim}, causal);
          const std::int64_t rows =
              std::int64_t{p.q_len} * p.q_heads + std::int64_t{2} * p.kv_len * p.kv_heads;
          const std::int64_t pairs = std::int64_t{p.q_len} * p.kv_len * p.q_heads;
          if (p.batch * rows * head_dim <= kMostElements && p.batch * pairs <= kMostPairs) break;
          p = problem({1, pair.q, pair.kv, 1, 1, head_dim}, causal);
        }
        ++turn;
        all.push_back({"grid", p, turn % 2 == 0 ? Layout::cache : Layout::dense, Fill::normal});
      }
    }
  }
  for (const Lengths& pair : {Lengths{1, 339}, Lengths{113, 203}, Lengths{640, 128}, Lengths{64, 800}}) {
    for (const int head_dim : {20, 40, 72, 200})  // without kernels of their own
      all.push_back({"grid", problem({2, pair.q, pair.kv, 4, 2, head_dim}), Layout::cache, Fill::normal});
  }
  return all;
}

}  // namespace attn::conformance
