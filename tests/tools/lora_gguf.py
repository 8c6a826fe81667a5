#!/usr/bin/env python3
"""lora_gguf.py MODEL ADAPTER OUT.gguf - PEFT's adapter of a Llama as llama.cpp's converter writes it: names of its own, and the rows of q and k in another order."""
import json
import os
import struct
import sys

import lora

NAMES = {"self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output",
         "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down"}
TYPES = {"F32": 0, "BF16": 30}


def text(s):
    return struct.pack("<Q", len(s)) + s.encode()


def permute(data, rows, heads):
    """Half-split rotary pairs become adjacent ones."""
    size, per = len(data) // rows, rows // heads
    order = [h * per + k for h in range(heads) for pair in zip(range(per // 2), range(per // 2, per)) for k in pair]
    return b"".join(data[i * size:(i + 1) * size] for i in order)


def main():
    model, adapter, out = sys.argv[1:4]
    model = json.load(open(os.path.join(model, "config.json")))
    config = json.load(open(os.path.join(adapter, "adapter_config.json")))
    tensors, _ = lora.read(os.path.join(adapter, "adapter_model.safetensors"))
    infos, data = b"", b""
    for name, (dtype, shape, bytes_) in tensors.items():
        parts = name.split(".")
        module, role = ".".join(parts[5:7]), parts[7][-1].lower()
        heads = {"self_attn.q_proj": model["num_attention_heads"], "self_attn.k_proj": model["num_key_value_heads"]}.get(module)
        if role == "b" and heads:
            bytes_ = permute(bytes_, shape[0], heads)
        infos += text(f"blk.{parts[4]}.{NAMES[module]}.weight.lora_{role}")
        infos += struct.pack("<IQQIQ", 2, shape[1], shape[0], TYPES[dtype], len(data))
        data += bytes_ + b"\0" * (-len(bytes_) % 32)
    meta = [("general.architecture", 8, text("llama")), ("general.type", 8, text("adapter")), ("adapter.type", 8, text("lora")),
            ("adapter.lora.alpha", 6, struct.pack("<f", config["lora_alpha"]))]
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(meta)) + b"".join(text(k) + struct.pack("<I", t) + v for k, t, v in meta) + infos
    with open(out, "wb") as f:
        f.write(head + b"\0" * (-len(head) % 32) + data)


main()
