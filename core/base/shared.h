/* SPDX-License-Identifier: MIT
 * shared.h - what a plugin's code may not change of the process that it is a guest in: how signals are handled, the
 * signal mask, the locale, the working folder, the umask, the floating-point mode. */
#ifndef SP_CORE_SHARED_H
#define SP_CORE_SHARED_H

#include <locale.h>
#include <signal.h>

#include "base/fpmode.h"

#define SP_SHARED_WORDS 9 /* variables of the environment that say a locale */

/* As it was before a call. For calls that are seldom made: it takes some 20 us. */
typedef struct sp_shared {
  struct sigaction handlers[_NSIG];
  sigset_t mask;
  sp_fpmode mode;
  locale_t of_thread;
  char *locale, *words[SP_SHARED_WORDS]; /* NULL: not set, or no memory for it */
  int folder;                            /* -1: it cannot be opened */
} sp_shared;
void sp_shared_note(sp_shared *s);

/* The call is over: what it has changed is put back. The first time that `file` changes just this, a warning names
 * `call` ("x.so: loading it", "stage 'a' (x.so): create()") and what it was. */
void sp_shared_restore(sp_shared *s, const char *file, const char *call);

#endif
