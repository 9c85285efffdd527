-- SPDX-License-Identifier: MIT
-- The loops of scripts/examples/by_hand_seg.lua and by_hand_cls.lua: which races --check-races finds in them, and that the
-- corrected ones compute what the serialized ones do.
-- needs: onednn
local t = dofile((os.getenv "top_srcdir") .. "/tests/lua/check.lua")

-- exit code, what it printed on both
local function run(script, args)
  local f = assert(io.popen(("./spcore run %s --steps 5 --size 16 %s 2>&1; echo =$?"):format(script, args)))
  local text = f:read "a"
  f:close()
  local out, code = text:match "^(.*)=(%d+)\n$"
  return tonumber(code), out
end

local function weights(text, loop)
  return text:match(loop .. " +[%d.]+ +[%d.naN-]+ +(%x+)")
end

local finds = {
  by_hand_seg = {
    published = "race on 'inputs 0': stage 'encoder' reads it on stream 'encoder' .*, stage 'to_float' writes it on stream "
      .. "'main' .*: stream 'encoder' must wait for an event recorded on 'main' behind by_hand_seg.lua:%d+",
    inputs = "stream 'encoder' must wait for an event recorded on 'main'",
    features = "race on 'encoder.features': stage 'decoder' reads .*stream 'decoder' must wait for .* on 'encoder'",
    reuse = "race on 'inputs 0': stage 'to_float' writes .*stream 'main' must wait for an event recorded on 'encoder'",
  },
  by_hand_cls = {
    published = "race on 'labels 0': stage 'cross_entropy' reads it on stream 'model' .*, the copy writes it on stream "
      .. "'main' .*: stream 'model' must wait for an event recorded on 'main' behind by_hand_cls.lua:%d+",
    transformed = "race on 'augment.images': stage 'classifier' reads .*must wait for an event recorded on 'transform'",
    labels = "race on 'labels 0': stage 'cross_entropy' reads .*stream 'model' must wait for .* on 'main'",
    reuse_images = "race on 'augment.images': stage 'augment' writes .*stream 'transform' must wait for .* on 'model'",
    reuse_labels = "race on 'labels 0': the copy writes .*stream 'main' must wait for an event recorded on 'model'",
  },
}

for script, races in pairs(finds) do
  local want
  for _, device in ipairs { "cpu", "sim", "simmock" } do
    local code, text = run(script .. ".lua", ("--device %s --check-races"):format(device))
    t.eq(code, 1, text) -- behind the whole table
    t.match(text, "spcore: %-%-check%-races: these loops have races, which the table names: published\n")
    t.match(text, "\npublished +" .. script .. ".lua:%d+: " .. races.published)
    t.match(text, "\ncorrected [^\n]* as serialized\n")
    t.ok(not text:find "NOT", text)
    want = want or weights(text, "serialized")
    t.eq(weights(text, "serialized"), want, device)
  end
  for wait, words in pairs(races) do
    local how = wait == "published" and "--loop published" or "--loop corrected --without " .. wait
    local code, text = run(script .. ".lua", how .. " --check-races")
    t.eq(code, 1, text)
    t.match(text, words)
  end
  -- some order shows each of them
  local diverged = {}
  for order = 1, 8 do
    local code, text = run(script .. ".lua", "--device sim --order " .. order)
    t.eq(code, 0, text)
    t.match(text, "\ncorrected [^\n]* as serialized\n")
    diverged[#diverged + 1] = text:match "\npublished [^\n]*NOT as serialized"
  end
  t.ok(#diverged > 0, script)
  -- batches of before are as good
  local code, text = run(script .. ".lua", "--batches 3 --memory pageable --loop all --check-races")
  t.eq(code, 1, text)
  t.match(text, "\ncorrected [^\n]* as serialized\n")
  t.match(text, script .. ".lua:%d+: copy with '[%a ]+', which is pageable")
  code, text = run(script .. ".lua", "--loop corrected --without nothing")
  t.eq(code, 2, text)
end
