/* SPDX-License-Identifier: MIT
 * fpmode.h - a thread's floating-point mode: rounding, flush to zero, which exceptions trap. What a stage sets must not
 * reach the next one, whose results would then depend on which stages share its thread. */
#ifndef SP_CORE_FPMODE_H
#define SP_CORE_FPMODE_H

#include <fenv.h>

#ifdef __x86_64__

#include <stdint.h>
#include <xmmintrin.h>

#define SP_FP_FLAGS 0x3fu /* of MXCSR: which exceptions there were; no mode */

/* Not fegetenv and fesetenv, which also hold the flags: together they cost some 100 ns, this costs 5. */
typedef struct sp_fpmode {
  uint32_t mxcsr;
  uint16_t x87;
} sp_fpmode;

static inline sp_fpmode sp_fpmode_get(void) {
  sp_fpmode m = {.mxcsr = _mm_getcsr() & ~SP_FP_FLAGS};
  __asm__ volatile("fnstcw %0" : "=m"(m.x87));
  return m;
}

static inline void sp_fpmode_set(sp_fpmode m) {
  sp_fpmode now = sp_fpmode_get();
  if (now.mxcsr == m.mxcsr && now.x87 == m.x87) return;
  _mm_setcsr(m.mxcsr | (_mm_getcsr() & SP_FP_FLAGS));
  __asm__ volatile("fldcw %0" : : "m"(m.x87));
}

static inline int sp_fpmode_same(sp_fpmode a, sp_fpmode b) { return a.mxcsr == b.mxcsr && a.x87 == b.x87; }

#else

#include <string.h>

typedef fenv_t sp_fpmode;

static inline sp_fpmode sp_fpmode_get(void) {
  sp_fpmode m;
  fegetenv(&m);
  return m;
}

static inline void sp_fpmode_set(sp_fpmode m) { fesetenv(&m); }

static inline int sp_fpmode_same(sp_fpmode a, sp_fpmode b) { return memcmp(&a, &b, sizeof a) == 0; }

#endif
#endif
