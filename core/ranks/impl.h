/* SPDX-License-Identifier: MIT
 * impl.h - what the files of core/ranks share: what goes over the wire, and the ranks as this process sees them. */
#ifndef SP_CORE_RANKS_IMPL_H
#define SP_CORE_RANKS_IMPL_H

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include "ranks/ranks.h"

#define SP_RANKS_PROTOCOL 2
#define SP_RANKS_MAGIC "spcore\r\n" /* 8 bytes; a line that no text protocol begins with */
#define SP_RANKS_ANSWER "SPCORE\r\n"
#define SP_RANKS_ORDER 0x01020304u /* another value: a machine of the other byte order */

/* ---- the wire: structs as they are, on both ends of one version ---- */
typedef enum sp_link { SP_LINK_CONTROL, SP_LINK_DATA, SP_LINKS } sp_link;

/* The first words of a connection. What is above `rank` stays in its place in every protocol. */
typedef struct sp_hello {
  char magic[8];
  uint32_t order, protocol;
  char version[32], job[64];
  char host[64];
  int32_t rank, ranks, link, pid;
} sp_hello;

/* The answer: 0 when all ranks are there, or why not. */
typedef struct sp_welcome {
  char magic[8];
  int32_t status;
  char words[500];
} sp_welcome;

typedef struct sp_rank_place {
  uint64_t step;
  char stage[64], waiting[64]; /* "": none */
} sp_rank_place;

typedef enum sp_note_kind { SP_NOTE_BEAT = 1, SP_NOTE_BYE, SP_NOTE_DONE, SP_NOTE_FAIL } sp_note_kind;

/* On a control connection. Of all but SP_NOTE_FAIL what is above `words` is sent. */
typedef struct sp_note {
  uint32_t kind;
  int32_t rank, status; /* SP_NOTE_FAIL: the guilty one */
  uint32_t calls;       /* exchanges and broadcasts that its sender has begun */
  sp_rank_place place;
  char words[1024];
} sp_note;

/* ---- this process ---- */
typedef struct sp_rank_peer {
  int fd[SP_LINKS];
  sp_rank_place place;
  sp_rank_place told; /* where it was at its last call between ranks; under the lock */
  uint32_t calls;
  double heard, changed; /* sp_now() of the last note; of the last that said something new */
  double ended;          /* sp_now() of the end of its control connection; 0: it stands */
  bool bye, mute;        /* it has said so; what is sent to it no longer arrives whole */
  bool cut;              /* the control connection alone has ended */
  sp_note note;          /* as far as it has come */
  size_t got;
} sp_rank_peer;

typedef struct sp_rank_verdict {
  sp_err err;
  int rank;
  bool death;  /* its connection is gone */
  double when; /* sp_now() from which on it counts; 0: there is none */
} sp_rank_verdict;

#define SP_PLACE_WORDS (sizeof(sp_rank_place) / 8)

struct sp_ranks {
  sp_rank_opts o;
  sp_rank_peer *peers; /* of rank 0: [ranks], itself among them without connections; of the others: rank 0 alone */
  int n_peers;
  struct pollfd *polled; /* [n_peers + 1] */
  pthread_t watcher;
  int wake; /* an eventfd: other threads have something for the watcher */

  /* what sp_ranks_at says: odd while it is written */
  atomic_uint place_seq;
  _Atomic uint64_t place[SP_PLACE_WORDS];
  atomic_uint calls;
  _Atomic(const char *) call; /* the one that is under way */

  /* how long this rank has waited for others */
  pthread_mutex_t waiting;
  int waits, works; /* threads that do */
  double since;     /* when these numbers were others; */
  double waited;    /* until then, in seconds */

  atomic_uint blocks; /* of sp_ranks_block(): another number with each; odd, the script waits for its device */

  /* the watcher's own */
  sp_rank_verdict verdict; /* not yet told to anybody */
  double beat;             /* sp_now() of the last one */
  sp_note last;            /* what it said */
  bool said_bye;

  pthread_mutex_t lock; /* what is below; `changed` when it is */
  pthread_cond_t changed;
  sp_err asked; /* a failure to tell, of rank `asked_rank`; status SP_OK: none */
  int asked_rank;
  bool asked_own; /* its words are only what failed there */
  bool own;       /* this rank has said itself that it cannot go on */
  bool closing, done;
  sp_err failure; /* status SP_OK: none */
  int guilty;     /* whose it is; -1: nobody's */

  pthread_mutex_t aborting; /* held while they run */
  sp_rank_abort *aborts;
  bool aborted;
};

/* join.c: connects the peers of r, whose fds are -1. */
int sp_ranks_join(sp_ranks *r, sp_err *err);
/* The job has failed: calls between ranks end, and what was added to be aborted runs before it can be removed. The data
 * connection of a rank that has lost the other one stands: by that it knows that rank 0 is there. */
void sp_ranks_set_failure(sp_ranks *r, int guilty, const sp_err *why);
/* watch.c: the thread that owns the control connections. */
int sp_ranks_watch(sp_ranks *r, sp_err *err);
/* Where this rank is, as the others are told. */
sp_rank_place sp_ranks_place(sp_ranks *r);
struct timespec sp_ranks_time(double seconds); /* from now, of the clock of r->changed */

/* net.c: sockets do not block and are closed in other programs. `until`: sp_now() or INFINITY. */
int sp_net_listen(const char *address, int port, int *fd, sp_err *err);
int sp_net_connect(const char *address, int port, double until, int *fd, sp_err *err);
int sp_net_accept(int listener, char *from, size_t n); /* the socket or -1 */
bool sp_net_send(int fd, const void *data, size_t n, double until);
bool sp_net_recv(int fd, void *data, size_t n, double until);
void sp_net_drain(int fd, double until); /* reads to the end: with unread data, a close takes with it what was sent */
void sp_net_close(int *fd);              /* *fd becomes -1 */

#endif
