"""match_least.py N [SEED]: what rnp-price match pays for N random jobs, and the least that GLPK finds.

A job wants 1 to 6 nodes of one of several models, some with shares of places that overlap, some with a limit, on a market of
its own, some of it in parts. Prints how many jobs had a place, and exits with 1 when a price is not the least, or a job waits
that has a place."""
import json
import os
import random
import subprocess
import sys
import tempfile

MODELS = ["Card A", "Card B", "Card C"]  # not in the table of models, which knows how much memory a card has
COUNTRIES, REGIONS = ["US", "SI", "DE"], ["North", "South", None]


def records(path, rows):
    with open(path, "w") as f:
        f.writelines(json.dumps({"v": 1, **row}) + "\n" for row in rows)


def draw_node(draw, i):
    return {"id": i, "model": draw.choice(MODELS), "gpus": draw.choice([1, 2, 4, 8]), "price": draw.randint(1, 40) * 10007,
            "country": draw.choice(COUNTRIES), "region": draw.choice(REGIONS), "memory": draw.choice([24, 48]) << 30}


def draw_job(draw):
    nodes = draw.randint(1, 6)
    job = {"nodes": nodes, "gpu_count": nodes * draw.choice([1, 1, 2, 4])}
    if draw.random() < .7:
        job["gpu_models"] = draw.sample(MODELS, draw.randint(1, 3))
    if draw.random() < .3:
        job["gpu_memory_bytes"] = 48 << 30
    if draw.random() < .4:
        job["max_uusd_per_hour"] = job["gpu_count"] * draw.randint(5, 40) * 10007
    if draw.random() < .6:
        places = draw.sample([{"country": c, **({"region": r} if r else {})} for c in COUNTRIES for r in REGIONS] +
                             [{"region": r} for r in REGIONS if r], draw.randint(1, 3))
        cuts = sorted(draw.sample(range(1, 1000000), len(places) - 1))
        for place, low, high in zip(places, [0] + cuts, cuts + [1000000]):
            place["share_ppm"] = high - low
        job["places"] = places
    return job


def ours(job, market):
    records("jobs", [{"kind": "rnp.job", "job": "j", "at": "2026-11-22T10:00:00Z", **job}])
    records("offers", ({"kind": "rnp.offer", "market": "m", "offer_id": str(n["id"]), "gpu_model": n["model"], "gpu_count": n["gpus"],
                        "uusd_per_gpu_hour": n["price"], "spot": False, "country": n["country"], "gpu_memory_bytes": n["memory"],
                        **({"region": n["region"]} if n["region"] else {})} for n in market))
    done = subprocess.run(["rnp-price", "match", "jobs", "offers"], stdout=subprocess.PIPE, check=True)
    return json.loads(done.stdout).get("uusd_per_hour")


def seats(job):
    """How many nodes each place has, by largest remainder."""
    shares = [p["share_ppm"] * job["nodes"] for p in job["places"]]
    whole = [s // 1000000 for s in shares]
    order = sorted(range(len(shares)), key=lambda i: (-(shares[i] % 1000000), i))
    for i in order[:job["nodes"] - sum(whole)]:
        whole[i] += 1
    return whole


def least(job, market):
    """The least price of the job as GLPK has it, or None. x: a node serves a place; y: the model of all."""
    each = job["gpu_count"] // job["nodes"]
    places = job.get("places", [{}])
    wanted = seats(job) if "places" in job else [job["nodes"]]
    fits = [n for n in market if n["gpus"] >= each and n["model"] in job.get("gpu_models", MODELS) and
            n["memory"] >= job.get("gpu_memory_bytes", 0)]
    pairs = [(n, p) for n in fits for p, place in enumerate(places)
             if place.get("country", n["country"]) == n["country"] and place.get("region", n["region"]) == n["region"]]
    if not pairs:
        return None
    with open("lp", "w") as f:
        print("Minimize", file=f)
        print("cost: " + " + ".join(f"{n['price'] * each} x{n['id']}_{p}" for n, p in pairs), file=f)
        print("Subject To", file=f)
        for n in fits:
            own = [f"x{n['id']}_{p}" for m, p in pairs if m is n]
            if own:
                print(" + ".join(own) + f" - y{MODELS.index(n['model'])} <= 0", file=f)
        for p, count in enumerate(wanted):
            own = [f"x{n['id']}_{q}" for n, q in pairs if q == p]
            if not own and count:
                return None
            if own:
                print(" + ".join(own) + f" = {count}", file=f)
        print(" + ".join(f"y{m}" for m in range(len(MODELS))) + " = 1", file=f)
        print("Binary", *(f"x{n['id']}_{p}" for n, p in pairs), *(f"y{m}" for m in range(len(MODELS))), "End", sep="\n", file=f)
    subprocess.run(["glpsol", "--lp", "lp", "-w", "solution"], stdout=subprocess.DEVNULL, check=True)
    for line in open("solution"):
        if line.startswith("s mip"):
            best = int(line.split()[-1]) if line.split()[-2] == "o" else None
            return best if best is not None and best <= job.get("max_uusd_per_hour", best) else None
    sys.exit("glpsol said nothing")


def main():
    n, seed = int(sys.argv[1]), int((sys.argv + ["1"])[2])
    draw = random.Random(seed)
    os.chdir(tempfile.mkdtemp())
    placed = wrong = 0
    for _ in range(n):
        market = [draw_node(draw, i) for i in range(draw.randint(5, 40))]
        job = draw_job(draw)
        got, best = ours(job, market), least(job, market)
        placed += best is not None
        if got != best:
            wrong += 1
            print(json.dumps({"job": job, "paid": got, "least": best}), file=sys.stderr)
    print(json.dumps({"jobs": n, "seed": seed, "placed": placed, "not_least": wrong}))
    sys.exit(wrong > 0 or not n / 5 < placed < n)


main()
