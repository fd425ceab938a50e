/**
 * After a change of limits (a job was edited or paused, a pool, a pause of a queue, the limit of the tenant):
 * all runs of the tenant are brought under the limits of now, by a walk of pages, each in a transaction that
 * holds the gate of the tenant.
 *
 *   running   what runs gets the slots that it has by the limits of now
 *   groups    all groups come to be looked at again
 *   waiting   those that wait: behind the gate, out of it, or behind it under another name
 *   claimed   once more what runs: some of it was claimed before the walk came by, and has no slots yet
 *
 * A statement that had read the limits of before, and had not committed when the walk came by, may have
 * left a run that none of this has seen. So the first walk notes what is under way, and the last two steps
 * are done again until a walk has begun when nothing of it was left, and has met no row that somebody held;
 * that one is the last. A crash between two pages: the walk stands in `regate`, and anybody goes on with
 * it.
 */
import { gateName, limitsOfGroup } from '../../domain/gate/group-limits.ts'
import type { RegateStep } from '../../ports/gate.ts'
import type { Database, Transaction } from '../database.ts'
import { listJobFacts, tryGate } from '../statements/gate.ts'
import type { WalkStep } from '../statements/gate-walk.ts'
import * as walk from '../statements/gate-walk.ts'
import { jobOf, readTenantLimits } from './pass.ts'

const engine = { role: 'belfry_engine' } as const
const nilId = '00000000-0000-0000-0000-000000000000'
const pageSize = 500
const groupsAPage = 2_000
/** Of waiting runs, in walks that only look for what was missed. */
const pageSizeAgain = 5_000
/** From one walk to the next, doubled each time. */
const firstRestMs = 250
const longestRestMs = 30_000

const nextStep: Readonly<Record<WalkStep, WalkStep | undefined>> = {
  running: 'groups',
  groups: 'waiting',
  waiting: 'claimed',
  claimed: undefined,
}

interface Page {
  /** The last that was seen; null: the step is over. */
  readonly last: string | null
  readonly missed: number
}

export function stepOfRegate(db: Database, tenantId: string): Promise<RegateStep> {
  return db.transaction(engine, async (tx) => {
    const nothing = { more: false, walks: 0 }
    const [held] = await tx.query(tryGate, [tenantId])
    if (held?.mine !== true) return nothing
    const [state] = await tx.query(walk.takeRegate, [tenantId])
    if (state === undefined) return nothing
    const { walks } = state
    let { final } = state
    if (walks === 0 && state.step === 'running' && state.cursor === null)
      await tx.query(walk.noteOpenThen, [tenantId])
    let cursor = state.cursor
    for (let step: WalkStep | undefined = state.step; step !== undefined; step = nextStep[step]) {
      const { last, missed } = await page(tx, tenantId, step, cursor, walks > 0)
      final = final && missed === 0
      if (last !== null) {
        await tx.query(walk.noteRegate, [tenantId, step, last, walks, final, 0])
        return { more: true, walks }
      }
      cursor = null
    }
    const restMs = Math.min(longestRestMs, firstRestMs * 2 ** walks)
    if (final) await tx.query(walk.endRegate, [tenantId])
    else await tx.query(walk.noteRegate, [tenantId, 'waiting', null, walks + 1, false, restMs])
    return { more: false, walks: final ? 0 : walks + 1 }
  })
}

async function page(
  tx: Transaction,
  tenantId: string,
  step: WalkStep,
  cursor: string | null,
  again: boolean,
): Promise<Page> {
  if (step === 'running' || step === 'claimed') {
    return { last: await giveSlots(tx, tenantId, cursor ?? nilId), missed: 0 }
  }
  if (step === 'groups') {
    const [woken] = await tx.query(walk.wakeGroups, [tenantId, cursor ?? '', groupsAPage])
    return { last: (woken?.count ?? 0) < groupsAPage ? null : (woken?.last ?? null), missed: 0 }
  }
  const size = again ? pageSizeAgain : pageSize
  const [seen] = await tx.query(walk.regateWaiting, [tenantId, cursor ?? nilId, size, again])
  return { last: (seen?.count ?? 0) < size ? null : (seen?.last ?? null), missed: seen?.missed ?? 0 }
}

/** Answers the last of a page that was full. */
async function giveSlots(tx: Transaction, tenantId: string, afterId: string): Promise<string | null> {
  const running = await tx.query(walk.listRunningLimited, [tenantId, afterId, pageSize])
  const last = running.at(-1)
  if (last === undefined) return null
  const jobIds = [...new Set(running.map((row) => row.job_id))]
  const jobs = new Map((await tx.query(listJobFacts, [tenantId, jobIds])).map((row) => [row.id, jobOf(row)]))
  const tenant = await readTenantLimits(tx, tenantId)
  const slots = running.flatMap(({ run_id: runId, job_id: jobId, gate }) => {
    const job = jobs.get(jobId)
    if (job === undefined) return []
    return limitsOfGroup(gateName(gate), job, tenant).slots.map((slot) => ({ runId, ...slot }))
  })
  await tx.query(walk.setRunningSlots, [
    tenantId,
    running.map((row) => row.run_id),
    slots.map(({ runId }) => runId),
    slots.map(({ key }) => key),
    slots.map(({ weight }) => weight),
  ])
  return running.length < pageSize ? null : last.run_id
}
