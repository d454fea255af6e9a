// What requests say of themselves in the Node package, on every store: classes, limits, tenants; and limits of keys,
// set at run time. Bad input, settlements, places, memory.
'use strict';

const assert = require('node:assert');
const { Store, Limiter, decideAll } = require('../../src/bindings/node');
const { Gate, complete } = require('../../src/bindings/node/web.js');

const TIMES = Number(process.argv[2] ?? 20000); // more of them: a hunt for what is kept
const CLASSES = 'classes=batch:60%|free:80%';
const urlOf = (name, space) => (name === 'memory' ? 'memory:'
  : `${process.env[name]}${process.env[name].includes('?') ? '&' : '?'}namespace=claims-js-${space}&timeout=30s`);
const sleep = (ms) => new Promise((resolve) => { setTimeout(resolve, ms); });

async function classes(store) {
  const limiter = new Limiter(store, `fixed-window:10/400d,debt=5,name=classes,${CLASSES}`);
  assert.deepStrictEqual(limiter.classes, ['batch', 'free']);
  const taken = await limiter.take('a', { cost: 6, class: 'batch' });
  assert.deepStrictEqual([taken.allowed, taken.limit, taken.remaining], [true, 6, 0]);
  assert.ok(!(await limiter.take('a', { class: 'batch' })).allowed);
  assert.ok(!(await limiter.peek('a', { class: 'batch' })).allowed);
  assert.strictEqual((await limiter.takeUpTo('a', { cost: 9, class: 'free' })).cost, 2);
  assert.strictEqual((await limiter.wait('a', { cost: 2 })).cost, 2); // kept for who says nothing
  assert.ok(!(await limiter.wait('a', { class: 'batch', longestWait: 0 })).allowed);
  await limiter.refund('a', taken, 1);
  await limiter.settle('a', taken, 1);
  assert.deepStrictEqual([taken.cost, taken.source, (await limiter.peek('a')).remaining], [1, 'settled', 5]);
  // An overrun of a class is charged up to its part and the debt.
  const [said, plain] = [await limiter.take('s', { cost: 2, class: 'batch' }), await limiter.take('t', { cost: 2 })];
  await limiter.settle('s', said, 99);
  await limiter.settle('t', plain, 99);
  assert.deepStrictEqual([said.cost, plain.cost], [11, 15]);
  await assert.rejects(limiter.settle('s', said, 1), { code: 'BAD_ARGUMENT', message: /^the decision was settled before/ });
  const reserved = await limiter.reserve('b', { cost: 6, class: 'batch' });
  assert.ok(!(await limiter.reserve('b', { class: 'batch' })).decision.allowed);
  assert.deepStrictEqual(await reserved.settle(99), [11]);
  const all = await decideAll([{ limiter, key: 'c', cost: 6, class: 'batch' }, { limiter, key: 'd', cost: 7, class: 'batch' }]);
  assert.deepStrictEqual([all.deniedBy, (await limiter.peek('c')).remaining], [1, 10]);
}

async function batches(store) {
  const limiter = new Limiter(store, `fixed-window:10/400d,most=50,name=batches,${CLASSES}`);
  const told = await limiter.decide([{ key: 'a', cost: 6, class: 'batch' }, { key: 'a', class: 'batch' }, { key: 'a', class: 'no' },
    { key: 'a', tenant: 'x' }, 'a', { key: 'a', cost: 40, limit: 50 }]);
  assert.deepStrictEqual(told.map((each) => each.allowed), [true, false, undefined, undefined, true, true]);
  assert.match(told[2].message, /^the class "no" is none/); // each its own, though a batch has one message
  assert.match(told[3].message, /no tenants/);
  assert.strictEqual((await limiter.peek('a', { limit: 50 })).remaining, 3); // nothing was charged for what is wrong
}

async function limits(store) {
  const rule = 'fixed-window:10/400d,most=100,tiers=gold:50|silver:20,name=limits';
  const [limiter, other] = [new Limiter(store, rule, { limitsEvery: 0.01 }), new Limiter(store, rule, { limitsEvery: 0.01 })];
  const strict = new Limiter(store, rule, { limitsEvery: 0.01, absent: 'deny' });
  assert.strictEqual(await limiter.getLimit('a'), null);
  await limiter.setLimit('a', 3);
  await other.setLimits(new Map([['b', 'blocked'], [7, 70], [Buffer.from([0, 99]), 100], ['free', 'unlimited']]), { ttl: 3600 });
  await other.setLimits([]);
  await sleep(20);
  for (const each of [limiter, other]) {
    const keys = ['a', 'b', '7', Buffer.from([0, 99]), 'd'];
    assert.deepStrictEqual(await Promise.all(keys.map((key) => each.getLimit(key))), [3, 'blocked', 70, 100, null]);
    assert.deepStrictEqual((await each.decide(keys.map((key) => ({ key, peek: true })))).map((told) => told.limit), [3, 0, 70, 100, 10]);
  }
  const free = await limiter.take('free', { cost: 90 });
  assert.deepStrictEqual([free.source, free.limit, free.remaining, await other.getLimit('free')], ['unlimited', 100, 100, 'unlimited']);
  await other.setLimit('tiered', 'gold');
  assert.deepStrictEqual([await limiter.getLimit('tiered'), (await limiter.peek('tiered')).limit], ['gold', 50]);
  await other.unsetLimit('b');
  await other.unsetLimit('free');
  await other.setLimit('a', 'none');
  await sleep(20);
  assert.deepStrictEqual([await limiter.getLimit('a'), (await limiter.peek('b')).limit], ['none', 10]);
  await limiter.settle('free', free, 3);
  assert.strictEqual((await limiter.peek('free')).remaining, 10); // nothing was charged, and nothing goes back
  assert.deepStrictEqual([(await strict.peek('a')).allowed, (await strict.peek('d')).allowed], [true, false]);
  await limiter.setLimits(Array.from({ length: 1100 }, (_, i) => [i, 1 + (i % 100)]));
  assert.deepStrictEqual([await limiter.getLimit(511), await limiter.getLimit(1099)], [12, 100]);
  const bucket = new Limiter(store, 'token-bucket:2/400d,most=2000,name=limits');
  const taken = await bucket.take('a', { cost: 2000, limit: 2000 });
  await bucket.settle('a', taken, 0);
  assert.ok((await bucket.take('a', { cost: 2000, limit: 2000 })).allowed);
}

async function tenants(store) {
  const limiter = new Limiter(store, 'shared-window:60000/1h,weights=north:5|south:3');
  for (const tenant of ['north', Buffer.from('south'), 'who is not named', 7]) assert.ok((await limiter.take('pool', { tenant })).allowed);
  for (const options of [{}, { tenant: '' }]) await assert.rejects(limiter.take('pool', options), { message: /names no tenant/ });
}

async function places(store) {
  const limiter = new Limiter(store, 'in-flight:4/1h,classes=batch:50%');
  const first = await limiter.hold('a', { cost: 2, class: 'batch' });
  await assert.rejects(limiter.hold('a', { class: 'batch', wait: 0.1 }), { code: 'NO_PLACE' });
  const second = await limiter.hold('a', { cost: 2 });
  setTimeout(() => second.release(), 50);
  setTimeout(() => first.release(), 100);
  const third = await limiter.hold('a', { cost: 2, class: 'batch', wait: 30 });
  assert.ok(third.held());
  assert.strictEqual(await third.release(), 'OK');
}

async function badInput() {
  const store = new Store(urlOf('WEIR_TEST_REDIS', 'bad'));
  const limiter = new Limiter(store, `fixed-window:10/400d,most=100,${CLASSES}`, { limitsEvery: 1 });
  const wrong = [[{ class: 'x' }, { message: /the class "x" is none of this limiter: accepted are batch and free/ }], [{ class: '' }, { message: /the class ""/ }],
    [{ class: 3 }, TypeError], [{ class: null }, TypeError], [{ class: 'a\0b' }, RangeError], [{ class: '\ud800' }, TypeError],
    [{ tenant: '' }, { message: /no tenants/ }], [{ tenant: '\udfff' }, TypeError], [{ tenant: 1.5 }, TypeError],
    [{ limit: 0 }, { message: /a limit of 0/ }], [{ limit: -1 }, { message: /a limit of -1/ }], [{ limit: 101 }, { message: /accepted are 1 to 100/ }],
    [{ limit: 2 ** 63 }, { code: 'BAD_ARGUMENT' }], [{ limit: 1.5 }, TypeError], [{ limit: NaN }, TypeError], [{ limit: true }, TypeError],
    [{ limit: '5' }, TypeError], [{ limit: null }, TypeError], [{ clas: 'batch' }, TypeError]];
  for (const [options, error] of wrong) {
    for (const verb of ['take', 'takeUpTo', 'peek', 'wait', 'reserve', 'hold']) await assert.rejects(limiter[verb]('a', options), error, verb);
    await assert.rejects(async () => { for (const each of await limiter.decide([{ key: 'a', ...options }])) throw each; }, error);
    await assert.rejects(decideAll([{ limiter, key: 'a', ...options }]), error);
  }
  assert.strictEqual((await limiter.peek('a')).remaining, 10);
  for (const [limit, error] of [[0, /say "blocked"/], [-1, /a limit of -1/], [101, /the limit of "a": a limit of 101/], [2 ** 63, /a limit of/], [1.5, /whole number/],
    [NaN, /whole number/], [true, /whole number/], [null, /whole number/], [undefined, /whole number/], ['Blocked', /"blocked", "unlimited" or "none", or a tier of the rule/]]) {
    await assert.rejects(limiter.setLimits([['good', 1], ['a', limit]]), { message: error });
  }
  assert.strictEqual(await limiter.getLimit('good'), null); // nothing is set where one is wrong
  await assert.rejects(limiter.setLimit('', 1), { code: 'BAD_KEY', message: /^the limit of "": the key is empty/ });
  for (const limits of [5, 'ab', { a: 1 }, null, undefined]) await assert.rejects(limiter.setLimits(limits), /a Map, or pairs/);
  for (const ttl of [0, 0.5, 401 * 86400, Infinity, '1h']) await assert.rejects(limiter.setLimit('a', 1, { ttl }), /ttl is/);
  for (const [options, error] of [[{ absent: 'deny' }, /accepted with limitsEvery/], [{ absent: 'no' }, /rule, deny/], [{ limitsEvery: 0 }, /0.001 s to 60 s/],
    [{ limitsEvery: 61 }, /0.001 s to 60 s/], [{ limitsEvery: true }, TypeError]]) {
    assert.throws(() => new Limiter(store, 'quota:3/1h,most=9', options), error);
  }
  const plain = new Limiter(store, 'quota:3/1h');
  await assert.rejects(plain.take('a', { class: 'batch' }), /has no classes/);
  await assert.rejects(plain.setLimit('a', 3), /most= in one of its rules/);
  store.close();
}

// 1,200 at once: no class has more than its part, and all together the limit.
async function together() {
  const store = new Store(urlOf('WEIR_TEST_MEMCACHED_META', 'together'));
  const limiter = new Limiter(store, `fixed-window:500/400d,${CLASSES}`, { deadline: 30 });
  const asked = Array.from({ length: 1200 }, (_, i) => ['batch', 'free', undefined][i % 3]);
  const told = await Promise.all(asked.map((each) => limiter.take('a', { class: each })));
  const admitted = (...which) => told.filter(({ allowed }, i) => allowed && which.includes(asked[i])).length;
  assert.strictEqual(admitted('batch', 'free', undefined), 500);
  assert.ok(admitted('batch') <= 300 && admitted('batch', 'free') <= 400);
  store.close();
}

async function middleware() {
  const store = new Store(urlOf('WEIR_TEST_MEMCACHED_META', 'gate'));
  const raw = (headers) => ({ socket: { remoteAddress: '192.0.2.1' }, headers });
  const byHeader = { class: (request) => request.headers['x-class'], limit: (request) => request.headers['x-limit'] && Number(request.headers['x-limit']) };
  const gate = new Gate(store, `fixed-window:10/400d,most=100,${CLASSES}`, { name: 'gate', ...byHeader });
  const status = async (headers) => (await gate.ask(raw(headers), raw(headers))).refusal?.status ?? 200;
  const all = [];
  for (let i = 0; i < 7; i++) all.push(await status({ 'x-class': 'batch' }));
  assert.deepStrictEqual(all, [200, 200, 200, 200, 200, 200, 429]);
  for (const wrong of ['no', '', 'x'.repeat(5000), 'batch,batch', '\ud800']) {
    const { refusal } = await gate.ask(raw({ 'x-class': wrong }), raw({ accept: 'application/json' }));
    assert.deepStrictEqual([refusal.status, JSON.parse(refusal.body).detail], [400, 'The class of this request is none of: batch, free.']);
  }
  assert.deepStrictEqual([await status({ 'x-class': 'free' }), await status({}), await status({ 'x-limit': '12' })], [200, 200, 200]);
  const shared = new Gate(store, 'shared-window:60000/1h,weights=north:5', { name: 'shared', tenant: (request) => request.headers['x-tenant'] });
  assert.strictEqual((await shared.ask(raw({ 'x-tenant': 'north' }), raw({}))).refusal, null);
  for (const headers of [{}, { 'x-tenant': '' }]) assert.strictEqual((await shared.ask(raw(headers), raw({}))).refusal.text, 'This request names no tenant.\n');
  const blocked = new Gate(store, '10/1h,most=20', { name: 'blocked', key: () => 'mallory', limitsEvery: 0.01 });
  await new Limiter(store, 'sliding-window:10/1h,most=20,name=blocked').setLimit('mallory', 'blocked');
  const { refusal } = await blocked.ask(raw({}), raw({}));
  assert.deepStrictEqual([refusal.status, refusal.text, refusal.retryAfter], [429, 'Too many requests.\n', undefined]);
  for (const [rule, options, text] of [['10/1h', { class: 'batch' }, /rule with classes=/], ['10/1h', { class: String }, /rule with classes=/],
    [`10/1h,${CLASSES}`, { class: 'bacth' }, /accepted are batch, free/], ['10/1h', { limit: Number }, /rule with most=/],
    ['10/1h', { tenant: String }, /shared-window/], ['shared-window:60000/1h,weights=a:1', {}, /shared-window/]]) {
    assert.throws(() => new Gate(store, rule, options), text);
  }
  assert.strictEqual(complete(`10 per minute,${CLASSES}; 5/1h`, 'x'), `sliding-window:10/1m,${CLASSES},name=x;sliding-window:5/1h,name=x`);
  store.close();
}

// Nothing stays of requests that say all that can be said.
async function memory() {
  const store = new Store('memory:');
  const limiter = new Limiter(store, `fixed-window:1000000000/400d,most=1000000000,${CLASSES}`);
  const ask = async (times) => {
    for (let i = 0; i < times; i++) {
      await limiter.take('a', { class: 'batch', limit: 1e9 });
      if (i % 100 === 0) {
        await assert.rejects(limiter.take('a', { class: 'x'.repeat(5000) }), /none of this limiter/);
        await limiter.settle('a', await limiter.take('a', { cost: 2, class: 'free' }), 1);
      }
    }
  };
  await ask(TIMES);
  const before = process.memoryUsage().rss;
  await ask(TIMES);
  const grown = (process.memoryUsage().rss - before) >> 20;
  assert.ok(grown < 24, `${grown} MiB`);
}

async function main() {
  const names = Object.keys(process.env).filter((name) => name.startsWith('WEIR_TEST_')).sort();
  assert.ok(names.length >= 5);
  for (const [number, name] of [...names, 'memory'].entries()) {
    const store = new Store(urlOf(name, number));
    for (const work of [classes, batches, limits, tenants, places]) await work(store);
    store.close();
  }
  for (const work of [badInput, together, middleware, memory]) await work();
  console.log(`${names.length} stores`);
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
