#!/usr/bin/env python3
"""tiny_model.py DIR VOCAB - a Llama model small enough for the emulated GPU, with random parameters, as a model directory."""
import json
import math
import os
import random
import struct
import sys

DIM, HIDDEN, LAYERS, HEADS, KV_HEADS = 32, 48, 2, 2, 1


def main(directory, vocab):
    random.seed(11)
    head = DIM // HEADS
    kv = KV_HEADS * head
    shapes = {"model.embed_tokens.weight": (vocab, DIM)}
    for i in range(LAYERS):
        at = f"model.layers.{i}."
        shapes |= {at + "input_layernorm.weight": (DIM,), at + "self_attn.q_proj.weight": (DIM, DIM),
                   at + "self_attn.k_proj.weight": (kv, DIM), at + "self_attn.v_proj.weight": (kv, DIM),
                   at + "self_attn.o_proj.weight": (DIM, DIM), at + "post_attention_layernorm.weight": (DIM,),
                   at + "mlp.gate_proj.weight": (HIDDEN, DIM), at + "mlp.up_proj.weight": (HIDDEN, DIM),
                   at + "mlp.down_proj.weight": (DIM, HIDDEN)}
    shapes["model.norm.weight"] = (DIM,)
    header, data = {}, b""
    for name, shape in shapes.items():
        values = [1.0 if len(shape) == 1 else random.gauss(0, 0.05) for _ in range(math.prod(shape))]
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + 4 * len(values)]}
        data += struct.pack(f"<{len(values)}f", *values)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    os.makedirs(directory)
    with open(f"{directory}/model.safetensors", "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + data)
    with open(f"{directory}/config.json", "w", encoding="utf-8") as f:
        json.dump({"architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": vocab, "hidden_size": DIM,
                   "intermediate_size": HIDDEN, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS,
                   "num_key_value_heads": KV_HEADS, "head_dim": head, "max_position_embeddings": 64, "rms_norm_eps": 1e-5,
                   "rope_theta": 10000.0, "hidden_act": "silu", "tie_word_embeddings": True, "torch_dtype": "float32"}, f)


main(sys.argv[1], int(sys.argv[2]))
