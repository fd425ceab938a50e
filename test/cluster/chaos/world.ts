/**
 * The world of one cell: the stores of its configuration, the ground of its fault, and six processes, each
 * with one role, so that each role can be hit alone. What a fault does is written into a diary, by the
 * second.
 */
import { spawnSync } from 'node:child_process'
import { chmodSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { makeFastDirectory } from '../../support/temporary-directory.ts'
import type { Draw } from '../../support/random-draws.ts'
import { drawer } from '../../support/random-draws.ts'
import { type Arena, cleanUpList, type Defer, openArena } from '../support/arena.ts'
import { parseLine } from '../support/node-process.ts'
import { type Configuration, environmentOf, openStores, type Stores } from './configurations.ts'
import { breakGround, type Ground, type GroundKind, layGround, specialNodes } from './grounds.ts'

export const nodeNames = ['api', 'scheduler-1', 'scheduler-2', 'worker-1', 'worker-2', 'resolver'] as const
export type NodeName = (typeof nodeNames)[number]

export interface World {
  readonly arena: Arena
  readonly stores: Stores
  readonly ground: Ground
  readonly draw: Draw
  readonly windowMs: number
  readonly defer: Defer
  /** Epoch ms of the first planned time. */
  readonly firstMs: () => number
  readonly begin: (firstMs: number) => void
  /** Waits until so many seconds after the first planned time. */
  readonly until: (second: number) => Promise<void>
  readonly diary: readonly string[]
  readonly note: (words: string) => void
  readonly start: (name: NodeName) => Promise<void>
  readonly kill: (name: NodeName) => Promise<void>
  readonly signal: (name: NodeName, signal: 'SIGSTOP' | 'SIGCONT') => void
  /** Lines of the log of a name, of all processes that had it, that tell of an event. */
  readonly told: (name: NodeName, event: string) => readonly Record<string, unknown>[]
}

export interface WorldOptions {
  readonly configuration: Configuration
  readonly ground: GroundKind
  readonly seed: number
  readonly windowMs: number
  /** A data directory to start from (`makeTemplate`), which saves some seconds. */
  readonly template?: string | undefined
}

/** Small, because there are six processes and Postgres takes a hundred connections. */
const poolSize = 8

export async function openWorld(options: WorldOptions, defer: Defer): Promise<World> {
  const begun = breakGround(options.ground, defer)
  const dataDir = join(begun.disk?.path ?? makePlace(defer), 'data')
  if (options.template !== undefined) copy(options.template, dataDir)
  const [arena, stores] = await Promise.all([
    openArena({ dataDir }, defer),
    openStores(options.configuration, defer, begun.lanes?.addresses.kafka),
  ])
  const ground = await layGround(options.ground, begun, arena, stores, defer)
  const env = {
    BELFRY_DATABASE_POOL_SIZE: String(poolSize),
    // six processes start at once, and some again
    NODE_COMPILE_CACHE: join(tmpdir(), 'belfry-chaos-compiled'),
    ...environmentOf(stores),
    ...ground.env,
  }
  const logs = new Map<NodeName, (readonly string[])[]>()
  const diary: string[] = []
  let firstMs = 0
  const note = (words: string): void => {
    diary.push(`${((Date.now() - firstMs) / 1_000).toFixed(1)} s: ${words}`)
  }
  const start = async (name: NodeName): Promise<void> => {
    const special = specialNodes.has(name)
    const role = name.replace(/-\d$/, '')
    const its = { ...env, BELFRY_ROLES: role, ...(special ? ground.specialEnv : {}) }
    const node = await arena.start(name, its, special ? ground.specialUnder : [])
    logs.set(name, [...(logs.get(name) ?? []), node.log])
  }
  await Promise.all(nodeNames.map(start))
  return {
    arena,
    stores,
    ground,
    draw: drawer(options.seed),
    windowMs: options.windowMs,
    defer,
    firstMs: () => firstMs,
    begin(atMs) {
      firstMs = atMs
    },
    until: (second) => wait(Math.max(0, firstMs + second * 1_000 - Date.now())),
    diary,
    note,
    start,
    async kill(name) {
      note(`kill -9 ${name}`)
      const node = arena.nodes.get(name)
      node?.signal('SIGKILL')
      await node?.ended
    },
    signal(name, signal) {
      note(`${signal} ${name}`)
      arena.nodes.get(name)?.signal(signal)
    },
    told: (name, event) =>
      (logs.get(name) ?? []).flat().flatMap((line) => {
        const parsed = parseLine(line)
        return parsed?.['event'] === event ? [parsed] : []
      }),
  }
}

/** Which the user that Postgres runs as can enter. */
function makePlace(defer: Defer): string {
  const path = makeFastDirectory('belfry-chaos')
  chmodSync(path, 0o711)
  defer(() => rmSync(path, { recursive: true, force: true }))
  return path
}

/** With its owners: Postgres takes nothing that belongs to somebody else. */
function copy(from: string, to: string): void {
  const { status, stderr } = spawnSync('cp', ['-a', from, to], { encoding: 'utf8' })
  if (status !== 0) throw new Error(`${from} cannot be copied: ${stderr}`)
}

/** A data directory with the schema in it, and nothing else; it stays until `defer`. */
export async function makeTemplate(defer: Defer): Promise<string> {
  const place = makePlace(defer)
  const made = cleanUpList()
  const template = join(place, 'template')
  try {
    const dataDir = join(place, 'data')
    const arena = await openArena({ dataDir }, made.defer)
    // each arena makes its own
    await arena.rows('DELETE FROM belfry.api_key')
    await arena.stopPostgres()
    copy(dataDir, template)
  } finally {
    await made.clear()
  }
  return template
}
