/* SPDX-License-Identifier: MIT
 * strategies_lua.c - the Lua half of tests/fuzz/strategies: one state makes cases, another runs them as `spcore run`
 * would. */
#include "strategies.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <lualib.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "device/cpu.h"
#include "lua/graph.h"
#include "lua/main.h"

struct sf_state {
  const sf_opts *opts;
  lua_State *make;
  sp_env *env;
  sp_lua *run;
  char captures[32], device[32];
};

static char sums[64]; /* a folder for checksums, of this process and those that it starts */

/* ---- environment ------------------------------------------------------------------------------------------------- */

bool sf_device(const sf_opts *opts, size_t i, char *name, size_t n) {
  const char *at = opts->devices;
  while (i-- && at) at = (at = strchr(at, ',')) ? at + 1 : NULL;
  if (at) snprintf(name, n, "%.*s", (int)strcspn(at, ","), at);
  return at != NULL;
}

static bool built(const char *file) {
  char path[1024];
  snprintf(path, sizeof path, "%s/%s", SP_TEST_BUILDDIR, file);
  return access(path, R_OK) == 0;
}

int sf_environment(sf_opts *opts) {
  char path[4096];
  bool emu = strcmp(opts->devices, "emu") == 0;
  if (emu && !built("tests/emu/.libs/device_cuda.so")) {
    fprintf(stderr, "strategies: the CUDA emulator was not built (it needs CUDA's headers and a C++17 compiler)\n");
    return 1;
  }
  snprintf(path, sizeof path, "%s%s" SP_TEST_BUILDDIR "/.libs:" SP_TEST_BUILDDIR "/tests/plugins/.libs",
           emu ? SP_TEST_BUILDDIR "/tests/emu/.libs" : "", emu ? ":" : "");
  if (emu) opts->devices = "cuda";
  snprintf(sums, sizeof sums, "/tmp/spcore-fuzz-XXXXXX");
  if (setenv("SPCORE_PLUGIN_PATH", path, 1) || !mkdtemp(sums) || setenv("SPCORE_CACHE", sums, 1)) return 1;
  return 0;
}

/* What a process that crashed has left, too. */
void sf_clean(void) {
  DIR *d = opendir(sums);
  for (const struct dirent *e; d && (e = readdir(d));) unlinkat(dirfd(d), e->d_name, 0); /* not "." and ".." */
  if (d) closedir(d);
  rmdir(sums);
}

/* ---- the state that runs ----------------------------------------------------------------------------------------- */

/* build(graph) -> "ok" | "refused" or "internal", words */
static int fuzz_build(lua_State *L) {
  sp_lua_graph *lg = sp_lua_check_graph(L, 1);
  sp_err err;
  int st = sp_engine_build(lg->e, &err);
  bool known = st == SP_E_RACE || st == SP_E_RANGE || st == SP_E_INVALID;
  lua_pushstring(L, !st ? "ok" : known ? "refused" : "internal");
  lua_pushstring(L, st ? err.msg : "");
  return 2;
}

static int fuzz_sim_seed(lua_State *L) {
  sp_device_sim_seed((uint64_t)luaL_checkinteger(L, 1));
  return 0;
}

static int new_env(sp_env **env, sp_err *err) {
  if (sp_env_new(env, &(sp_env_opts){.threads = 1}, err)) return err->status;
  free((*env)->script_dir);
  (*env)->script_dir = sp_strdup(SP_TEST_SRCDIR "/scripts");
  return (*env)->script_dir ? SP_OK : sp_nomem(err, 64, "a path");
}

#ifndef __SANITIZE_THREAD__ /* which takes no threads in a process that one with threads has forked */
/* ---- ranks ------------------------------------------------------------------------------------------------------- */

#define RANKS_MOST 8
#define ANSWER 3000 /* bytes of words that are passed on */

/* One rank, in a process of its own: what fn(rank) says goes into the pipe. */
static void be_rank(lua_State *L, const sp_rank_opts *o, int pipe) {
  sp_env *env;
  sp_err err;
  char answer[ANSWER + 64];
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  alarm(600);                        /* as a case may take with a sanitizer */
  if (new_env(&env, &err)) _exit(1); /* threads of the one there was are not in this process */
  sp_lua_of(L)->env = env;
  if (sp_ranks_open(&env->ranks, o, &err)) {
    snprintf(answer, sizeof answer, "error\n%s", err.msg);
  } else {
    lua_pushvalue(L, 2);
    lua_pushinteger(L, o->rank);
    int st = lua_pcall(L, 1, 2, 0);
    snprintf(answer, sizeof answer, "%s\n%.*s", st ? "error" : lua_tostring(L, -2), ANSWER, lua_tostring(L, -1));
    if (st) sp_ranks_fail(env->ranks, sp_fail(&err, SP_E_CANCELLED, "%s", answer) ? &err : NULL);
    sp_ranks_close(env->ranks, &err);
  }
  if (write(pipe, answer, strlen(answer)) < 0) _exit(1);
  _exit(0);
}

/* A socket of 127.0.0.1 that listens, and its port. */
static int listener(int *port) {
  struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t n = sizeof at;
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd >= 0 && !bind(fd, (struct sockaddr *)&at, n) && !listen(fd, 64) &&
      !getsockname(fd, (struct sockaddr *)&at, &n)) {
    *port = ntohs(at.sin_port);
    return fd;
  }
  if (fd >= 0) close(fd);
  return -1;
}

static void push_answer(lua_State *L, int pipe) {
  char answer[ANSWER + 64];
  size_t got = 0;
  for (ssize_t n; got < sizeof answer - 1 && (n = read(pipe, answer + got, sizeof answer - 1 - got)) > 0;)
    got += (size_t)n;
  answer[got] = 0;
  size_t word = strcspn(answer, "\n");
  lua_createtable(L, 2, 0);
  lua_pushlstring(L, got ? answer : "error", got ? word : 5);
  lua_rawseti(L, -2, 1);
  lua_pushstring(L, got ? answer + word + (answer[word] == '\n') : "the process crashed");
  lua_rawseti(L, -2, 2);
}

/* ranks(n, fn) -> of each rank { status, words } that fn(rank) has given in a process of its own. No graph is open. */
static int fuzz_ranks(lua_State *L) {
  static int jobs;
  int n = (int)luaL_checkinteger(L, 1), port = 0, fd = listener(&port), pipes[RANKS_MOST][2];
  sp_rank_opts o = {
      .ranks = n, .local_ranks = n, .port = port, .origin = "", .start = 30, .silence = 30, .timeout = 30};
  luaL_argcheck(L, n > 1 && n <= RANKS_MOST, 1, "2 to 8 ranks");
  if (fd < 0) return luaL_error(L, "no port: %s", strerror(errno));
  snprintf(o.address, sizeof o.address, "127.0.0.1");
  snprintf(o.job, sizeof o.job, "fuzz-%d-%d", (int)getpid(), jobs++);
  fflush(NULL);
  for (int r = 0; r < n; r++) {
    if (pipe2(pipes[r], O_CLOEXEC)) return luaL_error(L, "pipe: %s", strerror(errno));
    o.rank = o.local_rank = r;
    o.listener = r ? -1 : fd;
    if (fork() == 0) be_rank(L, &o, pipes[r][1]);
    close(pipes[r][1]);
  }
  close(fd);
  lua_createtable(L, n, 0);
  for (int r = 0; r < n; r++) {
    push_answer(L, pipes[r][0]);
    lua_rawseti(L, -2, r + 1);
    close(pipes[r][0]);
  }
  for (int r = 0; r < n; r++) wait(NULL);
  return 1;
}
#endif

static void add_fuzz(lua_State *L, const sf_opts *opts) {
  char path[96];
  snprintf(path, sizeof path, "%s/sums%d", sums, (int)getpid());
  lua_createtable(L, 0, 7);
  lua_pushcfunction(L, fuzz_build);
  lua_setfield(L, -2, "build");
#ifndef __SANITIZE_THREAD__
  lua_pushcfunction(L, fuzz_ranks);
  lua_setfield(L, -2, "ranks");
#endif
  lua_pushcfunction(L, fuzz_sim_seed);
  lua_setfield(L, -2, "sim_seed");
  lua_pushstring(L, path);
  lua_setfield(L, -2, "sums");
  lua_pushinteger(L, opts->swaps);
  lua_setfield(L, -2, "swaps");
  lua_pushinteger(L, opts->waits);
  lua_setfield(L, -2, "waits");
  lua_pushinteger(L, opts->changes);
  lua_setfield(L, -2, "changes");
  sf_add_ops(L);
  lua_setglobal(L, "fuzz");
}

static lua_State *maker(void) {
  lua_State *L = luaL_newstate();
  if (!L) return NULL;
  luaL_openlibs(L);
  if (!luaL_dostring(L, "package.path = '" SP_TEST_SRCDIR "/tests/fuzz/?.lua' return require 'strategies'")) return L;
  fprintf(stderr, "strategies: %s\n", lua_tostring(L, -1));
  lua_close(L);
  return NULL;
}

/* As `spcore run` of the build tree. */
static bool runner(sf_state *s, const sf_opts *opts, sp_err *err) {
  if (new_env(&s->env, err) || sp_lua_new(&s->run, s->env, false, err)) return false;
  add_fuzz(s->run->L, opts);
  return !luaL_dostring(s->run->L,
                        "package.path = '" SP_TEST_SRCDIR "/scripts/?.lua;" SP_TEST_SRCDIR "/scripts/?/init.lua'");
}

sf_state *sf_open(const sf_opts *opts) {
  sf_state *s = sp_calloc(1, sizeof *s);
  sp_err err = {0};
  if (!s) return NULL;
  s->opts = opts;
  s->make = maker();
  if (s->make && runner(s, opts, &err)) return s;
  fprintf(stderr, "strategies: %s\n", err.msg);
  sf_close(s);
  return NULL;
}

void sf_close(sf_state *s) {
  if (!s) return;
  sp_lua_free(s->run);
  sp_env_free(s->env);
  if (s->make) lua_close(s->make);
  free(s);
}

static void one_line(char *words, size_t n, const char *text) {
  snprintf(words, n, "%s", text ? text : "");
  for (char *c = words; *c; c++)
    if (*c == '\n') *c = ' ';
}

const char *sf_script(sf_state *s, const char *text, char *words, size_t n) {
  static const char *const kinds[] = {"same", "refused", "differs", "refusal", "useless", "error"};
  lua_State *L = s->run->L;
  const char *kind = "error";
  lua_settop(L, 0);
  if (luaL_loadbufferx(L, text, strlen(text), "@case", "t") || lua_pcall(L, 0, 2, 0)) {
    one_line(words, n, lua_tostring(L, -1));
  } else {
    one_line(words, n, lua_tostring(L, 2));
    for (size_t i = 0; i < SP_ARRAY(kinds); i++)
      if (strcmp(kinds[i], lua_tostring(L, 1)) == 0) kind = kinds[i];
  }
  lua_settop(L, 0);
  lua_gc(L, LUA_GCCOLLECT);
  return kind;
}

/* ---- the state that makes ---------------------------------------------------------------------------------------- */

/* Leaves the module at 1 and the case at 2. */
static bool make_case(lua_State *L, const sf_opts *opts, uint64_t seed) {
  char name[32];
  lua_settop(L, 1);
  lua_getfield(L, 1, "make");
  lua_pushinteger(L, (lua_Integer)seed);
  lua_newtable(L);
  for (size_t i = 0; sf_device(opts, i, name, sizeof name); i++) {
    lua_pushstring(L, name);
    lua_rawseti(L, -2, (lua_Integer)i + 1);
  }
  lua_pushboolean(L, built(".libs/reader.so") && built(".libs/encoder.so"));
  return lua_pcall(L, 3, 1, 0) == LUA_OK;
}

/* The script of the case at 2, on top. */
static bool make_text(lua_State *L, const sf_opts *opts) {
  lua_getfield(L, 1, "text");
  lua_pushvalue(L, 2);
  lua_pushboolean(L, opts->mutate);
  return lua_pcall(L, 2, 1, 0) == LUA_OK;
}

static void facts(sf_state *s) {
  lua_State *L = s->make;
  lua_getfield(L, 2, "device");
  snprintf(s->device, sizeof s->device, "%s", lua_tostring(L, -1));
  lua_getfield(L, 2, "captures");
  snprintf(s->captures, sizeof s->captures, "%s", lua_tostring(L, -1));
  lua_pop(L, 2);
}

const char *sf_case(sf_state *s, uint64_t seed, const char **device, const char **captures, char *words, size_t n) {
  lua_State *L = s->make;
  if (!make_case(L, s->opts, seed) || !make_text(L, s->opts)) {
    one_line(words, n, lua_tostring(L, -1));
    return "error";
  }
  facts(s);
  *device = s->device;
  *captures = s->captures;
  return sf_script(s, lua_tostring(L, -1), words, n);
}

/* ---- whole commands ---------------------------------------------------------------------------------------------- */

int sf_file(const sf_opts *opts, const char *path) {
  char words[3000];
  lua_State *L = luaL_newstate();
  sf_state *s = sf_open(opts);
  const char *kind = "error";
  if (!L || !s) return 1;
  luaL_openlibs(L);
  lua_pushstring(L, path);
  lua_setglobal(L, "path");
  if (luaL_dostring(L, "local f <close> = assert(io.open(path)) return f:read 'a'"))
    snprintf(words, sizeof words, "%s", lua_tostring(L, -1));
  else kind = sf_script(s, lua_tostring(L, -1), words, sizeof words);
  printf("%s: %s\n", kind, words);
  sf_close(s);
  lua_close(L);
  return strcmp(kind, "same") == 0 || strcmp(kind, "refused") == 0 ? 0 : 1;
}

int sf_print(const sf_opts *opts) {
  lua_State *L = maker();
  bool ok = L != NULL;
  for (uint64_t i = 0; ok && i < opts->cases; i++) {
    ok = make_case(L, opts, opts->seed + i) && make_text(L, opts);
    fprintf(ok ? stdout : stderr, "%s\n", lua_tostring(L, -1));
  }
  if (L) lua_close(L);
  return ok ? 0 : 1;
}

/* try(text) -> kind, words */
static int lua_try(lua_State *L) {
  char words[4096] = "";
  lua_pushstring(L, sf_try(luaL_checkstring(L, 1), words, sizeof words));
  lua_pushstring(L, words);
  return 2;
}

void sf_shrink(const sf_opts *opts, uint64_t seed, const char *kind, int tries) {
  lua_State *L = maker();
  if (!L || !make_case(L, opts, seed)) return;
  lua_getfield(L, 1, "shrink");
  lua_pushvalue(L, 2);
  lua_pushstring(L, kind);
  lua_pushcfunction(L, lua_try);
  lua_pushinteger(L, tries);
  if (lua_pcall(L, 4, 1, 0) == LUA_OK) printf("\n%s\n", lua_tostring(L, -1));
  else fprintf(stderr, "strategies: %s\n", lua_tostring(L, -1));
  lua_close(L);
}
