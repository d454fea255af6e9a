import type { Request, RequestHandler, Response } from 'express';
import { LimitOptions, RuleFor, StoreOrUrl } from './web';

declare function limit(store: StoreOrUrl, rule: RuleFor<Request>, options?: LimitOptions<Request, Response>): RequestHandler;
export = limit;
