import { IncomingMessage, ServerResponse } from 'http';
import { LimitOptions, StoreOrUrl } from './web';

declare function limit<Request extends IncomingMessage>(store: StoreOrUrl, rule: string, options?: LimitOptions<Request>):
  (request: Request, response: ServerResponse, next: (error?: unknown) => void) => void;
export = limit;
