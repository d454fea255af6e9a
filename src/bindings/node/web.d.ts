import { Decision, Key, LimiterOptions, Networks, Store } from './index';

/** Why a request goes no further. */
export interface Refusal {
  /** 429; 400: its cost is above the limit, or it says a class that there is not, or no tenant; 503: there is no decision. */
  status: 400 | 429 | 503;
  /** null where there is none. */
  decision: Decision | null;
  fields: Record<string, string>;
  retryAfter: string | undefined;
  text: string;
  body: string;
  contentType: string;
}

/** web.js says what each means. */
export interface LimitOptions<Request, Response> extends LimiterOptions {
  key?: (request: Request) => Key | null | undefined | Promise<Key | null | undefined>;
  cost?: number | ((request: Request) => number | Promise<number>);
  class?: string | ((request: Request) => string | null | undefined | Promise<string | null | undefined>);
  limit?: number | ((request: Request) => number | null | undefined | Promise<number | null | undefined>);
  tenant?: Key | ((request: Request) => Key | null | undefined | Promise<Key | null | undefined>);
  methods?: Iterable<string>;
  exempt?: (request: Request) => boolean | Promise<boolean>;
  enabled?: boolean | (() => boolean);
  trusted?: string | Networks;
  name?: string;
  style?: 'draft-10' | 'x-ratelimit';
  skipFailed?: boolean;
  skipSuccessful?: boolean;
  message?: string | ((refusal: Refusal) => string);
  onDenied?: (request: Request, response: Response, refusal: Refusal) => unknown;
}

/** A rule, or a function that says one; null: no limit. */
export type RuleFor<Request> = string | ((request: Request) => string | null | undefined | Promise<string | null | undefined>);

export type StoreOrUrl = Store | string;
