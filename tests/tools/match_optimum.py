"""match_optimum.py N [SEED]: what rnp-price match gains on N random markets over the optimum that GLPK finds.

A market has one GPU model, nodes of 1 to 8 GPUs and jobs of 1 to 8 that each want one node. What is maximised is the sum
of limits less prices. Prints the ratio of the sums, the worst, and how many are under 0.99; exit 1 when there are such."""
import json
import random
import subprocess
import sys
import tempfile


def records(path, rows):
    with open(path, "w") as f:
        f.writelines(json.dumps({"v": 1, **row}) + "\n" for row in rows)


def ours(jobs, nodes):
    records("jobs", ({"kind": "rnp.job", "job": str(i), "at": "2026-11-22T10:00:00Z", "gpu_count": k, "max_uusd_per_hour": limit}
                     for i, (k, limit) in enumerate(jobs)))
    records("offers", ({"kind": "rnp.offer", "market": "m", "offer_id": str(i), "gpu_model": "RTX 4090", "gpu_count": gpus,
                        "uusd_per_gpu_hour": price, "spot": False} for i, (gpus, price) in enumerate(nodes)))
    out = subprocess.run(["rnp-price", "match", "jobs", "offers"], stdout=subprocess.PIPE, check=True).stdout
    matches = map(json.loads, out.splitlines())
    return sum(jobs[int(m["job"])][1] - m["uusd_per_hour"] for m in matches if "start" in m)


def optimum(jobs, nodes):
    names = [[f"x{j}_{n}" for n in range(len(nodes))] for j in range(len(jobs))]
    gains = [f"{limit - price * k:+d} {names[j][n]}" for j, (k, limit) in enumerate(jobs) for n, (_, price) in enumerate(nodes)]
    rows = [" + ".join(row) + " <= 1" for row in names]
    rows += [" + ".join(f"{k} {names[j][n]}" for j, (k, _) in enumerate(jobs)) + f" <= {gpus}" for n, (gpus, _) in enumerate(nodes)]
    with open("lp", "w") as f:
        print("Maximize", "gain: " + " ".join(gains), "Subject To", *rows, "Binary", *sum(names, []), "End", sep="\n", file=f)
    subprocess.run(["glpsol", "--lp", "lp", "-w", "solution"], stdout=subprocess.DEVNULL, check=True)
    for line in open("solution"):
        if line.startswith("s mip"):
            return float(line.split()[-1])
    sys.exit("glpsol found nothing")


def main():
    import os
    n, seed = int(sys.argv[1]), int((sys.argv + ["1"])[2])
    draw = random.Random(seed)
    os.chdir(tempfile.mkdtemp())
    gained = most = under = 0
    worst = 1
    for _ in range(n):
        nodes = [(draw.choice([1, 2, 4, 8]), int(1e6 * draw.lognormvariate(0, .4))) for _ in range(draw.randint(3, 8))]
        jobs = [(k, int(k * 1e6 * draw.lognormvariate(.2, .5))) for k in draw.choices([1, 1, 2, 2, 3, 4, 8], k=draw.randint(3, 14))]
        got, best = ours(jobs, nodes), optimum(jobs, nodes)
        gained, most = gained + got, most + best
        if best > 0:
            worst = min(worst, got / best)
            under += got < 0.99 * best
    print(json.dumps({"markets": n, "seed": seed, "of_optimum": round(gained / most, 6), "worst": round(worst, 6), "under": under}))
    sys.exit(under > 0)


main()
