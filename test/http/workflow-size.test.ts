// Workflows as large as they may be: 5,000 tasks with 250,000 edges are stored, and so is a change of them;
// what is larger than the limit is refused with it, and costs no more than its own bytes.
import { maxWorkflowBytes } from '@belfry/contract'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { startTestApi, type TestApi } from '../support/api.ts'

let t: TestApi
beforeAll(async () => {
  t = await startTestApi()
  await t.call('POST', '/v1/jobs', {
    body: { name: 'work', handler: { kind: 'http', url: 'https://a.example/' } },
  })
})
afterAll(() => t.close())

const tasks = 5_000
const needed = 50
/** Each needs the fifty before it. */
const wide = (description: string) => ({
  name: 'wide',
  description,
  tasks: Array.from({ length: tasks }, (_, at) => ({
    id: `task-${at}`,
    job: 'work',
    needs: Array.from({ length: Math.min(at, needed) }, (_, back) => `task-${at - 1 - back}`),
  })),
})

it('250,000 edges are stored, changed and read', async () => {
  const file = wide('first')
  const bytes = JSON.stringify(file).length
  expect(bytes).toBeGreaterThan(3_000_000)
  expect(bytes).toBeLessThan(maxWorkflowBytes)
  const startedMs = performance.now()
  const stored = await t.call('POST', '/v1/workflows', { body: file })
  const changed = await t.call('POST', '/v1/workflows', { body: { ...file, failFast: 'finish_running' } })
  const read = await t.call('GET', `/v1/workflows/${stored.body.id}`)
  const begun = await t.call('POST', '/v1/workflow-runs', { body: { workflow: 'wide' } })
  const tookMs = Math.round(performance.now() - startedMs)
  process.stdout.write(`250,000 edges (${bytes} bytes): stored, changed, read, begun in ${tookMs} ms\n`)
  expect([stored.status, changed.status, read.status, begun.status]).toEqual([200, 200, 200, 201])
  expect(changed.body).toMatchObject({ version: 2, outcome: 'changed' })
  expect(begun.body).toMatchObject({ version: 2, taskCounts: { waiting_for_dependencies: tasks } })
}, 60_000)

it('what is larger is refused, with the limit', async () => {
  const raw = JSON.stringify(wide('x'.repeat(maxWorkflowBytes)))
  const { status, body } = await t.call('POST', '/v1/workflows', { raw })
  expect(status).toBe(413)
  expect(body).toMatchObject({ code: 'body_too_large' })
  expect(body.detail).toContain(String(maxWorkflowBytes))
  // the limit is that of workflows alone
  const other = await t.call('POST', '/v1/jobs', {
    raw: JSON.stringify({ name: 'x'.repeat(2 * 1024 * 1024) }),
  })
  expect(other.status).toBe(413)
  expect(other.body.detail).toContain(String(1024 * 1024))
})
