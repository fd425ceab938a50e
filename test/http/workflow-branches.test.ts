// A branch that chooses what is no task: over the real API and resolver, the task fails although its run
// succeeded, and says why.
import { afterAll, beforeAll, expect, test } from 'vitest'
import { task } from '../support/workflow-acts.ts'
import { openWorkflowApi, type WorkflowApi } from '../support/workflow-api.ts'

let api: WorkflowApi
beforeAll(async () => {
  api = await openWorkflowApi()
})
afterAll(() => api.close())

test('a branch that chooses what is no task has failed', async () => {
  const { name } = await api.store({
    tasks: [task('choose', [], { kind: 'branch' }), task('left', ['choose'])],
  })
  const id = await api.ask(name)
  await api.play(id, (started) => (started === 'choose' ? { output: ['left', 'ghost'] } : undefined))
  expect(await api.standing(id)).toEqual({
    state: 'failed',
    tasks: { choose: 'failed', left: 'upstream_failed' },
  })
  const { body } = await api.t.call('GET', `/v1/workflow-runs/${id}/tasks`)
  expect(body.tasks[0]).toMatchObject({
    runs: 1,
    note: 'it chose "ghost", which is no task of this workflow',
  })
})
