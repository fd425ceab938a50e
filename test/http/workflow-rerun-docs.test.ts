// docs/how-to/rerun-workflows.md is run: each line of its shell blocks by the CLI, in its order, against the
// real API and the real resolver.
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { runAlone } from '../cli/support/cli.ts'
import { openWorkflowApi, type WorkflowApi } from '../support/workflow-api.ts'

const page = readFileSync(
  fileURLToPath(new URL('../../docs/how-to/rerun-workflows.md', import.meta.url)),
  'utf8',
)
const lines = [...page.matchAll(/^```sh\n([\s\S]*?)^```$/gm)]
  .flatMap(([, block = '']) => block.trimEnd().split('\n'))
  .filter((line) => line !== '')

const handler = { kind: 'http', url: 'https://example.com/hook' }
const tasks = (more: object = {}) => [
  { id: 'extract', handler },
  { id: 'load', handler, needs: ['extract'], ...more },
  { id: 'mail', handler, needs: ['load'] },
]

let w: WorkflowApi
let env: Record<string, string>
beforeAll(async () => {
  w = await openWorkflowApi()
  env = {
    XDG_CONFIG_HOME: mkdtempSync(join(tmpdir(), 'belfry-docs-')),
    BELFRY_URL: await w.t.api.listen({ host: '127.0.0.1', port: 0 }),
    BELFRY_API_KEY: w.t.adminKey,
    TZ: 'UTC',
  }
})
afterAll(async () => {
  rmSync(env['XDG_CONFIG_HOME'] ?? '', { recursive: true, force: true })
  await w.close()
})

/** Without the name of the command itself. */
const wordsOf = (line: string): string[] =>
  [...line.matchAll(/'([^']*)'|"([^"]*)"|(\S+)/g)].map(([, a, b, plain]) => a ?? b ?? plain ?? '').slice(1)

/** What each line of the page says, without the id in it. */
const said: Readonly<Record<string, RegExp>> = {
  'workflow-run explain': /Ended failed\. "load" \(failed\)\./,
  'workflow-run explain --task mail': /Because of: mail ← load/,
  'run list --workflow-run --task load': /failed/,
  'workflow-run rerun --dry-run':
    /load +failed +started +starts now[\s\S]*1 more task is kept[\s\S]*would put 2/,
  'workflow-run rerun': /Put 2 tasks back/,
  'workflow-run rerun --from load --input {"day": "2026-12-01"}': /Put 2 tasks back/,
  'workflow-run rerun --all --skip mail': /mail +succeeded +skipped +is set/,
  'workflow-run rerun --from load --newest --dry-run': /from version 1 to version 2[\s\S]*changed: load/,
  'workflow-run rerun --from load --newest': /from version 1 to version 2[\s\S]*changed: load/,
  'workflow-run mark load --as failed --reason the numbers are wrong': /load +succeeded +failed +is set/,
  'workflow-run mark load --as succeeded --reason loaded by hand --output-value {"rows": 17}':
    /Set load to succeeded/,
  'workflow run nightly --skip mail': /nightly/,
  'workflow-run skip mail --reason stock-taking': /Set mail to skipped, this once/,
  'workflow-run history': /mark load succeeded[\s\S]*rerun from \(load, mail\), on version 2/,
}
const example = '019ad0c1-7f3e-7c63-9a52-6e4d8c1b2a3f'

it('every line of the page does what the page says', async () => {
  await w.store({ tasks: tasks() }, 'nightly')
  const id = await w.ask('nightly')
  await w.play(id, (task) => (task === 'load' ? 'failed' : undefined))
  for (const line of lines) {
    if (line.includes('--newest --dry-run')) await w.store({ tasks: tasks({ priority: 5 }) }, 'nightly')
    // only what waits is skipped: in a fresh workflow run
    const target = line.includes('workflow-run skip') ? await w.ask('nightly') : id
    const words = wordsOf(line)
    const { out, err, code } = await runAlone(
      words.map((word) => (word === example ? target : word)),
      { env },
    )
    expect([line, code, code === 0 ? '' : err]).toEqual([line, 0, ''])
    const expected = said[words.filter((word) => word !== example).join(' ')]
    if (expected === undefined) throw new Error(`The page has a line that nothing is expected of: ${line}`)
    expect(`${out}${err}`).toMatch(expected)
    await w.play(id)
  }
  expect(lines).toHaveLength(Object.keys(said).length)
  expect((await w.standing(id)).state).toBe('succeeded')
})
