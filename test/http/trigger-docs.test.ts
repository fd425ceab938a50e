// docs/how-to/trigger-workflows.md and run-after-run.md are run: the files of workflows are stored, then each
// line of the shell blocks goes to the real API, in order; then there is what the pages say there would be.
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { runAlone } from '../cli/support/cli.ts'
import { startTestApi, type TestApi } from '../support/api.ts'

const pageOf = (name: string): string =>
  readFileSync(fileURLToPath(new URL(`../../docs/how-to/${name}.md`, import.meta.url)), 'utf8')
const blocksOf = (page: string, language: string): string[] =>
  [...page.matchAll(/^```(\w+)\n([\s\S]*?)^```$/gm)].flatMap(([, word, block = '']) =>
    word === language ? [block] : [],
  )
const linesOf = (page: string): string[] =>
  blocksOf(page, 'sh').flatMap((block) => block.split('\n').filter((line) => line !== ''))
const triggers = pageOf('trigger-workflows')
const dependencies = pageOf('run-after-run')

let api: TestApi
let folder = ''
let env: Record<string, string> = {}

async function run(line: string): Promise<{ out: string; said: string }> {
  const words = [...line.matchAll(/'([^']*)'|(\S+)/g)].map(([, quoted, plain]) => quoted ?? plain ?? '')
  expect(words.shift()).toBe('belfry')
  const { code, out, err } = await runAlone(words, { env, now: Date.now, fetch })
  expect(err).not.toContain('error:')
  expect(code).toBe(0)
  return { out, said: out + err }
}

beforeAll(async () => {
  api = await startTestApi()
  folder = mkdtempSync(join(tmpdir(), 'belfry-docs-'))
  const url = await api.api.listen({ host: '127.0.0.1', port: 0 })
  env = { XDG_CONFIG_HOME: folder, BELFRY_URL: url, BELFRY_API_KEY: api.adminKey, TZ: 'UTC' }
  for (const job of ['extract', 'pack', 'write', 'report', 'alert'])
    await run(`belfry job create ${job} --function ${job}`)
  for (const [index, text] of blocksOf(triggers, 'yaml').entries()) {
    const file = join(folder, `${index}.yaml`)
    writeFileSync(file, text)
    await run(`belfry workflow apply -f ${file}`)
  }
})
afterAll(async () => {
  rmSync(folder, { recursive: true, force: true })
  await api.close()
})

describe('trigger-workflows.md', () => {
  test.each(linesOf(triggers))('%s', async (line) => {
    expect((await run(line)).said).not.toBe('')
  })

  test('the event began the workflow that names it', async () => {
    const begun = await api.database.sql(
      `SELECT workflow.name, run.source, run.input FROM belfry.workflow_run AS run
       JOIN belfry.workflow ON workflow.id = run.workflow_id`,
    )
    expect(begun).toEqual([{ name: 'ship', source: 'event', input: { order: 17 } }])
  })
})

describe('run-after-run.md', () => {
  const lines = linesOf(dependencies)
  const [parent, child] = new Set(lines.flatMap((line) => line.match(/[0-9a-f-]{36}/g) ?? []))

  test.each(lines)('%s', async (line) => {
    const newest = async (job: string): Promise<string> => {
      const [row] = await api.database.sql<{ id: string }>(
        `SELECT run.id FROM belfry.run JOIN belfry.job ON job.id = run.job_id WHERE job.name = '${job}'`,
      )
      return row?.id ?? ''
    }
    const named = line
      .replaceAll(parent ?? '-', await newest('extract'))
      .replaceAll(child ?? '-', await newest('report'))
    expect((await run(named)).said).not.toBe('')
  })

  test('one was canceled, one waits', async () => {
    const { out } = await run('belfry run list -o json')
    const { items } = JSON.parse(out) as { items: { job: string; state: string }[] }
    expect(items.map(({ job, state }) => `${job} ${state}`)).toEqual([
      'alert waiting_for_dependencies',
      'report canceled',
      'extract pending',
    ])
  })
})
