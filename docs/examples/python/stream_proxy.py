"""A proxy before a model server that charges each account the tokens that really streamed.

    python3 stream_proxy.py PORT http://MODEL:PORT

A request takes the most it may cost, its max_tokens. When the answer has ended, or its client or the
model has gone, the reservation is settled at what came. So the limit holds however many ask at once,
and an answer that was short costs little.
"""
import http.client
import http.server
import json
import os
import sys
import urllib.parse

import weir

store = weir.Store(os.environ.get("WEIR_STORE", "memcached://localhost"))
tokens = weir.Limiter(store, os.environ.get("WEIR_RULE", "sliding-window:100000/1m,debt=8000"))
model = urllib.parse.urlsplit(sys.argv[2]).netloc


class Proxy(http.server.BaseHTTPRequestHandler):
    timeout = 60  # seconds for which a client may keep a thread without a byte

    def do_POST(self):
        account = self.headers.get("X-Account", "")
        body = self.rfile.read(min(int(self.headers.get("Content-Length", 0)), 1 << 20))
        try:
            most = int(json.loads(body)["max_tokens"])
            reserved = tokens.reserve(account, most)
        except (ValueError, TypeError, KeyError, weir.Error) as error:
            return self.send_error(400, explain=str(error))
        if not reserved:
            return self.refuse(reserved.decision)
        streamed = 0
        try:
            for line in self.answer_of_model(body):
                streamed += line.startswith(b"data: ") and line.strip() != b"data: [DONE]"
                self.wfile.write(line)
        except (OSError, http.client.HTTPException):
            self.close_connection = True  # the client has gone, or the model; what streamed is charged
        finally:
            self.settle(reserved, streamed)

    def answer_of_model(self, body):
        connection = http.client.HTTPConnection(model, timeout=60)
        try:
            connection.request("POST", self.path, body, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            self.send_response(answer.status)
            self.send_header("Content-Type", answer.headers.get("Content-Type", "text/event-stream"))
            self.end_headers()
            yield from answer
        finally:
            connection.close()

    def settle(self, reserved, streamed):
        try:
            reserved.settle(streamed)
        except weir.Error as error:  # the estimate stays charged
            self.log_error("not settled: %s", error)

    def refuse(self, decision):
        self.send_response(429)
        for name, value in tokens.http_fields("tokens", decision).items():
            self.send_header(name, value)
        self.end_headers()


http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Proxy).serve_forever()
