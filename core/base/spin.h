/* SPDX-License-Identifier: MIT
 * spin.h - a short busy wait before a thread goes to sleep: a wake-up costs more than the few microseconds here. */
#ifndef SP_CORE_SPIN_H
#define SP_CORE_SPIN_H

#include "base/util.h"

#if defined(__x86_64__) || defined(__i386__)
#define SP_RELAX() __builtin_ia32_pause()
#elif defined(__aarch64__)
#define SP_RELAX() __asm__ volatile("yield")
#else
#define SP_RELAX() ((void)0)
#endif

/* while (!ready && sp_spin(&spin, seconds)) continue; false when the time is over. Zero-initialised is fresh. */
typedef struct sp_spin_state {
  double end;
} sp_spin_state;

static inline bool sp_spin(sp_spin_state *spin, double seconds) {
  double now = sp_now();
  if (spin->end <= 0) spin->end = now + seconds;
  for (int i = 0; i < 4; i++) SP_RELAX();
  return now < spin->end;
}

#endif
