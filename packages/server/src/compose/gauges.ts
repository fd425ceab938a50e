/**
 * What the metrics read of a process when somebody asks for them: connections, slots, what waits at the
 * gate, in workflows, backfills, events and carriers.
 */
import type { Database } from '../postgres/database.ts'
import type { PoolStats } from '../postgres/pool.ts'
import type { Metrics } from '../telemetry/metrics.ts'
import type { Engine } from './engine.ts'

export function readGauges(metrics: Metrics, pools: readonly (Database | undefined)[], engine: Engine): void {
  metrics.readConnections(() => {
    const all = pools.flatMap((pool) => pool?.stats() ?? [])
    const sum = (of: (stats: PoolStats) => number) => all.reduce((total, stats) => total + of(stats), 0)
    return {
      open: sum((each) => each.open),
      idle: sum((each) => each.idle),
      waiting: sum((each) => each.waiting),
    }
  })
  const { worker, scheduling, gatekeeper, resolver } = engine
  metrics.readSkew(() => engine.databaseClock.skewMs())
  if (gatekeeper !== undefined) metrics.readGate(gatekeeper.stats)
  if (resolver !== undefined) metrics.readWorkflows(resolver.stats)
  readAnnouncing(metrics, engine)
  if (scheduling !== undefined) metrics.readBackfills(scheduling.backfiller.stats)
  if (scheduling?.relay !== undefined) metrics.readEventsLag(scheduling.relay.lagMs)
  if (worker === undefined) return
  metrics.readSlots(() => {
    const { slots, busy } = worker.stats()
    return { used: busy, free: Math.max(0, slots - busy) }
  })
}

function readAnnouncing(metrics: Metrics, { announcing: { announcer, announced } }: Engine): void {
  if (announcer === undefined && announced === undefined) return
  metrics.readAnnouncing(() => ({
    ...(announcer?.stats() ?? { window: 0, unclaimed: 0 }),
    ...(announced?.stats() ?? { waiting: 0, silentQueues: 0 }),
  }))
}
