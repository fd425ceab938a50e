/**
 * What frames every request: its id (the caller's if it is sane), a refusal while the server drains, the
 * security headers, and after the answer a line in the log and a count for the metrics. Health checks are not
 * served here.
 */
import { randomUUID } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import { BelfryError } from '@belfry/contract'
import helmet from '@fastify/helmet'
import type { FastifyInstance } from 'fastify'
import type { RequestObserver } from '../../ports/request-observer.ts'

const hstsSeconds = 365 * 86_400
const sane = /^[A-Za-z0-9._:-]{1,128}$/

/** The caller's `X-Request-Id` if it is short and plain, else a new one. */
export function requestIdOf(request: IncomingMessage): string {
  const given = request.headers['x-request-id']
  return typeof given === 'string' && sane.test(given) ? given : randomUUID()
}

export async function frameRequests(
  app: FastifyInstance,
  options: { observer: RequestObserver | undefined; draining: () => boolean; https: boolean },
): Promise<void> {
  await app.register(helmet, {
    contentSecurityPolicy: {
      useDefaults: false,
      directives: {
        defaultSrc: ["'none'"],
        baseUri: ["'none'"],
        frameAncestors: ["'none'"],
        formAction: ["'none'"],
      },
    },
    frameguard: { action: 'deny' },
    // Only where the operator says that people come by https; plain HTTP on a laptop must stay reachable.
    strictTransportSecurity: options.https ? { maxAge: hstsSeconds, includeSubDomains: false } : false,
  })
  app.addHook('onRequest', async (request, reply) => {
    void reply.header('x-request-id', request.id).header('cache-control', 'no-store')
    if (!options.draining()) return
    void reply.header('connection', 'close')
    throw new BelfryError(
      'shutting_down',
      'This server is shutting down; send the request again, to another one.',
    )
  })
  app.addHook('onResponse', async (request, reply) => {
    const route = request.is404 ? 'unknown' : (request.routeOptions.url ?? 'unknown')
    const answered = {
      method: request.method,
      route,
      status: reply.statusCode,
      durationMs: Math.round(reply.elapsedTime * 1_000) / 1_000,
    }
    options.observer?.answered(answered)
    const who = request.credential
    request.log.debug({ ...answered, keyId: who?.keyId, tenantId: who?.tenantId }, 'request answered')
  })
}
