"""Rewards computed independently of rnp, with Python's fractions: rnp.usage records on standard
input, one line `node job availability` of base units for each on standard output.

    python3 tests/tools/reward.py rnp-006 POOL_BASE_UNITS < usage.jsonl

Written from the proposals' figures, not from the policy files or the C sources. With `make N
SEED` instead of a policy it writes N random usages, with `wallets N SEED` N addresses on the curve."""
import hashlib
import json
import random
import sys
from fractions import Fraction as F
from math import floor

GPU019 = {"RTX 5090": "1.7", "RTX 5090D": "1.65", "RTX 4090": "1", "RTX 4090D": "0.95", "RTX 4080": "0.85",
    "RTX 5080": "1.35", "RTX 5070 Ti": "1.1", "RTX 5070": "1.05", "RTX 4070 Ti": "0.75",
    "RTX 4070": "0.65", "RTX 4060 Ti": "0.55", "RTX 4060": "0.5", "RTX 3090 Ti": "0.9",
    "RTX 3090": "0.85", "RTX 3080 Ti": "0.8", "RTX 3080 12GB": "0.75", "RTX 3080": "0.7",
    "RTX 3070 Ti": "0.65", "RTX 3070": "0.6", "RTX 3060 Ti": "0.55", "RTX 3060": "0.5",
    "RTX 3060 Laptop": "0.45", "RTX 3050": "0.4"}
ENTERPRISE = {"H200": "5", "H100": "4", "MI300X": "4", "A100": "3.5", "L40": "2.5", "L4": "1.5", "T4": "1.2"}
GPU006 = {}
for score, names in {"1": "4090", "0.9": "4080,3090 Ti,3090", "0.8": "4070 Ti,4070,3080 Ti,3080 12GB,3080",
        "0.7": "4060 Ti,4060,3070 Ti,3070", "0.6": "3060 Ti,3060,3060 Laptop", "0.5": "3050"}.items():
    for name in names.split(","):
        GPU006["RTX " + name] = score


def scale(x, points, below=None, proportion=False):
    points = [(F(a), F(b)) for a, b in points]
    if x < points[0][0]:
        return points[0][1] if below is None else F(below)
    for (x0, y0), (x1, y1) in zip(points, points[1:]):
        if x <= x1:
            return y0 + (y1 - y0) * (x - x0) / (x1 - x0)
    x1, y1 = points[-1]
    return y1 * x / x1 if proportion else y1


def factors(u):
    given = {k: F(str(v)) for k, v in u.get("factors", {}).items()}

    def get(name, needs, compute):
        if name in given:
            return given[name]
        return compute() if all(n in u for n in needs) else F(0)

    return {
        "gpu": get("gpu", [], lambda: F(GPU019.get(u.get("gpu_model"), 0))),
        "vram": get("vram", ["gpu_memory_bytes"], lambda: scale(F(u["gpu_memory_bytes"], 2**30),
            [("4", "0"), ("12", "0.5"), ("24", "1"), ("32", "1.33")], proportion=True)),
        "network": get("network", ["down_bps", "up_bps"], lambda: min(
            scale(F(u["down_bps"], 10**6), [("100", "0.25"), ("400", "1"), ("800", "2"), ("1600", "4")], 0, True),
            scale(F(u["up_bps"], 10**6), [("75", "0.25"), ("300", "1"), ("600", "2"), ("1200", "4")], 0, True))),
        "clock": get("clock", ["gpu_clock_mhz"], lambda: scale(F(u["gpu_clock_mhz"], 1000),
            [("1", "0"), ("1.7", "0.68"), ("2.5", "1"), ("2.8", "1.12")], proportion=True)),
        "membw": get("memory_bandwidth", ["gpu_memory_bandwidth_bps"],
            lambda: scale(F(u["gpu_memory_bandwidth_bps"] * 1410, 1008 * 10**9),
            [("224", "0"), ("936", "0.66"), ("1410", "1"), ("1800", "1.28")], proportion=True)),
        "cpu": get("cpu", ["cpu_cores", "cpu_clock_mhz"], lambda: min(
            scale(F(u["cpu_cores"]), [("2", "0"), ("4", "0.5"), ("8", "1"), ("16", "1.5")]),
            scale(F(u["cpu_clock_mhz"], 1000), [("1.5", "0"), ("2.5", "0.5"), ("3", "1"), ("4.5", "1.5")]))),
    }


def network_ok(u, unknown_is_ok):
    if "down_bps" not in u or "up_bps" not in u:
        known_bad = u.get("down_bps", 10**12) <= 100 * 10**6 or u.get("up_bps", 10**12) <= 75 * 10**6
        return unknown_is_ok and not known_bad
    return u["down_bps"] > 100 * 10**6 and u["up_bps"] > 75 * 10**6


def rates(u, base, with_network, enterprise, worked="worked_s"):
    model = u.get("gpu_model")
    f = factors(u)
    listed = model in GPU019 or (enterprise and model in ENTERPRISE) or "gpu" in u.get("factors", {})
    if "wallet" not in u or not listed or not network_ok(u, True):
        return 0, 0
    cm = F("0.36") * f["gpu"] + F("0.26") * f["vram"] + F("0.08") * f["clock"] + \
        F("0.08") * f["membw"] + F("0.04") * f["cpu"]
    if with_network:
        cm += F("0.15") * f["network"]
    else:
        cm /= F("0.82")
    if enterprise and model in ENTERPRISE:
        cm = F(ENTERPRISE[model])
    job = base * cm * F(u.get(worked, 0), 604800)
    return floor(job * 10**8), floor(2 * F(u.get("up_s", 0), 604800) * 10**8)


def largest_remainder(total, weights):
    s = sum(weights)
    if not s:
        return [0] * len(weights)
    exact = [total * w / s for w in weights]
    parts = [floor(x) for x in exact]
    order = sorted(range(len(weights)), key=lambda i: (-(exact[i] - parts[i]), i))
    for i in order[:total - sum(parts)]:
        parts[i] += 1
    return parts


def score006(u, most):
    a = F("0.1") + F("0.9") * (F(u["earned_uusd"], most) if most and "earned_uusd" in u else 0)
    b = max([0] + [F(v) for v, down, up in (("0.2", 100, 75), ("0.4", 400, 300), ("0.6", 800, 600),
        ("0.8", 1600, 1200)) if u["down_bps"] > down * 10**6 and u["up_bps"] > up * 10**6])
    if "earned_uusd" not in u:
        a = F("0.1")
    return F("0.25") * a + F("0.35") * b + F("0.2") * F(GPU006[u["gpu_model"]]) + \
        F("0.2") * F(u["up_s"], 604800)


def rnp006(usages, pool):
    good = [u.get("gpu_model") in GPU006 and "wallet" in u and network_ok(u, False) and
        u.get("up_s", 0) > 0 for u in usages]
    most = max([u.get("earned_uusd", 0) for u, g in zip(usages, good) if g] + [0])
    pool = min(pool, 75 * 10**8 * sum(good))
    return largest_remainder(pool, [score006(u, most) if g else F(0) for u, g in zip(usages, good)])


def address(i, seed):
    alphabet = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
    raw = hashlib.sha256(b"%d %d" % (seed, i)).digest()
    n, text = int.from_bytes(raw, "big"), ""
    while n:
        n, r = divmod(n, 58)
        text = alphabet[r] + text
    return "1" * (32 - len(raw.lstrip(b"\0"))) + text


def on_curve(raw):
    """Whether 32 bytes are a point of edwards25519 (RFC 8032, 5.1.3)."""
    p = 2**255 - 19
    y = (int.from_bytes(raw, "little") & (2**255 - 1)) % p
    d = -121665 * pow(121666, -1, p) % p
    xx = (y * y - 1) * pow(d * y * y + 1, -1, p) % p
    return xx == 0 or pow(xx, (p - 1) // 2, p) == 1


def wallets(n, seed):
    i = 0
    while n:
        if on_curve(hashlib.sha256(b"%d %d" % (seed, i)).digest()):
            print(address(i, seed))
            n -= 1
        i += 1


def make(n, seed):
    rng = random.Random(seed)
    models = list(GPU019) + list(ENTERPRISE) + ["GTX 1660", "no such card"]
    for i in range(n):
        u = {"kind": "rnp.usage", "v": 1, "node": address(i, seed)}
        fields = {"wallet": address(rng.randrange(n), seed + 1), "gpu_model": rng.choice(models),
            "gpu_count": rng.randrange(1, 9), "gpu_memory_bytes": rng.randrange(2 << 30, 100 << 30),
            "gpu_clock_mhz": rng.randrange(800, 4000), "gpu_memory_bandwidth_bps": rng.randrange(10**11, 5 * 10**12),
            "cpu_cores": rng.randrange(1, 130), "cpu_clock_mhz": rng.randrange(1000, 6000),
            "worked_s": rng.randrange(604801), "up_s": rng.randrange(604801),
            "earned_uusd": rng.randrange(10**10), "credits": rng.randrange(10**6),
            "down_bps": rng.randrange(5 * 10**7, 3 * 10**9), "up_bps": rng.randrange(5 * 10**7, 3 * 10**9)}
        u.update((k, v) for k, v in fields.items() if rng.random() < 0.97)
        if "gpu_count" in u and rng.random() < 0.97:
            u["gpu_worked_s"] = rng.randrange(604800 * u["gpu_count"] + 1)
        u["challenges_passed"] = rng.randrange(200)
        if rng.random() < 0.2:
            u["factors"] = {k: rng.choice([0, 1, 0.25, 1.33, 1.7, 4, 0.123456789])
                for k in ("gpu", "vram", "network", "clock", "memory_bandwidth", "cpu") if rng.random() < 0.5}
        print(json.dumps(u))


def main():
    if sys.argv[1] == "wallets":
        return wallets(int(sys.argv[2]), int(sys.argv[3]))
    if sys.argv[1] == "make":
        return make(int(sys.argv[2]), int(sys.argv[3]))
    usages = [json.loads(line) for line in sys.stdin]
    if sys.argv[1] == "rnp-004":
        ok = [F(u.get("credits", 0)) if "wallet" in u else F(0) for u in usages]
        pay = [(p, 0) for p in largest_remainder(int(sys.argv[2]), ok)]
    elif sys.argv[1] == "rnp-001":
        halves = [largest_remainder(int(sys.argv[2]) // 2, [F(u.get(f, 0)) if "wallet" in u else F(0)
            for u in usages]) for f in ("credits", "challenges_passed")]
        pay = list(zip(*halves))
    elif sys.argv[1].startswith("rnp-023"):
        rate = F(56, 60) if sys.argv[1] == "rnp-023" else F(31, 35)
        pay = [(floor(F(u.get("credits", 0)) * rate / int(sys.argv[2]) * 10**8) if "wallet" in u else 0, 0)
            for u in usages]
    elif sys.argv[1] == "rnp-006":
        pay = [(p, 0) for p in rnp006(usages, int(sys.argv[2]))]
    elif sys.argv[1] == "rnp-019":
        pay = [rates(u, 10, True, False) for u in usages]
    else:
        worked = "worked_s" if sys.argv[1] == "rnp-021-per-node" else "gpu_worked_s"
        pay = [rates(u, 25, False, True, worked) for u in usages]
    for u, (job, availability) in zip(usages, pay):
        print(u["node"], job, availability)


if __name__ == "__main__":
    main()
