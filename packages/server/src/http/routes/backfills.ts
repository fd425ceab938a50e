/**
 * Endpoints of backfills: made (or previewed, by a dry run), looked at, paused, resumed, canceled. They are
 * worked off by engine/backfiller.ts; whoever changes one holds it against its steps.
 */
import type { BackfillState, RouteName } from '@belfry/contract'
import { BelfryError, isBackfillOver } from '@belfry/contract'
import { backfillHint } from '../../engine/backfill-hints.ts'
import { startBackfill } from '../../engine/catalog/backfill-maker.ts'
import { previewBackfill } from '../../engine/catalog/backfill-preview.ts'
import { cancelRuns } from '../../engine/catalog/run-canceler.ts'
import { compileCurrent } from '../../engine/catalog/schedule-editor.ts'
import type { BackfillRecord } from '../../ports/backfills.ts'
import type { CatalogTx } from '../../ports/catalog.ts'
import { backfillSummaryView, backfillView } from '../backfill-views.ts'
import type { Call, Effect, Endpoints } from '../endpoint.ts'
import { checkIfMatch } from '../etag.ts'
import { noSuch } from '../missing.ts'
import { pageById } from '../page.ts'

type BackfillEndpoints = Pick<
  Endpoints,
  'backfillCreate' | 'backfillList' | 'backfillGet' | 'backfillPause' | 'backfillResume' | 'backfillCancel'
>

export const backfillEndpoints: BackfillEndpoints = {
  backfillCreate: {
    as: 'tenant',
    async answer({ tx, tools, params, query, body, after }) {
      const schedule = await tx.schedules.find(params.id)
      if (schedule === undefined) throw noSuch('schedule', params.id)
      const nowMs = await tx.nowMs()
      const times = compileCurrent(schedule, { zones: tools.zones })
      const { order, concurrency, reprocess, input } = body
      const fromMs = Date.parse(body.from)
      const toMs = body.to === undefined ? null : Date.parse(body.to)
      const { backfills } = tx
      const wanted = { fromMs, toMs, order, concurrency, reprocess, input }
      const made = await startBackfill({ backfills, ids: tools.ids, nowMs, times }, schedule, wanted)
      after(goOn(made))
      const stored = await found(tx, made.id)
      const { retentionDays } = tools
      const preview = query.dryRun
        ? await previewBackfill({ backfills, times, nowMs, retentionDays }, schedule, made)
        : null
      return {
        body: backfillView(stored, preview),
        version: stored.version,
        location: `/v1/backfills/${made.id}`,
      }
    },
  },
  backfillList: {
    as: 'tenant',
    async answer({ tx, query, credential }) {
      const { scheduleId, state } = query
      const filter = { scheduleId, state }
      const scope = { list: 'backfills', tenantId: credential.tenantId, filter }
      const read = (page: { beforeId: string | null; limit: number }) => tx.backfills.list(page, filter)
      return { body: await pageById(scope, query, read, backfillSummaryView) }
    },
  },
  backfillGet: {
    as: 'tenant',
    answer: async ({ tx, params }) => answerOf(await found(tx, params.id)),
  },
  backfillPause: {
    as: 'tenant',
    async answer(call) {
      const { tx, body } = call
      const { id, state } = await held(call)
      if (state !== 'pending' && state !== 'running') throw wrongState(state, 'paused')
      await tx.backfills.change(id, { to: 'paused', reason: orNull(body.reason) })
      return answerOf(await found(tx, id))
    },
  },
  backfillResume: {
    as: 'tenant',
    async answer(call) {
      const { tx, after } = call
      const backfill = await held(call)
      if (backfill.state !== 'paused') throw wrongState(backfill.state, 'resumed')
      const to = backfill.startedAtMs === null ? 'pending' : 'running'
      await tx.backfills.change(backfill.id, { to, reason: null })
      after(goOn(backfill))
      return answerOf(await found(tx, backfill.id))
    },
  },
  backfillCancel: {
    as: 'tenant',
    async answer(call) {
      const { tx, body, after } = call
      const backfill = await held(call)
      const { id, state } = backfill
      // one that was canceled before may still have runs
      const again = state === 'canceled' && body.cancelRuns
      if (isBackfillOver(state) && !again) throw wrongState(state, 'canceled')
      if (!again) await tx.backfills.change(id, { to: 'canceled', reason: orNull(body.reason) })
      if (body.cancelRuns) await cancelItsRuns(tx, id, after)
      after(goOn(backfill))
      return answerOf(await found(tx, id))
    },
  },
}

const answerOf = (record: BackfillRecord) => ({ body: backfillView(record), version: record.version })
const orNull = (reason: string): string | null => (reason === '' ? null : reason)
const goOn = ({ scheduleId }: Pick<BackfillRecord, 'scheduleId'>): Effect => ({
  kind: 'hint',
  hint: backfillHint(scheduleId),
})

async function found(tx: CatalogTx, id: string): Promise<BackfillRecord> {
  const backfill = await tx.backfills.find(id)
  if (backfill === undefined) throw noSuch('backfill', id)
  return backfill
}

/** Held until the end of the transaction. */
async function held({
  tx,
  params,
  ifMatch,
}: Pick<Call<RouteName, CatalogTx>, 'tx' | 'ifMatch'> & { readonly params: { readonly id: string } }) {
  const backfill = await tx.backfills.lock(params.id)
  if (backfill === undefined) throw noSuch('backfill', params.id)
  checkIfMatch(ifMatch, backfill.version)
  return backfill
}

/** No new ones come while the backfill is held; those that move on meanwhile are looked at again. */
async function cancelItsRuns(tx: CatalogTx, id: string, after: (effect: Effect) => void): Promise<void> {
  const { runIds, workflowRunIds } = await tx.backfills.aliveRuns(id)
  const { hints } = await cancelRuns(tx.cancels, runIds, undefined)
  for (const hint of hints) after({ kind: 'hint', hint })
  for (const runId of workflowRunIds) await tx.workflows.runs.requestCancel(runId)
  if (workflowRunIds.length > 0) after({ kind: 'hint', hint: { topic: 'workflows', key: 'any' } })
}

const possible: Readonly<Record<'paused' | 'resumed' | 'canceled', string>> = {
  paused: 'Only one that goes on can be paused.',
  resumed: 'Only a paused one can be resumed.',
  canceled: 'Only one that is not over can be canceled.',
}

function wrongState(state: BackfillState, done: keyof typeof possible): BelfryError {
  return new BelfryError('invalid_state', `The backfill is ${state} and cannot be ${done}. ${possible[done]}`)
}
