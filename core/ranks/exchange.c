/* SPDX-License-Identifier: MIT
 * exchange.c - data between the ranks, over connections of its own: all send to rank 0, which sends to all.
 *
 * A call begins with a frame from each rank that says what it means to do. Rank 0 compares them before it takes
 * anything, and nobody allocates. A rank that waits here for one that is lost wakes up since the watcher ends its
 * connections. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "ranks/impl.h"

#define PIECE (1 << 20) /* bytes to one rank before the next has its turn */
#define VERDICT 3       /* seconds in which the watcher says why a connection is gone */

typedef struct frame {
  char what[16];
  uint64_t bytes;
  uint32_t call, pad;
  sp_rank_place place; /* of who sends it */
} frame;

static frame begin(sp_ranks *r, const char *what, size_t bytes) {
  frame f = {.bytes = bytes, .place = sp_ranks_place(r)};
  snprintf(f.what, sizeof f.what, "%s", what);
  f.call = atomic_fetch_add(&r->calls, 1) + 1;
  atomic_store(&r->call, what);
  sp_ranks_wait(r, true);
  return f;
}

static int end(sp_ranks *r, int rc) {
  sp_ranks_wait(r, false);
  atomic_store(&r->call, NULL);
  return rc;
}

/* The connection to that rank is gone. */
static int lost(sp_ranks *r, int rank, sp_err *err) {
  sp_err why;
  if (sp_ranks_await_failure(r, VERDICT, err)) return err->status;
  sp_fail(&why, SP_E_IO, "the data connection between rank 0 and rank %d broke", rank ? rank : r->o.rank);
  return sp_ranks_blame(r, rank, &why, err);
}

static void note_place(sp_ranks *r, int peer, const frame *f) {
  pthread_mutex_lock(&r->lock);
  r->peers[peer].told = f->place;
  r->peers[peer].told.stage[sizeof f->place.stage - 1] = 0;
  pthread_mutex_unlock(&r->lock);
}

static bool same_frame(const frame *a, const frame *b) {
  return strncmp(a->what, b->what, sizeof a->what) == 0 && a->bytes == b->bytes && a->call == b->call;
}

static int differ(sp_ranks *r, const frame *mine, int rank, const frame *other, sp_err *err) {
  sp_err why;
  sp_fail(&why, SP_E_STATE,
          "call %u between ranks: rank 0 is at %s of %zu bytes, rank %d at %.15s of %zu bytes (call %u)", mine->call,
          mine->what, (size_t)mine->bytes, rank, other->what, (size_t)other->bytes, other->call);
  return sp_ranks_blame(r, rank, &why, err);
}

/* Rank 0: what each of the others means to do is what it does itself. */
static int agree(sp_ranks *r, const frame *mine, sp_err *err) {
  for (int i = 1; i < r->o.ranks; i++) {
    frame f;
    if (!sp_net_recv(r->peers[i].fd[SP_LINK_DATA], &f, sizeof f, INFINITY)) return lost(r, i, err);
    note_place(r, i, &f);
    if (!same_frame(mine, &f)) return differ(r, mine, i, &f, err);
  }
  return SP_OK;
}

/* ---- exchange ---------------------------------------------------------------------------------------------------- */

static int exchange_first(sp_ranks *r, const frame *f, char *all, sp_err *err) {
  size_t bytes = (size_t)f->bytes;
  int rc = agree(r, f, err);
  for (int i = 1; i < r->o.ranks && !rc; i++)
    if (!sp_net_recv(r->peers[i].fd[SP_LINK_DATA], all + (size_t)i * bytes, bytes, INFINITY)) rc = lost(r, i, err);
  for (int i = 1; i < r->o.ranks && !rc; i++) {
    int fd = r->peers[i].fd[SP_LINK_DATA];
    bool ok = sp_net_send(fd, f, sizeof *f, INFINITY) && sp_net_send(fd, all, bytes * (size_t)r->o.ranks, INFINITY);
    if (!ok) rc = lost(r, i, err);
  }
  return rc;
}

static int exchange_other(sp_ranks *r, const frame *f, const void *mine, void *all, sp_err *err) {
  int fd = r->peers[0].fd[SP_LINK_DATA];
  size_t bytes = (size_t)f->bytes;
  frame all_there; /* what rank 0 has found the same */
  bool ok = sp_net_send(fd, f, sizeof *f, INFINITY) && sp_net_send(fd, mine, bytes, INFINITY) &&
            sp_net_recv(fd, &all_there, sizeof all_there, INFINITY) &&
            sp_net_recv(fd, all, bytes * (size_t)r->o.ranks, INFINITY);
  if (ok) note_place(r, 0, &all_there);
  return ok ? SP_OK : lost(r, 0, err);
}

int sp_ranks_exchange(sp_ranks *r, const void *mine, size_t bytes, void *all, sp_err *err) {
  const sp_rank_opts *o = sp_ranks_opts(r);
  char *place = bytes ? (char *)all + (size_t)o->rank * bytes : NULL;
  if (place != mine) memcpy(place, mine, bytes);
  if (!r) return SP_OK;
  if (sp_ranks_failed(r, err)) return err->status;
  frame f = begin(r, "exchange", bytes);
  return end(r, o->rank == 0 ? exchange_first(r, &f, all, err) : exchange_other(r, &f, place, all, err));
}

/* ---- broadcast --------------------------------------------------------------------------------------------------- */

static int broadcast_first(sp_ranks *r, const frame *f, const char *buf, sp_err *err) {
  int rc = agree(r, f, err);
  for (size_t at = 0; at < f->bytes && !rc; at += PIECE) {
    size_t n = f->bytes - at < PIECE ? (size_t)f->bytes - at : PIECE;
    for (int i = 1; i < r->o.ranks && !rc; i++)
      if (!sp_net_send(r->peers[i].fd[SP_LINK_DATA], buf + at, n, INFINITY)) rc = lost(r, i, err);
  }
  return rc;
}

int sp_ranks_broadcast(sp_ranks *r, void *buf, size_t bytes, sp_err *err) {
  if (!r) return SP_OK;
  if (sp_ranks_failed(r, err)) return err->status;
  frame f = begin(r, "broadcast", bytes);
  if (r->o.rank == 0) return end(r, broadcast_first(r, &f, buf, err));
  int fd = r->peers[0].fd[SP_LINK_DATA];
  bool ok = sp_net_send(fd, &f, sizeof f, INFINITY) && sp_net_recv(fd, buf, bytes, INFINITY);
  return end(r, ok ? SP_OK : lost(r, 0, err));
}

/* ---- same -------------------------------------------------------------------------------------------------------- */

/* A text as it is shown, and what tells it from one that is shown alike. */
typedef struct shown {
  char name[64], value[256];
  uint64_t hash;
} shown;

static shown show(const sp_rank_text *t) {
  shown s = {0};
  if (!t) return s;
  snprintf(s.name, sizeof s.name, "%s", t->name);
  int n = snprintf(s.value, sizeof s.value, "%s", t->value);
  if (n >= (int)sizeof s.value) snprintf(s.value + sizeof s.value - 4, 4, "...");
  s.hash = sp_fnv64(sp_fnv64(SP_FNV64, t->name, strlen(t->name) + 1), t->value, strlen(t->value) + 1);
  return s;
}

/* "ranks 1, 3" whose text is that of `first` */
static void put_alike(const shown *all, int ranks, int first, sp_sb *text) {
  int n = 0, k = 0;
  for (int i = first; i < ranks; i++) n += memcmp(&all[i], &all[first], sizeof *all) == 0;
  sp_sb_put(text, n == 1 ? "rank" : "ranks");
  for (int i = first; i < ranks && k < 16; i++)
    if (memcmp(&all[i], &all[first], sizeof *all) == 0) sp_sb_putf(text, "%s %d", k++ ? "," : "", i);
  if (k < n) sp_sb_putf(text, " and %d more", n - k);
}

/* SP_OK where all are the same; the names of one place of the list may differ, too. */
static int compare(const shown *all, int ranks, sp_err *err) {
  int other = 0;
  for (int i = 1; i < ranks && !other; i++)
    if (memcmp(&all[i], &all[0], sizeof *all) != 0) other = i;
  if (!other) return SP_OK;
  sp_sb a = {0}, b = {0};
  const shown *x = &all[0], *y = &all[other];
  put_alike(all, ranks, 0, &a);
  put_alike(all, ranks, other, &b);
  if (strcmp(x->name, y->name) != 0)
    sp_fail(err, SP_E_STATE, "the ranks differ: '%s' = '%s' on %s, '%s' = '%s' on %s", x->name, x->value, sp_sb_str(&a),
            y->name, y->value, sp_sb_str(&b));
  else
    sp_fail(err, SP_E_STATE, "the ranks differ in %s: '%s' on %s, '%s' on %s%s", x->name, x->value, sp_sb_str(&a),
            y->value, sp_sb_str(&b), strcmp(x->value, y->value) == 0 ? " (behind what is shown)" : "");
  sp_sb_free(&a);
  sp_sb_free(&b);
  return err->status;
}

static int find_difference(sp_ranks *r, const sp_rank_text *texts, size_t n, size_t most, sp_err *err) {
  size_t bytes = (size_t)r->o.ranks * sizeof(shown);
  shown *all = sp_calloc(1, bytes);
  int rc = all ? SP_OK : sp_nomem(err, bytes, "what the ranks differ in");
  if (rc) sp_ranks_fail(r, err); /* the others wait for it */
  for (size_t i = 0; i < most && !rc; i++) {
    shown mine = show(i < n ? &texts[i] : NULL);
    rc = sp_ranks_exchange(r, &mine, sizeof mine, all, err);
    if (!rc) rc = compare(all, r->o.ranks, err);
  }
  free(all);
  return rc;
}

int sp_ranks_same(sp_ranks *r, const sp_rank_text *texts, size_t n, sp_err *err) {
  struct digest {
    uint64_t n, hash;
  } mine = {n, SP_FNV64}, *all;
  if (!r) return SP_OK;
  for (size_t i = 0; i < n; i++) {
    uint64_t hash = show(&texts[i]).hash;
    mine.hash = sp_fnv64(mine.hash, &hash, sizeof hash);
  }
  all = sp_calloc((size_t)r->o.ranks, sizeof *all);
  if (!all) {
    sp_nomem(err, (size_t)r->o.ranks * sizeof *all, "a comparison of the ranks");
    sp_ranks_fail(r, err);
    return err->status;
  }
  int rc = sp_ranks_exchange(r, &mine, sizeof mine, all, err);
  bool same = true;
  size_t most = n;
  for (int i = 0; i < r->o.ranks && !rc; i++) {
    same = same && memcmp(&all[i], &mine, sizeof mine) == 0;
    if (all[i].n > most) most = (size_t)all[i].n;
  }
  free(all);
  return rc || same ? rc : find_difference(r, texts, n, most, err);
}
