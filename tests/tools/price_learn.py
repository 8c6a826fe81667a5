#!/usr/bin/env python3
"""price_learn.py N SEED: random nodes with leases, priced by rnp-price quote and, independently, here.

Written from the formulas and the description in cmd/rnp-price/quote/demand.h: the belief over how customers choose and how
often, one observation, and the ask of each number of idle units. Occupancies agree within 0.1%, asks within
0.1% or, where two asks are as good as each other, what they earn.
"""
import json
import os
import random
import subprocess
import sys
from math import exp, expm1, log

KINDS = [("spread", .50, [1.5, 2.5, 4, 6, 9, 13, 19, 28, 40]), ("power", .28, [.7, 1.5, 2.5, 4, 7, 12, 20, 32]),
         ("cheapest", .22, [.6, .3, .1, .02])]
SHAPES = [(kind, steep, prior / len(steeps)) for kind, prior, steeps in KINDS for steep in steeps]
RATES = [.03 / 12 * (40 / .03) ** (i / 24) for i in range(25)]
RATIOS = [.6 * (.955 / .6) ** (i / 8) for i in range(8)] + [.955 + .005 * i for i in range(9)]
RATIOS += [4 ** (i / 38) * 1.002 for i in range(39)]


class Belief:
    def __init__(self, prices):
        self.lowest = min(prices)
        self.prices = [p / self.lowest for p in prices]
        self.weights = [[prior * exp(-.5 * (log(rate * 12) / 1.25) ** 2) for rate in RATES] for _, _, prior in SHAPES]
        self.hours, self.ended = 36.0, 3.0
        self.normalise()

    def normalise(self):
        total = sum(map(sum, self.weights))
        self.weights = [[w / total for w in row] for row in self.weights]

    def shape(self, kind, steep, ratio, idle):
        """Of the rate of an idle unit, relative to that at the lowest price."""
        if kind == "cheapest":
            return (ratio ** -.5 if ratio < 1 else steep / ratio ** 2) * 4 / idle
        if kind == "power":
            return ratio ** -steep
        others = sum(p ** -steep for p in self.prices)
        return ratio ** -steep / (idle * ratio ** -steep + others) * (4 + others)

    def observe(self, ask, idle, taken, hours):
        drift = .004 * min(hours, 24)
        for row, (kind, steep, _) in zip(self.weights, SHAPES):
            old, relative = row[:], self.shape(kind, steep, ask / self.lowest, idle)
            for i, rate in enumerate(RATES):
                kept = old[i] + drift * sum(old[k] - old[i] for k in (i - 1, i + 1) if 0 <= k < len(old))
                expected = rate * relative * hours
                likely = -(idle - taken) * expected + (taken * log(-expm1(-expected) + 1e-300) if taken else 0)
                row[i] = kept * exp(max(likely, -600)) + 1e-12 * kept
        self.normalise()

    def rate(self, ask, idle):
        """Leases an hour that are expected with so many idle units."""
        return sum(sum(w * r for w, r in zip(row, RATES)) * idle * self.shape(kind, steep, ask / self.lowest, idle)
                   for row, (kind, steep, _) in zip(self.weights, SHAPES))

    def chain(self, asks, working):
        """Value per hour and occupancy; asks[k] is asked while k units are leased."""
        length, part, parts, earned, leased = self.hours / self.ended, 1.0, 1.0, 0.0, 0.0
        for k, ask in enumerate(asks):
            rate = self.rate(ask, len(asks) - k)
            earned += part * rate * (ask - working) * length
            part *= rate * length / (k + 1)
            parts += part
            leased += part * (k + 1)
        return earned / parts, leased / parts / len(asks)

    def best(self, units, floor, working):
        """The asks of all states, by changing one of them as long as that gains."""
        choices = [r * self.lowest for r in RATIOS if r * self.lowest >= floor] or [floor]
        asks, value = [choices[0]] * units, -1
        while self.chain(asks, working)[0] > value * (1 + 1e-12):
            value = self.chain(asks, working)[0]
            for k in range(units):
                asks[k] = max(choices, key=lambda a: self.chain(asks[:k] + [a] + asks[k + 1:], working)[0])
        return asks


def quote(at, offers, units):
    out = subprocess.run(["rnp-price", "quote", "--node", "l-node.json", "--costs", "l-costs.json", "--state", "l.db", "--leases",
                          "l-leases", "--units", str(units)], input=offers, capture_output=True, text=True,
                         env=os.environ | {"RNP_NOW": "2026-11-20T%02d:00:00Z" % at})
    assert out.returncode == 0, out.stderr
    return json.loads(out.stdout)


def near(a, b, what):
    assert abs(a - b) <= .001 * abs(b) + 2, (what, a, b)


def check(rng, where):
    units, watts = rng.randint(1, 3), rng.choice([0, 300])
    prices = sorted(rng.randint(300_000, 700_000) for _ in range(rng.randint(2, 6)))
    offers = "".join(json.dumps({"kind": "rnp.offer", "v": 1, "market": "m", "offer_id": str(i), "gpu_model": "RTX 4090",
                                 "gpu_count": 1, "uusd_per_gpu_hour": p, "spot": False}) + "\n" for i, p in enumerate(prices))
    json.dump({"kind": "rnp.node", "v": 1, "at": "2026-11-20T00:00:00Z", "gpus": [{"model": "RTX 4090"}]}, open("l-node.json", "w"))
    json.dump({"watts_load": watts, "watts_idle": watts // 6, "uusd_per_kwh": 200_000, "network_uusd_per_hour": 1000},
              open("l-costs.json", "w"))
    for name in ("l.db", "l.db-wal", "l.db-shm", "l-leases"):
        if os.path.exists(name):
            os.remove(name)
    open("l-leases", "w").close()
    working, floor = (watts - watts // 6) * 200, (watts * 200 + 1000) / .95
    belief = Belief(prices)

    def compare(q, running, last):
        asks = belief.best(units, floor, working)
        under = int(prices[0] * 99 // 100 * 95 // 100) / .95
        near(q["occupancy_ppm"]["just_under"], belief.chain([under] * units, working)[1] * 1e6, where + ": just under")
        near(q["occupancy_ppm"]["mean_lease_s"], belief.hours / belief.ended * 3600, where + ": lease")
        state = min(running, units - 1)
        if any("hold: " in line for line in q["why"]):
            near(q["occupancy_ppm"]["expected"], belief.chain([last] * units, working)[1] * 1e6, where + ": held")
        elif abs(q["customer_uusd"] / asks[state] - 1) > .001:
            other = asks[:state] + [q["customer_uusd"]] + asks[state + 1:]
            near(belief.chain(other, working)[0] * 1e3, belief.chain(asks, working)[0] * 1e3, where + ": ask")
        return q["customer_uusd"]

    last = compare(quote(6, offers, units), 0, None)
    leases = [sorted(rng.sample(range(7, 13), 2)) for _ in range(rng.randint(0, units))]
    with open("l-leases", "w") as f:
        for begin, end in leases:
            lease = {"kind": "rnp.lease", "v": 1, "begin": "2026-11-20T%02d:00:00Z" % begin}
            if end < 12:
                lease["end"] = "2026-11-20T%02d:00:00Z" % end
            f.write(json.dumps(lease) + "\n")
    worked = sum(min(end, 12) - begin for begin, end in leases)
    belief.observe(last, units, len(leases), (units * 6 - worked) / units)
    belief.hours += worked
    belief.ended += sum(end < 12 for _, end in leases)
    compare(quote(12, offers, units), sum(end >= 12 for _, end in leases), last)


def main(count, seed):
    rng = random.Random(seed)
    for i in range(count):
        check(rng, "seed %d, node %d" % (seed, i))
    print("%d nodes: what was learned agrees within 0.1%%" % count)


main(int(sys.argv[1]), int(sys.argv[2]))
