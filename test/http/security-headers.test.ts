// The headers that keep a browser in bounds stand on every answer of every port: routes, refusals, unknown
// paths, streams, what is no HTTP at all, and a failure inside, which tells nothing of the server.
import { connect } from 'node:net'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createMetrics } from '../../packages/server/src/telemetry/metrics.ts'
import { createOps } from '../../packages/server/src/telemetry/ops-server.ts'
import { startTestApi, type TestApi } from '../support/api.ts'
import { cases, nextNumber, pathOf, routeNames, someId } from '../support/route-cases.ts'
import { routes } from '@belfry/contract'

let t: TestApi
let url: string
beforeAll(async () => {
  t = await startTestApi()
  url = await t.api.listen({ host: '127.0.0.1', port: 0 })
})
afterAll(() => t.close())

type Headers = Readonly<Record<string, string | undefined>>

/** What is missing, in words. */
function gaps(headers: Headers): string[] {
  const policy = headers['content-security-policy'] ?? ''
  const wanted: Readonly<Record<string, boolean>> = {
    "default-src 'none'": policy.includes("default-src 'none'"),
    "frame-ancestors 'none'": policy.includes("frame-ancestors 'none'"),
    "base-uri 'none'": policy.includes("base-uri 'none'"),
    'no unsafe source': !/unsafe|\*|http:/.test(policy),
    nosniff: headers['x-content-type-options'] === 'nosniff',
    'no-store': /no-store|no-cache/.test(headers['cache-control'] ?? ''),
    'nothing of what it runs on': headers['server'] === undefined && headers['x-powered-by'] === undefined,
    'not for other sites': headers['access-control-allow-origin'] === undefined,
  }
  return Object.keys(wanted).filter((name) => wanted[name] !== true)
}

// ui.frame, ui.csp: the API serves no HTML; what it serves may load nothing at all
describe('every answer has the guarding headers', () => {
  it.each(routeNames)('%s, with and without a key', async (name) => {
    const path = pathOf(name, someId) + (cases[name].query ?? '')
    const options = cases[name].options?.(nextNumber()) ?? {}
    for (const key of [null, t.adminKey]) {
      const { headers } = await t.call(routes[name].method, path, { ...options, key })
      expect(gaps(headers)).toEqual([])
      expect(headers['x-frame-options']).toBe('DENY')
      expect(headers['strict-transport-security']).toBe('max-age=31536000')
    }
  })

  it.each([
    ['an unknown path', 'GET', '/nowhere'],
    ['the root', 'GET', '/'],
    ['the description', 'GET', '/v1/openapi.json'],
    ['a wrong method', 'PUT', '/v1/jobs'],
    ['a path that is not valid', 'GET', '/v1/jobs/%zz'],
  ])('%s', async (_, method, path) => {
    expect(gaps((await t.call(method, path, { key: null })).headers)).toEqual([])
  })

  it('what is no HTTP', async () => {
    const { port } = new URL(url)
    const text = await new Promise<string>((resolve, reject) => {
      const socket = connect(Number(port), '127.0.0.1', () => socket.write('NOT HTTP\r\n\r\n'))
      const parts: Buffer[] = []
      socket.on('data', (part) => parts.push(part))
      socket.on('error', reject)
      socket.on('close', () => resolve(Buffer.concat(parts).toString()))
    })
    const [head = ''] = text.split('\r\n\r\n')
    const pairs = head
      .split('\r\n')
      .slice(1)
      .map((line) => line.split(': ', 2))
    expect(gaps(Object.fromEntries(pairs.map(([name = '', value]) => [name.toLowerCase(), value])))).toEqual(
      [],
    )
  })

  it('the ops port', async () => {
    const ops = createOps({ version: '0', metrics: createMetrics({ version: '0' }), checks: [], reports: [] })
    const opsUrl = await ops.listen({ host: '127.0.0.1', port: 0 })
    try {
      for (const path of ['/livez', '/readyz', '/readyz?verbose', '/metrics', '/nowhere']) {
        const { headers } = await fetch(`${opsUrl}${path}`)
        expect(gaps(Object.fromEntries(headers))).toEqual([])
      }
    } finally {
      await ops.close()
    }
  })
})

describe('plain http on loopback', () => {
  it('is not turned into https by a header, and its cookie is another one', async () => {
    const plain = await startTestApi({}, undefined, { publicUrl: null })
    try {
      const { headers } = await plain.call('GET', '/', { key: null })
      expect(headers['strict-transport-security']).toBeUndefined()
      const invited = await plain.call('POST', '/v1/members', {
        body: { email: 'ada@example.com', role: 'viewer' },
      })
      const body = { token: invited.body.inviteToken, password: 'gull-harbour-41-lantern' }
      const accept = (origin: string, host: string) =>
        plain.call('POST', '/v1/invites/accept', { key: null, body, headers: { origin, host } })
      // another port of this machine is another place, and so is a name that was made to lead here
      expect((await accept('http://localhost:3000', 'localhost:4680')).status).toBe(403)
      expect((await accept('http://evil.example', 'evil.example')).status).toBe(403)
      const taken = await accept('http://localhost:4680', 'localhost:4680')
      expect(taken.status).toBe(201)
      expect(taken.headers['set-cookie']).toMatch(
        /^belfry-loopback=bfs_\w+_[\w-]+; Path=\/; HttpOnly; SameSite=Lax$/,
      )
    } finally {
      await plain.close()
    }
  })
})

// ui.error_page
describe('a failure inside', () => {
  it('tells no stack, no SQL and no path of the server (ui.error_page)', async () => {
    const broken = await startTestApi({
      catalog: {
        within: () => Promise.reject(new Error('SELECT secret FROM belfry.api_key; at /srv/belfry/x.ts:1:2')),
        withinPlatform: () => Promise.reject(new Error('no')),
      },
    })
    try {
      const { body, status } = await broken.call('GET', '/v1/jobs')
      expect(status).toBe(500)
      expect(JSON.stringify(body)).not.toMatch(/SELECT|belfry\.api_key|\.ts|\/srv|stack|at /)
      expect(body.code).toBe('internal')
    } finally {
      await broken.close()
    }
  })
})
