// For Express, and whatever takes its middleware.
//
//     const limit = require('weir/express');
//     app.use(limit(store, '100/1m'));
//     app.get('/search', limit(store, '5/1m', { name: 'search', key: (request) => request.get('x-user') }), search);
//
// web.js has all that can be said. Limits of routes that are otherwise alike need a name each.
'use strict';

const { Gate, joined, refusal } = require('./web.js');

module.exports = function limit(store, rule, options) {
  const gate = new Gate(store, rule, options);
  return function limited(request, response, next) {
    gate.ask(request, request).then((answer) => {
      if (answer === null) return next();
      for (const [name, value] of answer.fields) response.setHeader(name, joined(response.getHeader(name), name, value));
      if (answer.allowed) return next();
      response.statusCode = 429;
      response.setHeader('Content-Type', 'text/plain; charset=utf-8');
      return response.end(refusal(answer.fields));
    }).catch(next);
  };
};
