/* SPDX-License-Identifier: MIT
 * twin_nets.c - encoder, decoder, layers and classifier on a device, compared with the cpu. */
#include "twin_nets.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <check.h>

#include "nn_ops.h"
#include "twin.h"

/* LARGE: one way of running it is enough. HUGE_NET: so is one precision, TF32, which is meant for such. FLAT: the input
 * is N x C. */
enum { KINKS = 1, LARGE = 2, HUGE_NET = 4, FLAT = 8 };

/* A shift in front of a batch norm, unless a border or a ReLU is between, has no effect, and its gradient is rounding
 * error alone: no layer here has a bias in such a place. */
struct net {
  const char *stage, *name, *params;
  int64_t n, c, h, w;
  int flags;
  int skips; /* decoder: as many maps, from h x w times 2^skips on, `width` channels and twice as many each */
  int64_t width;
};

static float most = 1; /* of the input */

static const struct net nets[] = {
    {"layers", "1x1, 3x3", "{ layers = { { \"conv\", 16, kernel = 1 }, { \"conv\", 10, kernel = 3, pad = 1 } } }", 3, 3,
     8, 12, 0, 0, 0},
    {"layers", "1x1, 3x3 with ReLU",
     "{ layers = { { \"conv\", 16, kernel = 1 }, { \"relu\" }, { \"conv\", 10, pad = 1 }, { \"relu\" } } }", 3, 3, 16,
     8, KINKS, 0, 0},
    {"layers", "2x2 strides",
     "{ layers = { { \"conv\", 16, kernel = 1 }, { \"relu\" }, { \"conv\", 20, kernel = 2, stride = 2 }, { \"relu\" },"
     " { \"conv\", 24, kernel = 2, stride = 2 }, { \"conv_transpose\", 16 }, { \"relu\" }, { \"conv\", 3, pad = 1 } } "
     "}",
     3, 3, 16, 16, KINKS, 0, 0},
    {"layers", "2x2 strides, no ReLU",
     "{ layers = { { \"conv\", 16, kernel = 1 }, { \"conv\", 32, kernel = 2, stride = 2 },"
     " { \"conv\", 64, kernel = 2, stride = 2 }, { \"conv_transpose\", 32 }, { \"conv_transpose\", 16 },"
     " { \"conv\", 10, pad = 1 } } }",
     2, 3, 16, 16, 0, 0, 0},
    {"layers", "two layers as one",
     "{ layers = { { \"conv\", 16, kernel = 1 }, { \"relu\" }, { \"conv\", 32, kernel = 2, stride = 2 }, { \"relu\" },"
     " { \"conv\", 8, kernel = 2, stride = 2 }, { \"relu\" }, { \"conv\", 6, kernel = 2, stride = 2 }, { \"relu\" },"
     " { \"conv\", 5, kernel = 2, stride = 2 } } }",
     3, 3, 16, 32, KINKS, 0, 0},
    {"layers", "two layers as one, no biases",
     "{ layers = { { \"conv\", 16, kernel = 1, bias = false }, { \"relu\" },"
     " { \"conv\", 32, kernel = 2, stride = 2, bias = false }, { \"conv\", 8, kernel = 2, stride = 2 },"
     " { \"conv\", 6, kernel = 2, stride = 2 }, { \"conv\", 5, kernel = 2, stride = 2 } } }",
     2, 1, 16, 16, KINKS, 0, 0},
    {"layers", "mixed",
     "{ layers = { { \"conv\", 8, kernel = 3, pad = 1, bias = false }, { \"batch_norm\" }, { \"relu\" },"
     " { \"conv\", 12, kernel = 2, stride = 2 }, { \"relu\" }, { \"max_pool\" }, { \"residual\", 12 },"
     " { \"conv_transpose\", 6 }, { \"avg_pool\" }, { \"flatten\" }, { \"linear\", 5 } } }",
     3, 3, 16, 16, KINKS, 0, 0},
    {"layers", "norm, pool, linear",
     "{ layers = { { \"conv\", 8, pad = 1, bias = false }, { \"batch_norm\" }, { \"avg_pool\" },"
     " { \"conv\", 12, kernel = 3, stride = 2, pad = 1, bias = false }, { \"batch_norm\", momentum = 0.3, eps = 0.001 "
     "},"
     " { \"flatten\" }, { \"linear\", 7 }, { \"linear\", 5, bias = false } } }",
     6, 3, 8, 12, 0, 0, 0},
    {"layers", "norm first", "{ layers = { { \"batch_norm\" }, { \"conv\", 5 }, { \"relu\" }, { \"batch_norm\" } } }",
     4, 7, 9, 5, KINKS, 0, 0},
    {"layers", "statistics kept",
     "{ statistics = \"keep\", layers = { { \"conv\", 8, pad = 1, bias = false }, { \"batch_norm\" }, { \"relu\" },"
     " { \"residual\", 12 }, { \"flatten\" }, { \"linear\", 6 }, { \"batch_norm\" } } }",
     3, 3, 8, 12, KINKS, 0, 0},
    {"layers", "group norm",
     "{ layers = { { \"conv\", 8, pad = 1 }, { \"group_norm\", 4 }, { \"relu\" }, { \"conv\", 12, kernel = 2, stride = "
     "2, bias = false },"
     " { \"group_norm\", 12, eps = 0.01 }, { \"conv\", 8, kernel = 2, stride = 2 }, { \"group_norm\", 1, tap = true },"
     " { \"flatten\" }, { \"linear\", 10 }, { \"group_norm\", 2 } } }",
     3, 3, 16, 24, KINKS, 0, 0},
    {"layers", "group norm first", "{ layers = { { \"group_norm\", 5 }, { \"conv\", 6 }, { \"group_norm\", 2 } } }", 4,
     5, 31, 17, 0, 0, 0},
    {"layers", "odd sizes",
     "{ layers = { { \"conv\", 5, pad = 1, stride = 2 }, { \"conv\", 7 }, { \"conv\", 4, kernel = 5, pad = 2 },"
     " { \"conv\", 9, kernel = { 1, 3 }, pad = { 0, 1 } }, { \"conv\", 6, kernel = 2 } } }",
     3, 3, 13, 11, 0, 0, 0},
    {"layers", "odd sizes, ReLU",
     "{ layers = { { \"conv\", 5, kernel = 2, stride = 2 }, { \"relu\" }, { \"conv\", 7, pad = 2 }, { \"relu\" },"
     " { \"conv_transpose\", 3, kernel = 3, stride = 2, pad = 1 } } }",
     3, 2, 13, 11, KINKS, 0, 0},
    {"layers", "transposed",
     "{ layers = { { \"conv_transpose\", 6, kernel = 3, pad = 1, out_pad = 1 },"
     " { \"conv_transpose\", 5, kernel = 4, stride = 2, pad = 1, bias = false },"
     " { \"conv_transpose\", 3, kernel = 2, stride = { 2, 1 } } } }",
     2, 4, 5, 3, 0, 0, 0},
    {"layers", "taps far apart",
     "{ layers = { { \"conv\", 8, pad = { 2, 7 }, dilation = { 2, 7 } }, { \"conv\", 16, pad = { 3, 1 }, dilation = { "
     "3, 1 "
     "} },"
     " { \"conv\", 5, kernel = 1 } } }",
     2, 8, 6, 7, 0, 0, 0},
    {"layers", "places of an even kernel",
     "{ layers = { { \"conv\", 24 }, { \"conv\", 8, kernel = 2, pad = { 2, 1 }, dilation = { 4, 2 } }, { \"conv\", 3, "
     "kernel = 1 } } }",
     2, 8, 6, 9, 0, 0, 0},
    {"layers", "groups and dilation",
     "{ layers = { { \"conv\", 8, pad = 2, dilation = 2 }, { \"relu\" }, { \"conv\", 8, pad = 1, groups = 8 },"
     " { \"conv\", 12, kernel = 1, groups = 4, bias = false }, { \"relu\" },"
     " { \"conv\", 6, pad = { 6, 3 }, dilation = { 6, 3 }, stride = 2, groups = 2 },"
     " { \"conv_transpose\", 4, kernel = 3, stride = 2, groups = 2, dilation = 2 } } }",
     3, 3, 12, 10, KINKS, 0, 0},
    {"layers", "squeeze and excitation",
     "{ layers = { { \"conv\", 12, pad = 1, bias = false }, { \"batch_norm\" }, { \"hard_swish\" }, { \"relu\", name = "
     "\"x\" },"
     " { \"mean\" }, { \"conv\", 5, kernel = 1 }, { \"silu\" }, { \"conv\", 12, kernel = 1 }, { \"hard_sigmoid\", name "
     "= \"s\" },"
     " { \"mul\", from = { \"x\", \"s\" } }, { \"silu\" }, { \"conv\", 6, kernel = 2, stride = 2 } } }",
     3, 3, 8, 12, KINKS, 0, 0},
    {"layers", "activations and products",
     "{ layers = { { \"silu\" }, { \"conv\", 7, kernel = 1, name = \"a\" }, { \"sigmoid\", tap = true },"
     " { \"mul\", from = { \"2\", \"a\" } }, { \"hard_sigmoid\", name = \"b\" }, { \"mul\", from = { \"b\", \"b\" } },"
     " { \"hard_swish\" }, { \"mean\" }, { \"flatten\" }, { \"silu\" }, { \"linear\", 4 } } }",
     3, 5, 9, 6, 0, 0, 0},
    {"layers", "gate of tiles",
     "{ layers = { { \"conv_transpose\", 6, name = \"x\" }, { \"mean\" }, { \"mul\", from = { \"x\", \"1\" } },"
     " { \"conv\", 5, kernel = 2, stride = 2 } } }",
     2, 3, 4, 6, 0, 0, 0},
    {"layers", "pyramid",
     "{ layers = { { \"conv\", 6, pad = 1 }, { \"relu\", name = \"a\" }, { \"conv\", 6, kernel = 2, stride = 2 }, { "
     "\"relu\", name = \"b\" },"
     " { \"conv\", 6, pad = 1, stride = 2 }, { \"relu\" }, { \"upsample\", scale = 2, mode = \"bilinear\", "
     "align_corners = true },"
     " { \"add\", from = { \"6\", \"b\" }, tap = true }, { \"upsample\", like = \"a\" }, { \"add\", from = { \"8\", "
     "\"a\" } },"
     " { \"upsample\", size = { 11, 30 }, mode = \"bilinear\" }, { \"conv\", 4, kernel = 1 } } }",
     3, 3, 12, 16, KINKS, 0, 0},
    {"layers", "maps enlarged to be joined",
     "{ layers = { { \"conv\", 8, pad = 1 }, { \"relu\" }, { \"upsample\", scale = 2, name = \"up\" },"
     " { \"conv_transpose\", 8, from = \"input\" }, { \"concat\", from = { \"3\", \"up\" } }, { \"relu\", name = \"j\" "
     "},"
     " { \"concat\", from = { \"up\", \"j\", \"up\" } }, { \"upsample\", size = { 24, 12 }, tap = true, name = "
     "\"seen\" },"
     " { \"upsample\", size = { 24, 12 }, from = \"input\", name = \"x\" }, { \"concat\", from = { \"x\", \"seen\" } },"
     " { \"conv\", 6, kernel = 2, stride = 2 } } }",
     3, 8, 4, 6, KINKS, 0, 0},
    {"layers", "dropout",
     "{ layers = { { \"conv\", 8, pad = 1 }, { \"relu\" }, { \"dropout\", p = 0.3 }, { \"conv\", 6, kernel = 2, stride "
     "= 2 },"
     " { \"dropout\", maps = true, tap = true }, { \"conv\", 5, kernel = 2, stride = 2 }, { \"dropout\" }, { "
     "\"flatten\" }, { \"dropout\", p = 0.2 } } }",
     3, 3, 8, 12, KINKS, 0, 0},
    {"layers", "graph",
     "{ layers = { { \"conv\", 8, pad = 1, name = \"a\" }, { \"relu\" }, { \"conv\", 8, pad = 1 },"
     " { \"conv\", 8, kernel = 1, from = \"input\", tap = true }, { \"conv\", 8, pad = 1, from = \"1\" },"
     " { \"add\", from = { \"2\", \"3\", \"a\", \"4\" } }, { \"relu\", tap = true },"
     " { \"concat\", from = { \"6\", \"3\", \"6\", \"input\" } }, { \"conv\", 12, kernel = 2, stride = 2 } } }",
     3, 3, 8, 12, KINKS, 0, 0},
    {"layers", "graph of features",
     "{ layers = { { \"linear\", 6 }, { \"linear\", 6, from = \"input\" }, { \"add\", from = { \"0\", \"1\", \"0\" } },"
     " { \"concat\", from = { \"2\", \"input\", \"1\" }, tap = true }, { \"linear\", 3 } } }",
     4, 5, 0, 0, FLAT, 0, 0},
    {"layers", "linear with ReLU", "{ layers = { { \"linear\", 64 }, { \"relu\" }, { \"linear\", 3 } } }", 40, 100, 0,
     0, FLAT | KINKS, 0, 0},
    {"layers", "one sample", "{ layers = { { \"conv\", 8, kernel = 2, stride = 2 }, { \"conv_transpose\", 4 } } }", 1,
     3, 4, 4, 0, 0, 0},
    {"layers", "one pixel",
     "{ layers = { { \"conv\", 40, kernel = 1 }, { \"conv_transpose\", 20 }, { \"conv\", 12, kernel = 2, stride = 2 },"
     " { \"conv_transpose\", 8, kernel = 3, stride = 3 } } }",
     5, 64, 1, 1, 0, 0, 0},
    {"encoder", "plain", "{ width = 8 }", 3, 3, 16, 16, KINKS, 0, 0},
    {"encoder", "plain, three halvings, one channel", "{ levels = 3, width = 5 }", 2, 1, 24, 16, KINKS, 0, 0},
    {"encoder", "plain, two layers as one", "{ levels = 4 }", 3, 3, 16, 32, KINKS, 0, 0},
    {"encoder", "unet", "{ model = \"unet\", width = 8 }", 2, 3, 16, 24, KINKS, 0, 0},
    {"encoder", "unet, halved by convolution",
     "{ model = \"unet\", width = 4, levels = 2, convs = 1, down = \"conv\" }", 2, 3, 12, 20, KINKS, 0, 0},
    {"encoder", "layers with maps",
     "{ layers = { { \"conv\", 4, kernel = 1, bias = false }, { \"conv\", 6, kernel = 2, stride = 2, bias = false }, { "
     "\"batch_norm\" },"
     " { \"avg_pool\" }, { \"conv\", 3, kernel = 1 } } }",
     2, 3, 8, 8, 0, 0, 0},
    {"decoder", "plain", "{ classes = 10, width = 8 }", 2, 64, 2, 2, KINKS, 0, 0},
    {"decoder", "plain, one pixel", "{ classes = 10, width = 16 }", 3, 128, 1, 1, KINKS, 0, 0},
    {"decoder", "plain, one class", "{ classes = 1, width = 4 }", 2, 16, 3, 5, KINKS, 0, 0},
    {"decoder", "unet", "{ classes = 4, width = 8, model = \"unet\" }", 3, 32, 4, 4, KINKS, 2, 8},
    {"decoder", "unet without skips", "{ classes = 3, width = 4, model = \"unet\", levels = 2, convs = 1 }", 4, 16, 7,
     5, KINKS, 0, 0},
    {"decoder", "layers", "{ classes = 6, layers = { { \"conv_transpose\", 12 }, { \"conv\", 6, kernel = 1 } } }", 2,
     24, 3, 5, 0, 0, 0},
    {"decoder", "layers that read a map, and the size of another",
     "{ classes = 4, layers = { { \"upsample\", scale = 2, name = \"up\" }, { \"concat\", from = { \"up\", \"skips.2\" "
     "} },"
     " { \"conv\", 6, pad = 1, bias = false }, { \"batch_norm\" }, { \"relu\" }, { \"upsample\", like = \"skips.1\", "
     "mode = "
     "\"bilinear\" },"
     " { \"conv\", 4, kernel = 1 } } }",
     3, 32, 4, 4, KINKS, 2, 8},
    {"classifier", "plain", "{ classes = 5, width = 8 }", 3, 3, 16, 16, KINKS, 0, 0},
    {"classifier", "plain, map flattened", "{ classes = 7, width = 5, levels = 2 }", 2, 1, 8, 12, KINKS, 0, 0},
    {"classifier", "residual", "{ classes = 5, model = \"residual\", width = 8, levels = 2, blocks = 1 }", 4, 3, 12, 10,
     KINKS, 0, 0},
    {"classifier", "pool", "{ classes = 6, model = \"pool\" }", 4, 24, 7, 5, 0, 0, 0},
    {"classifier", "pool, odd channels", "{ classes = 3, model = \"pool\" }", 3, 7, 20, 33, 0, 0, 0},
    {"classifier", "pool, wide", "{ classes = 3, model = \"pool\" }", 3, 260, 9, 6, 0, 0, 0},
    {"classifier", "pool, one pixel", "{ classes = 6, model = \"pool\" }", 4, 40, 1, 1, 0, 0, 0},
    {"classifier", "pool of features", "{ classes = 6, model = \"pool\" }", 5, 33, 0, 0, FLAT, 0, 0},
    {"classifier", "layers", "{ classes = 4, layers = { { \"conv\", 6 }, { \"flatten\" }, { \"linear\", 4 } } }", 3, 3,
     6, 5, 0, 0, 0},
    {"classifier", "plain, 64 pixels", "{ classes = 10 }", 32, 3, 64, 64, KINKS | LARGE, 0, 0},
    {"classifier", "residual, 32 pixels", "{ classes = 10, model = \"residual\" }", 32, 3, 32, 32, KINKS | LARGE, 0, 0},
    {"encoder", "plain, 64 pixels", NULL, 8, 3, 64, 64, KINKS | LARGE, 0, 0},
    {"encoder", "plain, 256 pixels", NULL, 3, 3, 256, 256, KINKS | HUGE_NET, 0, 0},
    {"encoder", "unet, 64 pixels", "{ model = \"unet\" }", 8, 3, 64, 64, KINKS | LARGE, 0, 0},
    {"decoder", "plain, 64 pixels", "{ classes = 10 }", 8, 1024, 1, 1, KINKS | LARGE, 0, 0},
    {"decoder", "plain, 256 pixels", "{ classes = 10 }", 3, 4096, 1, 1, KINKS | HUGE_NET, 0, 0},
    {"decoder", "plain, 40 samples", "{ classes = 10 }", 40, 512, 1, 1, KINKS | LARGE, 0, 0},
    {"decoder", "unet, 64 pixels", "{ classes = 21, width = 16 }", 8, 128, 8, 8, KINKS | LARGE, 3, 16},
};

const int twin_n_nets = (int)SP_ARRAY(nets);

static struct net net_of(int i) {
  most = 1;
  if (i < (int)SP_ARRAY(nets)) return nets[i];
  const nn_ops_row *row = &nn_ops_rows[i - (int)SP_ARRAY(nets)];
  most = (float)row->most;
  const int64_t *n = row->shape;
  int flags = (row->flags & NN_OPS_KINKS ? KINKS : 0) | (n[2] ? 0 : FLAT);
  return (struct net){"layers", row->layers, row->layers, n[0], n[1], n[2], n[3], flags, 0, 0};
}

/* float32: sums in another order. TF32 rounds factors to 2^-11. bfloat16 rounds each map to 2^-9, layer after layer.
 * Where the inputs of a ReLU or a maximum lie within the rounding error of a tie, the gradient takes another way, and
 * single elements are wrong by their whole size, however good the products are: a share p of elements that is about the
 * relative error of the maps makes an RMS error of sqrt(p) per such layer, 2 % for TF32 and 5 % for bfloat16, and more
 * in small sums: 15 % and 25 % are allowed. What rounding once does to the results of the cpu says how much more it has
 * to be. A mask that is wrong makes 70 %. */
static twin_limits limits_of(const struct net *net, int precision) {
  bool kinks = net->flags & KINKS;
  switch (precision) {
    /* among a million values one or two lie that near a tie even here */
    case SP_PRECISION_FP32: return (twin_limits){1e-4, 1e-3, kinks && net->flags & (LARGE | HUGE_NET) ? 5e-3 : 0, 0};
    case SP_PRECISION_TF32: return (twin_limits){1e-2, 1e-2, kinks ? 0.15 : 0, 4};
    default: return (twin_limits){3e-2, 3e-2, kinks ? 0.25 : 0, 6};
  }
}

static void open_net(twin *w, const struct net *net, const char *how, int order, int precision) {
  int64_t x[4] = {net->n, net->c, net->h, net->w};
  twin_open(w, net->stage, net->name, net->params, precision, limits_of(net, precision));
  w->how = how;
  twin_floats(w, 0, net->flags & FLAT ? 2 : 4, x, net->flags & FLAT ? SP_ROW_MAJOR : order, -most, most);
  for (int i = 0; i < net->skips; i++) {
    int64_t s[4] = {net->n, net->width << i, net->h << (net->skips - i), net->w << (net->skips - i)};
    twin_floats(w, 1, 4, s, order, -1, 1);
  }
}

static void want_all(twin *w, int what, int wanted) {
  for (int p = 0; p < spt_ports(w->a, what); p++)
    for (int i = 0; i < spt_count(w->a, what, p); i++)
      if (what != SPT_DWEIGHT || spt_weight(w->a, i)->flags & SP_WEIGHT_TRAINED)
        TWIN_BOTH(w, spt_want, what, p, i, wanted);
}

static void train_once(const struct net *net, int precision, bool repeat) {
  twin w;
  open_net(&w, net, "", SP_ROW_MAJOR, precision);
  twin_plan(&w, 1);
  twin_forward(&w, 0);
  twin_backward(&w);
  twin_compare_step(&w);
  if (repeat) twin_repeat(&w, true);
  twin_close(&w);
}

static void train(const struct net *net, const char *how, int order, int precision) {
  twin w;
  open_net(&w, net, how, order, precision);
  twin_plan(&w, 1);
  twin_forward(&w, 0);
  twin_backward(&w);
  twin_compare_step(&w);
  twin_repeat(&w, true);
  /* added to what is there */
  twin_set_all(&w, SPT_DIN, -1, 1);
  twin_set_all(&w, SPT_DWEIGHT, -1, 1);
  TWIN_BOTH(&w, spt_set_acc, 1, 1);
  twin_forward(&w, 1);
  twin_backward(&w);
  twin_compare_step(&w);
  TWIN_BOTH(&w, spt_set_acc, 0, 0);
  twin_close(&w);
}

static void train_short(const struct net *net, int order, int precision) {
  twin w;
  if (net->n < 2) return;
  open_net(&w, net, ", short batch", order, precision);
  twin_plan(&w, 1);
  twin_set_all(&w, SPT_DIN, -1, 1);
  twin_run_batch(&w, net->n - 1);
  twin_forward(&w, 0);
  twin_backward(&w);
  twin_compare_step(&w);
  twin_run_batch(&w, net->n);
  twin_forward(&w, 1);
  twin_backward(&w);
  twin_compare_step(&w);
  twin_close(&w);
}

static void train_in_place(const struct net *net, int order, int precision, bool repeat) {
  twin w;
  open_net(&w, net, ", updated in place", order, precision);
  twin_plan(&w, 1);
  twin_forward(&w, 0);
  TWIN_BOTH(&w, spt_set_dw_scale, -0.5f);
  twin_backward(&w);
  twin_compare_step(&w);
  if (repeat) twin_repeat(&w, true);
  twin_close(&w);
}

static void want_no_maps(twin *w) {
  for (int i = 0; !strcmp(w->stage, "encoder") && i < spt_count(w->a, SPT_OUT, 1); i++) {
    TWIN_BOTH(w, spt_want, SPT_OUT, 1, i, 0);
    TWIN_BOTH(w, spt_want, SPT_DOUT, 1, i, 0);
  }
}

/* What nobody asks for is not computed; what is asked for comes out the same. */
static void train_unwanted(const struct net *net, int order, int precision) {
  twin w;
  open_net(&w, net, ", parts unwanted", order, precision);
  twin_plan(&w, 1);
  want_all(&w, SPT_DIN, 0);
  want_no_maps(&w);
  twin_forward(&w, 0);
  twin_backward(&w);
  twin_compare_step(&w);
  twin_close(&w);
}

static void frozen(const struct net *net, int order, int precision) {
  twin w;
  open_net(&w, net, ", frozen", order, precision);
  TWIN_BOTH(&w, spt_set_frozen, 1);
  twin_plan(&w, 1);
  want_all(&w, SPT_DWEIGHT, 0);
  twin_forward(&w, 0);
  twin_backward(&w);
  twin_compare_step(&w);
  twin_close(&w);
}

/* maps: an encoder's are wanted; without, it may compute two layers as one. */
static void inference(const struct net *net, int order, int precision, bool maps) {
  twin w;
  open_net(&w, net, maps ? ", not training" : ", not training, without maps", order, precision);
  twin_plan(&w, 0);
  if (!maps) want_no_maps(&w);
  twin_forward(&w, 0);
  twin_compare(&w, SPT_OUT);
  twin_compare(&w, SPT_WEIGHT);
  twin_repeat(&w, false);
  twin_close(&w);
}

void twin_net(int i, int precision) {
  const struct net of_i = net_of(i), *net = &of_i;
  const char *only = getenv("SP_TEST_PRECISION"), *name = getenv("SP_TEST_NET");
  bool small = getenv("SP_TEST_SMALL") != NULL;
  if ((small && net->flags & (LARGE | HUGE_NET)) || (only && strcmp(only, twin_precisions[precision]) != 0)) return;
  if (name && strcmp(name, net->name) != 0) return;
  if (net->flags & HUGE_NET && precision != SP_PRECISION_TF32) return;
  printf("%s, %s, %s\n", net->stage, net->name, twin_precisions[precision]);
  fflush(stdout); /* what a crash or a time limit cut off */
  long cpus = sysconf(_SC_NPROCESSORS_ONLN);
  twin_threads = net->flags & HUGE_NET && cpus > 2 ? (int)(cpus < 16 ? cpus : 16) : 2;
  if (net->flags & (LARGE | HUGE_NET)) {
    train_once(net, precision, net->flags & LARGE);
    return;
  }
  if (small && precision != SP_PRECISION_FP32) {
    train_once(net, precision, true);
    train_in_place(net, SP_ROW_MAJOR, precision, false);
    if (!strcmp(net->stage, "encoder")) inference(net, SP_ROW_MAJOR, precision, false);
    return;
  }
  train(net, "", SP_ROW_MAJOR, precision);
  train_in_place(net, SP_ROW_MAJOR, precision, !small);
  if (!(net->flags & FLAT)) train(net, ", channels last", SP_CHANNELS_LAST, precision);
  train_short(net, SP_CHANNELS_LAST, precision);
  train_unwanted(net, SP_CHANNELS_LAST, precision);
  frozen(net, SP_ROW_MAJOR, precision);
  inference(net, SP_CHANNELS_LAST, precision, true);
  if (!strcmp(net->stage, "encoder")) inference(net, SP_ROW_MAJOR, precision, false);
}
