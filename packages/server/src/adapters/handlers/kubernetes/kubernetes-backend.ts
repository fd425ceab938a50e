/**
 * The back end that runs containers as Jobs of Kubernetes (ports/container-backend.ts).
 *
 *   policy there? ─► Secret, Job ─► pod waits ─► runs, its log is followed ─► ended ─► both removed
 *                                      │ stuck: fails, with the kubelet's words
 *   signal ─► pod deleted with the grace of the job: SIGTERM, then SIGKILL by the kubelet
 *
 * 1. A class of egress without its NetworkPolicy runs nothing: without one a pod reaches everything.
 * 2. The pod is looked at once a second: nothing hangs on an event that was lost. While the API server is
 *    away nothing is known, and the attempt has its limit of time.
 * 3. What dead workers have left is found by labels and judged by Postgres, as on an engine; Kubernetes
 *    itself removes Jobs that ended, ten minutes later.
 */
import { Writable } from 'node:stream'
import type { Clock } from '../../../ports/clock.ts'
import type {
  ContainerBackend,
  ContainerEnd,
  ContainerPlan,
  ContainerSink,
} from '../../../ports/container-backend.ts'
import type { HeldName } from '../../../ports/worker-store.ts'
import { graceSeconds, labels, manifestsOf, type ManifestSettings, policyName } from './job-manifest.ts'
import { type KubernetesApi, KubernetesError, type Labelled } from './kubernetes-api.ts'
import { podState, resultOf } from './pod-state.ts'

export interface KubernetesBackendOptions extends ManifestSettings {
  readonly openApi: () => Promise<KubernetesApi>
  readonly clock: Clock
  /** Those that the session still holds. */
  readonly stillHeld: (sessionId: string, runs: readonly HeldName[]) => Promise<readonly HeldName[]>
  /** Told how many attempts were removed, and of what could not be. */
  readonly onRemoved: (count: number) => void
  readonly onFault: (error: unknown) => void
  /** Default 1 s. */
  readonly lookMs?: number
  /** Default 30 s. */
  readonly reapMs?: number
}

export interface KubernetesBackend extends ContainerBackend {
  /** Looks once for what others have left; answers how many attempts were removed. */
  sweep(): Promise<number>
}

interface Parts extends KubernetesBackendOptions {
  readonly api: KubernetesApi
  readonly everyMs: number
}

const keyOf = ({ runId, leaseEpoch }: HeldName): string => `${runId}/${leaseEpoch}`

export function createKubernetesBackend(options: KubernetesBackendOptions): KubernetesBackend {
  const { clock, lookMs = 1_000, reapMs = 30_000 } = options
  const own = new Map<string, Promise<ContainerEnd>>()
  const closing = new AbortController()
  let opened: Promise<KubernetesApi> | undefined
  let sweeping: Promise<unknown> = Promise.resolve()
  let timer: { cancel(): void } | undefined

  async function open(): Promise<KubernetesApi> {
    opened ??= options.openApi()
    return opened.catch((error: unknown) => {
      opened = undefined
      throw error
    })
  }

  async function run(plan: ContainerPlan, sink: ContainerSink, signal: AbortSignal): Promise<ContainerEnd> {
    const unfit = unfitFor(plan)
    if (unfit !== undefined) return unfit
    try {
      const parts = { ...options, api: await open(), everyMs: lookMs }
      return await runJob(parts, plan, sink, AbortSignal.any([signal, closing.signal]))
    } catch (error) {
      return failed(error)
    }
  }

  async function sweep(): Promise<number> {
    const api = await open()
    const removed = await removeOrphans(api, options, (run) => own.has(keyOf(run)))
    if (removed > 0) options.onRemoved(removed)
    return removed
  }

  function lookAgain(delayMs: number): void {
    if (closing.signal.aborted) return
    timer = clock.setTimer(delayMs, () => {
      sweeping = sweep()
        .catch(options.onFault)
        .finally(() => lookAgain(reapMs))
    })
  }

  return {
    sweep,
    start: () => lookAgain(0),
    run(plan, sink, signal) {
      const key = keyOf(plan)
      const running = run(plan, sink, signal).finally(() => own.delete(key))
      own.set(key, running)
      return running
    },
    async close() {
      closing.abort('shutdown')
      timer?.cancel()
      await Promise.all([sweeping, ...own.values()])
    },
  }
}

const unfit = (message: string): ContainerEnd => ({
  kind: 'failed',
  code: 'container_unsupported',
  message,
  retryable: false,
})

/** What a Job cannot be given. */
function unfitFor({ stdin, egressName }: ContainerPlan): ContainerEnd | undefined {
  if (stdin !== undefined)
    return unfit('Jobs of Kubernetes get no standard input; set `input` to "file" or "none".')
  if (!/^[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$/.test(egressName))
    return unfit(`The class of egress "${egressName}" is no value of a label; give it a shorter name.`)
  return undefined
}

async function runJob(
  parts: Parts,
  plan: ContainerPlan,
  sink: ContainerSink,
  signal: AbortSignal,
): Promise<ContainerEnd> {
  const { api, onFault } = parts
  const policy = policyName(plan.egressName)
  if (!(await api.hasPolicy(policy, { [labels.egress]: plan.egressName }))) return unguarded(policy)
  const manifests = manifestsOf(plan, parts)
  try {
    if (signal.aborted) return cutOff
    await api.create(manifests)
    return await liveOn(parts, plan, manifests.name, sink, signal)
  } finally {
    // where even that fails, the sweep does it
    await api.remove(manifests.name).catch(onFault)
  }
}

const unguarded = (policy: string): ContainerEnd => ({
  kind: 'failed',
  code: 'container_network_unguarded',
  message:
    `There is no NetworkPolicy "${policy}" of egress that selects the pods of this class; ` +
    'apply deploy/kubernetes/network-policies.yaml to the namespace.',
  retryable: true,
})

const cutOff: ContainerEnd = {
  kind: 'failed',
  code: 'container_not_started',
  message: 'The attempt was cut off before its container had started.',
  retryable: true,
}

/** Looks at the pod until it has ended, and at its log from when it runs. */
async function liveOn(
  parts: Parts,
  plan: ContainerPlan,
  name: string,
  sink: ContainerSink,
  signal: AbortSignal,
): Promise<ContainerEnd> {
  const log = new AbortController()
  let following: Promise<void> | undefined
  let stopped: 'no' | 'terminated' | 'killed' = 'no'
  let seen = false
  try {
    for (;;) {
      const pod = await parts.api.podOf(name).catch(whileAway)
      if (pod === null) {
        await wait(parts, signal)
        continue
      }
      const podName = pod?.metadata?.name
      if (pod === undefined || podName === undefined) {
        if (stopped !== 'no') return over(stopped)
        if (seen) return lost('its pod was removed')
        if (signal.aborted) return cutOff
        await wait(parts, signal)
        continue
      }
      seen = true
      const state = podState(pod)
      if (state.kind === 'lost') return stopped === 'no' ? lost(state.why) : over(stopped)
      if (state.kind === 'waiting' && state.stuck !== undefined) return state.stuck
      if (state.kind === 'waiting' && signal.aborted) return cutOff
      if (state.kind !== 'waiting') following ??= follow(parts, podName, sink, log.signal)
      if (state.kind === 'ended') {
        await Promise.race([following, wait(parts, log.signal, 5_000)])
        const { exitCode, outOfMemory, message } = state
        return { kind: 'exited', exitCode, outOfMemory, stopped, result: resultOf(plan, message) }
      }
      if (signal.aborted && stopped === 'no') stopped = await stop(parts, plan, podName, signal)
      await wait(parts, stopped === 'no' ? signal : log.signal)
    }
  } finally {
    log.abort()
    await following
  }
}

/** Of a pod that went while it was being stopped: the kubelet took it away before it was looked at. */
const over = (stopped: 'terminated' | 'killed'): ContainerEnd => ({
  kind: 'exited',
  exitCode: stopped === 'killed' ? 137 : 143,
  outOfMemory: false,
  stopped,
  result: undefined,
})

const lost = (why: string): ContainerEnd => ({
  kind: 'failed',
  code: 'container_lost',
  message: `Nobody can say how the container ended: ${why}.`,
  retryable: true,
})

async function stop(
  { api, onFault }: Parts,
  plan: ContainerPlan,
  podName: string,
  signal: AbortSignal,
): Promise<'terminated' | 'killed'> {
  const seconds = signal.reason === 'lease_lost' ? 0 : graceSeconds(plan)
  await api.stopPod(podName, seconds).catch(onFault)
  return seconds === 0 ? 'killed' : 'terminated'
}

/** Kubernetes gives both streams as one. */
async function follow(
  { api }: Parts,
  podName: string,
  sink: ContainerSink,
  signal: AbortSignal,
): Promise<void> {
  const into = new Writable({
    write(chunk: Buffer, _encoding, done) {
      sink.output('stdout', chunk)
      done()
    },
  })
  await api.followLog(podName, into, signal).catch((error: unknown) => {
    if (!signal.aborted) sink.note(`The log of the container cannot be read: ${String(error)}`)
  })
}

/** Resolves after a look's time, or when the signal fires. */
function wait({ clock, everyMs }: Parts, signal: AbortSignal, delayMs: number = everyMs): Promise<void> {
  if (signal.aborted) return new Promise((resolve) => void clock.setTimer(Math.min(delayMs, 50), resolve))
  return new Promise((resolve) => {
    const timer = clock.setTimer(delayMs, done)
    function done(): void {
      timer.cancel()
      signal.removeEventListener('abort', done)
      resolve()
    }
    signal.addEventListener('abort', done, { once: true })
  })
}

/** Null: nothing is known. */
function whileAway(error: unknown): null {
  const isAway = error instanceof KubernetesError && (error.status === undefined || error.status >= 500)
  if (!isAway) throw error
  return null
}

function failed(error: unknown): ContainerEnd {
  const message = error instanceof Error ? error.message : String(error)
  const status = error instanceof KubernetesError ? error.status : undefined
  const isOfJob = status === 400 || status === 422
  const code = status === undefined ? 'container_engine_unavailable' : 'container_not_started'
  return { kind: 'failed', code, message, retryable: !isOfJob }
}

interface Left extends Labelled {
  readonly run: HeldName
  readonly sessionId: string
}

async function removeOrphans(
  api: KubernetesApi,
  { installation, stillHeld }: Pick<KubernetesBackendOptions, 'installation' | 'stillHeld'>,
  isOwn: (run: HeldName) => boolean,
): Promise<number> {
  const selector = `${labels.installation}=${installation}`
  const found = [...(await api.jobs(selector)), ...(await api.secrets(selector))].flatMap(leftOf)
  const byName = new Map(found.filter(({ run }) => !isOwn(run)).map((each) => [each.name, each]))
  let removed = 0
  for (const [sessionId, left] of Map.groupBy(byName.values(), (each) => each.sessionId)) {
    const runs = left.map(({ run }) => run)
    const held = new Set((await stillHeld(sessionId, runs)).map(keyOf))
    for (const { name, run } of left) {
      if (held.has(keyOf(run)) || isOwn(run)) continue
      await api.remove(name)
      removed += 1
    }
  }
  return removed
}

function leftOf(found: Labelled): readonly Left[] {
  const { [labels.run]: runId, [labels.session]: sessionId, [labels.epoch]: epoch } = found.labels
  const leaseEpoch = Number(epoch)
  if (runId === undefined || sessionId === undefined || !Number.isSafeInteger(leaseEpoch)) return []
  return [{ ...found, run: { runId, leaseEpoch }, sessionId }]
}
