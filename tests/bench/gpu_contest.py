# SPDX-License-Identifier: MIT
"""Contestants of gpu_table.py: spcore, a process for each block of steps, and PyTorch, servers that stay."""

import json
import os
import re
import select
import shutil
import statistics
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
SCRIPTS = os.path.join(os.path.dirname(os.path.dirname(HERE)), "scripts")


class Failed(Exception):
    pass


def last_line(text):
    lines = [line for line in text.strip().split("\n") if line.strip()]
    return lines[-1].strip() if lines else "no output"


class Spcore:
    """`spcore run`, with what all its runs have in common."""

    def __init__(self, a, folder, scripts=SCRIPTS):
        self.a, self.folder, self.scripts = a, folder, scripts  # "": the program's own
        self.program = os.path.abspath(os.path.join(a.build, "spcore"))
        self.cuda = a.device.startswith("cuda")
        self.captures = a.device != "cpu"

    def command(self, script, batch, precision, strategy, capture):
        out = [
            self.program,
            "run",
            script,
            "--device",
            self.a.device,
            "--size",
            str(self.a.size),
            "--batch",
            str(batch),
            "--strategy",
            strategy,
        ]
        if self.captures:
            out += ["--capture", capture]
        if self.cuda:
            out += ["--precision", precision]
        return out + self.a.spcore_option

    def call(self, command, timeout=300, env=None):
        try:
            p = subprocess.run(
                command,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                timeout=timeout,
                check=False,
                env=env,
                cwd=self.folder,
            )
        except subprocess.TimeoutExpired as e:
            raise Failed(f"no end after {timeout} s") from e
        except OSError as e:
            raise Failed(f"{command[0]}: {e.strerror}") from e
        if p.returncode:
            raise Failed(last_line(p.stderr or p.stdout))
        return p.stdout

    def block(
        self, steps, warm_up, batch, precision, strategy, capture, more=(), script="examples/reference_seg.lua", options=(), by=()
    ):
        """steps/s of a reference workload, loader included, and all that was printed; `more` options make it talk. `by`:
        what starts it."""
        out = os.path.join(self.folder, "run")
        shutil.rmtree(out, ignore_errors=True)
        command = self.command(os.path.join(self.scripts, script), batch, precision, strategy, capture)
        text = self.call(
            [*by, *command]
            + ["--steps", str(steps), "--warm-up", str(warm_up), "--out", out, *options, *more]
            + ([] if more else ["--quiet"])
        )
        found = re.search(r"([0-9.]+) steps/s", last_line(text))
        if not found:
            raise Failed("no steps/s in: " + last_line(text))
        return float(found.group(1)), text


class Peer:
    """A process of seg_gpu_torch.py, cls_gpu_torch.py or ddp.py."""

    def __init__(self, a, program="seg_gpu_torch.py", options=()):
        self.about = None
        command = [
            sys.executable,
            "-B",
            os.path.join(HERE, program),
            "--device",
            a.device if a.device.startswith("cuda") else "cpu",
            "--size",
            str(a.size),
            "--workers",
            str(a.workers),
            *options,
        ]
        self.words = open(os.path.join(a.out, "pytorch.log"), "a", encoding="utf-8")
        self.p = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.words, text=True)

    def answer(self, timeout):
        ready, _, _ = select.select([self.p.stdout], [], [], timeout)
        line = self.p.stdout.readline() if ready else ""
        if not line:
            if ready and self.p.poll() is None:
                self.p.wait(10)
            raise Failed(f"no answer after {timeout} s" if not ready else self.last_words())
        out = json.loads(line)
        if not out["ok"]:
            raise Failed(out["why"])
        return out

    def last_words(self):
        with open(self.words.name, encoding="utf-8", errors="replace") as f:
            return f"PyTorch ended: {last_line(f.read())}"

    def loaded(self):
        if not self.about:
            self.about = self.answer(120)
        return self.about

    def ask(self, timeout=120, **what):
        self.loaded()
        try:
            self.p.stdin.write(json.dumps(what) + "\n")
            self.p.stdin.flush()
        except OSError as e:
            raise Failed(self.last_words()) from e
        return self.answer(timeout)

    def close(self):
        try:
            self.p.stdin.write('{"do": "quit"}\n')
            self.p.stdin.close()
            self.p.wait(10)
        except (OSError, ValueError, subprocess.TimeoutExpired):
            self.p.kill()
            self.p.wait()
        self.p.stdout.close()
        self.words.close()


class Row:
    """A contestant with what it reached, or why it did not."""

    def __init__(self, name, block, ready=None, close=None):
        self.name, self.block, self.ready, self.close = name, block, ready, close
        self.rates, self.why = [], None

    def attempt(self, what):
        if self.why or not what:
            return None
        try:
            return what()
        except Failed as e:
            self.why = str(e)
        return None

    @property
    def median(self):
        return statistics.median(self.rates) if self.rates else None

    def text(self, best=None):
        if not self.rates:
            return f"{self.name:56} failed: {self.why or 'not run'}"
        ratio = f"{self.median / best:8.2f}" if best else f"{'':8}"
        return (
            f"{self.name:56} {self.median:9.1f} {min(self.rates):9.1f} .. {max(self.rates):<9.1f}{ratio}"
            f"{'   then failed: ' + self.why if self.why else ''}"
        )


def head(what, ratio=""):
    print(f"{what:56} {'steps/s':>9} {'least':>9} .. {'most':<9}{ratio:>8}")


def contest(rows, rounds, deadline):
    """All rows in turns, `rounds` times or until the time is up; sets them up before, one after the other."""
    for row in rows:
        row.attempt(row.ready)
    done = 0
    for _ in range(rounds):
        if done and time.monotonic() > deadline:
            break
        for row in rows:
            rate = row.attempt(row.block)
            if rate:
                row.rates.append(rate)
        done += 1
    for row in rows:
        if row.close:
            row.close()
    return done


def verdict(what, value, target, unit, least=True):
    if value is None:
        print(f"target: {what} {'>=' if least else '<='} {target}{unit}: not measured")
        return
    good = value >= target if least else value <= target
    print(
        f"target: {what} {'>=' if least else '<='} {target}{unit}: {value:.2f}{unit}, {'reached' if good else 'MISSED'}"
    )


def stage_times(trace):
    """Median us of each call of a stage and each copy, by its name, from a trace. What the host itself does (its tracks are
    of other categories: the step loop, waits, reader workers) is no work that could run beside a lane."""
    with open(trace, encoding="utf-8") as f:
        events = [e for e in json.load(f)["traceEvents"] if e["ph"] == "X" and e.get("cat") == "call"]
    if not events:
        raise Failed(f"{trace}: no call of a stage in it")
    last = max(e["args"]["step"] for e in events)
    times = {}
    for e in events:
        if e["args"]["step"] >= last // 2:  # the warm-up is over by then
            times.setdefault(e["name"], []).append(e["dur"])
    return {name: statistics.median(t) for name, t in times.items()}


def ideal_overlap(times, ahead, names):
    """How many times as fast a step could be if the stages `ahead`, the rest and the copies ran beside each other, and
    that in words. `names`: what to call the two halves. None where one half is missing."""
    parts = dict.fromkeys((*names, "copies"), 0.0)
    for name, us in times.items():
        stage, call = re.sub(r"_[0-9]+$", "", name.split()[0]), name.split()[-1]
        if call in ("copy", "block", "metrics"):
            parts["copies"] += us
        elif stage != "reader":  # a thread of its own reads ahead in every strategy
            parts[names[0] if stage in ahead else names[1]] += us
    if not parts[names[0]] or not parts[names[1]]:
        return None, f"the trace has no {names[0]} or no {names[1]}"
    ideal = sum(parts.values()) / max(parts.values())
    return ideal, f"({' + '.join(f'{part} {us:.0f}' for part, us in parts.items())}) / the largest = {ideal:.3f}"


def longest_first(times):
    return ", ".join(f"{name} {us:.0f}" for name, us in sorted(times.items(), key=lambda t: -t[1]))
