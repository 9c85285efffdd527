# SPDX-License-Identifier: MIT
"""Runs one spcore stage on numpy arrays, through libsptest (tests/kit/harness.c). See tests/parity/README."""
import ctypes
import os
import sys

try:
    import numpy as np
except ImportError:
    print("skipped: numpy is not installed (Debian: apt install python3-numpy)")
    sys.exit(77)

_PRECISIONS = {"fp32": 0, "tf32": 1, "bf16": 2}
IN, OUT, DIN, DOUT, WEIGHT, DWEIGHT = range(6)
ROW_MAJOR, CHANNELS_LAST = 0, 0x0231
_DTYPES = {1: np.uint8, 2: np.int8, 3: np.int32, 4: np.int64, 5: np.float16, 7: np.float32, 8: np.float64}
_CODES = {np.dtype(v): k for k, v in _DTYPES.items()}


class _Group(ctypes.Structure):
    """sp_group"""
    _fields_ = [("lr", ctypes.c_double), ("decay", ctypes.c_double), ("phase", ctypes.c_uint64)]


class StageError(Exception):
    pass


class _Spec(ctypes.Structure):
    _fields_ = [("dtype", ctypes.c_int32), ("ndim", ctypes.c_int32), ("shape", ctypes.c_int64 * 8),
                ("order", ctypes.c_int32), ("reserved", ctypes.c_int32 * 3)]


class _Entry(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("spec", _Spec), ("data", ctypes.c_void_p)]


def _load():
    build = os.environ.get("top_builddir", os.getcwd())
    path = os.environ.get("SPTEST_LIB", os.path.join(build, "tests", "kit", ".libs", "libsptest.so"))
    os.environ.setdefault("SPCORE_PLUGIN_PATH", os.path.join(build, ".libs"))
    if not os.path.exists(path):
        print(f"{path} is missing: run `make check` (or `make tests/kit/libsptest.la`) in the build folder, "
              "and set top_builddir to it")
        sys.exit(1)
    lib = ctypes.CDLL(path)
    i, p, s, i64, f = ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int64, ctypes.c_float
    for name, result, args in [
            ("spt_new_on", p, [s, s, s, i]), ("spt_set_precision", None, [p, i]),
            ("spt_free", None, [p]), ("spt_failed", i, [p]), ("spt_error", s, [p]),
            ("spt_input_of", i, [p, i, i, i, ctypes.POINTER(i64), i, p]), ("spt_set_batch", None, [p, i64]),
            ("spt_set_seed", None, [p, ctypes.c_uint64]), ("spt_set_frozen", None, [p, i]),
            ("spt_set_torch", None, [p, i]), ("spt_set_groups", None, [p, i, p]), ("spt_plan", i, [p, i]), ("spt_run_batch", i, [p, i64]),
            ("spt_set_live", None, [p, i, f]), ("spt_set_id", None, [p, i64, ctypes.c_uint64]),
            ("spt_set_epoch", None, [p, ctypes.c_uint64]), ("spt_set_loss_scale", None, [p, f]),
            ("spt_set_dw_scale", None, [p, f]), ("spt_set_acc", None, [p, i, i]), ("spt_want", None, [p, i, i, i, i]),
            ("spt_forward", i, [p, ctypes.c_uint64]), ("spt_again", i, [p, i]),
            ("spt_backward", i, [p]), ("spt_ports", i, [p, i]),
            ("spt_count", i, [p, i, i]), ("spt_spec", ctypes.POINTER(_Spec), [p, i, i, i]),
            ("spt_set", i, [p, i, i, i, p]), ("spt_get", i, [p, i, i, i, p]), ("spt_weight_name", s, [p, i]),
            ("spt_weight_index", i, [p, s]), ("spt_port_index", i, [p, i, s]), ("spt_port_name", s, [p, i, i]),
            ("spt_attr", i, [p, s, ctypes.POINTER(ctypes.c_double)]), ("spt_inplace", i, [p]),
            ("spt_file_list", i, [s, ctypes.POINTER(p), ctypes.POINTER(ctypes.c_size_t)]),
            ("spt_file_read", i, [p, ctypes.c_size_t, ctypes.POINTER(_Entry), p, ctypes.c_size_t]),
            ("spt_file_close", None, [p]), ("spt_file_write", i, [s, ctypes.POINTER(_Entry), ctypes.c_size_t]),
            ("spt_file_error", s, []), ("spt_init", i, [ctypes.POINTER(_Entry), ctypes.POINTER(ctypes.c_double),
                                                        ctypes.c_size_t, ctypes.c_uint64, i])]:
        fn = getattr(lib, name)
        fn.restype, fn.argtypes = result, args
    return lib


_lib = _load()


class Lua(str):
    """Such text as it is."""


def lua(v):
    """A Python value as the text of a Lua table."""
    if isinstance(v, Lua):
        return v
    if isinstance(v, bool):
        return "true" if v else "false"
    if isinstance(v, (int, float)):
        return repr(v)
    if isinstance(v, str):
        if '"' in v:
            raise ValueError("a string with a quote in it")
        return f'"{v}"'
    if isinstance(v, dict):
        positional = [lua(x) for k, x in sorted((k, x) for k, x in v.items() if isinstance(k, int))]
        return "{ " + ", ".join(positional + [f"{k} = {lua(x)}" for k, x in v.items() if isinstance(k, str)]) + " }"
    return "{ " + ", ".join(lua(x) for x in v) + " }"


def _as_list(x):
    if x is None:
        return []
    return list(x) if isinstance(x, (list, tuple)) else [x]


class Stage:
    """One stage with its buffers.

    inputs: one array per port, a list of arrays for a LIST port, None for an unwired port. order: memory order of the
    four-dimensional inputs, one value for all ports or a list with one per port. Arrays go in and come out in logical
    row-major order. A failure of the stage raises StageError with its words. device: "cpu", "cuda", "cuda:1";
    None takes $SP_TEST_DEVICE, or the cpu. precision: "fp32", "tf32", "bf16"; None takes $SP_TEST_PRECISION, or fp32.
    """

    def __init__(self, name, params=None, inputs=(), training=True, order=ROW_MAJOR, seed=1, torch_init=False,
                 frozen=False, batch=None, threads=2, device=None, precision=None, groups=None):
        self.name = name
        device = device or os.environ.get("SP_TEST_DEVICE", "cpu")
        precision = precision or os.environ.get("SP_TEST_PRECISION", "fp32")
        self._t = _lib.spt_new_on(device.encode(), name.encode(), lua(params or {}).encode(), threads)
        if not self._t:
            raise MemoryError("libsptest")
        self._check(_lib.spt_failed(self._t))
        _lib.spt_set_precision(self._t, _PRECISIONS[precision])
        for port, arrays in enumerate(inputs):
            o = order[port] if isinstance(order, (list, tuple)) else order
            for a in _as_list(arrays):
                a = np.ascontiguousarray(a) if np.ndim(a) else np.asarray(a)
                shape = (ctypes.c_int64 * max(1, a.ndim))(*a.shape)
                self._check(_lib.spt_input_of(self._t, port, _CODES[a.dtype], a.ndim, shape, o if a.ndim == 4 else 0,
                                              a.ctypes.data))
        if batch is not None:
            _lib.spt_set_batch(self._t, batch)
        _lib.spt_set_seed(self._t, seed)
        _lib.spt_set_torch(self._t, int(torch_init))
        _lib.spt_set_frozen(self._t, int(frozen))
        if groups:  # of an optimizer: (factor on lr, on decay) of each
            self._groups = (_Group * len(groups))(*[_Group(*g) for g in groups])
            _lib.spt_set_groups(self._t, len(groups), self._groups)
        self._check(_lib.spt_plan(self._t, int(training)))

    def __del__(self):
        if getattr(self, "_t", None):
            _lib.spt_free(self._t)
            self._t = None

    def _check(self, rc):
        if rc:
            raise StageError(_lib.spt_error(self._t).decode())

    def _get(self, what, port, item):
        s = _lib.spt_spec(self._t, what, port, item)
        if not s:
            return None
        spec = s.contents
        a = np.empty(tuple(spec.shape[:spec.ndim]), _DTYPES[spec.dtype])
        self._check(_lib.spt_get(self._t, what, port, item, a.ctypes.data))
        return a

    def _set(self, what, port, item, a):
        s = _lib.spt_spec(self._t, what, port, item)
        if not s:
            raise StageError(f"no tensor {item} of port {port}")
        spec = s.contents
        a = np.ascontiguousarray(a, dtype=_DTYPES[spec.dtype])
        if a.size != int(np.prod(spec.shape[:spec.ndim])):
            raise StageError(f"shape {a.shape} does not fit {tuple(spec.shape[:spec.ndim])}")
        self._check(_lib.spt_set(self._t, what, port, item, a.ctypes.data))

    def _port(self, what, port):
        if isinstance(port, int):
            return port
        p = _lib.spt_port_index(self._t, what, port.encode())
        if p < 0:
            raise StageError(f"stage '{self.name}' has no port '{port}'")
        return p

    def _all(self, what, port):
        return [self._get(what, port, i) for i in range(_lib.spt_count(self._t, what, port))]

    def run(self, step=0):
        """Runs forward() and leaves its outputs where they are."""
        self._check(_lib.spt_forward(self._t, step))

    def again(self, calls=1):
        """The latest forward() so many times more, without the harness's checks: for measurements."""
        self._check(_lib.spt_again(self._t, calls))

    def forward(self, step=0):
        """Runs forward(); returns {port name: array, or list of arrays where there are not exactly one}."""
        self.run(step)
        return self.outputs()

    def outputs(self):
        r = {}
        for p in range(_lib.spt_ports(self._t, OUT)):
            v = self._all(OUT, p)
            r[_lib.spt_port_name(self._t, OUT, p).decode()] = v[0] if len(v) == 1 else v
        return r

    def backward(self, douts=None):
        """douts: {port name: array or list}; missing ones are zero. Returns (input gradients, weight gradients): the
        first as {port name: array or list}, the second as {weight name: array}."""
        for port, arrays in (douts or {}).items():
            for i, a in enumerate(_as_list(arrays)):
                self._set(DOUT, self._port(OUT, port), i, a)
        self._check(_lib.spt_backward(self._t))
        return self.dinputs(), self.dweights()

    def dinputs(self):
        r = {}
        for p in range(_lib.spt_ports(self._t, IN)):
            v = self._all(DIN, p)
            r[_lib.spt_port_name(self._t, IN, p).decode()] = v[0] if len(v) == 1 else v
        return r

    def weight_names(self):
        return [_lib.spt_weight_name(self._t, i).decode() for i in range(_lib.spt_count(self._t, WEIGHT, 0))]

    def weights(self):
        return {n: self._get(WEIGHT, 0, i) for i, n in enumerate(self.weight_names())}

    def dweights(self):
        return {n: self._get(DWEIGHT, 0, i) for i, n in enumerate(self.weight_names())}

    def set_weights(self, values):
        """values: {name: array}, as a PyTorch state_dict of numpy arrays."""
        for name, a in values.items():
            i = _lib.spt_weight_index(self._t, name.encode())
            if i < 0:
                raise StageError(f"stage '{self.name}' has no weight '{name}' but {', '.join(self.weight_names())}")
            self._set(WEIGHT, 0, i, a)

    def set_input(self, port, a, item=0):
        self._set(IN, self._port(IN, port), item, a)

    def set_output(self, port, a, item=0):
        """Optimizers update their outputs in place: give the weights here."""
        self._set(OUT, self._port(OUT, port), item, a)

    def order_of(self, what, port, item=0):
        return _lib.spt_spec(self._t, what, port, item).contents.order

    def want(self, what, port, item, wanted):
        _lib.spt_want(self._t, what, port, item, int(wanted))

    def set_acc(self, din_acc, dw_acc):
        _lib.spt_set_acc(self._t, int(din_acc), int(dw_acc))

    def set_live(self, i, v):
        _lib.spt_set_live(self._t, i, v)

    def set_id(self, sample, sample_id):
        _lib.spt_set_id(self._t, sample, sample_id)

    def set_epoch(self, epoch):
        _lib.spt_set_epoch(self._t, epoch)

    def set_loss_scale(self, v):
        _lib.spt_set_loss_scale(self._t, v)

    def set_dw_scale(self, v):
        _lib.spt_set_dw_scale(self._t, v)

    def run_batch(self, n):
        """From now on with n samples, fewer than planned; arrays keep the planned shape."""
        self._check(_lib.spt_run_batch(self._t, n))

    def inplace(self):
        return bool(_lib.spt_inplace(self._t))

    def attr(self, name):
        v = ctypes.c_double()
        return v.value if _lib.spt_attr(self._t, name.encode(), ctypes.byref(v)) else None


def load_file(path):
    """Reads a weight file with the project's plugin: {name: array}."""
    f, n = ctypes.c_void_p(), ctypes.c_size_t()
    if _lib.spt_file_list(path.encode(), ctypes.byref(f), ctypes.byref(n)):
        raise StageError(_lib.spt_file_error().decode())
    r = {}
    try:
        for i in range(n.value):
            e = _Entry()
            if _lib.spt_file_read(f, i, ctypes.byref(e), None, 0):
                raise StageError(_lib.spt_file_error().decode())
            a = np.empty(tuple(e.spec.shape[:e.spec.ndim]), _DTYPES.get(e.spec.dtype, np.uint8))
            if _lib.spt_file_read(f, i, ctypes.byref(e), a.ctypes.data, a.nbytes):
                raise StageError(_lib.spt_file_error().decode())
            r[e.name.decode()] = a
    finally:
        _lib.spt_file_close(f)
    return r


def save_file(path, arrays):
    """Writes {name: array} with the project's plugin."""
    kept = [np.ascontiguousarray(a) if np.ndim(a) else np.asarray(a) for a in arrays.values()]
    entries = (_Entry * max(1, len(kept)))()
    for e, name, a in zip(entries, arrays, kept):
        e.name, e.data = name.encode(), a.ctypes.data
        e.spec.dtype, e.spec.ndim = _CODES[a.dtype], a.ndim
        for d, x in enumerate(a.shape):
            e.spec.shape[d] = x
    if _lib.spt_file_write(path.encode(), entries, len(kept)):
        raise StageError(_lib.spt_file_error().decode())


def init_weights(weights, seed, torch=False):
    """First values of [(name, shape, fan_in, memory order)], as one stage "stage": {name: array} in logical order."""
    entries, fans = (_Entry * len(weights))(), (ctypes.c_double * len(weights))()
    arrays = {}
    for k, (name, shape, fan_in, order) in enumerate(weights):
        a = arrays[name] = np.empty(shape, np.float32)
        e = entries[k]
        e.name, e.data, e.spec.dtype, e.spec.ndim, e.spec.order = name.encode(), a.ctypes.data, 7, a.ndim, order
        for d, x in enumerate(shape):
            e.spec.shape[d] = x
        fans[k] = fan_in
    if _lib.spt_init(entries, fans, len(weights), seed, int(torch)):
        raise StageError(_lib.spt_file_error().decode())
    return arrays


class Report:
    """Counts cases, one line each; exit status 1 if one differed."""

    def __init__(self):
        self.bad = 0

    def close(self, name, ours, theirs, rtol=0.0, atol=0.0):
        """Each element within atol + rtol * |theirs|."""
        return self._say(name, ours, theirs, lambda b: atol + rtol * np.abs(b))

    def near(self, name, ours, theirs, tol):
        """Each element within tol * the largest |theirs|."""
        return self._say(name, ours, theirs, lambda b: tol * (np.max(np.abs(b)) if b.size else 0.0))

    def same(self, name, ours, theirs):
        """The same bits."""
        a, b = np.asarray(ours), np.asarray(theirs)
        ok = a.shape == b.shape and a.dtype == b.dtype and a.tobytes() == b.tobytes()
        n = int(np.sum(a != b)) if a.shape == b.shape else -1
        return self.true(name, ok, f"same bits wanted; shapes {a.shape} {b.shape}, {a.dtype} {b.dtype}, {n} differ")

    def true(self, name, ok, why=""):
        print(f"{'ok' if ok else 'BAD'}  {name}{'' if ok else ': ' + why}", flush=True)
        self.bad += not ok
        return ok

    def fails(self, name, words, fn):
        """fn raises StageError with these words in it."""
        try:
            fn()
        except StageError as e:
            return self.true(name, words in str(e), f"wanted '{words}' in '{e}'")
        return self.true(name, False, "no error")

    def _say(self, name, ours, theirs, allowed):
        a, b = np.asarray(ours, np.float64), np.asarray(theirs, np.float64)
        if a.shape != b.shape:
            return self.true(name, False, f"shape {a.shape}, PyTorch has {b.shape}")
        over = np.abs(a - b) - allowed(b)
        ok = bool(np.all(over <= 0))
        worst = float(np.max(np.abs(a - b))) if a.size else 0.0
        top = float(np.max(np.abs(b))) if b.size else 0.0
        print(f"{'ok' if ok else 'BAD'}  {name}: largest difference {worst:.3g} of {top:.3g}", flush=True)
        self.bad += not ok
        return ok

    def exit(self):
        sys.exit(1 if self.bad else 0)


def pillow_bicubic(image, size):
    """The width first, and rounded, as Pillow does up to 12; 13 begins with the axis that leaves less to do."""
    from PIL import Image
    return image.resize((size[0], image.height), Image.BICUBIC).resize(size, Image.BICUBIC)


def torch_or_skip():
    try:
        import torch
    except ImportError:
        print("skipped: torch is not installed (Debian: apt install python3-torch)")
        sys.exit(77)
    torch.set_num_threads(1)  # a second one waits most of the time, and spins: on a busy machine for minutes
    return torch


def torchvision_or_skip():
    try:
        import torchvision
        import torchvision.transforms.functional
    except ImportError:
        print("skipped: torchvision is not installed (Debian: apt install python3-torchvision)")
        sys.exit(77)
    return torchvision
