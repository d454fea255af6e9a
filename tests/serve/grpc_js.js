// Asks as grpc-js does: node grpc_js.js ADDRESS, with one request of JSON in each line of its input. Its
// answers go to its output, a line each; after the last request it waits for no more.
"use strict";
const readline = require("readline");
const grpc = require("@grpc/grpc-js");
const loader = require("@grpc/proto-loader");

const proto = loader.loadSync(__dirname + "/rls.proto", { longs: Number, enums: String });
const service = grpc.loadPackageDefinition(proto).envoy.service.ratelimit.v3.RateLimitService;
const client = new service(process.argv[2], grpc.credentials.createInsecure());
const ask = (request) =>
  new Promise((resolve) =>
    client.ShouldRateLimit(request, { deadline: Date.now() + 60000 }, (error, answer) =>
      resolve(error ? { error: error.code, why: error.details } : answer)));

(async () => {
  for await (const line of readline.createInterface({ input: process.stdin }))
    console.log(JSON.stringify(await ask(JSON.parse(line))));
  client.close();
})();
