// Limits on the command line: flags of jobs, pools, queues and pauses, and how they look.
import { afterAll, beforeEach, describe, expect, it } from 'vitest'
import { startCliRig } from './support/cli.ts'

const rig = await startCliRig()
afterAll(() => rig.close())
beforeEach(() => void rig.server.seen.splice(0))

const bodyOf = (route: string) => rig.server.seen.find((seen) => seen.route === route)?.body

describe('limits of a job', () => {
  it('are made of their flags', async () => {
    const flags = [
      '--concurrency',
      '5',
      '--concurrency-key',
      'customerId',
      '--key-limit',
      '2',
      '--on-limit',
      'skip',
    ]
    const more = ['--pool', 'api:3', '--pool', 'db', '--rate', '100/1m,20', '--rate-key', '/customer/id']
    const made = await rig.run([
      'job',
      'create',
      'sync',
      '--http',
      'https://example.com/x',
      ...flags,
      ...more,
    ])
    expect(made.err).not.toContain('error')
    expect(bodyOf('jobCreate')).toMatchObject({
      concurrency: {
        limit: 5,
        key: 'customerId',
        keyLimit: 2,
        pools: [
          { name: 'api', weight: 3 },
          { name: 'db', weight: 1 },
        ],
        onLimit: 'skip',
      },
      rateLimit: { count: 100, perMs: 60_000, burst: 20, key: '/customer/id' },
    })
    const shown = await rig.run(['job', 'get', 'sync'])
    expect(shown.out).toContain(
      '5 runs, 2 for each customerId, 3 of the pool api, 1 of the pool db; others are skipped',
    )
    expect(shown.out).toContain('100 in 1m, 20 at once for each /customer/id')
  })

  it('are changed part by part, and taken away by none', async () => {
    await rig.run(['job', 'update', 'sync', '--concurrency', '7'])
    expect(bodyOf('jobUpdate')).toMatchObject({
      concurrency: { limit: 7, key: 'customerId', onLimit: 'skip' },
    })
    rig.server.seen.splice(0)
    const none = ['--concurrency', 'none', '--concurrency-key', 'none', '--pool', 'none', '--rate', 'none']
    await rig.run(['job', 'update', 'sync', ...none])
    expect(bodyOf('jobUpdate')).toMatchObject({ concurrency: null, rateLimit: null })
  })

  it.each([
    [['--rate', 'fast'], 'write it like 100/1m'],
    [['--pool', 'api:many'], 'write it like api or api:3'],
    [['--rate-key', 'k'], '--rate-key needs --rate'],
    [['--key-limit', '3'], '--key-limit needs --concurrency-key'],
    [['--on-limit', 'skip'], '--on-limit needs a limit'],
  ])('%j is refused with the fix', async (flags, words) => {
    const result = await rig.run(['job', 'create', 'bad', '--http', 'https://example.com/x', ...flags])
    expect(result.code).toBe(2)
    expect(result.err).toContain(words)
  })

  it('a pause has a reason, and ends', async () => {
    const paused = await rig.run(['job', 'pause', 'sync', '--reason', 'repair'])
    expect(paused.err).toContain('Paused the job sync')
    expect((await rig.run(['job', 'get', 'sync'])).out).toContain('repair')
    expect((await rig.run(['job', 'resume', 'sync'])).err).toContain('Resumed the job sync')
  })
})

describe('queues and pools', () => {
  it('a queue shows what runs next, in order and why, and what holds the rest', async () => {
    const { out, err } = await rig.run(['queue', 'show', 'default'])
    for (const words of ['12.50', '1.2', 'report', 'The job "sync" is at its limit of runs at once: 3 of 3.'])
      expect(out).toContain(words)
    expect(err).toContain('The first: It is next of this tenant')
    const json = await rig.run(['queue', 'show', 'default', '-o', 'json'])
    expect(JSON.parse(json.out)).toMatchObject({ next: [{ place: 1 }], heldGroups: [{ job: 'sync' }] })
  })

  it('pools go by their names', async () => {
    await rig.run(['pool', 'create', 'api', '--host', 'api.example.com', '--rate', '20/1s'])
    expect(bodyOf('poolCreate')).toEqual({
      name: 'api',
      host: 'api.example.com',
      rate: { count: 20, perMs: 1_000, burst: null },
    })
    expect((await rig.run(['pool', 'list'])).out).toContain('20 in 1s')
    const unknown = await rig.run(['pool', 'get', 'apo'])
    expect(unknown.err).toContain('did you mean api?')
    expect((await rig.run(['pool', 'delete', 'api'])).code).toBe(0)
  })

  it('the limit of the tenant is shown and set', async () => {
    expect((await rig.run(['queue', 'limit'])).out).toContain('3 of 50')
    await rig.run(['queue', 'limit', '--runs', 'none'])
    expect(bodyOf('tenantLimitSet')).toEqual({ runLimit: null })
  })
})
