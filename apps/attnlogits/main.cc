// attnlogits: do the attention modes compute the same logits?
#include <CLI/CLI.hpp>

#include "apps/attnlogits/run.h"
#include "apps/guarded_main.h"
#include "apps/short_waits.h"

int main(int argc, char** argv) {
  attn::short_waits(argv);
  return attn::guarded_main("attnlogits", [&] {
    attn::LogitsOptions options;
    CLI::App app("Logits of the attention modes compared, prompt by prompt", "attnlogits");
    app.footer(attn::logits_help());
    attn::add_logits_options(app, options);
    if (const auto code = attn::parse_command_line(app, argc, argv)) return *code;
    options.argv = attn::arguments(argc, argv);
    return attn::run_logits(options);
  });
}
