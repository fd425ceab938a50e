// Any sequence of edits, pauses, resumes, skips, sleeps and waits, at planned times and between them, with
// the scheduler on time or late: every planned time is on record once, with what a simple model says of it.
import fc from 'fast-check'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { startScheduledApi, type ScheduledApi } from '../support/scheduled-api.ts'

let t: ScheduledApi
const minuteMs = 60_000
let nowMs = Date.parse('2026-06-01T00:00:00Z')
beforeAll(async () => {
  t = await startScheduledApi(nowMs)
})
afterAll(() => t.close())

/** By how much the scheduler is late. */
let behindMs = 0
async function wait(minutes: number, late: boolean): Promise<void> {
  const ms = minutes * minuteMs
  nowMs += ms
  behindMs += ms
  await t.database.setNow(new Date(nowMs))
  if (late) return
  await t.go(behindMs)
  behindMs = 0
}

/** Minutes between two planned times, on full multiples of them. */
const periods = [5, 10, 15] as const
type Period = (typeof periods)[number]
const cronOf = (period: Period) => `*/${period} * * * *`

type Step =
  | { readonly do: 'wait'; readonly minutes: number; readonly late: boolean }
  | { readonly do: 'edit'; readonly period: Period }
  | { readonly do: 'describe' | 'pause' | 'resume' | 'wake' }
  | { readonly do: 'skip'; readonly count: number }
  | { readonly do: 'sleep'; readonly minutes: number }

const wait1 = fc.record({
  do: fc.constant('wait' as const),
  minutes: fc.oneof(fc.constantFrom(5, 10, 15, 30), fc.integer({ min: 1, max: 45 })),
  late: fc.boolean(),
})
const change = fc.oneof(
  fc.record({ do: fc.constant('edit' as const), period: fc.constantFrom(...periods) }),
  fc.record({
    do: fc.constantFrom('describe' as const, 'wake' as const),
  }),
  fc.record({ do: fc.constantFrom('pause' as const, 'resume' as const) }),
  fc.record({ do: fc.constant('skip' as const), count: fc.integer({ min: 1, max: 3 }) }),
  fc.record({ do: fc.constant('sleep' as const), minutes: fc.integer({ min: 1, max: 40 }) }),
)
const steps: fc.Arbitrary<Step[]> = fc.array(fc.oneof(wait1, change), { minLength: 10, maxLength: 30 })

/** What should be on record, kept by the rules of the documentation and nothing else. */
function createModel(period: Period) {
  const ledger: string[] = []
  const state = { period, paused: false, sleepUntilMs: 0, decidedMs: nowMs }
  const nextAfter = (ms: number) => (Math.floor(ms / (state.period * minuteMs)) + 1) * state.period * minuteMs
  return {
    state,
    nextAfter,
    ledger,
    /** Everything planned up to now is decided by how things stood until now. */
    decide() {
      for (let ms = nextAfter(state.decidedMs); ms <= nowMs; ms = nextAfter(ms)) {
        const asleep = ms < state.sleepUntilMs ? 'skipped asleep' : 'ran'
        ledger.push(`${new Date(ms).toISOString()} ${state.paused ? 'skipped paused' : asleep}`)
      }
      state.decidedMs = nowMs
    },
  }
}

async function take(id: string, step: Step, model: ReturnType<typeof createModel>): Promise<void> {
  if (step.do === 'wait') return wait(step.minutes, step.late)
  model.decide()
  const { state } = model
  const expectStatus = async (answer: ReturnType<ScheduledApi['act']>, possible: boolean) => {
    expect((await answer).status).toBe(possible ? 200 : 409)
  }
  if (step.do === 'edit') {
    await expectStatus(t.patch(id, { cron: cronOf(step.period) }), true)
    state.period = step.period
  } else if (step.do === 'describe') {
    await expectStatus(t.patch(id, { description: `at ${nowMs}` }), true)
  } else if (step.do === 'pause') {
    await expectStatus(t.act(id, 'pause'), !state.paused)
    state.paused = true
  } else if (step.do === 'resume') {
    await expectStatus(t.act(id, 'resume'), state.paused)
    state.paused = false
  } else if (step.do === 'wake') {
    await expectStatus(t.act(id, 'wake'), state.sleepUntilMs > nowMs)
    if (state.sleepUntilMs > nowMs) state.sleepUntilMs = 0
  } else if (step.do === 'skip') {
    await expectStatus(t.act(id, 'skip', { count: step.count }), !state.paused)
    let lastMs = nowMs
    for (let n = 0; n < step.count; n++) lastMs = model.nextAfter(lastMs)
    if (!state.paused) state.sleepUntilMs = Math.max(state.sleepUntilMs, lastMs + 1)
  } else if (step.do === 'sleep') {
    const untilMs = nowMs + step.minutes * minuteMs
    await expectStatus(t.act(id, 'sleep', { until: new Date(untilMs).toISOString() }), !state.paused)
    if (!state.paused) state.sleepUntilMs = untilMs
  }
}

async function recorded(id: string): Promise<string[]> {
  const { body } = await t.call('GET', `/v1/schedules/${id}/occurrences?limit=1000`)
  return body.items.toReversed().map(({ scheduledFor, outcome, reason, missedCount }) => {
    expect(missedCount).toBe(1)
    return `${scheduledFor} ${outcome}${reason === null ? '' : ` ${reason}`}`
  })
}

it('every planned time is on record once, with what became of it, and ran once if it ran', async () => {
  await fc.assert(
    fc.asyncProperty(fc.constantFrom(...periods), steps, async (period, sequence) => {
      await t.database.sql('DELETE FROM belfry.timer')
      await wait(1, false)
      const settings = { overlap: 'allow', catchUp: { policy: 'all', maxRuns: 1000 } }
      const id = await t.make({ cron: cronOf(period), ...settings })
      const model = createModel(period)
      for (const step of sequence) await take(id, step, model)
      // in the end it runs, and the scheduler comes to everything
      if (model.state.paused) await take(id, { do: 'resume' }, model)
      await wait(31, false)
      model.decide()
      expect(await recorded(id)).toEqual(model.ledger)
      expect(await t.runsOf(id)).toBe(model.ledger.filter((line) => line.endsWith('ran')).length)
    }),
    // never cut short by a clock: what is under way then would go on behind the test, on a closed database
    { numRuns: 30, endOnFailure: true },
  )
}, 240_000)
