/**
 * How the installation looks to people: processes, who leads how many shards, what is late and what is wrong,
 * and what a queue needs of workers. Lengths of time are as the server measured them, so they are true also
 * where the clock here is wrong.
 */
import type { Cluster, ClusterNode, QueueStats, WorkerDemand } from '@belfry/contract'
import { maxCounted } from '@belfry/contract'
import type { Shape } from './printer.ts'
import { durationWords } from './times.ts'

type Fields = readonly (readonly [string, string])[]

const maybe = (ms: number | null): string => (ms === null ? '-' : durationWords(ms))

/** "+12 ms", "-1.5 s ±0.3 s" where it is not known well. */
function skewWords({ skewMs, skewErrorMs }: ClusterNode): string {
  if (skewMs === null) return '-'
  const words = `${skewMs > 0 ? '+' : ''}${durationWords(skewMs)}`
  return skewErrorMs === null || skewErrorMs < 100 ? words : `${words} ±${durationWords(skewErrorMs)}`
}

function stateWords({ state, seenAgoMs, parts }: ClusterNode): string {
  if (state === 'silent') return `silent for ${durationWords(seenAgoMs)}`
  return parts.length === 0 ? state : `${state}, without ${parts.map(({ part }) => part).join(', ')}`
}

export const clusterNodeShape: Shape<ClusterNode> = {
  name: (node) => node.id,
  columns: [
    { title: 'NODE', cell: (node) => node.id.slice(-12) },
    { title: 'HOST', cell: (node) => node.host, flexible: true },
    { title: 'ROLES', cell: (node) => node.roles.join(','), flexible: true },
    { title: 'VERSION', cell: (node) => node.version },
    { title: 'STATE', cell: stateWords, flexible: true },
    { title: 'UP', cell: (node) => durationWords(node.upMs), align: 'right' },
    { title: 'SHARDS', cell: (node) => (node.shards === 0 ? '-' : String(node.shards)), align: 'right' },
    {
      title: 'SLOTS',
      cell: ({ worker }) => (worker === null ? '-' : `${worker.busy}/${worker.slots}`),
      align: 'right',
    },
    { title: 'LAG', cell: (node) => maybe(node.lagMs), align: 'right' },
    { title: 'SKEW', cell: skewWords, align: 'right' },
  ],
  fields: () => [],
}

export function clusterFields(cluster: Cluster): Fields {
  const { shards, lag, versions, problems } = cluster
  const terms = shards.items.map(({ term }) => term)
  const ends = shards.items.flatMap(({ endsInMs }) => (endsInMs === null ? [] : [endsInMs]))
  const until = ends.length === 0 ? '' : `, the first of which end in ${durationWords(Math.min(...ends))}`
  const overdue = (ms: number): string => (ms === 0 ? 'nothing' : `for ${durationWords(ms)}`)
  return [
    ['State', cluster.state],
    ...problems.map(
      ({ level, code, message }) => [level === 'fail' ? 'Fault' : 'Warning', `${message} (${code})`] as const,
    ),
    ['Shards', `${shards.held} of ${shards.total} are led, in terms ${termWords(terms)}${until}`],
    ['Overdue', `schedules ${overdue(lag.timersMs)}, delayed runs ${overdue(lag.delayedMs)}`],
    ['Versions', versions.map(({ version, nodes }) => `${version} (${nodes})`).join(', ') || '-'],
  ]
}

function termWords(terms: readonly number[]): string {
  const [least, most] = [Math.min(...terms), Math.max(...terms)]
  return least === most ? String(least) : `${least} to ${most}`
}

const count = (number: number): string => (number >= maxCounted ? `${maxCounted}+` : String(number))

export function queueStatsFields({ queue, tenants, servers, functions }: QueueStats): Fields {
  return [
    ['Queue', queue],
    ['Runs of', tenants === 'own' ? 'your tenant' : 'all tenants'],
    ...demandFields('Servers', servers),
    ...(functions === null ? [] : demandFields('Functions', functions)),
  ]
}

function demandFields(title: string, demand: WorkerDemand): Fields {
  const { backlog, oldestAgeMs, running, meanRunMs, workers, slots, freeSlots } = demand
  const oldest = oldestAgeMs === null ? '' : `, the oldest for ${durationWords(oldestAgeMs)}`
  const mean = meanRunMs === null ? '' : `, lately ${durationWords(meanRunMs)} each`
  return [
    [title, `${count(backlog)} wait${oldest}; ${count(running)} run${mean}`],
    ['', `${workers} workers, ${freeSlots} of ${slots} slots are free`],
    ['', `wanted: ${demand.wantedWorkers}. ${demand.why}`],
  ]
}
