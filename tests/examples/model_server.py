"""A model server for tests: streams as many tokens as a request's `tokens` says, one each
`every_s`, and says at /count how many it has sent of each account.

    model_server.py PORT
"""
import collections
import http.server
import json
import sys
import threading
import time

sent = collections.Counter()
lock = threading.Lock()


class Model(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        for number in range(min(asked["tokens"], asked.get("most", asked["tokens"]))):
            time.sleep(asked.get("every_s", 0))
            try:
                self.wfile.write(b"data: %d\n" % number)
            except OSError:
                return
            with lock:
                sent[asked.get("account", "")] += 1
        self.wfile.write(b"data: [DONE]\n")

    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        with lock:
            self.wfile.write(json.dumps(sent).encode())

    def log_message(self, *_):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Model)
server.daemon_threads = True
server.serve_forever()
