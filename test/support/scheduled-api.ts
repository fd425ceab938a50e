// The API and a scheduler on one database, in time that the test moves: what a request and a fire make of
// each other. The scheduler fires only while time passes by `go`; `setNow` alone makes it late. It gets no
// hints, so what is made near its time is found with the next look, within 30 s.
import { httpJob, startTestApi, type TestApi } from './api.ts'
import { createNode, type TestNode } from './scheduling.ts'
import { useVirtualTime, type VirtualTime } from './virtual-time.ts'

export type ScheduledApi = TestApi & {
  readonly time: VirtualTime
  readonly node: TestNode
  /** Lets time pass: most of it at once, as if the scheduler had stopped, the last seconds as it comes. */
  readonly go: (ms: number) => Promise<void>
  /** Makes a schedule of a job that is there; answers its id. Fails where it is refused. */
  readonly make: (more: object) => Promise<string>
  readonly patch: (id: string, change: object) => ReturnType<TestApi['call']>
  /** POST /v1/schedules/:id/action. */
  readonly act: (id: string, action: string, body?: object) => ReturnType<TestApi['call']>
  /** What is on record, oldest first. */
  readonly ledger: (id: string) => Promise<readonly string[]>
  readonly runsOf: (id: string) => Promise<number>
}

const lastMs = 2_000
/** Jumps of days must not cost the scheduler its shards. */
const longTermMs = 30 * 86_400_000

export async function startScheduledApi(
  startMs: number,
  more: Parameters<typeof startTestApi>[0] = {},
): Promise<ScheduledApi> {
  const t = await startTestApi(more)
  await t.call('POST', '/v1/jobs', { body: httpJob('work') })
  const time = await useVirtualTime(t, startMs)
  const node = createNode(t.database, { clock: time.clock, termMs: longTermMs })
  await node.start()
  await time.asleep()
  let made = 0
  return {
    ...t,
    time,
    node,
    async go(ms) {
      if (ms > lastMs) await time.jump(ms - lastMs)
      await time.pass(Math.min(ms, lastMs))
    },
    async make(body) {
      const answer = await t.call('POST', '/v1/schedules', {
        body: { name: `s${made++}`, job: 'work', ...body },
      })
      if (answer.status !== 201) throw new Error(answer.body.detail)
      return answer.body.id
    },
    patch: (id, body) => t.call('PATCH', `/v1/schedules/${id}`, { body }),
    act: (id, action, body = {}) => t.call('POST', `/v1/schedules/${id}/${action}`, { body }),
    async ledger(id) {
      const { body } = await t.call('GET', `/v1/schedules/${id}/occurrences?limit=1000`)
      return body.items.toReversed().map(({ scheduledFor, outcome, reason, missedCount }) => {
        const times = missedCount === 1 ? '' : ` x${missedCount}`
        return `${scheduledFor.slice(11, 19)} ${outcome}${reason === null ? '' : ` ${reason}`}${times}`
      })
    },
    async runsOf(id) {
      const sql = 'SELECT count(*)::int AS count FROM belfry.run WHERE schedule_id = $1'
      return (await t.database.sql<{ count: number }>(sql, [id]))[0]?.count ?? 0
    },
    async close() {
      await node.stop()
      await t.close()
    },
  }
}
