"""From an epoch's signed records to everybody's pay under rnp-021 (enterprise chips), the Merkle root, the
operator's signature and the ledger's chain, by rnp-reward(1), rnp-json(5) and the standards that they name alone.

    python3 stranger.py POLICY FROM TO RECORDS EPOCH TRUSTED ...

EPOCH is what `rnp-reward epoch --store --key` wrote, the last line being row 0 of the ledger. Prints each thing
that is not as it should be; exits 1 when there is any."""
import ctypes
import hashlib
import json
import sys
from datetime import datetime, timedelta
from fractions import Fraction
from itertools import zip_longest

SODIUM = ctypes.CDLL("libsodium.so")  # for Ed25519, and nothing else
BASE58 = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"


def base58(text, size):
    n = 0
    for c in text:
        n = n * 58 + BASE58.index(c)
    return n.to_bytes(size, "big")


def sha(data):
    return hashlib.sha256(data).digest()


def digest(record):  # of RFC 8785: our records hold no fractions, so that it is sorted keys without spaces
    bare = {k: v for k, v in record.items() if k not in ("proof", "proofValue")}
    return sha(json.dumps(bare, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode())


def signers(record):  # the keys of all who signed; none when one signature is no good (eddsa-jcs-2022)
    proofs, keys = record.get("proof", []), set()
    for proof in proofs if isinstance(proofs, list) else [proofs]:
        message = digest(proof) + digest(record)
        key = base58(proof["verificationMethod"].split("#")[1][1:], 34)[2:]
        signature = base58(proof["proofValue"][1:], 64)
        if SODIUM.crypto_sign_verify_detached(signature, message, ctypes.c_ulonglong(64), key):
            return set()
        keys.add(key)
    return keys


def when(text):  # in milliseconds
    return (datetime.fromisoformat(text) - datetime.fromisoformat("1970-01-01T00:00Z")) // timedelta(milliseconds=1)


def covered(spans, start, end, width):  # sum of the amounts of (from, to, amount) that lie in the epoch
    total = part = begin = until = 0
    for x, y, a, b, amount in sorted((max(a, start), min(b, end), a, b, amount) for a, b, amount in spans):
        if x < y:
            if x >= until:
                total, part, begin = total + part, 0, x
            until = max(until, y)
            share = amount * (y - a) // (b - a) - amount * (x - a) // (b - a)
            # those that overlap have no more than their time times the width
            part = min(part + min(share, (y - x) * width), (until - begin) * width)
    return total + part


def usages(records, start, end, trusted):  # address, wallet, model, seconds up, GPU-seconds of work of each node
    counted = {digest(r): r for r in records
               if signers(r) & ({base58(r["node"], 32)} if r["kind"] == "rnp.node" else trusted)}
    passed = sorted((when(r["at"]), r["node"], key) for key, r in counted.items()
                    if r["kind"] == "rnp.verdict" and r["passed"] and start <= when(r["at"]) < end)
    asked, owner, last = {}, {}, {}
    for _, node, key in passed:  # a challenge and a device are for the node that passed first
        r = counted[key]
        if asked.setdefault(r.get("challenge_sha256", key), node) == node and r.get("proven") and r.get("node_record"):
            last[node] = {d["device"].lower() for d in r["proven"]}, bytes.fromhex(r["node_record"])
            owner = dict.fromkeys(last[node][0], node) | owner
    for node in sorted({r["node"] for r in counted.values()}):
        mine = {key: r for key, r in counted.items() if r["node"] == node}
        newest = max((r for r in mine.values() if r["kind"] == "rnp.node" and when(r["at"]) < end),
                     key=lambda r: when(r["at"]), default={})
        proven, machine = last.get(node, (set(), None))
        gpus = [g for g in mine.get(machine, {}).get("gpus", [])
                if g.get("uuid", "").lower() in proven and owner[g["uuid"].lower()] == node]
        up = [(when(r["from"]) + a, when(r["from"]) + b, b - a)
              for r in mine.values() if r["kind"] == "rnp.uptime" for a, b in r["spans"]]
        work = [(when(r["from"]), when(r["to"]), r["gpu_seconds"] * 1000)
                for r in mine.values() if r["kind"] == "rnp.receipt" and "gpu_seconds" in r]
        yield (node, newest.get("wallet"), gpus[0]["model"] if gpus else None,
               covered(up, start, end, 1) // 1000, covered(work, start, end, len(gpus)) // 1000)


def merkle_root(claims):
    level = [sha(b"\0" + sha(wallet + units.to_bytes(8, "little") + bytes(8))) for wallet, units in sorted(claims)]
    while len(level) > 1:
        level += level[-1:] * (len(level) % 2)
        level = [sha(b"\1" + min(pair) + max(pair)) for pair in zip(level[::2], level[1::2])]
    return level[0].hex()


def main(policy_file, start, end, record_file, epoch_file, *trusted):
    policy = json.load(open(policy_file))
    records, (*rewards, epoch) = ([json.loads(line) for line in open(f)] for f in (record_file, epoch_file))
    trusted, claims, computed = {base58(address, 32) for address in trusted}, {}, []
    for node, wallet, model, up_s, gpu_s in usages(records, when(start), when(end), trusted):
        chip = Fraction(policy["tables"]["enterprise"].get(model, "0"))
        good = bool(wallet) and chip > 0
        job, up = (int(part * good * 10**8 / 604800) for part in (25 * chip * gpu_s, Fraction(2 * up_s)))
        computed.append([node, good, wallet, job, up, job + up, gpu_s * 10**6 // 604800, up_s * 10**6 // 604800])
        if job + up:
            claims[base58(wallet, 32)] = claims.get(base58(wallet, 32), 0) + job + up
    sealed = {"total_base_units": sum(claims.values()), "nodes": len(computed), "claimants": len(claims),
              "qualified_nodes": sum(row[1] for row in computed), "from": start, "to": end, "epoch_s": 604800,
              "merkle_root": merkle_root(claims.items()), "policy": policy["name"],
              "policy_sha256": digest(policy).hex(), "sequence": 0, "previous": "0" * 64}
    stated = [[r["node"], r["qualified"], r.get("wallet"), int(r["job_base_units"]), int(r["availability_base_units"]),
               int(r["base_units"]), r["terms"]["worked_ppm"], r["terms"]["uptime_ppm"]] for r in rewards]
    stated += [[key, epoch.get(key)] for key in sealed] + [["signed", bool(signers(epoch) & trusted)]]
    computed += [[key, value] for key, value in sealed.items()] + [["signed", True]]
    wrong = [f"{c}: stated {s}" for s, c in zip_longest(stated, computed) if s != c]
    print("\n".join(wrong) or "all as it should be")
    sys.exit(bool(wrong))


main(*sys.argv[1:])
