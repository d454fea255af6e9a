"""A rule of a pool that changes at half of its servers."""

import contextlib
import random
import signal
import threading
import time
import unittest

from changes import most_in_a_period
from server import Server, Store, command


class Divided(unittest.TestCase):
    """A pool whose rule changes at one server after another, while both are asked for forty times what they have."""

    LIMIT, PERIOD_US, CHANGED_S, PAUSE_S = 2000, 5000000, 4, 0.001
    CONFIG = """listen: {resp: {address: "127.0.0.1:0", says: [tenant]}}
stores: {main: {url: "%s?timeout=400ms", fallback: none}}
limiters: {pool: {store: main, rule: "%s"}}
"""
    OLD = "shared-window:2000/5s,weights=north:5|south:3,floors=40%"
    NEW = "shared-window:2000/5s,weights=north:1|south:1|east:8,floors=90%"

    def ask(self, server, over, admitted):
        chance = random.Random(server.ports["resp"][0])
        with contextlib.closing(server.connect()) as client:
            while not over.is_set():
                asked = [(chance.choice(("north", "south", "east")), chance.randint(1, 5)) for _ in range(8)]
                client.send(b"".join(command("WEIR.TAKE", "pool", "p", "TENANT", tenant, "COST", cost) for tenant, cost in asked))
                for _, cost in asked:
                    flat = client.reply()
                    told = dict(zip(flat[::2], flat[1::2])) if isinstance(flat, list) else {"allowed": 0}
                    if told["allowed"] == 1:
                        admitted.append((int(told["stamp"].split(".")[0]), cost))
                time.sleep(self.PAUSE_S)

    def test_a_change_at_half_of_the_servers_is_never_over(self):
        for kind in ("memcached", "redis"):
            store = Store(kind)
            self.addCleanup(store.end)
            servers = [Server(self.CONFIG % (store.url, self.OLD)) for _ in range(2)]
            over, admitted = threading.Event(), []
            threads = [threading.Thread(target=self.ask, args=(server, over, admitted)) for server in servers]
            for server in servers:
                self.addCleanup(server.end)
            for thread in threads:
                thread.start()
            for server in servers:
                time.sleep(self.CHANGED_S)
                server.write(server.config.replace(self.OLD, self.NEW))
                server.process.send_signal(signal.SIGHUP)
                server.await_log("is in use now")
            time.sleep(self.CHANGED_S)
            over.set()
            for thread in threads:
                thread.join()
            self.assertGreater(len(admitted), 0)
            self.assertLessEqual(most_in_a_period(sorted(admitted), self.PERIOD_US, False), self.LIMIT)


if __name__ == "__main__":
    unittest.main()
