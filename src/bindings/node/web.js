// What the middleware shares: who is limited, by which rule, and how the answer says so.
//
//     key      a function of the request: whose limit it is. Without one, and for requests of which it says
//              null, undefined or '', the client's address
//     cost     a number, or a function of the request
//     exempt   a function of the request: true for one that is not limited
//     trusted  the proxies whose X-Forwarded-For is believed: '10.0.0.0/8'. Who comes by a Unix socket
//              counts as 127.0.0.1
//     name     what keeps apart the counts of limits that are otherwise alike, and is told to clients
//     style    'draft-10' (RateLimit) or 'x-ratelimit'
//
// All else is an option of Limiter. '100/1m' is 'sliding-window:100/1m'.
'use strict';

const { Store, Limiter, Networks, clientKey } = require('./index.js');

function complete(rule, name) {
  if (typeof rule !== 'string') throw new TypeError(`a rule is a string, not ${typeof rule}`);
  return rule.split(';').map((each) => {
    const whole = each.includes(':') ? each : `sliding-window:${each}`;
    return name === undefined || whole.includes(',name=') ? whole : `${whole},name=${name}`;
  }).join(';');
}

// Seconds that a store may take to be connected to before the first request of its middleware goes on without.
const FIRST_PATIENCE = 0.25;
const connecting = new WeakMap();

// All that share a store connect to it once. One that is away is left to the limiter's policy.
function connectAhead(store) {
  if (!connecting.has(store)) connecting.set(store, store.connect(FIRST_PATIENCE).catch(() => {}));
  return connecting.get(store);
}

class Gate {
  constructor(store, rule, { key, cost = 1, exempt, trusted, name, style, ...options } = {}) {
    for (const [what, value] of Object.entries({ key, exempt })) {
      if (value !== undefined && typeof value !== 'function') throw new TypeError(`${what} is a function of the request`);
    }
    const opened = typeof store === 'string' ? new Store(store) : store;
    this.limiter = new Limiter(opened, complete(rule, name), options);
    this.ahead = connectAhead(opened);
    Object.assign(this, { key, cost, exempt, style, name: name ?? 'default' });
    this.trusted = typeof trusted === 'string' ? new Networks(trusted) : trusted;
  }

  address(request) {
    const peer = request.socket.remoteAddress || '127.0.0.1';
    return clientKey(peer, { forwardedFor: request.headers['x-forwarded-for'], trusted: this.trusted });
  }

  // null: it is not limited. `raw` is Node's own request.
  async ask(request, raw) {
    if (await this.exempt?.(request)) return null;
    const named = await this.key?.(request);
    const none = named === undefined || named === null || named === '';
    const key = !none ? named : `${this.key === undefined ? '' : 'address '}${this.address(raw)}`;
    const cost = typeof this.cost === 'function' ? await this.cost(request) : this.cost;
    await this.ahead;
    const decision = await this.limiter.take(key, { cost });
    if (decision.delay > 0) await new Promise((resolve) => { setTimeout(resolve, decision.delay * 1e3); });
    return { allowed: decision.allowed, fields: Object.entries(this.limiter.httpFields(this.name, decision, this.style)) };
  }
}

// Behind what another limit has said.
function joined(before, name, value) {
  return before === undefined || name === 'Retry-After' ? value : `${before}, ${value}`;
}

// What a client reads with its 429.
function refusal(fields) {
  const after = new Map(fields).get('Retry-After');
  return after === undefined ? 'Too many requests.\n' : `Too many requests: again in ${after} s.\n`;
}

module.exports = { Gate, joined, refusal };
