"""check_skypilot CATALOG OFFERS WARNINGS: a second reader of SkyPilot's catalogues.

Python's csv and decimal modules say which prices must come out, and how many rows the warnings
must speak of. Exits 1 with the first difference.
"""
import csv, json, re, sys
from collections import Counter
from decimal import Decimal, ROUND_HALF_UP

catalog, offers, warnings = sys.argv[1:]
want, left_out, seen = Counter(), 0, set()
for row in csv.DictReader(open(catalog, newline="")):
    count = Decimal(row["AcceleratorCount"] or 0)
    had = False
    for column, spot in (("Price", False), ("SpotPrice", True)):
        price = Decimal(row[column] or 0)
        if not count or not price:
            continue
        had = True
        zone = row.get("AvailabilityZone") or ""
        name = row["InstanceType"] + "@" + row["Region"] + ("/" + zone if zone else "")
        uusd = int((price * 1000000 / count).quantize(Decimal(1), ROUND_HALF_UP))
        if (name, spot) in seen:
            left_out += 1
            continue
        seen.add((name, spot))
        want[(name, spot, uusd, int(count))] += 1
    left_out += not had
have = Counter()
for line in open(offers):
    o = json.loads(line)
    have[(o["offer_id"], o["spot"], o["uusd_per_gpu_hour"], o["gpu_count"])] += 1
said = 0
for line in open(warnings):
    more = re.search(r"\(and (\d+) more\)", line)
    said += 1 + (int(more.group(1)) if more else 0) if "left out" in line else 0
    if "not in our table" in line:
        sys.exit("a model of a real feed is not known: " + line)
if want != have:
    sys.exit("missing %s, too many %s" % (list((want - have))[:3], list((have - want))[:3]))
if said != left_out:
    sys.exit("%d rows left out, the warnings say %d" % (left_out, said))
