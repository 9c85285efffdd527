#!/bin/bash
# SPDX-License-Identifier: MIT
# gpu.sh - tables of what the GPU does with the seg and the cls workload, spcore beside PyTorch, on the same libraries.
#
#   tests/bench/gpu.sh [-s SECTIONS] [options] [BUILD-DIR]
#
# SECTIONS, with commas: main,batches,bf16,bits,memory,core,kernels,cls,cls-batches,augment (all of them). Further
# options: gpu_table.py --help.
# What was measured goes to the folder --out, or $OUT, or gpu-results. docs/gpu.md explains the table.
set -u
here=$(cd "$(dirname "$0")" && pwd)
python=${PYTHON:-python3}
if ! command -v "$python" >/dev/null; then
  echo "gpu.sh: $python was not found" >&2
  exit 1
fi

. "$here/libraries.sh"
exec "$python" -B "$here/gpu_table.py" "$@"
