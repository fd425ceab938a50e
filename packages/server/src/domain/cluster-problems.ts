/**
 * What is wrong with an installation, from what its processes tell and the tables say, with what to do about
 * it. `fail`: something stands still. `warn`: it goes on, but not as it should.
 */
import type { ClusterProblem } from '@belfry/contract'
import { isAlarmingSkew } from './clock-skew.ts'

const lateMs = 5_000
const standingMs = 60_000

export interface ObservedNode {
  readonly id: string
  readonly host: string
  readonly version: string
  readonly roles: readonly string[]
  readonly alive: boolean
  readonly seenAgoMs: number
  readonly skew: { readonly ms: number; readonly errorMs: number } | null
  readonly worker: object | null
  readonly parts: readonly { readonly part: string; readonly fault: string | null }[]
}

export interface ObservedCluster {
  readonly nodes: readonly ObservedNode[]
  readonly shards: readonly { readonly nodeId: string | null }[]
  readonly lag: { readonly timersMs: number; readonly delayedMs: number }
  /** A run that servers execute waits. */
  readonly callsWait: boolean
}

export function clusterProblems(cluster: ObservedCluster): ClusterProblem[] {
  const alive = cluster.nodes.filter((node) => node.alive)
  return [...roleProblems(cluster, alive), ...lateProblems(cluster), ...alive.flatMap(nodeProblems)].concat(
    versionProblems(alive),
    cluster.nodes.filter((node) => !node.alive).map(silentProblem),
  )
}

export function clusterState(problems: readonly ClusterProblem[]): 'ok' | 'degraded' | 'failing' {
  if (problems.some(({ level }) => level === 'fail')) return 'failing'
  return problems.length > 0 ? 'degraded' : 'ok'
}

const everywhere = { nodeId: null } as const

function roleProblems(cluster: ObservedCluster, alive: readonly ObservedNode[]): ClusterProblem[] {
  const problems: ClusterProblem[] = []
  const unheld = cluster.shards.filter(({ nodeId }) => nodeId === null).length
  if (!alive.some(({ roles }) => roles.includes('scheduler'))) {
    const message =
      'No process with the role scheduler is alive, so nothing fires and lost runs stay lost; start one.'
    problems.push({ code: 'no_scheduler', level: 'fail', ...everywhere, message })
  } else if (unheld > 0) {
    const message =
      `${unheld} of ${cluster.shards.length} shards are led by nobody. A scheduler takes them within a ` +
      'term; if it does not, see what the schedulers log.'
    problems.push({ code: 'shards_unheld', level: 'warn', ...everywhere, message })
  }
  if (cluster.callsWait && !alive.some(({ worker }) => worker !== null)) {
    const message =
      'Runs that call targets wait, and no process with the role worker is alive; start one, with the ' +
      'queues that they are in.'
    problems.push({ code: 'no_worker', level: 'fail', ...everywhere, message })
  }
  return problems
}

function lateProblems({ lag }: ObservedCluster): ClusterProblem[] {
  const worstMs = Math.max(lag.timersMs, lag.delayedMs)
  if (worstMs < lateMs) return []
  const what = lag.timersMs >= lag.delayedMs ? 'A schedule' : 'A delayed run'
  const message =
    `${what} has been due for ${Math.round(worstMs / 1_000)} s and was not taken up. See whether the ` +
    'schedulers lead all shards, what they log, and whether Postgres is slow.'
  return [{ code: 'timers_late', level: worstMs < standingMs ? 'warn' : 'fail', ...everywhere, message }]
}

function nodeProblems({ id, host, skew, parts }: ObservedNode): ClusterProblem[] {
  const away = parts.map(({ part, fault }): ClusterProblem => {
    const message =
      `${host} does without ${part}${fault === null ? '' : ` (${fault})`}; it goes by Postgres until that ` +
      'is back. Check the server and how it is reached.'
    return { code: 'part_away', level: 'warn', nodeId: id, message }
  })
  if (skew === null || !isAlarmingSkew(skew.ms, skew.errorMs)) return away
  const side = skew.ms < 0 ? 'behind' : 'ahead of'
  const ms = Math.round(Math.abs(skew.ms))
  const message = `The clock of ${host} is ${ms} ms ${side} that of the database; keep both by NTP.`
  return [...away, { code: 'clock_skew', level: 'warn', nodeId: id, message }]
}

function versionProblems(alive: readonly ObservedNode[]): ClusterProblem[] {
  const versions = [...new Set(alive.map(({ version }) => version))].toSorted()
  if (versions.length < 2) return []
  const message =
    `Processes of ${versions.join(', ')} run together, as they do during an upgrade; end it by restarting ` +
    'the older ones.'
  return [{ code: 'mixed_versions', level: 'warn', ...everywhere, message }]
}

function silentProblem({ id, host, roles, seenAgoMs }: ObservedNode): ClusterProblem {
  const message =
    `A process on ${host} (${roles.join(', ')}) was last heard of ${Math.round(seenAgoMs / 1_000)} s ago: ` +
    'it was killed, is stopped, or does not reach the database. Others have its work.'
  return { code: 'node_silent', level: 'warn', nodeId: id, message }
}
