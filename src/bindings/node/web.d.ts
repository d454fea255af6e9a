import { Key, LimiterOptions, Networks, Store } from './index';

/** web.js says what each means. */
export interface LimitOptions<Request> extends LimiterOptions {
  key?: (request: Request) => Key | null | undefined | Promise<Key | null | undefined>;
  cost?: number | ((request: Request) => number | Promise<number>);
  exempt?: (request: Request) => boolean | Promise<boolean>;
  trusted?: string | Networks;
  name?: string;
  style?: 'draft-10' | 'x-ratelimit';
}

export type StoreOrUrl = Store | string;
