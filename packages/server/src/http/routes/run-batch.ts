/**
 * Many runs in one call: each item is judged by itself, by its schema first, and what is left is taken in
 * together. All or nothing where that is asked for.
 */
import type { RunBatchResult, RunCreate, RunRefusal } from '@belfry/contract'
import { BelfryError, runCreateSchema } from '@belfry/contract'
import { dependencyFaults } from '../../engine/catalog/asked-dependencies.ts'
import { askedRun } from '../../engine/catalog/asked-run.ts'
import type { AskedWithin } from '../../engine/catalog/asked-run.ts'
import type { AskedRun, EnqueuedRun } from '../../engine/catalog/enqueuer.ts'
import type { CatalogTx, RunTemplate } from '../../ports/catalog.ts'
import type { Endpoints } from '../endpoint.ts'
import { noSuchJob } from '../missing.ts'
import { outcomeOf, takeRuns } from '../take-runs.ts'
import { validatePart } from '../validation.ts'

const suggestionLimit = 200
const maxDetails = 20

type Judged = { readonly asked: AskedRun; readonly job: string } | { readonly refused: BelfryError }

export const runBatchEndpoints: Pick<Endpoints, 'runBatch'> = {
  runBatch: {
    as: 'tenant',
    async answer(call) {
      const { tx, tools, body } = call
      const within = { nowMs: await tx.nowMs(), retentionDays: tools.retentionDays }
      const template = templates(tx)
      const first: Judged[] = []
      for (const [index, item] of body.items.entries()) {
        try {
          const create = checked(item)
          first.push({ asked: askedRun(await template(create.job), create, within), job: create.job })
        } catch (error) {
          if (!(error instanceof BelfryError) || error.status >= 500) throw error
          first.push({ refused: ofItem(error, index) })
        }
      }
      const judged = await judgedByDependencies(tx, first, within)
      const refused = judged.flatMap((item) => ('refused' in item ? [item.refused] : []))
      if (body.atomic && refused.length > 0) throw together(refused)
      const good = judged.flatMap((item) => ('asked' in item ? [item.asked] : []))
      const { results, made } = await takeRuns(call, good, within.nowMs)
      return { body: answerOf(judged, results, made.length) }
    },
  },
}

/** The same, with those refused that depend on what is not there; one look for all. */
async function judgedByDependencies(
  tx: CatalogTx,
  judged: readonly Judged[],
  within: AskedWithin,
): Promise<readonly Judged[]> {
  const asked = judged.map((item) => ({
    dependencies: 'asked' in item ? item.asked.dependencies : undefined,
  }))
  const faults = await dependencyFaults(tx.intake, asked, within)
  return judged.map((item, index) => {
    const fault = faults[index]
    return fault === undefined ? item : { refused: ofItem(fault, index) }
  })
}

/** Throws `invalid_request`. */
function checked(item: unknown): RunCreate {
  const result = validatePart(runCreateSchema, 'body', item)
  if ('error' in result) throw result.error
  return result.value as RunCreate
}

/** By name, each read once. Throws `not_found`. */
function templates(tx: CatalogTx): (job: string) => Promise<RunTemplate> {
  const known = new Map<string, RunTemplate | undefined>()
  let names: Promise<readonly string[]> | undefined
  return async (job) => {
    if (!known.has(job)) known.set(job, await tx.runs.templateByJobName(job))
    const found = known.get(job)
    if (found !== undefined) return found
    names ??= tx.jobs.names(suggestionLimit)
    throw noSuchJob(job, await names)
  }
}

function ofItem(error: BelfryError, index: number): BelfryError {
  const errors = error.errors.map(({ pointer, message }) => ({
    pointer: `/items/${index}${pointer}`,
    message,
  }))
  return new BelfryError(error.code, error.message, { cause: error, errors })
}

/** The refusal of the whole call: with the code of its items, where they have one in common. */
function together(refused: readonly BelfryError[]): BelfryError {
  const [first] = refused
  const code = refused.every((each) => each.code === first?.code)
    ? (first?.code ?? 'invalid_request')
    : undefined
  const errors = refused.flatMap((each) => each.errors).slice(0, maxDetails)
  const words = `${refused.length} of the items cannot be taken, so none was`
  return new BelfryError(code ?? 'invalid_request', `${words}: ${first?.message ?? ''}`, { errors })
}

const refusalOf = ({ code, message, errors }: BelfryError): RunRefusal => ({
  code,
  message,
  errors: errors.map((detail) => ({ pointer: detail.pointer, message: detail.message })),
})

function answerOf(
  judged: readonly Judged[],
  results: readonly EnqueuedRun[],
  created: number,
): RunBatchResult {
  const left = results.values()
  const answers = judged.map((item) => {
    if ('refused' in item) return { run: null, error: refusalOf(item.refused) }
    const next = left.next()
    if (next.done === true) throw new RangeError('An item has no result.')
    const { runId, dueAtMs } = next.value
    const dueAt = dueAtMs === null ? null : new Date(dueAtMs).toISOString()
    return { run: { id: runId, job: item.job, dueAt, ...outcomeOf(next.value) }, error: null }
  })
  return {
    results: answers,
    created,
    duplicates: results.filter(({ duplicateOf }) => duplicateOf !== null).length,
    gathered: results.filter(({ gathered }) => gathered !== null).length,
    refused: answers.length - results.length,
  }
}
