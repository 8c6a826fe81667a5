"""Hold our token ids against llama.cpp's: token_parity.py [--names A,B] [--texts DIR] GGUF...

Each GGUF with a byte-level BPE tokenizer is tried under every pre-tokenizer name (tokenizer.ggml.pre rewritten), on the
same texts. One line a name: vocabulary, name, texts, texts that differ; below it the first differences. Exit 1 if any."""
import argparse
import glob
import os
import random
import subprocess
import sys
import tempfile
import unicodedata

import gguf_patch
import llama_cpp

HERE = os.path.dirname(os.path.abspath(__file__))
# every name that llama.cpp knows but "whitespace", which belongs to a kind of tokenizer that we do not have
NAMES = """default minicpm5 llama3 llama-v3 llama-bpe falcon3 falcon-h1 pixtral midm-2.0 lfm2 jina-v5-nano deepseek-llm
deepseek-coder deepseek-v3 spark2_5 youtu falcon mpt starcoder gpt-2 phi-2 jina-es jina-de gigachat jina-v2-es jina-v2-de
a.x-4.0 mellum modern-bert jais-2 gemma4 granite-embed-multi-311m sarvam-moe jina-v1-en jina-v2-code roberta-bpe refact
command-r qwen2 deepseek-r1-qwen kormo f2llmv2 qwen35 stablelm2 olmo dbrx smaug-bpe poro-chat glm4 chatglm-bpe viking jais
tekken smollm codeshell bloom gpt3-finnish exaone exaone4 exaone-moe chameleon minerva-7b megrez gpt-4o llama4 kanana2 talkie
granite-embed-multi-97m tiny_aya cohere2moe superbpe trillion granite-docling bailingmoe bailingmoe2 llada-moe seed-coder
hunyuan hunyuan-dense hy_v4 joyai-llm kimi-k2 ufakzeka grok-2 afmoe laguna minimax-m2 solar-open mellum2""".split()
ASSIGNED = ("Cn", "Cs", "Co")


def character(r):
    """One of all planes, most often from where scripts and symbols are dense."""
    while True:
        kind = r.randrange(10)
        top = (0x80, 0x250, 0x800, 0x2100, 0x3100, 0x10000, 0x20000, 0x30000, 0x110000, 0x3000)[kind]
        low = (0, 0x80, 0x250, 0x2000, 0x3000, 0x3100, 0x10000, 0x1f000, 0x20000, 0x800)[kind]
        got = chr(r.randrange(low, top))
        if not 0xd800 <= ord(got) < 0xe000 and (r.random() < .05 or unicodedata.category(got) not in ASSIGNED):
            return got


def pool(*categories):
    return [chr(i) for i in range(0x20000) if unicodedata.category(chr(i)) in categories]


def random_texts(r, n):
    """Mixtures of what patterns tell apart: every script, marks, digits of any script, blanks, line ends, emoji."""
    digits, marks, blanks = pool("Nd", "Nl", "No"), pool("Mn", "Mc", "Me"), pool("Zs", "Zl", "Zp")
    upper, lower, other = pool("Lu", "Lt"), pool("Ll"), pool("Lm", "Lo")
    sign = pool("Sm", "Sc", "Sk", "So")
    stop = pool("Pc", "Pd", "Ps", "Pe", "Pi", "Pf", "Po")
    emoji = list("😀🚀👩🏽❤🏳🌈🧑") + ["\u200d", "\ufe0f", "\U0001f1e9\U0001f1ea", "👩\u200d🚀", "1\ufe0f\u20e3"]
    ascii_all = [chr(i) for i in range(1, 127)]
    ends = ["\n", "\r\n", "\r", "\n\n", "\t", " ", "  ", "   ", "        ", "\u00a0", "\u3000", "\x0b", "\x0c", "\x85"]
    bits = ["'s", "'T", "'re", "'LL", "'d", "'x", "12", "1234567", "abc", "Word", "WORDS", "camelCase", "...", "!?", "/n", "~~",
            "$5", "a_b", "-1.5e10", "<|x|>", "=>", "http://", "``", "don't", "I'M", "x1y2"]
    own = [digits, marks, blanks, upper, lower, other, sign, stop, emoji, ascii_all, ends, bits]
    for _ in range(n):
        use = r.sample(own, r.randrange(1, 6)) if r.random() < .8 else None
        yield "".join(r.choice(r.choice(use)) if use else character(r) for _ in range(r.randrange(1, 160)))


def broken_texts(r, n):
    """Bytes that are not UTF-8: cut short or stray. (Of what lies beyond the last plane llama.cpp aborts.)"""
    bad = [b"\x80", b"\xff", b"\xc3", b"\xe2\x82", b"\xf0\x9f\x98", b"\xfe"]
    good = [b"a", b" ", b"\n", b"word", b" The", "é".encode(), "中".encode(), b"12", b"."]
    for _ in range(n):
        yield b"".join(r.choice(bad if r.random() < .3 else good) for _ in range(r.randrange(1, 60)))


def pieces(data, bytes_max, n, r):
    """n pieces of whole lines from anywhere in a text."""
    lines = data.splitlines(True)
    for _ in range(n):
        at, out = r.randrange(len(lines)), b""
        while at < len(lines) and len(out) + len(lines[at]) <= bytes_max:
            out += lines[at]
            at += 1
        if out:
            yield out


def gather(data_dir, n, seed, broken, every=True):
    """Name of a set: its texts."""
    r = random.Random(seed)
    sets = {"random": [t.encode() for t in random_texts(r, n)]}
    sets["every character"] = []
    for begin in range(0, 0x30000 if every else 0, 64):
        row = [chr(i) for i in range(begin, begin + 64)
               if i and not 0xd800 <= i < 0xe000 and unicodedata.category(chr(i)) not in ASSIGNED]
        if row and not 0x3400 <= begin < 0x4db5 and not 0x4e00 <= begin < 0x9f00 and not 0xac00 <= begin < 0xd700 and \
                not 0x20040 <= begin < 0x2fa00:
            sets["every character"] += [(" a".join(row) + "1".join(row) + "".join(row)).encode()]
    files = glob.glob(os.path.join(HERE, "../../common/base/*.c")) + glob.glob(os.path.join(HERE, "*.py"))
    sets["code"] = [t for f in sorted(files)[:12] for t in pieces(open(f, "rb").read(), 1500, 2, r)]
    if data_dir:
        sets["vectors"] = []
        for f in sorted(glob.glob(data_dir + "/tokenizers/*.inp")):
            sets["vectors"] += open(f, "rb").read().split(b"\n__ggml_vocab_test__\n")
        for name in ("tinystories_sample", "tinyshakespeare"):
            text = open(f"{data_dir}/text/{name}.txt", "rb").read()
            sets[name] = list(pieces(text, 3000, max(4, n // 20), r))
    if broken:
        sets["not UTF-8"] = list(broken_texts(r, n // 4))
    return {k: [t for t in v if t and b"\0" not in t] for k, v in sets.items()}


def ours(gguf, files):
    out = []
    for i in range(0, len(files), 2000):
        got = subprocess.run(["rnp-train", "tokenize", "--ids", "--whole", "--tokenizer", gguf, *files[i:i + 2000]],
                             capture_output=True, text=True, check=False)
        if got.returncode:
            sys.exit(got.stderr.strip())
        out += [[int(x) for x in line.strip("[]").split(",") if x] for line in got.stdout.splitlines()]
    return out


def compare(gguf, sets, files, show):
    """Texts that differ, by set."""
    model = llama_cpp.Model(gguf, True)
    mine = iter(ours(gguf, files))
    wrong = {}
    for name, texts in sets.items():
        for text in texts:
            want, got = model.ids(text), next(mine)
            if want == got:
                continue
            wrong[name] = wrong.get(name, 0) + 1
            if sum(wrong.values()) <= show:
                at = next((i for i, (a, b) in enumerate(zip(want, got)) if a != b), min(len(want), len(got)))
                print(f"    {name}: behind {model.text(want[max(0, at - 6):at])!r} "
                      f"llama.cpp {[model.text([i]) for i in want[at:at + 5]]} ours {[model.text([i]) for i in got[at:at + 5]]}")
    model.close()
    return wrong


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--names", help="only these, apart by commas")
    p.add_argument("--data", help="a directory with tokenizers/*.inp and text/*.txt")
    p.add_argument("--count", type=int, default=400, help="random texts")
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--show", type=int, default=3, help="differences to print of each")
    p.add_argument("--short", action="store_true", help="not every character of Unicode")
    p.add_argument("--broken", action="store_true", help="also texts that are not UTF-8")
    p.add_argument("gguf", nargs="+")
    a = p.parse_args()
    sets = gather(a.data, a.count, a.seed, a.broken, not a.short)
    bad = 0
    with tempfile.TemporaryDirectory() as tmp:
        files = []
        for texts in sets.values():
            for t in texts:
                files.append(f"{tmp}/{len(files)}")
                open(files[-1], "wb").write(t)
        for path in a.gguf:
            values, rest = gguf_patch.read(path)
            bytes_bpe = any(v[0] == "tokenizer.ggml.model" and v[2][8:] == b"gpt2" for v in values)
            for name in (a.names.split(",") if a.names else NAMES) if bytes_bpe else ["(none)"]:
                if bytes_bpe:
                    gguf_patch.put(values, gguf_patch.text("tokenizer.ggml.pre", name))
                gguf_patch.write(f"{tmp}/it.gguf", values, rest)
                wrong = compare(f"{tmp}/it.gguf", sets, files, a.show)
                print(f"{os.path.basename(path)} {name}: {len(files)} texts, {sum(wrong.values())} differ",
                      " ".join(f"{k}={v}" for k, v in wrong.items()), flush=True)
                bad += bool(wrong)
    return bad > 0


if __name__ == "__main__":
    sys.exit(main())
