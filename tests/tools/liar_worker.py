"""A worker that does what it likes, with good signatures: for tests of what a coordinator takes.

    from liar_worker import Liar
    liar = Liar(url)            # a new key
    liar.join(); liar.work(); liar.put(turn, piece, body); liar.post_delta(...); liar.leave()

Each returns (status, body). As rnp-train(1) and RFC 9421 say; Ed25519 is libsodium's."""
import base64
import ctypes
import hashlib
import http.client
import json
import os
import time
from datetime import datetime, timezone
from urllib.parse import urlsplit

SODIUM = ctypes.CDLL("libsodium.so")
BASE58 = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"


def base58(data):
    n, out = int.from_bytes(data, "big"), ""
    while n:
        n, digit = divmod(n, 58)
        out = BASE58[digit] + out
    return "1" * (len(data) - len(data.lstrip(b"\0"))) + out


def canon(value):  # our records hold no fractions
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


class Liar:
    def __init__(self, url, run=None, clock=0, source=None):  # source: its address
        self.url, self.clock, self.source = urlsplit(url), clock, source and (source, 0)
        public, self.secret = ctypes.create_string_buffer(32), ctypes.create_string_buffer(64)
        SODIUM.crypto_sign_seed_keypair(public, self.secret, os.urandom(32))
        self.node, self.did = base58(public.raw), "z" + base58(b"\xed\x01" + public.raw)
        self.run = run or self.get("/v1/run", signed=False)[2]["ETag"].strip('"')

    def sign(self, message):
        out = ctypes.create_string_buffer(64)
        SODIUM.crypto_sign_detached(out, None, message, ctypes.c_ulonglong(len(message)), self.secret)
        return out.raw

    def now(self):
        return datetime.fromtimestamp(time.time() + self.clock, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")

    def record(self, kind, **fields):
        record = {"kind": kind, "v": 1, "node": self.node, "at": self.now(), "run": self.run, **fields}
        proof = {"type": "DataIntegrityProof", "cryptosuite": "eddsa-jcs-2022", "created": record["at"],
                 "verificationMethod": f"did:key:{self.did}#{self.did}", "proofPurpose": "assertionMethod"}
        hashed = hashlib.sha256(canon(proof)).digest() + hashlib.sha256(canon(record)).digest()
        return json.dumps({**record, "proof": {**proof, "proofValue": "z" + base58(self.sign(hashed))}}).encode()

    def headers(self, method, target, body, nonce=True):
        path, _, query = target.partition("?")
        parts = [("@method", method), ("@path", path), ("@query", "?" + query), ("rnp-run", self.run)]
        out = {"rnp-run": self.run}
        if body is not None:
            out["Content-Digest"] = f"sha-256=:{base64.b64encode(hashlib.sha256(body).digest()).decode()}:"
            parts.append(("content-digest", out["Content-Digest"]))
        names = " ".join(f'"{name}"' for name, _ in parts)
        once = f';nonce="{os.urandom(16).hex()}"' if nonce else ""
        params = (f'({names});created={int(time.time() + self.clock)}{once}'
                  f';keyid="did:key:{self.did}";alg="ed25519";tag="rnp"')
        base = "".join(f'"{name}": {value}\n' for name, value in parts) + f'"@signature-params": {params}'
        out["Signature-Input"] = f"rnp={params}"
        out["Signature"] = f"rnp=:{base64.b64encode(self.sign(base.encode())).decode()}:"
        return out

    def ask(self, method, target, body, headers):
        connection = http.client.HTTPConnection(self.url.hostname, self.url.port, timeout=60, source_address=self.source)
        connection.request(method, target, body, headers)
        answer = connection.getresponse()
        result = answer.status, answer.read(), answer.headers
        connection.close()
        return result

    def get(self, target, signed=True, method="GET", body=None):
        return self.ask(method, target, body, self.headers(method, target, body) if signed else {})

    def post(self, target, record):
        return self.ask("POST", target, record, {"Content-Type": "application/json"})[:2]

    def join(self, **fields):
        return self.post("/v1/join", self.record("rnp.join", **fields))

    def work(self, member=None):
        return self.get(f"/v1/work?member={member or self.node}")[:2]

    def leave(self):
        return self.get(f"/v1/leave?member={self.node}", method="POST")[:2]

    def put(self, turn, piece, body, member=None):
        return self.get(f"/v1/delta/{member or self.node}/{turn}/{piece}", method="PUT", body=body)[:2]

    def deliver(self, turn, base, body, steps, tokens, piece_bytes, **fields):
        """A whole delta: its pieces, then its record."""
        for at in range(0, len(body), piece_bytes):
            answer = self.put(turn, at // piece_bytes, body[at:at + piece_bytes])
            if answer[0] >= 300:
                return answer
        sha = hashlib.sha256(body).hexdigest()
        return self.post(f"/v1/delta/{self.node}/{turn}", self.record(
            "rnp.delta", **{"turn": turn, "base": base, "sha256": sha, "root": sha, "bytes": len(body), "tokens": tokens,
                            "steps": steps, "loss_first_micronats": 5000000, "loss_last_micronats": 4000000, "seconds": 1,
                            **fields}))
