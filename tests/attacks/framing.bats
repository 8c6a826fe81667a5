# Requests that two parsers could read in two ways, and clients that send or read too slowly.
load ../helper
load ../rnp-register/registry

setup() {
	cd "$BATS_TEST_TMPDIR" || return
}

teardown() {
	stopped_with=0
	stop_registry
	((stopped_with == 0)) || { cat serve.err; return 1; }
}

@test "framing: what a proxy could read otherwise is answered once, with 400, and closed" {
	start_registry
	python3 - "$(cat port)" <<'END'
import socket, sys
behind = b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n"
post = b"POST /v1/nodes HTTP/1.1\r\nHost: x\r\n"
bad = {
    "two lengths": post + b"Content-Length: 0\r\nContent-Length: 33\r\n\r\n",
    "the same length twice": post + b"Content-Length: 2\r\nContent-Length: 2\r\n\r\n{}",
    "a list of lengths": post + b"Content-Length: 2, 2\r\n\r\n{}",
    "length and chunks": post + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "chunks and length": post + b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
    "two codings": post + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n",
    "two hosts": b"GET /health HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n",
    "no host": b"GET /health HTTP/1.1\r\n\r\n",
    "folded": b"GET /health HTTP/1.1\r\nHost: x\r\nX: a\r\n Transfer-Encoding: chunked\r\n\r\n",
    "bare LF": b"GET /health HTTP/1.1\nHost: x\n\n",
    "bare LF in fields": b"GET /health HTTP/1.1\r\nHost: x\r\nX: a\nContent-Length: 33\r\n\r\n",
    "bare CR": b"GET /health HTTP/1.1\r\nHost: x\r\nX: a\rContent-Length: 33\r\n\r\n",
    "NUL": b"GET /health HTTP/1.1\r\nHost: x\r\nX: \0\r\n\r\n",
    "space before the colon": post + b"Content-Length : 33\r\n\r\n",
    "chunk size with LF": post + b"Transfer-Encoding: chunked\r\n\r\n2\n{}\r\n0\r\n\r\n",
    "chunk size with sign": post + b"Transfer-Encoding: chunked\r\n\r\n+2\r\n{}\r\n0\r\n\r\n",
    "chunk size that overflows": post + b"Transfer-Encoding: chunked\r\n\r\n10000000000000002\r\n{}\r\n0\r\n\r\n",
    "chunk without its end": post + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}0\r\n\r\n",
}
wrong = 0
for name, text in bad.items():
    s = socket.create_connection(("127.0.0.1", int(sys.argv[1])), timeout=120)
    s.sendall(text + behind)
    got = b""
    while True:
        piece = s.recv(65536)
        if not piece:
            break
        got += piece
    if not got.startswith(b"HTTP/1.1 400 Bad Request\r\n") or got.count(b"HTTP/1.1") != 1 or b'{"error":"' not in got:
        print(name, got[:300])
        wrong += 1
sys.exit(wrong)
END
}

@test "framing: clients that trickle heads and bodies are closed, and the registry answers meanwhile" {
	start_registry
	python3 - "$(cat port)" <<'END'
import json, socket, sys, time, urllib.request
port = int(sys.argv[1])
heads = [
    b"GET /health HTTP/1.1\r\nHost: x\r\nX: ",
    b"POST /v1/nodes HTTP/1.1\r\nHost: x\r\nContent-Length: 200000\r\n\r\n",
    b"POST /v1/nodes HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n30000\r\n",
]
slow = []
for i in range(90):
    s = socket.create_connection(("127.0.0.1", port), timeout=120)
    s.sendall(heads[i % 3])
    s.setblocking(False)
    slow.append(s)
begun = time.monotonic()
while slow and time.monotonic() - begun < 60:
    for s in slow[:]:
        try:
            s.send(b"1")
            if not s.recv(1):
                slow.remove(s)
        except BlockingIOError:
            pass
        except OSError:
            slow.remove(s)
    asked = time.monotonic()
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=120) as r:
        assert json.load(r) == {"status": "ok"}
    time.sleep(0.5)
assert not slow, len(slow)
END
}
