"""The files of the container image, in a root of their own: they serve the configuration of
docs/serve/kubernetes.yaml, notice its change through links as a ConfigMap has them, and end.

    image.py PROGRAM"""

import http.client
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import tempfile
import textwrap
import time

HERE = pathlib.Path(__file__).resolve().parent
PACKAGING = HERE.parent.parent / "src/packaging"
MANIFEST = HERE.parent.parent / "docs/serve/kubernetes.yaml"
PATIENCE_S = 30
MEGABYTES_MOST = 60


def replace(text, *pairs):
    for old, new in pairs:
        assert old in text, f"the manifest has no {old}"
        text = text.replace(old, new)
    return text


def free_ports(count):
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def ask(port, path):
    try:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
        connection.request("GET", path, headers={"Host": "localhost"})
        return connection.getresponse().status
    except OSError:
        return None


def await_that(what, text):
    end = time.monotonic() + PATIENCE_S
    while not what():
        assert time.monotonic() < end, text
        time.sleep(0.02)


def publish(folder, version, text):
    """As the kubelet does: a folder of the new version, and one link that is exchanged."""
    (folder / version).mkdir()
    (folder / version / "weir.yaml").write_text(text)
    (folder / "..data_tmp").symlink_to(version)
    (folder / "..data_tmp").rename(folder / "..data")
    if not (folder / "weir.yaml").is_symlink():
        (folder / "weir.yaml").symlink_to("..data/weir.yaml")


def main(program):
    with tempfile.TemporaryDirectory() as work:
        os.chmod(work, 0o755)
        said = subprocess.run(["sh", PACKAGING / "image.sh", work], check=True, capture_output=True, text=True,
                              env=dict(os.environ, WEIR_PROGRAM=program)).stdout
        assert int(said.split()[0]) < MEGABYTES_MOST, said
        root = pathlib.Path(work, "root")
        names = {path.name for path in root.rglob("*")}
        assert not names & {"sh", "bash", "dash", "perl", "apt", "dpkg"}, names

        indented = re.search(r"  weir\.yaml: \|\n((?:    .*\n)+)", MANIFEST.read_text()).group(1)
        web, resp, admin = free_ports(3)
        pool = re.search(r"memcached://[^\"]*", indented).group()
        config = replace(textwrap.dedent(indented), (pool, "memory:"), ("0.0.0.0:8080", f"127.0.0.1:{web}"),
                         ("0.0.0.0:6380", f"127.0.0.1:{resp}"), ("0.0.0.0:9090", f"127.0.0.1:{admin}"))
        folder = root / "etc/weir"
        publish(folder, "..1", replace(config, ("sliding-window:100/1m", "quota:1/1h")))

        # Only root may enter another root; others do so in a namespace of their own.
        enter = ["chroot", "--userspec=65432:65432"] if os.getuid() == 0 else ["unshare", "-r", "chroot"]
        command = [*enter, root, "/usr/bin/weir", "serve", "/etc/weir/weir.yaml"]
        process = subprocess.Popen(command, stderr=subprocess.PIPE, env={"PATH": os.environ["PATH"] + ":/usr/sbin"})
        try:
            await_that(lambda: ask(admin, "/readyz") == 200, "not ready")
            assert ask(admin, "/healthz") == 200
            assert [ask(web, "/check/api?key=a") for _ in range(2)] == [200, 429]
            publish(folder, "..2", replace(config, ("sliding-window:100/1m", "quota:3/1h,name=b")))
            await_that(lambda: ask(web, "/check/api?key=a") == 200, "a changed link is not noticed")
        finally:
            process.send_signal(signal.SIGTERM)
            log = process.communicate(timeout=PATIENCE_S)[1].decode()
        assert process.returncode == 0, log
        print(said.strip())


if __name__ == "__main__":
    main(sys.argv[1])
