"""A Flask service with limits: gunicorn --preload -w 4 flask_service:app

Everybody has 100 requests a minute for the whole service, and a user, or who has no name an address,
5 searches a minute. Behind a proxy on this machine.
"""
import os

import weir.flask
from flask import Flask, request

app = Flask(__name__)
limit = weir.flask.Limits(os.environ.get("WEIR_STORE", "memcached://localhost"), trusted="127.0.0.1")
limit.all(app, "100/1m")


@app.get("/")
def index():
    return "hello\n"


@app.get("/search")
@limit("5/1m", key=lambda: request.headers.get("X-User"))
def search():
    return "found\n"


@app.get("/health")
@limit.exempt
def health():
    return "ok\n"
