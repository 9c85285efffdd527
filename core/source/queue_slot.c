/* SPDX-License-Identifier: MIT
 * queue_slot.c - slots of a queue: their numbers, their deadlines, and how they become free. */
#include "source/queue_slot.h"

#include <math.h>

#define GENERATIONS \
  ((UINT64_C(1) << 24) - 1) /* so many that an id, which has them above its 40 bits, is never SP_NO_REQUEST */

uint64_t sp_queue_id(const sp_queue *q, const sp_slot *s) {
  return s->generation % GENERATIONS << SP_SLOT_BITS | (uint64_t)(s - q->slots);
}

sp_slot *sp_queue_find(const sp_queue *q, uint64_t id) {
  uint64_t i = id & ((UINT64_C(1) << SP_SLOT_BITS) - 1);
  if (id == SP_NO_REQUEST || i >= q->o.capacity) return NULL;
  sp_slot *s = &q->slots[i];
  return s->generation % GENERATIONS == id >> SP_SLOT_BITS ? s : NULL;
}

void sp_queue_forget_deadline(sp_queue *q, sp_slot *s) {
  if (s->before) s->before->behind = s->behind;
  else if (q->timed == s) q->timed = s->behind;
  if (s->behind) s->behind->before = s->before;
  s->before = s->behind = NULL;
}

void sp_queue_keep_deadline(sp_queue *q, sp_slot *s) {
  if (s->deadline == INFINITY) return;
  s->behind = q->timed;
  if (q->timed) q->timed->before = s;
  q->timed = s;
}

void sp_queue_put_back(sp_queue *q, sp_slot *s, size_t bytes) {
  sp_queue_forget_deadline(q, s);
  s->state = SP_SLOT_FREE;
  s->told = false;
  s->generation++;
  q->used -= bytes;
  q->kept += s->bytes;
  q->idle[q->n_idle++] = (uint32_t)(s - q->slots);
}
