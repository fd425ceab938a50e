// Every example of docs/reference/schedules.md that takes a server is run here: each row of the tables of
// behaviour, on the API and a scheduler in time that the test moves. The page is parsed, so a new row is a
// new test; a table that is no longer found fails.
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { afterEach, describe, expect, test } from 'vitest'
import { playWorker } from '../support/played-worker.ts'
import { startScheduledApi, type ScheduledApi } from '../support/scheduled-api.ts'

const page = readFileSync(
  fileURLToPath(new URL('../../docs/reference/schedules.md', import.meta.url)),
  'utf8',
)

/** Rows of the table whose header is this; code marks are taken off. */
function rowsUnder(...header: readonly string[]): string[][] {
  const lines = page.split('\n')
  const start = lines.findIndex((line) => line === `| ${header.join(' | ')} |`)
  if (start < 0) throw new Error(`the page has no table ${header.join(', ')}`)
  const end = lines.findIndex((line, index) => index > start && !line.startsWith('|'))
  return lines.slice(start + 2, end).map((line) =>
    line
      .slice(2, -2)
      .split(' | ')
      .map((cell) => cell.replace(/^`([^`]*)`$/, '$1').trim()),
  )
}

let t: ScheduledApi
let nowMs = 0
afterEach(() => t.close())

/** The page tells of one day; each row of a table has it to itself. */
const instant = (time: string) => Date.parse(`2026-06-01T${time}:00Z`)
async function begin(time: string): Promise<void> {
  nowMs = instant(time)
  t = await startScheduledApi(nowMs)
}
async function until(time: string): Promise<void> {
  await t.go(instant(time) - nowMs)
  nowMs = instant(time)
}

/** "09:00 ran", without the date and the seconds. */
const ledger = async (id: string) => (await t.ledger(id)).map((line) => line.replace(/^(\d\d:\d\d):00/, '$1'))

describe('bounds and limits', () => {
  test.each(rowsUnder('body', 'runs', 'then'))('%s', async (body = '', runs = '', then = '') => {
    await begin('08:30')
    const id = await t.make({ overlap: 'allow', ...(JSON.parse(body) as object) })
    for (let minutes = 8 * 60 + 45; minutes <= 13 * 60 + 30; minutes += 15) {
      await until(
        `${String(Math.floor(minutes / 60)).padStart(2, '0')}:${String(minutes % 60).padStart(2, '0')}`,
      )
    }
    expect(await ledger(id)).toEqual(runs.split(' ').map((time) => `${time} ran`))
    const { status, body: left } = await t.call('GET', `/v1/schedules/${id}`)
    expect(status === 404 ? 'deleted' : left.state).toBe(then)
  })
})

describe('after an outage', () => {
  const header = ['`catchUp`', '13:00', '14:00', '15:00']
  test.each(rowsUnder(...header))('%s', async (catchUp = '', ...what) => {
    await begin('12:30')
    const settings = { overlap: 'allow', catchUp: JSON.parse(catchUp) as object }
    const id = await t.make({ cron: '0 * * * *', ...settings })
    await until('15:10')
    expect(await ledger(id)).toEqual(what.map((outcome, index) => `${header[index + 1]} ${outcome}`))
  })
})

describe('while the run before is alive', () => {
  test.each(rowsUnder('`overlap`', '12:10', '12:20', '12:30', 'runs at 12:31'))(
    '%s',
    async (overlap, first, second, third, runs = '') => {
      await begin('12:05')
      const worker = playWorker(t.database)
      const id = await t.make({ cron: '*/10 * * * *', overlap })
      for (const time of ['12:10', '12:20', '12:30']) {
        await until(time)
        const ready = await t.database.sql<{ run_id: string }>(
          'SELECT run_id FROM belfry.ready WHERE session_id IS NULL',
        )
        for (const { run_id: runId } of ready) await worker.claim(runId)
      }
      await until('12:31')
      expect(await ledger(id)).toEqual([`12:10 ${first}`, `12:20 ${second}`, `12:30 ${third}`])
      const { body } = await t.call('GET', `/v1/runs?scheduleId=${id}`)
      const inOrder = body.items.toSorted((a, b) => (a.scheduledFor < b.scheduledFor ? -1 : 1))
      expect(inOrder.map(({ state }) => state).join(' ')).toBe(runs)
    },
  )
})

describe('pause, skip, sleep and trigger', () => {
  test.each(rowsUnder('at 08:30', 'at 10:30', '09:00', '10:00', '11:00'))(
    '%s, %s',
    async (early = '', late = '', ...what) => {
      const ask = async (id: string, words: string) => {
        const [, action = '', body = ''] = /^(\w+) (\{.*\})$/.exec(words) ?? []
        const { status } = await t.act(id, action, JSON.parse(body) as object)
        expect(status).toBe(action === 'trigger' ? 201 : 200)
      }
      await begin('08:30')
      const id = await t.make({ cron: '0 * * * *', overlap: 'allow' })
      await ask(id, early)
      for (const time of ['09:00', '10:00', '10:30']) await until(time)
      if (late !== '-') await ask(id, late)
      for (const time of ['11:00', '11:30']) await until(time)
      const times = ['09:00', '10:00', '11:00']
      expect(await ledger(id)).toEqual(what.map((outcome, index) => `${times[index]} ${outcome}`))
    },
  )
})
