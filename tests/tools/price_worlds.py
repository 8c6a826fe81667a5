#!/usr/bin/env python3
"""price_worlds.py SERIES SEED [KIND...]: worlds played by rnp-price backtest and, independently, here.

Written from the formulas and the descriptions in cmd/rnp-price/simulate/world.h and rng.h: Philox-4x32-10 as published, customers who
choose by (price / median)^-beta or by other rules, leases, the three families of the best in hindsight, and the
policies that are one line long. Revenue over the best in hindsight agrees within 0.1%.
"""
import json
import subprocess
import sys
from math import cos, erfc, exp, expm1, log, pi, sin, sqrt

UNITS, STEP, DAY = 8, .5, 48
SHAPE = [float(x) for x in """.0529 .0554 .0585 .0618 .0651 .0682 .0714 .0751 .0790 .0824 .0846 .0864 .0885 .0911 .0947
.0998 .1045 .1079 .1112 .1141 .1170 .1197 .1233 .1289 .1346 .1386 .1417 .1444 .1469 .1491 .1517 .1544 .1577 .1617 .1721
.1913 .2014 .2122 .2258 .2342 .2487 .2717 .2942 .3082 .3210 .3332 .3432 .3632 .4412 .5040 .5510 .6172 .6870 .7795 .9144
1.1603 1.4704 1.9988 2.8916 3.8556 5.4012 8.0859 12.3626 14.9319""".split()]
KINDS = ["formula", "cheapest", "loyal", "fall", "copy", "follow", "outage", "frozen", "hostile"]


def philox(seed, stream):
    """The first 53 bits of a stream, as a number below 1."""
    c = [0, 0, stream & 0xffffffff, stream >> 32]
    k = [seed & 0xffffffff, seed >> 32 & 0xffffffff]
    for _ in range(10):
        a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [b >> 32 ^ c[1] ^ k[0], b & 0xffffffff, a >> 32 ^ c[3] ^ k[1], a & 0xffffffff]
        k = [k[0] + 0x9E3779B9 & 0xffffffff, k[1] + 0xBB67AE85 & 0xffffffff]
    return (c[0] | c[1] << 32) >> 11


def quartile(sellers):
    """The price below which a quarter of all that the sellers have is offered."""
    left = sum(n for n, _ in sellers) / 4
    for n, price in sorted(sellers, key=lambda s: s[1]):
        left -= n
        if left <= 0:
            return price


class World:
    def __init__(self, series, kind, beta, load, hours, seed):
        self.series, self.kind, self.beta, self.load, self.hours, self.seed = series, kind, beta, load, hours, seed
        self.memory = {}
        self.others = [20 * 1.5 ** -beta + sum(n * (p / median) ** -beta for n, p in sellers) for median, sellers in series]
        self.lowest = [min(p for _, p in sellers) for _, sellers in series]
        reach = 0
        for (median, _), others, lowest in zip(series, self.others, self.lowest):
            own = UNITS * (lowest / median) ** -beta
            reach += own / (own + others) / len(series)
        self.rate = load * UNITS * STEP / hours / (1 if kind in ("cheapest", "loyal") else reach)

    def luck(self, step, unit, i):
        stream = step * 4096 + unit * 16 + i
        if stream not in self.memory:
            self.memory[stream] = philox(self.seed, stream) * 2 ** -53
        return self.memory[stream]

    def chance(self, t, ask, idle, copied):
        median, _ = self.series[t]
        rate = self.rate * (1 + .3 * sin(2 * pi * (t % DAY) / DAY))
        if self.kind == "fall" and t >= len(self.series) // 2:
            rate /= 3
        if self.kind == "cheapest":
            return -expm1(-rate / idle * 2)
        others = self.others[t] + (UNITS * (copied / median) ** -self.beta if copied else 0)
        own = (ask / median) ** -self.beta
        share = own / (idle * own + others)
        if self.kind == "loyal":
            low = (self.lowest[t] / median) ** -self.beta
            fair = low / (UNITS * low + self.others[t])
            share = .5 * .5 * erfc(log(ask / median) / .35 / sqrt(2)) / UNITS + .5 * share / (fair * UNITS)
        return -expm1(-rate * share)

    def takes_cheapest(self, t, ask, unit):
        median, sellers = self.series[t]
        z = sqrt(-2 * log(1 - self.luck(t, unit, 2))) * cos(2 * pi * self.luck(t, unit, 3))
        if ask > median * exp(.35 * z):
            return False
        return not any(p < ask and self.luck(t, j % 32 + 64, 4) < .7 for j, (_, p) in enumerate(sellers))

    def feed(self, t, copied):
        """What the feed tells: median and lowest, or None."""
        median, sellers = self.series[t]
        since = (t + self.seed % (3 * DAY)) % (3 * DAY)
        wrong = min(since + 1, t) if since < 24 else 0  # for so many steps
        if self.kind == "outage" and wrong:
            return None, None
        if self.kind == "frozen":
            return self.series[t - wrong][0], self.lowest[t - wrong]
        if self.kind == "follow" and copied:
            return median, min(self.lowest[t], copied)
        if self.kind == "hostile" and wrong:
            second = (t + self.seed % (3 * DAY)) // (3 * DAY) % 2
            return median, min(self.lowest[t], .51 * quartile(sellers) if second else 1e-6)
        return median, self.lowest[t]

    def play(self, policy):
        """policy(step, median, lowest, busy, last): median None while the feed is out"""
        left, price, asks, revenue, leases = [0.] * UNITS, [0.] * UNITS, [], 0., 0
        for t, (median, _) in enumerate(self.series):
            busy = sum(x > 0 for x in left) / UNITS
            copied = asks[t - 2] if self.kind in ("copy", "follow") and t >= 2 else 0
            ask = policy(t, *self.feed(t, copied), busy, asks[-1] if asks else 0.)
            asks.append(ask)
            free = [u for u in range(UNITS) if left[u] <= 0]
            p = self.chance(t, ask, len(free), copied) if free else 0
            drawn = 0  # a unit keeps its luck while those before it are taken in this step
            for u in free:
                i, drawn = drawn, drawn + 1
                if self.luck(t, i, 0) >= p or self.kind == "cheapest" and not self.takes_cheapest(t, ask, i + 1):
                    continue
                left[u] = self.hours * SHAPE[int(self.luck(leases, 0, 1) * 64)]
                leases += 1
                price[u] = ask
            for u in range(UNITS):
                work = min(left[u], STEP)
                if work > 0:
                    revenue += price[u] * work
                    left[u] -= work
        return revenue

    def hindsight(self):
        kind, self.kind = self.kind, {"follow": "copy", "outage": "formula", "frozen": "formula", "hostile": "formula"}.get(self.kind, self.kind)
        try:
            return self.best()
        finally:
            self.kind = kind

    def best(self):
        typical = sum(self.lowest) / len(self.lowest)
        families = [(.4, 2.5, lambda x: lambda t, m, low, busy, last: x * typical),
                    (.25, 2, lambda x: lambda t, m, low, busy, last: x * m if m else last),
                    (.7, 3, lambda x: lambda t, m, low, busy, last: x * low if m else last)]
        return max(self.play(of(a * (b / a) ** (i / 19))) for a, b, of in families for i in range(20))


def step10():
    state = {"ask": 0., "at": 0}

    def ask(t, median, lowest, busy, last):
        if state["ask"] <= 0 and median:
            state.update(ask=median, at=t)
        elif t >= state["at"] + DAY // 4:
            state["ask"] *= 1.1 if busy > .8 else .9 if busy < .3 else 1
            state["at"] = t
        return state["ask"]
    return ask


POLICIES = {"undercut": lambda: lambda t, m, low, busy, last: low * .99 if m else last,
            "median": lambda: lambda t, m, low, busy, last: m if m else last, "step10": step10}


def read(path):
    series = []
    with open(path) as f:
        for r in map(json.loads, f):
            sellers = [(v["count"], v["min"]) for v in r["by_provider"].values() if v["count"] > 0 and v["min"] > 0]
            if sellers and r["price_stats"]["median"] > 0:
                series.append((r["price_stats"]["median"], sellers))
    return series


def main():
    path, seed, kinds = sys.argv[1], int(sys.argv[2]), sys.argv[3:] or KINDS
    series, worst, played = read(path), 0, 0
    for kind in kinds:
        said = subprocess.run(["rnp-price", "backtest", "--history", path, "--worlds", kind, "--seed", str(seed), "--each",
                               "--policy", ",".join(POLICIES)], stdout=subprocess.PIPE, check=True).stdout
        said = {(r["steepness_ppm"], r["load_ppm"], r["lease_s"], r["policy"]): r["revenue_ppm"] / 1e6
                for r in map(json.loads, said.splitlines()) if r["mode"] == "world"}
        for i in range(18):
            beta, load, hours = (3, 10, 30)[i % 3], (.4, 1, 3)[i // 3 % 3], (6, 24)[i // 9]
            w = World(series, kind, beta, load, hours, seed * 1000003 + i)
            best = w.hindsight()
            for name, policy in POLICIES.items():
                ours, theirs = w.play(policy()) / best, said[round(beta * 1e6), round(load * 1e6), hours * 3600, name]
                worst, played = max(worst, abs(ours - theirs)), played + 1
                assert abs(ours - theirs) <= .001, f"{kind} {i} {name}: {ours:.6f} here, {theirs:.6f} there"
    print(f"{played} results of worlds agree within 0.1%, the worst within {worst * 1e6:.1f} ppm")


if __name__ == "__main__":
    main()
