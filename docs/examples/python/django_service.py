"""A Django service with limits, in one file: gunicorn --preload -w 4 django_service:app

Everybody has 100 requests a minute for the whole service, and a user, or who has no name an address,
5 searches a minute. Behind a proxy on this machine.
"""
import os

from django.conf import settings

settings.configure(
    ALLOWED_HOSTS=["*"], ROOT_URLCONF=__name__, SECRET_KEY="of this example",
    MIDDLEWARE=["weir.django.Middleware"],
    WEIR={"store": os.environ.get("WEIR_STORE", "memcached://localhost"), "trusted": "127.0.0.1", "rule": "100/1m"})

from django.core.wsgi import get_wsgi_application  # noqa: E402
from django.http import HttpResponse  # noqa: E402
from django.urls import path  # noqa: E402
from weir.django import exempt, limit  # noqa: E402


def index(request):
    return HttpResponse("hello\n")


@limit("5/1m", key=lambda request: request.headers.get("X-User"))
def search(request):
    return HttpResponse("found\n")


@exempt
def health(request):
    return HttpResponse("ok\n")


urlpatterns = [path("", index), path("search", search), path("health", health)]
app = get_wsgi_application()
