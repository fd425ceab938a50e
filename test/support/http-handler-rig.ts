/**
 * An HTTP handler on its real egress agent, with a real target on loopback. The rules treat loopback as
 * opened by the operator; `dispose` fails if the handler or the agent leaves a connection open.
 */
import { httpHandlerSchema } from '@belfry/contract'
import type { z } from 'zod'
import { createHttpHandler } from '../../packages/server/src/adapters/handlers/http/http-handler.ts'
import type { Timer } from '../../packages/server/src/ports/clock.ts'
import type { EgressAgent } from '../../packages/server/src/ports/egress.ts'
import type { Handler, HandlerRequest } from '../../packages/server/src/ports/handler.ts'
import type { SecretSource } from '../../packages/server/src/ports/secrets.ts'
import { createEgress, type EgressOptions } from '../../packages/server/src/security/egress/egress.ts'
import { realClock } from './real-clock.ts'
import { createTargetServer, type TargetOptions, type TargetServer } from './target-server.ts'

export type HttpDefinition = Omit<z.input<typeof httpHandlerSchema>, 'kind'>

export interface HttpHandlerRig {
  readonly target: TargetServer
  readonly egress: EgressAgent
  readonly handler: Handler
  /** What is resolved, by name; to be filled by the test. */
  readonly secrets: Map<string, string>
  /**
   * A request to the target's `/`, POST, unless the definition says otherwise. Its signal fires at the
   * timeout, as the worker's does.
   */
  request(definition?: Partial<HttpDefinition>, changes?: Partial<HandlerRequest>): HandlerRequest
  dispose(): Promise<void>
}

export async function createHttpHandlerRig(
  options: Partial<EgressOptions> = {},
  targetOptions: TargetOptions = {},
): Promise<HttpHandlerRig> {
  const target = await createTargetServer(targetOptions)
  const egress = createEgress({ allowCidrs: ['127.0.0.0/8'], clock: realClock, ...options })
  const secrets = new Map<string, string>()
  let values: ReadonlyMap<string, string> = new Map()
  // the same map for as long as nothing changes, as the real source has it
  const source: SecretSource = {
    async resolve() {
      if (JSON.stringify([...values]) !== JSON.stringify([...secrets])) values = new Map(secrets)
      return { ok: true, values }
    },
    masked: async () => [...secrets.values()],
  }
  const handler = createHttpHandler({
    egress,
    clock: realClock,
    userAgent: 'Belfry/0.0.0',
    secrets: source,
    callbacks: { open: async () => undefined },
  })
  const timeouts = new Set<Timer>()
  function timeoutSignal(timeoutMs: number): AbortSignal {
    const controller = new AbortController()
    timeouts.add(realClock.setTimer(timeoutMs, () => controller.abort('timeout')))
    return controller.signal
  }
  return {
    target,
    egress,
    handler,
    secrets,
    request: (definition = {}, changes = {}) => ({
      sessionId: '019ad0c1-7f3e-7c63-9a52-000000000001',
      runId: '019ad0c1-7f3e-7c63-9a52-6e4d8c1b2a3f',
      tenantId: '019ad0c1-7f3e-7c63-9a52-6e4d8c1b0001',
      jobId: '019ad0c1-7f3e-7c63-9a52-6e4d8c1b0002',
      attempt: 1,
      leaseEpoch: 1,
      scheduledForMs: null,
      idempotencyKey: '019ad0c1-7f3e-7c63-9a52-6e4d8c1b2a3f',
      input: null,
      handler: httpHandlerSchema.parse({ kind: 'http', url: target.url(), ...definition }),
      runAs: null,
      timeoutMs: 20_000,
      runDeadlineMs: null,
      delivery: 'at_least_once',
      traceparent: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01',
      signal: timeoutSignal(changes.timeoutMs ?? 20_000),
      ...changes,
    }),
    async dispose() {
      for (const timeout of timeouts) timeout.cancel()
      await handler.close()
      await egress.close()
      try {
        await target.drained()
      } finally {
        await target.close()
      }
    },
  }
}
