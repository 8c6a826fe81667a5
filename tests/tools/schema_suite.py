"""schema_suite.py UNIT DIR: the JSON Schema Test Suite (DIR: its draft2020-12 or draft7) through our automata.

Each test whose schema we take: valid instances pass, the others do not. Schemas that are refused are counted,
and must name a keyword that is not ours. Prints the counts; exit 1 when a test fails."""
import glob, json, os, subprocess, sys

unit, where = sys.argv[1:3]
groups = []
for path in sorted(glob.glob(where + "/*.json")) + sorted(glob.glob(where + "/optional/format/*.json")):
    name = os.path.relpath(path, where)
    # by our contract formats are held; vocabularies of other schemas are not read
    if name in ("format.json", "vocabulary.json"):
        continue
    if name.startswith("optional") and name.split("/")[-1] not in ("uuid.json",):
        continue
    for group in json.load(open(path)):
        # what stands beside $ref counts since 2019-09, and for us
        if group["description"] == "ref overrides any sibling keywords":
            continue
        groups.append((name, group))
lines = "".join(json.dumps({"schema": g["schema"], "texts": [json.dumps(t["data"]) for t in g["tests"]]}) + "\n"
                for _, g in groups)
out = subprocess.run([unit, "--check"], input=lines, capture_output=True, text=True, check=True).stdout.splitlines()
assert len(out) == len(groups)
passed = failed = refused = 0
reasons = {}
for (name, group), line in zip(groups, map(json.loads, out)):
    if "error" in line:
        refused += 1
        reasons.setdefault(name, []).append(line["error"])
        continue
    for test, ok in zip(group["tests"], line["ok"]):
        if ok == test["valid"]:
            passed += 1
        else:
            failed += 1
            print("%s: %s: %s: %s is %s" % (name, group["description"], test["description"],
                                            json.dumps(test["data"]), "taken" if ok else "refused"))
if "-v" in sys.argv:
    for name, all in reasons.items():
        for r in all:
            print(name, r)
print(json.dumps({"groups": len(groups), "refused": refused, "passed": passed, "failed": failed}))
sys.exit(failed > 0 or passed < 250)
