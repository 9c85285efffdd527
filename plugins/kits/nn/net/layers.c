/* SPDX-License-Identifier: MIT
 * layers.c - adds a layer, as its row in ops/ says. */
#include "../ops/row.h"

static int add(const nn_making *m) {
  const nn_row *row = nn_rows[m->l->type];
  if (row->out && m->l->out < 1)
    return m->ctx->host->fail(m->ctx, SP_E_INVALID, "%s (%s): `out` is missing; write { \"%s\", %s }", m->place,
                              m->type, m->type, row->out);
  return row->build(m);
}

int nn_add_joining(sp_ctx *ctx, nn_net *net, const int *in, int n, const nn_layer *l, const char *name,
                   const char *place) {
  return add(&(nn_making){ctx, net, l, in, n, name, place, nn_kind_name((enum nn_kind)l->type)});
}

int nn_add_layer(sp_ctx *ctx, nn_net *net, int in, const nn_layer *l, const char *name, const char *place) {
  return nn_add_joining(ctx, net, &in, 1, l, name, place);
}

int nn_add_joined(sp_ctx *ctx, nn_net *net, enum nn_kind kind, const int *in, int n, const char *place) {
  nn_layer l = {.type = (int32_t)kind};
  return nn_add_joining(ctx, net, in, n, &l, NULL, place);
}
