// Targets that take runs over, with real processes that are killed -9: a run that was taken over needs none
// of them; one whose target was about to take it over is lost as any other; and what no target reports on is
// ended by whoever comes up.
import type { Client } from '@belfry/sdk'
import { expect, test } from 'vitest'
import { eventually } from '../support/running.ts'
import { answer } from '../support/target-behaviours.ts'
import { createTargetServer, type TargetCall, type TargetServer } from '../support/target-server.ts'
import { type Answer, type Arena, arenaHarness } from './support/arena.ts'
import type { NodeProcess } from './support/node-process.ts'

const harness = arenaHarness()
const slots = 4

async function openTarget(): Promise<TargetServer> {
  const target = await createTargetServer()
  harness.defer(() => target.close())
  return target
}

const header = (call: TargetCall, name: string): string => call.headers[name] ?? ''

/** As the target reports, to whichever process is up. */
async function report(node: NodeProcess, call: TargetCall, body: object): Promise<Answer> {
  const answered = await fetch(`${node.apiUrl}/v1/callbacks/${header(call, 'belfry-run-id')}`, {
    method: 'POST',
    headers: {
      authorization: `Bearer ${header(call, 'belfry-callback-token')}`,
      'content-type': 'application/json',
    },
    body: JSON.stringify(body),
    signal: AbortSignal.timeout(30_000),
  })
  return { status: answered.status, body: (await answered.json()) as Record<string, unknown> }
}

async function killAll(arena: Arena): Promise<void> {
  for (const node of arena.nodes.values()) node.signal('SIGKILL')
  await Promise.all([...arena.nodes.values()].map((node) => node.ended))
}

async function makeJob(client: Client, name: string, url: string, more: object = {}): Promise<void> {
  const { handler, ...rest } = more as { handler?: object }
  const both = { kind: 'http' as const, url, async: { deadlineMs: 600_000 }, ...handler }
  await client.jobs.create({ name, handler: both, retry: { maxAttempts: 1 }, ...rest })
}

test('40 runs on 8 slots, everything killed -9: each is called once and ends by its report', async () => {
  const arena = await harness.open({ env: { BELFRY_WORKER_SLOTS: String(slots) } })
  for (const name of ['a', 'b']) await arena.start(name)
  const target = await openTarget()
  target.program('/taken', answer(202, ''))
  const client = arena.client()
  await makeJob(client, 'taken', target.url('/taken'))
  const count = 40
  for (let n = 0; n < count; n++) await client.runs.create({ job: 'taken' })
  await target.called(count, 30_000)
  const parked = `SELECT FROM belfry.callback WHERE accepted_at IS NOT NULL`
  await eventually(async () => (await arena.rows(parked)).length === count, 'all are parked', 20_000)

  process.kill(arena.postgres.pid, 'SIGKILL')
  await killAll(arena)
  const survivor = await arena.start('c')
  // whoever would take the runs for lost has had his time once the sessions of the dead are gone
  const rounds = `SELECT count(*)::int AS n FROM belfry.session WHERE expires_at > now()`
  await eventually(
    async () => (await arena.rows<{ n: number }>(rounds))[0]?.n === 1,
    'the dead are gone',
    30_000,
  )
  expect(await arena.rows('SELECT FROM belfry.attempt')).toEqual([])

  const ends = await Promise.all(
    target.ledger.map((call, n) => report(survivor, call, { action: 'complete', result: n })),
  )
  expect(ends.map(({ status, body }) => [status, body['state']])).toEqual(
    Array.from({ length: count }, () => [200, 'succeeded']),
  )
  expect(target.ledger).toHaveLength(count)
  const attempts = await arena.rows<{ number: number; outcome: string; n: number }>(
    'SELECT number, outcome, count(*)::int AS n FROM belfry.attempt GROUP BY 1, 2',
  )
  expect(attempts).toEqual([{ number: 1, outcome: 'succeeded', n: count }])
})

test('killed -9 before the 202: lost as any other attempt, and its token is dead', async () => {
  const arena = await harness.open()
  await arena.start('a')
  const target = await openTarget()
  const hang = (): void => undefined
  target.program('/again', hang, answer(202, ''))
  target.program('/once', hang)
  const client = arena.client()
  await makeJob(client, 'again', target.url('/again'))
  await makeJob(client, 'once', target.url('/once'), { delivery: 'at_most_once' })
  await client.runs.create({ job: 'again' })
  const once = await client.runs.create({ job: 'once' })
  await target.called(2, 20_000)
  await killAll(arena)
  const heir = await arena.start('b')
  await eventually(() => target.callsTo('/again').length === 2, 'it is called again', 60_000)
  const [first, second] = target.callsTo('/again')
  if (first === undefined || second === undefined) throw new Error('not called')
  const late = await report(heir, first, { action: 'complete' })
  expect([late.status, late.body['code']]).toEqual([409, 'callback_over'])
  const parked = `SELECT FROM belfry.callback WHERE accepted_at IS NOT NULL`
  await eventually(async () => (await arena.rows(parked)).length === 1, 'it is parked', 20_000)
  expect((await report(heir, second, { action: 'complete' })).body['state']).toBe('succeeded')

  const ended = await arena.client('b').waitForRun(once.id, { timeoutMs: 60_000 })
  expect(ended).toMatchObject({ state: 'failed', reason: 'outcome_unknown' })
  const [only] = target.callsTo('/once')
  expect(target.callsTo('/once')).toHaveLength(1)
  expect(only && (await report(heir, only, { action: 'complete' })).status).toBe(409)
})

test('deadlines and heartbeats hold also where no process was up when they passed', async () => {
  const arena = await harness.open()
  await arena.start('a')
  const target = await openTarget()
  for (const path of ['/slow', '/silent']) target.program(path, answer(202, ''))
  const client = arena.client()
  await makeJob(client, 'slow', target.url('/slow'), { handler: { async: { deadlineMs: 2_000 } } })
  const beats = { async: { deadlineMs: 600_000, heartbeatMs: 2_000 } }
  await makeJob(client, 'silent', target.url('/silent'), { handler: beats })
  const runs = await Promise.all(['slow', 'silent'].map((job) => client.runs.create({ job })))
  const due = `SELECT FROM belfry.callback WHERE due_at IS NOT NULL`
  await eventually(async () => (await arena.rows(due)).length === 2, 'both are parked', 20_000)
  await killAll(arena)
  const passed = `SELECT FROM belfry.callback WHERE due_at <= now()`
  await eventually(async () => (await arena.rows(passed)).length === 2, 'both are due', 20_000)
  await arena.start('b')
  const upMs = Date.now()
  const ended = await Promise.all(
    runs.map(({ id }) => arena.client('b').waitForRun(id, { timeoutMs: 30_000 })),
  )
  process.stdout.write(`two overdue reports: ended ${Date.now() - upMs} ms after a process was up\n`)
  expect(ended.map(({ attemptList }) => attemptList[0]?.error?.code)).toEqual([
    'callback_overdue',
    'heartbeat_missed',
  ])
  expect(ended.map(({ state }) => state)).toEqual(['failed', 'failed'])
})

test('limits count it as running, its result goes on in a workflow, and a cancel ends it', async () => {
  const arena = await harness.open()
  const node = await arena.start('a')
  const target = await openTarget()
  for (const path of ['/one', '/first', '/stopped']) target.program(path, answer(202, ''))
  const client = arena.client()
  await makeJob(client, 'one', target.url('/one'), { concurrency: { limit: 1 } })
  const runs = [await client.runs.create({ job: 'one' }), await client.runs.create({ job: 'one' })]
  await eventually(() => target.callsTo('/one').length === 1, 'the first is called', 20_000)
  const held = `SELECT FROM belfry.ready WHERE gate IS NOT NULL`
  await eventually(async () => (await arena.rows(held)).length === 1, 'the second is held', 20_000)
  const [first] = target.callsTo('/one')
  expect(first && (await report(node, first, { action: 'complete' })).status).toBe(200)
  await eventually(() => target.callsTo('/one').length === 2, 'the second is called', 20_000)
  expect(new Set(target.callsTo('/one').map((call) => header(call, 'belfry-run-id')))).toEqual(
    new Set(runs.map(({ id }) => id)),
  )

  const async = { deadlineMs: 600_000 }
  await client.workflows.apply({
    name: 'chain',
    tasks: [
      { id: 'first', handler: { kind: 'http', url: target.url('/first'), async } },
      {
        id: 'second',
        needs: ['first'],
        handler: { kind: 'http', url: target.url('/second') },
        inputFrom: [{ to: '/rows', task: 'first', path: '/rows' }],
      },
    ],
  })
  await client.workflowRuns.create({ workflow: 'chain' })
  await eventually(() => target.callsTo('/first').length === 1, 'the task is called', 20_000)
  const [task] = target.callsTo('/first')
  expect(task && (await report(node, task, { action: 'complete', result: { rows: 12 } })).status).toBe(200)
  await eventually(() => target.callsTo('/second').length === 1, 'the next task is called', 20_000)
  expect(target.callsTo('/second')[0]?.body).toBe('{"rows":12}')

  await makeJob(client, 'stopped', target.url('/stopped'))
  const stopped = await client.runs.create({ job: 'stopped' })
  const parked = `SELECT FROM belfry.callback WHERE accepted_at IS NOT NULL AND run_id = '${stopped.id}'`
  await eventually(async () => (await arena.rows(parked)).length === 1, 'it is parked', 20_000)
  await client.runs.cancel(stopped.id)
  expect(await client.waitForRun(stopped.id, { timeoutMs: 15_000 })).toMatchObject({ state: 'canceled' })
})
