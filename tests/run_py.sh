# SPDX-License-Identifier: MIT
# Runs one Python test, or says why not: run_py.sh FILE.py
if [ -n "${SP_NO_PARITY-}" ]; then
  echo 'skipped: SP_NO_PARITY is set'
  exit 77
fi
if ! "${PYTHON:-python3}" -c 'import numpy, torch' 2>/dev/null; then
  echo "skipped: ${PYTHON:-python3} has no numpy and torch (Debian: apt install python3-torch python3-torchvision)"
  exit 77
fi
exec "${PYTHON:-python3}" -B "$@"
