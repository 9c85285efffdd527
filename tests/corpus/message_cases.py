# SPDX-License-Identifier: MIT
"""Cases of messages.py: messages of .csv files, of commands, of networks and of what goes on."""
import glob
import os
import re
import shutil
import subprocess

from kit import BUILD, HANG, SPCORE, Image, case, np
from templates import TOP

SEG = "run train_seg.lua --size 16 --batch 4 --steps 1 --pictures 0 --quiet --width 2 --levels 1 --train-encoder"
CLS = "run train_cls.lua --size 16 --batch 4 --steps 1 --pictures 0 --quiet --width 2 --levels 1 --augment none"


def rows(c, name, head, *lines):
    c.write(name, "\n".join((head,) + lines) + "\n")


@case
def columns_of_csv(c):
    ".csv files: columns that are not there, that are classes, numbers or parts"
    for k in range(6):
        c.image(f"{k}.png", 8)
    rows(c, "a.csv", "file,label,split", *(f"{k}.png,{'ab'[k % 2]},train" for k in range(6)))
    c.cures("data a.csv", "no row's split is val", ("--columns split=", "--columns split="))
    rows(c, "hot.csv", "file,ant,bee", "0.png,0,1", "1.png,1,0", "2.png,0,0", "3.png,0,1")
    c.cures("data hot.csv --target class", "no column of a class has a 1", "--missing skip", "--target labels")
    rows(c, "two.csv", "file,ant,bee", "0.png,0,1", "1.png,1,0", "2.png,1,1", "3.png,0,1")
    c.cures("data two.csv --target class", "2 columns of classes have a 1", "--target labels")
    rows(c, "odd.csv", "file,ant,bee,age", "0.png,0,1,7", "1.png,1,0,4", "2.png,0,1,3")
    c.cures("data odd.csv --target labels --columns ant,bee,age", "say which columns are classes", ("--columns NAME,NAME", "--columns ant,bee"))
    rows(c, "vec.csv", "file,label", "0.png,0 1", "1.png,1 0", "2.png,1")
    c.cures("data vec.csv --target labels --set reader.cells=vector", "is no vector of 0 and 1 as long as the others",
            ("--set reader.cells=list", "--set reader.cells=list"))
    rows(c, "no.csv", "path,thing,x", "0.png,3,0.5", "1.png,4,1.5", "2.png,3,1.5")
    c.cures("data no.csv --target class", "no column is called label, and all others are numbers", "--target numbers",
            ("--columns label=NAME", "--columns label=thing"))
    rows(c, "words.csv", "file,w,x", "0.png,1.5,a", "1.png,2.5,b")
    c.cures("data words.csv --target numbers --columns w,x", "say which columns are numbers", ("--columns NAME,NAME", "--columns w"))
    rows(c, "t.csv", "file,w,x", "0.png,1.5,2", "1.png,2.5,3", "2.png,2,3")
    rows(c, "v.csv", "file,w", "3.png,1.5", "4.png,2.5")
    c.cures("data t.csv --val v.csv --target numbers", "name the same in both", ("--columns NAME,NAME", "--columns w"))
    rows(c, "parts.csv", "file,label,split", "0.png,a,train", "1.png,b,val", "2.png,b,train")
    rows(c, "more.csv", "file,label", "3.png,a", "4.png,b")
    c.cures("data parts.csv --val more.csv", "both say what is for validation", ("--columns split=", "--columns split="))
    rows(c, "role.csv", "file,kind,x", "0.png,a,b", "1.png,b,c")
    c.cures("data role.csv --target class", "the first line names", ("--columns label=NAME", "--columns label=kind"))


@case
def places_of_csv(c):
    ".csv files whose paths lead elsewhere"
    for k in range(3):
        c.image(f"photos/{k}.png", 8)
        c.image(f"q/w/e/r/t/{k}.png", 8)
    rows(c, "url.csv", "file,label", *(f"https://example.org/p/{k}.jpg,{'ab'[k % 2]}" for k in range(3)))
    for k in range(3):
        c.image(f"q/w/e/r/t/{k}.jpg", 8)
    c.cures("data url.csv", "is an address, and files are read from this machine",
            ("--root https://example.org/p/=FOLDER", "--root https://example.org/p/=q/w/e/r/t"))
    rows(c, "gone.csv", "file,label", *(f"{k}x.png,{'ab'[k % 2]}" for k in range(3)))
    for k in range(3):
        c.image(f"q/w/e/r/t/{k}x.png", 8)
    c.cures("data gone.csv", "files are looked for from the .csv file's folder on", ("--root FOLDER", "--root q/w/e/r/t"))
    rows(c, "cut.csv", "file,label", *(f"/home/me/photos/{k}.png,{'ab'[k % 2]}" for k in range(3)))
    r = c.run("data cut.csv", says="files are looked for without /home/me/")
    root = re.search(r"\((--root \S+)\)", r.text).group(1)
    c.run(f"data cut.csv {root}", lacks="files are looked for without")
    c.cured |= {line for line in r.text.splitlines() if "are looked for without" in line}


@case
def commands_and_files(c):
    "commands that want a file, and files that are others'"
    c.write("x.json", "{}")
    r = c.run("timeline x.json", 1, "this is no trace of spcore, which spcore run SCRIPT --trace FILE writes")
    c.run(f"{SEG} --samples 16 --out r --trace t.json")
    c.run("timeline t.json", lacks="is no trace")
    none = c.run("timeline", 2, "a trace is wanted, which spcore run SCRIPT --trace FILE writes")
    c.cured |= {*r.text.splitlines(), *none.text.splitlines()}
    c.cures("bench train_seg.lua --strategy serialized --against 'true {batch}'", "which {batch}? take --batch", ("--batch", "--batch 4 --help"), status=2)
    r = c.run("bench train_seg.lua --strategy serialized --repeat 1 --steps 20 --size 8 --batch 2 --samples 16 --levels 3",
              says="one turn: noise unknown")
    c.run(r.line.replace("--repeat 1", "--repeat 3"), lacks="noise unknown")
    c.cured |= {text for text in r.text.splitlines() if "noise unknown" in text}
    c.cures("export resnet18 --torch t", "--weights FILE is wanted", ("--weights FILE", "--weights no.safetensors --help"), status=2)
    c.cures("data shapes --sheet s.png", "is made up and has no files", ("spcore run show_augment.lua shapes", "spcore run show_augment.lua shapes"))
    c.image("a.png", 24)
    c.cures("run predict_seg.lua --weights r --out o a.png --size 5000", "at most 4096 without --window", ("--window", "--window 8 --help"), status=2)


@case
def what_goes_on(c):
    "runs that were cut short, are complete, or had another graph"
    c.image("a.png", 16)
    loud = SEG.replace(" --quiet", "")
    r = c.run(f"{loud} --samples 16 --steps 100000 --max-time 1s --threads 1 --out r", says="go on with: spcore run train_seg.lua --resume r")
    c.run("run train_seg.lua --resume r --max-time 1s", lacks="no such")
    best = c.run(f"{loud} --samples 32 --steps 12 --lr 0.3 --eval-every 1 --checkpoint-every 4 --out s")
    c.run("run predict_seg.lua --weights s --best --out p a.png")
    c.cured |= {text for text in r.text.splitlines() if "go on with" in text} | {text for text in best.text.splitlines() if "with --best" in text}
    # What a run that was killed leaves.
    for name in ("summary.json", "weights.safetensors"):
        os.remove(c.path(f"s/{name}"))
    go = "run predict_seg.lua --weights s --out o a.png"
    c.cures(go, "its run has not ended; go on with: spcore run train_seg.lua --resume s, or take --best", ("--best", "--best"), status=2)
    c.cures(go, "its run has not ended; go on with", (lambda: c.run("run train_seg.lua --resume s")), status=2)
    os.remove(c.path("s/weights.safetensors"))
    c.cures(go.replace("--out o", "--out q"), "it has been removed since its run ended; take --best", ("--best", "--best"), status=2)
    for path in glob.glob(c.path("s/checkpoint-*")):
        os.remove(path)


@case
def from_another_folder(c):
    "a run whose data are named from the folder that it began in"
    for k in range(8):
        c.image(f"d/{'ab'[k % 2]}/{k}.png", 8)
    c.run(f"{CLS} --data d --out r --steps 4 --checkpoint-every 2")
    os.remove(c.path("r/summary.json"))
    c.folder_of("sub")
    home, c.folder = c.folder, c.path("sub")
    r = c.run("run train_cls.lua --resume ../r", 2, f"its --data d is relative to the folder in which the run began; resume it there: cd '{home}'")
    c.run("run train_cls.lua --resume ../r --data ../d --override", lacks="relative")
    c.folder = home
    c.cured |= {text.replace(home + "/", "") for text in r.text.splitlines()}


def installed(c, program, without=None):
    """A copy of the program, with scripts and plugins beside it where it looks for them when it has been moved; -> what runs it."""
    shutil.copy(SPCORE, c.path(program))
    top = os.path.dirname(os.path.dirname(c.path(program)))
    os.makedirs(f"{top}/share")
    os.symlink(TOP + "/scripts", f"{top}/share/spcore")
    os.makedirs(f"{top}/lib/spcore")
    for name in os.listdir(f"{BUILD}/.libs"):
        if not without or without not in name:
            os.symlink(f"{BUILD}/.libs/{name}", f"{top}/lib/spcore/{name}")
    return lambda line, where=program: subprocess.run([c.path(where), *line.split()], cwd=c.folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                                      text=True, timeout=HANG, env=dict(os.environ, SPCORE_PLUGIN_PATH=""))


@case
def moved_installation(c):
    "a program whose scripts and plugins lie beside it, not where it was configured for; and one that has lost them"
    run = installed(c, "opt/bin/spcore")
    c.image("d/a/0.png", 8)
    c.image("d/b/0.png", 8)
    p = run("data d")
    assert p.returncode == 0 and "1 train, 1 val" in p.stdout, p.stdout
    shutil.move(c.path("opt/bin/spcore"), c.path("alone/spcore"))
    p = run("data d", "alone/spcore")
    assert p.returncode and "the installation is not whole" in p.stdout, p.stdout


@case
def other_graphs(c):
    "a run that goes on with a script that has changed"
    c.write("own.lua", OWN % "")
    c.run("run own.lua --out r --steps 4 --checkpoint-every 2")
    os.remove(c.path("r/summary.json"))
    c.write("own.lua", OWN % ', { "relu" }')
    c.cures("run own.lua --resume r", "the graph is another one", "--override")


OWN = """
local sp = require "spcore"
local opt = sp.args({ steps = { 4, "steps" } }, { checkpoints = true })
local g <close> = sp.graph(opt)
local data = g.reader { path = "shapes", split = "train", samples = 16, size = 8, batch = 4 }
local e = g.encoder { g.to_float { data.image, scale = true }, layers = { { "conv", 4, kernel = 3, pad = 1 } } }
local a = g.decoder { e.features, classes = 6, layers = { { "conv", 6, kernel = 1 }%s } }
g:train { g.cross_entropy { a.logits, data.mask, ignore_index = 255 }, optimizer = g.sgd { lr = 0.1 } }
local run <close> = sp.run { graph = g, opt = opt, steps = opt.steps }
for step, m in g:steps(run:rest()) do run:step(step, m) end
run:finish()
"""


@case
def options_of_targets(c):
    "options that go with another target, and sizes of scores and pictures"
    for k in range(12):
        c.image(f"d/{'ab'[k % 2]}/{k}.png", 8)
    rows(c, "n.csv", "file,w", *(f"d/{'ab'[k % 2]}/{k}.png,{k}.5" for k in range(12)))
    rows(c, "l.csv", "file,label", *(f"d/{'ab'[k % 2]}/{k}.png,{'x|y' if k % 2 else 'y'}" for k in range(12)))
    c.run(f"{CLS} --data d --out k")
    c.image("a.png", 16)
    c.cures("run predict_cls.lua --weights k --out x.csv --threshold 0.4 a.png", "--threshold: goes with a run of --target labels",
            ("--threshold", None), status=2)
    for name in ("x.txt", "x"):
        c.cures(f"run predict_cls.lua --weights k --out {name} a.png", "NAME.csv or NAME.json is wanted", "--out x.csv", status=2)
    c.cures("run predict_cls.lua --weights k/summary.json --out y.csv a.png", "of a run the weights of its end are taken", "--weights k", status=2)
    c.cures(f"{CLS.replace(' --quiet', '')} --data d --lr 1e4 --steps 3 --eval-every 3 --out e", "take a smaller --lr", ("--lr", "--lr 0.01 --out f"), status=0)
    c.cures(f"{CLS} --data l.csv --target labels --label-smoothing 0.1 --out l", "goes with one class, not with --target labels",
            ("--label-smoothing", None), status=2)
    c.cures(f"{CLS} --data d --out m --no-standardize", "--no-standardize: goes with --target numbers", ("--no-standardize", None), status=2)
    r = c.run(CLS.replace(" --quiet", "") + " --data n.csv --target numbers --out n", says="--no-standardize: as it is")
    c.run(CLS.replace(" --quiet", "") + " --data n.csv --target numbers --no-standardize --out o", lacks="learned as")
    c.cured |= {text for text in r.text.splitlines() if "--no-standardize: as it is" in text}
    c.cures(f"{CLS} --data n.csv --target numbers --mixup 0.2 --explain", "--mixup: goes with classes and labels, not with --target numbers",
            ("--mixup", None), status=2)
    c.run(f"{CLS} --data l.csv --target labels --cutmix 1 --out cutmixed")
    c.cures(f"{CLS} --data n.csv --target numbers --label-smoothing 0.1 --explain", "goes with one class, not with --target numbers",
            ("--label-smoothing", None), status=2)


@case
def two_images(c):
    "two images a sample: what goes with each fusion, and one image of each that is turned"
    turned = Image.Exif()
    turned[0x112] = 6
    for top in "de":
        c.write(f"{top}/classes.txt", "same\nchange\n")
        for k in range(8):
            mask = np.zeros((8, 12), np.uint8)
            mask[k % 4:] = 1
            c.image(f"{top}/A/{k}.png", 8, 12)
            c.image(f"{top}/B/{k}.jpg", 8, 12, **({"exif": turned} if top == "e" and k == 0 else {}))
            c.image(f"{top}/label/{k}.png", mask)
    wide = SEG.replace(" --width 2 --levels 1", "") + " --data d --explain"
    c.cures(wide + " --fusion siamese", "the two encoders would be trained apart", ("--train-encoder", None), ("--fusion siamese", "--fusion early"),
            status=2)
    c.cures(wide.replace(" --train-encoder", " --no-train-encoder") + " --fusion early", "reads one image", "--train-encoder", ("--fusion early", "--fusion siamese"), status=2)
    c.run(f"{SEG.replace(' --quiet', '')} --data d --out r", says="two images a sample, early fusion")
    c.cures("data e --check", "leaves both as they are stored", "--no-orient")


@case
def pictures_of_predictions(c):
    "predictions whose scores and pictures are larger than what is allowed"
    c.run(f"{SEG} --samples 16 --out r")
    c.image("a.png", 240)
    go = "run predict_seg.lua --weights r a.png --window 64 --stride 64"
    c.cures(f"{go} --out o --set image_writer.max_scores=1", "and max_scores is 1", ("--set image_writer.max_scores=", "--set image_writer.max_scores=64"))
    c.cures(f"{go} --out p --set image_writer.max_pixels=100", "and max_pixels is 100", ("--set image_writer.max_pixels=", "--set image_writer.max_pixels=60000"))
    c.cures("run predict_seg.lua --weights r a.png --out q --set image_writer.overlays= --set image_writer.max_pixels=100",
            "240 x 240 pixels, and max_pixels is 100", ("--set image_writer.max_pixels=57600", "--set image_writer.max_pixels=57600"))


@case
def several_ranks(c):
    "what several ranks do not do"
    c.image("a.png", 16)
    c.run(f"{SEG} --samples 16 --out r")
    c.cures("run predict_seg.lua --weights r --out o a.png --ranks 2", "start it once, without --ranks", ("--ranks", None), status=2)
    c.cures(f"{SEG} --samples 16 --out q --device sim --ranks 2", "take --device cpu for several ranks", "--device cpu")
    loud = SEG.replace(" --quiet", "")
    r = c.run(f"{loud} --samples 16 --out s --strategy auto --ranks 2", says=["run it once without --ranks", "(--threads)"])
    c.run(f"{loud} --samples 16 --out t --strategy auto --ranks 2 --threads 1", lacks="(--threads)")
    c.cured |= {text for text in r.text.splitlines() if "--threads" in text or "--ranks" in text}


PLAIN = """
local sp = require "spcore"
local opt = sp.args {}
local g <close> = sp.graph(opt)
local data = g.reader { path = "random", batch = 2, size = 8, classes = 3, samples = 8, target = "class" }
local net = g.layers { g.to_float { data.image, scale = true }, layers = { { "flatten" }, { "linear", 3 } } }
g:train { g.cross_entropy { net.features, data.label }, optimizer = g.toy_sgd { lr = 0.1 } }
for _ in g:steps(2) do end
"""


@case
def shards_of_an_optimizer(c):
    "an optimizer of one's own that takes whole gradients only"
    c.env["SPCORE_PLUGIN_PATH"] = f"{BUILD}/.libs:{BUILD}/tests/plugins/.libs"
    c.write("own.lua", PLAIN)
    c.cures("run own.lua --ranks 2 --optimizer-shards", "'toy_sgd' takes whole gradients only", ("--optimizer-shards", None))


@case
def devices_of_a_build(c):
    "a program without the plugin of CUDA, and one whose plugin is cut"
    go = f"{SEG} --samples 16 --explain --device cuda"
    run = installed(c, "opt/bin/spcore", without="cuda")
    p = run(go)
    assert p.returncode == 2 and "this build has no CUDA device; take --device cpu" in p.stdout, p.stdout
    assert run(go + " --device cpu").returncode == 0
    c.cured |= set(p.stdout.splitlines())
    c.write("plugins/device_cuda.so", b"\x7fELF")
    c.env["SPCORE_PLUGIN_PATH"] = c.path("plugins")
    c.cures(go, "; take --device cpu", "--device cpu", status=2)


# Stages that cannot overlap: nothing is measured, so that the choice does not depend on how busy the machine is.
BOUND = """
local sp = require "spcore"
local opt = sp.args {}
local g <close> = sp.graph(opt)
local a = g.toy_mul { g.toy_source { batch = 4 }.x, name = "a" }
g:train { g.toy_loss { a.y, name = "loss" }, optimizer = g.toy_sgd {} }
for _ in g:steps(2) do end
"""


@case
def choices_of_auto(c):
    "what strategy auto has found before is taken, and found again"
    c.env["SPCORE_PLUGIN_PATH"] = f"{BUILD}/.libs:{BUILD}/tests/plugins/.libs"
    c.write("own.lua", BOUND)
    c.run("run own.lua --strategy auto", says="every other strategy does the same here", lacks="as measured")
    c.cures("run own.lua --strategy auto", "as measured", "--auto-again", status=0)


@case
def complete_runs(c):
    "a run that is complete and whose checkpoints somebody has removed"
    c.run(f"{SEG} --samples 16 --out r")
    for name in os.listdir(c.path("r")):
        if name.startswith("checkpoint-"):
            os.remove(c.path("r/" + name))
    c.cures("run train_seg.lua --resume r --override --steps 6", "the run is complete and has no checkpoint to go on from",
            ("--checkpoint-every", lambda: again(c, "r", "--steps 4 --checkpoint-every 2")))


def again(c, name, more):
    shutil.rmtree(c.path(name))
    c.run(f"{SEG} --samples 16 --out {name} {more}")


@case
def many_images(c):
    "sizes of some of many images, and of all"
    for k in range(4200):
        c.write(f"d/{'ab'[k % 2]}/{k}.ppm", b"P6 2 1 255\n" + bytes((k >> j & 255 for j in range(6))))
    c.cures("data d", "images, evenly spread over 4200; --check reads all", "--check", status=0)


@case
def images_cut_to_the_middle(c):
    "a network that was trained with the middle of images, and mirrored images"
    for k in range(6):
        c.image(f"d/images/{k}.png", 8, 12)
        c.image(f"d/masks/{k}.png", c.labels(8, 12, 6))
    c.write("own.lua", OWN.replace("%s", "").replace('path = "shapes"', 'path = "d", classes = 6, resize = "crop"'))
    c.run("run own.lua --out r")
    c.image("a.png", 24)
    c.cures("run predict_seg.lua --weights r --out o a.png --flip", "trained with the middle of images", ("--window", "--window 16"), status=2)


# Of some seeds all that are to replace a sample are known to be broken before it, and it has no file of its own to name.
BROKEN = """
local sp = require "spcore"
local function read(seed)
  local g <close> = sp.graph { seed = seed }
  local data = g.reader { path = "d", batch = 4, size = 8, target = "class", max_bad = 99, split = "all" }
  local net = g.layers { g.to_float { data.image, scale = true }, layers = { { "flatten" }, { "linear", 2 } } }
  g:train { g.cross_entropy { net.features, data.label }, optimizer = g.sgd { lr = 0.1 } }
  for _ in g:steps(40) do end
end
for seed = 1, 300 do
  local ok, why = pcall(read, seed)
  if not ok and tostring(why):find "names them all" then error(why, 0) end
end
"""


@case
def replacements_that_are_broken(c):
    "96 of 100 samples are broken, which is known of all that one of them could be replaced by"
    for k in range(100):
        if k < 96:
            c.write(f"d/{'ab'[k % 2]}/{k}.png", b"\x89PNG\r\n\x1a\n" + bytes(9))
        else:
            c.image(f"d/{'ab'[k % 2]}/{k}.png", 8)
    c.write("own.lua", BROKEN)
    c.cures("run own.lua", "spcore data d --check names them all", ("spcore data d --check", "spcore data d --check"), then=1)


@case
def names_of_runs(c):
    "a name of a run that is a path, and a run without a checkpoint"
    c.write("own.lua", OWN.replace("%s", "").replace("steps = opt.steps }", 'steps = opt.steps, name = "a/b" }'))
    c.run("run own.lua", 1, "'name' must be the name of a folder in runs, got 'a/b'; --out takes a path")
    c.write("own.lua", OWN.replace("%s", ""))
    r = c.run("run own.lua --out a/b")
    c.cured.add("sp.run{}: 'name' must be the name of a folder in runs, got 'a/b'; --out takes a path")


@case
def copies_in_both_parts(c):
    "the same file, by name and content, in train/ and val/ is said without --check, too"
    for part in ("train", "val"):
        for name in ("ant", "bee"):
            for k in range(3):
                c.image(f"d/{part}/{name}/{k}.png", 8)
                c.image(f"e/{part}/images/{name}{k}.png", 8)
                c.image(f"e/{part}/masks/{name}{k}.png", c.labels(8, 8, 2))
    c.write("e/classes.txt", "a\nb\n")
    for data in "de":
        c.run(f"data {data}", lacks="in training and in validation")
    shutil.copy(c.path("d/train/ant/1.png"), c.path("d/val/ant/1.png"))
    shutil.copy(c.path("d/train/bee/1.png"), c.path("d/val/ant/0.png"))  # under another name and label: --check finds it
    shutil.copy(c.path("e/train/images/ant2.png"), c.path("e/val/images/ant2.png"))
    r = c.run("data d", says="1 file is in training and in validation, with one name and content, such as d/val/ant/1.png")
    c.run("data e", says="1 file is in training and in validation, with one name and content, such as e/val/images/ant2.png")
    c.run(f"{CLS.replace(' --quiet', '')} --data d --out r", says="1 file is in training and in validation")
    c.run("data d --check", says="duplicates in train and val: 2 images for validation")
    c.cured |= {text for text in r.text.splitlines() if "one name and content" in text}


@case
def images_without_a_header(c):
    "a header without a size: --check names the file"
    for k in range(6):
        c.image(f"d/{'ab'[k % 2]}/{k}.png", 8)
    c.write("d/a/9.png", b"\x89PNG\r\n\x1a\n" + bytes(9))
    r = c.run("data d", says="1 image has no size in the header; --check names each")
    c.run("data d --check", 1, "d/a/9.png: ", lacks="no size in the header")
    c.cured |= {text for text in r.text.splitlines() if "no size in the header" in text}
