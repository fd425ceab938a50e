/**
 * The server that this command line speaks to, as `belfry doctor` looks at it: reachable, the key good, what
 * it may do, of which version, what zone data it computes with.
 */
import type { Server } from '@belfry/contract'
import { BelfryError } from '@belfry/contract'
import type { Client } from '@belfry/sdk'
import { createClient } from '@belfry/sdk'
import type { Diagnosis } from '@belfry/server'
import type { Call } from '../command.ts'
import type { Connection } from '../connection.ts'
import { ownVersion } from '../own-version.ts'

const limitMs = 5_000
const alarmingSkewMs = 1_000
const mostReplans = 100

export async function examineApi(call: Call): Promise<Diagnosis[]> {
  let connection: Connection
  try {
    connection = await call.connection()
  } catch (error) {
    const fix = 'Name the server by --url or a context; see `belfry context list`.'
    return [{ name: 'api', status: 'fail', message: wordsOf(error), fix }]
  }
  const client = createClient({
    url: connection.url,
    apiKey: connection.apiKey,
    fetch: call.io.fetch,
    timeoutMs: limitMs,
    retry: { retries: 0 },
  })
  return connection.apiKey === undefined
    ? [await examineReachable(call, connection), noKey()]
    : examineWithKey(call, connection, client)
}

/** A server that nobody named may well not be there. */
function unreachable({ url, urlFrom }: Connection, error: unknown): Diagnosis {
  const named = urlFrom !== 'default'
  const message = `No Belfry answers at ${url} (${reasonOf(error)}).`
  const fix = named
    ? 'Check the address (context, BELFRY_URL or --url), and that the server runs (/readyz on its ops port).'
    : 'Start one with `belfry dev`, or name yours: belfry context set NAME --url URL'
  return { name: 'api', status: named ? 'fail' : 'warn', message, fix }
}

const noKey = (): Diagnosis => ({
  name: 'api_key',
  status: 'warn',
  message: 'No API key is given, so nothing but the address could be tried.',
  fix: 'Keep one: belfry context set NAME --url URL --key-file FILE',
})

async function examineReachable(call: Call, connection: Connection): Promise<Diagnosis> {
  try {
    const url = `${connection.url.replace(/\/+$/, '')}/`
    const answer = await call.io.fetch(url, { signal: AbortSignal.timeout(limitMs), redirect: 'manual' })
    const body: unknown = await answer.json().catch(() => undefined)
    const isBelfry = typeof body === 'object' && body !== null && 'name' in body && body.name === 'belfry'
    if (isBelfry)
      return { name: 'api', status: 'ok', message: `A Belfry answers at ${connection.url}.`, fix: null }
    return unreachable(connection, new Error(`what answers, HTTP ${answer.status}, is something else`))
  } catch (error) {
    return unreachable(connection, error)
  }
}

async function examineWithKey(call: Call, connection: Connection, client: Client): Promise<Diagnosis[]> {
  const askedMs = call.io.now()
  let server: Server
  try {
    server = await client.server()
  } catch (error) {
    return isRefusal(error)
      ? [reached(connection), keyRefused(connection, error)]
      : [unreachable(connection, error)]
  }
  const tripMs = call.io.now() - askedMs
  const who = await client.whoami().catch((error: unknown) => ({ error }))
  if ('error' in who) return [reached(connection), keyRefused(connection, who.error)]
  const scopes = who.scopes.join(', ')
  const key: Diagnosis = {
    name: 'api_key',
    status: 'ok',
    message: `The key is good for the tenant ${who.tenant.name}, with the scopes ${scopes}.`,
    fix: null,
  }
  const replans = who.scopes.includes('platform') ? [await examineReplans(client)] : []
  const clock = examineClock(server, askedMs + tripMs / 2, tripMs)
  return [reached(connection), key, examineVersion(server), clock, examineZones(server), ...replans]
}

const isRefusal = (error: unknown): boolean =>
  error instanceof BelfryError && ['unauthenticated', 'forbidden', 'too_many_requests'].includes(error.code)

const reached = ({ url }: Connection): Diagnosis => {
  return { name: 'api', status: 'ok', message: `The API answers at ${url}.`, fix: null }
}

function keyRefused({ keyFrom }: Connection, error: unknown): Diagnosis {
  const message = `The key (from the ${keyFrom}) is not taken: ${wordsOf(error)}`
  const fix =
    'It may be revoked, expired, or of another server; make one: belfry key create NAME --scope SCOPE'
  return { name: 'api_key', status: 'fail', message, fix }
}

function examineVersion({ version }: Server): Diagnosis {
  const own = ownVersion()
  const name = 'server_version'
  if (version === own)
    return { name, status: 'ok', message: `Server and command line are ${version}.`, fix: null }
  const message = `The server is ${version}, this command line ${own}.`
  return { name, status: 'warn', message, fix: `Use the same: npx belfry@${version}` }
}

function examineClock({ time }: Server, localMs: number, tripMs: number): Diagnosis {
  const skewMs = Math.round(localMs - Date.parse(time))
  const name = 'server_clock'
  const side = skewMs < 0 ? 'behind' : 'ahead of'
  const message = `The clock here is ${Math.abs(skewMs)} ms ${side} the server's.`
  if (Math.abs(skewMs) < alarmingSkewMs + tripMs) return { name, status: 'ok', message, fix: null }
  return {
    name,
    status: 'warn',
    message,
    fix: 'Keep both by NTP; times that are shown as "in 5m" are off by it.',
  }
}

function examineZones({ zoneData }: Server): Diagnosis {
  const { version, source, newestOnRecord } = zoneData
  const name = 'server_zone_data'
  const message = `The server computes times with zone data ${version} (${source}).`
  if (newestOnRecord === null || newestOnRecord <= version) return { name, status: 'ok', message, fix: null }
  const fix = `Another process came with ${newestOnRecord}; update tzdata or Belfry on the one that answers.`
  return { name, status: 'warn', message, fix }
}

async function examineReplans(client: Client): Promise<Diagnosis> {
  const name = 'server_replans'
  try {
    const all = await client.replans.list({ limit: mostReplans }).page()
    const open = all.items.filter(({ state }) => state === 'pending' || state === 'running')
    if (open.length === 0) {
      return { name, status: 'ok', message: 'No zone has its future times computed again now.', fix: null }
    }
    const shown = open.slice(0, 3).map(({ zone, done, total, moved }) => {
      return `${zone} ${done} of ${total ?? '?'} schedules, ${moved} moved`
    })
    const more = open.length > shown.length ? ` and ${open.length - shown.length} more zones` : ''
    const message = `Future times are computed again: ${shown.join('; ')}${more}.`
    return { name, status: 'ok', message, fix: null }
  } catch (error) {
    return { name, status: 'warn', message: `Replans cannot be listed: ${wordsOf(error)}`, fix: null }
  }
}

const wordsOf = (error: unknown): string => (error instanceof Error ? error.message : String(error))

/** What is at the bottom of it: of a failed connection the first cause says most. */
function reasonOf(error: unknown): string {
  let first = error
  while (first instanceof Error && first.cause instanceof Error) first = first.cause
  const code = first instanceof Error && 'code' in first ? String(first.code) : 'no reason given'
  return wordsOf(first) === '' ? code : wordsOf(first)
}
