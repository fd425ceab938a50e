// Values of a job's secret headers that a target repeats: none of them is kept, in whatever pieces the answer
// comes and wherever it is cut.
import { gzipSync } from 'node:zlib'
import { maxCapturedBytes } from '@belfry/contract'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { createHttpHandlerRig, type HttpHandlerRig } from '../support/http-handler-rig.ts'
import { ok, type Behaviour } from '../support/target-behaviours.ts'

let rig: HttpHandlerRig
beforeAll(async () => {
  rig = await createHttpHandlerRig()
})
afterAll(() => rig.dispose())

const token = 'correct-horse-battery-staple'
const headers = { Authorization: `Bearer ${token}`, 'X-Trace': 'plain-value' }

async function answerTo(behaviour: Behaviour): Promise<string> {
  rig.target.program('/', behaviour)
  const result = await rig.handler.execute(rig.request({ headers }))
  expect(JSON.stringify(result)).not.toContain(token)
  return 'response' in result ? (result.response ?? '') : ''
}

test('a target that echoes its headers', async () => {
  const body = JSON.stringify({ authorization: `Bearer ${token}`, trace: 'plain-value' })
  expect(await answerTo(ok(body))).toBe('{"authorization":"***","trace":"plain-value"}')
})

test('an answer that comes in pieces, with a border inside of the secret', async () => {
  const inPieces: Behaviour = (response) => {
    response.writeHead(200)
    response.write(`the token ${token.slice(0, 9)}`)
    setImmediate(() => response.end(`${token.slice(9)} is good`))
  }
  expect(await answerTo(inPieces)).toBe('the token *** is good')
})

test('an answer that is cut inside of the secret', async () => {
  const before = 'x'.repeat(maxCapturedBytes - 12)
  const kept = await answerTo(ok(`${before}${token} and more`))
  expect(kept.endsWith('x***')).toBe(true)
})

test('an answer that cannot be looked into', async () => {
  const zipped = ok(gzipSync(token), { 'content-encoding': 'gzip' })
  expect(await answerTo(zipped)).toMatch(/^\[\d+ bytes of Content-Encoding gzip, left out: it may repeat/)
})

test('a failure that repeats it (case log.authz_header)', async () => {
  const location: Behaviour = (response) => {
    response.writeHead(302, { location: `https://example.com/${token}` })
    response.end()
  }
  expect(await answerTo(location)).toBe('')
  const refused = await answerTo((response) => {
    response.writeHead(401)
    response.end(`bad token ${token}`)
  })
  expect(refused).toBe('bad token ***')
})

test('a query with a token in it, of a target that does not answer (case log.url_query)', async () => {
  const job = rig.request({ url: `http://127.0.0.1:1/hook?token=${token}` })
  const result = await rig.handler.execute(job)
  expect(result).toMatchObject({ outcome: 'failed' })
  expect(JSON.stringify(result)).not.toContain(token)
})
