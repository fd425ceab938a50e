// Runs of a schedule that wait for the one before, while things happen at the same time: a planned time comes
// between any two statements of the round that ends that one, or another resolver ends one that waits.
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createFairTags } from '../../packages/server/src/engine/fair-tags.ts'
import { createResolver, type Resolver } from '../../packages/server/src/engine/resolver.ts'
import type { Database } from '../../packages/server/src/postgres/database.ts'
import { createPostgresEventBus } from '../../packages/server/src/postgres/event-bus.ts'
import { createPostgresQueueProgress } from '../../packages/server/src/postgres/queue-progress.ts'
import { createPostgresWorkflowResolving } from '../../packages/server/src/postgres/workflow-resolving.ts'
import { stoppedBefore } from '../support/dependency-rig.ts'
import { realClock, realRandom } from '../support/real-clock.ts'
import { recordEvents, recordHints, testIds } from '../support/running.ts'
import { openWorkflowScheduleRig, type WorkflowScheduleRig } from '../support/workflow-schedule-rig.ts'

let rig: WorkflowScheduleRig
let db: Database
beforeAll(async () => {
  rig = await openWorkflowScheduleRig()
  db = rig.t.database.open({ maxConnections: 4 })
})
afterAll(() => rig.close())

function resolverOn(on: Database): Resolver {
  const resolving = createPostgresWorkflowResolving(on)
  const hints = recordHints()
  return createResolver({
    clock: realClock,
    random: realRandom,
    ids: testIds,
    tags: createFairTags({ clock: realClock, progress: createPostgresQueueProgress(db) }),
    resolving,
    bus: createPostgresEventBus({ resolving, hints }),
    events: recordEvents(),
    hints,
  })
}

/** Begins `act` and goes on when it is done, or waits for a lock of the round. */
function beside(act: () => Promise<unknown>) {
  let under: Promise<unknown> = Promise.resolve()
  const waiting = async (): Promise<void> => {
    while ((await rig.t.database.waiting()) === 0) await new Promise((resolve) => setImmediate(resolve))
  }
  return {
    between: async (): Promise<void> => {
      under = act()
      await Promise.race([under, waiting()])
    },
    over: () => under,
  }
}

const statesOf = async (id: string) => (await rig.runs(id)).map(({ state }) => state)
/** A planned time comes due, and a request fires it. */
async function firedByRequest(id: string): Promise<void> {
  const { body } = await rig.t.patch(id, { description: `at ${Math.random()}` })
  if (body.state !== 'active') throw new Error(body.detail)
}
async function comesDue(id: string): Promise<void> {
  const { nextAt } = (await rig.t.call('GET', `/v1/schedules/${id}`)).body
  await rig.t.database.setNow(new Date(Date.parse(nextAt) + 10))
}

const statements = Array.from({ length: 12 }, (_, at) => at)

describe('a planned time that comes while the run before ends', () => {
  it.each(statements)('before statement %i of the round', async (at) => {
    const { id } = await rig.make({ overlap: 'buffer_one' })
    await comesDue(id)
    await firedByRequest(id)
    const [first] = await rig.runs(id)
    await rig.flows.resolver.runOnce()
    for (const held of await rig.flows.claim(first?.id ?? '')) await rig.flows.end(held, { output: null })
    await comesDue(id)
    const fire = beside(() => firedByRequest(id))
    await resolverOn(stoppedBefore(db, at, fire.between)).runOnce()
    await fire.over()
    await rig.flows.resolver.runOnce()
    if ((await statesOf(id)).length === 1) await firedByRequest(id)
    await rig.flows.resolver.runOnce()
    expect(await statesOf(id)).toEqual(['succeeded', 'running'])
    expect(await rig.flows.claim((await rig.runs(id))[1]?.id ?? '')).toHaveLength(1)
    await rig.t.act(id, 'pause')
  })
})

describe('one that waits is canceled by another resolver while the run before it ends', () => {
  it.each(statements)('before statement %i of the round', async (at) => {
    const { id } = await rig.make({ overlap: 'buffer_all' })
    for (let n = 0; n < 3; n++) {
      await comesDue(id)
      await firedByRequest(id)
    }
    await rig.flows.resolver.runOnce()
    const [first, second, third] = (await rig.runs(id)).map((run) => run.id)
    expect(await statesOf(id)).toEqual(['running', 'pending', 'pending'])
    for (const held of await rig.flows.claim(first ?? '')) await rig.flows.end(held, { output: null })
    const other = beside(async () => {
      await rig.flows.act(second ?? '', 'cancel')
      await rig.flows.resolver.runOnce()
    })
    await resolverOn(stoppedBefore(db, at, other.between)).runOnce()
    await other.over()
    await rig.flows.resolver.runOnce()
    if ((await statesOf(id))[1] === 'pending') await rig.flows.act(second ?? '', 'cancel')
    await rig.flows.resolver.runOnce()
    // it may have begun before its cancel came
    for (const held of await rig.flows.claim(second ?? '')) await rig.flows.end(held, 'canceled')
    await rig.flows.resolver.runOnce()
    expect(await statesOf(id)).toEqual(['succeeded', 'canceled', 'running'])
    expect(await rig.flows.claim(third ?? '')).toHaveLength(1)
    await rig.t.act(id, 'pause')
  })
})
