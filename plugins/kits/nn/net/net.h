/* SPDX-License-Identifier: MIT
 * net.h - what a network is, free of any device: layers, shapes, weights. A device's code runs the list of ops. */
#ifndef NN_NET_H
#define NN_NET_H

#include <spcore/plugin.h>

#include "../ops/kinds.h"

/* ---- the parameter `layers` -------------------------------------------------------------------------------------- */
enum { NN_MAX_INS = 16 };              /* most values that one layer reads */
#define NN_MAX_EXTENT INT64_C(1048576) /* of channels, height and width each */

enum nn_approximate { NN_EXACT, NN_TANH };

typedef struct nn_layer {
  int32_t type; /* enum nn_kind */
  int32_t bias, tap;
  const char *name;                               /* "": its number */
  sp_structs from;                                /* names, const char * each; none: the layer before */
  int64_t out, groups;                            /* groups 0: 1 */
  sp_ints kernel, stride, pad, out_pad, dilation; /* one number, or {y, x}; kernel and stride 0: the type's default */
  double eps, momentum;
  int32_t mode, align_corners; /* upsample: enum nn_resize, but NN_ALIGNED; */
  sp_ints scale, size;         /* one of them, */
  const char *like;            /* or whose size it gets */
  double p;                    /* dropout */
  int32_t maps;
  double negative_slope; /* leaky_relu */
  int32_t approximate;   /* gelu: enum nn_approximate */
} nn_layer;

extern const sp_param nn_layer_fields[];

/* ---- the lowered network ----------------------------------------------------------------------------------------- */
/* A value is what lies between two ops: N x c x h x w, or N x c where flat. */
typedef struct nn_value {
  int64_t c, h, w;
  int flat;
} nn_value;

typedef struct nn_op {
  enum nn_kind kind;
  int in, more[NN_MAX_INS - 1],
      n_more; /* values that it reads; more than one: ADD, CONCAT, MUL, and a product that adds
                                           more[0] to its result */
  int out;    /* the value that it makes */
  int relu;   /* ReLU is applied to the result */
  int k[2], s[2], p[2], op[2];
  int dil[2], groups; /* CONV, CONVT; GROUP_NORM has groups too */
  int w;              /* index of the first weight, -1: none. CONV, CONVT, LINEAR, GROUP_NORM: weight, bias.
                       BATCH_NORM: weight, bias, running_mean, running_var, num_batches_tracked */
  int bias;
  int norm; /* CONV, CONVT, LINEAR: the first weight, from 1, of the batch norm that is folded into it; 0: none */
  enum nn_act act; /* an activation but ReLU: which one; CONV: what is applied to its result */
  float act_k;     /* its number */
  double eps, momentum;
  int keeps;   /* BATCH_NORM: a training step has the running statistics, too, and leaves them as they are */
  int mode;    /* UPSAMPLE: enum nn_resize */
  double drop; /* DROPOUT: how probable */
  int maps;
  uint64_t salt; /* of its key: a function of the layer's name */
} nn_op;

/* The j-th value, from 0, that an nn_op or nn_xop reads. */
#define NN_IN(op, j) ((j) ? (op)->more[(j)-1] : (op)->in)

typedef struct nn_net {
  nn_value *values;
  nn_op *ops;
  sp_weight *weights;
  char **names;
  int n_values, n_ops, n_weights;
  size_t cap_values, cap_ops, cap_weights, cap_names;
} nn_net;

/* A value of the net on a stage's port. */
typedef struct nn_bind {
  int port, item, value;
} nn_bind;

/* All builders return an SP_E_... through ctx, or a value's index >= 0. `name` is the weights' prefix ("3",
 * "layer1.0.conv1"); messages call the layer `where` ("layer 3 (conv)"). */
int nn_input(sp_ctx *ctx, nn_net *net, const sp_spec *spec);
/* Appends layer l, with in -> the returned value. `place` names it in messages, e.g. "layer 3". */
int nn_add_layer(sp_ctx *ctx, nn_net *net, int in, const nn_layer *l, const char *name, const char *place);
/* The same of a layer that reads n values. */
int nn_add_joining(sp_ctx *ctx, nn_net *net, const int *in, int n, const nn_layer *l, const char *name,
                   const char *place);
/* No layer of a script: the sum, the product, or the channels side by side, of n values: NN_ADD, NN_MUL (of two) or
 * NN_CONCAT. */
int nn_add_joined(sp_ctx *ctx, nn_net *net, enum nn_kind kind, const int *in, int n, const char *place);
/* The values of layers with `tap`, in the order of the list. */
typedef struct nn_taps {
  int n, value[SP_MAX_LIST];
} nn_taps;
/* What layers may read: value[0] as "input", those behind it as "LIST.1" ...; list NULL: there are none. */
typedef struct nn_sources {
  const int *value;
  int n;
  const char *list;
} nn_sources;
/* wires.c: a whole `layers` list; what is not named is called "0", "1" ... taps NULL:
 * the stage has no port for them. */
int nn_add_layers(sp_ctx *ctx, nn_net *net, const nn_sources *in, const sp_structs *layers, nn_taps *taps);
/* `count` times 3x3 convolution without bias, batch norm, ReLU; named PREFIX.0, PREFIX.1 ... */
int nn_add_convs(sp_ctx *ctx, nn_net *net, int in, int64_t out, int count, const char *prefix);
/* How often the map is to be halved: `levels`, or down to one pixel where that is 0. A map whose sides are no multiple
 * of two to that power is refused. */
int nn_halvings(sp_ctx *ctx, const nn_net *net, int in, int64_t levels);

/* The plain model: convolution 1x1 to `width` channels, then `halvings` ones of kernel 2 and stride 2, each with twice
 * the channels, ReLU between; named "0", "2", "4" ... */
int nn_add_plain(sp_ctx *ctx, nn_net *net, int in, int64_t width, int halvings);

/* Fuses ReLU into the op before it where nothing else reads that op's result. keep[v]: the value is seen from
 * outside. */
void nn_fuse(nn_net *net, const uint8_t *keep);
/* Batch norms keep their running statistics, which are no state then. */
void nn_keep_statistics(nn_net *net);
/* Spec of a value for n samples, float32, row-major. */
void nn_spec(const nn_net *net, int v, int64_t n, sp_spec *spec);
void nn_clear(nn_net *net);
const char *nn_kind_name(enum nn_kind kind);
extern const char *const nn_words[]; /* of all kinds, and NULL */

#endif
