#!/usr/bin/env python3
"""tls_cut_rpc.py PORT_FILE CERT KEY HONEST_URL... - Solana servers over TLS whose connections break off, for the tests of pay.

One for each honest server, their URLs in PORT_FILE. A connection carries one question. It is answered, or cut: in the handshake;
after the question has reached the honest server; in the middle of a TLS record of the answer; after a whole record, without the
close_notify that says that nothing is missing; by a reset in the answer. So end four of five answers to sendTransaction and a fifth
of the others. What was cut, and how sendTransaction was, stands in PORT_FILE.cut."""
import itertools
import json
import os
import random
import socket
import ssl
import struct
import sys
import threading
import time
import urllib.request

port_file, cert, key, *honest = sys.argv[1:]
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(cert, key)
cuts = set()
lock = threading.Lock()
dice = random.Random(18)
deck = []


class Session:
    """TLS over memory, so that its records can be cut."""

    def __init__(self, c):
        self.c, self.incoming, self.outgoing = c, ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self.incoming, self.outgoing, server_side=True)

    def call(self, f, *args):
        while True:
            try:
                return f(*args)
            except ssl.SSLWantReadError:
                if self.outgoing.pending:
                    self.c.sendall(self.outgoing.read())
                got = self.c.recv(65536)
                if not got:
                    raise OSError("closed")
                self.incoming.write(got)

    def question(self):
        data = b""
        while b"\r\n\r\n" not in data:
            data += self.call(self.tls.read, 65536)
        top, body = data.split(b"\r\n\r\n", 1)
        length = next(int(x.split(b":")[1]) for x in top.split(b"\r\n") if x.lower().startswith(b"content-length:"))
        while len(body) < length:
            body += self.call(self.tls.read, 65536)
        return body

    def record(self, data):
        self.tls.write(data)
        return self.outgoing.read()


def draw():
    """How a connection ends: each way comes up in 25 of them, however few there are in all."""
    with lock:
        if not deck:
            deck.extend(["handshake", "silent", "record", "body", "reset"] + ["whole"] * 20)
            dice.shuffle(deck)
        return deck.pop()


def answer(c, url, sends):
    how = draw()
    if how == "handshake":
        c.recv(200)
        c.sendall(b"\x16\x03\x03\x00\x7a\x02")  # a ServerHello that begins
        return how
    s = Session(c)
    s.call(s.tls.do_handshake)
    c.sendall(s.outgoing.read())
    body = s.question()
    sending = json.loads(body)["method"] == "sendTransaction"
    if sending:
        with lock:
            if how != "whole":
                deck.append(how)  # for another question
            how = next(sends)
    with urllib.request.urlopen(urllib.request.Request(url, body, {"Content-Type": "application/json"})) as reply:
        text = reply.read()
    top = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n"
    sized = top + b"Content-Length: %d\r\n\r\n" % len(text)
    if how == "whole":
        c.sendall(s.record(sized + text))
    elif how == "record":
        bytes_ = s.record(sized + text)
        c.sendall(bytes_[:dice.randrange(1, len(bytes_))])
    elif how == "body":  # no length: only close_notify would tell that it has ended
        c.sendall(s.record(top + b"\r\n" + text[:dice.randrange(1, len(text))]))
    elif how == "reset":
        c.sendall(s.record(sized) + s.record(text[:len(text) // 2])[:-5])
        c.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    return "send-" * sending + how


def serve(c, url, sends):
    try:
        c.settimeout(20)
        c.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        how = answer(c, url, sends)
        with lock:
            cuts.add(how)
            with open(port_file + ".cut.new", "w") as f:
                f.write(" ".join(sorted(cuts)) + "\n")
            os.rename(port_file + ".cut.new", port_file + ".cut")
    except (OSError, ValueError, StopIteration):
        pass
    finally:
        c.close()


def listen(server, url):
    sends = itertools.cycle(["silent", "record", "body", "reset", "whole"])
    while True:
        threading.Thread(target=serve, args=(server.accept()[0], url, sends), daemon=True).start()


servers = [socket.create_server(("127.0.0.1", 0), backlog=64) for _ in honest]
for server, url in zip(servers, honest):
    threading.Thread(target=listen, args=(server, url), daemon=True).start()
parent = os.getppid()
with open(port_file + ".new", "w") as f:
    f.write("".join(f"https://127.0.0.1:{s.getsockname()[1]}\n" for s in servers))
os.rename(port_file + ".new", port_file)
# a test that was killed has stopped nothing
while os.getppid() == parent:
    time.sleep(1)
