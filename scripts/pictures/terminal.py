"""terminal.py COMMAND: runs it on a terminal of 80 columns and draws what it shows as SVG."""
import fcntl, html, os, pty, re, struct, sys, termios

COLUMNS, WIDTH, HEIGHT = 80, 8.4, 19
COLOURS = {"31": "#e06c75", "32": "#98c379", "33": "#e5c07b"}


def screen(command):
    pid, fd = pty.fork()
    if pid == 0:
        os.environ["TERM"] = "xterm"
        os.read(0, 1)
        os.execvp("bash", ["bash", "-c", command])
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", 40, COLUMNS, 0, 0))
    os.write(fd, b"\n")
    out = b""
    while True:
        try:
            piece = os.read(fd, 65536)
        except OSError:
            break
        if not piece:
            break
        out += piece
    os.waitpid(pid, 0)
    return out.decode().replace("\r", "").strip("\n").split("\n")


def line_of(text, y):
    spans, colour = [], ""
    for part in re.split(r"(\x1b\[[0-9;]*m)", text):
        found = re.match(r"\x1b\[([0-9;]*)m", part)
        if found:
            colour = COLOURS.get(found.group(1), "")
        elif part:
            fill = f' fill="{colour}"' if colour else ""
            spans.append(f"<tspan{fill}>{html.escape(part)}</tspan>")
    return f'<text x="14" y="{y}" xml:space="preserve">{"".join(spans)}</text>'


lines = ["$ " + sys.argv[1]] + screen(sys.argv[1])
high = (len(lines) + 1) * HEIGHT + 8
print(f'<svg xmlns="http://www.w3.org/2000/svg" width="{COLUMNS * WIDTH + 28:.0f}" height="{high}" '
      'font-family="ui-monospace,Menlo,Consolas,monospace" font-size="14">')
print(f'<title>{html.escape(sys.argv[1])}</title>')
print('<rect width="100%" height="100%" rx="6" fill="#1e2127"/><g fill="#d7dae0">')
for i, text in enumerate(lines):
    print(line_of(text, (i + 1) * HEIGHT + 6))
print("</g></svg>")
