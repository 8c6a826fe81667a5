"""What a stranger does with rnp-reward(1), rnp-json(5) and the standards that they name, and nothing
else: from the signed records of an epoch to what everybody is paid under rnp-021 (enterprise chips),
to the Merkle root, the operator's signature and the ledger's chain.

    python3 stranger.py POLICY FROM TO RECORDS EPOCH TRUSTED ...

EPOCH is what `rnp-reward epoch --store --key` wrote, the last line being the ledger's row 0. Prints
each thing that is not as it should be; exit 1 when there is any."""
import calendar
import hashlib
import json
import sys
import time
from fractions import Fraction as F

P, L = 2**255 - 19, 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, -1, P) % P
B58 = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"


def base58(text, size):
    n = 0
    for c in text:
        n = n * 58 + B58.index(c)
    return n.to_bytes(size, "big")


def add(p, q):
    a, b = (p[1] - p[0]) * (q[1] - q[0]) % P, (p[1] + p[0]) * (q[1] + q[0]) % P
    c, d = 2 * p[3] * q[3] * D % P, 2 * p[2] * q[2] % P
    e, f, g, h = b - a, d - c, d + c, b + a
    return e * f % P, g * h % P, f * g % P, e * h % P


def mul(n, p):
    q = (0, 1, 1, 0)
    while n:
        if n & 1:
            q = add(q, p)
        p, n = add(p, p), n >> 1
    return q


def point(raw):
    n = int.from_bytes(raw, "little")
    y, sign = n & (2**255 - 1), n >> 255
    xx = (y * y - 1) * pow(D * y * y + 1, -1, P) % P
    x = pow(xx, (P + 3) // 8, P)
    if x * x % P != xx:
        x = x * pow(2, (P - 1) // 4, P) % P
    if x * x % P != xx or y >= P:
        return None
    x = P - x if x & 1 != sign else x
    return x, y, 1, x * y % P


G = point((4 * pow(5, -1, P) % P).to_bytes(32, "little"))


def jcs(value):  # our records hold no fractions: RFC 8785 is sorted keys without spaces
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def sha(data):
    return hashlib.sha256(data).digest()


def signers(record):
    """Addresses of all who signed, or None when one signature is no good (eddsa-jcs-2022)."""
    proofs = record.get("proof", [])
    bare = {k: v for k, v in record.items() if k != "proof"}
    found = []
    for proof in proofs if isinstance(proofs, list) else [proofs]:
        config = {k: v for k, v in proof.items() if k != "proofValue"}
        raw = base58(proof["verificationMethod"].split("#")[1][1:], 34)[2:]
        sig = base58(proof["proofValue"][1:], 64)
        h = int.from_bytes(hashlib.sha512(sig[:32] + raw + sha(jcs(config)) + sha(jcs(bare))).digest(), "little")
        a, r, s = point(raw), point(sig[:32]), int.from_bytes(sig[32:], "little")
        if not a or not r or s >= L:
            return None
        x, y = mul(s, G), add(r, mul(h % L, a))
        if (x[0] * y[2] - y[0] * x[2]) % P or (x[1] * y[2] - y[1] * x[2]) % P:
            return None
        found.append(raw)
    return found


def when(text):
    whole, _, part = text.rstrip("Z").partition(".")
    return calendar.timegm(time.strptime(whole, "%Y-%m-%dT%H:%M:%S")) * 1000 + int((part + "000")[:3])


def union(spans, start, end):
    total = 0
    for a, b in sorted(spans):
        a, b = max(a, start), min(b, end)
        if b > a:
            total, start = total + b - a, b
    return total


def gpu_ms(work, gpus):
    total = part = begin = 0
    end = None
    for a, b, gpu in sorted(work):
        if end is None or a >= end:
            total, part, begin, end = total + part, 0, a, a
        end = max(end, b)
        part = min(part + min(gpu, (b - a) * gpus), (end - begin) * gpus)
    return total + part


def usages(records, start, end, trusted):
    nodes, first, seen, passed, asked = {}, {}, set(), [], {}
    for r in records:
        who = signers(r)
        mine = who and base58(r["node"], 32) in who
        theirs = who and any(t in who for t in trusted)
        key = sha(jcs({k: v for k, v in r.items() if k != "proof"}))
        if not (mine if r["kind"] == "rnp.node" else theirs) or key in seen:
            continue
        seen.add(key)
        n = nodes.setdefault(r["node"], {"records": {}, "up": [], "work": [], "last": None})
        if r["kind"] == "rnp.node":
            n["records"][key.hex()] = r
        elif r["kind"] == "rnp.uptime":
            n["up"] += [(when(r["from"]) + a, when(r["from"]) + b) for a, b in r["spans"]]
        elif r["kind"] == "rnp.receipt":
            a, b = when(r["from"]), when(r["to"])
            x, y = max(a, start), min(b, end)
            if x < y and "gpu_seconds" in r:
                g = r["gpu_seconds"] * 1000
                n["work"].append((x, y, g * (y - a) // (b - a) - g * (x - a) // (b - a)))
        elif r["kind"] == "rnp.verdict" and r["passed"] and start <= when(r["at"]) < end:
            passed.append((when(r["at"]), key, r))
    for at, key, r in passed:  # a challenge is for one node
        c = r.get("challenge_sha256")
        asked[c] = min(asked.get(c, (at, r["node"])), (at, r["node"]))
    for at, key, r in passed:
        c, n = r.get("challenge_sha256"), nodes[r["node"]]
        if r.get("proven") and r.get("node_record") and (not c or asked[c][1] == r["node"]):
            for d in r["proven"]:
                key_d = d["device"].lower()
                first[key_d] = min(first.get(key_d, (at, r["node"])), (at, r["node"]))
            n["last"] = max(n["last"] or (at, key, r), (at, key, r), key=lambda v: v[:2])
    for address, n in sorted(nodes.items()):
        u = {"node": address, "up_s": union(n["up"], start, end) // 1000, "gpus": 0, "model": None}
        before = [r for r in n["records"].values() if when(r["at"]) < end]
        u["wallet"] = max(before, key=lambda r: when(r["at"])).get("wallet") if before else None
        if n["last"] and n["last"][2].get("node_record") in n["records"]:
            proven = {d["device"].lower() for d in n["last"][2]["proven"]}
            mine = [g for g in n["records"][n["last"][2]["node_record"]].get("gpus", [])
                if g.get("uuid", "").lower() in proven and first[g["uuid"].lower()][1] == address]
            u["gpus"], u["model"] = len(mine), mine[0]["model"] if mine else None
        u["gpu_worked_s"] = gpu_ms(n["work"], u["gpus"]) // 1000
        yield u


def main():
    policy_file, start, end, record_file, epoch_file, *trusted = sys.argv[1:]
    policy = json.load(open(policy_file))
    records = [json.loads(line) for line in open(record_file)]
    *rewards, epoch = [json.loads(line) for line in open(epoch_file)]
    found = []

    def same(what, stated, computed):
        if stated != computed:
            found.append("%s: stated %s, computed %s" % (what, stated, computed))

    claims, total, qualified = {}, 0, 0
    computed = list(usages(records, when(start), when(end), [base58(t, 32) for t in trusted]))
    same("nodes", [r["node"] for r in rewards], [u["node"] for u in computed])
    for r, u in zip(rewards, computed):
        chip = F(policy["tables"]["enterprise"].get(u["model"], "0"))
        good = bool(u["wallet"]) and chip > 0
        job = 25 * chip * u["gpu_worked_s"] * 10**8 // 604800 if good else 0
        up = 2 * u["up_s"] * 10**8 // 604800 if good else 0
        same(u["node"], [r["qualified"], r.get("wallet"), int(r["job_base_units"]), int(r["availability_base_units"]),
            int(r["base_units"]), r["terms"]["worked_ppm"], r["terms"]["uptime_ppm"]],
            [good, u["wallet"], job, up, job + up, u["gpu_worked_s"] * 10**6 // 604800, u["up_s"] * 10**6 // 604800])
        total, qualified = total + job + up, qualified + good
        if job + up:
            who = base58(u["wallet"], 32)
            claims[who] = claims.get(who, 0) + job + up
    level = [sha(b"\0" + sha(w + a.to_bytes(8, "little") + bytes(8))) for w, a in sorted(claims.items())]
    while len(level) > 1:
        level += level[-1:] * (len(level) % 2)
        level = [sha(b"\1" + min(p) + max(p)) for p in zip(level[::2], level[1::2])]
    for key, value in {"total_base_units": total, "nodes": len(computed), "qualified_nodes": qualified, "from": start,
            "to": end, "claimants": len(claims), "merkle_root": level[0].hex(), "policy": policy["name"],
            "policy_sha256": sha(jcs(policy)).hex(), "sequence": 0, "previous": "0" * 64, "epoch_s": 604800}.items():
        same("epoch " + key, epoch.get(key), value)
    same("signed by who is trusted", any(base58(t, 32) in (signers(epoch) or []) for t in trusted), True)
    print("\n".join(found) or "all as it should be")
    sys.exit(bool(found))


main()
