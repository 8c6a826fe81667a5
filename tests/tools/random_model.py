#!/usr/bin/env python3
"""random_model.py FILE ARCHITECTURE TYPE [DIR] - a GGUF file of a small model with random weights and no tokenizer, for tests that hold our
logits against another engine's; with DIR also the same model of F32 as Hugging Face's files. TYPE is that of the matrices: F32, F16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, Q4_K, Q5_K or Q6_K; mixed gives
each matrix another one, as files of the K types have them. phi3-short is phi3 within its original context."""
import json
import os
import random
import struct
import sys

import gguf_patch as g

DIM, HIDDEN, LAYERS, HEADS, KV_HEADS, HEAD, VOCAB, CONTEXT = 256, 512, 3, 4, 2, 64, 96, 128
# number in the file, weights and bytes of a block, positions of its f16 scales
TYPES = {"F32": (0, 1, 4, []), "F16": (1, 1, 2, []), "Q4_0": (2, 32, 18, [0]), "Q4_1": (3, 32, 20, [0, 2]), "Q5_0": (6, 32, 22, [0]),
         "Q5_1": (7, 32, 24, [0, 2]), "Q8_0": (8, 32, 34, [0]), "Q4_K": (12, 256, 144, [0, 2]), "Q5_K": (13, 256, 176, [0, 2]),
         "Q6_K": (14, 256, 210, [208])}
# the standard deviation of weights of scale 1, and the mean that a minimum of the same size
# subtracts
SPREAD = {"Q8_0": 74, "Q4_0": 4.6, "Q4_1": 4.6, "Q5_0": 9.2, "Q5_1": 9.2, "Q4_K": 210, "Q5_K": 420, "Q6_K": 1360}
MEAN = {"Q4_1": 7.5, "Q5_1": 15.5, "Q4_K": 7.5, "Q5_K": 15.5}


def matrix(kind, rows, columns):
    spread = columns ** -0.5
    if kind == "F32":
        return struct.pack(f"<{rows * columns}f", *[random.gauss(0, spread) for _ in range(rows * columns)])
    if kind == "F16":
        return struct.pack(f"<{rows * columns}e", *[random.gauss(0, spread) for _ in range(rows * columns)])
    _, block, size, places = TYPES[kind]
    data = bytearray(random.randbytes(rows * columns // block * size))
    for at in range(0, len(data), size):
        scale = random.uniform(0.5, 1.5) * spread / SPREAD[kind]
        for place, value in zip(places, (scale, (1 if kind.endswith("K") else -1) * scale * MEAN.get(kind, 0))):
            struct.pack_into("<e", data, at + place, value)
    return bytes(data)


def vector(n, mean, spread):
    return struct.pack(f"<{n}f", *[random.gauss(mean, spread) for _ in range(n)])


def shapes(arch):
    """Tensors as (name, rows or None, columns)."""
    q, kv = HEADS * HEAD, KV_HEADS * HEAD
    yield "token_embd.weight", VOCAB, DIM
    yield "output_norm.weight", None, DIM
    if not arch.startswith("gemma"):
        yield "output.weight", VOCAB, DIM
    for i in range(LAYERS):
        at = f"blk.{i}."
        yield at + "attn_norm.weight", None, DIM
        if arch == "phi3":
            yield at + "attn_qkv.weight", q + 2 * kv, DIM
        else:
            yield at + "attn_q.weight", q, DIM
            yield at + "attn_k.weight", kv, DIM
            yield at + "attn_v.weight", kv, DIM
        if arch == "qwen2":
            yield at + "attn_q.bias", None, q
            yield at + "attn_k.bias", None, kv
            yield at + "attn_v.bias", None, kv
        if arch in ("qwen3", "gemma3"):
            yield at + "attn_q_norm.weight", None, HEAD
            yield at + "attn_k_norm.weight", None, HEAD
        yield at + "attn_output.weight", DIM, q
        if arch in ("gemma2", "gemma3"):
            yield at + "post_attention_norm.weight", None, DIM
            yield at + "post_ffw_norm.weight", None, DIM
        yield at + "ffn_norm.weight", None, DIM
        if arch != "phi3":
            yield at + "ffn_gate.weight", HIDDEN, DIM
        yield at + "ffn_up.weight", HIDDEN * (2 if arch == "phi3" else 1), DIM
        yield at + "ffn_down.weight", DIM, HIDDEN


def metadata(arch, rope, original):
    """rope: how many dimensions of a head are rotated."""
    a = arch + "."
    values = [g.text("general.architecture", arch), g.u32(a + "context_length", CONTEXT), g.u32(a + "embedding_length", DIM),
              g.u32(a + "block_count", LAYERS), g.u32(a + "feed_forward_length", HIDDEN), g.u32(a + "attention.head_count", HEADS),
              g.u32(a + "attention.head_count_kv", KV_HEADS), g.u32(a + "attention.key_length", HEAD),
              g.u32(a + "attention.value_length", HEAD), g.f32(a + "attention.layer_norm_rms_epsilon", 1e-6),
              g.f32(a + "rope.freq_base", 10000), g.u32(a + "rope.dimension_count", rope), g.u32(a + "vocab_size", VOCAB),
              g.text("tokenizer.ggml.model", "none")]
    if arch == "gemma2":
        values += [g.u32(a + "attention.sliding_window", 9), g.f32(a + "attn_logit_softcapping", 2),
                   g.f32(a + "final_logit_softcapping", 3)]
    if arch == "gemma3":
        values += [g.u32(a + "attention.sliding_window", 9), g.f32(a + "rope.freq_base", 1e6), g.text(a + "rope.scaling.type", "linear"),
                   g.f32(a + "rope.scaling.factor", 8)]
        values = [v for i, v in enumerate(values) if v[0] not in [w[0] for w in values[i + 1:]]]
    if arch == "phi3":
        values += [g.u32(a + "rope.scaling.original_context_length", original), g.f32(a + "rope.scaling.attn_factor", 1.19)]
    return values


HF = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head", "attn_norm": "input_layernorm",
      "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj",
      "attn_qkv": "self_attn.qkv_proj", "attn_q_norm": "self_attn.q_norm", "attn_k_norm": "self_attn.k_norm",
      "post_attention_norm": "post_attention_layernorm", "post_ffw_norm": "post_feedforward_layernorm", "ffn_gate": "mlp.gate_proj",
      "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj"}


def hf_name(name, arch):
    """Hugging Face's name of a GGUF's tensor."""
    *block, part, end = name.split(".")
    if part == "ffn_norm":
        own = "pre_feedforward_layernorm" if arch in ("gemma2", "gemma3") else "post_attention_layernorm"
    else:
        own = "mlp.gate_up_proj" if arch == "phi3" and part == "ffn_up" else HF[part]
    return (f"model.layers.{block[1]}." if block else "") + f"{own}.{end}"


def hf_config(arch, rope, original):
    gemma = arch.startswith("gemma")
    c = {"model_type": "gemma3_text" if arch == "gemma3" else arch, "hidden_size": DIM, "intermediate_size": HIDDEN, "vocab_size": VOCAB,
         "num_hidden_layers": LAYERS, "num_attention_heads": HEADS, "num_key_value_heads": KV_HEADS, "head_dim": HEAD,
         "max_position_embeddings": CONTEXT, "rms_norm_eps": 1e-6, "rope_theta": 1e6 if arch == "gemma3" else 1e4,
         "hidden_act": "gelu_pytorch_tanh" if gemma else "silu"}
    if gemma:
        c |= {"query_pre_attn_scalar": HEAD}
    if arch in ("gemma2", "gemma3"):
        c["sliding_window"] = 9
    if arch == "gemma2":
        c |= {"attn_logit_softcapping": 2.0, "final_logit_softcapping": 3.0}
    if arch == "gemma3":
        c |= {"rope_scaling": {"rope_type": "linear", "factor": 8.0}, "rope_local_base_freq": 10000.0, "attn_logit_softcapping": None,
              "final_logit_softcapping": None,
              "layer_types": ["full_attention" if i % 6 == 5 else "sliding_attention" for i in range(LAYERS)]}
    if arch == "phi3":
        c |= {"partial_rotary_factor": rope / HEAD, "original_max_position_embeddings": original, "sliding_window": None, "rope_scaling": {
            "type": "longrope", "attention_factor": 1.19, "long_factor": factors(rope, 9), "short_factor": factors(rope, 1.4)}}
    return c


def factors(rope, most):
    return [1 + (most - 1) * i / (rope // 2) for i in range(rope // 2)]


def write_hf(directory, arch, rope, original, tensors):
    header, data = {}, b""
    for name, shape, content in tensors:
        if arch.startswith("gemma") and name.endswith("norm.weight"):
            content = b"".join(struct.pack("<f", v - 1) for (v,) in struct.iter_unpack("<f", content))
        header[hf_name(name, arch)] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + len(content)]}
        data += content
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    os.makedirs(directory, exist_ok=True)
    with open(f"{directory}/model.safetensors", "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + data)
    with open(f"{directory}/config.json", "w", encoding="utf-8") as f:
        json.dump(hf_config(arch, rope, original), f)


def main(path, arch, kind, directory=None):
    global LAYERS
    random.seed(f"{arch} {kind}")
    LAYERS = 7 if arch == "gemma3" else LAYERS  # the seventh is the second of the local ones behind a global one
    original = CONTEXT // 2 if arch == "phi3" else 1024
    arch = arch.removesuffix("-short")
    rope = HEAD // 2 if arch == "phi3" else HEAD
    kinds = [k for k in TYPES if k.startswith("Q")]
    infos, data, tensors = [], b"", []

    def add(name, rows, columns, number, content):
        nonlocal data
        dims = [columns] + ([rows] if rows else [])
        infos.append(g.encoded(name) + struct.pack("<I", len(dims)) + struct.pack(f"<{len(dims)}Q", *dims) +
                     struct.pack("<IQ", number, len(data)))
        data += content + bytes(-len(content) % 32)
        tensors.append((name, [rows, columns] if rows else [columns], content))

    for n, (name, rows, columns) in enumerate(shapes(arch)):
        if not rows:
            bias = name.endswith("bias")
            add(name, None, columns, 0, vector(columns, 0 if bias else 1, 0.3 if bias else 0.2))
            continue
        own = kinds[n % len(kinds)] if kind == "mixed" else kind
        if name == "token_embd.weight" and own != kind:
            own = "Q6_K"
        add(name, rows, columns, TYPES[own][0], matrix(own, rows, columns))
    if directory:
        write_hf(directory, arch, rope, original, tensors)
    if arch == "phi3":
        for which, most in (("long", 9), ("short", 1.4)):
            content = struct.pack(f"<{rope // 2}f", *factors(rope, most))
            add(f"rope_factors_{which}.weight", None, rope // 2, 0, content)
    values = metadata(arch, rope, original)
    head = b"GGUF" + struct.pack("<IQQ", 3, len(infos), len(values))
    for key, value_kind, content in values:
        head += g.encoded(key) + struct.pack("<I", value_kind) + content
    head += b"".join(infos)
    with open(path, "wb") as f:
        f.write(head + bytes(-len(head) % 32) + data)


if __name__ == "__main__":
    main(*sys.argv[1:])
