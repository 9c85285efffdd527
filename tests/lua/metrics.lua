-- SPDX-License-Identifier: MIT
-- Stages that count: the same whole numbers over shards, ranks, threads, batches and strategies; stages that
-- evaluations alone run; figures of counts that are odd.
-- needs: onednn images jansson
local sp = require "spcore"
local t = require "check"

local dir <close> = t.folder()

-- The weights are random, so scores spread; the evaluation's counts are written.
t.write(dir.path .. "/count.lua", [[
local sp = require "spcore"
local opt = sp.args { batch = { 8, "images" }, to = { "", "file" } }
local g <close> = sp.graph(opt)
local function read(split)
  return g.reader { path = "shapes", size = 16, batch = opt.batch, samples = 56, val_fraction = 0.5, split = split }
end
local data, val = read "train", read "val"
local image = g.to_float { data.image, scale = true }
local logits = g.layers { image, layers = { { "conv", data.classes, kernel = 3, pad = 1 } }, name = "net" }.features
local function map(name)
  return g.layers { image, layers = { { "conv", 1, kernel = 3, pad = 1 } }, name = name, frozen = true }.features
end
g.score_histogram { logits, data.mask, bins = 64, ignore_index = 255, eval_only = true }
g.calibration { logits, data.mask, ignore_index = 255, eval_only = true }
g.boundary { logits, data.mask, ignore_index = 255, eval_only = true }
g.deviation { map "one", map "two", eval_only = true }
g.depth_error { map "far", map "near", offset = 1.0, least = 0.5, eval_only = true }
g:train { g.cross_entropy { logits, data.mask }, optimizer = g.sgd { lr = 0.0 } }
local steps
for _, m in g:steps(1) do steps = m end
for _, name in ipairs { "scores", "reliability", "boundaries", "deviations", "depths" } do assert(steps[name] == nil, name) end
local m = g:evaluate { data = val }
assert(m.n == val.length)
sp.write_file(opt.to, sp.json.encode { m.scores, m.reliability, m.boundaries, m.deviations, m.depths })
]])
local first
for i, way in ipairs { "--threads 2", "--threads 1 --batch 5", "--threads 1 --strategy pipelined --batch 3",
  "--shards 2 --batch 4", "--shards 4 --batch 2 --threads 1", "--ranks 2 --shards 2 --batch 4 --threads 1",
  "--ranks 4 --shards 4 --batch 2 --threads 1" } do
  local code, out, err = t.spcore(dir.path, ("run count.lua --device cpu --to %d.json %s"):format(i, way))
  t.eq(code, 0, way .. ": " .. out .. err)
  local text = t.read(("%s/%d.json"):format(dir.path, i))
  first = first or text
  t.eq(text, first, way)
end
local counts = sp.json.decode(first)
t.ok(#counts[1] > 1 and #counts[1][1] == 2 and #counts[1][1][1] == 64 and #counts[2] == 15)
local sum = 0
for _, b in ipairs(counts[2]) do sum = sum + b[1] end
t.eq(sum, 28 * 16 * 16, "each pixel of the validation is one prediction")
t.eq(counts[4][1][1][1], 28 * 16 * 16)
local c = counts[5][1][1]
t.eq(c[1] + c[3], 28 * 16 * 16)
t.ok(c[4] > 0 and c[5] > 0 and c[5] < c[6] and c[6] < c[7] and c[7] <= c[1], table.concat(c, " "))

-- stages of evaluations: what reads one has to be such a stage, and what trains none
local function graph(f)
  local g <close> = sp.graph { threads = 1 }
  local data = g.reader { path = "shapes", size = 8, batch = 2, samples = 4, target = "class" }
  local x = g.layers { g.to_float { data.image }, layers = { { "flatten" }, { "linear", data.classes } }, name = "net" }
  return f(g, data, x)
end
graph(function(g, data, x)
  local loss = g.cross_entropy { x, data.label, eval_only = true }
  t.eq(loss.eval_only, true)
  t.eq(x.eval_only, false)
  t.raises("stage 'cross_entropy': eval_only: a training step needs its loss", g.train, g,
    { loss, optimizer = g.sgd {} })
end)
graph(function(g, data, x)
  local twice = g.add { x, x, eval_only = true }
  local l = g.cross_entropy { g.add { x, twice, name = "sum" }, data.label }
  t.raises("stage 'sum' reads 'add', which runs in evaluations only: set eval_only = true on it, too",
    g.train, g, { l, optimizer = g.sgd {} })
end)
graph(function(g, data, x) -- a chain of them, and a graph that trains nothing runs them in its steps
  g.accuracy { g.add { x, x, eval_only = true }, data.label, eval_only = true }
  for _, m in g:steps(1) do t.eq(m.counted, 2) end
end)
graph(function(g)
  t.raises("stage 'more': eval_only: a training step needs its samples", function()
    g.to_float { g.reader { path = "shapes", size = 8, batch = 2, eval_only = true, name = "more" }.image }
    for _ in g:steps(1) do end
  end)
end)

-- figures of little
local f = sp.figures
local c = f.confusion { { 6, 2, 0 }, { 2, 0, 0 }, { 0, 0, 0 } }
t.eq(c.accuracy, 0.6)
t.eq(c.classes[1].f1, 12 / 16)
t.eq(c.macro.f1, 0.375)
t.eq(c.macro.iou, (sp.mean_iou { { 6, 2, 0 }, { 2, 0, 0 }, { 0, 0, 0 } }))
t.eq(c.weighted.recall, 0.6)
t.eq(c.classes[3].there, false)
c = f.confusion { { 0, 0 }, { 0, 0 } }
t.eq(c.accuracy, 0 / 0)
t.eq(c.macro.f1, 0 / 0)
t.eq(c.micro.f1, 0 / 0)
local s = f.scores {
  { { 1, 1, 0, 0 }, { 0, 0, 1, 1 } },
  { { 1, 0, 0, 2 }, { 0, 0, 0, 0 } },
  { { 1, 0, 0, 1 }, { 1, 0, 0, 1 } },
}
t.eq(s.classes[1].auroc, 1.0)
t.eq(s.classes[1].f1, 1.0)
t.eq(s.classes[2].auroc, 0 / 0) -- no positive
t.eq(s.classes[2].average_precision, 0 / 0)
t.eq(s.classes[3].auroc, 0.5) -- ties
t.eq(s.auroc, 0.75)
t.eq(f.calibration { { 0, 0, 0 } }.ece, 0 / 0)
t.eq(f.calibration { { 4, 2, 3 << 24 }, { 0, 0, 0 } }.ece, 0.25)
t.eq(f.calibration { { 4, 2, 3 << 24 }, { 0, 0, 0 } }.bins[2].accuracy, nil)
t.eq(f.boundary { { 4, 2, 2, 2 }, { 0, 0, 0, 0 } }.f1, 2 / 3)
t.eq(f.boundary { { 0, 0, 0, 0 } }.f1, 0 / 0)
t.eq(f.boundary { { 3, 0, 0, 0 } }.f1, 0.0)
-- sums that cancel to little, below 0 and above; 1 is 2^0, bit 312 of the limbs, which begin at 2^-312
local function column(n, values)
  local out = { { n, 0 } }
  for i = 1, 5 do
    out[i + 1] = {}
    for k = 1, 24 do out[i + 1][k] = 0 end
    for k, v in pairs(values[i] or {}) do out[i + 1][k] = v end
  end
  return out
end
local d = f.deviation { column(2, { { [14] = 3 }, { [14] = -1 }, { [14] = 5 }, { [14] = 2 }, { [14] = 4 } }) }
t.eq(d.mae, 1.5)
t.eq(d.bias, -0.5)
t.eq(d.r2, 1 - 5 / 2)
d = f.deviation { column(1, { nil, { [14] = 1 << 40, [15] = -(1 << 16), [13] = -1 } }) }
t.eq(d.bias, -2.0 ^ -24)
d = f.deviation { column(1, { nil, { [14] = -(1 << 40), [15] = 1 << 16, [13] = 1 } }) }
t.eq(d.bias, 2.0 ^ -24)
t.eq(f.deviation { column(0, {}) }.mae, 0 / 0)
local logs = column(4, { { [14] = 2 }, { [14] = 1 }, { [14] = 8 }, { [14] = 20 } })
logs[1], logs[6] = { 4, 0, 3, 2, 1, 2, 3 }, nil
d = f.depth_error { logs }
for name, want in pairs { n = 4, low_targets = 3, low_inputs = 2, abs_rel = 0.5, sq_rel = 0.25, rmse_log = math.sqrt(5), silog = 100.0,
  delta1 = 0.25, delta2 = 0.5, delta3 = 0.75 } do
  t.eq(d[name], want, name)
end
logs[1][2] = 1
t.eq(f.depth_error { logs }.delta1, 0 / 0)
for name, words in pairs { confusion = "a square matrix", scores = "a histogram", calibration = "a table of bins",
  deviation = "a table of sums", depth_error = "a table of sums", boundary = "a table of counts" } do
  for _, odd in ipairs { 5, {}, { 1 }, { { 1 } , { 2 } }, { { "a" } } } do
    t.raises("figures." .. name .. ": " .. words, f[name], odd)
  end
end

-- a run's validations: figures in its lines, its summary, its report; the large tables in none
local function run_of(name, evals, more)
  t.write(dir.path .. "/own.lua", ([[
local sp = require "spcore"
local opt = sp.args({}, { checkpoints = true })
local g <close> = sp.graph(opt)
local mul = g.toy_mul { g.toy_source { batch = 8 }.x }
g:train { g.toy_loss { mul.y }, optimizer = g.toy_sgd {} }
local run <close> = sp.run { graph = g, opt = opt, steps = 2, classes = { "a", "b" },
  settings = { model = { class_names = { "a", "b" } } } }
local evals = { %s }
for step = 0, 1 do run:step(step, { step = step, time = sp.now() + step, n = 8, loss = 2.5 - step, eval = evals[step + 1] }) end
run:finish(run:verdict(evals[2]))
]]):format(evals))
  local code, out, err = t.spcore(dir.path, ("run own.lua --device cpu --out %s %s"):format(name, more or ""))
  t.eq(code .. err, "0", out)
  local lines = {}
  for line in io.lines(("%s/%s/metrics.jsonl"):format(dir.path, name)) do lines[#lines + 1] = sp.json.decode(line) end
  t.eq((t.spcore(dir.path, "report " .. name)), 0)
  return out, lines, sp.json.read(("%s/%s/summary.json"):format(dir.path, name)),
    t.read(("%s/%s/report.html"):format(dir.path, name))
end
local bins = "reliability = { { 4, 1, 1 << 24 }, { 4, 4, 3 << 24 } }"
local function labels(k) -- of two classes, several a sample; the second has no positive
  return ("{ n = 8, scores = { { { 3, 1 }, { %d, %d } }, { { 8, 0 }, { 0, 0 } } }, %s }"):format(4 - k, k, bins)
end
local out, lines, sum, html = run_of("labels", labels(1) .. "," .. labels(4))
t.match(out, "step 1/2  loss 2.5000  val mAP 0.500\n")
t.match(out, "best mAP 0.8000 at step 2\nvalidation: F1 0.8889, precision 0.8000, recall 1.0000, AUROC 0.8750, mAP 0.8000, "
  .. "ECE 0.1250, MCE 0.2500\nlabels: validation mAP 0.8000\n$")
t.eq(lines[1].eval.auroc, 0.5)
t.eq(lines[2].eval.map, 0.8)
t.eq(lines[2].eval.scores, nil)
t.eq(lines[2].eval.class_scores[1].f1, 8 / 9)
t.eq(sum.evaluation.ece, 0.125)
t.eq(sum.evaluation.scores, nil)
t.eq(sum.best.metric, "map")
t.match(html, "a class is predicted from a probability of 1/2 on.-<th>F1</th>.->precision</th>.->recall</th>.->AUROC</th>"
  .. ".-<td>a</td>.->0.889<.->0.800<.->1.000<.->0.875<.-<td>b</td>.->%-<")
t.match(html, "<h2>Reliability</h2>.-0.1250 apart on average.-0.00 to 0.50</td>.->0.250<.->0.250<.->4<.-0.50 to 1.00</td>"
  .. ".->1.000<.->0.750<")
t.match(html, "<b>mAP</b>")
t.ok(not html:find "Probabilities are too") -- of 8 predictions
t.ok(not html:find "<b>precision</b>" and not html:find "[<>]nan")
html = select(4, run_of("sure", "nil, { n = 200, top1 = 120, topk = 150, counted = 200, reliability = { { 0, 0, 0 }, "
  .. "{ 200, 120, 180 << 24 } } }"))
t.match(html, "Probabilities are too high: 90 %% on average, where 60 %% of the predictions are right %(ECE 0.3000%)%..-label%-smoothing")
out, lines, sum, html = run_of("cls", ("{ n = 8, top1 = 5, topk = 7, counted = 8, counts = { { 3, 1 }, { 2, 2 } }, %s },"
  .. "{ n = 8, top1 = 6, topk = 7, counted = 8, counts = { { 3, 1 }, { 1, 3 } }, scores = { { { 3, 1 }, { 1, 3 } }, "
  .. "{ { 4, 0 }, { 4, 0 } } }, %s }"):format(bins, bins), "--best-by ece")
t.match(out, "best ECE 0.1250 at step 1:[^\n]*\nvalidation: accuracy 0.7500, F1 0.7500, precision 0.7500, recall 0.7500, "
  .. "AUROC 0.6250, mAP ")
t.eq(lines[2].eval.class_scores[1].f1, nil) -- the matrix has it, of the best class
t.match(html, "<th>F1</th>.->AUROC</th>.->average precision</th>.-<td>[ab]</td>.->0.750<")
out, lines, sum, html = run_of("seg",
  "nil, { n = 2, counts = { { 30, 10 }, { 20, 40 } }, boundaries = { { 4, 2, 2, 2 }, { 0, 0, 0, 0 } } }")
t.match(out, "validation: mean IoU 0.5357, Dice 0.6970, boundary F1 0.6667\nIoU of each class")
t.match(html, ">Dice</th>.->boundary F1</th>.-<td>a</td>.->0.500<.->0.667<.->0.667<.-<td>b</td>.->0.571<")
local function measured(k)
  local function row(v) return ("{ [14] = %d }"):format(v) end
  return ("{ n = 2, deviations = { grid { { 2 }, %s, %s, %s, %s, %s } } }"):format(row(2 * k), row(-k), row(4 * k * k), row(2), row(4))
end
local grid = "(function(rows) for r = 1, 6 do local out = { rows[r][1] or 0, 0 } for i = 1, 24 do out[i] = rows[r][i] or 0 end "
  .. "rows[r] = out end return rows end)"
out, lines, sum, html = run_of("numbers", ((measured(3) .. "," .. measured(2)):gsub("grid ", function() return grid end)))
t.match(out, "validation: MAE 2.0000, RMSE 2.8284, bias %-1.0000, R2 %-7.0000\nnumbers: validation RMSE 2.8284\n$")
t.eq(lines[1].eval.mae, 3.0)
t.eq(lines[2].eval.deviations, nil)
t.eq(lines[2].eval.columns[1].rmse, 8 ^ 0.5)
t.match(html, '<h2>Numbers</h2>.-<td>a</td><td class="n">2</td><td class="n">2.828</td><td class="n">%-1</td><td class="n">%-7</td>')
t.match(t.read(dir.path .. "/numbers/summary.json"), '"rmse"')

-- --metrics: what a network does not have, and slips; --best-by has its stage without being asked for
for line, words in pairs {
  ["train_cls.lua --metrics f1,aurc"] = "%-%-metrics aurc: this network's validations have no such metric; they may have auroc, ece, .-; "
    .. "did you mean 'auroc'%?",
  ["train_cls.lua --metrics boundary_f1"] = "%-%-metrics boundary_f1: this network's validations have no such metric",
  ["train_seg.lua --metrics mae"] = "%-%-metrics mae: this network's validations have no such metric",
  ["train_cls.lua --best-by boundary_f1"] = "%-%-best%-by boundary_f1: this network's validations have no such metric; they may have auroc",
} do
  local code, _, err = t.spcore(dir.path, "run " .. line .. " --size 16 --samples 16 --quiet")
  t.eq(code, 2, line)
  t.one_line(err, words)
end
do -- many classes: what is left out is said, what was asked for refused
  local measure, said, added = require "spcore.measure", {}, {}
  local g = setmetatable({ notice = function(_, fmt, ...) said[#said + 1] = fmt:format(...) end },
    { __index = function(_, stage) return function(t) added[#added + 1] = stage .. (t.bins or "") end end })
  local function add(classes, metrics)
    said, added = {}, {}
    measure.add(g, { metrics = metrics, best_by = "auto" }, { kind = "class", logits = 1, targets = 1, classes = classes })
    return table.concat(added, " ") .. "|" .. table.concat(said, "|")
  end
  t.eq(add(10, "auto"), "score_histogram4096 calibration|")
  t.eq(add(1000, "ece"), "calibration|")
  t.eq(add(10, "none"), "|")
  t.eq(add(1000, "auto"),
    "score_histogram128 calibration|validations have no F1, precision and recall: there are 1000 classes; they are counted for up to 100")
  t.match(add(1001, "auto"), "^calibration|.*|validations have no AUROC and mAP: there are 1001 classes; they are counted for up to 1000$")
end
local small = " --size 16 --batch 8 --samples 32 --width 4 --levels 1 --device cpu --threads 1 --quiet --pictures 0"
t.eq((t.spcore(dir.path, "run train_cls.lua --steps 2 --eval-every 1 --metrics none --best-by auroc --out by" .. small)), 0)
t.match(t.read(dir.path .. "/by/summary.json"), '"metric": "auroc"')
t.match(t.read(dir.path .. "/by/summary.json"), '"f1": ') -- of the matrix, which is there anyhow
t.ok(not t.read(dir.path .. "/by/summary.json"):find '"ece"')
t.ok(not t.read(dir.path .. "/by/metrics.jsonl"):find '"scores"')
t.eq((t.spcore(dir.path, "run train_seg.lua --steps 2 --eval-every 1 --metrics boundary_f1,ece --train-encoder --out masks" .. small)), 0)
local one = sp.json.read(dir.path .. "/masks/summary.json").evaluation
t.ok(one.boundary_f1 >= 0 and one.ece > 0 and one.dice > 0 and one.auroc == nil)
