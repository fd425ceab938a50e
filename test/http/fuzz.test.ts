// Every route of the API, asked by schemathesis for what its OpenAPI document allows and for what it forbids.
// Whatever is sent, nothing is a fault of the server, and nothing hangs. Bounded: `FUZZ_SECONDS` for longer;
// `SEED` for the same again.
import { spawn } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { startTestApi, type TestApi } from '../support/api.ts'
import { describeNeeding } from '../support/needs.ts'

const seconds = Number(process.env['FUZZ_SECONDS'] ?? 90)
const seed = process.env['SEED'] ?? String(Math.floor(Math.random() * 1e9))
const marginMs = 60_000

interface Ended {
  readonly code: number | null
  readonly text: string
}

function run(command: string, args: readonly string[], cwd: string): Promise<Ended> {
  const child = spawn(command, args, { cwd, stdio: ['ignore', 'pipe', 'pipe'] })
  let text = ''
  for (const stream of [child.stdout, child.stderr])
    stream.on('data', (chunk: Buffer) => {
      text += chunk.toString()
    })
  const end = setTimeout(() => child.kill('SIGKILL'), seconds * 1_000 + marginMs)
  return new Promise((resolve) => {
    child.once('close', (code) => {
      clearTimeout(end)
      resolve({ code, text })
    })
  })
}

/** A server that has no provider says so by 503; nothing else may. */
const settings = ['/v1/oidc/start', '/v1/oidc/callback']
  .map(
    (path) => `[[operations]]
include-path = "${path}"
checks.not_a_server_error.expected-statuses = ["2xx", "3xx", "4xx", "503"]
`,
  )
  .join('\n')

/** What failed, without the masses that were sent. */
const told = (text: string): string =>
  text
    .split('\n')
    .map((line) => (line.length > 500 ? `${line.slice(0, 500)}…` : line))
    .slice(-200)
    .join('\n')

const argumentsOf = (url: string, key: string): readonly string[] =>
  [
    ['-m', 'schemathesis.cli', 'run', `${url}/v1/openapi.json`],
    ['--header', `Authorization: Bearer ${key}`],
    ['--checks', 'not_a_server_error', '--max-response-time', '25', '--request-timeout', '30'],
    ['--phases', 'examples,coverage,fuzzing', '--max-time', String(seconds), '--seed', seed],
    // with threads Python 3.11 fails now and then to read the program itself
    ['--workers', '1'],
    // goes on until its run ends
    ['--exclude-path-regex', 'logs/stream$'],
    ['--continue-on-failure', '--no-color', '--warnings', 'off', '--suppress-health-check', 'all'],
  ].flat()

describeNeeding('schemathesis', 'every route', (python) => {
  let t: TestApi
  let url: string
  const folder = mkdtempSync(join(tmpdir(), 'belfry-fuzz-'))
  beforeAll(async () => {
    t = await startTestApi()
    writeFileSync(join(folder, 'schemathesis.toml'), settings)
    url = await t.api.listen({ host: '127.0.0.1', port: 0 })
  })
  afterAll(async () => {
    await t.close()
    rmSync(folder, { recursive: true, force: true })
  })

  it(
    'answers whatever is sent, and never with a fault of its own',
    async () => {
      const key = await t.keyFor('acme', ['admin', 'platform'])
      const { code, text } = await run(python, argumentsOf(url, key), folder)
      expect(text).toMatch(/\d+ (?:generated|passed)/)
      expect(code, `seed ${seed}\n${told(text)}`).toBe(0)
    },
    seconds * 1_000 + 2 * marginMs,
  )
})
