// The Lambda handler as a server makes it, on endpoints of a test, with its log lines kept for a look.
import {
  CreateAliasCommand,
  CreateFunctionCommand,
  LambdaClient,
  PublishVersionCommand,
} from '@aws-sdk/client-lambda'
import type { HandlerRequest } from '../../packages/server/src/ports/handler.ts'
import { createLambdaClients } from '../../packages/server/src/adapters/handlers/lambda/lambda-clients.ts'
import { createLambdaHandler } from '../../packages/server/src/adapters/handlers/lambda/lambda-handler.ts'
import { type LambdaPolicy, lambdaRegions } from '../../packages/server/src/domain/lambda-policy.ts'
import type { Clock } from '../../packages/server/src/ports/clock.ts'
import type { Handler } from '../../packages/server/src/ports/handler.ts'
import type { LogAppend } from '../../packages/server/src/ports/worker-store.ts'
import { createAwsHandler } from '../../packages/server/src/security/egress/aws-handler.ts'
import { createEgress } from '../../packages/server/src/security/egress/egress.ts'
import { realClock } from './real-clock.ts'
import { recordEvents, type RecordedEvents } from './running.ts'

export const functionArn = 'arn:aws:lambda:eu-west-1:123456789012:function:report'
export const roleArn = 'arn:aws:iam::123456789012:role/belfry-invoke'
export const operatorKeys = { accessKeyId: 'AKIAOPERATOR', secretAccessKey: 'operator-secret' }

export interface LambdaRig {
  readonly handler: Handler
  readonly logs: LogAppend[]
  readonly events: RecordedEvents
  readonly request: (
    definition?: object,
    changes?: Partial<HandlerRequest>,
  ) => HandlerRequest & { readonly abort: (reason: string) => void }
  readonly close: () => Promise<void>
}

export interface LambdaRigOptions {
  readonly endpoint: string
  readonly policy?: Partial<LambdaPolicy>
  readonly clock?: Clock
  readonly keepLog?: () => Promise<never>
  /** Whether the endpoints are those of the operator, which may be private addresses. Default true. */
  readonly byOperator?: boolean
}

export function openLambdaRig(options: LambdaRigOptions): LambdaRig {
  const { endpoint, clock = realClock, byOperator = true } = options
  const egress = createEgress({ allowCidrs: [], clock: realClock })
  const logs: LogAppend[] = []
  const events = recordEvents()
  const clients = createLambdaClients({
    keys: operatorKeys,
    endpoint,
    stsEndpoint: endpoint,
    requestHandler: createAwsHandler({
      egress,
      operatorUrls: byOperator ? [endpoint] : [],
      callTimeoutMs: 20_000,
    }),
    externalIds: { externalIdOf: async (tenantId) => `external-${tenantId}` },
    clock,
  })
  const handler = createLambdaHandler({
    clients,
    policy: {
      functions: ['arn:aws:lambda:*:123456789012:function:*'],
      regions: lambdaRegions,
      ...options.policy,
    },
    workers: {
      appendLogs: async (_, chunks) => {
        if (options.keepLog !== undefined) return options.keepLog()
        logs.push(...chunks)
        return []
      },
    },
    clock,
    events,
  })
  return {
    handler,
    logs,
    events,
    request: requestOf,
    async close() {
      await handler.close()
      await egress.close()
    },
  }
}

function requestOf(
  definition: object = {},
  changes: Partial<HandlerRequest> = {},
): ReturnType<LambdaRig['request']> {
  const controller = new AbortController()
  return {
    sessionId: '019ad0c1-7f3e-7c63-9a52-000000000001',
    runId: '019ad0c1-7f3e-7c63-9a52-6e4d8c1b2a3f',
    tenantId: '019ad0c1-7f3e-7c63-9a52-00000000000a',
    jobId: '019ad0c1-7f3e-7c63-9a52-00000000000b',
    attempt: 2,
    leaseEpoch: 3,
    scheduledForMs: Date.UTC(2026, 0, 2),
    idempotencyKey: '019ad0c1-7f3e-7c63-9a52-6e4d8c1b2a3f',
    input: { month: 'may' },
    handler: {
      kind: 'lambda',
      functionArn,
      roleArn,
      invocation: 'request_response',
      payload: 'envelope',
      ...definition,
    },
    runAs: null,
    timeoutMs: 60_000,
    runDeadlineMs: null,
    delivery: 'at_least_once',
    traceparent: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01',
    signal: controller.signal,
    abort: (reason) => controller.abort(reason),
    ...changes,
  }
}

/** The smallest archive there is: an empty one. */
const emptyZip = Buffer.from(`504b0506${'00'.repeat(18)}`, 'hex')

/** A function on an emulator, with a version and the alias `live`; answers the ARN of its role. */
export async function createFunction(url: string, name: string): Promise<string> {
  const region = 'eu-west-1'
  const credentials = { accessKeyId: 'AKIAADMIN', secretAccessKey: 'admin' }
  const admin = new LambdaClient({ region, endpoint: url, credentials })
  const Role = await createRole(url)
  const Code = { ZipFile: emptyZip }
  const made = { FunctionName: name, Runtime: 'nodejs22.x', Role, Handler: 'index.handler', Code } as const
  await admin.send(new CreateFunctionCommand(made))
  await admin.send(new PublishVersionCommand({ FunctionName: name }))
  await admin.send(new CreateAliasCommand({ FunctionName: name, Name: 'live', FunctionVersion: '1' }))
  admin.destroy()
  return Role
}

/** In the form of IAM's own protocol, which needs no client here. */
async function createRole(url: string): Promise<string> {
  const trust = JSON.stringify({ Version: '2012-10-17', Statement: [] })
  const asked = {
    Action: 'CreateRole',
    Version: '2010-05-08',
    RoleName: 'runs',
    AssumeRolePolicyDocument: trust,
  }
  const scope = 'AKIAADMIN/20260101/eu-west-1/iam/aws4_request'
  const authorization = `AWS4-HMAC-SHA256 Credential=${scope}, SignedHeaders=host, Signature=0`
  const headers = { authorization, 'content-type': 'application/x-www-form-urlencoded' }
  const answer = await fetch(url, { method: 'POST', headers, body: new URLSearchParams(asked) })
  return /<Arn>([^<]+)<\/Arn>/.exec(await answer.text())?.[1] ?? ''
}
