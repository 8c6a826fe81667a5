#!/usr/bin/env python3
"""fake_http.py BEHAVIOUR PORT_FILE - a server that does not behave, for the tests of our clients.

lose-reply:PORT passes on to that port of this machine, and loses the first reply."""
import os
import socket
import sys
import threading
import time
import zlib

behaviour, port_file = sys.argv[1:]
asked = 0


def answer(status, body=b"{}", headers=""):
    return (f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n{headers}\r\n").encode() + body


def request(c):
    data = c.recv(65536)
    while b"\r\n\r\n" not in data:
        data += c.recv(65536)
    head, body = data.split(b"\r\n\r\n", 1)
    length = next((int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")), 0)
    while len(body) < length:
        body += c.recv(65536)
    return head + b"\r\nConnection: close\r\n\r\n" + body


def serve(c):
    global asked
    if behaviour.startswith("lose-reply:"):
        asked += 1
        first = asked == 1
        with socket.create_connection(("127.0.0.1", int(behaviour.split(":")[1]))) as real:
            real.sendall(request(c))
            reply = b""
            while data := real.recv(65536):
                reply += data
        if not first:
            c.sendall(reply)
        c.close()
        return
    data = c.recv(65536)
    asked += 1
    with open("fake.asked", "w") as f:  # before the reply: who has it may look at once
        f.write(str(asked))
    if behaviour == "silent":
        time.sleep(60)
    elif behaviour == "garbage":
        c.sendall(b"\x00\xffthis is no HTTP at all\r\n\r\n")
    elif behaviour == "not-json":
        c.sendall(answer("200 OK", b"<html>hello</html>"))
    elif behaviour == "wrong-json":
        c.sendall(answer("200 OK", b'{"nodes":[{"record":{"kind":"rnp.node","v":7}}],"stored":1}'))
    elif behaviour == "too-large":
        c.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        try:
            while True:
                c.sendall(b"10000\r\n" + b"x" * 65536 + b"\r\n")
        except OSError:
            pass
    elif behaviour == "inflates":  # 60 KB that unpack to 60 MB
        packer = zlib.compressobj(9, zlib.DEFLATED, 31)
        body = b"".join(packer.compress(b'{"nodes":[' + b" " * 999990) for _ in range(60)) + packer.flush()
        c.sendall(answer("200 OK", body, "Content-Encoding: gzip\r\nContent-Type: application/json\r\n"))
    elif behaviour == "endless-answer":
        event = b'data: {"choices":[{"text":"a"}]}\n\n'
        c.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n")
        try:
            while True:
                c.sendall(event * 1000)
        except OSError:
            pass
    elif behaviour == "counts-much":
        c.sendall(answer("200 OK", b'data: {"choices":[{"text":"a"}]}\n\ndata: {"choices":[],"usage":{"completion_tokens":1000000000}}\n\n'))
    elif behaviour == "truncated":
        c.sendall(b'HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{"nodes":[')
    elif behaviour == "redirect":
        c.sendall(answer("302 Found", b"", "Location: file:///etc/passwd\r\n"))
    elif behaviour == "loop":
        c.sendall(answer("200 OK", b'{"nodes":[],"next":"7"}'))
    elif behaviour == "circle":  # a leads to b, and b to a
        c.sendall(answer("200 OK", b'{"nodes":[],"next":"%s"}' % (b"b" if b"cursor=a" in data else b"a")))
    elif behaviour == "busy-twice":
        if asked < 3:
            c.sendall(answer("503 Service Unavailable", b'{"error":"busy"}', "Retry-After: 0\r\n"))
        else:
            c.sendall(answer("200 OK", b'{"nodes":[]}'))
    elif behaviour.startswith("page:"):  # what a login page or a firewall says
        c.sendall(answer(behaviour[5:], b"<!DOCTYPE html><html><head><title>Please log in</title></head></html>",
                         "Content-Type: text/html\r\n"))
    elif behaviour.startswith("moved:"):
        c.sendall(answer("302 Found", b"", f"Location: {behaviour[6:]}\r\n"))
    elif behaviour.startswith("says:"):  # STATUS:BODY
        status, text = behaviour[5:].split(":", 1)
        c.sendall(answer(status, text.encode(), "Content-Type: application/json\r\n"))
    else:  # a status line
        c.sendall(answer(behaviour, b'{"error":"so says the server"}'))
    c.close()


s = socket.socket()
s.bind(("127.0.0.1", 0))
s.listen(16)
with open(port_file + ".new", "w") as f:
    f.write(f"{s.getsockname()[1]}\n")
os.rename(port_file + ".new", port_file)
while True:
    connection, _ = s.accept()
    threading.Thread(target=serve, args=(connection,), daemon=True).start()
