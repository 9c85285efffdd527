/* SPDX-License-Identifier: MIT
 * signals.c - SIGINT, SIGTERM and SIGHUP, and the warnings SIGUSR1 and SIGUSR2: a flag that loops ask for, a line that
 * says at once what is done about it, and a hook for a script that never asks. The same hook ends the script of a rank
 * when another one has failed. */
#include "lua/signals.h"

#include <errno.h>
#include <lualib.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "base/line.h"
#include "lua/state.h"

/* What a script may take from a signal to its next step, or until it asks: so many instructions, about a second's; or,
 * since one that waits in calls takes few of them, so many seconds. */
#define GRACE 100000000
#define PATIENCE 3
#define LOOK 10000 /* instructions between two looks whether that is over */

static volatile sig_atomic_t caught, noticed, late, looks;
static lua_State *volatile running;
static volatile sig_atomic_t ends;   /* of SIGINT, SIGTERM, SIGHUP: the second one ends the program */
static volatile sig_atomic_t warned; /* a warning that wants a checkpoint, which nobody has heard of yet */
static volatile sig_atomic_t saves;  /* warnings do, and end nothing */
static volatile sig_atomic_t keeps;  /* there are checkpoints, and whoever saves them ends the steps */
static volatile pid_t teller;        /* what it sends comes to all ranks, of which the first one answers; 0: nobody */

/* What ranks tell each other has a bit for each. */
static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2};

/* The other ranks: a thread that hears of their failure wakes the one that runs the script. */
#define WAKE SIGURG /* nobody minds it where it comes late */
static atomic_bool failed, ready, told;
static pthread_t script_thread;

static void on_late(lua_State *L, lua_Debug *ar);

/* From now on a script has its time once more. Of a coroutine seconds do not count,
 * since the alarm does not know which one runs. */
static void be_patient(lua_State *L) {
  late = looks = 0;
  lua_sethook(L, on_late, LUA_MASKCOUNT, LOOK);
  if (running && running != L) lua_sethook(running, on_late, LUA_MASKCOUNT, LOOK);
  alarm(PATIENCE);
}

/* Called each LOOK instructions behind a signal, in a coroutine after its own. */
static void on_late(lua_State *L, lua_Debug *ar) {
  sp_err err;
  (void)ar;
  if (atomic_load(&failed) && sp_ranks_failed(sp_lua_of(L)->env->ranks, &err)) {
    lua_sethook(L, NULL, 0, 0); /* said once: what closes behind it is to come to its end */
    if (!atomic_load(&told)) sp_lua_fail(L, "%s", err.msg);
  }
  if (!caught) return;
  if (noticed) lua_sethook(L, NULL, 0, 0);
  else if (late || ++looks >= GRACE / LOOK) {
    be_patient(L); /* what closes behind it has time, too */
    sp_lua_fail(L, "interrupted by SIG%s", sigabbrev_np(caught));
  }
}

void sp_lua_was_long(lua_State *L) {
  if (caught && !noticed) be_patient(L);
}

/* PATIENCE is over: the next instruction is the last, where nobody has asked by then. */
static void on_alarm(int sig) {
  (void)sig;
  late = 1;
  if (running && !noticed) lua_sethook(running, on_late, LUA_MASKCOUNT, 1);
}

/* A hook is what a signal handler may set. */
static void be_noticed(void) {
  if (running) lua_sethook(running, on_late, LUA_MASKCOUNT, LOOK);
  alarm(PATIENCE);
}

/* What is done about a signal, before anything is. */
static const char *answer(bool warning) {
  if (warning && saves && keeps) return "a checkpoint is saved, and the run goes on";
  if (warning && saves) return "the run has no steps to save now, and goes on";
  if (caught && warning) return "the run is ending already";
  if (caught) return "the run is ending already; the next signal but SIGUSR1 and SIGUSR2 ends it at once";
  if (keeps && warning) return "a checkpoint is saved, and the run ends";
  if (keeps) return "a checkpoint is saved, and the run ends; a second signal ends it at once";
  if (warning) return "there are no checkpoints here to save; the script ends at its next step, as at a SIGTERM";
  return "the script ends at its next step; a second signal ends it at once";
}

/* On a terminal with --quiet, too: there somebody waits for an answer. */
static void say(int sig, const char *words) {
  char line[160] = "spcore: SIG";
  size_t n = strlen(line);
  const char *parts[] = {sigabbrev_np(sig), ": ", words, "\n"};
  if (!sp_log_says(SP_LOG_INFO) && !isatty(STDERR_FILENO)) return;
  for (size_t i = 0; i < SP_ARRAY(parts); i++)
    for (const char *c = parts[i]; *c && n < sizeof line; c++) line[n++] = *c;
  sp_line_signal(line, n);
}

/* The handlers stay as they are, so that a second signal is counted: a plugin's call may be under way, behind which the
 * host puts back those that were there before it. */
static void on_signal(int sig, siginfo_t *info, void *context) {
  bool warning = sig == SIGUSR1 || sig == SIGUSR2;
  (void)context;
  if (!warning && ends++) {
    signal(sig, SIG_DFL);
    raise(sig);
    return;
  }
  int before = errno;
  if (!teller || info->si_pid != teller) say(sig, answer(warning));
  errno = before;
  if (warning && saves) warned = sig;
  else if (!caught) {
    caught = sig;
    be_noticed();
  }
}

/* Where a warning came before it was said what is to be done about it, that is done now. */
void sp_lua_warnings_save(bool yes) {
  saves = yes;
  if (yes && (caught == SIGUSR1 || caught == SIGUSR2)) {
    warned = caught;
    caught = 0;
    alarm(0);
  } else if (!yes && warned) {
    caught = warned;
    warned = 0;
    be_noticed();
  }
}

int sp_lua_warned(void) {
  int sig = warned;
  if (sig) warned = 0;
  return sig;
}

void sp_lua_keeps(bool yes) { keeps = yes; }
void sp_lua_told_by(pid_t pid) { teller = pid; }

static void on_wake(int sig) {
  (void)sig;
  if (running && atomic_load(&failed)) lua_sethook(running, on_late, LUA_MASKCOUNT, 1);
}

void sp_lua_end_script(void) {
  atomic_store(&failed, true);
  if (atomic_load(&ready)) pthread_kill(script_thread, WAKE);
}

void sp_lua_failure_told(void) { atomic_store(&told, true); }

static void on_write(int sig) { (void)sig; }

void sp_lua_catch_signals(void) {
  struct sigaction sa;
  memset(&sa, 0, sizeof sa);
  /* Who reads standard output may go away: that is said at the end, and ends no training. A file that may grow no
   * further is an error of the write. Not SIG_IGN, which programs that the script starts would have too. */
  sa.sa_handler = on_write;
  sa.sa_flags = SA_RESTART;
  sigaction(SIGPIPE, &sa, NULL);
  sigaction(SIGXFSZ, &sa, NULL);
  sa.sa_handler = on_alarm;
  sigaction(SIGALRM, &sa, NULL);
  sa.sa_handler = on_wake;
  sigaction(WAKE, &sa, NULL);
  script_thread = pthread_self();
  atomic_store(&ready, true);
  sa.sa_sigaction = on_signal;
  sa.sa_flags |= SA_SIGINFO;
  for (size_t i = 0; i < SP_ARRAY(signals); i++) sigaddset(&sa.sa_mask, signals[i]); /* one after the other */
  for (size_t i = 0; i < SP_ARRAY(signals); i++)
    if (signals[i] != SIGHUP || signal(SIGHUP, SIG_DFL) != SIG_IGN) sigaction(signals[i], &sa, NULL);
    else signal(SIGHUP, SIG_IGN); /* nohup */
}

void sp_lua_watch(lua_State *L) {
  running = L;
  if (L && caught) be_noticed(); /* before there was a script */
  on_wake(WAKE);
}

/* Of a graph that several ranks train: signals come to them at different times, or to one alone, so that each tells the
 * others, and all take notice at one step. */
static bool shared;
static int agreed;

int sp_lua_interrupted(void) {
  if (caught) noticed = 1;
  return shared ? agreed : caught;
}

void sp_lua_share_signals(void) { shared = true; }

uint32_t sp_lua_caught(void) {
  for (size_t i = 0; i < SP_ARRAY(signals); i++)
    if (signals[i] == caught) return 1u << i;
  return 0;
}

void sp_lua_agree(uint32_t bits) {
  for (size_t i = 0; i < SP_ARRAY(signals) && !agreed; i++)
    if (bits >> i & 1) agreed = signals[i];
}

/* coroutine.create and wrap, Lua's own in the upvalue: a coroutine begins with the hook of whoever makes it, and has to
 * have it from then on, since the handler does not know which one runs. */
static int make_coroutine(lua_State *L) {
  lua_Hook hook = lua_gethook(L);
  int mask = lua_gethookmask(L), count = lua_gethookcount(L);
  luaL_checktype(L, 1, LUA_TFUNCTION);
  lua_sethook(L, on_late, LUA_MASKCOUNT, LOOK);
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_pushvalue(L, 1);
  lua_call(L, 1, 1);
  lua_sethook(L, hook, mask, count);
  if (caught) lua_sethook(L, on_late, LUA_MASKCOUNT, LOOK); /* what the handler set meanwhile */
  return 1;
}

void sp_lua_hook_coroutines(lua_State *L) {
  static const char *const makers[] = {"create", "wrap"};
  lua_getglobal(L, LUA_COLIBNAME);
  for (size_t i = 0; i < SP_ARRAY(makers); i++) {
    lua_getfield(L, -1, makers[i]);
    lua_pushcclosure(L, make_coroutine, 1);
    lua_setfield(L, -2, makers[i]);
  }
  lua_pop(L, 1);
}
