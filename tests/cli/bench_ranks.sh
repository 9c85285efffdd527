# SPDX-License-Identifier: MIT
# bench_ranks.sh - what measures ranks, at a tiny size on the processor: the times of a communicator, the tables of ranks.py, bits
# and kills of ranks_gpu.sh. PyTorch rows may fail here, and must then say why.
# needs: onednn images
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
bench=$top_srcdir/tests/bench
figure='[0-9]+\.[0-9]+ +[0-9]+\.[0-9]+ \.\. [0-9]+\.[0-9]+'

bash "$bench/comm.sh" "$top_builddir" local 2 quick >"$dir/comm" 2>&1 || fail "comm.sh ended with status $?"
cat "$dir/comm"
for call in all_to_all all_gather broadcast; do
  [ "$(grep -Ec "^local +2 $call +[0-9]+ +$figure +[0-9.]+$" "$dir/comm")" = 3 ] || fail "not three sizes of $call"
  grep -Eq "^fit +2 $call +(a -?[0-9.]+ us, b [0-9.]+ GB/s|no line: )" "$dir/comm" || fail "no line through the times of $call"
done
bash "$bench/comm.sh" "$top_builddir" local 1 quick >"$dir/one" 2>&1 && fail "one rank was measured"
grep -q "one rank moves nothing" "$dir/one" || fail "one rank: $(cat "$dir/one")"

"$PYTHON" -B "$bench/ranks.py" --quick -s weak,apart,ddp --workloads seg --ranks 1,2 --ways eager --alone '' \
  --out "$dir/out" "$top_builddir" >"$dir/table" 2>&1 || fail "ranks.py ended with status $?"
cat "$dir/table"
grep -Eq "^1 rank +1 +$figure +[0-9.]+ +1\.00$" "$dir/table" || fail 'no row of one rank'
grep -Eq "^2 ranks, local +2 +$figure +[0-9.]+ +[0-9.]+ +[0-9.]+ +[0-9.]+ " "$dir/table" || fail 'no row of two ranks'
grep -Eq "^2 alone +$figure" "$dir/table" || fail 'no row of jobs side by side'
grep -Eq "^spcore, 2 ranks, local +$figure .* % of one$" "$dir/table" || fail 'no row beside PyTorch'
grep -Eq "^DDP eager, 2 processes +($figure|failed: [^ ])" "$dir/table" || fail 'no row: DDP'
"$PYTHON" -c "
import json, sys
raw = json.load(open(sys.argv[1] + '/ranks.json'))['raw']
two = [r for r in raw if r['section'] == 'weak' and r['ranks'] == 2]
sys.exit(not (len(two) == 1 and two[0]['MB'] > 0 and two[0]['lane_ms'] >= two[0]['sums_ms'] > 0))" "$dir/out" ||
  fail 'ranks.json does not hold what was moved'
"$PYTHON" -B "$bench/ranks.py" -s strong --ranks 3 "$top_builddir" 2>&1 | grep -q 'shards 8 is no multiple of each' ||
  fail '8 shards were given to 3 ranks'

bash "$bench/ranks_gpu.sh" -q -d cpu -c local -p bits,kill "$top_builddir" >"$dir/parts" 2>&1 || fail "ranks_gpu.sh: status $?"
cat "$dir/parts"
[ "$(grep -c ': the same bits every way$' "$dir/parts")" = 3 ] || fail 'other bits'
[ "$(grep -Ec '^kill: rank [01], .* all gone after +[0-9]+ ms, named in [1-9]' "$dir/parts")" = 2 ] || fail 'not two kills'
bash "$bench/ranks_gpu.sh" -p nonsense "$top_builddir" 2>&1 | grep -q "no part 'nonsense'" ||
  fail 'a part that is not there was taken'
exit $status
