/* SPDX-License-Identifier: MIT
 * fiber.cpp - stacks that take turns on one host thread: a dozen instructions on x86-64, ucontext elsewhere.
 *
 * swapcontext calls the kernel for the signal mask at each switch, which would be most of an emulated barrier.
 */
#include "fiber.h"
#include "emu.h"

#include <sys/mman.h>
#include <unistd.h>

#if !defined(__x86_64__)
#include <ucontext.h>
#endif

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif
#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#endif

namespace sp_emu {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr size_t stack_bytes = 256 << 10;
#else
constexpr size_t stack_bytes = 64 << 10;
#endif

struct fiber {
  void *stack;
  size_t bytes;
  void (*entry)(void *);
  void *arg;
#if defined(__x86_64__)
  void *sp;
#else
  ucontext_t context;
#endif
  void *fake;       /* AddressSanitizer's */
  void *race_fiber; /* ThreadSanitizer's */
};

static fiber *came_from; /* by which fiber the running one was switched to, until it has said so to the sanitizer */

#if defined(__x86_64__)
extern "C" void sp_emu_switch(void **save, void *load);
__asm__(".text\n"
        ".type sp_emu_switch, @function\n"
        ".hidden sp_emu_switch\n"
        ".globl sp_emu_switch\n"
        "sp_emu_switch:\n"
        "  pushq %rbp\n"
        "  pushq %rbx\n"
        "  pushq %r12\n"
        "  pushq %r13\n"
        "  pushq %r14\n"
        "  pushq %r15\n"
        "  movq %rsp, (%rdi)\n"
        "  movq %rsi, %rsp\n"
        "  popq %r15\n"
        "  popq %r14\n"
        "  popq %r13\n"
        "  popq %r12\n"
        "  popq %rbx\n"
        "  popq %rbp\n"
        "  ret\n"
        ".size sp_emu_switch, .-sp_emu_switch\n");
#endif

#if defined(__SANITIZE_ADDRESS__)
/* Not of a switch between two threads of a block: none has a fake stack that would have to be exchanged, and it costs
 * more than the switch itself. */
static bool told(const fiber *from, const fiber *to) { return !from->entry || !to->entry; }
#endif

static void arrived(fiber *to) {
#if defined(__SANITIZE_ADDRESS__)
  if (!told(came_from, to)) return;
  /* The bounds of the host's stack are learned as it is first left. */
  const void *bottom = nullptr;
  size_t bytes = 0;
  __sanitizer_finish_switch_fiber(to->fake, &bottom, &bytes);
  if (!came_from->stack) {
    came_from->stack = const_cast<void *>(bottom);
    came_from->bytes = bytes;
  }
#else
  (void)to;
#endif
}

static fiber *starting;

static void enter() {
  fiber *f = starting;
  arrived(f);
  f->entry(f->arg);
  die("a fiber returned");
}

fiber *fiber_of_host() {
  static thread_local fiber host = {};
#if defined(__SANITIZE_THREAD__)
  host.race_fiber = __tsan_get_current_fiber();
#endif
  return &host;
}

fiber *fiber_open(void (*entry)(void *), void *arg) {
  fiber *f = new fiber();
  size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  void *map = mmap(nullptr, page + stack_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (map == MAP_FAILED || mprotect(map, page, PROT_NONE)) die("no memory for the stacks of a block's threads");
  f->stack = static_cast<char *>(map) + page;
  f->bytes = stack_bytes;
  f->entry = entry;
  f->arg = arg;
#if defined(__x86_64__)
  /* Six registers, the address to return to, and the gap that a called function finds above its frame. */
  /* Tops of stacks at one offset of a page would share a few sets of the cache,
   * and push each other out at each switch. */
  static unsigned opened;
  void **top = reinterpret_cast<void **>(static_cast<char *>(f->stack) + stack_bytes - opened++ % 64 * 64) - 10;
  top[6] = reinterpret_cast<void *>(&enter);
  f->sp = top;
#else
  getcontext(&f->context);
  f->context.uc_stack.ss_sp = f->stack;
  f->context.uc_stack.ss_size = f->bytes;
  makecontext(&f->context, &enter, 0);
#endif
#if defined(__SANITIZE_THREAD__)
  f->race_fiber = __tsan_create_fiber(0);
#endif
  return f;
}

void fiber_switch(fiber *from, fiber *to) {
  starting = to;
  came_from = from;
#if defined(__SANITIZE_ADDRESS__)
  if (told(from, to)) __sanitizer_start_switch_fiber(&from->fake, to->stack, to->bytes);
#endif
#if defined(__SANITIZE_THREAD__)
  __tsan_switch_to_fiber(to->race_fiber, 0);
#endif
#if defined(__x86_64__)
  sp_emu_switch(&from->sp, to->sp);
#else
  swapcontext(&from->context, &to->context);
#endif
  arrived(from);
}

} // namespace sp_emu
