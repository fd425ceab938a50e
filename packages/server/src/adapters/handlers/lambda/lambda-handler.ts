/**
 * The handler kind `lambda`: one invocation of a function of AWS Lambda is one attempt.
 *
 *   listed? ─► payload ─► role of the tenant (STS, external id) ─► invoke ─► judge ─► keep log
 *                                   ▲                                 │ credentials are not taken: once more
 *                                   └─────────────────────────────────┘ with new ones; nothing was executed
 *
 * Whatever fails on this way is told apart (invoke-fault.ts, invoke-answer.ts): a function that failed, a
 * throttle, a failing service, and what AWS or the operator refuse.
 */
import type { InvokeCommandOutput } from '@aws-sdk/client-lambda'
import { type LambdaHandlerDefinition, parseFunctionArn } from '@belfry/contract'
import { type LambdaPolicy, lambdaFaults } from '../../../domain/lambda-policy.ts'
import type { Clock } from '../../../ports/clock.ts'
import type { EventSink } from '../../../ports/event-sink.ts'
import type { Handler, HandlerRequest, HandlerResult } from '../../../ports/handler.ts'
import type { WorkerStore } from '../../../ports/worker-store.ts'
import { judgeAnswer } from './invoke-answer.ts'
import { invokeFault, isExpired } from './invoke-fault.ts'
import { type InvokePayload, invokePayload } from './invoke-payload.ts'
import type { LambdaClients, RoleClient, RoleName } from './lambda-clients.ts'
import { logLines } from './log-tail.ts'

export interface LambdaHandlerOptions {
  /** Undefined: this process has no credentials for it. */
  readonly clients: LambdaClients | undefined
  readonly policy: LambdaPolicy
  readonly workers: Pick<WorkerStore, 'appendLogs'>
  readonly clock: Clock
  readonly events: EventSink
}

interface Invocation {
  readonly request: HandlerRequest
  readonly handler: LambdaHandlerDefinition
  readonly payload: InvokePayload
  readonly role: RoleName
  readonly signal: AbortSignal
}

const failed = (code: string, message: string, retryable: boolean): HandlerResult => ({
  outcome: 'failed',
  retryable,
  error: { code, message },
})

export function createLambdaHandler(options: LambdaHandlerOptions): Handler {
  const closed = new AbortController()

  async function execute(request: HandlerRequest): Promise<HandlerResult> {
    const { handler, tenantId } = request
    if (handler.kind !== 'lambda') throw new Error(`The Lambda handler was given a ${handler.kind}.`)
    const [refused] = lambdaFaults(handler, options.policy)
    const arn = parseFunctionArn(handler.functionArn)
    if (refused !== undefined || arn === undefined)
      return failed('target_denied', `the function ${refused?.message ?? 'is not named by its ARN'}`, false)
    if (options.clients === undefined) {
      const fix = 'its operator sets BELFRY_LAMBDA_ACCESS_KEY_ID and its secret'
      return failed('lambda_not_set_up', `this server has no credentials to assume roles with; ${fix}`, true)
    }
    const payload = invokePayload(request, handler)
    if ('fault' in payload) return failed('payload_too_large', payload.fault, false)
    const role = { tenantId, roleArn: handler.roleArn, region: arn.region }
    const signal = AbortSignal.any([request.signal, closed.signal])
    return await invoke(options, options.clients, { request, handler, payload, role, signal })
  }

  return {
    kind: 'lambda',
    execute,
    async close() {
      closed.abort('shutdown')
      options.clients?.close()
    },
  }
}

async function invoke(
  options: LambdaHandlerOptions,
  clients: LambdaClients,
  invocation: Invocation,
): Promise<HandlerResult> {
  const called = await callAs(clients, invocation)
  if ('outcome' in called) return called
  await keepLog(options, invocation.request, called.answer.LogResult)
  const { StatusCode: status = 200, FunctionError: functionError, Payload: payload } = called.answer
  return judgeAnswer({ status, functionError, payload })
}

type Called = { readonly answer: InvokeCommandOutput } | HandlerResult

async function callAs(clients: LambdaClients, invocation: Invocation, isSecond = false): Promise<Called> {
  const { role, signal } = invocation
  let what: 'call' | 'assume' = 'assume'
  try {
    const client = await clients.of(role, signal)
    what = 'call'
    return { answer: await send(client, invocation) }
  } catch (error) {
    if (signal.aborted) return failed('aborted', 'the call was given up', true)
    if (what === 'call' && isExpired(error)) {
      clients.drop(role)
      if (!isSecond) return await callAs(clients, invocation, true)
    }
    return { outcome: 'failed', ...invokeFault(error, what) }
  }
}

async function send(
  { sdk, client }: RoleClient,
  { handler, payload, signal: abortSignal }: Invocation,
): Promise<InvokeCommandOutput> {
  const { functionArn, invocation } = handler
  const qualifier = parseFunctionArn(functionArn)?.qualifier
  const isEvent = invocation === 'event'
  const asked = {
    FunctionName: qualifier === undefined ? functionArn : functionArn.slice(0, -qualifier.length - 1),
    InvocationType: isEvent ? ('Event' as const) : ('RequestResponse' as const),
    Payload: payload.bytes,
    ...(qualifier === undefined ? {} : { Qualifier: qualifier }),
    ...(isEvent ? {} : { LogType: 'Tail' as const }),
    ...(payload.clientContext === undefined ? {} : { ClientContext: payload.clientContext }),
  }
  return await client.send(new sdk.lambda.InvokeCommand(asked), { abortSignal })
}

/** The end of an attempt does not hang on its log: one that cannot be kept is told, and lost. */
async function keepLog(
  { workers, clock, events }: LambdaHandlerOptions,
  { sessionId, tenantId, runId, leaseEpoch }: HandlerRequest,
  tail: string | undefined,
): Promise<void> {
  const lines = tail === undefined ? [] : logLines(tail, new Date(clock.nowMs()).toISOString())
  if (lines.length === 0) return
  try {
    await workers.appendLogs(sessionId, [{ tenantId, runId, leaseEpoch, firstLine: 0, lines }])
  } catch (error) {
    events.emit('role_failed', { role: 'lambda-log', error, retryInMs: 0 })
  }
}
