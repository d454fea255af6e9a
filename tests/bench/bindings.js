// bindings.py says what this measures, and how it is called.
'use strict';

const { Store, Limiter } = require('../../src/bindings/node');
const native = require(process.env.WEIR_NODE_ADDON);

const ROUNDS = 15;
const TAKES = 20000;
const RULE = 'fixed-window:1000000000/400d';

function shown(values) {
  const sorted = [...values].sort((a, b) => a - b);
  return `${sorted[sorted.length >> 1].toFixed(2)} (best ${sorted[0].toFixed(2)})`;
}

async function main() {
  const handle = native.createLimiter(native.openStore('memory:'), RULE, new Float64Array(11));
  const limiter = new Limiter(new Store('memory:'), RULE);
  const numbers = new Float64Array(12);
  const rounds = [];
  for (let round = 0; round < ROUNDS; round++) {
    let began = performance.now();
    for (let i = 0; i < TAKES; i++) native.take(handle, 'alice', 1, numbers);
    const bare = ((performance.now() - began) * 1e3) / TAKES;
    began = performance.now();
    for (let i = 0; i < TAKES; i++) await limiter.take('alice');
    rounds.push([bare, ((performance.now() - began) * 1e3) / TAKES]);
  }
  console.log(`a take by the native function: ${shown(rounds.map(([bare]) => bare))} us; by await limiter.take() ` +
    `${shown(rounds.map(([, ours]) => ours))} us; added ${shown(rounds.map(([bare, ours]) => ours - bare))} us`);
}

main();
