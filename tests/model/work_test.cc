// Operations and bytes of published models, against figures counted by hand from their papers' sizes.
#include "lib/model/work.h"

#include "lib/model/presets.h"
#include "tests/catch.h"

using namespace attn;

namespace {

ModelConfig preset(const char* name) {
  const auto config = find_preset(name);
  REQUIRE(config);
  return *config;
}

// A device of 4.3 TB/s and 790 TFLOP/s, for which the floors were worked out.
double tpot_floor_ms(const char* name, int batch, int prompt, int new_tokens) {
  return mean_decode_work(preset(name), DType::bf16, batch, prompt, new_tokens).bytes() / 4.3e9;
}
double ttft_floor_ms(const char* name, int batch, int prompt) {
  return prefill_work(preset(name), DType::bf16, batch, prompt).flops() / 790e9;
}

}  // namespace

TEST_CASE("a decode step of published models reads the weights and one layerwise row of keys a token") {
  struct Known {
    const char* name;
    double weight_gb, kv_token_bytes;
  };
  for (const Known& known : {Known{"pythia-2.8b", 5.293, 327680}, Known{"pythia-410m", 0.708, 98304},
                             Known{"gpt2-xl", 3.112, 307200}, Known{"pythia-6.9b", 13.30, 524288},
                             Known{"llama-3-8b", 15.01, 131072}}) {
    CAPTURE(known.name);
    const ForwardWork step = forward_work(preset(known.name), DType::bf16, 1, 511, 1);
    CHECK(step.weight_bytes == Approx(known.weight_gb * 1e9).epsilon(1e-3));
    CHECK(step.kv_written_bytes == known.kv_token_bytes);
    CHECK(step.kv_read_bytes == 511 * known.kv_token_bytes);
    const ForwardWork wide = forward_work(preset(known.name), DType::f32, 8, 511, 1);
    CHECK(wide.weight_bytes == 2 * step.weight_bytes);
    CHECK(wide.kv_read_bytes == 16 * step.kv_read_bytes);
    CHECK(wide.flops() == 8 * step.flops());
  }
}

TEST_CASE("the prefill of pythia 2.8b needs the operations that were counted by hand") {
  const ForwardWork work = prefill_work(preset("pythia-2.8b"), DType::bf16, 1, 2454);
  CHECK(work.product_flops == Approx(12.351e12).epsilon(1e-3));
  CHECK(work.attention_flops_causal == Approx(0.987e12).epsilon(1e-3));
  CHECK(work.attention_flops_full == Approx(2 * 0.987e12).epsilon(1e-3));
  CHECK(work.kv_read_bytes == 0);
  CHECK(work.kv_written_bytes == 2454 * 327680.0);
}

TEST_CASE("floors of published models are those of the hand count") {
  CHECK(ttft_floor_ms("pythia-2.8b", 1, 2454) == Approx(16.88).epsilon(1e-3));
  CHECK(ttft_floor_ms("pythia-2.8b", 8, 2454) == Approx(135.1).epsilon(1e-3));
  CHECK(ttft_floor_ms("pythia-410m", 1, 2454) == Approx(2.25).epsilon(3e-3));
  CHECK(ttft_floor_ms("gpt2-xl", 1, 512) == Approx(1.96).epsilon(3e-3));
  CHECK(ttft_floor_ms("pythia-6.9b", 1, 2454) == Approx(42.0).epsilon(2e-3));
  CHECK(ttft_floor_ms("llama-3-8b", 1, 2454) == Approx(45.4).epsilon(2e-3));
  CHECK(tpot_floor_ms("pythia-2.8b", 1, 2454, 128) == Approx(1.423).epsilon(1e-3));
  CHECK(tpot_floor_ms("pythia-2.8b", 1, 2454, 2048) == Approx(1.496).epsilon(1e-3));
  CHECK(tpot_floor_ms("pythia-2.8b", 8, 2454, 128) == Approx(2.766).epsilon(1e-3));
  CHECK(tpot_floor_ms("pythia-2.8b", 8, 2454, 2048) == Approx(3.351).epsilon(1e-3));
  CHECK(tpot_floor_ms("pythia-410m", 8, 2454, 512) == Approx(0.660).epsilon(2e-3));
  CHECK(tpot_floor_ms("gpt2-xl", 1, 512, 512) == Approx(0.779).epsilon(2e-3));
  CHECK(tpot_floor_ms("pythia-6.9b", 8, 2454, 1024) == Approx(5.986).epsilon(1e-3));
  CHECK(tpot_floor_ms("llama-3-8b", 32, 2454, 256) == Approx(6.009).epsilon(1e-3));
}

TEST_CASE("the mean decode step is the mean of all steps") {
  const ModelConfig config = preset("pythia-70m");
  const int prompt = 7;
  const int new_tokens = 5;
  double bytes = 0;
  double flops = 0;
  for (int step = 1; step < new_tokens; ++step) {
    const ForwardWork work = forward_work(config, DType::f16, 3, prompt + step - 1, 1);
    bytes += work.bytes() / (new_tokens - 1);
    flops += work.flops() / (new_tokens - 1);
  }
  const ForwardWork mean = mean_decode_work(config, DType::f16, 3, prompt, new_tokens);
  CHECK(mean.bytes() == Approx(bytes).epsilon(1e-12));
  CHECK(mean.flops() == Approx(flops).epsilon(1e-12));
}

TEST_CASE("a prefill in two pieces needs the attention of the whole") {
  const ModelConfig config = preset("llama-3-8b");
  const ForwardWork whole = forward_work(config, DType::bf16, 2, 0, 100);
  const ForwardWork first = forward_work(config, DType::bf16, 2, 0, 37);
  const ForwardWork second = forward_work(config, DType::bf16, 2, 37, 63);
  CHECK(first.attention_flops_causal + second.attention_flops_causal ==
        Approx(whole.attention_flops_causal).epsilon(1e-12));
  CHECK(first.kv_written_bytes + second.kv_written_bytes == whole.kv_written_bytes);
  CHECK(second.kv_read_bytes == first.kv_written_bytes);
}
