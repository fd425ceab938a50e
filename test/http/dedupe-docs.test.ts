// docs/how-to/dedupe-and-batches.md is run: each line of its shell blocks, in order, against the real API;
// then there is what the page says there would be.
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { runAlone } from '../cli/support/cli.ts'
import { startTestApi, type TestApi } from '../support/api.ts'

const page = readFileSync(
  fileURLToPath(new URL('../../docs/how-to/dedupe-and-batches.md', import.meta.url)),
  'utf8',
)
const lines = [...page.matchAll(/^ *```sh\n([\s\S]*?)^ *```$/gm)]
  .flatMap(([, block = '']) => block.split('\n'))
  .map((line) => line.trim())
  .filter((line) => line !== '')

let api: TestApi
let folder = ''
let env: Record<string, string> = {}

beforeAll(async () => {
  api = await startTestApi()
  folder = mkdtempSync(join(tmpdir(), 'belfry-docs-'))
  const [, file = ''] = /`runs\.ndjson`:\n\n```json\n([\s\S]*?)```/.exec(page) ?? []
  writeFileSync(join(folder, 'runs.ndjson'), file)
  const url = await api.api.listen({ host: '127.0.0.1', port: 0 })
  env = { XDG_CONFIG_HOME: folder, BELFRY_URL: url, BELFRY_API_KEY: api.adminKey, TZ: 'UTC' }
})
afterAll(async () => {
  rmSync(folder, { recursive: true, force: true })
  await api.close()
})

test.each(lines)('%s', async (line) => {
  const words = [...line.matchAll(/'([^']*)'|(\S+)/g)].map(([, quoted, plain]) => quoted ?? plain ?? '')
  expect(words.shift()).toBe('belfry')
  const argv = words.map((word) => (word === 'runs.ndjson' ? join(folder, word) : word))
  const { code, err } = await runAlone(argv, { env, now: Date.now, fetch })
  expect(err).not.toContain('error:')
  expect(code).toBe(0)
})

test('the runs that the page speaks of are there', async () => {
  const inputs = await api.database.sql<{ name: string; count: number }>(
    `SELECT job.name, count(*)::int AS count FROM belfry.run JOIN belfry.job ON job.id = run.job_id
     GROUP BY job.name ORDER BY job.name`,
  )
  expect(inputs).toEqual([
    { name: 'digest', count: 1 },
    { name: 'reindex', count: 1 },
    // one of two with the same key, one for an hour, three of the file
    { name: 'sync-customer', count: 5 },
  ])
  const gathered = await api.database.sql<{ input: unknown }>(
    'SELECT input FROM belfry.gathered ORDER BY position, input',
  )
  expect(gathered.map(({ input }) => input)).toEqual([
    { documentId: 'a', version: 2 },
    { userId: 7, event: 'comment' },
    { userId: 7, event: 'like' },
  ])
})
