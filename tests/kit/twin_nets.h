/* SPDX-License-Identifier: MIT
 * twin_nets.h - encoder, decoder, layers and classifier on a device, compared with the cpu. */
#ifndef SP_TESTS_TWIN_NETS_H
#define SP_TESTS_TWIN_NETS_H

extern const int twin_n_nets; /* behind them are the rows of nn_ops.list */
/* Everything about one network: training in both orders, a short batch, the update in place, frozen, not training.
 * Where $SP_TEST_SMALL is set, as for the emulator, large networks are left out, and in tf32 and bf16 most of that;
 * $SP_TEST_PRECISION is the only precision. */
void twin_net(int i, int precision);

#endif
