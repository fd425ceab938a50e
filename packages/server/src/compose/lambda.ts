/**
 * AWS Lambda of a process, from the configuration: which functions may be called, by which credentials roles
 * are assumed, and what a tenant has to know of it.
 */
import { createLambdaClients, type LambdaClients } from '../adapters/handlers/lambda/lambda-clients.ts'
import { createLambdaHandler } from '../adapters/handlers/lambda/lambda-handler.ts'
import type { Config } from '../config/schema.ts'
import type { LambdaPolicy } from '../domain/lambda-policy.ts'
import type { Clock } from '../ports/clock.ts'
import type { EgressAgent } from '../ports/egress.ts'
import type { EventSink } from '../ports/event-sink.ts'
import type { Handler } from '../ports/handler.ts'
import type { WorkerStore } from '../ports/worker-store.ts'
import type { Database } from '../postgres/database.ts'
import { createPostgresExternalIds } from '../postgres/external-ids.ts'
import { createAwsHandler } from '../security/egress/aws-handler.ts'

/** A function may run for a quarter of an hour. */
const callTimeoutMs = 960_000

export const lambdaPolicy = ({ lambdaFunctions, lambdaRegions }: Config): LambdaPolicy => ({
  functions: lambdaFunctions,
  regions: lambdaRegions,
})

/** What `GET /v1/lambda` tells. */
export const lambdaAccess = (config: Config) => ({
  ...lambdaPolicy(config),
  enabled: config.lambdaFunctions.length > 0 && config.lambdaAccessKeyId !== undefined,
  principal: config.lambdaPrincipal ?? null,
})

export interface LambdaParts {
  readonly config: Config
  readonly egress: EgressAgent
  readonly clock: Clock
  readonly events: EventSink
  readonly workers: Pick<WorkerStore, 'appendLogs'>
  readonly db: Database
}

export function openLambdaHandler(parts: LambdaParts): Handler {
  return createLambdaHandler({ ...parts, policy: lambdaPolicy(parts.config), clients: openClients(parts) })
}

function openClients({ config, egress, clock, db }: LambdaParts): LambdaClients | undefined {
  const { lambdaAccessKeyId: accessKeyId, lambdaSecretAccessKey: secretAccessKey } = config
  if (accessKeyId === undefined || secretAccessKey === undefined) return undefined
  const { lambdaSessionToken, lambdaEndpoint: endpoint, lambdaStsEndpoint: stsEndpoint } = config
  const token = lambdaSessionToken === undefined ? {} : { sessionToken: lambdaSessionToken }
  const operatorUrls = [endpoint, stsEndpoint].filter((url) => url !== undefined)
  return createLambdaClients({
    keys: { accessKeyId, secretAccessKey, ...token },
    endpoint,
    stsEndpoint,
    requestHandler: createAwsHandler({ egress, operatorUrls, callTimeoutMs }),
    externalIds: createPostgresExternalIds(db),
    clock,
  })
}
