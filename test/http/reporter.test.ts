// The reporter of the SDK, as a target uses it: over the wire, through answers that are lost, signed, and
// told when to stop.
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
async function taken(definition: object = {}): Promise<{ runId: string; call: TargetCall }> {
  const name = `taken-${names++}`
  rig.target.program(`/${name}`, answer(202, ''))
  const runId = await rig.start(name, definition)
  const call = await rig.callOf(runId)
  await rig.parked(runId)
  return { runId, call }
}

const quick = { retries: 3, baseMs: 1, capMs: 5 }

test('says how far it is, logs, and ends the run', async () => {
  const { runId, call } = await taken()
  const reporter = createReporter({ headers: call.headers })
  expect(reporter).toMatchObject({ runId, idempotencyKey: runId })
  expect(await reporter.heartbeat({ done: 1 })).toMatchObject({ state: 'running', cancelRequested: false })
  await reporter.log({ level: 'info', message: 'one' }, { level: 'warn', message: 'two' })
  await reporter.log({ level: 'info', message: 'three', fields: { n: 3 } })
  expect(await reporter.complete({ rows: 3 })).toMatchObject({ state: 'succeeded' })
  const { body } = await rig.api.call('GET', `/v1/runs/${runId}/log`)
  expect(body.lines.map(({ message }) => message)).toEqual(['one', 'two', 'three'])
  await expect(reporter.heartbeat()).rejects.toMatchObject({ code: 'callback_over', retryable: false })
})

test('fails as it says, and takes headers of fetch too', async () => {
  const { runId, call } = await taken({ retry: { maxAttempts: 9 } })
  const reporter = createReporter({ headers: new Headers({ ...call.headers }) })
  const failed = await reporter.fail({ code: 'no_rows', message: 'none' }, { retryable: false })
  expect(failed).toMatchObject({ runId, state: 'failed' })
})

test('sends again what was not answered; the end is applied once', async () => {
  const { runId, call } = await taken()
  let sent = 0
  const lossy: typeof fetch = async (input, init) => {
    const answered = await fetch(input, init)
    if (++sent < 3) throw new TypeError('fetch failed')
    return answered
  }
  const reporter = createReporter({ headers: call.headers, fetch: lossy, retry: quick })
  expect(await reporter.complete()).toMatchObject({ state: 'succeeded' })
  expect(sent).toBe(3)
  expect(await rig.run(runId)).toMatchObject({ state: 'succeeded', attempts: 1 })
})

test('without the headers of a call that may be taken over it names what is missing', async () => {
  const { call } = await taken()
  for (const name of ['belfry-callback-url', 'belfry-callback-token', 'belfry-run-id']) {
    const headers = { ...call.headers, [name]: '' }
    expect(() => createReporter({ headers })).toThrow(new RegExp(`no header ${name}`, 'i'))
  }
  expect(() => createReporter({ headers: call.headers, signingKey: 'secret' })).toThrow('whsec_')
})
