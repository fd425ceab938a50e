// Loading the configuration: which source wins, what is refused, and that a refusal names the setting, where
// its value came from and the fix.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { BelfryError } from '@belfry/contract'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { loadConfig } from '../../../packages/server/src/config/load.ts'
import { configKeys, environmentName } from '../../../packages/server/src/config/schema.ts'

let directory = ''

beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'belfry-config-'))
})

afterEach(() => rmSync(directory, { recursive: true }))

function write(name: string, text: string): string {
  const path = join(directory, name)
  writeFileSync(path, text)
  return path
}

type Given = Parameters<typeof loadConfig>[0]

/** The error of a configuration that must be refused. */
function refusal(given: Given): BelfryError {
  try {
    loadConfig(given)
  } catch (error) {
    if (error instanceof BelfryError && error.code === 'invalid_config') return error
    throw error
  }
  throw new Error('was taken')
}

const faults = (given: Given) =>
  (refusal(given).errors ?? []).map(({ pointer, message }) => [pointer, message])

describe('precedence', () => {
  const file = () => write('belfry.yaml', 'port: 1001\nopsPort: 1002\nworkerSlots: 3\n')

  it('is flag, environment, file, default, and each source is told', () => {
    const { config, sources } = loadConfig({
      flags: { port: '3001' },
      env: { BELFRY_PORT: '2001', BELFRY_OPS_PORT: '2002' },
      file: file(),
    })
    const { port, opsPort, workerSlots, leaseMs } = config
    expect({ port, opsPort, workerSlots, leaseMs }).toEqual({
      port: 3001,
      opsPort: 2002,
      workerSlots: 3,
      leaseMs: 30_000,
    })
    const told = [sources.port, sources.opsPort, sources.workerSlots, sources.leaseMs]
    expect(told).toEqual(['flag', 'environment', 'file', 'default'])
    expect(Object.keys(sources)).toEqual(configKeys)
  })

  it('takes a flag without a value as not given', () => {
    const { config, sources } = loadConfig({ flags: { port: undefined }, env: { BELFRY_PORT: '2001' } })
    expect([config.port, sources.port]).toEqual([2001, 'environment'])
  })

  it('finds the file by BELFRY_CONFIG, and by --config before that', () => {
    const other = write('other.json', '{"port": 4001}')
    expect(loadConfig({ env: { BELFRY_CONFIG: file() } }).config.port).toBe(1001)
    expect(loadConfig({ env: { BELFRY_CONFIG: file() }, file: other }).config.port).toBe(4001)
  })

  it('has a default for everything: nothing needs to be set', () => {
    const { config, sources } = loadConfig({})
    expect(new Set(Object.values(sources))).toEqual(new Set(['default']))
    expect(config).toMatchObject({
      roles: ['api', 'scheduler', 'worker', 'resolver'],
      workerQueues: ['*'],
      migrateAtStart: false,
      egressAllow: [],
      egressDeny: [],
      egressPorts: [80, 443, 8080, 8443],
    })
    expect(config.databaseUrl).toBeUndefined()
  })
})

describe('unknown keys', () => {
  it.each([
    [{ BELFRY_PROT: '1' }, '/BELFRY_PROT', 'BELFRY_PROT is not a setting; did you mean BELFRY_PORT?'],
    [{ BELFRY_QQQQQQQQQQQQQQ: '1' }, '/BELFRY_QQQQQQQQQQQQQQ', 'BELFRY_QQQQQQQQQQQQQQ is not a setting'],
    [
      { BELFRY_DATABASE_URL: 'x' },
      '/BELFRY_DATABASE_URL',
      'BELFRY_DATABASE_URL is not a setting; did you mean DATABASE_URL?',
    ],
    [
      { BELFRY_LEASEMS_FILE: 'x' },
      '/BELFRY_LEASEMS_FILE',
      'BELFRY_LEASEMS_FILE is not a setting; did you mean BELFRY_LEASE_MS_FILE?',
    ],
  ])('are refused in the environment: %j', (env, pointer, message) => {
    expect(faults({ env })).toEqual([[pointer, message]])
  })

  it('are refused in the file and among the flags, with the nearest known one', () => {
    const file = write('belfry.yaml', 'workerSlot: 3\n')
    const message = `workerSlot in the file ${file} is not a setting; did you mean workerSlots?`
    expect(faults({ file })).toEqual([['/workerSlot', message]])
    const inFlags = 'opsprt in the flags is not a setting; did you mean opsPort?'
    expect(faults({ flags: { opsprt: 1 } })).toEqual([['/opsprt', inFlags]])
  })

  it('of others are let be: the command line and the system', () => {
    const env = { BELFRY_URL: 'x', BELFRY_API_KEY: 'x', BELFRY_CONTEXT: 'x', PATH: '/bin', PORT: '1' }
    expect(loadConfig({ env }).sources.port).toBe('default')
  })
})

describe('NAME_FILE', () => {
  it('reads the value from a file', () => {
    const path = write('url', 'postgres://belfry@db:5432/belfry\n')
    const { config, sources } = loadConfig({ env: { DATABASE_URL_FILE: path } })
    expect([config.databaseUrl, sources.databaseUrl]).toEqual([
      'postgres://belfry@db:5432/belfry',
      'environment',
    ])
  })

  it('is refused beside NAME, and when there is no such file', () => {
    const path = join(directory, 'none')
    const both = { BELFRY_PORT: '1', BELFRY_PORT_FILE: write('port', '2') }
    expect(faults({ env: both })).toEqual([
      ['/port', 'port is given by both BELFRY_PORT and BELFRY_PORT_FILE; keep one of them'],
    ])
    expect(faults({ env: { DATABASE_URL_FILE: path } })).toEqual([
      ['/databaseUrl', `DATABASE_URL_FILE names ${path}, which cannot be read`],
    ])
  })

  it('never shows what the file holds', () => {
    const path = write('url', 'mysql://belfry:hunter2@db/belfry')
    const error = refusal({ env: { DATABASE_URL_FILE: path } })
    expect(error.message).toContain('(from DATABASE_URL_FILE)')
    expect(JSON.stringify([error.message, error.errors])).not.toContain('hunter2')
  })
})

describe('a bad value', () => {
  it.each([
    ['BELFRY_PORT', '', 'port is not a whole number from 0 to 65535'],
    ['BELFRY_PORT', '0x50', 'port is not a whole number from 0 to 65535'],
    ['BELFRY_PORT', '65536', 'port is not a whole number from 0 to 65535'],
    ['BELFRY_LEASE_MS', '1.5', 'leaseMs is not a whole number from 1000 to 600000'],
    ['BELFRY_MIGRATE_AT_START', 'yes', 'migrateAtStart is not true or false'],
    ['BELFRY_HOST', '', 'host is empty'],
    ['BELFRY_LOG_LEVEL', 'loud', 'logLevel is not one of trace, debug, info, warn, error, silent'],
    ['BELFRY_ROLES', 'api,wrker', 'roles holds what is not one of api, scheduler, worker'],
    ['BELFRY_WORKER_QUEUES', 'a b', 'workerQueues holds what is not a queue name'],
    ['DATABASE_URL', 'db:5432', 'databaseUrl is not a Postgres URL; write it like postgres://'],
    [
      'BELFRY_EGRESS_PORTS',
      '80,0',
      'egressPorts is not a list of ports from 1 to 65535; write it like 80,443',
    ],
    [
      'BELFRY_EGRESS_PORTS',
      '80,*',
      'egressPorts is not a list of ports from 1 to 65535; write it like 80,443',
    ],
  ])('of %s, %j, is named with the setting and the variable', (name, value, words) => {
    const [fault, ...more] = faults({ env: { [name]: value } })
    expect(more).toEqual([])
    expect(fault?.[0]).toMatch(new RegExp(`^/${words.split(' ')[0]}(/\\d+)?$`))
    expect(fault?.[1]?.startsWith(words)).toBe(true)
    expect(fault?.[1]?.endsWith(` (from ${name})`)).toBe(true)
  })

  it('is named with the file or the flags that it came from', () => {
    const file = write('belfry.yaml', 'host: 7\nport:\n')
    expect(faults({ file, flags: { workerSlots: '0' } })).toEqual([
      ['/host', `host is not text (from the file ${file})`],
      ['/port', `port is not a whole number from 0 to 65535 (from the file ${file})`],
      ['/workerSlots', 'workerSlots is not a whole number from 1 to 10000 (from the flags)'],
    ])
  })

  it('does not hide another: all are told at once', () => {
    const env = { BELFRY_PORT: 'x', BELFRY_HOST: '', BELFRY_PROT: '1' }
    const error = refusal({ env })
    expect(error.errors).toHaveLength(3)
    for (const part of ['port is not', 'host is empty', 'BELFRY_PROT is not']) {
      expect(error.message).toContain(part)
    }
  })
})

describe('a heartbeat', () => {
  it('of less than half the lease is taken', () => {
    const flags = { heartbeatMs: 999, leaseMs: 2_000 }
    expect(loadConfig({ flags }).config).toMatchObject(flags)
  })

  it.each([1_000, 1_500])('of %d ms with a lease of 2000 ms is refused', (heartbeatMs) => {
    const message = 'heartbeatMs must be less than half of leaseMs, so that one may be lost'
    expect(faults({ flags: { heartbeatMs, leaseMs: 2_000 } })).toEqual([['/heartbeatMs', message]])
  })
})

describe('lists', () => {
  it('are written with commas or as lists', () => {
    const env = { BELFRY_ROLES: ' api , worker,', BELFRY_WORKER_QUEUES: '' }
    expect(loadConfig({ env }).config).toMatchObject({ roles: ['api', 'worker'], workerQueues: [] })
    const file = write(
      'belfry.yaml',
      'roles: [api]\negressPorts: [80, 8000]\negressDeny: 1.1.1.1, fd00::/8\n',
    )
    expect(loadConfig({ file }).config).toMatchObject({
      roles: ['api'],
      egressPorts: [80, 8000],
      egressDeny: ['1.1.1.1', 'fd00::/8'],
    })
  })

  it('of roles may not be empty', () => {
    expect(faults({ flags: { roles: [] } })).toEqual([['/roles', 'roles is empty; give at least one']])
  })
})

describe('egress', () => {
  it.each([
    ['egressAllow', 'BELFRY_EGRESS_ALLOW'],
    ['egressDeny', 'BELFRY_EGRESS_DENY'],
  ])('%s is held to the rule of the egress module', (key, name) => {
    const [fault] = faults({ env: { [name]: '192.168.0.0/16,10.1.2.3/8' } })
    expect(fault).toEqual([
      `/${key}/1`,
      `${key} holds a bad range: "10.1.2.3/8" has bits set beyond its prefix; ` +
        `write its first address, 10.0.0.0/8, or /32 for this one (from ${name})`,
    ])
  })

  it.each([
    ['*', '*'],
    ['443', [443]],
    ['80, 443', [80, 443]],
    ['', []],
  ])('egressPorts takes %j', (text, expected) => {
    expect(loadConfig({ env: { BELFRY_EGRESS_PORTS: text } }).config.egressPorts).toEqual(expected)
  })

  it.each([
    ['443', [443]],
    ['"*"', '*'],
    ['["*"]', '*'],
  ])('egressPorts takes %s in a file', (text, expected) => {
    const file = write('belfry.yaml', `egressPorts: ${text}\n`)
    expect(loadConfig({ file }).config.egressPorts).toEqual(expected)
  })
})

describe('the file', () => {
  it('may be empty', () => {
    expect(loadConfig({ file: write('belfry.yaml', '# nothing yet\n') }).sources.port).toBe('default')
  })

  it('is refused when it is missing, is no YAML or holds no settings', () => {
    expect(refusal({ file: join(directory, 'none.yaml') }).message).toContain(
      'none.yaml cannot be read: ENOENT',
    )
    expect(refusal({ file: write('list.yaml', '- port\n') }).message).toContain('must hold settings')
  })

  it('is refused with the place of the fault, but without its text', () => {
    const file = write('belfry.yaml', 'port: 1\ndatabaseUrl: "postgres://belfry:hunter2@db\n')
    const { message } = refusal({ file })
    expect(message).toMatch(/belfry\.yaml cannot be read: .* at line \d+, column \d+$/)
    expect(message).not.toContain('hunter2')
  })
})

describe('the variable of a setting', () => {
  it('is its name in capitals, with one exception', () => {
    expect(environmentName('workerSlots')).toBe('BELFRY_WORKER_SLOTS')
    expect(environmentName('databaseUrl')).toBe('DATABASE_URL')
    expect(new Set(configKeys.map(environmentName)).size).toBe(configKeys.length)
  })
})
