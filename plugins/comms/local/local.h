/* SPDX-License-Identifier: MIT
 * local.h - what the files of comm_local.so share.
 *
 * All ranks map one segment of shared memory. Each rank has two boxes in it, which it fills in turn and the others
 * empty; so any size goes through memory of a fixed one, and a rank fills a box while others empty its other. Two
 * numbers say how far a box is, and whoever must wait for one sleeps on it (futex). */
#ifndef COMM_LOCAL_H
#define COMM_LOCAL_H

#include <stdatomic.h>
#include <stdbool.h>

#include <spcore/comm.h>

#define LOCAL_RANKS 256
#define LOCAL_LINE 64 /* bytes of a cache line */

typedef struct local_word {
  _Alignas(LOCAL_LINE) _Atomic uint32_t value;
  _Atomic uint32_t sleepers; /* a rank that was killed in its sleep stays counted: one needless call a time */
} local_word;

typedef struct local_call {
  uint32_t kind;
  int32_t root;
  uint64_t bytes;
} local_call;

typedef struct local_box {
  local_word filled;  /* how often */
  local_word emptied; /* how often, all ranks together */
  local_call call;    /* that filled it */
} local_box;

typedef struct local_segment {
  uint64_t mark;            /* which rank 0 has told: this is its segment */
  _Atomic uint32_t aborted; /* 1 + the rank that did */
  local_box box[];          /* [ranks][2] */
} local_segment;

typedef struct local_comm {
  int rank, ranks;
  local_segment *segment;
  size_t mapped;
  char *data;       /* of box 0; each has `bytes` */
  size_t bytes;     /* of a box */
  uint32_t *passed; /* [ranks] boxes of each rank that this one has filled or emptied */
} local_comm;

/* segment.c: maps the segment into c, whose rank and ranks are set. Collective. What is mapped is unmapped by
 * local_unmap, on failure too. */
int local_map(sp_ctx *ctx, const sp_comm_boot *boot, local_comm *c);
void local_unmap(local_comm *c);

#endif
