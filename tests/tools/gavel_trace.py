#!/usr/bin/env python3
"""gavel_trace.py THROUGHPUTS RATE SEED JOBS JOBS.csv RATES.json [multi]: the workload of Gavel's evaluation.

Draws what Narayanan et al. (OSDI 2020, section 7.1) describe: RATE jobs an hour (0: all at once),
each of one of 26 models; 80% run 10^1.5 to 10^3 minutes on a V100, the others 10^3 to 10^4; with
"multi" 70% take one GPU, 10% two, 15% four, 5% eight, of the models that can. Random numbers are
Python's, in the order in which the authors' simulator draws them (seed + 2: jobs, seed + 3:
arrivals), and THROUGHPUTS is their simulation_throughputs.json, also with gzip. Writes a trace for
rnp-price backtest --jobs and what --throughputs reads."""
import csv, datetime, gzip, json, math, random, sys

path, rate, seed, jobs = sys.argv[1], float(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
multi = sys.argv[7:] == ["multi"]
measured = json.load((gzip.open if path.endswith(".gz") else open)(path))
batches = {"ResNet-18": (16, 32, 64, 128, 256), "ResNet-50": (16, 32, 64, 128), "Transformer": (16, 32, 64, 128, 256),
           "LM": (5, 10, 20, 40, 80), "Recommendation": (512, 1024, 2048, 4096, 8192)}
models = [(f"{name} (batch size {b})", name != "Recommendation") for name in batches for b in batches[name]]
models += [("A3C", False), ("CycleGAN", False)]  # (name, whether it runs on several GPUs)
GPUS = "v100", "p100", "k80"


def gpus_of(u):
    return 8 if u >= 0.95 else 4 if u > 0.8 else 2 if u >= 0.7 else 1


draw, waits, at = random.Random(seed + 2), random.Random(seed + 3), 0.0
used, begin = {}, datetime.datetime(2020, 1, 1)
with open(sys.argv[5], "w", newline="") as f:
    out = csv.writer(f, lineterminator="\n")
    out.writerow(["timestamp", "duration", "num_gpus", "job_type"])
    for _ in range(jobs):
        gpus = gpus_of(draw.uniform(0, 1))
        minutes = 10 ** (draw.uniform(3, 4) if draw.random() >= 0.8 else draw.uniform(1.5, 3))
        gpus = gpus if multi else 1
        name, distributed = draw.choice(models)
        while gpus > 1 and not distributed:
            name, distributed = draw.choice(models)
        key = f"('{name}', {gpus})"
        used[key] = {g: measured[g][key]["null"] for g in GPUS}
        when = begin + datetime.timedelta(seconds=int(at))
        out.writerow([when.strftime("%Y-%m-%d %H:%M:%S"), repr(60 * minutes), gpus, key])
        at += -math.log(1 - waits.random()) * 3600 / rate if rate else 0
json.dump(used, open(sys.argv[6], "w"))
