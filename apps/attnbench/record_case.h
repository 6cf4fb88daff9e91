// From what was measured to a result record.
#pragma once

#include "apps/attnbench/model_bench.h"
#include "lib/measure/roofline.h"
#include "lib/results/record.h"

namespace attn {

// What is the same for every record of a run.
struct RunFacts {
  Fields environment;
  Ceilings ceilings;             // of the device, measured in this run
  SensorLog* sensors = nullptr;  // may be null; then no_sensors says why
  std::string no_sensors;
};

ResultRecord make_record(const BenchOptions& options, const Platform& platform, const Model& model,
                         const BenchCase& bench_case, const CaseResult& result, const ModeResult& mode,
                         const RunFacts& facts);

// System B's table, and the shares of the limits:
// | mode | model | B | prompt | new | TTFT | of limit | TPOT | of limit | throughput | peak memory | outcome
// |.
std::vector<std::string> table_header();
std::vector<std::string> table_row(const ResultRecord& record);

}  // namespace attn
