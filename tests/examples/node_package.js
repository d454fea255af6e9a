// The Node package on every store that with_servers names: decisions, errors, batches.
'use strict';

const assert = require('node:assert');
const { Limiter } = require('../../docs/examples/node');

const withOption = (url, option) => url + (url.includes('?') ? '&' : '?') + option;

async function checkStore(url, number) {
  const limiter = new Limiter(withOption(url, `namespace=node${number}&timeout=30s`), 'fixed-window:3/400d');
  const first = await limiter.take('a', 2);
  assert.deepStrictEqual([first.allowed, first.remaining, first.cost, first.source], [true, 1, 2, 'store']);
  const denied = await limiter.take('a', 2);
  assert.ok(!denied.allowed && denied.retryAfter > 0 && denied.remaining === 1);
  assert.strictEqual((await limiter.take('a', 4)).retryAfter, null);
  const decided = await Promise.allSettled([limiter.take('b'), limiter.take('b', 3), limiter.take(''),
    limiter.take('b', 2), limiter.take('b', 1.5), limiter.take(7)]);
  assert.deepStrictEqual(decided.map(({ value }) => value?.allowed), [true, false, undefined, true, undefined, undefined]);
  assert.strictEqual(decided[2].reason.code, 'BAD_KEY');
  assert.match(decided[4].reason.message, /no whole number/);
  await limiter.close();
  await assert.rejects(limiter.take('a'), /closed/);
}

// While a thousand of them are decided, the event loop goes on.
async function checkBatches(url) {
  const limiter = new Limiter(withOption(url, 'namespace=batches&timeout=30s'), 'fixed-window:50/400d');
  let turns = 0;
  const timer = setInterval(() => { turns++; }, 0);
  let allowed = 0;
  for (let round = 0; round < 10; round++) {
    const asked = Array.from({ length: 2000 }, (_, i) => limiter.take(`key-${round}-${i % 10}`));
    allowed += (await Promise.all(asked)).filter((each) => each.allowed).length;
  }
  clearInterval(timer);
  assert.strictEqual(allowed, 10 * 10 * 50);
  assert.ok(turns > 0);
  limiter.take('last');
  await limiter.close(); // waits for it
}

async function main() {
  const stores = Object.keys(process.env).filter((name) => name.startsWith('WEIR_TEST_')).sort();
  assert.ok(stores.length >= 5);
  for (const [number, name] of stores.entries()) await checkStore(process.env[name], number);
  await checkBatches(process.env.WEIR_TEST_MEMCACHED_META);
  await checkBatches(process.env.WEIR_TEST_REDIS);
  assert.throws(() => new Limiter('memory:', 'slow:1/1s'), { code: 'BAD_RULE', message: /slow/ });
  assert.throws(() => new Limiter('nowhere:', 'fixed-window:1/1s'), { code: 'BAD_URL' });
  assert.throws(() => new Limiter('memory:', 'fixed-window:1/1s', { fallback: 'maybe' }), RangeError);
  console.log(`${stores.length} stores`);
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
