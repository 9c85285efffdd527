/* SPDX-License-Identifier: MIT
 * fetch.c - several files at once, each checked before it gets its name; and what this process has of them. */
#include "library.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <search.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "../text/text.h"

/* ---- what this process has ---- */
typedef struct known {
  char *bare;
  fetched is; /* path NULL: optional, and not there */
} known;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static void *tree;

static int compare(const void *a, const void *b) { return strcmp(((const known *)a)->bare, ((const known *)b)->bare); }

static known *find(const char *bare) {
  known key = {.bare = (char *)bare};
  pthread_mutex_lock(&lock);
  known **at = tfind(&key, &tree, compare), *k = at ? *at : NULL;
  pthread_mutex_unlock(&lock);
  return k;
}

const fetched *fetch_find(const char *address) {
  char bare[FETCH_PATH];
  fetch_bare(address, bare, sizeof bare);
  const known *k = find(bare);
  return k && k->is.path ? &k->is : NULL;
}

#ifdef HAVE_CURL

#define AT_ONCE 4
#define MOST_SUMS (64 << 20) /* bytes of a file of checksums */
#define SAY_EVERY 10         /* s */
#define DONE_AGAIN 1         /* besides the codes of sp_status */

static int remember(const char *bare, const char *path, const char *tag, int summed, int sized) {
  known *k = calloc(1, sizeof *k);
  if (!k) return 0;
  k->bare = strdup(bare);
  k->is = (fetched){path ? strdup(path) : NULL, strdup(tag), summed, sized};
  if (!k->bare || !k->is.tag || (path && !k->is.path)) return 0;
  pthread_mutex_lock(&lock);
  int done = tsearch(k, &tree, compare) != NULL;
  pthread_mutex_unlock(&lock);
  return done;
}

/* ---- the pool ---- */
typedef struct line {
  struct line *next;
  int level;
  char text[];
} line;

struct fetch_pool {
  const fetch_how *how;
  char root[FETCH_PATH];
  char *const *addresses;
  size_t n, next, done;
  int optional;
  char *sums;           /* of how->checksums, lines; NULL: none */
  pthread_mutex_t lock; /* of what follows, next and done */
  pthread_cond_t news;
  line *lines, **end;
  int stop;      /* atomic */
  size_t failed; /* which one failed first; n: none */
  int status;
  char why[FETCH_PATH + FETCH_WHY + 8];
  size_t fetched, unasked;
  int64_t bytes;
  char unasked_why[FETCH_WHY];
};

const fetch_how *fetch_how_of(const fetch_pool *p) { return p->how; }
const char *fetch_root_of(const fetch_pool *p) { return p->root; }
int fetch_stopped(const fetch_pool *p) { return __atomic_load_n(&p->stop, __ATOMIC_RELAXED); }

/* Threads put lines, the one that called writes them. */
void fetch_say(fetch_pool *p, int level, const char *fmt, ...) {
  char text[FETCH_PATH + FETCH_WHY];
  va_list ap;
  va_start(ap, fmt);
  int n = vsnprintf(text, sizeof text, fmt, ap);
  va_end(ap);
  if (n >= (int)sizeof text) n = (int)sizeof text - 1;
  line *l = n < 0 ? NULL : malloc(sizeof *l + (size_t)n + 1);
  if (!l) return;
  *l = (line){NULL, level};
  memcpy(l->text, text, (size_t)n + 1);
  pthread_mutex_lock(&p->lock);
  *p->end = l;
  p->end = &l->next;
  pthread_cond_broadcast(&p->news);
  pthread_mutex_unlock(&p->lock);
}

static struct timespec after(double seconds) {
  struct timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  int64_t ns = t.tv_nsec + (int64_t)(seconds * 1e9);
  t.tv_sec += (time_t)(ns / 1000000000);
  t.tv_nsec = (long)(ns % 1000000000);
  return t;
}

int fetch_sleep(fetch_pool *p, double seconds) {
  for (; seconds > 0 && !fetch_stopped(p); seconds -= 0.05)
    usleep(seconds < 0.05 ? (useconds_t)(seconds * 1e6) : 50000);
  return fetch_stopped(p);
}

/* ---- one file ---- */
typedef struct job {
  fetch_pool *pool;
  void *curl;
  size_t index;
  const char *address;
  char bare[FETCH_PATH], path[FETCH_PATH], wanted[FETCH_SUM]; /* wanted: by the user's file of checksums */
  int waited, again;
  fetch_info info;
  fetch_reply reply;
} job;

static int SP_PRINTF(3, 4) fail(job *j, int status, const char *fmt, ...) {
  fetch_pool *p = j->pool;
  char why[FETCH_WHY];
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(why, sizeof why, fmt, ap);
  va_end(ap);
  pthread_mutex_lock(&p->lock);
  if (p->failed == p->n) { /* what fails later may have been stopped by it */
    p->failed = j->index;
    p->status = status;
    snprintf(p->why, sizeof p->why, "%s: %s", j->bare, why);
  }
  __atomic_store_n(&p->stop, 1, __ATOMIC_RELAXED);
  pthread_mutex_unlock(&p->lock);
  return status;
}

/* A line "HEX  NAME" or "HEX *NAME" of a text that is of this file: of its name, or of the end of its address. */
static int find_sum(const char *text, const char *bare, int any, char sum[FETCH_SUM]) {
  for (const char *p = text, *end; *p; p = *end ? end + 1 : end) {
    end = p + strcspn(p, "\n");
    size_t n = strspn(p, "0123456789abcdefABCDEF");
    if (n != FETCH_SUM - 1) continue;
    const char *name = p + n + strspn(p + n, " \t*");
    size_t length = (size_t)(end - name), all = strlen(bare);
    while (length && (unsigned char)name[length - 1] <= ' ') length--;
    while (length > 2 && name[0] == '.' && name[1] == '/') name += 2, length -= 2;
    int is = (any && !length) ||
             (length && length < all && bare[all - length - 1] == '/' && !memcmp(bare + all - length, name, length));
    if (!is) continue;
    for (size_t i = 0; i < n; i++) sum[i] = (char)(p[i] >= 'A' && p[i] <= 'F' ? p[i] - 'A' + 'a' : p[i]);
    sum[n] = 0;
    return 1;
  }
  return 0;
}

static int on_wait(void *arg) {
  job *j = arg;
  if (!j->waited++) fetch_say(j->pool, SP_LOG_INFO, "%s: waits for another process that fetches it", j->bare);
  return fetch_sleep(j->pool, 0.1);
}

static int is_there(job *j) {
  struct stat st;
  return fetch_read_info(j->path, ".info", &j->info) && !stat(j->path, &st) && st.st_size == j->info.size;
}

/* It is there. Is it what is wanted, or what the server still has? 1: yes; 0: it is fetched; -1: failed. */
static int still_holds(job *j) {
  fetch_pool *p = j->pool;
  char why[FETCH_WHY];
  if (*j->wanted) {
    if (!*j->info.sum && fetch_sum(j->path, j->info.sum, why)) return 0;
    if (!strcmp(j->info.sum, j->wanted)) return 1;
    fetch_say(p, SP_LOG_WARN, "%s: what was fetched before has another checksum than %s says; fetched again", j->bare,
              p->how->checksums);
    return 0;
  }
  int is = fetch_ask(p, j->curl, j->address, &j->info, &j->reply);
  if (is == FETCH_SAME) return 1;
  if (is == FETCH_DONE) {
    fetch_say(p, SP_LOG_WARN, "%s: the server has another version than was fetched before; fetched again", j->bare);
    return 0;
  }
  if (fetch_stopped(p)) return -1;
  pthread_mutex_lock(&p->lock); /* without a network the data can still be read */
  if (!p->unasked++) snprintf(p->unasked_why, sizeof p->unasked_why, "%s", j->reply.why);
  pthread_mutex_unlock(&p->lock);
  return 1;
}

/* ADDRESS.sha256, where the server has it. */
static int take_sum_beside(job *j, char sum[FETCH_SUM]) {
  char beside[FETCH_PATH + 16], text[8192];
  size_t path = strcspn(j->address, "?#");
  snprintf(beside, sizeof beside, "%.*s.sha256%s", (int)path, j->address, j->address + path);
  fetch_reply r;
  int is = fetch_text(j->pool, j->curl, beside, text, sizeof text, &r);
  if (fetch_stopped(j->pool)) return SP_E_IO;
  if (is == FETCH_ABSENT || r.status == 403) return SP_OK;
  if (is != FETCH_DONE)
    return fail(j, SP_E_IO, "its checksum, %s.sha256, cannot be fetched: %s", strrchr(j->bare, '/') + 1, r.why);
  if (!find_sum(text, j->bare, 1, sum))
    fetch_say(j->pool, SP_LOG_WARN, "%s.sha256 has no line as sha256sum prints it for %s, so it is left out", j->bare,
              strrchr(j->bare, '/') + 1);
  return SP_OK;
}

static int bring(job *j);

/* Before it gets its name; DONE_AGAIN: all of it was fetched once more. */
static int check_sum(job *j, const char *part) {
  char wanted[FETCH_SUM] = "", why[FETCH_WHY];
  snprintf(wanted, sizeof wanted, "%s", j->wanted);
  int rc = *wanted || j->pool->optional ? SP_OK : take_sum_beside(j, wanted);
  if (rc || !*wanted) return rc;
  if (fetch_sum(part, j->info.sum, why)) return fail(j, SP_E_IO, "%s", why);
  if (!strcmp(j->info.sum, wanted)) return SP_OK;
  unlink(part);
  if (j->reply.status == 206 && !j->again++) {
    fetch_say(j->pool, SP_LOG_WARN,
              "%s: put together from two tries it has a wrong checksum; fetched again from its beginning", j->bare);
    int rc_again = bring(j);
    return rc_again ? rc_again : DONE_AGAIN;
  }
  return fail(j, SP_E_DATA,
              "its SHA-256 is %s, but %s wants %s: it is damaged, or the checksum is that of another version",
              j->info.sum, *j->wanted ? j->pool->how->checksums : "the .sha256 file beside it", wanted);
}

/* Its time is the server's, or always the same: the file's is part of what a run compares. */
static void set_time(const char *path, const char *modified) {
  struct tm tm = {0};
  struct timespec t[2] = {{0, UTIME_NOW}, {315532800, 0}};
  if (*modified && strptime(modified, "%a, %d %b %Y %H:%M:%S GMT", &tm)) t[1].tv_sec = timegm(&tm);
  utimensat(AT_FDCWD, path, t, 0);
}

static int bring(job *j) {
  char part[FETCH_PATH + 16], info[FETCH_PATH + 32];
  struct stat st;
  snprintf(part, sizeof part, "%s.part", j->path);
  int is = fetch_file(j->pool, j->curl, j->address, j->path, &j->reply);
  if (is == FETCH_ABSENT && j->pool->optional) {
    unlink(part);
    return SP_OK;
  }
  if (is != FETCH_DONE) return fail(j, is == FETCH_ABSENT ? SP_E_NOTFOUND : SP_E_IO, "%s", j->reply.why);
  if (stat(part, &st)) return fail(j, SP_E_IO, "%.400s: %s", part, strerror(errno));
  j->info = (fetch_info){.size = st.st_size, .sized = j->reply.length >= 0};
  snprintf(j->info.etag, sizeof j->info.etag, "%s", j->reply.etag);
  snprintf(j->info.modified, sizeof j->info.modified, "%s", j->reply.modified);
  int rc = check_sum(j, part);
  if (rc) return rc == DONE_AGAIN ? SP_OK : rc;
  set_time(part, j->info.modified);
  snprintf(info, sizeof info, "%s.info", part);
  unlink(info);
  if (!fetch_write_info(j->path, ".info", j->bare, &j->info) || rename(part, j->path))
    return fail(j, SP_E_IO, "%.400s: %s", j->path, strerror(errno));
  pthread_mutex_lock(&j->pool->lock);
  j->pool->fetched++;
  j->pool->bytes += st.st_size;
  pthread_mutex_unlock(&j->pool->lock);
  return SP_OK;
}

static int note(job *j) {
  char tag[FETCH_TAG];
  const fetch_info *i = &j->info;
  if (*i->sum) snprintf(tag, sizeof tag, "sha256 %s", i->sum);
  else if (*i->etag) snprintf(tag, sizeof tag, "etag %s", i->etag);
  else snprintf(tag, sizeof tag, "size %" PRId64 " of %s", i->size, i->modified);
  fetch_touch(j->path);
  return remember(j->bare, j->path, tag, *i->sum != 0, i->sized) ? SP_OK
                                                                 : fail(j, SP_E_NOMEM, "no memory for its name");
}

static int run(job *j) {
  fetch_pool *p = j->pool;
  fetch_bare(j->address, j->bare, sizeof j->bare);
  if (find(j->bare)) return SP_OK;
  if (!fetch_place(p->root, j->bare, j->path))
    return fail(j, SP_E_INVALID, "its name is too long for a file of the cache");
  if (p->sums && !p->optional && !find_sum(p->sums, j->bare, p->n == 1, j->wanted))
    return fail(j, SP_E_DATA, "%s has no line for it; add it, as `sha256sum FILE` prints it", p->how->checksums);
  pthread_mutex_lock(&p->lock); /* before it is there, as another thread may make room */
  int kept = fetch_keep(p->root, j->path);
  pthread_mutex_unlock(&p->lock);
  if (!kept) return fail(j, SP_E_IO, "%.400s/readers: %s", p->root, strerror(errno));
  int held = fetch_lock(j->path, on_wait, j);
  if (held < 0) return fetch_stopped(p) ? SP_E_IO : fail(j, SP_E_IO, "%.400s.lock: %s", j->path, strerror(errno));
  int holds = is_there(j) ? still_holds(j) : 0, rc = holds < 0 ? SP_E_IO : holds ? SP_OK : bring(j);
  if (!rc) rc = j->info.size < 0 ? (remember(j->bare, NULL, "", 0, 0) ? SP_OK : SP_E_NOMEM) : note(j);
  close(held);
  return rc;
}

static void *work(void *arg) {
  fetch_pool *p = arg;
  void *curl = fetch_new_curl();
  job *j = malloc(sizeof *j);
  for (;;) {
    pthread_mutex_lock(&p->lock);
    size_t i = p->next < p->n && !p->stop ? p->next++ : p->n;
    pthread_mutex_unlock(&p->lock);
    if (i == p->n) break;
    if (!j || !curl) {
      job none = {.pool = p, .index = i};
      fail(&none, SP_E_NOMEM, "no memory to fetch it");
      break;
    }
    *j = (job){
        .pool = p, .curl = curl, .index = i, .address = p->addresses[i], .info = {.size = -1}, .reply = {.length = -1}};
    run(j);
    pthread_mutex_lock(&p->lock);
    p->done++;
    pthread_cond_broadcast(&p->news);
    pthread_mutex_unlock(&p->lock);
  }
  free(j);
  fetch_free_curl(curl);
  return NULL;
}

/* ---- all of them ---- */
static void size_words(int64_t bytes, char to[32]) {
  static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
  double v = (double)bytes;
  int k = 0;
  for (; k < 4 && v >= 1024; k++) v /= 1024;
  snprintf(to, 32, k ? "%.1f %s" : "%.0f %s", v, units[k]);
}

static void tell(sp_ctx *ctx, fetch_pool *p, const char *what) {
  char size[32];
  size_words(p->bytes, size);
  ctx->host->log(ctx, SP_LOG_INFO, "%s %zu of %zu files, %s, into %s", what, p->fetched, p->n, size, p->root);
}

/* Writes what threads say until all are through. The lock is held. */
static void watch(sp_ctx *ctx, fetch_pool *p, const int *running) {
  struct timespec next = after(SAY_EVERY);
  while (p->lines || (*running && p->done < p->n && !p->stop)) {
    line *l = p->lines;
    if (l) {
      if (!(p->lines = l->next)) p->end = &p->lines;
      pthread_mutex_unlock(&p->lock);
      ctx->host->log(ctx, l->level, "%s", l->text);
      free(l);
      pthread_mutex_lock(&p->lock);
      continue;
    }
    if (pthread_cond_timedwait(&p->news, &p->lock, &next) != ETIMEDOUT) continue;
    tell(ctx, p, "goes on fetching; so far");
    next = after(SAY_EVERY);
  }
}

static int read_sums(sp_ctx *ctx, fetch_pool *p) {
  text_file t;
  char why[TEXT_WHY];
  if (!*p->how->checksums) return SP_OK;
  int rc = text_read(p->how->checksums, MOST_SUMS, 0, &t, why);
  if (rc) return ctx->host->fail(ctx, rc, "%s: %s", p->how->checksums, why);
  if (!t.p)
    return ctx->host->fail(ctx, SP_E_NOTFOUND,
                           "%s: there is no such file; data_checksums is one as sha256sum prints it",
                           p->how->checksums);
  p->sums = t.p;
  return SP_OK;
}

static void run_threads(sp_ctx *ctx, fetch_pool *p) {
  pthread_t threads[AT_ONCE];
  int running = 0;
  while (running < AT_ONCE && (size_t)running < p->n && !pthread_create(&threads[running], NULL, work, p)) running++;
  if (!running) work(p);
  pthread_mutex_lock(&p->lock);
  watch(ctx, p, &running);
  pthread_mutex_unlock(&p->lock);
  for (int i = 0; i < running; i++) pthread_join(threads[i], NULL);
  pthread_mutex_lock(&p->lock);
  running = 0;
  watch(ctx, p, &running);
  pthread_mutex_unlock(&p->lock);
}

static int all_known(char *const *addresses, size_t n) {
  char bare[FETCH_PATH];
  for (size_t i = 0; i < n; i++) {
    if (fetch_bare(addresses[i], bare, sizeof bare) >= (int)sizeof bare || !find(bare)) return 0;
  }
  return 1;
}

int fetch_all(sp_ctx *ctx, const fetch_how *how, char *const *addresses, size_t n, int optional) {
  char why[FETCH_WHY];
  if (all_known(addresses, n)) return SP_OK;
  fetch_pool p = {.how = how,
                  .addresses = addresses,
                  .n = n,
                  .optional = optional,
                  .failed = n,
                  .lock = PTHREAD_MUTEX_INITIALIZER,
                  .news = PTHREAD_COND_INITIALIZER,
                  .end = &p.lines};
  for (size_t i = 0; i < n; i++)
    if (strlen(addresses[i]) >= FETCH_PATH)
      return ctx->host->fail(ctx, SP_E_INVALID, "an address is longer than %d bytes", FETCH_PATH);
  int rc = fetch_open_library(ctx);
  if (!rc && (rc = fetch_cache_root(how, p.root, why))) ctx->host->fail(ctx, rc, "cache_dir: %s", why);
  if (!rc) rc = read_sums(ctx, &p);
  if (!rc) run_threads(ctx, &p);
  if (!rc && p.failed < n) rc = ctx->host->fail(ctx, p.status, "%s", p.why);
  if (!rc && p.fetched && !optional) tell(ctx, &p, "fetched");
  if (!rc && p.unasked && !optional)
    ctx->host->log(
        ctx, SP_LOG_WARN,
        "%zu of %zu files are taken from %s as they are, since the server cannot be asked for newer ones: %s",
        p.unasked, n, p.root, p.unasked_why);
  free(p.sums);
  return rc;
}

#else

int fetch_all(sp_ctx *ctx, const fetch_how *how, char *const *addresses, size_t n, int optional) {
  (void)how, (void)addresses, (void)n, (void)optional;
  return fetch_open_library(ctx);
}

#endif
