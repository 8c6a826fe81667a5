"""market_server DIR PORT_FILE: a market that pages, throttles and lies, for the tests of rnp-price.

GET and POST of /NAME serve DIR/NAME. DIR/NAME.how says how, one word a line:
  pages           prime's pages: items of the file, by ?page= and ?page_size=; totalCount as in the file
  cursor          a registry's pages: nodes of the file, two at a time, by ?cursor=
  same-page       every page is the first one
  count:N         states N rows
  grow            states one row more with each page
  throttle:N:S    the first N requests get 429 with Retry-After: S
  truncate        sends half of the body and closes the connection
  slow-close      the same, without a length
  key:TEXT        401 without "Authorization: Bearer TEXT"
  redirect:URL    307 to URL
  bad:METHOD      405 for this method
  gzip            compresses
Each request is logged to DIR/log: status, method, path, Authorization or -.
"""
import gzip, http.server, json, os, sys, urllib.parse

directory, port_file = sys.argv[1:3]
asked = {}


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def reply(self, status, body=b"", headers=()):
        with open(directory + "/log", "a") as log:
            log.write("%d %s %s %s\n" % (status, self.command, self.path, self.headers.get("Authorization", "-")))
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def page(self, how, doc, query):
        if "pages" in how:
            number, size = int(query.get("page", "1")), int(query.get("page_size", "10"))
            if "same-page" in how:
                number = 1
            doc = dict(doc, items=doc["items"][(number - 1) * size : number * size])
            for word in how:
                if word.startswith("count:"):
                    doc["totalCount"] = int(word[6:])
            if "grow" in how:
                doc["totalCount"] += int(query.get("page", "1"))
        else:
            start = int(query.get("cursor", "0"))
            rows = doc["nodes"]
            doc = {"nodes": rows[start : start + 2]}
            if start + 2 < len(rows):
                doc["next"] = str(start + 2)
            if "same-page" in how:
                doc = {"nodes": rows[:2], "next": "2"}
        return json.dumps(doc).encode()

    def answer(self):
        url = urllib.parse.urlsplit(self.path)
        name = url.path.strip("/").replace("/", "_")
        length = int(self.headers.get("Content-Length", "0"))
        sent = self.rfile.read(length)
        try:
            how = open("%s/%s.how" % (directory, name)).read().split()
        except FileNotFoundError:
            how = []
        asked[name] = asked.get(name, 0) + 1
        for word in how:
            kind, _, value = word.partition(":")
            if kind == "key" and self.headers.get("Authorization") != "Bearer " + value:
                return self.reply(401, b'{"error":"no such key"}')
            if kind == "bad" and self.command == value:
                return self.reply(405)
            if kind == "throttle":
                times, seconds = value.split(":")
                if asked[name] <= int(times):
                    return self.reply(429, b'{"msg":"too many"}', [("Retry-After", seconds)])
            if kind == "redirect":
                return self.reply(307, b"", [("Location", value)])
        try:
            body = open("%s/%s" % (directory, name), "rb").read()
        except FileNotFoundError:
            return self.reply(404, b'{"error":"nothing here"}')
        if self.command == "POST" and b"gpuTypes" not in sent:
            return self.reply(400, b'{"error":"no query"}')
        if "pages" in how or "cursor" in how:
            body = self.page(how, json.loads(body), dict(urllib.parse.parse_qsl(url.query)))
        if "truncate" in how:
            with open(directory + "/log", "a") as log:
                log.write("200 %s %s cut\n" % (self.command, self.path))
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body[: len(body) // 2])
            self.close_connection = True
            return
        if "slow-close" in how:
            self.send_response(200)
            self.send_header("Connection", "close")
            self.end_headers()
            self.wfile.write(body[: len(body) // 2])
            self.close_connection = True
            return
        if "gzip" in how:
            return self.reply(200, gzip.compress(body), [("Content-Encoding", "gzip")])
        self.reply(200, body)

    do_GET = do_POST = answer

    def log_message(self, *args):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
with open(port_file + ".part", "w") as f:
    f.write("%d\n" % server.server_address[1])
os.rename(port_file + ".part", port_file)
server.serve_forever()
