# SPDX-License-Identifier: MIT
"""spcore and whoever the network is from, on the same images of noise."""

import os
import shutil
import subprocess
import sys
import tempfile

from .words import np

SCRIPT = """
local sp = require "spcore"
local g <close> = sp.graph {}
local data = g.reader { path = "data", batch = BATCH, size = { HEIGHT, WIDTH }, target = "class", shuffle = false }
local x = g.to_float { data.image, scale = true }
local list = dofile "net.lua"
local net = g.layers { x, layers = sp.models.bare(list), weights = "net.safetensors", frozen = true }
g.writer { net.features, file = "0.npy", name = "w0" }
for i = 1, TAPS do g.writer { net.maps[i], file = i .. ".npy", name = "w" .. i } end
for _ in g:steps(1) do end
"""


def check(network, shape, out, taps, batch):
    program = os.environ.get("SPCORE") or shutil.which("spcore")
    if not program or shape[0] != 3:
        sys.exit("--check runs the program spcore, from the PATH or the variable SPCORE, on an image of 3 channels")
    images = np.random.default_rng(1).integers(0, 256, (batch, *shape), dtype=np.uint8)
    with tempfile.TemporaryDirectory() as folder:
        os.mkdir(folder + "/data")
        np.save(folder + "/data/images.npy", images)
        np.save(folder + "/data/labels.npy", np.zeros(batch, np.int64))
        for end in (".lua", ".safetensors"):
            shutil.copy(out + end, folder + "/net" + end)
        words = {"BATCH": batch, "HEIGHT": shape[1], "WIDTH": shape[2], "TAPS": taps}
        script = SCRIPT
        for word, n in words.items():
            script = script.replace(word, str(n))
        with open(folder + "/check.lua", "w", encoding="utf-8") as f:
            f.write(script)
        try:
            failed = subprocess.run([os.path.abspath(program), "run", "check.lua"], cwd=folder, check=False).returncode
        except OSError as why:
            sys.exit(f"--check: the program {program} cannot be run: {why.strerror}")
        if failed:
            sys.exit("--check: spcore cannot run what was written")
        x = images.astype(np.float32) / 255
        fine = compare(network.values(x), folder, network.oracle)
        if not fine and hasattr(network, "others") and (again := network.others(x)):
            fine = compare(again, folder, network.oracle)
    if not fine:
        sys.exit("--check: that is more than 1e-4")


def compare(values, folder, oracle):
    """Says how much the result and each tap differ; True where that is little."""
    fine = True
    for i, y in enumerate(values):
        ours = np.load(f"{folder}/{i}.npy")
        alike = ours.shape == y.shape or ours.size == y.size and ours.shape[:2] == y.shape[:2]
        error = np.abs(ours.reshape(y.shape) - y).max() / max(np.abs(y).max(), 1e-30) if alike else np.inf
        shape = " x ".join(map(str, y.shape))
        print(f"{f'tap {i}' if i else 'result'}: {shape}, differs by {error:.2g} of the largest value from {oracle}")
        fine = fine and error <= 1e-4  # not of NaN
    return fine
