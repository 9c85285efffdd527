/* SPDX-License-Identifier: MIT
 * races.h - which of two operations comes first, by vector clocks, and which accesses to one buffer nothing orders.
 *
 * A thread is what executes one after another: a stream, or the host (SP_RACES_HOST), which submits everything. What
 * the host did and learnt before it submits an operation comes before that operation. A record keeps the clock of its
 * thread in an event; who waits for the event comes behind all that was submitted there before the record. Nothing else
 * orders two threads: not the time that passes, nor that one stream was quick.
 *
 * A buffer keeps, for each range of bytes, its last write and the reads since that no later read is ordered behind;
 * that is enough to find every pair of accesses which nothing orders, and never more than threads + 1 accesses a range.
 *
 * Pure: no device, no Lua. Strings are copied. Without `history` clocks alone are kept, and accesses cost nothing. */
#ifndef SP_CORE_HAND_RACES_H
#define SP_CORE_HAND_RACES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum { SP_RACES_HOST = 0 };
enum { SP_RACE_READ = 1, SP_RACE_WRITE = 2 };

/* Ranges of one buffer with a history of their own. */
#define SP_RACES_MAX_SPANS 65536

typedef struct sp_races sp_races;

typedef struct sp_race_touch {
  int buffer, mode;   /* SP_RACE_READ | SP_RACE_WRITE; a write is checked as both */
  size_t from, bytes; /* within the buffer; 0 bytes touch nothing */
} sp_race_touch;

int sp_races_new(sp_races **races, bool history, sp_err *err);
void sp_races_free(sp_races *races);

/* A stream, and its end: closing one waits for it, so the host knows all of it. Its number may be given again. */
int sp_races_thread(sp_races *races, const char *name, int *thread, sp_err *err);
int sp_races_end_thread(sp_races *races, int thread, sp_err *err);

int sp_races_event(sp_races *races, int *event, sp_err *err);
void sp_races_end_event(sp_races *races, int event);
int sp_races_record(sp_races *races, int event, int thread, sp_err *err);
/* The latest record so far; an event never recorded orders nothing. `thread` is the host where it waits itself, or has
 * seen that the event is complete. */
int sp_races_wait(sp_races *races, int thread, int event, sp_err *err);
/* The host has waited for all of a thread. */
int sp_races_sync(sp_races *races, int thread, sp_err *err);

/* An operation of a thread: submitted, and numbered from 1. With history its accesses are checked first, all of them;
 * where one races nothing is kept of the operation, and the message names both operations, their threads, the buffer,
 * where in the script they stand, and the wait that is missing (SP_E_RACE). `who` does it ("stage 'encoder'"), at
 * `where` ("train.lua:12", or ""). */
int sp_races_access(sp_races *races, int thread, const sp_race_touch *touch, size_t n, const char *who,
                    const char *where, uint64_t *number, sp_err *err);
/* Does the host know that the operation is over? */
bool sp_races_known(const sp_races *races, int thread, uint64_t number);

/* A buffer of so many bytes; making and ending it are writes of the host. With history only: else *buffer is -1. */
int sp_races_buffer(sp_races *races, const char *name, size_t bytes, const char *where, int *buffer, sp_err *err);
int sp_races_end_buffer(sp_races *races, int buffer, const char *where, sp_err *err);
/* The same without a check, where its memory is freed only when nothing can use it any more. */
void sp_races_forget_buffer(sp_races *races, int buffer);

/* How many ranges have a history, over all buffers; for tests. */
size_t sp_races_spans(const sp_races *races);

#endif
