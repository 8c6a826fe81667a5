"""feed_server DIR PORT_FILE: serves DIR/feed with an ETag; DIR/mode says how it misbehaves.

mode: ok (also when absent), error (500), garbage. Requests are logged to DIR/log, one line each.
"""
import hashlib, http.server, os, sys

directory, port_file = sys.argv[1:]


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        try:
            mode = open(directory + "/mode").read().strip()
        except FileNotFoundError:
            mode = "ok"
        body = open(directory + "/feed", "rb").read()
        tag = '"%s"' % hashlib.sha256(body).hexdigest()[:16]
        status = 200
        if mode == "error":
            status, body = 500, b"no"
        elif mode == "garbage":
            body = body[: len(body) // 2]
        elif self.headers.get("If-None-Match") == tag:
            status, body = 304, b""
        with open(directory + "/log", "a") as log:
            log.write("%d\n" % status)
        self.send_response(status)
        if status == 200 and mode != "error":
            self.send_header("ETag", tag)
            if os.path.exists(directory + "/modified"):
                self.send_header("Last-Modified", open(directory + "/modified").read().strip())
        if status != 304:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass


server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
with open(port_file + ".part", "w") as f:
    f.write("%d\n" % server.server_address[1])
os.rename(port_file + ".part", port_file)
server.serve_forever()
