// Containers with real processes around them: a worker is killed while one runs, and nothing of it stays, no
// run is lost, and no run is in two containers at once. Case: sandbox.leftover
import { expect, test } from 'vitest'
import { type ContainerEngine, startContainerEngine, testImage } from '../support/container-engine.ts'
import { describeNeeding } from '../support/needs.ts'
import { eventually } from '../support/running.ts'
import { arenaHarness } from './support/arena.ts'

const harness = arenaHarness()

const container = (script: string, more: { readonly result?: 'file' } = {}) => ({
  kind: 'container' as const,
  image: testImage,
  command: ['sh', '-c', script],
  ...more,
})

describeNeeding('podman', 'containers of real workers', (podman) => {
  async function open() {
    const engine = await startContainerEngine(podman)
    harness.defer(() => engine.close())
    const env = {
      BELFRY_CONTAINER_ENGINE: `unix://${engine.socketPath}`,
      BELFRY_CONTAINER_IMAGES: 'localhost/*',
    }
    return { engine, arena: await harness.open({ env }) }
  }

  /** Answers how many containers ran at once. */
  function watch(engine: ContainerEngine) {
    let most = 0
    let over = false
    const looking = (async () => {
      while (!over) {
        // one that is made for the next attempt is started when that of the one before is gone
        const names = await engine.running().catch(() => [])
        most = Math.max(most, names.length)
        await new Promise((resolve) => setTimeout(resolve, 100))
      }
    })()
    return async () => {
      over = true
      await looking
      return most
    }
  }

  test('a job runs in a container, with its log, result and idempotency key on record', async () => {
    const { arena, engine } = await open()
    await arena.start('a')
    const client = arena.client()
    const script = 'echo "got $(cat)"; echo "{\\"key\\":\\"$BELFRY_IDEMPOTENCY_KEY\\"}"'
    await client.jobs.create({ name: 'report', handler: container(script) })
    const made = await client.runs.create({ job: 'report', input: { day: 1 } })
    const run = await client.waitForRun(made.id, { timeoutMs: 60_000 })
    expect(run).toMatchObject({ state: 'succeeded', attemptList: [{ result: { key: made.id } }] })
    const { lines } = await client.logs.get(made.id)
    expect(lines.map(({ message }) => message)).toEqual(['got {"day":1}', `{"key":"${made.id}"}`])
    expect(await engine.containers()).toEqual([])
  })

  test('kill -9 of the worker: the run goes on elsewhere, its old container is gone', async () => {
    const { arena, engine } = await open()
    const a = await arena.start('a')
    const client = arena.client('a')
    const script =
      'echo "try $BELFRY_ATTEMPT"; test "$BELFRY_ATTEMPT" -ge 2 || sleep 300; echo "[$BELFRY_ATTEMPT]"'
    await client.jobs.create({ name: 'long', attemptTimeoutMs: 600_000, handler: container(script) })
    await client.jobs.create({
      name: 'once',
      delivery: 'at_most_once',
      attemptTimeoutMs: 600_000,
      handler: container('echo up; sleep 300', { result: 'file' }),
    })
    const [long, once] = [
      await client.runs.create({ job: 'long' }),
      await client.runs.create({ job: 'once' }),
    ]
    for (const { id } of [long, once])
      await eventually(async () => (await client.logs.get(id)).lines.length > 0, 'it runs', 60_000)
    const mostAtOnce = watch(engine)
    a.signal('SIGKILL')
    await a.ended
    expect(await engine.containers()).toHaveLength(2)
    await arena.start('b')
    const later = arena.client('b')
    const ended = await later.waitForRun(long.id, { timeoutMs: 60_000 })
    expect(ended.state).toBe('succeeded')
    expect(ended.attemptList.at(-1)).toMatchObject({ result: [2] })
    const unknown = await later.waitForRun(once.id, { timeoutMs: 60_000 })
    expect(unknown).toMatchObject({ state: 'failed', reason: 'outcome_unknown' })
    await eventually(async () => (await engine.containers()).length === 0, 'nothing is left', 60_000)
    await eventually(async () => (await engine.volumes()).length === 0, 'no volume is left', 20_000)
    expect(await mostAtOnce()).toBeLessThanOrEqual(2)
  })

  test('a cancel and an attempt timeout reach the container; a stop of the worker leaves none', async () => {
    const { arena, engine } = await open()
    const a = await arena.start('a', { BELFRY_DRAIN_MS: '0' })
    const client = arena.client('a')
    const script = 'trap "echo bye; exit 3" TERM; echo up; while :; do sleep 0.1; done'
    await client.jobs.create({ name: 'ends', handler: container(script) })
    await client.jobs.create({
      name: 'late',
      attemptTimeoutMs: 2_000,
      retry: { maxAttempts: 1 },
      handler: container(script),
    })
    const late = await client.waitForRun((await client.runs.create({ job: 'late' })).id, {
      timeoutMs: 60_000,
    })
    expect(late).toMatchObject({ state: 'failed', attemptList: [{ outcome: 'timed_out' }] })
    const run = await client.runs.create({ job: 'ends' })
    await eventually(async () => (await client.logs.get(run.id)).lines.length > 0, 'it runs', 60_000)
    await client.runs.cancel(run.id)
    const canceled = await client.waitForRun(run.id, { timeoutMs: 60_000 })
    expect(canceled.state).toBe('canceled')
    expect((await client.logs.get(run.id)).lines.map(({ message }) => message)).toEqual(['up', 'bye'])
    const held = await client.runs.create({ job: 'ends' })
    await eventually(async () => (await client.logs.get(held.id)).lines.length > 0, 'it runs', 60_000)
    a.signal('SIGTERM')
    await a.ended
    expect(await engine.containers()).toEqual([])
  })
})
