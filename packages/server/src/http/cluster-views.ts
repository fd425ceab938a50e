/**
 * From records of the installation, and of what queues need of workers, to the bodies that the contract
 * describes.
 */
import type { Cluster, ClusterNode, WorkerDemand } from '@belfry/contract'
import { clusterProblems, clusterState } from '../domain/cluster-problems.ts'
import { scalingWords, type ScalingGoal, wantedWorkers } from '../domain/scaling.ts'
import type { ClusterRecord, DemandRecord, NodeRecord } from '../ports/cluster.ts'

/** Slots of a worker, as the configuration has them by default. */
const defaultSlots = 50

const iso = (ms: number): string => new Date(ms).toISOString()
/** A length of time as shown; one that came out below zero by a rounding is none. */
const whole = (ms: number): number => Math.max(0, Math.round(ms))
const wholeOrNull = (ms: number | null): number | null => (ms === null ? null : whole(ms))

export function clusterView(record: ClusterRecord): Cluster {
  const problems = clusterProblems(record)
  const ledBy = Map.groupBy(record.shards, ({ nodeId }) => nodeId)
  const alive = Map.groupBy(
    record.nodes.filter((node) => node.alive),
    ({ version }) => version,
  )
  return {
    time: iso(record.nowMs),
    state: clusterState(problems),
    problems,
    nodes: record.nodes.map((node) => nodeView(node, ledBy.get(node.id)?.length ?? 0, record.nowMs)),
    shards: {
      total: record.shards.length,
      held: record.shards.filter(({ nodeId }) => nodeId !== null).length,
      items: record.shards.map(({ shard, term, nodeId, endsInMs }) => {
        return { shard, term, nodeId, endsInMs: wholeOrNull(endsInMs) }
      }),
    },
    lag: { timersMs: whole(record.lag.timersMs), delayedMs: whole(record.lag.delayedMs) },
    versions: [...alive].map(([version, nodes]) => ({ version, nodes: nodes.length })),
  }
}

function nodeView(node: NodeRecord, shards: number, nowMs: number): ClusterNode {
  const { id, host, version, roles, skew, worker } = node
  return {
    id,
    host,
    version,
    roles: [...roles],
    state: node.alive ? 'alive' : 'silent',
    startedAt: iso(node.startedAtMs),
    upMs: whole(node.upMs),
    seenAgoMs: whole(node.seenAgoMs),
    shards,
    skewMs: skew === null ? null : Math.round(skew.ms),
    skewErrorMs: skew === null ? null : Math.ceil(skew.errorMs),
    lagMs: wholeOrNull(node.lagMs),
    worker: worker === null ? null : { ...worker, queues: [...worker.queues] },
    parts: node.parts.map(({ part, state, fault, sinceMs }) => {
      return { part, state, fault, forMs: whole(nowMs - sinceMs) }
    }),
  }
}

/** `slotsPerWorker` undefined: as those that are alive have on average. */
export function demandView(
  record: DemandRecord,
  asked: Omit<ScalingGoal, 'slotsPerWorker'> & { readonly slotsPerWorker?: number | undefined },
): WorkerDemand {
  const { workers, slots, busy } = record
  const usual = workers === 0 || slots === 0 ? defaultSlots : Math.round(slots / workers)
  const goal = { ...asked, slotsPerWorker: asked.slotsPerWorker ?? Math.max(1, usual) }
  const wanted = wantedWorkers(record, goal)
  return {
    backlog: record.backlog,
    oldestAgeMs: wholeOrNull(record.oldestAgeMs),
    running: record.running,
    meanRunMs: wholeOrNull(record.meanMs),
    workers,
    slots,
    freeSlots: Math.max(0, slots - busy),
    wantedSlots: wanted.slots,
    wantedWorkers: wanted.workers,
    why: scalingWords(record, goal, wanted),
  }
}
