# SPDX-License-Identifier: MIT
# bench_smoke.sh - tests/bench/gpu.sh at a tiny size on the device that plays a GPU on the processor: turns, servers,
# statistics and files. PyTorch rows may fail here, and must then say why.
# needs: onednn images jansson
set -u
if [ "${SP_SANITIZERS-none}" != none ]; then
  echo 'skipped: nothing to measure under sanitizers'
  exit 77
fi
if [ -z "${PYTHON-}" ] || ! command -v bash >/dev/null; then
  echo 'skipped: no Python or no bash'
  exit 77
fi
dir=$(mktemp -d "${TMPDIR:-/tmp}/spcore-bench.XXXXXX") || exit 99
trap 'rm -rf "$dir"' EXIT
status=0
fail() { echo "FAIL: $*"; status=1; }

bash "$top_srcdir/tests/bench/gpu.sh" --device mock --quick -s main,bits,memory,kernels --out "$dir/out" \
  "$top_builddir" >"$dir/table" 2>&1 || fail "gpu.sh ended with status $?"
cat "$dir/table"
for way in serialized,.eager serialized,.captured pipelined,.eager pipelined,.captured.by.lane \
  pipelined,.captured.by.step; do
  grep -Eq "^spcore $way +[0-9]+\.[0-9] +[0-9]+\.[0-9] \.\. [0-9]+\.[0-9]" "$dir/table" || fail "no row: $way"
done
grep -Eq '^PyTorch no loader, eager +([0-9]|failed: [^ ])' "$dir/table" || fail 'no row: PyTorch eager'
grep -q '^ideal overlap: (encoder [1-9]' "$dir/table" || fail 'no ideal overlap'
grep -q '^the same bytes every way; one step less gives others' "$dir/table" || fail 'other bits'
grep -Eq '^allocations of the core for steps +([0-9]+) +\1$' "$dir/table" || fail 'the core allocates'
grep -q '^kernels: failed: ' "$dir/table" || fail 'kernels of a cpu'
"$PYTHON" -c "
import json, sys
raw = json.load(open(sys.argv[1] + '/gpu.json'))['raw']
rows = [r for r in raw if 'steps_per_s' in r and r['contestant'][:6] == 'spcore']
lines = open(sys.argv[1] + '/gpu.tsv').read().split('\n')[1:-1]
sys.exit(not (len(rows) == 10 and len(lines) >= 10 and all(len(l.split('\t')) == 7 for l in lines)))" "$dir/out" ||
  fail 'gpu.json and gpu.tsv do not hold the runs'
"$PYTHON" -B "$top_srcdir/tests/bench/gpu_table.py" -s nonsense "$top_builddir" >/dev/null 2>"$dir/err"
[ $? = 2 ] && grep -q "no section 'nonsense'" "$dir/err" || fail 'a section that is not there was taken'
exit $status
