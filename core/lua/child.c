/* SPDX-License-Identifier: MIT
 * child.c - another program as a child of this one, for `spcore.sys`. It ends with this process, however that ends. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/util.h"
#include "lua/signals.h"
#include "lua/sys.h"

typedef struct child {
  const char **argv;
  char **env; /* NULL: this process's as it is now */
  const char *out, *err;
  pid_t parent;
  int words; /* a pipe that takes errno where there is no program */
} child;

/* ---- the child --------------------------------------------------------------------------------------------------- */

static bool redirect(const char *path, int flags, int to) {
  int fd = open(path, flags | O_CLOEXEC, 0666);
  return fd >= 0 && dup2(fd, to) == to; /* the copy stays open */
}

/* Between fork and exec: other threads may have held any lock, so nothing here takes one. */
static _Noreturn void become(const child *c) {
  int write_new = O_WRONLY | O_CREAT | O_TRUNC;
  setpgid(0, 0); /* so that its own children can be ended with it */
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != c->parent) _exit(127); /* ended before that was said */
  if (redirect("/dev/null", O_RDONLY, STDIN_FILENO) && redirect(c->out, write_new, STDOUT_FILENO) &&
      redirect(c->err, write_new, STDERR_FILENO))
    execvpe(c->argv[0], (char *const *)c->argv, c->env ? c->env : environ);
  int code = errno;
  ssize_t n = write(c->words, &code, sizeof code);
  _exit(n > 0 ? 127 : 126);
}

/* ---- its parent -------------------------------------------------------------------------------------------------- */

/* What this process was started with, NULL where nobody tells: what it has set for itself since then is none of the
 * child's business. One block: the pointers, behind them the text. */
static char **first_environment(void) {
  enum { MOST = 1 << 20 };
  int fd = open("/proc/self/environ", O_RDONLY | O_CLOEXEC);
  char *text = sp_calloc(1, MOST);
  size_t n = 0, words = 0;
  for (ssize_t r = 1; fd >= 0 && text && r > 0 && n<MOST - 1; n += r> 0 ? (size_t)r : 0)
    r = read(fd, text + n, MOST - 1 - n);
  if (fd >= 0) close(fd);
  for (size_t i = 0; i < n; i++) words += !text[i];
  size_t bytes = (words + 1) * sizeof(char *);
  char **env = n ? sp_calloc(1, bytes + n + 1) : NULL;
  if (env) {
    char *at = memcpy((char *)env + bytes, text, n);
    for (size_t i = 0; i < words; i++, at += strlen(at) + 1) env[i] = at;
  }
  free(text);
  return env;
}

/* Waits for it and ends what it has left behind. False: a signal to this process came first, and it was ended, too. */
static bool await(pid_t pid, int *status) {
  siginfo_t info = {0};
  struct timespec pause = {.tv_nsec = 5000000};
  bool over = false, asked = false;
  while (!over && !asked) {
    over = waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == pid;
    asked = !over && sp_lua_interrupted();
    if (!over && !asked) nanosleep(&pause, NULL);
  }
  kill(-pid, SIGKILL); /* it is not reaped yet, so the number is still its own */
  while (waitpid(pid, status, 0) < 0 && errno == EINTR) {}
  return over;
}

/* Starts it and waits -> 0, or errno */
static int start(child *c, int *status, bool *interrupted) {
  int ends[2], code = 0;
  if (pipe2(ends, O_CLOEXEC)) return errno;
  c->parent = getpid();
  c->words = ends[1];
  pid_t pid = fork();
  if (pid == 0) become(c);
  code = pid < 0 ? errno : 0;
  close(ends[1]);
  if (pid > 0) {
    setpgid(pid, pid);                                                 /* whoever of the two is first */
    while (read(ends[0], &code, sizeof code) < 0 && errno == EINTR) {} /* ends with the exec */
    *interrupted = !await(pid, status);
  }
  close(ends[0]);
  return code;
}

/* run{ program, word, ..., out = path, err = path } -> "exit", code | "signal", number | nil, why | nil, nil: this
 * process got a signal, and the program was ended. It reads nothing,
 * and has the environment that this process began with. */
int sp_lua_child(lua_State *L) {
  luaL_checktype(L, 1, LUA_TTABLE);
  lua_settop(L, 1);
  lua_Integer n = luaL_len(L, 1);
  luaL_argcheck(L, n >= 1 && n <= 100000, 1, "a program is wanted");
  luaL_checkstack(L, (int)n + 4, "too many words");
  child c = {.out = sp_lua_opt_str(L, 1, "out", "/dev/null"), .err = sp_lua_opt_str(L, 1, "err", "/dev/null")};
  c.argv = lua_newuserdatauv(L, ((size_t)n + 1) * sizeof *c.argv, 0);
  for (lua_Integer i = 0; i < n; i++) {
    lua_geti(L, 1, i + 1);
    c.argv[i] = luaL_checkstring(L, -1); /* stays on the stack */
  }
  c.argv[n] = NULL;
  int status = 0;
  bool interrupted = false;
  c.env = first_environment();
  int code = start(&c, &status, &interrupted);
  free(c.env);
  if (code || interrupted) {
    lua_pushnil(L);
    if (!code) lua_pushnil(L);
    else lua_pushfstring(L, "%s: %s", c.argv[0], strerror(code));
    return 2;
  }
  lua_pushstring(L, WIFSIGNALED(status) ? "signal" : "exit");
  lua_pushinteger(L, WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
  return 2;
}
