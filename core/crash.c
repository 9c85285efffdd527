/* SPDX-License-Identifier: MIT
 * crash.c - when a plugin crashes the program, whose call it was. */
#include "crash.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "util.h"

static _Thread_local const sp_crash_call *current;

void sp_crash_enter(sp_crash_call *call) {
  call->outer = current;
  current = call;
}

void sp_crash_leave(void) { current = current->outer; }

/* Only what a signal handler may call. */
static size_t add(char *line, size_t n, size_t cap, const char *s) {
  while (*s && n + 1 < cap) line[n++] = *s++;
  return n;
}

static const struct {
  int sig;
  const char *words;
} fatal[] = {{SIGSEGV, "a bad memory access (SIGSEGV)"},
             {SIGBUS, "a bad memory access (SIGBUS)"},
             {SIGILL, "an illegal instruction (SIGILL)"},
             {SIGFPE, "an integer division by zero or overflow (SIGFPE)"},
             {SIGABRT, "abort() (SIGABRT)"}};

static void on_crash(int sig) {
  const sp_crash_call *call = current;
  char line[512];
  size_t n = add(line, 0, sizeof line, "spcore: ");
  if (call) {
    n = add(line, n, sizeof line, "stage '");
    n = add(line, n, sizeof line, call->stage);
    if (*call->file) {
      n = add(line, n, sizeof line, "' (");
      n = add(line, n, sizeof line, call->file);
      n = add(line, n, sizeof line, "): ");
    } else {
      n = add(line, n, sizeof line, "': ");
    }
    n = add(line, n, sizeof line, call->what);
    n = add(line, n, sizeof line, "() crashed the program: ");
  } else {
    n = add(line, n, sizeof line, "the program crashed: ");
  }
  for (size_t i = 0; i < SP_ARRAY(fatal); i++)
    if (fatal[i].sig == sig) n = add(line, n, sizeof line, fatal[i].words);
  line[n++] = '\n';
  if (write(STDERR_FILENO, line, n) < 0) n = 0;
  raise(sig); /* the handler is gone: SA_RESETHAND */
}

void sp_crash_watch(void) {
  for (size_t i = 0; i < SP_ARRAY(fatal); i++) {
    struct sigaction sa, old;
    if (sigaction(fatal[i].sig, NULL, &old) || (old.sa_flags & SA_SIGINFO) || old.sa_handler != SIG_DFL) continue;
    memset(&sa, 0, sizeof sa);
    sa.sa_handler = on_crash;
    sa.sa_flags = (int)SA_RESETHAND;
    sigemptyset(&sa.sa_mask);
    sigaction(fatal[i].sig, &sa, NULL);
  }
}
