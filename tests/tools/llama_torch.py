"""The Llama family in PyTorch, for comparison: steps of AdamW on given parameters, and their speed.

usage: llama_torch.py step DIR     DIR/model.json, parameters.f32, batch.u32 -> loss.f64, after.f32
       llama_torch.py speed LAYERS WIDTH HEADS HIDDEN VOCAB BATCH POSITIONS SECONDS
           prints tokens/s, tokens/s of processor time, peak bytes, and 1 where the BLAS is OpenBLAS
       llama_torch.py curve JOB    JOB as tests/bench/learning writes it; prints {"losses": of every step, "valid": the loss after them}
       llama_torch.py diloco JOB RANK    JOB as tests/bench/diloco_peer writes it: one of its processes; prints a JSON object with
           its "rounds" (seconds, processor seconds and bytes of the loopback, each since the start), and of rank 0 "valid"
       llama_torch.py loss MODEL IDS LENGTH f32|bf16
           MODEL: a directory with config.json and model.safetensors; IDS: a file with a JSON array. Prints the mean loss of
           every id but the first, read in pieces of LENGTH; bf16: products in bf16, the rest in f32 (torch.autocast)

Exit 77: there is no PyTorch.
"""
import json
import math
import sys
import time

try:
    import torch
    import torch.nn.functional as F
except ImportError as e:
    print(f"llama_torch: {e}", file=sys.stderr)
    sys.exit(77)


def shapes(c):
    """The order of common/lm/model/layout.h."""
    q, kv = c["heads"] * c["head_dim"], c["kv_heads"] * c["head_dim"]
    d, h = c["dim"], c["hidden"]
    out = [(c["vocab"], d)]
    for _ in range(c["layers"]):
        out += [(d,), (q, d), (kv, d), (kv, d)]
        out += [(q,), (kv,), (kv,)] if c["qkv_bias"] else []
        out += [(d, q), (d,), (h, d), (h, d), (d, h)]
    out += [(d,)] + ([] if c["tied"] else [(c["vocab"], d)])
    return out


def norm(x, w, eps):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps) * w


def turn(x, cos, sin):
    a, b = x.chunk(2, -1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)


def loss_of(c, w, tokens, targets):
    w = iter(w)
    embedding = next(w)
    n, t = tokens.shape
    dh = c["head_dim"]
    angle = torch.arange(t).double()[:, None] * c["base"] ** (
        -torch.arange(0, dh, 2).double() / dh)
    cos, sin = angle.cos().float(), angle.sin().float()
    ahead = torch.ones(t, t, dtype=torch.bool).triu(1)
    x = F.embedding(tokens, embedding)
    for _ in range(c["layers"]):
        h = norm(x, next(w), c["eps"])
        m = [next(w) for _ in range(3)]
        b = [next(w) for _ in range(3)] if c["qkv_bias"] else [None] * 3
        q, k, v = (F.linear(h, m[i], b[i]).view(n, t, -1, dh).transpose(1, 2)
                   for i in range(3))
        q, k = turn(q, cos, sin), turn(k, cos, sin)
        group = c["heads"] // c["kv_heads"]
        if group > 1:
            k, v = (y.repeat_interleave(group, 1) for y in (k, v))
        s = (q @ k.transpose(2, 3)) / math.sqrt(dh)
        p = s.masked_fill(ahead, -math.inf).softmax(-1)
        x = x + F.linear((p @ v).transpose(1, 2).reshape(n, t, -1), next(w))
        h = norm(x, next(w), c["eps"])
        gate, up, down = next(w), next(w), next(w)
        x = x + F.linear(F.silu(F.linear(h, gate)) * F.linear(h, up), down)
    x = norm(x, next(w), c["eps"])
    out = embedding if c["tied"] else next(w)
    return F.cross_entropy(F.linear(x, out).view(n * t, -1), targets.reshape(-1))


def optimiser(w, decay):
    return torch.optim.AdamW(
        [{"params": [p for p in w if p.dim() == 2], "weight_decay": decay},
         {"params": [p for p in w if p.dim() == 1], "weight_decay": 0.0}],
        lr=1e-3, betas=(0.9, 0.95), eps=1e-8)


def step(c, w, o, tokens, targets, lr):
    for g in o.param_groups:
        g["lr"] = lr
    loss = loss_of(c, w, tokens, targets)
    o.zero_grad(set_to_none=True)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(w, 1.0)
    o.step()
    return loss.item()


def load(path, kind):
    with open(path, "rb") as f:
        return torch.frombuffer(bytearray(f.read()), dtype=kind)


def steps(directory):
    with open(f"{directory}/model.json", encoding="ascii") as f:
        c = json.load(f)
    flat = load(f"{directory}/parameters.f32", torch.float32)
    w, at = [], 0
    for s in shapes(c):
        n = math.prod(s)
        w.append(flat[at:at + n].view(s).clone().requires_grad_())
        at += n
    batch = load(f"{directory}/batch.u32", torch.int32).long()
    batch = batch.view(c["steps"], 2, c["batch"], c["positions"])
    o = optimiser(w, 0.1)
    losses = [step(c, w, o, b[0], b[1], 1e-3) for b in batch]
    with open(f"{directory}/loss.f64", "wb") as f:
        f.write(torch.tensor(losses, dtype=torch.float64).numpy().tobytes())
    with open(f"{directory}/after.f32", "wb") as f:
        f.write(torch.cat([p.detach().view(-1) for p in w]).numpy().tobytes())


def speed(layers, dim, heads, hidden, vocab, n, t, seconds):
    c = {"layers": layers, "dim": dim, "heads": heads, "kv_heads": heads,
         "head_dim": dim // heads, "hidden": hidden, "vocab": vocab, "qkv_bias": False,
         "tied": True, "base": 1e4, "eps": 1e-5}
    torch.manual_seed(1)
    w = [(torch.randn(s) * 0.02 if len(s) == 2 else torch.ones(s)).requires_grad_()
         for s in shapes(c)]
    o = optimiser(w, 0.1)
    tokens = torch.randint(vocab, (n, t))
    targets = tokens.roll(-1)
    step(c, w, o, tokens, targets, 1e-4)
    start, worked, count = time.monotonic(), time.process_time(), 0
    while count < 2 or time.monotonic() - start < seconds:
        step(c, w, o, tokens, targets, 1e-4)
        count += 1
    start, worked = time.monotonic() - start, time.process_time() - worked
    import resource
    rss = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    with open("/proc/self/maps", encoding="ascii", errors="replace") as f:
        blas = "openblas" in f.read()
    print(n * t * count / start, n * t * count / worked, rss, int(blas))


def read_safetensors(path):
    """Its tensors by name, as f32."""
    kinds = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}
    with open(path, "rb") as f:
        data = bytearray(f.read())
    size = int.from_bytes(data[:8], "little")
    out = {}
    for name, t in json.loads(data[8:8 + size]).items():
        if name != "__metadata__":
            begin, end = (8 + size + x for x in t["data_offsets"])
            flat = torch.frombuffer(data[begin:end], dtype=kinds[t["dtype"]])
            out[name] = flat.view(t["shape"]).float()
    return out


def read_model(directory):
    """A directory as transformers' LlamaForCausalLM reads it: what loss_of takes."""
    with open(f"{directory}/config.json", encoding="utf-8") as f:
        j = json.load(f)
    heads = j["num_attention_heads"]
    c = {"layers": j["num_hidden_layers"], "heads": heads, "kv_heads": j.get("num_key_value_heads", heads),
         "head_dim": j.get("head_dim") or j["hidden_size"] // heads, "qkv_bias": j.get("attention_bias", False),
         "tied": j.get("tie_word_embeddings", False), "base": j.get("rope_theta", 1e4), "eps": j["rms_norm_eps"]}
    assert j["architectures"] == ["LlamaForCausalLM"] and not j.get("rope_scaling")
    t = read_safetensors(f"{directory}/model.safetensors")
    layer = ["input_layernorm.weight", *(f"self_attn.{x}_proj.weight" for x in "qkv"),
             *(f"self_attn.{x}_proj.bias" for x in "qkv" if c["qkv_bias"]), "self_attn.o_proj.weight",
             "post_attention_layernorm.weight", *(f"mlp.{x}_proj.weight" for x in ("gate", "up", "down"))]
    names = ["model.embed_tokens.weight"]
    names += [f"model.layers.{i}.{x}" for i in range(c["layers"]) for x in layer]
    names += ["model.norm.weight"] + ([] if c["tied"] else ["lm_head.weight"])
    assert sorted(names) == sorted(t), set(names) ^ set(t)
    return c, [t[n] for n in names]


def loss(directory, ids, length, precision):
    c, w = read_model(directory)
    with open(ids, encoding="ascii") as f:
        ids = torch.tensor(json.load(f))
    total = 0.0
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16, enabled=precision == "bf16"):
        for at in range(0, len(ids) - 1, length):
            n = min(length, len(ids) - 1 - at)
            one = loss_of(c, w, ids[None, at:at + n], ids[None, at + 1:at + n + 1])
            total += one.double().item() * n
    print(total / (len(ids) - 1))


def mean_loss(c, w, ids, length, at_once=16):
    """Of every id but the first, read in pieces of `length`."""
    total, whole = 0.0, (len(ids) - 1) // length * length
    with torch.no_grad():
        for at in range(0, whole, at_once * length):
            end = min(at + at_once * length, whole)
            one = loss_of(c, w, ids[at:end].view(-1, length), ids[at + 1:end + 1].view(-1, length))
            total += one.double().item() * (end - at)
        if whole < len(ids) - 1:
            one = loss_of(c, w, ids[None, whole:-1], ids[None, whole + 1:])
            total += one.double().item() * (len(ids) - 1 - whole)
    return total / (len(ids) - 1)


def curve(job):
    with open(job, encoding="ascii") as f:
        job = json.load(f)
    c, w = read_model(job["model"])
    w = [p.clone().requires_grad_() for p in w]
    train, valid, n = torch.tensor(job["train"]), torch.tensor(job["valid"]), job["length"]
    o = optimiser(w, job["decay"])
    losses = []
    for lr, places in zip(job["rates"], job["places"]):
        tokens = torch.stack([train[p:p + n] for p in places])
        targets = torch.stack([train[p + 1:p + n + 1] for p in places])
        losses.append(step(c, w, o, tokens, targets, lr))
    print(json.dumps({"losses": losses, "valid": mean_loss(c, w, valid, n)}))


def loopback_bytes():
    """What went over the loopback of this network namespace, headers of packets included."""
    with open("/proc/self/net/dev", encoding="ascii") as f:
        return next(int(line.split()[9]) for line in f if line.strip().startswith("lo:"))


def diloco(job, rank):
    """DiLoCo (arXiv 2311.08105) with gloo's sum of all deltas, the outer step the same on every rank."""
    import torch.distributed as dist
    with open(job, encoding="ascii") as f:
        job = json.load(f)
    torch.set_num_threads(job["threads"])
    torch.set_flush_denormal(True)
    dist.init_process_group("gloo", init_method=f"file://{job['store']}", rank=rank, world_size=job["workers"])
    c, w = read_model(job["model"])
    now = torch.cat([p.view(-1) for p in w])
    parts, at = [], 0
    for p in w:
        parts.append(now[at:at + p.numel()].view(p.shape).requires_grad_())
        at += p.numel()
    theta, v = now.clone(), torch.zeros_like(now)
    train, n, batch = torch.tensor(job["train"]), job["length"], job["batch"]
    o = optimiser(parts, job["decay"])
    dist.barrier()
    start, worked, rounds = time.monotonic(), time.process_time(), []
    for places, rates in zip(job["places"][rank], job["rates"]):
        for i, lr in enumerate(rates):
            here = places[i * batch:(i + 1) * batch]
            step(c, parts, o, torch.stack([train[p:p + n] for p in here]),
                 torch.stack([train[p + 1:p + n + 1] for p in here]), lr)
        d = theta - now
        dist.all_reduce(d)
        d /= job["workers"]
        v.mul_(job["momentum"]).add_(d)
        theta.sub_(d + job["momentum"] * v, alpha=job["outer_rate"])
        now.copy_(theta)
        rounds.append([time.monotonic() - start, time.process_time() - worked, loopback_bytes()])
    dist.barrier()
    out = {"rank": rank, "rounds": rounds}
    if rank == 0:
        out["valid"] = mean_loss(c, [p.detach() for p in parts], torch.tensor(job["valid"]), n)
        with open("/proc/self/maps", encoding="ascii", errors="replace") as f:
            out["openblas"] = "openblas" in f.read()
    print(json.dumps(out))


if sys.argv[1] == "curve":
    curve(sys.argv[2])
elif sys.argv[1] == "diloco":
    diloco(sys.argv[2], int(sys.argv[3]))
elif sys.argv[1] == "loss":
    torch.set_num_threads(1)
    loss(sys.argv[2], sys.argv[3], int(sys.argv[4]), sys.argv[5])
elif sys.argv[1] == "step":
    torch.set_num_threads(1)
    steps(sys.argv[2])
else:
    speed(*map(int, sys.argv[2:9]), float(sys.argv[9]))
