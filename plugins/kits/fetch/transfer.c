/* SPDX-License-Identifier: MIT
 * transfer.c - one request at a time: a file on from where it ended, a small text, whether something is as it was. */
#include "library.h"

#ifdef HAVE_CURL
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define MOST_REDIRECTS 10
#define MOST_PAUSE 30.0 /* s between two tries; of what the server asks for twice that */

typedef struct transfer {
  fetch_pool *pool;
  CURL *curl;
  const char *path; /* of the file that it becomes; NULL: into text */
  int fd;
  int64_t at; /* bytes that are there */
  char *text;
  size_t n, size;
  fetch_info version; /* of the bytes that are there; of what is asked about */
  /* of the reply */
  fetch_reply *r;
  int64_t begins, whole; /* of Content-Range; -1: not said */
  double pause;          /* s that the server asks for */
  int begun, changed;    /* changed: the server goes on with another version */
  char error[CURL_ERROR_SIZE];
} transfer;

/* ---- the reply ---- */
static const char *value_of(const char *line, size_t n, const char *name, size_t *length) {
  size_t k = strlen(name);
  if (n <= k || strncasecmp(line, name, k) || line[k] != ':') return NULL;
  const char *p = line + k + 1, *end = line + n;
  while (p < end && (*p == ' ' || *p == '\t')) p++;
  while (end > p && (unsigned char)end[-1] <= ' ') end--;
  *length = (size_t)(end - p);
  return p;
}

static int is_plain(const char *p, size_t n) {
  for (size_t i = 0; i < n; i++)
    if ((unsigned char)p[i] < ' ' || (unsigned char)p[i] > 126) return 0;
  return 1;
}

static void keep(const char *line, size_t n, const char *name, char *to, size_t size) {
  size_t length;
  const char *v = value_of(line, n, name, &length);
  if (v && length < size && is_plain(v, length)) snprintf(to, size, "%.*s", (int)length, v);
}

/* One line of headers; a line "HTTP/..." begins those of another reply, as after a redirection. */
static size_t take_header(char *line, size_t one, size_t n, void *arg) {
  transfer *t = arg;
  char number[64] = "";
  (void)one;
  if (n >= 5 && !strncmp(line, "HTTP/", 5)) {
    *t->r->etag = *t->r->modified = 0;
    t->begins = t->whole = t->r->length = -1;
    t->pause = 0;
  }
  keep(line, n, "ETag", t->r->etag, sizeof t->r->etag);
  keep(line, n, "Last-Modified", t->r->modified, sizeof t->r->modified);
  keep(line, n, "Content-Range", number, sizeof number);
  if (*number) {
    if (sscanf(number, "bytes %" SCNd64, &t->begins) != 1) t->begins = -1;
    const char *slash = strchr(number, '/');
    if (!slash || sscanf(slash + 1, "%" SCNd64, &t->whole) != 1) t->whole = -1;
  }
  *number = 0;
  keep(line, n, "Retry-After", number, sizeof number);
  if (*number) t->pause = strtod(number, NULL);
  return n;
}

static long status_of(const transfer *t) {
  long status = 0;
  fetch_lib.curl_easy_getinfo(t->curl, CURLINFO_RESPONSE_CODE, &status);
  return status;
}

/* ---- the file ---- */
static int no_room(transfer *t, const char *why) {
  char folder[FETCH_PATH];
  snprintf(folder, sizeof folder, "%.*s", (int)(strrchr(t->path, '/') - t->path), t->path);
  snprintf(t->r->why, FETCH_WHY, "%s in %.400s: let --cache-dir name a folder with more room", why, folder);
  return 0;
}

/* Whether so many bytes more have a place. What the server says may be a lie: nothing is set aside for it. */
static int has_room(transfer *t, int64_t bytes) {
  struct statvfs s;
  char why[160];
  const fetch_how *how = fetch_how_of(t->pool);
  int64_t over = how->most && bytes > how->most ? bytes - how->most : 0;
  if (!fstatvfs(t->fd, &s) && (double)s.f_bavail * (double)s.f_frsize < (double)bytes) {
    snprintf(why, sizeof why, "too little room for its %" PRId64 " bytes", bytes);
    return no_room(t, why);
  }
  if (!over && how->most) over = fetch_make_room(fetch_root_of(t->pool), how->most, bytes);
  if (!over) return 1;
  snprintf(t->r->why, FETCH_WHY,
           "with its %" PRId64 " bytes the shards that are read have %" PRId64
           " bytes more than cache_size = \"%" PRId64 "\"; `cache_size = \"%" PRId64 "\"` has room for this one",
           bytes, over, how->most, how->most + over);
  return 0;
}

/* The first bytes of a body decide where it goes. */
static int begin_file(transfer *t) {
  long status = status_of(t);
  curl_off_t length = -1;
  fetch_lib.curl_easy_getinfo(t->curl, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &length);
  t->begun = 1;
  if (status == 206) {
    int other = *t->version.etag && *t->r->etag && strcmp(t->version.etag, t->r->etag);
    if (t->begins != t->at || other) {
      t->changed = 1;
      return 0;
    }
    t->r->length = length < 0 ? t->whole : t->at + length;
  } else {
    if (ftruncate(t->fd, 0)) return snprintf(t->r->why, FETCH_WHY, "%s: %s", t->path, strerror(errno)), 0;
    t->at = 0;
    t->r->length = length;
    fetch_info now = {.size = 0};
    snprintf(now.etag, sizeof now.etag, "%s", t->r->etag);
    snprintf(now.modified, sizeof now.modified, "%s", t->r->modified);
    fetch_write_info(t->path, ".part.info", "", &now); /* what a later try goes on with */
  }
  return length < 0 || has_room(t, length);
}

static size_t take_file(char *p, size_t one, size_t n, void *arg) {
  transfer *t = arg;
  long status = status_of(t);
  (void)one;
  if (status != 200 && status != 206) return n; /* the words of an error */
  if (!t->begun && !begin_file(t)) return 0;
  for (size_t done = 0; done < n;) {
    ssize_t got = pwrite(t->fd, p + done, n - done, (off_t)t->at);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      if (errno == ENOSPC || errno == EDQUOT) no_room(t, strerror(errno));
      else snprintf(t->r->why, FETCH_WHY, "%.400s.part: %s", t->path, strerror(errno));
      return 0;
    }
    done += (size_t)got;
    t->at += got;
  }
  return n;
}

static size_t take_text(char *p, size_t one, size_t n, void *arg) {
  transfer *t = arg;
  (void)one;
  if (status_of(t) != 200) return n;
  if (n >= t->size - t->n) return 0;
  memcpy(t->text + t->n, p, n);
  t->n += n;
  return n;
}

static size_t take_nothing(char *p, size_t one, size_t n, void *arg) {
  (void)p, (void)one;
  return status_of(arg) == 200 ? 0 : n; /* another version: what follows is of no use */
}

static int look(void *arg, curl_off_t a, curl_off_t b, curl_off_t c, curl_off_t d) {
  (void)a, (void)b, (void)c, (void)d;
  return fetch_stopped(((transfer *)arg)->pool);
}

/* ---- one request ---- */
void *fetch_new_curl(void) { return fetch_lib.curl_easy_init(); }

void fetch_free_curl(void *curl) {
  if (curl) fetch_lib.curl_easy_cleanup(curl);
}

static struct curl_slist *add(struct curl_slist *list, const char *name, const char *value) {
  char line[400];
  snprintf(line, sizeof line, "%s: %s", name, value);
  struct curl_slist *more = *value ? fetch_lib.curl_slist_append(list, line) : NULL;
  return more ? more : list;
}

static const char *variable(const char *name) {
  const char *v = getenv(name);
  return v && *v ? v : NULL;
}

#define SET(option, value) fetch_lib.curl_easy_setopt(t->curl, option, value)

static CURLcode perform(transfer *t, const char *address, size_t (*take)(char *, size_t, size_t, void *),
                        struct curl_slist *headers) {
  const char *trusted = variable("CURL_CA_BUNDLE");
  long timeout = (long)(fetch_how_of(t->pool)->timeout + 0.999);
  if (!trusted) trusted = variable("SSL_CERT_FILE");
  fetch_lib.curl_easy_reset(t->curl); /* the connection stays */
  SET(CURLOPT_URL, address);
  SET(CURLOPT_NOSIGNAL, 1L);
  SET(CURLOPT_FOLLOWLOCATION, 1L);
  SET(CURLOPT_MAXREDIRS, (long)MOST_REDIRECTS);
#if LIBCURL_VERSION_NUM >= 0x075500
  SET(CURLOPT_PROTOCOLS_STR, "http,https");
  SET(CURLOPT_REDIR_PROTOCOLS_STR, strncasecmp(address, "https", 5) ? "http,https" : "https");
#else
  SET(CURLOPT_PROTOCOLS, (long)(CURLPROTO_HTTP | CURLPROTO_HTTPS));
  SET(CURLOPT_REDIR_PROTOCOLS,
      strncasecmp(address, "https", 5) ? (long)(CURLPROTO_HTTP | CURLPROTO_HTTPS) : (long)CURLPROTO_HTTPS);
#endif
  SET(CURLOPT_NETRC, (long)CURL_NETRC_OPTIONAL);
  SET(CURLOPT_USERAGENT, "spcore");
  SET(CURLOPT_CONNECTTIMEOUT, timeout);
  SET(CURLOPT_LOW_SPEED_LIMIT, 1L);
  SET(CURLOPT_LOW_SPEED_TIME, timeout);
  SET(CURLOPT_ERRORBUFFER, t->error);
  SET(CURLOPT_HEADERFUNCTION, take_header);
  SET(CURLOPT_HEADERDATA, t);
  SET(CURLOPT_WRITEFUNCTION, take);
  SET(CURLOPT_WRITEDATA, t);
  SET(CURLOPT_NOPROGRESS, 0L);
  SET(CURLOPT_XFERINFOFUNCTION, look);
  SET(CURLOPT_XFERINFODATA, t);
  if (trusted) SET(CURLOPT_CAINFO, trusted);
  if (headers) SET(CURLOPT_HTTPHEADER, headers);
  char range[32];
  snprintf(range, sizeof range, "%" PRId64 "-", t->at);
  if (t->path && t->at) SET(CURLOPT_RANGE, range);
  *t->error = 0;
  CURLcode code = fetch_lib.curl_easy_perform(t->curl);
  t->r->status = status_of(t);
  return code;
}

/* ---- what became of it ---- */
static int may_help(CURLcode code) {
  return code == CURLE_COULDNT_CONNECT || code == CURLE_OPERATION_TIMEDOUT || code == CURLE_PARTIAL_FILE ||
         code == CURLE_RECV_ERROR || code == CURLE_SEND_ERROR || code == CURLE_GOT_NOTHING || code == CURLE_HTTP2 ||
         code == CURLE_HTTP2_STREAM || code == CURLE_SSL_CONNECT_ERROR;
}

static void explain(transfer *t, CURLcode code) {
  fetch_reply *r = t->r;
  const char *words = *t->error ? t->error : fetch_lib.curl_easy_strerror(code);
  r->retry = may_help(code);
  if (*r->why) return;
  if (code == CURLE_TOO_MANY_REDIRECTS)
    snprintf(r->why, FETCH_WHY, "the server redirects it more than %d times, which seems to be a loop", MOST_REDIRECTS);
  else if (code == CURLE_UNSUPPORTED_PROTOCOL)
    snprintf(r->why, FETCH_WHY, "the server redirects it to what is neither https nor the http that was asked for");
  else if (code == CURLE_PEER_FAILED_VERIFICATION || code == CURLE_SSL_CACERT_BADFILE)
    snprintf(r->why, FETCH_WHY,
             "%.300s. To trust the server's certificate, let CURL_CA_BUNDLE (or SSL_CERT_FILE) name a PEM file with "
             "it, or with that of who signed it",
             words);
  else snprintf(r->why, FETCH_WHY, "%.400s", words);
}

static void explain_status(fetch_reply *r) {
  long s = r->status;
  const char *words = s == 404 || s == 410 ? ", there is no such file at the server"
                      : s == 401 || s == 403 || s == 407
                          ? ", the server refuses it; ~/.netrc may hold a name and password"
                      : s == 429                                     ? ", too many requests"
                      : s == 500 || s == 502 || s == 503 || s == 504 ? ", the server has a problem"
                                                                     : "";
  snprintf(r->why, FETCH_WHY, "HTTP %ld%s", s, words);
  r->retry = s == 408 || s == 425 || s == 429 || s >= 500;
}

static int finish(transfer *t, CURLcode code) {
  fetch_reply *r = t->r;
  if (t->changed) return FETCH_FAILED;
  if (code) return explain(t, code), FETCH_FAILED;
  if (r->status == 304) return FETCH_SAME;
  if (r->status == 200 || r->status == 206) return FETCH_DONE;
  explain_status(r);
  return r->status == 404 || r->status == 410 ? FETCH_ABSENT : FETCH_FAILED;
}

/* ---- the three of them ---- */
/* From zero where the version of what there is is not known: the server would not say that it goes on with another. */
static void set_beginning(transfer *t) {
  struct stat st;
  const fetch_info *v = &t->version;
  int known =
      fetch_read_info(t->path, ".part.info", &t->version) && (*v->modified || (*v->etag && strncmp(v->etag, "W/", 2)));
  t->at = known && !fstat(t->fd, &st) ? st.st_size : 0;
  if (!t->at && ftruncate(t->fd, 0)) snprintf(t->r->why, FETCH_WHY, "%.400s.part: %s", t->path, strerror(errno));
}

static int one_try(transfer *t, const char *address) {
  *t->r = (fetch_reply){.length = -1};
  t->begun = t->changed = 0;
  set_beginning(t);
  if (*t->r->why) return FETCH_FAILED;
  const char *tag = *t->version.etag && strncmp(t->version.etag, "W/", 2) ? t->version.etag : t->version.modified;
  struct curl_slist *headers = t->at ? add(NULL, "If-Range", tag) : NULL;
  int64_t from = t->at;
  CURLcode code = perform(t, address, take_file, headers);
  fetch_lib.curl_slist_free_all(headers);
  int done = finish(t, code);
  if (done == FETCH_DONE && !t->begun && !begin_file(t)) done = FETCH_FAILED; /* it is empty */
  if (t->r->status == 416 && t->whole == from && from) {                      /* all of it was there */
    t->r->length = from;
    return FETCH_DONE;
  }
  if (t->changed || t->r->status == 416) {
    snprintf(t->r->why, FETCH_WHY, "the server has another version of what was fetched of it before");
    t->r->retry = ftruncate(t->fd, 0) == 0;
    return FETCH_FAILED;
  }
  if (done == FETCH_DONE && t->r->length >= 0 && t->at != t->r->length) {
    snprintf(t->r->why, FETCH_WHY, "%" PRId64 " bytes came, and the server says that there are %" PRId64, t->at,
             t->r->length);
    t->r->retry = 1;
    return FETCH_FAILED;
  }
  return done;
}

static double pause_of(const transfer *t, int64_t tried) {
  double s = fetch_how_of(t->pool)->pause;
  for (int64_t i = 1; i < tried && s < MOST_PAUSE; i++) s *= 2;
  if (s > MOST_PAUSE) s = MOST_PAUSE;
  return t->pause > s ? t->pause < 2 * MOST_PAUSE ? t->pause : 2 * MOST_PAUSE : s;
}

/* Tries it as often as it may help; each is told. */
static int persist(transfer *t, const char *address, int (*once)(transfer *t, const char *address)) {
  int64_t most = fetch_how_of(t->pool)->tries, tried = 1;
  char bare[FETCH_PATH];
  fetch_bare(address, bare, sizeof bare);
  for (;; tried++) {
    int done = once(t, address);
    if (done != FETCH_FAILED || !t->r->retry || fetch_stopped(t->pool)) return done;
    if (tried == most) break;
    double s = pause_of(t, tried);
    fetch_say(t->pool, SP_LOG_WARN, "%s: %s; again in %.3g s (try %" PRId64 " of %" PRId64 ")", bare, t->r->why, s,
              tried + 1, most);
    if (fetch_sleep(t->pool, s)) return FETCH_FAILED;
  }
  size_t n = strlen(t->r->why);
  snprintf(t->r->why + n, FETCH_WHY - n, " (%" PRId64 " tries; `fetch_tries = %" PRId64 "` makes more)", most,
           2 * most);
  return FETCH_FAILED;
}

int fetch_file(fetch_pool *pool, void *curl, const char *address, const char *path, fetch_reply *r) {
  char part[FETCH_PATH + 16];
  transfer t = {.pool = pool, .curl = curl, .path = path, .r = r};
  snprintf(part, sizeof part, "%s.part", path);
  t.fd = open(part, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (t.fd < 0) return snprintf(r->why, FETCH_WHY, "%.400s: %s", part, strerror(errno)), FETCH_FAILED;
  int done = persist(&t, address, one_try);
  close(t.fd);
  return done;
}

static int text_try(transfer *t, const char *address) {
  *t->r = (fetch_reply){.length = -1};
  t->n = 0;
  return finish(t, perform(t, address, take_text, NULL));
}

int fetch_text(fetch_pool *pool, void *curl, const char *address, char *to, size_t size, fetch_reply *r) {
  transfer t = {.pool = pool, .curl = curl, .text = to, .size = size, .fd = -1, .r = r};
  int done = persist(&t, address, text_try);
  to[t.n] = 0;
  return done;
}

int fetch_ask(fetch_pool *pool, void *curl, const char *address, const fetch_info *before, fetch_reply *r) {
  transfer t = {.pool = pool, .curl = curl, .fd = -1, .r = r};
  *r = (fetch_reply){.length = -1};
  struct curl_slist *headers =
      add(add(NULL, "If-None-Match", before->etag), "If-Modified-Since", *before->etag ? "" : before->modified);
  CURLcode code = perform(&t, address, take_nothing, headers);
  fetch_lib.curl_slist_free_all(headers);
  if (code == CURLE_WRITE_ERROR) code = CURLE_OK; /* take_nothing has ended it */
  curl_off_t length = -1;
  fetch_lib.curl_easy_getinfo(curl, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &length);
  int done = finish(&t, code);
  /* A server that knows no conditions says the same again. */
  int same = *before->etag       ? !strcmp(before->etag, r->etag)
             : *before->modified ? !strcmp(before->modified, r->modified)
                                 : 1;
  if (done == FETCH_DONE && same && (length < 0 || length == before->size)) return FETCH_SAME;
  return done;
}
#endif
