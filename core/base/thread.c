/* SPDX-License-Identifier: MIT
 * thread.c - how the core starts threads that run plugins' code. */
#include "base/thread.h"

#include <errno.h>
#include <fenv.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/crash.h"
#include "base/util.h"

typedef struct start {
  void *(*fn)(void *arg);
  void *arg;
  char crash_stack[SP_CRASH_STACK];
} start;

static void *thread_main(void *arg) {
  start *s = arg;
  sp_crash_stack(s->crash_stack);
  fesetenv(FE_DFL_ENV); /* not that of the thread that started it */
  sp_crash_thread(true);
  void *result = s->fn(s->arg);
  sp_crash_thread(false);
  sp_crash_stack(NULL);
  free(s);
  return result;
}

/* All but what the thread itself brings about: blocked, a crash would end the program without a word. */
static void block_signals(sigset_t *old) {
  static const int own[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGTRAP, SIGSYS};
  sigset_t all;
  sigfillset(&all);
  for (size_t i = 0; i < SP_ARRAY(own); i++) sigdelset(&all, own[i]);
  pthread_sigmask(SIG_SETMASK, &all, old);
}

int sp_thread_start(pthread_t *thread, const char *name, void *(*fn)(void *arg), void *arg) {
  char shortened[16];
  sigset_t old;
  start *s = sp_calloc(1, sizeof *s);
  if (!s) return ENOMEM;
  s->fn = fn;
  s->arg = arg;
  block_signals(&old);
  int rc = pthread_create(thread, NULL, thread_main, s);
  pthread_sigmask(SIG_SETMASK, &old, NULL);
  if (rc) {
    free(s);
    return rc;
  }
  snprintf(shortened, sizeof shortened, "%.15s", name);
  pthread_setname_np(*thread, shortened);
  return 0;
}
