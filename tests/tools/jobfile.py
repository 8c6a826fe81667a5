"""jobfile.py - what rnp-register reads in job files, beside what PyYAML's safe_load reads, as SkyPilot has it.

jobfile.py tasks FOLDER   the task files below FOLDER: how many are read as they are, with what makes no sense here dropped,
                          without service, and without object stores; each accepted one holds what PyYAML has found, each
                          refused one a line that names its place and the field
jobfile.py words          words by themselves: what is taken has one meaning to YAML 1.1, to 1.2 and to us
jobfile.py same FILE ...  files that are accepted
"""
import itertools
import json
import os
import re
import subprocess
import sys

import yaml

ELSEWHERE = "infra cloud region zone instance_type accelerator_args".split()
NAMES = ELSEWHERE + "service config pool execution volumes workdir inputs".split()
REASONS = ("is an object store", "a second document", "is a TPU", "a part of a GPU", "image of a cloud", "is no GPU that is known")


def check(file, drop=(), text=None, given=()):
    command = ["rnp-register", "launch", "--check", "-q"]
    for name in drop:
        command += ["--drop", name]
    for option, name in given:
        command += [option, f"{name}=s3"]
    done = subprocess.run(command + [file], input=text, capture_output=True, text=True, timeout=120)
    assert done.returncode in (0, 64, 65), (file, done)
    return json.loads(done.stdout) if done.returncode == 0 else None, done.stderr


def missing(task):
    """What SkyPilot, too, wants from the command line."""
    for option, field in ("--env", "envs"), ("--secret", "secrets"):
        for name, value in (task.get(field) or {}).items():
            if value is None:
                yield option, name


def hold(file, record, task):
    """The record has what PyYAML finds in the task."""
    for field in "run", "setup":
        assert record.get(field) == task.get(field), (file, field)
    if task.get("name") is not None:
        assert record["name"] == task["name"], file
    assert record["nodes"] == (task.get("num_nodes") or 1), file
    assert isinstance(task.get("workdir"), (str, type(None))) is True or "workdir" in record["dropped"], file
    envs = {name: "s3" if value is None else str(value) for name, value in (task.get("envs") or {}).items()}
    assert record["envs"] == envs, (file, record["envs"], envs)
    assert set(record["secrets"]) == set(task.get("secrets") or {}), file
    resources = task.get("resources") or {}
    ports = resources.get("ports") or []
    assert record["ports"] == [str(p) for p in (ports if isinstance(ports, list) else [ports])], file
    for wish in record["wishes"]:
        assert wish["nodes"] == record["nodes"], file
        cpus = re.match(r"\d+", str(resources.get("cpus") or ""))
        assert wish.get("cpu_cores") == (int(cpus[0]) if cpus else None), file
        memory = re.match(r"\d+", str(resources.get("memory") or ""))
        assert wish.get("memory_bytes") == (int(memory[0]) * 10**9 if memory else None), file
    text = json.dumps(record)
    for value in (task.get("secrets") or {}).values():
        assert not value or value not in text, (file, "a secret")


def tasks(folder):
    found = {}
    for at, _, names in os.walk(folder):
        for name in names:
            if name.endswith((".yaml", ".yml")):
                file = os.path.join(at, name)
                with open(file, encoding="utf-8") as f:
                    documents = list(yaml.safe_load_all(f))
                if any(isinstance(d, dict) and d.keys() & {"resources", "run", "setup", "file_mounts", "num_nodes", "service"}
                       for d in documents):
                    found[file] = documents[0]
    print("files", len(found))
    left = sorted(found)
    for what, drop in (("unchanged", []), ("elsewhere", ELSEWHERE), ("service", ELSEWHERE + ["service"]),
                       ("stores", ELSEWHERE + ["service", "stores"])):
        refused = []
        for file in left:
            record, error = check(file, drop, given=list(missing(found[file])))
            if record:
                hold(file, record, found[file])
                continue
            refused.append(file)
            assert re.match(rf"rnp-register: {re.escape(file)}:\d+:\d+: .+\n\Z", error), error
            assert any(re.search(rf"\b{name}\b", error[len(file):]) for name in NAMES if name not in drop) or \
                any(reason in error for reason in REASONS), error
        left = refused
        print(what, len(found) - len(left))


FLOAT_1_2 = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?\Z")


def core(word):
    """A plain word by YAML 1.2's core schema."""
    if word in ("", "~", "null", "Null", "NULL"):
        return None
    if word in ("true", "True", "TRUE"):
        return True
    if word in ("false", "False", "FALSE"):
        return False
    if re.match(r"[-+]?[0-9]+\Z", word):
        return int(word)
    if re.match(r"0o[0-7]+\Z", word):
        return int(word[2:], 8)
    if re.match(r"0x[0-9a-fA-F]+\Z", word):
        return int(word, 16)
    if FLOAT_1_2.match(word):
        return float(word)
    if re.match(r"[-+]?\.(inf|Inf|INF)\Z", word) or word in (".nan", ".NaN", ".NAN"):
        return float("nan")
    return word


def words():
    made = {"".join(w) for n in (1, 2, 3) for w in itertools.product("0719.-+_:eExoab", repeat=n)}
    made |= {a + b for a in ("1.5", "12:30", "2026-11-29", "0o17", "0x1F", "1_000", "1e5", ".5", "yes", "On", "null", "~", "True", "<<", "=",
             ".inf", "-.inf", ".NaN", "9223372036854775807", "-9223372036854775808", "9223372036854775808", "0b11", "0755", "08", "1.", "1.0e+5",
             "1.0e5", "190:20:30", "190:20:30.15", "2001-12-14t21:59:43.10-05:00", "2001-1-1 1:00:00", "1.2.3", "v1.10") for b in ("", "x", " y", "_", "0")}
    # what several files of one list accept need not be asked one by one
    words = sorted(w for w in made if w.strip() == w and w and plain(w))
    taken = 0
    while words:
        part, words = words[:2000], words[2000:]
        while part:
            text = "run: x\nparameters:\n  words:\n" + "".join(f"  - {w}\n" for w in part)
            record, error = check("-", text=text)
            if record:
                for word, ours in zip(part, record["parameters"]["words"], strict=True):
                    theirs = yaml.safe_load(f"- {word}")[0]
                    # JSON has one kind of number: 1.0 comes as 1
                    assert ours == theirs and isinstance(ours, bool) == isinstance(theirs, bool), (word, ours, theirs)
                    also = core(word)
                    # 1e5 is a number to 1.2 alone; where a text is wanted it is that text
                    assert ours == also or isinstance(also, float) and isinstance(ours, str), (word, ours, also)
                taken += len(part)
                break
            at = int(re.match(r"rnp-register: standard input:(\d+):\d+: ", error)[1]) - 4
            word = part.pop(at)
            assert "in quotes" in error, error
            # what both read as one thing is not refused, but for what looks like a date, and '_' in digits
            assert not agreed(word) or "_" in word or re.match(r"\d{4}-\d", word), (word, error)
    print("words", taken)


def plain(word):
    try:
        return isinstance(yaml.compose(f"- {word}").value[0], yaml.ScalarNode)
    except yaml.YAMLError:
        return False


def agreed(word):
    try:
        theirs = yaml.safe_load(f"- {word}")[0]
    except Exception:
        return False
    also = core(word)
    return type(theirs) is type(also) and theirs == also and not (isinstance(also, int) and
        (abs(also) >= 2**63 - 1 or not re.match(r"[-+]?(0|[1-9][0-9]*)\Z", word)))


def same(files):
    for file in files:
        with open(file, encoding="utf-8-sig", newline="") as f:
            task = yaml.safe_load(f)
        record, error = check(file, given=list(missing(task)))
        assert record, error
        hold(file, record, task)
    print("same", len(files))


if sys.argv[1] == "tasks":
    tasks(sys.argv[2])
elif sys.argv[1] == "words":
    words()
else:
    same(sys.argv[2:])
