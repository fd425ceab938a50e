// A worker that stops while the way to the server is broken: what it has started is never given back as
// unstarted, so an at-most-once function is not called again.
import { createClient, createWorker, defineJob } from '@belfry/sdk'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { startTestApi, type TestApi } from '../support/api.ts'
import { makeKey } from '../support/remote-worker.ts'

let api: TestApi
let url: string
beforeAll(async () => {
  api = await startTestApi()
  url = await api.api.listen({ host: '127.0.0.1', port: 0 })
})
afterAll(() => api.close())

test('what could not be reported is not given back when the worker stops', async () => {
  const called = Promise.withResolvers<void>()
  let calls = 0
  const job = defineJob({
    name: 'pay',
    delivery: 'at_most_once',
    run: () => {
      calls++
      called.resolve()
    },
  })
  const client = createClient({ url, apiKey: api.adminKey })
  const token = await makeKey(api, { scopes: ['worker'] })
  // a proxy in between that answers for one route
  const broken: typeof fetch = async (input, init) => {
    const target = input instanceof Request ? input.url : String(input)
    return target.endsWith('/complete') ? new Response('busy', { status: 503 }) : fetch(input, init)
  }
  const worker = createWorker({
    jobs: [job],
    url,
    token,
    handleSignals: false,
    abortGraceMs: 200,
    drainMs: 500,
    fetch: broken,
  })
  await worker.start()
  const { id } = await client.enqueue(job)
  await called.promise
  await worker.stop()
  // still held, on paper, by a session that is over: the rescuer ends it as outcome_unknown
  expect(await client.runs.get(id)).toMatchObject({ state: 'running', attempts: 1 })
  const [held] = await api.database.sql<{ held: boolean; over: boolean }>(
    `SELECT session_id IS NOT NULL AS held,
       NOT EXISTS (SELECT FROM belfry.session s WHERE s.id = session_id AND expires_at > now()) AS over
     FROM belfry.ready WHERE run_id = '${id}'`,
  )
  expect(held).toEqual({ held: true, over: true })
  expect(calls).toBe(1)
})
