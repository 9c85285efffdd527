/* SPDX-License-Identifier: MIT
 * stream.c - streams, events, and copies between tensors. */
#include "hand/impl.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- streams ----------------------------------------------------------------------------------------------------- */

static int open_stream(sp_hand *h, const char *name, int priority, sp_hstream **out, sp_err *err) {
  sp_hstream *s = sp_calloc(1, sizeof *s);
  char *copy = sp_strdup(name);
  if (!s || !copy) {
    free(s);
    free(copy);
    return sp_nomem(err, sizeof *s, "a stream");
  }
  *s = (sp_hstream){.h = h, .name = copy, .last_call = &s->calls};
  int st = sp_races_thread(h->races, name, &s->thread, err);
  if (!st && (st = sp_place_stream(hand_place(h), name, priority, &s->own, err))) {
    sp_err ignored;
    s->own = NULL;
    sp_races_end_thread(h->races, s->thread, &ignored);
  }
  if (st) {
    free(copy);
    free(s);
    return st;
  }
  s->next = h->streams;
  h->streams = s;
  h->n_streams++;
  h->refs++;
  *out = s;
  return SP_OK;
}

int sp_hstream_new(sp_hand *h, const char *name, int priority, sp_hstream **out, sp_err *err) {
  char own[32];
  *out = NULL;
  if (hand_check_open(h, err)) return err->status;
  if (h->n_streams >= SP_HAND_MAX_STREAMS)
    return sp_fail(err, SP_E_RANGE, "%d streams are open, and no more are possible: close some", SP_HAND_MAX_STREAMS);
  snprintf(own, sizeof own, "stream %zu", ++h->opened);
  return open_stream(h, name && *name ? name : own, priority, out, err);
}

const char *sp_hstream_name(const sp_hstream *s) { return s->name; }

static int check_open(const sp_hstream *s, sp_err *err) {
  return s->own ? SP_OK : sp_fail(err, SP_E_STATE, "stream '%s' is closed", s->name);
}

int hand_stream_ready(sp_hstream *s, sp_err *err) {
  if (check_open(s, err)) return err->status;
  if (!s->failed) return SP_OK;
  return sp_fail(err, s->h->failure.status ? s->h->failure.status : SP_E_STATE,
                 "stream '%s' has failed, so that it does nothing more: %s", s->name, s->h->failure.msg);
}

/* What a wait gave: the words of the call that failed, where it is known. */
static int outcome(sp_hstream *s, int st, sp_err *err) {
  const sp_err *first = hand_call_failed(s);
  if (!st) return SP_OK;
  s->failed = true;
  if (first) *err = *first;
  else if (s->h->failure.status)
    sp_fail(err, s->h->failure.status, "stream '%s' waited for what failed: %s", s->name, s->h->failure.msg);
  if (!s->h->failure.status) s->h->failure = *err;
  return err->status;
}

int hand_stream_quiet(sp_hstream *s, sp_err *err) {
  int st = outcome(s, sp_place_sync(hand_place(s->h), s->own, s->name, err), err);
  hand_reclaim(s, true);
  return st;
}

int sp_hstream_sync(sp_hstream *s, sp_err *err) {
  sp_err ignored;
  if (check_open(s, err)) return err->status;
  bool again = s->failed;
  int st = hand_stream_quiet(s, err);
  if (st) sp_races_sync(s->h->races, s->thread, &ignored);
  else st = sp_races_sync(s->h->races, s->thread, err);
  if (again) return hand_stream_ready(s, err);
  if (!st) st = hand_slots_look(s->h, s, err);
  hand_collect(s->h);
  return st;
}

int sp_hstream_close(sp_hstream *s, sp_err *err) {
  sp_err ignored;
  if (!s->own) return SP_OK;
  bool told = s->failed;
  int st = hand_stream_quiet(s, err);
  if (!st) st = hand_slots_look(s->h, s, err);
  hand_place(s->h)->type->stream_close(s->own);
  s->own = NULL;
  s->h->n_streams--;
  if (st) sp_races_end_thread(s->h->races, s->thread, &ignored);
  else st = sp_races_end_thread(s->h->races, s->thread, err);
  hand_block_drop(s->scratch);
  s->scratch = NULL;
  hand_collect(s->h);
  return told ? SP_OK : st;
}

void sp_hstream_drop(sp_hstream *s) {
  sp_hand *h = s->h;
  sp_err ignored;
  if (h->open) sp_hstream_close(s, &ignored);
  for (sp_hstream **at = &h->streams; *at; at = &(*at)->next)
    if (*at == s) {
      *at = s->next;
      break;
    }
  free(s->name);
  free(s);
  hand_release(h);
}

int hand_submit(sp_hstream *s, const hand_arg *args, size_t n, const char *who, const char *where, uint64_t *number,
                sp_err *err) {
  sp_race_touch *touch = NULL;
  size_t k = 0;
  if (s->h->check_races) {
    touch = sp_calloc(n + 1, sizeof *touch);
    if (!touch) return sp_nomem(err, n * sizeof *touch, "checking for races");
    for (size_t i = 0; i < n; i++)
      if (args[i].b)
        touch[k++] =
            (sp_race_touch){args[i].b->race, args[i].mode, args[i].offset, (size_t)sp_spec_bytes(&args[i].spec)};
  }
  int st = sp_races_access(s->h->races, s->thread, touch, k, who, where, number, err);
  free(touch);
  for (size_t i = 0; i < n && !st; i++)
    if (args[i].b) st = hand_block_use(args[i].b, s->thread, *number, err);
  return st;
}

/* ---- events ------------------------------------------------------------------------------------------------------ */

int sp_hevent_new(sp_hand *h, bool timing, sp_hevent **out, sp_err *err) {
  *out = NULL;
  if (hand_check_open(h, err)) return err->status;
  sp_hevent *e = sp_calloc(1, sizeof *e);
  if (!e) return sp_nomem(err, sizeof *e, "an event");
  *e = (sp_hevent){.h = h, .timing = timing};
  int st = sp_races_event(h->races, &e->id, err);
  if (!st && (st = sp_place_event(hand_place(h), timing ? SP_EVENT_TIMING : 0, "an event", &e->own, err)))
    sp_races_end_event(h->races, e->id);
  if (st) {
    free(e);
    return st;
  }
  e->next = h->events;
  if (e->next) e->next->prev = e;
  h->events = e;
  h->refs++;
  *out = e;
  return SP_OK;
}

static int check_event(const sp_hevent *e, sp_err *err) {
  return e->own ? SP_OK : sp_fail(err, SP_E_STATE, "the event is closed");
}

static int check_recorded(const sp_hevent *e, const char *what, sp_err *err) {
  if (check_event(e, err)) return err->status;
  return e->recorded
             ? SP_OK
             : sp_fail(err, SP_E_STATE, "%s an event that was never recorded: there is nothing to wait for", what);
}

int sp_hevent_close(sp_hevent *e, sp_err *err) {
  (void)err;
  if (!e->own) return SP_OK;
  hand_place(e->h)->type->event_close(e->own);
  sp_races_end_event(e->h->races, e->id);
  e->own = NULL;
  return SP_OK;
}

void sp_hevent_drop(sp_hevent *e) {
  sp_hand *h = e->h;
  sp_err ignored;
  if (h->open) sp_hevent_close(e, &ignored);
  *(e->prev ? &e->prev->next : &h->events) = e->next;
  if (e->next) e->next->prev = e->prev;
  free(e);
  hand_release(h);
}

static int same_hand(const sp_hand *a, const sp_hand *b, sp_err *err) {
  return a == b ? SP_OK : sp_fail(err, SP_E_INVALID, "the two belong to two devices, opened apart");
}

int sp_hstream_record(sp_hstream *s, sp_hevent *e, const char *where, sp_err *err) {
  (void)where;
  if (check_event(e, err) || hand_stream_ready(s, err) || same_hand(s->h, e->h, err)) return err->status;
  int st = sp_place_record(hand_place(s->h), e->own, s->own, s->name, err);
  if (!st) st = sp_races_record(s->h->races, e->id, s->thread, err);
  e->recorded = !st;
  return st;
}

int sp_hstream_wait(sp_hstream *s, sp_hevent *e, const char *where, sp_err *err) {
  (void)where;
  if (hand_stream_ready(s, err) || check_recorded(e, "waiting for", err) || same_hand(s->h, e->h, err))
    return err->status;
  int st = sp_place_wait(hand_place(s->h), s->own, e->own, s->name, err);
  return st ? st : sp_races_wait(s->h->races, s->thread, e->id, err);
}

/* The host knows that the event is over. A failure that came along is told with the words of who failed. */
static int learn(sp_hevent *e, sp_err *err) {
  int st = sp_races_wait(e->h->races, SP_RACES_HOST, e->id, err);
  for (sp_hstream *s = e->h->streams; s; s = s->next)
    if (s->own) hand_reclaim(s, false);
  hand_collect(e->h);
  return st;
}

static const sp_err *first_failure(const sp_hand *h) {
  const sp_err *first = h->failure.status ? &h->failure : NULL;
  for (const sp_hstream *s = h->streams; s && !first; s = s->next) first = hand_call_failed(s);
  return first;
}

int sp_hevent_sync(sp_hevent *e, sp_err *err) {
  if (check_recorded(e, "syncing with", err)) return err->status;
  int st = sp_place_sync_event(hand_place(e->h), e->own, "an event", err);
  const sp_err *first = st ? first_failure(e->h) : NULL;
  if (first) *err = *first;
  if (st && !e->h->failure.status) e->h->failure = *err;
  if (st) return st;
  return (st = learn(e, err)) ? st : hand_slots_look(e->h, NULL, err);
}

int sp_hevent_query(sp_hevent *e, bool *complete, sp_err *err) {
  sp_ctx_holder holder;
  int over = 0;
  *complete = false;
  if (check_recorded(e, "asking for", err)) return err->status;
  const sp_device_type *type = hand_place(e->h)->type;
  int st = type->event_query(sp_ctx_for(&holder, type->name, err), e->own, &over);
  *complete = !st && over;
  return *complete ? learn(e, err) : st;
}

static int check_timed(sp_hevent *e, const char *which, sp_err *err) {
  bool complete;
  if (check_event(e, err)) return err->status;
  if (!e->timing)
    return sp_fail(err, SP_E_STATE, "elapsed: the %s event keeps no time; make it with timing = true", which);
  if (!e->recorded) return sp_fail(err, SP_E_STATE, "elapsed: the %s event was never recorded", which);
  if (sp_hevent_query(e, &complete, err)) return err->status;
  return complete ? SP_OK : sp_fail(err, SP_E_STATE, "elapsed: the %s event is not complete yet; sync it first", which);
}

int sp_hevent_elapsed(sp_hevent *from, sp_hevent *to, double *ms, sp_err *err) {
  sp_ctx_holder holder;
  if (check_timed(from, "first", err) || check_timed(to, "second", err) || same_hand(from->h, to->h, err))
    return err->status;
  const sp_device_type *type = hand_place(from->h)->type;
  return type->event_elapsed(sp_ctx_for(&holder, type->name, err), from->own, to->own, ms);
}

/* ---- copies ------------------------------------------------------------------------------------------------------ */

/* One type, and the same values in the same order: equal specs, or as many values that lie row by row. */
static bool copies(const sp_spec *a, const sp_spec *b) {
  bool rows = a->order == SP_ROW_MAJOR && b->order == SP_ROW_MAJOR && a->dtype == b->dtype;
  return sp_spec_equal(a, b) || (rows && sp_spec_count(a) == sp_spec_count(b));
}

static int check_copy(const sp_hstream *s, const sp_htensor *dst, const sp_htensor *src, sp_err *err) {
  char a[128], b[128];
  if (!sp_htensor_is_open(dst) || !sp_htensor_is_open(src))
    return sp_fail(err, SP_E_STATE, "tensor '%s' is closed", sp_htensor_name(sp_htensor_is_open(dst) ? src : dst));
  if (same_hand(s->h, dst->h, err) || same_hand(s->h, src->h, err)) return err->status;
  if (!copies(&dst->spec, &src->spec))
    return sp_fail(
        err, SP_E_SHAPE, "copy of '%s', %s, into '%s', %s: they must be of one type, with as many values in one order",
        src->b->name, sp_spec_str(&src->spec, a, sizeof a), dst->b->name, sp_spec_str(&dst->spec, b, sizeof b));
  if (dst->b == src->b) return sp_fail(err, SP_E_INVALID, "copy of '%s' into its own memory", src->b->name);
  return SP_OK;
}

int sp_hstream_copy(sp_hstream *s, sp_htensor *dst, sp_htensor *src, const char *where, bool *pageable, sp_err *err) {
  uint64_t number;
  *pageable = false;
  if (hand_stream_ready(s, err) || check_copy(s, dst, src, err)) return err->status;
  const hand_arg args[] = {{src->b, src->offset, src->spec, SP_RACE_READ},
                           {dst->b, dst->offset, dst->spec, SP_RACE_WRITE}};
  int st = hand_submit(s, args, 2, "the copy", where, &number, err);
  if (!st)
    st = sp_place_copy(hand_place(s->h), s->own, (char *)dst->b->ptr + dst->offset, (char *)src->b->ptr + src->offset,
                       (size_t)sp_spec_bytes(&src->spec), s->name, err);
  *pageable = dst->b->at == SP_AT_HOST_PAGEABLE || src->b->at == SP_AT_HOST_PAGEABLE;
  return !st && *pageable ? sp_hstream_sync(s, err) : st;
}
