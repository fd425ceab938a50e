// A workflow run that has ended and is opened again by hand, where its workflow limits how many runs there
// are at once: it waits for its turn as a new one does, unless what was done starts nothing.
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { openWorkflowApi, type WorkflowApi } from '../support/workflow-api.ts'

let w: WorkflowApi
beforeAll(async () => {
  w = await openWorkflowApi()
})
afterAll(() => w.close())

const handler = { kind: 'http', url: 'https://example.com/hook' }
const task = (id: string, needs: readonly string[] = []) => ({ id, handler, needs })
const tasks = [task('a'), task('b', ['a'])]
const failsAtB = (at: string) => (at === 'b' ? ('failed' as const) : undefined)
const stateOf = async (id: string) => (await w.t.call('GET', `/v1/workflow-runs/${id}`)).body['state']

/** One that has failed, and one that is at work. */
async function failedBesideRunning(onLimit: string, more: object = {}) {
  const concurrency = { limit: 1, onLimit }
  const { name } = await w.store({ tasks, concurrency, timeoutMs: 60_000, ...more })
  const failed = await w.ask(name)
  await w.play(failed, failsAtB)
  const running = await w.ask(name)
  await w.resolver.runOnce()
  return { name, failed, running }
}

describe('a rerun where as many are at work as may be', () => {
  it.each(['queue', 'skip'])('waits for its turn (onLimit %s)', async (onLimit) => {
    const { failed, running } = await failedBesideRunning(onLimit)
    const { body } = await w.act(failed, 'rerun', { what: 'failed' })
    expect(body).toMatchObject({ run: { state: 'pending' } })
    await w.resolver.runOnce()
    expect([await stateOf(failed), await stateOf(running)]).toEqual(['pending', 'running'])
    expect(await w.claim(failed)).toEqual([])
    const { body: why } = await w.t.call('GET', `/v1/workflow-runs/${failed}/explanation`)
    expect(why).toMatchObject({ verdict: 'waits_for_turn' })
    // its time begins with its turn
    const deadlineOf = async () =>
      (
        await w.t.database.sql<{ is_set: boolean }>(
          'SELECT deadline IS NOT NULL AS is_set FROM belfry.workflow_progress WHERE workflow_run_id = $1',
          [failed],
        )
      )[0]?.is_set
    expect(await deadlineOf()).toBe(false)
    await w.play(running)
    expect(await deadlineOf()).toBe(true)
    expect(await w.play(failed)).toEqual(['b'])
    expect(await w.standing(failed)).toEqual({
      state: 'succeeded',
      tasks: { a: 'succeeded', b: 'succeeded' },
    })
  })

  it('comes before those that were asked for later', async () => {
    const { name, failed, running } = await failedBesideRunning('queue')
    const later = await w.ask(name)
    await w.act(failed, 'rerun', { what: 'failed' })
    await w.play(running)
    expect([await stateOf(failed), await stateOf(later)]).toEqual(['running', 'pending'])
    await w.play(failed)
    await w.play(later)
  })

  it('takes the place of what is at work where its workflow says so', async () => {
    const { failed, running } = await failedBesideRunning('replace')
    await w.act(failed, 'rerun', { what: 'failed' })
    await w.resolver.runOnce()
    for (const held of await w.claim(running)) await w.end(held, 'canceled')
    await w.resolver.runOnce()
    expect(await w.play(failed)).toEqual(['b'])
    expect([await stateOf(failed), await stateOf(running)]).toEqual(['succeeded', 'canceled'])
  })

  it('that is canceled while it waits ends as it stood', async () => {
    const { failed, running } = await failedBesideRunning('queue')
    await w.act(failed, 'rerun', { what: 'failed' })
    await w.act(failed, 'cancel')
    await w.resolver.runOnce()
    expect(await w.standing(failed)).toEqual({ state: 'canceled', tasks: { a: 'succeeded', b: 'canceled' } })
    await w.play(running)
  })

  it('starts at once where there is room', async () => {
    const { name } = await w.store({ tasks, concurrency: { limit: 1 } })
    const id = await w.ask(name)
    await w.play(id, failsAtB)
    await w.act(id, 'rerun', { what: 'failed' })
    expect(await w.play(id)).toEqual(['b'])
  })
})

it('a mark that starts nothing waits for no turn', async () => {
  const { failed, running } = await failedBesideRunning('queue')
  expect((await w.act(failed, 'mark', { tasks: ['b'], state: 'succeeded', reason: 'by hand' })).status).toBe(
    200,
  )
  await w.resolver.runOnce()
  expect([await stateOf(failed), await stateOf(running)]).toEqual(['succeeded', 'running'])
  await w.play(running)
})
