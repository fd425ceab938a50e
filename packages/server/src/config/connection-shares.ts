/**
 * How a process divides its `databasePoolSize` connections. What must be in time waits for nothing else: a
 * worker keeps its lease and a scheduler its shards however many requests wait for locks, and runs are
 * claimed and fired however many people list them.
 *
 *   listen    for hints (not with `databaseHints: local`)
 *   leases    heartbeat, election, health checks: one each
 *   api, engine   halves of the rest, or all of it where a process does only one of the two
 */
import type { Config } from './schema.ts'

export interface ConnectionShares {
  readonly leases: number
  /** 0 where the process does not have the role. */
  readonly api: number
  readonly engine: number
}

export function connectionShares(
  config: Pick<Config, 'databasePoolSize' | 'databaseHints' | 'roles'>,
): ConnectionShares {
  const { roles } = config
  const listen = config.databaseHints === 'notify' ? 1 : 0
  const leases = 1 + Number(roles.includes('worker')) + Number(roles.includes('scheduler'))
  const rest = config.databasePoolSize - listen - leases
  const engine = roles.some((role) => role !== 'api')
  if (!engine) return { leases, api: rest, engine: 0 }
  const api = roles.includes('api') ? Math.floor(rest / 2) : 0
  return { leases, api, engine: rest - api }
}
