/* SPDX-License-Identifier: MIT
 * fetch.h - files at HTTP(S) addresses, in a folder of this machine: fetched once, checked, shared by processes.
 *
 * An address may have a name and a password, or a query with a key. They go to the server and nowhere else: words,
 * files and what the functions return have the bare address, scheme://host/path. */
#ifndef SP_PLUGINS_FETCH_H
#define SP_PLUGINS_FETCH_H

#include <stddef.h>
#include <stdint.h>

#include <spcore/plugin.h>

#define FETCH_PATH 4096 /* bytes of addresses and paths, and a 0 */
#define FETCH_TAG 400   /* of what the content is */

/* ---- address.c ---- */
int fetch_is_address(const char *text); /* begins with http:// or https:// */
/* Without name, password, query and fragment. Returns its length, as snprintf. Of what is no address:
 * the text itself. */
int fetch_bare(const char *text, char *to, size_t size);

/* ---- fetch.c ---- */
typedef struct fetch_how {
  const char *cache;     /* the folder; "": that of SPCORE_CACHE, or the user's */
  const char *checksums; /* a file as sha256sum prints it; "": none */
  int64_t most, tries;   /* bytes of the cache, 0: any; how often a request is tried */
  double pause, timeout; /* s: between two tries, doubled each time; without a byte */
} fetch_how;

/* Brings all of them, four at a time, with a line on each that has to be tried again. What is there is asked for anew
 * only where the process has not done so. `optional`: of one that the server does not have nothing is said. */
int fetch_all(sp_ctx *ctx, const fetch_how *how, char *const *addresses, size_t n, int optional);

/* What fetch_all has brought in this process. */
typedef struct fetched {
  const char *path, *tag; /* tag: "sha256 ...", else what the server says of the version, else the size; for identity */
  int summed, sized;      /* checked by a checksum; by the length that the server said */
} fetched;
/* NULL: it was not asked for, or is optional and not there. The pointers hold as long as the process. */
const fetched *fetch_find(const char *address);

#endif
