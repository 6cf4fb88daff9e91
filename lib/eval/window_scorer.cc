// Batch by batch: one upload, the variants' passes, logits in blocks of rows, and copies to the host that
// nobody waits for until the batch after has been given to the device.
#include "lib/eval/window_scorer.h"

#include <algorithm>
#include <cmath>

#include "lib/core/error.h"

namespace attn {
namespace {

std::int64_t round_up(std::int64_t n, std::int64_t step) { return (n + step - 1) / step * step; }

}  // namespace

std::span<const double> WindowBatchScores::losses_of(std::size_t variant, std::size_t window) const {
  return std::span(losses[variant])
      .subspan(static_cast<std::size_t>(first_row[window]),
               static_cast<std::size_t>(first_row[window + 1] - first_row[window]));
}

std::span<const LogitComparison> WindowBatchScores::compared_of(std::size_t pair, std::size_t window) const {
  return std::span(compared[pair])
      .subspan(static_cast<std::size_t>(first_row[window]),
               static_cast<std::size_t>(first_row[window + 1] - first_row[window]));
}

struct WindowScorer::Batch {
  static constexpr std::size_t kNobody = static_cast<std::size_t>(-1);  // whose time is not asked for
  static constexpr std::size_t kPairs = static_cast<std::size_t>(-2);

  struct Run {  // of scored rows in the hidden states of a group
    std::int64_t from, count;
  };
  std::vector<Group> groups;
  std::vector<Run> runs;  // [window]
  std::unique_ptr<Stopwatch> stopwatch;
  std::vector<std::size_t> marks;  // whose work ends at each: a variant, or one of the above
  WindowBatchScores scores;

  std::int64_t rows() const { return scores.first_row.back(); }
  void mark(std::size_t whose) {
    stopwatch->mark();
    marks.push_back(whose);
  }
};

WindowScorer::WindowScorer(std::vector<ScoredVariant> variants, std::vector<VariantPair> pairs,
                           ScoringRoom room)
    : variants_(std::move(variants)), pairs_(std::move(pairs)), room_(room) {
  if (variants_.empty()) fail(ErrorKind::internal, "there is nothing to score");
  if (room_.batch < 1 || room_.tokens < 1 || room_.step < 1 || room_.logits_rows < room_.step ||
      room_.logits_rows % room_.step != 0)
    fail(ErrorKind::internal, "no room for {} windows of {} tokens, {} rows of logits", room_.batch,
         room_.tokens, room_.logits_rows);
  const Transformer& first = *variants_.front().transformer;
  device_ = first.platform().device.get();
  vocab_ = first.config().vocab;
  together_ = first.shape().batch;
  for (std::size_t i = 0; i < variants_.size(); ++i) {
    const Transformer& transformer = *variants_[i].transformer;
    const RunShape& shape = transformer.shape();
    const bool prefill = variants_[i].path == ForwardPath::prefill;
    if (transformer.config().vocab != vocab_ || transformer.platform().device.get() != device_ ||
        shape.batch != together_ || shape.capacity < room_.tokens ||
        shape.step < (prefill ? room_.tokens : 1) || shape.logits_rows < room_.logits_rows)
      fail(ErrorKind::internal, "variant {} does not fit windows of {} tokens and the other variants", i,
           room_.tokens);
    if (pairs_.empty() && &transformer != &first)
      fail(ErrorKind::internal, "variants that are not compared share one transformer");
    decodes_ = decodes_ || !prefill;
  }
  for (const VariantPair& pair : pairs_) {
    if (std::max(pair.base, pair.other) >= variants_.size())
      fail(ErrorKind::internal, "a pair names variant {} of {}", std::max(pair.base, pair.other),
           variants_.size());
  }

  for (const ScoredVariant& variant : variants_)
    reserve_scoring(*variant.transformer, *variant.attention, variant.path, room_);
  own_logits_.resize(variants_.size());
  for (std::size_t i = 0; i < variants_.size(); ++i) {
    const Transformer& transformer = *variants_[i].transformer;
    if (pairs_.empty() && i > 0) break;
    states_.push_back(device_->allocate_tensor(transformer.dtype(), {row_room(), transformer.config().hidden},
                                               MemoryUse::activations));
    const bool shared = std::any_of(variants_.begin(), variants_.begin() + static_cast<std::ptrdiff_t>(i),
                                    [&](const ScoredVariant& v) { return v.transformer == &transformer; });
    if (shared)
      own_logits_[i] = device_->allocate_tensor(DType::f32, {room_.logits_rows, vocab_}, MemoryUse::logits);
  }
  const auto rows = static_cast<std::size_t>(row_room());
  input_ = device_->allocate(room_.input_bytes(together_, decodes_), MemoryUse::other);
  losses_ = device_->allocate(variants_.size() * rows * sizeof(double), MemoryUse::other);
  compared_ = device_->allocate(pairs_.size() * rows * sizeof(LogitComparison), MemoryUse::other);
  for (auto& batch : batches_) {
    batch = std::make_unique<Batch>();
    batch->stopwatch = device_->make_stopwatch();
    batch->scores.losses.resize(variants_.size());
    batch->scores.compared.resize(pairs_.size());
  }
}

// Copies to the host that are on their way write to the batches.
WindowScorer::~WindowScorer() {
  try {
    while (under_way_ > 0) finish();
    device_->synchronize();
  } catch (...) {  // the error that ends the run is on its way
  }
}

const TensorView& WindowScorer::states_of(std::size_t variant) const {
  return states_[pairs_.empty() ? 0 : variant].view;
}

void WindowScorer::upload(Batch& batch, std::span<const WindowOf> windows) {
  if (windows.empty() || windows.size() > static_cast<std::size_t>(room_.batch))
    fail(ErrorKind::internal, "{} windows in a batch of {}", windows.size(), room_.batch);
  batch.groups.clear();
  batch.runs.clear();
  batch.scores.first_row.assign(1, 0);
  std::int64_t next_id = 0;
  for (std::size_t begin = 0; begin < windows.size(); begin += static_cast<std::size_t>(together_)) {
    const std::size_t end = std::min(windows.size(), begin + static_cast<std::size_t>(together_));
    Group group{};
    group.first_window = static_cast<std::int64_t>(begin);
    group.windows = static_cast<std::int64_t>(end - begin);
    group.first_id = next_id;
    group.first_row = batch.rows();
    for (std::size_t i = begin; i < end; ++i) {
      const Window& window = windows[i].passage->windows[windows[i].window];
      if (window.tokens() > room_.tokens) {
        fail(ErrorKind::bad_input,
             "{}: a window of {} tokens does not fit the {} positions that there are; give a --context of at "
             "most {}",
             windows[i].passage->name, window.tokens(), room_.tokens, room_.tokens);
      }
      longest_ = std::max(longest_, window.tokens());
      group.tokens = std::max(group.tokens, window.tokens());
      batch.runs.push_back({first_scored_row(window), window.scored()});
      batch.scores.first_row.push_back(batch.rows() + window.scored());
    }
    group.tokens = std::min<std::int64_t>(round_up(group.tokens, room_.step), room_.tokens);
    group.rows = batch.rows() - group.first_row;
    group.sequences = group.windows;
    if (room_.step > 1 && group.windows == together_) full_groups_.insert(group.tokens);
    if (full_groups_.count(group.tokens) > 0) group.sequences = together_;
    next_id += group.sequences * group.tokens;
    batch.groups.push_back(group);
  }
  const std::size_t bytes = room_.input_bytes(together_, decodes_);
  const auto fill = [&](void* place) { write_input(batch, windows, static_cast<std::int32_t*>(place)); };
  if (bytes <= kFilledBytes) return device_->upload_filled(input_.data(), bytes, fill);
  std::vector<std::int32_t> input(bytes / sizeof(std::int32_t));
  fill(input.data());
  device_->upload(input_.data(), input.data(), bytes);
}

void WindowScorer::write_input(const Batch& batch, std::span<const WindowOf> windows,
                               std::int32_t* input) const {
  std::int32_t* const by_token = input + id_room();
  std::int32_t* target = input + id_room() * (decodes_ ? 2 : 1);
  for (const Group& group : batch.groups) {
    const std::int64_t ids_of_group = group.sequences * group.tokens;
    std::fill_n(input + group.first_id, ids_of_group, 0);
    if (decodes_) std::fill_n(by_token + group.first_id, ids_of_group, 0);
    for (std::int64_t i = 0; i < group.windows; ++i) {
      const WindowOf& of = windows[static_cast<std::size_t>(group.first_window + i)];
      const Window& window = of.passage->windows[of.window];
      std::int32_t* const ids = input + group.first_id + i * group.tokens;
      write_fed_ids(*of.passage, window, ids);
      const auto* const scored = of.passage->ids.data() + window.first_scored;
      target = std::copy(scored, scored + window.scored(), target);
      const auto outside = [this](TokenId id) { return id < 0 || id >= vocab_; };
      if (std::any_of(ids, ids + window.tokens(), outside) ||
          std::any_of(target - window.scored(), target, outside))
        fail(ErrorKind::internal, "{}: an id is not among the {} of the vocabulary", of.passage->name,
             vocab_);
      for (std::int64_t t = 0; decodes_ && t < group.tokens; ++t)
        by_token[group.first_id + t * group.sequences + i] = ids[t];
    }
  }
}

void WindowScorer::feed(std::size_t variant, const Batch& batch) {
  const ScoredVariant& of = variants_[variant];
  const TensorView& states = states_of(variant);
  for (const Group& group : batch.groups) {
    of.transformer->clear();
    if (of.path == ForwardPath::decode) {
      feed_tokens(variant, batch, group);
      continue;
    }
    const auto tokens = static_cast<int>(group.tokens);
    of.transformer->reserve(*of.attention, {tokens, tokens}, static_cast<int>(group.sequences));
    const TensorView ids(static_cast<std::int32_t*>(input_.data()) + group.first_id, DType::i32,
                         {group.sequences, group.tokens});
    const TensorView hidden = of.transformer->forward(ids, *of.attention);
    for (std::int64_t i = 0; i < group.windows; ++i) {
      const auto window = static_cast<std::size_t>(group.first_window + i);
      const auto& run = batch.runs[window];
      if (run.count == 0) continue;
      const TensorView rows = hidden.reshaped({group.sequences * group.tokens, hidden.extent(2)})
                                  .slice(0, i * group.tokens + run.from, run.count);
      device_->copy(states.slice(0, batch.scores.first_row[window], run.count).data, rows.data, rows.bytes());
    }
  }
}

void WindowScorer::feed_tokens(std::size_t variant, const Batch& batch, const Group& group) {
  const ScoredVariant& of = variants_[variant];
  const TensorView& states = states_of(variant);
  const std::int32_t* const by_token = static_cast<std::int32_t*>(input_.data()) + id_room() + group.first_id;
  // Rows after the last scored one are needed by nobody.
  std::int64_t last = 0;
  for (std::int64_t i = 0; i < group.windows; ++i) {
    const auto& run = batch.runs[static_cast<std::size_t>(group.first_window + i)];
    last = std::max(last, run.from + run.count);
  }
  for (std::int64_t t = 0; t < last; ++t) {
    of.transformer->reserve(*of.attention, {1, static_cast<int>(t + 1)}, static_cast<int>(group.sequences));
    const TensorView ids(const_cast<std::int32_t*>(by_token + t * group.sequences), DType::i32,
                         {group.sequences, 1});
    const TensorView hidden = of.transformer->forward(ids, *of.attention);
    for (std::int64_t i = 0; i < group.windows; ++i) {
      const auto window = static_cast<std::size_t>(group.first_window + i);
      const auto& run = batch.runs[window];
      if (t < run.from || t >= run.from + run.count) continue;
      const TensorView row = hidden.slice(0, i, 1);
      device_->copy(states.slice(0, batch.scores.first_row[window] + t - run.from, 1).data, row.data,
                    row.bytes());
    }
  }
}

TensorView WindowScorer::logits_of(std::size_t variant, std::int64_t first_row, std::int64_t rows) {
  Transformer& transformer = *variants_[variant].transformer;
  // Rows that fill up hold whatever stood there.
  const std::int64_t filled = std::min(round_up(rows, room_.step), row_room() - first_row);
  const TensorView hidden = states_of(variant).slice(0, first_row, filled);
  const TensorView& own = own_logits_[variant].view;
  if (own.empty()) return transformer.logits(hidden).slice(0, 0, rows);
  transformer.logits(hidden, own.slice(0, 0, filled));
  return own.slice(0, 0, rows);
}

void WindowScorer::add_losses(std::size_t variant, const TensorView& logits, std::int64_t first_row) {
  const TensorView targets(
      static_cast<std::int32_t*>(input_.data()) + id_room() * (decodes_ ? 2 : 1) + first_row, DType::i32,
      {logits.extent(0)});
  auto* const losses =
      static_cast<double*>(losses_.data()) + static_cast<std::int64_t>(variant) * row_room() + first_row;
  variants_[variant].transformer->platform().ops->token_losses(logits, targets, losses);
}

// Calls body(first_row, rows) for blocks of a group's scored rows.
template <typename Body>
void WindowScorer::over_blocks(const Batch& batch, const Body& body) const {
  for (const Group& group : batch.groups) {
    for (std::int64_t done = 0; done < group.rows; done += room_.logits_rows)
      body(group.first_row + done, std::min<std::int64_t>(room_.logits_rows, group.rows - done));
  }
}

void WindowScorer::submit(std::span<const WindowOf> windows) {
  if (under_way_ == batches_.size()) fail(ErrorKind::internal, "two batches are under way");
  Batch& batch = *batches_[(oldest_ + under_way_) % batches_.size()];
  batch.marks.clear();
  batch.stopwatch->start();
  upload(batch, windows);
  if (pairs_.empty()) {
    for (std::size_t v = 0; v < variants_.size(); ++v) {
      feed(v, batch);
      over_blocks(batch, [&](std::int64_t first, std::int64_t rows) {
        add_losses(v, logits_of(v, first, rows), first);
      });
      batch.mark(v);
    }
  } else {
    for (std::size_t v = 0; v < variants_.size(); ++v) {
      feed(v, batch);
      batch.mark(v);
    }
    std::vector<TensorView> logits(variants_.size());
    over_blocks(batch, [&](std::int64_t first, std::int64_t rows) {
      for (std::size_t v = 0; v < variants_.size(); ++v) {
        logits[v] = logits_of(v, first, rows);
        add_losses(v, logits[v], first);
        batch.mark(v);
      }
      const TensorView targets(
          static_cast<std::int32_t*>(input_.data()) + id_room() * (decodes_ ? 2 : 1) + first, DType::i32,
          {rows});
      for (std::size_t p = 0; p < pairs_.size(); ++p) {
        auto* const out = static_cast<LogitComparison*>(compared_.data()) +
                          static_cast<std::int64_t>(p) * row_room() + first;
        variants_[pairs_[p].base].transformer->platform().ops->compare_logits(
            logits[pairs_[p].base], logits[pairs_[p].other], targets, out);
      }
      batch.mark(Batch::kPairs);
    });
  }
  const auto rows = static_cast<std::size_t>(batch.rows());
  const auto room = static_cast<std::size_t>(row_room());
  for (std::size_t v = 0; v < variants_.size(); ++v) {
    batch.scores.losses[v].resize(rows);
    device_->download_later(batch.scores.losses[v].data(),
                            static_cast<const double*>(losses_.data()) + v * room, rows * sizeof(double));
  }
  for (std::size_t p = 0; p < pairs_.size(); ++p) {
    batch.scores.compared[p].resize(rows);
    device_->download_later(batch.scores.compared[p].data(),
                            static_cast<const LogitComparison*>(compared_.data()) + p * room,
                            rows * sizeof(LogitComparison));
  }
  batch.mark(Batch::kNobody);
  ++under_way_;
}

const WindowBatchScores& WindowScorer::finish() {
  if (under_way_ == 0) fail(ErrorKind::internal, "no batch is under way");
  Batch& batch = *batches_[oldest_];
  oldest_ = (oldest_ + 1) % batches_.size();
  --under_way_;
  const std::vector<double> ms = batch.stopwatch->milliseconds();
  batch.scores.variant_ms.assign(variants_.size(), 0);
  batch.scores.compared_ms = 0;
  double before = 0;
  for (std::size_t i = 0; i < ms.size(); ++i) {
    const double took = ms[i] - before;
    before = ms[i];
    if (batch.marks[i] == Batch::kPairs)
      batch.scores.compared_ms += took;
    else if (batch.marks[i] != Batch::kNobody)
      batch.scores.variant_ms[batch.marks[i]] += took;
  }
  return batch.scores;
}

std::optional<NonFiniteLogit> WindowScorer::first_nonfinite(const WindowOf& window) {
  if (under_way_ > 0) fail(ErrorKind::internal, "batches are under way");
  Batch& batch = *batches_[oldest_];
  upload(batch, {&window, 1});
  std::optional<NonFiniteLogit> found;
  std::vector<float> values;
  for (std::size_t v = 0; v < variants_.size(); ++v) {
    feed(v, batch);
    over_blocks(batch, [&](std::int64_t first, std::int64_t rows) {
      const TensorView logits = logits_of(v, first, rows);
      values.resize(static_cast<std::size_t>(rows) * static_cast<std::size_t>(vocab_));
      device_->download(values.data(), logits.data, values.size() * sizeof(float));
      const auto bad =
          std::find_if(values.begin(), values.end(), [](float value) { return !std::isfinite(value); });
      if (bad == values.end()) return;
      const std::int64_t at = bad - values.begin();
      const std::int64_t row = batch.runs.front().from + first + at / vocab_;
      if (!found || row < found->row) found = NonFiniteLogit{v, row, at % vocab_};
    });
  }
  return found;
}

}  // namespace attn
