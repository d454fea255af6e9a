"""gRPC with grpc-js of npm: a second runtime of protobuf and of HTTP/2, which are not Debian's."""

import json
import os
import subprocess
import unittest

from envoy import LISTEN, Served, entries, per_year, question
from server import PATIENCE_S, http
from test_http import post

HERE = os.path.dirname(os.path.abspath(__file__))


class Js(Served):
    listen = LISTEN + '  grpc: {address: "127.0.0.1:0"}\n'

    def test_answers_are_those_of_json(self):
        server = self.start({"edge.yaml": "domain: edge\ndescriptors:\n  - {key: ip, %s}\n  - {key: named, %s}\n"
                             "  - {key: free, rate_limit: {unlimited: true}}\n" %
                             (per_year(3), per_year(2, ", name: a name"))}, ", domains: {edge: {headers: draft-03}}")
        asked = [question("edge", *descriptors, **more) for descriptors, more in (
            (["ip=KEY"], {}), (["ip=KEY", "free=KEY", "named=KEY"], {}), (["ip=KEY"], {"hitsAddend": 2}),
            ([{"entries": entries("ip=KEY"), "hitsAddend": 0}], {}), (["other=KEY"], {}), (["ip=KEY"] * 2, {}),
            ([{"entries": entries("own=KEY"), "limit": {"requestsPerUnit": 2, "unit": "YEAR"}}], {"hitsAddend": 3}))]
        lines = "".join(json.dumps(self.wrapped(one)).replace("KEY", "g") + "\n" for one in asked)
        result = subprocess.run(["node", os.path.join(HERE, "grpc_js.js"), "127.0.0.1:%d" % server.ports["grpc"][0]],
                                input=lines, capture_output=True, text=True, timeout=PATIENCE_S, check=False,
                                env={**os.environ, "NODE_PATH": os.environ["WEIR_NPM_MODULES"]})
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        told = [json.loads(line) for line in result.stdout.splitlines()]
        client = server.connect("http")
        for one, mine in zip(asked, told, strict=True):
            body = http(client, post("/json", json.loads(json.dumps(one).replace("KEY", "h"))))[1]
            self.assertEqual(self.plain(mine), self.plain(json.loads(body)), one)
        client.close()

    def test_what_is_no_request(self):
        server = self.start({"edge.yaml": "domain: edge\ndescriptors: [{key: ip, %s}]\n" % per_year(3)})
        result = subprocess.run(["node", os.path.join(HERE, "grpc_js.js"), "127.0.0.1:%d" % server.ports["grpc"][0]],
                                input='{}\n{"domain": "edge"}\n', capture_output=True, text=True, timeout=PATIENCE_S,
                                check=True, env={**os.environ, "NODE_PATH": os.environ["WEIR_NPM_MODULES"]})
        self.assertEqual([json.loads(line)["error"] for line in result.stdout.splitlines()], [3, 3])

    @staticmethod
    def wrapped(asked):
        """A number of a descriptor is a message of its own."""
        return {**asked, "descriptors": [
            {**one, "hitsAddend": {"value": one["hitsAddend"]}} if "hitsAddend" in one else one
            for one in asked["descriptors"]]}

    @staticmethod
    def plain(answer):
        """A member that is 0 is not there, and seconds may differ."""
        for status in answer["statuses"]:
            if status.get("limitRemaining") == 0:
                del status["limitRemaining"]
            if "durationUntilReset" in status:
                status["durationUntilReset"] = "seconds"
        for field in answer.get("responseHeadersToAdd", []):
            if field["key"] in ("X-RateLimit-Reset", "Retry-After"):
                field["value"] = "seconds"
        return answer


if __name__ == "__main__":
    unittest.main()
