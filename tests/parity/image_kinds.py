# SPDX-License-Identifier: MIT
# needs: images
# needs no torch
"""Kinds of image files that people have and Pillow does not write, made byte by byte: against Pillow, or pixels that are known."""
import ctypes
import io
import struct
import tempfile

from image_file import LEFT_OUT, Image, files, given, known, np, picture, r, rng, save
from formats import png, tiff, tiff_of

TJPF_RGB, TJPF_CMYK, PROGRESSIVE = 0, 11, 16384


def turbo():
    """The library that the reader has writes what Pillow cannot."""
    try:
        tj = ctypes.CDLL("libturbojpeg.so.0")
    except OSError as e:
        print(f"no YCCK, no arithmetic coding: {e}")
        return None
    tj.tjInitCompress.restype = ctypes.c_void_p
    handle = ctypes.c_void_p(tj.tjInitCompress())

    def write(a, pixels, sampling, flags=0):
        out, n = ctypes.c_void_p(), ctypes.c_ulong()
        failed = tj.tjCompress2(handle, a.tobytes(), a.shape[1], 0, a.shape[0], pixels, ctypes.byref(out), ctypes.byref(n),
                                sampling, 90, flags)
        r.true("libturbojpeg writes", not failed, "")
        return ctypes.string_at(out, n.value)
    return write


def ycck(tmp, write):
    """What Photoshop writes."""
    for (h, w), sampling in zip([(1, 1), (16, 16), (37, 50), (37, 50), (5, 200)], [0, 2, 0, 2, 1]):
        given(tmp, f"ycck {h}x{w} sampling {sampling}", write(picture(h, w, 4), TJPF_CMYK, sampling), "jpg", most=1)


def arithmetic(tmp, write):
    """libturbojpeg 2 and 3 look at the environment."""
    libc = ctypes.CDLL(None)
    libc.setenv(b"TJ_ARITHMETIC", b"1", 1)
    for name, pixels, sampling, flags in [("444", TJPF_RGB, 0, 0), ("420", TJPF_RGB, 2, 0), ("grey", TJPF_RGB, 3, 0),
                                          ("progressive", TJPF_RGB, 2, PROGRESSIVE), ("inks", TJPF_CMYK, 0, 0)]:
        data = write(picture(37, 50, 4 if pixels == TJPF_CMYK else 3), pixels, sampling, flags)
        r.true(f"arithmetic coding, {name}", any(m in data for m in (b"\xff\xc9", b"\xff\xca")), "it was not written so")
        given(tmp, f"arithmetic coding, {name}", data, "jpg", most=int(pixels == TJPF_CMYK))
    libc.unsetenv(b"TJ_ARITHMETIC")


def colours(tmp):
    """What says which colours a JPEG has: JFIF's marker, Adobe's, the names of the components, nothing."""
    b = io.BytesIO()
    Image.fromarray(picture(16, 24)).save(b, "JPEG", subsampling=0)
    b = b.getvalue()
    bare = b[:2] + b[4 + struct.unpack(">H", b[4:6])[0]:]
    adobe = b"\xff\xee\0\x0eAdobe\0\x64\0\0\0\0"
    frame, scan = bare.index(b"\xff\xc0"), bare.index(b"\xff\xda")
    named = bytearray(bare)
    named[frame + 10:frame + 19:3], named[scan + 5:scan + 11:2] = b"RGB", b"RGB"
    for name, data in [("no marker", bare), ("Adobe, RGB", bare[:2] + adobe + b"\0" + bare[2:]),
                       ("Adobe, YCbCr", bare[:2] + adobe + b"\1" + bare[2:]), ("components R, G, B", bytes(named)),
                       ("filling in front of a marker", b[:2] + b"\xff" * 3 + b[2:])]:
        given(tmp, name, data, "jpg")
    b = io.BytesIO()
    Image.fromarray(picture(16, 24, 4), "CMYK").save(b, "JPEG")
    b = b.getvalue()
    at = b.index(b"Adobe") - 4
    given(tmp, "inks without Adobe's marker", b[:at] + b[at + 16:], "jpg", most=1)


def png_kinds(tmp):
    """What Pillow does not write: rows in seven passes, colours that are clear, few bits."""
    for (h, w), interlaced in [((1, 1), 1), ((3, 5), 1), ((37, 50), 1), ((37, 50), 0)]:
        for bits in (1, 2, 4, 8, 16):
            v, name = rng.integers(0, 1 << bits, (h, w, 3)), f"{bits} bits {h}x{w}, {'seven passes' if interlaced else 'rows'}"
            for clear in (False, True):
                trns = [(b"tRNS", struct.pack(">3H", *(int(x) for x in v[0, 0])))] * clear
                grey = png(v[:, :, 0], bits, 0, [(n, t[:2]) for n, t in trns], interlaced)
                given(tmp, f"grey of {name}, clear {clear}", grey, "png")
                if bits > 4:
                    given(tmp, f"RGB of {name}, clear {clear}", png(v, bits, 2, trns, interlaced), "png")
                if bits < 16:
                    extra = [(b"PLTE", rng.bytes(3 << bits))] + [(b"tRNS", b"\0\x80")] * clear
                    given(tmp, f"palette of {name}, clear {clear}", png(v[:, :, 0], bits, 3, extra, interlaced), "png")


def tiff_kinds(tmp):
    """What Pillow does not write, and in part does not read."""
    rgb = picture(37, 50)
    h, w, grey, wide, floats = 37, 50, rgb[:, :, 0], rgb * np.uint16(257), rng.normal(size=(37, 50, 3)).astype(np.float32)
    for order in "<>":
        for planar in (False, True):
            for big in (False, True):
                name = f"{order}, planes {planar}, BigTIFF {big}"
                known(tmp, f"RGB {name}", tiff(rgb, order, planar, 2, big=big), "tif", rgb)
                known(tmp, f"16 bits {name}", tiff(wide, order, planar, 2, big=big), "tif", rgb)
                known(tmp, f"floats, predictor 3 {name}", tiff(floats, order, planar, 2, predictor=True, big=big), "tif", floats,
                      dtype="float32", channels=3)
    for bits in (1, 2, 4):
        v = grey >> 8 - bits
        full = np.repeat((v * (255 // ((1 << bits) - 1)))[:, :, None], 3, 2)
        known(tmp, f"{bits} bits", tiff(v, bits=bits), "tif", full)
        known(tmp, f"{bits} bits, 0 is white", tiff(v, bits=bits, photometric=0), "tif", 255 - full)
    for v in (grey, grey * np.uint16(257)):
        known(tmp, f"{v.dtype}, 0 is white", tiff(v, photometric=0), "tif", np.repeat(255 - grey[:, :, None], 3, 2))
    for bits in (3, 6, 10, 12, 14):  # without a gap between the numbers
        v = rng.integers(0, 1 << bits, (h, w, 3)).astype(np.uint16)
        for planar in (False, True):
            known(tmp, f"{bits} bits, planes {planar}", tiff(v, planar=planar, photometric=2, bits=bits), "tif",
                  v.astype(np.float32), dtype="float32", channels=3)
    old_jpegs(tmp)
    ycbcr(tmp)
    pages = [Image.fromarray(picture(7, 13)).convert(mode) for mode in ("RGB", "L", "1", "P")]
    for k, first in enumerate(pages):
        save(tmp, f"the first page, {first.mode}", first, "tif", save_all=True, append_images=pages[:k] + pages[k + 1:])


def old_jpegs(tmp):
    """Compression 6: a whole JPEG file within, whose pixels it has."""
    for name, options in [("444", {"subsampling": 0}), ("422", {"subsampling": 1}), ("420", {"subsampling": 2}), ("grey", {})]:
        image, b = Image.fromarray(picture(37, 50)), io.BytesIO()
        image = image.convert("L") if name == "grey" else image
        image.save(b, "JPEG", **options)
        inside, n = b.getvalue(), len(image.getbands())
        tags = {256: ("I", [50]), 257: ("I", [37]), 258: ("H", [8] * n), 259: ("H", [6]), 262: ("H", [6 if n == 3 else 1]),
                277: ("H", [n]), 278: ("I", [37]), 512: ("H", [1]), 513: ("I", [0]), 514: ("I", [len(inside)])}
        if n == 3:
            tags[530] = ("H", {"444": [1, 1], "422": [2, 1], "420": [2, 2]}[name])
        tags[513] = ("I", [tiff_of(tags, [inside]).index(inside)])
        if n == 3:  # libtiff spreads colours otherwise than Pillow's JPEG does
            given(tmp, f"old JPEG, {name}", tiff_of(tags, [inside]), "tif")
        else:
            want = np.asarray(Image.open(io.BytesIO(inside)).convert("RGB"))
            known(tmp, f"old JPEG, {name}", tiff_of(tags, [inside]), "tif", want)


def ycbcr(tmp):
    """Brightness of blocks of pixels, and then the colour that they share; grey, so that no rounding of colours shows."""
    for across, down in [(1, 1), (2, 1), (2, 2), (4, 2), (4, 4), (1, 2)]:
        grey = picture(36, 48)[:, :, 0]
        blocks = grey.reshape(36 // down, down, 48 // across, across).swapaxes(1, 2).reshape(-1, down * across)
        data = np.hstack([blocks, np.full((len(blocks), 2), 128, np.uint8)]).tobytes()
        tags = {256: ("I", [48]), 257: ("I", [36]), 258: ("H", [8] * 3), 259: ("H", [1]), 262: ("H", [6]), 277: ("H", [3]),
                278: ("I", [36]), 530: ("H", [across, down])}
        known(tmp, f"YCbCr, blocks of {across} x {down}", tiff_of(tags, [data]), "tif", np.repeat(grey[:, :, None], 3, 2))


def gif_kinds(tmp):
    """Animations in which a colour is clear."""
    for h, w in [(1, 1), (7, 13), (64, 33)]:
        more = [Image.fromarray(picture(h, w)).quantize(32) for _ in range(3)]
        for disposal in range(4):
            save(tmp, f"one clear, disposal {disposal}", more[0], "gif", save_all=True, append_images=more[1:], transparency=5,
                 disposal=disposal, background=3)
        a = picture(h, w, 4)
        a[:, :, 3] = np.where(a[:, :, 3] > 127, 255, 0)
        save(tmp, "animation RGBA", Image.fromarray(a, "RGBA"), "gif", save_all=True,
             append_images=[Image.fromarray(a[::-1], "RGBA")], disposal=2)


with tempfile.TemporaryDirectory() as tmp:
    write = turbo()
    if write:
        ycck(tmp, write)
        arithmetic(tmp, write)
    colours(tmp)
    png_kinds(tmp)
    if "gif" not in LEFT_OUT:
        gif_kinds(tmp)
    if "tiff" not in LEFT_OUT:
        tiff_kinds(tmp)
print(f"{files()} files")
r.exit()
