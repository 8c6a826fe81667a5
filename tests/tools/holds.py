"""holds.py TEXT PID...: prints which of these processes have TEXT in memory that they may write to, as a core of them would, or in their
arguments or environment."""
import sys

text = sys.argv[1].encode()


def pieces(pid):
    for name in "cmdline", "environ":
        with open(f"/proc/{pid}/{name}", "rb") as f:
            yield name, f.read()
    with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb", 0) as memory:
        for line in maps:
            span, rights = line.split()[:2]
            if not rights.startswith("rw"):
                continue
            at, end = (int(x, 16) for x in span.split("-"))
            before = b""
            while at < end:
                try:
                    memory.seek(at)
                    part = memory.read(min(1 << 20, end - at))
                except (OSError, ValueError, OverflowError):
                    break
                if not part:
                    break
                yield line.split()[-1], before + part
                before = part[-len(text):]
                at += len(part)


for pid in sys.argv[2:]:
    try:
        for where, data in pieces(pid):
            if text in data:
                print(pid, where)
    except (FileNotFoundError, ProcessLookupError):
        pass  # it has ended
