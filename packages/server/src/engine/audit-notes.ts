/**
 * Notes for the audit from outside of transactions: refusals, and what the engine denies at run time.
 *
 * 1. The same note (who, what, to what, why) is taken once a minute; more of it is counted.
 * 2. Of each tenant so many a minute are taken, and no more; the rest is counted.
 * 3. What was counted stands as `leftOut` in the next note of that tenant that is taken.
 * 4. Notes leave together, twice a second. While the database takes none they wait, up to a bound. One that
 *    it will never take is told and counted as left out, and keeps no other from leaving.
 *
 * So nobody fills the log of a tenant by knocking at its doors.
 */
import type { AuditNote, AuditNotes } from '../ports/audit.ts'
import { ownCaller } from '../ports/audit.ts'
import type { AuditInbox, PutEntry } from '../ports/audit-log.ts'
import type { Clock } from '../ports/clock.ts'
import type { EventSink } from '../ports/event-sink.ts'
import type { Random } from '../ports/random.ts'
import type { Service } from '../ports/service.ts'
import { isolateFault } from './isolate-fault.ts'
import { createLoop } from './loop.ts'

const windowMs = 60_000
const notesAMinute = 60
const flushMs = 500
const mostWaiting = 5_000
/** Tenants that are told apart; beyond that the counts begin anew. */
const mostTenants = 10_000

interface TenantWindow {
  readonly sinceMs: number
  readonly seen: Set<string>
  taken: number
}

export interface AuditNoteKeeper extends AuditNotes, Service {
  /** Sends what waits. For tests, and at the end. */
  flush(): Promise<void>
}

export function createAuditNotes(options: {
  readonly inbox: AuditInbox
  readonly clock: Clock
  readonly random: Random
  readonly events: EventSink
}): AuditNoteKeeper {
  const { inbox, clock, events } = options
  const windows = new Map<string, TenantWindow>()
  const leftOut = new Map<string, number>()
  let waiting: PutEntry[] = []

  function windowOf(tenantId: string): TenantWindow {
    const nowMs = clock.monotonicMs()
    const known = windows.get(tenantId)
    if (known !== undefined && nowMs - known.sinceMs < windowMs) return known
    if (windows.size >= mostTenants) windows.clear()
    const made = { sinceMs: nowMs, seen: new Set<string>(), taken: 0 }
    windows.set(tenantId, made)
    return made
  }

  const countOut = (tenantId: string): void => void leftOut.set(tenantId, (leftOut.get(tenantId) ?? 0) + 1)

  async function flush(): Promise<void> {
    const open = new Set(waiting)
    waiting = []
    const drop = (entry: PutEntry, error: unknown): void => {
      countOut(entry.tenantId)
      tellDropped(events, entry, error)
    }
    try {
      await putApart(inbox, open, drop)
    } catch (error) {
      waiting = [...open, ...waiting].slice(0, mostWaiting)
      throw error
    }
  }

  const loop = createLoop({
    ...options,
    name: 'audit_notes',
    async round() {
      await flush()
      return flushMs
    },
    onStop: () => flush().catch(() => undefined),
  })
  return {
    ...loop,
    flush,
    note(note) {
      const { tenantId } = note
      const window = windowOf(tenantId)
      const key = keyOf(note)
      if (window.seen.has(key) || window.taken >= notesAMinute || waiting.length >= mostWaiting) {
        countOut(tenantId)
        return
      }
      window.seen.add(key)
      window.taken += 1
      const before = leftOut.get(tenantId) ?? 0
      leftOut.delete(tenantId)
      waiting.push(entryOf(note, before))
    },
  }
}

/** Takes out of `open` what was put, and what was dropped because it can never be. */
const putApart = (
  inbox: AuditInbox,
  open: Set<PutEntry>,
  drop: (entry: PutEntry, error: unknown) => void,
): Promise<void> =>
  isolateFault(
    [...open],
    async (entries) => {
      await inbox.put(entries)
      for (const entry of entries) open.delete(entry)
    },
    (entry, error) => {
      open.delete(entry)
      drop(entry, error)
    },
  )

function tellDropped(events: EventSink, { tenantId, action }: PutEntry, cause: unknown): void {
  const why = cause instanceof Error ? cause.message : String(cause)
  const words = `A note of ${action} for the audit of tenant ${tenantId} cannot be stored: ${why}`
  events.emit('role_failed', { role: 'audit_notes', error: new Error(words, { cause }), retryInMs: 0 })
}

const keyOf = ({ action, subject, outcome, code, caller, details }: AuditNote): string =>
  JSON.stringify([action, subject, outcome, code, caller?.actor, caller?.address, details])

function entryOf({ by, code, caller, details, ...note }: AuditNote, before: number): PutEntry {
  return {
    ...note,
    code: note.outcome === 'refused' ? (code ?? 'refused') : null,
    caller: caller ?? ownCaller(by ?? 'belfry'),
    details: { ...details, ...(before === 0 ? {} : { leftOut: before }) },
  }
}
