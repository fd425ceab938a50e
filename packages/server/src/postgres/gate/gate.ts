/**
 * The gate on Postgres (ports/gate.ts): what is to be done, looks (pass.ts), walks after a change of limits
 * (regate.ts), and the seldom search for what no event tells of.
 */
import type { Gate } from '../../ports/gate.ts'
import type { Database } from '../database.ts'
import {
  countHeld,
  findGateWork,
  listHeldTenants,
  listLostSlots,
  tryGate,
  wakeFronts,
} from '../statements/gate.ts'
import { deleteFullBuckets, freeLostSlots, takeBackUnclaimed } from '../statements/gate-writes.ts'
import { lookAtGate } from './pass.ts'
import { stepOfRegate } from './regate.ts'

const engine = { role: 'belfry_engine' } as const
const maxTenants = 1_000
/** Lines of a tenant of which the head is looked at in one search. */
const linesAtOnce = 200
const bucketsAtOnce = 1_000
/** Open runs of a tenant that are looked at in one search, and slots of all. */
const openAtOnce = 1_000
const slotsAtOnce = 2_000
const nilId = '00000000-0000-0000-0000-000000000000'

export interface GateTimes {
  /** An opened run that nobody claims keeps its slots so long, while others wait. Default 30,000. */
  readonly unclaimedMs?: number
  /** Then it gets no other try for so long. Default 60,000. */
  readonly restMs?: number
}

interface Cursor {
  readonly runId: string
  readonly line: string
}

export function createPostgresGate(db: Database, times: GateTimes = {}): Gate {
  const { unclaimedMs = 30_000, restMs = 60_000 } = times
  /** Where the next search of a tenant begins. */
  const cursors = new Map<string, Cursor>()
  let afterSlotOf = nilId

  /** Runs with slots that they should not have, by tenant: from the next page of all slots. */
  async function findLostSlots(): Promise<Map<string, string[]>> {
    const [page] = await db.run({ ...engine, readOnly: true }, listLostSlots, [afterSlotOf, slotsAtOnce])
    afterSlotOf = page?.last_id ?? nilId
    const byTenant = Map.groupBy(page?.lost ?? [], ([tenantId]) => tenantId)
    return new Map([...byTenant].map(([tenantId, lost]) => [tenantId, lost.map(([, runId]) => runId)]))
  }

  /** Answers whether something came up. */
  const tidyTenant = (tenantId: string, lostRunIds: readonly string[]): Promise<boolean> =>
    db.transaction(engine, async (tx) => {
      const [held] = await tx.query(tryGate, [tenantId])
      if (held?.mine !== true) return false
      const [lost] = lostRunIds.length === 0 ? [] : await tx.query(freeLostSlots, [tenantId, lostRunIds])
      const { runId, line } = cursors.get(tenantId) ?? { runId: nilId, line: '' }
      // first: who waits is told by the lines, which the other empties
      const [back] = await tx.query(takeBackUnclaimed, [tenantId, unclaimedMs, restMs, runId, openAtOnce])
      const fronts = await tx.query(wakeFronts, [tenantId, line, linesAtOnce])
      const lastLine = fronts.length < linesAtOnce ? undefined : fronts.at(-1)?.line
      cursors.set(tenantId, { runId: back?.last_id ?? nilId, line: lastLine ?? '' })
      return fronts.length + (back?.count ?? 0) + (lost?.count ?? 0) > 0
    })

  return {
    async work() {
      const [row] = await db.run({ ...engine, readOnly: true }, findGateWork, [maxTenants])
      return {
        tenantIds: row?.tenant_ids ?? [],
        regateIds: row?.regate_ids ?? [],
        nextMs: row?.next_ms ?? null,
        held: row?.held ?? false,
        limited: row?.limited ?? false,
      }
    },
    look: (tenantId) => lookAtGate(db, tenantId),
    regate: (tenantId) => stepOfRegate(db, tenantId),
    async countHeld(most) {
      const [row] = await db.run({ ...engine, readOnly: true }, countHeld, [most])
      return row?.count ?? 0
    },
    async tidy() {
      await db.run(engine, deleteFullBuckets, [bucketsAtOnce])
      const lost = await findLostSlots()
      const held = await db.run({ ...engine, readOnly: true }, listHeldTenants, [maxTenants])
      const tenants = new Set([...held.map(({ tenant_id: tenantId }) => tenantId), ...lost.keys()])
      let found = false
      const failures: unknown[] = []
      for (const tenantId of tenants) {
        try {
          found = (await tidyTenant(tenantId, lost.get(tenantId) ?? [])) || found
        } catch (error) {
          // the others have their turn before it is told
          failures.push(error)
        }
      }
      for (const known of cursors.keys()) if (!tenants.has(known)) cursors.delete(known)
      if (failures.length > 0) throw failures[0]
      return found
    },
  }
}
