#!/usr/bin/env python3
"""hostile_rpc.py PORT_FILE HONEST_URL BEHAVIOUR... - a Solana server that does not behave, for the tests of pay.

It answers each question by the next of the behaviours, in turns; getGenesisHash, without which nobody asks it more, and other methods than that after an @
("slow@sendTransaction") are answered by the honest one. What else it is asked stands in PORT_FILE.got."""
import itertools
import json
import os
import random
import socket
import sys
import threading
import time
import urllib.request

port_file, honest, *behaviours = sys.argv[1:]
turns = itertools.cycle(behaviours)
server = socket.create_server(("127.0.0.1", 0), backlog=64)
here = f"http://127.0.0.1:{server.getsockname()[1]}"
dice = random.Random(18)
shapes = ["null", "true", "0", "-1", "1e400", "9007199254740993", "18446744073709551616", "0.5", '""', '"\\u0000"', '"\x1b[2J"',
    "[]", "[null]", "{}", '{"value":null}', '{"value":[]}', '{"value":[null,null,null,null]}', '{"value":{}}',
    '{"context":{"slot":1},"value":[{"confirmationStatus":"finalized","err":null}]}',
    '{"value":[{"confirmationStatus":"finalized","err":{"InstructionError":[0,"\x9b2J"]}}]}',
    '{"value":{"blockhash":"' + "1" * 44 + '","lastValidBlockHeight":9223372036854775807}}',
    '{"value":{"blockhash":"' + "1" * 32 + '","lastValidBlockHeight":-5}}',
    '{"value":[{"data":["AAAA","base64"],"owner":"11111111111111111111111111111111","lamports":1e30}]}']


def head(status, length=None, more=""):
    size = "" if length is None else f"Content-Length: {length}\r\n"
    return f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nConnection: close\r\n{size}{more}\r\n".encode()


def read(c):
    data = b""
    while b"\r\n\r\n" not in data:
        got = c.recv(65536)
        if not got:
            return None
        data += got
    top, body = data.split(b"\r\n\r\n", 1)
    lines = top.split(b"\r\n")
    length = next((int(x.split(b":")[1]) for x in lines if x.lower().startswith(b"content-length:")), 0)
    while len(body) < length:
        body += c.recv(65536)
    return lines[0].decode(), body


def answer(c, how, line, body):
    question = json.loads(body)
    this = f'"jsonrpc":"2.0","id":{question["id"]},'
    if how == "honest":
        with urllib.request.urlopen(urllib.request.Request(honest, body, {"Content-Type": "application/json"})) as reply:
            text = reply.read()
        c.sendall(head("200 OK", len(text)) + text)
    elif how == "slow":  # a byte a second, from the first header on
        for byte in head("200 OK") + b" " * 10000:
            c.sendall(bytes([byte]))
            time.sleep(1)
    elif how == "slow-body":
        c.sendall(head("200 OK"))
        for byte in ("{" + this).encode() + b" " * 10000:
            c.sendall(bytes([byte]))
            time.sleep(1)
    elif how == "endless":
        c.sendall(head("200 OK") + ("{" + this + '"result":"').encode())
        while True:
            c.sendall(b"x" * 65536)
    elif how == "endless-headers":
        c.sendall(b"HTTP/1.1 200 OK\r\n")
        while True:
            c.sendall(b"X-More: " + b"y" * 8000 + b"\r\n")
    elif how == "endless-chunks":
        c.sendall(head("200 OK", None, "Transfer-Encoding: chunked\r\n"))
        while True:
            c.sendall(b"1\r\n \r\n" * 1000)
    elif how == "to-file":
        c.sendall(head("302 Found", 0, "Location: file:///etc/passwd\r\n"))
    elif how == "to-other":  # 307 keeps the body
        c.sendall(head("307 Temporary Redirect", 0, f"Location: {here}/elsewhere\r\n"))
    elif how == "to-get":
        c.sendall(head("302 Found", 0, f"Location: {here}/elsewhere\r\n"))
    elif how == "loop":
        c.sendall(head("308 Permanent Redirect", 0, f"Location: {here}/\r\n"))
    elif how == "deep":
        text = "{" + this + '"result":' + "[" * 1000000 + "]" * 1000000 + "}"
        c.sendall(head("200 OK", len(text)) + text.encode())
    elif how == "cut":
        c.sendall(head("200 OK", 5000) + ("{" + this + '"result":').encode())
    elif how == "bomb":  # gzip that nobody asked for
        c.sendall(head("200 OK", 20, "Content-Encoding: gzip\r\n") + b"\x1f\x8b\x08" + bytes(17))
    elif how == "shapes":
        text = ("{" + this + '"result":' + dice.choice(shapes) + "}").encode()
        c.sendall(head("200 OK", len(text)) + text)
    elif how == "twice":
        text = ("{" + this + '"result":1,"result":2}').encode()
        c.sendall(head("200 OK", len(text)) + text)
    elif how == "shout":
        text = ("{" + this + '"error":{"code":-1,"message":"' + "\\u001b[2J\u202e" * 100000 + '"}}').encode()
        c.sendall(head("200 OK", len(text)) + text)


def serve(c):
    try:
        got = read(c)
        if not got:
            return
        line, body = got
        if " / " not in line or not line.startswith("POST"):
            with open(port_file + ".got", "a") as f:
                f.write(line + "\n")
            c.sendall(head("200 OK", 2) + b"{}")
            return
        how, _, method = next(turns).partition("@")
        asked = json.loads(body)["method"]
        answer(c, how if asked == method or (not method and asked != "getGenesisHash") else "honest", line, body)
    except (OSError, ValueError):
        pass
    finally:
        c.close()


def listen():
    while True:
        threading.Thread(target=serve, args=(server.accept()[0],), daemon=True).start()


threading.Thread(target=listen, daemon=True).start()
parent = os.getppid()
with open(port_file, "w") as f:
    f.write(here)
# a test that was killed has stopped nothing
while os.getppid() == parent:
    time.sleep(1)
