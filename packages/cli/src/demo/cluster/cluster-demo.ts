/**
 * `npm run demo -- --cluster`: Belfry as a cluster of processes on this machine, which loses none of its work
 * while its parts are killed. The API and Postgres are in this process; two schedulers, three workers and a
 * resolver are processes of their own, with Redis and Kafka between them where these are installed.
 */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { createClient } from '@belfry/sdk'
import type { DemoOptions } from '../demo.ts'
import { percentile } from '../summary.ts'
import { type Receiver, startReceiver } from '../receiver.ts'
import { type ClusterPlan, createClusterPlan } from './cluster-plan.ts'
import { clusterSummary, judgeCluster } from './cluster-verdict.ts'
import { type LocalServer, type Missing, startKafka, startRedis } from './local-server.ts'
import { type ClusterNode, startNode } from './nodes.ts'
import { playStory } from './story.ts'

/** Long enough that a process which is killed has calls under way. */
const workMs = 150
const workflowEveryMs = 5_000
const tellEveryMs = 2_000
const defaultSpanMs = 60_000
/** How long the end waits for what is due and not finished. */
const settleMs = 45_000
const closeLimitMs = 20_000

const roles = {
  'scheduler-1': 'scheduler',
  'scheduler-2': 'scheduler',
  'resolver-1': 'resolver',
  'worker-1': 'worker',
  'worker-2': 'worker',
  'worker-3': 'worker',
} as const

/** Short leases: who is killed is missed within seconds. With the defaults it is 15 s and 30 s. */
const quickEnv = {
  BELFRY_TERM_MS: '3000',
  BELFRY_LEASE_MS: '4000',
  BELFRY_HEARTBEAT_MS: '1000',
  BELFRY_RESCUE_MS: '1000',
  BELFRY_DRAIN_MS: '5000',
  BELFRY_DATABASE_POOL_SIZE: '8',
  BELFRY_EGRESS_ALLOW: '127.0.0.0/8',
}

export type ClusterDemoOptions = DemoOptions & {
  readonly env: Readonly<Record<string, string | undefined>>
}

/** Resolves with the exit code: 0 only if nothing was lost. */
export async function runClusterDemo(options: ClusterDemoOptions): Promise<number> {
  const { out } = options
  const closing: (() => Promise<unknown> | void)[] = []
  // the terminal is gone: what was started is ended on the way out
  process.once('SIGHUP', () => process.exit(129))
  try {
    out('Starting a cluster on this machine …')
    const cluster = await startCluster(options, closing)
    return await show(options, cluster)
  } finally {
    for (const close of closing.reverse())
      await Promise.race([close(), sleep(closeLimitMs, undefined, { ref: false })])
  }
}

interface Cluster {
  readonly url: string
  readonly apiKey: string
  readonly receiver: Receiver
  readonly nodes: Map<string, ClusterNode>
  readonly redis: LocalServer | undefined
  readonly kafka: LocalServer | undefined
  readonly restart: (name: string) => Promise<void>
}

async function startCluster(
  options: ClusterDemoOptions,
  closing: (() => Promise<unknown> | void)[],
): Promise<Cluster> {
  const { out, env } = options
  const say = (part: string, words: string): void => out(`  ${part.padEnd(12)} ${words}`)
  const directory = await mkdtemp(join(tmpdir(), 'belfry-demo-'))
  closing.push(() => rm(directory, { recursive: true, force: true }))
  const receiver = await startReceiver(workMs)
  closing.push(() => receiver.close())

  function there(part: string, found: LocalServer | Missing): LocalServer | undefined {
    say(part, 'missing' in found ? found.missing : found.words)
    if ('missing' in found) return undefined
    closing.push(() => found.kill())
    return found
  }
  const [foundRedis, foundKafka] = await Promise.all([
    startRedis(env['PATH']),
    startKafka(env['PATH'], env['KAFKA_HOME'], join(directory, 'kafka')),
  ])
  const redis = there('Redis', foundRedis)
  const kafka = there('Kafka', foundKafka)
  const links = {
    ...(redis === undefined ? {} : { redisUrl: `redis://127.0.0.1:${redis.port}` }),
    ...(kafka === undefined ? {} : { kafkaBrokers: `127.0.0.1:${kafka.port}` }),
  }
  const belfry = await options.startBelfry({
    flags: {
      ...links,
      dataDir: directory,
      roles: 'api',
      port: 0,
      opsPort: 0,
      logLevel: 'silent',
      egressAllow: quickEnv.BELFRY_EGRESS_ALLOW,
    },
    signal: options.signal,
  })
  closing.push(() => belfry.stop())
  say('Postgres', 'its own, with the API in this process')
  say('API', belfry.url)
  say('target', `${receiver.url}   (a local receiver; it sees every call)`)

  const nodeEnv = {
    ...quickEnv,
    DATABASE_URL: belfry.databaseUrl,
    ...(links.redisUrl === undefined ? {} : { REDIS_URL: links.redisUrl }),
    ...(links.kafkaBrokers === undefined ? {} : { KAFKA_BROKERS: links.kafkaBrokers }),
  }
  const nodes = new Map<string, ClusterNode>()
  closing.push(() => Promise.all([...nodes.values()].map((node) => node.stop())))
  const start = async (name: string): Promise<void> => {
    const role = roles[name as keyof typeof roles]
    nodes.set(name, await startNode(name, { ...nodeEnv, BELFRY_ROLES: role }))
  }
  await Promise.all(Object.keys(roles).map(start))
  say('processes', [...nodes.values()].map(({ name, pid }) => `${name} (${pid})`).join(', '))
  return { url: belfry.url, apiKey: belfry.apiKey, receiver, nodes, redis, kafka, restart: start }
}

async function show(options: ClusterDemoOptions, cluster: Cluster): Promise<number> {
  const { out, signal, forSeconds } = options
  const { receiver } = cluster
  const client = createClient({ url: cluster.url, apiKey: cluster.apiKey })
  const spanMs = forSeconds === undefined ? defaultSpanMs : forSeconds * 1_000
  const plan = await createClusterPlan(client, receiver.url, Date.now(), spanMs)
  const startedMs = Date.now()
  for (const line of ['', ...plan.words, '']) out(line)
  const tell = (words: string): void => {
    out(`  +${String(Math.round((Date.now() - startedMs) / 1_000)).padStart(3)} s  ${words}`)
  }
  const over = new AbortController()
  const ended = AbortSignal.any([signal, over.signal])
  const workflowRunIds: string[] = []
  const story = playStory({ ...cluster, tell: (words) => tell(`*** ${words}`), signal: ended }, spanMs)
  const playing = Promise.all([
    story,
    keepTelling(plan, receiver, tell, ended),
    keepStarting(plan, workflowRunIds, ended),
  ])
  const time = forSeconds === undefined ? aborted(signal) : sleep(spanMs, undefined, { ref: false })
  try {
    // what has begun to be told is told to its end, also where the machine is slow
    await Promise.race([Promise.all([time, story]), aborted(signal), playing])
  } finally {
    over.abort()
  }
  const endMs = Date.now()
  await playing
  const asked = { plan, workflowRunIds }
  out('')
  out('The time is over; waiting for what is still under way …')
  for (;;) {
    const verdict = await judgeCluster(client, asked, receiver.calls, endMs)
    if (verdict.ok || Date.now() > endMs + settleMs) {
      for (const line of clusterSummary(verdict)) out(line)
      return verdict.ok ? 0 : 1
    }
    await sleep(500)
  }
}

/** What is due by the plan beside what the target saw, and how late that was since the last time. */
async function keepTelling(
  plan: ClusterPlan,
  { calls }: Receiver,
  tell: (words: string) => void,
  signal: AbortSignal,
): Promise<void> {
  let told = 0
  while (!signal.aborted) {
    await sleep(tellEveryMs, undefined, { signal }).catch(() => undefined)
    const nowMs = Date.now()
    const due = plan.schedules.reduce((sum, each) => sum + each.timesUntil(nowMs).length, 0)
    const seen = new Set(calls.flatMap((call) => (call.plannedMs === null ? [] : [call.runId]))).size
    const late = calls
      .slice(told)
      .flatMap((call) => (call.plannedMs === null ? [] : [call.atMs - call.plannedMs]))
      .toSorted((left, right) => left - right)
    told = calls.length
    const worst = percentile(late, 1)
    const words = worst === undefined ? '' : `   late: half ${percentile(late, 0.5)} ms, worst ${worst} ms`
    tell(`due ${String(due).padStart(4)}   at the target ${String(seen).padStart(4)}${words}`)
  }
}

async function keepStarting(plan: ClusterPlan, ids: string[], signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    ids.push(await plan.startWorkflow())
    await sleep(workflowEveryMs, undefined, { signal }).catch(() => undefined)
  }
}

function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve()
    else signal.addEventListener('abort', () => resolve(), { once: true })
  })
}
