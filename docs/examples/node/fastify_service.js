// A Fastify service with limits: node fastify_service.js PORT
//
// Everybody has 100 requests a minute for the whole service, and a user, or who has no name an address,
// 5 searches a minute. Behind a proxy on this machine.
'use strict';

const fastify = require('fastify')();
const { Store } = require('weir');
const weir = require('weir/fastify');

const store = new Store(process.env.WEIR_STORE || 'memcached://localhost');
const trusted = '127.0.0.1';
const search = weir.limit(store, '5/1m', { trusted, name: 'search', key: (request) => request.headers['x-user'] });

fastify.register(weir, { store, rule: '100/1m', trusted, exempt: (request) => request.url === '/health' });
fastify.register(async (routes) => {
  routes.get('/', async () => 'hello\n');
  routes.get('/search', { onRequest: search }, async () => 'found\n');
  routes.get('/health', async () => 'ok\n');
});
fastify.listen({ port: Number(process.argv[2] || 8000), host: '127.0.0.1' });
