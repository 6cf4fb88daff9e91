// From what was measured to a result record.
#pragma once

#include "apps/attnbench/model_bench.h"
#include "lib/results/record.h"

namespace attn {

// What is the same for every record of a run.
struct RunFacts {
  Fields environment;
  double copy_gb_s = 0;  // the device's copy rate, measured in this run
};

ResultRecord make_record(const BenchOptions& options, const Platform& platform, const Model& model,
                         const BenchCase& bench_case, const CaseResult& result, const ModeResult& mode,
                         const RunFacts& facts);

// Bytes that one decode step must read: every matrix of the layers and the head once, and the cached keys and
// values of `kv_len` tokens of each sequence. The gathered embedding row is left out.
double decode_step_bytes(const ModelConfig& config, DType dtype, int batch, double kv_len);

// System B's table: | mode | model | B | prompt | new | TTFT | TPOT | throughput | peak memory |.
std::vector<std::string> table_header();
std::vector<std::string> table_row(const ResultRecord& record);

}  // namespace attn
