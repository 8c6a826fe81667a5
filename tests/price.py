#!/usr/bin/env python3
"""price.py N SEED: random markets priced by rnp-price quote and, independently, by exact fractions.

Written from pricing.md (B.1), rnp-price(1) and RNP-021, not from the C: the floor with its terms rounded
up, the cheapest host that is believed, 1% under it, the network's 5%, to the last micro-dollar.
"""
import json
import random
import subprocess
import sys
from fractions import Fraction as F
from math import ceil, floor

LIST_PRICE = F(1599_000_000)  # of an RTX 4090, micro-dollars


def offer(rng, number):
    high = rng.choice([1_000, 100_000, 600_000, 2_000_000])
    o = {"kind": "rnp.offer", "v": 1, "market": rng.choice(["m1", "m2"]), "offer_id": str(number),
         "gpu_model": rng.choice(["RTX 4090", "RTX 4090", "NVIDIA GeForce RTX 4090", "RTX 3090"]),
         "gpu_count": rng.choice([1, 1, 1, 2, 4, 8]), "uusd_per_gpu_hour": rng.randint(1, high),
         "spot": rng.random() < 0.1}
    if rng.random() < 0.7:
        o["host"] = "h%d" % rng.randint(0, 12)
    elif rng.random() < 0.5:
        o["machine"] = "x%d" % rng.randint(0, 9)
    if rng.random() < 0.4:
        o["reliability_ppm"] = rng.randint(800_000, 1_000_000)
    if rng.random() < 0.2:
        o["rentable"] = rng.random() < 0.5
    if rng.random() < 0.05:
        o["own"] = True
    return o


def costs_of(rng):
    return {"watts_load": rng.randint(0, 3000), "uusd_per_kwh": rng.randint(0, 400_000),
            "hardware_uusd": rng.randint(0, 5_000_000_000), "depreciation_days": rng.randint(1, 2000),
            "network_uusd_per_hour": rng.randint(0, 50_000), "fee_ppm": rng.choice([0, 50_000, 123_456]),
            "margin_ppm": rng.choice([0, 100_000, 333_333])}


def floor_of(c):
    total = ceil(F(c["watts_load"] * c["uusd_per_kwh"], 1000)) + c["network_uusd_per_hour"]
    total += ceil(F(c["hardware_uusd"], c["depreciation_days"] * 24))
    total += ceil(F(total * c["margin_ppm"], 10**6))
    return ceil(F(total) / (1 - F(c["fee_ppm"], 10**6)))


def believed(prices):
    """The cheapest of the hosts that is believed, or None; None too where a fraction decides."""
    prices = sorted(prices)
    while prices:
        if len(prices) >= 4:
            at = F(len(prices) - 1, 4)
            low = floor(at)
            quartile = prices[low] + (at - low) * (prices[min(low + 1, len(prices) - 1)] - prices[low])
            limit = quartile / 2
        else:
            limit = LIST_PRICE / 180 / 24 / 8
            if abs(prices[0] - limit) < 3:
                raise OverflowError
        if prices[0] >= limit:
            return prices[0]
        prices.pop(0)
    return None


def rival_of(offers, gpus):
    def hosts(fits):
        cheapest = {}
        for o in offers:
            if o["gpu_model"] == "RTX 3090" or o["spot"] or o.get("own") or o.get("rentable") is False:
                continue
            if o.get("reliability_ppm", 10**6) < 900_000 or not fits(o["gpu_count"]):
                continue
            key = o["market"], o.get("host") or o.get("machine") or o["offer_id"]
            cheapest[key] = min(cheapest.get(key, 10**18), o["uusd_per_gpu_hour"])
        return list(cheapest.values())
    same = believed(hosts(lambda n: n == gpus))
    if same is not None:
        return same
    return believed(hosts(lambda n: n != gpus and gpus <= 2 * n and n <= 2 * gpus))


def main(count, seed):
    rng = random.Random(seed)
    done = rivals = 0
    while done < count:
        gpus = rng.choice([1, 2, 4])
        offers = [offer(rng, i) for i in range(rng.randint(1, 30))]
        costs = costs_of(rng)
        try:
            rival = rival_of(offers, gpus)
        except OverflowError:
            continue
        done += 1
        json.dump({"kind": "rnp.node", "v": 1, "at": "2026-11-20T12:00:00Z",
                   "gpus": [{"model": "RTX 4090"}] * gpus}, open("py-node.json", "w"))
        json.dump(costs, open("py-costs.json", "w"))
        out = subprocess.run(["rnp-price", "quote", "--node", "py-node.json", "--costs", "py-costs.json"],
                             input="".join(json.dumps(o) + "\n" for o in offers), capture_output=True,
                             text=True)
        where = "seed %d, market %d" % (seed, done)
        if rival is None:
            assert out.returncode == 75 or "rival_uusd" not in json.loads(out.stdout), where
            continue
        rivals += 1
        assert out.returncode == 0, (where, out.stderr)
        q = json.loads(out.stdout)
        target = floor(F(rival * gpus) * F(99, 100))
        if target == rival * gpus and target > 0:
            target -= 1
        ask = max(floor(F(target) * F(95, 100)), floor_of(costs))
        customer = floor(F(ask) / F(95, 100) + F(1, 2))
        got = [q["rival_uusd"], q["floor_uusd"], q["ask_uusd"], q["customer_uusd"]]
        assert got == [rival * gpus, floor_of(costs), ask, customer], \
            (where, got, [rival * gpus, floor_of(costs), ask, customer], offers)
    assert rivals > count // 2
    print("%d markets, %d with a rival: the same to the micro-dollar" % (count, rivals))


main(int(sys.argv[1]), int(sys.argv[2]))
