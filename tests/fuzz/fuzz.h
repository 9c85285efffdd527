/* SPDX-License-Identifier: MIT
 * fuzz.h - what the fuzz drivers share: the same mutations for the same seed; `PROGRAM [ROUNDS [SEED]]`.
 *
 * A driver's own checks are few; it is the sanitizers that look on. */
#ifndef SP_TESTS_FUZZ_H
#define SP_TESTS_FUZZ_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct fz {
  uint64_t state;
} fz;

static inline uint32_t fz_next(fz *f) { /* xorshift64* */
  f->state ^= f->state >> 12;
  f->state ^= f->state << 25;
  f->state ^= f->state >> 27;
  return (uint32_t)((f->state * UINT64_C(0x2545F4914F6CDD1D)) >> 32);
}

static inline uint32_t fz_below(fz *f, uint32_t n) { return fz_next(f) % n; }

static inline long fz_begin(fz *f, int argc, char **argv, long rounds) {
  f->state = UINT64_C(0x9E3779B97F4A7C15) + (argc > 2 ? strtoull(argv[2], NULL, 10) : 0);
  return argc > 1 ? strtol(argv[1], NULL, 10) : rounds;
}

/* One to eight changes of the n bytes at p; returns how many bytes are left. */
static inline size_t fz_mutate(fz *f, uint8_t *p, size_t n) {
  static const uint8_t telling[] = {0, 1, 0x7f, 0x80, 0xff, '"', '-', '9', '[', '{'};
  for (uint32_t k = 1 + fz_below(f, 8); k > 0 && n > 1; k--) {
    size_t at = fz_below(f, (uint32_t)n);
    switch (fz_below(f, 6)) {
      case 0: p[at] ^= (uint8_t)(1u << fz_below(f, 8)); break;
      case 1: p[at] = (uint8_t)fz_next(f); break;
      case 2: p[at] = telling[fz_below(f, sizeof telling)]; break;
      case 3: memmove(p + at, p + at + 1, --n - at); break;
      case 4: memmove(p + at, p + fz_below(f, (uint32_t)at + 1), n - at < 4 ? n - at : 4); break;
      default:
        if (fz_below(f, 8) == 0) n = at + 1;
    }
  }
  return n;
}

#define FZ_CHECK(ok, ...)           \
  do {                              \
    if (!(ok)) {                    \
      fprintf(stderr, __VA_ARGS__); \
      fputc('\n', stderr);          \
      exit(1);                      \
    }                               \
  } while (0)

#endif
