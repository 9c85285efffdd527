# SPDX-License-Identifier: MIT
# parts.sh - a backward in parts on the CUDA emulator: the bits of one call, also where one pass over a layer leaves sums
# of the bias before it, whose gradient another part completes.
# needs: onednn images jansson
. "$top_srcdir/tests/emu/env.sh"
failed=0
# beside the stage check of .ci/run the network below has to do
test "${SP_SKIP_ONCE-}" || SP_TEST_DEVICES=cuda SPCORE_EMU_PROTECT=0 "$top_builddir/spcore" run "$top_srcdir/tests/lua/parts.lua" || failed=1

cat >"$tmp/net.lua" <<'EOF'
local sp = require "spcore"
local g <close> = sp.graph { device = "cuda", precision = "tf32", threads = 1, parts = tonumber(os.getenv "PARTS") }
local data = g.reader { path = "shapes", size = 64, batch = 1, samples = 3 }
local net = g.layers {
  g.to_float { data.image, scale = true },
  layers = {
    { "conv", 32, kernel = 3, pad = 1 }, { "relu" }, { "conv", 64, kernel = 1 }, { "relu" },
    { "conv", 32, kernel = 2, stride = 2 }, { "relu" }, { "conv_transpose", data.classes, kernel = 2, stride = 2 },
  },
}
g:train { g.cross_entropy { net.features, data.mask }, optimizer = g.adamw { lr = 0.01 }, accumulate = 2 }
for _, m in g:steps(4) do print(("%a"):format(m.loss)) end
g:save(os.getenv "WEIGHTS")
EOF
cat >"$tmp/near.lua" <<'EOF'
local measured, masked = ...
local n, other = 0, io.lines(masked)
for line in io.lines(measured) do
  assert(math.abs(tonumber(line) / tonumber(other()) - 1) < 1e-3)
  n = n + 1
end
assert(n == 4)
EOF
run() { PARTS=$1 WEIGHTS=$tmp/$1.safetensors "$top_builddir/spcore" run "$tmp/net.lua" >"$tmp/$1" 2>&1; }
run 1 # finds out which products are fast
cp "$tmp/1" "$tmp/measured"
sed -i "s/^\(whole backward .*\)separate\$/\1patch/" "$tmp"/*.txt
grep -q '^whole backward m4096 n64 k32 .*patch$' "$tmp"/*.txt || { echo "no layer has a backward in one pass"; cat "$tmp/1"; failed=1; }
tiles="128 64"
test "${SP_SANITIZERS-none}" = none || tiles=64
for rows in $tiles; do # a kernel that masks, and leaves the sums of a bias before it
  sed -i "s/^\(product data m1024 n32 k256 -+mask64+columns tf32 .*\)\t.*/\1\tmasked $rows/" "$tmp"/*.txt
  run 1
  grep -q "^product data m1024 n32 k256 .*masked $rows\$" "$tmp"/*.txt || { echo "no layer has a masked gradient"; cat "$tmp/1"; failed=1; }
  "$top_builddir/spcore" run "$tmp/near.lua" "$tmp/measured" "$tmp/1" || { echo "masked $rows: other losses"; paste "$tmp/measured" "$tmp/1"; failed=1; }
done
for parts in 2 3; do
  run $parts || { cat "$tmp/$parts"; failed=1; }
  cmp "$tmp/1" "$tmp/$parts" && cmp "$tmp/1.safetensors" "$tmp/$parts.safetensors" || failed=1
done
exit $failed
