"""vast_host DIR PORT_FILE: the host's side of Vast's API, for the tests of rnp-price publish.

DIR/machines is the answer of GET /api/v0/machines/; PUT /api/v0/machines/create_asks/ changes it. DIR/how
says what goes wrong, one word a line:
  hang:STEP    stops for good at get1 (the first GET), before (the change), after (the change), get2
  refuse       answers {"success": false, "msg": "machine not verified"}
  busy:N       429 to the first N requests
  lie          says success and changes nothing
  round        keeps prices to 4 places
Each request is logged to DIR/log: method, path, body. DIR/reached is written when it hangs.
"""
import http.server, json, os, sys, threading, time

directory, port_file = sys.argv[1:3]
lock = threading.Lock()
state = {"gets": 0, "asked": 0}


def how():
    try:
        return open(directory + "/how").read().split()
    except FileNotFoundError:
        return []


def hang(step):
    if "hang:" + step in how():
        open(directory + "/reached", "w").close()
        time.sleep(600)


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def reply(self, status, body, headers=()):
        data = json.dumps(body).encode()
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def guard(self, body=""):
        with lock, open(directory + "/log", "a") as log:
            log.write("%s %s %s\n" % (self.command, self.path, body))
        state["asked"] += 1
        if self.headers.get("Authorization") != "Bearer host-key":
            self.reply(401, {"success": False, "msg": "Invalid user key"})
            return False
        for word in how():
            if word.startswith("busy:") and state["asked"] <= int(word[5:]):
                self.reply(429, {"detail": "API requests too frequent"}, [("Retry-After", "1")])
                return False
        return True

    def do_GET(self):
        if not self.guard():
            return
        state["gets"] += 1
        puts = sum(1 for line in open(directory + "/log") if line.startswith("PUT"))
        hang("get2" if puts else "get1")
        self.reply(200, json.load(open(directory + "/machines")))

    def do_PUT(self):
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        if not self.guard(body):
            return
        ask = json.loads(body)
        if "refuse" in how():
            return self.reply(200, {"success": False, "msg": "machine not verified"})
        hang("before")
        with lock:
            doc = json.load(open(directory + "/machines"))
            for m in doc["machines"]:
                if m["id"] == ask["machine"] and "lie" not in how():
                    price = round(ask["price_gpu"], 4) if "round" in how() else ask["price_gpu"]
                    m.update(listed=True, listed_gpu_cost=price, min_bid_price=ask.get("price_min_bid", 0.0),
                             listed_inet_up_cost=ask.get("price_inetu", 0.02), listed_min_gpu_count=ask.get("min_chunk", 1),
                             end_date=ask.get("end_date", 0))
            with open(directory + "/machines.new", "w") as f:
                json.dump(doc, f)
            os.rename(directory + "/machines.new", directory + "/machines")
        hang("after")
        self.reply(200, {"success": True, "extended": 0})

    def log_message(self, *args):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
server.daemon_threads = True
with open(port_file + ".part", "w") as f:
    f.write("%d\n" % server.server_address[1])
os.rename(port_file + ".part", port_file)
server.serve_forever()
