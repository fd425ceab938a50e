// People at a whole server that is put together from its configuration: the first owner by password, somebody
// by an OpenID provider, with the password hashes of production; what may happen to be open to the network;
// and a process in production that refuses to start.
import { spawnSync } from 'node:child_process'
import { readdirSync, readFileSync, readlinkSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { makeOwnerKey } from '../../packages/server/src/compose/first-key.ts'
import { type BelfryServer, startServer } from '../../packages/server/src/compose/server.ts'
import { loadConfig } from '../../packages/server/src/config/load.ts'
import { createLogger } from '../../packages/server/src/telemetry/logger.ts'
import { type OidcIssuer, startOidcIssuer } from '../support/oidc-issuer.ts'
import { createTestDatabase, type TestDatabase } from '../support/postgres.ts'

const password = 'gull-harbour-41-lantern'
let database: TestDatabase
let issuer: OidcIssuer
let server: BelfryServer
let url: string
let key: string
let before: ReadonlySet<string>

/** Addresses, as the kernel writes them, on which this process listens. */
function listening(): string[] {
  const inodes = new Set(
    readdirSync('/proc/self/fd').flatMap((fd) => {
      try {
        return /^socket:\[(\d+)\]$/.exec(readlinkSync(`/proc/self/fd/${fd}`))?.[1] ?? []
      } catch {
        return []
      }
    }),
  )
  return ['tcp', 'tcp6'].flatMap((table) =>
    readFileSync(`/proc/net/${table}`, 'utf8')
      .split('\n')
      .slice(1)
      .map((line) => line.trim().split(/\s+/))
      .filter(([, , , state, , , , , , inode]) => state === '0A' && inodes.has(inode ?? ''))
      .map(([, local]) => local ?? ''),
  )
}

beforeAll(async () => {
  database = await createTestDatabase()
  issuer = await startOidcIssuer()
  const { host, port } = database.connection
  before = process.platform === 'linux' ? new Set(listening()) : new Set()
  const { config } = loadConfig({
    flags: {
      databaseUrl: `postgres://belfry@${encodeURIComponent(host)}:${port}/${database.name}`,
      host: '0.0.0.0',
      port: 0,
      opsPort: 0,
      drainMs: 500,
      publicUrl: 'https://belfry.test',
      oidcIssuer: issuer.url,
      oidcClientId: issuer.clientId,
      oidcClientSecret: issuer.clientSecret,
      oidcTenant: 'acme',
      oidcDomains: 'example.com',
      oidcRoles: 'ops=operator,chiefs=admin',
    },
  })
  server = await startServer({ config, logger: createLogger({ level: 'silent', version: '0' }) })
  url = (server.apiUrl ?? '').replace('0.0.0.0', '127.0.0.1')
  key = (await makeOwnerKey(server.store.db, 'acme', 'first')).key
})
afterAll(async () => {
  await server?.stop()
  await issuer?.close()
  await database?.drop()
})

async function call(method: string, path: string, headers: Record<string, string>, body?: unknown) {
  const response = await fetch(`${url}${path}`, {
    method,
    redirect: 'manual',
    headers: { ...headers, ...(body === undefined ? {} : { 'content-type': 'application/json' }) },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  })
  const text = await response.text()
  return {
    status: response.status,
    headers: response.headers,
    body: (text === '' ? {} : JSON.parse(text)) as { readonly inviteToken?: string },
  }
}
const pairOf = (cookie = ''): string => cookie.split(';')[0] ?? ''

describe('a server', () => {
  it('lets its first owner in by password, whose hash is that of production', async () => {
    const bearer = { authorization: `Bearer ${key}` }
    const member = await call('POST', '/v1/members', bearer, { email: 'ada@example.com', role: 'owner' })
    const from = { origin: 'https://belfry.test', 'sec-fetch-site': 'same-origin' }
    const accepted = await call('POST', '/v1/invites/accept', from, {
      token: member.body.inviteToken,
      password,
    })
    expect(accepted.status).toBe(201)
    const cookie = pairOf(accepted.headers.getSetCookie()[0])
    expect(cookie).toMatch(/^__Host-belfry=bfs_/)
    const who = await call('GET', '/v1/whoami', { cookie })
    expect(who.body).toMatchObject({ role: 'owner', principal: { kind: 'person' } })
    const [row] = await database.sql<{ hash: string }>('SELECT password_hash AS hash FROM belfry.member')
    expect(row?.hash).toMatch(/^scrypt\$17\$8\$1\$/)
    const wrong = await call(
      'POST',
      '/v1/sessions',
      {},
      { email: 'ada@example.com', password: 'no', answer: 'token' },
    )
    expect(wrong.body).toMatchObject({ code: 'sign_in_failed' })
  })

  it('lets somebody in by the provider that the configuration names, through its one way out', async () => {
    issuer.person = {
      sub: 'g',
      email: 'grace@example.com',
      email_verified: true,
      name: 'Grace',
      groups: ['ops'],
    }
    const ways = await call('GET', '/v1/sign-in', {})
    expect(ways.body).toMatchObject({ cookies: true, oidc: { issuer: issuer.url, start: '/v1/oidc/start' } })
    const start = await call('GET', '/v1/oidc/start?next=/ui', {})
    const away = await fetch(start.headers.get('location') ?? '', { redirect: 'manual' })
    const back = new URL(away.headers.get('location') ?? '')
    expect(back.origin).toBe('https://belfry.test')
    const cookie = pairOf(start.headers.getSetCookie()[0])
    const done = await call('GET', `${back.pathname}${back.search}`, { cookie })
    expect(done.status).toBe(303)
    expect(done.headers.get('location')).toBe('/ui')
    const who = await call('GET', '/v1/whoami', { cookie: pairOf(done.headers.getSetCookie()[1]) })
    expect(who.body).toMatchObject({ role: 'operator', principal: { name: 'Grace' } })
  })

  it('slows down whoever guesses a password, and tells how long', async () => {
    const guess = () =>
      call('POST', '/v1/sessions', {}, { email: 'nobody@example.com', password: 'x', answer: 'token' })
    const statuses: number[] = []
    for (let tries = 0; tries < 10; tries++) statuses.push((await guess()).status)
    expect(new Set(statuses)).toEqual(new Set([401]))
    const refused = await guess()
    expect(refused.body).toMatchObject({ code: 'too_many_requests' })
    expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(60)
    // others are let in all the same
    const other = await call(
      'POST',
      '/v1/sessions',
      {},
      { email: 'ada@example.com', password, answer: 'token' },
    )
    expect(other.status).toBe(201)
  })

  it.runIf(process.platform === 'linux')('opens nothing to the network but the API', () => {
    const opened = listening().filter((address) => !before.has(address))
    const outside = opened.filter((address) => !address.startsWith('0100007F:'))
    const apiPort = Number(new URL(url).port).toString(16).toUpperCase().padStart(4, '0')
    expect(opened.length).toBeGreaterThanOrEqual(2)
    expect(outside).toEqual([`00000000:${apiPort}`])
  })
})

describe('a process in production', () => {
  it('refuses to start with a documented password, and says which setting', () => {
    const bin = fileURLToPath(new URL('../../packages/cli/bin/belfry.js', import.meta.url))
    const { status, stderr } = spawnSync(process.execPath, [bin, 'server', 'start'], {
      env: {
        PATH: process.env['PATH'],
        NODE_ENV: 'production',
        DATABASE_URL: 'postgres://belfry:PASSWORD@127.0.0.1:1/belfry',
      },
      encoding: 'utf8',
      timeout: 30_000,
    })
    expect(status).toBe(1)
    expect(stderr).toContain('the password in databaseUrl')
    expect(stderr).toContain('DATABASE_URL')
    expect(stderr).toContain('openssl rand')
    expect(stderr).not.toContain('belfry:PASSWORD')
  })
})
