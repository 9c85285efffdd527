# SPDX-License-Identifier: MIT
# graph_edges.sh - the edges of captured graphs are the schedule's, on the CUDA emulator: tests/cuda/graph_edges.c. And the
# waits that launched ticks make superfluous: a cache beside a stage of the processor that reads it, with run-ahead.
# needs: onednn images
. "$top_srcdir/tests/emu/env.sh"
SPCORE_EMU_PROTECT=0 "$top_builddir/tests/emu/graph_edges" || exit 1

cat >"$tmp/cache.lua" <<'EOF'
local sp = require "spcore"
local opt = sp.args { dir = { "", "folder of what the stages of the processor write" } }
local g <close> = sp.graph(opt)
local data = g.reader { path = "random", samples = 6, size = 16, batch = 2 }
local x = g.to_float { data.image, scale = true }
local first = g.layers { name = "first", x, layers = { { "conv", 4, kernel = 1 } }, frozen = true }
local kept = g.layers { name = "kept", first.features, layers = { { "conv", 4, kernel = 1 } }, frozen = true, cache = "device" }
local head = g.layers { name = "head", kept.features, layers = { { "conv", data.classes, kernel = 1 } } }
g:train { g.cross_entropy { head.features, data.mask, ignore_index = 255 }, optimizer = g.sgd { lr = 0.1 } }
g.writer { name = "of_first", first.features, file = opt.dir .. "/first.npy" }
g.writer { name = "of_kept", kept.features, file = opt.dir .. "/kept.npy" }
for step, m in g:steps(7) do print(step, ("%a"):format(m.loss)) end
EOF
for capture in off lane step; do
  for ahead in 0 2 3 5; do
    dir=$tmp/$capture-$ahead
    mkdir "$dir"
    SPCORE_EMU_PROTECT=0 "$top_builddir/spcore" run "$tmp/cache.lua" --device cuda --capture $capture --run-ahead $ahead \
      --threads 1 --dir "$dir" >"$dir/losses" 2>"$dir/errors" || { echo "capture $capture, run-ahead $ahead:"; cat "$dir/errors"; exit 1; }
    for file in losses first.npy kept.npy; do
      cmp "$dir/$file" "$tmp/off-0/$file" || { echo "capture $capture, run-ahead $ahead: other bits"; exit 1; }
    done
  done
done
