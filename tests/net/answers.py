"""answers.py WORD PORT...: answers WORD to whoever asks at these ports, by TCP and by UDP, and says "ready" when it does.
Whatever comes in is printed: "tcp PORT ADDRESS", with the address that asked."""
import select
import socket
import sys

word, ports = sys.argv[1].encode(), [int(p) for p in sys.argv[2:]]
sockets = []
for port in ports:
    for kind in socket.SOCK_STREAM, socket.SOCK_DGRAM:
        s = socket.socket(socket.AF_INET6, kind)
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        s.bind(("::", port))
        if kind == socket.SOCK_STREAM:
            s.listen(64)
        else:
            s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_RECVPKTINFO, 1)
        sockets.append((s, port))
print("ready", flush=True)
while True:
    for ready in select.select([s for s, _ in sockets], [], [])[0]:
        port = dict(sockets)[ready]
        if ready.type == socket.SOCK_DGRAM:
            # the answer comes from the address that was asked
            _, asked, _, source = ready.recvmsg(65536, 1024)
            ready.sendmsg([word], asked, 0, source)
        else:
            peer, source = ready.accept()
            try:
                peer.sendall(word)
                peer.close()
            except OSError:
                pass
        kind = "udp" if ready.type == socket.SOCK_DGRAM else "tcp"
        print(kind, port, source[0].removeprefix("::ffff:"), flush=True)
