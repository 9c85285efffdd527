#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Steps/s of the reference workloads on 1 to 8 ranks of a host, what their communicator moves, and DistributedDataParallel
beside them. Rows take turns, A B C A B C ..., each a process of its own; median, least and most. Where one fails others go on.

  weak      a shard of --batch samples a rank: V = R
  strong    --shards shards, dealt to 1, 2, 4 ... ranks
  apart     V = 1, as many jobs of one rank side by side: what ranks would do that had nothing to say to each other
  alone     one process: as it is, as rank 0 of 1, and by another build, --without
  ddp       weak, on one rank and on the most, beside ddp.py

  ranks.py [-s weak,strong] [--workloads seg,cls] [--ranks 1,2,4,8] [--comm local,mpi] [options] [BUILD-DIR]
  ranks.py -s ddp --device cuda --ranks 1,2 --workloads seg --batch 32 build

On processors each rank has --threads of them: by default its part where there are as many ranks as in the widest row, but at
least one, so wide rows may share processors. `x one`: images/s over those of the first row. `MB`: what a rank gets from others
in a step. `lane ms`: how long its lane `comm` is at work in a step, waits for slower ranks and sums included, the mean over the
ranks; `moves ms`: the calls of the communicator alone, each by the rank that came to it last; `sums ms`: the sums, the mean over
the ranks. They are of one more run with a trace (--trace-steps 0: none).
"""

import argparse
import collections
import json
import os
import subprocess
import sys
import tempfile
import time

import gpu_contest as gc

SECTIONS = ("weak", "strong", "apart", "alone", "ddp")
SCRIPTS = {"seg": "examples/reference_seg.lua", "cls": "examples/reference_cls.lua"}
Case = collections.namedtuple("Case", ("ranks", "shards", "comm", "factors"))
ALONE = Case(1, 1, "", "yes")
MPI = ("mpirun", "--allow-run-as-root", "--oversubscribe", "--mca", "mpi_yield_when_idle", "1", "-np")


def moved(path, ranks):
    """MB, ms of the lane, of its moves and sums: of a step, by a trace of all ranks."""
    with open(path, encoding="utf-8") as f:
        events = [e for e in json.load(f)["traceEvents"] if e["ph"] == "X" and e["cat"] == "call"]
    lane = [e for e in events if e["args"]["lane"] == "comm"]
    steps = sum(e["name"] == "comm totals" and e["pid"] == 1 for e in lane)
    if not steps:
        return None
    moves, bytes_, sums = {}, 0, 0  # what brings no bytes, or is a stage's call, computes
    for e in lane:
        if not e["args"]["bytes"] or not e["args"]["stage"].startswith("comm"):
            sums += e["dur"]
            continue
        key = e["args"]["step"], e["name"]
        moves[key] = min(moves.get(key, e["dur"]), e["dur"])
        bytes_ += e["args"]["bytes"] if e["pid"] == 1 else 0
    return {
        "MB": bytes_ * (ranks - 1) / ranks / steps * 1e-6,
        "lane_ms": sum(e["dur"] for e in lane) / ranks / steps * 1e-3,
        "sums_ms": sums / ranks / steps * 1e-3,
        "moves_ms": sum(moves.values()) / steps * 1e-3,
    }


def processors():
    """Seconds that all processes together have had of the processors, and that those of this program have had."""
    with open("/proc/stat", encoding="ascii") as f:
        user, nice, system, _, _, irq, soft, *_ = map(int, f.readline().split()[1:])
    t = os.times()
    return (user + nice + system + irq + soft) / os.sysconf("SC_CLK_TCK"), t[0] + t[1] + t[2] + t[3]


class Bench:
    def __init__(self, a, folder):
        self.a, self.folder, self.raw, self.again = a, folder, [], 0
        self.spcore = gc.Spcore(a, folder)
        self.deadline = time.monotonic() + a.budget

    def batch(self, workload):
        return self.a.batch if workload == "seg" else self.a.cls_batch

    def threads(self):
        return ["--threads", str(self.a.threads)] if self.a.threads else []

    def block(self, workload, case, more=(), steps=None, by=(), spcore=None):
        """As Spcore.block, on so many ranks."""
        a = self.a
        options = [*(["--shards", str(case.shards)] if case.shards > 1 else []), *self.threads()]
        options += ["--no-factors"] if case.factors == "no" else []
        if case.ranks > 1:
            options += ["--comm", case.comm]
            if case.comm == "mpi":
                by = (*MPI, str(case.ranks))
            else:
                options += ["--ranks", str(case.ranks)]
        return (spcore or self.spcore).block(
            steps or a.steps,
            a.warm_up,
            self.batch(workload),
            a.precision,
            a.strategy,
            a.capture,
            more,
            SCRIPTS[workload],
            options,
            by,
        )

    def traced(self, workload, case):
        path = os.path.join(self.folder, "trace.json")
        more = ["--trace", path, "--trace-steps", str(self.a.trace_steps * case.shards // case.ranks)]
        self.block(workload, case, more, max(2 * self.a.trace_steps, 4))
        return moved(path, case.ranks)

    def others(self, run):
        """Percent of the processors that other processes took meanwhile, and what `run` gave."""
        then, begun = processors(), time.monotonic()
        out = run()
        all_, own = (now - before for now, before in zip(processors(), then))
        return (all_ - own) / (time.monotonic() - begun) / self.a.cpus * 100, out

    def undisturbed(self, run):
        """Begins when other processes take no more of the processors than --others says, and once more if they did after all."""
        limit = self.a.others
        while limit < 100:
            others, rate = self.others(lambda: time.sleep(0.3))
            if others <= limit:
                others, rate = self.others(run)
                if others <= limit:
                    return rate
                self.again += 1
            if time.monotonic() > self.deadline:
                raise gc.Failed(f"other processes take {others:.0f} % of the processors, more than --others")
        return run()

    def rows(self, workload, shards_of):
        """[(row, case)]"""
        out = []
        for ranks in self.a.ranks:
            shards = shards_of(ranks)
            for comm in self.a.comm if ranks > 1 else [""]:
                for factors in self.a.factors if shards > 1 else ["yes"]:
                    case = Case(ranks, shards, comm, factors)
                    name = f"{ranks} rank{'s' if ranks > 1 else ''}" + (", " + comm if comm else "")
                    name += ", no factors" if factors == "no" else ""
                    run = lambda case=case: self.undisturbed(lambda: self.block(workload, case)[0])  # pylint: disable=C3001
                    out.append((gc.Row(name, run), case))
        return out

    def section(self, name, workload, shards_of):
        a, rows = self.a, self.rows(workload, shards_of)
        done = gc.contest([row for row, _ in rows], a.turns, self.deadline)
        print(
            f"\n{name}, {workload}, {a.size} x {a.size}, {self.batch(workload)} samples a shard, {a.device}, {a.strategy}, "
            f"{f'{a.threads} threads a rank, ' if a.threads else ''}{done} turns of {a.steps} steps, warm-up {a.warm_up}"
        )
        print(
            f"{'':28} {'shards':>6} {'steps/s':>9} {'least':>9} .. {'most':<9} {'images/s':>9} {'x one':>6} {'MB':>8} "
            f"{'lane ms':>8} {'moves ms':>8} {'sums ms':>8}"
        )
        base = None
        for row, case in rows:
            if not row.rates:
                print(f"{row.name:28} failed: {row.why or 'not run'}")
                continue
            images = row.median * case.shards * self.batch(workload)
            base = base or images
            trace = None
            if case.ranks > 1 and a.trace_steps:
                trace = row.attempt(lambda: self.traced(workload, case))  # pylint: disable=cell-var-from-loop
            tail = " {MB:8.2f} {lane_ms:8.3f} {moves_ms:8.3f} {sums_ms:8.3f}".format(**trace) if trace else ""
            print(
                f"{row.name:28} {case.shards:6} {row.median:9.3f} {min(row.rates):9.3f} .. {max(row.rates):<9.3f} {images:9.1f} "
                f"{images / base:6.2f}{tail}{'   then failed: ' + row.why if row.why else ''}",
                flush=True,
            )
            self.raw.append({"section": name, "workload": workload, **case._asdict(), "rates": row.rates} | (trace or {}))

    def side_by_side(self, workload, jobs):
        """steps/s of the slowest of so many jobs of one rank."""
        a = self.a
        command = self.spcore.command(
            os.path.join(self.spcore.scripts, SCRIPTS[workload]), self.batch(workload), a.precision, a.strategy, a.capture
        )
        command += ["--quiet", "--steps", str(a.steps), "--warm-up", str(a.warm_up), *self.threads()]
        with tempfile.TemporaryDirectory() as folder:
            all_ = [
                subprocess.Popen(
                    [*command, "--out", os.path.join(folder, str(k))],
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    text=True,
                )
                for k in range(jobs)
            ]
            said = [p.communicate()[0] for p in all_]
        for p, text in zip(all_, said):
            if p.returncode:
                raise gc.Failed(gc.last_line(text))
        return min(float(gc.last_line(text).split()[-2]) for text in said)

    def section_weak(self, workload):
        self.section("weak", workload, lambda ranks: ranks)

    def section_strong(self, workload):
        self.section("strong", workload, lambda ranks: self.a.shards)

    def section_apart(self, workload):
        a = self.a
        rows = [gc.Row(f"{n} alone", lambda n=n: self.undisturbed(lambda: self.side_by_side(workload, n))) for n in a.ranks]
        done = gc.contest(rows, a.turns, self.deadline)
        print(
            f"\napart, {workload}, {a.size} x {a.size}, {self.batch(workload)} samples a step, {done} turns of {a.steps} steps"
        )
        gc.head("jobs side by side; the slowest of them")
        for row in rows:
            print(row.text())
            self.raw.append({"section": "apart", "workload": workload, "jobs": row.name, "rates": row.rates})

    def section_alone(self, workload):
        a = self.a
        rows = [
            gc.Row("one process", lambda: self.block(workload, ALONE)[0]),
            gc.Row("rank 0 of 1", lambda: self.block(workload, ALONE, by=("env", "RANK=0", "WORLD_SIZE=1"))[0]),
        ]
        if a.without:
            other = gc.Spcore(argparse.Namespace(**vars(a) | {"build": a.without}), self.folder, "")
            by = ("env", "-u", "SPCORE_PLUGIN_PATH")  # it finds its own
            rows.append(gc.Row("one process, --without", lambda: self.block(workload, ALONE, by=by, spcore=other)[0]))
        done = gc.contest(rows, a.turns, self.deadline)
        print(
            f"\nalone, {workload}, {a.size} x {a.size}, {self.batch(workload)} samples a step, {a.precision}, {a.strategy}, "
            f"{done} turns of {a.steps} steps, warm-up {a.warm_up}"
        )
        gc.head("", "x first")
        for row in rows:
            print(row.text(rows[0].median))
            self.raw.append({"section": "alone", "workload": workload, "row": row.name, "rates": row.rates, "why": row.why})

    def theirs(self, workload, way, ranks):
        a = self.a
        peer = gc.Peer(a, "ddp.py", ["--ranks", str(ranks), "--workload", workload])
        set_up = {"do": "setup", "way": way, "batch": self.batch(workload), "precision": a.precision, "warmup": a.warm_up}
        return gc.Row(
            f"DDP {way}, {ranks} process{'es' if ranks > 1 else ''}",
            lambda: peer.ask(do="run", steps=a.steps)["steps_per_s"],
            lambda: peer.ask(a.setup_limit, **set_up),
            peer.close,
        )

    def section_ddp(self, workload):
        """Every way on the most ranks; on one those that --alone names."""
        a, most = self.a, max(self.a.ranks)
        ours = self.rows(workload, lambda ranks: ranks)
        rows = [("spcore", case.ranks, row) for row, case in ours if case.ranks in (1, most)]
        for _, _, row in rows:
            row.name = "spcore, " + row.name
        rows += [(way, 1, self.theirs(workload, way, 1)) for way in a.alone]
        rows += [(way, most, self.theirs(workload, way, most)) for way in a.ways]
        done = gc.contest([row for _, _, row in rows], a.turns, self.deadline)
        alone = {of: row.median for of, n, row in rows if n == 1}
        best = max((row.median for of, n, row in rows if of != "spcore" and n == most and row.rates), default=None)
        print(
            f"\nddp, {workload}, {a.size} x {a.size}, {self.batch(workload)} samples a rank, {a.precision}, {a.strategy}, "
            f"{done} turns of {a.steps} steps, warm-up {a.warm_up}"
        )
        gc.head("", "x best" if best else "")
        for of, n, row in rows:
            beside = f"   {100 * row.median / alone[of]:.1f} % of one" if n > 1 and row.rates and alone.get(of) else ""
            print(row.text(best) + beside)
            self.raw.append({"section": "ddp", "workload": workload, "row": row.name, "rates": row.rates, "why": row.why})

def numbers(text, option, p):
    words = [x.strip() for x in text.split(",") if x.strip()]
    if not words or not all(x.isdecimal() and int(x) for x in words):
        p.error(f"{option} {text}: whole numbers above 0, with commas")
    return [int(x) for x in words]


def one_of(words, known, option, p):
    out = [x for x in words.split(",") if x]
    for x in out:
        if x not in known:
            p.error(f"{option}: no '{x}': there are {', '.join(known)}")
    return out


def parse():
    p = argparse.ArgumentParser(prog="ranks.py", formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    ways = ("eager", "static", "static-bf16", "compile", "compile-bf16", "compile-graphs")
    p.add_argument("build", nargs="?", default="build", metavar="BUILD-DIR", help="where spcore was built")
    p.add_argument("-s", "--sections", default="weak,strong", help=f"with commas: {', '.join(SECTIONS)}")
    p.add_argument("--workloads", default="seg,cls")
    p.add_argument("--device", default="cpu")
    p.add_argument("--ranks", default="", help="with commas; on processors 1,2,4,8, on GPUs 1,2")
    p.add_argument("--comm", default="", help="with commas; on processors local, on GPUs nccl")
    p.add_argument("--factors", default="yes", help="with commas: yes, no: all gradients are added")
    p.add_argument("--strategy", default="pipelined")
    p.add_argument("--capture", default="auto")
    p.add_argument("--precision", default="tf32", choices=("fp32", "tf32"), help="of GPUs, of both sides")
    p.add_argument("--ways", default=",".join(ways), help="of ddp.py, on the most ranks")
    p.add_argument("--alone", default="eager,compile", help="of ddp.py, on one")
    p.add_argument("--without", default="", help="another build folder, for alone")
    p.add_argument("--out", default=os.environ.get("OUT") or "", help="folder of ranks.json")
    p.add_argument("--quick", action="store_true", help="tiny sizes, few steps: does the script itself work?")
    p.add_argument("--spcore-option", action="append", default=[], metavar="OPTION", help="one more for spcore run, --x=y")
    for name, value, doc in (
        ("size", 256, "pixels of a side"),
        ("batch", 8, "samples a shard of seg"),
        ("cls-batch", 32, "samples a shard of cls"),
        ("shards", 8, "of strong"),
        ("threads", 0, "of a rank; 0: on processors its part of them, on GPUs spcore's own choice"),
        ("steps", 300, "of a run"),
        ("warm-up", 50, "steps before the timed ones"),
        ("turns", 5, "of each table"),
        ("trace-steps", 10, "of the run with a trace; 0: none"),
        ("budget", 480, "seconds after which no turn begins"),
        ("setup-limit", 240, "seconds that PyTorch may compile"),
        ("others", 100, "percent of the processors that other processes may take: else a run of weak, strong, apart is repeated"),
        ("workers", 0, "of PyTorch's loaders, which ddp.py has none of"),
    ):
        p.add_argument("--" + name, type=int, default=value, help=doc)
    a = p.parse_args()
    if a.quick:
        a.size, a.batch, a.cls_batch, a.shards, a.steps, a.warm_up, a.turns, a.trace_steps = 32, 2, 2, 4, 6, 3, 1, 2
    a.cuda = a.device.startswith("cuda")
    if not a.cuda:
        a.precision = "fp32"
    a.sections = one_of(a.sections, SECTIONS, "-s", p)
    a.workloads = one_of(a.workloads, SCRIPTS, "--workloads", p)
    a.ways, a.alone = one_of(a.ways, ways, "--ways", p), one_of(a.alone, ways, "--alone", p)
    a.factors = one_of(a.factors, ("yes", "no"), "--factors", p)
    a.ranks = numbers(a.ranks or ("1,2" if a.cuda else "1,2,4,8"), "--ranks", p)
    if "strong" in a.sections and any(a.shards % r for r in a.ranks):
        p.error(f"--ranks {','.join(map(str, a.ranks))}: --shards {a.shards} is no multiple of each")
    a.comm = (a.comm or ("nccl" if a.cuda else "local")).split(",")
    a.cpus = len(os.sched_getaffinity(0))
    if not a.threads and not a.cuda:
        a.threads = max(1, a.cpus // max(a.ranks))
    a.build, a.without = os.path.abspath(a.build), a.without and os.path.abspath(a.without)
    for folder in [a.build] + [a.without] * bool(a.without):
        if not os.access(os.path.join(folder, "spcore"), os.X_OK):
            p.error(f"there is no program {folder}/spcore")
    return a


def main():
    a = parse()
    sys.stdout.reconfigure(line_buffering=True)  # what is printed is kept though the time for all be up
    os.environ.setdefault("NCCL_NVLS_ENABLE", "0")  # multicast is not there on every host, and DDP had it alone
    with tempfile.TemporaryDirectory() as folder:
        a.out = os.path.abspath(a.out) if a.out else folder
        os.makedirs(a.out, exist_ok=True)
        b = Bench(a, folder)
        print(f"{a.cpus} processors; {time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime())}")
        if not a.cuda and max(a.ranks) * a.threads > a.cpus:
            print(f"more ranks than {a.cpus} processors share them: figures of such rows say what sharing costs, too")
        for name in a.sections:
            for workload in a.workloads:
                began = time.monotonic()
                if began > b.deadline:
                    print(f"\n{name}, {workload}: left out, the {a.budget} s of --budget are up")
                    continue
                getattr(b, "section_" + name)(workload)
                print(f"({name}, {workload}: {time.monotonic() - began:.0f} s)", flush=True)
        if b.again:
            print(f"{b.again} runs were repeated, as other processes took more than {a.others} % of the processors")
        with open(os.path.join(a.out, "ranks.json"), "w", encoding="utf-8") as f:
            json.dump({"options": vars(a), "raw": b.raw}, f, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
