/**
 * What the workers of a server execute, made from the configuration: HTTP calls and functions of AWS Lambda
 * in one worker, since waiting is all that they do here; containers in another with few slots of its own,
 * which claims what needs an engine by itself.
 */
import { createHttpHandler } from '../adapters/handlers/http/http-handler.ts'
import type { Config } from '../config/schema.ts'
import { notingDenials } from '../engine/noted-denials.ts'
import type { AuditNotes } from '../ports/audit.ts'
import type { Clock } from '../ports/clock.ts'
import type { EgressAgent } from '../ports/egress.ts'
import type { EventSink } from '../ports/event-sink.ts'
import type { Handler } from '../ports/handler.ts'
import type { SecretSource } from '../ports/secrets.ts'
import type { WorkerStore } from '../ports/worker-store.ts'
import type { Database } from '../postgres/database.ts'
import type { Callbacks } from './callbacks.ts'
import { type Containers, openContainers } from './containers.ts'
import { openLambdaHandler } from './lambda.ts'
import { version } from './version.ts'

export interface HandlerParts {
  readonly config: Config
  readonly egress: EgressAgent
  readonly clock: Clock
  readonly secrets: SecretSource
  readonly audit: AuditNotes
  readonly callbacks: Pick<Callbacks, 'door'>
  readonly events: EventSink
  readonly workers: WorkerStore
  readonly db: Database
  readonly installation: string
}

export interface Handlers {
  /** Of the worker whose runs may be announced. */
  readonly shared: readonly Handler[]
  /** Of a worker of their own. Undefined: none are run here. */
  readonly containers: Containers | undefined
  close(): Promise<void>
}

export function openHandlers(parts: HandlerParts): Handlers {
  const { config, egress, clock, secrets, callbacks, audit } = parts
  const isWanted = (kind: 'http' | 'lambda') => config.workerHandlers?.includes(kind) ?? true
  const shared: Handler[] = []
  if (isWanted('http')) {
    const userAgent = `Belfry/${version}`
    shared.push(createHttpHandler({ egress, clock, secrets, userAgent, callbacks: callbacks.door }))
  }
  if (isWanted('lambda')) shared.push(openLambdaHandler(parts))
  const containers = openContainers(parts)
  const noting = (handler: Handler) => notingDenials(handler, audit)
  return {
    shared: shared.map(noting),
    containers: containers && { ...containers, handler: noting(containers.handler) },
    async close() {
      await Promise.all([...shared, ...(containers ? [containers.handler] : [])].map((each) => each.close()))
    },
  }
}
