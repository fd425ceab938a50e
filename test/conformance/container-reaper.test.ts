// What dead workers and dead engines leave behind: found by its labels, judged by who holds the run, removed.
// `sandbox.leftover`. And that two hundred runs leave nothing at all.
import { readdirSync } from 'node:fs'
import { afterAll, beforeAll, expect, test } from 'vitest'
import {
  type ContainerEngine,
  startContainerEngine,
  testImage,
  volumeImage,
} from '../support/container-engine.ts'
import { type ContainerRig, createContainerRig } from '../support/container-rig.ts'
import { describeNeeding } from '../support/needs.ts'

const sleeper = { command: ['sh', '-c', 'echo up; sleep 60'], result: 'file', stopGraceMs: 0 }

describeNeeding('podman', 'what containers leave behind', (podman) => {
  let engine: ContainerEngine
  let rig: ContainerRig
  beforeAll(async () => {
    engine = await startContainerEngine(podman)
    rig = createContainerRig(engine)
  }, 60_000)
  afterAll(async () => {
    await rig?.close()
    await engine?.close()
  })

  test('what a dead worker had is removed once nobody holds the run, and not before', async () => {
    const run = rig.begin({ ...sleeper, egress: 'internet' })
    await expect.poll(() => run.lines().length, { timeout: 20_000 }).toBe(1)
    // another worker on the same engine, whose first knows nothing of that run
    let held = true
    const other = createContainerRig(engine, { stillHeld: (_session, runs) => (held ? runs : []) })
    expect(await other.backend.reaper.sweep()).toBe(0)
    expect(await engine.containers()).toHaveLength(2)
    held = false
    expect(await other.backend.reaper.sweep()).toBe(3)
    expect(await engine.containers()).toEqual([])
    expect(await engine.volumes()).toEqual([])
    expect((await run.ended).result).toMatchObject({ outcome: 'failed' })
    await other.close()
  })

  test('what only looks like ours, by labels of its image, is left alone', async () => {
    const body = {
      Image: volumeImage,
      Cmd: ['sleep', '60'],
      Labels: { 'dev.belfry.run': 'x', 'dev.belfry.epoch': '1', 'dev.belfry.session': 'y' },
      HostConfig: { NetworkMode: 'none' },
    }
    await engine.client.call('POST', '/containers/create', { query: { name: 'of-somebody' }, body })
    expect(await rig.backend.reaper.sweep()).toBe(0)
    await engine.client.call('DELETE', '/containers/of-somebody', { query: { force: '1', v: '1' } })
  })

  test('its own runs it leaves alone, whatever Postgres says', async () => {
    const run = rig.begin(sleeper)
    await expect.poll(() => run.lines().length, { timeout: 20_000 }).toBe(1)
    expect(await rig.backend.reaper.sweep()).toBe(0)
    run.abort('cancel')
    await run.ended
  })

  test('the next attempt of a run takes the place of what the one before has left', async () => {
    const first = rig.begin(sleeper)
    await expect.poll(() => first.lines().length, { timeout: 20_000 }).toBe(1)
    const other = createContainerRig(engine)
    const second = await other.sh(
      'echo second',
      { result: 'file' },
      { runId: first.runId, attempt: 2, leaseEpoch: 2 },
    )
    expect(second).toMatchObject({ text: 'second', result: { outcome: 'succeeded' } })
    expect((await first.ended).result.outcome).toBe('failed')
    expect(await engine.containers()).toEqual([])
    await other.close()
  })

  test('an attempt that comes late touches nothing of the newer one', async () => {
    const newer = rig.begin({ ...sleeper, egress: 'internet' }, { leaseEpoch: 2 })
    await expect.poll(() => newer.lines().length, { timeout: 20_000 }).toBe(1)
    const before = [await engine.containers(), await engine.volumes()]
    expect(before.map(({ length }) => length)).toEqual([2, 1])
    const other = createContainerRig(engine, { stillHeld: (_session, runs) => runs })
    const { result, lines } = await other.sh(
      'echo late',
      { egress: 'internet', result: 'file' },
      { runId: newer.runId, leaseEpoch: 1 },
    )
    expect(result).toMatchObject({ outcome: 'failed', retryable: true, error: { code: 'lease_lost' } })
    expect(lines).toEqual([])
    expect([await engine.containers(), await engine.volumes()]).toEqual(before)
    expect(await other.backend.reaper.sweep()).toBe(0)
    expect(other.faults).toEqual([])
    newer.abort('cancel')
    await newer.ended
    await engine.mustBeEmpty()
    await other.close()
  })

  test('what cannot be removed is told, and the rest is removed all the same', async () => {
    const ids = [3, 4, 5].map((last) => `019ad0c1-7f3e-7c63-9a52-00000000000${last}`)
    for (const id of ids) {
      const Labels = {
        'dev.belfry.installation': 'test',
        'dev.belfry.run': id,
        'dev.belfry.epoch': '1',
        'dev.belfry.session': 'gone',
      }
      await engine.client.call('POST', '/volumes/create', { body: { Name: `belfry-${id}-1`, Labels } })
    }
    const Mounts = [{ Type: 'volume', Source: `belfry-${ids[1]}-1`, Target: '/kept' }]
    const body = { Image: testImage, Cmd: ['sleep', '60'], HostConfig: { NetworkMode: 'none', Mounts } }
    await engine.client.call('POST', '/containers/create', { query: { name: 'of-somebody' }, body })
    expect(await rig.backend.reaper.sweep()).toBe(2)
    expect(rig.faults.splice(0)).toMatchObject([{ name: 'EngineError' }])
    expect(await engine.volumes()).toEqual([`belfry-${ids[1]}-1`])
    await engine.client.call('DELETE', '/containers/of-somebody', { query: { force: '1', v: '1' } })
    expect(await rig.backend.reaper.sweep()).toBe(1)
  })

  test('a restart of the engine costs the output, and not the end', async () => {
    const run = rig.begin({ command: ['sh', '-c', 'echo up; sleep 4; exit 5'] })
    await expect.poll(() => run.lines().length, { timeout: 20_000 }).toBe(1)
    await engine.kill()
    await engine.start()
    const { result, lines } = await run.ended
    expect(result).toMatchObject({ outcome: 'failed', error: { code: 'exit_5' } })
    expect(lines.at(-1)?.message).toMatch(/connection to the engine broke/)
    expect(await engine.containers()).toEqual([])
  })

  test('200 runs leave no container, volume, process or descriptor', { timeout: 400_000 }, async () => {
    const descriptors = (): number => readdirSync('/proc/self/fd').length
    await rig.sh('true')
    const before = descriptors()
    const begunMs = performance.now()
    let left = 200
    const work = async (): Promise<void> => {
      while (left > 0) {
        left -= 1
        const { result } = await rig.sh('echo 1', left % 4 === 0 ? { result: 'file', input: 'file' } : {})
        expect(result.outcome).toBe('succeeded')
      }
    }
    await Promise.all([work(), work(), work(), work()])
    const seconds = (performance.now() - begunMs) / 1_000
    const pace = `${Math.round((200 / seconds) * 60)} a minute`
    process.stdout.write(`200 containers in ${seconds.toFixed(0)} s, ${pace}\n`)
    expect(await engine.containers()).toEqual([])
    expect(await engine.volumes()).toEqual([])
    expect(descriptors()).toBeLessThan(before + 20)
    expect(rig.faults).toEqual([])
  })
})
