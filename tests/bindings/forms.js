// Limits in the forms in which people write services of Express (4 and 5) and Fastify, on a real store.
// Run by npm.py in a project that has them and weir.
'use strict';

const assert = require('assert');
const fs = require('fs');
const http = require('http');
const { Limiter, Store } = require('weir');
const limit = require('weir/express');
const weir = require('weir/fastify');

const url = `${process.env.WEIR_TEST_MEMCACHED_META}&timeout=10s&namespace=forms-${process.pid}`;
let stores = 0;
const store = () => new Store(`${url}-${stores++}`); // limits of one name do not meet those of another test
const warnings = [];
process.on('warning', (warning) => warnings.push(warning));
const warned = async (code) => {
  await new Promise((resolve) => { setImmediate(resolve); });
  return warnings.splice(0).filter((each) => each.code === code).map((each) => each.message);
};

async function served(app, test) {
  const server = http.createServer(app).listen(0, '127.0.0.1');
  await new Promise((resolve) => { server.once('listening', resolve); });
  const ask = (path, { method = 'GET', ...headers } = {}) =>
    fetch(`http://127.0.0.1:${server.address().port}${path}`, { method, headers });
  const statuses = async (count, ...how) => {
    const all = [];
    for (let i = 0; i < count; i++) all.push((await ask(...how)).status);
    return all;
  };
  try {
    await test(ask, statuses);
  } finally {
    server.closeAllConnections?.();
    server.close();
  }
}

async function names(express) {
  const app = express();
  const place = store();
  const ok = (request, response) => response.send('ok');
  const router = express.Router();
  router.use(limit(place, '3/1h'));
  router.get('/', ok);
  app.post('/login', limit(place, '2/1h'), ok);
  app.all('/any/:id', limit(place, '2/1h'), ok);
  app.use('/api', limit(place, '4/1h'), ok);
  app.use('/tenants/:tenant', router);
  app.use(limit(place, '6/1h'));
  app.get('/', ok);
  await served(app, async (ask, statuses) => {
    assert.deepStrictEqual(await statuses(7, '/'), [200, 200, 200, 200, 200, 200, 429]);
    assert.deepStrictEqual(await statuses(3, '/login', { method: 'POST' }), [200, 200, 429]);
    // A route counts by its pattern, whatever a client makes of it.
    assert.deepStrictEqual([...await statuses(1, '/any/1'), ...await statuses(1, '/ANY/2'), ...await statuses(1, '/any/3')], [200, 200, 429]);
    assert.deepStrictEqual([...await statuses(2, '/api'), ...await statuses(2, '/API/x'), ...await statuses(1, '/%61pi')].slice(0, 4), [200, 200, 200, 200]);
    assert.strictEqual((await ask('/api')).status, 429);
    // A mount with parameters is one limit, once another value has shown it.
    const tenants = [];
    for (let i = 0; i < 12; i++) tenants.push((await ask(`/tenants/${i}`)).status);
    assert.ok(tenants.filter((each) => each === 200).length <= 4, tenants.join());
  });
  assert.deepStrictEqual(await warned('WEIR_SHARED'), []);
  // A limit that would share its counts is told, once.
  const other = express();
  other.use(limit(place, '100/1h'));
  other.use(limit(place, '50/1h'));
  other.get('/', ok);
  await served(other, (ask, statuses) => statuses(3, '/'));
  assert.match((await warned('WEIR_SHARED')).join('|'), /^two limits of Store\(memcached:[^|]*without a name[^|]*$/);
}

async function shapes(express) {
  const app = express();
  const place = store();
  const plans = { free: '2 per hour', paid: '4/hour', staff: null };
  let enabled = true;
  app.get('/plan', limit(place, (request) => plans[request.get('x-plan')],
    { key: (request) => request.get('x-plan'), enabled: () => enabled }), (request, response) => response.send('ok'));
  app.post('/login', limit(place, '3/1h', { skipSuccessful: true, methods: ['POST'] }),
    (request, response) => response.status(request.get('x-right') ? 200 : 401).end());
  app.get('/shaped', limit(place, '1/1h', { onDenied: (request, response, refusal) => response.status(429).json({ again: refusal.retryAfter }) }),
    (request, response) => response.send('ok'));
  app.get('/never', limit(place, '2/1h', { cost: () => 3 }), (request, response) => response.send('ok'));
  app.get('/said', limit(place, '1/1h', { message: 'slowly, please' }), (request, response) => response.send('ok'));
  await served(app, async (ask, statuses) => {
    assert.deepStrictEqual(await statuses(3, '/plan', { 'x-plan': 'free' }), [200, 200, 429]);
    assert.deepStrictEqual(await statuses(5, '/plan', { 'x-plan': 'paid' }), [200, 200, 200, 200, 429]);
    assert.deepStrictEqual(new Set(await statuses(9, '/plan', { 'x-plan': 'staff' })), new Set([200]));
    enabled = false;
    assert.deepStrictEqual(await statuses(2, '/plan', { 'x-plan': 'free' }), [200, 200]);
    for (let i = 0; i < 10; i++) {
      assert.strictEqual((await ask('/login', { method: 'POST', 'x-right': '1' })).status, 200);
      await new Promise((resolve) => { setTimeout(resolve, 20); }); // it goes back behind the answer
    }
    assert.deepStrictEqual(await statuses(4, '/login', { method: 'POST' }), [401, 401, 401, 429]);
    await statuses(1, '/shaped');
    const shaped = await ask('/shaped');
    assert.ok(shaped.headers.get('ratelimit') && Number((await shaped.json()).again) > 0);
    await statuses(1, '/said');
    const said = await ask('/said', { accept: 'application/json' });
    assert.strictEqual(said.headers.get('content-type'), 'application/problem+json');
    assert.deepStrictEqual([(await said.json()).detail, said.status], ['slowly, please', 429]);
    const never = await ask('/never');
    assert.deepStrictEqual([never.status, never.headers.get('retry-after'), /never/.test(await never.text())], [400, null, true]);
  });
}

async function away(express) {
  const app = express();
  const gone = new Store('memcached://127.0.0.1:1?timeout=200ms');
  app.get('/none', limit(gone, '2/1h', { fallback: 'none' }), (request, response) => response.send('ok'));
  app.get('/local', limit(gone, '100/1h', { fallback: 'local' }), (request, response) => response.send('ok'));
  await warned();
  await served(app, async (ask, statuses) => {
    const none = await ask('/none');
    assert.deepStrictEqual([none.status, none.headers.get('retry-after')], [503, '1']);
    assert.deepStrictEqual(new Set(await statuses(5, '/local')), new Set([200]));
  });
  assert.strictEqual((await warned('WEIR_AWAY')).length, 1);
  assert.strictEqual(String(new Store('redis://user:s3cret@127.0.0.1:1')), 'Store(redis://***@127.0.0.1:1)');
}

async function many(express) {
  const app = express();
  app.get('/', limit(store(), '100000/1h'), (request, response) => response.send('ok'));
  await served(app, async (ask, statuses) => {
    await statuses(100, '/');
    const before = [fs.readdirSync('/proc/self/fd').length, process.memoryUsage().rss];
    await statuses(1000, '/');
    const [fds, rss] = [fs.readdirSync('/proc/self/fd').length, process.memoryUsage().rss];
    assert.ok(fds <= before[0] + 4 && rss - before[1] < 40 << 20, `${fds - before[0]} descriptors, ${(rss - before[1]) >> 20} MiB`);
  });
}

// Classes by what the application knows of a request, here a field that its proxy sets.
async function claims(express) {
  const app = express();
  const rule = 'fixed-window:10/1h,most=100,classes=batch:60%|free:80%';
  const byHeader = { class: (request) => request.get('x-class'), limit: (request) => (request.get('x-plan') === 'pro' ? 12 : null) };
  app.get('/', limit(store(), rule, byHeader), (request, response) => response.send('ok'));
  app.get('/shaped', limit(store(), rule, { ...byHeader, onDenied: (request, response, refusal) => response.status(refusal.status).send('shaped') }),
    (request, response) => response.send('ok'));
  await served(app, async (ask, statuses) => {
    assert.deepStrictEqual(await statuses(7, '/', { 'x-class': 'batch' }), [200, 200, 200, 200, 200, 200, 429]);
    const told = await ask('/', { 'x-class': 'batch', accept: 'application/json' });
    const policy = /^"([^"]+\/batch)";q=6;w=3600$/.exec(told.headers.get('RateLimit-Policy'));
    assert.deepStrictEqual((await told.json())['violated-policies'], [policy[1]]);
    assert.deepStrictEqual(await statuses(2, '/', { 'x-class': 'no' }), [400, 400]);
    assert.deepStrictEqual(await statuses(5, '/'), [200, 200, 200, 200, 429]);
    assert.deepStrictEqual(await statuses(3, '/', { 'x-plan': 'pro' }), [200, 200, 429]);
    const shaped = await ask('/shaped', { 'x-class': 'no' });
    assert.deepStrictEqual([shaped.status, await shaped.text()], [400, 'shaped']);
  });
}

// What another has answered meanwhile goes back all the same, though no field can be set any more.
async function early(express) {
  const app = express();
  const place = store();
  app.get('/', (request, response, next) => response.send('ok') && next(), limit(place, '3/1h', { name: 'early', skipSuccessful: true, key: () => 'a' }));
  app.use((error, request, response, next) => { assert.strictEqual(error.code, 'ERR_HTTP_HEADERS_SENT'); });
  await served(app, async (ask, statuses) => {
    assert.deepStrictEqual(await statuses(9, '/'), Array(9).fill(200));
    const limiter = new Limiter(place, 'sliding-window:3/1h,name=early');
    for (let i = 0; (await limiter.peek('a')).remaining < 3; i++) {
      assert.ok(i < 1000, 'it stays charged');
      await new Promise((resolve) => { setTimeout(resolve, 10); });
    }
  });
}

async function fastify() {
  const app = require('fastify')();
  const place = store();
  app.register(weir, { store: place, rule: '9/1h' });
  app.get('/', async () => 'ok');
  app.post('/login', { onRequest: weir.limit(place, '2/1h', { skipSuccessful: true }) }, async (request, reply) => reply.code(401).send('no'));
  app.get('/classes', { onRequest: weir.limit(place, '10/1h,classes=batch:20%', { class: (request) => request.headers['x-class'] }) }, async () => 'ok');
  app.get('/of/:id', { onRequest: weir.limit(place, '2/1h') }, async () => 'ok');
  app.get('/shaped', { onRequest: weir.limit(place, '1/1h', { onDenied: (request, reply, refusal) => reply.code(429).send({ again: refusal.retryAfter }) }) },
    async () => 'ok');
  const ask = async (path, method = 'GET') => app.inject({ method, url: path, headers: { accept: 'application/json' } });
  const statuses = async (...paths) => {
    const all = [];
    for (const path of paths) all.push((await ask(path)).statusCode);
    return all;
  };
  assert.deepStrictEqual(await statuses('/of/1', '/of/2', '/of/3'), [200, 200, 429]);
  assert.strictEqual((await ask('/of/4', 'HEAD')).statusCode, 429); // a route of its own, that Fastify made
  assert.deepStrictEqual(await statuses('/shaped', '/shaped'), [200, 429]);
  const asked = (headers) => app.inject({ url: '/classes', headers }).then(({ statusCode }) => statusCode);
  assert.deepStrictEqual([await asked({ 'x-class': 'batch' }), await asked({ 'x-class': 'no' })], [200, 400]);
  assert.deepStrictEqual(await statuses('/', '/'), [200, 429]); // nine of all
  const denied = await ask('/');
  assert.match(denied.headers['content-type'], /^application\/problem\+json/);
  assert.strictEqual(JSON.parse(denied.body).status, 429);
  await app.close();
}

async function main() {
  for (const name of ['express', 'express5']) {
    const express = require(name);
    await names(express);
    await shapes(express);
    await claims(express);
    await early(express);
    await away(express);
    await many(express);
  }
  await fastify();
  console.log('all forms');
  process.exit(0);
}

main();
