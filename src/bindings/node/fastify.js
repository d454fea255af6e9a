// For Fastify: a plugin for all routes, and hooks for some.
//
//     const weir = require('weir/fastify');
//     fastify.register(weir, { store, rule: '100/1m' });
//     fastify.get('/search', { onRequest: weir.limit(store, '5/1m', { name: 'search' }) }, search);
//
// web.js has all that can be said. Limits of routes that are otherwise alike need a name each.
'use strict';

const { Gate, joined, refusal } = require('./web.js');

function limit(store, rule, options) {
  const gate = new Gate(store, rule, options);
  return async function limited(request, reply) {
    const answer = await gate.ask(request, request.raw);
    if (answer === null) return undefined;
    for (const [name, value] of answer.fields) reply.header(name, joined(reply.getHeader(name), name, value));
    return answer.allowed ? undefined : reply.code(429).type('text/plain; charset=utf-8').send(refusal(answer.fields));
  };
}

async function plugin(fastify, { store, rule, ...options }) {
  fastify.addHook('onRequest', limit(store, rule, options));
}
plugin[Symbol.for('skip-override')] = true; // of the routes beside it, too

module.exports = plugin;
module.exports.limit = limit;
