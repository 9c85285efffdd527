/* SPDX-License-Identifier: MIT
 * sys.c - "spcore.sys": what the friendly half asks of the system. */
#include "lua/sys.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/line.h"

/* nil, message, errno's name where a caller tells cases apart */
static int failed(lua_State *L, const char *path, int code) {
  lua_pushnil(L);
  lua_pushfstring(L, "%s: %s", path, strerror(code));
  if (code == EEXIST) lua_pushliteral(L, "exists");
  else if (code == ENOENT) lua_pushliteral(L, "missing");
  else lua_pushliteral(L, "other");
  return 3;
}

/* mkdir(path) -> true | nil, message, "exists" | "missing" | "other". Atomic: one of two callers makes it. */
static int sys_mkdir(lua_State *L) {
  const char *path = luaL_checkstring(L, 1);
  if (mkdir(path, 0777) != 0) return failed(L, path, errno);
  lua_pushboolean(L, 1);
  return 1;
}

/* mkdtemp() -> the path of a new folder in $TMPDIR or /tmp | nil, message */
static int sys_mkdtemp(lua_State *L) {
  const char *tmp = getenv("TMPDIR");
  char path[PATH_MAX];
  if (!tmp || !*tmp) tmp = "/tmp";
  if (snprintf(path, sizeof path, "%s/spcore-XXXXXX", tmp) >= (int)sizeof path) return failed(L, tmp, ENAMETOOLONG);
  if (!mkdtemp(path)) return failed(L, path, errno);
  lua_pushstring(L, path);
  return 1;
}

static int close_file(lua_State *L) {
  luaL_Stream *s = lua_touserdata(L, 1);
  return luaL_fileresult(L, fclose(s->f) == 0, NULL);
}

/* create(path) -> a new file for writing, such as io.open gives | nil, message, "exists" | "missing" | "other". What is
 * there already stays as it is, also a link that leads nowhere; one of two callers makes the file. */
static int sys_create(lua_State *L) {
  const char *path = luaL_checkstring(L, 1);
  luaL_Stream *s = lua_newuserdatauv(L, sizeof *s, 0);
  s->closef = NULL; /* closed, until it is open */
  luaL_setmetatable(L, LUA_FILEHANDLE);
  s->f = fopen(path, "wxe");
  if (!s->f) return failed(L, path, errno);
  s->closef = close_file;
  return 1;
}

/* lock(file) -> true | nil, message. Until the file is closed, however the process ends. The lock is the open file's,
 * not the process's: closing another handle of the same file leaves it. */
static int sys_lock(lua_State *L) {
  luaL_Stream *s = luaL_checkudata(L, 1, LUA_FILEHANDLE);
  struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
  if (!s->closef) return luaL_argerror(L, 1, "the file is closed");
  if (fcntl(fileno(s->f), F_OFD_SETLK, &whole) != 0) return failed(L, "lock", errno);
  lua_pushboolean(L, 1);
  return 1;
}

/* locked(path) -> whether somebody holds that lock on it; false also where nobody can tell */
static int sys_locked(lua_State *L) {
  struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
  int fd = open(luaL_checkstring(L, 1), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  lua_pushboolean(L, fd >= 0 && fcntl(fd, F_OFD_GETLK, &whole) == 0 && whole.l_type != F_UNLCK);
  if (fd >= 0) close(fd);
  return 1;
}

/* link(path, new) -> true | nil, message, "exists" ...: the file has that name too, whole from the first moment */
static int sys_link(lua_State *L) {
  const char *path = luaL_checkstring(L, 1), *other = luaL_checkstring(L, 2);
  if (link(path, other) != 0) return failed(L, other, errno);
  lua_pushboolean(L, 1);
  return 1;
}

/* truncate(path, bytes) -> true | nil, message */
static int sys_truncate(lua_State *L) {
  const char *path = luaL_checkstring(L, 1);
  if (truncate(path, (off_t)luaL_checkinteger(L, 2)) != 0) return failed(L, path, errno);
  lua_pushboolean(L, 1);
  return 1;
}

/* sync(path) -> true | nil, message: what the file or folder holds survives a power cut */
static int sys_sync(lua_State *L) {
  const char *path = luaL_checkstring(L, 1);
  int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) return failed(L, path, errno);
  int code = fsync(fd) ? errno : 0;
  close(fd);
  if (code && code != EINVAL && code != EROFS) return failed(L, path, code); /* some file systems cannot */
  lua_pushboolean(L, 1);
  return 1;
}

/* changed(path) -> when that file was written last, in ns since 1970; nil of what is no file, also of a link to one */
static int sys_changed(lua_State *L) {
  struct stat st;
  if (lstat(luaL_checkstring(L, 1), &st) != 0 || !S_ISREG(st.st_mode)) lua_pushnil(L);
  else lua_pushinteger(L, (lua_Integer)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec);
  return 1;
}

/* kind(path) -> "file", "dir", "other" or nil */
static int sys_kind(lua_State *L) {
  struct stat st;
  if (stat(luaL_checkstring(L, 1), &st) != 0) lua_pushnil(L);
  else lua_pushstring(L, S_ISREG(st.st_mode) ? "file" : S_ISDIR(st.st_mode) ? "dir" : "other");
  return 1;
}

/* there(path) -> whether anything has that name, also a link that leads nowhere */
static int sys_there(lua_State *L) {
  struct stat st;
  lua_pushboolean(L, lstat(luaL_checkstring(L, 1), &st) == 0);
  return 1;
}

/* is_stdout(path) -> whether what is written to that file goes where print() writes to */
static int sys_is_stdout(lua_State *L) {
  struct stat a, b;
  bool both = !stat(luaL_checkstring(L, 1), &a) && !fstat(STDOUT_FILENO, &b);
  lua_pushboolean(L, both && a.st_dev == b.st_dev && a.st_ino == b.st_ino);
  return 1;
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *at) {
  (void)st, (void)kind, (void)at;
  return remove(path);
}

/* remove_all(path): a folder with all that is in it, as far as that can be removed; links are not followed */
static int sys_remove_all(lua_State *L) {
  nftw(luaL_checkstring(L, 1), remove_one, 16, FTW_DEPTH | FTW_PHYS);
  return 0;
}

/* list(path) -> names in no order, "." and ".." left out | nil, message */
static int sys_list(lua_State *L) {
  const char *path = luaL_checkstring(L, 1);
  DIR *dir = opendir(path);
  if (!dir) return failed(L, path, errno);
  lua_newtable(L);
  int k = 0;
  for (struct dirent *e; (e = readdir(dir));) {
    if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0) continue;
    lua_pushstring(L, e->d_name);
    lua_rawseti(L, -2, ++k);
  }
  closedir(dir);
  return 1;
}

/* isatty("stdout" | "stderr") */
static int fd_of(lua_State *L) {
  static const char *const names[] = {"stdout", "stderr", NULL};
  return luaL_checkoption(L, 1, "stdout", names) == 0 ? STDOUT_FILENO : STDERR_FILENO;
}

static int sys_isatty(lua_State *L) {
  lua_pushboolean(L, isatty(fd_of(L)));
  return 1;
}

/* width("stdout") -> columns of that terminal, 80 where it does not say */
static int sys_width(lua_State *L) {
  struct winsize ws;
  int fd = fd_of(L);
  lua_pushinteger(L, ioctl(fd, TIOCGWINSZ, &ws) == 0 && ws.ws_col > 0 ? ws.ws_col : 80);
  return 1;
}

static int sys_now(lua_State *L) {
  lua_pushnumber(L, sp_now());
  return 1;
}

/* sleep(seconds): a signal ends it */
static int sys_sleep(lua_State *L) {
  double s = luaL_checknumber(L, 1);
  s = s > 0 ? fmin(s, 1e6) : 0;
  nanosleep(&(struct timespec){(time_t)s, (long)((s - floor(s)) * 1e9)}, NULL);
  return 0;
}

static int sys_realpath(lua_State *L) {
  const char *path = luaL_checkstring(L, 1);
  char full[PATH_MAX];
  if (!realpath(path, full)) return failed(L, path, errno);
  lua_pushstring(L, full);
  return 1;
}

/* draw(text): text on the terminal's line, from its begin; it stays until erase(), or until the script ends */
static int sys_draw(lua_State *L) {
  sp_line_draw(luaL_checkstring(L, 1));
  return 0;
}

static int sys_erase(lua_State *L) {
  (void)L;
  sp_line_erase();
  return 0;
}

/* Lua's print, above what is drawn */
int sp_lua_print(lua_State *L) {
  int n = lua_gettop(L);
  luaL_Buffer b;
  luaL_buffinit(L, &b);
  for (int i = 1; i <= n; i++) {
    if (i > 1) luaL_addchar(&b, '\t');
    luaL_tolstring(L, i, NULL);
    luaL_addvalue(&b);
  }
  luaL_addchar(&b, '\n');
  luaL_pushresult(&b);
  size_t len;
  const char *text = lua_tolstring(L, -1, &len);
  sp_line_print(text, len);
  return 0;
}

static const luaL_Reg functions[] = {
    {"mkdir", sys_mkdir},
    {"mkdtemp", sys_mkdtemp},
    {"create", sys_create},
    {"lock", sys_lock},
    {"locked", sys_locked},
    {"is_stdout", sys_is_stdout},
    {"kind", sys_kind},
    {"there", sys_there},
    {"list", sys_list},
    {"names", sp_lua_names},
    {"distinct", sp_lua_distinct},
    {"realpath", sys_realpath},
    {"remove_all", sys_remove_all},
    {"isatty", sys_isatty},
    {"width", sys_width},
    {"now", sys_now},
    {"sleep", sys_sleep},
    {"draw", sys_draw},
    {"erase", sys_erase},
    {"link", sys_link},
    {"truncate", sys_truncate},
    {"sync", sys_sync},
    {"changed", sys_changed},
    {"run", sp_lua_child},
    {NULL, NULL},
};

int sp_lua_open_sys(lua_State *L) {
  luaL_newlib(L, functions);
  return 1;
}
