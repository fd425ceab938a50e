/**
 * The back end that runs containers on an engine of this machine (ports/container-backend.ts): what kind of
 * engine it is, what runs on it now, and the reaper for what others have left.
 */
import type { TunnelRules } from '../../../domain/container/egress-class.ts'
import type { Clock } from '../../../ports/clock.ts'
import type { ContainerBackend, ContainerEnd, ContainerPlan } from '../../../ports/container-backend.ts'
import type { Tunnels } from '../../../ports/tunnels.ts'
import { runContainer, type RunParts } from './container-run.ts'
import { createEngineClient, type EngineClient } from './engine-client.ts'
import { openDoor } from './network-door.ts'
import { createReaper, keyOf, type Reaper, type ReaperOptions } from './reaper.ts'

export interface EngineBackendOptions
  extends Pick<ReaperOptions, 'installation' | 'stillHeld' | 'onRemoved' | 'onFault'> {
  readonly socketPath: string
  readonly clock: Clock
  readonly tunnels: Tunnels
  /** Undefined: the engine's own. */
  readonly runtime: string | undefined
  readonly reapMs?: number
}

/** Processes of one user on the machine, all containers together. */
const pidsOfUser = 4_096
const usualReapMs = 10_000

export interface EngineBackend extends ContainerBackend {
  readonly reaper: Reaper
}

export function createEngineBackend(options: EngineBackendOptions): EngineBackend {
  const { socketPath, clock, tunnels, installation, runtime } = options
  const engine = createEngineClient(socketPath)
  const settings = { installation, runtime, pidsOfUser }
  const own = new Map<string, Promise<ContainerEnd>>()
  const closing = new AbortController()
  const reaper = createReaper({
    ...options,
    engine,
    intervalMs: options.reapMs ?? usualReapMs,
    isOwn: (run) => own.has(keyOf(run)),
  })
  const openNetwork: RunParts['openNetwork'] = async (plan, sink) => {
    const rules: TunnelRules | undefined = plan.egress
    if (rules === undefined) return { mode: 'none', env: [], close: async () => {} }
    return openDoor({ engine, settings, tunnels }, plan, rules, sink)
  }
  const kind = onceItAnswers(() => engineKind(engine))

  async function run(plan: ContainerPlan, ...[sink, signal]: Rest): Promise<ContainerEnd> {
    // Podman gives a new volume to the user of its first container, unless it is told whose it is
    const isPodman = await kind().catch(() => undefined)
    if (isPodman === undefined) return away(socketPath)
    const volumeOptions: Record<string, string> = isPodman ? { o: 'uid=0,gid=0' } : {}
    const over = AbortSignal.any([signal, closing.signal])
    return runContainer({ engine, clock, settings, openNetwork, volumeOptions }, plan, sink, over)
  }

  return {
    reaper,
    start: () => reaper.start(),
    run(plan, sink, signal) {
      const key = keyOf(plan)
      const running = run(plan, sink, signal).finally(() => own.delete(key))
      own.set(key, running)
      return running
    },
    async close() {
      closing.abort('shutdown')
      await Promise.all(own.values())
      await reaper.stop()
      engine.close()
    },
  }
}

type Rest = [sink: Parameters<ContainerBackend['run']>[1], signal: AbortSignal]

const away = (socketPath: string): ContainerEnd => ({
  kind: 'failed',
  code: 'container_engine_unavailable',
  message: `No engine answers at ${socketPath}; start it, or correct the setting containerEngine.`,
  retryable: true,
})

/** Asked until there is an answer, and never again. */
function onceItAnswers<T>(ask: () => Promise<T>): () => Promise<T> {
  let known: Promise<T> | undefined
  return () => {
    known ??= ask().catch((error: unknown) => {
      known = undefined
      throw error
    })
    return known
  }
}

async function engineKind(engine: EngineClient): Promise<boolean> {
  const version = (await engine.call('GET', '/version')) as { Components?: { Name?: string }[] }
  return version.Components?.some(({ Name }) => Name === 'Podman Engine') ?? false
}
