#!/usr/bin/env python3
"""A registry as an agent sees it, and nothing more: what it assigns is what a test wrote, so that it may lie.

    work_registry.py DIR

serves on a free port of loopback, which it writes to DIR/port. DIR/work.json is the list of assignments as GET /v1/work has
them, read anew for each question; "state" and "seq" follow the events of the node. DIR/events.jsonl gets each event once,
DIR/log-CLUSTER-RANK what is logged, DIR/listings.jsonl the listings; DIR/quotes.jsonl has the quotes of the node, DIR/blobs/HASH the blobs. A file DIR/away
makes it answer 503 to everything, and note in DIR/refused what it did not take, DIR/hold keeps states where they are, DIR/hold-HASH does not give a blob before it is gone."""

import http.server
import json
import os
import sys
import threading
import time
import urllib.parse

DIR = sys.argv[1]
LOCK = threading.Lock()
STATES = {}  # by cluster and rank: what the node's events have made of it
LIVE = ["reserved", "proving", "pulling", "starting", "ready", "releasing"]


def path(*names):
    return os.path.join(DIR, *names)


def here(name):
    return os.path.exists(path(name))


def read_json(name, default):
    try:
        with open(path(name), encoding="utf-8") as f:
            return json.load(f)
    except (OSError, ValueError):
        return default


def replay():
    """Takes account of the events of an earlier process."""
    try:
        with open(path("events.jsonl"), encoding="utf-8") as f:
            for line in f:
                take(json.loads(line))
    except OSError:
        pass


def take(event):
    """What an event makes of its lease; the registry itself goes on from proving."""
    key = event["cluster"], event["rank"]
    state = STATES.setdefault(key, {"state": "reserved", "seq": 0})
    state["seq"] = event["seq"]
    state["state"] = event["to"]
    if event["to"] == "proving" and not here("hold"):
        state["state"] = "pulling"
    if "exit" in event and not here("hold"):
        state["state"] = "releasing"


def work():
    """The list as it is now."""
    listed = []
    for entry in read_json("work.json", []):
        now = dict(entry)
        key = entry["cluster"], entry["rank"]
        known = STATES.get(key, {"state": entry.get("state", "reserved"), "seq": entry.get("seq", 0)})
        now["state"], now["seq"] = known["state"], known["seq"]
        if now.get("want") == "release" and now["state"] in LIVE:
            now["state"] = "releasing"
        now["want"] = "release" if now["state"] == "releasing" else "run"
        now.setdefault("go", now["state"] == "ready")
        if now["state"] in LIVE:
            listed.append(now)
    return listed


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def answer(self, status, body, kind="application/json"):
        body = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def get_work(self, query):
        """Answers when the list differs from what the agent saw last, or after the wait."""
        until = time.monotonic() + min(float(query.get("wait", ["0"])[0]), 25)
        after = int(query.get("after", ["-1"])[0])
        while True:
            with LOCK:
                listed = work()
            stamp = hash(json.dumps(listed, sort_keys=True)) & 0x7fffffff
            if stamp != after or time.monotonic() > until:
                return self.answer(200, {"after": stamp, "work": listed})
            time.sleep(0.02)

    def do_GET(self):
        url = urllib.parse.urlsplit(self.path)
        query = urllib.parse.parse_qs(url.query)
        if here("away"):
            return self.answer(503, {"error": "away"})
        if url.path == "/v1/work":
            if "signature" not in self.headers:
                return self.answer(401, {"error": "sign it"})
            return self.get_work(query)
        if url.path == "/v1/records":
            try:
                with open(path("quotes.jsonl"), encoding="utf-8") as f:
                    records = [json.loads(line) for line in f]
            except OSError:
                records = []
            return self.answer(200, {"records": records})
        if url.path == "/v1/gateways" and here("gateways.json"):
            with open(path("gateways.json"), "rb") as f:
                return self.answer(200, f.read(), "application/json")
        if url.path.startswith("/v1/blobs/"):
            while here("hold-" + os.path.basename(url.path)):
                time.sleep(0.02)
            try:
                with open(path("blobs", os.path.basename(url.path)), "rb") as f:
                    return self.answer(200, f.read(), "application/octet-stream")
            except OSError:
                pass
        return self.answer(404, {"error": "not found"})

    def refuse(self):
        with LOCK, open(path("refused"), "a", encoding="utf-8") as f:
            f.write(self.path + "\n")
        return self.answer(503, {"error": "away"})

    def do_PUT(self):
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        if here("away"):
            return self.refuse()
        with open(path("blobs", os.path.basename(urllib.parse.urlsplit(self.path).path)), "wb") as f:
            f.write(body)
        return self.answer(201, {})

    def do_POST(self):
        url = urllib.parse.urlsplit(self.path)
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        if here("away"):
            return self.refuse()
        if url.path == "/v1/events":
            return self.post_event(body)
        if url.path == "/v1/blobs":
            asked = json.loads(body)["sha256"]
            return self.answer(200, {"missing": [{"sha256": name} for name in asked if not here(os.path.join("blobs", name))]})
        if url.path == "/v1/listings":
            with LOCK, open(path("listings.jsonl"), "ab") as f:
                f.write(body + b"\n")
            return self.answer(201, {})
        if url.path.startswith("/v1/logs/"):
            name = "log-" + "-".join(url.path.split("/")[3:5])
            with LOCK, open(path(name), "r+b" if here(name) else "w+b") as f:
                f.seek(int(urllib.parse.parse_qs(url.query)["offset"][0]))
                f.write(body)
            return self.answer(200, {})
        return self.answer(404, {"error": "not found"})

    def post_event(self, body):
        event = json.loads(body)
        with LOCK:
            known = STATES.get((event["cluster"], event["rank"]), {"state": "reserved", "seq": 0})
            if event["seq"] <= known["seq"]:
                return self.answer(200 if event["seq"] == known["seq"] else 409, {"error": "known"})
            if known["state"] not in LIVE:
                return self.answer(409, {"error": "the lease is over"})
            with open(path("events.jsonl"), "a", encoding="utf-8") as f:
                f.write(json.dumps(event) + "\n")
            take(event)
        return self.answer(201, {"kind": "rnp.stored", "v": 1})


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64


def main():
    replay()
    server = Server(("127.0.0.1", 0), Handler)
    with open(path("port.part"), "w", encoding="utf-8") as f:
        f.write(str(server.server_address[1]))
    os.rename(path("port.part"), path("port"))
    server.serve_forever()


if __name__ == "__main__":
    main()
