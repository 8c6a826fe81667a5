#!/usr/bin/env python3
"""Makes an image of OCI without the internet: a root file system of busybox and of programs with their libraries.

    image.py DIR [--program FILE]... [--library NAME]... [--arch amd64] [--user USER] [--owner UID] [--layers N] [--pad BYTES] [--path NAME]...

writes an OCI layout into DIR, whose one image has the name "t", and prints the manifest's digest. --library: one that a program opens by its name. --owner: a file of that
user in it. --layers: as many more layers, of a file each. --pad: bytes of a file that does not compress. --path: an empty
file of any name in a layer of its own, "../x" too; --symlink, --hard-link NAME=TARGET: links in one behind it. --setuid: a
program that is set to user and group 0, bin/as-root. --zeros: bytes of a file that compresses a thousand times, --files: so many empty ones. --eager: whatever of an image may run by itself says so: its entry
point, its check of health, its /bin/sh. skopeo copy oci:DIR:t docker://HOST/NAME:TAG brings it to a registry."""

import argparse
import gzip
import hashlib
import io
import json
import os
import random
import re
import shutil
import subprocess
import tarfile

TOOLS = "sh ls cat echo sleep id true false env kill mkdir rm cp mv dd head tail wc grep sed awk ps nc wget ping ip " \
        "mount umount mknod chown chmod ln touch yes seq sort tr od stat df free find date hostname sync test unshare tar".split()


def libraries(program):
    """What a program is linked with, and its loader, as the dynamic linker finds them."""
    said = subprocess.run(["ldd", program], capture_output=True, text=True).stdout
    return sorted(set(re.findall(r"(/\S+) \(0x", said)))


def opened(name):
    """Where the dynamic linker finds a library."""
    said = subprocess.run(["/sbin/ldconfig", "-p"], capture_output=True, text=True).stdout
    return re.search(r"\t" + re.escape(name) + r" .*=> (\S+)", said)[1]


class Layer:
    def __init__(self):
        self.bytes = io.BytesIO()
        self.tar = tarfile.open(fileobj=self.bytes, mode="w", format=tarfile.PAX_FORMAT)
        self.made = set()

    def info(self, name, mode, uid=0):
        t = tarfile.TarInfo(name)
        t.mode, t.uid, t.gid = mode, uid, uid
        return t

    def folder(self, name, mode=0o755):
        parts = name.split("/")
        for i in range(1, len(parts) + 1):
            path = "/".join(parts[:i])
            if path not in self.made:
                self.made.add(path)
                t = self.info(path, mode if i == len(parts) else 0o755)
                t.type = tarfile.DIRTYPE
                self.tar.addfile(t)

    def file(self, name, data, mode=0o644, uid=0):
        if "/" in name and not name.startswith("."):
            self.folder(name.rsplit("/", 1)[0])
        t = self.info(name, mode, uid)
        t.size = len(data)
        self.tar.addfile(t, io.BytesIO(data))

    def link(self, name, to, kind=tarfile.SYMTYPE):
        t = self.info(name, 0o777)
        t.type, t.linkname = kind, to
        self.tar.addfile(t)

    def done(self):
        self.tar.close()
        return self.bytes.getvalue()


def base(args):
    layer = Layer()
    for name in "bin", "etc", "proc", "sys", "dev", "run", "root", "var", "usr/bin":
        layer.folder(name)
    layer.folder("tmp", 0o1777)
    with open(shutil.which("busybox") or "/bin/busybox", "rb") as f:
        layer.file("bin/busybox", f.read(), 0o755)
    for name in TOOLS:
        if not (args.eager and name == "sh"):
            layer.link("bin/" + name, "busybox")
    if args.eager:
        layer.file("bin/sh", b"#!/bin/busybox sh\necho $0 ran\nexec /bin/busybox sh \"$@\"\n", 0o755)
    layer.file("etc/passwd", b"root:x:0:0:root:/root:/bin/sh\nuser:x:1000:1000::/:/bin/sh\n")
    layer.file("etc/group", b"root:x:0:\nuser:x:1000:\n")
    there = set()
    files = [(program, "usr/bin/" + os.path.basename(program)) for program in args.program]
    files += [(lib, lib.lstrip("/")) for lib in map(opened, args.library)]
    for file, its_name in files:
        for path, name in [(file, its_name)] + [(lib, lib.lstrip("/")) for lib in libraries(file)]:
            if name not in there:
                there.add(name)
                with open(path, "rb") as f:
                    layer.file(name, f.read(), 0o755)
    if args.setuid:
        with open(args.setuid, "rb") as f:
            layer.file("bin/as-root", f.read(), 0o6755)
    if args.eager:
        for name in "bin/entry", "bin/health":
            layer.file(name, b"#!/bin/busybox sh\necho $0 ran\nexec sleep 1000\n", 0o755)
    if args.owner is not None:
        layer.file("etc/owned", b"somebody's\n", uid=args.owner)
    return layer.done()


def main():
    p = argparse.ArgumentParser()
    p.add_argument("dir")
    p.add_argument("--program", action="append", default=[])
    p.add_argument("--library", action="append", default=[])
    p.add_argument("--arch", default="amd64")
    p.add_argument("--user", default="")
    p.add_argument("--owner", type=int)
    p.add_argument("--layers", type=int, default=0)
    p.add_argument("--pad", type=int, default=0)
    p.add_argument("--path", action="append", default=[])
    p.add_argument("--hard-link", action="append", default=[])
    p.add_argument("--symlink", action="append", default=[])
    p.add_argument("--setuid")
    p.add_argument("--zeros", type=int, default=0)
    p.add_argument("--files", type=int, default=0)
    p.add_argument("--eager", action="store_true")
    args = p.parse_args()
    blobs = os.path.join(args.dir, "blobs", "sha256")
    os.makedirs(blobs, exist_ok=True)

    def put(data, kind):
        digest = hashlib.sha256(data).hexdigest()
        with open(os.path.join(blobs, digest), "wb") as f:
            f.write(data)
        return {"mediaType": "application/vnd.oci.image." + kind, "digest": "sha256:" + digest, "size": len(data)}

    texts = [base(args)]
    for i in range(args.layers):
        layer = Layer()
        layer.file(f"layer{i}", b"%d\n" % i)
        texts.append(layer.done())
    if args.pad:
        layer = Layer()
        layer.file("pad", random.Random(1).randbytes(args.pad))
        texts.append(layer.done())
    if args.zeros:
        layer = Layer()
        layer.file("zeros", bytes(args.zeros))
        texts.append(layer.done())
    if args.files:
        layer = Layer()
        for i in range(args.files):
            layer.file(f"many{i}", b"")
        texts.append(layer.done())
    if args.path:
        layer = Layer()
        for name in args.path:
            layer.file(name, b"")
        texts.append(layer.done())
    if args.symlink or args.hard_link:
        layer = Layer()
        for pair in args.symlink:
            layer.link(*pair.split("=", 1))
        for pair in args.hard_link:
            layer.link(*pair.split("=", 1), tarfile.LNKTYPE)
        texts.append(layer.done())
    layers = [put(gzip.compress(t, 1, mtime=0), "layer.v1.tar+gzip") for t in texts]
    eager = {"Entrypoint": ["/bin/entry"], "Healthcheck": {"Test": ["CMD", "/bin/health"], "Interval": 1000000000}}
    config = put(json.dumps({
        "architecture": args.arch, "os": "linux",
        "config": dict({"Env": ["PATH=/usr/bin:/bin"], "Cmd": ["/bin/sh"], "User": args.user}, **(eager if args.eager else {})),
        "rootfs": {"type": "layers", "diff_ids": ["sha256:" + hashlib.sha256(t).hexdigest() for t in texts]},
    }).encode(), "config.v1+json")
    manifest = put(json.dumps({"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
                               "config": config, "layers": layers}).encode(), "manifest.v1+json")
    with open(os.path.join(args.dir, "oci-layout"), "w") as f:
        json.dump({"imageLayoutVersion": "1.0.0"}, f)
    with open(os.path.join(args.dir, "index.json"), "w") as f:
        json.dump({"schemaVersion": 2, "manifests": [
            dict(manifest, annotations={"org.opencontainers.image.ref.name": "t"})]}, f)
    print(manifest["digest"])


if __name__ == "__main__":
    main()
