# SPDX-License-Identifier: MIT
# needs: images
# needs no torch
"""Image files of every kind against Pillow: pixels, orientations, inks."""
import io
import struct
import tempfile
import zlib

from image_file import LEFT_OUT, Image, StageError, bmp, files, given, known, np, picture, r, read, rng, save
from spstage import pillow_bicubic


def jpegs(tmp):
    for h, w in [(1, 1), (16, 16), (37, 50), (5, 200)]:
        rgb = Image.fromarray(picture(h, w))
        for name, options in [("444", {"subsampling": 0}), ("422", {"subsampling": 1}), ("420", {"subsampling": 2}),
                              ("progressive", {"progressive": True, "subsampling": 2}), ("q20", {"quality": 20})]:
            save(tmp, name, rgb, "jpg", **options)
        save(tmp, "grey", rgb.convert("L"), "jpg")
        save(tmp, "progressive grey", rgb.convert("L"), "jpeg", progressive=True)
        inks = Image.fromarray(picture(h, w, 4), "CMYK")
        for name, options in [("cmyk", {}), ("progressive cmyk", {"progressive": True}), ("cmyk q95", {"quality": 95})]:
            save(tmp, name, inks, "jpg", most=1, **options)
    for orientation in range(1, 9):
        rgb = Image.fromarray(picture(37, 50))
        save(tmp, "420", rgb, "jpg", orientation=orientation, subsampling=2)
        save(tmp, "progressive", rgb, "jpg", orientation=orientation, progressive=True)
        save(tmp, "grey", rgb.convert("L"), "jpg", orientation=orientation)


def pngs(tmp):
    for h, w in [(1, 1), (7, 13), (64, 33)]:
        rgba = Image.fromarray(picture(h, w, 4), "RGBA")
        for mode in ("RGB", "RGBA", "L", "LA", "P", "1"):
            save(tmp, mode, rgba.convert("RGB").convert(mode) if mode != "RGBA" else rgba, "png")
        for bits in (1, 2, 4):
            save(tmp, f"palette of {bits} bits", rgba.convert("RGB").quantize(1 << bits), "png", bits=bits)
        save(tmp, "palette, one clear", rgba.convert("RGB").quantize(16), "png", transparency=3)
        grey = (rng.integers(0, 65536, (h, w))).astype(np.uint16)
        save(tmp, "grey of 16 bits", Image.fromarray(grey), "png")
    for orientation in range(1, 9):
        save(tmp, "RGB", Image.fromarray(picture(9, 20)), "png", orientation=orientation)
        save(tmp, "palette", Image.fromarray(picture(9, 20)).quantize(8), "png", orientation=orientation)


def webps(tmp):
    for h, w in [(1, 1), (16, 16), (37, 50), (5, 200)]:
        rgba = Image.fromarray(picture(h, w, 4), "RGBA")
        rgb = rgba.convert("RGB")
        for name, image, options in [("lossless", rgb, {"lossless": True}), ("lossy", rgb, {"quality": 80}),
                                     ("q20", rgb, {"quality": 20}), ("lossless", rgba, {"lossless": True, "exact": True}),
                                     ("lossy", rgba, {"quality": 70})]:
            save(tmp, f"{name} {image.mode}", image, "webp", most=1, **options)
    for orientation in range(1, 9):
        save(tmp, "lossless", Image.fromarray(picture(37, 50)), "webp", orientation=orientation, lossless=True)


def tiffs(tmp):
    for h, w in [(1, 1), (7, 13), (64, 33)]:
        rgba = Image.fromarray(picture(h, w, 4), "RGBA")
        for mode in ("RGB", "RGBA", "L", "LA", "P"):
            image = rgba if mode == "RGBA" else rgba.convert("RGB").convert(mode)
            for compression in ("raw", "tiff_lzw", "tiff_adobe_deflate", "packbits"):
                save(tmp, f"{mode} {compression}", image, "tif", compression=compression)
        one = rgba.convert("RGB").convert("1")
        for compression in ("raw", "group4", "group3"):
            save(tmp, f"1 {compression}", one, "tiff", compression=compression)
        save(tmp, "CMYK", Image.fromarray(picture(h, w, 4), "CMYK"), "tif", most=1)
        grey = rng.integers(0, 65536, (h, w)).astype(np.uint16)
        save(tmp, "grey of 16 bits", Image.fromarray(grey), "tif", most=1)
        save(tmp, "jpeg", rgba.convert("RGB"), "tif", most=1, compression="jpeg")
        save(tmp, "jpeg grey", rgba.convert("L"), "tif", most=1, compression="jpeg")
    for orientation in range(1, 9):
        save(tmp, "RGB", Image.fromarray(picture(9, 20)), "tif", orientation=orientation, compression="tiff_lzw")


def greys(tmp):
    """One channel: Pillow's mode L."""
    for name, image in (("RGB", Image.fromarray(picture(37, 50))), ("L", Image.fromarray(picture(37, 50)[:, :, 0])),
                        ("P", Image.fromarray(picture(37, 50)).quantize(9))):
        path = f"{tmp}/grey.png"
        image.save(path)
        r.same(f"{name} as grey", read(path, 37, 50, grey=True)[:, :, 0], np.asarray(Image.open(path).convert("L")))


def bmps(tmp):
    for h, w in [(1, 1), (7, 13), (64, 33)]:
        rgba = Image.fromarray(picture(h, w, 4), "RGBA")
        for mode in ("RGB", "RGBA", "L", "P", "1"):
            save(tmp, mode, rgba if mode == "RGBA" else rgba.convert("RGB").convert(mode), "bmp")
        table = bytes(v for i in range(256) for v in (i * 7 % 256, 255 - i, i * 3 % 256, 0))
        for bits in (1, 4, 8, 16, 24, 32):
            line = (w * bits + 31) // 32 * 4
            colours = table[:4 << bits] if bits <= 8 else b""
            rows = rng.integers(0, 256, h * line).astype(np.uint8).tobytes()
            for name, height in (("", h), ("top down ", -h)):
                given(tmp, f"{name}{bits} bits {h}x{w}", bmp(w, height, bits, rows, colours=colours), "bmp")
            if bits != 16 and bits != 32:
                three = b"".join(colours[i:i + 3] for i in range(0, len(colours), 4))
                given(tmp, f"OS/2 {bits} bits {h}x{w}", bmp(w, h, bits, rows, colours=three, header=12), "bmp")
                given(tmp, f"OS/2 of version 2, {bits} bits {h}x{w}", bmp(w, h, bits, rows, colours=colours, header=64), "bmp")
            for masks in {16: [(0xF800, 0x7E0, 0x1F), (0x7C00, 0x3E0, 0x1F)], 32: [(0xFF0000, 0xFF00, 0xFF)]}.get(bits, []):
                packed = struct.pack("<III", *masks)
                given(tmp, f"{bits} bits, masks behind {h}x{w}", bmp(w, h, bits, rows, 3, colours=packed), "bmp")
                for header in (108, 124):
                    data = bmp(w, h, bits, rows, 3, masks=packed + bytes(4), header=header)
                    given(tmp, f"{bits} bits, masks within {h}x{w}", data, "bmp")
                want = read(f"{tmp}/{files() - 1}.bmp", h, w)
                for name, data in [("of a header of 52", bmp(w, h, bits, rows, 3, masks=packed, header=52)),
                                   ("of a header of 56", bmp(w, h, bits, rows, 3, masks=packed + bytes(4), header=56)),
                                   ("with alpha", bmp(w, h, bits, rows, 6, colours=packed + bytes(4)))]:
                    known(tmp, f"{bits} bits, masks {name}", data, "bmp", want)
    given(tmp, "few colours", bmp(4, 1, 8, bytes([0, 1, 2, 1]), colours=table[:12], used=3), "bmp")
    runs = b"".join([b"\4\5", b"\0\3abc\0", b"\2\7\0\0",  # 4 of a colour, 3 as they are, 2; a row
                     b"\0\4wxyz\5\1\0\0", b"\3\2\0\0", b"\x09\3\0\1"])  # the third row ends early
    given(tmp, "run lengths of 8 bits", bmp(9, 4, 8, runs, 1, colours=table), "bmp")
    runs = b"".join([b"\4\x5A", b"\0\5\x12\x34\x50\0", b"\0\0", b"\x09\x12\0\0", b"\x09\xF0\0\1"])
    for height in (3, -3):
        given(tmp, "run lengths of 4 bits", bmp(9, height, 4, runs.replace(b"\0\5\x12\x34\x50\0", b"\0\4\x12\x34\1\x55"), 2,
                                                colours=table[:64]), "bmp")


def pnms(tmp):
    for h, w in [(1, 1), (7, 13), (64, 33)]:
        rgb = Image.fromarray(picture(h, w))
        save(tmp, "colour", rgb, "ppm")
        save(tmp, "grey", rgb.convert("L"), "pgm")
        save(tmp, "bits", rgb.convert("1"), "pbm")
        save(tmp, "colour", rgb, "pnm")
        for most in (1, 15, 200, 255, 256, 1000, 65535):
            for kind, channels in ((5, 1), (6, 3)):
                v = rng.integers(0, most + 1, h * w * channels)
                data = v.astype(">u2" if most > 255 else np.uint8).tobytes()
                given(tmp, f"P{kind} up to {most} {h}x{w}", b"P%d\n# a comment\n%d %d\n%d\n" % (kind, w, h, most) + data, "pnm")
                text = " ".join(str(x) for x in v).encode()
                given(tmp, f"P{kind - 3} up to {most} {h}x{w}", b"P%d %d %d\n%d\n" % (kind - 3, w, h, most) + text + b"\n", "pnm")
        v = rng.integers(0, 2, (h, w))
        given(tmp, f"P1 {h}x{w}", b"P1\n%d %d\n" % (w, h) + b"\n".join(b"".join(b"%d" % x for x in row) for row in v), "pbm")


def gifs(tmp):
    for h, w in [(1, 1), (7, 13), (64, 33)]:
        rgb = Image.fromarray(picture(h, w))
        for name, image, options in [("colours", rgb.quantize(200), {}), ("few", rgb.quantize(5), {}), ("grey", rgb.convert("L"), {}),
                                     ("in rows", rgb.quantize(64), {"interlace": 0}), ("bits", rgb.convert("1"), {}),
                                     ("one clear", rgb.quantize(16), {"transparency": 3})]:
            save(tmp, name, image, "gif", **options)
        more = [Image.fromarray(picture(h, w)).quantize(32) for _ in range(3)]
        save(tmp, "animation", more[0], "gif", save_all=True, append_images=more[1:], loop=0)
    b = io.BytesIO()
    rgb = Image.fromarray(picture(6, 8)).quantize(16)
    for clear in (None, 9):
        b = io.BytesIO()
        rgb.save(b, "GIF", **({} if clear is None else {"transparency": clear}))
        data = bytearray(b.getvalue())
        at = data.index(b",\0\0\0\0\x08\0\x06\0")
        for name, size, place in (("a part of the screen", (20, 16), (5, 3)), ("beyond the screen", (8, 6), (5, 3))):
            data[6:10] = struct.pack("<HH", *size)
            data[at + 1:at + 5] = struct.pack("<HH", *place)
            given(tmp, f"{name}, clear {clear}", bytes(data), "gif")


def animations(tmp):
    more = [Image.fromarray(picture(37, 50, 4), "RGBA") for _ in range(3)]
    for name, frames in (("RGBA", more), ("RGB", [m.convert("RGB") for m in more])):
        save(tmp, f"animation {name}", frames[0], "webp", most=1, save_all=True, append_images=frames[1:], lossless=True)
        save(tmp, f"lossy animation {name}", frames[0], "webp", most=1, save_all=True, append_images=frames[1:])


def chunks(png):
    at, out = 8, []
    while at < len(png):
        n = struct.unpack(">I", png[at:at + 4])[0]
        out.append([png[at + 4:at + 8], png[at + 8:at + 8 + n], png[at + 8 + n:at + 12 + n]])
        at += 12 + n
    return out


def png_of(parts):
    """Of chunks; without a checksum the right one."""
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + name + data + (crc or struct.pack(">I", zlib.crc32(name + data)))
        for name, data, crc in parts)


def odd_jpegs(b):
    yield "junk behind", b + b"junk" * 7
    yield "zeros behind", b + bytes(3000)
    yield "a second picture behind", b + b
    yield "a film behind", b + b"\0\0\0\x18ftypmp42" + bytes(range(256)) * 9
    for n in (1, 2, 3, 27, 65, 1153):
        yield f"{n} bytes in front of the end", b[:-2] + b"Z" * n + b[-2:]
    yield "stuffed bytes in front of the end", b[:-2] + b"\xff\0Z" * 9 + b[-2:]
    yield "zeros in front of the end", b[:-2] + bytes(128) + b[-2:]
    at = b.find(b"JFIF\0") + 5
    yield "no version", b[:at] + b"\0\0" + b[at + 2:]
    yield "no version, bytes in front of the end", b[:at] + b"\0\0" + b[at + 2:-2] + b"Z" * 99 + b[-2:]
    yield "both", b[:-2] + b"Z" * 5 + b[-2:] + b"tail"
    for n in (1, 2, 3, 9, 100):
        yield f"cut by {n}", b[:-n]


def odd_pngs(b):
    parts = chunks(b)
    i = [k for k, part in enumerate(parts) if part[0] == b"IDAT"][-1]
    data = parts[i][1]
    yield "no end", png_of(parts[:-1])
    yield "a text behind, no end", png_of(parts[:-1] + [[b"tEXt", b"a\0b", None]])
    yield "a wrong checksum of a text behind", png_of(parts[:-1] + [[b"tEXt", b"a\0b", b"abcd"]] + parts[-1:])
    yield "a wrong checksum of the end", png_of(parts[:-1] + [[b"IEND", b"", b"abcd"]])
    yield "a wrong checksum of the pixels' chunk", png_of(parts[:i] + [[b"IDAT", data, b"abcd"]] + parts[i + 1:])
    yield "a wrong checksum of the pixels", png_of(parts[:i] + [[b"IDAT", data[:-4] + b"abcd", None]] + parts[i + 1:])
    yield "a wrong checksum of the header", png_of([[b"IHDR", parts[0][1], b"abcd"]] + parts[1:])
    yield "bytes behind the pixels", png_of(parts[:i] + [[b"IDAT", data + b"abcdefgh", None]] + parts[i + 1:])
    yield "half of the pixels", png_of(parts[:i] + [[b"IDAT", data[:len(data) // 2], None]] + parts[i + 1:])
    yield "junk behind", b + b"junk"
    yield "two", b + b
    for n in (*range(1, 21), 30, 60):  # of the pixels' last byte, which says that nothing follows, we want to be sure
        yield f"cut by {n}", b[:-n]


def odd_files(tmp):
    """What Pillow reads of a damaged file is read, with its pixels, which are those of the whole file; all else is refused."""
    def pixels_of(path):
        try:
            return np.asarray(Image.open(path).convert("RGB"))
        except Exception:
            return None

    def cuts(b):
        for n in (1, 5, 40, len(b) // 2, len(b) - 30):
            yield f"cut by {n}", b[:-n]

    others = [("bmp", {}, cuts), ("ppm", {}, cuts)] + [("gif", {}, cuts)] * ("gif" not in LEFT_OUT)
    for ending, options, odd in (*others, ("jpg", {}, odd_jpegs), ("jpg", {"progressive": True}, odd_jpegs), ("png", {}, odd_pngs)):
        path, picked = f"{tmp}/odd.{ending}", picture(37, 50)
        Image.fromarray(picked).save(path, **options)
        with open(path, "rb") as f:
            whole = f.read()
        clean = pixels_of(path)
        for name, data in odd(whole):
            with open(path, "wb") as f:
                f.write(data)
            want = pixels_of(path)
            try:
                got = read(path, 37, 50)
            except StageError:
                got = None
            r.true(f"{ending} {options}: {name}", (want is None) == (got is None), f"Pillow {want is not None}, here {got is not None}")
            if got is not None:
                r.same(f"{ending} {options}: {name}, pixels", got, clean)
    # Pillow has no pixels where a chunk that is of no matter has a wrong checksum; libpng, and who uses it, has
    path = f"{tmp}/odd.png"
    parts = chunks(whole)
    with open(path, "wb") as f:
        f.write(png_of(parts[:1] + [[b"tEXt", b"a\0b", b"abcd"]] + parts[1:]))
    r.same("png: a wrong checksum of a text in front", read(path, 37, 50), clean)
    # and what it reads where parts of a scan are missing is another picture
    path = f"{tmp}/odd.jpg"
    Image.fromarray(picked).save(path)
    with open(path, "rb") as f:
        whole = f.read()
    with open(path, "wb") as f:
        f.write(whole[:-300] + whole[-2:])
    try:
        read(path, 37, 50)
        r.true("jpg cut in front of its end", False, "it was read")
    except StageError as e:
        r.true("jpg cut in front of its end", "Corrupt JPEG data" in str(e), str(e))


def refused(tmp, ending, library, **options):
    path = f"{tmp}/refused.{ending}"
    Image.fromarray(picture(5, 5)).save(path, **options)
    try:
        read(path, 5, 5)
        r.true(f"{ending} without {library}", False, "it was read")
    except StageError as e:
        r.true(f"{ending} without {library}", f"built without {library}" in str(e), str(e))


def evaluated(image, shorter, h, w, resized):
    """torchvision's Resize(shorter) and CenterCrop((h, w)) of a Pillow image."""
    short, long = min(image.size), max(image.size)
    size = (shorter, int(shorter * long / short))
    image = resized(image, size if image.width <= image.height else size[::-1])
    top, left = int(round((image.height - h) / 2.0)), int(round((image.width - w) / 2.0))
    return np.asarray(image.crop((left, top, left + w, top + h)))


def sizes(tmp):
    """Files of different sizes to one, as classifiers are evaluated: bicubic with Pillow's bits."""
    for i in range(40):
        h, w = (int(v) for v in np.exp(rng.uniform(0, np.log(301), 2)))
        shorter = int(rng.integers(1, 121))
        out = [int(v) for v in rng.integers(1, shorter + 1, 2)]
        path = f"{tmp}/size.png"
        image = Image.fromarray(picture(h, w))
        image.save(path)
        got = read(path, *out, shorter=shorter, interpolation="bicubic")
        want = evaluated(image, shorter, *out, pillow_bicubic)
        r.same(f"{h} x {w}, shorter {shorter}, {out[0]} x {out[1]}, bicubic", got, want)
        bilinear = evaluated(image, shorter, *out, lambda i, size: i.resize(size, Image.BILINEAR))
        off = np.abs(read(path, *out, shorter=shorter).astype(int) - bilinear)
        r.true(f"{h} x {w}, shorter {shorter}, {out[0]} x {out[1]}", off.max() <= 1, f"by up to {off.max()}")
        got = read(path, *out, interpolation="bicubic")
        r.same(f"{h} x {w} to {out[0]} x {out[1]}, bicubic", got, np.asarray(pillow_bicubic(image, out[::-1])))


with tempfile.TemporaryDirectory() as tmp:
    jpegs(tmp)
    sizes(tmp)
    pngs(tmp)
    odd_files(tmp)
    bmps(tmp)
    greys(tmp)
    pnms(tmp)
    for ending in ("jfif", "jpe"):
        save(tmp, "ending", Image.fromarray(picture(9, 7)), ending)
    if "gif" in LEFT_OUT:
        refused(tmp, "gif", "giflib")
    else:
        gifs(tmp)
    if "webp" in LEFT_OUT:
        refused(tmp, "webp", "libwebp")
    else:
        webps(tmp)
        animations(tmp)
    if "tiff" in LEFT_OUT:
        refused(tmp, "tif", "libtiff")
    else:
        tiffs(tmp)
print(f"{files()} files")
r.exit()
