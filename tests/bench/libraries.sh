# SPDX-License-Identifier: MIT
# libraries.sh - sets LD_LIBRARY_PATH for gpu.sh and ranks_gpu.sh, by what the Python in $python has.
# The libraries of PyTorch's packages, for both sides: another cuDNN, cuBLAS or NCCL would be another contest.
libraries=$("$python" - <<'EOF'
import os
folders = []
try:
    import nvidia
    for root in nvidia.__path__:
        for name in ("cudnn", "cu13", "cu12", "cublas", "cuda_runtime", "cuda_nvrtc", "cuda_cupti", "nccl"):
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
