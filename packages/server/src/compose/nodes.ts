/**
 * The row by which a process tells that it is there (engine/node-reporter.ts), put together of its parts.
 * Every process has one, whatever its roles.
 */
import { hostname } from 'node:os'
import type { Config } from '../config/schema.ts'
import type { NodeFacts } from '../engine/node-facts.ts'
import { createNodeReporter, type NodeReporterOptions } from '../engine/node-reporter.ts'
import type { RunPace } from '../engine/run-pace.ts'
import type { Worker } from '../engine/worker.ts'
import type { Service } from '../ports/service.ts'
import type { Database } from '../postgres/database.ts'
import { createPostgresNodeRecords } from '../postgres/nodes.ts'
import { version } from './version.ts'

type ReporterParts = Pick<NodeReporterOptions, 'clock' | 'random' | 'events' | 'databaseClock'> & {
  readonly config: Config
  readonly leases: Database
  readonly facts: NodeFacts
  readonly pace: RunPace
}

/** `worker`: the one that calls targets. */
export function openNodeReporter(parts: ReporterParts, nodeId: string, worker: Worker | undefined): Service {
  const { config } = parts
  return createNodeReporter({
    ...parts,
    records: createPostgresNodeRecords(parts.leases),
    node: { id: nodeId, host: hostname(), version, roles: config.roles },
    worker() {
      if (worker === undefined) return null
      const { slots, busy } = worker.stats()
      return { queues: config.workerQueues, slots, busy }
    },
  })
}
