"""redirects.py ADDRESS CERT KEY MANIFEST TO: a registry of images over TLS on ADDRESS:443 that has one manifest and answers whoever asks for
its blobs with a redirect to TO. Prints "ready", and each path that is asked for."""
import http.server
import ssl
import sys

address, cert, key, manifest, to = sys.argv[1:]
with open(manifest, "rb") as f:
    BODY = f.read()


class Registry(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        print(self.path, flush=True)
        if "/blobs/" in self.path:
            self.send_response(307)
            self.send_header("Location", to)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        body = BODY if "/manifests/" in self.path else b"{}"
        self.send_response(200)
        self.send_header("Content-Type", "application/vnd.oci.image.manifest.v1+json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    do_HEAD = do_GET

    def log_message(self, *args):
        pass


server = http.server.ThreadingHTTPServer((address, 443), Registry)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(cert, key)
server.socket = context.wrap_socket(server.socket, server_side=True)
print("ready", flush=True)
server.serve_forever()
