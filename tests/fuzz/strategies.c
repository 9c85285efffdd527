/* SPDX-License-Identifier: MIT
 * strategies.c - random graphs under random strategies: the bits must be those of `serialized`.
 *
 * strategies.lua makes a case from a seed; strategies_script.lua makes a script of it, which builds the graph once for
 * `serialized` and once for each variant (device, capture) and compares weights, metrics, evaluations and checksums.
 * Workers run one script after another in one process; here is who starts them, kills one that hangs, goes on behind
 * one that crashed, and has failing cases made small (strategies_shrink.lua) and printed as scripts. */
#include "strategies.h"

#include <errno.h>
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/util.h"

#define MAX_JOBS 64
#define MAX_SHRUNK 5   /* failures that are made small and printed; of the others the seed */
#define LEAST_TAKEN 70 /* per cent of the cases that the scheduler must take, or they test too little */
#define LEAST_SHOWN 60 /* per cent of the lists without a wait that must give other bits */
#define SHRINK_TRIES 1000

typedef struct worker {
  pid_t pid;
  int fd;                         /* -1: none */
  uint64_t next, end, stride, at; /* seeds; at: of the case that runs */
  bool inside;
  double since;
  char line[4096];
  size_t n;
} worker;

typedef struct failure {
  uint64_t seed;
  char kind[16];
} failure;

typedef struct totals {
  uint64_t cases, same, refused, failed, devices[8], captures[4], mutants[9];
  failure list[256];
} totals;

static const char *const captures[] = {"off", "lane", "step", "auto"};
static sf_opts opt = {
    .cases = 300, .seed = 1, .jobs = 1, .swaps = 2, .waits = 1, .changes = 30, .devices = "cpu,sim,mock", .limit = 600};
static totals sum;

/* ---- one worker -------------------------------------------------------------------------------------------------- */

static void work(const worker *w, int fd) {
  sf_state *s = sf_open(&opt);
  for (uint64_t seed = w->next; s && seed < w->end; seed += w->stride) {
    char words[3000];
    const char *device = "?", *capture = "?", *kind;
    dprintf(fd, "B %llu\n", (unsigned long long)seed);
    kind = sf_case(s, seed, &device, &capture, words, sizeof words);
    dprintf(fd, "E %s %s %s %s\n", kind, device, capture, words);
  }
  sf_close(s);
}

static void start(worker *w) {
  int fd[2];
  w->fd = -1;
  w->n = 0;
  w->inside = false;
  if (w->next >= w->end || pipe(fd)) return;
  fflush(NULL);
  w->pid = fork();
  if (w->pid == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    close(fd[0]);
    work(w, fd[1]);
    exit(0); /* for the sanitizers' last words */
  }
  close(fd[1]);
  w->fd = fd[0];
  w->since = sp_now();
}

/* ---- what they say ----------------------------------------------------------------------------------------------- */

static void failed(uint64_t seed, const char *kind, const char *words) {
  if (sum.failed < SP_ARRAY(sum.list)) {
    failure *f = &sum.list[sum.failed];
    f->seed = seed;
    snprintf(f->kind, sizeof f->kind, "%s", kind);
  }
  sum.failed++;
  printf("seed %llu: %s: %.400s\n", (unsigned long long)seed, kind, words);
  fflush(stdout);
}

static void add_mutants(const char *words) {
  for (size_t i = 0; opt.mutate && i < SP_ARRAY(sum.mutants); i++) {
    char *end;
    sum.mutants[i] += strtoull(words, &end, 10);
    words = end;
  }
}

static void add_up(uint64_t seed, const char *kind, const char *device, const char *list, const char *words) {
  char name[32];
  sum.cases++;
  for (size_t i = 0; sf_device(&opt, i, name, sizeof name) && i < SP_ARRAY(sum.devices); i++)
    sum.devices[i] += strcmp(name, device) == 0;
  for (size_t i = 0; i < SP_ARRAY(captures); i++) sum.captures[i] += strstr(list, captures[i]) != NULL;
  if (strcmp(kind, "same") == 0) sum.same++, add_mutants(words);
  else if (strcmp(kind, "refused") == 0) sum.refused++;
  else failed(seed, kind, words);
  if (opt.verbose) printf("seed %llu: %s on %s, %s: %s\n", (unsigned long long)seed, kind, device, list, words);
}

static void heard(worker *w, char *line) {
  char kind[16] = "", device[32] = "", list[32] = "";
  int at = 0;
  w->since = sp_now();
  if (line[0] == 'B') {
    w->at = strtoull(line + 2, NULL, 10);
    w->next = w->at + w->stride;
    w->inside = true;
  } else if (sscanf(line, "E %15s %31s %31s %n", kind, device, list, &at) == 3) {
    w->inside = false;
    add_up(w->at, kind, device, list, line + at);
  }
}

/* The process is gone: by itself at its end, or it crashed in a case; another one goes on behind that. */
static void gone(worker *w, bool hung) {
  char words[64];
  int status = 0;
  if (hung) kill(w->pid, SIGKILL);
  waitpid(w->pid, &status, 0);
  close(w->fd);
  w->fd = -1;
  snprintf(words, sizeof words, "%s %d", WIFSIGNALED(status) ? "signal" : "exit status",
           WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
  if (w->inside) add_up(w->at, hung ? "hang" : "crash", "?", "?", words);
  else if (status || w->next < w->end) failed(w->next, "crash", words); /* between two cases */
  if (!w->inside && w->next < w->end) w->next += w->stride;
  start(w);
}

static void listen_to(worker *w) {
  ssize_t got = read(w->fd, w->line + w->n, sizeof w->line - 1 - w->n);
  char *end;
  if (got < 0 && errno == EINTR) return;
  if (got <= 0) {
    gone(w, false);
    return;
  }
  w->n += (size_t)got;
  w->line[w->n] = 0;
  while ((end = memchr(w->line, '\n', w->n))) {
    *end = 0;
    heard(w, w->line);
    w->n -= (size_t)(end + 1 - w->line);
    memmove(w->line, end + 1, w->n + 1);
  }
}

static void run_all(void) {
  static worker w[MAX_JOBS];
  for (int i = 0; i < opt.jobs; i++) {
    w[i] = (worker){.next = opt.seed + (uint64_t)i, .end = opt.seed + opt.cases, .stride = (uint64_t)opt.jobs};
    start(&w[i]);
  }
  for (int left = 1; left;) {
    struct pollfd p[MAX_JOBS];
    left = 0;
    for (int i = 0; i < opt.jobs; i++) {
      p[i] = (struct pollfd){.fd = w[i].fd, .events = POLLIN};
      left += w[i].fd >= 0;
    }
    if (left) poll(p, (nfds_t)opt.jobs, 1000);
    for (int i = 0; i < opt.jobs; i++) {
      if (w[i].fd >= 0 && p[i].revents) listen_to(&w[i]);
      else if (w[i].fd >= 0 && sp_now() - w[i].since > opt.limit) gone(&w[i], true);
    }
  }
}

/* ---- scripts in another process, for the shrinker ---------------------------------------------------------------- */

static struct {
  pid_t pid; /* 0: none */
  int to, from;
} other;

/* Runs scripts until the pipe is closed: a length, the text; the answer is a line. */
static void serve(int in, int out) {
  static char text[1 << 20];
  char words[3000];
  size_t n;
  if (!freopen("/dev/null", "w", stderr)) return;
  sf_state *s = sf_open(&opt);
  FILE *f = fdopen(in, "r");
  while (s && f && fread(&n, sizeof n, 1, f) == 1 && n < sizeof text && fread(text, 1, n, f) == n) {
    text[n] = 0;
    const char *kind = sf_script(s, text, words, sizeof words);
    dprintf(out, "%s %s\n", kind, words);
  }
  sf_close(s);
}

static bool begin_other(void) {
  int to[2], from[2];
  if (other.pid) return true;
  if (pipe(to) || pipe(from)) return false;
  fflush(NULL);
  other.pid = fork();
  if (other.pid == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    close(to[1]);
    close(from[0]);
    serve(to[0], from[1]);
    exit(0);
  }
  close(to[0]);
  close(from[1]);
  other.to = to[1];
  other.from = from[0];
  return true;
}

static void end_other(bool hung) {
  if (!other.pid) return;
  close(other.to);
  if (hung) kill(other.pid, SIGKILL);
  waitpid(other.pid, NULL, 0);
  close(other.from);
  other.pid = 0;
}

/* Its answer without the line's end; NULL: it has one. */
static const char *answer(char *words, size_t n) {
  double until = sp_now() + opt.limit / 3;
  for (size_t got = 0; got < n - 1;) {
    struct pollfd p = {.fd = other.from, .events = POLLIN};
    int ms = (int)((until - sp_now()) * 1e3);
    if (ms <= 0 || poll(&p, 1, ms) == 0) return "hang";
    ssize_t k = read(other.from, words + got, n - 1 - got);
    if (k <= 0) return "crash";
    got += (size_t)k;
    words[got] = 0;
    if (words[got - 1] != '\n') continue;
    words[got - 1] = 0;
    return NULL;
  }
  return "error";
}

const char *sf_try(const char *text, char *words, size_t n) {
  static char kind[16];
  size_t length = strlen(text);
  int at = 0;
  if (!begin_other() || write(other.to, &length, sizeof length) < 0 || write(other.to, text, length) < 0)
    return "error";
  const char *bad = answer(words, n);
  if (bad) {
    *words = 0;
    end_other(strcmp(bad, "hang") == 0);
    return bad;
  }
  if (sscanf(words, "%15s %n", kind, &at) < 1) return "error";
  memmove(words, words + at, strlen(words + at) + 1);
  return kind;
}

/* ---- the program ------------------------------------------------------------------------------------------------- */

static void print_totals(double seconds) {
  char name[32];
  printf("%llu cases: %llu same bits, %llu refused, %llu failed;", (unsigned long long)sum.cases,
         (unsigned long long)sum.same, (unsigned long long)sum.refused, (unsigned long long)sum.failed);
  for (size_t i = 0; sf_device(&opt, i, name, sizeof name) && i < SP_ARRAY(sum.devices); i++)
    printf(" %s %llu", name, (unsigned long long)sum.devices[i]);
  printf("; capture");
  for (size_t i = 0; i < SP_ARRAY(captures); i++)
    if (sum.captures[i]) printf(" %s %llu", captures[i], (unsigned long long)sum.captures[i]);
  printf("; %.1f s\n", seconds);
  const uint64_t *m = sum.mutants;
  if (opt.mutate)
    printf("%llu lists: %llu deletions refused by the proof and by --check-races; of %llu swaps %llu let through, of "
           "which %llu were played\n",
           (unsigned long long)m[0], (unsigned long long)m[1], (unsigned long long)m[2], (unsigned long long)m[3],
           (unsigned long long)m[4]);
  if (opt.mutate)
    printf("%llu random changes, of which %llu are proved and do not race\n%llu of %llu trainings without a wait gave "
           "other bits under some seed\n",
           (unsigned long long)m[7], (unsigned long long)m[8], (unsigned long long)m[6], (unsigned long long)m[5]);
}

static void print_failures(void) {
  uint64_t n = sum.failed < SP_ARRAY(sum.list) ? sum.failed : SP_ARRAY(sum.list);
  for (uint64_t i = 0; i < n && i < MAX_SHRUNK; i++)
    if (opt.shrink) sf_shrink(&opt, sum.list[i].seed, sum.list[i].kind, SHRINK_TRIES);
  end_other(false);
}

static const struct option options[] = {
    {"cases", required_argument, NULL, 'n'},
    {"seed", required_argument, NULL, 's'},
    {"jobs", required_argument, NULL, 'j'},
    {"device", required_argument, NULL, 'd'},
    {"limit", required_argument, NULL, 'l'},
    {"no-shrink", no_argument, NULL, 'q'},
    {"print", no_argument, NULL, 'p'},
    {"mutate", no_argument, NULL, 'm'},
    {"swaps", required_argument, NULL, 'w'},
    {"waits", required_argument, NULL, 'W'},
    {"changes", required_argument, NULL, 'C'},
    {"verbose", no_argument, NULL, 'v'},
    {NULL, 0, NULL, 0},
};

static int usage(const char *program) {
  fprintf(
      stderr,
      "usage: %s [options] [SCRIPT that one run printed]\n"
      "  --cases N        so many (SP_FUZZ_CASES, 300)\n"
      "  --seed S         of the first one; each has the next (1)\n"
      "  --jobs J         processes (1)\n"
      "  --device A,B     of cpu, sim, mock, cuda, or emu alone: cuda in the emulator (cpu,sim,mock)\n"
      "  --limit SECONDS  a case that takes longer hangs (600)\n"
      "  --no-shrink      print the seeds of failures only\n"
      "  --print          print the scripts of the seeds, run nothing\n"
      "  --mutate         change the lists of operations: the proof must notice\n"
      "  --swaps N        of those that it lets through so many a program are played (2)\n"
      "  --waits N        without each of so many waits a training is played: some order gives other bits (1)\n"
      "  --changes N      so many random changes of each list, one or two at once: what is proved must not race (30)\n"
      "  --verbose        a line a case\n",
      program);
  return 2;
}

static void from_environment(void) {
  const char *cases = getenv("SP_FUZZ_CASES"), *sanitizers = getenv("SP_SANITIZERS");
  bool slow = sanitizers && strcmp(sanitizers, "none") != 0;
  if (slow) opt.cases = 60, opt.limit = 600;
  if (cases && *cases) opt.cases = strtoull(cases, NULL, 10);
  opt.shrink = true;
}

static bool arguments(int argc, char **argv) {
  for (int c; (c = getopt_long(argc, argv, "", options, NULL)) != -1;) {
    switch (c) {
      case 'n': opt.cases = strtoull(optarg, NULL, 10); break;
      case 's': opt.seed = strtoull(optarg, NULL, 10); break;
      case 'j': opt.jobs = atoi(optarg); break;
      case 'd': opt.devices = optarg; break;
      case 'l': opt.limit = atof(optarg); break;
      case 'q': opt.shrink = false; break;
      case 'p': opt.print = true; break;
      case 'm': opt.mutate = true, opt.shrink = false; break;
      case 'w': opt.swaps = atoi(optarg); break;
      case 'W': opt.waits = atoi(optarg); break;
      case 'C': opt.changes = atoi(optarg); break;
      case 'v': opt.verbose = true; break;
      default: return false;
    }
  }
  return opt.jobs >= 1 && opt.jobs <= MAX_JOBS && opt.cases >= 1 && opt.limit > 0 && argc - optind <= 1;
}

static int verdict(void) {
  uint64_t taken = sum.cases - sum.refused;
  bool mild = sum.cases >= 50 && taken * 100 < sum.cases * LEAST_TAKEN;
  if (mild) printf("fewer than %d%% of the cases were taken\n", LEAST_TAKEN);
  bool blind = sum.mutants[5] >= 10 && sum.mutants[6] * 100 < sum.mutants[5] * LEAST_SHOWN;
  if (blind) printf("too few trainings without a wait gave other bits: what is played shows nothing\n");
  return sum.failed || mild || blind || sum.cases < opt.cases ? 1 : 0;
}

int main(int argc, char **argv) {
  signal(SIGPIPE, SIG_IGN); /* of a process that crashed */
  double begun = sp_now();
  int code;
  from_environment();
  if (!arguments(argc, argv)) return usage(argv[0]);
  if (sf_environment(&opt)) return 1;
  if (argc > optind) {
    code = sf_file(&opt, argv[optind]);
  } else if (opt.print) {
    code = sf_print(&opt);
  } else {
    run_all();
    print_totals(sp_now() - begun);
    print_failures();
    code = verdict();
  }
  sf_clean();
  return code;
}
