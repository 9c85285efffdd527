#!/bin/sh
# SPDX-License-Identifier: MIT
# The proof notices what is changed in lists of operations: SP_FUZZ_MUTATED random programs, 20 without it, and three in
# which it once did not: the waits of ticks that are never launched, and one that capture of lanes had made superfluous.
set -u
n=20
[ "${SP_SANITIZERS:-none}" = none ] || n=5
strategies=$top_builddir/tests/fuzz/strategies
for seed in 103 111 128; do
  "$strategies" --mutate --seed $seed --cases 1 || exit 1
done
exec "$strategies" --mutate --cases "${SP_FUZZ_MUTATED:-$n}"
