/**
 * One container from its creation to its removal, on an engine.
 *
 *   image? ─► volume? ─► create ─► files in ─► attach ─► start ─► stdin ─► wait ─► exited
 *     │                    │ of an older lease: removed; of a newer one: lease lost  │
 *     │ not there: pulled, where that is allowed                                      ▼
 *   signal ─► SIGTERM ─► grace ─► SIGKILL ───────────► result file ─► removed, volume too
 *
 * 1. Attached before it starts: no output is lost, however fast it is.
 * 2. One engine never runs two containers of the same run. Each lease creates its own, then looks for others,
 *    and starts last: of two that do so at once, the later to look sees the other, and the newer lease stays.
 * 3. Where the connection breaks while it runs (the engine restarts), the container is looked for until it
 *    has ended or is gone; its output from then on is lost, and the log says so.
 * 4. Whatever goes wrong, it is removed at the end; where even that fails, the reaper does it (reaper.ts).
 */
import type { Duplex } from 'node:stream'
import type { Clock } from '../../../ports/clock.ts'
import type {
  ContainerEnd,
  ContainerPlan,
  ContainerSink,
  ResultFile,
} from '../../../ports/container-backend.ts'
import { containerResultPath } from '@belfry/contract'
import { createCall, type CreateSettings, exchangePath, labelsOf, nameOf, volumeOf } from './create-call.ts'
import { type EngineClient, EngineError } from './engine-client.ts'
import { containersOn, removeItem } from './engine-items.ts'
import { imageVolumes } from './image.ts'
import { createFrameReader } from './stream-frames.ts'
import { packTar, readFirstFile } from './tar.ts'

export interface RunParts {
  readonly engine: EngineClient
  readonly clock: Clock
  readonly settings: CreateSettings
  /** Makes the network of a run ready; answers what the engine is to be told of it. */
  readonly openNetwork: (plan: ContainerPlan, sink: ContainerSink) => Promise<RunNetwork>
  /** Options of a volume that belongs to root, whoever its first user is. */
  readonly volumeOptions: Readonly<Record<string, string>>
}

export interface RunNetwork {
  readonly mode: string
  readonly env: readonly (readonly [string, string])[]
  close(): Promise<void>
}

/** A start is refused for reasons that only the job can mend. */
const startFault =
  /executable file not found|no such file or directory|permission denied|not a directory|exec format/i
/** How often a container is looked for whose engine went away. */
const lookMs = 1_000

export async function runContainer(
  parts: RunParts,
  plan: ContainerPlan,
  sink: ContainerSink,
  signal: AbortSignal,
): Promise<ContainerEnd> {
  let network: RunNetwork | undefined
  const left: string[] = []
  try {
    const volumes = await imageVolumes(parts.engine, plan, signal)
    if (signal.aborted) return cutOff
    await makeVolume(parts, plan)
    if (signal.aborted) return cutOff
    network = await parts.openNetwork(plan, sink)
    if (signal.aborted) return cutOff
    const env = [...plan.env, ...network.env]
    const call = createCall({ ...plan, env }, parts.settings, network.mode, volumes)
    const id = await createContainer(parts, plan, call)
    left.push(id)
    if (!(await takePlace(parts, plan))) return superseded
    return await liveOn(parts, plan, id, sink, signal)
  } catch (error) {
    return failed(error)
  } finally {
    await removeRun(parts.engine, plan, left).catch(() => undefined)
    await network?.close().catch(() => undefined)
  }
}

async function makeVolume({ engine, settings, volumeOptions }: RunParts, plan: ContainerPlan): Promise<void> {
  const Name = volumeOf(plan)
  if (Name === undefined) return
  const body = { Name, Labels: labelsOf(plan, settings), DriverOpts: volumeOptions }
  await engine.call('POST', '/volumes/create', { body })
}

async function createContainer(
  { engine }: RunParts,
  plan: ContainerPlan,
  body: ReturnType<typeof createCall>,
): Promise<string> {
  const query = { name: nameOf(plan) }
  const made = await engine.call('POST', '/containers/create', { query, body })
  if (typeof made === 'object' && made !== null && 'Id' in made && typeof made.Id === 'string') return made.Id
  throw new EngineError('The engine created a container and did not say which.')
}

/** Removes what older leases of the run have there; false, and nothing is removed, where a newer one has. */
async function takePlace({ engine, settings }: RunParts, plan: ContainerPlan): Promise<boolean> {
  const found = await containersOn(engine, settings.installation, plan.runId)
  if (found.some(({ run }) => run.leaseEpoch > plan.leaseEpoch)) return false
  for (const each of found) if (each.run.leaseEpoch < plan.leaseEpoch) await removeItem(engine, each)
  return true
}

async function liveOn(
  parts: RunParts,
  plan: ContainerPlan,
  id: string,
  sink: ContainerSink,
  signal: AbortSignal,
): Promise<ContainerEnd> {
  const { engine } = parts
  await putFiles(engine, plan, id)
  const attach = (which: Readonly<Record<string, '1'>>) =>
    engine.attach(`/containers/${id}/attach`, { query: { stream: '1', ...which }, timeoutMs: longestMs })
  const stream = await attach({ stdout: '1', stderr: '1' })
  let input: Duplex | undefined
  const drained = drain(stream, sink, parts.clock)
  const stopper = createStopper(parts, plan, id)
  const stop = (): void => stopper.stop(signal.reason)
  try {
    // Apart: where a container ends before it has read its input, Podman resets the connection that it came
    // by, and what the container had said would be lost with it.
    if (plan.stdin !== undefined) input = (await attach({ stdin: '1' })).on('error', () => undefined).resume()
    if (signal.aborted) return cutOff
    await engine.call('POST', `/containers/${id}/start`, { timeoutMs: 120_000 })
    signal.addEventListener('abort', stop, { once: true })
    if (signal.aborted) stop()
    input?.end(plan.stdin)
    await untilOver(parts, id, sink)
    // what it said last may still be on its way
    await settledSoon(parts.clock, drained)
    const { exitCode, outOfMemory } = await look(engine, id)
    const result = await readResult(engine, plan, id)
    return { kind: 'exited', exitCode, outOfMemory, stopped: stopper.stopped(), result }
  } finally {
    signal.removeEventListener('abort', stop)
    stopper.end()
    stream.destroy()
    input?.destroy()
  }
}

/** A day and some: longer than any attempt. */
const longestMs = 90_000_000

const cutOff: ContainerEnd = {
  kind: 'failed',
  code: 'container_not_started',
  message: 'The attempt was cut off before its container had started.',
  retryable: true,
}

const superseded: ContainerEnd = {
  kind: 'failed',
  code: 'lease_lost',
  message: 'A newer attempt of the run has a container on this engine, so this one did not start.',
  retryable: true,
}

/** Resolves with the promise, or a few seconds later without it. */
async function settledSoon(clock: Clock, promise: Promise<void>): Promise<void> {
  const late = Promise.withResolvers<void>()
  const timer = clock.setTimer(5_000, late.resolve)
  await Promise.race([promise, late.promise])
  timer.cancel()
}

const wait = (clock: Clock, delayMs: number): Promise<void> =>
  new Promise((resolve) => void clock.setTimer(delayMs, resolve))

/** The volume belongs to root: of all that is in it the container can write into the result file alone. */
async function putFiles(engine: EngineClient, plan: ContainerPlan, id: string): Promise<void> {
  if (volumeOf(plan) === undefined) return
  const { uid, gid, inputFile, resultFileBytes } = plan
  const input = { name: 'input.json', content: Buffer.from(inputFile ?? ''), mode: 0o444, uid: 0, gid: 0 }
  const result = { name: 'result.json', content: new Uint8Array(), mode: 0o600, uid, gid }
  const tar = packTar([
    ...(inputFile === undefined ? [] : [input]),
    ...(resultFileBytes === undefined ? [] : [result]),
  ])
  await engine.call('PUT', `/containers/${id}/archive`, { query: { path: exchangePath }, tar })
}

async function readResult(
  engine: EngineClient,
  { resultFileBytes }: ContainerPlan,
  id: string,
): Promise<ResultFile | undefined> {
  if (resultFileBytes === undefined) return undefined
  const archive = await engine.open(`/containers/${id}/archive`, { query: { path: containerResultPath } })
  const read = await readFirstFile(archive, resultFileBytes)
  return read.kind === 'file' ? { kind: 'file', bytes: read.content } : read
}

/** At most so many bytes in so long: a flood slows down who makes it, and not this process. */
const turn = { bytes: 1024 * 1024, ms: 100 }

function drain(stream: Duplex, sink: ContainerSink, clock: Clock): Promise<void> {
  return new Promise((resolve) => {
    const frames = createFrameReader(
      (name, bytes) => sink.output(name, bytes),
      () => stream.destroy(),
    )
    let taken = 0
    stream.on('data', (chunk: Buffer) => {
      frames.push(chunk)
      taken += chunk.length
      if (taken < turn.bytes) return
      taken = 0
      stream.pause()
      clock.setTimer(turn.ms, () => stream.resume())
    })
    stream.on('close', () => resolve())
    stream.on('end', () => resolve())
    stream.on('error', () => resolve())
  })
}

interface Stopper {
  stop(reason: unknown): void
  stopped(): 'no' | 'terminated' | 'killed'
  end(): void
}

function createStopper({ engine, clock }: RunParts, { stopGraceMs }: ContainerPlan, id: string): Stopper {
  let stopped: 'no' | 'terminated' | 'killed' = 'no'
  let timer: { cancel(): void } | undefined
  const kill = (name: string): void => {
    stopped = name === 'SIGKILL' ? 'killed' : 'terminated'
    engine.call('POST', `/containers/${id}/kill`, { query: { signal: name } }).catch(() => undefined)
  }
  return {
    stop(reason) {
      if (stopped !== 'no') return
      if (reason === 'lease_lost' || stopGraceMs === 0) return kill('SIGKILL')
      kill('SIGTERM')
      timer = clock.setTimer(stopGraceMs, () => kill('SIGKILL'))
    },
    stopped: () => stopped,
    end: () => timer?.cancel(),
  }
}

interface Looked {
  readonly running: boolean
  readonly exitCode: number
  readonly outOfMemory: boolean
}

async function look(engine: EngineClient, id: string): Promise<Looked> {
  const found = (await engine.call('GET', `/containers/${id}/json`)) as {
    State?: { Running?: boolean; Paused?: boolean; ExitCode?: number; OOMKilled?: boolean }
  }
  const { Running = false, Paused = false, ExitCode = -1, OOMKilled = false } = found.State ?? {}
  return { running: Running || Paused, exitCode: ExitCode, outOfMemory: OOMKilled }
}

/** Of a container that has started: its end is known then, or nobody will ever know it. */
class ContainerGone extends Error {}

async function untilOver(parts: RunParts, id: string, sink: ContainerSink): Promise<void> {
  const { engine, clock } = parts
  const query = { condition: 'not-running' }
  try {
    await engine.call('POST', `/containers/${id}/wait`, { query, timeoutMs: longestMs })
    return
  } catch {
    sink.note('The connection to the engine broke; what the container says from here on is lost.')
  }
  for (;;) {
    await wait(clock, lookMs)
    try {
      if (!(await look(engine, id)).running) return
    } catch (error) {
      // while the engine is away nothing is known, and the attempt has its limit of time
      if (error instanceof EngineError && error.status === 404) throw new ContainerGone()
    }
  }
}

async function removeRun(engine: EngineClient, plan: ContainerPlan, ids: readonly string[]): Promise<void> {
  for (const name of ids) await removeItem(engine, { kind: 'container', name })
  const volume = volumeOf(plan)
  if (volume !== undefined) await removeItem(engine, { kind: 'volume', name: volume })
}

const gone: ContainerEnd = {
  kind: 'failed',
  code: 'container_lost',
  message: 'The container was gone before its end was known: somebody removed it, or another attempt began.',
  retryable: true,
}

function failed(error: unknown): ContainerEnd {
  if (error instanceof ContainerGone) return gone
  const message = error instanceof Error ? error.message : String(error)
  const status = error instanceof EngineError ? error.status : undefined
  if (status === undefined)
    return { kind: 'failed', code: 'container_engine_unavailable', message, retryable: true }
  if (status === 404 && /image/i.test(message))
    return {
      kind: 'failed',
      code: 'container_image_missing',
      message: `${message}. ${imageFix}`,
      retryable: false,
    }
  const isOfJob = startFault.test(message) || status === 400
  return { kind: 'failed', code: 'container_not_started', message, retryable: !isOfJob }
}

const imageFix = 'Load the image into the engine, or let Belfry pull it (setting containerPull)'
