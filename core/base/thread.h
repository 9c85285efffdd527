/* SPDX-License-Identifier: MIT
 * thread.h - how the core starts threads that run plugins' code. */
#ifndef SP_CORE_THREAD_H
#define SP_CORE_THREAD_H

#include <pthread.h>

/* As pthread_create; 0 or an errno, ENOMEM when out of memory. Signals from outside stay the main thread's; a crash is
 * handled on the thread it happens on, also where its stack is used up; plugins' code that ends the thread ends the
 * program with a line (base/crash.h). The floating-point mode is the default one. Of
 * the name Linux keeps 15 characters. */
int sp_thread_start(pthread_t *thread, const char *name, void *(*fn)(void *arg), void *arg);

#endif
