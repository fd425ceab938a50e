/**
 * A pool of connections: driver options, types of values, jittered reconnects. database.ts builds
 * transactions on it; nothing else touches the driver at run time. A process has a few of them, so that what
 * must not wait does not (config/connection-shares.ts). Invariant: connections run in the driver's pipeline
 * mode, so queries issued together travel together.
 */
import pg from 'pg'
import type { Clock } from '../ports/clock.ts'
import type { Random } from '../ports/random.ts'
import { classifyDatabaseError } from './database-error.ts'
import type { HostChoice } from './host-choice.ts'
import { createHostChoice } from './host-choice.ts'
import type { ConnectionOptions, Hosts } from './hosts.ts'
import { checkServer, cut, hostsOf } from './hosts.ts'

export type PoolOptions = {
  readonly connection: ConnectionOptions
  readonly clock: Clock
  readonly random: Random
  readonly maxConnections: number
  readonly applicationName: string
  /** Limit for making a connection, and for waiting for a free one. */
  readonly connectTimeoutMs: number
  /** Of several hosts: called when connections begin to go to another one than before. */
  readonly onMoved?: ((place: string) => void) | undefined
}

export type PoolStats = {
  readonly open: number
  readonly idle: number
  /** Callers that wait for a connection. */
  readonly waiting: number
  readonly max: number
}

export type Pool = {
  /** Whether there is more than one host to go to, or something is asked of the one. */
  readonly chooses: boolean
  /**
   * Takes a connection. Where a new one has to be made after failures, it waits a random moment first, so
   * that a restarted server is not stormed.
   */
  readonly acquire: () => Promise<pg.PoolClient>
  /**
   * Gives it back, or hangs up where it broke. Where there are several hosts, that puts the one that it led
   * to in doubt: it may have failed, or been made a standby.
   */
  readonly release: (client: pg.PoolClient, fault?: Error) => void
  readonly stats: () => PoolStats
  /** Connections that were lost so far. */
  readonly losses: () => number
  /**
   * Waits for connections that are in use, but no longer than 15 s, and for each to say goodbye, but no
   * longer than 1 s: a server that is frozen or out of reach answers neither, and must not keep the process.
   */
  readonly close: () => Promise<void>
}

const firstReconnectMs = 50
const maxReconnectMs = 2_000
const idleCloseMs = 60_000
const closeWithinMs = 15_000
const goodbyeWithinMs = 1_000

export function openPool(options: PoolOptions): Pool {
  const hosts = hostsOf(options.connection)
  const { pool, choice } = makePool(options, hosts)
  // An idle connection that breaks is dropped by the pool; the next caller gets a new one.
  let lost = 0
  pool.on('error', (_error, client) => {
    lost += 1
    choice?.doubt(client)
  })
  const open = new Set<pg.PoolClient>()
  let emptied = (): void => undefined
  let failures = 0
  pool.on('connect', (client) => {
    // The pool takes its listener off before its caller is told, and a connection may break in between, even
    // in the packet that lets it in: without any listener that would end the process. The next query fails.
    client.on('error', () => undefined)
    failures = 0
    open.add(client)
  })
  pool.on('remove', (client) => {
    open.delete(client)
    if (open.size === 0) emptied()
  })

  const acquire = async () => {
    if (failures > 0 && pool.idleCount === 0) {
      await options.clock.sleep(options.random.next() * reconnectLimitMs(failures))
    }
    try {
      return await (choice === undefined ? pool.connect() : choice.take(pool))
    } catch (error) {
      if (isAway(error)) failures += 1
      throw error
    }
  }
  const release: Pool['release'] = (client, fault) => {
    if (fault !== undefined) {
      lost += 1
      choice?.doubt(client)
    }
    client.release(fault)
  }
  const stats = () => ({
    open: pool.totalCount,
    idle: pool.idleCount,
    waiting: pool.waitingCount,
    max: options.maxConnections,
  })
  const closeAll = async () => {
    await within(options.clock, closeWithinMs, pool.end())
    const gone = new Promise<void>((resolve) => {
      emptied = resolve
      if (open.size === 0) resolve()
    })
    await within(options.clock, goodbyeWithinMs, gone)
    for (const client of open) cut(client)
  }
  let closing: Promise<void> | undefined
  const close = () => {
    closing ??= closeAll()
    return closing
  }
  return { chooses: hosts.choice, acquire, release, stats, losses: () => lost, close }
}

/** Ends a connection that is outside of any pool: says goodbye, and after a second just hangs up. */
export async function endClient(client: pg.Client, clock: Clock): Promise<void> {
  await within(
    clock,
    goodbyeWithinMs,
    client.end().catch(() => undefined),
  )
  cut(client)
}

function makePool(
  options: PoolOptions,
  hosts: Hosts,
): { readonly pool: pg.Pool; readonly choice: HostChoice | undefined } {
  const settings = {
    application_name: options.applicationName,
    connectionTimeoutMillis: options.connectTimeoutMs,
    keepAlive: true,
    keepAliveInitialDelayMillis: 10_000,
    pipeline: true,
    types: valueTypes,
  }
  const choice = hosts.choice ? createHostChoice(hosts, settings, options.onMoved) : undefined
  const pool = new pg.Pool({
    ...(choice === undefined ? hosts.all[0]?.connection : hostsByChoice(hosts, choice)),
    ...settings,
    max: options.maxConnections,
    idleTimeoutMillis: idleCloseMs,
  })
  return { pool, choice }
}

/** New connections go where the choice says, and are asked whether that is what they came to. */
function hostsByChoice(hosts: Hosts, choice: HostChoice): pg.PoolConfig {
  class ClientOfHost extends pg.Client {
    constructor(config?: pg.ClientConfig) {
      const { host } = choice
      super({ ...config, ...host.connection })
      choice.made(this, host)
    }
  }
  // oxlint-disable-next-line typescript/no-misused-promises -- the pool waits for it, whatever its types say
  return { Client: ClientOfHost, onConnect: (client) => checkServer(client, hosts) }
}

async function within(clock: Clock, limitMs: number, work: Promise<unknown>): Promise<void> {
  const done = new AbortController()
  await Promise.race([work, clock.sleep(limitMs, done.signal)]).finally(() => done.abort())
}

function reconnectLimitMs(failures: number): number {
  return Math.min(maxReconnectMs, firstReconnectMs * 2 ** Math.min(failures, 10))
}

/** With several hosts also: none of them takes writes. */
function isAway(error: unknown): boolean {
  const code = classifyDatabaseError(error)
  return code === 'database_unavailable' || code === 'database_read_only'
}

const { builtins } = pg.types
const int8Array = 1016

const ownParsers: Readonly<Record<number, (text: string) => unknown>> = {
  [builtins.INT8]: parseInt8,
  [int8Array]: parseInt8Array,
  [builtins.DATE]: (text) => text,
}

/**
 * `bigint` becomes a number and fails when it is not exact (epochs, counters and sizes stay far below
 * 2^53); `date` stays text, because a JavaScript Date would shift it by the local zone. `timestamptz` is a
 * Date (milliseconds).
 */
const valueTypes: pg.CustomTypesConfig = {
  getTypeParser: ((oid: number, format?: 'text' | 'binary'): unknown => {
    if (format !== 'binary' && oid in ownParsers) return ownParsers[oid]
    return pg.types.getTypeParser(oid, format)
  }) as typeof pg.types.getTypeParser,
}

export function parseInt8(text: string): number {
  const value = Number(text)
  if (Number.isSafeInteger(value)) return value
  throw new RangeError(`The bigint ${text} does not fit a JavaScript number exactly.`)
}

/** One dimension, as in `{1,2,NULL}`. */
function parseInt8Array(text: string): (number | null)[] {
  if (text === '{}') return []
  return text
    .slice(1, -1)
    .split(',')
    .map((each) => (each === 'NULL' ? null : parseInt8(each)))
}
