/* SPDX-License-Identifier: MIT
 * queue.h - requests between those who ask and the loop that answers (spcore/feed.h): bounded, first come first served.
 *
 * Any thread submits and cancels; the thread of the loop takes, answers and closes; a stage's calls look at what was
 * taken. Every request that was accepted is answered once. */
#ifndef SP_CORE_QUEUE_H
#define SP_CORE_QUEUE_H

#include <spcore/feed.h>

#include <stdbool.h>

#include "base/err.h"

typedef struct sp_queue_opts {
  uint32_t batch;      /* most requests of a step */
  uint32_t capacity;   /* most requests that are not answered; 1..1048576 */
  size_t bytes;        /* most memory for what was submitted; of a single request too */
  int64_t wait_us;     /* how long the oldest waits for a full batch; 0: steps begin with what is there */
  int64_t deadline_us; /* of requests that have none of their own; 0: none */
} sp_queue_opts;

#define SP_QUEUE_MAX_PARTS 64

int sp_queue_new(sp_queue **q, const sp_queue_opts *opts, sp_err *err);
void sp_queue_free(sp_queue *q); /* closes it first */

/* What a request has to be: a sample of each output, or one part of 1 to `most` bytes. Opens the queue. */
int sp_queue_open(sp_queue *q, const size_t *part_bytes, size_t n_parts, uint64_t most, sp_err *err);
/* Answers all that is not answered yet, and from then on takes nothing; `why` says to whom it asks. */
void sp_queue_close(sp_queue *q, int status, const char *why);

/* ---- any thread; as in sp_feed_api ---- */
void sp_queue_attach(sp_queue *q);
void sp_queue_detach(sp_queue *q);
int sp_queue_submit(sp_queue *q, const sp_request *request, uint64_t *ticket, char *why, size_t n);
int sp_queue_cancel(sp_queue *q, uint64_t ticket);
const sp_part *sp_queue_parts(sp_queue *q, uint64_t id, uint32_t *n, uint32_t *form);
const char *sp_queue_name(sp_queue *q, uint64_t id);
void sp_queue_reject(sp_queue *q, uint64_t id, int status, const char *words);

/* ---- the loop's thread ---- */
/* Answers what was cancelled or is late, also what a step has; returns how many. What a step has stays as it is until
 * sp_queue_answer. */
uint32_t sp_queue_expire(sp_queue *q);
/* Does that, *told (may be NULL) times, and takes what makes a step now: ids[0..batch-1], those behind the n that it
 * returns are SP_NO_REQUEST. 0: nothing is due. */
uint32_t sp_queue_take(sp_queue *q, uint64_t *ids, uint32_t *told);
bool sp_queue_due(sp_queue *q);  /* sp_queue_take would take some */
bool sp_queue_full(sp_queue *q); /* a whole batch */
/* Nothing waits, nobody is attached: until somebody submits on this thread there is no further step. */
bool sp_queue_over(sp_queue *q);
bool sp_queue_has_room(sp_queue *q);
/* Sleeps until something is to be expired, it is closed, or `seconds` have passed; also
 * until a batch is full, and where a step may begin (`begins`) until one is due, or all is over. */
void sp_queue_wait(sp_queue *q, double seconds, bool begins);
/* A step is over: its requests are done, but for those that are late. results: of the whole batch, with its dimension
 * first. */
void sp_queue_answer(sp_queue *q, const uint64_t *ids, uint32_t n, uint64_t step, const sp_tensor *results,
                     const char *const *names, uint32_t n_results);

/* ---- figures ---- */
typedef struct sp_queue_times { /* seconds; NaN where there is none */
  double mean, max, p50, p90, p99, p999;
} sp_queue_times;
typedef struct sp_queue_stats {
  uint64_t accepted, refused;             /* by submit() */
  uint64_t done, failed, cancelled, late; /* answers; together with `open` they are the accepted */
  uint64_t open, steps;                   /* not answered yet; steps that were taken */
  size_t bytes;                           /* of requests that are open, and kept for the next ones */
  sp_queue_times waited, took;            /* of those that are done: until a step took them; until they were answered */
} sp_queue_stats;
void sp_queue_get_stats(sp_queue *q, sp_queue_stats *stats);
void sp_queue_clear_stats(sp_queue *q); /* what is open stays accepted */
/* Bin k of the histogram of `took`: calls with *at 0 at first; false: there are no more.
 * Times from *from to *to seconds. */
bool sp_queue_bin(sp_queue *q, size_t *at, double *from, double *to, uint64_t *n);

#endif
