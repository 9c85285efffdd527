#!/bin/sh
# SPDX-License-Identifier: MIT
# convert.sh - scripts/tools/spcore_convert.py and spcore_import.py where Python has no packages: their help, and a line that
# names what is missing. What they do is in tests/parity/convert.py and tests/corpus/imports.py.
# once: a script
set -u
if [ -z "${PYTHON-}" ]; then
  echo 'skipped: there is no Python 3'
  exit 77
fi
script=${top_srcdir:?}/scripts/tools/spcore_convert.py
tmp=$(mktemp -d) || exit 99
trap 'rm -rf "$tmp"' EXIT
status=0
fail() { echo "FAIL: $*"; cat "$tmp/out" "$tmp/err"; status=1; }
bare() { "$PYTHON" -I -S "$script" "$@" >"$tmp/out" 2>"$tmp/err"; } # -S: without the folders of packages
bare --help && grep -q '^usage: spcore_convert.py' "$tmp/out" && [ ! -s "$tmp/err" ] || fail --help
bare net.onnx -o net && fail "net.onnx is converted"
[ "$(cat "$tmp/err")" = 'spcore_convert.py: the Python package numpy is missing: python3 -m pip install numpy' ] || fail numpy
for out in '' . "$tmp/"; do
  bare net.onnx -o "$out"
  [ $? = 2 ] && [ "$(tail -n 1 "$tmp/err")" = "spcore_convert.py: error: -o '$out': the name of what is written, without .lua, is wanted" ] ||
    fail "-o '$out'"
done
mkdir "$tmp/numpy" && : >"$tmp/numpy/__init__.py" || exit 99
for model in net.onnx net.py:make; do
  PYTHONPATH=$tmp "$PYTHON" -S "$script" $model -o net >"$tmp/out" 2>"$tmp/err" && fail "$model is converted"
  case $model in *.onnx) name=onnx ;; *) name=torch ;; esac
  [ "$(cat "$tmp/err")" = "spcore_convert.py: the Python package $name is missing: python3 -m pip install $name" ] || fail $name
done
script=${top_srcdir:?}/scripts/tools/spcore_import.py
bare --help && grep -q '^usage: spcore_import.py' "$tmp/out" && [ ! -s "$tmp/err" ] || fail "--help of spcore_import.py"
printf 'PAR1 and more' >"$tmp/a.parquet"
bare "$tmp/a.parquet" -o "$tmp/shards" && fail "a.parquet is imported"
[ "$(cat "$tmp/err")" = 'spcore_import.py: this source needs the Python package pyarrow, which is missing: python3 -m pip install pyarrow' ] &&
  [ ! -e "$tmp/shards.importing" ] || fail pyarrow
exit $status
