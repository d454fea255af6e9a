// A proxy before a model server that charges each account the tokens that really streamed, by a
// server of `weir serve` and nothing from npm:
//
//     node stream_proxy.js PORT http://MODEL:PORT http://WEIR:PORT
//
// A request takes the most it may cost, its max_tokens. When the answer has ended, or its client or
// the model has gone, that is settled at what came.
'use strict';

const http = require('node:http');

const [port, model, weir] = process.argv.slice(2);
const connections = new http.Agent({ keepAlive: true });

// Asks weir; the decision, or an error with its text.
function ask(path, question) {
  return new Promise((resolve, reject) => {
    const headers = { 'Content-Type': 'application/json' };
    const request = http.request(weir + path, { method: 'POST', headers, agent: connections, timeout: 5000 }, async (answer) => {
      const chunks = await answer.toArray().catch(reject);
      const text = Buffer.concat(chunks ?? []).toString();
      if (answer.statusCode === 200) resolve(JSON.parse(text));
      else reject(Object.assign(new Error(text), { status: answer.statusCode }));
    });
    request.on('error', reject).on('timeout', () => request.destroy(new Error('weir did not answer in time')));
    request.end(JSON.stringify({ limiter: 'tokens', ...question }));
  });
}

async function proxy(request, response) {
  const key = request.headers['x-account'];
  const body = Buffer.concat(await request.toArray());
  const estimate = JSON.parse(body).max_tokens;
  const taken = await ask('/take', { key, cost: estimate });
  if (!taken.allowed) {
    const again = taken.retry_after_us < 0 ? {} : { 'Retry-After': Math.ceil(taken.retry_after_us / 1e6) };
    response.writeHead(429, again).end(); // without the field: it never fits
    return;
  }
  let real = 0;
  let part = ''; // of a line that has not ended yet
  const upstream = http.request(model + request.url, { method: 'POST', headers: { 'Content-Type': 'application/json', 'Content-Length': body.length } });
  response.on('close', () => upstream.destroy());
  try {
    const answer = await new Promise((resolve, reject) => upstream.on('response', resolve).on('error', reject).end(body));
    response.writeHead(answer.statusCode, { 'Content-Type': answer.headers['content-type'] ?? 'text/event-stream' });
    for await (const chunk of answer) {
      const lines = (part + chunk).split('\n');
      part = lines.pop();
      real += lines.filter((line) => line.startsWith('data: ') && line !== 'data: [DONE]').length;
      if (!response.write(chunk)) await new Promise((resolve) => response.once('drain', resolve).once('close', resolve));
    }
    response.end();
  } catch {
    response.destroy(); // the client has gone, or the model; what streamed is charged
  } finally {
    await ask('/settle', { key, estimate, real, stamp: taken.stamp });
  }
}

http.createServer((request, response) => {
  proxy(request, response).catch((error) => {
    console.error(error.message);
    if (!response.headersSent) response.writeHead(error.status === 400 || error instanceof SyntaxError ? 400 : 503);
    response.end();
  });
}).listen(Number(port), '127.0.0.1');
