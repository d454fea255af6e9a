// Read by tsc --strict, and never run: what users may write, and, where a line says so, what they may not.
import express from 'express';
import { Decision, Limiter, NoPlaceError, Store } from 'weir';
import limit from 'weir/express';

const store = new Store('memory:');
const app = express();

async function main(): Promise<void> {
  const limiter = new Limiter(store, 'quota:9/1h', { fallback: 'deny', deadline: 0.02 });
  const decision: Decision = await limiter.take('alice');
  const left: number | null = decision.remaining;
  const why: string = decision.message;
  const place = await new Limiter(store, 'in-flight:1/10s').hold('a', { wait: 1 });
  const status: string = await place.release();
  console.log(left, why, status, (null as NoPlaceError | null)?.decision.limit);
  const said: Decision = await limiter.take('alice', { class: 'batch', limit: 50, tenant: Buffer.from('north') });
  await limiter.setLimits(new Map<string, number | 'blocked'>([['alice', 500], ['mallory', 'blocked']]), { ttl: 3600 });
  const now: number | string | null = await limiter.getLimit('alice');
  console.log(said, now, new Limiter(store, 'quota:9/1h,most=99', { limitsEvery: 1, absent: 'deny' }).classes.length);
  await limiter.setLimit('alice', 'gold');
  await limiter.setLimit('alice', true); // refused: no limit
  await limiter.take('alice', { class: 7 }); // refused: a name
  new Limiter(store, 'quota:9/1h', { falback: 'deny' }); // refused: no such option
  const wrong: number = decision.remaining; // refused: it may be null
  console.log(wrong);
}

app.use(limit(store, '100/1m'));
app.post('/login', limit(store, (request) => request.get('x-plan') ?? null,
  { key: (request) => request.get('x-user'), skipSuccessful: true }), (request, response) => { response.end(); });
app.use(limit(store, '5/1m', { onDenied: (request, response, refusal) => response.status(refusal.status).json({ again: refusal.retryAfter }) }));
app.use(limit(store, '100/1m,classes=batch:60%,most=999', { class: (request) => request.get('x-class'), limit: () => null }));
app.use(limit(store, '5/1m', { nme: 'login' })); // refused: no such option
app.use(limit(store, 5)); // refused: no rule
main();
