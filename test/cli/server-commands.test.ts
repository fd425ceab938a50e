// `dev`, `server` and `config` hand over to the server what was typed, and keep what it hands back. A
// recorder stands in for the running server here; what that does is for its own tests to show.
import { mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { BelfryError } from '@belfry/contract'
import { loadConfig, type RunDevOptions, type RunServerOptions, secretSettings } from '@belfry/server'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { contextFile, readContexts } from '../../packages/cli/src/contexts.ts'
import type { ServerModule } from '../../packages/cli/src/server-module.ts'
import { runAlone } from './support/cli.ts'

let home = ''
beforeEach(() => {
  home = mkdtempSync(join(tmpdir(), 'belfry-server-'))
})
afterEach(() => rmSync(home, { recursive: true, force: true }))

type Calls = { dev?: RunDevOptions; server?: RunServerOptions; stopSignals: number }

async function run(
  argv: readonly string[],
  module: Partial<ServerModule> = {},
  env: Readonly<Record<string, string>> = {},
) {
  const calls: Calls = { stopSignals: 0 }
  const recorder: Partial<ServerModule> = {
    runDev: async (options) => {
      calls.dev = options
      options.out('listening')
      options.onReady({ url: 'http://127.0.0.1:4680', apiKey: 'blf_dev_key' })
      return undefined
    },
    runServer: async (options) => {
      calls.server = options
      options.onReady?.({ url: 'http://127.0.0.1:4680', apiKey: 'blf_admin_key' })
      return undefined
    },
    secretSettings,
    ...module,
  }
  const result = await runAlone(argv, {
    env: { ...env, XDG_CONFIG_HOME: home },
    loadServer: async () => recorder as ServerModule,
    stopSignal: () => {
      calls.stopSignals += 1
      return new AbortController().signal
    },
  })
  return { ...result, calls }
}

const file = () => contextFile({ XDG_CONFIG_HOME: home })

describe('dev', () => {
  it('keeps the key in the context dev, for its owner only, and makes it the current one', async () => {
    const { code, out, calls } = await run(['dev', '--port', '0', '--data-dir', '/data'])
    expect({ code, out }).toEqual({ code: 0, out: 'listening\n' })
    expect(calls.dev).toMatchObject({ port: 0, dataDir: '/data', contextFile: file() })
    expect(calls.stopSignals).toBe(1)
    expect(await readContexts(file())).toEqual({
      current: 'dev',
      contexts: { dev: { url: 'http://127.0.0.1:4680', apiKey: 'blf_dev_key' } },
    })
    expect(statSync(file()).mode & 0o777).toBe(0o600)
  })

  it('tells a failure of the server in the same way as any other', async () => {
    const fault = new BelfryError('database_unavailable', 'Postgres did not start; see its log.')
    const { code, err } = await run(['dev'], { runDev: () => Promise.reject(fault) })
    expect(code).toBe(1)
    expect(err).toContain('error: Postgres did not start; see its log. (database_unavailable)')
  })

  it('warns when the key cannot be kept', async () => {
    writeFileSync(join(home, 'belfry'), 'a file where the folder should be')
    const { code, err } = await run(['dev'], {
      runDev: async (options) => {
        options.onReady({ url: 'http://127.0.0.1:4680', apiKey: 'blf_dev_key' })
        return undefined
      },
    })
    expect(code).toBe(0)
    expect(err).toMatch(/warning: The file of contexts .* cannot be/)
    expect(err).not.toContain('blf_dev_key')
  })

  it('refuses a port that is none', async () => {
    expect((await run(['dev', '--port', '70000'])).code).toBe(2)
  })
})

describe('server', () => {
  it('hands over settings by their names', async () => {
    const flags = ['--roles', 'worker', '--worker-slots', '200', '--config', 'b.yaml', '--set', 'drainMs=1']
    const { calls } = await run(['server', ...flags])
    expect(calls.server).toMatchObject({
      action: 'start',
      configFile: 'b.yaml',
      flags: { roles: 'worker', workerSlots: '200', drainMs: '1' },
    })
  })

  it('keeps the key of init only where it is asked to', async () => {
    const plain = await run(['server', 'init', 'main'])
    expect(plain.calls.server).toMatchObject({ action: 'init', tenant: 'main' })
    expect(plain.out).toBe('blf_admin_key\n')
    const json = await run(['server', 'init', 'main', '-o', 'json'])
    expect(JSON.parse(json.out)).toMatchObject({ tenant: 'main', apiKey: 'blf_admin_key' })
    expect((await readContexts(file())).contexts).toEqual({})
    const kept = await run(['server', 'init', 'main', '--save-context', 'production'])
    expect(kept.err).toContain('Kept the key in the context production.')
    expect((await readContexts(file())).contexts['production']?.apiKey).toBe('blf_admin_key')
  })

  it.each([
    'databaseUrl=postgres://u:hunter2@db/x',
    'databaseReadUrl=postgres://u:hunter2@a:1,b:2/x',
    'redisUrl=redis://u:hunter2@redis',
    'sqsSecretAccessKey=hunter2',
    'sqsSessionToken=hunter2',
  ])('takes no password by a flag: %s', async (setting) => {
    const { code, err, calls } = await run(['server', 'start', '--set', setting])
    expect({ code, server: calls.server }).toEqual({ code: 2, server: undefined })
    expect(err).not.toContain('hunter2')
  })
})

describe('config, read by the real server', () => {
  const env = {
    DATABASE_URL: 'postgres://u:hunter2@db/x?password=hunter3',
    DATABASE_READ_URL: 'postgres://u:hunter2@a:1,b:2/x?password=hunter3',
    SQS_QUEUE_URL: 'https://sqs.eu-west-1.amazonaws.com/123456789012/belfry',
    BELFRY_SQS_ACCESS_KEY_ID: 'AKIAEXAMPLE',
    BELFRY_SQS_SECRET_ACCESS_KEY: 'hunter3',
  }
  const module = { loadConfig }

  it('shows each setting and its source, without passwords', async () => {
    for (const format of ['table', 'json', 'yaml', 'jsonl']) {
      const { out } = await run(['config', 'show', '-o', format], module, env)
      expect(out).not.toMatch(/hunter[23]/)
      expect(out).toContain('environment')
    }
    const { out } = await run(['config', 'show', '--roles', 'api,worker'], module, env)
    expect(out).toMatch(/^port +4680 \(default\)$/m)
    expect(out).toMatch(/^roles +api,worker \(flag\)$/m)
    expect(out).toMatch(/^embeddedPort +- \(default\)$/m)
  })

  it('checks, and tells each fault', async () => {
    expect((await run(['config', 'check'], module, env)).err).toContain('The configuration is valid.')
    const { code, err } = await run(['config', 'check', '--set', 'prot=1'], module, env)
    expect(code).toBe(1)
    expect(err).toMatch(/\/prot: prot .*did you mean port\?/)
  })

  it('has a flag for each setting that it offers', async () => {
    const { out } = await run(['config', 'show', '-o', 'json'], module)
    const names = new Set((JSON.parse(out) as { name: string }[]).map((row) => row.name))
    const flags = [
      '--data-dir',
      '--host',
      '--port',
      '--ops-port',
      '--roles',
      '--worker-slots',
      '--worker-queues',
    ]
    const values = ['/d', '::1', '1', '2', 'api', '3', 'q']
    const argv = flags.flatMap((flag, index) => [flag, values[index] ?? ''])
    const { calls } = await run(['server', ...argv, '--log-level', 'warn'])
    const given = Object.keys(calls.server?.flags ?? {})
    expect(given).toHaveLength(flags.length + 1)
    for (const name of given) expect(names).toContain(name)
  })
})
