// What a schedule shows of the planned times that a skip or a sleep leaves out: the next is one that runs.
import { afterAll, beforeAll, expect, it } from 'vitest'
import { type ScheduledApi, startScheduledApi } from '../support/scheduled-api.ts'

let t: ScheduledApi
const nowMs = Date.parse('2026-06-01T12:00:00.000Z')
const at = (ms: number) => new Date(nowMs + ms).toISOString()
beforeAll(async () => {
  t = await startScheduledApi(nowMs)
})
afterAll(() => t.close())

it('shows the next time that runs, also in lists, and in a note the one that does not', async () => {
  const id = await t.make({ every: '1h' })
  const shown = {
    nextAt: at(7_200_000),
    notes: [`${at(3_600_000)} does not run: the schedule is asleep until ${at(3_600_001)}: stock-taking`],
  }
  const skipped = await t.act(id, 'skip', { reason: 'stock-taking' })
  expect(skipped.body).toMatchObject({ ...shown, upcoming: [2, 3, 4].map((n) => at(n * 3_600_000)) })
  const { items } = (await t.call('GET', '/v1/schedules?limit=100')).body
  expect(items.find((item: { id: string }) => item.id === id)).toMatchObject(shown)
  const { body } = await t.call('GET', `/v1/schedules/${id}/explain`)
  expect(body).toHaveProperty('standing', expect.stringMatching(/skipped; next is .*, in 2 hours\.$/))
  expect((await t.act(id, 'wake')).body).toMatchObject({ nextAt: at(3_600_000), notes: [] })
})

it('a sleep that lasts beyond the end leaves nothing, and says so', async () => {
  const id = await t.make({ every: '1h', endAt: at(7_200_000) })
  const { body } = await t.act(id, 'sleep', { until: at(36_000_000) })
  expect(body).toMatchObject({ nextAt: null, upcoming: [] })
  expect(body.notes).toEqual([
    `${at(3_600_000)} does not run: the schedule is asleep until ${at(36_000_000)}`,
    'nothing that runs is planned after that',
  ])
})
