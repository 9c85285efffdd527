# SPDX-License-Identifier: MIT
"""Inputs as people have them, each with its expected reading or message.

A file of this folder has the cases of one subject. A case is a function with @case: it makes an input in a folder of its own,
runs commands there and says what each must do:

    @case
    def mask_is_jpeg(c):
        "a mask saved as JPEG has grey values between the classes"
        c.image("d/images/0.png", 8, 8)
        c.image("d/masks/0.jpg", c.labels(8, 8, 2), quality=60)
        c.run("data d --check", 1, says=["JPEG", "d/masks/0.jpg"], lacks=["all 1 samples"])
        assert c.json("data d")["samples"]["train"] == 1

Whatever a case expects, no command may end by a signal or by an error of Lua, print control characters, or name an option that
it does not take. A cure that an error has in parentheses, as in "(--set reader.drop_last=false)", is typed: the command must not
say the same again. `python3 FILE.py NAME...` runs those cases alone and shows what was
printed; --keep leaves the folders.

Below the results stand all lines that commands have printed, "said: ...", and those whose cure was typed, "cured: ...": messages.py
looks there for each message of the sources.
"""
import concurrent.futures
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import threading
import traceback

import numpy as np

try:
    from PIL import Image
except ImportError:
    print("skipped: Pillow is not installed (Debian: apt install python3-pil)")
    sys.exit(77)

BUILD = os.path.abspath(os.environ.get("top_builddir", os.getcwd()))
SPCORE = os.path.join(BUILD, "spcore")
HANG = 300  # seconds after which a command hangs, however busy the machine is

_cases = []
_help = {}
_lock = threading.Lock()


def case(f):
    _cases.append(f)
    return f


class Result:
    def __init__(self, line, status, out, err):
        self.line, self.status, self.out, self.err = line, status, out, err
        self.text = out + err

    def __str__(self):
        return f"$ spcore {self.line}\n{self.text}(status {self.status})\n"


class Case:
    """What a case works with. Paths are relative to its folder; folders on the way are made."""

    def __init__(self, folder, name):
        self.folder, self.log, self.env, self.rng = folder, [], {}, np.random.default_rng(sum(name.encode()))
        self.cured = set()  # lines whose cure was typed

    def path(self, name):
        path = os.path.join(self.folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        return path

    def write(self, name, data):
        """Bytes, or text in UTF-8 with the ends of lines that it has."""
        with open(self.path(name), "wb") as f:
            f.write(data if isinstance(data, bytes) else data.encode())

    def read(self, name):
        with open(self.path(name), "rb") as f:
            return f.read()

    def folder_of(self, name):
        os.makedirs(os.path.join(self.folder, name), exist_ok=True)

    def picture(self, height, width, channels=3):
        """Random bytes, smooth enough for JPEG."""
        small = self.rng.integers(0, 256, (-(-height // 4), -(-width // 4), channels), dtype=np.uint8)
        a = small.repeat(4, 0).repeat(4, 1)[:height, :width]
        return a[:, :, 0] if channels == 1 else a

    def labels(self, height, width, classes):
        """A mask with an area of each class."""
        return (np.arange(height * width).reshape(height, width) * classes // (height * width)).astype(np.uint8)

    def image(self, name, what=8, width=None, palette=None, **how):
        """An array, an image of Pillow, or a height (and a width) of a random picture; how: what Pillow's save() takes."""
        if isinstance(what, int):
            what = self.picture(what, width or what)
        im = what if isinstance(what, Image.Image) else Image.fromarray(what, "P" if palette else None)
        if palette:
            im.putpalette(palette)
        im.save(self.path(name), **how)

    def spcore(self, line):
        """Runs `spcore LINE` in the case's folder and checks what holds for each command."""
        env = dict(os.environ, CUDA_VISIBLE_DEVICES="", COLUMNS="0", XDG_CACHE_HOME=os.path.join(self.folder, ".cache"),
                   **self.env)
        p = subprocess.run([SPCORE, *shlex.split(line)], cwd=self.folder, env=env, stdin=subprocess.DEVNULL,
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=HANG)
        r = Result(line, p.returncode, p.stdout.decode(errors="backslashreplace"), p.stderr.decode(errors="backslashreplace"))
        self.log.append(r)
        assert 0 <= r.status < 128, f"ends by a signal\n{r}"
        assert not re.search(r"stack traceback|attempt to |\?\[C\]", r.text), f"an error of Lua\n{r}"
        assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f]", r.text.replace("\r", "")), f"control characters\n{r}"
        own = re.sub(r"spcore [a-z]+( [\w./]+)?(,? --[a-z-]+( [A-Z]+)?)+", "", r.err)  # without those of commands that are named in full
        unknown = {o for o in re.findall(r"(?<![\w-])--[a-z][a-z-]*[a-z]", own) if o not in options(line, self.folder)}
        assert not unknown, f"names {', '.join(sorted(unknown))}, which the command does not take\n{r}"
        return r

    def run(self, line, status=0, says=(), lacks=(), cure=True):
        """... and what a command must say, on either stream, and must not. A word is a text, or a compiled pattern."""
        r = self.spcore(line)
        assert r.status == status, f"status {status} is expected\n{r}"
        if cure and status < 2:
            self.cure(r)
        for words, there in ((says, True), (lacks, False)):
            for word in [words] if isinstance(words, (str, re.Pattern)) else words:
                found = word.search(r.text) is not None if isinstance(word, re.Pattern) else word in r.text
                assert found == there, f"{'lacks' if there else 'says'} '{word if isinstance(word, str) else word.pattern}'\n{r}"
        return r

    def cure(self, r):
        """Types what a message proposes. `N` and the like stand for what only the user knows."""
        for cure in re.findall(r"\((--set '[^']*'|--[a-z-]+(?:[ =](?:'[^']*'|[^\s()]+))?)\)", r.text):
            said = {line for line in r.text.splitlines() if cure in line}
            if re.search(r"[= ,]'?[A-Z.]+'?$", cure) or cure == "--help" or said <= self.cured:
                continue
            self.cured |= said
            after = self.spcore(f"{r.line} {cure}")
            assert not any(cure in line for line in said & set(after.text.splitlines())), f"{cure} cures nothing\n{r}{after}"

    def cures(self, line, quote, *cures, status=1, then=0):
        """`spcore LINE` prints a line with this quote, and each of the cures makes it go away. A cure is what is added to the
        command, which the message has word by word; ("--lr X", "--lr 0.1"), where it has a word for what the user knows, or says
        of an option to leave it out: ("--lr", None), or only "lr"; "spcore ..." in place of the command; a function that does
        what the message says. The command ends with the status `then` afterwards."""
        r = self.run(line, status, says=quote, cure=False)
        said = [text for text in r.text.splitlines() if quote in text]
        for cure in cures:
            printed, typed = cure if isinstance(cure, tuple) else (cure, cure)
            assert callable(printed) or any(printed in text for text in said), f"'{printed}' is not in the message\n{r}"
            if callable(typed):
                typed()
                after = self.spcore(line)
            elif typed is None:
                without = re.sub(rf" {re.escape(printed)}(?:[ =](?!-)(?:'[^']*'|\S+))?(?= |$)", "", line)
                assert without != line, f"{printed} is not in the command {line}"
                after = self.spcore(without)
            else:
                after = self.spcore(typed[7:] if typed.startswith("spcore ") else f"{line} {typed}")
            assert quote not in after.text, f"{typed} cures nothing\n{r}{after}"
            assert after.status == then, f"{typed} leads to status {after.status}\n{r}{after}"
        self.cured |= set(said)
        return r

    def json(self, line, status=0):
        """The document that `spcore LINE --json` prints."""
        r = self.run(line + " --json", status)
        return json.loads(r.out)


def options(line, folder=None):
    """The options that the command of this line takes, and those with `no-` in front. folder: where a script of a case lies."""
    words = shlex.split(line)
    command = words[:2] if words[0] in ("run", "check") else words[:1]
    if folder and words[0] == "run" and os.path.exists(os.path.join(folder, words[1])):
        command[1] = os.path.join(folder, words[1])
    with _lock:
        if tuple(command) not in _help:
            p = subprocess.run([SPCORE, *command, "--help"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=HANG)
            known = set(re.findall(r"(?<![\w-])--[a-z][a-z-]*[a-z]", p.stdout.decode()))
            _help[tuple(command)] = known | {"--no-" + o[2:] for o in known} | {"--help", "--ranks"}
        return _help[tuple(command)]


def one(f, keep):
    folder = tempfile.mkdtemp(prefix="spcore-corpus-")
    c = Case(folder, f.__name__)
    why = None
    try:
        f(c)
    except AssertionError as e:
        why = str(e) or traceback.format_exc(limit=-1)
    except Exception:
        why = traceback.format_exc()
    if keep:
        print(folder)
    else:
        shutil.rmtree(folder, ignore_errors=True)
    return f, c, why


def run_all(names=(), keep=False):
    """Runs the cases, or those of these names, two at a time: a case is one process after another. Gives the lines that were
    said, those whose cure was typed, and how many cases are wrong."""
    cases = [f for f in _cases if not names or f.__name__ in names]
    bad = len(names) - len(cases) if names else 0
    said, cured = set(), set()
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for f, c, why in pool.map(lambda f: one(f, keep), cases):
            print(f"{'BAD' if why else 'ok'}  {f.__name__}: {f.__doc__}", flush=True)
            for text in [why] if why else c.log if names else []:
                print("  " + str(text).rstrip().replace("\n", "\n  "), flush=True)
            bad += why is not None
            cured |= {text.strip().replace(c.folder + "/", "") for text in c.cured}
            for r in c.log:
                said |= {text.strip().replace(c.folder + "/", "") for text in r.text.splitlines() if "\r" not in text}
    print(f"{len(cases)} inputs, {bad} wrong")
    return said, cured, bad


def main():
    names = [a for a in sys.argv[1:] if not a.startswith("-")]
    said, cured, bad = run_all(names, "--keep" in sys.argv)
    for text in [] if names else sorted(said):
        print(f"{'cured' if text in cured else 'said'}: {text}")
    sys.exit(bad != 0)
