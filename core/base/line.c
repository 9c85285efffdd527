/* SPDX-License-Identifier: MIT
 * line.c - the line at the bottom of a terminal: it gives way to what is printed, and stands below it again. */
#include "base/line.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define ERASE "\r\033[K"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char drawn[1024]; /* empty: nothing is drawn */

void sp_line_draw(const char *text) {
  pthread_mutex_lock(&lock);
  snprintf(drawn, sizeof drawn, "%s", text);
  fprintf(stdout, "\r%s\033[K", drawn);
  fflush(stdout);
  pthread_mutex_unlock(&lock);
}

void sp_line_erase(void) {
  pthread_mutex_lock(&lock);
  if (drawn[0]) {
    fputs(ERASE, stdout);
    fflush(stdout);
  }
  drawn[0] = 0;
  pthread_mutex_unlock(&lock);
}

void sp_line_print(const char *text, size_t n) {
  pthread_mutex_lock(&lock);
  if (drawn[0]) fputs(ERASE, stdout);
  fwrite(text, 1, n, stdout);
  fputs(drawn, stdout);
  fflush(stdout);
  pthread_mutex_unlock(&lock);
}

static void write_all(const char *text, size_t n) {
  while (n) {
    ssize_t w = write(STDERR_FILENO, text, n);
    if (w < 0 && errno == EINTR) continue;
    if (w <= 0) return;
    text += w;
    n -= (size_t)w;
  }
}

/* One write call for all of it, so that lines of several threads or processes do not mix. */
void sp_line_error(const char *text, size_t n) {
  char all[4096];
  pthread_mutex_lock(&lock);
  bool around = drawn[0] && isatty(STDERR_FILENO) && n < sizeof all - sizeof drawn - sizeof ERASE;
  if (around) n = (size_t)snprintf(all, sizeof all, "%s%.*s%s", ERASE, (int)n, text, drawn);
  write_all(around ? all : text, n);
  pthread_mutex_unlock(&lock);
}

/* Without the lock, which the thread that was interrupted may have. */
void sp_line_signal(const char *text, size_t n) {
  char all[2048];
  size_t at = 0, k = strnlen(drawn, sizeof drawn - 1);
  bool around = k && isatty(STDERR_FILENO) && n + k + sizeof ERASE < sizeof all;
  if (around) {
    memcpy(all, ERASE, at = sizeof ERASE - 1);
    memcpy(all + at, text, n);
    memcpy(all + at + n, drawn, k);
    at += n + k;
  }
  write_all(around ? all : text, around ? at : n);
}

void sp_line_abandon(void) {
  if (drawn[0] && write(STDOUT_FILENO, ERASE, sizeof ERASE - 1) > 0) drawn[0] = 0;
}
