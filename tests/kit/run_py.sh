# SPDX-License-Identifier: MIT
# Runs one Python test, or says why not: run_py.sh FILE.py
if [ -z "$PYTHON" ]; then
  echo 'skipped: this build is without Python'
  exit 77
fi
if ! "$PYTHON" -c 'import numpy, torch' 2>/dev/null; then
  echo "skipped: $PYTHON has no numpy and torch (Debian: apt install python3-torch python3-torchvision)"
  exit 77
fi
exec "$PYTHON" -B "$@"
