/**
 * Asking for runs within the program's own process, without a request to the API: inside the program's own
 * transaction, or in one of ours. Judged by the same rules as over the API. What may start at once and has
 * nothing to be decided takes the short way (direct-enqueue.ts).
 */
import type { ErrorDetail, JsonValue, RunCreate, RunCreated, RunReceipt } from '@belfry/contract'
import { BelfryError, inputFault, runCreateSchema } from '@belfry/contract'
import { checkDependencies } from '../engine/catalog/asked-dependencies.ts'
import { askedRun } from '../engine/catalog/asked-run.ts'
import type { AskedRun, EnqueuedRun, EnqueueParts } from '../engine/catalog/enqueuer.ts'
import { enqueueRuns } from '../engine/catalog/enqueuer.ts'
import { newRunRecord } from '../engine/catalog/new-run-record.ts'
import { insideQuotas } from '../engine/quotas/quota-catalog.ts'
import { createRepeatedHints, type RepeatedHints } from '../engine/repeated-hints.ts'
import { withKnownLanes } from '../http/known-lanes.ts'
import { storedRun } from '../http/stored-run.ts'
import { invalidRequest, validatePart } from '../http/validation.ts'
import { runView } from '../http/views.ts'
import type { Catalog, RunTemplate } from '../ports/catalog.ts'
import type { Clock } from '../ports/clock.ts'
import type { Hint } from '../ports/hints.ts'
import type { RunIntake } from '../ports/run-intake.ts'
import { type CallersClient, insideTransaction } from '../postgres/enqueue-inside.ts'
import { systemRandom } from '../adapters/system/ids.ts'
import { createDirectEnqueue } from './direct-enqueue.ts'
import type { Parts } from './parts.ts'

export interface ManyAsked {
  /** What the runs have in common. */
  readonly body: RunCreate
  readonly inputs: readonly (JsonValue | undefined)[]
  /** Of each run; left out: none. */
  readonly dedupeKeys?: readonly (string | undefined)[] | undefined
}

export interface EmbeddedEnqueue {
  /** Undefined: the API has to decide this one; nothing was stored. */
  direct(body: RunCreate): Promise<RunCreated | undefined>
  one(client: CallersClient, body: RunCreate): Promise<RunReceipt>
  /** All or none. Without a client in a transaction of its own. */
  many(client: CallersClient | undefined, asked: ManyAsked): Promise<readonly RunReceipt[]>
  close(): void
}

export function createEmbeddedEnqueue(
  parts: Pick<Parts, 'catalog' | 'directIntake' | 'engine' | 'events' | 'hints' | 'ids' | 'quotas' | 'tags'>,
  tenantId: string,
  retentionDays: number,
  clock: Clock,
): EmbeddedEnqueue {
  const catalog = parts.catalog ?? noCatalog()
  const intake = parts.directIntake ?? noCatalog()
  const { databaseClock } = parts.engine
  const direct = createDirectEnqueue(
    { ...parts, catalog, intake, databaseClock, clock, random: systemRandom },
    tenantId,
  )
  const repeated = createRepeatedHints(parts.hints, clock)
  const take = createTaker({ ...parts, catalog, repeated }, tenantId, retentionDays)

  return {
    async direct(given) {
      const { input, ...body } = checkedBody(given)
      const stored = await direct.store(body, [input])
      if (stored === undefined) return undefined
      const access = { tenantId, dryRun: false, readOnly: true }
      const record = stored.limited
        ? await catalog.within(access, (tx) => storedRun(tx, stored.ids[0] ?? ''))
        : newRunRecord(stored.runAt(0), stored.dueAtMs)
      return { ...runView(record), duplicate: false, duplicateOf: null, gathered: null }
    },
    async one(client, given) {
      const body = checkedBody(given)
      const within = (nowMs: number) => ({ nowMs, retentionDays })
      const asked = (template: RunTemplate, nowMs: number) => [askedRun(template, body, within(nowMs))]
      const [receipt] = await take(client, body.job, asked)
      if (receipt === undefined) throw new BelfryError('internal', 'A request has no result.')
      return receipt
    },
    async many(client, { body: given, inputs, dedupeKeys }) {
      const { dedupe, ...rest } = given
      const body = checkedBody(rest)
      checkInputs(inputs)
      if (client === undefined && dedupeKeys === undefined) {
        const stored = await direct.store(body, inputs)
        if (stored !== undefined) return receiptsOf(stored, body.job)
      }
      return take(client, body.job, (template, nowMs) =>
        inputs.map((input, index) => {
          const dedupeKey = dedupeKeys?.[index]
          const keyed =
            dedupeKey === undefined ? { ...body, input } : checkedBody({ ...given, dedupe, dedupeKey, input })
          return askedRun(template, keyed, { nowMs, retentionDays })
        }),
      )
    },
    close: () => repeated.close(),
  }
}

type Take = (
  client: CallersClient | undefined,
  job: string,
  asked: (template: RunTemplate, nowMs: number) => readonly AskedRun[],
) => Promise<readonly RunReceipt[]>

/** Takes in whatever may be asked for; the job is read first. */
function createTaker(
  {
    catalog,
    tags,
    ids,
    hints,
    quotas,
    repeated,
  }: Pick<Parts, 'hints' | 'ids' | 'quotas' | 'tags'> & {
    readonly catalog: Catalog
    readonly repeated: RepeatedHints
  },
  tenantId: string,
  retentionDays: number,
): Take {
  const look = (job: string) =>
    catalog.within({ tenantId, dryRun: false, readOnly: true }, async (tx) => {
      const [template, nowMs] = await Promise.all([tx.runs.templateByJobName(job), tx.nowMs()])
      return { template: known(template, job), nowMs }
    })

  const held = (intake: RunIntake) => insideQuotas(intake, { catalog, keeper: quotas, tenantId })

  return async (client, job, asked) => {
    const { template, nowMs } = await look(job)
    const wanted = asked(template, nowMs)
    const work = async (intake: RunIntake, known: EnqueueParts['tags']) => {
      await checkDependencies(intake, wanted, { nowMs, retentionDays })
      const parts: EnqueueParts = { intake, ids, tags: known, tenantId, nowMs }
      return enqueueRuns(parts, wanted)
    }
    const access = { tenantId, dryRun: false, readOnly: false }
    const taken = await (client === undefined
      ? withKnownLanes(tags, (known) => catalog.within(access, (tx) => work(tx.intake, known)))
      : insideTransaction(client, tenantId, (intake) => work(held(intake), tags)))
    const limited = taken.made.some((run) => run.template.limited)
    const gate: readonly Hint[] = limited ? [{ topic: 'gate', key: tenantId }] : []
    // of a commit of the caller's nobody tells
    for (const hint of [...taken.hints, ...gate]) (client === undefined ? hints : repeated).publish(hint)
    return taken.results.map((result) => receiptOf(result, job))
  }
}

function noCatalog(): never {
  throw new BelfryError('internal', 'An embedded Belfry has no catalog.')
}

/** Throws `invalid_request`. */
function checkedBody(body: RunCreate): RunCreate {
  const result = validatePart(runCreateSchema, 'body', body)
  if ('error' in result) throw result.error
  return result.value as RunCreate
}

function checkInputs(inputs: readonly (JsonValue | undefined)[]): void {
  for (const [index, input] of inputs.entries()) {
    const fault = inputFault(input)
    if (fault === undefined) continue
    const detail: ErrorDetail = {
      pointer: ['/inputs', index, ...fault.path].join('/'),
      message: fault.message,
    }
    throw invalidRequest([detail])
  }
}

function known(template: RunTemplate | undefined, job: string): RunTemplate {
  if (template !== undefined) return template
  const message = `There is no job named "${job}"; start a process that has it, or register it first.`
  throw new BelfryError('not_found', message, { errors: [{ pointer: '/job', message }] })
}

function receiptOf({ runId, duplicateOf, gathered, dueAtMs }: EnqueuedRun, job: string): RunReceipt {
  const dueAt = dueAtMs === null ? null : new Date(dueAtMs).toISOString()
  return { id: runId, job, dueAt, duplicate: duplicateOf !== null, duplicateOf, gathered }
}

function receiptsOf(
  { ids, dueAtMs }: { ids: readonly string[]; dueAtMs: number },
  job: string,
): RunReceipt[] {
  const dueAt = new Date(dueAtMs).toISOString()
  return ids.map((id) => ({ id, job, dueAt, duplicate: false, duplicateOf: null, gathered: null }))
}
