#!/usr/bin/env python3
"""price.py N SEED: random markets priced by rnp-price quote and, independently, by exact fractions.

Written from rnp-price(1) and RNP-021, not from the C: the floor with its terms rounded
up, the hosts that are believed, the one that is cheapest for its link (RNP-004's surcharges), 1% under
it, the network's 5%, to the last micro-dollar.
"""
import json
import random
import subprocess
import sys
from fractions import Fraction as F
from math import ceil, floor

LIST_PRICE = F(1599_000_000)  # of an RTX 4090, micro-dollars
# RNP-004: MB/s up and down, and what a link adds to the base price
TIERS = [(1000, F(50, 100)), (500, F(255, 1000)), (400, F(225, 1000)), (300, F(20, 100)), (200, F(15, 100)),
         (100, F(10, 100)), (50, F(5, 100)), (0, F(0))]


def link(rng):
    return {k: rng.choice([rng.randint(0, 12_000_000_000), 8_000_000 * rng.choice([25, 50, 100, 500, 1000])])
            for k in ("down_bps", "up_bps")}


def surcharge(o):
    """Of a link; None: not known."""
    if "down_bps" not in o or "up_bps" not in o:
        return None
    lower = F(min(o["down_bps"], o["up_bps"]), 8_000_000)
    return next(s for at_least, s in TIERS if lower >= at_least)


def worth(price, theirs, ours):
    """A price on their link, for a customer of ours; rounded half up."""
    if theirs is None or ours is None:
        return price
    return floor(price * (1 + ours) / (1 + theirs) + F(1, 2))


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
    if rng.random() < 0.6:
        o.update(link(rng))
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


def believed(hosts):
    """The offers of the hosts that are believed, cheapest first."""
    hosts = sorted(hosts, key=lambda o: (o["uusd_per_gpu_hour"], o["offer_id"]))
    while hosts:
        prices = [o["uusd_per_gpu_hour"] for o in hosts]
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
            return hosts
        hosts.pop(0)
    return []


def rivals_of(offers, gpus):
    def hosts(fits):
        cheapest = {}
        for o in offers:
            if o["gpu_model"] == "RTX 3090" or o["spot"] or o.get("own") or o.get("rentable") is False:
                continue
            if o.get("reliability_ppm", 10**6) < 900_000 or not fits(o["gpu_count"]):
                continue
            key = o["market"], o.get("host") or o.get("machine") or o["offer_id"]
            cheapest[key] = min(cheapest.get(key, o), o, key=lambda o: (o["uusd_per_gpu_hour"], o["offer_id"]))
        return list(cheapest.values())
    same = believed(hosts(lambda n: n == gpus))
    return same or believed(hosts(lambda n: n != gpus and gpus <= 2 * n and n <= 2 * gpus))


def main(count, seed):
    rng = random.Random(seed)
    done = rivals = moved = 0
    while done < count:
        gpus = rng.choice([1, 2, 4])
        offers = [offer(rng, i) for i in range(rng.randint(1, 30))]
        costs = costs_of(rng)
        node = {"kind": "rnp.node", "v": 1, "at": "2026-11-20T12:00:00Z", "gpus": [{"model": "RTX 4090"}] * gpus}
        if rng.random() < 0.7:
            node["network"] = link(rng)
        ours = surcharge(node.get("network", {}))
        try:
            hosts = [(worth(o["uusd_per_gpu_hour"] * gpus, surcharge(o), ours), o["uusd_per_gpu_hour"] * gpus)
                     for o in rivals_of(offers, gpus)]
        except OverflowError:
            continue
        done += 1
        json.dump(node, open("py-node.json", "w"))
        json.dump(costs, open("py-costs.json", "w"))
        out = subprocess.run(["rnp-price", "quote", "--node", "py-node.json", "--costs", "py-costs.json"],
                             input="".join(json.dumps(o) + "\n" for o in offers), capture_output=True,
                             text=True)
        where = "seed %d, market %d" % (seed, done)
        if not hosts:
            assert out.returncode == 75 or "rival_uusd" not in json.loads(out.stdout), where
            continue
        rivals += 1
        assert out.returncode == 0, (where, out.stderr)
        q = json.loads(out.stdout)
        value, rival = min(hosts, key=lambda h: h[0])
        moved += value != rival
        target = floor(F(value) * F(99, 100))
        if target == value and target > 0:
            target -= 1
        ask = max(floor(F(target) * F(95, 100)), floor_of(costs))
        customer = floor(F(ask) / F(95, 100) + F(1, 2))
        got = [q["rival_uusd"], q.get("rival_worth_uusd", q["rival_uusd"]), q["floor_uusd"], q["ask_uusd"],
               q["customer_uusd"]]
        want = [rival, value, floor_of(costs), ask, customer]
        assert got == want, (where, got, want, offers)
    assert rivals > count // 2 and moved > count // 8
    print("%d markets, %d with a rival: the same to the micro-dollar" % (count, rivals))


main(int(sys.argv[1]), int(sys.argv[2]))
