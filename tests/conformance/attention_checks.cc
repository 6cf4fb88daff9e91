// What every attention backend of a platform must do.
#include "tests/conformance/attention_checks.h"

#include <cmath>
#include <set>

namespace attn::conformance {

Failures check_against_definition(Platform& platform, AttentionBackend& backend) {
  Failures failures;
  std::set<std::string> not_run;
  for (const KernelRow& row : backend.kernels()) not_run.insert(row.name);
  for (const Case& test : attention_cases()) {
    for (DType dtype : dtypes_of(backend, test.problem)) {
      if (!can_hold(dtype, test.fill)) continue;
      const Inputs inputs = make_inputs(test, dtype);
      AttentionRun setup(platform, backend, test, inputs, dtype);
      const AttentionResult result = setup.run();
      append(failures, result.failures);
      const DType kept = kept_scores(backend, test.problem, dtype);
      compare(test, result, expected_of(test, inputs, dtype, kept), setup.where(), failures);
      AttentionProblem problem = test.problem;
      problem.dtype = dtype;
      not_run.erase(backend.kernel_for(problem));
    }
  }
  for (const std::string& name : not_run) failures.push_back("no case of the table runs kernel " + name);
  return failures;
}

Failures check_repeats(Platform& platform, AttentionBackend& backend, int count,
                       std::initializer_list<int> head_dims) {
  Failures failures;
  for (const int head_dim : head_dims) {
    for (const AttentionProblem& problem :
         {sized(1, 70, 130, 4, 2, head_dim), sized(1, 1, 1100, 4, 2, head_dim)}) {
      const Case test{"repeats", problem, Layout::cache, Fill::normal};
      for (const DType dtype : dtypes_of(backend, problem)) {
        const Inputs inputs = make_inputs(test, dtype);
        AttentionRun run(platform, backend, test, inputs, dtype);
        const int other = run.first_other_bits(count);
        if (other >= 0)
          failures.push_back(
              fmt::format("{}: call {} gave other bits than call 0, or NaN", run.where(), other));
      }
    }
  }
  return failures;
}

Failures check_batch_independence(Platform& platform, AttentionBackend& backend, bool bitwise) {
  constexpr int kBatch = 3;
  Failures failures;
  for (const AttentionProblem& problem :
       {sized(kBatch, 70, 70, 4, 2, 64), sized(kBatch, 1, 1100, 4, 2, 64), sized(kBatch, 5, 600, 2, 1, 80)}) {
    const Case together{"in company", problem, Layout::dense, Fill::normal};
    for (DType dtype : dtypes_of(backend, problem)) {
      const Inputs inputs = make_inputs(together, dtype);
      const Expected expected = expected_of(together, inputs, dtype, kept_scores(backend, problem, dtype));
      AttentionRun setup(platform, backend, together, inputs, dtype);
      const AttentionResult all = setup.run();
      const Placement place = out_placement(problem);
      for (int b = 0; b < kBatch; ++b) {
        Case alone = together;
        alone.problem.batch = 1;
        Inputs part = inputs;
        for (Placement* tensor : {&part.q, &part.k, &part.v}) {
          tensor->first += b * tensor->batch_step;
          tensor->shape[0] = 1;
        }
        AttentionRun single(platform, backend, alone, part, dtype);
        const AttentionResult one = single.run();
        const Placement one_place = out_placement(alone.problem);
        const auto row_size = static_cast<std::int64_t>(problem.head_dim);
        for (std::int64_t n = 0; n < place.batch_step; ++n) {
          const float in_company = all.out[static_cast<std::size_t>(place.first + b * place.batch_step + n)];
          const float by_itself = one.out[static_cast<std::size_t>(one_place.first + n)];
          const double tolerance =
              2 * expected.out_tolerance[static_cast<std::size_t>((b * place.batch_step + n) / row_size)];
          const bool equal =
              bitwise ? in_company == by_itself
                      : within(static_cast<double>(by_itself), static_cast<double>(in_company), tolerance);
          if (equal) continue;
          failures.push_back(fmt::format("{}: sequence {} alone gives {}, in company {}", setup.where(), b,
                                         by_itself, in_company));
          break;
        }
      }
    }
  }
  return failures;
}

namespace {

void compare_last_query(Platform& platform, AttentionBackend& backend, int length, int head_dim,
                        Failures& failures) {
  const Case prefill{"prefill", sized(1, length, length, 2, 1, head_dim), Layout::dense, Fill::normal};
  for (DType dtype : dtypes_of(backend, prefill.problem)) {
    const Inputs inputs = make_inputs(prefill, dtype);
    AttentionRun many(platform, backend, prefill, inputs, dtype);
    const AttentionResult whole = many.run();
    Case decode = prefill;
    decode.what = "decode";
    decode.problem.q_len = 1;
    Inputs last = inputs;
    last.q.first += (length - 1) * last.q.token_step;
    last.q.shape[1] = 1;
    AttentionRun one(platform, backend, decode, last, dtype);
    const AttentionResult step = one.run();
    const Expected expected = expected_of(decode, last, dtype, kept_scores(backend, decode.problem, dtype));
    const Placement place = out_placement(prefill.problem);
    const Placement step_place = out_placement(decode.problem);
    for (int h = 0; h < 2; ++h) {
      for (int d = 0; d < head_dim; ++d) {
        const float a = whole.out[static_cast<std::size_t>(place.at(0, length - 1, h, d))];
        const float b = step.out[static_cast<std::size_t>(step_place.at(0, 0, h, d))];
        if (within(static_cast<double>(a), static_cast<double>(b), 2 * expected.out_tolerance[h])) continue;
        failures.push_back(
            fmt::format("{}: head {} dim {} is {}, a decode step gives {}", many.where(), h, d, a, b));
      }
    }
  }
}

}  // namespace

Failures check_prefill_equals_decode(Platform& platform, AttentionBackend& backend,
                                     std::initializer_list<int> head_dims) {
  Failures failures;
  for (const int head_dim : head_dims) {
    for (int length = 1; length <= 300; length += length < 20 ? 1 : 13)
      compare_last_query(platform, backend, length, head_dim, failures);
  }
  return failures;
}

Failures check_no_keys(Platform& platform, AttentionBackend& backend, std::initializer_list<int> head_dims) {
  Failures failures;
  for (const int head_dim : head_dims) {
    for (const auto& [queries, keys] :
         {std::pair(239, 1), std::pair(799, 3), std::pair(193, 64), std::pair(130, 1), std::pair(16, 1),
          std::pair(5, 2), std::pair(2, 1)}) {
      const Case test{"queries without a key", sized(1, queries, keys, 2, 1, head_dim), Layout::cache,
                      Fill::normal};
      const Placement place = out_placement(test.problem);
      for (const DType dtype : dtypes_of(backend, test.problem)) {
        const Inputs inputs = make_inputs(test, dtype);
        AttentionRun run(platform, backend, test, inputs, dtype);
        const AttentionResult result = run.run();
        append(failures, result.failures);
        int wrong = 0;
        for (int h = 0; h < 2; ++h) {
          for (int i = 0; i < queries; ++i) {
            const bool sees = i >= queries - keys;
            const float lse = result.lse[static_cast<std::size_t>(h * queries + i)];
            wrong += sees ? !std::isfinite(lse) : !(std::isinf(lse) && lse < 0);
            for (int d = 0; d < head_dim; ++d) {
              const float value = result.out[static_cast<std::size_t>(place.at(0, i, h, d))];
              wrong += sees ? !std::isfinite(value) : !(value == 0.0F);
            }
          }
        }
        if (wrong != 0) failures.push_back(fmt::format("{}: {} numbers are wrong", run.where(), wrong));
      }
    }
  }
  return failures;
}

Failures check_equal_scores(Platform& platform, AttentionBackend& backend,
                            std::initializer_list<int> head_dims) {
  Failures failures;
  for (const int head_dim : head_dims) {
    for (const int keys : {1, 2, 3, 15, 16, 17, 63, 64, 65, 127, 128, 129, 1000, 2049}) {
      for (const int queries : {1, 18}) {
        Case test{"equal scores", sized(1, queries, keys, 2, 1, head_dim), Layout::cache, Fill::constant};
        test.problem.causal = false;
        for (const DType dtype : dtypes_of(backend, test.problem)) {
          const Inputs inputs = make_inputs(test, dtype);
          AttentionRun run(platform, backend, test, inputs, dtype);
          const AttentionResult result = run.run();
          append(failures, result.failures);
          compare(test, result, expected_of(test, inputs, dtype), run.where(), failures);
          const double expected = std::log(static_cast<double>(keys));
          for (const float lse : result.lse) {
            if (within(static_cast<double>(lse), expected, 0x1p-22 * (2 + expected))) continue;
            failures.push_back(fmt::format("{}: lse {} instead of ln {}", run.where(), lse, keys));
            break;
          }
        }
      }
    }
  }
  return failures;
}

Failures check_one_key(Platform& platform, AttentionBackend& backend, std::initializer_list<int> head_dims) {
  Failures failures;
  for (const int head_dim : head_dims) {
    for (const Fill fill : {Fill::normal, Fill::large_scores}) {
      for (const bool causal : {true, false}) {
        for (const int batch : {1, 3}) {
          Case test{"one key", sized(batch, 1, 1, 6, 2, head_dim), Layout::cache, fill};
          test.problem.causal = causal;
          const Placement place = out_placement(test.problem);
          for (const DType dtype : dtypes_of(backend, test.problem)) {
            const Inputs inputs = make_inputs(test, dtype);
            AttentionRun run(platform, backend, test, inputs, dtype);
            const AttentionResult result = run.run();
            append(failures, result.failures);
            int wrong = 0;
            for (int b = 0; b < batch; ++b)
              for (int h = 0; h < 6; ++h)
                for (int d = 0; d < head_dim; ++d)
                  wrong += result.out[static_cast<std::size_t>(place.at(b, 0, h, d))] !=
                           inputs.v_data[static_cast<std::size_t>(inputs.v.at(b, 0, h / 3, d))];
            if (wrong != 0) failures.push_back(fmt::format("{}: {} numbers are not v", run.where(), wrong));
          }
        }
      }
    }
  }
  return failures;
}

Failures check_groups(Platform& platform, AttentionBackend& backend, std::initializer_list<int> head_dims) {
  Failures failures;
  for (const int head_dim : head_dims) {
    for (const auto& [q_heads, kv_heads] :
         {std::pair(32, 8), std::pair(25, 25), std::pair(6, 2), std::pair(8, 1), std::pair(24, 2)}) {
      for (const int queries : {1, 3, 40}) {
        const Case test{"groups", sized(2, queries, 75, q_heads, kv_heads, head_dim), Layout::cache,
                        Fill::head_number};
        const Placement place = out_placement(test.problem);
        for (const DType dtype : dtypes_of(backend, test.problem)) {
          const Inputs inputs = make_inputs(test, dtype);
          AttentionRun run(platform, backend, test, inputs, dtype);
          const AttentionResult result = run.run();
          append(failures, result.failures);
          int wrong = 0;
          for (int b = 0; b < 2; ++b) {
            for (int i = 0; i < queries; ++i) {
              for (int h = 0; h < q_heads; ++h) {
                const double expected = h / (q_heads / kv_heads) + 1;
                for (int d = 0; d < head_dim; ++d) {
                  // 25 * 3 * 2^-8 < 0.5: no neighbouring head is within the tolerance.
                  const float value = result.out[static_cast<std::size_t>(place.at(b, i, h, d))];
                  wrong += !within(static_cast<double>(value), expected,
                                   3 * unit_roundoff(dtype) * expected + 1e-5);
                }
              }
            }
          }
          if (wrong != 0)
            failures.push_back(fmt::format("{}: {} numbers are of another head", run.where(), wrong));
        }
      }
    }
  }
  return failures;
}

}  // namespace attn::conformance
