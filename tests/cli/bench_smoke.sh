# SPDX-License-Identifier: MIT
# bench_smoke.sh - tests/bench/gpu.sh at a tiny size on the device that plays a GPU on the processor: turns, servers,
# statistics and files. PyTorch rows may fail here, and must then say why.
# needs: onednn images jansson
# once: what measures is a script, and the program behind it is tested elsewhere
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

bash "$top_srcdir/tests/bench/gpu.sh" --device mock --quick --budget 36000 -s main,bits,memory,kernels,cls,cls-batches,augment \
  --out "$dir/out" "$top_builddir" >"$dir/table" 2>&1 || fail "gpu.sh ended with status $?"
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

# the classifier's rows: figures where there is its script, else the reason
figure='failed: [^ ]'
[ -f "$top_srcdir/scripts/train_cls.lua" ] && figure='[0-9]+\.[0-9] +[0-9]+\.[0-9] \.\. [0-9]+\.[0-9]'
for way in gpu,.serialized,.eager gpu,.pipelined,.captured.by.step cpu,.pipelined,.captured.by.lane; do
  grep -Eq "^spcore augment $way +$figure" "$dir/table" || fail "no row: augment $way"
done
grep -Eq '^PyTorch augmentation on CPU workers \(4 steps\) +([0-9]|failed: [^ ])' "$dir/table" || fail 'no row: workers'
grep -Eq '^ +3 +6/4 ' "$dir/table" || fail 'no batch of 3 images'
for stage in 'batch_crop exact' 'batch_rotate bilinear'; do
  grep -Eq "^$stage, float32, channels last +[0-9.]+ +2 .*%$" "$dir/table" || fail "no row: $stage"
done
"$PYTHON" -B "$top_srcdir/tests/bench/cls_cpu.py" "$top_builddir/spcore" --size 32 --batch 4 --steps 4 --warmup 2 \
  --rounds 1 --threads 2 --python "$PYTHON" --json "$dir/cpu.json" >"$dir/cpu" 2>&1 ||
  fail "cls_cpu.py ended with status $?"
cat "$dir/cpu"
grep -Eq '^spcore, a lane a stage +[0-9]+\.[0-9] ' "$dir/cpu" || fail 'no row: a lane a stage'
[ "$(grep -Ec '^batch_rotate +forward +6 ' "$dir/cpu")" = 2 ] || fail 'no time of batch_rotate'
"$PYTHON" -B "$top_srcdir/tests/bench/gpu_table.py" --device mock --quick -s cls --rows nobody --out "$dir/out2" \
  "$top_builddir" >"$dir/none" 2>&1
grep -q '^cls: failed: --rows nobody: no row' "$dir/none" || fail 'rows that are not there were taken'
"$PYTHON" -c "
import json, sys
raw = json.load(open(sys.argv[1] + '/gpu.json'))['raw']
rows = [r for r in raw if 'steps_per_s' in r and r['contestant'][:6] == 'spcore' and r['section'] == 'main']
lines = open(sys.argv[1] + '/gpu.tsv').read().split('\n')[1:-1]
sys.exit(not (len(rows) == 10 and len(lines) >= 10 and all(len(l.split('\t')) == 7 for l in lines)))" "$dir/out" ||
  fail 'gpu.json and gpu.tsv do not hold the runs'
"$PYTHON" -B "$top_srcdir/tests/bench/gpu_table.py" -s nonsense "$top_builddir" >/dev/null 2>"$dir/err"
[ $? = 2 ] && grep -q "no section 'nonsense'" "$dir/err" || fail 'a section that is not there was taken'
exit $status
