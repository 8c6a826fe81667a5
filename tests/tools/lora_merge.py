#!/usr/bin/env python3
"""lora_merge.py MODEL ADAPTER MERGED - the model of f32 with PEFT's adapter merged in: W + scale B A, by the formula alone."""
import json
import os
import shutil
import struct
import sys

import lora


def floats(tensor):
    dtype, (rows, columns), data = tensor
    assert dtype == "F32", dtype
    values = struct.unpack(f"<{rows * columns}f", data)
    return [values[i * columns:(i + 1) * columns] for i in range(rows)]


def main():
    model, adapter, merged = sys.argv[1:4]
    config = json.load(open(os.path.join(adapter, "adapter_config.json")))
    scale = config["lora_alpha"] / config["r"] ** (0.5 if config["use_rslora"] else 1)
    base, meta = lora.read(os.path.join(model, "model.safetensors"))
    factors, _ = lora.read(os.path.join(adapter, "adapter_model.safetensors"))
    for name in factors:
        if not name.endswith(".lora_A.weight"):
            continue
        matrix = name.removeprefix("base_model.model.").removesuffix(".lora_A.weight") + ".weight"
        a, b, w = floats(factors[name]), floats(factors[name.replace("lora_A", "lora_B")]), floats(base[matrix])
        out = [x + scale * sum(b[i][r] * a[r][k] for r in range(len(a))) for i, row in enumerate(w) for k, x in enumerate(row)]
        base[matrix] = ("F32", [len(w), len(w[0])], struct.pack(f"<{len(out)}f", *out))
    shutil.copytree(model, merged)
    lora.write(os.path.join(merged, "model.safetensors"), base, meta)


main()
