# SPDX-License-Identifier: MIT
# needs: onednn images jansson webp tiff gif archive
# needs no torch
"""Files as cameras, programs and people write them: images, text, archives, arrays."""
import gzip
import io
import json
import os
import shutil
import struct
import subprocess
import sys
import tarfile
import zlib

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from kit import Image, case, main, np

EXIF_ORIENTATION = 0x0112


def exif(way):
    e = Image.Exif()
    e[EXIF_ORIENTATION] = way
    return e.tobytes()


def bytes_of(c, what=8, width=None, ending="png", **how):
    """The bytes of an image file."""
    c.image(f"one.{ending}", what, width, **how)
    data = c.read(f"one.{ending}")
    os.remove(c.path(f"one.{ending}"))
    return data


def pairs(c, name, n, height=8, width=8, classes=2, ending="png", **how):
    for k in range(n):
        c.image(f"{name}/images/{k}.{ending}", height, width, **how)
        c.image(f"{name}/masks/{k}.png", c.labels(height, width, classes))
    c.write(f"{name}/classes.txt", "".join(f"class {k}\n" for k in range(classes)))


def folders(c, name, n, classes=("ant", "bee"), ending="png"):
    for word in classes:
        for k in range(n):
            c.image(f"{name}/{word}/{k}.{ending}")


# ---- damage ----

def odd(c, ending, change, n=6):
    """A folder of classes, of which the first class's images are changed."""
    folders(c, "d", n, ending=ending)
    for k in range(n):
        c.write(f"d/ant/{k}.{ending}", change(c.read(f"d/ant/{k}.{ending}")))
    return c.run("data d --check", says=[f"damaged: {n} samples", f"all {2 * n} samples can be used", f"d/ant/"])


@case
def jpeg_bytes_behind(c):
    "JPEG files with bytes behind their end"
    r = odd(c, "jpg", lambda b: b + b"junk")
    assert r.err.count("has 4 bytes behind its end") == 1, r


@case
def jpeg_second_picture(c):
    "JPEG files with a second picture behind, as of stereo cameras"
    odd(c, "jpg", lambda b: b + b)


@case
def jpeg_film(c):
    "JPEG files with a film behind, as of telephones"
    odd(c, "jpg", lambda b: b + b"\0\0\0\x18ftypmp42" + bytes(range(256)) * 20)


@case
def jpeg_zeros(c):
    "JPEG files filled up with zeros"
    odd(c, "jpg", lambda b: b + bytes(4096))


@case
def jpeg_before_end(c):
    "JPEG files with bytes in front of their end"
    odd(c, "jpg", lambda b: b[:-2] + b"Z" * 27 + b[-2:])


@case
def jpeg_no_version(c):
    "JPEG files of version 0.00 of JFIF, with bytes in front of their end"
    def change(b):
        at = b.find(b"JFIF\0") + 5
        return b[:at] + b"\0\0" + b[at + 2:-2] + b"Z" * 99 + b[-2:]
    odd(c, "jpg", change)


@case
def png_no_end(c):
    "PNG files without their end"
    odd(c, "png", lambda b: b[:-12])


@case
def png_bytes_behind(c):
    "PNG files with bytes behind their end"
    odd(c, "png", lambda b: b + b"junk" * 9)


@case
def png_text_checksum(c):
    "PNG files with a wrong checksum of a text"
    odd(c, "png", lambda b: b[:33] + b"\0\0\0\3tEXta\0bCRC!" + b[33:])


@case
def damaged_trains(c):
    "a training on such files says so once"
    folders(c, "d", 8, ending="jpg")
    for k in range(8):
        c.write(f"d/bee/{k}.jpg", c.read(f"d/bee/{k}.jpg") + b"tail")
    r = c.run("run train_cls.lua --data d --size 16 --batch 4 --steps 4 --augment none --pictures 0 --out r", says="4 bytes behind its end")
    assert r.err.count("behind its end") <= 2, r  # once for each reader, of training and of validation


def cut(c, ending, change):
    folders(c, "d", 3, ending=ending)
    c.write(f"d/ant/1.{ending}", change(c.read(f"d/ant/1.{ending}")))
    assert c.json("data d --check", 1)["check"]["wrong"] == [f"d/ant/1.{ending}"]


@case
def jpeg_cut(c):
    "a JPEG that is cut off"
    cut(c, "jpg", lambda b: b[:len(b) * 2 // 3])


@case
def jpeg_cut_with_end(c):
    "a JPEG that is cut off and has an end"
    cut(c, "jpg", lambda b: b[:-40] + b[-2:])


@case
def png_cut(c):
    "a PNG that lacks pixels"
    cut(c, "png", lambda b: b[:-40])


@case
def png_pixels_checksum(c):
    "a PNG whose pixels have a wrong checksum"
    def change(b):
        n = struct.unpack(">I", b[33:37])[0]
        data = b[41:41 + n - 4] + b"abcd"
        return b[:37] + b"IDAT" + data + struct.pack(">I", zlib.crc32(b"IDAT" + data)) + b[45 + n:]
    cut(c, "png", change)


# ---- orientation ----

def turned(c, way, height, width, mask=None):
    for k in range(4):
        c.image(f"d/images/{k}.jpg", height, width, exif=exif(way if k < 2 else 1))
        c.image(f"d/masks/{k}.png", c.labels(*(mask if mask and k < 2 else (height, width)), 2))
    c.write("d/classes.txt", "a\nb\n")


@case
def exif_half(c):
    "EXIF turns an image by 180 degrees and not its mask"
    turned(c, 3, 8, 12)
    r = c.run("data d --check", says=["turned: 2 samples", "d/images/0.jpg is turned by 180 degrees", "(--no-orient)"])
    assert r.err.count("EXIF") == 1, r
    c.run("data d --check --no-orient", lacks=["turned", "EXIF"])


@case
def exif_mirror(c):
    "EXIF mirrors an image and not its mask"
    turned(c, 2, 8, 12)
    c.run("data d --check", says="d/images/0.jpg is mirrored as its EXIF orientation says")


@case
def exif_square(c):
    "EXIF turns a square image by 90 degrees and not its mask"
    turned(c, 6, 8, 8)
    c.run("data d --check", says=["turned: 2 samples", "turned by 90 degrees"])


@case
def exif_mask_fits(c):
    "EXIF turns an image, and its mask has the size that it has then"
    turned(c, 6, 8, 12, (12, 8))
    c.run("data d --check", says="all 4 samples can be used", lacks="EXIF")


@case
def exif_mask_is_stored(c):
    "EXIF turns an image, and its mask has the size of what is stored"
    turned(c, 8, 8, 12)
    c.run("data d --check", 1, says="orient = false (--no-orient) leaves it as it is stored")
    c.run("data d --check --no-orient", says="all 4 samples can be used")


@case
def exif_trains(c):
    "--no-orient is part of a run: its predictions read images as it did"
    pairs(c, "d", 12, 8, 12, ending="jpg", exif=exif(6))
    c.run("run train_seg.lua --data d --size 16 --batch 4 --steps 2 --pictures 0 --out bad", 1, "(--no-orient)")
    c.run("run train_seg.lua --data d --size 16 --batch 4 --steps 2 --pictures 0 --no-orient --out r")
    photo = c.picture(40, 60)
    c.image("x.jpg", photo, exif=exif(6))
    c.image("y.jpg", photo)
    c.image("z.jpg", np.rot90(photo, -1), quality=100)
    c.run("run predict_cls.lua --weights r x.jpg", 2, "predict_seg.lua --weights r predicts it")
    c.run("run predict_seg.lua --weights r x.jpg y.jpg z.jpg --out p")
    assert c.read("p/overlays/x.png") == c.read("p/overlays/y.png") != c.read("p/overlays/z.png")


# ---- text ----

CLASSES = "alpha\nbeta gamma\nd\u00e9j\u00e0 vu\n"


def classes_txt(c, data, names=("alpha", "beta gamma", "d\u00e9j\u00e0 vu")):
    pairs(c, "d", 4, classes=3)
    c.write("d/classes.txt", data)
    assert c.json("data d")["class_names"] == list(names)


@case
def classes_bom(c):
    "classes.txt with a byte order mark"
    classes_txt(c, "\ufeff" + CLASSES)


@case
def classes_utf16(c):
    "classes.txt in UTF-16, as Notepad calls Unicode"
    classes_txt(c, CLASSES.encode("utf-16-le").join([b"\xff\xfe", b""]))


@case
def classes_utf16_big(c):
    "classes.txt in UTF-16, the high byte first"
    classes_txt(c, b"\xfe\xff" + CLASSES.encode("utf-16-be"))


@case
def classes_crlf(c):
    "classes.txt from Windows"
    classes_txt(c, CLASSES.replace("\n", "\r\n"))


@case
def classes_cr(c):
    "classes.txt from an old Mac"
    classes_txt(c, CLASSES.replace("\n", "\r"))


@case
def classes_no_end(c):
    "classes.txt without an end of its last line"
    classes_txt(c, CLASSES.rstrip("\n"))


@case
def classes_blanks(c):
    "classes.txt with blanks of all kinds around names and blank lines at its end"
    classes_txt(c, "alpha \t\n\u00a0beta\u00a0gamma\u3000\n\u200bd\u00e9j\u00e0 vu\u202f\n\n \n\u00a0\n\n")


@case
def classes_zeros_behind(c):
    "classes.txt filled up with bytes 0"
    classes_txt(c, CLASSES.encode() + bytes(100))


@case
def classes_latin1(c):
    "classes.txt in Latin-1"
    pairs(c, "d", 4, classes=3)
    c.write("d/classes.txt", CLASSES.encode("latin-1"))
    c.run("data d", 1, "classes.txt line 3: the byte 0xe9 is no UTF-8, of Latin-1 perhaps; save it as UTF-8")


@case
def classes_utf16_no_mark(c):
    "classes.txt in UTF-16 without a mark"
    pairs(c, "d", 4, classes=3)
    c.write("d/classes.txt", CLASSES.encode("utf-16-le"))
    c.run("data d", 1, "a byte 0: this is no text, or UTF-16 without its mark; save it as UTF-8")


@case
def classes_lfs(c):
    "classes.txt is a Git LFS pointer"
    pairs(c, "d", 4, classes=3)
    c.write("d/classes.txt", "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12\n")
    c.run("data d", 1, "classes.txt: it is a Git LFS pointer, not the file itself; `git lfs pull` fetches that")


@case
def classes_page(c):
    "classes.txt is a page of the web"
    pairs(c, "d", 4, classes=3)
    c.write("d/classes.txt", "<!DOCTYPE html>\n<html><body>404</body></html>\n")
    c.run("data d", 1, "it is a page of the web (HTML): the download has failed")


@case
def classes_colours_utf16(c):
    "classes.txt with colours in UTF-16, with blanks that are not to be broken at"
    for k in range(4):
        c.image(f"d/images/{k}.png")
        mask = np.zeros((8, 8, 3), np.uint8)
        mask[4:] = (128, 64, 128)
        c.image(f"d/masks/{k}.png", mask)
    c.write("d/classes.txt", "sky\u00a00 0 0\r\nroad\u00a0#804080\r\n".encode("utf-16"))
    found = c.json("data d --check")
    assert found["class_names"] == ["sky", "road"] and found["check"]["pixels"] == [0.5, 0.5], found


ROWS = "file,label\nin/0.png,ant\nin/1.png,bee\nin/2.png,ant\nin/3.png,\"bee\"\n"


def csv(c, data, classes=("ant", "bee")):
    for k in range(4):
        c.image(f"in/{k}.png")
    c.write("d.csv", data)
    found = c.json("data d.csv --check")
    assert found["class_names"] == list(classes) and found["check"]["samples"] == 4 and found["check"]["wrong"] == [], found
    assert found["target"] == "class", found


@case
def csv_bom(c):
    "a CSV file with a byte order mark, as Excel writes it"
    csv(c, "\ufeff" + ROWS)


@case
def csv_utf16(c):
    "a CSV file in UTF-16"
    csv(c, ROWS.encode("utf-16"))


@case
def csv_crlf(c):
    "a CSV file from Windows"
    csv(c, ROWS.replace("\n", "\r\n"))


@case
def csv_cr(c):
    "a CSV file from an old Mac"
    csv(c, ROWS.replace("\n", "\r"))


@case
def csv_backslashes(c):
    "a CSV file with Windows' separators in its paths"
    csv(c, ROWS.replace("/", "\\"))


@case
def csv_blanks(c):
    "a CSV file with blanks behind its commas and at the ends of lines"
    csv(c, ROWS.replace(",", " , ").replace("\n", " \u00a0\n"))


@case
def csv_blank_rows(c):
    "a CSV file with the rows of commas that spreadsheets leave"
    csv(c, ROWS + ",\n ,\n\n")


@case
def csv_quotes(c):
    "a CSV file with quotes, commas and line breaks in fields"
    csv(c, 'file,note,label\nin/0.png,"a, ""b""\nc",ant\n"in/1.png",,"bee"\nin/2.png,"" ,ant\n "in/3.png" ,x, bee\n')


@case
def csv_latin1(c):
    "a CSV file with a label in Latin-1"
    c.image("in/0.png")
    c.write("d.csv", b"file,label\nin/0.png,caf\xe9\n")
    c.run("data d.csv", 1, "d.csv line 2, column 2 (label): it is no UTF-8, but perhaps Latin-1")


@case
def csv_is_excel(c):
    "a CSV file that is Excel's own"
    c.image("in/0.png")
    c.write("d.csv", b"PK\x03\x04\x14\0\x06\0" + bytes(range(200)))
    c.run("data d.csv --target class", 1, "d.csv: it is a zip archive")


def voc(c, change):
    for k in range(4):
        c.image(f"d/JPEGImages/s{k}.jpg")
        c.image(f"d/SegmentationClass/s{k}.png", c.labels(8, 8, 2))
    c.write("d/ImageSets/Segmentation/train.txt", change("s0\ns1\ns2\n"))
    c.write("d/ImageSets/Segmentation/val.txt", change("s3\n"))
    assert c.json("data d")["samples"] == {"train": 3, "val": 1}


@case
def voc_bom(c):
    "VOC's lists with a byte order mark"
    voc(c, lambda t: "\ufeff" + t)


@case
def voc_utf16(c):
    "VOC's lists in UTF-16"
    voc(c, lambda t: t.encode("utf-16"))


@case
def voc_cr(c):
    "VOC's lists from an old Mac"
    voc(c, lambda t: t.replace("\n", "\r"))


@case
def voc_blanks(c):
    "VOC's lists with blanks around names"
    voc(c, lambda t: t.replace("\n", " \u00a0\t\r\n") + "\n\n")


@case
def voc_names_with_blanks(c):
    "VOC's lists of names that have blanks; a list of one class, and one that the folder lacks, have lines of their own"
    for name in ("a b", "c d 1", "e"):
        c.image(f"d/JPEGImages/{name}.jpg")
        c.image(f"d/SegmentationClass/{name}.png", c.labels(8, 8, 2))
    c.write("d/ImageSets/Segmentation/train.txt", "a b\nc d 1\r\n")
    c.write("d/ImageSets/Segmentation/val.txt", "e\n")
    c.run("data d --check", says=["2 train, 1 val", "all 3 samples"])
    c.write("d/ImageSets/Segmentation/val.txt", "e 1\n")
    c.run("data d", 1, says="val.txt line 1: e 1 is more than a name; lists of ImageSets/Segmentation are read")
    c.write("d/ImageSets/Segmentation/val.txt", "e f\n")
    c.run("data d", 1, says="val.txt line 1: e f has no file in JPEGImages")


@case
def list_of_images(c):
    "lists of predictions: UTF-16, Windows' ends and separators, blanks"
    folders(c, "d", 6)
    c.run("run train_cls.lua --data d --size 16 --batch 4 --steps 2 --augment none --pictures 0 --out r --quiet")
    for k, data in enumerate(["\ufeffd/ant/0.png \r\nd\\bee\\1.png\r\n\r\n".encode(), "d/ant/0.png\rd/bee/1.png".encode("utf-16")]):
        c.write(f"list{k}", data)
        c.run(f"run predict_cls.lua --weights r --list list{k} --out p{k}.csv", lacks="No such file")
        assert [row.split(b",")[0] for row in c.read(f"p{k}.csv").splitlines()] == [b"file", b"d/ant/0.png", b"d/bee/1.png"], k


# ---- formats ----

def formats(c, endings, **how):
    for k, ending in enumerate(endings):
        c.image(f"d/ant/{k}.{ending}", 8, 12, **how)
    c.image("d/bee/0.png", 8, 12)
    found = c.json("data d --check")
    n = found["check"]["samples"]
    assert found["check"]["sizes"] == [{"height": 8, "width": 12, "samples": n}] and n > len(endings) and not found["left_out"], found


@case
def bmp(c):
    "BMP files"
    formats(c, ["bmp", "BMP"])


@case
def jfif(c):
    "JPEG files of all endings"
    formats(c, ["jfif", "jpe", "JPG", "JPEG"])


@case
def pnm(c):
    "PPM, PGM and PBM files"
    c.image("d/ant/g.pgm", c.picture(8, 12, 1))
    c.image("d/ant/b.pbm", Image.fromarray(c.picture(8, 12, 1)).convert("1"))
    c.write("d/ant/t.pnm", "P2\n12 8\n9\n" + "1 2 3 4 5 6 7 8 9 0 1 2\n" * 8)
    formats(c, ["ppm"])


@case
def gif(c):
    "GIF files"
    formats(c, ["gif"])


@case
def animations(c):
    "the first picture of a GIF and of a WebP file"
    more = [Image.fromarray(c.picture(8, 12)) for _ in range(3)]
    for ending in ("gif", "webp"):
        c.image(f"d/ant/a.{ending}", more[0], save_all=True, append_images=more[1:])
    formats(c, ["png"])


@case
def predict_formats(c):
    "predictions of such files"
    folders(c, "d", 6)
    c.run("run train_cls.lua --data d --size 16 --batch 4 --steps 2 --augment none --pictures 0 --out r --quiet")
    for ending in ("bmp", "gif", "ppm", "jfif"):
        c.image(f"new/x.{ending}")
    c.run("run predict_cls.lua --weights r new --out p.csv")
    assert len(c.read("p.csv").splitlines()) == 5


@case
def grey_train(c):
    "one channel, from the reader to predictions; the network has fewer weights"
    pairs(c, "d", 12)
    c.run("run train_seg.lua --data d --size 16 --batch 4 --steps 1 --grey --no-train-encoder --out no", 2, "(--train-encoder)")
    c.run("run train_seg.lua --data d --size 16 --batch 4 --steps 2 --grey --train-encoder --out r")
    c.run("run predict_seg.lua --weights r d/images --out p")
    folders(c, "k", 8)
    c.run("run train_cls.lua --data k --size 16 --batch 4 --steps 2 --grey --out q")
    c.run("run predict_cls.lua --weights q k/ant --out q.csv")
    c.run("run train_cls.lua --data k --size 32 --batch 4 --steps 1 --grey --backbone resnet18 --explain", 0, "buffer reader.image: 3 x 5476 bytes")


@case
def tiff_floats(c):
    "a TIFF of floats"
    folders(c, "d", 2)
    c.image("d/ant/2.tif", Image.fromarray(np.zeros((8, 8), np.float32)))
    c.run("data d --check", 1, "d/ant/2.tif: samples of 32 bits (float)")


@case
def mask_is_bmp(c):
    "a mask that is a BMP called .png"
    pairs(c, "d", 3)
    c.write("d/masks/1.png", bytes_of(c, c.labels(8, 8, 2), ending="bmp"))
    c.run("data d --check", 1, "not PNG by its first bytes, as a mask must be: it is a BMP image")


# ---- files that are something else ----

def instead(c, data, words, ending="png"):
    folders(c, "d", 3, ending=ending)
    c.write(f"d/ant/1.{ending}", data)
    c.run("data d --check", 1, [f"d/ant/1.{ending}: ", words, "1 of 6 samples cannot be used"])


@case
def image_lfs(c):
    "an image that is a Git LFS pointer"
    instead(c, "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12\n", "it is a Git LFS pointer, not the file itself")


@case
def image_page(c):
    "an image that is a page of the web"
    instead(c, "<html><head><title>Not found</title>", "it is a page of the web (HTML): the download has failed", "jpg")


@case
def image_zip(c):
    "an image that is a zip archive"
    instead(c, b"PK\x03\x04\x14\0\0\0", "it is a zip archive; unpack it")


@case
def image_empty(c):
    "an image of no bytes"
    instead(c, b"", "the file is empty")


@case
def image_zeros(c):
    "an image of bytes 0"
    instead(c, bytes(5000), "it is zeros, as a download leaves that was not finished")


@case
def image_text(c):
    "an image that is text"
    instead(c, "see the other folder\n", 'it is text: "see the other folder"')


@case
def image_heic(c):
    "an image of an iPhone with another ending"
    instead(c, b"\0\0\0\x24ftypheic\0\0\0\0mif1heic" + bytes(40), "it is a HEIC image, as iPhones write it; convert it to PNG or JPEG", "jpg")


@case
def image_avif(c):
    "an AVIF image"
    instead(c, b"\0\0\0\x20ftypavif\0\0\0\0avifmif1" + bytes(40), "it is an AVIF image; convert it")


@case
def image_svg(c):
    "a drawing"
    instead(c, '<svg xmlns="http://www.w3.org/2000/svg"/>', "it is an SVG drawing; convert it")


@case
def image_of_a_mac(c):
    "the other half of a Mac's file"
    instead(c, b"\0\5\x16\7\0\2\0\0" + bytes(100), "the file of a Mac that goes with another")


@case
def image_numpy(c):
    "an array with an image's ending"
    b = io.BytesIO()
    np.save(b, np.zeros(3))
    instead(c, b.getvalue(), "it is a NumPy array (.npy)")


@case
def image_other_ending(c):
    "a PNG called .jpg and a JPEG called .png"
    folders(c, "d", 3)
    c.write("d/ant/0.jpg", bytes_of(c))
    c.write("d/bee/0.png", bytes_of(c, ending="jpg"))
    c.run("data d --check", says="all 7 samples can be used")


@case
def mask_page(c):
    "a mask that is a page of the web"
    pairs(c, "d", 3)
    c.write("d/masks/1.png", "<!doctype html><html>")
    c.run("data d --check", 1, ["d/masks/1.png: ", "it is a page of the web (HTML)"])


# ---- arrays ----

def npy(c, name, array, **how):
    b = io.BytesIO()
    np.save(b, array, **how)
    c.write(name, b.getvalue())


def arrays(c, images, labels=None):
    npy(c, "d/images.npy", images, allow_pickle=True)
    npy(c, "d/labels.npy", np.array([0, 1, 0, 1]) if labels is None else labels)


@case
def npy_objects(c):
    "an array of objects"
    a = np.empty(4, object)
    for k in range(4):
        a[k] = np.zeros((8 + k, 8, 3), np.uint8)
    arrays(c, a)
    c.run("data d --target class", 1, ["d/images.npy: it holds objects (a pickle of Python)", "allow_pickle=False"])


@case
def npy_archive(c):
    "an archive of arrays called .npy"
    b = io.BytesIO()
    np.savez(b, images=np.zeros((4, 8, 8), np.uint8))
    arrays(c, np.zeros((4, 8, 8), np.uint8))
    c.write("d/images.npy", b.getvalue())
    c.run("data d --target class", 1, "it is a NumPy archive (.npz), not one array; save each with numpy.save()")


@case
def npy_grey(c):
    "grey images with a dimension of 1, in front or behind"
    for shape in ((4, 8, 6), (4, 8, 6, 1), (4, 1, 8, 6)):
        arrays(c, c.picture(32, 6, 1).reshape(shape))
        found = c.json("data d --check")
        assert found["check"]["sizes"] == [{"height": 8, "width": 6, "samples": 4}], found


@case
def npy_planes(c):
    "images with a plane for each channel"
    arrays(c, np.zeros((4, 3, 8, 6), np.uint8))
    assert c.json("data d --check")["check"]["sizes"][0] == {"height": 8, "width": 6, "samples": 4}


@case
def npy_either(c):
    "images that may have their channels in front or behind"
    arrays(c, np.zeros((4, 3, 8, 3), np.uint8))
    c.run("data d --target class", 1, "N x H x W x C as well as N x C x H x W")


@case
def npy_fortran(c):
    "an array in Fortran's order"
    arrays(c, np.asfortranarray(np.zeros((4, 8, 6), np.uint8)))
    c.run("data d --target class", 1, "in Fortran's order; save it from numpy.ascontiguousarray(array)")


@case
def npy_big_endian(c):
    "labels with the high byte first, as bool, and as a column"
    for labels in (np.array([0, 1, 0, 1], ">i4"), np.array([0, 1, 0, 1], ">u2"), np.array([0, 1, 0, 1], bool),
                   np.array([[0], [1], [0], [1]])):
        arrays(c, np.zeros((4, 8, 6), np.uint8), labels)
        assert c.json("data d")["classes"] == 2, labels


@case
def npy_one_hot(c):
    "labels with a column for each class"
    arrays(c, np.zeros((4, 8, 6), np.uint8), np.eye(4, dtype=np.uint8))
    c.run("data d --target class", 1, "each row has one 1, and may be one class, cells = \"vector\" (--set reader.cells=vector)")


@case
def npy_floats(c):
    "images of floats"
    arrays(c, np.zeros((4, 8, 6, 3), np.float32))
    c.run("data d --target class", 1, 'images are bytes unless dtype = "float32" (--dtype float32) keeps such numbers')


@case
def npy_texts(c):
    "labels that are names"
    arrays(c, np.zeros((4, 8, 6), np.uint8), np.array(["ant", "bee", "ant", "bee"]))
    c.run("data d --target class", 1, "its elements are texts; save numbers, and the names in classes.txt, one a line")


@case
def npy_lfs(c):
    "an array that is a Git LFS pointer"
    arrays(c, np.zeros((4, 8, 6), np.uint8))
    c.write("d/images.npy", "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12\n")
    c.run("data d --target class", 1, "d/images.npy: it is no .npy file by its first bytes: it is a Git LFS pointer")


@case
def npy_empty(c):
    "an array of no bytes"
    arrays(c, np.zeros((4, 8, 6), np.uint8))
    c.write("d/images.npy", b"")
    c.run("data d --target class", 1, "by its first bytes: the file is empty")


@case
def npy_masks(c):
    "masks of bool, of int64, of float, and with a dimension of 1"
    npy(c, "d/images.npy", c.picture(32, 6, 3).reshape(4, 8, 6, 3))
    c.write("d/classes.txt", "a\nb\n")
    masks = np.zeros((4, 8, 6), np.uint8)
    masks[:, 4:] = 1
    for m in (masks, masks.astype(bool), masks[..., None], masks[:, None], masks.astype(np.int64), masks.astype(">f4")):
        npy(c, "d/masks.npy", m)
        found = c.json("data d --target mask --check")
        assert found["check"]["pixels"] == [0.5, 0.5], found
    npy(c, "d/masks.npy", masks[:, :5])
    c.run("data d --target mask", 1, "masks are whole numbers, and these 4 x 8 x 6")


# ---- archives ----

def tar(members, form=tarfile.PAX_FORMAT, mark=True):
    """The bytes of a tar file of (name, bytes) or tarfile's own members."""
    b = io.BytesIO()
    with tarfile.open(fileobj=b, mode="w", format=form) as t:
        for name, data in members:
            info = tarfile.TarInfo(name) if isinstance(name, str) else name
            if data is not None:
                info.size = len(data)
            t.addfile(info, None if data is None else io.BytesIO(data))
        end = t.offset
    return b.getvalue() if mark else b.getvalue()[:end]


def samples(c, names, label=lambda k: k % 2):
    return [m for k, name in enumerate(names) for m in ((f"{name}.png", bytes_of(c)), (f"{name}.cls", str(label(k)).encode()))]


def shard(c, data, n, says=(), lacks=(), name="one.tar"):
    c.write(name, data)
    r = c.run(f"data {name} --target class --check", says=[f"all {n} samples can be used", *says], lacks=lacks)
    return r


@case
def tar_cat(c):
    "cat a.tar b.tar"
    shard(c, tar(samples(c, "ab")) + tar(samples(c, "cd")), 4)


@case
def tar_cat_of_equal_names(c):
    "cat a.tar b.tar, whose samples have the same names"
    shard(c, tar(samples(c, "ab")) + tar(samples(c, "ab")) + tar(samples(c, "ba")), 6)


@case
def tar_gz_cat(c):
    "cat a.tar.gz b.tar.gz"
    shard(c, gzip.compress(tar(samples(c, "ab"))) + gzip.compress(tar(samples(c, "cd"))), 4, name="one.tar.gz")


@case
def tar_gz_in_members(c):
    "one tar in several members of gzip"
    data = tar(samples(c, "abcd"))
    shard(c, b"".join(gzip.compress(data[k:k + 700]) for k in range(0, len(data), 700)), 4, name="one.tgz")


@case
def tar_zst_frames(c):
    "cat a.tar.zst b.tar.zst"
    try:
        frames = [subprocess.run(["zstd", "-qc"], input=tar(samples(c, n)), stdout=subprocess.PIPE, check=True).stdout for n in ("ab", "cd")]
    except FileNotFoundError:
        return
    shard(c, b"".join(frames), 4, name="one.tar.zst")


@case
def tar_no_mark(c):
    "a tar without the mark of its end"
    shard(c, tar(samples(c, "ab"), mark=False), 2, says="does not end as a tar does")


@case
def tar_junk_behind(c):
    "bytes behind the end of a tar"
    shard(c, tar(samples(c, "ab")) + b"junk" * 300, 2, says="what follows is no tar: left out")


@case
def tar_many_zeros(c):
    "a tar with many blocks of zeros behind its end"
    shard(c, tar(samples(c, "ab")) + bytes(200000), 2, lacks="left out")


@case
def tar_folders(c):
    "keys with folders; the same name in two of them"
    shard(c, tar(samples(c, ["x/a", "x/b", "y/a", "./y/b"])), 4)


@case
def tar_long_names(c):
    "names longer than a header has room for, as GNU and POSIX write them"
    names = ["x" * 90 + f"/{k}" + "y" * 120 for k in range(3)]
    for form in (tarfile.GNU_FORMAT, tarfile.PAX_FORMAT):
        shard(c, tar(samples(c, names), form), 3)


def with_holes(name, size):
    """A member of `tar -S --format=gnu` that holds one block of bytes, and a hole behind it up to `size`."""
    info = tarfile.TarInfo(name)
    info.type, info.size = b"S", 512
    head = bytearray(info.tobuf(tarfile.GNU_FORMAT))
    head[386:410] = b"00000000000\0" b"00000001000\0"  # the first of the regions that have bytes: from 0, 512 of them
    head[410:434] = b"%011o\0" % size + b"00000000000\0"  # the end
    head[483:495] = b"%011o\0" % size
    head[148:156] = b" " * 8
    head[148:156] = b"%06o\0 " % sum(head)
    return bytes(head) + b"BM" + bytes(510)


@case
def tar_sparse(c):
    "what tar --sparse writes, of each of its forms: refused by name, and read where it is packed as it is"
    whole = tar(samples(c, "ab"))
    end = whole[:len(whole.rstrip(b"\0")) // 512 * 512 + 512]
    bitmap = b"BM" + bytes(4094)
    newest = tarfile.TarInfo("GNUSparseFile.1/c.bmp")
    newest.pax_headers = {"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.name": "c.bmp", "GNU.sparse.realsize": "4096"}
    older = tarfile.TarInfo("c.bmp")
    older.pax_headers = {"GNU.sparse.size": "4096", "GNU.sparse.numblocks": "2", "GNU.sparse.map": "0,512,4096,0"}
    forms = {"gnu": end + with_holes("c.bmp", 4096) + bytes(1024),
             "posix": end + tar([(newest, b"2\n0\n512\n4096\n0\n".ljust(512, b"\0") + bitmap[:512])]),
             "posix01": end + tar([(older, bitmap[:512])])}
    for name, data in forms.items():
        c.write(f"{name}.tar", data)
        c.run(f"data {name}.tar", 1, says=f"{name}.tar: c.bmp is stored with holes, as sparse files are; pack it again with tar cf, without -S")
    picture = io.BytesIO()
    Image.new("RGB", (8, 8)).save(picture, "BMP")
    shard(c, tar(samples(c, "ab") + [("c.bmp", picture.getvalue()), ("c.cls", b"0")]), 3)


@case
def tar_old(c):
    "a tar of the oldest form that Python writes"
    shard(c, tar(samples(c, "ab"), tarfile.USTAR_FORMAT), 2)


@case
def tar_twice(c):
    "a member that is there twice"
    c.write("one.tar", tar(samples(c, "ab") + samples(c, "a")))
    c.run("data one.tar --target class", 1, "is there twice; pack it again")


@case
def tar_of_a_mac(c):
    "members that a Mac's tar adds, and their folders"
    more = [("._a.png", b"\0\5\x16\7" + bytes(60)), ("x/._b.png", b"\0\5\x16\7"), ("PaxHeader/a.png", b"20 path=a\n"), ("PaxHeaders.12/b.png", b"x"),
            ("__MACOSX/x/a.png", b"y"), (".DS_Store", b"z"), ("x/Thumbs.db", b"t")]
    shard(c, tar(samples(c, ["a", "b", "x/a"]) + more), 3, says="hidden or system files, such as ")


@case
def tar_dots(c):
    "keys with dots, as WebDataset has none"
    shard(c, tar(samples(c, ["a", "b", "c.v2"])), 2, says="2 members with a dot in their key (c.v2.cls; a key ends at the first dot")
    c.write("all.tar", tar(samples(c, ["a.1", "b.1"])))
    c.run("data all.tar --target class", 1, "a KEY ends at the first dot of a name, so give names one without: a.1.cls")
    shard(c, tar(samples(c, "ab") + [("c.json", b"{}"), ("c.extra.txt", b"x")]), 2, says="2 files of other endings")


@case
def tar_alone(c):
    "labels without images, an image without a label"
    shard(c, tar(samples(c, "ab") + [("c.cls", b"1"), ("d.cls", b"0")]), 2, says="2 labels or masks without an image, such as c.cls")
    assert "2 labels or masks" in c.json("data one.tar --target class")["left_out"]
    c.write("two.tar", tar(samples(c, "ab") + [("c.png", bytes_of(c))]))
    c.run("data two.tar --target class", 1, "two.tar: c.png has no label: there is no c.cls")


@case
def tar_of_classes(c):
    "folders of classes in a tar file, as they are: the classes and the order of the folder; parts, images and masks ask to be unpacked"
    for name in ("1", "10", "2"):
        for k in range(4):
            c.image(f"d/set/{name}/{k}.png", 8)
            c.image(f"e/train/{name}/{k}.png", 8)
            c.image(f"e/val/{name}/{k}.png", 8)
            c.image(f"f/images/{name}{k}.png", 8)
            c.image(f"f/masks/{name}{k}.png", c.labels(8, 8, 2))
    for at in "def":
        with tarfile.open(c.path(f"{at}.tar"), "w") as t:
            t.add(c.path(at), ".")
    folder, packed = c.json("data d"), c.json("data d.tar")
    assert packed["class_names"] == folder["class_names"] == ["1", "10", "2"], packed
    assert packed["samples"] == folder["samples"] and packed["counts"] == folder["counts"], (packed, folder)
    c.run("data d.tar", says="no labels are there, so the folders are the classes, such as ")
    c.run("data d.tar --check", says="all 12 samples can be used")
    for at, target, then in (("e", "class", 24), ("f", "mask --classes 2", 12)):
        r = c.run(f"data {at}.tar --target {target}", 1, says=f"mkdir NEW; tar -xf '{at}.tar' -C NEW")
        subprocess.run(["sh", "-ec", r.text.strip().rpartition("unpacked: ")[2]], cwd=c.folder, check=True)
        n = c.json(f"data NEW --target {target}")["samples"]
        assert n["train"] + n["val"] == then, n
        shutil.rmtree(c.path("NEW"))
        c.cured |= set(r.text.splitlines())
    c.write("g.tar", tar([("a/0.png", bytes_of(c)), ("b/0.png", bytes_of(c)), ("b/0.cls", b"b")]))
    c.run("data g.tar --target class", 1, says="a/0.png has no label: there is no a/0.cls")
    c.write("h.tar", tar([("a/0.png", bytes_of(c)), ("b/c/0.png", bytes_of(c))]))
    c.run("data h.tar --target class", 1, says="tar -xf 'h.tar' -C NEW")


@case
def tar_link(c):
    "a link"
    link = tarfile.TarInfo("c.png")
    link.type, link.linkname = tarfile.SYMTYPE, "a.png"
    c.write("one.tar", tar(samples(c, "ab") + [(link, None), ("c.cls", b"1")]))
    c.run("data one.tar --target class", 1, "c.png is a link; pack a copy of the files without links")


@case
def tar_zip(c):
    "a zip and a page of the web called .tar"
    c.write("one.tar", b"PK\x03\x04\x14\0\0\0" + bytes(600))
    c.run("data one.tar --target class", 1, "one.tar is no tar, or its first header is damaged: it is a zip archive; unpack it")
    c.write("two.tar", "<html>" + "x" * 600)
    c.run("data two.tar --target class", 1, "it is a page of the web (HTML): the download has failed")
    c.write("three.tar", "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12\n")
    c.run("data three.tar --target class", 1, "it is a Git LFS pointer")


# ---- what is known before the first step ----

NORM = """local sp = require "spcore"
local opt = sp.args { batch = { 4, "samples" }, steps = { 0, "steps" } }
local g <close> = sp.graph(opt)
local data = g.reader { path = "d", target = "class", size = 8, batch = opt.batch, val_fraction = 0 }
local net = g.layers { g.to_float { data.image }, layers = { { "flatten" }, { "linear", 8 }, { "batch_norm" }, { "linear", 2 } } }
g:train { g.cross_entropy { net.features, data.label }, optimizer = g.sgd { lr = 0.1 } }
for step, m in g:steps(opt.steps > 0 and opt.steps or g:epoch_steps()) do print("step", step) end
"""


@case
def batch_norm_of_one(c):
    "a last batch of one sample in front of a batch norm: said before the first step, with a cure that works"
    folders(c, "d", 5, classes=("ant",))
    folders(c, "d", 4, classes=("bee",))
    c.write("net.lua", NORM)
    c.run(f"run {c.path('net.lua')}", 1, ["need at least 2 samples, and the last batch of an epoch has 1", "drop_last = true (--set reader.drop_last=true)"], lacks="step\t")
    c.run(f"run {c.path('net.lua')} --set reader.drop_last=true", says="step\t1")
    c.run(f"run {c.path('net.lua')} --steps 2", says="step\t1")
    c.run(f"run {c.path('net.lua')} --batch 1", 1, "a batch has 1: take a larger batch", lacks="step\t")


@case
def several_pictures(c):
    "TIFF of pages, animated GIF and WebP: that the first picture alone is read is said"
    for ending, word in (("tif", "pages"), ("gif", "pictures"), ("webp", "pictures")):
        pages = [Image.fromarray(c.picture(8, 8)) for _ in range(3)]
        for k in range(2):
            pages[0].save(c.path(f"{ending}/{'ab'[k]}/0.{ending}"), save_all=True, append_images=pages[1:] if k else [])
        c.run(f"data {ending} --check", says=[f"{ending}/b/0.{ending} has several {word}, of which the first is read", "reduced: 1 sample"])


@case
def links_and_loops(c):
    "links that lead nowhere, to themselves, and to a folder above"
    for k in range(2):
        c.image(f"d/{'ab'[k]}/0.png", 8)
        c.image(f"e/images/{k}.png", 8)
        c.image(f"e/masks/{k}.png", c.labels(8, 8, 2))
    c.write("e/classes.txt", "a\nb\n")
    os.symlink("..", c.path("d/a/up"))
    c.run("data d", 1, "folder d/a/up is a link to a folder that holds it; remove the link")
    os.symlink("gone.png", c.path("e/images/dead.png"))
    c.run("data e", 1, "e/images/dead.png: No such file or directory; a link that leads nowhere is removed")
    os.remove(c.path("e/images/dead.png"))
    os.symlink("self.png", c.path("e/images/self.png"))
    c.run("data e", 1, "e/images/self.png: Too many levels of symbolic links")


@case
def letters_in_two_forms(c):
    "names in Unicode's NFC and NFD, which look the same"
    for k in range(2):
        c.image(f"d/images/ka\u0308se{k}.png", 8)
        c.image(f"d/masks/k\u00e4se{k}.png", c.labels(8, 8, 2))
    c.write("d/classes.txt", "a\nb\n")
    c.run("data d", 1, "is nearly that (its accents or blanks are other bytes, as of Unicode's NFC and NFD): rename it")
    c.write("d/images/d.csv", "file,label\nk\u00e4se0.png,a\nk\u00e4se1.png,b\n")
    c.run("data d/images/d.csv", 1, "other bytes (as of Unicode's NFC and NFD)")


@case
def decimal_commas(c):
    "numbers with decimal commas between semicolons are no classes"
    for k in range(4):
        c.image(f"{k}.png", 8)
    c.write("d.csv", "file;x\r\n" + "".join(f"{k}.png;{k},5\r\n" for k in range(4)))
    doc = c.json("data d.csv")
    assert doc["target"] == "numbers", doc
    c.run("data d.csv --target class", 1, "the label 0,5 is no whole number")


@case
def masks_with_alpha(c):
    "grey masks with alpha: which colours mean what is asked, and the cure read"
    for k in range(6):
        c.image(f"d/images/{k}.png", 8)
        grey = Image.fromarray(c.labels(8, 8, 2))
        c.image(f"d/masks/{k}.png", Image.merge("LA", (grey, Image.fromarray(np.full((8, 8), 255, "uint8")))))
    c.write("d/classes.txt", "a\nb\n")
    c.run("data d --check", 1, ["this one is grey with alpha", "(--mask-values '#000000=0,#010101=1')"])
    c.run("data d --check --mask-values '#000000=0,#010101=1'", says="train pixels: a 50.0 %, b 50.0 %")


@case
def members_that_are_no_sample(c):
    "tar files whose labels or images are called otherwise: what is there is named"
    def tar(name, *endings):
        with tarfile.open(c.path(f"{name}/train-0000.tar"), "w") as t:
            for k in range(2):
                for ending, data in endings:
                    m = tarfile.TarInfo(f"{k}.{ending}")
                    m.size = len(data)
                    t.addfile(m, io.BytesIO(data))

    buffer = io.BytesIO()
    Image.fromarray(c.picture(8, 8)).save(buffer, "PNG")
    png = ("png", buffer.getvalue())
    tar("txt", png, ("txt", b"1"))
    c.run("data txt", 1, ["there is no 0.seg.png or .mask.png, and as a label no .cls", "left out is 0.txt"])
    tar("heic", ("heic", b"x"), ("cls", b"1"))
    c.run("data heic", 1, ["the shards hold no sample", "they hold 2 HEIC images, such as 0.heic, to be converted: heif-convert"])
    tar("gz", ("png.gz", b"x"), ("cls.gz", b"1"))
    c.run("data gz", 1, ["the shards hold no sample", "they hold 0.cls.gz"])
    os.makedirs(c.path("xz/x").rsplit("/", 1)[0], exist_ok=True)
    c.write("xz/a.tar.xz", "x")
    c.run("data xz", 1, "1 archive that is not read (a.tar.xz)")


if __name__ == "__main__":
    main()
