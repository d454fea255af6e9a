// An Express service with limits: node express_service.js PORT
//
// Everybody has 100 requests a minute for the whole service, and a user, or who has no name an address,
// 5 searches a minute. Behind a proxy on this machine.
'use strict';

const express = require('express');
const { Store } = require('weir');
const limit = require('weir/express');

const store = new Store(process.env.WEIR_STORE || 'memcached://localhost');
const app = express();
const trusted = '127.0.0.1';

app.use(limit(store, '100/1m', { trusted, exempt: (request) => request.path === '/health' }));
app.get('/', (request, response) => response.send('hello\n'));
app.get('/search', limit(store, '5/1m', { trusted, name: 'search', key: (request) => request.get('x-user') }),
  (request, response) => response.send('found\n'));
app.get('/health', (request, response) => response.send('ok\n'));
app.listen(Number(process.argv[2] || 8000), '127.0.0.1');
