import { Decision, Key, LimiterOptions, Networks, Store } from './index';

/** Why a request goes no further. */
export interface Refusal {
  /** 429; 400: its cost is above the limit; 503: there is no decision. */
  status: 400 | 429 | 503;
  /** null with 503. */
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
