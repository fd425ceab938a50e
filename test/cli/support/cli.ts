// Runs the command line in-process against a test server, and hands back exit code and both streams. Each
// rig has a configuration folder of its own, so no test reads what a person keeps on this machine.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Io } from '../../../packages/cli/src/io.ts'
import { runCli } from '../../../packages/cli/src/run-cli.ts'
import { type ContractServer, startContractServer, testKey } from './contract-server.ts'

export type Result = { readonly code: number; readonly out: string; readonly err: string }

export type RunOptions = Partial<Omit<Io, 'stdout' | 'stderr' | 'env'>> & {
  readonly env?: Readonly<Record<string, string | undefined>>
  readonly tty?: boolean
  readonly columns?: number
  readonly stdin?: string
}

export type CliRig = {
  readonly server: ContractServer
  readonly configHome: string
  run(argv: readonly string[], options?: RunOptions): Promise<Result>
  /** Runs with `-o json` and answers what was printed. */
  json(argv: readonly string[], options?: RunOptions): Promise<unknown>
  close(): Promise<void>
}

/** The time that tests take for now. */
const nowMs = Date.parse('2026-11-29T12:00:00Z')

/** Runs a command line without a server of its own. */
export async function runAlone(argv: readonly string[], options: RunOptions = {}): Promise<Result> {
  let out = ''
  let err = ''
  const { env = {}, tty = false, columns, stdin = '', ...io } = options
  const code = await runCli(argv, {
    now: () => nowMs,
    readStdin: async () => stdin,
    ...io,
    env,
    stdout: { write: (text) => (out += text), isTTY: tty, columns },
    stderr: { write: (text) => (err += text), isTTY: false },
  })
  return { code, out, err }
}

export async function startCliRig(): Promise<CliRig> {
  const server = await startContractServer()
  const configHome = mkdtempSync(join(tmpdir(), 'belfry-cli-'))
  const env = { XDG_CONFIG_HOME: configHome, BELFRY_URL: server.url, BELFRY_API_KEY: testKey, TZ: 'UTC' }
  const run: CliRig['run'] = (argv, options = {}) =>
    runAlone(argv, { ...options, env: { ...env, ...options.env } })
  return {
    server,
    configHome,
    run,
    json: async (argv, options) => JSON.parse((await run([...argv, '-o', 'json'], options)).out) as unknown,
    close: async () => {
      rmSync(configHome, { recursive: true, force: true })
      await server.close()
    },
  }
}
