# SPDX-License-Identifier: MIT
# needs: onednn images jansson libarchive
# needs no torch
"""Images that keep what their files hold: 16 bits, floats, any number of channels, no data."""
import io
import json
import os
import sys
import tarfile

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from formats import npy, png16, tiff
from kit import case, main

SIDE, N = 12, 4


def numbers(channels, dtype=np.float32, low=-1.0, high=3.0):
    """N images whose numbers go from low to high."""
    a = np.linspace(low, high, N * SIDE * SIDE * channels).reshape(N, SIDE, SIDE, channels)
    return a.astype(dtype)


def fill(c, files, ending):
    """A folder for each of two classes."""
    for k, data in enumerate(files):
        c.write(f"d/{'ab'[k % 2]}/{k}.{ending}", data)


def reads(name, doc, files, ending, channels, dtype="float32", low=None, high=None, kind=None, more=""):
    """All numbers are read: as many channels, the least and the largest, mean and deviation of each."""
    def f(c):
        fill(c, [data for data, _ in files], ending)
        r = c.json(f"data d --dtype {dtype} --check {more}")
        a = np.stack([a for _, a in files]).astype(np.float64)
        n = r["numbers"]
        assert r["check"]["wrong"] == [] and n["images"] == len(files) and n["channels"] == channels, r
        assert np.isclose(n["least"], a.min(), rtol=1e-6) and np.isclose(n["most"], a.max(), rtol=1e-6), n
        assert np.allclose(n["mean"], a.mean((0, 1, 2)), rtol=1e-4, atol=1e-5), n
        assert np.allclose(n["std"], a.std((0, 1, 2)), rtol=1e-3, atol=1e-4), n
        assert not kind or r["types"][0]["type"] == kind, r["types"]
    f.__name__, f.__doc__ = name, doc
    case(f)


def of(a, how):
    return [(how(one), one) for one in a]


FIVE, FIVE_BYTES = numbers(5), numbers(5, np.uint8, 0, 255)
reads("npy_last", "H x W x 5 of float32", of(FIVE, npy), "npy", 5, kind="float32")
reads("npy_first", "5 x H x W of float32", of(FIVE, lambda a: npy(np.moveaxis(a, 2, 0).copy())), "npy", 5)
reads("npy_plane", "H x W of float32", of(numbers(1), lambda a: npy(a[..., 0])), "npy", 1)
reads("npy_half", "H x W x 2 of float16", of(numbers(2, np.float16), npy), "npy", 2, kind="float16")
reads("npy_double", "H x W x 4 of float64, big-endian", of(numbers(4, np.float64), lambda a: npy(a.astype(">f8"))), "npy", 4)
reads("npy_int16", "H x W x 3 of int16", of(numbers(3, np.int16, -900, 900), npy), "npy", 3, kind="int16")
reads("npy_uint16", "H x W x 7 of uint16, as uint16", of(numbers(7, np.uint16, 0, 4000), npy), "npy", 7, "uint16")
reads("npy_bytes", "H x W x 6 of bytes as floats", of(numbers(6, np.uint8, 0, 255), npy), "npy", 6)
reads("npy_bool", "H x W x 2 of bool", of(numbers(2, np.float32, 0, 1).round().astype(bool), npy), "npy", 2)
for form in ("f2", "f4", "f8", "i2", "i4", "u1", "u2", "u4"):
    dtype = np.dtype(form)
    low, high = (-2, 2) if dtype.kind == "f" else (0 if dtype.kind == "u" else -100, 100)
    reads(f"tiff_{form}", f"a TIFF of 5 bands of {form}", of(numbers(5, dtype, low, high), tiff), "tif", 5)
reads("tiff_planes", "a TIFF whose bands are planes, big-endian", of(FIVE, lambda a: tiff(a, ">", planar=True)), "tif", 5)
reads("tiff_grey", "a TIFF of one band of 16 bits, as uint16", of(numbers(1, np.uint16, 3, 60000), tiff), "tiff", 1, "uint16", kind="uint16")
reads("tiff_bytes", "a TIFF of 4 bands of bytes, as bytes", of(numbers(4, np.uint8, 0, 250), tiff), "tif", 4, "uint8", more="--channels 4")
reads("png_grey", "a grey PNG of 16 bits", of(numbers(1, np.uint16, 0, 65535), png16), "png", 1, "uint16", kind="uint16")
reads("png_rgb", "a PNG of 3 x 16 bits as float32", of(numbers(3, np.uint16, 0, 65535), png16), "png", 3)
reads("png_rgba", "a PNG of 4 x 16 bits, with its alpha", of(numbers(4, np.uint16, 0, 65535), png16), "png", 4, "uint16", more="--channels 4")
reads("png_alpha", "a PNG of 4 x 16 bits is read without its alpha", [(png16(a), a[..., :3]) for a in numbers(4, np.uint16, 0, 65535)],
      "png", 3, "uint16")
reads("png_grey_alpha", "a grey PNG with alpha is read without it", [(png16(a), a[..., :1]) for a in numbers(2, np.uint16, 0, 65535)],
      "png", 1, "uint16")
reads("pgm_wide", "a PGM of 12 bits", [(b"P5 %d %d 4095\n" % (SIDE, SIDE) + a.astype(">u2").tobytes(), a)
                                        for a in numbers(1, np.uint16, 0, 4095)], "pgm", 1, "uint16", kind="uint16")
reads("ppm_text", "a PPM of 16 bits as text", [(f"P3 {SIDE} {SIDE} 65535\n{' '.join(map(str, a.flatten()))}".encode(), a)
                                               for a in numbers(3, np.uint16, 0, 65535)], "ppm", 3)
reads("brightness", "colours of 16 bits as one channel",
      [(png16(a), np.rint(a.astype(np.float64) @ (np.array([19595, 38470, 7471]) / 65536))[..., None])
       for a in numbers(3, np.uint16, 0, 65535)], "png", 1, "uint16", more="--channels 1")


@case
def pictures_as_numbers(c):
    "JPEG, grey JPEG, palette PNG and RGBA PNG as float32 have the channels that they show"
    from PIL import Image
    grey, colour = c.picture(SIDE, SIDE, 1), c.picture(SIDE, SIDE)
    for name, what, how, channels in (("jpg", colour, {}, 3), ("jpg", grey, {}, 1), ("png", Image.fromarray(colour).quantize(8), {}, 3),
                                      ("png", c.picture(SIDE, SIDE, 4), {}, 3), ("png", grey > 99, {}, 1), ("bmp", colour, {}, 3)):
        for k in range(N):
            c.image(f"{name}{channels}/{'ab'[k % 2]}/{k}.{name}", what, **how)
        r = c.json(f"data {name}{channels} --dtype float32 --check")
        rgb = np.asarray(Image.open(c.path(f"{name}{channels}/a/0.{name}")).convert("RGB"), np.float64)
        assert r["numbers"]["channels"] == channels, (name, channels, r)
        assert np.allclose(r["numbers"]["mean"], rgb.mean((0, 1))[:channels], atol=1e-4), (name, channels, r["numbers"])
        c.run(f"data {name}{channels}", 0, lacks=["bytes are read", "kept by"])


@case
def bytes_of_many_channels(c):
    "five bands of bytes: RGB has three of them, and --channels 5 all"
    fill(c, [tiff(a) for a in numbers(5, np.uint8, 0, 255)], "tif")
    c.run("data d", 0, says=["images hold uint8, 5 channels (4)", "4 of 4 images have 5 channels, of which RGB has three at most", "(--channels 5)"])
    c.run("data d --check", 0, says=["has 5 channels, of which the first one is read; channels = 5 (--channels 5) keeps all"])
    c.run("data d --channels 5 --check", 0, says=["numbers: 5 channels, from 0 to 255", "--channels 5 --mean"], lacks=["is read"])
    c.run("data d --channels 4 --check", 1, says=["d/a/0.tif: it has 5 channels, and images have 4 here", "(--channels 5)"])


@case
def sixteen_bits_said(c):
    "16 bits and floats where bytes are read: said, with the option that keeps them"
    fill(c, [png16(a) for a in numbers(1, np.uint16, 0, 900)], "png")
    c.run("data d", 0, says=["images hold uint16, 1 channel (4)", "4 of 4 images are uint16, and bytes are read: the high 8 bits", "(--dtype uint16)"])
    c.run("data d --dtype uint16", 0, says=["--range 0,1023"], lacks=["bytes are read"])
    c.run("data d --check", 0, says=["16 bits a channel, of which the high 8 are read", "(--dtype uint16)"])


@case
def floats_said(c):
    "floats are no bytes: the message names the option, also of an array of all"
    fill(c, [npy(a) for a in FIVE], "npy")
    c.run("data d --check", 1, says=["d/a/0.npy: its numbers are float32", "(--dtype float32)"])
    c.write("e/images.npy", npy(FIVE))
    c.write("e/labels.npy", npy(np.arange(N) % 2))
    c.run("data e --check", 1, says=["e/images.npy holds 4 x 12 x 12 x 5 of float32", "(--dtype float32)"])
    assert c.json("data e --dtype float32 --check")["numbers"]["channels"] == 5


@case
def arrays_of_all(c):
    "images.npy of either order and any type"
    c.write("d/labels.npy", npy(np.arange(N) % 2))
    for a, how in ((FIVE, "--dtype float32"), (np.moveaxis(FIVE, 3, 1).copy(), "--dtype float32"),
                   (numbers(5, ">u2", 0, 3000), "--dtype uint16"), (numbers(5, np.uint8, 0, 255), "--channels 5"),
                   (np.moveaxis(numbers(5, np.uint8, 0, 255), 3, 1).copy(), "--channels 5")):
        c.write("d/images.npy", npy(a))
        n = c.json(f"data d --check {how}")["numbers"]
        assert n["channels"] == 5 and np.isclose(n["least"], a.min()) and np.isclose(n["most"], a.max()), (how, n)
    c.run("data d", 1, says=["(--channels 5)"])
    c.write("d/images.npy", npy(numbers(1, np.float32)[..., 0]))
    assert c.json("data d --dtype float32 --check")["numbers"]["channels"] == 1
    c.write("d/images.npy", npy(np.zeros((N, 12, 12, 12), np.float32)))
    c.run("data d --dtype float32 --channels 12", 1, says=["N x H x W x C as well as N x C x H x W"])


@case
def channels_differ(c):
    "a file of another number of channels is named, with its own and the cure"
    fill(c, [npy(a) for a in FIVE[:3]] + [npy(numbers(4)[0])], "npy")
    c.run("data d --dtype float32 --check", 1, says=["d/b/3.npy: it has 4 channels, and images have 5 here", "1 of 4 samples cannot be used"])
    c.run("data d --dtype float32 --check --channels 9", 1, says=["it has 5 channels, and images have 9 here"])


@case
def types_differ(c):
    "a file of another type is read as it is, and said"
    fill(c, [tiff(a) for a in numbers(2)[:3]] + [tiff(numbers(2, np.uint16, 0, 999)[0])], "tif")
    r = c.run("data d --dtype float32 --check", 0, says=["d/b/3.tif has uint16 numbers, and the first file, d/a/0.tif, float32",
                                                         "numbers of several types", "other type: 1 sample"])
    c.run("data d --dtype uint16 --check", 1, says=["d/a/0.tif: its numbers are float32, and dtype is uint16", "(--dtype float32)"])
    assert r.status == 0


@case
def grey_among_colours(c):
    "grey files among those in colour, by the first file: said, with the option that decides"
    def data(grey_first):
        for k in range(N):
            c.image(f"d/{'ab'[k % 2]}/{k}.png", c.picture(SIDE, SIDE, 1 if (k == 0) == grey_first else 3))
    data(True)
    c.run("data d --dtype float32 --check", 0, says=["d/a/2.png has 3 channels, of which the brightness is read", "(--channels 3)", "other type: 3 samples"])
    data(False)
    c.run("data d --dtype float32 --check", 0, says=["d/a/2.png is grey, and its brightness becomes 3 channels", "(--channels 1)", "other type: 3 samples"])


@case
def tables(c):
    "a .csv file of arrays"
    for k, a in enumerate(FIVE):
        c.write(f"t/files/{k}.npy", npy(a))
    c.write("t/all.csv", "file,label\n" + "".join(f"files/{k}.npy,{'xy'[k % 2]}\n" for k in range(N)))
    assert c.json("data t/all.csv --target class --dtype float32 --check")["numbers"]["channels"] == 5


def with_holes(dtype=np.float32, hole=-9999):
    a = numbers(2, dtype, 1, 5)
    a[0, :2, :2] = hole
    return a


@case
def nodata_number(c):
    "a number for no data: counted, and not among the numbers"
    fill(c, [tiff(a) for a in with_holes()], "tif")
    assert c.json("data d --dtype float32 --check")["numbers"]["least"] == -9999
    r = c.json("data d --dtype float32 --nodata -9999 --check")
    assert 1 <= r["numbers"]["least"] < 1.1, r["numbers"]
    c.run("data d --dtype float32 --nodata -9999 --check", 0, says=["d/a/0.tif has 8 numbers that stand for no data; they become 0", "no data: 1 sample"])
    c.run("data d --dtype float32 --nodata -9999 --range 1,5 --check", 0, says="they become 1;")
    c.run("data d --dtype float32 --nodata -9999 --nodata-fill 2.5 --check", 0, says="they become 2.5;")


@case
def nodata_tag(c):
    "a TIFF that says its number for no data: told, and replaced where that is asked for"
    fill(c, [tiff(a, nodata="-9999") for a in with_holes()], "tif")
    c.run("data d --dtype float32 --check", 0, says=["d/a/0.tif says that -9999 is no data, and has 8 such numbers", "(--nodata tag)"])
    r = c.run("data d --dtype float32 --nodata tag --check", 0, says=["8 numbers that stand for no data"])
    assert r.err.count("\n") == 1, r
    fill(c, [tiff(a, nodata="0") for a in with_holes(np.uint16, 0)], "tif")
    c.run("data d --dtype uint16 --check", 0, says="says that 0 is no data")
    fill(c, [tiff(a, nodata="nan") for a in with_holes(hole=np.nan)], "tif")
    c.run("data d --dtype float32 --nodata tag --check", 0, says="8 numbers that are NaN or infinite")


@case
def not_finite(c):
    "NaN and infinite numbers are replaced, counted and said"
    a = with_holes(hole=np.nan)
    a[0, 5, 5] = np.inf
    a[0, 6, 6] = -np.inf
    fill(c, [npy(one) for one in a], "npy")
    r = c.json("data d --dtype float32 --check")
    assert r["numbers"]["least"] >= 1 and r["numbers"]["most"] <= 5, r["numbers"]
    c.run("data d --dtype float32 --check", 0, says=["d/a/0.npy has 12 numbers that are NaN or infinite; they become 0", "no data: 1 sample"])


@case
def large_whole_numbers(c):
    "whole numbers that float32 rounds are said"
    fill(c, [npy(np.full((SIDE, SIDE), 16777217 + 4 * k, np.int32)) for k in range(N)], "npy")
    c.run("data d --dtype float32 --check", 0, says=["int32 numbers such as 16777216, which float32 rounds", "reduced: 4 samples", "--mean "], lacks="--mean  ")


@case
def what_does_not_go_together(c):
    "options of numbers: wrong texts, and those that want --dtype"
    fill(c, [npy(a) for a in FIVE], "npy")
    c.cures("data d --range 0,1", "range goes with numbers, not with bytes", "--dtype float32")
    c.cures("data d --nodata 3", "nodata goes with numbers, not with bytes", "--dtype float32")
    for text in ("1", "a,b", "4,1", "1,1", "0,1,2", "0,inf"):
        c.run(f"data d --dtype float32 --range {text}", 1, says=["two numbers are expected, the lower one first"])
    c.run("data d --dtype float32 --nodata none", 1, says="a number is expected, or tag")
    c.run("data d --dtype float32 --nodata-fill x", 1, says="a number is expected")
    c.run("data shapes --dtype float32", 1, says="go with files; the built-in set shapes has RGB bytes")
    c.run("data d --dtype float16", 2, says="choose one of uint8, uint16, float32")


@case
def cures_of_files(c):
    "files that are no bytes of RGB, each with the option that reads them: kit.py types it"
    for name, what, kind, says in (
            ("five", FIVE_BYTES, npy, ["d/a/0.npy: it has 5 channels, and images are RGB", "(--channels 5)"]),
            ("nine", numbers(9, np.uint8, 0, 255), lambda a: tiff(a, photometric=2), ["9 a pixel; at most 8 are read as RGB", "(--channels 9)"])):
        fill(c, [kind(a) for a in what], "npy" if name == "five" else "tif")
        c.run("data d --check", 1, says=says)
        for k in range(N):
            os.remove(c.path(f"d/{'ab'[k % 2]}/{k}.{'npy' if name == 'five' else 'tif'}"))
    fill(c, [tiff(a) for a in numbers(5, np.uint16, 0, 900)], "tif")
    c.run("data d --channels 5 --check", 1, says=["d/a/0.tif: its numbers are uint16, and bytes are wanted", "(--dtype uint16)"])
    c.write("e/images.npy", npy(numbers(3, np.uint16, 0, 900)))
    c.write("e/labels.npy", npy(np.arange(N) % 2))
    c.run("data e", 1, says=["images are bytes unless", "(--dtype uint16)"])
    fill(c, [b"II*\0nothing"], "tif")
    c.run("data d --dtype uint16 --check", 1, says=["d/a/0.tif: ", "it says how many channels there are", "(--channels 4)"])


@case
def requests_of_numbers(c):
    "requests have no first file, so that a script says how many channels they have"
    c.write("own.lua", """local sp = require "spcore"
local opt = sp.args({}, { without = { "run", "training", "reading" } })
local g <close> = sp.graph(opt)
local ok, got = pcall(g.image_requests, { dtype = "float32", size = 8, batch = 1 })
print(ok and got.image.shape[2] or got)
os.exit(ok and 0 or 1)
""")
    c.cures("run own.lua", "requests have no first file", "--set image_requests.channels=4")


@case
def backbone_of_five(c):
    "a backbone of RGB for five channels: the filters of its first layer are repeated, said once; its own mean for three"
    fill(c, [npy(a) for a in FIVE] * 2, "npy")
    cls = "run train_cls.lua --data d --size 32 --batch 2 --steps 1 --backbone resnet18 --dtype float32"
    c.run(cls + " --explain", 0, says=["(--range -1,3)", "each channel is taken less its mean"])
    fill(c, [png16(a) for a in numbers(3, np.uint16, 0, 4000)] * 2, "png")
    for k in range(2 * N):
        os.remove(c.path(f"d/{'ab'[k % 2]}/{k}.npy"))
    r = c.run(cls.replace("float32", "uint16") + " --explain", 0)
    assert "--mean 0.485,0.456,0.406 --std 0.229,0.224,0.225" in r.text, r


@case
def shards(c):
    "arrays in shards: left out beside pictures, unless numbers are asked for"
    c.folder_of("d")
    with tarfile.open(c.path("d/0.tar"), "w") as t:
        for k, a in enumerate(FIVE):
            for name, data in ((f"{k}.npy", npy(a)), (f"{k}.cls", str(k % 2).encode())):
                member = tarfile.TarInfo(name)
                member.size = len(data)
                t.addfile(member, io.BytesIO(data))
    assert c.json("data d --target class --dtype float32 --check")["numbers"]["channels"] == 5
    c.run("data d --target class", 1, says="the shards hold no sample")


SEG = "run train_seg.lua --data s --size 16 --batch 2 --steps 2 --width 2 --levels 1 --train-encoder"


def pairs(c, files, ending):
    for k, data in enumerate(files):
        c.write(f"s/images/{k}.{ending}", data)
        c.image(f"s/masks/{k}.png", c.labels(SIDE, SIDE, 2))
    c.write("s/classes.txt", "a\nb\n")


@case
def through_segmentation(c):
    "five channels of float32: trained, predicted whole and by windows, exported"
    a = numbers(5)
    a[0, 0, 0] = np.nan
    pairs(c, [tiff(one) for one in a], "tif")
    c.run(SEG + " --dtype float32 --out r", 0, says=["images: 5 channels, numbers from -0.", "to 3 in 3 of 3", "(--range -1,3)", "(--mean "])
    model = json.loads(c.read("r/settings.json"))["model"]
    assert model["read"]["dtype"] == "float32" and model["read"]["channels"] == 5 and len(model["mean"]) == 5, model
    assert os.path.exists(c.path("r/samples/samples.json"))
    c.run("run predict_seg.lua --weights r --out p s/images", 0, says="masks and overlays of 4 images")
    c.run("run predict_seg.lua --weights r --out w --window 8 --flip s/images", 0, says="masks and overlays of 4 images")
    c.image("rgb.png", 8)
    c.run("run predict_seg.lua --weights r --out q rgb.png", 1, says=["rgb.png: it has 3 channels, and images have 5 here"], cure=False)
    c.run("export r --onnx r.onnx --torch t", 0, says="takes float32 N x 5 x H x W")
    text = c.read("t/model.py").decode()
    assert "float32 5 x H x W" in text and "(x - -1) / (3 - -1)" in text, text
    c.run(SEG + " --dtype float32 --range 0,4 --mean 0.5 --std 1,1,1,1,2 --out r2", 0, lacks="images: 5 channels")
    c.run(SEG + " --dtype float32 --mean 1,2 --out no", 2, says="2 numbers for 5 channels")
    c.cures(SEG + " --mean 1 --explain", "--mean: goes with --dtype float32 or uint16", "--dtype float32", ("--mean", None), status=2,
            then=0)
    c.cures(SEG + " --grey --channels 5 --explain", "--grey: images have one channel then", ("--grey", None), status=2, then=1)
    c.cures(SEG + " --grey --dtype float32 --explain", "--grey: is for bytes; with --dtype it is", ("--grey", None), status=2)
    for option in ("--dtype float32", "--channels 4"):
        c.cures(SEG.replace(" --data s", "") + f" {option} --explain", "goes with files (--data DIR)",
                ("--data DIR", "--data s --dtype float32 --channels 5"), status=2)
    for option in ("--dtype float32", "--channels 5", "--channels 1"):
        c.cures(SEG.replace(" --train-encoder", " --no-train-encoder") + f" --dtype float32 {option} --explain", "the shipped encoder reads colours",
                ("--train-encoder", "--train-encoder --channels 5"), status=2)


@case
def sixteen_bits_classified(c):
    "16 bits of grey: a classifier, and its predictions"
    fill(c, [png16(a) for a in numbers(1, np.uint16, 0, 4000)] * 2, "png")
    cls = "run train_cls.lua --data d --size 16 --batch 4 --steps 2 --width 2 --levels 1 --dtype uint16 --out r"
    c.run(cls, 0, says=["images: 1 channel, numbers from 0 to 4000", "(--range 0,4095)"])
    c.run("run predict_cls.lua --weights r d/a", 0)
    assert len(c.read("predictions.csv").splitlines()) == 5


if __name__ == "__main__":
    main()
