// Rate limits on memcached or Redis, decided by libweir.
//
//     const { Limiter } = require('weir');
//     const limiter = new Limiter('memcached://localhost', 'sliding-window:100/1m');
//     const decision = await limiter.take('alice');
//     if (!decision.allowed) console.log('again in', decision.retryAfter, 's');
//
// A denied request is a decision; where there is none, take() rejects with an Error whose `code` is
// the status ("UNAVAILABLE"). Times are seconds, null where they are not known or there is none. The
// event loop never waits: requests that come while the store is asked are the next batch.
'use strict';

const native = require(process.env.WEIR_NODE_ADDON || './build/Release/weir.node');

const BATCH_MOST = 1024;
const SOURCES = ['store', 'local', 'fallback', 'late'];
const FALLBACKS = ['local', 'deny', 'allow', 'none'];
const seconds = (us) => (us < 0 ? null : us / 1e6);

function decisionOf(raw) {
  return {
    allowed: raw.allowed,
    source: SOURCES[raw.source],
    limit: raw.limit,
    remaining: raw.remaining < 0 ? null : raw.remaining,
    retryAfter: seconds(raw.retryAfterUs),
    resetAfter: seconds(raw.resetAfterUs),
    delay: raw.delayUs / 1e6,
    cost: raw.cost,
  };
}

class Limiter {
  #native;
  #waiting = [];
  #running = null;

  constructor(url, rules, { fallback = 'local' } = {}) {
    const policy = FALLBACKS.indexOf(fallback);
    if (policy < 0) throw new RangeError(`fallback is ${fallback}: accepted are ${FALLBACKS.join(', ')}`);
    this.#native = native.open(url, rules, policy);
  }

  take(key, cost = 1) {
    if (this.#native === null) return Promise.reject(new Error('the limiter is closed'));
    if (typeof key !== 'string') return Promise.reject(new TypeError('the key is no text'));
    if (!Number.isInteger(cost)) return Promise.reject(new TypeError('the cost is no whole number'));
    return new Promise((resolve, reject) => {
      this.#waiting.push({ key, cost, resolve, reject });
      this.#running ??= Promise.resolve().then(() => this.#run());
    });
  }

  async #run() {
    while (this.#waiting.length > 0) {
      const batch = this.#waiting.splice(0, BATCH_MOST);
      const decided = await native.decide(this.#native, batch.flatMap(({ key, cost }) => [key, cost]));
      batch.forEach(({ resolve, reject }, i) => {
        const { error } = decided[i];
        if (error) reject(Object.assign(new Error(`no decision: ${error}`), { code: error }));
        else resolve(decisionOf(decided[i]));
      });
    }
    this.#running = null;
  }

  // Ends when all that was asked is decided.
  async close() {
    const handle = this.#native;
    while (this.#running !== null) await this.#running;
    this.#native = null;
    if (handle !== null) native.close(handle);
  }
}

module.exports = { Limiter };
