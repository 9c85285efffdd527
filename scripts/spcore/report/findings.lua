-- SPDX-License-Identifier: MIT
-- What a run's figures say, in words, each with what to do.
local classes = require "spcore.report.classes"
local sys = require "spcore.sys"
local w = require "spcore.report.words"
local words = require "spcore.words"

local findings = {}

local function percent(part, all) return ("%.0f %%"):format(100 * part / all) end

local function mean(points, from, to)
  local sum, n = 0, 0
  for i = math.max(1, from), math.min(#points, to) do
    if points[i][2] == points[i][2] then sum, n = sum + points[i][2], n + 1 end
  end
  return n > 0 and sum / n or nil
end

local function resume_of(run)
  if run.settings.options.checkpoint_every then
    return ("Resume it: spcore run %s --resume %s"):format(run.settings.script, run.dir)
  end
  return "Look at what the run printed."
end

local function of_state(run, add)
  if run.state == "cut short" then
    add("bad", ("The run ended after step %d of %d, and nothing says why: it was killed, or the machine went down."):format(run.steps,
      run.planned), resume_of(run))
  end
  local stopped = run.stopped
  if stopped and stopped.kind == "error" then
    add("bad", ("The run ended after step %d by an error: %s"):format(stopped.steps, stopped.why), resume_of(run))
  elseif stopped then
    add("note", ("The run ended after step %d%s, by %s."):format(stopped.steps, run.planned and " of " .. run.planned or "",
      stopped.why), resume_of(run))
  end
  local early = run.summary and run.summary.stopped_early
  if type(early) == "table" and type(early.step) == "number" then
    add("note", ("The run ended early, at step %d: %s validations were no better than the best one."):format(early.step + 1,
      w.figure(early.validations)), "--patience asked for it; with more patience it would have gone on.")
  end
  if run.steps == 0 then add("bad", "No step is in metrics.jsonl.", "Look at what the run printed.") end
  if run.steps > 0 and run.steps < 50 then
    add("note", ("The run has %d step%s."):format(run.steps, run.steps == 1 and "" or "s"),
      "Figures of so few say little of speed: the first ones warm up.")
  end
end

local function of_loss(run, add)
  local loss = run.curves.loss
  if not loss then return end
  local begun, most, at, lost = loss[1][2], -math.huge, nil, nil
  for _, p in ipairs(loss) do
    if p[2] ~= p[2] then lost = lost or p[1]
    elseif p[2] > most then most, at = p[2], p[1] end
  end
  local lr = run.settings.options.lr
  local is_given = table.concat(run.settings.given or {}, " "):find "%f[%w_]lr%f[^%w_]" ~= nil
  local smaller = "Take a smaller --lr" .. (type(lr) ~= "number" and "." or
    (is_given and " than %.4g, or leave it out: the script has its own." or " than %.4g, such as %.2g."):format(lr, lr / 10))
  if lost then add("bad", ("The loss is not a number from step %d on."):format(lost + 1), smaller) end
  if begun == begun and begun > 0 and most > 5 * begun then
    add("bad", ("The loss exploded: %s at step %d, %.0f times that of the first step, %s."):format(w.figure(most), at + 1,
      most / begun, w.figure(begun)), smaller)
  end
  local part = math.max(1, #loss // 10)
  local first, last = mean(loss, 1, part), mean(loss, #loss - part + 1, #loss)
  if not lost and run.summary and type(run.summary.loss) ~= "number" or last == nil and not lost then
    add("bad", "The loss is not a number at the end.", "Take a smaller --lr, or look for labels and images that are wrong.")
  elseif #loss >= 50 and first and last and last >= first then
    add("bad", ("The loss did not fall: %.4g at the beginning, %.4g at the end."):format(first, last),
      "Try another --lr; see whether images and labels belong together: spcore data DIR --check.")
  end
end

local function of_validations(run, add)
  local best = run.best
  local curve = best and run.validations[best.metric]
  if run.pauses > 0.2 * run.seconds then
    add("note", ("Validations took %s of the time."):format(percent(run.pauses, run.seconds)),
      "A larger --eval-every makes them rarer.")
  end
  if not curve or #curve < 2 or type(best.value) ~= "number" then return end
  local last = curve[#curve]
  local worse = math.abs(last[2] - best.value) / math.max(1e-12, math.abs(best.value))
  if best.step < last[1] and worse > 0.01 then
    add("note", ("The best %s, %s, was at step %d; at the end it is %s."):format(w.name(best.metric), w.metric(best.metric, best.value),
      best.step + 1, w.metric(best.metric, last[2])), sys.there(run.dir .. "/best.safetensors")
      and "best.safetensors has those weights: predict with --best. --patience N ends such a run early."
      or "--checkpoint-every keeps the weights of the best validation; --patience N ends such a run early.")
  end
end

-- Validation gets worse while training still gets better.
local function of_overfitting(run, add)
  local train, val = run.curves.loss, run.validations.loss
  if not train or not val or #val < 4 then return end
  local at, least = 1, math.huge
  for i, p in ipairs(val) do
    if p[2] < least then at, least = i, p[2] end
  end
  local last = val[#val]
  local before, part = {}, math.max(1, #train // 10)
  for _, p in ipairs(train) do
    if p[1] <= val[at][1] then before[#before + 1] = p end
  end
  local then_loss, now = mean(before, #before - part + 1, #before), mean(train, #train - part + 1, #train)
  if at < #val - 1 and least > 0 and last[2] > 1.1 * least and then_loss and now and now < then_loss then
    add("note", ("The network learns its training images by heart: since step %d the loss of validations rose from %s to %s, while "
      .. "that of the training fell from %s to %s."):format(val[at][1] + 1, w.figure(least), w.figure(last[2]), w.figure(then_loss),
      w.figure(now)), "More images, augmentation, --dropout or a smaller network help; --patience N ends such a run.")
  end
end

-- Classes that are never found, and those that the validation has none of.
local function of_classes(run, add)
  local list = classes.of(run)
  local never, absent = {}, {}
  for _, c in ipairs(list or {}) do
    if c.support == 0 then absent[#absent + 1] = c.name
    elseif c.recall == 0 then never[#never + 1] = c.name end
  end
  if #never > 0 then
    local what = list.by == "f1" and "recall" or "IoU"
    add("bad", ("%s of %d classes %s never found, %s 0: %s."):format(#never, #list, #never == 1 and "is" or "are", what,
      w.some(never, 6)), ("Train longer; see how rare %s, and whether the labels are right: spcore data DIR --check."):format(
      #never == 1 and "it is" or "they are"))
  end
  if #absent > 0 then
    add("note", ("The validation has no %s of %s."):format(list.by == "f1" and "sample" or "pixel", w.some(absent, 6)),
      #absent == 1 and "Nothing is known of it: put samples of it into the validation, or take its name out."
      or "Nothing is known of them: put samples of them into the validation, or take their names out.")
  end
end

-- Probabilities that say another thing than how often predictions are right.
local function of_calibration(run, add)
  local r, sure, right, n = classes.reliability(run), 0, 0, 0
  for _, b in ipairs(r and r.bins or {}) do
    if b.samples > 0 then sure, right, n = sure + b.samples * b.confidence, right + b.samples * b.accuracy, n + b.samples end
  end
  if n < 100 or r.ece < 0.1 then return end
  local over = sure > right
  add("note", ("Probabilities are %s: %.0f %% on average, where %.0f %% of the predictions are right (ECE %s)."):format(
    over and "too high" or "too low", 100 * sure / n, 100 * right / n, w.share(r.ece)), over
    and "--label-smoothing, augmentation or more images help, where the probabilities themselves are used."
    or "Longer training helps, where the probabilities themselves are used.")
end

local function of_speed(run, add)
  local s = run.speed
  if s.median and s.low < 0.7 * s.median and #run.rate >= 50 then
    add("note", ("The speed is uneven: a tenth of the run went at %.4g steps/s or less, half of it at %.4g."):format(s.low,
      s.median), "Something else had the machine, or the reader could not keep up: --trace FILE shows which.")
  end
end

-- Of several ranks: who the others wait for, or that all wait for what lies between them.
local function of_ranks(run, add)
  local s = run.slowest
  local step = s and run.speed.median and 1000 / run.speed.median
  if not step then return end
  if s.often > 0.8 and s.ms > 0.1 * step then
    add("note", ("Rank %d is the slowest: +%s of %s ms a step, for which the others wait."):format(s.rank,
      words.ms(s.ms), words.ms(step)),
      "Look at what else its host or its processors do; --trace FILE shows all ranks.")
  elseif s.comm > 0.3 and not tostring(run.settings.device):find "^cuda" then -- of a GPU it says nothing of what runs beside it
    add("note", ("Ranks wait for each other %s of the time."):format(percent(s.comm, 1)),
      "A larger --batch has fewer exchanges; on one host give each rank its part of the processors: --threads.")
  end
end

local function of_overlap(run, add)
  local frozen
  for _, stage in ipairs(run.settings.stages or {}) do frozen = frozen or stage.frozen and stage.name end
  if frozen and run.settings.strategy == "serialized" then
    add("note", ("Stage '%s' is frozen, and nothing overlaps."):format(frozen),
      "--strategy auto measures whether it pays to run it ahead; the result is the same, bit for bit.")
  end
end

-- Of a trace: which lane the others wait for, and what of it.
local function of_trace(run, add)
  local t = run.trace
  local f = t and t.figures
  if not f or not f.step or not f.longest_lane or t.hidden then return end
  if f.longest < 0.7 * f.step and f.sum < 0.9 * f.step then
    add("note", ("Stages work %.3g of %.3g ms a step; the rest passes between them."):format(f.sum, f.step),
      "Small steps are bound by the host: a larger --batch, or --capture on a GPU.")
  end
  local first, all = nil, 0
  for _, c in ipairs(t.calls) do
    if c.lane == f.longest_lane then
      first = first or c
      all = all + c.ms
    end
  end
  if not first or all <= 0 or first.ms < 0.6 * all or f.longest < 0.5 * f.step then return end
  local reads = false
  for _, stage in ipairs(run.settings.stages or {}) do reads = reads or stage.name == first.stage and stage.stage == "reader" end
  if reads then
    add("note", ("The reader is what the others wait for: %.3g of %.3g ms a step."):format(first.ms, f.step),
      "More --workers, a smaller size, or files that decode faster.")
  else
    add("note", ("'%s' takes %s of the longest lane, %s."):format(first.what, percent(first.ms, all), f.longest_lane),
      "What else overlaps with it gains little; it is where speed is to be had.")
  end
end

-- A list of { kind = "bad" or "note", text =, cure = }, the bad ones first.
function findings.of(run)
  local out = {}
  local function add(kind, text, cure) out[#out + 1] = { kind = kind, text = text, cure = cure } end
  of_state(run, add)
  of_loss(run, add)
  of_validations(run, add)
  of_overfitting(run, add)
  of_classes(run, add)
  of_calibration(run, add)
  of_speed(run, add)
  of_ranks(run, add)
  of_overlap(run, add)
  of_trace(run, add)
  local sorted = {}
  for _, kind in ipairs { "bad", "note" } do
    for _, f in ipairs(out) do sorted[#sorted + 1] = f.kind == kind and f or nil end
  end
  return sorted
end

return findings
