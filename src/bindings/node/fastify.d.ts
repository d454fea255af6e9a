import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { LimitOptions, RuleFor, StoreOrUrl } from './web';

type Options = LimitOptions<FastifyRequest, FastifyReply>;

declare const plugin: {
  (fastify: FastifyInstance, options: Options & { store: StoreOrUrl; rule: RuleFor<FastifyRequest> }): Promise<void>;
  limit(store: StoreOrUrl, rule: RuleFor<FastifyRequest>, options?: Options):
    (request: FastifyRequest, reply: FastifyReply) => Promise<unknown>;
};
export = plugin;
