// summarize: result files in, speed-up tables out.
#include "apps/guarded_main.h"
#include "apps/summarize/options.h"
#include "apps/summarize/run.h"

int main(int argc, char** argv) {
  return attn::guarded_main("summarize", [&] {
    attn::SummarizeOptions options;
    if (const auto code = attn::parse_summarize_options(argc, argv, options)) return *code;
    return attn::run_summarize(options);
  });
}
