/**
 * Asking for runs within the program's own process, without a request to the API: inside the program's own
 * transaction, or for many runs at once in one of ours. Judged by the same rules as over the API.
 */
import type { JsonValue, RunCreate, RunReceipt } from '@belfry/contract'
import { BelfryError, jsonSchema, runCreateSchema } from '@belfry/contract'
import { checkDependencies } from '../engine/catalog/asked-dependencies.ts'
import { askedRun } from '../engine/catalog/asked-run.ts'
import type { AskedRun, EnqueuedRun, EnqueueParts } from '../engine/catalog/enqueuer.ts'
import { enqueueRuns } from '../engine/catalog/enqueuer.ts'
import { createRepeatedHints } from '../engine/repeated-hints.ts'
import { withKnownLanes } from '../http/known-lanes.ts'
import { invalidRequest, validatePart } from '../http/validation.ts'
import type { RunTemplate } from '../ports/catalog.ts'
import type { Clock } from '../ports/clock.ts'
import type { Hint } from '../ports/hints.ts'
import type { RunIntake } from '../ports/run-intake.ts'
import { type CallersClient, insideTransaction } from '../postgres/enqueue-inside.ts'
import type { Parts } from './parts.ts'

export interface ManyAsked {
  /** What the runs have in common. */
  readonly body: RunCreate
  readonly inputs: readonly (JsonValue | undefined)[]
  /** Of each run; left out: none. */
  readonly dedupeKeys?: readonly (string | undefined)[] | undefined
}

export interface EmbeddedEnqueue {
  one(client: CallersClient, body: RunCreate): Promise<RunReceipt>
  /** All or none. Without a client in a transaction of its own. */
  many(client: CallersClient | undefined, asked: ManyAsked): Promise<readonly RunReceipt[]>
  close(): void
}

export function createEmbeddedEnqueue(
  { catalog: maybe, tags, ids, hints }: Pick<Parts, 'catalog' | 'tags' | 'ids' | 'hints'>,
  tenantId: string,
  retentionDays: number,
  clock: Clock,
): EmbeddedEnqueue {
  const catalog = maybe ?? noCatalog()
  const repeated = createRepeatedHints(hints, clock)

  const look = (job: string) =>
    catalog.within({ tenantId, dryRun: false, readOnly: true }, async (tx) => {
      const [template, nowMs] = await Promise.all([tx.runs.templateByJobName(job), tx.nowMs()])
      return { template: known(template, job), nowMs }
    })

  async function take(
    client: CallersClient | undefined,
    job: string,
    asked: (template: RunTemplate, nowMs: number) => readonly AskedRun[],
  ): Promise<readonly RunReceipt[]> {
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
      : insideTransaction(client, tenantId, (intake) => work(intake, tags)))
    const limited = taken.made.some((run) => run.template.limited)
    const gate: readonly Hint[] = limited ? [{ topic: 'gate', key: tenantId }] : []
    // of a commit of the caller's nobody tells
    for (const hint of [...taken.hints, ...gate]) (client === undefined ? hints : repeated).publish(hint)
    return taken.results.map((result) => receiptOf(result, job))
  }

  return {
    async one(client, given) {
      const body = checkedBody(given)
      const within = (nowMs: number) => ({ nowMs, retentionDays })
      const asked = (template: RunTemplate, nowMs: number) => [askedRun(template, body, within(nowMs))]
      const [receipt] = await take(client, body.job, asked)
      if (receipt === undefined) throw new BelfryError('internal', 'A request has no result.')
      return receipt
    },
    many(client, { body: given, inputs, dedupeKeys }) {
      const { dedupe, ...rest } = given
      const body = checkedBody(rest)
      for (const [index, input] of inputs.entries()) checkInput(input, index)
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

function noCatalog(): never {
  throw new BelfryError('internal', 'An embedded Belfry has no catalog.')
}

/** Throws `invalid_request`. */
function checkedBody(body: RunCreate): RunCreate {
  const result = validatePart(runCreateSchema, 'body', body)
  if ('error' in result) throw result.error
  return result.value as RunCreate
}

function checkInput(input: JsonValue | undefined, index: number): void {
  if (input === undefined) return
  const { error } = jsonSchema.safeParse(input)
  if (error === undefined) return
  throw invalidRequest(
    error.issues.map(({ path, message }) => ({
      pointer: ['/inputs', index, ...path].map(String).join('/'),
      message,
    })),
  )
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
