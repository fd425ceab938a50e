// When the database or the server itself is on its way out: every answer is still a problem with a code.
import { connect } from 'node:net'
import { BelfryError } from '@belfry/contract'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createPostgresCatalog } from '../../packages/server/src/postgres/catalog/catalog.ts'
import { createKeyDirectory } from '../../packages/server/src/postgres/catalog/key-store.ts'
import { openDatabase } from '../../packages/server/src/postgres/database.ts'
import { createAuthenticator } from '../../packages/server/src/security/credentials.ts'
import { httpJob, startTestApi, type TestApi } from '../support/api.ts'
import { realClock, realRandom } from '../support/real-clock.ts'

let t: TestApi
beforeAll(async () => {
  t = await startTestApi()
})
afterAll(() => t.close())

describe('the database', () => {
  it.each(['catalog', 'authenticator'] as const)('out of reach of the %s: 503 with a code', async (part) => {
    const db = openDatabase({
      connection: { host: '/nowhere', user: 'belfry', database: 'belfry' },
      clock: realClock,
      random: realRandom,
    })
    const lonely = await startTestApi(
      part === 'catalog'
        ? { catalog: createPostgresCatalog({ db }) }
        : { authenticator: createAuthenticator({ directory: createKeyDirectory({ db }), clock: realClock }) },
    )
    try {
      const { status, body, headers } = await lonely.call('GET', '/v1/jobs')
      expect([status, body.code, body.retryable]).toEqual([503, 'database_unavailable', true])
      expect(headers['retry-after']).toBe('1')
      expect(headers['content-type']).toContain('application/problem+json')
    } finally {
      await lonely.close()
      await db.close()
    }
  })

  it('closed: shutting_down', async () => {
    const closed = await startTestApi()
    await closed.db.close()
    expect((await closed.call('GET', '/v1/jobs')).body).toMatchObject({ status: 503, code: 'shutting_down' })
    await closed.close()
  })

  it('read-only: reading goes on, writing is refused, and works again without a restart', async () => {
    const readOnly = (on: boolean) =>
      t.database.sql(
        `ALTER ROLE belfry IN DATABASE ${t.database.name} SET default_transaction_read_only = ${on}`,
      )
    const reconnect = () =>
      t.database.sql(
        `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1 AND usename = 'belfry'`,
        [t.database.name],
      )
    await t.call('GET', '/v1/whoami')
    await readOnly(true)
    await reconnect()
    const settled = async (method: string, path: string, options = {}) => {
      for (;;) {
        const answer = await t.call(method, path, options)
        if (answer.body?.code !== 'database_unavailable') return answer
      }
    }
    expect((await settled('GET', '/v1/jobs')).status).toBe(200)
    const body = { name: 'x', handler: { kind: 'http', url: 'https://example.com' } }
    expect((await settled('POST', '/v1/jobs', { body })).body).toMatchObject({
      status: 503,
      code: 'database_read_only',
    })
    await readOnly(false)
    await reconnect()
    expect((await settled('POST', '/v1/jobs', { body })).status).toBe(201)
  })
})

describe('a commit of unknown outcome', () => {
  it('is answered as such, and what it may have stored is hinted all the same', async () => {
    const lost = await startTestApi()
    const catalog = createPostgresCatalog({ db: lost.db })
    const unlucky = await startTestApi({
      catalog: {
        ...catalog,
        within: async (access, work) => {
          const result = await catalog.within(access, work)
          if (access.readOnly || access.dryRun) return result
          throw new BelfryError('database_unavailable', 'The connection broke at COMMIT.')
        },
      },
      authenticator: createAuthenticator({
        directory: createKeyDirectory({ db: lost.db }),
        clock: realClock,
      }),
    })
    const call = (path: string, body: object) => unlucky.call('POST', path, { body, key: lost.adminKey })
    try {
      expect((await call('/v1/jobs', httpJob('j'))).status).toBe(503)
      expect((await call('/v1/schedules?dryRun=true', { name: 's', job: 'j', every: '1h' })).status).toBe(201)
      expect(unlucky.hints).toEqual([])
      expect((await call('/v1/schedules', { name: 's', job: 'j', every: '1h' })).status).toBe(503)
      const [timer] = await lost.database.sql<{ shard: number }>('SELECT shard FROM belfry.timer')
      expect(unlucky.hints).toEqual([{ topic: 'timers', key: String(timer?.shard) }])
      expect((await call('/v1/runs', { job: 'j' })).body.code).toBe('database_unavailable')
      expect(unlucky.hints.at(-1)).toEqual({ topic: 'ready', key: 'default' })
      expect((await call('/v1/runs', { job: 'none' })).status).toBe(404)
      expect(unlucky.hints).toHaveLength(2)
      expect(unlucky.events).toEqual([])
    } finally {
      await unlucky.close()
      await lost.close()
    }
  })
})

describe('the server', () => {
  it('while it drains refuses new requests, closes their connections, and ends', async () => {
    const leaving = await startTestApi()
    const url = await leaving.api.listen({ host: '127.0.0.1', port: 0 })
    const headers = { authorization: `Bearer ${leaving.adminKey}` }
    expect((await fetch(`${url}/v1/whoami`, { headers })).status).toBe(200)
    leaving.api.drain()
    const refused = await fetch(`${url}/v1/whoami`, { headers })
    expect(refused.status).toBe(503)
    expect(refused.headers.get('connection')).toBe('close')
    expect(await refused.json()).toMatchObject({ code: 'shutting_down', retryable: true })
    await leaving.close()
    await expect(fetch(`${url}/v1/whoami`)).rejects.toThrow('fetch failed')
  })

  it('says which port is taken', async () => {
    const url = new URL(await t.api.listen({ host: '127.0.0.1', port: 0 }))
    const second = await startTestApi()
    await expect(second.api.listen({ host: '127.0.0.1', port: Number(url.port) })).rejects.toMatchObject({
      code: 'in_use',
      message: expect.stringContaining(url.port) as string,
    })
    await second.close()
  })

  it('answers what is no HTTP with a problem', async () => {
    const url = new URL(t.api.app.listeningOrigin)
    const answer = await new Promise<string>((resolve, reject) => {
      const socket = connect(Number(url.port), url.hostname, () => socket.write('nonsense\r\n\r\n'))
      let text = ''
      socket.on('data', (chunk) => (text += chunk.toString()))
      socket.on('end', () => resolve(text))
      socket.on('error', reject)
    })
    expect(answer).toContain('400 Bad Request')
    expect(answer).toContain('"code":"invalid_request"')
  })
})
