/**
 * Endpoints of what Belfry calls: reports of targets that took a run over, by the token of the attempt; and
 * what a tenant must know to have its functions of Lambda called.
 */
import type { Endpoints } from '../endpoint.ts'
import { keyOfHeader } from '../plugins/access.ts'

export const callbackEndpoints: Pick<Endpoints, 'callbackReport' | 'lambdaGet'> = {
  callbackReport: {
    as: 'public',
    async answer({ params, body, request, visitor, services }) {
      const token = keyOfHeader(request.headers.authorization)
      const sent = { headers: request.headers, body: request.rawBody ?? Buffer.alloc(0) }
      const call = { runId: params.runId, token, report: body, sent }
      return { body: await services.callbacks.report(visitor.address, call) }
    },
  },
  lambdaGet: {
    as: 'tenant',
    async answer({ tx, tools }) {
      const { enabled, principal, functions, regions } = tools.lambda
      const lists = { functions: [...functions], regions: [...regions] }
      return { body: { enabled, externalId: await tx.externalId(), principal, ...lists } }
    },
  },
}
