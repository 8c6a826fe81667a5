#!/usr/bin/env python3
"""tcp_relay.py PORT [AT]: TCP to this port of the machine, at another one (0: any), which it prints. With --proxy
before, an HTTP proxy: whatever is asked for is there; CONNECT is answered with a tunnel, all else goes on as it is."""
import socket
import sys
import threading

proxy = sys.argv[1] == "--proxy"
port, at, *_ = [int(word) for word in sys.argv[1 + proxy :]] + [0]


def pump(a, b):
    try:
        while data := a.recv(65536):
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
    there = socket.create_connection(("127.0.0.1", port))
    if head.startswith(b"CONNECT "):
        client.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
    else:
        there.sendall(head)
    threading.Thread(target=pump, args=(there, client), daemon=True).start()
    pump(client, there)


server = socket.create_server(("127.0.0.1", at))
print(server.getsockname()[1], flush=True)
while True:
    threading.Thread(target=serve, args=(server.accept()[0],), daemon=True).start()
