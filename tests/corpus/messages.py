# SPDX-License-Identifier: MIT
# once: words
# needs: onednn images jansson libarchive
# needs no torch
"""Every message that says what to type: a case prints it, types that in the same command, and the message is gone.

templates.py finds the messages in the sources. One with an option, or with a parameter between backquotes, that no case of this folder has
cured fails this test by name. To add a case: c.cures(COMMAND, QUOTE, CURE...), see kit.py, or a row of `snippets` for what only a script
can give; a case of another file counts as well, where an error has its cure in parentheses. What the other files have printed stands in
their logs, which make writes before this test runs."""
import fnmatch
import importlib.util
import os
import re
import shutil
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import kit
import templates
from kit import BUILD, Case, case
import message_cases  # noqa: F401
from message_table import UNREACHED

# Where the libraries of what is imported are not there, most cases of imports.py are left out.
TOOLS_RAN = all(importlib.util.find_spec(name) for name in ("pyarrow", "lmdb"))

SEG = "run train_seg.lua --size 16 --batch 4 --steps 1 --pictures 0 --quiet --width 2 --levels 1 --train-encoder"
CLS = "run train_cls.lua --size 16 --batch 4 --steps 1 --pictures 0 --quiet --width 2 --levels 1 --augment none"
SMALL = "--size 16 --samples 16 --batch 4 --steps 1 --pictures 0 --explain"


def pairs(c, name, n, size=8, classes=2):
    for k in range(n):
        c.image(f"{name}/images/{k}.png", size)
        c.image(f"{name}/masks/{k}.png", c.labels(size, size, classes))
    c.write(f"{name}/classes.txt", "".join(f"class {k}\n" for k in range(classes)))


def run_of(c, line, name):
    c.run(f"{line} --samples 16 --out {name}")


@case
def options_of_training(c):
    "options of the training scripts that do not go together"
    seg, cls = f"run train_seg.lua {SMALL}", f"run train_cls.lua {SMALL}"
    c.cures(seg + " --false-positives 0.1 --loss dice", "--false-positives: goes with --loss tversky, not with dice", "--loss tversky", status=2)
    c.cures(seg + " --label-smoothing 0.1 --loss dice", "--label-smoothing: goes with --loss cross_entropy", "--loss cross_entropy", status=2)
    c.cures(seg + " --cache host --train-encoder", "--cache host: goes with a frozen encoder", ("--train-encoder", None), status=2)
    c.cures(seg + " --output-stride 8", "goes with --backbone NAME", ("--backbone NAME", "--backbone resnet18 --train-encoder --model fcn"),
            ("--output-stride", None), status=2)
    c.cures(seg + " --size 64 --backbone resnet18 --train-encoder --output-stride 8", "--output-stride: is for --model deeplabv3 and fcn",
            "--model deeplabv3", ("fcn", "--model fcn"), ("--output-stride", None), status=2)
    c.cures(seg + " --backbone resnet18 --train-encoder --width 4 --size 32", "is for the small network; leave it out with --backbone",
            ("--backbone", None), ("--width", None), status=2)
    c.cures(seg + " --augment auto", "a segmentation has no augmentation of its own", "--augment chains/seg.lua", status=2)
    c.cures(seg + " --augment gpu:chains/seg.lua", "the training runs on the cpu", ("gpu:", "--augment chains/seg.lua"))
    c.cures(seg + " --grey", "--grey: the shipped encoder reads colours", "--train-encoder", status=2)
    for script in (seg, cls):
        c.cures(script + " --size 65", "a multiple of 8 is wanted", "--size 64", status=2)
    c.cures(seg + " --width 16", "the shipped encoder has 8", "--train-encoder", ("--width", None), status=2)
    c.cures(seg + " --levels 2", "the shipped encoder has 3", "--train-encoder", ("--levels", None), status=2)
    c.cures(seg + " --kernel 3", "--kernel: goes with --blur X", ("--blur X", "--blur 1"), status=2)
    c.cures(seg + " --flip 0.5 --augment chains/seg.lua", "chains/seg.lua has its own stages; leave it out", ("--flip", None), status=2)
    for script in (seg, cls):
        c.cures(script + " --lr 100", "--lr 100: rates of adamw are from 1e-06 to 0.1 as a rule", ("--lr", None), status=0)
        c.cures(script + " --lr 1e-6 --optimizer sgd", "--lr 1e-06: rates of sgd are from 1e-05 to 2 as a rule", ("--lr", None), status=0)
        for rate in (0, 0.1, 1e-6):
            c.run(f"{script} --lr {rate}", lacks="as a rule")
    c.cures(seg + " --momentum 0.5", "--momentum: goes with --optimizer sgd", "--optimizer sgd", status=2)
    c.cures(seg + " --keep-statistics", "--keep-statistics: the encoder is frozen as a whole", "--train-encoder", status=2)
    for option in "--encoder-lr 0.5", "--freeze 'encoder.levels.0.*'", "--unfreeze levels.0@0.1":
        c.cures(seg + " " + option, option.split()[0] + ": the encoder is frozen as a whole", "--train-encoder", status=2)
        c.run(cls + " " + option, says="groups: encoder.")
    c.cures(cls + " --backbone resnet18 --probe --layer-decay 0.5", "--layer-decay: the encoder is frozen as a whole",
            ("--probe", None), status=2)
    c.cures(cls + " --layer-decay 0.5", "--layer-decay: goes with --backbone NAME", ("--backbone NAME", "--backbone resnet18"), status=2)
    c.run("run train_cls.lua --size 16 --samples 16 --batch 4 --pictures 0 --steps 4 --unfreeze 9",
          says="the run has 4 steps, so these weights stay frozen; unfreeze earlier, or train longer")
    c.cures(cls + " --unfreeze x", "'x' is no part and epochs", "--unfreeze 3", status=2)
    c.cures(cls + " --unfreeze ,", "it names nothing", "--unfreeze 3", status=2)
    c.cures(cls + " --freeze layer1", "here names of weights are wanted", ("--freeze layer1", "--freeze 'encoder.levels.0.*'"), status=2)
    for script, other in ((seg, " --loss dice"), (cls, " --target labels --data n.csv")):
        c.write("n.csv", "file,a,b\n" + "".join(f"{k}.png,{k % 2},1\n" for k in range(8)))
        for k in range(8):
            c.image(f"{k}.png", 8)
        c.cures(script + other + " --class-weights balanced", "--class-weights: goes with", ("--class-weights", None), status=2)
    for k in range(12):
        c.image(f"three/{'abc'[k % 3]}/{k}.png", 8)
    c.cures(cls + " --sampler balanced", "shapes is made up, and has all classes as often", ("--sampler", None), status=2)
    c.cures(cls + " --data three --sampler evenly", '"balanced" or a number of at least 0 for each class is expected', "--sampler 1,2,1")
    c.write("w.csv", "file,label,w\n" + "".join(f"three/{'abc'[k % 3]}/{k}.png,{'abc'[k % 3]},{k % 4}\n" for k in range(12)))
    c.write("w.txt", "# of each image\n" + "".join(f"{k / 4}\n" for k in range(12)))
    draws = cls + " --data w.csv --sampler column:w"
    c.run(draws + " --no-replacement")
    c.cures(cls + " --data three --sampler column:w", "goes by a column of a .csv file, and three is none", ("file:PATH", "--sampler file:w.txt"))
    c.cures(draws + " --draws 20 --no-replacement", "draws = 20 without replacement, but only", ("--draws", "--draws 5"))
    c.cures(draws.replace("column:w", "each") + " --draws 5", "--draws: goes with --sampler balanced", ("--sampler balanced", "--sampler balanced"), status=2)
    c.run(draws + "eight", 1, 'w.csv has no column "weight"; it has file, label, w', cure=False)
    c.run(draws.replace("column:w", "column:label"), 1, 'w.csv line 2, column 2 (label): "a" is no weight, which is a number of at least 0; write 0', cure=False)
    for text, words in (("1\n" * 3, "the file has 3 numbers, but the data 12 samples"), ("0\n" * 12, "are 0, so that none is ever drawn"),
                        ("1\n" * 11 + "-1\n", 'bad.txt line 12: "-1" is no weight'), ("1\n\nnan\n", 'bad.txt line 3: "nan" is no weight')):
        c.write("bad.txt", text)
        c.run(cls + " --data three --sampler file:bad.txt", 1, words, cure=False)
    c.run(cls + " --data three --sampler file:no.txt", 1, "there is no file no.txt", cure=False)
    c.cures(seg + " --class-weights balanced", "shapes is made up and has nothing to count", ("--class-weights", None), status=2)
    pairs(c, "d", 8)
    c.cures(seg + " --data d --sampler balanced", "goes by the class of each image, and d has none with this target", "--sampler ''")
    c.cures(seg + " --data d --class-weights 1", "there are 2 classes (class 0, class 1), and 1 number;", "--class-weights balanced", status=2)
    c.run(seg + " --data d --class-weights 1,x", 2, "'x' is no number of at least 0; balanced, or a number for each class are expected")
    c.run(seg + " --data d --class-weights 0,0", 2, "nothing counts; one at least is above 0")
    c.cures(seg + " --override", "--override goes with --resume", ("--override", None), status=2)
    c.cures(seg + " --min-delta 0.1", "--min-delta goes with --patience", ("--patience", "--patience 2 --eval-every 1 --steps 3"), status=2)
    c.cures(seg + " --size 64 --backbone resnet18", "frozen, with random weights, it is of no use", "--train-encoder", status=2)
    c.cures("run reference_cls.lua --size 16 --batch 4 --steps 1 --no-fused --augment none", "--no-fused: goes with an augmentation",
            ("--augment", None), ("--no-fused", None), status=2)
    c.cures("run reference_cls.lua --size 16 --batch 4 --steps 1 --augment gpu --device cpu", "--augment gpu: the training runs on the cpu",
            ("--augment", None))
    for kind in ("seg", "cls"):
        c.cures(f"run train_{kind}.lua --reference --size 16 --batch 2 --steps 1", "'reference' is a script of its own", "spcore run reference_" + kind + ".lua --size 16 --batch 2 --steps 1", status=2)
    c.cures(cls + " --mixup 0.2 --batch 1", "--mixup: mixes the images of a batch, and --batch 1 has one", ("--mixup", None), status=2)
    c.cures(cls + " --cutmix 1 --mixup 1e-3", "--mixup 0.001: 0, or 0.01 and more is expected", ("--mixup", None), status=2)
    c.cures(cls + " --mixup 0.2 --cache host --backbone resnet18 --size 32 --probe --augment none", "without --mixup and --cutmix", ("--cache", None), status=2, then=2)
    c.write("mix.lua", "return { flip {}, mixup {} }")
    c.cures(cls + " --augment mix.lua", "mixup changes labels, of which a chain has none", ("--mixup ALPHA", "--mixup 0.2 --augment none"), status=1)
    c.cures(cls + " --cache host --backbone resnet18 --size 32", "goes with --probe and --augment none", ("--cache", None), status=2)
    c.cures(cls + " --augment gpu --device cpu", "--augment gpu: the training runs on the cpu", ("--augment", None))


@case
def converted_networks(c):
    "a network as a file: what it needs, what it does not go with"
    seg = f"run train_seg.lua {SMALL} --size 32 --train-encoder"
    c.write("n.py", "")
    tap = '{ "conv", 4, kernel = 3, pad = 1, stride = 2 }'
    c.write("n.lua", "return { preprocess = { size = 32, crop = 32, mean = { 0, 0, 0 }, std = { 1, 1, 1 }, interpolation = 'bilinear' }, " + tap.replace(" }", ", tap = true }") + " }")
    c.cures(seg + " --backbone n.lua", "which --model unet reads", "--model fcn")
    c.write("m.lua", "return { preprocess = { size = 32, crop = 32, mean = { 0, 0, 0 }, std = { 1, 1, 1 }, interpolation = 'bilinear' }, " + ", ".join(
        tap.replace(" }", f', name = "l{i}", tap = true }}') for i in range(4)) + " }")
    c.cures(seg + " --backbone m.lua", "reads one of 1/32", "--model fcn")


@case
def runs_and_folders(c):
    "folders of runs, and what goes on"
    pairs(c, "d", 8)
    run_of(c, SEG, "r")
    go = SEG + " --data d"
    c.cures(go + " --out d", "--out: d is not empty", "--out d/run")
    c.cures("run train_seg.lua --resume r --out q", "--resume r: the run has its folder; leave --out away", ("--out", None), status=2)
    c.cures("run train_seg.lua --resume r --lr 0.5", "or take --override", ("--lr", None), status=2)
    c.cures(f"{go} --out p --patience 1", "--patience: there is no validation before the end", ("--eval-every", "--eval-every 1 --steps 3"))
    for name in os.listdir(c.path("r")):
        if name.startswith("checkpoint-"):
            os.remove(c.path("r/" + name))
    c.run("run train_seg.lua --resume r", says="the run is complete, and has no checkpoint to go on from", lacks="--override")
    c.run(f"{SEG} --samples 16 --out s --steps 12 --checkpoint-every 2")
    r = c.run("run train_seg.lua --resume s", says="the run is complete; with --override and other options it goes on")
    c.run(r.line + " --override --steps 14", lacks="the run is complete")
    c.cured |= {t for t in r.text.splitlines() if "with --override" in t}


@case
def all_weights(c):
    "--from: what it does not go with, other classes, a run of another script; data of one's own"
    pairs(c, "d", 8)
    pairs(c, "three", 8, classes=3)
    for k in range(8):
        c.image(f"e/{'ab'[k % 2]}/{k}.png", 8)
    few = " --batch 4 --steps 1 --pictures 0 --quiet --out "
    c.run(f"run train_seg.lua --data d --size 16 --width 4 --levels 2{few}r")
    c.run(f"run train_seg.lua --data d --size 16{few}s")
    cls, seg = "run train_cls.lua --data e --augment none --size 16", "run train_seg.lua --size 16"
    go = f"{seg} --data d{few}q --from "
    c.run(f"{seg} --data three{few}t --from r", 1, "has 2 classes, and here are 3; its encoder alone is taken by --encoder r --width 4 --levels 2", cure=False)
    c.run(f"{seg} --data three{few}t --encoder r --width 4 --levels 2")
    c.run(f"{cls}{few}u --from r", 2, "is a run of train_seg.lua; its encoder alone is taken by --encoder r --width 4 --levels 2")
    c.run(f"{cls}{few}u --encoder r --width 4 --levels 2")
    c.run(f"{seg} --data three{few}v --from s", 1, "; its encoder alone is taken by --encoder s", cure=False)
    c.cures(go + "s --encoder s", "--encoder: --from has all weights; leave one of them out", ("--encoder", None), status=2)
    c.run(go + "nothing", 2, "--from nothing: there is no such run or file")
    c.run("run train_map.lua --data d --from r", 2, "it is a run of train_seg.lua, and one of train_map.lua is wanted")
    c.cures(f"{seg} --data d --batch 4 --steps 1 --pictures 0", "encoder trained, the shipped weights, made for drawn shapes;", "--no-train-encoder", status=0)


@case
def windows(c):
    "predict_seg: windows, and what goes with them"
    c.image("a.png", 24)
    run_of(c, SEG, "r")
    go = "run predict_seg.lua --weights r --out o a.png"
    for name in ("stride 4", "scales 0.5,1"):
        word = name.split()[0]
        c.cures(f"{go} --{name}", f"--{word} goes with --window", ("--window", "--window 8"), (f"--{word}", None), status=2)
    c.cures(go + " --window 8 --decode scaled", "goes with whole images, not with --window", ("--window", None), ("--decode", None), status=2)
    c.cures("run predict_seg.lua a.png", "--weights RUN is missing", ("--weights RUN", "--weights r --out q"), status=2)
    os.remove(c.path("r/best.safetensors"))
    c.cures(go + " --best", "leave --best out", ("--best", None), status=2)


TWO = """
local sp = require "spcore"
local opt = sp.args {}
local g <close> = sp.graph(opt)
local data = g.reader { path = "shapes", split = "train", samples = 16, size = 8, batch = 4 }
local e = g.encoder { g.to_float { data.image }, layers = { { "conv", 4, kernel = 3, pad = 1 } } }
local a = g.decoder { e.features, classes = 6, layers = { { "conv", 6, kernel = 1 } }, name = "left" }
local b = g.decoder { e.features, classes = 6, layers = { { "conv", 6, kernel = 1 } }, name = "right" }
g:train { g.cross_entropy { a.logits, data.mask, ignore_index = 255 }, g.cross_entropy { b.logits, data.mask, ignore_index = 255 },
  optimizer = g.sgd { lr = 0.1 } }
local run <close> = sp.run { graph = g, opt = opt, steps = 1 }
for step, m in g:steps(1) do run:step(step, m) end
run:finish()
"""


@case
def runs_of_others(c):
    "runs of the other script, and of one's own, with two heads"
    c.image("a.png", 16)
    run_of(c, SEG, "r")
    run_of(c, CLS, "k")
    c.write("two.lua", TWO)
    c.run("run two.lua --out two --quiet")
    for run, script, own in (("r", "predict_cls.lua", "predict_seg.lua"), ("k", "predict_seg.lua", "predict_cls.lua"),
                             ("two", "predict_cls.lua", None)):
        line = f"spcore run {own or 'predict_seg.lua'} --weights {run}"
        c.cures(f"run {script} --weights {run} a.png", f"{line} predicts it", (line, line + f" a.png {'' if own else '--output left.logits '}--out o{run}.csv"), status=2)
    c.cures("run predict_seg.lua --weights r --output x a.png", "leave --output out", ("--output", None), status=2)
    c.cures("run predict_seg.lua --weights two --out o a.png", "say which is meant", "--output left.logits", "--output right.logits", status=2)


@case
def labels_of_masks(c):
    "masks of 0 and 255, of one class, from 1, soft, JPEG, in colour: the values that are proposed are taken"
    np = kit.np
    for k in range(12):
        c.image(f"d/images/{k}.png", 8)
        c.image(f"d/masks/{k}.png", (c.labels(8, 8, 2) * 255).astype("uint8"))
    c.write("d/classes.txt", "bg\nfg\n")
    c.cures("data d --check", "Binary masks?", "--mask-values 0=bg,255=fg")
    for k in range(12):
        c.image(f"e/images/{k}.png", 8)
        c.image(f"e/masks/{k}.png", np.zeros((8, 8), "uint8"))
    c.write("e/classes.txt", "thing\n")
    for k in range(12):
        c.image(f"e/images/{k}.png", 8)
        c.image(f"e/masks/{k}.png", (c.labels(8, 8, 2) * 255).astype("uint8"))
    c.write("e/classes.txt", "thing\n")
    r = c.run("data e --check", 1, "there is one class alone, 0 'thing'")
    assert "Put ground and thing into classes.txt, a line each, and give --mask-values 0=ground,255=thing" in r.text
    c.write("e/classes.txt", "ground\nthing\n")
    c.run("data e --check --mask-values 0=ground,255=thing", says="train pixels: ground 50.0 %, thing 50.0 %")
    c.cured |= {line for line in r.text.splitlines() if "is one class alone" in line}
    for k in range(12):
        c.image(f"f/images/{k}.png", 8)
        c.image(f"f/masks/{k}.png", c.labels(8, 8, 2) + 1)
    c.write("f/classes.txt", "a\nb\nc\n")
    c.cures("data f --check", "are these counted from 1?", "--mask-values 1=a,2=b", status=0)


@case
def parts_and_folds(c):
    "folds, parts and fractions: kit.py types what stands in parentheses"
    pairs(c, "d", 20)
    c.run("data d --fold 2", 1, "(--folds 5)")
    c.run("data d --folds 1", 1, "(--folds 5)")
    pairs(c, "e", 2)
    c.cures("data e --val-fraction 0", "leave none for validation", ("--val-fraction", "--val-fraction 0.5"))
    for part in ("train", "test"):
        for name in ("ant", "bee"):
            for k in range(3):
                c.image(f"p/{part}/{name}/{k}.png", 8)
    c.run("data p", says="(--val-fraction 0.1)")
    os.remove(c.path("d/classes.txt"))
    c.cures("data d", "Give classes = N", ("--classes N", "--classes 2"))
    c.cures("inspect --model resnet18 --meta", "which is no stage; take --meta out", ("--meta", None), status=2)


@case
def resources_and_device(c):
    "a device that is not there, several ranks, strategies"
    go = f"run train_seg.lua {SMALL}"
    c.cures(go + " --device cuda", "take --device cpu", "--device cpu", status=2) if "cuda:0" not in c.spcore("devices").out else None
    for line in "schedule train_seg.lua --svg", "schedule train_seg.lua --svg=--json":
        c.cures(line, "--svg: a file is wanted", ("--svg schedule.svg", "spcore schedule train_seg.lua --size 16 --svg schedule.svg"), status=2)
    c.cures("schedule --svg train_seg.lua", "--svg train_seg.lua: a script;",
            ("--svg schedule.svg", "spcore schedule --svg schedule.svg train_seg.lua --size 16"), status=2)
    c.cures("schedule --json --dot train_seg.lua", "one of --json, --dot and --svg", ("--json", "spcore schedule --json train_seg.lua"), ("--dot", "spcore schedule --dot train_seg.lua"), status=2)
    run_of(c, SEG, "r")
    run_of(c, SEG, "q")
    c.cures("diff r q", "has no checksums; run it with --checksums", ("--checksums", lambda: again(c)), status=2)
    c.cures("inspect --size 8", "is for --model", ("--model", "--model resnet18"), status=2)


def again(c):
    for name in "rq":
        shutil.rmtree(c.path(name))
        run_of(c, SEG + " --checksums", name)


@case
def commands(c):
    "commands that want another option"
    run_of(c, SEG, "r")
    c.cures("export r", "--torch DIR or --onnx FILE is wanted", ("--torch DIR", "--torch t"), ("--onnx FILE", "--onnx f.onnx"), status=2)
    c.cures("export r --torch u --with-preprocessing", "goes with --onnx FILE", ("--onnx FILE", "--onnx g.onnx"), status=2)
    c.cures("report r --json --out x.html", "goes with neither --out nor --follow", ("--out", None), ("--json", None), status=2)
    c.folder_of("dir")
    c.cures("report r --out dir", "--out names a file, such as dir/report.html", ("dir/report.html", "--out dir/report.html"), status=2)
    c.cures("data", "a folder of data is wanted; --help says more", "--help", status=2)
    c.cures("run make_shapes.lua s --samples 4 --layout voc --target class", "has masks, not --target class",
            ("--target", None), status=2)
    c.cures("run make_shapes.lua s2 --samples 4 --layout classes --target mask", "has a class for each image, not --target mask",
            ("--target", None), status=2)
    c.cures("run show_augment.lua", "`shapes` is one to begin with", ("shapes", "shapes"),
            "--help", status=2)
    run_of(c, CLS, "k")
    c.image("a.png", 16)
    c.cures("run predict_cls.lua --weights k --out x.csv --top 2 a.png", "--top: goes with --out NAME.json", ("--top", None),
            ("--out NAME.json", "--out y.json"), status=2)


GRAPH = """
local sp = require "spcore"
local opt = sp.args {}
local rows = {
%s
}
local function run(n, how, f)
  local g <close> = sp.graph(opt)
  local data = g.reader { path = "shapes", split = "train", samples = 16, size = 8, batch = 4 }
  local x = g.to_float { data.image }
  local ok, why = pcall(function()
    f(g, data, x)
    for _ in g:steps(1) do break end
  end)
  print(("%%d %%s %%s"):format(n, how, ok and "fine" or tostring(why):gsub("\\n", " ")))
end
for n, row in ipairs(rows) do
  run(n, "bad", row[1])
  run(n, "good", row[2])
end
"""


def snippets(c, rows):
    """(Lua, quote, Lua with the cure) of a graph with data, and x: its images as floats."""
    both = ",\n".join("{ function(g, data, x) %s end, function(g, data, x) %s end }" % (bad, good) for bad, quote, good in rows)
    c.write("rows.lua", GRAPH % both)
    r = c.run("run rows.lua")
    said = {(int(n), how): text for n, how, text in re.findall(r"^(\d+) (bad|good) (.*)$", r.out, re.M)}
    for n, (bad, quote, good) in enumerate(rows, 1):
        assert quote in said[n, "bad"], f"{bad}: '{quote}' is expected\n{said[n, 'bad']}"
        assert said[n, "good"] == "fine", f"{good} cures nothing: {said[n, 'good']}"
        c.cured.add(f"{n} bad {said[n, 'bad']}")


MIXED = """local g <close> = sp.graph { device = "cpu" }
local d = g.reader { path = "shapes", target = "class", samples = 16, size = 8, batch = 4 }
g.mixup { d.image, labels = d.label%s }
for _ in g:steps(1) do break end"""


def layers(*rows):
    return "g.layers { x, layers = { %s } }" % ", ".join(rows)


def trained(stage):
    return ("local d = g.decoder { %s, classes = 6, layers = { { 'conv', 6, kernel = 1 } } } "
            "g:train { g.cross_entropy { d, data.mask, ignore_index = 255 }, optimizer = g.sgd {} }" % stage)


@case
def lists_of_layers(c):
    "lists of layers that a script gives, and graphs of stages"
    conv, relu = '{ "conv", 4 }', '{ "relu" }'
    snippets(c, [
        (MIXED % "", "how many classes the labels have is missing", MIXED % ", classes = 5"),
        (layers('{ "conv" }'), "`out` is missing", layers('{ "conv", out = 8 }')),
        (layers(conv, '{ "relu", from = "a" }'), "but no layer is called so; give one name", layers('{ "conv", 4, name = "a" }', '{ "relu", from = "a" }')),
        (layers('{ "relu", from = "b" }', '{ "conv", 4, name = "b" }'), "a layer knows only what is before it",
         layers('{ "conv", 4, name = "b" }', '{ "relu", from = "b" }')),
        (layers('{ "relu", kernel = 3 }'), "`kernel` is a parameter of", layers(relu)),
        (layers('{ "conv", 4, name = "a" }', '{ "relu", name = "b", from = "a" }', '{ "relu", from = { "a", "b" } }'),
         'put { "add" } or { "concat" } before it',
         layers('{ "conv", 4, name = "a" }', '{ "relu", name = "b", from = "a" }', '{ "add", from = { "a", "b" } }', relu)),
        (layers('{ "conv", 4, name = "a" }', '{ "upsample", size = { 8, 8 }, like = "a" }'), "give either `size` or `like`",
         layers('{ "conv", 4, name = "a" }', '{ "upsample", size = { 8, 8 } }')),
        (layers(conv, '{ "upsample" }'), "give either `scale`, `size` or `like`", layers(conv, '{ "upsample", scale = 2 }')),
        ('g.classifier { x, classes = 2, layers = { { "conv", 4, tap = true }, { "flatten" }, { "linear", 2 } } }', "take `tap` out, or use an encoder",
         'g.encoder { x, layers = { { "conv", 4, tap = true }, { "relu" } } }'),
        (layers('{ "conv", 4, name = "a" }', '{ "relu", from = "input" }'), "name it in a later layer's `from`, or take it out", layers(relu)),
        ('g.encoder { x, model = "unet", layers = { { "conv", 4 } } }', 'give `layers` or model = "unet", not both', 'g.encoder { x, layers = { { "conv", 4 } } }'),
        ('g.encoder { x, model = "unet", levels = 5 }', "cannot be halved 5 times", 'g.encoder { x, model = "unet", levels = 3 }'),
        ('g.classifier { x, model = "residual", classes = 2, levels = 5 }', "or a smaller `levels`", 'g.classifier { x, model = "residual", classes = 2, levels = 2 }'),
        ('g.classifier { x, model = "residual", classes = 2, layers = { { "conv", 4 } } }', "give `layers` or model = ",
         'g.classifier { x, classes = 2, layers = { { "flatten" }, { "linear", 2 } } }'),
        ('g.decoder { g.encoder { x, model = "unet", levels = 1, width = 6 }.features, model = "unet", classes = 2 }', "needs skips (skips = encoder.maps) or `levels`",
         'g.decoder { g.encoder { x, model = "unet", levels = 1, width = 6 }.features, model = "unet", classes = 2, levels = 1 }'),
        ('local e = g.encoder { x, model = "unet", levels = 1, width = 6 } g.decoder { e.features, skips = e.maps, classes = 2, levels = 2 }', "leave `levels` out or wire as many",
         'local e = g.encoder { x, model = "unet", levels = 1, width = 6 } g.decoder { e.features, skips = e.maps, classes = 2 }'),
        ('local e = g.encoder { x, model = "unet", levels = 1, width = 6 } g.decoder { e.features, skips = e.maps, model = "plain", classes = 2 }', "leave them out, or `model`",
         'local e = g.encoder { x, model = "unet", levels = 1, width = 6 } g.decoder { e.features, skips = e.maps, classes = 2 }'),
        ('local e = g.encoder { x, model = "unet", levels = 1, width = 6 } g.decoder { e.features, model = "unet", layers = { { "conv", 2 } }, classes = 2 }',
         'give `layers` or model = "unet", not both',
         'local e = g.encoder { x, model = "unet", levels = 1, width = 6 } g.decoder { e.features, layers = { { "conv", 2 } }, classes = 2 }'),
        ('g.decoder { g.encoder { x, model = "plain", levels = 1, width = 6 }.features, width = 5, classes = 2 }', "choose another `width`, or give `layers`",
         'g.decoder { g.encoder { x, model = "plain", levels = 1, width = 6 }.features, width = 3, classes = 2 }'),
        (trained("g.solarize { x, p = 1 }.images[1]"), "put the stage before normalize, and set max = 255 (--set solarize.max=255) where white is 255",
         trained("g.solarize { x, p = 1, max = 255 }.images[1]")),
        ('g.nosuch { x }', "spcore inspect lists what there is", 'g.to_float { data.image }'),
    ])


# ---- what must be true of all of them ----
def logs():
    """Lines that cases of the other files have said, and have cured; None: they have not run, or some were left out."""
    said, cured = [], []
    folder = os.path.dirname(os.path.abspath(__file__))
    for name in sorted(os.listdir(folder)):
        with open(os.path.join(folder, name), encoding="utf-8") as f:
            if not name.endswith(".py") or name in ("messages.py", "templates.py") or "__main__" not in f.read():
                continue
        path = os.path.join(BUILD, "tests/corpus", name[:-3] + ".log")
        text = ""
        if os.path.exists(path):
            with open(path, encoding="utf-8", errors="replace") as f:
                text = f.read()
        if not re.search(r"^\d+ inputs, \d+ wrong", text, re.M):
            return None, None, f"{path} is no log of its cases"
        said += re.findall(r"^(?:said|cured): (.*)$", text, re.M)
        cured += re.findall(r"^cured: (.*)$", text, re.M)
    return said, cured, None


OWNERS = {"core/cli/cmd_%s.c": "%s", "scripts/%s.lua": "run %s.lua", "scripts/spcore/commands/%s.lua": "%s"}
COMMANDS = "data inspect check schedule diff export bench report timeline devices strategies completion".split()


def options_exist(found):
    """Each option that a message names is one of the command that prints it; of what all share: of any command."""
    scripts = [n[:-4] for n in sorted(os.listdir(os.path.join(templates.TOP, "scripts"))) if n.endswith(".lua")]
    lines = COMMANDS + ["run train_seg.lua --help"] + [f"run {s}.lua" for s in scripts]
    known = {line: kit.options(line) for line in lines}
    every = set().union(*known.values()) | {"--ranks", "--comm-timeout", "--version", "--meta"}
    wrong = []
    for t in found:
        if t.path.startswith("scripts/tools"):
            continue
        of = every
        for pattern, line in OWNERS.items():
            m = re.fullmatch(re.escape(pattern).replace("%s", "(\\w+)"), t.path)
            if m and line % m.group(1) in known:
                of = known[line % m.group(1)] | {"--ranks", "--help", "--trace"}
        missing = {o for o in t.options if o not in of and not o.startswith("--no-") and not re.search(r"spcore |var\(", t.text)}
        if missing and not t.path.startswith("core/base/cure"):
            wrong.append(f"{t}: names {', '.join(sorted(missing))}, which is no option there")
    return wrong


def excused(t, table):
    return next((why for path, quote, why in table if fnmatch.fnmatch(t.path, path) and quote in t.text), None)


def judge(own_said, own_cured):
    every = templates.collect()
    found = [t for t in every if not excused(t, UNREACHED)]
    wrong = options_exist(found) + [f"message_table.py: no message is like {path}, '{quote}' any more" for path, quote, _ in UNREACHED
                                    if not any(fnmatch.fnmatch(t.path, path) and quote in t.text for t in every)]
    said, cured, why = logs()
    if why:
        print(f"messages are not looked for: {why}; make -C BUILD check TESTS=tests/corpus/messages.py runs them all")
        return wrong
    cured_lines, said_lines = cured + sorted(own_cured), said + sorted(own_said)
    typed = [t for t in found if t.typed and (TOOLS_RAN or not t.path.startswith("scripts/tools"))]
    # What the tools in Python propose stands for a file or a number of the user; their cases are all that is asked for.
    without = [t for t in typed if not t.is_in(said_lines if t.path.startswith("scripts/tools") else cured_lines)]
    wrong += [f"no case types the cure of {t}" for t in without]
    spoken = [t for t in found if not t.typed]
    heard = sum(t.is_in(said_lines) for t in spoken)
    print(f"{len(typed)} messages say what to type, {len(typed) - len(without)} of them are cured; "
          f"{len(spoken)} say it in words, {heard} of them are printed here")
    return wrong


def main():
    if len(sys.argv) > 1:
        return kit.main()
    said, cured, bad = kit.run_all()
    wrong = judge(said, cured)
    for line in wrong:
        print("BAD  " + line)
    sys.exit(bool(bad or wrong))


if __name__ == "__main__":
    main()
