// Reports of jobs that sign, which must be signed; and of targets that repeat what they were sent, of which
// no secret is kept.
import { readSigningKey, signatureHeaders } from '@belfry/contract/signature'
import { createReporter } from '@belfry/sdk'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type AsyncRig, openAsyncRig } from '../support/async-rig.ts'
import { answer } from '../support/target-behaviours.ts'
import type { TargetCall } from '../support/target-server.ts'

let rig: AsyncRig
beforeAll(async () => {
  rig = await openAsyncRig()
})
afterAll(() => rig.close())

let names = 0

interface Taken {
  readonly runId: string
  readonly call: TargetCall
}

const key = 'whsec_BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcH'
const other = 'whsec_CAgICAgICAgICAgICAgICAgICAgICAgI'
const now = (): number => Math.floor(Date.now() / 1_000)

/** A run that the target of such a job has taken over; the job may use a secret of this value. */
async function jobWith(value: string, handlerOf: (secret: string) => object): Promise<Taken> {
  const name = `signed-${names++}`
  const { body: secret } = await rig.api.call('POST', '/v1/secrets', { body: { name, value } })
  rig.target.program(`/${name}`, answer(202, ''))
  const async = { deadlineMs: 60_000 }
  const handler = { kind: 'http', url: rig.target.url(`/${name}`), async, ...handlerOf(name) }
  const made = await rig.api.call('POST', '/v1/jobs', { body: { name, handler } })
  expect(made.status, JSON.stringify(made.body)).toBe(201)
  const grant = { body: { job: name, anyTarget: true } }
  expect((await rig.api.call('POST', `/v1/secrets/${secret.id}/grants`, grant)).status).toBeLessThan(300)
  const { body: run } = await rig.api.call('POST', '/v1/runs', { body: { job: name } })
  const call = await rig.callOf(run.id)
  await rig.parked(run.id)
  return { runId: run.id, call }
}

const signedJob = (value: string): Promise<Taken> =>
  jobWith(value, (secret) => ({ signing: { keys: [{ secret }] } }))

const sign = (body: object, id: string, by: string, timestamp = now()): Readonly<Record<string, string>> => {
  const signingKey = readSigningKey(by)
  if (signingKey === undefined) throw new Error('not a key')
  return signatureHeaders({ id, timestamp, body: JSON.stringify(body) }, [signingKey])
}

test('takes no report that is not signed over its bytes, by its key, lately', async () => {
  const { runId, call } = await signedJob(key)
  expect(call.headers['webhook-signature']).toMatch(/^v1,/)
  const body = { action: 'complete', result: 1 }
  const id = `${runId}-report`
  const bad = [
    {},
    sign(body, id, other),
    sign({ ...body, result: 2 }, id, key),
    sign(body, id, key, now() - 301),
    sign(body, id, key, now() + 301),
    { ...sign(body, id, key), 'webhook-signature': 'v1,AAAA' },
  ]
  for (const headers of bad) {
    const refused = await rig.report(call, body, headers)
    expect([refused.status, refused.body.code]).toEqual([401, 'unauthenticated'])
    const beat = { action: 'heartbeat' }
    expect((await rig.report(call, beat, headers)).status).toBe(401)
  }
  expect(await rig.run(runId)).toMatchObject({ state: 'running' })
  const beat = { action: 'heartbeat' }
  for (const good of [id, `${id}-7`]) {
    const headers = sign(beat, good, key)
    expect((await rig.report(call, beat, headers)).status).toBe(200)
    expect((await rig.report(call, beat, headers)).status, 'the same again').toBe(200)
  }
  const reporter = createReporter({ headers: call.headers, signingKey: key })
  expect(await reporter.complete(1)).toMatchObject({ state: 'succeeded' })
})

test('takes no report that was signed for another run, and nothing that Belfry signed', async () => {
  const { runId, call } = await signedJob(key)
  const { runId: elsewhere } = await signedJob(key)
  const body = { action: 'complete' }
  const ids = [runId, `${elsewhere}-report`, `${elsewhere}-report-${runId}-report`, `${runId}-reports`, 'x']
  for (const id of ids) {
    const refused = await rig.report(call, body, sign(body, id, key))
    expect([refused.status, refused.body.code], id).toEqual([401, 'unauthenticated'])
    expect(refused.body.detail).toContain(`webhook-id ${runId}-report`)
  }
  expect(await rig.run(runId)).toMatchObject({ state: 'running' })
  expect((await rig.report(call, body, sign(body, `${runId}-report`, key))).body.state).toBe('succeeded')
})

test('by a key that the target cannot sign with takes the token alone', async () => {
  const { call } = await signedJob(`whsk_${Buffer.alloc(32, 7).toString('base64')}`)
  expect(call.headers['webhook-signature']).toMatch(/^v1a,/)
  expect((await rig.report(call, { action: 'complete' })).body.state).toBe('succeeded')
})

test('secrets of the job stay out of lines, progress, errors and results', async () => {
  const value = 'kettle-harbour-42-plain'
  const literal = 'Bearer quiet-lemon-anchor-17'
  const { runId, call } = await jobWith(value, (name) => ({
    headers: { 'X-Partner-Token': `{{secrets.${name}}}`, Authorization: literal },
  }))
  expect(call.headers['x-partner-token']).toBe(value)
  const said = `sent ${value} and ${literal}`
  const line = { at: '2026-11-30T12:00:00Z', level: 'info', message: said, fields: { said } }
  await rig.report(call, { action: 'log', firstLine: 0, lines: [line] })
  await rig.report(call, { action: 'heartbeat', progress: { said } })
  const running = JSON.stringify(await rig.run(runId))
  expect(running).toContain('sent ***')
  await rig.report(call, { action: 'complete', result: { said, [value]: 1 } })
  const log = await rig.api.call('GET', `/v1/runs/${runId}/log`)
  const kept = running + JSON.stringify(await rig.run(runId)) + JSON.stringify(log.body)
  for (const secret of [value, 'quiet-lemon-anchor-17']) expect(kept).not.toContain(secret)
  const again = await rig.report(call, { action: 'complete', result: { said, [value]: 1 } })
  expect(again.body.state, 'the same report again').toBe('succeeded')
})

test('so do values that were rotated or revoked since; one that was deleted takes none along', async () => {
  const [sent, next, gone] = ['first-quay-71-brass', 'second-quay-72-brass', 'third-quay-73-brass']
  const act = async (method: string, path: string, body?: object) => {
    const answer = await rig.api.call(method, path, body === undefined ? {} : { body })
    expect(answer.status, JSON.stringify(answer.body)).toBeLessThan(300)
    return answer.body
  }
  const job = `masked-${names++}`
  const kept = await act('POST', '/v1/secrets', { name: `${job}-kept`, value: sent })
  const doomed = await act('POST', '/v1/secrets', { name: `${job}-doomed`, value: gone })
  rig.target.program(`/${job}`, answer(202, ''))
  const headers = { 'X-A': `{{secrets.${kept.name}}}`, 'X-B': `{{secrets.${doomed.name}}}` }
  const handler = { kind: 'http', url: rig.target.url(`/${job}`), async: { deadlineMs: 60_000 }, headers }
  await act('POST', '/v1/jobs', { name: job, handler })
  for (const { id } of [kept, doomed]) await act('POST', `/v1/secrets/${id}/grants`, { job })
  const { id: runId } = await act('POST', '/v1/runs', { job })
  const call = await rig.callOf(runId)
  await rig.parked(runId)
  expect([call.headers['x-a'], call.headers['x-b']]).toEqual([sent, gone])
  const heard = async (): Promise<unknown> => {
    const progress = `${sent}, ${next}, ${gone}`
    expect((await rig.report(call, { action: 'heartbeat', progress })).status).toBe(200)
    const { attemptList } = (await rig.run(runId)) as { attemptList?: readonly { progress: unknown }[] }
    return attemptList?.[0]?.progress
  }
  expect(await heard()).toBe(`***, ${next}, ***`)
  await act('POST', `/v1/secrets/${kept.id}/rotate`, { value: next })
  expect(await heard(), 'rotated').toBe('***, ***, ***')
  for (const { id } of [kept, doomed]) await act('POST', `/v1/secrets/${id}/grants/revoke`, { job })
  expect(await heard(), 'revoked').toBe('***, ***, ***')
  await act('DELETE', `/v1/secrets/${doomed.id}`)
  expect(await heard(), 'deleted').toBe(`***, ***, ${gone}`)
})
