// docs/how-to/dead-letters.md is run: each line of its shell blocks by the CLI against the real API, with the
// ids and fingerprints of runs that have failed here. Then the whole way of a group, and of many cancels.
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { runAlone } from '../cli/support/cli.ts'
import { startTestApi, type TestApi } from '../support/api.ts'
import { enqueue, openHandWorker, registerFunctions, type HandWorker } from '../support/remote-worker.ts'

const page = readFileSync(
  fileURLToPath(new URL('../../docs/how-to/dead-letters.md', import.meta.url)),
  'utf8',
)
const lines = [...page.matchAll(/^```sh\n([\s\S]*?)^```$/gm)]
  .flatMap(([, block = '']) => block.trimEnd().split('\n'))
  .filter((line) => line !== '')

let t: TestApi
let worker: HandWorker
let env: Record<string, string>
beforeAll(async () => {
  t = await startTestApi()
  await registerFunctions(t, { name: 'report', retry: { maxAttempts: 1 } })
  worker = await openHandWorker(t, { functions: ['report'] })
  await t.call('POST', '/v1/schedules', { body: { name: 'nightly', every: '24h', job: 'report' } })
  env = {
    XDG_CONFIG_HOME: mkdtempSync(join(tmpdir(), 'belfry-docs-')),
    BELFRY_URL: await t.api.listen({ host: '127.0.0.1', port: 0 }),
    BELFRY_API_KEY: t.adminKey,
    TZ: 'UTC',
  }
})
afterAll(async () => {
  rmSync(env['XDG_CONFIG_HOME'] ?? '', { recursive: true, force: true })
  await t.close()
})

async function fail(message: string): Promise<string> {
  const id = await enqueue(t, 'report', { month: '2026-10' })
  for (;;) {
    const runs = await worker.claim()
    for (const run of runs)
      await worker.complete(run, { outcome: 'failed', error: { code: 'no_such_order', message } })
    if (runs.some(({ runId }) => runId === id)) return id
    if (runs.length === 0) throw new Error(`the run ${id} was not claimed`)
  }
}

async function belfry(line: string) {
  const words = [...line.matchAll(/'([^']*)'|"([^"]*)"|(\S+)/g)].map(
    ([, a, b, plain]) => a ?? b ?? plain ?? '',
  )
  return runAlone(words.slice(1), { env })
}
const fingerprintOf = async (id: string): Promise<string> => {
  const [row] = await t.database.sql<{ fingerprint: string }>(
    'SELECT fingerprint FROM belfry.dead_letter WHERE run_id = $1',
    [id],
  )
  return row?.fingerprint ?? ''
}

describe('docs/how-to/dead-letters.md', () => {
  it('has commands', () => expect(lines.length).toBeGreaterThanOrEqual(14))

  it.each(lines)('%s', async (line) => {
    const id = await fail('order 7 was not found')
    await enqueue(t, 'report')
    const here = line.replace(/019ad0c1[0-9a-f-]*/, id).replace('9c1f0c2ad07f2b41', await fingerprintOf(id))
    const { code, err } = await belfry(here)
    expect(err).not.toContain('error:')
    const isPreview = / (replay|cancel) --/.test(line) && !line.includes('--yes')
    expect(code).toBe(isPreview ? 2 : 0)
    expect(err.includes('--yes')).toBe(isPreview)
  })
})

describe('on the command line', () => {
  it('a group is seen, looked at, replayed and gone', async () => {
    await belfry('belfry run cancel --job report --yes')
    await belfry('belfry dead-letter delete --all --yes')
    const ids = [await fail('order 1 was not found'), await fail('order 2 was not found')]
    const groups = await belfry('belfry dead-letter groups')
    expect(groups.out).toContain('order <n> was not found')
    const print = await fingerprintOf(ids[0] ?? '')
    const preview = await belfry(`belfry dead-letter replay --fingerprint ${print}`)
    expect([preview.code, preview.out]).toEqual([2, expect.stringContaining('report 2')])
    expect((await belfry('belfry dead-letter list -o name')).out.trim().split('\n')).toEqual(ids.toReversed())
    const done = await belfry(`belfry dead-letter replay --fingerprint ${print} --yes`)
    expect([done.code, done.err]).toEqual([0, expect.stringContaining('Replayed 2.')])
    expect((await belfry('belfry dead-letter list')).err).toContain('No dead letters')
    const shown = await belfry(`belfry dead-letter show ${ids[0]}`)
    expect(shown.out).toMatch(/Replayed as +[0-9a-f-]{36}/)
    const again = await belfry(`belfry dead-letter replay ${ids[0]}`)
    expect([again.code, again.err]).toEqual([0, expect.stringContaining('It was replayed before')])
  })

  it('many runs are canceled after a preview, with the reason on each', async () => {
    const id = await enqueue(t, 'report')
    const preview = await belfry('belfry run cancel --job report')
    expect([preview.code, preview.err]).toEqual([2, expect.stringContaining('Nothing was done yet')])
    const dry = await belfry('belfry run cancel --job report --dry-run')
    expect(dry.code).toBe(0)
    expect((await t.call('GET', `/v1/runs/${id}`)).body.state).toBe('pending')
    const done = await belfry('belfry run cancel --job report --reason "wrong month" --yes')
    expect([done.code, done.err]).toEqual([0, expect.stringMatching(/Canceled \d+ that waited/)])
    expect((await belfry(`belfry run get ${id}`)).out).toMatch(/Canceled because +wrong month/)
    expect((await belfry('belfry run cancel --job report --yes')).code).toBe(0)
  })

  it('nothing, or both an id and a filter, is refused', async () => {
    const id = await enqueue(t, 'report')
    for (const line of [
      'run cancel',
      `run cancel ${id} --job report`,
      'dead-letter replay',
      'dead-letter delete',
    ])
      expect((await belfry(`belfry ${line}`)).code).toBe(2)
  })
})
