/* SPDX-License-Identifier: MIT
 * queue_slot.h - what the files source/queue*.c know of a queue; nobody else includes it. */
#ifndef SP_CORE_QUEUE_SLOT_H
#define SP_CORE_QUEUE_SLOT_H

#include <pthread.h>

#include "source/histogram.h"
#include "source/queue.h"

/* SP_SLOT_LEAVING: out of the ring, and about to be told why; SP_SLOT_TAKEN: a step reads it. */
typedef enum { SP_SLOT_FREE, SP_SLOT_FILLING, SP_SLOT_WAITING, SP_SLOT_LEAVING, SP_SLOT_TAKEN } sp_slot_state;

#define SP_SLOT_BITS 40 /* of an id: which slot; above them its generation */

typedef struct sp_slot {
  sp_slot_state state;
  bool cancelled;
  bool told; /* SP_SLOT_TAKEN, and its deadline came first: it is answered, but its step still reads it */
  uint64_t generation;
  void *memory; /* of `bytes`: those of the request, or where the slot is idle of the last one */
  size_t bytes;
  sp_part *parts; /* [q->max_parts] into memory */
  uint32_t n_parts, form;
  char name[SP_REQUEST_NAME];
  double submitted, taken, deadline; /* sp_now(); deadline INFINITY: none */
  int status;                        /* of a rejected one */
  char *words;
  void (*answer)(void *arg, const sp_answer *answer);
  void *arg;
  struct sp_slot *next;            /* of those that are told why not */
  struct sp_slot *before, *behind; /* of those with a deadline that steps have */
} sp_slot;

struct sp_queue {
  sp_queue_opts o;
  pthread_mutex_t lock;
  pthread_cond_t wake;                   /* the loop's thread */
  bool sleeping, begins, opened, closed; /* begins: what is due wakes it too */
  double until;                          /* of its sleep */
  uint32_t attached;
  size_t part_bytes[SP_QUEUE_MAX_PARTS], n_parts, max_parts;
  uint64_t most; /* not 0: one part of so many bytes at most */
  sp_slot *slots;
  uint32_t *idle, n_idle;           /* free slots, the last used on top */
  uint32_t *ring, first, n_waiting; /* slots that wait */
  uint32_t n_marked;                /* of them cancelled */
  sp_slot *timed;                   /* those with a deadline that steps have */
  uint32_t n_told;                  /* slots that steps read, and that are answered */
  double next_deadline;             /* nothing is late before */
  size_t used, kept; /* bytes of requests that are open; that idle slots keep. Together at most o.bytes */
  sp_queue_stats counts;
  sp_histogram waited, took;
  const char *close_words;
};

/* ---- queue_slot.c, locked ---- */
uint64_t sp_queue_id(const sp_queue *q, const sp_slot *s);
sp_slot *sp_queue_find(const sp_queue *q, uint64_t id); /* NULL: it is no longer that request's */
/* Of a slot that a step takes, if it has one; and when it is over, or late. */
void sp_queue_keep_deadline(sp_queue *q, sp_slot *s);
void sp_queue_forget_deadline(sp_queue *q, sp_slot *s);
void sp_queue_put_back(sp_queue *q, sp_slot *s, size_t bytes); /* `bytes`: what it was promised */

/* ---- queue_answer.c ---- */
/* Those that are cancelled or late, linked by `next`; out of the ring. Locked. */
sp_slot *sp_queue_gather(sp_queue *q, double now);
/* Tells them so; returns how many. Not locked. */
uint32_t sp_queue_tell(sp_queue *q, sp_slot *first);

#endif
