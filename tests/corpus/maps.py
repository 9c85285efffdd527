# SPDX-License-Identifier: MIT
# needs: onednn images jansson libarchive
# needs no torch
"""Maps: a number for each pixel, such as a depth, of PNG, TIFF and .npy."""
import io
import os
import sys
import tarfile

import numpy as np
from PIL import Image

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from formats import npy, png16, tiff
from kit import case, main

SIDE, N = 12, 5


def depths(dtype, low, high, zeros=0):
    """N maps with numbers from low to high, and `zeros` of 0 in each."""
    a = np.linspace(low, high, N * SIDE * SIDE).reshape(N, SIDE, SIDE).astype(dtype)
    a.reshape(N, -1)[:, :zeros] = 0
    return a


def fill(c, maps, ending, folder="depth", images="images"):
    """All of them train; the first one validates."""
    for k, data in enumerate(maps):
        for part in ("train",) if k else ("train", "val"):
            c.image(f"d/{part}/{images}/{k}.png", SIDE, SIDE)
            c.write(f"d/{part}/{folder}/{k}.{ending}", data)


def reads(name, doc, a, how, ending, more="", scale=1.0, offset=0.0, nodata=None, low=-np.inf, high=np.inf, folder="depth"):
    """Least, median and largest value, and the share without one, are NumPy's."""
    def f(c):
        fill(c, [how(m) for m in a], ending, folder)
        got = c.json(f"data d --target map {more}")["map"]
        v = a.astype(np.float64)
        good = np.isfinite(v) & (v != nodata if nodata is not None else True)
        v = (v * scale + offset).astype(np.float32)
        good &= (v >= low) & (v <= high)
        assert got["maps"] == N and got["pixels"] == v.size, got
        assert np.isclose(got["without"], 1 - good.mean()), (got, good.mean())
        assert np.float32(got["least"]) == v[good].min() and np.float32(got["most"]) == v[good].max(), (got, v[good].min(), v[good].max())
        assert np.float32(got["median"]) == np.sort(v[good])[good.sum() // 2], got
    f.__name__, f.__doc__ = name, doc
    case(f)


KITTI = depths(np.uint16, 300, 20000, 9)
HEIGHTS = depths(np.float32, -5.5, 210.25)
HOLES = HEIGHTS.copy()
HOLES[:, 3, 4:9] = np.nan
HOLES[:, 5, 1] = np.inf
FLAGGED = HEIGHTS.copy()
FLAGGED[:, 2, 2:6] = -9999
KITTI_ARGS = "--map-scale 1/256 --map-nodata 0"
reads("kitti", "16 bits, /256, 0 is no value", KITTI, png16, "png", KITTI_ARGS, 1 / 256, nodata=0)
reads("nyu", "16 bits in millimetres", KITTI, png16, "png", "--map-scale 0.001 --map-nodata 0", 0.001, nodata=0)
reads("disparity_zero", "a 0 that is a value", KITTI, png16, "png", "--map-nodata none", folder="disparity")
reads("offset", "scale and offset", KITTI, png16, "png", "--map-scale 0.01 --map-offset -100 --map-nodata 0", 0.01, -100.0, 0)
reads("ranged", "values outside of the range", KITTI, png16, "png", KITTI_ARGS + " --map-range 2,60", 1 / 256, nodata=0, low=2, high=60)
reads("npy_float", "float32, below 0 as well", HEIGHTS, npy, "npy", folder="heights")
reads("npy_half", "float16", depths(np.float16, 0.5, 80), npy, "npy")
reads("npy_double", "float64, big-endian", depths(np.float64, 0.5, 80), lambda a: npy(a.astype(">f8")), "npy")
reads("npy_int", "int32 in millimetres", depths(np.int32, 1, 90000), npy, "npy", "--map-scale 0.001", 0.001)
reads("npy_one_channel", "H x W x 1", HEIGHTS, lambda a: npy(a[..., None]), "npy")
reads("npy_holes", "NaN and infinity have no value", HOLES, npy, "npy")
reads("tiff_float", "TIFF of float32", HEIGHTS, lambda a: tiff(a[..., None]), "tif", folder="dsm")
reads("tiff_16", "TIFF of 16 bits", KITTI, lambda a: tiff(a[..., None]), "tif", KITTI_ARGS, 1 / 256, nodata=0)
reads("tiff_tag", "GDAL's tag says what has no value", FLAGGED, lambda a: tiff(a[..., None], nodata="-9999"), "tif", nodata=-9999)
reads("named_number", "a number that is given", FLAGGED, npy, "npy", "--map-nodata -9999", nodata=-9999)
reads("in_masks", "maps in a folder masks/", HEIGHTS, npy, "npy", folder="masks")


@case
def zero_asks(c):
    "0 may be a value, or say that there is none"
    fill(c, [png16(a) for a in KITTI], "png")
    c.cures("data d --target map", "has 9 pixels of 0", "--map-nodata 0")
    c.cures("data d --target map", "has 9 pixels of 0", "--map-nodata none")


@case
def is_coloured(c):
    "a colour picture of a map"
    for k in range(N):
        c.image(f"d/images/{k}.png", SIDE, SIDE)
        c.image(f"d/depth/{k}.png", SIDE, SIDE)
    c.run("data d --target map", 1, says=["d/depth/", "has 3 numbers a pixel", "colours show a map to people", ".npy"])


@case
def is_8_bits(c):
    "a map of 8 bits is read, and it is said"
    fill(c, [npy(a) for a in depths(np.uint8, 1, 255)], "npy")
    c.run("data d --target map --check", 0, says=["8 bits a pixel", "256 values at most"])


@case
def is_empty(c):
    "no pixel has a value"
    fill(c, [png16(a * 0) for a in KITTI], "png")
    c.run("data d --target map --map-nodata 0 --check", 0, says=["has no value at all", "100.0 % of the pixels have none"])


@case
def outside(c):
    "values outside of the range are said"
    fill(c, [png16(a) for a in KITTI], "png")
    c.run(f"data d --target map {KITTI_ARGS} --map-range 2,60 --check", 0, says=["outside of map_range", "they do not count"])


@case
def another_size(c):
    "a map of another size than its image"
    fill(c, [npy(a[:-1]) for a in HEIGHTS], "npy")
    c.run("data d --target map --check", 1, says=["12 x 12 pixels", "12 x 11", "they must be equal"])


@case
def in_parts(c):
    "train/ and val/ with images/ and depth/"
    for part in "train", "val":
        for k in range(2):
            c.image(f"d/{part}/images/{k}.png", SIDE, SIDE)
            c.write(f"d/{part}/depth/{k}.npy", npy(HEIGHTS[k]))
    assert c.json("data d --target map")["samples"] == {"train": 2, "val": 2}


@case
def depth_beside_masks(c):
    "both are there: each target takes its own"
    fill(c, [npy(a) for a in HEIGHTS], "npy")
    for part, n in ("train", N), ("val", 1):
        for k in range(n):
            c.image(f"d/{part}/masks/{k}.png", c.labels(SIDE, SIDE, 2))
    c.write("d/classes.txt", "a\nb\n")
    assert c.json("data d --target map")["map"]["most"] == HEIGHTS.max()
    assert c.json("data d --target mask")["classes"] == 2


@case
def no_classes(c):
    "images/ and depth/ are no classes, and `spcore data` finds the target"
    for k in range(N):
        c.image(f"d/images/{k}.png", SIDE, SIDE)
        c.image(f"d/depth/{k}.jpg", SIDE, SIDE)
    c.cures("data d --target class", "images and maps of numbers by their names", "--folders classes")
    for k in range(N):
        os.remove(c.path(f"d/depth/{k}.jpg"))
        c.write(f"d/depth/{k}.npy", npy(HEIGHTS[k]))
    assert c.json("data d")["target"] == "map"


@case
def shards(c):
    "KEY.depth.png, KEY.npy in WebDataset shards"
    for ending, how, more in ("depth.png", png16, KITTI_ARGS), ("npy", npy, "--map-nodata 0"):
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w") as tar:
            for k, a in enumerate(KITTI):
                c.image("one.png", SIDE, SIDE)
                for name, data in (f"{k}.png", open(c.path("one.png"), "rb").read()), (f"{k}.{ending}", how(a)):
                    info = tarfile.TarInfo(name)
                    info.size = len(data)
                    tar.addfile(info, io.BytesIO(data))
        c.write("d.tar", out.getvalue())
        assert c.json(f"data d.tar --target map {more}")["map"]["of"] == N - 1


@case
def parameters(c):
    "what is no scale, range or number is said"
    fill(c, [npy(a) for a in HEIGHTS], "npy")
    c.run("data d --target map --map-scale 1/0", 1, says='map_scale = "1/0"')
    c.run("data d --target map --map-scale x", 1, says='map_scale = "x"')
    c.run("data d --target map --map-range 5,1", 1, says='map_range = "5,1"')
    c.run("data d --target map --map-nodata zero", 1, says='map_nodata = "zero"')
    c.run("data d --target class --map-scale 2", 1, says="map_scale goes with target")
    c.run("data d --target map --classes 3", 1, says="no classes")
    c.run("data d --target map --mask-values 0=a", 1, says="mask_values goes with target")


@case
def trained(c):
    "what train_map.lua lacks is said"
    fill(c, [npy(a) for a in HEIGHTS], "npy")
    small = "run train_map.lua --size 8 --levels 1 --width 1 --batch 2 --steps 1 --threads 1 --quiet --device cpu"
    c.cures(small, "--data DIR is missing", ("--data DIR", "--data d"), status=2)
    c.cures(small + " --data d --huber-delta 2 --metrics mae", "--huber-delta: goes with --loss huber, not with l1", "--loss huber", status=2)
    c.cures(small + " --data d --augment gpu", "maps have no augmentation of their own", "--augment chains/seg.lua", status=2)
    c.cures(small.replace(" --quiet", "") + " --data d", "the maps have values down to -5.5", "--metrics mae,rmse,abs_rel,silog", status=0)
    c.run(small.replace(" --quiet", "") + " --data d --metrics abs_rel,delta1", 0, says=["validation SILog ", ", AbsRel ", "pixels whose truth is below the least value, 0.001, do not count"])
    c.run(small + " --data d --metrics silogs", 2, says=["no such metric", "silog"])


@case
def predicted(c):
    "what predict_map.lua lacks for PNG of 16 bits is said"
    fill(c, [npy(a) for a in HEIGHTS], "npy")
    c.run("run train_map.lua --data d --size 8 --levels 1 --width 1 --batch 2 --steps 1 --threads 1 --quiet --device cpu --metrics none --out r", 0)
    c.cures("run predict_map.lua --weights r --device cpu --format png16 d/train/images", "multiples of what", "--scale 1/256", "--scale 0.001", status=2)
    c.cures("run predict_map.lua --weights r --device cpu --scale 2 d/train/images", "goes with --format png16", "--format png16", status=2)


@case
def predicted_floats(c):
    "--format tiff writes the numbers of --format npy, which Pillow and the reader read"
    if "tiff" in os.environ.get("SP_LEFT_OUT_FORMATS", ""):
        return
    fill(c, [npy(a) for a in HEIGHTS], "npy")
    c.run("run train_map.lua --data d --size 8 --levels 1 --width 1 --batch 2 --steps 1 --threads 1 --quiet --device cpu --metrics none --out r", 0)
    for k, (height, width) in enumerate([(300, 5), (1, 1), (37, 1000)]):
        c.image(f"new/{k}.png", height, width)
    for form in ("npy", "tiff"):
        c.run(f"run predict_map.lua --weights r --device cpu --format {form} --out {form} new", says="maps of 3 images", lacks="clipped")
    for k in range(3):
        want = np.load(c.path(f"npy/maps/{k}.npy"))
        with Image.open(c.path(f"tiff/maps/{k}.tif")) as image:
            assert image.mode == "F" and (np.asarray(image) == want).all(), k
        for part in ("train", "val"):
            c.image(f"e/{part}/images/{k}.png", *want.shape)
            c.write(f"e/{part}/depth/{k}.tif", c.read(f"tiff/maps/{k}.tif"))
    v = np.concatenate([np.load(c.path(f"npy/maps/{k}.npy")).reshape(-1) for k in range(3)])
    got = c.json("data e --target map --map-nodata none")["map"]
    assert (np.float32(got["least"]), np.float32(got["most"]), got["pixels"]) == (v.min(), v.max(), v.size), got


@case
def on_a_sheet(c):
    "a contact sheet shows values in colours, and a grey pattern where there is none"
    fill(c, [png16(a) for a in KITTI], "png")
    c.run(f"data d --target map {KITTI_ARGS} --sheet s.png --sheet-samples 5", 0, says=["s.png: 6 samples; values in colours from 2.1"])
    with Image.open(c.path("s.png")) as im:
        px = np.asarray(im.convert("RGB"))
    bar = px[:80, :, :].reshape(-1, 3).tolist()  # the legend
    assert [68, 1, 84] in bar and [253, 231, 37] in bar and [190, 190, 190] in bar and [150, 150, 150] in bar
    cells = px[80:].reshape(-1, 3).tolist()
    for colour in [253, 231, 37], [68, 1, 84], [190, 190, 190]:
        assert cells.count(colour) > 50, (colour, cells.count(colour))


@case
def in_tables(c):
    "a column of a table, or the second of a list, names the maps"
    fill(c, [npy(a) for a in HEIGHTS], "npy", "z", "pics")
    for header, names in ("file,depth,split", "column depth is the map"), ("image,map,split", "column map is the map"), ("file,mask,split", "column mask"):
        rows = [f"train/pics/{k}.png,train/z/{k}.npy,{'train' if k else 'val'}" for k in range(N)]
        c.write("t.csv", "\n".join([header] + rows) + "\n")
        c.run("data t.csv --target map", 0, says=names)
        got = c.json("data t.csv --target map")
        assert got["samples"] == {"train": N - 1, "val": 1}, got["samples"]
        assert np.float32(got["map"]["least"]) == HEIGHTS[1:].min() and got["map"]["most"] == HEIGHTS.max(), got["map"]
    c.write("list.txt", "".join(f"train/pics/{k}.png train/z/{k}.npy\n" for k in range(N)))
    assert sum(c.json("data list.txt --target map")["samples"].values()) == N
    c.write("two.csv", "file,depth,disparity\n" + "".join(f"train/pics/{k}.png,train/z/{k}.npy,train/z/{k}.npy\n" for k in range(N)))
    c.cures("data two.csv --target map", "may both be the map", "--columns map=depth", "--columns map=disparity")
    c.write("none.csv", "file,x\n" + "".join(f"train/pics/{k}.png,{k}\n" for k in range(N)))
    c.run("data none.csv --target map", 1, says=["none.csv"])


@case
def beside_voc(c):
    "JPEGImages/ and depth/ are read; that the lists of VOC are not is said"
    for k in range(N):
        c.image(f"v/JPEGImages/{k}.jpg", SIDE, SIDE)
        c.write(f"v/depth/{k}.npy", npy(HEIGHTS[k]))
    c.write("v/ImageSets/Segmentation/train.txt", "1\n2\n3\n4\n")
    c.write("v/ImageSets/Segmentation/val.txt", "0\n")
    c.run("data v --target map", 0, says=["ImageSets/ is not read for maps", "a table with the columns file, map and split"])


@case
def in_arrays(c):
    "masks.npy, depth.npy and maps.npy of floats or whole numbers, N x H x W"
    images = np.zeros((N, SIDE, SIDE, 3), np.uint8)
    images[:, 0] = np.arange(N)[:, None, None]
    for folder, name, a, more, scale in (("a", "masks", HEIGHTS, "", 1), ("b", "depth", KITTI, KITTI_ARGS, 1 / 256),
                                         ("e", "maps", HEIGHTS.astype(">f8"), "", 1), ("f", "masks", HOLES, "", 1)):
        c.write(f"{folder}/images.npy", npy(images))
        c.write(f"{folder}/{name}.npy", npy(a))
        got = c.json(f"data {folder} --target map {more} --check")
        assert got["layout"] == "npy" and got["check"]["samples"] == N and not got["check"]["wrong"], got
        assert np.isclose(got["map"]["most"], np.nanmax(np.where(np.isfinite(a), a, np.nan)[1:].astype(float)) * scale) or got["map"]["of"] < N, got["map"]
    c.write("b/depth.npy", npy(KITTI[:, :-1]))
    c.run(f"data b --target map {KITTI_ARGS}", 1, says=["b/depth.npy", "12 x 12"])


if __name__ == "__main__":
    main()
