/**
 * The handler kind `container`: one container is one attempt. It asks the policy of the tenant once more,
 * fills in secrets and what the run says of itself, hands a plan to the back end, writes the log as it
 * comes, and judges the end. It never throws; no value of a secret is in what it answers.
 */
import type { ContainerHandlerDefinition, RunError } from '@belfry/contract'
import { maxResultBytes } from '@belfry/contract'
import type { ContainerPolicy } from '../../../domain/container/container-policy.ts'
import { containerFaults } from '../../../domain/container/container-policy.ts'
import { egressRules } from '../../../domain/container/egress-class.ts'
import { type Answer, judgeExit } from '../../../domain/container/exit-verdict.ts'
import { maskJson, maskText } from '@belfry/contract/stream-mask'
import { fill } from '../../../domain/template.ts'
import type { AuditNotes } from '../../../ports/audit.ts'
import type { Clock } from '../../../ports/clock.ts'
import type { ContainerBackend, ContainerEnd, ContainerPlan } from '../../../ports/container-backend.ts'
import type { Handler, HandlerRequest, HandlerResult } from '../../../ports/handler.ts'
import type { SecretSource } from '../../../ports/secrets.ts'
import type { WorkerStore } from '../../../ports/worker-store.ts'
import { createOutputLog, type OutputLog } from './output-log.ts'

export interface ContainerHandlerOptions {
  readonly backend: ContainerBackend
  readonly clock: Clock
  readonly secrets: SecretSource
  readonly workers: Pick<WorkerStore, 'appendLogs'>
  readonly policyOf: (tenantId: string) => Promise<ContainerPolicy>
  readonly audit: AuditNotes
}

type Failure = Extract<HandlerResult, { outcome: 'failed' }>
type Job = HandlerRequest & { readonly handler: ContainerHandlerDefinition }

const failure = (code: string, message: string, retryable: boolean): Failure => ({
  outcome: 'failed',
  retryable,
  error: { code, message },
})

export function createContainerHandler(options: ContainerHandlerOptions): Handler {
  return {
    kind: 'container',
    async execute(request) {
      if (request.handler.kind !== 'container')
        return failure('handler_error', `The container handler was given a ${request.handler.kind}.`, false)
      try {
        return await attempt(options, request as Job)
      } catch {
        // Not expected: whatever the cause, its text may hold what the job keeps secret.
        return failure('container_failed', 'The container could not be run; see the log of the server.', true)
      }
    },
    close: () => options.backend.close(),
  }
}

async function attempt(options: ContainerHandlerOptions, job: Job): Promise<HandlerResult> {
  const { handler, tenantId, jobId, runAs } = job
  const policy = await options.policyOf(tenantId)
  const [fault] = containerFaults(handler, policy)
  if (fault !== undefined) {
    const subject = { kind: 'job', id: jobId, name: null } as const
    const details = { field: fault.pointer.slice(1) }
    const code = 'container_denied'
    options.audit.note({
      tenantId,
      action: 'container.deny',
      subject,
      details,
      outcome: 'refused',
      code,
      by: 'worker',
    })
    return failure(code, `${fault.pointer.slice(1)} ${fault.message}`, false)
  }
  const answer = await options.secrets.resolve({ tenantId, jobId, handler, runAs })
  if (!answer.ok) return failure(answer.fault.code, answer.fault.message, answer.fault.retryable)
  const env = environment(job, answer.values)
  if ('missing' in env) return failure('secret_missing', `There is no secret "${env.missing}".`, false)
  const secrets = [...answer.values.values()]
  const log = openLog(options, job, secrets)
  const end = await options.backend.run(planOf(job, policy, env.variables), log.sink, job.signal)
  await log.end()
  return verdictOf(job, end, log, secrets)
}

function verdictOf(job: Job, end: ContainerEnd, log: OutputLog, secrets: readonly string[]): HandlerResult {
  if (end.kind === 'failed')
    return {
      outcome: 'failed',
      retryable: end.retryable,
      error: masked({ code: end.code, message: end.message }, secrets),
    }
  const exit = { ...end, stopped: end.stopped !== 'no' }
  const verdict = judgeExit(exit, answerOf(job.handler, end, log), job.handler)
  if (verdict.outcome !== 'succeeded') return { ...verdict, error: masked(verdict.error, secrets) }
  return {
    outcome: 'succeeded',
    result: verdict.result === undefined ? undefined : maskJson(verdict.result, secrets),
  }
}

const masked = ({ code, message }: RunError, secrets: readonly string[]): RunError => ({
  code,
  message: maskText(message, secrets),
})

function answerOf(
  { result }: ContainerHandlerDefinition,
  end: Extract<ContainerEnd, { kind: 'exited' }>,
  log: OutputLog,
): Answer {
  if (result === 'last_line') {
    const text = log.lastLine()
    return text === undefined ? { fault: 'none' } : { text }
  }
  if (end.result?.kind === 'file') return { text: Buffer.from(end.result.bytes).toString('utf8') }
  return { fault: end.result?.kind === 'too_large' ? 'too_large' : 'none' }
}

function openLog(
  { clock, workers, audit }: ContainerHandlerOptions,
  job: Job,
  secrets: readonly string[],
): OutputLog {
  const { sessionId, runId, leaseEpoch, tenantId, jobId } = job
  return createOutputLog({
    clock,
    secrets,
    async append(firstLine, lines) {
      const [kept] = await workers.appendLogs(sessionId, [{ tenantId, runId, leaseEpoch, firstLine, lines }])
      return kept === undefined || !kept.full
    },
    denied(place) {
      const subject = { kind: 'job', id: jobId, name: null } as const
      const note = { tenantId, action: 'target.deny', subject, details: { place } } as const
      audit.note({ ...note, outcome: 'refused', code: 'target_denied', by: 'worker' })
    },
  })
}

type Environment =
  | { readonly variables: readonly (readonly [string, string])[] }
  | { readonly missing: string }

function environment(job: Job, secrets: ReadonlyMap<string, string>): Environment {
  const { runId, attempt: number, idempotencyKey, scheduledForMs, jobId, tenantId } = job
  const words = { id: runId, attempt: number, idempotencyKey, scheduledForMs }
  const variables: [string, string][] = [
    ['BELFRY_RUN_ID', runId],
    ['BELFRY_JOB_ID', jobId],
    ['BELFRY_TENANT_ID', tenantId],
    ['BELFRY_ATTEMPT', String(number)],
    ['BELFRY_IDEMPOTENCY_KEY', idempotencyKey],
    ['TRACEPARENT', job.traceparent],
  ]
  if (scheduledForMs !== null)
    variables.push(['BELFRY_SCHEDULED_FOR', new Date(scheduledForMs).toISOString()])
  for (const [name, value] of Object.entries(job.handler.env)) {
    const filled =
      typeof value === 'string'
        ? fill(value, secrets, words)
        : secretText(secrets.get(value.secret), value.secret)
    if (!filled.ok) return { missing: filled.missing }
    variables.push([name, filled.text])
  }
  return { variables }
}

const secretText = (text: string | undefined, name: string) =>
  text === undefined ? ({ ok: false, missing: name } as const) : ({ ok: true, text } as const)

function planOf(job: Job, policy: ContainerPolicy, env: ContainerPlan['env']): ContainerPlan {
  const { handler } = job
  const input = JSON.stringify(job.input ?? null)
  const [uid = 65_534, gid = 65_534] = handler.user.split(':').map(Number)
  return {
    runId: job.runId,
    tenantId: job.tenantId,
    attempt: job.attempt,
    leaseEpoch: job.leaseEpoch,
    sessionId: job.sessionId,
    image: handler.image,
    pull: policy.pull,
    entrypoint: handler.entrypoint,
    command: handler.command,
    env,
    uid,
    gid,
    workingDir: handler.workingDir,
    tmpfs: Object.entries(handler.tmpfs),
    limits: handler.limits,
    egressName: handler.egress,
    egress: egressRules(handler.egress, policy.egress),
    stdin: handler.input === 'stdin' ? input : undefined,
    inputFile: handler.input === 'file' ? input : undefined,
    resultFileBytes: handler.result === 'file' ? maxResultBytes : undefined,
    stopGraceMs: handler.stopGraceMs,
  }
}
