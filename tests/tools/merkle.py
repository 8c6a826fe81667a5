"""The Merkle root of an epoch, computed independently of rnp: rnp.reward records on standard
input, the root on standard output. Also imported by the tests."""
import hashlib
import json
import sys

ALPHABET = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"


def sha(data):
    return hashlib.sha256(data).digest()


def address_bytes(text):
    n = 0
    for c in text:
        n = n * 58 + ALPHABET.index(c)
    return n.to_bytes(32, "big")


def leaf(claimant, unlocked, locked=0):
    inner = sha(claimant + unlocked.to_bytes(8, "little") + locked.to_bytes(8, "little"))
    return sha(b"\0" + inner)


def node(a, b):
    return sha(b"\1" + min(a, b) + max(a, b))


def root(level):
    while len(level) > 1:
        if len(level) % 2:
            level = level + [level[-1]]
        level = [node(level[i], level[i + 1]) for i in range(0, len(level), 2)]
    return level[0]


def claims(records):
    """What each claimant gets, [unlocked, locked]: nodes of one wallet are added up, nobody has a leaf of 0."""
    sums = {}
    for r in records:
        amount, locked = int(r["base_units"]), int(r.get("locked_base_units", 0))
        if amount:
            who = sums.setdefault(address_bytes(r.get("wallet", r["node"])), [0, 0])
            who[0] += amount - locked
            who[1] += locked
    return sorted(sums.items())


if __name__ == "__main__":
    records = [json.loads(line) for line in sys.stdin]
    found = claims(r for r in records if r["kind"] == "rnp.reward")
    print(root([leaf(who, *amounts) for who, amounts in found]).hex())
