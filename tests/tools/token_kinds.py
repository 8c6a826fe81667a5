"""Make GGUF files in which tokens are of another kind than their names say: token_kinds.py [--compare] GGUF DIR

The vocabulary of GGUF with further tokens, as DIR/NAME.gguf, and texts with these names in them, as DIR/texts. llama.cpp goes by
some names whatever the file says of the token, and by the keys for what stands about a gap to fill. --compare: hold our ids
against llama.cpp's, with and without --special; one line for each file that differs, exit 1 if any."""
import glob
import json
import os
import struct
import subprocess
import sys

import gguf_patch

NORMAL, CONTROL, USER = 1, 3, 4
FILL = [["<|fim_prefix|>", "<fim-prefix>", "<fim_prefix>", "<｜fim▁begin｜>", "<PRE>", "▁<PRE>", "<|code_prefix|>", "<|prefix|>"],
        ["<|fim_suffix|>", "<fim-suffix>", "<fim_suffix>", "<｜fim▁hole｜>", "<SUF>", "▁<SUF>", "<|code_suffix|>", "<|suffix|>"],
        ["<|fim_middle|>", "<fim-middle>", "<fim_middle>", "<｜fim▁end｜>", "<MID>", "▁<MID>", "<|code_middle|>", "<|middle|>"],
        ["<|fim_pad|>", "<fim-pad>", "<fim_pad>", "<PAD>", "[PAD]"],
        ["<|fim_repo|>", "<|repo_name|>", "<fim-repo>", "<REPO>", "<reponame>"],
        ["<|file_sep|>"]]
KEYS = ["fim_pre", "fim_suf", "fim_mid", "fim_pad", "fim_rep", "fim_sep"]
OLD = ["prefix", "suffix", "middle"]
ENDS = ["<|eot_id|>", "<|im_end|>", "<|end|>", "<|return|>", "<|call|>", "<|flush|>", "<|calls|>", "<end_of_turn>", "</s>", "<|eom_id|>",
        "<EOT>", "_<EOT>", "[EOT]", "[EOS]", "<|end_of_text|>", "<end_of_utterance>", "<eos>", "<turn|>", "<|tool_response>",
        "<｜end▁of▁sentence｜>", "[e~["]
ALWAYS = ["<|channel|>", "<|message|>", "<|start|>", "<|constrain|>"]


def texts_of(value):
    count, = struct.unpack_from("<Q", value, 4)
    at, out = 12, []
    for _ in range(count):
        n, = struct.unpack_from("<Q", value, at)
        out.append(value[at + 8:at + 8 + n])
        at += 8 + n
    return out


def compare(folder):
    import llama_cpp
    bad = 0
    lines = open(os.path.join(folder, "texts"), "rb").read().splitlines()
    for gguf in sorted(glob.glob(folder + "/*.gguf")):
        model = llama_cpp.Model(gguf, True)
        for special in (False, True):
            got = subprocess.run(["rnp-train", "tokenize", "--ids", "--tokenizer", gguf] + ["--special"] * special,
                                 input=b"\n".join(lines) + b"\n", capture_output=True, check=True).stdout.splitlines()
            wrong = [x for x, ids in zip(lines, got, strict=True) if model.ids(x, special) != json.loads(ids)]
            if wrong:
                print(f"{gguf}, special {special}: {len(wrong)} differ: {wrong[0]!r}")
                bad = 1
        model.close()
    sys.exit(bad)


def main():
    source, folder = sys.argv[-2:]
    values, rest = gguf_patch.read(source)
    byname = {v[0]: v[2] for v in values}
    tokens = texts_of(byname["tokenizer.ggml.tokens"])
    types = list(struct.unpack_from(f"<{len(tokens)}i", byname["tokenizer.ggml.token_type"], 12))
    used = []

    def make(name, added, *more):
        """added: [text, kind] each"""
        new = [[t, k] for t, k in added if t.encode() not in tokens]
        v = [list(x) for x in values]
        gguf_patch.put(v, gguf_patch.texts("tokenizer.ggml.tokens", tokens + [t for t, _ in new]))
        gguf_patch.put(v, gguf_patch.ints("tokenizer.ggml.token_type", types + [k for _, k in new]))
        for key, token in more:
            at = token if isinstance(token, int) else len(tokens) + [t for t, _ in new].index(token)
            gguf_patch.put(v, gguf_patch.u32(f"tokenizer.ggml.{key}_token_id", at))
        gguf_patch.write(os.path.join(folder, name + ".gguf"), v, rest)
        used.extend(t for t, _ in new if t not in used)

    for i in range(8):
        for kind, word in ((USER, "user"), (NORMAL, "normal")):
            make(f"fill-{i}-{word}", [[g[i], kind] for g in FILL if i < len(g)])
    first = [g[0] for g in FILL]
    plain = [f"<plain-{i}>" for i in range(len(FILL))]
    both = [[t, USER] for t in first + plain]
    # a key says which token it is, and the name of another counts no more; one beyond the vocabulary says nothing
    make("keys", both, *zip(KEYS, plain))
    make("old-keys", both, *zip(OLD, plain))
    make("wrong-keys", both, *((k, 1 << 20) for k in KEYS))
    for kind, word in ((USER, "user"), (NORMAL, "normal"), (CONTROL, "control")):
        make(f"ends-{word}", [[t, kind] for t in ENDS if t not in ("<|end|>", "<|tool_response>")])
        make(f"always-{word}", [[t, kind] for t in ALWAYS])
        make(f"harmony-{word}", [[t, kind] for t in ("<|end|>", "<|return|>", "<|call|>")])
        make(f"solar-{word}", [[t, kind] for t in ("<|end|>", "<|flush|>", "<|calls|>")])
        make(f"end-{word}", [[t, kind] for t in ("<|end|>", "<|return|>", "<|flush|>")])
        make(f"tool-{word}", [[t, kind] for t in ("</s>", "<|tool_response>")])
        make(f"no-tool-{word}", [[t, kind] for t in ("</s>", "<eos>")])
    with open(os.path.join(folder, "texts"), "w", encoding="utf-8") as f:
        for t in used:
            f.write(f"one {t} two{t}three\n")
        f.write(" ".join(used) + "\n" + "".join(used) + "\n")
    if sys.argv[1] == "--compare":
        compare(folder)


main()
