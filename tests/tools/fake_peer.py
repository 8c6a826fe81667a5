# fake_peer.py MODE PORT_FILE - a peer for the net and comm suites of rnp-bench that has only HTTP, or misbehaves.
#
#   http       honest, without a TCP listener       stall      never sends the bytes
#   short      fewer bytes than asked for           counts     reports more bytes received than were sent
#   sums       adds wrongly                         nonsense   does not behave like a peer at all
#   tcp-stall  TCP sessions that say hello, then nothing
#   tcp-counts the same, and reports too many bytes of an upload
#   tcp-cut    closes the connection in the middle of its bytes
#   tcp-other  another service listens on the port
#   tcp-far    honest, with a round trip of 20 ms, and 64 KiB in each of the first eight of them
import http.server
import json
import os
import socket
import struct
import sys
import threading
import time

MODE, PORT_FILE = sys.argv[1:3]
HELLO = struct.Struct("=QII")
listener = socket.create_server(("127.0.0.1", 0))


def far_session(s, op):
    begun = time.monotonic()
    got = 0
    try:
        while True:
            data = s.recv(65536) if op > 1 else b"d" * 65536
            if not data:
                break
            got += len(data)
            s.sendall(struct.pack("=Q", got) if op == 2 else data)
            if op == 3 or time.monotonic() - begun < 8 * 0.02:
                time.sleep(0.02)
        if op == 2:
            s.sendall(struct.pack("=Q", got))
    except OSError:
        pass
    s.close()


def session(s):
    hello = s.recv(HELLO.size, socket.MSG_WAITALL)
    if MODE == "tcp-far":
        time.sleep(0.02)
        s.sendall(hello)
        return far_session(s, HELLO.unpack(hello)[1])
    if MODE == "tcp-other":
        s.sendall(b"220 mail.example ESMTP")
        return
    s.sendall(hello)
    if MODE == "tcp-cut":
        s.sendall(b"x" * 100000)
    elif MODE == "tcp-counts" and HELLO.unpack(hello)[1] == 2:
        got = 0
        while data := s.recv(65536):
            got += len(data)
            s.sendall(struct.pack("=Q", 1000 * got + 10**12))
    elif MODE == "tcp-counts":
        while s.send(b"y" * 65536):
            pass
    else:
        time.sleep(60)
    s.close()


def sessions():
    while True:
        threading.Thread(target=session, args=(listener.accept()[0],), daemon=True).start()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def reply(self, body):
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        if self.path == "/v1/peer":
            record = {"kind": "rnp.peer", "v": 1, "bytes_max": 1 << 20}
            if MODE.startswith("tcp"):
                record["tcp_port"] = listener.getsockname()[1]
            if MODE == "nonsense":
                record = {"hello": "world"}
            return self.reply(json.dumps(record).encode())
        n = int(self.path.split("/")[-1])
        if MODE == "stall":
            time.sleep(60)
        self.reply(b"z" * (n - 1 if MODE == "short" else n))

    def do_POST(self):
        n = int(self.headers["Content-Length"])
        body = self.rfile.read(n)
        if self.path == "/v1/echo":
            return self.reply(body)
        if self.path == "/v1/sum":
            floats = struct.unpack(f"={n // 4}f", body)
            ours = [(i * 7 + 13 + i // 64) % 64 + (MODE == "sums" and i == 200) for i in range(n // 4)]
            return self.reply(struct.pack(f"={n // 4}f", *(a + b for a, b in zip(floats, ours))))
        self.reply(json.dumps({"bytes": n + 1000 if MODE == "counts" else n}).encode())

    def log_message(self, *args):
        pass


threading.Thread(target=sessions, daemon=True).start()
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
with open(PORT_FILE + ".part", "w") as f:
    f.write(str(server.server_port))
os.rename(PORT_FILE + ".part", PORT_FILE)
server.serve_forever()
