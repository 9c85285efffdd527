/* SPDX-License-Identifier: MIT
 * launch.c - starts the ranks of a job on this host, passes on their lines and our signals, ends what does not end. */
#include "ranks/launch.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/util.h"
#include "ranks/impl.h"

#define GRACE 5        /* seconds from the first failure for the others to end; then they are asked to, */
#define LAST 2         /* and so many later they are ended */
#define LINE (1 << 20) /* bytes of a line that are kept together */
#define PIECE 4096     /* bytes that a pipe which has room takes without a wait (PIPE_BUF) */

static const int passed_on[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGTSTP};

/* What a rank prints: whole lines go on. */
typedef struct pipe_end {
  int fd, to, rank; /* fd -1: there is none any more */
  char *text;
  size_t n, cap;
} pipe_end;

typedef struct child {
  pid_t pid; /* 0: it has ended */
  pipe_end out, err;
} child;

typedef struct launcher {
  int ranks, running;
  child *children;
  struct pollfd *polled;
  int signals; /* a signalfd */
  sigset_t old;
  int asked;     /* signals that end them have come from outside: in their own time, the second time at once */
  bool lost;     /* of what they print something could not be written */
  double failed; /* sp_now() of the first failure; 0: none */
  int sent;      /* the signal that has ended them, or 0 */
  int code;
  bool by_led;        /* the code is one's that another one's failure has ended */
  volatile bool *led; /* [ranks], shared with them */
} launcher;

/* ---- what they print --------------------------------------------------------------------------------------------- */

static void hear_signals(launcher *l);

/* Who reads our output may have stopped reading: meanwhile signals are passed on, and the second one ends the wait. */
static bool wait_for_reader(launcher *l, int fd) {
  struct pollfd p[] = {{.fd = fd, .events = POLLOUT}, {.fd = l->signals, .events = POLLIN}};
  for (;;) {
    poll(p, SP_ARRAY(p), l->asked < 2 ? -1 : 0);
    if (p[0].revents || l->asked >= 2) return p[0].revents;
    if (p[1].revents) hear_signals(l);
  }
}

static bool write_all(launcher *l, int fd, const char *text, size_t n) {
  while (n) {
    size_t piece = n < PIECE ? n : PIECE;
    const char *line = piece < n ? memrchr(text, '\n', piece) : NULL; /* whole ones, if they are no longer than that */
    if (!wait_for_reader(l, fd)) return false;
    ssize_t w = write(fd, text, line ? (size_t)(line + 1 - text) : piece);
    if (w < 0 && errno == EINTR) continue;
    if (w <= 0) return false;
    text += w;
    n -= (size_t)w;
  }
  return true;
}

/* The lines of text[0..n-1], which ends with one. */
static void print_lines(launcher *l, const pipe_end *p, const char *text, size_t n) {
  size_t lines = 0, at = 0;
  char mark[16] = "";
  if (p->rank) snprintf(mark, sizeof mark, "[r%d] ", p->rank);
  for (size_t i = 0; i < n; i++) lines += text[i] == '\n';
  char *all = p->rank ? sp_calloc(1, n + lines * sizeof mark) : NULL;
  for (size_t i = 0, next; all && i < n; i = next) {
    next = (size_t)((const char *)memchr(text + i, '\n', n - i) - text) + 1;
    memcpy(all + at, mark, strlen(mark));
    at += strlen(mark);
    memcpy(all + at, text + i, next - i);
    at += next - i;
  }
  if (!write_all(l, p->to, all ? all : text, all ? at : n) && l->asked < 2) l->lost = true;
  free(all);
}

static void end_line(launcher *l, pipe_end *p) {
  if (!p->n) return;
  p->text[p->n++] = '\n';
  print_lines(l, p, p->text, p->n);
  p->n = 0;
}

/* One read; false: there is nothing now. */
static bool pass_on(launcher *l, pipe_end *p) {
  enum { CHUNK = 65536 };
  if (p->n + CHUNK > LINE) end_line(l, p);
  if (!sp_grow(&p->text, &p->cap, p->n + CHUNK + 1, 1)) return false; /* + 1: end_line */
  ssize_t n = read(p->fd, p->text + p->n, CHUNK);
  if (n < 0) return errno == EINTR;
  if (n == 0) {
    end_line(l, p);
    sp_net_close(&p->fd);
    return false;
  }
  char *from = p->text + p->n, *last = memrchr(from, '\n', (size_t)n);
  p->n += (size_t)n;
  if (!last) return true;
  size_t whole = (size_t)(last + 1 - p->text);
  print_lines(l, p, p->text, whole);
  memmove(p->text, p->text + whole, p->n - whole);
  p->n -= whole;
  return true;
}

/* ---- a rank ------------------------------------------------------------------------------------------------------ */

static void set_number(const char *name, int v) {
  char text[16];
  snprintf(text, sizeof text, "%d", v);
  setenv(name, text, 1);
}

static void set_variables(int rank, int ranks, int port, const char *job) {
  set_number("RANK", rank);
  set_number("WORLD_SIZE", ranks);
  set_number("LOCAL_RANK", rank);
  set_number("LOCAL_WORLD_SIZE", ranks);
  set_number("SPCORE_PORT", port);
  setenv("SPCORE_ADDR", "127.0.0.1", 1);
  setenv("SPCORE_JOB", job, 1);
}

/* A group of its own: Ctrl-C comes to the launcher alone, which passes it on, and what a rank leaves behind can be
 * ended. It cannot read the terminal then, so none does; rank 0 writes to it,
 * also where `stty tostop` would stop who does that. */
static void become_rank(launcher *l, int rank, pid_t parent) {
  const child *c = &l->children[rank];
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(127); /* it ended before that was said */
  setpgid(0, 0);
  int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (null >= 0) dup2(null, STDIN_FILENO);
  if (null > STDERR_FILENO) close(null);
  if (rank == 0) signal(SIGTTOU, SIG_IGN);
  if (c->out.to >= 0) dup2(c->out.to, STDOUT_FILENO);
  if (c->err.to >= 0) dup2(c->err.to, STDERR_FILENO);
  sigprocmask(SIG_SETMASK, &l->old, NULL);
}

static void free_launcher(launcher *l) {
  for (int i = 0; l->children && i < l->ranks; i++) {
    pipe_end *ends[] = {&l->children[i].out, &l->children[i].err};
    for (size_t k = 0; k < SP_ARRAY(ends); k++) {
      sp_net_close(&ends[k]->fd);
      free(ends[k]->text);
    }
  }
  sp_net_close(&l->signals);
  free(l->children);
  free(l->polled);
}

/* Rank 0 has the terminal, if there is one, so that its progress is drawn as ever. All else goes through a pipe; until
 * the fork `to` is that one's other end. */
static int make_pipe(pipe_end *p, int rank, int to) {
  int ends[2];
  *p = (pipe_end){.fd = -1, .to = -1, .rank = rank};
  if (rank == 0 && isatty(to)) return 0;
  if (pipe2(ends, O_CLOEXEC)) return errno;
  p->fd = ends[0];
  p->to = ends[1];
  return 0;
}

/* 0 in the rank, else its number, or -1 */
static pid_t start(launcher *l, int rank) {
  child *c = &l->children[rank];
  int why = make_pipe(&c->out, rank, STDOUT_FILENO);
  if (!why) why = make_pipe(&c->err, rank, STDERR_FILENO);
  pid_t parent = getpid(), pid = why ? -1 : fork();
  if (pid < 0 && !why) why = errno;
  if (pid == 0) become_rank(l, rank, parent);
  pipe_end *ends[] = {&c->out, &c->err};
  for (size_t k = 0; k < SP_ARRAY(ends); k++) {
    sp_net_close(&ends[k]->to);
    ends[k]->to = k ? STDERR_FILENO : STDOUT_FILENO;
    if (pid > 0 && ends[k]->fd >= 0) fcntl(ends[k]->fd, F_SETFL, O_NONBLOCK);
  }
  if (pid > 0) {
    setpgid(pid, pid); /* whoever of the two is first */
    c->pid = pid;
    l->running++;
  }
  errno = why;
  return pid;
}

/* ---- the launcher ------------------------------------------------------------------------------------------------ */

static void kill_all(const launcher *l, int sig) {
  for (int i = 0; i < l->ranks; i++)
    if (l->children[i].pid) kill(l->children[i].pid, sig);
}

/* By a signal that all of them have agreed on, also one that came to a rank alone:
 * the others are saving, and end, too. */
static bool ended_by_agreement(int status) {
  if (!WIFEXITED(status)) return false;
  for (size_t i = 0; i < SP_ARRAY(passed_on); i++)
    if (WEXITSTATUS(status) == 128 + passed_on[i]) return true;
  return false;
}

/* Of a rank that was killed by nobody here: who else says so? */
static void note_end(launcher *l, int rank, int status) {
  int code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  if (code && WIFSIGNALED(status) && !l->sent && !l->asked)
    sp_log(SP_LOG_ERROR, "rank %d was ended by SIG%s", rank, sigabbrev_np(WTERMSIG(status)));
  /* Ranks that end because another one has failed may be done before that one is. */
  if (!l->sent && code && (!l->code || (l->by_led && !l->led[rank]))) {
    l->code = code;
    l->by_led = l->led[rank];
  }
  if (!code || l->failed > 0 || ended_by_agreement(status)) return;
  l->failed = sp_now();
  kill_all(l, SIGCONT); /* one that was stopped hears of it, too */
}

static void reap(launcher *l) {
  for (int i = 0; i < l->ranks; i++) {
    child *c = &l->children[i];
    siginfo_t info = {0};
    int status;
    if (!c->pid || waitid(P_PID, (id_t)c->pid, &info, WEXITED | WNOHANG | WNOWAIT) || info.si_pid != c->pid) continue;
    kill(-c->pid, SIGKILL); /* what it has left behind; it is not reaped yet, so the number is still its own */
    while (waitpid(c->pid, &status, 0) < 0 && errno == EINTR) {}
    c->pid = 0;
    l->running--;
    note_end(l, i, status);
  }
}

/* Ctrl-Z: the ranks and this process stop, and go on together. Where nobody could wake this process it does not
 * stop. */
static void stop(launcher *l) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTSTP);
  kill_all(l, SIGSTOP);
  raise(SIGTSTP);
  sigprocmask(SIG_UNBLOCK, &set, NULL); /* here it stops */
  sigprocmask(SIG_BLOCK, &set, NULL);
  kill_all(l, SIGCONT);
}

static void hear_signals(launcher *l) {
  struct signalfd_siginfo s;
  while (read(l->signals, &s, sizeof s) == (ssize_t)sizeof s) {
    if (s.ssi_signo == SIGTSTP) stop(l);
    if (s.ssi_signo == SIGCHLD || s.ssi_signo == SIGTSTP) continue;
    if (s.ssi_signo != SIGUSR1 && s.ssi_signo != SIGUSR2) l->asked++; /* which may end nothing */
    kill_all(l, (int)s.ssi_signo);
  }
}

static void end_late_ones(launcher *l) {
  if (!(l->failed > 0) || l->asked || l->sent == SIGKILL) return;
  double late = sp_now() - l->failed - GRACE;
  int sig = late > LAST ? SIGKILL : late > 0 ? SIGTERM : 0;
  if (sig == l->sent) return;
  l->sent = sig;
  kill_all(l, sig);
}

static void wait_for_news(launcher *l) {
  nfds_t n = 0;
  l->polled[n++] = (struct pollfd){.fd = l->signals, .events = POLLIN};
  for (int i = 0; i < l->ranks; i++) {
    l->polled[n++] = (struct pollfd){.fd = l->children[i].out.fd, .events = POLLIN};
    l->polled[n++] = (struct pollfd){.fd = l->children[i].err.fd, .events = POLLIN};
  }
  poll(l->polled, n, l->failed > 0 ? 100 : 1000);
}

/* What is there; a program that a rank has started may hold the other end, which nobody waits for. */
static void read_pipes(launcher *l) {
  for (int i = 0; i < l->ranks; i++) {
    pipe_end *ends[] = {&l->children[i].out, &l->children[i].err};
    for (size_t k = 0; k < SP_ARRAY(ends); k++)
      for (int reads = 0; reads < 16 && ends[k]->fd >= 0 && pass_on(l, ends[k]);) reads++; /* each has its turn */
  }
}

static void attend(launcher *l) {
  while (l->running) {
    wait_for_news(l);
    read_pipes(l);
    hear_signals(l);
    reap(l);
    end_late_ones(l);
  }
  read_pipes(l);
  for (int i = 0; i < l->ranks; i++) {
    end_line(l, &l->children[i].out);
    end_line(l, &l->children[i].err);
  }
  if (!l->lost) return;
  sp_log(SP_LOG_ERROR, "writing what the ranks printed failed, so it is not complete");
  if (!l->code) l->code = 1;
}

static int make_launcher(launcher *l, int ranks, sp_err *err) {
  sigset_t set;
  *l = (launcher){.ranks = ranks, .signals = -1};
  l->children = sp_calloc((size_t)ranks, sizeof *l->children);
  l->polled = sp_calloc((size_t)ranks * 2 + 1, sizeof *l->polled);
  void *led = mmap(NULL, SP_LAUNCH_MAX, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  l->led = led == MAP_FAILED ? NULL : led;
  if (!l->children || !l->polled || !l->led) return sp_nomem(err, (size_t)ranks * sizeof *l->children, "the ranks");
  for (int i = 0; i < ranks; i++) l->children[i].out.fd = l->children[i].err.fd = -1;
  sigemptyset(&set);
  sigaddset(&set, SIGCHLD);
  for (size_t i = 0; i < SP_ARRAY(passed_on); i++) {
    struct sigaction now;
    sigaction(passed_on[i], NULL, &now);
    bool ignored = now.sa_handler == SIG_IGN && (passed_on[i] == SIGHUP || passed_on[i] == SIGTSTP); /* nohup */
    if (!ignored) sigaddset(&set, passed_on[i]);
  }
  sigprocmask(SIG_BLOCK, &set, &l->old);
  l->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
  return l->signals < 0 ? sp_fail(err, SP_E_IO, "starting ranks: %s", strerror(errno)) : SP_OK;
}

/* A port that is free, and stays so until rank 0 listens: it gets the socket. */
static int find_port(int *listener, int *port, sp_err *err) {
  struct sockaddr_in at;
  socklen_t len = sizeof at;
  int rc = sp_net_listen("127.0.0.1", 0, listener, err);
  if (rc) return rc;
  if (getsockname(*listener, (struct sockaddr *)&at, &len))
    return sp_fail(err, SP_E_IO, "starting ranks: %s", strerror(errno));
  *port = ntohs(at.sin_port);
  return SP_OK;
}

static void make_job(char job[33]) {
  unsigned char bytes[16];
  if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes) memset(bytes, getpid() & 0xff, sizeof bytes);
  for (size_t i = 0; i < sizeof bytes; i++) snprintf(job + 2 * i, 3, "%02x", bytes[i]);
}

static int cannot_start(int rank, sp_err *err) {
  const char *cure = errno == EMFILE   ? " (ulimit -n says how many)"
                     : errno == EAGAIN ? " (ulimit -u says how many)"
                                       : "";
  return sp_fail(err, SP_E_IO, "rank %d cannot be started: %s%s", rank, strerror(errno), cure);
}

int sp_ranks_launch(int ranks, sp_launch *launch, sp_err *err) {
  launcher l;
  char job[33];
  int port = 0;
  *launch = (sp_launch){.listener = -1};
  int rc = make_launcher(&l, ranks, err);
  if (!rc) rc = find_port(&launch->listener, &port, err);
  make_job(job);
  fflush(NULL);
  for (int i = 0; !rc && i < ranks; i++) {
    pid_t pid = start(&l, i);
    if (pid < 0) rc = cannot_start(i, err);
    if (pid) continue;
    set_variables(i, ranks, port, job);
    launch->is_rank = true;
    launch->led = (bool *)l.led + i;
    if (i) sp_net_close(&launch->listener);
    free_launcher(&l);
    return SP_OK;
  }
  sp_net_close(&launch->listener);
  signal(SIGPIPE, SIG_IGN); /* who reads our output may go away; the ranks go on */
  if (rc) {                 /* of which nothing is said: not by us, nor by one that sees another die */
    kill_all(&l, SIGSTOP);
    kill_all(&l, l.sent = SIGKILL);
  }
  attend(&l);
  launch->code = l.code;
  if (l.led) munmap((void *)l.led, SP_LAUNCH_MAX);
  free_launcher(&l);
  return rc;
}
