// Pools, queues and the limit of a tenant as the test server of the contract answers them.
import type { Pool, Queue, TenantLimit } from '@belfry/contract'

const madeAt = '2026-11-29T12:00:00.000Z'

export const newPool = (more: Partial<Pool> & Pick<Pool, 'id' | 'name'>): Pool => ({
  slots: null,
  rate: null,
  host: null,
  used: 0,
  waiting: 0,
  version: 1,
  createdAt: madeAt,
  updatedAt: madeAt,
  ...more,
})

export const queueOf = (name: string, reason: string | null): Queue => ({
  name,
  ready: 1,
  held: 2,
  running: 3,
  oldestReadyAt: madeAt,
  paused: reason === null ? null : { reason, since: madeAt },
  weight: 1,
  next: [
    {
      runId: '019ad0c1-0000-7000-8000-00000000aaaa',
      job: 'report',
      place: 1,
      priority: 5,
      tag: 12.5,
      ahead: 2.5,
      priorityEffect: 1.2,
      readySince: madeAt,
      why: 'It is next of this tenant; about 3 turns from where the queue stands.',
    },
  ],
  heldGroups: [
    {
      job: 'sync',
      runs: 2,
      firstRunId: '019ad0c1-0000-7000-8000-00000000bbbb',
      hold: {
        kind: 'job',
        name: 'sync',
        limit: 3,
        used: 3,
        holders: [],
        since: null,
        until: null,
        reason: null,
      },
      why: 'The job "sync" is at its limit of runs at once: 3 of 3.',
    },
  ],
})

export const queueSummaryOf = (name: string, reason: string | null) => {
  const { ready, held, running, oldestReadyAt, paused } = queueOf(name, reason)
  return { name, ready, held, running, oldestReadyAt, paused }
}

export const tenantLimitOf = ({ runLimit }: TenantLimit) => ({ runLimit, used: 3 })
