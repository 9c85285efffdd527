/* SPDX-License-Identifier: MIT
 * factor_nets.h - networks whose gradients are made of factors, compared with the plain backward on the same device. */
#ifndef SP_TESTS_FACTOR_NETS_H
#define SP_TESTS_FACTOR_NETS_H

extern const int factor_n_nets;
/* Steps of full, short and empty passes, with a backward in one call and in parts. Where $SP_TEST_SMALL is set, in tf32
 * and bf16 one of them. For Check. */
void factor_net(int i, const char *device, int threads, int precision);

#endif
