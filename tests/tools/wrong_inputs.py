"""wrong_inputs.py N SEED PROGRAM...: draws N wrong command lines from the option tables of all programs
(--completion table) and runs each. Right is: exit 64 (of a path, also 65 to 77),
the message in one line that begins with the program's name and names the option, then how the command is used; nothing on standard output; no signal,
no report of a sanitizer. Prints what was not, with the command line; exit 1 then. Runs in a folder of its own."""
import os
import random
import shlex
import subprocess
import sys
import tempfile

COMMON = ["x", "1x", "1 2", "--", "\u0661", "0x10", "1e", "nan", "1;", "1\n2", "%s%n", "A" * 5000, "\x01", "é"]
NUMBERS = COMMON + ["", "1.5.2", "+1", "1,5", "99999999999999999999999", "-", ".5", "1_000"]
WRONG = {
    "I64": NUMBERS + ["1.5", "1e3"],
    "U64": NUMBERS + ["-1", "1.5", "1e3"],
    "F64": [v for v in NUMBERS if not v.startswith("9")] + ["inf", "1e999", "1..2"],
    "SIZE": NUMBERS + ["-1", "5 apples", "64mib", "1e3", "1.5B"],
    "DURATION": NUMBERS + ["-1s", "5 minutes", "1y", "1.0000000001ms"],
    "TIME": COMMON + ["", "2026-13-01", "20.11.2026", "7d", "-7", "Today", "2026-11-20T24:00:00Z", "1969-12-31"],
    "USD": NUMBERS + ["0,40", "1 EUR", "5 USD/kWh", "$", "USD", "1.23456789 USD", "1 USD USD"],
    "RENDER": NUMBERS + ["0.123456789", "1 EUR"],
    "PPM": NUMBERS + ["5 apples", "5%%", "% 5", "1/2"],
    "CHOICE": COMMON + ["", "|", "a|b", "nonsense"],
    # a path that nobody can have, for a file of ours is no folder, or no text at all: the program says so, or what else is missing
    "TEXT": ["a-file/x", "a-file/\x01", "", "%s%n", "A" * 5000, "\u0661", "http://", "file:///etc/passwd", "/dev/null/x"],
    "ADDRESS": COMMON + ["", "0OIl", "2" * 31, "1" * 90],
}


USAGE = {64}
ANY = {0, 64, 65, 66, 69, 73, 74, 77}


def tables(programs):
    """All options, as (program, command, name, kind, least, greatest), and the commands that take no arguments."""
    options, bare = [], []
    for program in programs:
        text = subprocess.run([program, "--completion", "table"], capture_output=True, text=True, check=True).stdout
        commands, common = [], []
        for row in (line.split("\t") for line in text.splitlines()):
            if len(row) == 2:
                commands.append(row[0])
                if row[1] == "0":
                    bare.append((program, row[0]))
                continue
            command, name, kind, least, most, words, _, address = row
            if kind == "LIST" and words:
                kind = "CHOICE"
            if address:
                kind = "ADDRESS"
            (options if command else common).append((program, command, name, kind, int(least), int(most)))
        options += [(program, c, *o[2:]) for c in commands for o in common]
    return options, bare


def draw(r, options, bare):
    """A wrong command line, a word that its message has, and the exit codes that are right."""
    how = r.random()
    if how < 0.06:
        program, command = r.choice(bare)
        return [program, command, r.choice(["stray", "a b", "é", "-"])], "", USAGE
    program, command, name, kind, least, most = r.choice(options)
    if how < 0.12:
        typo = name[:-1] + r.choice("xq_") + name[-1]
        return [program, command, "--" + typo], typo[:40], USAGE
    if kind in ("FLAG", "COUNT"):
        return [program, command, f"--{name}=1"], name, USAGE
    if how < 0.2 or kind not in WRONG:
        return [program, command, "--" + name], name, USAGE
    value = r.choice(WRONG[kind])
    if kind == "I64" and (least or most) and r.random() < 0.3:
        value = str(least - 1) if least > -(1 << 63) and (not most or r.random() < 0.5) else str(most + 1)
    together = value == "--" or value.startswith("-") or r.random() < 0.5
    words = [program, command] + ([f"--{name}={value}"] if together else ["--" + name, value])
    if kind == "TEXT" and os.path.basename(program) == "rnp-bench" and command == "run":
        return [program, command, "--" + name], name, USAGE  # it measures for minutes
    if kind == "TEXT":
        return words, "", ANY
    return words, name, USAGE


def fault(words, named, codes):
    """What is not right about a command line, or nothing."""
    try:
        p = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, timeout=120)
    except subprocess.TimeoutExpired:
        return "it does not end"
    err = p.stderr.decode("utf-8", "replace")
    lines = err.splitlines()
    program = os.path.basename(words[0])
    if p.returncode not in codes:
        return f"exit {p.returncode}"
    if "Sanitizer" in err or "runtime error" in err:
        return "a sanitizer's report"
    if p.returncode == 0:
        return ""
    if p.stdout:
        return "something on standard output"
    if not lines or not lines[0].startswith(program + ": ") or any(l.startswith(program + ": ") for l in lines[1:]):
        return "not one line of a message"
    if named not in lines[0]:
        return f"no word of '{named}'"
    if p.returncode == 64 and len(lines) > 1 and not any(l.startswith("usage: ") for l in lines[1:]):
        return "not how it is used"
    if any(ord(c) < 32 or ord(c) == 127 for c in lines[0]):
        return "a control character"
    return ""


def main():
    count, seed = int(sys.argv[1]), int(sys.argv[2])
    programs = [os.path.abspath(p) for p in sys.argv[3:]]
    r = random.Random(seed)
    options, bare = tables(programs)
    bad = 0
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        open("a-file", "w").close()
        os.environ.update(HOME=folder, XDG_CONFIG_HOME=folder, XDG_CACHE_HOME=folder)
        for _ in range(count):
            words, named, codes = draw(r, options, bare)
            what = fault(words, named, codes)
            if what:
                bad += 1
                print(f"{what}: {shlex.join(words)[:300]}")
        os.chdir("/")
    print(f"{count} wrong command lines of {len(options)} options: {bad} not right")
    sys.exit(bad > 0)


main()
