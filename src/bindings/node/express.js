// For Express, and whatever takes its middleware.
//
//     const limit = require('weir/express');
//     app.use(limit('memcached://localhost?namespace=shop', '100/1m'));
//     app.post('/login', limit(store, '5/1m', { skipSuccessful: true }), login);
//
// onDenied(request, response, refusal) answers a refusal. web.js has all that can be said.
'use strict';

const { Gate, joined } = require('./web.js');

// As it was written, never as a client has spelled it.
function whereOf(request) {
  const { route, baseUrl: base, params } = request;
  if (!route) return { base, params };
  const methods = Object.keys(route.methods ?? {}).filter((each) => route.methods[each]).sort().join('.');
  return { base, params, route: `${methods}.${route.path}` };
}

module.exports = function limit(store, rule, options) {
  const gate = new Gate(store, rule, options);
  return function limited(request, response, next) {
    gate.ask(request, request, whereOf(request)).then((answer) => {
      if (answer === null) return next();
      const { fields, refusal } = answer;
      gate.finishWith(response, answer); // first: where the response was begun by another, setHeader() throws
      for (const [name, value] of Object.entries(fields)) response.setHeader(name, joined(response.getHeader(name), name, value));
      if (refusal === null) return next();
      if (gate.onDenied !== undefined) return gate.onDenied(request, response, refusal);
      response.statusCode = refusal.status;
      response.setHeader('Content-Type', refusal.contentType);
      return response.end(refusal.body);
    }).catch(next);
  };
};
