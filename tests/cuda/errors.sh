# SPDX-License-Identifier: MIT
# errors.sh - a kernel that breaks the device: one line with the suspects, nothing written, exit status 75; on
# the GPU, which is as broken for the process as it gets. Then a stage that fails at the host, while it is recorded too.
set -u
spcore=${top_builddir:?}/spcore
tmp=$(mktemp -d) || exit 99
trap 'rm -rf "$tmp"' EXIT
if test ! -f "$top_builddir/.libs/device_cuda.so"; then
  echo 'skipped: this build is without CUDA'
  exit 77
fi
if ! "$spcore" devices 2>/dev/null | grep -q '^cuda:0'; then
  echo "skipped: $("$spcore" devices 2>&1 | grep -m1 '^cuda' || echo 'no device cuda')"
  exit 77
fi
cat >"$tmp/trap.lua" <<'END'
local sp = require "spcore"
local opt = sp.args({ at = { 7, "step that breaks the device" } }, { doc = "Breaks the device." })
local g <close> = sp.graph(opt)
local data = g.reader { path = "shapes", batch = 4, size = { 32, 32 }, samples = 64 }
local slow = g.sleep { g.to_float { data.image }, ms = 0.05, fail_at_step = opt.at, name = "saboteur" }
local enc = g.encoder { slow.y, model = "unet", width = 4, levels = 2 }
local dec = g.decoder { enc.features, skips = enc.maps, model = "unet", width = 4, classes = data.classes }
g:train { g.cross_entropy { dec.logits, data.mask }, optimizer = g.sgd { lr = 1e-3 } }
local run <close> = sp.run { graph = g, opt = opt, steps = 20 }
for step, m in g:steps(20) do run:step(step, m) end
run:finish()
END
failed=0
n=0

# expect NAME "VARIABLE=VALUE ..." OPTION... -- WORD...
expect() {
  name=$1 vars=$2
  shift 2
  n=$((n + 1))
  : >"$tmp/options"
  while test "$1" != --; do echo "$1" >>"$tmp/options" && shift; done
  shift
  env $vars timeout 600 "$spcore" run "$tmp/trap.lua" --device cuda --quiet --out "$tmp/run$n" $(cat "$tmp/options") \
    >"$tmp/out" 2>"$tmp/err"
  got=$?
  ok=1
  test "$got" = 75 || ok=0
  test "$(grep -c . "$tmp/err")" = 1 || ok=0
  test ! -e "$tmp/run$n/weights.safetensors" || ok=0
  for word; do grep -qF -- "$word" "$tmp/err" || ok=0; done
  if test $ok = 1; then
    echo "ok - $name: $(cat "$tmp/err")"
    return
  fi
  echo "not ok - $name: exit status $got, wanted 75 and one line with: $*"
  cat "$tmp/out" "$tmp/err"
  ls "$tmp/run$n"
  failed=1
}

for capture in off lane step; do
  for strategy in serialized pipelined; do
    expect "capture $capture, $strategy" "A=0" --capture $capture --strategy $strategy -- \
      "trap.lua:" "device 'cuda" "failed in step " "'saboteur'" "SPCORE_SYNC=1"
  done
done
expect "the culprit" "SPCORE_SYNC=1" -- "trap.lua:" "'saboteur.forward' of step 8"
"$spcore" run "$top_srcdir/tests/cuda/record_fails.lua" || failed=1
exit $failed
