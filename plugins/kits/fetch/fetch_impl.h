/* SPDX-License-Identifier: MIT
 * fetch_impl.h - what the parts of the kit share. */
#ifndef SP_PLUGINS_FETCH_IMPL_H
#define SP_PLUGINS_FETCH_IMPL_H

#include "fetch.h"

#define FETCH_WHY 700 /* bytes of words */
#define FETCH_SUM 65  /* hexadecimal digits of SHA-256, and a 0 */

/* ---- library.c: libcurl and libcrypto, which are opened when they are first needed ---- */
int fetch_open_library(sp_ctx *ctx);
/* Of a whole file. SP_OK, or `why` has words. */
int fetch_sum(const char *path, char sum[FETCH_SUM], char why[FETCH_WHY]);

/* ---- cache.c ---- */
/* What is known of a file in the cache, and kept beside it. */
typedef struct fetch_info {
  int64_t size;
  int sized;                                    /* it has the length that the server said */
  char sum[FETCH_SUM], etag[256], modified[64]; /* "": not known */
} fetch_info;

int fetch_cache_root(const fetch_how *how, char to[FETCH_PATH], char why[FETCH_WHY]); /* makes it */
/* The file of a bare address, in a folder for all that lie beside it at the server. 0: the name is too long. */
int fetch_place(const char *root, const char *bare, char to[FETCH_PATH]);
int fetch_read_info(const char *path, const char *ending, fetch_info *info); /* 0: there is none */
int fetch_write_info(const char *path, const char *ending, const char *bare, const fetch_info *info);
void fetch_touch(const char *path); /* it is used now */
/* A file's lock, which ends with the process. -1: errno says why not; wait is called while another process has it. */
int fetch_lock(const char *path, int (*wait)(void *arg), void *arg);
/* Notes that this process reads the file: it stays. */
int fetch_keep(const char *root, const char *path);
/* Deletes what was used longest ago and nobody reads, until `bytes` more fit into the bound. Returns how many bytes are
 * too many still. */
int64_t fetch_make_room(const char *root, int64_t most, int64_t bytes);

/* ---- transfer.c ---- */
typedef struct fetch_pool fetch_pool; /* of fetch.c */
enum { FETCH_DONE, FETCH_SAME, FETCH_ABSENT, FETCH_FAILED };
typedef struct fetch_reply {
  long status;
  int64_t length; /* -1: not said */
  char etag[256], modified[64];
  int retry; /* it may do the next time */
  char why[FETCH_WHY];
} fetch_reply;

/* Into path.part, on from where that ends if the server still has that version. */
int fetch_file(fetch_pool *pool, void *curl, const char *address, const char *path, fetch_reply *r);
/* A small file into memory, NUL-terminated. */
int fetch_text(fetch_pool *pool, void *curl, const char *address, char *to, size_t size, fetch_reply *r);
/* Is what is there as it was? Asks once. */
int fetch_ask(fetch_pool *pool, void *curl, const char *address, const fetch_info *before, fetch_reply *r);
void *fetch_new_curl(void);
void fetch_free_curl(void *curl);

/* ---- fetch.c ---- */
const fetch_how *fetch_how_of(const fetch_pool *pool);
const char *fetch_root_of(const fetch_pool *pool);
int fetch_stopped(const fetch_pool *pool);
void fetch_say(fetch_pool *pool, int level, const char *fmt, ...) SP_PRINTF(3, 4);
int fetch_sleep(fetch_pool *pool, double seconds); /* not 0: the pool stops */

#endif
