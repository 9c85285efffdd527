-- SPDX-License-Identifier: MIT
-- JSON there and back, what is no JSON, mean IoU and accuracy, misuse of these and other small functions.
-- once: functions of Lua
local sp = require "spcore"
local t = require "check"
local json = sp.json

t.eq(json.encode { b = { 1, 2.5, "x" }, a = true }, '{"a":true,"b":[1,2.5,"x"]}')
t.eq(json.encode {}, "{}")
t.eq(json.encode { a = json.list {}, b = json.list { 1, json.list {} } }, '{"a":[],"b":[1,[]]}')
t.eq(json.encode("a\"\\\n\1\127"), '"a\\"\\\\\\n\\u0001\\u007f"')
t.eq(json.encode("\xff"), '"?"')
t.eq(json.encode(0.1), "0.1")
t.eq(json.encode(1 / 3), "0.3333333333333333")
t.eq(json.encode { 0 / 0, { a = -(0 / 0) } }, '[null,{"a":null}]')
t.eq(json.encode(math.huge), '"inf"')
t.eq(json.encode({ a = { b = 1 } }, true), '{\n  "a": {\n    "b": 1\n  }\n}')
t.raises("JSON: the key '1.5', a number, in a table that is no list", json.encode, { [1.5] = 2 })
t.raises("JSON: a list of 2 items has the key 'best' as well", json.encode, { 10, 20, best = 3 })
t.raises("JSON: a list of 0 items has the key 'a' as well", json.encode, { x = json.list { a = 1 } })
t.eq(json.encode { 1, 2, shape = { 2, 1 } }, "[1,2]") -- as g:weight gives it
t.raises("JSON: a list of 2 items has the key 'shape' as well", json.encode, { 1, 2, shape = { 3 } })
t.raises("JSON: item 2 of a list of 3 is nil", json.encode, { 1, nil, 3 })
t.raises("JSON: a list of 3 items has the key 'x' as well", json.encode, { 1, nil, 3, x = 1 }) -- as many keys as items
t.raises("JSON: a function cannot be written", json.encode, { f = print })
t.raises("list%(t%): a table is wanted, got a number", json.list, 5)

local v = json.decode ' { "a" : [ 1 , -2.5e1, "\\u00e9\\ud83d\\ude00\\n" , true, null ], "b": {} } '
t.eq(math.type(v.a[1]), "integer")
t.eq(v.a[2], -25.0)
t.eq(v.a[3], "\u{e9}\u{1F600}\n")
t.eq(v.a[4], true)
t.eq(next(v.b), nil)
for _, text in ipairs { "[1,null,3]", "[null]", "[[],{}]", '{"a":[],"b":{}}', "[0,-1.5,100,0.5]" } do
  t.eq(json.encode(json.decode(text)), text)
end
t.eq(#json.decode "[null,2,null]", 3)
t.eq(json.decode "[null]"[1], 0 / 0)
t.eq(next(json.decode '{"a":null}'), nil)
for i = 1, 200 do
  local x = (i * 0.37) ^ 5 / 3
  t.eq(json.decode(json.encode(x)), x)
end

for text, message in pairs {
  [""] = "no value", ["{"] = "name in quotes", ["[1"] = "is missing", ["[1 2]"] = "is missing", ['{"a" 1}'] = "':' is",
  ['"abc'] = "without end", ['"\\x"'] = "unknown escape", ['"\\u12"'] = "broken", ['"\\ud800x"'] = "surrogate",
  ["1 2"] = "follows", ["\n\nx"] = "line 3", ["-"] = "no value", [("["):rep(100)] = "deeper than 64",
  ["01"] = "no value", ["-01"] = "no value", ["1."] = "no value", ["[1.e5]"] = "no value",
} do
  local got, why = json.decode(text)
  t.eq(got, nil, text)
  t.match(why, message)
end
t.raises("decode%(text%): a text is wanted, got a number", json.decode, 5)
t.raises("read%(path%): a text is wanted, got a nil", json.read)
local got, why = json.read("/nowhere/x.json")
t.eq(got, nil)
t.match(why, "/nowhere/x.json")

-- IoU: class 3 is nowhere, class 2 is never right
local mean, per_class = sp.mean_iou { { 6, 2, 0 }, { 2, 0, 0 }, { 0, 0, 0 } }
t.eq(per_class[1], 0.6)
t.eq(per_class[2], 0.0)
t.eq(per_class[3], false)
t.eq(mean, 0.3)
t.eq((sp.mean_iou({ { 6, 2 }, { 2, 0 } }, { ignore = { 1 } })), 0.6)
t.eq((sp.mean_iou { { 0, 0 }, { 0, 0 } }), 0 / 0)
for _, counts in ipairs { 5, {}, { 1, 2 }, { { 1, 2 }, { 3 } }, { { 1, "a" }, { 3, 4 } } } do
  t.raises("mean_iou: a square matrix of counts is wanted", sp.mean_iou, counts)
end
local square = { { 1, 2 }, { 3, 4 } }
t.raises("mean_iou: ignore: a list of classes such as { 0 } is wanted, got a number", sp.mean_iou, square, { ignore = 0 })
t.raises("mean_iou: ignore: there is no class 5 %(0 to 1%)", sp.mean_iou, square, { ignore = { 5 } })
t.raises("no option 'ignor'; did you mean 'ignore'", sp.mean_iou, square, { ignor = { 0 } })

local top1, topk = sp.accuracy { top1 = 3, topk = 7, counted = 8 }
t.eq(top1, 0.375)
t.eq(topk, 0.875)
t.eq((sp.accuracy({ ["a.top1"] = 1, ["a.topk"] = 2, ["a.counted"] = 4 }, "a")), 0.25)
t.eq((sp.accuracy { top1 = 0, topk = 0, counted = 0 }), 0 / 0)

-- Other small functions with what they do not take.
t.raises("sp.print: bad argument #2 %(number expected, got string%)", sp.print, "%d", "a")
t.raises("sp.usage: bad argument #2", sp.usage, "%d")
t.raises("sp.pictures: a list of paths is wanted, got a number", sp.pictures, 5)
t.raises("sp.pictures: path 1 is a number, not a text", sp.pictures, { 5 })
t.raises("^[^:]*:%d+: sp.fail%(message%): a text is wanted, got a nil$", sp.fail)
t.raises("^[^:]*:%d+: so$", sp.fail, "so")
