// The handler only sets a flag: nothing else is safe in a signal handler.
#include "apps/interrupt.h"

#include <csignal>

namespace attn {
namespace {

volatile std::sig_atomic_t interrupt_flag = 0;  // a signal handler can reach nothing but a global

void on_interrupt(int) { interrupt_flag = 1; }

}  // namespace

void catch_interrupts() {
  struct sigaction action {};
  action.sa_handler = on_interrupt;
  action.sa_flags = static_cast<int>(SA_RESETHAND | SA_RESTART);  // the second SIGINT ends the program
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, nullptr);
}

bool interrupted() { return interrupt_flag != 0; }

}  // namespace attn
