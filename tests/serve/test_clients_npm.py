"""Clients of npm's registry at their defaults, by docs/serve/clients.md."""

import os
import unittest

from test_clients import Programs

# Many at once, by the pool and over the one connection of a client.
POOLED = """
const { createClient, createClientPool } = require("redis");

async function main() {
  const url = "redis://127.0.0.1:6380";
  const client = await createClient({ url }).connect();
  const pool = await createClientPool({ url }, { minimum: 4, maximum: 4 }).connect();
  for (const limits of [client, pool]) {
    const key = limits === pool ? "pooled" : "at once";
    const answers = await Promise.all(
      Array.from({ length: 200 }, () => limits.sendCommand(["CL.THROTTLE", key, "15", "1", "86400"])));
    console.log(answers.filter(([limited]) => limited === 0).length);
  }
  const { proto } = await client.sendCommand(["HELLO"]);
  const { allowed, limit } = await pool.sendCommand(["WEIR.PEEK", "api", "pooled"]);
  console.log(proto, allowed, limit);
  await client.close();
  await pool.close();
}

main();
"""


class Npm(Programs):
    def node(self, program):
        return self.run_it("node", "--unhandled-rejections=strict", "-e", program,
                           env={**os.environ, "NODE_PATH": os.environ["WEIR_NPM_MODULES"]})

    def test_node_redis(self):
        self.assertEqual(self.node(self.block("js")), "0 16 15\n")

    def test_node_redis_with_many_at_once(self):
        self.assertEqual(self.node(self.on_ports(POOLED)), "16\n16\n3 1 3\n")

    def test_ioredis(self):
        self.assertEqual(self.node(self.block("js", 1)), "0 16 15\n0 16 15\n")

    def test_glide(self):
        self.assertEqual(self.node(self.block("js", 2)), "2\n0 16 15\n0 16 15\n")


if __name__ == "__main__":
    unittest.main()
