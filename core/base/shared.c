/* SPDX-License-Identifier: MIT
 * shared.c - what a plugin's code has changed of the process is put back, and said. */
#include "base/shared.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/util.h"

static const char *const words[SP_SHARED_WORDS] = {"LC_ALL",     "LC_CTYPE",    "LC_NUMERIC", "LC_TIME", "LC_COLLATE",
                                                   "LC_MONETARY", "LC_MESSAGES", "LANG",       "LANGUAGE"};

/* It cannot be read without being set, so that is done once, before there are threads whose new files it might concern.
 * Later it is set to this, which tells what it was. */
static mode_t known_umask(void) {
  static mode_t known;
  static bool asked;
  if (!asked) umask(known = umask(077));
  asked = true;
  return known;
}

void sp_shared_note(sp_shared *s) {
  known_umask();
  s->mode = sp_fpmode_get();
  for (int i = 1; i < _NSIG; i++)
    if (sigaction(i, NULL, &s->handlers[i])) s->handlers[i].sa_handler = SIG_ERR; /* one of the C library's own */
  pthread_sigmask(SIG_SETMASK, NULL, &s->mask);
  s->of_thread = uselocale((locale_t)0);
  s->locale = sp_strdup(setlocale(LC_ALL, NULL));
  for (int i = 0; i < SP_SHARED_WORDS; i++) {
    const char *now = getenv(words[i]);
    s->words[i] = now ? sp_strdup(now) : NULL;
  }
  s->folder = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
}

/* ---- putting back; each adds what it finds to the list of words -------------------------------------------------- */

static void SP_PRINTF(2, 3) add(sp_sb *list, const char *fmt, ...) {
  va_list ap;
  char text[PATH_MAX + 64];
  va_start(ap, fmt);
  vsnprintf(text, sizeof text, fmt, ap);
  va_end(ap);
  sp_sb_putf(list, "%s%s", list->n ? ", " : "", text);
}

static void restore_handlers(const sp_shared *s, sp_sb *list) {
  struct sigaction now;
  for (int i = 1; i < _NSIG; i++) {
    const struct sigaction *was = &s->handlers[i];
    if (was->sa_handler == SIG_ERR || sigaction(i, NULL, &now)) continue;
    if (now.sa_handler == was->sa_handler && now.sa_flags == was->sa_flags) continue;
    sigaction(i, was, NULL);
    const char *name = sigabbrev_np(i);
    if (name) add(list, "the handler of SIG%s", name);
    else add(list, "the handler of signal %d", i);
  }
}

static void restore_mask(const sp_shared *s, sp_sb *list) {
  sigset_t now;
  bool same = true;
  pthread_sigmask(SIG_SETMASK, NULL, &now);
  for (int i = 1; i < _NSIG; i++) same &= sigismember(&now, i) == sigismember(&s->mask, i);
  if (same) return;
  pthread_sigmask(SIG_SETMASK, &s->mask, NULL);
  add(list, "the signal mask");
}

static void restore_locale(sp_shared *s, sp_sb *list) {
  if (uselocale((locale_t)0) != s->of_thread) {
    uselocale(s->of_thread);
    add(list, "the thread's locale");
  }
  const char *now = setlocale(LC_ALL, NULL);
  if (s->locale && now && strcmp(now, s->locale) != 0) {
    add(list, "the locale (to %s)", now);
    setlocale(LC_ALL, s->locale);
  }
  free(s->locale);
  for (int i = 0; i < SP_SHARED_WORDS; i++) {
    now = getenv(words[i]);
    if (now ? !s->words[i] || strcmp(now, s->words[i]) != 0 : s->words[i] != NULL) {
      add(list, "%s of the environment", words[i]);
      if (s->words[i]) setenv(words[i], s->words[i], 1);
      else unsetenv(words[i]);
    }
    free(s->words[i]);
  }
}

static void restore_folder(const sp_shared *s, sp_sb *list) {
  struct stat was, now;
  char path[PATH_MAX];
  if (s->folder < 0) return;
  bool same = !fstat(s->folder, &was) && !stat(".", &now) && was.st_dev == now.st_dev && was.st_ino == now.st_ino;
  if (!same) {
    add(list, "the working folder (to %s)", getcwd(path, sizeof path) ? path : "one that is gone");
    if (fchdir(s->folder)) add(list, "which cannot be put back");
  }
  close(s->folder);
}

static void restore_umask(sp_sb *list) {
  mode_t was = known_umask(), now = umask(was);
  if (now != was) add(list, "the umask (to %03o)", now);
}

static void restore_mode(const sp_shared *s, sp_sb *list) {
  sp_fpmode now = sp_fpmode_get();
  sp_fpmode_set(s->mode);
  if (!sp_fpmode_same(now, s->mode)) add(list, "the floating-point mode");
}

/* Many stages of a file do the same: it is said once. */
static bool is_new(const char *file, const sp_sb *list) {
  static uint64_t told[64];
  static size_t n;
  uint64_t key = sp_fnv64(sp_fnv64(SP_FNV64, file, strlen(file) + 1), list->s, list->n);
  for (size_t i = 0; i < n; i++)
    if (told[i] == key) return false;
  if (n < SP_ARRAY(told)) told[n++] = key;
  return true;
}

void sp_shared_restore(sp_shared *s, const char *file, const char *call) {
  sp_sb list = {0};
  restore_mode(s, &list);
  restore_handlers(s, &list);
  restore_mask(s, &list);
  restore_locale(s, &list);
  restore_folder(s, &list);
  restore_umask(&list);
  if (list.n && is_new(file, &list))
    sp_log(SP_LOG_WARN, "%s changed %s; it is put back, since the whole program shares it", call, sp_sb_str(&list));
  sp_sb_free(&list);
}
