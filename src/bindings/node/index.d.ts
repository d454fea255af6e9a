/// <reference lib="esnext.disposable" />

/** A string (its UTF-8), bytes, or a whole number (its decimal text). */
export type Key = string | Uint8Array | number | bigint;

/** Where there is no decision, promises reject with such an error. */
export interface WeirError extends Error {
  /** The status: "BAD_RULE", "BAD_COST", "UNAVAILABLE"; "CLOSED" after close(). */
  code: string;
}

/** Times are seconds; null: not known, or never. */
export class Decision {
  private constructor();
  readonly allowed: boolean;
  readonly source: 'store' | 'local' | 'fallback' | 'late' | 'settled' | 'unlimited';
  readonly rule: number;
  readonly limit: number;
  readonly remaining: number | null;
  readonly retryAfter: number | null;
  readonly resetAfter: number | null;
  /** Allowed: wait so long before acting. Denied: hold the refusal so long. */
  readonly delay: number;
  readonly cost: number;
  readonly storeStatus: string;
  /** Why the store did not decide; '' where it did. */
  readonly message: string;
}

export interface ServerState {
  name: string | null;
  breaker: 'closed' | 'open' | 'half-open';
  outages: number;
  nextTry: number;
  lastError: string;
  answered: boolean;
}

export class Store {
  constructor(url: string);
  /** Connects ahead, within connect-timeout= of the URL or so many seconds. */
  connect(timeout?: number): Promise<void>;
  servers(): ServerState[];
  close(): void;
}

export interface LimiterOptions {
  /** The policy while the store is away; "none": an error. */
  fallback?: 'local' | 'deny' | 'allow' | 'none';
  deadline?: number;
  clockError?: number;
  memoAge?: number;
  localDenial?: number;
  leastTtl?: number;
  longestWait?: number;
  processes?: number;
  memoKeys?: number;
  peers?: number;
  /** Keys may have limits of their own, by setLimit(), and what was read of one is believed for so many seconds. */
  limitsEvery?: number;
  /** What becomes of a key that no limit was set for, with limitsEvery. */
  absent?: 'rule' | 'deny';
  cachedCells?: boolean;
  localDenials?: boolean;
  combining?: boolean;
  leases?: boolean;
}

/** What a request says of itself: a claim of the caller, and no client's. */
export interface Said {
  /** One of classes= of the rule, for which a part of the limit is all; without it all of the limit is. */
  class?: string;
  /** In the place of the rule's limit, up to its most=. */
  limit?: number;
  /** Of a shared-window, which needs it: whose floor it uses. */
  tenant?: Key;
}

/** A number; that all is denied, or nothing is counted; the rule's own; or a tier of the rule, by its name. */
export type Limit = number | 'blocked' | 'unlimited' | 'none' | (string & {});

export interface RequestOptions extends Said {
  /** One for all rules, or one for each. */
  cost?: number | number[];
  /** The delay that a bucket may answer with; of wait(): the longest wait. */
  longestWait?: number;
  /** Aborted before it is sent, a request is charged nothing; later it may be. */
  signal?: AbortSignal;
}

export interface HoldOptions extends Said {
  cost?: number | number[];
  /** Seconds to wait for a place; 0 unless it is given. */
  wait?: number;
  /** Aborted while it waits, nothing is held. */
  signal?: AbortSignal;
}

export interface NoPlaceError extends WeirError {
  code: 'NO_PLACE';
  decision: Decision;
}

export interface Request extends RequestOptions {
  key: Key;
  upTo?: boolean;
  peek?: boolean;
}

export interface Rule {
  text: string;
  algorithm: string;
  name: string;
  limit: number;
  period: number;
  capacity: number;
}

export class Limiter {
  constructor(store: Store, rule: string, options?: LimiterOptions);
  take(key: Key, options?: RequestOptions): Promise<Decision>;
  takeUpTo(key: Key, options?: RequestOptions): Promise<Decision>;
  peek(key: Key, options?: RequestOptions): Promise<Decision>;
  wait(key: Key, options?: RequestOptions): Promise<Decision>;
  decide(requests: Iterable<Key | Request>): Promise<Array<Decision | WeirError>>;
  reserve(key: Key, options?: RequestOptions): Promise<Reservation>;
  /** Enters a place under an in-flight rule; where there is none within `wait`, rejects with NoPlaceError. */
  hold(key: Key, options?: HoldOptions): Promise<Place>;
  refund(key: Key, decision: Decision, cost?: number): Promise<void>;
  /** Settles by the true cost; decision.cost is what is charged then. */
  settle(key: Key, decision: Decision, real: number): Promise<void>;
  /** Sets a key's own limit in the store, for ttl seconds or 400 days: limiters with limitsEvery go by it. */
  setLimit(key: Key, limit: Limit, options?: { ttl?: number }): Promise<void>;
  /** The same for many keys: a Map, or pairs. */
  setLimits(limits: Iterable<readonly [Key, Limit]>, options?: { ttl?: number }): Promise<void>;
  unsetLimit(key: Key): Promise<void>;
  /** null: none was ever set, it has ended, or it was lost. */
  getLimit(key: Key): Promise<Limit | null>;
  reset(key: Key): Promise<void>;
  returnLeases(): Promise<void>;
  readonly rules: Rule[];
  /** What `class` may be. */
  readonly classes: string[];
  readonly warnings: string[];
  httpFields(name: string, decision: Decision, style?: 'draft-10' | 'x-ratelimit'): Record<string, string>;
  close(): void;
}

export interface Joint {
  allowed: boolean;
  /** Whose answer is that of the whole: of those that deny, the one that denies longest. */
  deniedBy: number | null;
  retryAfter: number | null;
  /** Behind the giving back: what denies nothing has 0 as its retryAfter. */
  decisions: Decision[];
}

/** Up to 16 requests as one decision: all of them are charged, or none. */
export function decideAll(requests: Iterable<Request & { limiter: Limiter }>): Promise<Joint>;

export class Reservation {
  protected constructor();
  readonly decision: Decision;
  /** Whether it is open and its place is still one's own: never again, once it is not. */
  held(): boolean;
  /** Until when for certain, in seconds since 1970. 0: it is not held; Infinity: nothing ends it. */
  heldUntil(): number;
  /** Rises from holder to holder of the place; 0n without one. */
  readonly token: bigint;
  commit(): Promise<void>;
  cancel(): Promise<void>;
  /** Settles by the true cost, for all rules or for each; resolves to what is charged now under each. */
  settle(real: number | number[]): Promise<number[]>;
}

/** Held until it is released: in `finally`, or by `await using`. */
export class Place extends Reservation {
  private constructor();
  /** "OK", "PLACE_LOST" where it was lost before, or the status that says why the store was not told. */
  release(): Promise<string>;
  [Symbol.asyncDispose](): Promise<void>;
}

export class Networks {
  constructor(text: string);
  contains(address: string): boolean;
}

export function clientKey(peer: string, options?: {
  forwardedFor?: string;
  trusted?: Networks;
  ipv4Bits?: number;
  ipv6Bits?: number;
}): string;

export function metrics(sources: Record<string, Limiter | Store>): string;

/** The library's version. */
export function version(): string;
