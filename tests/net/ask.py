"""ask.py KIND ADDRESS PORT...: asks each address by KIND (tcp, udp), all at once, and prints a line each: the answer, "refused" where
somebody said no, or "nothing" after $SECONDS (2) without one."""
import os
import select
import socket
import sys
import time

kind, rest = sys.argv[1], sys.argv[2:]
asked = []
for address, port in zip(rest[::2], rest[1::2]):
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    s = socket.socket(family, socket.SOCK_STREAM if kind == "tcp" else socket.SOCK_DGRAM)
    s.setblocking(False)
    said = None
    try:
        s.connect((address, int(port)))
        if kind == "udp":
            s.send(b"?")
    except BlockingIOError:
        pass
    except OSError:
        said = "refused"
    asked.append([s, said])
until = time.monotonic() + float(os.environ.get("SECONDS_MAX", "2"))
while any(a[1] is None for a in asked) and time.monotonic() < until:
    open_ = [a[0] for a in asked if a[1] is None]
    for s in select.select(open_, [], [], max(0, until - time.monotonic()))[0]:
        try:
            said = s.recv(100).decode() or "refused"
        except OSError:
            said = "refused"
        next(a for a in asked if a[0] is s)[1] = said
for a in asked:
    print(a[1] or "nothing")
