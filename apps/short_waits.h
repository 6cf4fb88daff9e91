// short_waits: threads that wait for work give their core away soon.
#pragma once

namespace attn {

// OpenMP's threads wait for each other by spinning for some ten milliseconds. Where another program wants the
// same core that is a hundred times what most of our loops take (measured on two shared cores: a perplexity
// run of 2 s took 20 s). libgomp reads how long to spin before main() begins, so the program starts itself
// once more with GOMP_SPINCOUNT set to some fifty microseconds: long enough that a decode step is as fast as
// with the default. Does nothing where the user has set GOMP_SPINCOUNT or OMP_WAIT_POLICY, or where a program
// cannot start itself. Call it first in main().
void short_waits(char** argv);

}  // namespace attn
