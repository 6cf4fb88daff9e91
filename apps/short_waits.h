// short_waits: threads that wait for work give their core away soon.
#pragma once

namespace attn {

// OpenMP's threads wait for each other by spinning for some ten milliseconds. Where another program wants the
// same core that is a hundred times what most of our loops take (measured beside two busy programs on two
// cores: a perplexity run of 4.5 s took 18.5 s). libgomp reads how long to spin before main() begins, so the
// program starts itself once more with GOMP_SPINCOUNT set to less than a millisecond. Much less is wrong too:
// at 1000 spins the threads slept between attention's uneven shares, and decoding 1024 tokens took 1.6 times
// as long. Does nothing where the user has set GOMP_SPINCOUNT or OMP_WAIT_POLICY, or where a program cannot
// start itself. Call it first in main().
void short_waits(char** argv);

}  // namespace attn
