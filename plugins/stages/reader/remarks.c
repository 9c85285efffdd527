/* SPDX-License-Identifier: MIT
 * remarks.c - what is odd about samples that are read all the same: the first of each kind is named in a line of the
 * log, all are counted, each sample once. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "reader.h"

static const char *const kinds[RD_REMARKS] = {"damaged",    "turned",  "reduced", "no data",
                                              "other type", "outside", "no value", "unlike"}; /* RD_DAMAGED ... */

void rd_remark(rd_worker *w, int kind, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(w->remark[kind], sizeof w->remark[kind], fmt, ap);
  va_end(ap);
  w->remarks |= 1u << kind;
}

int rd_open_remarks(rd_self *self) {
  pthread_mutex_init(&self->remarks.lock, NULL);
  self->remarks.of = calloc(self->total, 1);
  return self->remarks.of ? SP_OK : SP_E_NOMEM;
}

void rd_close_remarks(rd_self *self) {
  if (!self->remarks.of) return;
  free(self->remarks.of);
  pthread_mutex_destroy(&self->remarks.lock);
}

/* Threads come in any order: the first of a batch is the one of the smallest index. */
static void note(rd_self *self, const char *words, int kind, uint64_t index) {
  rd_remarks *r = &self->remarks;
  pthread_mutex_lock(&r->lock);
  int is_first = !r->n[kind]++;
  if (is_first || (!r->told[kind] && index < r->index[kind])) {
    snprintf(r->first[kind], sizeof r->first[kind], "%s", words);
    r->index[kind] = index;
  }
  pthread_mutex_unlock(&r->lock);
}

void rd_tell_remarks(sp_ctx *ctx, rd_self *self) {
  rd_remarks *r = &self->remarks;
  pthread_mutex_lock(&r->lock);
  for (int kind = 0; kind < RD_REMARKS; kind++) {
    if (!r->n[kind] || r->told[kind]) continue;
    r->told[kind] = 1;
    ctx->host->log(ctx, SP_LOG_WARN, "%s; more of this kind are only counted", r->first[kind]);
  }
  pthread_mutex_unlock(&r->lock);
}

void rd_note_remarks(rd_self *self, const rd_worker *w, uint64_t index) {
  uint8_t *of = &self->remarks.of[index];
  for (int kind = 0; kind < RD_REMARKS; kind++) {
    uint8_t bit = (uint8_t)(1u << kind);
    if (w->remarks & bit && !(__atomic_fetch_or(of, bit, __ATOMIC_RELAXED) & bit))
      note(self, w->remark[kind], kind, index);
  }
}

int rd_remark_item(const void *arg, uint64_t i, char *to, size_t size) {
  rd_self *self = (rd_self *)arg;
  rd_remarks *r = &self->remarks;
  pthread_mutex_lock(&r->lock);
  int n = snprintf(to, size, "%s\t%" PRIu64 "\t%s", kinds[i], r->n[i], r->first[i]);
  pthread_mutex_unlock(&r->lock);
  return n;
}
