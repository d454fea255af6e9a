// The Node package on every store that with_servers names: decisions, errors, batches, reservations; and
// what a program may do wrong: each is an answer or an error, and never a crash or a hang.
'use strict';

const assert = require('node:assert');
const { fork } = require('node:child_process');
const { EventEmitter } = require('node:events');
const { pbkdf2 } = require('node:crypto');
const { Worker, isMainThread, workerData } = require('node:worker_threads');
const weir = require('../../src/bindings/node');

const { Store, Limiter, Place, Networks, clientKey, decideAll, metrics } = weir;
const CALLS = 10000;
const url = (name, options) => {
  const base = process.env[`WEIR_TEST_${name}`];
  return base + (base.includes('?') ? '&' : '?') + options;
};

async function everyStore(name, number) {
  const store = new Store(name === 'memory' ? 'memory:' : url(name, `namespace=node${number}&timeout=30s`));
  const limiter = new Limiter(store, 'fixed-window:3/400d');
  const first = await limiter.take('a', { cost: 2 });
  assert.deepStrictEqual([first.allowed, first.remaining, first.cost, first.source], [true, 1, 2, 'store']);
  const denied = await limiter.take(Buffer.from('a'), { cost: 2 });
  assert.ok(!denied.allowed && denied.retryAfter > 0 && denied.remaining === 1);
  assert.strictEqual((await limiter.take('a', { cost: 4 })).retryAfter, null);
  assert.strictEqual((await limiter.takeUpTo('a', { cost: 9 })).cost, 1);
  await limiter.refund('a', first);
  assert.strictEqual(first.cost, 0);
  await assert.rejects(limiter.refund('a', first), { code: 'BAD_ARGUMENT' });
  assert.strictEqual((await limiter.peek('a')).remaining, 2);
  await limiter.reset('a');
  const fields = limiter.httpFields('api', await limiter.take('a', { cost: 4 }));
  assert.strictEqual(fields['RateLimit-Policy'], '"api";q=3;w=34560000');

  const batch = await limiter.decide(['b', { key: 'b', cost: 3 }, '', { key: Buffer.from([0, 255]), cost: 3 },
    { key: 'b', cost: 2 }, { key: 'b', cost: 0 }, { key: 'b', peek: true }]);
  assert.deepStrictEqual(batch.map((each) => each.allowed), [true, false, undefined, true, true, undefined, false]);
  assert.deepStrictEqual([batch[2].code, batch[5].code], ['BAD_KEY', 'BAD_COST']);
  assert.match(batch[2].message, /key is empty/);
  assert.match(batch[5].message, /cost 0 is outside/); // the text of its own error, though it is the second

  const kept = await limiter.reserve('r', { cost: 2 });
  await kept.commit();
  await assert.rejects(kept.cancel(), { code: 'BAD_ARGUMENT' });
  await limiter.refund('r', kept.decision, 1);
  await limiter.settle('r', kept.decision, 2); // its decision is one as others
  assert.deepStrictEqual([kept.decision.cost, kept.decision.source], [2, 'settled']);
  const gone = await limiter.reserve('r');
  await gone.cancel();
  assert.strictEqual((await limiter.peek('r')).remaining, 1);
  const partly = await limiter.reserve('s', { cost: 3 });
  await limiter.refund('s', partly.decision, 2);
  await partly.cancel(); // what is left
  assert.strictEqual((await limiter.peek('s')).remaining, 3);
  assert.ok(!(await limiter.reserve('s', { cost: 4 })).decision.allowed);

  const [less, more] = [await limiter.take('t', { cost: 2 }), await limiter.take('u')];
  await limiter.settle('t', less, 1);
  await limiter.settle('u', more, 9);
  assert.deepStrictEqual([less.cost, less.source, more.cost], [1, 'settled', 3]);
  assert.deepStrictEqual([(await limiter.peek('t')).remaining, (await limiter.peek('u')).remaining], [2, 0]);
  await assert.rejects(limiter.settle('t', less, 1), { code: 'BAD_ARGUMENT' });
  await assert.rejects(limiter.refund('t', less, 1), { code: 'BAD_ARGUMENT' });
  const open = await limiter.reserve('v', { cost: 3 });
  await assert.rejects(open.settle(-1), { code: 'BAD_COST' });
  await assert.rejects(open.settle([1, 1]), RangeError);
  assert.deepStrictEqual(await open.settle(1), [1]);
  await assert.rejects(open.settle(1), { code: 'BAD_ARGUMENT' });
  assert.strictEqual((await limiter.peek('v')).remaining, 2);
  await places(store);
  await several(new Limiter(store, 'quota:5/400d,name=ip'), new Limiter(store, 'quota:2/400d,name=user'));
  store.close();
  await assert.rejects(limiter.take('a'), { code: 'CLOSED' });
}

// All are charged, or none.
async function several(byAddress, byAccount) {
  const asked = [{ limiter: byAddress, key: '192.0.2.7' }, { limiter: byAccount, key: 'bob', cost: 2 }];
  const first = await decideAll(asked);
  assert.deepStrictEqual([first.allowed, first.deniedBy, first.retryAfter], [true, null, 0]);
  assert.deepStrictEqual(first.decisions.map((each) => each.remaining), [4, 0]);
  for (const told of await Promise.all([decideAll(asked), decideAll(new Set(asked)), decideAll(asked)])) {
    assert.deepStrictEqual([told.allowed, told.deniedBy, told.decisions[0].retryAfter], [false, 1, 0]);
    assert.ok(told.retryAfter > 0 && told.retryAfter === told.decisions[1].retryAfter);
  }
  assert.deepStrictEqual([(await byAddress.peek('192.0.2.7')).remaining, (await byAccount.peek('bob')).remaining], [4, 0]);
  await byAddress.refund('192.0.2.7', first.decisions[0]);
  assert.strictEqual((await byAddress.peek('192.0.2.7')).remaining, 5);
  assert.strictEqual((await decideAll([{ limiter: byAddress, key: 'x', cost: 6 }, { limiter: byAccount, key: 'x' }])).retryAfter, null);
  const wrong = [[], Array(17).fill(asked[0]), [asked[0], asked[0]], [asked[0], { ...asked[1], key: '' }],
    [asked[0], { ...asked[1], upTo: true }]];
  const codes = await Promise.allSettled(wrong.map(decideAll));
  assert.deepStrictEqual(codes.map(({ reason }) => reason.code), [...Array(3).fill('BAD_ARGUMENT'), 'BAD_KEY', 'BAD_ARGUMENT']);
  assert.match(codes[2].reason.message, /requests\[1\]: the limiter and key of requests\[0\]/);
  await assert.rejects(decideAll([asked[0], { limiter: {}, key: 'a' }]), TypeError);
  await assert.rejects(decideAll([{ ...asked[0], signal: AbortSignal.abort() }]), { name: 'AbortError' });
}

// Held, waited for, released by hand and by the disposer.
async function places(store) {
  const limiter = new Limiter(store, 'in-flight:2/1h;quota:9/400d,name=held');
  const first = await limiter.hold('a');
  const second = await limiter.hold('a', { cost: [1, 3], wait: 1 });
  assert.ok(first.held() && second.held() && second.token > first.token && first.heldUntil() > Date.now() / 1e3);
  await assert.rejects(limiter.hold('a'), (error) => error.code === 'NO_PLACE' && error.decision.limit === 2);
  const began = performance.now();
  await assert.rejects(limiter.hold('a', { wait: 0.1 }), { code: 'NO_PLACE' });
  assert.ok(performance.now() - began < 5000);
  const waiting = limiter.hold('a', { wait: 30 });
  const aborted = limiter.hold('a', { wait: 30, signal: AbortSignal.timeout(50) });
  await assert.rejects(aborted, { name: 'TimeoutError' });
  assert.strictEqual(await second.release(), 'OK');
  assert.deepStrictEqual([second.held(), second.heldUntil(), second.token], [false, 0, 0n]);
  await assert.rejects(second.release(), { code: 'BAD_ARGUMENT' });
  const third = await waiting;
  assert.ok(third instanceof Place && third.token > first.token);
  for (const each of [first, third]) await each[Symbol.asyncDispose]();
  await first[Symbol.asyncDispose](); // once more is fine
  assert.ok(!first.held());
  const both = await limiter.reserve('a', { cost: [2, 1] });
  assert.ok(both.held() && both.token > 0n);
  await both.cancel();
  const quota = new Limiter(store, 'quota:9/400d,name=held');
  assert.strictEqual((await quota.peek('a')).remaining, 4); // releasing keeps what other rules were charged
  const reserved = await quota.reserve('a');
  assert.deepStrictEqual([reserved.held(), reserved.heldUntil(), reserved.token], [true, Infinity, 0n]);
  for (const options of [{ wait: -1 }, { wait: '1' }, { longestWait: 1 }, { cost: [1] }]) {
    await assert.rejects(limiter.hold('a', options), (error) => error instanceof TypeError || error instanceof RangeError);
  }
}

// Middleware connects to its store when it is made, once for all that share it, and the first request waits for that.
async function middleware() {
  const { Gate, complete } = require('../../src/bindings/node/web.js');
  const store = new Store(url('MEMCACHED_META', 'namespace=ahead&timeout=30s'));
  const gates = [new Gate(store, '100/1h'), new Gate(store, '200/1h', { name: 'other' })];
  assert.strictEqual(gates[0].ahead, gates[1].ahead);
  const request = { socket: { remoteAddress: '192.0.2.1' }, headers: {} };
  await gates[0].ahead;
  assert.strictEqual(store.servers()[0].answered, true);
  assert.strictEqual((await gates[1].ask(request, request)).refusal, null);
  const away = new Gate('memcached://127.0.0.1:1', '100/1h', { fallback: 'deny' });
  assert.strictEqual((await away.ask(request, request)).refusal.status, 429);
  for (const [said, meant] of [['500/200ms', '500/200ms'], ['5/ms', '5/ms'], ['8 per 3 s', '8/3s'], ['8/3secs', '8/3s']]) {
    assert.strictEqual(complete(said), `sliding-window:${meant}`);
  }
  assert.throws(() => new Gate(store, '5/1m', { methods: 'POST' }), /methods is a list/);
  // Whoever must go as there are too many, the requests that ask it get their answers.
  const plans = Array.from({ length: 300 }, (_, i) => `${1000 + i}/1h`);
  const planned = new Gate(store, () => plans.pop(), { name: 'plans' });
  const answers = await Promise.all(plans.map(() => planned.ask(request, request)));
  assert.ok(answers.every(({ refusal }) => refusal === null));
  // Of too many plans the least lately used goes.
  let plan;
  const kept = new Gate(store, () => plan, { name: 'kept' });
  const limiterOf = async (number) => {
    plan = `${1000 + number}/1h`;
    return (await kept.ask(request, request)).limiter;
  };
  const first = await limiterOf(0);
  for (let i = 1; i < 256; i++) await limiterOf(i);
  assert.strictEqual(await limiterOf(0), first);
  await limiterOf(256);
  assert.strictEqual(await limiterOf(0), first);
  // What was taken by one that has gone since is given back to it.
  let taken = '9/1h';
  const failing = new Gate(store, () => taken, { name: 'failing', skipFailed: true, key: () => 'a' });
  const response = Object.assign(new EventEmitter(), { statusCode: 500, headersSent: false, writableFinished: false });
  failing.finishWith(response, await failing.ask(request, request));
  for (let i = 0; i < 256; i++) {
    taken = `${1000 + i}/1h`;
    await failing.ask(request, request);
  }
  response.headersSent = response.writableFinished = true;
  response.emit('close');
  const again = new Limiter(store, 'sliding-window:9/1h,name=failing');
  for (let i = 0; (await again.peek('a')).remaining < 9; i++) {
    assert.ok(i < 3000, 'what was taken under a plan that has gone does not go back');
    await new Promise((resolve) => { setTimeout(resolve, 10); });
  }
  assert.throws(() => new Gate(store, '5/1m', { message: 5 }), /message is a string or/);
  // A mount by a wildcard, as Express 4 and 5 tell it, is one limit whatever a client writes.
  for (const paramsOf of [(path) => ({ 0: path }), (path) => ({ rest: path.slice(1).split('/') })]) {
    const mounted = new Gate(store, '9/1h');
    const names = ['/a/b', '/a/b/c', '/X/y/z/w'].map((path) => mounted.nameOf({ base: path, params: paramsOf(path) }));
    assert.strictEqual(new Set(names).size, 1);
    // Whatever it writes, in parts that are those of the mount or were quoted, it finds no third.
    const hostile = ['/x/y/a', '/x/y/x/y', '/x/y/x/y/x/y', '/x/y/y', '/x/y/%61/b', '/x/y//a', ...names.map((_, i) => `/x/y${'/z'.repeat(i + 3)}`)];
    const under = new Gate(store, '9/1h');
    const found = hostile.map((path) => under.nameOf({ base: path, params: paramsOf(decodeURIComponent(path.slice(4))) }));
    assert.ok(new Set(found).size <= 2, `${[...new Set(found)]}`);
  }
}

// Whatever is asked of a store that is away, its decision says why, and there is one warning.
async function awayTold() {
  const warnings = [];
  const hear = (warning) => { if (warning.code === 'WEIR_AWAY') warnings.push(warning); };
  process.on('warning', hear);
  for (const [rule, call] of [['quota:9/1h', (limiter) => limiter.take('a')],
    ['quota:9/1h', async (limiter) => (await decideAll([{ limiter, key: 'a' }])).decisions[0]],
    ['quota:9/1h', async (limiter) => (await limiter.reserve('a')).decision],
    ['in-flight:9/10s', async (limiter) => (await limiter.hold('a')).decision]]) {
    const store = new Store('memcached://127.0.0.1:1?timeout=200ms');
    const { source, message } = await call(new Limiter(store, rule));
    await new Promise((resolve) => { setImmediate(resolve); });
    assert.deepStrictEqual([source, warnings.splice(0).length], ['fallback', 1]);
    assert.match(message, /cannot (connect|be reached)/);
  }
  process.off('warning', hear);
}

// Clients that hang up choose neither whether they count, nor for whom: not before they are asked about, while
// they are, nor when their answer has begun.
async function leaving() {
  const http = require('node:http');
  const { Gate } = require('../../src/bindings/node/web.js');
  const middleware = require('../../src/bindings/node/express.js');
  const place = new Store('memory:');
  const closed = (response) => response.destroyed || new Promise((resolve) => { response.once('close', resolve); });
  let went, ran;
  const options = { skipFailed: true, onDenied: (request, response) => { response.destroy(); setImmediate(went); } };
  const limits = {
    '/before': middleware(place, '3/1h', { ...options, name: 'before' }),
    '/while': middleware(place, '3/1h', { ...options, name: 'while', key: async ({ answer }) => { await closed(answer); return null; } }),
    '/begun': middleware(place, '3/1h', { ...options, name: 'begun' }),
  };
  const server = http.createServer(async (request, response) => {
    request.answer = response;
    if (request.url === '/before') await closed(response);
    limits[request.url](request, response, async () => {
      ran++;
      if (request.url === '/begun') response.write('begun');
      await closed(response);
      setImmediate(went);
    });
  });
  await new Promise((resolve) => { server.listen(0, '127.0.0.1', resolve); });
  const { port } = server.address();
  for (const path of Object.keys(limits)) {
    ran = 0;
    for (let i = 0; i < 6; i++) {
      await new Promise((resolve) => {
        went = resolve;
        const asked = http.get({ port, path, localAddress: '127.0.0.5', agent: false }, () => asked.destroy());
        asked.on('error', () => {});
        if (path !== '/begun') server.once('request', () => asked.destroy());
      });
    }
    assert.strictEqual(ran, 3, path);
    const { remaining } = await new Limiter(place, `sliding-window:3/1h,name=${path.slice(1)}`).peek(path === '/while' ? 'address 127.0.0.1' : '127.0.0.1');
    assert.strictEqual(remaining, 3, `${path}: counted for another`);
  }
  server.close();
  const gate = new Gate(place, '3/1h', { methods: ['GET'] });
  assert.ok(gate.methods.has('HEAD'));
}

// A way to the store that leads through this loop: whoever waits for it here gets no answer. While it is shut nobody gets one.
async function detour(namespace, delay = 0) {
  const net = require('node:net');
  const { hostname, port } = new URL(url('MEMCACHED_META', ''));
  const pairs = [];
  const server = net.createServer((here) => {
    const there = net.connect(port, hostname).on('error', () => {});
    here.on('error', () => {}).on('close', () => there.destroy()).on('data', (asked) => {
      way.isAsked = true;
      setTimeout(() => there.write(asked), delay);
    });
    there.on('data', () => { way.isAsked = false; }).pipe(here);
    pairs.push([there, here]);
  });
  await new Promise((resolve) => { server.listen(0, '127.0.0.1', resolve); });
  const way = {
    isAsked: false, // and has not answered
    url: `memcached://127.0.0.1:${server.address().port}?timeout=5s&namespace=${namespace}`,
    shut: () => pairs.forEach(([there, here]) => there.unpipe(here)),
    open: () => pairs.forEach(([there, here]) => there.pipe(here)),
    left: () => new Promise((resolve, reject) => { // by all that came
      const timer = setTimeout(reject, 30e3, new Error('connections stay open'));
      server.close(() => {
        clearTimeout(timer);
        resolve();
      });
    }),
  };
  return way;
}

async function noLoopWaits() {
  const way = await detour('detour');
  const store = new Store(way.url);
  const limiter = new Limiter(store, 'in-flight:2/1h', { fallback: 'none' });
  await (await limiter.reserve('a', { cost: 2 })).commit();
  await (await limiter.hold('a', { cost: 2 })).release();
  store.close();
  await way.left();
}

// Closing a store closes its connections, though the program still has what is over, and its decision.
async function overIsOver() {
  const unheard = async (way, place) => {
    way.shut();
    assert.notStrictEqual(await place.release(), 'OK');
    way.open();
  };
  const ends = [['fixed-window:9/400d', (each) => each.commit()], ['fixed-window:9/400d', (each) => each.cancel()],
    ['fixed-window:9/400d', (each) => each.settle(1)],
    ['fixed-window:9/400d', (each, limiter) => limiter.settle('a', each.decision, 1)],
    ['in-flight:2/1h', (each) => each.settle(0)], ['in-flight:2/1h', (each) => each.release()],
    ['in-flight:2/1h', (each) => each[Symbol.asyncDispose]()], ['in-flight:2/1h', (each, _, way) => unheard(way, each)]];
  for (const [number, [rule, end]] of ends.entries()) {
    const way = await detour(`over${number}`);
    const store = new Store(way.url);
    const limiter = new Limiter(store, rule, { fallback: 'none', deadline: 1 });
    const kept = await (rule.startsWith('in-flight') ? limiter.hold('a') : limiter.reserve('a', { cost: 2 }));
    await end(kept, limiter, way);
    store.close();
    await way.left();
    await assert.rejects(kept.cancel(), { code: 'BAD_ARGUMENT' });
    assert.deepStrictEqual([kept.held(), kept.heldUntil(), kept.token, kept.decision.allowed], [false, 0, 0n, true]);
  }
}

// A limiter whose thread is just charging ahead ends when that has its answer, for which no loop waits.
async function endsBeside() {
  const way = await detour('beside', 20); // so it charges ahead early
  const store = new Store(way.url);
  const limiter = new Limiter(store, 'fixed-window:1000000/400d,lease=1s', { fallback: 'none', deadline: 5 });
  const busy = performance.now() + 2000;
  while (performance.now() < busy) await limiter.take('a');
  const late = () => new Promise((resolve) => { setTimeout(resolve, 500, true).unref(); });
  const waits = (taken) => Promise.race([taken.then(() => false), late()]);
  way.shut();
  for (;;) {
    const taken = limiter.take('a');
    if (await waits(taken)) {
      way.open(); // the request itself had to ask
      await taken;
      way.shut();
    } else if (way.isAsked) {
      break;
    }
  }
  const began = performance.now();
  limiter.close();
  store.close();
  assert.ok(performance.now() - began < 2500);
  way.open();
  await way.left();
}

// A process that is stopped loses its place and can ask; one that is killed leaves it.
async function otherHolders() {
  const store = new Store(url('MEMCACHED_META', 'namespace=holders&timeout=300ms'));
  await store.connect(30);
  const limiter = new Limiter(store, 'in-flight:1/3s', { fallback: 'deny' });
  const child = fork(__filename, ['hold']);
  const heard = () => new Promise((resolve) => { child.once('message', resolve); });
  assert.strictEqual(await heard(), true);
  await assert.rejects(limiter.hold('a'), { code: 'NO_PLACE' });
  child.kill('SIGSTOP');
  const place = await limiter.hold('a', { wait: 30 });
  child.kill('SIGCONT');
  child.send('held?');
  assert.strictEqual(await heard(), false);
  assert.ok(place.held());
  await place.release();
  child.send('again');
  assert.strictEqual(await heard(), true);
  child.kill('SIGKILL');
  await (await limiter.hold('a', { wait: 30 })).release();
  store.close();
}

async function holdForParent() {
  const limiter = new Limiter(new Store(url('MEMCACHED_META', 'namespace=holders&timeout=300ms')), 'in-flight:1/3s', { fallback: 'deny' });
  let place;
  const enter = async () => {
    place = await limiter.hold('a', { wait: 30 });
    process.send(place.held());
  };
  process.on('message', (what) => (what === 'again' ? enter() : process.send(place.held())));
  await enter();
}

// Limiters of a store share its connection; while thousands are decided the loop goes on.
async function batches(name) {
  const store = new Store(url(name, 'namespace=batches&timeout=30s'));
  await store.connect(30);
  const limiter = new Limiter(store, 'fixed-window:50/400d');
  const other = new Limiter(store, 'quota:50/400d');
  let turns = 0;
  const timer = setInterval(() => { turns++; }, 0);
  let allowed = 0;
  for (let round = 0; round < 5; round++) {
    const asked = Array.from({ length: 4000 }, (_, i) => (i % 2 ? limiter : other).take(`key-${round}-${i % 20}`));
    allowed += (await Promise.all(asked)).filter((each) => each.allowed).length;
  }
  clearInterval(timer);
  assert.strictEqual(allowed, 5 * 20 * 50);
  assert.ok(turns > 0);
  const last = limiter.take('last');
  store.close(); // ends as it would
  assert.ok((await last).allowed);
}

async function arguments_() {
  const store = new Store('memory:');
  const limiter = new Limiter(store, 'fixed-window:100/400d');
  for (const key of ['3', Buffer.from('3'), new Uint8Array([51]), 3, 3n]) await limiter.take(key);
  assert.strictEqual((await limiter.peek('3')).remaining, 95);
  for (const key of [null, undefined, 3.5, NaN, 2 ** 60, true, ['3'], {}, Symbol('3'), '\ud800']) {
    await assert.rejects(limiter.take(key), TypeError);
  }
  for (const cost of [0, -1, 2 ** 31 + 1, 1e15]) await assert.rejects(limiter.take('a', { cost }), { code: 'BAD_COST' });
  for (const cost of ['1', null, 1.5, NaN, 1n]) await assert.rejects(limiter.take('a', { cost }), TypeError);
  for (const options of [{ costs: 1 }, null, 3, 'x', { signal: 1 }]) await assert.rejects(limiter.take('a', options), TypeError);
  for (const [wrong, error] of [[{ fallbak: 'deny' }, TypeError], [{ fallback: 'maybe' }, RangeError],
    [{ deadline: 0 }, RangeError], [{ deadline: '1' }, TypeError], [{ processes: 0 }, RangeError],
    [{ deadline: 61 }, { code: 'BAD_ARGUMENT', message: /deadline/ }], [null, TypeError]]) {
    assert.throws(() => new Limiter(store, 'fixed-window:1/1s', wrong), error);
  }
  assert.throws(() => new Limiter(store, 'slow:1/1s'), { code: 'BAD_RULE', message: /slow/ });
  assert.throws(() => new Limiter({}, 'quota:1/1s'), TypeError);
  assert.throws(() => new Store('nowhere:'), { code: 'BAD_URL' });
  assert.throws(() => new Store('memory:\0'), RangeError);
  const two = new Limiter(store, 'fixed-window:10/1h;quota:1000/1d', { deadline: 0.5, processes: 4, leases: false });
  assert.ok((await two.take('a', { cost: [1, 700] })).allowed);
  assert.ok(!(await two.take('a', { cost: [1, 700] })).allowed);
  await assert.rejects(two.take('a', { cost: [1] }), RangeError);
  assert.deepStrictEqual(two.rules.map((each) => each.algorithm), ['fixed-window', 'quota']);
  const proxies = new Networks('10.0.0.0/8');
  assert.strictEqual(clientKey('10.0.0.1', { forwardedFor: '192.0.2.7', trusted: proxies }), '192.0.2.7');
  assert.strictEqual(clientKey('2001:db8::1'), '2001:db8::/64');
  assert.ok(proxies.contains('10.9.9.9') && !proxies.contains('nobody'));
  assert.throws(() => clientKey('nobody'), { code: 'BAD_ARGUMENT' });
  assert.match(metrics({ api: limiter, main: store }), /weir_decisions_total\{limiter="api",result="allowed"\} 5/);
  const slow = new Limiter(store, 'leaky-bucket:50/1s,queue=9');
  const began = performance.now();
  assert.ok((await Promise.all([1, 2, 3, 4].map(() => slow.wait('a', { longestWait: 30 })))).every((each) => each.allowed));
  assert.ok(performance.now() - began > 55);

  // An asking that waits for a thread of Node's does not let its caller act before its time.
  const far = new Store(url('REDIS', 'namespace=slower&timeout=30s'));
  const slower = new Limiter(far, 'leaky-bucket:1/1s,queue=9', { deadline: 30 });
  const first = performance.now();
  assert.ok((await slower.take('a')).allowed);
  for (let i = 0; i < 4; i++) pbkdf2('', '', 20000, 8, 'sha512', () => {});
  assert.ok((await slower.wait('a', { longestWait: 30 })).allowed);
  assert.ok(performance.now() - first > 995);
  far.close();
}

async function aborts() {
  const store = new Store(url('REDIS', 'namespace=aborts&timeout=30s'));
  const limiter = new Limiter(store, 'quota:100/400d');
  await assert.rejects(limiter.take('a', { signal: AbortSignal.abort() }), { name: 'AbortError' });
  const controller = new AbortController();
  const asked = limiter.take('a', { signal: controller.signal });
  controller.abort(); // before it is sent: nothing is charged
  await assert.rejects(asked, { name: 'AbortError' });
  assert.strictEqual((await limiter.peek('a')).remaining, 100);
  const waiting = new AbortController();
  const never = new Limiter(store, 'fixed-window:1/400d');
  const wait = limiter.wait('b', { signal: waiting.signal });
  assert.ok((await wait).allowed && (await never.take('b')).allowed);
  store.close();
}

async function hostile() {
  const store = new Store('memory:');
  const limiter = new Limiter(store, 'fixed-window:1000000/1h', { longestWait: 0.001 });
  const decision = await limiter.take('a');
  const values = [undefined, null, true, 0, 1, -1, 1.5, NaN, Infinity, 2 ** 31, 2 ** 53, -(2 ** 60), 10n ** 40n, '', 'a', '\0',
    'a'.repeat(300), 'a'.repeat(253) + 'ключ', '\ud800', Buffer.from('a'), Buffer.alloc(0), new Uint8Array(3), new Float64Array(3),
    [], [1], [1, 2], [null], {}, { cost: 1 }, { cost: [1] }, { cost: [] }, { cost: -1 }, { longestWait: 1e-4 }, { longestWait: -1 },
    { signal: {} }, { peek: true }, Symbol('x'), () => 1, new Date(), new Map(), 'memory:', 'quota:1/1m', store, limiter, decision,
    { fallback: 'deny' }, { deadline: 1e9 }, '10.0.0.1', { get cost() { throw new RangeError('mine'); } }];
  let seed = Number(process.env.WEIR_SEED ?? Date.now() % 1e9);
  console.log(`WEIR_SEED=${seed}`);
  const chance = (most) => {
    seed = (seed * 1103515245 + 12345) % 2147483648;
    return Math.floor((seed / 2147483648) * most);
  };
  const some = () => Array.from({ length: chance(4) }, () => values[chance(values.length)]);
  const calls = [...['take', 'take', 'take', 'takeUpTo', 'peek', 'wait', 'decide', 'reserve', 'hold', 'refund', 'reset', 'httpFields']
    .map((name) => (...given) => limiter[name](...given)),
  (...given) => new Store(...given), (...given) => new Limiter(...given), (...given) => new Limiter(store, ...given),
  (...given) => clientKey(...given), (...given) => new Networks(...given), (...given) => metrics(...given),
  (...given) => limiter.refund('a', decision, ...given), (...given) => store.connect(...given), (...given) => limiter.decide([given]),
  (...given) => decideAll(given), (...given) => decideAll(given.map((key) => ({ limiter, key }))),
  (...given) => decideAll(given.map((cost) => ({ limiter, key: 'a', cost })))];
  const counts = { answered: 0, refused: 0 };
  for (let i = 0; i < CALLS; i++) {
    try {
      await calls[chance(calls.length)](...some());
      counts.answered++;
    } catch (error) {
      assert.ok(error instanceof Error, String(error));
      counts.refused++;
    }
  }
  assert.ok(counts.refused > CALLS / 3 && counts.answered > CALLS / 50, JSON.stringify(counts));
  assert.ok((await limiter.take('still there')).allowed);
}

async function closing() {
  for (const name of ['REDIS', 'MEMCACHED_META']) {
    const store = new Store(url(name, 'namespace=closing&timeout=30s'));
    const limiter = new Limiter(store, 'quota:1000000/1h');
    const asked = Array.from({ length: 5000 }, () => limiter.take('a'));
    const reservation = limiter.reserve('b');
    await new Promise((resolve) => { setImmediate(resolve); });
    store.close();
    store.close();
    for (const each of await Promise.allSettled(asked)) {
      assert.ok(each.status === 'fulfilled' ? each.value.allowed : each.reason.code === 'CLOSED' || each.reason.code === 'BAD_ARGUMENT');
    }
    await (await reservation).cancel();
    for (const call of [() => limiter.take('a'), () => limiter.reset('a'), () => limiter.decide(['a']), () => store.connect()]) {
      await assert.rejects(async () => { await call(); }, { code: 'CLOSED' });
    }
    assert.throws(() => limiter.warnings, { code: 'CLOSED' });
    assert.throws(() => new Limiter(store, 'quota:1/1h'), { code: 'CLOSED' });
  }
}

// Threads load the package each, and may be ended while they ask.
async function workers() {
  const ends = Array.from({ length: 4 }, () => new Promise((resolve, reject) => {
    const worker = new Worker(__filename, { workerData: url('REDIS', 'namespace=workers&timeout=30s') });
    worker.on('message', () => worker.terminate());
    worker.on('error', reject);
    worker.on('exit', resolve);
  }));
  await Promise.all(ends);
}

async function inWorker() {
  const { parentPort } = require('node:worker_threads');
  const limiter = new Limiter(new Store(workerData), 'quota:1000000/1h');
  for (let i = 0; ; i++) {
    await Promise.all([limiter.take('a'), limiter.take('b')]);
    if (i === 20) parentPort.postMessage('going');
  }
}

async function main() {
  const stores = Object.keys(process.env).filter((name) => name.startsWith('WEIR_TEST_')).sort();
  assert.ok(stores.length >= 5);
  for (const [number, name] of stores.entries()) await everyStore(name.slice('WEIR_TEST_'.length), number);
  await everyStore('memory', 0);
  await batches('MEMCACHED_META');
  await batches('REDIS');
  await arguments_();
  await aborts();
  await hostile();
  await closing();
  await middleware();
  await awayTold();
  await leaving();
  await noLoopWaits();
  await overIsOver();
  await endsBeside();
  await otherHolders();
  await workers();
  console.log(`${stores.length} stores`);
}

const inChild = process.argv[2] === 'hold';
(inChild ? holdForParent : isMainThread ? main : inWorker)().catch((error) => {
  console.error(error);
  process.exit(1);
});
