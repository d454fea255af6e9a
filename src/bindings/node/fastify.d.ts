import { LimitOptions, StoreOrUrl } from './web';

declare const plugin: {
  (fastify: any, options: LimitOptions<any> & { store: StoreOrUrl; rule: string }): Promise<void>;
  limit(store: StoreOrUrl, rule: string, options?: LimitOptions<any>): (request: any, reply: any) => Promise<unknown>;
};
export = plugin;
