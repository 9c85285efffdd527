# SPDX-License-Identifier: MIT
"""What a file is by its first bytes."""

import os
import sys
import zipfile

CURES = {
    "lfs": "a Git LFS pointer, not the file: git lfs pull",
    "html": "a web page: the download gave that instead of the file",
    "empty": "an empty file: download it again",
    "zip": "a zip archive: unpack it",
    "jit": "a scripted module (torch.jit); its weights, in Python: "
    'torch.save(torch.jit.load("FILE").state_dict(), "weights.pth")',
    "json": "JSON: an error of a server, or an index of other files",
    "safetensors": "a safetensors file: weights are taken as they are, by --weights FILE.safetensors",
    "npy": "a NumPy array",
    "hdf5": "an HDF5 file, as of Keras: export the network as ONNX",
    "gguf": "a GGUF file: weights of a language model",
    "pickle": "a file of weights of PyTorch: name it FILE.pth",
    "gzip": "compressed by gzip: gunzip",
    "tflite": "a TensorFlow Lite file: export the network as ONNX",
}


def is_scripted(path):
    try:
        with zipfile.ZipFile(path) as z:
            return any("/code/" in name for name in z.namelist())
    except (OSError, zipfile.BadZipFile):
        return False


def kind_of(path):
    with open(path, "rb") as f:
        head = f.read(512)
    if not head:
        return "empty"
    if head.startswith(b"version https://git-lfs"):
        return "lfs"
    start = head.lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    if start.startswith((b"<!doctype", b"<html", b"<?xml", b"<head", b"<body")):
        return "html"
    if head.startswith(b"PK\x03\x04"):
        if is_scripted(path):
            return "jit"
        return "pickle" if b"data.pkl" in head or b"/byteorder" in head or b"/version" in head else "zip"
    for magic, kind in (
        (b"\x93NUMPY", "npy"),
        (b"\x89HDF", "hdf5"),
        (b"GGUF", "gguf"),
        (b"\x80\x02", "pickle"),
        (b"\x1f\x8b", "gzip"),
    ):
        if head.startswith(magic):
            return kind
    if head[4:8] == b"TFL3":
        return "tflite"
    if len(head) > 8 and int.from_bytes(head[:8], "little") < 1 << 30 and head[8:9] == b"{":
        return "safetensors"
    return "json" if start.startswith((b"{", b"[")) else ""


def demand(path, wanted):
    """Ends with a line where a file is of another kind."""
    try:
        kind = kind_of(path)
    except OSError as why:
        sys.exit(f"{path}: {why.strerror}")
    if kind not in ("", wanted):
        sys.exit(f"{path}: {CURES[kind]}".replace("FILE", path) if kind == "jit" else f"{path}: {CURES[kind]}")
    if not kind and wanted == "pickle":
        sys.exit(f"{path}: no file of weights that PyTorch wrote ({os.path.getsize(path)} bytes)")
