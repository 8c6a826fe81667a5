"""Read a file of Prometheus' text format strictly: prometheus.py FILE. Exit 1 with the line that is wrong.

Beyond the format itself (exposition formats 0.0.4): every family has HELP and TYPE, in this order and once, its samples
stand together, no sample comes twice, there is no time stamp (the textfile collector refuses them), and names end
in base units."""
import re
import sys

NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
LABEL = r'[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\[\\n"])*"'
SAMPLE = re.compile(rf"^({NAME})(\{{{LABEL}(?:,{LABEL})*\}})? (-?(?:[0-9]+(?:\.[0-9]+)?(?:e[+-]?[0-9]+)?|Inf)|NaN)$")
UNITS = ("_seconds", "_bytes", "_per_second", "_ratio", "_hertz", "_celsius", "_samples", "_users", "_throttled")


def check(lines):
    helped, typed, done, seen, current = set(), set(), set(), set(), None
    for n, line in enumerate(lines, 1):
        def need(good, what):
            if not good:
                sys.exit(f"line {n}: {what}: {line}")

        head = re.match(rf"^# (HELP|TYPE) ({NAME}) (.+)$", line)
        if head:
            kind, name, rest = head.groups()
            if kind == "HELP":
                need(name not in helped, "HELP comes twice")
                helped.add(name)
                if current:
                    done.add(current)
                current = name
                need(name.endswith(UNITS), "no base unit in the name")
            else:
                need(name == current and name not in typed, "TYPE without its HELP before it")
                need(rest in ("gauge", "counter"), "type")
                typed.add(name)
            continue
        sample = SAMPLE.match(line)
        need(sample, "no sample")
        need(sample[1] == current and current in typed, "a sample outside of its family")
        need((sample[1], sample[2]) not in seen, "a sample comes twice")
        seen.add((sample[1], sample[2]))
    if not seen:
        sys.exit("no sample at all")
    if done & {current}:
        sys.exit(f"{current} comes in two places")


with open(sys.argv[1], encoding="utf-8", newline="") as f:
    text = f.read()
if not text.endswith("\n"):
    sys.exit("no line feed at the end")
check(text[:-1].split("\n"))
