// Functions that hold up the process they run in. A lease of 10 s is kept by a thread while the event loop is
// blocked for a minute; a handler that hangs is ended by its deadline, and its process goes on; a thread that
// dies is reported, and another takes its place. One server, a process for each case, all at the same time.
import { expect, test } from 'vitest'
import { eventually } from '../support/running.ts'
import { arenaHarness } from './support/arena.ts'
import type { FunctionWorkerOptions, TaskOptions } from './support/function-worker.ts'
import { taskJob } from './support/function-worker.ts'
import type { WorkerRig } from './support/worker-rig.ts'
import { begun, heard, openWorkerRig } from './support/worker-rig.ts'

const harness = arenaHarness()
/** Long enough for eight processes that start at once on a small machine, and a sixth of the block. */
const leaseMs = 10_000
const heartbeatMs = 2_000
const minuteMs = 60_000

async function open(rig: WorkerRig, queue: string, options: Partial<FunctionWorkerOptions> & TaskOptions) {
  const worker = await rig.start({ ...options, queue })
  return { worker, enqueue: () => rig.client.enqueue(taskJob({ ...options, queue })) }
}

async function keepsItsLease(rig: WorkerRig, queue: string, options: Partial<FunctionWorkerOptions>) {
  const { worker, enqueue } = await open(rig, queue, { ...options, task: `freeze:${minuteMs}!` })
  const { id } = await enqueue()
  const run = await rig.client.waitForRun(id, { timeoutMs: minuteMs + 40_000 })
  expect(run, queue).toMatchObject({ state: 'succeeded', attempts: 1 })
  const [attempt] = run.attemptList
  const tookMs = Date.parse(attempt?.endedAt ?? '') - Date.parse(attempt?.startedAt ?? '')
  expect(tookMs, 'it must have been blocked for many leases').toBeGreaterThan(5 * leaseMs)
  expect(heard(worker, 'session_lost')).toEqual([])
}

/** The event loop is free, the function never returns: its slot is freed by its deadline. */
async function isEndedByItsDeadline(rig: WorkerRig, queue: string, options: Partial<FunctionWorkerOptions>) {
  const { worker, enqueue } = await open(rig, queue, { ...options, task: 'hang', slots: 1, timeoutMs: 2_000 })
  const { id } = await enqueue()
  const run = await rig.client.waitForRun(id, { timeoutMs: 40_000 })
  expect(run, queue).toMatchObject({ state: 'succeeded', attempts: 2 })
  const [first] = run.attemptList
  expect([first?.outcome, first?.error?.code]).toEqual(['timed_out', 'attempt_timeout'])
  expect(first?.error?.message).toContain('left behind')
  expect(heard(worker, 'signal')).toMatchObject([{ runId: id, reason: 'timeout' }])
  if (options.databaseUrl === undefined)
    expect(heard(worker, 'function_abandoned')).toMatchObject([{ runId: id }])
}

/** The event loop is blocked past the deadline, so its own timer cannot fire: the rescuer ends it. */
async function isEndedWhileItBlocks(rig: WorkerRig, queue: string, options: Partial<FunctionWorkerOptions>) {
  const task = `freeze:${minuteMs}!` as const
  const { worker, enqueue } = await open(rig, queue, { ...options, task, timeoutMs: 2_000 })
  const { id } = await enqueue()
  const firstEnded = async () => (await rig.client.runs.get(id)).attemptList[0]?.outcome === 'timed_out'
  await eventually(firstEnded, 'the attempt ended by its deadline', 55_000)
  expect(begun(worker), 'it is blocked still').toHaveLength(1)
  // awake, the process hears that the end is not its own, and serves on
  const run = await rig.client.waitForRun(id, { timeoutMs: minuteMs })
  expect(run, queue).toMatchObject({ state: 'succeeded', attempts: 2 })
  expect(run.attemptList.map(({ outcome, error }) => [outcome, error?.code])).toEqual([
    ['timed_out', 'deadline_passed'],
    ['succeeded', undefined],
  ])
  expect(run.attemptList[1]?.result).toEqual({ attempt: 2 })
  if (options.databaseUrl === undefined) {
    await eventually(() => heard(worker, 'end_refused').length === 1, 'its late end refused', 30_000)
  }
  expect(heard(worker, 'session_lost')).toEqual([])
}

/** Its heartbeats come from a thread; without that, and until there is another, nothing is lost. */
async function outlivesItsThread(rig: WorkerRig, queue: string, options: Partial<FunctionWorkerOptions>) {
  const { worker, enqueue } = await open(rig, queue, { ...options, task: `after:${3 * leaseMs}` })
  const { id } = await enqueue()
  await eventually(() => begun(worker).length === 1, 'it has begun', 30_000)
  worker.signal('SIGUSR2')
  await eventually(() => heard(worker, 'thread_ended').length === 1, 'the thread ended', 30_000)
  expect(heard(worker, 'thread_ended')[0], 'there was a thread').toMatchObject({ was: true })
  // the remote one tells its program, the embedded one logs
  const said = () => `${worker.said.map(({ what }) => what).join(' ')} ${worker.errors()}`
  await eventually(() => /heartbeat thread|lease thread/.test(said()), `the loss reported (${queue})`, 30_000)
  const run = await rig.client.waitForRun(id, { timeoutMs: 60_000 })
  expect(run, queue).toMatchObject({ state: 'succeeded', attempts: 1 })
  expect(heard(worker, 'session_lost')).toEqual([])
}

const cases = { keepsItsLease, isEndedByItsDeadline, isEndedWhileItBlocks, outlivesItsThread }

test('a minute of a blocked event loop, handlers that hang, threads that die: no lease is lost', async () => {
  const names = Object.entries(cases).map(([name, body]) => ({ name: name.toLowerCase(), body }))
  const queues = names.flatMap(({ name }) => [`${name}-remote`, `${name}-embedded`])
  const rig = await openWorkerRig(harness, {
    queues,
    env: { BELFRY_LEASE_MS: String(leaseMs), BELFRY_HEARTBEAT_MS: String(heartbeatMs) },
  })
  const { databaseUrl } = rig.arena
  await Promise.all(
    names.flatMap(({ name, body }) => [
      body(rig, `${name}-remote`, {}),
      body(rig, `${name}-embedded`, { databaseUrl, settings: { leaseMs, heartbeatMs } }),
    ]),
  )
  const lost = await rig.arena.rows(`SELECT FROM belfry.attempt WHERE outcome = 'lost'`)
  expect(lost, 'no worker was taken for dead').toEqual([])
}, 180_000)
