#!/usr/bin/env python3
"""serve_memory.py PORT PID MODEL: what bodies of 16 MB take of a server's memory, and of `rnp-serve batch`.

Every kind of request that a stranger can send, each with what its values take most of. Prints how far its peak was
above what the server had at first; exit 1 where that is more than 8 times the body's bytes."""
import http.client, re, subprocess, sys, tempfile, time

port, pid, model = sys.argv[1:]
N = 16_000_000


def status(key):
    return int(re.search(key + r":\s+(\d+)", open(f"/proc/{pid}/status").read()).group(1)) * 1024


def fill(head, item, tail, sep=b","):
    """Items between head and tail, N bytes in all."""
    n = (N - len(head) - len(tail)) // (len(item) + len(sep))
    return head + sep.join([item] * n) + tail


def wide(item, n):
    """n texts, which share N bytes."""
    return b",".join([item % (b"a b " * (N // n // 4 - 12))] * n)


words = b"The quick brown fox jumps over the lazy dog. " * (N // 45 - 10)
chat = b'{"messages":[{"role":"user","content":"x"}],"max_tokens":1,'
CHAT, TEXT, RESPONSES, EMBED = "/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/embeddings"
kinds = [
    (CHAT, b'{"messages":[{"role":"user","content":"' + words + b'"}]}'),
    (CHAT, fill(b'{"messages":[{"role":"user","content":"', b"x", b'"}]}', b"")),
    (CHAT, fill(b'{"messages":[{"role":"user","content":"', b"\\n", b'"}]}', b"")),
    (CHAT, fill(b'{"messages":[{"role":"user","content":[', b'{"type":"text","text":"a"}', b"]}]}")),
    (CHAT, b'{"messages":[' + wide(b'{"role":"user","content":"%s"}', 4000) + b"]}"),
    (CHAT, b'{"messages":[{"role":"user","content":"x"},{"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":"'
     + fill(b'{\\"a\\":[', b"[]", b"]}")[:N - 200].rstrip(b",[") + b'"}}]}]}'),
    *((CHAT, fill(chat + b'"x":[', item, b"]}")) for item in (b"1", b"0.5", b'""', b"[]", b"{}", b'{"":0}')),
    (CHAT, chat + b'"x":{' + b",".join(b'"%07x":0' % i for i in range(N // 12 - 20)) + b"}}"),
    (CHAT, fill(chat + b'"chat_template_kwargs":{"x":[', b'"aaaaaaaa"', b"]}}")),
    (CHAT, chat + b'"tools":[{"type":"function","function":{"name":"f","description":"' + words + b'"}}]}'),
    (CHAT, fill(chat + b'"response_format":{"type":"json_schema","json_schema":{"schema":{"enum":[', b'"aaaaaaaa"', b"]}}}}")),
    (CHAT, chat + b'"prediction":{"type":"content","content":"' + words + b'"}}'),
    (TEXT, b'{"max_tokens":1,"prompt":"' + words + b'"}'),
    (TEXT, fill(b'{"max_tokens":1,"prompt":[', b"5", b"]}")),
    (TEXT, b'{"max_tokens":1,"prompt":[' + wide(b'"%s"', 128) + b"]}"),
    (TEXT, b'{"max_tokens":1,"prompt":"a","suffix":"' + words + b'"}'),
    (EMBED, b'{"input":[' + wide(b'"%s"', 2000) + b"]}"),
    (RESPONSES, b'{"max_output_tokens":1,"input":[' + wide(b'{"role":"user","content":"%s"}', 4000) + b"]}"),
    (RESPONSES, fill(b'{"max_output_tokens":1,"input":[{"role":"user","content":[', b'{"type":"input_text","text":"a"}', b"]}]}")),
    ("/tokenize", b'{"content":"' + words + b'"}'),
    ("/tokenize", fill(b'{"content":"', b"x", b'"}', b"")),
    ("/detokenize", fill(b'{"tokens":[', b"5", b"]}")),
    ("/apply-template", b'{"messages":[{"role":"user","content":"' + words + b'"}]}'),
    (CHAT, fill(b"", b"[", b"", b"")),
    (CHAT, b"\xef\xbb\xbf" + fill(b"[", b"[]", b"]")),
]
def settle():
    """Waits until what was taken for the request before is given back, which a thread does after the answer."""
    last, until = status("VmRSS"), time.monotonic() + 3
    while time.monotonic() < until:
        time.sleep(0.1)
        now = status("VmRSS")
        if now == last:
            break
        last = now


idle, bad = status("VmRSS"), 0


def ask(path, body):
    """The peak of one request above what was there at first, in bodies."""
    settle()
    open(f"/proc/{pid}/clear_refs", "w").write("5")  # the peak from here on
    c = http.client.HTTPConnection("127.0.0.1", int(port), timeout=120)
    c.request("POST", path, body, {"Content-Type": "application/json"})
    answer = c.getresponse()
    said = answer.read()
    times = (status("VmHWM") - idle) / len(body)
    print(f"{times:5.1f} {answer.status} {path} {len(body)} {body[:60]!r} {said[:120]!r}")
    assert answer.status in (200, 400), (path, answer.status, said)
    return times


for path, body in kinds:
    # what the allocator still holds of requests before only adds: the least of three counts
    bad += all(ask(path, body) > 8 for _ in range(3))


def batch(line):
    """The peak of a batch of one line, as a small process sees it: a child begins with its parent's."""
    with tempfile.NamedTemporaryFile() as f:
        f.write(line + b"\n")
        f.flush()
        # 65: the line is refused, as most of these are
        small = "import resource, subprocess, sys; " \
            "code = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode; " \
            "assert code in (0, 65), code; " \
            "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
        return 1024 * int(subprocess.check_output([sys.executable, "-c", small, "rnp-serve", "batch", "--model", model, f.name]))


least = batch(b'{"custom_id":"a","url":"/v1/completions","body":{"prompt":"x","max_tokens":1}}')
for body in (b'{"messages":[{"role":"user","content":"' + words[:-200] + b'"}]}', fill(chat + b'"x":[', b"[]", b"]}")[:-300] + b"]}"):
    times = (batch(b'{"custom_id":"a","url":"/v1/chat/completions","body":' + body + b"}") - least) / len(body)
    print(f"{times:5.1f} batch {len(body)}")
    bad += times > 8
sys.exit(bad > 0)
