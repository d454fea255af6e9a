// The middleware shares this: who is limited, by which rule, and how the answer says so.
//
//     rule     '100/1m' and '100 per minute' are 'sliding-window:100/1m'; any rule of weir; or a function of the
//              request that says one, as of plans: null is no limit. A few plans, not a rule a customer
//     key      a function of the request: whose limit it is. Without one, and for requests of which it says
//              null, undefined or '', the client's address
//     cost     a number, or a function of the request
//     class    of a rule with classes=: the class of a request, by its name or a function of the request. null is no
//              class, and has all of the limit: say a low one for who says nothing
//     limit    of a rule with most=: a number in the place of the rule's, or a function of the request; null: the rule's
//     tenant   of a shared-window: whose floor it uses, as a key or a function of the request
//              Who sets a field of a request sets what is read from it: a client must not set these three
//     methods  which are limited, ['POST', 'PUT']; without it all. GET is HEAD as well
//     exempt   a function of the request: true for one that is not limited
//     enabled  false, or a function without arguments that says so: nothing is limited, as in tests
//     trusted  the proxies whose X-Forwarded-For is believed: '10.0.0.0/8'. A client of a Unix
//              socket counts as 127.0.0.1
//     name     what keeps apart the counts of limits that are otherwise alike, and is told to clients. Without
//              one a limit is called by its route's method and path, and by where it is mounted
//     style    'draft-10' (RateLimit) or 'x-ratelimit'
//     skipFailed, skipSuccessful
//              true: requests that end with a status of 400 or more, or below it, are given back: to count
//              failed logins alone, skipSuccessful: true. Who leaves before a status was sent counts
//     message  the text of a refusal, or a function of the refusal
//     onDenied a function that answers a refusal in its place: express.js and fastify.js say of what
//
// All else is an option of Limiter. A refusal is 429; 400 where the cost can never fit, or a function says a class
// that the rule does not have, or no tenant; and where fallback 'none' finds no store 503. It is problem+json for who accepts JSON, else text.
'use strict';

const { createHash } = require('crypto');
const { Store, Limiter, Networks, clientKey } = require('./index.js');

const NAME_MOST = 32;
const LIMITERS_MOST = 256; // by name and rule: more are no plans
const QUOTA_EXCEEDED = 'https://iana.org/assignments/http-problem-types#quota-exceeded';
const UNITS = { s: 's', sec: 's', second: 's', m: 'm', min: 'm', minute: 'm', h: 'h', hour: 'h', d: 'd', day: 'd', month: 'd', year: 'd' };
const DAYS = { month: 30, year: 365 };
const TITLES = { 400: 'Bad Request', 429: 'Too Many Requests', 503: 'Service Unavailable' };

// '5 per minute', '5/minute' and '100 per 15 minutes' as weir writes them; any other as it is.
function spoken(rule) {
  const found = /^\s*(\d+)\s*(?:per|\/)\s*(\d*)\s*([a-z]+)\s*$/i.exec(rule);
  const word = found ? found[3].toLowerCase() : '';
  const unit = word.length > 2 && word.endsWith('s') ? word.slice(0, -1) : word; // 'ms' is no plural
  if (!Object.hasOwn(UNITS, unit)) return rule.trim();
  return `${found[1]}/${Number(found[2] || 1) * (DAYS[unit] ?? 1)}${UNITS[unit]}`;
}

function complete(rule, name) {
  if (typeof rule !== 'string') throw new TypeError(`a rule is a string, not ${typeof rule}`);
  return rule.split(';').map((each) => {
    const [limit, ...more] = each.split(',');
    const said = [spoken(limit), ...more].join(',').trimEnd();
    const whole = limit.includes(':') ? said : `sliding-window:${said}`;
    return name === undefined || whole.includes(',name=') ? whole : `${whole},name=${name}`;
  }).join(';');
}

// As a rule takes it, and no longer than that.
function short(text) {
  const name = text.replace(/[^A-Za-z0-9_.-]+/g, '-').replace(/^-+|-+$/g, '');
  if (name.length <= NAME_MOST) return name || undefined;
  return `${name.slice(0, NAME_MOST - 9)}-${createHash('sha256').update(text).digest('hex').slice(0, 8)}`;
}

// Where a limit is mounted, by what the request came under. A client writes that as it likes: it is folded, and
// once another request has come under something else, one name serves all. So nobody gets limits of his own by
// other spellings, nor by other depths under a wildcard.
class Mount {
  #seen;

  nameOf(base, params) {
    if (!base) return '';
    let path = base.toLowerCase();
    try {
      path = decodeURIComponent(path);
    } catch {
      // as it stands: the router has refused it already, or takes it so
    }
    // A wildcard's value may have any number of parts.
    for (const [name, value] of Object.entries(params ?? {})) {
      const taken = (Array.isArray(value) ? value.join('/') : String(value)).toLowerCase();
      if (taken.includes('/') && path.endsWith(taken)) path = `${path.slice(0, -taken.length)}:${name}`;
    }
    const values = new Map(Object.entries(params ?? {}).map(([name, value]) => [String(value).toLowerCase(), name]));
    path = path.split('/').map((each) => (values.has(each) ? `:${values.get(each)}` : each)).join('/');
    if (this.#seen === undefined) this.#seen = path;
    if (this.#seen !== path) this.#seen = null; // from now on
    return this.#seen ?? 'mounted';
  }
}

// Seconds that a store may take to be connected to before the first request of its middleware goes on without.
const FIRST_PATIENCE = 0.25;
const connecting = new WeakMap();

// All that share a store connect to it once. One that is away is left to the limiter's policy.
function connectAhead(store) {
  if (!connecting.has(store)) connecting.set(store, store.connect(FIRST_PATIENCE).catch((error) => Store.note(store, error.message)));
  return connecting.get(store);
}

const counting = new Map(); // which gate counts where, by store, name, algorithm and period

// Two limits that share their counts, and were not told to, are warned of once.
function warnOfSharing(gate, limiter) {
  for (const { name, algorithm, period } of limiter.rules) {
    const place = `${gate.store} ${name} ${algorithm} ${period}`;
    const other = counting.get(place)?.deref();
    if (other === undefined) {
      counting.set(place, new WeakRef(gate));
    } else if (other !== gate && other.rule !== gate.rule && !gate.told && !other.told) {
      gate.told = other.told = true;
      process.emitWarning(`two limits of ${gate.store} count as one, as both are ${name ? `called '${name}'` : 'without a name'}: ` +
        'give each a name of its own', { type: 'WeirWarning', code: 'WEIR_SHARED' });
    }
  }
}

// Why a request goes no further. status: 429; 400: its cost is above the limit, or it says a class that there is not,
// or no tenant; 503: there is no decision.
class Refusal {
  #claim;

  constructor(gate, violated, decision, fields, accept, claim = '') {
    this.#claim = claim;
    const never = decision?.retryAfter === null && decision.limit > 0; // a key of 0 is blocked
    this.status = never || claim ? 400 : decision === null ? 503 : 429;
    this.decision = decision;
    this.fields = fields;
    this.retryAfter = fields['Retry-After'];
    const { message } = gate;
    this.text = message === undefined ? this.#own() : typeof message === 'function' ? message(this) : message;
    this.contentType = 'text/plain; charset=utf-8';
    this.body = this.text;
    if (/json/i.test(accept ?? '')) {
      this.contentType = 'application/problem+json';
      const exceeded = this.status === 429 && { 'violated-policies': [violated] };
      this.body = `${JSON.stringify({ type: exceeded ? QUOTA_EXCEEDED : 'about:blank', title: TITLES[this.status], status: this.status,
        detail: this.text.trim(), ...exceeded })}\n`;
    }
  }

  #own() {
    if (this.status === 503) return 'No limit can be told now: try again later.\n';
    if (this.#claim) return this.#claim;
    if (this.status === 400) return `This request costs ${this.decision.cost} and never fits under its limit.\n`;
    return this.retryAfter === undefined ? 'Too many requests.\n' : `Too many requests: again in ${this.retryAfter} s.\n`;
  }
}

// The policy that denied: RateLimit begins with it, in quotes.
function violatedPolicy(limiter, name, decision, fields) {
  const told = fields.RateLimit ?? limiter.httpFields(name, decision, 'draft-10').RateLimit;
  return told?.split('"')[1] ?? name;
}

// Whose address nobody knows any more: those who have left before a limit was asked. They share its counts.
const GONE = 'gone';

// A socket that has been closed has no address, and one of a file never had one.
function peerOf({ socket }) {
  if (socket.remoteAddress) return socket.remoteAddress;
  return socket.destroyed && typeof socket.server?.address?.() !== 'string' ? GONE : '127.0.0.1';
}

const hasTenants = (rules) => rules[0].algorithm === 'shared-window';

class Gate {
  #limiters = new Map();
  #mount = new Mount();

  constructor(store, rule, { key, cost = 1, class: className, limit, tenant, methods, exempt, enabled = true, trusted, name, style, skipFailed = false,
    skipSuccessful = false, message, onDenied, derived, ...options } = {}) {
    for (const [what, value] of Object.entries({ key, exempt, onDenied })) {
      if (value !== undefined && typeof value !== 'function') throw new TypeError(`${what} is a function of the request`);
    }
    if (!['undefined', 'string', 'function'].includes(typeof message)) throw new TypeError('message is a string or a function of the refusal');
    this.store = typeof store === 'string' ? new Store(store) : store;
    Object.assign(this, { rule, key, cost, exempt, enabled, style, name, derived, skipFailed, skipSuccessful, message, onDenied, options });
    if (typeof methods === 'string') throw new TypeError(`methods is a list of them, as ['${methods}'], not a string`);
    this.claims = Object.entries({ class: className, limit, tenant }).filter(([, value]) => value !== undefined && value !== null);
    this.methods = methods && new Set(Array.from(methods, (each) => each.toUpperCase()));
    if (this.methods?.has('GET')) this.methods.add('HEAD'); // a route of GET answers both
    this.trusted = typeof trusted === 'string' ? new Networks(trusted) : trusted;
    this.ahead = connectAhead(this.store);
    // A mistake is told at once, whatever the limit will be called.
    if (typeof rule === 'function') return;
    const limiter = new Limiter(this.store, complete(rule, name ?? 'x'), options);
    this.#refuseClaims(limiter);
    limiter.close();
  }

  // What no request may say.
  #refuseClaims({ classes, rules }) {
    const { class: named, limit, tenant } = Object.fromEntries(this.claims);
    if (named !== undefined && classes.length === 0) throw new RangeError(`class is of a rule with classes=, as ${rules[0].text},classes=batch:60%`);
    if (typeof named === 'string' && !classes.includes(named)) throw new RangeError(`class is "${named}": accepted are ${classes.join(', ')}`);
    if (limit !== undefined && !rules.some(({ text }) => text.includes(',most='))) throw new RangeError(`limit is of a rule with most=, as ${rules[0].text},most=5000`);
    if (hasTenants(rules) !== (tenant !== undefined)) throw new RangeError('tenant is of a shared-window, which needs it, and of no other rule');
  }

  // Of what a function says a client may be the reason: it is no fault of the service.
  #wrongClaim(limiter, said) {
    const asked = Object.fromEntries(this.claims);
    if (typeof asked.class === 'function' && typeof said.class === 'string' && !limiter.classes.includes(said.class)) {
      return `The class of this request is none of: ${limiter.classes.join(', ')}.\n`;
    }
    if (typeof asked.tenant === 'function' && hasTenants(limiter.rules) && (said.tenant === undefined || said.tenant.length === 0)) {
      return 'This request names no tenant.\n';
    }
    return '';
  }

  address(peer, request) {
    return peer === GONE ? peer : clientKey(peer, { forwardedFor: request.headers['x-forwarded-for'], trusted: this.trusted });
  }

  // By the route: its methods and its path, as they were written; and where the limit or its router is mounted.
  nameOf({ base, params, route }) {
    if (this.name !== undefined) return this.name;
    return this.derived !== undefined ? this.derived || undefined : short(`${route ?? ''}${this.#mount.nameOf(base, params)}`);
  }

  // One that has to go is closed by the last request that asks it, or gives back to it.
  #limiterOf(rule, name) {
    const place = `${name} ${rule}`;
    let used = this.#limiters.get(place);
    if (used !== undefined) {
      this.#limiters.delete(place); // behind the others: the least lately used goes first
      this.#limiters.set(place, used);
      return used;
    }
    used = { limiter: new Limiter(this.store, complete(rule, name), this.options), users: 0, goes: false };
    if (this.name === undefined) warnOfSharing(this, used.limiter);
    this.#limiters.set(place, used);
    if (this.#limiters.size > LIMITERS_MOST) {
      const [[oldest, gone]] = this.#limiters;
      this.#limiters.delete(oldest);
      gone.goes = true;
      if (gone.users === 0) gone.limiter.close();
    }
    return used;
  }

  // null: it is not limited. `raw` is Node's own request, `where` what it is called by.
  async ask(request, raw, where = {}) {
    const peer = peerOf(raw); // before its client may leave
    const enabled = typeof this.enabled === 'function' ? this.enabled() : this.enabled;
    if (!enabled || (this.methods && !this.methods.has(raw.method))) return null;
    if (await this.exempt?.(request)) return null;
    const rule = typeof this.rule === 'function' ? await this.rule(request) : this.rule;
    if (rule === null || rule === undefined) return null;
    const named = await this.key?.(request);
    const none = named === undefined || named === null || named === '';
    const key = !none ? named : `${this.key === undefined ? '' : 'address '}${this.address(peer, raw)}`;
    const cost = typeof this.cost === 'function' ? await this.cost(request) : this.cost;
    const said = {};
    for (const [what, value] of this.claims) said[what] = (typeof value === 'function' ? await value(request) : value) ?? undefined;
    const name = this.nameOf(where);
    const used = this.#limiterOf(rule, name);
    let answer = null;
    used.users++;
    try {
      await this.ahead;
      const wrong = this.claims.length > 0 ? this.#wrongClaim(used.limiter, said) : '';
      if (wrong) return { fields: {}, refusal: new Refusal(this, name ?? 'default', null, {}, raw.headers.accept, wrong) };
      answer = { used, ...await this.#answer(used.limiter, key, { cost, ...said }, name ?? 'default', raw.headers.accept) };
      return answer;
    } finally {
      if (!this.#mayGoBack(answer)) leave(used);
    }
  }

  #mayGoBack(answer) {
    return answer !== null && answer.refusal === null && (this.skipFailed || this.skipSuccessful);
  }

  async #answer(limiter, key, asked, name, accept) {
    let decision;
    try {
      decision = await limiter.take(key, asked);
    } catch (error) {
      if (!['UNAVAILABLE', 'TIMEOUT', 'UNKNOWN_OUTCOME', 'REFUSED_BY_STORE', 'CONTENDED', 'NO_MEMORY'].includes(error.code)) throw error;
      const fields = { 'Retry-After': '1' };
      return { fields, refusal: new Refusal(this, name, null, fields, accept) };
    }
    if (decision.delay > 0) await new Promise((resolve) => { setTimeout(resolve, decision.delay * 1e3); });
    const policy = asked.class === undefined ? name : `${name}/${asked.class}`;
    const fields = limiter.httpFields(policy, decision, this.style);
    const refusal = decision.allowed ? null : new Refusal(this, violatedPolicy(limiter, policy, decision, fields), decision, fields, accept);
    return { fields, refusal, limiter, key, decision };
  }

  // It is answered by `response`, Node's own. A request that is not to count goes back, by the status that was sent:
  // who leaves before that counts, else all that a client must do is hang up.
  finishWith(response, answer) {
    if (!this.#mayGoBack(answer)) return;
    const { used, limiter, key, decision } = answer;
    const settle = () => {
      const goesBack = response.headersSent && (response.statusCode >= 400 ? this.skipFailed : this.skipSuccessful);
      const isBack = goesBack ? limiter.refund(key, decision) : Promise.resolve();
      isBack.catch((error) => process.emitWarning(
        `a request that was not to count stays charged: ${error.message}`, { type: 'WeirWarning', code: 'WEIR_CHARGED' }))
        .finally(() => leave(used));
    };
    // Its client has left while the store was asked, or another has answered.
    if (response.destroyed || response.writableFinished) settle();
    else response.once('close', settle);
  }
}

// A request has done with this limiter.
function leave(used) {
  if (--used.users === 0 && used.goes) used.limiter.close();
}

// Behind what another limit has said.
function joined(before, name, value) {
  return before === undefined || name === 'Retry-After' ? value : `${before}, ${value}`;
}

module.exports = { Gate, complete, joined, short };
