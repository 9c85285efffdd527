/* SPDX-License-Identifier: MIT
 * fiber.h - stacks that take turns on one host thread.
 */
#ifndef SPCORE_EMU_FIBER_H
#define SPCORE_EMU_FIBER_H

#include <cstddef>

namespace sp_emu {

struct fiber; /* a stack of its own, or the host thread's */

fiber *fiber_open(void (*entry)(void *arg), void *arg); /* entry never returns; starts at the first switch */
fiber *fiber_of_host();
void fiber_switch(fiber *from, fiber *to);

} // namespace sp_emu

#endif
