/* SPDX-License-Identifier: MIT
 * stateless.h - create and destroy of a stage without state of its own: its instance is its parameters, which live as
 * long as the instance; NULL where it has none. */
#ifndef SP_PLUGINS_STATELESS_H
#define SP_PLUGINS_STATELESS_H

#include <spcore/plugin.h>

static inline int stateless_create(sp_ctx *ctx, const void *params, void **self) {
  (void)ctx;
  *self = (void *)params;
  return SP_OK;
}

static inline void stateless_destroy(void *self) { (void)self; }

#endif
