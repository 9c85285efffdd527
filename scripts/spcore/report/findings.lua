-- SPDX-License-Identifier: MIT
-- What a run's figures say, in words, each with what to do.
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

local function of_state(run, add)
  if run.state == "cut short" then
    add("bad", ("The run ended behind step %d of %d."):format(run.steps, run.planned), run.settings.options.checkpoint_every and
      ("Go on with: spcore run %s --resume %s"):format(run.settings.script, run.dir) or "Look at what the run printed.")
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
  local part = math.max(1, #loss // 10)
  local first, last = mean(loss, 1, part), mean(loss, #loss - part + 1, #loss)
  if run.summary and type(run.summary.loss) ~= "number" or last == nil then
    add("bad", "The loss is not a number at the end.", "Take a smaller --lr, or look for labels and images that are wrong.")
  elseif #loss >= 50 and last >= first then
    add("bad", ("The loss did not fall: %.4g at the beginning, %.4g at the end."):format(first, last),
      "Try another --lr; see whether images and labels belong together: spcore data DIR --check.")
  end
end

local function of_validations(run, add)
  local best = run.summary and run.summary.best
  local curve = best and run.validations[best.metric]
  if run.pauses > 0.2 * run.seconds then
    add("note", ("Validations took %s of the time."):format(percent(run.pauses, run.seconds)),
      "A larger --eval-every makes them rarer.")
  end
  if not curve or #curve < 4 or type(best.value) ~= "number" then return end
  local last = curve[#curve]
  local worse = math.abs(last[2] - best.value) / math.max(1e-12, math.abs(best.value))
  if best.step < 0.7 * last[1] and worse > 0.02 then
    add("note", ("The best %s, %.4g, was at step %d; at the end it was %.4g."):format(best.metric, best.value, best.step,
      last[2]), "best.safetensors has those weights; --patience N ends such a run early.")
  end
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
