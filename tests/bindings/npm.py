"""npm packs and installs the Node package from a copy of its folder, node-gyp builds it against the
installed library, and README's program and the services of docs/examples/node run with it; uninstalled,
nothing of it is left. npm.py EXAMPLES PREFIX LIBDIR MODULES: MODULES are those of npm's registry."""
import contextlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import hostile_requests
from services import Memcached, Service, check, through_an_outage

PACKAGE = pathlib.Path(__file__).resolve().parents[2] / "src/bindings/node"
EXAMPLES, PREFIX, LIBDIR, MODULES = (pathlib.Path(each) for each in sys.argv[1:5])
del sys.argv[1:]


# As those of hostile_requests.py: one process serves all, each at a port of its own.
HOSTILE = """
const { Store } = require('weir');
const note = (request) => require('fs').writeSync(1, JSON.stringify([(request.headers['x-api-key'] ?? '').slice(0, 300)]) + '\\n');
const express = (version) => (store, options) => {
  const app = require(version)();
  app.use(require('weir/express')(store, '3/1d', options));
  app.use((request, response) => { note(request); response.end(); });
  return (port) => app.listen(port, '127.0.0.1');
};
const served = { express: express('express'), express5: express('express5'), fastify: (store, options) => {
  const app = require('fastify')();
  app.register(require('weir/fastify'), { store, rule: '3/1d', ...options });
  app.all('*', async (request) => { note(request.raw); return ''; });
  return (port) => app.listen({ port, host: '127.0.0.1' });
} };
for (const [name, by, port, url] of JSON.parse(process.env.LIMITS)) {
  const key = by === 'key' ? { key: (request) => request.headers['x-api-key'] } : {};
  served[name](new Store(url), { trusted: '127.0.0.1', name: 'all', ...key })(port);
}
"""

WORKERS = """
const cluster = require('cluster');
if (cluster.isPrimary) {
  for (let i = 0; i < 4; i++) cluster.fork();
  process.on('SIGTERM', () => { for (const worker of Object.values(cluster.workers)) worker.kill(); process.exit(); });
} else {
  const { Store } = require('weir');
  const store = new Store(process.env.WEIR_STORE);
  SERVED
}
"""
CLUSTERS = {"express": """
  const app = require('express')();
  app.use(require('weir/express')(store, '1000000/1h', { exempt: (request) => request.path === '/health' }));
  app.get('/', (request, response) => response.send(String(process.pid)));
  app.get('/health', (request, response) => response.send('ok'));
  app.listen(Number(process.argv[2]), '127.0.0.1');
""", "fastify": """
  const app = require('fastify')();
  app.register(require('weir/fastify'), { store, rule: '1000000/1h', exempt: (request) => request.url === '/health' });
  app.get('/', async () => String(process.pid));
  app.get('/health', async () => 'ok');
  app.listen({ port: Number(process.argv[2]), host: '127.0.0.1' });
"""}


class Npm(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        cls.project = cls.folder / "project"
        cls.project.mkdir()
        library = PREFIX / LIBDIR
        # weir.pc tells where it stands by its own place.
        cls.environment = {**os.environ, "PKG_CONFIG_PATH": str(library / "pkgconfig"), "LD_LIBRARY_PATH": str(library),
                           "npm_config_audit": "false", "npm_config_fund": "false", "npm_config_offline": "true"}
        cls.environment.pop("WEIR_NODE_ADDON", None)
        if pathlib.Path("/usr/include/node/node_api.h").exists():
            cls.environment["npm_config_nodedir"] = "/usr"
        (cls.project / "package.json").write_text('{"name": "stranger", "private": true}')
        shutil.copytree(PACKAGE, cls.folder / "copy", ignore=shutil.ignore_patterns("build", "node_modules"))
        packed = cls.run_it("npm", "pack", "--silent", "../copy").strip().splitlines()[-1]
        cls.before = cls.files()
        cls.run_it("npm", "install", "--silent", "./" + packed)
        for each in MODULES.iterdir():
            if not each.name.startswith("."):
                (cls.project / "node_modules" / each.name).symlink_to(each)
        for each in EXAMPLES.iterdir():
            shutil.copy(each, cls.project)

    @classmethod
    def run_it(cls, *command):
        done = subprocess.run(command, cwd=cls.project, env=cls.environment, text=True, timeout=120, check=False,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    @classmethod
    def files(cls):
        return {str(each.relative_to(cls.project)) for each in cls.project.rglob("*")}

    def service(self, name):
        return Service(name, ["node", f"{name}_service.js", "PORT"], self.project, self.environment)

    def test_express(self):
        with self.service("express") as service:
            check(self, service)

    def test_fastify(self):
        with self.service("fastify") as service:
            check(self, service)

    def test_forms(self):
        shutil.copy("forms.js", self.project)
        self.assertEqual(self.run_it("node", "forms.js").splitlines()[-1], "all forms")

    def test_four_workers_while_the_store_goes_and_comes(self):
        with contextlib.ExitStack() as stack:
            memcached = stack.enter_context(Memcached())
            services = []
            for name, text in CLUSTERS.items():
                (self.project / f"cluster_{name}.js").write_text(WORKERS.replace("SERVED", text))
                services.append(stack.enter_context(Service(
                    name, ["node", f"cluster_{name}.js", "PORT"], self.project, self.environment,
                    memcached.url(f"timeout=5s&namespace={name}"), self.folder / f"{name}.log")))
            through_an_outage(self, memcached, services, 4)

    def test_hostile_requests(self):
        (self.project / "hostile.js").write_text(HOSTILE)
        limits = [(name, by) for name in ("express", "express5", "fastify") for by in ("key", "address")]
        hostile_requests.assert_all_hold([hostile_requests.Service(self, limits, ["node", "hostile.js"], self.project, self.environment)])

    def test_types(self):
        """Lines of typed.ts that say so are refused, and no others."""
        shutil.copy("typed.ts", self.project)
        said = subprocess.run(["node", MODULES / "typescript/bin/tsc", "--strict", "--noEmit", "--esModuleInterop", "--target", "es2022",
                               "--module", "node16", "--preserveSymlinks", "typed.ts"],
                              cwd=self.project, capture_output=True, text=True, check=False, timeout=120).stdout
        lines = pathlib.Path("typed.ts").read_text(encoding="ascii").splitlines()
        wanted = [number for number, line in enumerate(lines, 1) if "// refused" in line]
        found = re.findall(r"^(\S+)\((\d+),\d+\): error", said, re.M)
        self.assertEqual([(file, int(line)) for file, line in found], [("typed.ts", line) for line in wanted], said)

    def test_not_built(self):
        with tempfile.TemporaryDirectory() as folder:
            shutil.copy(PACKAGE / "index.js", folder)
            said = subprocess.run(["node", "-e", "require('./index.js')"], cwd=folder, env=self.environment, capture_output=True,
                                  text=True, check=False, timeout=60).stderr
            self.assertIn("npm rebuild weir", said)

    def test_readme(self):
        program = re.findall(r"^```js run\n(.*?)^```$", (PACKAGE / "README.md").read_text(), re.M | re.S)[0]
        url = os.environ["WEIR_TEST_MEMCACHED_META"] + "&timeout=10s&namespace=readme"
        self.assertIn("memcached://localhost", program)
        said = self.run_it("node", "-e", program.replace("memcached://localhost", url))
        self.assertIn("go on, 99 left\n[ true, true, 'BAD_KEY' ]\n", said)

    def test_uninstalled(self):
        """In a project of its own: npm removes what it did not install."""
        with tempfile.TemporaryDirectory() as other:
            packed, = self.project.glob("weir-*.tgz")
            shutil.copy(packed, other)
            pathlib.Path(other, "package.json").write_text('{"name": "other", "private": true}')
            for command in (["install", "--ignore-scripts", packed.name], ["uninstall", "weir"]):
                subprocess.run(["npm", "--silent", *command], cwd=other, env=self.environment, check=True, timeout=120)
            left = {str(each.relative_to(other)) for each in pathlib.Path(other).rglob("*")}
            self.assertEqual(left - {"node_modules", "node_modules/.package-lock.json", "package-lock.json"},
                             {packed.name, "package.json"})


if __name__ == "__main__":
    unittest.main()
