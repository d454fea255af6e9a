// For Fastify: a plugin for all routes, and hooks for some.
//
//     const weir = require('weir/fastify');
//     fastify.register(weir, { store: 'memcached://localhost?namespace=shop', rule: '100/1m' });
//     fastify.post('/login', { onRequest: weir.limit(store, '5/1m', { skipSuccessful: true }) }, login);
//
// onDenied(request, reply, refusal) answers a refusal. web.js has all that can be said.
'use strict';

const { Gate, joined, short } = require('./web.js');

// As it was written, never as a client has spelled it. Of a route of GET Fastify makes one of HEAD: they count together.
function whereOf({ routeOptions }) {
  const methods = new Set([].concat(routeOptions?.method ?? []).map((each) => (each === 'HEAD' ? 'GET' : each)));
  return { route: `${[...methods].sort().join('.')}.${routeOptions?.url ?? ''}` };
}

function hook(gate) {
  return async function limited(request, reply) {
    const answer = await gate.ask(request, request.raw, whereOf(request));
    if (answer === null) return undefined;
    const { fields, refusal } = answer;
    gate.finishWith(reply.raw, answer);
    for (const [name, value] of Object.entries(fields)) reply.header(name, joined(reply.getHeader(name), name, value));
    if (refusal === null) return undefined;
    if (gate.onDenied !== undefined) return gate.onDenied(request, reply, refusal);
    return reply.code(refusal.status).type(refusal.contentType).send(refusal.body);
  };
}

function limit(store, rule, options) {
  return hook(new Gate(store, rule, options));
}

async function plugin(fastify, { store, rule, ...options }) {
  fastify.addHook('onRequest', hook(new Gate(store, rule, { derived: short(fastify.prefix ?? '') ?? '', ...options })));
}
plugin[Symbol.for('skip-override')] = true; // of the routes beside it, too

module.exports = plugin;
module.exports.limit = limit;
