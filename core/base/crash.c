/* SPDX-License-Identifier: MIT
 * crash.c - when a plugin crashes or leaves the program, whose call it was. */
#include "base/crash.h"

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
#include <unwind.h>

#include "base/line.h"
#include "base/util.h"

static _Thread_local const sp_crash_call *current;
static _Thread_local sp_crash_call copy; /* of *current: that lies in a frame,
                                            which is gone when the thread has ended */
static _Thread_local uintptr_t stack_top; /* about where this thread's stack begins; 0: not known */

void sp_crash_adopt(const sp_crash_call *call) {
  current = call;
  if (call) copy = *call;
}

void sp_crash_enter(sp_crash_call *call) {
  call->outer = current;
  sp_crash_adopt(call);
}

void sp_crash_leave(void) { sp_crash_adopt(current->outer); }

const sp_crash_call *sp_crash_current(void) { return current; }

/* ---- files ------------------------------------------------------------------------------------------------------- */

enum { MAX_FILES = 256 }; /* of further ones the words of a crash have no name */

static struct plugin_file {
  char *path;
  uintptr_t from, to; /* where its segments are mapped */
} files[MAX_FILES];
static atomic_size_t n_files;

static int find_segments(struct dl_phdr_info *info, size_t size, void *arg) {
  struct plugin_file *f = arg;
  (void)size;
  if (info->dlpi_addr != f->from) return 0;
  for (int i = 0; i < info->dlpi_phnum; i++) {
    uintptr_t end = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr + info->dlpi_phdr[i].p_memsz;
    if (info->dlpi_phdr[i].p_type == PT_LOAD && end > f->to) f->to = end;
  }
  return 1;
}

void sp_crash_file(const char *path, void *so) {
  struct link_map *map;
  size_t n = atomic_load(&n_files);
  if (n == MAX_FILES || dlinfo(so, RTLD_DI_LINKMAP, &map)) return;
  struct plugin_file f = {sp_strdup(path), map->l_addr, 0};
  dl_iterate_phdr(find_segments, &f);
  files[n] = f;
  atomic_store(&n_files, n + 1); /* other threads may crash meanwhile */
}

static _Unwind_Reason_Code look(struct _Unwind_Context *frame, void *arg) {
  uintptr_t at = _Unwind_GetIP(frame);
  for (size_t i = 0, n = atomic_load(&n_files); i < n; i++) {
    if (at < files[i].from || at >= files[i].to) continue;
    *(const char **)arg = files[i].path;
    return _URC_END_OF_STACK;
  }
  return _URC_NO_REASON;
}

/* The innermost plugin's file on this thread's stack, or NULL. */
static const char *file_on_stack(void) {
  const char *path = NULL;
  _Unwind_Backtrace(look, &path);
  return path;
}

/* ---- words: only what a signal handler may call ------------------------------------------------------------------ */

typedef struct words {
  char line[512];
  size_t n;
} words;

static void add(words *w, const char *s) {
  while (*s && w->n + 1 < sizeof w->line) w->line[w->n++] = *s++;
}

static void add_number(words *w, uint64_t v) {
  char digits[24], *at = digits + sizeof digits - 1;
  *at = 0;
  do *--at = (char)('0' + v % 10);
  while (v /= 10);
  add(w, at);
}

/* "stage 'NAME' (FILE) step N: forward()", "FILE: loading it" */
static void add_call(words *w, const sp_crash_call *call) {
  if (!call->stage) {
    add(w, call->file);
    add(w, ": loading it");
    return;
  }
  add(w, "stage '");
  add(w, call->stage);
  add(w, "'");
  if (*call->file) {
    add(w, " (");
    add(w, call->file);
    add(w, ")");
  }
  if (call->step != SP_CRASH_NO_STEP) {
    add(w, " step ");
    add_number(w, sp_step_said(call->step));
  }
  add(w, call->returned ? ": what " : ": ");
  add(w, call->what);
  add(w, call->returned ? "() returned" : "()");
}

static void print(words *w) {
  w->line[w->n++] = '\n';
  sp_line_abandon();
  if (write(STDERR_FILENO, w->line, w->n) < 0) w->n = 0;
}

/* ---- crashes ----------------------------------------------------------------------------------------------------- */

static const struct {
  int sig;
  const char *words;
} fatal[] = {{SIGSEGV, "a bad memory access (SIGSEGV)"},
             {SIGBUS, "a bad memory access (SIGBUS)"},
             {SIGILL, "an illegal instruction (SIGILL)"},
             {SIGFPE, "an integer division by zero or overflow (SIGFPE)"},
             {SIGABRT, "abort() (SIGABRT)"},
             {SIGTRAP, "a trap (SIGTRAP)"}, /* what __builtin_trap() is on ARM */
             {SIGSYS, "a system call that is not allowed (SIGSYS)"}};

static uintptr_t stack_bytes; /* of the largest stack that a thread of ours has */

/* What lies on a stack is mapped: a fault below its beginning, but not far, is past its end. */
static bool past_stack(int sig, const siginfo_t *info) {
  uintptr_t at = (uintptr_t)info->si_addr;
  return sig == SIGSEGV && info->si_code > 0 && at < stack_top && stack_top - at <= stack_bytes;
}

/* Several threads may end the program in one call at once. The first does; its line must be out before. */
static void be_first(void) {
  static atomic_flag told = ATOMIC_FLAG_INIT;
  static _Thread_local bool mine; /* what ends it may crash, too */
  if (!mine && atomic_flag_test_and_set(&told))
    for (;;) pause();
  mine = true;
}

static void on_crash(int sig, siginfo_t *info, void *context) {
  words w = {.n = 0};
  (void)context;
  be_first();
  add(&w, "spcore: ");
  const char *file = current ? NULL : file_on_stack();
  if (current) add_call(&w, current);
  else add(&w, file ? file : "the program");
  add(&w, current || file ? " crashed the program: " : " crashed: ");
  for (size_t i = 0; i < SP_ARRAY(fatal); i++)
    if (fatal[i].sig == sig)
      add(&w, past_stack(sig, info) ? "the stack is used up (SIGSEGV): endless recursion, or large local arrays"
                                    : fatal[i].words);
  print(&w);
  signal(sig, SIG_DFL);
  raise(sig);
}

/* Ends the program where a plugin's code took a way out that returns to nobody. */
static void end_program(const char *left) {
  words w = {.n = 0};
  const char *file = current ? NULL : file_on_stack();
  char thread[16] = "";
  be_first();
  add(&w, "spcore: ");
  if (current) {
    add_call(&w, current);
  } else if (file) {
    add(&w, file);
  } else {
    add(&w, "a plugin's code on thread '");
    add(&w, pthread_getname_np(pthread_self(), thread, sizeof thread) ? "?" : thread);
    add(&w, "'");
  }
  add(&w, left);
  add(&w, ": a plugin returns a status instead");
  fflush(stdout);
  print(&w);
  _exit(1);
}

/* Called by exit() and quick_exit(), on the thread that called it. */
static void on_exit_call(void) {
  if (current || file_on_stack()) end_program(" called exit(), which ends the whole program");
}

/* ---- threads that end -------------------------------------------------------------------------------------------- */

static pthread_key_t thread_key; /* not NULL: this thread ends by returning from its function, or not at all */
static pthread_once_t thread_once = PTHREAD_ONCE_INIT;
static bool have_thread_key;

static void on_thread_end(void *arg) {
  (void)arg;
  if (current) current = &copy;
  end_program(
      " ended its thread, by pthread_exit() or pthread_cancel(), which would leave the program waiting for ever");
}

static void make_thread_key(void) { have_thread_key = !pthread_key_create(&thread_key, on_thread_end); }

void sp_crash_thread(bool stays) {
  static char any;
  pthread_once(&thread_once, make_thread_key);
  if (have_thread_key) pthread_setspecific(thread_key, stays ? &any : NULL);
}

/* ---- watching ---------------------------------------------------------------------------------------------------- */

void sp_crash_stack(void *stack) {
  static _Thread_local bool ours;
  stack_t now, next = {.ss_sp = stack, .ss_size = SP_CRASH_STACK, .ss_flags = stack ? 0 : SS_DISABLE};
  if (sigaltstack(NULL, &now) || (!ours && !(now.ss_flags & SS_DISABLE))) return;
  ours = stack && !sigaltstack(&next, NULL);
  if (!stack) sigaltstack(&next, NULL);
  stack_top = ours ? (uintptr_t)__builtin_frame_address(0) : 0;
}

static void watch_signal(int sig) {
  struct sigaction sa;
  memset(&sa, 0, sizeof sa);
  sa.sa_sigaction = on_crash;
  sa.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigfillset(&sa.sa_mask); /* a crash in here ends the program at once */
  sigaction(sig, &sa, NULL);
}

void sp_crash_watch(void) {
  static char stack[SP_CRASH_STACK];
  struct rlimit limit;
  bool limited = !getrlimit(RLIMIT_STACK, &limit) && limit.rlim_cur < (rlim_t)1 << 30;
  stack_bytes = (limited ? (uintptr_t)limit.rlim_cur : (uintptr_t)8 << 20) + SP_CRASH_STACK;
  sp_crash_stack(stack);
  sp_crash_thread(true);
  atexit(on_exit_call);
  at_quick_exit(on_exit_call);
  for (size_t i = 0; i < SP_ARRAY(fatal); i++) {
    struct sigaction old;
    if (sigaction(fatal[i].sig, NULL, &old) || (old.sa_flags & SA_SIGINFO) || old.sa_handler != SIG_DFL) continue;
    watch_signal(fatal[i].sig);
  }
}
