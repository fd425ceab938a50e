/**
 * Where a connection is made when the connection string names several hosts: to the first that is what is
 * wanted, as `target_session_attrs` says.
 *
 *   1 hosts are tried in their order; the next one begins when one fails, or stays silent for 250 ms
 *   2 whoever lets Belfry in is asked whether it is a standby and takes writes
 *   3 the first that fits wins, the others are hung up on
 *
 * With one host and nothing asked of it, there is no question and no second connection. Used by the thread of
 * a lease too, so it imports the driver and nothing else from packages.
 */
import pg from 'pg'
import type { WantedServer } from '../domain/database-url.ts'
import { readDatabaseUrl } from '../domain/database-url.ts'
import { readServerRole } from './statements/hosts.ts'

/** `connectionString`, or host, port, user, database, password and ssl. */
export type ConnectionOptions = Pick<
  pg.ClientConfig,
  'connectionString' | 'host' | 'port' | 'user' | 'database' | 'password' | 'ssl'
> & {
  /** Where the connection string does not say. Default: of several hosts one that takes writes. */
  readonly wanted?: WantedServer
}

export interface Host {
  /** For the driver. */
  readonly connection: pg.ClientConfig
  /** `host:port`, or the directory of a socket. */
  readonly place: string
}

export interface Hosts {
  readonly all: readonly Host[]
  readonly wanted: WantedServer
  /** False: one host, whatever it is. */
  readonly choice: boolean
}

const staggerMs = 250
const answerWithinMs = 2_000
const followsOther = 'it is a standby'

/** Whether a host was refused because it follows another one. */
export const isStandby = (error: unknown): boolean =>
  error instanceof Error && (error.message === followsOther || isStandby(error.cause))

export function hostsOf({ wanted, ...connection }: ConnectionOptions): Hosts {
  const { connectionString } = connection
  const read = connectionString === undefined ? undefined : readDatabaseUrl(connectionString)
  // whatever else is wrong with it, the driver says
  const parts = read === undefined || 'fault' in read ? undefined : read
  const connections =
    parts === undefined
      ? [connection]
      : parts.urls.map((url) => Object.assign({}, connection, { connectionString: url }))
  const asked = parts?.wanted ?? wanted ?? (connections.length > 1 ? 'read-write' : 'any')
  return {
    all: connections.map((each) => ({ connection: each, place: placeOf(each) })),
    wanted: asked,
    choice: connections.length > 1 || asked !== 'any',
  }
}

function placeOf(connection: pg.ClientConfig): string {
  const { host, port } = new pg.Client(connection)
  return host.startsWith('/') ? host : `${host}:${port}`
}

/** Where a connection leads, for people: never with the password. */
export function describeTarget(connection: ConnectionOptions): string {
  const { all } = hostsOf(connection)
  const { database, user } = new pg.Client(all[0]?.connection)
  const places = all.map(({ place }) => place).join(' or ')
  return `Postgres at ${places}, database "${database ?? user ?? ''}"`
}

export interface Connected {
  readonly client: pg.Client
  readonly host: Host
}

/** Settings go to the driver besides; the client has a listener for errors. Throws the driver's error. */
export async function connectToOne(
  hosts: Hosts,
  settings: pg.ClientConfig,
  signal?: AbortSignal,
): Promise<Connected> {
  const { wanted, all } = hosts
  if (wanted !== 'prefer-standby') return race(all, wanted, settings, signal)
  return race(all, 'standby', settings, signal).catch(() => race(all, 'any', settings, signal))
}

/** Throws where the server is not what is wanted. */
export async function checkServer(client: pg.ClientBase, hosts: Hosts): Promise<void> {
  // who prefers a standby takes what it got
  const { wanted } = hosts
  if (hosts.choice && wanted !== 'prefer-standby') await checkRole(client, wanted)
}

async function checkRole(client: pg.ClientBase, wanted: WantedServer): Promise<void> {
  if (wanted === 'any') return
  const query = { text: readServerRole.text, query_timeout: answerWithinMs }
  const { rows } = await client.query<{ standby: boolean; read_only: boolean }>(query)
  const { standby = false, read_only: readOnly = false } = rows[0] ?? {}
  const fits = {
    'read-write': !readOnly,
    'read-only': readOnly,
    primary: !standby,
    standby,
    'prefer-standby': true,
  }
  if (!fits[wanted])
    throw new OtherServer(standby ? 'it is a standby' : readOnly ? 'it is read-only' : 'it is the primary')
}

/** SQLSTATEs, so that our errors are told apart like those of a server (database-error.ts). */
const cannotConnectNow = '57P03'
const readOnlyTransaction = '25006'

/** A server that answers and is not what is wanted. */
class OtherServer extends Error {
  override readonly name = 'OtherServer'
  readonly code = readOnlyTransaction
}

/** None of the hosts is what is wanted; `code` says whether that is likely to pass. */
class NoServer extends Error {
  override readonly name = 'NoServer'
  readonly code: string
  constructor(message: string, code: string, cause: unknown) {
    super(message, { cause })
    this.code = code
  }
}

function race(
  all: readonly Host[],
  wanted: WantedServer,
  settings: pg.ClientConfig,
  signal: AbortSignal | undefined,
): Promise<Connected> {
  const { promise, resolve, reject } = Promise.withResolvers<Connected>()
  const clients = new Set<pg.Client>()
  const faults = new Map<Host, unknown>()
  let begun = 0
  let over = false
  let stagger: NodeJS.Timeout | undefined

  const end = (): void => {
    over = true
    clearTimeout(stagger)
    signal?.removeEventListener('abort', stop)
    for (const client of clients) cut(client)
  }
  const stop = (): void => {
    end()
    reject(new NoServer('Connecting was given up.', cannotConnectNow, undefined))
  }
  const tryNext = (): void => {
    clearTimeout(stagger)
    const host = all[begun]
    if (over || host === undefined) return
    begun += 1
    stagger = setTimeout(tryNext, staggerMs)
    const client = new pg.Client({ ...settings, ...host.connection })
    client.on('error', () => undefined)
    clients.add(client)
    client
      .connect()
      .then(() => checkRole(client, wanted))
      .then(
        () => {
          if (over) return
          clients.delete(client)
          end()
          resolve({ client, host })
        },
        (error: unknown) => {
          cut(client)
          clients.delete(client)
          faults.set(host, error)
          if (over) return
          tryNext()
          if (faults.size < all.length) return
          end()
          reject(failure(all, wanted, faults))
        },
      )
  }
  signal?.addEventListener('abort', stop)
  if (signal?.aborted === true) stop()
  else tryNext()
  return promise
}

/** What each host said; of one host its own error. */
function failure(all: readonly Host[], wanted: WantedServer, faults: ReadonlyMap<Host, unknown>): unknown {
  const [first] = faults.values()
  const others = [...faults.values()].filter((fault) => fault instanceof OtherServer)
  if (others.length === 0 && (all.length === 1 || refuseAll([...faults.values()]))) return first
  const said = all.map((host) => `${host.place}: ${wordsOf(faults.get(host))}`)
  const need = wanted === 'read-write' || wanted === 'primary' ? 'takes writes' : `fits (${wanted})`
  const message = `none of the hosts ${need}: ${said.join('; ')}`
  const code = others.length === all.length ? readOnlyTransaction : cannotConnectNow
  return new NoServer(message, code, first)
}

/** A wrong password is wrong on every host, and no state that passes. */
function refuseAll(faults: readonly unknown[]): boolean {
  const codes = faults.map((fault) => (fault as { readonly code?: unknown } | undefined)?.code)
  return codes.every((code) => code === '28P01' || code === '28000' || code === '3D000')
}

function wordsOf(fault: unknown): string {
  if (fault instanceof AggregateError) return fault.errors.map(wordsOf).join(', ')
  return fault instanceof Error ? fault.message : String(fault)
}

/** Hangs up; harmless where it has ended. */
export function cut(client: pg.ClientBase): void {
  const { stream } = (client as unknown as { connection: { stream: { destroy: () => void } } }).connection
  stream.destroy()
}
