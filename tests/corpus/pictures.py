# SPDX-License-Identifier: MIT
# needs: images jansson tiff
# needs no torch
"""Image files of kinds that no library here reads: what each is, and what to do. parity/image_kinds.py has pixels of those that are read."""
import io
import os
import struct
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from formats import tiff, tiff_of
from kit import Image, case, main, np


def odd(c, name, data, quote, *cures, check="data d --check"):
    """One file of three is read only after the cure; without any it is converted to PNG, as the message says."""
    for k in range(3):
        c.image(f"d/ant/{k}.png")
    c.write(f"d/bee/{name}", data)

    def convert():
        c.image(f"d/bee/{name}", 8, format="PNG")
    r = c.cures(check, quote, *(cures or (convert,)))
    assert f"d/bee/{name}: " in r.text, r


def jpeg(c, **how):
    b = io.BytesIO()
    Image.fromarray(c.picture(8, 8)).save(b, "JPEG", **how)
    return b.getvalue()


def framed(b, marker, bits):
    """A JPEG whose frame says that it is of another process."""
    at = b.index(b"\xff\xc0")
    return b[:at + 1] + bytes([marker]) + b[at + 2:at + 4] + bytes([bits]) + b[at + 5:]


JPEGS = {
    "jpeg_12": ("JPEG of 12 bits", 0xC1, 12, "it is a JPEG of 12 bits a channel, which is not read; convert it to PNG"),
    "jpeg_12_arithmetic": ("JPEG of 12 bits, arithmetic coding", 0xC9, 12, "it is a JPEG of 12 bits a channel"),
    "jpeg_lossless": ("lossless JPEG, of scanners and cameras", 0xC3, 16, "it is a lossless JPEG of 16 bits a channel"),
    "jpeg_lossless_arithmetic": ("lossless JPEG, arithmetic coding", 0xCB, 8, "it is a lossless JPEG of 8 bits a channel"),
    "jpeg_hierarchical": ("JPEG of several frames", 0xC6, 8, "it is a hierarchical JPEG of 8 bits a channel"),
    "jpeg_ls": ("JPEG-LS", 0xF7, 8, "it is a JPEG-LS of 8 bits a channel, which is not read; convert it to PNG or PNM, as with ffmpeg"),
}
for name, (doc, marker, bits, words) in JPEGS.items():
    def f(c, marker=marker, bits=bits, words=words):
        odd(c, "x.jpg", framed(jpeg(c), marker, bits), words)
    f.__name__, f.__doc__ = name, doc
    case(f)


@case
def jpeg_xr(c):
    "JPEG XR, which begins almost as TIFF"
    odd(c, "x.jpg", b"II\xbc\x01" + bytes(100), "it is a JPEG XR image; convert it to PNG or JPEG, as with JxrDecApp")


# ---- TIFF ----

def strip(compression, data, bits):
    return tiff_of({256: ("I", [8]), 257: ("I", [8]), 258: ("H", [bits]), 259: ("H", [compression]), 262: ("H", [1]),
                    277: ("H", [1]), 278: ("I", [8])}, [data])


ANEW = 'save it anew, in Python: tifffile.imwrite("NEW.tif", tifffile.imread("OLD.tif"))'
TIFFS = {
    "tiff_jpeg_2000": (34712, 8, f"it is compressed as JPEG 2000 (34712), which this libtiff does not read; {ANEW}"),
    "tiff_jpeg_xl": (50002, 8, f"it is compressed as JPEG XL (50002), which this libtiff does not read; {ANEW}"),
    "tiff_own": (65000, 8, f"it is compressed as a way of its own (65000), which this libtiff does not read; {ANEW}"),
    "tiff_jpeg_12": (7, 12, f"it holds a JPEG of 12 bits a channel, which is not read; {ANEW}"),
    "tiff_jpeg_lossless": (7, 8, f"it holds a JPEG of a kind that libtiff does not read; {ANEW}"),
}
for name, (compression, bits, words) in TIFFS.items():
    def f(c, compression=compression, bits=bits, words=words):
        inside = io.BytesIO()
        Image.fromarray(c.picture(8, 8, 1)).save(inside, "JPEG")
        data = strip(compression, framed(inside.getvalue(), 0xC3, 8), bits)

        def anew():
            c.write("d/bee/x.tif", tiff(c.picture(8, 8), photometric=2))
        odd(c, "x.tif", data, words, anew)
        c.write("d/bee/x.tif", data)
        c.cures("data d --check --dtype float32", words, anew)  # numbers are no way round it
    f.__name__, f.__doc__ = name, f"a TIFF, {words[:words.index(',')]}"
    case(f)


@case
def tiff_volume(c):
    "a TIFF of many planes in one picture"
    odd(c, "x.tif", tiff(c.picture(8, 8, 1), tags={32997: ("I", [4])}),
        "it is a volume of 4 planes; save each as a file of its own")


@case
def tiff_mosaic(c):
    "a TIFF of a camera's sensor"
    odd(c, "x.tif", tiff(c.picture(8, 8, 1), photometric=32803),
        "can not handle image with PhotometricInterpretation=32803; convert it to PNG")


@case
def tiff_packed(c):
    "a TIFF of 12 bits, as cameras of microscopes write it: numbers, and no bytes"
    odd(c, "x.tif", tiff(c.picture(8, 8).astype(np.uint16) * 16, bits=12, photometric=2),
        "samples of 12 bits, 3 a pixel; at most 8 of 8 or 16 bits are read as bytes, dtype", "--dtype float32")
    c.cures("data d", "1 of 4 images are uint12, and bytes are read: of these none can be; they are read by", "--dtype float32", status=0)


@case
def tiff_lab(c):
    "a TIFF in CIE L*a*b*: all three channels are colours"
    for dtype, lost in ((np.uint8, False), (np.uint16, True)):
        c.write("d/ant/x.tif", tiff(c.picture(8, 8).astype(dtype), photometric=8))
        c.image("d/bee/0.png")
        words = ["16 bits a channel, of which the high 8 are read; saved in RGB all can be kept"] * lost
        r = c.run("data d --check", says=["all 2 samples", *words], lacks="the first one is read")
        assert lost or "bits a channel" not in r.text, r


# ---- BMP ----

def bmp(header, bits, compression):
    head = struct.pack("<IiiHHIIiiII", header, 8, 8, 1, bits, compression, 0, 0, 0, 0, 0).ljust(header, b"\0")[:header]
    return b"BM" + struct.pack("<IHHI", 0, 0, 0, 14 + len(head)) + head + bytes(8 * 8 * 4)


@case
def bmp_kinds(c):
    "BMP files of OS/2, and with another file within"
    for header, bits, compression, words in [
            (16, 8, 0, "a BMP file with a header of 16 bytes; save it as PNG"),
            (64, 24, 4, "a BMP file of 24 bits a pixel in compression 4 of OS/2; save it as PNG"),
            (64, 1, 3, "a BMP file of 1 bit a pixel in compression 3 of OS/2; save it as PNG"),
            (40, 2, 0, "a BMP file of 2 bits a pixel in compression 0; save it as PNG"),
            (40, 0, 4, "a BMP file with a JPEG in it; save it as PNG")]:
        odd(c, "x.bmp", bmp(header, bits, compression), words)


# ---- formats without a reader ----

@case
def jpeg_height(c):
    "a JPEG whose height stands behind its scan (DNL): the pixels of the clean file"
    clean = jpeg(c)
    at = clean.index(b"\xff\xc0")
    c.write("d/ant/0.jpg", clean)
    c.write("d/bee/0.jpg", clean[:at + 5] + bytes(2) + clean[at + 7:-2] + b"\xff\xdc\0\4" + clean[at + 5:at + 7] + b"\xff\xd9")
    c.run("data d --check", says=["all 2 samples can be used", "1 image", "has the pixels of", "8 x 8 (2)"])
    c.write("d/bee/0.jpg", clean[:at + 5] + bytes(2) + clean[at + 7:])
    c.run("data d --check", 1, says="d/bee/0.jpg: ")


@case
def pam(c):
    "PAM and PFM"
    odd(c, "x.ppm", b"P7\nWIDTH 8\nHEIGHT 8\nDEPTH 3\nMAXVAL 255\nTUPLTYPE RGB\nENDHDR\n" + bytes(192),
        "it is a PAM image; convert it to PNG or JPEG")
    odd(c, "x.ppm", b"PF\n8 8\n-1.0\n" + bytes(8 * 8 * 12), "it is a PFM of floats; save it as .npy: numpy.save(")
    for ending, words in (("pfm", "1 PFM of floats (bee/y.pfm), to be converted: numpy.save("), ("pam", "(bee/y.pam), to be converted: magick FILE FILE.png")):
        c.write(f"d/bee/y.{ending}", "x")
        c.run("data d", says=words)
        os.remove(c.path(f"d/bee/y.{ending}"))


if __name__ == "__main__":
    main()
