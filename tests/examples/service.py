"""The examples' tests share this: a service that runs while a block does, and requests to it."""
import contextlib
import http.client
import socket
import subprocess
import time


def free_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


def connect(port):
    return http.client.HTTPConnection("127.0.0.1", port, timeout=60)


def get(port, path, headers=()):
    """Status, fields with lower-case names (several of one joined by commas), body. Headers are pairs, and
    may repeat a name."""
    connection = connect(port)
    try:
        connection.putrequest("GET", path)
        for name, value in headers:
            connection.putheader(name, value)
        connection.endheaders()
        response = connection.getresponse()
        fields = {}
        for name, value in response.getheaders():
            before = fields.get(name.lower())
            fields[name.lower()] = value if before is None else f"{before}, {value}"
        return response.status, fields, response.read().decode()
    finally:
        connection.close()


@contextlib.contextmanager
def running(program, *arguments, ready="/health"):
    """Yields the port and the process; afterwards it must end well by SIGTERM."""
    port = free_port()
    with subprocess.Popen([program, f"127.0.0.1:{port}", *arguments], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True) as process:
        try:
            end = time.monotonic() + 60
            while True:
                try:
                    get(port, ready)
                    break
                except OSError:
                    assert process.poll() is None and time.monotonic() < end, process.communicate()
                    time.sleep(0.02)
            yield port, process
        except BaseException:
            process.kill()
            raise
        process.terminate()
        process.out, process.err = process.communicate(timeout=60)
        assert process.returncode == 0, (process.returncode, process.err)
