// The forward pass.
#include "lib/model/transformer.h"

#include <algorithm>
#include <array>

#include "lib/core/error.h"

namespace attn {
namespace {

// Widths of one token's activations, the one list that allocation and prediction read.
struct Widths {
  int attention, mixed, wide;
  explicit Widths(const ModelConfig& config)
      : attention(config.q_heads * config.head_dim),
        mixed(config.parallel_residual ? attention + config.ffn_hidden
                                       : std::max(attention, config.ffn_hidden)),
        wide(config.gated_mlp ? 2 * config.ffn_hidden : 0) {}
};

}  // namespace

std::optional<std::string> context_warning(const ModelConfig& config, int tokens) {
  if (tokens <= config.max_positions) return std::nullopt;
  return fmt::format("{} tokens go past the model's trained context of {}; what it says there means little",
                     tokens, config.max_positions);
}

BytesByUse predict_memory(const ModelConfig& config, DType dtype, const RunShape& shape,
                          const AttentionBackend& attention, std::span<const Reservation> calls) {
  BytesByUse bytes{};
  const auto entry = [&](MemoryUse use) -> std::size_t& { return bytes[static_cast<std::size_t>(use)]; };
  const auto size = [](std::int64_t elements, DType type) {
    return static_cast<std::size_t>(elements) * size_of(type);
  };
  const Widths widths(config);
  const std::int64_t tokens = static_cast<std::int64_t>(shape.batch) * shape.step;
  entry(MemoryUse::weights) = weight_bytes(config, dtype);
  entry(MemoryUse::kv_cache) = KvCache::bytes(config, dtype, shape.batch, shape.capacity);
  entry(MemoryUse::activations) =
      size(tokens * (2 * config.hidden + config.qkv_rows() + widths.mixed + widths.wide), dtype) +
      size(static_cast<std::int64_t>(shape.logits_rows) * config.hidden, dtype);
  entry(MemoryUse::logits) = size(static_cast<std::int64_t>(shape.logits_rows) * config.vocab, DType::f32);
  entry(MemoryUse::other) =
      size(tokens + shape.batch + 1, DType::i32) +
      size(static_cast<std::int64_t>(shape.capacity) * config.rope.rotary_dims, DType::f32);
  for (const Reservation& call : calls) {
    AttentionProblem problem{shape.batch,
                             call.q_len,
                             call.kv_len,
                             config.q_heads,
                             config.kv_heads,
                             config.head_dim,
                             dtype,
                             config.attention_scale(0),
                             true};
    const AttentionScratch need = attention.scratch(problem);
    entry(MemoryUse::scores) = std::max(entry(MemoryUse::scores), need.scores_bytes);
    entry(MemoryUse::workspace) = std::max(entry(MemoryUse::workspace), need.workspace_bytes);
  }
  return bytes;
}

Transformer::Transformer(Platform& platform, const Model& model, const RunShape& shape)
    : platform_(platform),
      model_(model),
      shape_(shape),
      cache_(*platform.device, model.config, model.weights.dtype, shape.batch, shape.capacity) {
  const ModelConfig& config = model.config;
  if (config.position == PositionKind::learned && shape.capacity > config.max_positions) {
    fail(ErrorKind::bad_input,
         "{} tokens a sequence do not fit the model's {} learned positions; shorten the prompt or ask for "
         "fewer "
         "new tokens",
         shape.capacity, config.max_positions);
  }
  Device& device = *platform.device;
  const DType dtype = model.weights.dtype;
  const Widths widths(config);
  const std::int64_t tokens = static_cast<std::int64_t>(shape.batch) * shape.step;
  const auto activations = [&](std::int64_t rows, std::int64_t width) {
    return device.allocate_tensor(dtype, {rows, width}, MemoryUse::activations);
  };
  rotary_ = make_rotary_table(device, config.rope, shape.capacity);
  past_len_ = device.allocate(sizeof(std::int32_t), MemoryUse::other);
  ids_ = device.allocate_tensor(DType::i32, {shape.batch, shape.step}, MemoryUse::other);
  next_ = device.allocate_tensor(DType::i32, {shape.batch, 1}, MemoryUse::other);
  hidden_ = activations(tokens, config.hidden);
  normed_ = activations(tokens, config.hidden);
  qkv_ = activations(tokens, config.qkv_rows());
  mixed_ = activations(tokens, widths.mixed);
  wide_ = activations(tokens, widths.wide);
  head_normed_ = activations(shape.logits_rows, config.hidden);
  logits_ = device.allocate_tensor(DType::f32, {shape.logits_rows, config.vocab}, MemoryUse::logits);
  clear();
}

AttentionProblem Transformer::problem(Reservation call, int layer, int sequences) const {
  const ModelConfig& config = model_.config;
  return {sequences,
          call.q_len,
          call.kv_len,
          config.q_heads,
          config.kv_heads,
          config.head_dim,
          model_.weights.dtype,
          config.attention_scale(layer),
          true};
}

void Transformer::reserve(const AttentionBackend& attention, Reservation call, int sequences) {
  const AttentionProblem asked = problem(call, 0, sequences > 0 ? sequences : shape_.batch);
  if (const auto reason = attention.why_not(asked)) {
    fail(ErrorKind::unsupported, "mode {} cannot compute attention with {}: {}", attention.name(),
         asked.text(), *reason);
  }
  const AttentionScratch need = attention.scratch(asked);
  Device& device = *platform_.device;
  if (need.scores_bytes > scores_.bytes()) {
    scores_ = Buffer();  // free first: both need not fit
    scores_ = device.allocate(need.scores_bytes, MemoryUse::scores);
  }
  if (need.workspace_bytes > workspace_.bytes()) {
    workspace_ = Buffer();
    workspace_ = device.allocate(need.workspace_bytes, MemoryUse::workspace);
  }
}

void Transformer::clear() {
  length_ = 0;
  platform_.device->fill_zero(past_len_.data(), sizeof(std::int32_t));
}

std::string Transformer::kernel_for(const AttentionBackend& attention, Reservation call) const {
  return attention.kernel_for(problem(call, 0, shape_.batch));
}

TensorView Transformer::upload_ids(std::span<const TokenId> ids) {
  const auto count = static_cast<std::int64_t>(ids.size()) / shape_.batch;
  if (count * shape_.batch != static_cast<std::int64_t>(ids.size()) || count < 1 || count > shape_.step)
    fail(ErrorKind::internal, "{} ids do not make {} sequences of at most {}", ids.size(), shape_.batch,
         shape_.step);
  platform_.device->upload(ids_.view.data, ids.data(), ids.size_bytes());
  return {ids_.view.data, DType::i32, {shape_.batch, count}};
}

void Transformer::attend(int layer, const TensorView& qkv, const TensorView& out, AttentionBackend& attention,
                         int keys, bool recorded) {
  const ModelConfig& config = model_.config;
  const auto sequences = qkv.extent(0);
  const AttentionProblem asked =
      problem({static_cast<int>(qkv.extent(1)), keys}, layer, static_cast<int>(sequences));
  const AttentionScratch need = attention.scratch(asked);
  if (need.scores_bytes > scores_.bytes() || need.workspace_bytes > workspace_.bytes())
    fail(ErrorKind::internal, "no scratch was reserved for {}", asked.text());
  const TensorView k_cache = cache_.keys(layer).slice(0, 0, sequences);
  const TensorView v_cache = cache_.values(layer).slice(0, 0, sequences);
  AttentionTensors tensors;
  tensors.q = qkv.slice(2, 0, config.q_heads);
  tensors.k = k_cache.slice(1, 0, keys);
  tensors.v = v_cache.slice(1, 0, keys);
  tensors.out = out;
  if (recorded) tensors.past_len = past_len();
  if (recorded && attention.appends(asked)) {
    const AttentionAppend append{qkv.slice(2, config.q_heads, config.kv_heads),
                                 qkv.slice(2, config.q_heads + config.kv_heads, config.kv_heads),
                                 rotary_.table};
    tensors.append = &append;
    attention.forward(asked, tensors, scores_.data(), workspace_.data());
    return;
  }
  platform_.ops->rope_and_append(qkv, rotary_.table, past_len(), k_cache, v_cache);
  attention.forward(asked, tensors, scores_.data(), workspace_.data());
}

TensorView Transformer::forward(const TensorView& ids, AttentionBackend& attention) {
  const auto count = static_cast<int>(ids.extent(1));
  if (length_ + count > shape_.capacity) {
    fail(ErrorKind::internal, "the cache holds {} tokens; {} and {} more do not fit", shape_.capacity,
         length_, count);
  }
  const TensorView hidden = run(ids, attention, length_ + count, false);
  length_ += count;
  return hidden;
}

TensorView Transformer::record(const TensorView& ids, AttentionBackend& attention, int keys) {
  if (keys > shape_.capacity)
    fail(ErrorKind::internal, "the cache holds {} tokens, not {}", shape_.capacity, keys);
  return run(ids, attention, keys, true);
}

TensorView Transformer::record_prompt(const TensorView& ids, AttentionBackend& attention) {
  return run(ids, attention, static_cast<int>(ids.extent(1)), false);
}

void Transformer::replayed(int count) {
  if (length_ + count > shape_.capacity) {
    fail(ErrorKind::internal, "the cache holds {} tokens; a replay went past them", shape_.capacity);
  }
  length_ += count;
}

TensorView Transformer::run(const TensorView& ids, AttentionBackend& attention, int keys, bool recorded) {
  const ModelConfig& config = model_.config;
  Ops& ops = *platform_.ops;
  const std::int64_t batch = ids.extent(0);
  const std::int64_t count = ids.extent(1);
  if (batch > shape_.batch || count > shape_.step)
    fail(ErrorKind::internal, "ids {} have no room in [{}, {}]", ids.shape.text(), shape_.batch, shape_.step);
  const std::int64_t tokens = batch * count;
  const std::int32_t* past = past_len();
  const std::int64_t attention_width = config.q_heads * config.head_dim;
  const TensorView hidden = hidden_.view.slice(0, 0, tokens);
  const TensorView qkv = qkv_.view.slice(0, 0, tokens);
  const TensorView qkv_heads =
      qkv.reshaped({batch, count, config.q_heads + 2 * config.kv_heads, config.head_dim});
  const TensorView mixed = mixed_.view.slice(0, 0, tokens);
  const TensorView attended = mixed.slice(1, 0, attention_width);
  const TensorView mlp = mixed.slice(1, config.parallel_residual ? attention_width : 0, config.ffn_hidden);
  TensorView attended_heads(attended.data, attended.dtype, {batch, count, config.q_heads, config.head_dim});
  attended_heads.strides = {count * mixed.stride(0), mixed.stride(0), config.head_dim, 1};
  ProjectScratch scratch{normed_.view.slice(0, 0, tokens), {}};
  if (config.gated_mlp) scratch.wide = wide_.view.slice(0, 0, tokens);

  ops.embed(model_.weights.embedding, ids, past, hidden.reshaped({batch, count, config.hidden}));
  for (int layer = 0; layer < config.layers; ++layer) {
    const LayerWeights& w = model_.weights.layers[static_cast<std::size_t>(layer)];
    const ProjectTerm qkv_term{&w.attention_norm, &w.qkv, Activation::none, false, qkv};
    const ProjectTerm mlp_term{&w.mlp_norm, &w.mlp_in, config.activation, config.gated_mlp, mlp};
    const AddTerm attention_add{attended, &w.attention_out};
    const AddTerm mlp_add{mlp, &w.mlp_out, config.parallel_residual};  // there attention ran in between
    const auto run_attention = [&] { attend(layer, qkv_heads, attended_heads, attention, keys, recorded); };
    if (config.parallel_residual) {
      ops.project(hidden, std::array{qkv_term, mlp_term}, scratch);
      run_attention();
      ops.project_add(hidden, std::array{attention_add, mlp_add});
    } else {
      ops.project(hidden, std::array{qkv_term}, scratch);
      run_attention();
      ops.project_add(hidden, std::array{attention_add});
      ops.project(hidden, std::array{mlp_term}, scratch);
      ops.project_add(hidden, std::array{mlp_add});
    }
  }
  ops.advance(static_cast<std::int32_t*>(past_len_.data()), static_cast<std::int32_t>(count));
  return hidden.reshaped({batch, count, config.hidden});
}

TensorView Transformer::last_rows(const TensorView& hidden) const {
  TensorView last = hidden.slice(1, hidden.extent(1) - 1, 1);
  TensorView rows(last.data, last.dtype, {hidden.extent(0), hidden.extent(2)});
  rows.strides = {hidden.stride(0), 1};
  return rows;
}

TensorView Transformer::logits(const TensorView& hidden) {
  const TensorView out =
      logits_.view.slice(0, 0, std::min<std::int64_t>(hidden.extent(0), shape_.logits_rows));
  logits(hidden, out);
  return out;
}

void Transformer::logits(const TensorView& hidden, const TensorView& out) {
  if (hidden.extent(0) > shape_.logits_rows)
    fail(ErrorKind::internal, "{} rows of logits asked, {} have room", hidden.extent(0), shape_.logits_rows);
  platform_.ops->logits(hidden, model_.weights.final_norm, model_.weights.head,
                        head_normed_.view.slice(0, 0, hidden.extent(0)), out);
}

}  // namespace attn
