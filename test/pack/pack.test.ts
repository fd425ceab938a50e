// What a user gets: the five packages are packed, installed into an empty folder and started there. This is
// the only test of the compiled code, of what the tarballs hold and of how the packages find each other once
// published.
import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import {
  chmodSync,
  existsSync,
  globSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'

const root = fileURLToPath(new URL('../..', import.meta.url))
const folder = mkdtempSync(join(tmpdir(), 'belfry-pack-'))
const home = join(folder, 'home')
const app = join(folder, 'app')
const packages = ['@belfry/contract', '@belfry/sdk', '@belfry/server', '@belfry/ui', 'belfry']
const belongs = /^(?:package\.json|README\.md|LICENSE|dist\/.+|bin\/belfry\.js)$/
const doesNotBelong = /\.tsbuildinfo$|(?<!\.d)\.ts$|\.map$/
const started = new Set<ChildProcess>()

type Packed = {
  readonly name: string
  readonly filename: string
  readonly files: readonly { path: string }[]
}
let packed: readonly Packed[] = []

/** A user's own environment: a home without anything of ours, none of this run's npm or test settings. */
function userEnv(): NodeJS.ProcessEnv {
  const inherited = Object.entries(process.env).filter(
    ([name]) => !/^(?:npm_|NODE_OPTIONS|BELFRY_|VITEST)/.test(name),
  )
  return { ...Object.fromEntries(inherited), HOME: home, XDG_DATA_HOME: '', XDG_CONFIG_HOME: '' }
}

function run(program: string, args: readonly string[], cwd: string, env = process.env): string {
  return execFileSync(program, args, { cwd, env, encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] })
}

beforeAll(() => {
  if (!existsSync(join(root, 'packages/contract/dist'))) throw new Error('nothing is built: npm run build')
  // The embedded Postgres may run as another user, which has to reach its data.
  chmodSync(folder, 0o755)
  for (const made of [home, app]) mkdirSync(made)
  const output = run('npm', ['pack', '--workspaces', '--json', '--pack-destination', folder], root)
  packed = JSON.parse(output) as readonly Packed[]
  writeFileSync(join(app, 'package.json'), '{"name": "app", "private": true}\n')
  const tarballs = packed.map(({ filename }) => join(folder, filename))
  run('npm', ['install', '--no-audit', '--no-fund', ...tarballs], app)
})

afterEach(async () => {
  for (const child of started) {
    if (child.exitCode === null && child.signalCode === null && child.kill('SIGKILL'))
      await once(child, 'exit')
  }
  started.clear()
})

afterAll(() => rmSync(folder, { recursive: true, force: true }))

describe('the tarballs', () => {
  test('are the five packages', () => {
    expect(packed.map(({ name }) => name).toSorted()).toEqual(packages.toSorted())
  })

  test.each(packages)('%s holds what was built, its licence and its readme, nothing else', (name) => {
    const paths = packed.find((candidate) => candidate.name === name)?.files.map(({ path }) => path) ?? []
    expect(paths).toEqual(expect.arrayContaining(['package.json', 'README.md', 'LICENSE']))
    expect(paths.filter((path) => !belongs.test(path) || doesNotBelong.test(path))).toEqual([])
    expect(paths.some((path) => path.startsWith('dist/'))).toBe(true)
  })

  test.each(packages)('%s has every file that its modules and declarations import', (name) => {
    const installed = join(app, 'node_modules', name)
    const modules = globSync('dist/**/*.{js,d.ts}', { cwd: installed }).map((file) => join(installed, file))
    expect(modules.flatMap(missingImports)).toEqual([])
  })
})

/** Relative imports of a compiled module or declaration that lead nowhere. */
function missingImports(file: string): string[] {
  const isDeclaration = file.endsWith('.d.ts')
  const specifiers = readFileSync(file, 'utf8').matchAll(/(?:from|import)\s*\(?\s*['"](\.{1,2}\/[^'"]+)['"]/g)
  return [...specifiers].flatMap(([, specifier = '']) => {
    const target = resolve(dirname(file), specifier)
    const wanted = isDeclaration ? target.replace(/\.js$/, '.d.ts') : target
    return existsSync(wanted) ? [] : [`${file}: ${specifier}`]
  })
}

describe('installed in an empty folder', () => {
  test('`npx belfry --version` prints the version', () => {
    const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { version: string }
    expect(run('npx', ['belfry', '--version'], app, userEnv()).trim()).toContain(version)
  })

  test.each(['belfry/schedule', '@belfry/server/schedule'])('the evaluator is there as %s', (name) => {
    const code = `
      const { compile } = await import('${name}')
      const daily = compile({ kind: 'cron', dialect: 'unix', expression: '0 2 * * *', zone: 'Asia/Tokyo' })
      console.log(new Date(daily.value.next(Date.UTC(2026, 2, 28, 12))).toISOString())`
    const output = run(process.execPath, ['--input-type=module', '-e', code], app, userEnv())
    expect(output.trim()).toBe('2026-03-28T17:00:00.000Z')
  })

  test('`belfry schedule next` answers without a server', () => {
    const flags = ['--cron', '0 0 1 1 *', '--before', '2026-06-01T00:00:00Z', '--count', '1', '-o', 'name']
    const answer = run('npx', ['belfry', 'schedule', 'next', ...flags], app, userEnv())
    expect(answer).toBe('2026-01-01T00:00:00Z\n')
  })

  test('`belfry dev` serves, says where, and ends cleanly on SIGTERM', async () => {
    const child = spawn(join(app, 'node_modules/.bin/belfry'), ['dev'], { cwd: app, env: userEnv() })
    started.add(child)
    const output = collect(child)
    const alive = async () => child.exitCode !== null || (await answersAlive(output()))
    await expect.poll(alive, { timeout: 90_000, interval: 250 }).toBe(true)
    expect(child.exitCode, `ended by itself:\n${output()}`).toBe(null)
    child.kill('SIGTERM')
    const [code] = (await once(child, 'exit')) as [number | null]
    expect(code, output()).toBe(0)
  })
})

function collect(child: ChildProcess): () => string {
  let text = ''
  for (const stream of [child.stdout, child.stderr]) {
    stream?.setEncoding('utf8').on('data', (chunk: string) => {
      text += chunk
    })
  }
  return () => text
}

/** Whether one of the addresses that were printed answers its liveness check. */
async function answersAlive(output: string): Promise<boolean> {
  const addresses = new Set(output.match(/http:\/\/(?:127\.0\.0\.1|localhost|\[::1\]):\d+/g) ?? [])
  const answers = await Promise.all([...addresses].map(statusOfLivez))
  return answers.includes(200)
}

async function statusOfLivez(address: string): Promise<number> {
  try {
    return (await fetch(`${address}/livez`)).status
  } catch {
    return 0
  }
}
