"""Change the metadata of a GGUF file, for tests: a second reader and writer of the format, with nothing checked."""
import struct

SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}


def encoded(s):
    b = s if isinstance(s, bytes) else s.encode()
    return struct.pack("<Q", len(b)) + b


def u32(key, v):
    return [key, 4, struct.pack("<I", v)]


def f32(key, v):
    return [key, 6, struct.pack("<f", v)]


def text(key, v):
    return [key, 8, encoded(v)]


def array(key, item, parts):
    return [key, 9, struct.pack("<IQ", item, len(parts)) + b"".join(parts)]


def texts(key, v):
    return array(key, 8, [encoded(s) for s in v])


def floats(key, v):
    return array(key, 6, [struct.pack("<f", x) for x in v])


def ints(key, v):
    return array(key, 5, [struct.pack("<i", x) for x in v])


def put(values, value):
    """In the place of the value of that key."""
    for i, old in enumerate(values):
        if old[0] == value[0]:
            values[i] = value
            return
    values.append(value)


def read(path):
    """Scalars, texts and arrays of scalars as [key, kind, bytes]; the rest: tensors' descriptions, and the data."""
    b = open(path, "rb").read()
    tensors, n = struct.unpack_from("<QQ", b, 8)
    at, values = 24, []

    def take(count):
        nonlocal at
        at += count
        return b[at - count:at]

    def size_of(kind):
        if kind == 8:
            return 8 + struct.unpack_from("<Q", b, at)[0]
        return SIZES[kind]

    for _ in range(n):
        key = take(8 + struct.unpack_from("<Q", b, at)[0])[8:].decode()
        kind = struct.unpack("<I", take(4))[0]
        if kind == 9:
            item, count = struct.unpack("<IQ", take(12))
            parts = [take(size_of(item)) for _ in range(count)]
            values.append(array(key, item, parts))
        else:
            values.append([key, kind, take(size_of(kind))])
    start = at
    for _ in range(tensors):
        take(8 + struct.unpack_from("<Q", b, at)[0])
        take(8 * struct.unpack("<I", take(4))[0] + 12)
    return values, (tensors, b[start:at], b[at + -at % 32:])


def write(path, values, rest):
    tensors, infos, data = rest
    b = b"GGUF" + struct.pack("<IQQ", 3, tensors, len(values))
    for key, kind, value in values:
        b += encoded(key) + struct.pack("<I", kind) + value
    b += infos
    open(path, "wb").write(b + b"\0" * (-len(b) % 32) + data)
