// The part of side_by_side.py that runs rate-limiter-flexible.
//
//     node flexible.js STORE HOST PORT speed CALLERS SECONDS KEYS    [rate, p50, p99] in microseconds
//     node flexible.js STORE HOST PORT long KEY SECONDS              admitted of 50 where 5 are allowed
'use strict';

const { RateLimiterRedis, RateLimiterMemcache } = require('rate-limiter-flexible');

const [store, host, port, task, ...rest] = process.argv.slice(2);
const NEVER_REACHED = 1e9;

function makeLimiter(points, duration) {
  if (store === 'redis') {
    const Redis = require('ioredis');
    const client = new Redis({ host, port: Number(port) });
    return [new RateLimiterRedis({ storeClient: client, points, duration }), () => client.quit()];
  }
  const Memcached = require('memcached');
  const client = new Memcached(`${host}:${port}`, { poolSize: 32 });
  return [new RateLimiterMemcache({ storeClient: client, points, duration }), () => client.end()];
}

async function admitted(limiter, key) {
  try {
    await limiter.consume(key);
    return true;
  } catch (refusal) {
    if (refusal instanceof Error) throw refusal;
    return false;
  }
}

async function caller(limiter, number, keys, end, times) {
  for (let i = number; performance.now() < end; i += 7) {
    const begin = performance.now();
    await admitted(limiter, `key-${i % keys}`);
    times.push((performance.now() - begin) * 1000);
  }
}

async function run(limiter, callers, seconds, keys) {
  const times = [];
  const begin = performance.now();
  const end = begin + seconds * 1000;
  await Promise.all(Array.from({ length: callers }, (_, n) => caller(limiter, n, keys, end, times)));
  const rate = times.length / ((performance.now() - begin) / 1000);
  times.sort((a, b) => a - b);
  return [rate, times[Math.floor(times.length * 0.5)], times[Math.floor(times.length * 0.99)]];
}

async function main() {
  if (task === 'speed') {
    const [callers, seconds, keys] = rest.map(Number);
    const [limiter, close] = makeLimiter(NEVER_REACHED, 3600);
    await run(limiter, callers, 0.2, keys);
    console.log(JSON.stringify(await run(limiter, callers, seconds, keys)));
    close();
  } else {
    const [limiter, close] = makeLimiter(5, Number(rest[1]));
    let sum = 0;
    for (let i = 0; i < 50; i++) sum += await admitted(limiter, rest[0]);
    console.log(JSON.stringify(sum));
    close();
  }
}

main();
