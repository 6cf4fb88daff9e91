// SIGINT: the first asks the program to finish its record and stop, the second ends it at once.
#pragma once

namespace attn {

// Installs the handler. The first SIGINT sets the flag; the second acts as without a handler.
void catch_interrupts();
// True after a SIGINT. A program that sees it stops measuring, says that its file is valid, and returns
// kInterruptedExitCode.
bool interrupted();

inline constexpr int kInterruptedExitCode = 130;  // 128 + SIGINT, as shells expect

}  // namespace attn
