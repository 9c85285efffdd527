# SPDX-License-Identifier: MIT
# needs: onednn images jansson archive curl
# needs no torch
"""Shards at HTTP(S) addresses, from a server of this process that does what servers do on bad days."""
import hashlib
import http.server
import io
import os
import re
import shutil
import signal
import ssl
import subprocess
import sys
import tarfile
import tempfile
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from kit import SPCORE, Image, case, main, np

sites = {}


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def do_GET(self):
        self.close_connection = True
        path = self.path.split("?")[0]
        if path.startswith("http://"):  # to a proxy
            path = "/" + path.split("/", 3)[3]
        _, name, rest = path.split("/", 2)
        site = sites[name]
        with site.lock:
            site.seen.append((rest, dict(self.headers), self.path))
            turn = sum(s[0] == rest for s in site.seen) - 1
        what = site.files.get(rest)
        if what is None:
            return self.words(404)
        what(self, turn)

    def words(self, status, **headers):
        body = b"no data"
        self.send_response(status)
        for k, v in headers.items():
            self.send_header(k.replace("_", "-"), v)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)

    def file(self, data, etag='"1"', cut=None, length=True, ranges=True, part_etag=None, slow=0, modified=None, says=None):
        """The file as a server sends it; cut: after so many bytes of the body the connection ends."""
        if etag and self.headers.get("If-None-Match") == etag:
            self.send_response(304)
            self.send_header("ETag", etag)
            self.end_headers()
            return
        wanted, body = re.match(r"bytes=(\d+)-$", self.headers.get("Range", "")), data
        if wanted and ranges and self.headers.get("If-Range", etag) in (etag, modified):
            at = int(wanted[1])
            body = data[at:]
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {at}-{len(data) - 1}/{len(data)}")
            etag = part_etag or etag
        else:
            self.send_response(200)
        if etag:
            self.send_header("ETag", etag)
        if modified:
            self.send_header("Last-Modified", modified)
        if length:
            self.send_header("Content-Length", str(says or len(body)))
        self.send_header("Connection", "close")
        self.end_headers()
        body = body if cut is None else body[:cut]
        if not slow:
            self.wfile.write(body)
        for at in range(0, len(body) if slow else 0, 1024):
            self.wfile.write(body[at:at + 1024])
            self.wfile.flush()
            time.sleep(slow)


class Quiet(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request, address):
        pass


def serve(certificate=None):
    server = Quiet(("127.0.0.1", 0), Handler)
    if certificate:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server.server_address[1]


PORT = serve()
# On two processors a busy machine may take long to connect.
QUICK = "--target class --set reader.fetch_pause=0.01"


class Site:
    """Files of one case below http://127.0.0.1:PORT/NAME."""

    def __init__(self, c, port=PORT, scheme="http"):
        self.name, self.files, self.seen, self.lock = os.path.basename(c.folder), {}, [], threading.Lock()
        self.at = f"{scheme}://127.0.0.1:{port}/{self.name}"
        self.host = f"127.0.0.1:{port}/{self.name}"
        sites[self.name] = self
        c.env.update(NO_PROXY="127.0.0.1", no_proxy="127.0.0.1", HOME=c.folder)

    def put(self, name, data, *turns, **how):
        """turns: what is different of the first requests: a status, or a dictionary as file() has it."""
        def what(h, turn):
            now = turns[turn] if turn < len(turns) else {}
            if isinstance(now, int):
                return h.words(now)
            h.file(data, **{**how, **now})
        self.files[name] = what

    def count(self, name):
        return sum(s[0] == name for s in self.seen)

    def headers(self, name):
        return [s[1] for s in self.seen if s[0] == name]


def shard(first=0, n=8, words=("ant", "bee"), side=24):
    out, rng = io.BytesIO(), np.random.default_rng(first)
    with tarfile.open(fileobj=out, mode="w") as t:
        for k in range(first, first + n):
            png = io.BytesIO()
            Image.fromarray(rng.integers(0, 256, (side, side, 3), dtype=np.uint8)).save(png, "PNG")
            for ending, data in (("png", png.getvalue()), ("cls", words[k % len(words)].encode())):
                i = tarfile.TarInfo(f"{k:04d}.{ending}")
                i.size = len(data)
                t.addfile(i, io.BytesIO(data))
    return out.getvalue()


def sum_of(data):
    return hashlib.sha256(data).hexdigest()


def kept(c, name="x.tar"):
    """The files of that name in the cache."""
    return [os.path.join(d, f) for d, _, files in os.walk(c.path(".cache")) for f in files if f == name]


def good(c, address, n=8, says=(), lacks=(), more=""):
    return c.run(f"data '{address}' {QUICK} {more}", says=["layout webdataset", *says], lacks=lacks) if n is None else \
        whole(c, c.run(f"data '{address}' {QUICK} {more}", says=["layout webdataset", *says], lacks=lacks), n)


def whole(c, r, n):
    train, val = map(int, re.search(r"(\d+) train, (\d+) val", r.out).groups())
    assert train + val == n, r
    return r


# ---- as it should be ----

@case
def http_fetched_once(c):
    "a shard is fetched once, and later the server is asked whether it has another one"
    s, data = Site(c), shard()
    s.put("x.tar", data)
    for _ in range(3):
        good(c, s.at + "/x.tar")
    assert [h.get("If-None-Match") for h in s.headers("x.tar")] == [None, '"1"', '"1"'], s.seen
    with open(kept(c)[0], "rb") as f:
        assert f.read() == data
    assert len(kept(c)) == 1 and not kept(c, "x.tar.part")


@case
def http_range_of_shards(c):
    "a pattern as WebDataset writes it; train-* and val-* are parts"
    s = Site(c)
    for k in range(4):
        s.put(f"{'val' if k == 3 else 'train'}-{k:03d}.tar", shard(8 * k))
    good(c, s.at + "/train-{000..002}.tar", 24)
    r = good(c, s.at + "/{train-000,train-001,train-002,val-003}.tar", 32)
    assert "24 train, 8 val" in r.out, r
    r = good(c, s.at + "/train-{000..002}.tar", 32, more=f"--val {s.at}/val-003.tar")
    assert "24 train, 8 val" in r.out, r


@case
def http_list(c):
    "a text file with addresses, patterns and paths, and a mark and comments in it"
    s = Site(c)
    for k in range(3):
        s.put(f"{k}.tar", shard(8 * k))
    c.write("lists/here.tar", shard(24))
    c.write("lists/all.txt", "\ufeff# three\r\n" + s.at + "/{0..1}.tar\r\n\r\n  " + s.at + "/2.tar \r\nhere.tar\r\n")
    good(c, "lists/all.txt", 32)
    c.write("lists/bad.txt", f"{s.at}/0.tar\nnotes.md\n")
    c.run(f"data lists/bad.txt {QUICK}", 1, says='lists/bad.txt: "notes.md" is no tar file')


@case
def http_classes_of_the_server(c):
    "classes.txt beside the shards numbers the labels; where there is none, nothing is said"
    s = Site(c)
    s.put("x.tar", shard(words=("0", "1")))
    s.put("classes.txt", b"wasp\nfly\nmoth\n")
    good(c, s.at + "/x.tar", says="3 classes: wasp, fly, moth")
    s.put("sub/y.tar", shard())
    good(c, s.at + "/sub/y.tar", says="2 classes: ant, bee", lacks="classes.txt")


@case
def http_compressed(c):
    "a .tar.gz is unpacked as a local one is"
    import gzip
    s = Site(c)
    s.put("x.tar.gz", gzip.compress(shard()))
    good(c, s.at + "/x.tar.gz")


@case
def http_query_and_fragment(c):
    "what follows a ? goes to the server and nowhere else"
    s = Site(c)
    s.put("x.tar", shard())
    r = good(c, s.at + "/x.tar?key=hush&v=2", lacks=["hush", "key="])
    assert "hush" in s.seen[0][2] and s.at + "/x.tar:" in r.out, r
    c.run(f"data '{s.at}/y.tar?key=hush' {QUICK}", 1, says="/y.tar: HTTP 404", lacks="hush")
    c.run(f"data '{s.at}/{{x.tar?a,x.tar?b}}.tar' {QUICK}", 1)


@case
def http_redirected(c):
    "a redirection is followed"
    s = Site(c)
    s.put("there/x.tar", shard())
    s.files["x.tar"] = lambda h, turn: h.words(302, Location=s.at + "/there/x.tar")
    good(c, s.at + "/x.tar")


@case
def http_proxy(c):
    "proxies are those of the environment"
    s = Site(c)
    s.put("x.tar", shard())
    c.env.update(http_proxy=f"http://127.0.0.1:{PORT}", no_proxy="", NO_PROXY="")
    good(c, f"http://shards.invalid/{s.name}/x.tar")


# ---- what may pass ----

@case
def http_503_twice(c):
    "a server that has a problem is asked again, and each time is said"
    s = Site(c)
    s.put("x.tar", shard(), 503, 500)
    r = good(c, s.at + "/x.tar", says=["x.tar: HTTP 503, the server has a problem; again in 0.01 s (try 2 of 5)",
                                       "x.tar: HTTP 500, the server has a problem; again in 0.02 s (try 3 of 5)"])
    assert r.err.count("\n") == 2 and s.count("x.tar") >= 3, r


@case
def http_503_always(c):
    "a server that has a problem each time"
    s = Site(c)
    s.put("x.tar", shard(), *[503] * 99)
    r = c.run(f"data {s.at}/x.tar {QUICK} --set reader.fetch_tries=2", 1, says="x.tar: HTTP 503, the server has a problem (2 tries; ")
    assert s.count("x.tar") in (2, 6), (r, s.count("x.tar"))  # the cure was typed


@case
def http_asks_to_wait(c):
    "Retry-After is kept to"
    s, data = Site(c), shard()
    s.files["x.tar"] = lambda h, turn: h.file(data) if turn else h.words(429, Retry_After="1")
    good(c, s.at + "/x.tar", says="HTTP 429, too many requests; again in 1 s")


@case
def http_cut_and_resumed(c):
    "a body that ends early goes on where it ended, of the same version"
    s, data = Site(c), shard()
    s.put("x.tar", data, {"cut": 5000}, {"cut": 3000})
    good(c, s.at + "/x.tar", says="again in 0.01 s (try 2 of 5)")
    asked = [(h.get("Range"), h.get("If-Range")) for h in s.headers("x.tar")]
    assert asked[:3] == [(None, None), ("bytes=5000-", '"1"'), ("bytes=8000-", '"1"')], asked
    with open(kept(c)[0], "rb") as f:
        assert f.read() == data


@case
def http_cut_without_ranges(c):
    "a server without ranges sends all of it again"
    s, data = Site(c), shard()
    s.put("x.tar", data, {"cut": 5000}, ranges=False)
    good(c, s.at + "/x.tar", says="try 2 of 5")
    with open(kept(c)[0], "rb") as f:
        assert f.read() == data


@case
def http_cut_without_version(c):
    "without ETag or date nothing is put together from two tries"
    s, data = Site(c), shard()
    s.put("x.tar", data, {"cut": 5000}, etag=None)
    good(c, s.at + "/x.tar", says="try 2 of 5")
    assert not any("Range" in h for h in s.headers("x.tar"))
    with open(kept(c)[0], "rb") as f:
        assert f.read() == data


@case
def http_cut_with_date(c):
    "a date is as good as an ETag"
    s, data = Site(c), shard()
    s.put("x.tar", data, {"cut": 5000}, etag=None, modified="Sat, 01 Mar 2025 10:00:00 GMT")
    good(c, s.at + "/x.tar")
    assert s.headers("x.tar")[1]["If-Range"] == "Sat, 01 Mar 2025 10:00:00 GMT"
    assert os.stat(kept(c)[0]).st_mtime == 1740823200


@case
def http_other_version_on_resume(c):
    "the rest is of another ETag: all of it is fetched again"
    s, data = Site(c), shard()
    s.put("x.tar", data, {"cut": 5000}, {"part_etag": '"2"'})
    good(c, s.at + "/x.tar", says="the server has another version of what was fetched of it before")
    with open(kept(c)[0], "rb") as f:
        assert f.read() == data


@case
def http_changed_while_fetched(c):
    "If-Range fails: the new version comes whole"
    s, old, new = Site(c), shard(), shard(8)
    s.files["x.tar"] = lambda h, turn: h.file(new, '"2"') if turn else h.file(old, '"1"', cut=5000)
    good(c, s.at + "/x.tar")
    with open(kept(c)[0], "rb") as f:
        assert f.read() == new


@case
def http_always_cut(c):
    "a body that never comes to its end"
    s, data = Site(c), shard()
    s.put("x.tar", data, *[{"cut": 100}] * 99)
    c.run(f"data {s.at}/x.tar {QUICK} --set reader.fetch_tries=3", 1, says="(3 tries; ", cure=False)
    assert not kept(c) and s.headers("x.tar")[2]["Range"] == "bytes=200-"


@case
def http_killed_and_resumed(c):
    "a process that was killed leaves what it had, and the next one goes on with it"
    s, data = Site(c), shard(side=80)
    s.put("x.tar", data, {"slow": 0.02})
    p = subprocess.Popen([SPCORE, "data", s.at + "/x.tar", "--target", "class"], cwd=c.folder, stdout=subprocess.DEVNULL,
                         stderr=subprocess.DEVNULL, env=dict(os.environ, XDG_CACHE_HOME=c.path(".cache"), **c.env))
    while not (kept(c, "x.tar.part") and os.path.getsize(kept(c, "x.tar.part")[0]) > 3000):
        assert p.poll() is None, "it has ended before it was killed"
        time.sleep(0.01)
    p.send_signal(signal.SIGKILL)
    p.wait()
    good(c, s.at + "/x.tar", lacks="waits")
    assert re.match(r"bytes=\d\d+-$", s.headers("x.tar")[1]["Range"]), s.headers("x.tar")
    with open(kept(c)[0], "rb") as f:
        assert f.read() == data


@case
def http_slow(c):
    "a server that says nothing for longer than fetch_timeout"
    s, data = Site(c), shard()
    def what(h, turn):
        if turn:
            return h.file(data)
        h.send_response(200)
        h.send_header("Content-Length", str(len(data)))
        h.end_headers()
        h.wfile.flush()
        time.sleep(8)
    s.files["x.tar"] = what
    good(c, s.at + "/x.tar", says=[re.compile("x.tar: .*(?:too slow|timed out).*; again in")], more="--set reader.fetch_timeout=1")


# ---- what does not pass ----

@case
def http_404(c):
    "a shard that is not there is named, and no other error beside it"
    s = Site(c)
    s.put("0.tar", shard())
    s.put("2.tar", shard(16))
    r = c.run(f"data {s.at}/{{0..2}}.tar {QUICK}", 1, says=s.at + "/1.tar: HTTP 404, there is no such file at the server")
    assert r.err.count("\n") == 1 and s.count("1.tar") == 1, r


@case
def http_not_allowed(c):
    "a server that wants a name and a password gets those of the address or of ~/.netrc, and nobody else does"
    s, data = Site(c), shard()
    def what(h, turn):
        h.file(data) if h.headers.get("Authorization") == "Basic YW5uOnMzY3JldA==" else h.words(401, WWW_Authenticate="Basic")
    s.files["x.tar"] = what
    c.run(f"data {s.at}/x.tar {QUICK}", 1, says="x.tar: HTTP 401, the server refuses it; ~/.netrc may hold a name and password")
    good(c, f"http://ann:s3cret@{s.host}/x.tar", lacks=["s3cret", "ann:"])
    shutil.rmtree(c.path(".cache"))
    c.run(f"data http://ann:wr0ng@{s.host}/x.tar {QUICK}", 1, says="HTTP 401", lacks=["wr0ng", "ann:"])
    c.write(".netrc", "machine 127.0.0.1 login ann password s3cret\n")
    good(c, s.at + "/x.tar")


@case
def http_secrets_of_a_run(c):
    "neither settings nor checkpoints nor events of a run have what is secret of an address; the run resumes from the cache"
    s, data = Site(c), shard()
    def what(h, turn):
        h.file(data) if h.headers.get("Authorization") else h.words(401)
    for name in ("train-0.tar", "val-0.tar"):
        s.files[name] = what
    line = "--size 16 --batch 4 --augment none --threads 1"
    r = c.run(f"run train_cls.lua --data 'http://ann:s3cret@{s.host}/{{train,val}}-0.tar?key=hush' {line} --steps 1000000 --max-time 1s --out r",
              says="8 train, 8 val", lacks=["s3cret", "hush"])
    for folder, _, files in os.walk(c.folder):
        for name in files:
            with open(os.path.join(folder, name), "rb") as f:
                text = f.read()
            assert b"s3cret" not in text and b"hush" not in text, os.path.join(folder, name)
    assert f"{s.at}/{{train,val}}-0.tar" in c.read("r/settings.json").decode(), r
    c.run("run train_cls.lua --resume r --max-time 1s", says="are taken from", lacks=["data differ", "hush"])
    c.run(f"run train_cls.lua --resume r --data 'http://ann:s3cret@{s.host}/{{train,val}}-0.tar?key=hush' --max-time 1s",
          lacks=["s3cret", "are taken from"])


@case
def http_redirected_for_ever(c):
    "a loop of redirections ends"
    s = Site(c)
    s.files["x.tar"] = lambda h, turn: h.words(302, Location=s.at + "/x.tar")
    c.run(f"data {s.at}/x.tar {QUICK}", 1, says="x.tar: the server redirects it more than 10 times, which seems to be a loop")
    assert s.count("x.tar") == 11


@case
def http_redirected_to_a_file(c):
    "a redirection to another protocol is none"
    s = Site(c)
    s.files["x.tar"] = lambda h, turn: h.words(302, Location="file:///etc/passwd")
    c.run(f"data {s.at}/x.tar {QUICK}", 1, says="x.tar: the server redirects it to what is neither https nor the http")


@case
def http_nobody_there(c):
    "a server that does not listen"
    Site(c)
    c.run(f"data http://127.0.0.1:1/x.tar {QUICK} --set reader.fetch_tries=2", 1, cure=False,
          says=["http://127.0.0.1:1/x.tar: Failed to connect to 127.0.0.1 port 1", "(2 tries; "])


@case
def http_length_lies(c):
    "a length that no disk has is said before a byte is written, and nothing is set aside for it"
    s, data = Site(c), shard()
    s.put("x.tar", data, says=10 ** 16)
    r = c.run(f"data {s.at}/x.tar {QUICK}", 1, says="x.tar: too little room for its 10000000000000000 bytes in ")
    assert "--cache-dir" in r.err and not kept(c), r


@case
def http_page_instead(c):
    "a page of HTML in place of a tar"
    s = Site(c)
    s.put("x.tar", b"<!DOCTYPE html><html><body>please log in</body></html>" * 40)
    c.run(f"data {s.at}/x.tar {QUICK}", 1, says=s.at + "/x.tar is no tar, or its first header is damaged")


@case
def http_cut_tar(c):
    "a shard that is cut at the server is named by its address"
    s = Site(c)
    s.put("x.tar", shard()[:4000])
    c.run(f"data {s.at}/x.tar {QUICK}", 1, says=s.at + "/x.tar, behind 0000.cls: Truncated tar archive")


@case
def http_no_tar(c):
    "other files at an address, and what looks like one"
    Site(c)
    for name in ("x.zip", "", "x.parquet", "images/"):
        c.run(f"data http://127.0.0.1:1/{name}", 1, says="of addresses tar files are read, such as https://host/data/train-{000000..000015}.tar")
    c.run("data ftp://127.0.0.1/x.tar", 1, says="ftp://127.0.0.1/x.tar")


@case
def http_named_twice(c):
    "two addresses that differ in what is not shown"
    s = Site(c)
    c.write("l.txt", f"{s.at}/x.tar?a=1\n{s.at}/x.tar?a=2\n")
    c.run(f"data l.txt {QUICK}", 1, says=s.at + "/x.tar is named twice (what follows a ? does not count)", lacks="a=1")


# ---- checksums ----

@case
def http_sum_beside(c):
    "SHARD.sha256 at the server is right"
    s, data = Site(c), shard()
    s.put("x.tar", data)
    s.put("x.tar.sha256", f"{sum_of(data).upper()} *x.tar\n".encode())
    good(c, s.at + "/x.tar", lacks="no checksum")


@case
def http_sum_alone(c):
    "SHARD.sha256 has the sum alone"
    s, data = Site(c), shard()
    s.put("x.tar", data)
    s.put("x.tar.sha256", sum_of(data).encode())
    good(c, s.at + "/x.tar", lacks="no checksum")


@case
def http_sum_wrong(c):
    "SHARD.sha256 is of something else: address, wanted and got, and nothing is kept"
    s, data = Site(c), shard()
    s.put("x.tar", data)
    s.put("x.tar.sha256", f"{'0' * 64}  x.tar\n".encode())
    c.run(f"data {s.at}/x.tar {QUICK}", 1, says=[s.at + "/x.tar: its SHA-256 is " + sum_of(data), "wants " + "0" * 64])
    assert not kept(c) and not kept(c, "x.tar.part")


@case
def http_sum_is_a_page(c):
    "SHARD.sha256 is a page of HTML: said, and taken as none"
    s, data = Site(c), shard()
    s.put("x.tar", data)
    s.put("x.tar.sha256", b"<html>not found</html>")
    good(c, s.at + "/x.tar", says=["x.tar.sha256 has no line as sha256sum prints it", "have no checksum"])


@case
def http_sum_after_resume(c):
    "what was put together wrongly is fetched again from its beginning"
    s, data = Site(c), shard()
    wrong = data[:5000] + bytes(b ^ 1 for b in data[5000:])
    s.files["x.tar"] = lambda h, turn: h.file(wrong if turn == 1 else data, cut=5000 if turn == 0 else None)
    s.put("x.tar.sha256", f"{sum_of(data)}  x.tar\n".encode())
    good(c, s.at + "/x.tar", says="has a wrong checksum; fetched again from its beginning")


@case
def http_none_said_once(c):
    "without checksums the sizes are compared, which is said once"
    s = Site(c)
    for k in range(3):
        s.put(f"{k}.tar", shard(8 * k))
    r = good(c, s.at + "/{0..2}.tar", 24, says="3 of 3 fetched shards have no checksum, so their sizes alone were compared with the server's")
    assert r.text.count("no checksum") == 1, r
    c.write("SUMS", "".join(f"{sum_of(shard(8 * k))}  {k}.tar\n" for k in range(3)))
    c.cures(f"data '{s.at}/{{0..2}}.tar' {QUICK}", "fetched shards have no checksum",
            ("--data-checksums FILE", "--data-checksums SUMS"), status=0)


@case
def http_no_length(c):
    "neither checksum nor length: said; in pieces: whole by its end"
    s, data = Site(c), shard()
    s.put("x.tar", data, length=False)
    c.write("SUMS", f"{sum_of(data)}  x.tar\n")
    c.cures(f"data {s.at}/x.tar {QUICK}", "the server says neither checksum nor size: whether they are whole is not known",
            ("--data-checksums FILE", "--data-checksums SUMS"), status=0)


@case
def http_sums_of_a_file(c):
    "--data-checksums: right, wrong, without the shard, not there"
    s, data = Site(c), [shard(), shard(8)]
    for k in range(2):
        s.put(f"{k}.tar", data[k])
    c.write("SUMS", f"{sum_of(data[0])}  0.tar\r\n{sum_of(data[1])}  ./1.tar\r\n")
    good(c, s.at + "/{0..1}.tar", 16, lacks="no checksum", more="--data-checksums SUMS")
    before = len(s.seen)
    good(c, s.at + "/{0..1}.tar", 16, more="--data-checksums SUMS")
    assert [x for x in s.seen[before:] if "tar" in x[0]] == [], s.seen  # what is known needs no server
    c.write("BAD", f"{sum_of(data[1])}  0.tar\n{sum_of(data[1])}  1.tar\n")
    c.run(f"data '{s.at}/{{0..1}}.tar' {QUICK} --data-checksums BAD", 1,
          says=["0.tar: what was fetched before has another checksum than BAD says", f"its SHA-256 is {sum_of(data[0])}, but BAD wants"])
    c.write("FEW", f"{sum_of(data[0])}  0.tar\n")
    c.run(f"data '{s.at}/{{0..1}}.tar' {QUICK} --data-checksums FEW", 1, says="1.tar: FEW has no line for it")
    c.run(f"data '{s.at}/{{0..1}}.tar' {QUICK} --data-checksums NONE", 1, says="NONE: there is no such file")


# ---- the cache ----

@case
def http_changed_later(c):
    "another version at the server is fetched, and said"
    s = Site(c)
    s.put("x.tar", shard())
    good(c, s.at + "/x.tar")
    s.put("x.tar", shard(0, 12), etag='"2"')
    good(c, s.at + "/x.tar", 12, says="x.tar: the server has another version than was fetched before; fetched again")
    good(c, s.at + "/x.tar", 12, lacks="another version")


@case
def http_changed_without_version(c):
    "a server without ETag and date: the length says it"
    s = Site(c)
    s.put("x.tar", shard(), etag=None)
    good(c, s.at + "/x.tar")
    good(c, s.at + "/x.tar", lacks="another version")
    s.put("x.tar", shard(0, 12), etag=None)
    good(c, s.at + "/x.tar", 12, says="another version")


@case
def http_server_gone(c):
    "what was fetched is read without the server, which is said"
    s = Site(c)
    s.put("x.tar", shard())
    good(c, s.at + "/x.tar")
    s.put("x.tar", shard(), *[503] * 99)
    good(c, s.at + "/x.tar", says="1 of 1 files are taken from ")
    del s.files["x.tar"]
    good(c, s.at + "/x.tar", says="since the server cannot be asked for newer ones: HTTP 404")


@case
def http_damaged_in_the_cache(c):
    "a file of the cache that is shorter than it was is fetched again"
    s = Site(c)
    s.put("x.tar", shard())
    good(c, s.at + "/x.tar")
    os.truncate(kept(c)[0], 100)
    good(c, s.at + "/x.tar")


@case
def http_two_at_once(c):
    "two processes fetch a shard once; one of them waits"
    s, data = Site(c), shard(side=60)
    s.put("x.tar", data, {"slow": 0.01})
    both = [threading.Thread(target=good, args=(c, s.at + "/x.tar")) for _ in range(2)]
    for t in both:
        t.start()
    for t in both:
        t.join()
    whole_ones = [h for h in s.headers("x.tar") if "If-None-Match" not in h]
    assert len(whole_ones) == 1 and len(c.log) == 2, s.headers("x.tar")


@case
def http_ranks(c):
    "ranks of a job share the cache, and see the same data"
    s = Site(c)
    for name in ("train-0.tar", "train-1.tar", "val-0.tar"):
        s.put(name, shard())
    c.run(f"run train_cls.lua --ranks 2 --data '{s.at}/{{train-0,train-1,val-0}}.tar' --size 16 --batch 4 --augment none --threads 1 --steps 2 "
          "--out r", says="16 train, 8 val")
    for name in ("train-0.tar", "val-0.tar"):
        assert len([h for h in s.headers(name) if "If-None-Match" not in h]) == 1, s.headers(name)


@case
def http_identity(c):
    "the data are the same from another cache folder, and others where the checksum is another"
    s = Site(c)
    for name in ("train-0.tar", "val-0.tar"):
        s.put(name, shard())
        s.put(name + ".sha256", sum_of(shard()).encode())
    c.write("d.lua", f"""local g <close> = sp.graph(opt)
local data = g.reader {{ path = "{s.at}/{{train,val}}-0.tar", target = "class", size = 8, batch = 1, cache_dir = arg and arg[1] or DIR }}
print(data:item("digest", 0), data:item("digest", 1))""")
    text = c.read("d.lua").decode()
    got = []
    for folder in ("one", "two", "three"):
        if folder == "three":
            s.put("train-0.tar", shard(8), etag='"2"')
            s.put("train-0.tar.sha256", sum_of(shard(8)).encode())
        c.write("d.lua", 'local sp = require "spcore"\nlocal opt = sp.args {}\n' + text.replace("arg and arg[1] or DIR", f'"{folder}"'))
        got.append(c.run("run d.lua").out)
    assert got[0] == got[1] and got[0] != got[2], got


@case
def http_cache_size(c):
    "what was used longest ago goes; what is read stays, and an error says how much it is"
    s = Site(c)
    for k in range(4):
        s.put(f"{k}.tar", shard(8 * k))
    size = len(shard())
    for k in range(3):
        good(c, s.at + f"/{k}.tar", more=f"--cache-size {size * 5 // 2}")
        time.sleep(0.02)
    assert [len(kept(c, f"{k}.tar")) for k in range(3)] == [0, 1, 1]
    c.run(f"data '{s.at}/{{0..3}}.tar' {QUICK} --cache-size {size * 2}", 1, says="bytes more than cache_size")
    s.put("new.tar", shard())
    c.run(f"data {s.at}/new.tar {QUICK} --cache-size 1k", 1, says="more than cache_size")
    good(c, s.at + "/new.tar", more=f"--cache-size {size}")
    c.run(f"data {s.at}/0.tar {QUICK} --cache-size many", 1, says='cache_size = "many": a number of bytes is expected, or such as 20G')
    good(c, s.at + "/{0..3}.tar", 32, more="--cache-size 1GiB")


@case
def http_cache_elsewhere(c):
    "--cache-dir, and one that cannot be made"
    s = Site(c)
    s.put("x.tar", shard())
    good(c, s.at + "/x.tar", more="--cache-dir here/and/there")
    assert os.path.isdir(c.path("here/and/there")) and not kept(c)
    c.write("file", b"")
    c.run(f"data {s.at}/x.tar {QUICK} --cache-dir file/sub", 1, says="cache_dir: folder file/sub: Not a directory")


# ---- https ----

def certificate(folder):
    pem = os.path.join(folder, "server.pem")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj",
                    "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", pem, "-out", pem + ".crt"],
                   check=True, stderr=subprocess.DEVNULL)
    with open(pem, "ab") as to, open(pem + ".crt", "rb") as f:
        to.write(f.read())
    return pem


if shutil.which("openssl"):
    @case
    def https_of_nobody_known(c):
        "a certificate that nobody vouches for: an error with the cure, which works"
        with tempfile.TemporaryDirectory() as folder:
            pem = certificate(folder)
            s = Site(c, serve(pem), "https")
            s.put("x.tar", shard())
            c.run(f"data {s.at}/x.tar {QUICK}", 1, says=["x.tar: SSL certificate problem: self-signed certificate",
                                                         "let CURL_CA_BUNDLE (or SSL_CERT_FILE) name a PEM file"])
            for name in ("CURL_CA_BUNDLE", "SSL_CERT_FILE"):
                c.env.update({"CURL_CA_BUNDLE": "", "SSL_CERT_FILE": "", name: pem + ".crt"})
                good(c, s.at + "/x.tar")
                shutil.rmtree(c.path(".cache"))
            s.files["y.tar"] = lambda h, turn: h.words(302, Location=s.at.replace("https", "http") + "/x.tar")
            c.run(f"data {s.at}/y.tar {QUICK}", 1, says="y.tar: the server redirects it to what is neither https nor")


if __name__ == "__main__":
    main()
