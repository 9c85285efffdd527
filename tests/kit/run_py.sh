# SPDX-License-Identifier: MIT
# Runs one Python test, or says why not: run_py.sh FILE.py. They compare with PyTorch; one that does not has a line
# `# needs no torch`.
if [ -z "$PYTHON" ]; then
  echo 'skipped: this build is without Python'
  exit 77
fi
modules='numpy torch'
grep -q '^# needs no torch$' "$1" && modules=numpy
# found, not imported: to import PyTorch takes more than a second of a processor, and the script does it again
# shellcheck disable=SC2086
if ! "$PYTHON" -c 'import importlib.util as u, sys; sys.exit(not all(u.find_spec(m) for m in sys.argv[1:]))' $modules 2>/dev/null; then
  echo "skipped: $PYTHON has not: $modules (Debian: apt install python3-torch python3-torchvision)"
  exit 77
fi
# NumPy's products, and PyTorch's before a script says a number itself: threads that wait spin, which a busy machine pays for
OMP_NUM_THREADS=1 && export OMP_NUM_THREADS
exec "$PYTHON" -B "$@"
