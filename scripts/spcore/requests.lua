-- SPDX-License-Identifier: MIT
-- What a graph does with requests: g:results, g:submit, g:answers, g:cancel, g:requests.
local core = require "spcore.core"
local words = require "spcore.words"

local requests = {} -- methods of a graph

-- g:results{ output, ..., raw = true }: steps, and the answers to requests, have these too. raw: as strings.
function requests:results(t)
  if type(t) ~= "table" or core.kind(t) then core.fail "g:results{ output, ... }: a table is wanted" end
  for k, v in next, t do
    if math.type(k) == "integer" then
      if not core.kind(v) then core.fail(("g:results{}: item %d is a %s, not an output"):format(k, type(v))) end
    elseif k ~= "raw" then
      words.unknown("g:results{} has no option", k, { raw = true })
    end
  end
  for _, ref in ipairs(t) do self._raw:result(ref) end
  if t.raw ~= nil then self._raw:raw_results(t.raw) end
end

local request_keys = { name = true, deadline = true, path = true, second = true, window = true, tag = true }

-- As the core takes it; a file's name is form 1 of image_requests, a window of it form 2: see spcore.windows.
local function checked(t)
  if type(t) ~= "table" then core.fail(("a request is a table, got a %s"):format(type(t))) end
  for k in next, t do
    if math.type(k) ~= "integer" and not request_keys[k] then words.unknown("a request has no field", k, request_keys) end
  end
  if t.path == nil then return t end
  if type(t.path) ~= "string" then core.fail(("a request's path is a string, got a %s"):format(type(t.path))) end
  if #t > 0 then core.fail "a request has a path or bytes, not both" end
  if t.second ~= nil and type(t.second) ~= "string" then
    core.fail(("a request's second path is a string, got a %s"):format(type(t.second)))
  end
  local path = t.second and t.path .. "\0" .. t.second or t.path
  if t.window then return { t.window.packed .. path, form = 2, name = t.name, deadline = t.deadline } end
  return { path, form = 1, name = t.name, deadline = t.deadline }
end

-- In the order of submission: key is a ticket, or the request itself where it was refused.
local function enqueue(self, key, t)
  local queue = self._asked
  queue.last = queue.last + 1
  queue[queue.last] = key
  queue.request[key] = t
end

local function submit(self, t)
  local ticket, why, word = self._raw:submit(checked(t))
  if ticket then enqueue(self, ticket, t) end
  return ticket, why, word
end

-- g:submit{ bytes, ... | path = FILE, second = FILE, name =, deadline = seconds, tag = anything } -> ticket | nil, why, "full" or "refused"
function requests:submit(t) return submit(self, t) end

-- g:cancel(ticket) -> true | nil, why
function requests:cancel(ticket)
  if math.type(ticket) ~= "integer" then
    core.fail(("g:cancel(ticket): the number that g:submit gave is wanted, got a %s"):format(type(ticket)))
  end
  return self._raw:cancel(ticket)
end

-- Counts, times in seconds and the histogram of answers; { clear = true }: they begin anew.
function requests:request_stats(t)
  words.check_keys("g:request_stats", t or {}, { clear = true })
  return self._raw:request_stats(t and t.clear)
end

local function absorb(self)
  for _, answer in ipairs(self._raw:take_answers()) do self._asked.answer[answer.ticket] = answer end
end

-- The answer whose turn it is, if it has come.
local function next_answer(self)
  local queue = self._asked
  local key = queue[queue.first]
  local answer = key and queue.answer[key]
  if not answer then return nil end
  queue[queue.first] = nil
  queue.first = queue.first + 1
  answer.request, queue.request[key], queue.answer[key] = queue.request[key], nil, nil
  return answer
end

-- Requests of a producer, as many as the queue takes; false: it has no more.
local function fill(self, producer)
  local queue = self._asked
  while self._raw:room() do
    local t = queue.held or producer()
    queue.held = nil
    if t == nil then return false end
    local ticket, why, word = submit(self, t)
    if not ticket and word == "full" then
      queue.held = t
      return true
    elseif not ticket then -- a request that does not fit is answered in its turn, and the others go on
      enqueue(self, t, t)
      queue.answer[t] = { status = "refused", error = why }
    end
  end
  return true
end

-- for answer in g:answers(producer) do ... end: an answer to each request, in the order of submission. producer() gives the
-- next request, or nil at the end; without one those are answered that were submitted, and what others submit.
function requests:answers(producer)
  if producer ~= nil and type(producer) ~= "function" then
    core.fail(("g:answers: a function that gives requests is wanted, got a %s"):format(type(producer)))
  end
  self:_apply()
  local raw, running = self._raw, true
  raw:begin(0)
  raw:attach(producer ~= nil)
  local function pass()
    if producer and not fill(self, producer) then producer = nil end
    raw:attach(producer ~= nil)
    running = raw:next() ~= nil
    absorb(self)
  end
  return function()
    local answer = next_answer(self)
    while not answer and running do
      pass()
      answer = next_answer(self)
    end
    return answer
  end, nil, nil, setmetatable({}, { __close = function()
    raw:attach(false)
    raw:stop()
    absorb(self)
  end })
end

return requests
