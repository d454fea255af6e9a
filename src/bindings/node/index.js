// Rate limits on memcached or Redis, decided by libweir.
//
//     const { Store, Limiter } = require('weir');
//     const store = new Store('memcached://localhost');
//     const limiter = new Limiter(store, 'sliding-window:100/1m');
//     const decision = await limiter.take('alice');
//     if (!decision.allowed) console.log('again in', decision.retryAfter, 's');
//
// A denied request is a decision; where there is none, promises reject with an Error whose `code` is
// the status ("BAD_RULE", "UNAVAILABLE", "CLOSED"). Times are seconds, null where they are not known or
// there is none. The event loop never waits: what comes while the store is asked is the next batch.
'use strict';

function load() {
  if (process.env.WEIR_NODE_ADDON) return require(process.env.WEIR_NODE_ADDON);
  try {
    return require('./build/Release/weir.node');
  } catch (error) {
    if (error.code !== 'MODULE_NOT_FOUND') throw error;
    throw new Error('weir is installed and not built: its install script was not run (--ignore-scripts). `npm rebuild weir ' +
      '--foreground-scripts` builds it; it needs libweir with its headers, pkg-config and a C compiler', { cause: error });
  }
}

const native = load();

const BATCH_MOST = 1024;
const COST_MOST = 2 ** 31;
const SOURCES = ['store', 'local', 'fallback', 'late', 'settled', 'unlimited'];
const FALLBACKS = ['local', 'deny', 'allow', 'none'];
const STYLES = ['draft-10', 'x-ratelimit'];
const NUMBERS = 12; // of a decision, in the order of weir.c
const PEEK = 1;
const UP_TO = 2;
const [, , REFUND, RESET, RETURN_LEASES, CANCEL, CONNECT, SETTLE, SETTLE_RESERVATION, COMMIT, SET_LIMITS, READ_LIMIT] = Array(12).keys();
const NO_COSTS = new Float64Array(0);
// weir_limiter_options: switches by their bit, seconds and counts by their place.
const SWITCHES = { cachedCells: 1, localDenials: 2, combining: 4, leases: 8 };
const SECONDS = { deadline: 2, clockError: 3, memoAge: 4, localDenial: 5, leastTtl: 6, longestWait: 7, limitsEvery: 11 };
const COUNTS = { processes: 8, memoKeys: 9, peers: 10 };
const ABSENT_DENIES = 16;
const LIMIT_KINDS = [null, 'none', 'number', 'blocked', 'unlimited'];
const TIER = 5; // behind them
const LIMIT_WORDS = ['none', 'blocked', 'unlimited'];
const LIMIT_MOST = 2 ** 53;

const seconds = (us) => (us < 0 ? null : us / 1e6);

function failed(code, message) {
  return Object.assign(new Error(message), { code });
}

function known(given, names, what) {
  if (given === undefined) return {};
  if (given === null || typeof given !== 'object') throw new TypeError(`${what} are an object`);
  for (const name of Object.keys(given)) {
    if (!names.includes(name)) throw new TypeError(`${what} have no ${name}: there are ${names.join(', ')}`);
  }
  return given;
}

function textOf(what, text) {
  if (typeof text !== 'string') throw new TypeError(`${what} is a string, not ${typeof text}`);
  if (text.includes('\0')) throw new RangeError(`${what} has a NUL in it`);
  return utf8(what, text);
}

function utf8(what, text) {
  if (/\p{Surrogate}/u.test(text)) throw new TypeError(`${what} has half of a surrogate pair`);
  return text;
}

// Text is UTF-8, a whole number its decimal text.
function keyOf(key, what = 'a key') {
  if (typeof key === 'string') return utf8(what, key);
  if (key instanceof Uint8Array) return Buffer.isBuffer(key) ? key : Buffer.from(key);
  if (typeof key === 'bigint' || Number.isSafeInteger(key)) return String(key);
  throw new TypeError(`${what} is a string, a Buffer or a whole number, not ${typeof key}`);
}

function costOf(cost) {
  if (!Number.isInteger(cost)) throw new TypeError('a cost is a whole number');
  if (cost < 0 || cost > COST_MOST) throw failed('BAD_COST', `a cost is 1 to ${COST_MOST}`);
  return cost;
}

// Which of these a rule accepts the library knows.
function limitOf(limit, more = '') {
  if (!Number.isInteger(limit)) throw new TypeError(`a limit is a whole number${more && ', "blocked", "unlimited" or "none", or a tier of the rule'}`);
  if (limit < 1 || limit > LIMIT_MOST) throw failed('BAD_ARGUMENT', `a limit of ${limit}: accepted are 1 to most= of the rule${more}`);
  return limit;
}

// What a request says of itself, as weir.c reads it; null: nothing.
function saidOf(className, limit, tenant) {
  if (className === undefined && limit === undefined && tenant === undefined) return null;
  return [className === undefined ? undefined : textOf('a class', className), limit === undefined ? 0 : limitOf(limit),
    tenant === undefined ? undefined : keyOf(tenant, 'a tenant')];
}

function microseconds(what, value, least = 1, most = undefined) {
  if (typeof value !== 'number') throw new TypeError(`${what} is a number of seconds, not ${typeof value}`);
  const us = Math.round(value * 1e6);
  if (most !== undefined && !(us >= least && us <= most)) throw new RangeError(`${what} is ${least / 1e6} s to ${most / 1e6} s`);
  if (!(us >= least && us <= Number.MAX_SAFE_INTEGER)) throw new RangeError(`${what} is ${value} s`);
  return us;
}

function oneOf(what, value, accepted) {
  const index = accepted.indexOf(value);
  if (index < 0) throw new RangeError(`${what} is one of ${accepted.join(', ')}`);
  return index;
}

class Decision {
  #raw;
  #said = null; // by its request: it is settled by the same

  constructor(raw, message = '') {
    this.#raw = raw;
    this.message = message; // why the store did not decide; '' where it did
    this.allowed = raw[0] !== 0;
    this.source = SOURCES[raw[1]];
    this.rule = raw[2];
    this.limit = raw[3];
    this.remaining = raw[4] < 0 ? null : raw[4];
    this.retryAfter = seconds(raw[5]);
    this.resetAfter = seconds(raw[6]);
    this.delay = raw[7] / 1e6;
    this.cost = raw[8];
    this.storeStatus = raw[10] === 0 ? 'OK' : native.statusName(raw[10]);
  }

  static numbers(decision) {
    if (!(decision instanceof Decision)) throw new TypeError('a decision is one that a limiter made');
    return decision.#raw;
  }

  static said(decision) {
    return decision.#said;
  }

  static saying(decision, said) {
    if (said !== null && decision instanceof Decision) decision.#said = said;
    return decision;
  }

  // By a refund or a settlement: what is charged now.
  static changed(decision, raw) {
    decision.#raw = raw;
    decision.source = SOURCES[raw[1]];
    decision.cost = raw[8];
  }
}

const changing = new WeakSet(); // decisions, by a refund or a settlement
const reservations = new WeakMap(); // by their decision, whose place the library knows

function decisionsOf({ numbers, texts }) {
  const all = [];
  for (let at = 0, i = 0; at < numbers.length; at += NUMBERS, i++) {
    const status = numbers[at + 11];
    all.push(status === 0 ? new Decision(numbers.slice(at, at + NUMBERS), texts[i])
      : failed(native.statusName(status), texts[i] || native.statusText(status)));
  }
  return all;
}

// A store's requests, as weir.c reads them.
function batchOf(asked) {
  const numbers = new Float64Array(4 * asked.length);
  let costs = NO_COSTS;
  asked.forEach((each, i) => {
    numbers[4 * i] = each.cost;
    numbers[4 * i + 1] = each.waitUs;
    numbers[4 * i + 2] = each.flags;
    if (each.costs !== null) {
      numbers[4 * i + 3] = each.costs.length;
      costs = Float64Array.from([...costs, ...each.costs]);
    }
  });
  const said = asked.some((each) => each.said !== null) ? asked.map((each) => each.said) : undefined;
  return [asked.map((each) => each.handle), asked.map((each) => each.key), numbers, costs, said];
}

const handles = new WeakMap(); // of stores, limiters and networks; null once they are closed

function handleOf(object, kind) {
  const handle = handles.get(object);
  if (!(object instanceof kind) || handle === undefined) throw new TypeError(`that is no ${kind.name} of weir`);
  if (handle === null) throw failed('CLOSED', `the ${kind.name.toLowerCase()} is closed`);
  return handle;
}

// Takes the handle of something that is closed: nobody gets it any more.
function taken(object) {
  const handle = handles.get(object);
  handles.set(object, null);
  return handle ?? null;
}

class Store {
  #waiting = [];
  #running = false;
  #limiters = new Set();
  #closed = []; // handles of limiters whose requests still wait
  #immediate;
  #isAway = false;
  #shown; // its URL, without what may be a password

  constructor(url) {
    handles.set(this, native.openStore(textOf('a URL', url)));
    this.#immediate = url.startsWith('memory:');
    this.#shown = url.replace(/\/\/[^/?]*@/, '//***@');
  }

  toString() {
    return `Store(${this.#shown})`;
  }

  [Symbol.for('nodejs.util.inspect.custom')]() {
    return this.toString();
  }

  // One warning when it stops deciding, and one when it is back.
  static note(store, why) {
    const isAway = why !== null;
    if (store.#isAway === isAway) return;
    store.#isAway = isAway;
    process.emitWarning(isAway ? `${store.#shown} does not decide: ${why}` : `${store.#shown} decides again`,
      { type: 'WeirWarning', code: isAway ? 'WEIR_AWAY' : 'WEIR_BACK' });
  }

  // Of what was decided, or of an Error.
  static noteBy(store, each) {
    const byPolicy = each.source === 'fallback' && each.storeStatus !== 'OK'; // the account of a key may go on when the store is back
    if (each instanceof Error ? each.code === 'UNAVAILABLE' : byPolicy) Store.note(store, each.message);
    else if (store.#isAway && each.source === 'store') Store.note(store, null);
  }

  static immediate(store) {
    return store.#immediate;
  }

  static limiters(store) {
    return store.#limiters;
  }

  // Resolves to a decision or to an Error.
  static ask(store, asked) {
    if (store.#immediate) return Promise.resolve(Decision.saying(decisionsOf(native.decideNow(...batchOf([asked])))[0], asked.said));
    return new Promise((resolve) => {
      asked.resolve = resolve;
      store.#waiting.push(asked);
      if (!store.#running) store.#run();
    });
  }

  static forget(store, asked) {
    const at = store.#waiting.indexOf(asked);
    if (at >= 0) store.#waiting.splice(at, 1);
  }

  async #run() {
    this.#running = true;
    await null; // what is asked in this turn leaves together
    while (this.#waiting.length > 0) {
      const batch = this.#waiting.splice(0, BATCH_MOST);
      let decided;
      try {
        decided = decisionsOf(await native.decide(...batchOf(batch)));
        for (const each of decided) Store.noteBy(this, each);
      } catch (error) {
        decided = batch.map(() => error);
      }
      batch.forEach(({ resolve, said }, i) => resolve(Decision.saying(decided[i], said)));
    }
    this.#running = false;
    this.#closed.splice(0).forEach((handle) => native.release(handle));
  }

  static closeLimiter(store, limiter) {
    store.#limiters.delete(limiter);
    const handle = taken(limiter);
    if (handle !== null && store.#running) store.#closed.push(handle);
    else if (handle !== null) native.release(handle);
  }

  async connect(timeout) {
    const handle = handleOf(this, Store);
    const us = timeout === undefined ? native.connectTimeout(handle) : microseconds('timeout', timeout);
    await native.call(CONNECT, handle, null, us, null);
  }

  servers() {
    return native.servers(handleOf(this, Store));
  }

  // Closes its limiters as well. Calls that are under way end as they would.
  close() {
    for (const each of this.#limiters) each.close();
    const handle = taken(this);
    if (handle !== null) native.release(handle);
  }
}

const SAYS = ['class', 'limit', 'tenant'];
const ASK = ['cost', 'longestWait', 'signal', ...SAYS];

let askedOf, storeOf; // a limiter's request, as batchOf() reads it

class Limiter {
  static {
    askedOf = (limiter, request) => limiter.#askedBy(request);
    storeOf = (limiter) => limiter.#store;
  }

  #store;
  #handle;
  #immediate;
  #rules;
  #waitUs;

  constructor(store, rule, options) {
    const over = handleOf(store, Store);
    const given = known(options, ['fallback', 'absent', ...Object.keys(SWITCHES), ...Object.keys(SECONDS), ...Object.keys(COUNTS)],
      'options of a limiter');
    const numbers = new Float64Array(12);
    for (const [name, value] of Object.entries(given)) {
      if (value === undefined) continue;
      if (name === 'fallback') {
        numbers[0] = oneOf('fallback', value, FALLBACKS);
      } else if (name === 'absent') {
        if (!oneOf('absent', value, ['rule', 'deny'])) continue;
        if (given.limitsEvery === undefined) throw new RangeError("absent: 'deny' is accepted with limitsEvery: else no key has a limit of its own");
        numbers[1] += ABSENT_DENIES;
      } else if (name === 'limitsEvery') {
        numbers[SECONDS[name]] = microseconds(name, value, 1e3, 60e6);
      } else if (name in SWITCHES) {
        if (typeof value !== 'boolean') throw new TypeError(`${name} is true or false`);
        if (!value) numbers[1] += SWITCHES[name];
      } else if (name in SECONDS) {
        numbers[SECONDS[name]] = microseconds(name, value);
      } else {
        if (!Number.isInteger(value)) throw new TypeError(`${name} is a whole number`);
        if (value < 1 || value > 0xffffffff) throw new RangeError(`${name} is 1 or more`);
        numbers[COUNTS[name]] = value;
      }
    }
    this.#handle = native.createLimiter(over, textOf('a rule', rule), numbers);
    handles.set(this, this.#handle);
    this.#store = store;
    this.#immediate = Store.immediate(store);
    this.#waitUs = numbers[SECONDS.longestWait] || 60e6;
    this.#rules = native.rules(this.#handle);
    Store.limiters(store).add(this);
  }

  // The request as batchOf() reads it.
  #asked(key, flags, options) {
    const { cost = 1, longestWait, signal, class: className, limit, tenant } = known(options, ASK, 'options of a request');
    if (signal !== undefined && !(signal instanceof AbortSignal)) throw new TypeError('signal is an AbortSignal');
    const said = saidOf(className, limit, tenant);
    const asked = { handle: handleOf(this, Limiter), key: keyOf(key), cost: 0, costs: null, waitUs: 0, flags, signal, said };
    if (Array.isArray(cost)) {
      if (cost.length !== this.#rules.length) throw new RangeError(`a cost for each rule: ${this.#rules.length} are needed`);
      asked.costs = cost.map(costOf);
    } else {
      asked.cost = costOf(cost);
    }
    if (longestWait !== undefined) asked.waitUs = microseconds('longestWait', longestWait, 0);
    return asked;
  }

  #askedBy(request) {
    if (request === null || typeof request !== 'object' || request instanceof Uint8Array) return this.#asked(request, 0);
    const { key, upTo = false, peek = false, ...rest } = request;
    return this.#asked(key, (upTo ? UP_TO : 0) | (peek ? PEEK : 0), rest);
  }

  async #decide(asked) {
    const { signal } = asked;
    signal?.throwIfAborted();
    const answered = Store.ask(this.#store, asked);
    const answer = signal === undefined ? await answered : await new Promise((resolve, reject) => {
      const abort = () => {
        Store.forget(this.#store, asked); // asked already, it may be charged
        reject(signal.reason);
      };
      signal.addEventListener('abort', abort, { once: true });
      answered.then((value) => {
        signal.removeEventListener('abort', abort);
        resolve(value);
      });
    });
    if (answer instanceof Error) throw answer;
    return answer;
  }

  // Decides, and charges what is admitted. cost: one for all rules, or an array of one for each. What a request
  // says of itself is a claim of the caller, and no client's: class, one of classes= of the rule, for which a part
  // of the limit is all; limit, in the place of the rule's, up to its most=; tenant, which shares a shared-window.
  async take(key, options) {
    if (this.#immediate && typeof key === 'string' && this.#handle !== null &&
      (options === undefined || (options !== null && Number.isInteger(options.cost) && oneCost(options)))) {
      const raw = new Float64Array(NUMBERS);
      native.take(this.#handle, keyOf(key), options === undefined ? 1 : costOf(options.cost), raw);
      return new Decision(raw);
    }
    return this.#decide(this.#asked(key, 0, options));
  }

  // The same for as much as fits: decision.cost says how much.
  async takeUpTo(key, options) {
    return this.#decide(this.#asked(key, UP_TO, options));
  }

  // Tells what take() would decide now; changes nothing.
  async peek(key, options) {
    return this.#decide(this.#asked(key, PEEK, options));
  }

  // Takes, waiting as long as it must and may: the caller may act at once.
  async wait(key, options) {
    const asked = this.#asked(key, 0, options);
    const patienceUs = options?.longestWait === undefined ? this.#waitUs : asked.waitUs;
    const end = performance.now() + patienceUs / 1e3;
    for (let left = patienceUs / 1e3; ; left = Math.max(end - performance.now(), 0)) {
      asked.handle = handleOf(this, Limiter);
      const decision = await this.#decide({ ...asked, waitUs: Math.floor(left * 1e3) });
      left = end - performance.now();
      const again = decision.retryAfter === null ? Infinity : decision.retryAfter * 1e3;
      if (decision.allowed || again > left) {
        const delay = decision.delay * 1e3; // from when it was decided: the asking may have waited for a thread
        const rest = Math.min(delay, Decision.numbers(decision)[9] / 1e3 + delay - Date.now());
        await pause(decision.allowed ? rest : Math.min(rest, left), asked.signal);
        return decision;
      }
      await pause(Math.max(again, 1), asked.signal);
    }
  }

  // Many together, each {key, cost, longestWait, upTo, peek, class, limit, tenant} or a key: of each its decision, or its Error.
  async decide(requests) {
    const asked = Array.from(requests, (each) => this.#askedBy(each));
    return Promise.all(asked.map((each) => this.#decide(each).catch((error) => error)));
  }

  async #reserve(asked, Kind) {
    const made = await native.reserve(...batchOf([asked]));
    const decision = new Decision(made.numbers, made.text);
    Store.noteBy(this.#store, decision);
    return new Kind(decision, made.reservation, this.#rules.length);
  }

  // Takes what can be cancelled.
  async reserve(key, options) {
    const asked = this.#asked(key, 0, options);
    asked.signal?.throwIfAborted();
    return this.#reserve(asked, Reservation);
  }

  // Enters a place under an in-flight rule, and waits for one for up to `wait` seconds. Where there is none
  // it rejects with NO_PLACE. Tries again as other processes do: one that waited in the library would keep
  // a thread of Node's.
  async hold(key, options) {
    const { wait = 0, ...rest } = known(options, ['cost', 'wait', 'signal', ...SAYS], 'options of hold');
    const asked = this.#asked(key, 0, rest);
    const end = performance.now() + microseconds('wait', wait, 0) / 1e3;
    for (;;) {
      asked.signal?.throwIfAborted();
      asked.handle = handleOf(this, Limiter);
      const place = await this.#reserve(asked, Place);
      const { decision } = place;
      if (decision.allowed && asked.signal?.aborted) await place.release();
      else if (decision.allowed) return place;
      const ms = this.#pauseAfter(decision);
      if (!decision.allowed && ms > end - performance.now()) {
        throw Object.assign(failed('NO_PLACE', `no place is free: ${decision.limit} are held`), { decision });
      }
      if (!decision.allowed) await pause(ms, asked.signal);
    }
  }

  // Nothing tells when a place is left; what other rules say is known. In milliseconds.
  #pauseAfter({ retryAfter, source, rule }) {
    if (retryAfter === null) return Infinity;
    return source !== 'fallback' && this.#rules[rule].algorithm === 'in-flight' ? 5 + 45 * Math.random() : retryAfter * 1e3;
  }

  // Gives back a part, or all, of what an allowed decision of this key has charged.
  async refund(key, decision, cost) {
    await this.#change(REFUND, key, decision, cost === undefined ? Decision.numbers(decision)[8] : costOf(cost));
  }

  // `real` is the true cost of an allowed decision of this key: the rest goes back, and an excess is
  // charged as far as it fits. decision.cost is what is charged then.
  async settle(key, decision, real) {
    await this.#change(SETTLE, key, decision, costOf(real));
  }

  async #change(kind, key, decision, cost) {
    const handle = handleOf(this, Limiter);
    const numbers = Decision.numbers(decision);
    const text = keyOf(key);
    if (changing.has(decision)) throw failed('BAD_ARGUMENT', 'a refund or a settlement of this decision is under way');
    changing.add(decision);
    try {
      const said = Decision.said(decision) && [Decision.said(decision)];
      const reservation = reservations.get(decision);
      const done = await native.call(kind, (reservation && handleIn(reservation)) ?? handle, text, cost, numbers, said);
      Decision.changed(decision, done.numbers);
      if (reservation && decision.source === 'settled') settled(reservation);
      if (done.error) throw done.error;
    } finally {
      changing.delete(decision);
    }
  }

  // Sets a key's own limit in the store, up to most= of the rule, 'blocked', 'unlimited' or a tier of the rule:
  // limiters with limitsEvery go by it. It ends after ttl seconds, and after 400 days without it. Setting it again is always fine.
  async setLimit(key, limit, options) {
    await this.setLimits([[key, limit]], options);
  }

  // The same for many keys, in as few round trips as that takes: a Map, or whatever has pairs. An error names the
  // first key whose limit was not set; where it is of the caller, none was.
  async setLimits(limits, options) {
    const { ttl } = known(options, ['ttl'], 'options of a limit');
    const forUs = ttl === undefined ? 0 : microseconds('ttl', ttl, 1e6, 400 * 86400e6);
    const handle = handleOf(this, Limiter);
    if (typeof limits === 'string' || typeof limits?.[Symbol.iterator] !== 'function') throw new TypeError('limits are a Map, or pairs of a key and a limit');
    const pairs = Array.from(limits, ([key, limit]) => [keyOf(key), limit]);
    if (pairs.length === 0) return;
    const numbers = pairs.flatMap(([, limit]) => {
      if (LIMIT_WORDS.includes(limit)) return [LIMIT_KINDS.indexOf(limit), 0, forUs];
      const tier = typeof limit === 'string' ? native.tier(handle, Buffer.from(limit)) : undefined;
      return tier !== undefined ? [TIER, tier, forUs] : [2, limitOf(limit, '; to deny all, say "blocked"'), forUs];
    });
    try {
      await native.limits(SET_LIMITS, handle, pairs.map(([key]) => key), Float64Array.from(numbers));
    } catch (error) {
      if (error.index === undefined) throw error;
      throw failed(error.code, `the limit of ${JSON.stringify(String(pairs[error.index][0]).slice(0, 80))}: ${error.message}`);
    }
  }

  // From now on the key goes by the rule.
  async unsetLimit(key) {
    await this.setLimits([[key, 'none']]);
  }

  // What the store has for a key: a number, 'blocked', 'unlimited', a tier, or 'none', which is the rule's. null:
  // none was ever set, it has ended, or it was lost.
  async getLimit(key) {
    const [kind, limit, text] = await native.limits(READ_LIMIT, handleOf(this, Limiter), [keyOf(key)], new Float64Array(3));
    return LIMIT_KINDS[kind] === 'number' ? limit : kind < TIER ? LIMIT_KINDS[kind] : text;
  }

  // Forgets what was charged to a key.
  async reset(key) {
    await native.call(RESET, handleOf(this, Limiter), keyOf(key), 0, null);
  }

  // Gives back what lease= has charged ahead: before the process ends.
  async returnLeases() {
    await native.call(RETURN_LEASES, handleOf(this, Limiter), null, 0, null);
  }

  get rules() {
    return this.#rules.map((each) => ({ ...each }));
  }

  // What `class` may be: of the rule's classes= the names.
  get classes() {
    const named = /,classes=([^,;]*)/.exec(this.#rules.map(({ text }) => text).join(';'));
    return named === null ? [] : named[1].split('|').map((each) => each.split(':')[0]);
  }

  get warnings() {
    return native.warnings(handleOf(this, Limiter));
  }

  // The response fields that tell a client.
  httpFields(name, decision, style = 'draft-10') {
    const found = native.fields(handleOf(this, Limiter), textOf('a name', name), Decision.numbers(decision),
      oneOf('style', style, STYLES));
    const fields = {};
    for (let i = 0; i < found.length; i += 2) fields[found[i]] = found[i + 1];
    return fields;
  }

  // Calls that are under way end as they would.
  close() {
    this.#handle = null;
    Store.closeLimiter(this.#store, this);
  }
}

// Up to 16 requests as one decision, each {limiter, key, cost, ...}: all of them are charged, or none.
async function decideAll(requests) {
  const stores = [];
  const asked = Array.from(requests, ({ limiter, ...request }) => {
    handleOf(limiter, Limiter);
    stores.push(storeOf(limiter));
    return askedOf(limiter, request);
  });
  if (asked.length === 0) throw failed('BAD_ARGUMENT', 'a decision of 0 requests: accepted are 1 to 16');
  asked.forEach(({ signal }) => signal?.throwIfAborted());
  const { deniedBy, ...answer } = await native.decideAll(...batchOf(asked));
  const decisions = decisionsOf(answer).map((each, i) => Decision.saying(each, asked[i].said));
  decisions.forEach((each, i) => Store.noteBy(stores[i], each));
  const allowed = deniedBy === decisions.length;
  return { allowed, deniedBy: allowed ? null : deniedBy, retryAfter: allowed ? 0 : decisions[deniedBy].retryAfter, decisions };
}

// Whether the fast way knows all that is said.
function oneCost(options) {
  for (const name in options) if (name !== 'cost') return false;
  return true;
}

function pause(ms, signal) {
  return new Promise((resolve, reject) => {
    signal?.throwIfAborted();
    const abort = () => {
      clearTimeout(timer);
      reject(signal.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener('abort', abort);
      resolve();
    }, Math.max(Math.ceil(ms), 0));
    signal?.addEventListener('abort', abort, { once: true });
  });
}

let endOf, handleIn, settled; // of a reservation: ends it by a call; its handle; it was settled by its decision

class Reservation {
  #handle; // until it is over: then its limiter and store may go
  #isOpen; // and nothing ends it
  #rules;

  static {
    endOf = (reservation, kind) => reservation.#end(kind);
    handleIn = (reservation) => reservation.#handle;
    settled = (reservation) => reservation.#isOpen && reservation.#letGo();
  }

  constructor(decision, handle, rules) {
    this.decision = decision;
    this.#handle = handle;
    this.#isOpen = handle !== undefined;
    this.#rules = rules;
    reservations.set(decision, this);
  }

  #letGo() {
    native.release(this.#handle);
    this.#handle = undefined;
    this.#isOpen = false;
  }

  // It is over whatever the answer of a commit or a cancel.
  async #end(kind, costs = null) {
    if (!this.#isOpen) throw failed('BAD_ARGUMENT', 'nothing is reserved, or no longer');
    this.#isOpen = false;
    try {
      return await native.call(kind, this.#handle, null, 0, costs);
    } catch (error) {
      this.#isOpen = kind === SETTLE_RESERVATION && (error.code === 'BAD_ARGUMENT' || native.held(this.#handle)[0]);
      throw error;
    } finally {
      if (!this.#isOpen) this.#letGo();
    }
  }

  #ask(which, over) {
    return this.#isOpen ? native.held(this.#handle)[which] : over;
  }

  // Whether it is open and its place is still one's own: never again, once it is not. A process that was
  // stopped, or could not reach the store, has lost it. Asks no store.
  held() {
    return this.#ask(0, false);
  }

  // Until when the place is held for certain, in seconds since 1970: it moves on while it is paid for. 0:
  // it is not held; Infinity: nothing ends it.
  heldUntil() {
    return this.#ask(1, 0) / 1e6;
  }

  // A BigInt that rises from holder to holder of the place; 0n without one, and where it is over. A
  // receiver of writes may keep the largest that it has seen, and refuse lower ones.
  get token() {
    return this.#ask(2, 0n);
  }

  // It is used, and stays charged; a place is released.
  async commit() {
    await this.#end(COMMIT);
  }

  // Gives back what it was charged.
  async cancel() {
    await this.#end(CANCEL);
  }

  // `real` is the true cost: one number for all rules, or an array of one for each. Resolves to what is
  // charged now under each. After an error without a place, save UNKNOWN_OUTCOME, it may be settled again.
  async settle(real) {
    const costs = Array.isArray(real) ? real.map(costOf) : Array(this.#rules).fill(costOf(real));
    if (costs.length !== this.#rules) throw new RangeError(`a cost for each rule: ${this.#rules} are needed`);
    return [...await this.#end(SETTLE_RESERVATION, Float64Array.from(costs))];
  }
}

// A place under an in-flight rule, held until it is released: in `finally`, or by `await using` where the
// language has it. The charges of other rules stay.
class Place extends Reservation {
  // Lets others have it. Resolves to "OK"; to "PLACE_LOST" where it was lost before; or to the status that
  // says why the store could not be told: then it is free when what was paid is over, within the rule's period.
  async release() {
    try {
      await endOf(this, COMMIT);
      return 'OK';
    } catch (error) {
      if (error.code === 'BAD_ARGUMENT') throw error;
      return error.code;
    }
  }
}
if (Symbol.asyncDispose !== undefined) {
  // Node 18.18 and newer. A place that was released in the block is over. A block that ended without its place fails.
  Place.prototype[Symbol.asyncDispose] = async function dispose() {
    const status = await this.release().catch((error) => {
      if (error.code !== 'BAD_ARGUMENT') throw error;
    });
    if (status === 'PLACE_LOST') {
      throw failed(status, 'the place was lost before its block ended: others may have entered');
    }
  };
}

// Proxies whose word is taken, or who is not limited: "10.0.0.0/8, fd00::/8".
class Networks {
  constructor(text) {
    handles.set(this, native.createNetworks(textOf('networks', text)));
  }

  contains(address) {
    return native.contains(handleOf(this, Networks), textOf('an address', address));
  }
}

// Under which key a client is limited: its address, cut to a network. X-Forwarded-For is believed where
// the peer is one of the trusted proxies.
function clientKey(peer, options) {
  const { forwardedFor, trusted, ipv4Bits = 32, ipv6Bits = 64 } =
    known(options, ['forwardedFor', 'trusted', 'ipv4Bits', 'ipv6Bits'], 'options of clientKey');
  for (const [bits, most] of [[ipv4Bits, 32], [ipv6Bits, 128]]) {
    if (!Number.isInteger(bits) || bits < 1 || bits > most) throw new RangeError('ipv4Bits are 1 to 32, ipv6Bits 1 to 128');
  }
  return native.clientKey(trusted === undefined ? null : handleOf(trusted, Networks), textOf('an address', peer),
    forwardedFor === undefined ? null : textOf('forwardedFor', forwardedFor), ipv4Bits, ipv6Bits);
}

// All counts as text for Prometheus: {api: limiter, main: store}.
function metrics(sources) {
  if (sources === null || typeof sources !== 'object') throw new TypeError('sources are an object by name');
  const names = Object.keys(sources).map((name) => textOf('a name', name));
  return native.metrics(names, names.map((name) => {
    const source = sources[name];
    return handleOf(source, source instanceof Store ? Store : Limiter);
  }));
}

module.exports = {
  Store, Limiter, Reservation, Place, Decision, Networks, clientKey, decideAll, metrics, version: native.version,
};
