"""llama.cpp's own library, as npm's node-llama-cpp brings it, for tests that hold our ids, logits and files against it.

Only what tests need of llama.h is declared, as of that package's version 3.22.1 (scripts/bootstrap).

usage: llama_cpp.py greedy GGUF N PROMPT     the N likeliest tokens behind BOS and PROMPT, as text
       llama_cpp.py loss GGUF LENGTH FILE    mean loss of every token of FILE behind BOS, read in pieces of LENGTH
       llama_cpp.py logits GGUF CONTEXT IDS  the logits behind each of the ids, a line each
       llama_cpp.py numbers TYPE N BYTES     blocks of a quantised type (q4_K) on standard input, N numbers in BYTES each, as raw f32"""
import ctypes as c
import glob
import math
import os
import sys


def folder():
    """Where the library lies, or None."""
    root = os.environ.get("RNP_LLAMA_CPP") or os.path.join(
        os.path.dirname(os.path.abspath(__file__)),
        "../../build/node/node_modules/@node-llama-cpp/linux-x64/bins/linux-x64")
    return root if glob.glob(os.path.join(root, "libllama.*so*")) else None


class ModelParams(c.Structure):
    _fields_ = [("devices", c.c_void_p), ("overrides", c.c_void_p), ("layers", c.c_int32),
                ("split", c.c_int), ("load", c.c_int), ("lazy", c.c_int), ("gpu", c.c_int32),
                ("tensor_split", c.c_void_p), ("progress", c.c_void_p), ("progress_data", c.c_void_p),
                ("kv", c.c_void_p), ("vocab_only", c.c_bool), ("flags", c.c_bool * 7)]


class ContextParams(c.Structure):
    _fields_ = [("n_ctx", c.c_uint32), ("n_batch", c.c_uint32), ("n_ubatch", c.c_uint32),
                ("other", c.c_uint32 * 4), ("threads", c.c_int32), ("threads_batch", c.c_int32),
                ("rest", c.c_char * 124)]


class Batch(c.Structure):
    _fields_ = [("count", c.c_int32), ("token", c.POINTER(c.c_int32)), ("embd", c.c_void_p),
                ("pos", c.POINTER(c.c_int32)), ("n_seq", c.POINTER(c.c_int32)),
                ("seq", c.POINTER(c.POINTER(c.c_int32))), ("logits", c.POINTER(c.c_int8))]


LOG = c.CFUNCTYPE(None, c.c_int, c.c_char_p, c.c_void_p)
_lib = None
_said = []


@LOG
def _log(level, text, _):
    _said.append(text.decode(errors="replace"))


def lib():
    global _lib
    if _lib:
        return _lib
    at = folder()
    if not at:
        sys.exit("llama.cpp is not there: scripts/bootstrap installs it below build/node")
    for name in ("libggml-base.so", "libggml.*so*"):
        for path in glob.glob(os.path.join(at, name)):
            ggml = c.CDLL(path, mode=c.RTLD_GLOBAL)
    l = c.CDLL(glob.glob(os.path.join(at, "libllama.*so*"))[0], mode=c.RTLD_GLOBAL)
    p = c.c_void_p
    for name, result, args in (
            ("model_default_params", ModelParams, []), ("context_default_params", ContextParams, []),
            ("model_load_from_file", p, [c.c_char_p, ModelParams]), ("model_free", None, [p]),
            ("model_get_vocab", p, [p]), ("vocab_n_tokens", c.c_int32, [p]),
            ("tokenize", c.c_int32, [p, c.c_char_p, c.c_int32, p, c.c_int32, c.c_bool, c.c_bool]),
            ("detokenize", c.c_int32, [p, p, c.c_int32, p, c.c_int32, c.c_bool, c.c_bool]),
            ("vocab_bos", c.c_int32, [p]), ("vocab_eos", c.c_int32, [p]),
            ("init_from_model", p, [p, ContextParams]), ("free", None, [p]),
            ("batch_init", Batch, [c.c_int32, c.c_int32, c.c_int32]), ("batch_free", None, [Batch]),
            ("decode", c.c_int32, [p, Batch]), ("get_logits_ith", c.POINTER(c.c_float), [p, c.c_int32]),
            ("get_memory", p, [p]), ("memory_clear", None, [p, c.c_bool]),
            ("log_set", None, [LOG, p])):
        f = getattr(l, "llama_" + name)
        f.restype, f.argtypes = result, args
    l.llama_log_set(_log, None)
    # the variant that runs on every machine: its order of additions is the same everywhere
    ggml.ggml_backend_load.restype = p
    variant = os.environ.get("RNP_LLAMA_CPP_CPU", "x64")
    ggml.ggml_backend_load(os.path.join(at, f"libggml-cpu-{variant}.so").encode())
    _lib = l
    return l


class Model:
    """A GGUF file, opened by llama.cpp; vocab_only: just its tokenizer. Raises ValueError with what llama.cpp said."""

    def __init__(self, path, vocab_only=False, context=512):
        self.l = lib()
        params = self.l.llama_model_default_params()
        params.vocab_only = vocab_only
        _said.clear()
        self.model = self.l.llama_model_load_from_file(os.fsencode(path), params)
        if not self.model:
            raise ValueError("".join(_said).strip().splitlines()[-1:] or "cannot load")
        self.vocab = self.l.llama_model_get_vocab(self.model)
        self.count = self.l.llama_vocab_n_tokens(self.vocab)
        self.context = None
        if not vocab_only:
            params = self.l.llama_context_default_params()
            params.n_ctx = params.n_batch = params.n_ubatch = context
            params.threads = params.threads_batch = 1
            self.context = self.l.llama_init_from_model(self.model, params)
            if not self.context:
                raise ValueError("".join(_said[-3:]))
            self.batch = self.l.llama_batch_init(context, 0, 1)
            self.room = context

    def close(self):
        if self.context:
            self.l.llama_batch_free(self.batch)
            self.l.llama_free(self.context)
        self.l.llama_model_free(self.model)

    def bos(self):
        return self.l.llama_vocab_bos(self.vocab)

    def eos(self):
        return self.l.llama_vocab_eos(self.vocab)

    def ids(self, data, special=False, bos=False):
        room = len(data) * 2 + 16
        out = (c.c_int32 * room)()
        n = self.l.llama_tokenize(self.vocab, data, len(data), out, room, bos, special)
        if n < 0:
            raise ValueError(f"llama_tokenize gave {n}")
        return list(out[:n])

    def text(self, ids):
        got = (c.c_int32 * len(ids))(*ids)
        room = 64 * len(ids) + 64
        out = c.create_string_buffer(room)
        n = self.l.llama_detokenize(self.vocab, got, len(ids), out, room, False, True)
        return out.raw[:n]

    def clear(self):
        self.l.llama_memory_clear(self.l.llama_get_memory(self.context), True)

    def feed(self, ids, at, every=False):
        """Logits behind the last of ids, which stand from position at on; every: behind each of them."""
        b = self.batch
        b.count = len(ids)
        for i, token in enumerate(ids):
            b.token[i], b.pos[i], b.n_seq[i], b.seq[i][0] = token, at + i, 1, 0
            b.logits[i] = every or i == len(ids) - 1
        if self.l.llama_decode(self.context, b):
            raise ValueError("llama_decode failed")
        rows = range(len(ids)) if every else [len(ids) - 1]
        return [self.l.llama_get_logits_ith(self.context, i)[:self.count] for i in rows]

    def greedy(self, ids, n):
        """Up to n tokens that follow ids, each the likeliest; ends before EOS."""
        self.clear()
        out, at, new = [], 0, ids
        while len(out) < n:
            row = self.feed(new, at)[0]
            at += len(new)
            best = max(range(len(row)), key=row.__getitem__)
            if best == self.eos():
                break
            out.append(best)
            new = [best]
        return out

    def loss(self, windows):
        """Mean negative log-likelihood of each window's tokens but its first, in nats, and their number."""
        total, count = 0.0, 0
        for ids in windows:
            self.clear()
            for row, want in zip(self.feed(ids[:-1], 0, True), ids[1:]):
                top = max(row)
                total += top + math.log(sum(math.exp(x - top) for x in row)) - row[want]
                count += 1
        return total / count, count


def numbers(kind, block, size):
    """What ggml makes of blocks of a type, as f32."""
    lib()
    data = sys.stdin.buffer.read()
    count = len(data) // size * block
    out = (c.c_float * count)()
    ggml = c.CDLL(glob.glob(os.path.join(folder(), "libggml-base.so"))[0])
    f = getattr(ggml, "dequantize_row_" + kind)
    f.restype, f.argtypes = None, [c.c_char_p, c.c_void_p, c.c_int64]
    f(data, out, count)
    sys.stdout.buffer.write(bytes(out))


def main(what, gguf, number, text):
    if what == "numbers":
        numbers(gguf, int(number), int(text))
        return
    m = Model(gguf, context=int(number) if what == "logits" else 512)
    if what == "greedy":
        ids = m.ids(text.encode())
        out = m.text(ids + m.greedy([m.bos()] + ids, int(number)))
        sys.stdout.buffer.write(out[len(m.text(ids)):])  # alone, what follows would lose its first blank
    elif what == "logits":
        for row in m.feed([int(i) for i in text.split()], 0, True):
            print(*row)
    else:
        with open(text, "rb") as f:
            ids = [m.bos()] + m.ids(f.read())
        n = int(number)
        print(m.loss([ids[i:i + n + 1] for i in range(0, len(ids) - 1, n)])[0])
    m.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
