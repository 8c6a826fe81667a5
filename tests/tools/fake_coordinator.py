#!/usr/bin/env python3
"""fake_coordinator.py KIND PORT_FILE RUN_DIR: a coordinator that lies, with good signatures.

RUN_DIR has run.json, the signed record of a real run, and key.json, its key. Everything is answered
as a real one would, but for what KIND says: config (a model of another size than it says), huge (a model
that fits nowhere), endless (parameters without end), wrong (parameters with another hash), garbage
(no container), text (ids beyond the vocabulary), unsigned (the record of the run is changed), other
(assignments for somebody else), range-elsewhere, range-endless, range-huge (ranges of the parameters that
begin elsewhere, never end, are of a whole beyond any bound), steps (more steps than the run has), nothing, again (no work,
or that the worker has to join again, at once and always; each time a line on standard error), forever (an answer that never
ends, one byte at a time), full (no place for three tries, with a second between them, and then it is not allowed; the
time of each record on standard error)."""
import json
import os
import subprocess
import sys
import time
from datetime import datetime, timezone
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

kind, port_file, run_dir = sys.argv[1:]
record = json.load(open(f"{run_dir}/run.json"))


def sign(r):
    r.pop("proof", None)
    return subprocess.run(["rnp-register", "sign", "--key", f"{run_dir}/key.json"], input=json.dumps(r),
                          capture_output=True, text=True, check=True).stdout


if kind == "config":
    record["parameters"] += 1
if kind == "huge":
    config = json.loads(record["config"])
    config.update(hidden_size=16384, intermediate_size=53248, num_hidden_layers=126, num_attention_heads=128,
                  num_key_value_heads=8, head_dim=128)
    record["config"] = json.dumps(config)
    d, h, v = 16384, 53248, config["vocab_size"]
    layer = 2 * d * d + 2 * d * 1024 + 3 * d * h + 2 * d
    record["parameters"] = 126 * layer + d + v * d * (1 if config.get("tie_word_embeddings") else 2)
run_text = sign(record)
if kind == "unsigned":
    run_text = run_text.replace('"batch":4', '"batch":5')
run_name = subprocess.run(["rnp-register", "canon"], capture_output=True, text=True, check=True,
                          input=json.dumps({k: x for k, x in json.loads(run_text).items() if k != "proof"})).stdout.rstrip("\n")
import hashlib
run_name = hashlib.sha256(run_name.encode()).hexdigest()
BASE = "ab" * 32
tries = []


def now():
    return datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def answer(self, body, status=200, content="application/json"):
        body = body.encode() if isinstance(body, str) else body
        self.send_response(status)
        self.send_header("Content-Type", content)
        self.send_header("Content-Length", str(len(body)))
        if status == 503:
            self.send_header("Retry-After", "2")
        self.end_headers()
        self.wfile.write(body)

    def own(self, kind_, **fields):
        self.answer(sign({"kind": kind_, "v": 1, "node": record["node"], "at": now(), "run": run_name, **fields}))

    def drip(self, chunk, pause):
        self.send_response(200)
        self.send_header("Content-Type", "application/octet-stream")
        self.send_header("ETag", f'"{BASE}"')
        self.send_header("Connection", "close")
        self.end_headers()
        try:
            while True:
                self.wfile.write(chunk)
                time.sleep(pause)
        except OSError:
            pass

    def ranges(self):
        first, last = map(int, self.headers["Range"].removeprefix("bytes=").split("-"))
        total = 2_000_000 if kind != "range-huge" else 1 << 50
        if first and kind == "range-elsewhere":
            first += 1
        self.send_response(206)
        self.send_header("ETag", f'"{BASE}"')
        self.send_header("Content-Range", f"bytes {first}-{last}/{total}")
        self.send_header("Connection", "close")
        self.end_headers()
        try:
            self.wfile.write(b"\0" * (last - first + 1))
            while first and kind == "range-endless":
                self.wfile.write(b"\0" * (1 << 20))
        except OSError:
            pass
        self.close_connection = True

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))) or b"{}")
        if kind == "full":
            tries.append(body["at"])
            print(body["at"], file=sys.stderr, flush=True)
            return self.answer('{"error":"no place"}', 503 if len(tries) < 4 else 403)
        if kind == "portal":  # a firewall's page, a login page's "yes", then the coordinator itself
            tries.append(self.path)
            print(self.path, file=sys.stderr, flush=True)
            pages = ("<html>Just a moment...</html>", 403), ("{}", 200), ("", 204), ('{"error":"no place"}', 403)
            return self.answer(*pages[min(len(tries), 4) - 1])
        if self.path == "/v1/join":
            return self.own("rnp.member", member=body["node"], turn=0, base=BASE, round=1)
        self.answer('{"left":true}')

    def do_GET(self):
        path, _, query = self.path.partition("?")
        if path == "/v1/run":
            return self.answer(run_text)
        if path == "/v1/work":
            if kind in ("nothing", "again"):
                print("asked", file=sys.stderr, flush=True)
                return self.answer("", 204) if kind == "nothing" else self.answer('{"error":"join again"}', 410)
            member = query.removeprefix("member=")
            steps = record["inner_steps"] + (1 if kind == "steps" else 0)
            return self.own("rnp.assignment", member=record["node"] if kind == "other" else member, turn=1, round=1,
                            base=BASE, first=0, sequences=steps * record["batch"], step=0, steps=steps,
                            method=record["method"])
        if path.startswith("/v1/params/"):
            if kind.startswith("range-"):
                return self.ranges()
            if kind == "endless":
                return self.drip(b"\0" * (1 << 20), 0)
            if kind == "wrong":
                return self.answer(open(f"{run_dir}/whole", "rb").read(), content="application/octet-stream")
            return self.answer(b"RNPG" + os.urandom(100000), content="application/octet-stream")
        if path == "/v1/tokens":
            count = int(query.split("count=")[1])
            return self.answer(b"\xff" * (count * (record["length"] + 1) * 2), content="application/octet-stream")
        if path.startswith("/v1/data/") and kind == "endless-text":
            return self.drip(b"\0" * (1 << 20), 0)
        self.answer('{"error":"no"}', 404)


server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
server.daemon_threads = True
with open(port_file + ".part", "w") as f:
    f.write(f"{server.server_port}\n")
os.rename(port_file + ".part", port_file)
server.serve_forever()
