/* SPDX-License-Identifier: MIT
 * watch.c - the watcher: a thread of each rank that owns the control connections.
 *
 * It says what this rank is at, hears it of the others, and decides who is guilty. Rank 0 decides for all, and tells
 * them; the others decide alone only where rank 0 is lost. A rank whose connections end without a bye is dead; where
 * its data connection stands, its control connection was cut. One that says itself that it has failed may be the victim
 * of a dead one, so rank 0 waits a moment for that. */
#include <errno.h>
#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>

#include "base/thread.h"
#include "base/util.h"
#include "ranks/impl.h"

#define LOOK 0.1    /* seconds between two looks at all of it */
#define BEAT 0.2    /* seconds between two notes of a rank that gets on; */
#define IDLE 1.0    /* of one that does not */
#define STOOD 2.0   /* seconds without a look: this process itself was stopped, and knows nothing of the others */
#define MOMENT 0.1  /* seconds from a rank's own words to the verdict of rank 0, for a dead one to be seen; */
#define UNHEARD 1.0 /* of another rank, for rank 0 to answer */
#define CUT 0.3     /* seconds from the end of a control connection for the other one to end, too: the rank is dead; */
#define OWN_CUT 1.5 /* of the rank itself, whose words end the other one: rank 0 has seen it stand by then,
                       and lets it */
#define PARTING 2.5 /* seconds for the others to take the last note, or find out by themselves,
                       before the connections go */

static bool is_hub(const sp_ranks *r) { return r->o.rank == 0; }
static int rank_of(const sp_ranks *r, const sp_rank_peer *p) { return is_hub(r) ? (int)(p - r->peers) : 0; }

/* ---- notes ------------------------------------------------------------------------------------------------------- */

static size_t note_size(uint32_t kind) { return kind == SP_NOTE_FAIL ? sizeof(sp_note) : offsetof(sp_note, words); }

/* A note is small beside what a socket holds: where it does not fit, nobody reads there. */
static void send_note(sp_rank_peer *p, const sp_note *note) {
  size_t n = note_size(note->kind);
  if (p->fd[SP_LINK_CONTROL] < 0 || p->mute) return;
  ssize_t w = send(p->fd[SP_LINK_CONTROL], note, n, MSG_NOSIGNAL | MSG_DONTWAIT);
  p->mute = w > 0 ? w != (ssize_t)n : errno != EAGAIN;
}

static void send_all(sp_ranks *r, const sp_note *note) {
  for (int i = 0; i < r->n_peers; i++) send_note(&r->peers[i], note);
}

/* ---- where a rank is --------------------------------------------------------------------------------------------- */

sp_rank_place sp_ranks_place(sp_ranks *r) {
  union {
    sp_rank_place place;
    uint64_t words[SP_PLACE_WORDS];
  } now;
  unsigned before, after;
  do {
    before = atomic_load_explicit(&r->place_seq, memory_order_acquire);
    for (size_t i = 0; i < SP_PLACE_WORDS; i++) now.words[i] = atomic_load_explicit(&r->place[i], memory_order_acquire);
    after = atomic_load_explicit(&r->place_seq, memory_order_relaxed);
  } while (before % 2 || before != after);
  const char *call = atomic_load(&r->call);
  if (call) snprintf(now.place.waiting, sizeof now.place.waiting, "%s", call);
  return now.place;
}

static sp_note own_note(sp_ranks *r, sp_note_kind kind) {
  return (sp_note){.kind = kind, .rank = r->o.rank, .place = sp_ranks_place(r), .calls = atomic_load(&r->calls)};
}

/* New words of a rank. Those of the wire need not end. */
static void take_place(sp_rank_peer *p, const sp_note *note, double now) {
  sp_rank_place place = note->place;
  place.stage[sizeof place.stage - 1] = place.waiting[sizeof place.waiting - 1] = 0;
  if (p->calls != note->calls || memcmp(&p->place, &place, sizeof place) != 0) p->changed = now;
  p->place = place;
  p->calls = note->calls;
  p->heard = now;
}

/* " at step 41 in stage 'decoder.backward'" */
static void put_where(const sp_rank_place *at, sp_sb *text) {
  if (at->step == SP_RANKS_NO_STEP) sp_sb_put(text, " before its first step");
  else sp_sb_putf(text, " at step %llu", (unsigned long long)sp_step_said(at->step));
  if (at->stage[0]) sp_sb_putf(text, " in stage '%s'", at->stage);
}

/* ---- verdicts ---------------------------------------------------------------------------------------------------- */

/* Counts from `when` on unless a death comes first. What was before stays, but for a death of another rank. */
static void suspect(sp_ranks *r, int rank, bool death, double when, int status, const char *words) {
  sp_rank_verdict *v = &r->verdict;
  bool known = v->when > 0 && (v->death || !death || v->rank == rank);
  if (known) return;
  sp_fail(&v->err, status, "%s", words);
  v->rank = rank;
  v->death = death;
  v->when = when;
}

static uint64_t step_after(const sp_rank_place *at) { return at->step == SP_RANKS_NO_STEP ? 0 : at->step + 1; }

/* The newer of what a rank has told in notes and with its last call:
 * steps may be much shorter than the time between notes. */
static sp_rank_place latest(sp_ranks *r, int rank, const sp_rank_place *at) {
  if (rank == r->o.rank || (rank && !is_hub(r))) return *at;
  pthread_mutex_lock(&r->lock);
  sp_rank_place told = r->peers[is_hub(r) ? rank : 0].told;
  pthread_mutex_unlock(&r->lock);
  return step_after(&told) > step_after(at) ? told : *at;
}

static void suspect_at(sp_ranks *r, int rank, const sp_rank_place *at, bool death, double when, const char *what,
                       const char *why) {
  sp_rank_place newest = latest(r, rank, at);
  sp_sb text = {0};
  sp_sb_putf(&text, "rank %d %s", rank, what);
  put_where(&newest, &text);
  if (why) sp_sb_putf(&text, ": %s", why);
  suspect(r, rank, death, when, SP_E_CANCELLED, sp_sb_str(&text));
  sp_sb_free(&text);
}

static void fail_here(sp_ranks *r, int guilty, const sp_err *why) {
  pthread_mutex_lock(&r->lock);
  bool own = r->own;
  pthread_mutex_unlock(&r->lock);
  sp_ranks_set_failure(r, guilty, why);
  if (r->o.failed && !own) r->o.failed(r->o.arg, why, false);
}

/* The verdict becomes the failure of the job. */
static void declare(sp_ranks *r) {
  const sp_rank_verdict *v = &r->verdict;
  sp_note note = own_note(r, SP_NOTE_FAIL);
  note.rank = v->rank;
  note.status = v->err.status;
  snprintf(note.words, sizeof note.words, "%.1023s", v->err.msg);
  send_all(r, &note);
  fail_here(r, v->rank, &v->err);
}

/* ---- what others say --------------------------------------------------------------------------------------------- */

static void hear_failure(sp_ranks *r, sp_rank_peer *p, sp_note *note, double now) {
  sp_err err;
  bool known = note->rank >= 0 && note->rank < r->o.ranks; /* one may find out that another one is guilty */
  note->words[sizeof note->words - 1] = 0;
  sp_fail(&err, note->status, "%s", note->words);
  if (!is_hub(r)) fail_here(r, note->rank, &err);                          /* rank 0 has decided */
  else if (note->rank == 0) suspect(r, 0, true, now, err.status, err.msg); /* this process was silent for too long */
  else suspect(r, known ? note->rank : rank_of(r, p), false, now + MOMENT, err.status, err.msg);
}

static void hear_note(sp_ranks *r, sp_rank_peer *p, double now) {
  sp_note *note = &p->note;
  if (note->kind != SP_NOTE_DONE) take_place(p, note, now);
  if (note->kind == SP_NOTE_BYE) p->bye = true;
  if (note->kind == SP_NOTE_FAIL) hear_failure(r, p, note, now);
  if (note->kind != SP_NOTE_DONE) return;
  pthread_mutex_lock(&r->lock);
  r->done = true;
  pthread_mutex_unlock(&r->lock);
}

/* One read; false: there is no more for now. */
static bool hear(sp_ranks *r, sp_rank_peer *p, double now) {
  size_t head = offsetof(sp_note, place), want = p->got < head ? head : note_size(p->note.kind);
  ssize_t n = recv(p->fd[SP_LINK_CONTROL], (char *)&p->note + p->got, want - p->got, 0);
  if (n < 0 && errno == EINTR) return true;
  if (n < 0 && errno == EAGAIN) return false;
  if (n > 0) p->got += (size_t)n;
  bool known = p->got < head || (p->note.kind >= SP_NOTE_BEAT && p->note.kind <= SP_NOTE_FAIL);
  if (n <= 0) {
    sp_net_close(&p->fd[SP_LINK_CONTROL]);
    p->ended = now;
    return false;
  }
  if (!known) {
    suspect_at(r, rank_of(r, p), &p->place, true, now, "sent what is no note", NULL);
    return false;
  }
  if (p->got < head || p->got < note_size(p->note.kind)) return true;
  p->got = 0;
  hear_note(r, p, now);
  return true;
}

/* Sleeps until somebody says something or it is time to look, then reads all that is there. */
static void listen_to_all(sp_ranks *r) {
  struct pollfd *polled = r->polled;
  eventfd_t woken;
  polled[0] = (struct pollfd){.fd = r->wake, .events = POLLIN};
  for (int i = 0; i < r->n_peers; i++)
    polled[i + 1] = (struct pollfd){.fd = r->peers[i].fd[SP_LINK_CONTROL], .events = POLLIN};
  poll(polled, (nfds_t)r->n_peers + 1, (int)(LOOK * 1000));
  eventfd_read(r->wake, &woken);
  double now = sp_now();
  for (int i = 0; i < r->n_peers; i++)
    if (polled[i + 1].revents)
      while (hear(r, &r->peers[i], now)) {}
}

/* ---- what this process says -------------------------------------------------------------------------------------- */

/* What other threads of this process have asked for. */
static void obey(sp_ranks *r, double now) {
  pthread_mutex_lock(&r->lock);
  sp_err asked = r->asked;
  int rank = r->asked_rank;
  bool own = r->asked_own;
  bool bye = r->closing && !asked.status && !r->said_bye;
  r->asked.status = SP_OK;
  pthread_mutex_unlock(&r->lock);
  sp_note note = own_note(r, bye ? SP_NOTE_BYE : SP_NOTE_FAIL);
  if (bye) {
    r->said_bye = true;
    send_all(r, &note);
  } else if (asked.status) {
    asked.msg[strcspn(asked.msg, "\n")] = 0; /* a traceback is for the one it happened to */
    if (own) suspect_at(r, rank, &note.place, false, now + (is_hub(r) ? MOMENT : UNHEARD), "failed", asked.msg);
    else suspect(r, rank, false, now + (is_hub(r) ? MOMENT : UNHEARD), asked.status, asked.msg);
    note.rank = r->verdict.rank;
    note.status = r->verdict.err.status;
    snprintf(note.words, sizeof note.words, "%.1023s", r->verdict.err.msg);
    if (!is_hub(r)) send_all(r, &note);
  }
}

static void beat(sp_ranks *r, double now) {
  if (now - r->beat < BEAT) return;
  sp_note note = own_note(r, SP_NOTE_BEAT);
  bool same = note.calls == r->last.calls && memcmp(&note.place, &r->last.place, sizeof note.place) == 0;
  if (same && now - r->beat < (r->o.silence < 3 * IDLE ? r->o.silence / 3 : IDLE)) return;
  send_all(r, &note);
  r->last = note;
  r->beat = now;
}

/* ---- judging ----------------------------------------------------------------------------------------------------- */

static bool has_ended(int fd) {
  struct pollfd p = {.fd = fd, .events = POLLRDHUP};
  return fd < 0 || poll(&p, 1, 0) != 0;
}

/* A process that is gone has closed all it had. Between rank 0 and one that is there the connection was that one's. */
static void judge_cuts(sp_ranks *r, double now) {
  for (int i = 0; i < r->n_peers; i++) {
    sp_rank_peer *p = &r->peers[i];
    sp_rank_place own = sp_ranks_place(r);
    if (p->ended <= 0 || p->cut) continue;
    p->cut = !has_ended(p->fd[SP_LINK_DATA]);
    if (!p->cut) suspect_at(r, rank_of(r, p), &p->place, true, now, "died", NULL);
    else if (now - p->ended > (is_hub(r) ? CUT : OWN_CUT))
      suspect_at(r, is_hub(r) ? i : r->o.rank, is_hub(r) ? &p->place : &own, true, now,
                 "lost its control connection to rank 0", "both processes live, something else has ended it");
    else p->cut = false; /* one goes after the other */
  }
}

static void judge_silence(sp_ranks *r, double now) {
  for (int i = 0; i < r->n_peers; i++) {
    sp_rank_peer *p = &r->peers[i];
    char what[80];
    if (p->fd[SP_LINK_CONTROL] < 0 || now - p->heard < r->o.silence) continue;
    snprintf(what, sizeof what, "was silent for %g s (stopped, or its host is gone)", r->o.silence);
    suspect_at(r, rank_of(r, p), &p->place, true, now, what, NULL);
  }
}

/* Who waits for nobody is behind who waits; then the lower step; then who has been there for longer. */
static bool is_behind(const sp_rank_peer *a, const sp_rank_peer *b) {
  bool a_waits = a->place.waiting[0] && !a->bye, b_waits = b->place.waiting[0] && !b->bye;
  if (a_waits != b_waits) return b_waits;
  if (a->place.step != b->place.step) return step_after(&a->place) < step_after(&b->place);
  return a->changed < b->changed;
}

static void blame_last(sp_ranks *r, const sp_rank_peer *waiting, double now) {
  const sp_rank_peer *last = &r->peers[0];
  sp_sb why = {0};
  char what[80];
  for (int i = 1; i < r->n_peers; i++)
    if (is_behind(&r->peers[i], last)) last = &r->peers[i];
  snprintf(what, sizeof what, "is stalled (no rank got on for %g s)", r->o.timeout);
  if (last != waiting) sp_sb_putf(&why, "rank %d waits for '%s'", rank_of(r, waiting), waiting->place.waiting);
  else sp_sb_putf(&why, "it waits for '%s'", waiting->place.waiting);
  suspect_at(r, rank_of(r, last), &last->place, false, now, last->bye ? "ended its script" : what, sp_sb_str(&why));
  sp_sb_free(&why);
}

/* Rank 0: somebody waits, and nobody gets on. */
static void judge_stall(sp_ranks *r, double now) {
  const sp_rank_peer *waiting = NULL;
  double newest = -INFINITY;
  for (int i = 0; i < r->n_peers; i++) {
    const sp_rank_peer *p = &r->peers[i];
    if (!p->bye && p->place.waiting[0] && !waiting) waiting = p;
    if (p->changed > newest) newest = p->changed;
  }
  if (waiting && now - newest > r->o.timeout) blame_last(r, waiting, now);
}

/* Rank 0: a rank has ended that never began the call which another one is in. */
static void judge_bye(sp_ranks *r, double now) {
  const sp_rank_peer *gone = NULL, *most = &r->peers[0];
  for (int i = 0; i < r->n_peers; i++) {
    const sp_rank_peer *p = &r->peers[i];
    if (p->bye && (!gone || p->calls < gone->calls)) gone = p;
    if (p->calls > most->calls) most = p;
  }
  if (!gone || gone->calls >= most->calls) return;
  sp_sb why = {0};
  sp_sb_putf(&why, "rank %d waits for it in call %u between ranks", rank_of(r, most), most->calls);
  suspect_at(r, rank_of(r, gone), &gone->place, false, now, "ended its script", sp_sb_str(&why));
  sp_sb_free(&why);
}

/* Rank 0 is a rank as the others are. */
static void take_own_place(sp_ranks *r, double now) {
  sp_note note = own_note(r, SP_NOTE_BEAT);
  take_place(&r->peers[0], &note, now);
  r->peers[0].bye = r->said_bye;
}

static bool all_said_bye(const sp_ranks *r) {
  for (int i = 0; i < r->n_peers; i++)
    if (!r->peers[i].bye) return false;
  return true;
}

static void finish(sp_ranks *r) {
  sp_note note = {.kind = SP_NOTE_DONE};
  send_all(r, &note);
  pthread_mutex_lock(&r->lock);
  r->done = true;
  pthread_mutex_unlock(&r->lock);
}

static void judge(sp_ranks *r, double now) {
  judge_cuts(r, now);
  judge_silence(r, now);
  if (is_hub(r)) {
    take_own_place(r, now);
    judge_stall(r, now);
    judge_bye(r, now);
  }
  if (r->verdict.when > 0 && now >= r->verdict.when) declare(r);
  else if (is_hub(r) && !r->verdict.when && all_said_bye(r)) finish(r);
}

/* This process was stopped, or slept with its host: the others were not heard, which is not their fault. */
static void forgive(sp_ranks *r, double seconds) {
  for (int i = 0; i < r->n_peers; i++) {
    r->peers[i].heard += seconds;
    r->peers[i].changed += seconds;
  }
}

/* ---- the thread -------------------------------------------------------------------------------------------------- */

static bool is_over(sp_ranks *r) {
  pthread_mutex_lock(&r->lock);
  bool over = r->done || r->failure.status;
  pthread_mutex_unlock(&r->lock);
  return over;
}

/* Rank 0 reads on until the others are gone: what it has sent would be lost where unread notes are thrown away. One
 * that can be told nothing finds out by itself, as long as rank 0 is there. */
static void part(sp_ranks *r) {
  double until = sp_now() + PARTING, left;
  bool cut = false;
  for (int i = 0; i < r->n_peers; i++) {
    int *fd = &r->peers[i].fd[SP_LINK_CONTROL];
    cut = cut || (is_hub(r) && r->peers[i].cut);
    if (*fd < 0) continue;
    shutdown(*fd, SHUT_WR);
    if (is_hub(r)) sp_net_drain(*fd, until);
    sp_net_close(fd);
  }
  if (cut && (left = until - sp_now()) > 0) poll(NULL, 0, (int)(left * 1000));
}

/* True when it does, at `until` at the latest. */
static bool closes(sp_ranks *r, double until) {
  double left = until - sp_now();
  struct timespec at = sp_ranks_time(left > 0 ? left : 0);
  int over = 0;
  pthread_mutex_lock(&r->lock);
  while (!r->closing && !over) over = pthread_cond_timedwait(&r->changed, &r->lock, &at);
  bool closing = r->closing;
  pthread_mutex_unlock(&r->lock);
  return closing;
}

/* The job has failed, at `since`, when r->blocks was `blocks`, and what waited for other ranks was aborted. This
 * process has `grace` to end; one wait for its device that lasts for `stuck` has no end. */
static void await_close(sp_ranks *r, double since, unsigned blocks) {
  unsigned now;
  double begun = since, until = since + r->o.grace;
  if (!r->o.failed || r->o.grace <= 0) return;
  for (bool stuck = false; !stuck && sp_now() < until;) {
    if (closes(r, fmin(sp_now() + LOOK, until))) return;
    now = atomic_load(&r->blocks);
    if (now != blocks) blocks = now, begun = sp_now();
    stuck = r->o.stuck > 0 && blocks % 2 && sp_now() - begun > r->o.stuck;
  }
  r->o.failed(r->o.arg, &r->failure, true);
}

static void *watch(void *arg) {
  sp_ranks *r = arg;
  double before = sp_now();
  for (int i = 0; i < r->n_peers; i++) r->peers[i].heard = r->peers[i].changed = before;
  while (!is_over(r)) {
    listen_to_all(r);
    double now = sp_now();
    if (now - before > STOOD) forgive(r, now - before);
    before = now;
    if (is_over(r)) break;
    obey(r, now);
    beat(r, now);
    judge(r, now);
  }
  double since = sp_now();
  unsigned blocks = atomic_load(&r->blocks);
  part(r);
  if (!r->done) await_close(r, since, blocks);
  return NULL;
}

int sp_ranks_watch(sp_ranks *r, sp_err *err) {
  int rc = sp_thread_start(&r->watcher, "ranks", watch, r);
  return rc ? sp_fail(err, SP_E_NOMEM, "the thread that watches the ranks: %s", strerror(rc)) : SP_OK;
}
