/* SPDX-License-Identifier: MIT
 * join.c - how the ranks of a job find each other: rank 0 waits at its port, the others come with two connections each.
 *
 * Who is no rank of this job is told so and sent away. A rank of this job that has a mistake in it ends it for all.
 * Nothing that comes over the wire is a number of bytes. */
#include <errno.h>
#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/util.h"
#include "ranks/impl.h"

#define GUESTS 64   /* connections that have not said who they are; more wait to be accepted */
#define PATIENCE 5  /* seconds until they must have; */
#define HURRY 0.3   /* where all places are taken, and another one waits */
#define STRANGERS 8 /* of so many is told */
#define LINGER 0.5  /* seconds for those who are at the door of a job that has ended to take its words */

typedef struct guest {
  int fd;
  size_t got;
  double until;
  sp_hello hello;
  char from[64];
} guest;

typedef struct door {
  sp_ranks *r;
  int listener;
  guest guests[GUESTS];
  int n_guests, missing; /* connections that are to come */
  int strangers;
  char (*hosts)[64]; /* of each rank, for two that say they are the same */
} door;

static sp_hello make_hello(const sp_ranks *r, int link) {
  sp_hello h = {
      .order = SP_RANKS_ORDER, .protocol = SP_RANKS_PROTOCOL, .rank = r->o.rank, .ranks = r->o.ranks, .link = link};
  memcpy(h.magic, SP_RANKS_MAGIC, sizeof h.magic);
  snprintf(h.version, sizeof h.version, "%s", SP_VERSION);
  snprintf(h.job, sizeof h.job, "%s", r->o.job);
  gethostname(h.host, sizeof h.host - 1);
  h.pid = (int32_t)getpid();
  return h;
}

static void answer(int fd, const sp_err *err) {
  sp_welcome w = {.status = err ? err->status : SP_OK};
  memcpy(w.magic, SP_RANKS_ANSWER, sizeof w.magic);
  if (err) snprintf(w.words, sizeof w.words, "%.499s", err->msg);
  sp_net_send(fd, &w, sizeof w, sp_now() + 1);
}

/* ---- rank 0: who comes ------------------------------------------------------------------------------------------- */

static void send_away(int fd, const sp_err *err, double until) {
  answer(fd, err);
  shutdown(fd, SHUT_WR);
  sp_net_drain(fd, until);
  sp_net_close(&fd);
}

static int stranger(door *d, guest *g, const char *what) {
  sp_err err;
  sp_fail(&err, SP_E_INVALID, "port %d of this host is a job's of spcore, and you are none of its ranks: %s",
          d->r->o.port, what);
  if (d->strangers++ < STRANGERS) sp_log(SP_LOG_WARN, "a stranger from %s was sent away: %s", g->from, what);
  send_away(g->fd, &err, 0);
  g->fd = -1;
  return SP_OK;
}

/* Texts of the wire need not end. */
static bool texts_end(sp_hello *h) {
  return memchr(h->version, 0, sizeof h->version) && memchr(h->job, 0, sizeof h->job) &&
         memchr(h->host, 0, sizeof h->host);
}

/* Of the job, but wrong: SP_OK, or why the job ends. */
static int check_rank(const door *d, const guest *g, sp_err *err) {
  const sp_hello *h = &g->hello;
  const sp_rank_opts *o = &d->r->o;
  if (h->protocol != SP_RANKS_PROTOCOL || strcmp(h->version, SP_VERSION) != 0)
    return sp_fail(err, SP_E_INVALID, "rank %d on %s is of spcore %s (protocol %u), rank 0 of spcore %s (protocol %u)",
                   h->rank, h->host, h->version, h->protocol, SP_VERSION, SP_RANKS_PROTOCOL);
  if (h->ranks != o->ranks)
    return sp_fail(err, SP_E_INVALID, "rank %d on %s knows of %d ranks, rank 0 of %d", h->rank, h->host, h->ranks,
                   o->ranks);
  if (h->rank < 0 || h->rank >= o->ranks || h->link < 0 || h->link >= SP_LINKS)
    return sp_fail(err, SP_E_INVALID, "a process on %s says that it is rank %d of %d", h->host, h->rank, o->ranks);
  if (h->rank == 0 || d->r->peers[h->rank].fd[h->link] >= 0)
    return sp_fail(err, SP_E_INVALID,
                   "two processes say that they are rank %d of %d: one on %s, one on %s (process %d)", h->rank,
                   o->ranks, h->rank ? d->hosts[h->rank] : "this host", h->host, h->pid);
  return SP_OK;
}

/* All of its words are there. */
static int judge(door *d, guest *g, sp_err *err) {
  sp_hello *h = &g->hello;
  if (h->order != SP_RANKS_ORDER || !texts_end(h)) return stranger(d, g, "it is of another kind of machine");
  if (strcmp(h->job, d->r->o.job) != 0) return stranger(d, g, "it is of another job (SPCORE_JOB)");
  int rc = check_rank(d, g, err);
  if (rc) send_away(g->fd, err, 0);
  else {
    d->r->peers[h->rank].fd[h->link] = g->fd;
    memcpy(d->hosts[h->rank], h->host, sizeof h->host);
    d->missing--;
  }
  g->fd = -1;
  return rc;
}

static int hear(door *d, guest *g, sp_err *err) {
  ssize_t n = recv(g->fd, (char *)&g->hello + g->got, sizeof g->hello - g->got, 0);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return SP_OK;
  if (n <= 0) return stranger(d, g, "it left before it had said who it is");
  g->got += (size_t)n;
  size_t magic = g->got < sizeof g->hello.magic ? g->got : sizeof g->hello.magic;
  if (memcmp(g->hello.magic, SP_RANKS_MAGIC, magic) != 0) return stranger(d, g, "it does not speak as spcore does");
  return g->got == sizeof g->hello ? judge(d, g, err) : SP_OK;
}

static void let_in(door *d) {
  guest *g = &d->guests[d->n_guests];
  g->fd = sp_net_accept(d->listener, g->from, sizeof g->from);
  g->got = 0;
  g->until = sp_now() + PATIENCE;
  if (g->fd >= 0) d->n_guests++;
}

/* All places are taken by who says nothing: the one that came first makes room.
 * A rank speaks as soon as it is there. */
static void make_room(door *d) {
  if (sp_now() < d->guests[0].until - PATIENCE + HURRY) poll(NULL, 0, 10);
  else stranger(d, &d->guests[0], "it did not say who it is, and others wait");
}

/* Whoever is at the door says something, leaves, or has taken too long. */
static int serve(door *d, double until, sp_err *err) {
  struct pollfd p[GUESTS + 1];
  int n = d->n_guests, rc = SP_OK;
  for (int i = 0; i < n; i++) p[i] = (struct pollfd){.fd = d->guests[i].fd, .events = POLLIN};
  p[n] = (struct pollfd){.fd = d->listener, .events = POLLIN};
  double left = until - sp_now();
  poll(p, (nfds_t)n + 1, left < 0 ? 0 : left > 0.5 ? 500 : (int)(left * 1000) + 1);
  for (int i = 0; i < n && !rc; i++) {
    guest *g = &d->guests[i];
    if (p[i].revents) rc = hear(d, g, err);
    if (g->fd >= 0 && sp_now() > g->until) stranger(d, g, "it did not say who it is");
  }
  if (p[n].revents && n < GUESTS) let_in(d);
  else if (p[n].revents && d->guests[0].fd >= 0) make_room(d);
  int kept = 0;
  for (int i = 0; i < d->n_guests; i++)
    if (d->guests[i].fd >= 0) d->guests[kept++] = d->guests[i];
  d->n_guests = kept;
  return rc;
}

/* "rank 2", "ranks 2, 5" of those that are not there */
static void put_missing(const sp_ranks *r, sp_sb *text) {
  int n = 0, shown = 0;
  for (int i = 1; i < r->o.ranks; i++) n += r->peers[i].fd[0] < 0 || r->peers[i].fd[1] < 0;
  sp_sb_put(text, n == 1 ? "rank" : "ranks");
  for (int i = 1; i < r->o.ranks && shown < 16; i++)
    if (r->peers[i].fd[0] < 0 || r->peers[i].fd[1] < 0) sp_sb_putf(text, "%s %d", shown++ ? "," : "", i);
  if (shown < n) sp_sb_putf(text, " and %d more", n - shown);
}

static int all_missing(const sp_ranks *r, sp_err *err) {
  sp_sb who = {0};
  put_missing(r, &who);
  sp_fail(err, SP_E_LATE, "%s did not come to %s port %d within %g s, where rank 0 waits (%s=%d)", sp_sb_str(&who),
          r->o.address, r->o.port, r->o.start, r->o.origin, r->o.ranks);
  sp_sb_free(&who);
  return err->status;
}

/* Each rank takes two files of this process. */
static void raise_files(int ranks) {
  struct rlimit l;
  rlim_t want = 2 * (rlim_t)ranks + 256;
  if (getrlimit(RLIMIT_NOFILE, &l) || l.rlim_cur >= want) return;
  l.rlim_cur = l.rlim_max < want ? l.rlim_max : want;
  setrlimit(RLIMIT_NOFILE, &l);
}

/* Who is at the door, not heard yet or not even let in, may be a rank: it hears why there is no job. */
static void tell_guests(door *d, const sp_err *err) {
  double until = sp_now() + LINGER;
  for (int before = -1; before < d->n_guests && d->n_guests < GUESTS;) {
    before = d->n_guests;
    let_in(d);
  }
  for (int i = 0; i < d->n_guests; i++) send_away(d->guests[i].fd, err, until);
  d->n_guests = 0;
}

static int wait_for_all(door *d, sp_err *err) {
  sp_ranks *r = d->r;
  double until = sp_now() + r->o.start;
  int rc = SP_OK;
  while (!rc && d->missing && sp_now() < until) rc = serve(d, until, err);
  if (!rc && d->missing) rc = all_missing(r, err);
  for (int i = 1; i < r->o.ranks; i++)
    for (int k = 0; k < SP_LINKS; k++)
      if (r->peers[i].fd[k] >= 0) answer(r->peers[i].fd[k], rc ? err : NULL);
  if (rc) tell_guests(d, err);
  for (int i = 0; i < d->n_guests; i++) sp_net_close(&d->guests[i].fd);
  return rc;
}

static int join_as_first(sp_ranks *r, sp_err *err) {
  size_t bytes = (size_t)r->o.ranks * 64;
  door *d = sp_calloc(1, sizeof *d);
  char(*hosts)[64] = sp_calloc(1, bytes);
  int rc = d && hosts ? SP_OK : sp_nomem(err, sizeof *d + bytes, "the ranks of a job");
  raise_files(r->o.ranks);
  if (!rc) *d = (door){.r = r, .listener = r->o.listener, .missing = (r->o.ranks - 1) * SP_LINKS, .hosts = hosts};
  if (!rc && d->listener < 0) rc = sp_net_listen(r->o.address, r->o.port, &d->listener, err);
  if (!rc) rc = wait_for_all(d, err);
  if (d) sp_net_close(&d->listener);
  free(hosts);
  free(d);
  return rc;
}

/* ---- the others -------------------------------------------------------------------------------------------------- */

static int hear_answer(const sp_ranks *r, int fd, double until, sp_err *err) {
  sp_welcome w;
  if (!sp_net_recv(fd, &w, sizeof w, until))
    return sp_fail(err, SP_E_IO,
                   "%s port %d gave no answer to rank %d of %d: is it rank 0 of this job? SPCORE_PORT says another",
                   r->o.address, r->o.port, r->o.rank, r->o.ranks);
  if (memcmp(w.magic, SP_RANKS_ANSWER, sizeof w.magic) != 0)
    return sp_fail(err, SP_E_IO,
                   "%s port %d is no rank 0 of spcore, but another program: SPCORE_PORT says another port",
                   r->o.address, r->o.port);
  w.words[sizeof w.words - 1] = 0;
  return w.status ? sp_fail(err, w.status, "%s", w.words) : SP_OK;
}

static int come(sp_ranks *r, int link, double until, sp_err *err) {
  sp_hello h = make_hello(r, link);
  int *fd = &r->peers[0].fd[link];
  int rc = sp_net_connect(r->o.address, r->o.port, until, fd, err);
  if (rc == SP_E_LATE)
    return sp_fail(err, rc, "rank %d of %d did not find rank 0 at %s port %d within %g s: %s", r->o.rank, r->o.ranks,
                   r->o.address, r->o.port, r->o.start, err->msg);
  if (rc) return rc;
  sp_net_send(*fd, &h, sizeof h, until); /* where that fails there is an answer that says why, or none */
  return SP_OK;
}

/* The answer comes when all are there, and rank 0 may have begun to wait later than this one has; but who is not wanted
 * hears it at once, on the first of the connections. */
static int join_as_other(sp_ranks *r, sp_err *err) {
  double until = sp_now() + r->o.start;
  int rc = come(r, SP_LINK_CONTROL, until, err);
  if (rc) return rc;
  rc = come(r, SP_LINK_DATA, sp_now() + 1, err);
  int refused = hear_answer(r, r->peers[0].fd[SP_LINK_CONTROL], sp_now() + (rc ? 1 : r->o.start + PATIENCE), err);
  if (!refused && !rc) rc = hear_answer(r, r->peers[0].fd[SP_LINK_DATA], sp_now() + PATIENCE, err);
  return refused ? refused : rc;
}

int sp_ranks_join(sp_ranks *r, sp_err *err) { return r->o.rank == 0 ? join_as_first(r, err) : join_as_other(r, err); }
