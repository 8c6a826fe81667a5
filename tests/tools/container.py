#!/usr/bin/env python3
"""container.py FILE [VALUES]: a gradient container read by rnp-protocol(7) alone, without a line of ours.

Checks every checksum and the index, decodes the values, and prints one JSON object: method, elements,
chunks and root. VALUES: where to write them, f32 little-endian. Exit 65 with a sentence where the file is
not what the page says."""
import hashlib
import json
import struct
import sys

METHODS = "none lossless f16 bf16 fp8e4 fp8e5 q8 q4 ecq e3m0 qsgd topk".split()
CHUNK = {"topk": 1 << 20}


class Wrong(Exception):
    pass


def need(ok, text):
    if not ok:
        raise Wrong(text)


def masks(data, at, n, k):
    """The k low bits of n numbers: for each 64 (or fewer, at the end) a mask for each bit."""
    low = [0] * n
    for first in range(0, n, 64):
        count = min(64, n - first)
        size = (count + 7) // 8
        for bit in range(k):
            mask = int.from_bytes(data[at : at + size], "little")
            at += size
            for i in range(count):
                low[first + i] |= (mask >> i & 1) << bit
    return low, at


class Bits:
    def __init__(self, data, at):
        self.data, self.bit = data, 8 * at

    def get(self, n=1):
        v = 0
        for i in range(n):
            v |= (self.data[self.bit >> 3] >> (self.bit & 7) & 1) << i
            self.bit += 1
        return v


def code_lengths(data, at, symbols):
    """The lengths of the codes of the symbols 0 .. symbols - 1."""
    bits, lengths, last = Bits(data, at), [], 6
    while len(lengths) < symbols:
        if not bits.get():
            lengths.append(last)
            continue
        kind = bits.get() | bits.get() << 1
        if kind == 3:  # 111
            last = bits.get(4)
            lengths.append(last)
        elif kind == 1:  # 110: a run of symbols that do not occur
            size = 0
            while not bits.get():
                size += 1
            run = 1
            for _ in range(size):
                run = run << 1 | bits.get()
            lengths += [0] * run
        else:  # 100, 101
            last += -1 if kind == 2 else 1
            lengths.append(last)
    need(len(lengths) == symbols, "lengths of codes beyond the alphabet")
    return lengths, (bits.bit + 7) // 8


def huffman(data, n):
    """A chunk of mode 2, without its first byte."""
    head = data[0]
    k, streams, wide = head & 15, 1 << (head >> 4 & 7), head >> 7
    lengths, at = code_lengths(data, 1, 256 >> k)
    low, at = masks(data, at, n, k)
    codes, code = {}, 0
    for length in range(1, 13):
        code <<= 1
        for symbol, size in enumerate(lengths):
            if size == length:
                codes[length, code] = symbol
                code += 1
    if streams == 1:
        sizes, end = [], len(data)
    elif wide:
        end = len(data) - 2 * (streams - 1)
        sizes = list(struct.unpack(f"<{streams - 1}H", data[end:]))
    else:
        end = len(data) - 2 - (streams - 1)
        base = struct.unpack("<H", data[end : end + 2])[0]
        sizes = [base + b for b in data[end + 2 :]]
    sizes.append(end - at - sum(sizes))
    each = -(-n // streams)
    each += -each % 64 if streams > 1 else 0
    out = []
    for s, size in enumerate(sizes):
        count = max(0, min(n - s * each, each))
        number = int.from_bytes(data[at : at + size], "little")
        at += size
        bit, part = number.bit_length() - 1, []
        while len(part) < count:
            length = code = 0
            while (length, code) not in codes:
                bit -= 1
                length += 1
                need(bit >= 0 and length <= 12, "a stream of codes has no code")
                code = code << 1 | number >> bit & 1
            part.append(codes[length, code])
        need(bit == 0, "a stream of codes does not end at its first bit")
        out += reversed(part)
    return bytes(symbol << k | bits for symbol, bits in zip(out, low))


def entropy(data, n):
    """n symbols of a coded plane."""
    mode = data[0]
    if mode == 0:
        need(len(data) == 1 + n, "a raw plane of another length")
        return data[1:]
    if mode == 1:
        return data[1:2] * n
    if mode == 2:
        return huffman(data[1:], n)
    if mode == 4:
        size = data[1] + 1
        alphabet, per = data[2 : 2 + size], 8 if size <= 2 else 4 if size <= 4 else 2
        packed = entropy(data[2 + size :], -(-n // per))
        width = 8 // per
        return bytes(alphabet[packed[i // per] >> width * (i % per) & (1 << width) - 1] for i in range(n))
    need(mode == 3, f"mode {mode} of a coded plane")
    z, s, a = data[1], data[2] & 31, data[2] >> 5
    literals, tokens, rest = (int.from_bytes(data[i : i + 3], "little") for i in (3, 6, 9))
    frequent = data[12 : 12 + (1 << a) - 1]
    low, at = masks(data, 12 + len(frequent), tokens, s)
    run = entropy(data[at : at + rest], tokens)
    other = iter(entropy(data[at + rest :], literals) if literals else b"")
    out = bytearray()
    for token, bits in zip(run, low):
        if token == 255:
            out += bytes([z]) * ((255 >> a) << s)
            continue
        out += bytes([z]) * ((token & (1 << 8 - a) - 1) << s | bits)
        index = token >> 8 - a
        out.append(frequent[index] if index < len(frequent) else next(other))
    need(len(out) <= n, "runs beyond the end")
    return bytes(out) + bytes([z]) * (n - len(out))


def bf16(upper, lower):
    return struct.unpack("<f", bytes([0, 0, lower, upper]))[0]


def f32(v):
    return struct.unpack("<f", struct.pack("<f", v))[0]


def fp8(byte, exponent):
    """A float of 8 bits of which so many are the exponent."""
    mantissa = 7 - exponent
    e, m = byte >> mantissa & (1 << exponent) - 1, byte & (1 << mantissa) - 1
    bias, sign = (1 << exponent - 1) - 1, -1.0 if byte >> 7 else 1.0
    if exponent == 5 and e == 31:
        return sign * (float("nan") if m else float("inf"))
    if exponent == 4 and (e, m) == (15, 7):
        return float("nan")
    return sign * (m * 2.0 ** (1 - bias - mantissa) if not e else (1 + m / (1 << mantissa)) * 2.0 ** (e - bias))


def wide(symbols, beside, level):
    """The values of symbols of ecq and qsgd: level(m, i) is the magnitude of element i."""
    bits = Bits(beside, 0)
    for i, symbol in enumerate(symbols):
        code = symbol if symbol < 128 else 256 - symbol
        if symbol == 128:
            yield struct.unpack("<f", struct.pack("<I", bits.get(32)))[0]
            continue
        if code >= 64:
            e = (code - 64) // 4 + 6
            code = (4 | code & 3) << e - 2 | bits.get(e - 2)
        yield level(code, i) * (-1.0 if symbol > 128 else 1.0)
    need((bits.bit + 7) // 8 == len(beside), "something follows what stands beside symbols")


class Container:
    def __init__(self, data):
        self.data = data
        need(data[:4] == b"RNPG" and data[4] == 1, "this is no container of version 1")
        self.method, self.flags, rank = METHODS[data[5]], data[6], data[7]
        self.elements, self.block, self.levels, self.seed = struct.unpack("<QIIQ", data[8:32])
        self.chunk = 1 << data[32]
        need(self.chunk == CHUNK.get(self.method, 65536), "the chunks have another size")
        end = 64 + 8 * rank
        self.step = struct.unpack("<5f", data[44:64])
        self.check = hashlib.blake2b(data[:end], digest_size=16).digest()
        need(self.check == data[end : end + 16], "the header's checksum is another")
        root, sizes, at, self.payloads = hashlib.blake2b(digest_size=32, key=self.check), [], end + 16, []
        while True:
            size, n = struct.unpack("<II", data[at : at + 8])
            if not n:
                break
            payload = data[at + 24 : at + 24 + size]
            number = struct.pack("<QII", len(sizes), n, size)
            check = hashlib.blake2b(number + payload, digest_size=16, key=self.check).digest()
            need(check == data[at + 8 : at + 24], f"the checksum of chunk {len(sizes)} is another")
            root.update(check + data[at : at + 8])
            sizes.append(size)
            self.payloads.append((n, payload))
            at += 24 + size
        count = sum(n for n, _ in self.payloads)
        root.update(struct.pack("<QQ", count, len(sizes)))
        self.root = root.digest()
        index = struct.pack(f"<QQ{len(sizes)}I", count, len(sizes), *sizes) + self.root
        index += struct.pack("<Q", 8 + len(index) + 12) + b"GPNR"
        need(data[at + 8 :] == index, "the index does not fit the chunks")
        need(self.elements in (count, 2**64 - 1), "the header has another number of elements")
        self.elements = count

    def planes(self, n, payload):
        """The planes of a chunk, decoded."""
        wide = 2 if self.flags & 1 else 4
        blocks = -(-n // self.block) if self.block else 0
        scales = [(8, False)] if self.flags & 2 else [(blocks, True), (blocks, False)]
        kept = n // self.block * (self.block // 64) + -(-(n % self.block) // 64) if self.method == "topk" else 0
        at = 20 if self.flags & 8 else 0
        if at:
            self.step = struct.unpack("<5f", payload[:20])
        layout = {"none": [(wide * n, False)],
                  "lossless": [(n, True), (n, False)] + ([] if wide == 2 else [(2 * n, False)]),
                  "f16": [(n, True), (n, False)], "bf16": [(n, True), (n, False)],
                  "q8": [(n, True), *scales], "q4": [(n, True), *scales], "e3m0": [(n, True), *scales],
                  "fp8e4": [(n, True)], "fp8e5": [(n, True)], "ecq": [(n, True), (-1, False)],
                  "qsgd": [(n, True), (-1, False), *scales],
                  "topk": [(kept, True), (-(-kept // 2), False), (-(-kept // 4), False),
                           (2 * blocks, True), (2 * blocks, False)]}[self.method]
        planes = []
        for size, coded in layout:
            if size < 0:
                size = int.from_bytes(payload[at : at + 3], "little")
                at += 3
            if coded:
                length = int.from_bytes(payload[at : at + 3], "little")
                planes.append(entropy(payload[at + 3 : at + 3 + length], size))
                at += 3 + length
            else:
                planes.append(payload[at : at + size])
                at += size
        need(at == len(payload), "something follows the planes")
        return planes

    def values(self):
        for n, payload in self.payloads:
            p = self.planes(n, payload)
            if self.method == "none":
                yield from (bf16(p[0][2 * i + 1], p[0][2 * i]) for i in range(n)) if self.flags & 1 else struct.unpack(f"<{n}f", p[0])
            elif self.method == "lossless":
                for i in range(n):
                    upper = p[0][i] << 7 | p[1][i] & 127 | (p[1][i] & 128) << 8
                    below = p[2][2 * i : 2 * i + 2] if len(p) == 3 else b"\0\0"
                    yield struct.unpack("<f", below + struct.pack("<H", upper))[0]
            elif self.method in ("f16", "bf16"):
                for upper, lower in zip(*p):
                    yield struct.unpack("<e", bytes([lower, upper]))[0] if self.method == "f16" else bf16(upper, lower)
            elif self.method in ("fp8e4", "fp8e5"):
                yield from (fp8(b, int(self.method[-1])) for b in p[0])
            elif self.method == "e3m0":
                for i, symbol in enumerate(p[0]):
                    m, scale = symbol & 7, bf16(p[1][i // self.block], p[2][i // self.block])
                    value = f32(2.0 ** (m - 7) * scale) if m else float("nan") if symbol else 0.0
                    yield -value if symbol & 8 and m else value
            elif self.method == "ecq":
                step, _, _, first, shift = self.step
                yield from wide(p[0], p[1], lambda m, _: 0.0 if not m else first if m == 1 else f32(f32(m * step) - shift))
            elif self.method == "qsgd":
                unit = [f32(bf16(*s) / self.levels) for s in zip(p[2], p[3])]
                yield from wide(p[0], p[1], lambda m, i: f32(m * unit[i // self.block]))
            elif self.method == "topk":
                values, i = [0.0] * n, 0
                for block, start in enumerate(range(0, n, self.block)):
                    size, at = min(self.block, n - start), start
                    means = [bf16(p[3][2 * block + j], p[4][2 * block + j]) for j in (0, 1)]
                    for _ in range(-(-size // 64)):
                        at += p[0][i] << 4 | p[1][i // 2] >> 4 * (i % 2) & 15
                        bits = p[2][i // 4] >> 2 * (i % 4)
                        need(at < start + size, "an element beyond its block")
                        values[at] = means[bits >> 1 & 1] * (-1 if bits & 1 else 1)
                        i, at = i + 1, at + 1
                yield from values
            else:
                top, bits = (128, 8) if self.method == "q8" else (8, 4)
                mean, step = struct.unpack("<ff", p[1]) if self.flags & 2 else (0, 0)
                for i, symbol in enumerate(p[0]):
                    level = symbol - (1 << bits) if symbol > top else symbol
                    scale = step if self.flags & 2 else bf16(p[1][i // self.block], p[2][i // self.block])
                    yield float("nan") if symbol == top else f32(mean + f32(level * scale))


def main(file, out=None):
    try:
        with open(file, "rb") as f:
            c = Container(f.read())
        values = list(c.values())
    except (Wrong, KeyError, IndexError, struct.error, StopIteration) as e:
        print(f"container: {file}: {e}", file=sys.stderr)
        sys.exit(65)
    if out:
        with open(out, "wb") as f:
            f.write(struct.pack(f"<{len(values)}f", *values))
    print(json.dumps({"method": c.method, "elements": c.elements, "chunks": len(c.payloads), "root": c.root.hex()}))


main(*sys.argv[1:])
