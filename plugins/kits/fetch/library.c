/* SPDX-License-Identifier: MIT
 * library.c - libcurl and libcrypto, opened when an address is first fetched: with what they need they take longer to
 * load than a folder to list. */
#include "library.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifdef HAVE_CURL

fetch_library fetch_lib;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int is_open;

static void *need(void *library, const char *name, char why[FETCH_WHY]) {
  void *f = library ? dlsym(library, name) : NULL;
  if (!f && !*why) snprintf(why, FETCH_WHY, "%s", dlerror());
  return f;
}

/* A function from an object's pointer: POSIX says that they have one form. */
#define TAKE(from, name)                     \
  do {                                       \
    void *f_ = need(from, #name, why);       \
    memcpy(&fetch_lib.name, &f_, sizeof f_); \
  } while (0)

static int open_both(char why[FETCH_WHY]) {
  void *curl = dlopen("libcurl.so.4", RTLD_NOW | RTLD_LOCAL), *crypto = NULL;
  if (!curl) return snprintf(why, FETCH_WHY, "%s", dlerror()), 0;
  if (!(crypto = dlopen(FETCH_CRYPTO, RTLD_NOW | RTLD_LOCAL))) return snprintf(why, FETCH_WHY, "%s", dlerror()), 0;
  TAKE(curl, curl_global_init);
  TAKE(curl, curl_easy_init);
  TAKE(curl, curl_easy_setopt);
  TAKE(curl, curl_easy_perform);
  TAKE(curl, curl_easy_getinfo);
  TAKE(curl, curl_easy_reset);
  TAKE(curl, curl_easy_cleanup);
  TAKE(curl, curl_easy_strerror);
  TAKE(curl, curl_slist_append);
  TAKE(curl, curl_slist_free_all);
  TAKE(crypto, EVP_MD_CTX_new);
  TAKE(crypto, EVP_MD_CTX_free);
  TAKE(crypto, EVP_sha256);
  TAKE(crypto, EVP_DigestInit_ex);
  TAKE(crypto, EVP_DigestUpdate);
  TAKE(crypto, EVP_DigestFinal_ex);
  return !*why && !fetch_lib.curl_global_init(CURL_GLOBAL_DEFAULT);
}

int fetch_open_library(sp_ctx *ctx) {
  char why[FETCH_WHY] = "";
  pthread_mutex_lock(&lock);
  if (!is_open) is_open = open_both(why);
  int good = is_open;
  pthread_mutex_unlock(&lock);
  if (good) return SP_OK;
  return ctx->host->fail(ctx, SP_E_UNSUPPORTED, "addresses cannot be fetched: %s; install libcurl (Debian: libcurl4)",
                         *why ? why : "libcurl does not start");
}

int fetch_sum(const char *path, char sum[FETCH_SUM], char why[FETCH_WHY]) {
  enum { BLOCK = 1 << 18 };
  unsigned char digest[32];
  int fd = open(path, O_RDONLY | O_CLOEXEC), rc = SP_E_NOMEM;
  if (fd < 0) return snprintf(why, FETCH_WHY, "%s: %s", path, strerror(errno)), SP_E_IO;
  EVP_MD_CTX *c = fetch_lib.EVP_MD_CTX_new();
  unsigned char *block = malloc(BLOCK);
  if (c && block && fetch_lib.EVP_DigestInit_ex(c, fetch_lib.EVP_sha256(), NULL)) rc = SP_OK;
  else snprintf(why, FETCH_WHY, "no memory for a checksum");
  for (ssize_t n = 1; !rc && n;) {
    n = read(fd, block, BLOCK);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) rc = SP_E_IO, n = 0, snprintf(why, FETCH_WHY, "%s: %s", path, strerror(errno));
    else fetch_lib.EVP_DigestUpdate(c, block, (size_t)n);
  }
  if (!rc) fetch_lib.EVP_DigestFinal_ex(c, digest, NULL);
  for (size_t i = 0; !rc && i < sizeof digest; i++) snprintf(sum + 2 * i, 3, "%02x", digest[i]);
  fetch_lib.EVP_MD_CTX_free(c);
  free(block);
  close(fd);
  return rc;
}

#else

int fetch_open_library(sp_ctx *ctx) {
  return ctx->host->fail(
      ctx, SP_E_UNSUPPORTED,
      "this spcore was built without libcurl, which fetches addresses; install it (Debian: "
      "libcurl4-openssl-dev libssl-dev), configure and build again, or fetch the files and give their folder");
}

#endif
