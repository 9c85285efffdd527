/* SPDX-License-Identifier: MIT
 * strategies.h - what strategies.c, which starts processes, knows of strategies_lua.c, which runs cases in them. */
#ifndef SP_TESTS_FUZZ_STRATEGIES_H
#define SP_TESTS_FUZZ_STRATEGIES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct sf_opts {
  uint64_t cases, seed;
  int jobs;
  const char *devices; /* with ',' between */
  double limit;        /* seconds of a case */
  bool shrink, print, verbose;
  bool mutate; /* change lists of operations in the place of comparing runs */
  int swaps;   /* of each program, that are played */
  int waits;   /* of each training, without each of which it is played */
  int changes; /* random ones of each program's list, that the proof is compared with an oracle for */
} sf_opts;

typedef struct sf_state sf_state;

/* The i-th of opts->devices; false behind the last. */
bool sf_device(const sf_opts *opts, size_t i, char *name, size_t n);

int sf_environment(sf_opts *opts); /* of the process: where plugins lie; not 0: it has been said why not */
void sf_clean(void);

/* What runs cases: the Lua that makes them, and the environment of `spcore run`. NULL: it has been said why not. */
sf_state *sf_open(const sf_opts *opts);
void sf_close(sf_state *s);

/* One case -> "same", "refused", or how it failed: "differs", "refusal" (in one capture alone, or without a reason),
 * "error", "useless" (serialized refuses it). With --mutate the words of "same" are nine numbers: programs, deletions
 * refused, swaps tried, let through, played; lists without a wait played, and which of them gave other bits; random
 * changes, and those that the proof holds for. Words without line breaks;
 * device and captures ("off+lane") live until the next call. */
const char *sf_case(sf_state *s, uint64_t seed, const char **device, const char **captures, char *words, size_t n);
const char *sf_script(sf_state *s, const char *text, char *words, size_t n);

/* Whole commands, in a process that has run no case. */
int sf_file(const sf_opts *opts, const char *path);
int sf_print(const sf_opts *opts);
void sf_shrink(const sf_opts *opts, uint64_t seed, const char *kind, int tries);

/* strategies_ops.c: adds functions to the table on top, for scripts of --mutate. */
struct lua_State;
void sf_add_ops(struct lua_State *L);

/* strategies.c: the script in another process; "crash" and "hang" are further kinds. */
const char *sf_try(const char *text, char *words, size_t n);

#endif
