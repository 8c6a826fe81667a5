#!/usr/bin/env python3
"""gpu_torch.py - PyTorch's speed on a GPU with the shapes of tests/bench/gpu.c, as its users would have it: for
training masters in f32, autocast to bf16, its flash attention, fused AdamW, torch.compile; for a token one CUDA graph of
compiled layers.

usage: gpu_torch.py train LAYERS DIM HEADS HIDDEN VOCAB BATCH LENGTH STEPS
       gpu_torch.py decode LAYERS DIM HEADS KV_HEADS HIDDEN VOCAB STREAMS CONTEXT STEPS
       gpu_torch.py prefill LAYERS DIM HEADS KV_HEADS HIDDEN VOCAB TOKENS TIMES

Prints one rnp.bench record: the median time of a step, in ns. Exit 77: no PyTorch, or no GPU."""
import json
import statistics
import sys
import time

try:
    import torch
    import torch.nn.functional as F
except ImportError as e:
    print(f"gpu_torch: {e}", file=sys.stderr)
    sys.exit(77)
if not torch.cuda.is_available():
    print("gpu_torch: there is no GPU", file=sys.stderr)
    sys.exit(77)

WARM = 5
torch.manual_seed(1)
torch.set_float32_matmul_precision("high")
dev = torch.device("cuda")


def turns(t, dh):
    angle = torch.arange(t, device=dev)[:, None] * 1e4 ** (-torch.arange(0, dh, 2, device=dev) / dh)
    return angle.cos(), angle.sin()


def turn(x, cos, sin):
    a, b = x.float().chunk(2, -1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), -1).to(x.dtype)


class Layer(torch.nn.Module):
    def __init__(self, dim, heads, kv, hidden):
        super().__init__()
        self.heads, self.kv, self.dh = heads, kv, dim // heads
        linear = lambda i, o: torch.nn.Linear(i, o, bias=False)
        self.n1, self.n2 = torch.nn.RMSNorm(dim, eps=1e-5), torch.nn.RMSNorm(dim, eps=1e-5)
        self.qkv = linear(dim, (heads + 2 * kv) * self.dh)
        self.o, self.gate_up, self.down = linear(dim, dim), linear(dim, 2 * hidden), linear(hidden, dim)

    def split(self, x, cos, sin):
        n, t, _ = x.shape
        q, k, v = self.qkv(self.n1(x)).view(n, t, -1, self.dh).transpose(1, 2).split(
            [self.heads, self.kv, self.kv], 1)
        return turn(q, cos, sin), turn(k, cos, sin), v

    def rest(self, x, y):
        n, t, _ = x.shape
        x = x + self.o(y.transpose(1, 2).reshape(n, t, -1))
        gate, up = self.gate_up(self.n2(x)).chunk(2, -1)
        return x + self.down(F.silu(gate) * up)

    def forward(self, x, cos, sin):
        q, k, v = self.split(x, cos, sin)
        return self.rest(x, F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=self.kv != self.heads))

    def one(self, x, cos, sin, keys, values, at, mask):
        """A token each of many streams; keys and values are written at `at`."""
        q, k, v = self.split(x, cos, sin)
        keys.index_copy_(2, at, k)
        values.index_copy_(2, at, v)
        return self.rest(x, F.scaled_dot_product_attention(q, keys, values, attn_mask=mask,
            enable_gqa=self.kv != self.heads))


class Model(torch.nn.Module):
    def __init__(self, layers, dim, heads, kv, hidden, vocab, tied):
        super().__init__()
        self.embed = torch.nn.Embedding(vocab, dim)
        self.layers = torch.nn.ModuleList(Layer(dim, heads, kv, hidden) for _ in range(layers))
        self.norm = torch.nn.RMSNorm(dim, eps=1e-5)
        self.out = torch.nn.Linear(dim, vocab, bias=False)
        if tied:
            self.out.weight = self.embed.weight

    def forward(self, tokens, cos, sin):
        x = self.embed(tokens)
        for layer in self.layers:
            x = layer(x, cos, sin)
        return self.norm(x)


def init(model):
    with torch.no_grad():
        for p in model.parameters():
            if p.dim() > 1:
                p.normal_(0, 0.02)


def timed(step, count):
    for _ in range(WARM):
        step()
    torch.cuda.synchronize()
    times = []
    for _ in range(count):
        from_ns = time.monotonic_ns()
        step()
        torch.cuda.synchronize()
        times.append(time.monotonic_ns() - from_ns)
    return times


def report(test, times, tokens):
    median = int(statistics.median(times))
    print(json.dumps({"kind": "rnp.bench", "v": 1, "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "suite": "gpu", "test": test, "device": torch.cuda.get_device_name(), "unit": "ns", "median": median,
        "low": min(times), "high": max(times), "samples": len(times), "params": {"peer": f"PyTorch {torch.__version__}",
        "tokens_per_s": round(1e9 * tokens / median), "memory_bytes": torch.cuda.max_memory_allocated()}}), flush=True)


def train(layers, dim, heads, hidden, vocab, batch, length, steps):
    with dev:
        model = Model(layers, dim, heads, heads, hidden, vocab, True)
    init(model)
    cos, sin = turns(length, dim // heads)
    o = torch.optim.AdamW(model.parameters(), lr=1e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=True)
    tokens = torch.randint(vocab, (batch, length), device=dev)
    targets = torch.randint(vocab, (batch, length), device=dev)

    @torch.compile
    def loss_of():
        with torch.autocast("cuda", torch.bfloat16):
            x = model(tokens, cos, sin)
            return F.cross_entropy(model.out(x).view(-1, vocab).float(), targets.view(-1))

    def step():
        o.zero_grad(set_to_none=True)
        loss = loss_of()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        o.step()
        return loss.item()

    report(f"torch_train_{layers}x{dim}_{batch}x{length}", timed(step, steps), batch * length)


@torch.no_grad()
def decode(layers, dim, heads, kv, hidden, vocab, streams, context, steps):
    room = context + WARM + steps + 8
    with dev:
        torch.set_default_dtype(torch.bfloat16)
        model = Model(layers, dim, heads, kv, hidden, vocab, False)
    init(model)
    cos, sin = (x.to(torch.float32) for x in turns(room, dim // heads))
    shape = (streams, kv, room, dim // heads)
    keys = [torch.randn(shape, device=dev) for _ in range(layers)]
    values = [torch.randn(shape, device=dev) for _ in range(layers)]
    at = torch.tensor([context], device=dev)
    token = torch.randint(vocab, (streams, 1), device=dev)
    places = torch.arange(room, device=dev)

    @torch.compile(mode="max-autotune-no-cudagraphs" if len(sys.argv) > 11 else "reduce-overhead")
    def one(token, at):
        mask = (places <= at)[None, None, None]
        x = model.embed(token)
        for i, layer in enumerate(model.layers):
            x = layer.one(x, cos[at], sin[at], keys[i], values[i], at, mask)
        return model.out(model.norm(x)).float().argmax(-1)

    def step():
        token.copy_(one(token, at))
        at.add_(1)

    report(f"torch_decode_{layers}x{dim}_b{streams}_c{context}", timed(step, steps), streams)


@torch.no_grad()
def prefill(layers, dim, heads, kv, hidden, vocab, tokens, times):
    with dev:
        torch.set_default_dtype(torch.bfloat16)
        model = Model(layers, dim, heads, kv, hidden, vocab, False)
    init(model)
    cos, sin = (x.to(torch.float32) for x in turns(tokens, dim // heads))
    text = torch.randint(vocab, (1, tokens), device=dev)

    @torch.compile
    def one():
        return model.out(model(text, cos, sin)[:, -1]).float().argmax(-1)

    report(f"torch_prefill_{layers}x{dim}_{tokens}", timed(one, times), tokens)


if __name__ == "__main__":
    {"train": train, "decode": decode, "prefill": prefill}[sys.argv[1]](*map(int, sys.argv[2:]))
