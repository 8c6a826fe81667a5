#!/usr/bin/env python3
"""lora.py MODEL ADAPTER MERGED [SEED] [--rslora] [--patterns] - a random LoRA adapter of a model of f32, as PEFT writes it (A in f32, B in bf16), and the model with it merged in.

The adapter has rank 4 and alpha 6 and changes some matrices of each layer, not the same in all; --rslora scales by 1 / sqrt(rank), --patterns gives some of them another rank or alpha."""
import json
import os
import random
import re
import shutil
import struct
import sys

RANK, ALPHA = 4, 6
SOME = [("self_attn.q_proj", "self_attn.k_proj", "mlp.down_proj"), ("self_attn.q_proj", "self_attn.v_proj", "self_attn.o_proj", "mlp.gate_proj", "mlp.up_proj")]


RANKS = {"q_proj": 2, r"layers\.1\..*gate_proj": 7}
ALPHAS = {"v_proj|q_proj": 3, "model.layers.0.mlp.down_proj": 11}


def pattern(patterns, name, otherwise):
    """PEFT's rule for rank_pattern and alpha_pattern."""
    return next((v for k, v in patterns.items() if re.match(rf"(.*\.)?({k})$", name)), otherwise)


def read(path):
    data = open(path, "rb").read()
    n = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + n])
    meta = header.pop("__metadata__", None)
    return {name: (t["dtype"], t["shape"], data[8 + n + t["data_offsets"][0]:8 + n + t["data_offsets"][1]]) for name, t in header.items()}, meta


def write(path, tensors, meta):
    header, data = {}, b""
    if meta:
        header["__metadata__"] = meta
    for name, (dtype, shape, bytes_) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(bytes_)]}
        data += bytes_
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + data)


def main():
    args = [a for a in sys.argv[1:] if not a.startswith("--")]
    rslora = "--rslora" in sys.argv
    model, adapter, merged = args[:3]
    r = random.Random(int(args[3]) if len(args) > 3 else 1)
    tensors, meta = read(os.path.join(model, "model.safetensors"))
    ranks, alphas = (RANKS, ALPHAS) if "--patterns" in sys.argv else ({}, {})
    out = {}
    for name in sorted(tensors):
        dtype, (rows, columns), data = tensors[name] if len(tensors[name][1]) == 2 else (None, (0, 0), b"")
        parts = name.split(".")
        if dtype is None or parts[1] != "layers" or ".".join(parts[3:-1]) not in SOME[int(parts[2]) % 2]:
            continue
        assert dtype == "F32", dtype
        rank = pattern(ranks, name[:-7], RANK)
        scale = pattern(alphas, name[:-7], ALPHA) / rank ** (0.5 if rslora else 1)
        a = [r.gauss(0, columns ** -0.5) for _ in range(rank * columns)]
        a = struct.unpack(f"<{len(a)}f", struct.pack(f"<{len(a)}f", *a))
        b = [struct.pack("<f", r.gauss(0, 0.3))[2:] for _ in range(rows * rank)]
        out[f"base_model.model.{name[:-7]}.lora_A.weight"] = ("F32", [rank, columns], struct.pack(f"<{len(a)}f", *a))
        out[f"base_model.model.{name[:-7]}.lora_B.weight"] = ("BF16", [rows, rank], b"".join(b))
        b = [struct.unpack("<f", b"\0\0" + x)[0] for x in b]
        w = list(struct.unpack(f"<{rows * columns}f", data))
        for i in range(rows):
            for k in range(rank):
                s = scale * b[i * rank + k]
                for j in range(columns):
                    w[i * columns + j] += s * a[k * columns + j]
        tensors[name] = (dtype, [rows, columns], struct.pack(f"<{len(w)}f", *w))
    os.makedirs(adapter, exist_ok=True)
    write(os.path.join(adapter, "adapter_model.safetensors"), out, {"format": "pt"})
    with open(os.path.join(adapter, "adapter_config.json"), "w") as f:
        # as PEFT 0.17 writes it
        json.dump({"alpha_pattern": alphas, "auto_mapping": None, "base_model_name_or_path": "x", "bias": "none", "fan_in_fan_out": False, "inference_mode": True,
                   "init_lora_weights": True, "layer_replication": None, "lora_alpha": ALPHA, "lora_bias": False, "lora_dropout": 0.05,
                   "modules_to_save": None, "peft_type": "LORA", "r": RANK, "rank_pattern": ranks, "revision": None,
                   "target_modules": sorted({m.split(".")[-1] for some in SOME for m in some}), "task_type": "CAUSAL_LM",
                   "use_dora": False, "use_rslora": rslora}, f, indent=2)
    shutil.copytree(model, merged, dirs_exist_ok=True)
    write(os.path.join(merged, "model.safetensors"), tensors, meta)


if __name__ == "__main__":
    main()
