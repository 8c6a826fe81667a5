"""Strangers at a registry's door, until the time is over: bodies that never end, heads that never end, pages that nobody
reads, junk, records of others, the same request again. What they are told is counted; the registry has to live.
Arguments: port, seconds, a file with addresses of nodes."""
import collections, json, random, signal, socket, sys, threading, time

port, until = int(sys.argv[1]), time.time() + float(sys.argv[2])
told, lock, draw = collections.Counter(), threading.Lock(), random.Random(1)


def end(*_):
    global until
    until = 0


signal.signal(signal.SIGTERM, end)


def dial(block):
    s = socket.socket()
    s.bind((f"127.{200 + block}.{draw.randrange(256)}.1", 0))
    s.settimeout(30)
    s.connect(("127.0.0.1", port))
    return s


def ask(block, data, patience=5):
    """Sends it, waits for the first bytes of an answer."""
    try:
        with dial(block) as s:
            s.sendall(data)
            s.settimeout(patience)
            head = s.recv(65536)
            with lock:
                told[head[9:12].decode("latin-1") or "closed"] += 1
    except OSError as e:
        with lock:
            told[type(e).__name__] += 1


def get(path):
    return f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode()


def post(path, body, length=None):
    return f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {length or len(body)}\r\n\r\n".encode() + body


def address():
    return "".join(draw.choice("23456789ABCDEFGHJKLMNPQRSTUVWXYZ") for _ in range(43))


def node():
    try:
        return draw.choice(open(sys.argv[3]).read().split())
    except (IndexError, OSError):
        return address()


STRANGERS = [
    lambda: ask(0, post("/v1/answers", b"{" * 1000, 16777216)),
    lambda: ask(0, post(f"/v1/answers?node={node()}&challenge={'0' * 64}", b"{" * 1000, 16777216)),
    lambda: ask(1, get("/v1/nodes?limit=1000")),
    lambda: ask(1, get("/v1/records?kind=rnp.heartbeat&limit=1000&from=2020-01-01T00:00:00Z")),
    lambda: ask(1, get(f"/v1/nodes/{node()}")),
    lambda: ask(2, b"GET /health HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n"),
    lambda: ask(2, b"GET /" + b"a" * 60000),
    lambda: ask(2, bytes(draw.randrange(256) for _ in range(500)) + b"\r\n\r\n"),
    lambda: ask(3, post("/v1/heartbeats", json.dumps({"kind": "rnp.heartbeat", "v": 1, "node": node(), "at":
        time.strftime("%FT%TZ", time.gmtime()), "interval_s": 3600, "state": "idle"}).encode())),
    lambda: ask(3, post("/v1/nodes", b'{"kind":"rnp.node","v":1,"x":' + b"[" * 30000)),
    lambda: ask(3, post("/v1/records", b"\0" * 65536)),
    lambda: ask(3, get(f"/v1/exchange/{'0' * 64}?node={node()}&bytes=33554432")),
]


def hold():
    """Heads and bodies that come a byte at a time, and pages that are not read."""
    while time.time() < until:
        held = []
        for i in range(60):
            try:
                s = dial(4 + i % 4)
                s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                s.sendall([b"GET /he", b"POST /v1/heartbeats HTTP/1.1\r\nHost: x\r\nContent-Length: 4000\r\n\r\n{",
                    get("/v1/nodes?limit=1000")][i % 3])
                held.append(s)
            except OSError:
                pass
        for _ in range(10):
            time.sleep(1 if time.time() < until else 0)
            for s in held:
                try:
                    s.send(b" ")
                except OSError:
                    pass
        for s in held:
            s.close()


def storm():
    while time.time() < until:
        draw.choice(STRANGERS)()
        time.sleep(0.2)


threads = [threading.Thread(target=t) for t in [hold] + [storm] * 8]
for t in threads:
    t.start()
for t in threads:
    t.join()
print(json.dumps({"told": dict(told)}))
