/**
 * What happens to the cluster on the way: the leader is killed, then a worker, Redis, and Kafka, each at its
 * share of the time, and each comes back. Every act tells what it does and what came of it.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import type { LocalServer } from './local-server.ts'
import type { ClusterNode } from './nodes.ts'

export interface Stage {
  readonly nodes: Map<string, ClusterNode>
  readonly redis: LocalServer | undefined
  readonly kafka: LocalServer | undefined
  /** Starts the process of this name again. */
  readonly restart: (name: string) => Promise<void>
  readonly tell: (line: string) => void
  readonly signal: AbortSignal
}

interface Act {
  /** Of the time of the demo. */
  readonly share: number
  readonly play: (stage: Stage) => Promise<void>
}

const allShards = 64
const takeoverLimitMs = 30_000
const awayMs = 3_000

const acts: readonly Act[] = [
  { share: 0.2, play: killLeader },
  { share: 0.45, play: killWorker },
  {
    share: 0.6,
    play: (stage) => killServer(stage, stage.redis, 'Redis', 'Postgres leads and keeps the time'),
  },
  { share: 0.72, play: (stage) => killServer(stage, stage.kafka, 'Kafka', 'workers claim runs directly') },
]

/** Resolves when the last act is over, or `signal` fired. A failure of an act rejects. */
export async function playStory(stage: Stage, spanMs: number): Promise<void> {
  const startedMs = performance.now()
  for (const { share, play } of acts) {
    const waitMs = startedMs + share * spanMs - performance.now()
    await sleep(Math.max(0, waitMs), undefined, { signal: stage.signal }).catch(() => undefined)
    if (stage.signal.aborted) return
    await play(stage)
  }
}

async function killLeader(stage: Stage): Promise<void> {
  const { nodes, tell } = stage
  const schedulers = [...nodes.values()].filter(({ name }) => name.startsWith('scheduler'))
  const counted = await Promise.all(schedulers.map(async (node) => ({ node, held: await node.shards() })))
  const [leader, ...others] = counted.toSorted((left, right) => right.held - left.held)
  if (leader === undefined) return
  const { node, held } = leader
  await node.kill()
  const killedMs = performance.now()
  tell(`kill -9 ${node.name} (pid ${node.pid}), which led ${held} of ${allShards} shards`)
  const heir = await untilLed(others.map((other) => other.node))
  const tookMs = Math.round(performance.now() - killedMs)
  if (heir === undefined) throw new Error(`nobody took over within ${takeoverLimitMs} ms`)
  tell(`${heir.name} leads all ${allShards} shards, ${tookMs} ms after the kill; ${node.name} starts again`)
  await stage.restart(node.name)
}

async function untilLed(nodes: readonly ClusterNode[]): Promise<ClusterNode | undefined> {
  const deadlineMs = performance.now() + takeoverLimitMs
  while (performance.now() < deadlineMs) {
    for (const node of nodes) if ((await node.shards()) === allShards) return node
    await sleep(50)
  }
  return undefined
}

async function killWorker({ nodes, tell, restart }: Stage): Promise<void> {
  const worker = [...nodes.values()].find(({ name }) => name.startsWith('worker'))
  if (worker === undefined) return
  await worker.kill()
  tell(`kill -9 ${worker.name} (pid ${worker.pid}), in the middle of what it runs; others take that over`)
  await restart(worker.name)
  tell(`${worker.name} is back`)
}

async function killServer(
  { tell, signal }: Stage,
  server: LocalServer | undefined,
  name: string,
  meanwhile: string,
): Promise<void> {
  if (server === undefined) return
  await server.kill()
  tell(`kill -9 of ${name}; ${meanwhile}`)
  await sleep(awayMs, undefined, { signal }).catch(() => undefined)
  await server.start()
  tell(`${name} is back`)
}
