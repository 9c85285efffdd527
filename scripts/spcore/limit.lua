-- SPDX-License-Identifier: MIT
-- What limits a step, from a forecast of core/lua/trial.c: { seconds =, host =, lanes = { { name =, source =, busy =, work =,
-- share = { number | false, ... } }, ... } }.
local function milliseconds(seconds) return (seconds < 1 and "%.3g ms" or "%.0f ms"):format(seconds * 1e3) end

-- Who slows a lane down most: it, and how much longer both take together than the longer one alone.
local function partner(f, i)
  local best, most = nil, 0
  for k, other in ipairs(f.lanes) do
    local share = f.lanes[i].share[k]
    if share and share * other.work > most then best, most = k, share * other.work end
  end
  if not best then return nil end
  local a, b = f.lanes[i].work, f.lanes[best].work
  return f.lanes[best], (math.max(a, b) + f.lanes[i].share[best] * math.min(a, b)) / math.max(a, b)
end

-- limit(forecast, place) -> what limits a step, in a word or two for a table and in a sentence; place: what lanes share, such as
-- "the device"
return function(f, place)
  local busiest
  for i, lane in ipairs(f.lanes) do
    if not busiest or lane.busy > f.lanes[busiest].busy then busiest = i end
  end
  local lane = f.lanes[busiest]
  if lane and lane.busy > 0.95 * f.seconds then
    local other, times = partner(f, busiest)
    if other and lane.work < 0.93 * lane.busy then
      return ("%s and %s share %s"):format(lane.name, other.name, place),
        ("lanes %s and %s both fill %s: together they take %.2f times as long as the longer one alone"):format(lane.name,
          other.name, place, times)
    end
    if lane.source then
      return "reader " .. lane.name, ("%s takes %s of a step whatever else is done"):format(lane.name,
        milliseconds(lane.work))
    end
    return "lane " .. lane.name, ("lane %s alone takes %s of a step"):format(lane.name, milliseconds(lane.work))
  end
  if f.host > 0.9 * f.seconds then
    return "host", ("the host needs %s to submit a step"):format(milliseconds(f.host))
  end
  return "waits", "each step waits for the one before"
end
