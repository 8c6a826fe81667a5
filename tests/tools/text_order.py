"""The order in which windows of a text are trained on, as common/lm/train/shuffle.h defines it, and the ids of a set of shards: for
comparisons with other implementations, which are to see the same text."""


def philox(counter, key):
    """Philox-4x32-10."""
    c, k = list(counter), list(key)
    for _ in range(10):
        a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [b >> 32 ^ c[1] ^ k[0], b & 0xFFFFFFFF, a >> 32 ^ c[3] ^ k[1], a & 0xFFFFFFFF]
        k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return c


def _mixed(seed, epoch, turn, half, bits):
    key = [seed & 0xFFFFFFFF, seed >> 32]
    out = philox([half & 0xFFFFFFFF, half >> 32, epoch & 0xFFFFFFFF, epoch >> 32 ^ turn << 24], key)
    return (out[0] | out[1] << 32) & ((1 << bits) - 1)


def place(count, length, seed, n):
    """Where sequence n of a text of `count` tokens begins, which are trained on in sequences of `length`."""
    windows, spare = divmod(count - 1, length)
    epoch, i = divmod(n, windows)
    bits = 1
    while bits < 32 and windows > 1 << 2 * bits:
        bits += 1
    while True:
        left, right = i >> bits, i & ((1 << bits) - 1)
        for turn in range(4):
            left, right = right, left ^ _mixed(seed, epoch, turn, right, bits)
        i = left << bits | right
        if i < windows:
            return i * length + _mixed(seed, epoch, 4, 0, 32) % (spare + 1)


def ids_of(directory):
    """The ids of a set of one shard, common/lm/token/shard.h."""
    with open(f"{directory}/00000.tokens", "rb") as f:
        data = f.read()
    each = int.from_bytes(data[8:12], "little")
    return memoryview(data)[128:].cast("H" if each == 2 else "I").tolist()
