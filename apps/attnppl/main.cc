// attnppl: the perplexity of a text under each attention mode, and how far the modes differ.
#include <CLI/CLI.hpp>

#include "apps/attnppl/run.h"
#include "apps/guarded_main.h"
#include "apps/short_waits.h"

int main(int argc, char** argv) {
  attn::short_waits(argv);
  return attn::guarded_main("attnppl", [&] {
    attn::PplOptions options;
    CLI::App app("Perplexity of a text under each attention mode, every token scored exactly once",
                 "attnppl");
    app.footer(attn::ppl_help());
    attn::add_ppl_options(app, options);
    if (const auto code = attn::parse_command_line(app, argc, argv)) return *code;
    options.argv = attn::arguments(argc, argv);
    return attn::run_ppl(options);
  });
}
