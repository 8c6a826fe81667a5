#!/usr/bin/env python3
"""tcp_relay.py PORT [AT]: TCP to this port of the machine, at another one (0: any), which it prints. With --proxy
before, an HTTP proxy: whatever is asked for is there; CONNECT is answered with a tunnel, all else goes on as it is.
With --slow FILE before, 800 kB/s of a connection come back, with a small window, so that what is sent waits in the
sender's kernel; FILE says how many bytes went there and came back."""
import os
import socket
import sys
import threading
import time

proxy = sys.argv[1] == "--proxy"
slow = os.open(sys.argv[2], os.O_WRONLY | os.O_CREAT) if sys.argv[1] == "--slow" else None
port, at, *_ = [int(word) for word in sys.argv[1 + proxy + 2 * (slow is not None) :]] + [0]
carried, lock = [0, 0], threading.Lock()


def count(back, n):
    with lock:
        carried[back] += n
        os.pwrite(slow, b"%d %d\n" % tuple(carried), 0)
    if back:
        time.sleep(n / 800e3)


def dial():
    s = socket.socket()
    if slow is not None:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 131072)
    s.connect(("127.0.0.1", port))
    return s


def pump(a, b, back):
    try:
        while data := a.recv(65536):
            if slow is not None:
                count(back, len(data))
            b.sendall(data)
    except OSError:
        pass
    for s in (a, b):
        try:
            s.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass


def serve(client):
    head = b""
    while proxy and b"\r\n\r\n" not in head:
        data = client.recv(65536)
        if not data:
            return
        head += data
    there = dial()
    if head.startswith(b"CONNECT "):
        client.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
    else:
        there.sendall(head)
    threading.Thread(target=pump, args=(there, client, True), daemon=True).start()
    pump(client, there, False)


server = socket.create_server(("127.0.0.1", at))
print(server.getsockname()[1], flush=True)
while True:
    threading.Thread(target=serve, args=(server.accept()[0],), daemon=True).start()
