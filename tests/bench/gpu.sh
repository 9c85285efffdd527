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

# The libraries of PyTorch's packages, for both sides: another cuDNN or cuBLAS would be another contest.
libraries=$("$python" - <<'EOF'
import os
folders = []
try:
    import nvidia
    for root in nvidia.__path__:
        for name in ("cudnn", "cu13", "cu12", "cublas", "cuda_runtime", "cuda_nvrtc", "cuda_cupti"):
            folder = os.path.join(root, name, "lib")
            if os.path.isdir(folder):
                folders.append(folder)
except ImportError:
    pass
print(":".join(folders))
EOF
)
if [ -n "$libraries" ]; then
  LD_LIBRARY_PATH=$libraries${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
  export LD_LIBRARY_PATH
fi
exec "$python" -B "$here/gpu_table.py" "$@"
