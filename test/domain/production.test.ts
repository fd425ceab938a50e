// What a server in production refuses to start with. Each refusal names the setting and how to mend it, and
// none shows the value.
import { randomBytes } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { BelfryError } from '@belfry/contract'
import { describe, expect, it } from 'vitest'
import { loadConfig } from '../../packages/server/src/config/load.ts'
import { configSchema, environmentName, secretSettings } from '../../packages/server/src/config/schema.ts'
import { secretFault } from '../../packages/server/src/domain/secret-strength.ts'

const strong = 'V8x2mQ0pTz7LrK4sYb9WfJ3h'
const production = { BELFRY_MODE: 'production' }

function refusal(env: Readonly<Record<string, string>>): BelfryError | undefined {
  try {
    loadConfig({ env })
    return undefined
  } catch (error) {
    if (error instanceof BelfryError) return error
    throw error
  }
}

describe('production', () => {
  it.each(['', 'secret', 'changemechangeme', 'aaaaaaaaaaaaaaaaaaaa'])(
    'does not start with the client secret %j, and development does',
    (secret) => {
      const env = {
        BELFRY_OIDC_ISSUER: 'https://id.example.com',
        BELFRY_OIDC_CLIENT_ID: 'belfry',
        BELFRY_PUBLIC_URL: 'https://belfry.example.com',
        BELFRY_OIDC_CLIENT_SECRET: secret,
      }
      const fault = refusal({ ...env, ...production })
      expect(fault?.code).toBe('invalid_config')
      expect(fault?.message).toContain('oidcClientSecret')
      expect(fault?.message).toContain('BELFRY_OIDC_CLIENT_SECRET')
      // a short one is a word of the message by itself
      expect(fault?.message).not.toContain(secret.length > 8 ? secret : `"${secret}"`)
      expect(refusal({ ...env, ...production, BELFRY_OIDC_CLIENT_SECRET: strong })).toBeUndefined()
      // what is empty is no secret in development either
      expect(refusal({ ...env, BELFRY_MODE: 'development' }) === undefined).toBe(secret !== '')
    },
  )

  it.each([
    ['DATABASE_URL', 'postgres://belfry:PASSWORD@db:5432/belfry'],
    ['DATABASE_URL', 'postgres://belfry:@db:5432/belfry'],
    ['DATABASE_URL', 'postgres://belfry:belfry@db:5432/belfry'],
    ['REDIS_URL', 'redis://:changeme@cache:6379/0'],
    ['REDIS_URL', 'redis://belfry:redispassword12@cache:6379/0'],
  ])('does not start with a weak password in %s=%s', (name, value) => {
    const fault = refusal({ ...production, [name]: value })
    expect(fault?.message).toContain(`the password in`)
    expect(fault?.message).toContain(name)
    expect(fault?.message).not.toContain(value)
    expect(refusal({ [name]: value })).toBeUndefined()
  })

  it.each([
    ['DATABASE_URL', `postgres://belfry:${strong}@db:5432/belfry`],
    ['DATABASE_URL', 'postgres://belfry@db:5432/belfry'],
    ['DATABASE_URL', 'postgres:///belfry?host=/run/postgresql'],
    ['REDIS_URL', 'rediss://cache:6380/0'],
  ])('starts with %s=%s', (name, value) => {
    expect(refusal({ ...production, [name]: value })).toBeUndefined()
  })

  it('starts with a ring of random keys, and with no other', () => {
    const random = () => randomBytes(32).toString('base64')
    const typed = Buffer.from('0123456789abcdef0123456789abcdef').toString('base64')
    const zeros = Buffer.alloc(32).toString('base64')
    const ring = (keys: string) => refusal({ ...production, BELFRY_SECRET_KEYS: keys })
    expect(ring(`1:${random()}`)).toBeUndefined()
    expect(ring(`2:${random()},1:${random()}`)).toBeUndefined()
    for (const weak of [typed, zeros]) {
      expect(ring(`1:${weak}`)?.message).toContain('secretKeys')
      expect(ring(`2:${random()},1:${weak}`)?.message).toContain('secretKeys')
      expect(ring(`2:${random()},1:${weak}`)?.message).not.toContain(weak)
    }
  })

  it('judges every setting that is a secret', () => {
    for (const key of secretSettings) {
      const fault = refusal({ ...production, [environmentName(key)]: 'changeme' })
      expect(fault?.message, key).toContain(key)
      expect(fault?.message, key).not.toContain('changeme')
    }
    expect(secretSettings.size).toBeGreaterThan(2)
  })

  it('is what NODE_ENV says where BELFRY_MODE says nothing', () => {
    const before = process.env['NODE_ENV']
    try {
      process.env['NODE_ENV'] = 'production'
      expect(loadConfig({}).config.mode).toBe('production')
      expect(loadConfig({ env: { BELFRY_MODE: 'development' } }).config.mode).toBe('development')
    } finally {
      process.env['NODE_ENV'] = before
    }
    expect(loadConfig({}).config.mode).toBe('development')
  })

  it('listens on loopback, but for what the operator opens', () => {
    const { config } = loadConfig({ env: { ...production, BELFRY_HOST: '0.0.0.0' } })
    expect(config.opsHost).toBe('127.0.0.1')
    expect(loadConfig({}).config.host).toBe('127.0.0.1')
    const hosts = Object.entries(configSchema.shape).filter(([key]) => /host$/i.test(key))
    expect(hosts.length).toBeGreaterThan(1)
    for (const [key, setting] of hosts) expect(setting.parse(undefined), key).toBe('127.0.0.1')
  })
})

/** Secrets that stand in what people copy from: each must be too weak for production. */
describe('every secret that is written in the documentation', () => {
  const root = fileURLToPath(new URL('../..', import.meta.url))
  const files = ['docs', 'deploy', 'examples', 'README.md'].flatMap((start) =>
    start.includes('.')
      ? [start]
      : readdirSync(join(root, start), { recursive: true, encoding: 'utf8' })
          .filter(
            (name) =>
              /\.(md|ya?ml|env|sh|sql|ts|json|service|conf)$/.test(name) && !name.includes('node_modules'),
          )
          .map((name) => join(start, name)),
  )
  const inUrl = /\b[a-z]+:\/\/[^\s:/@`'"<>]*:([^\s@/`'"<>]+)@/g
  const assigned = /\b[A-Z_]*(?:PASSWORD|SECRET|TOKEN|KEK)[A-Z_]*=["']?([^\s"'`;)]+)/g
  const found = files.flatMap((file) => {
    const text = readFileSync(join(root, file), 'utf8')
    return [inUrl, assigned].flatMap((pattern) =>
      [...text.matchAll(pattern)].map(([, secret = '']) => ({ file, secret })),
    )
  })
  // variables, commands and paths are no values
  const values = found.filter(({ secret }) => !/^[$%<(/.]|^bf[ysi]_|\.\.\.|…/.test(secret))

  it('is refused', () => {
    expect(files.length).toBeGreaterThan(50)
    for (const { file, secret } of values)
      expect(secretFault(secret, { minLength: 12 }), `${file}: ${secret}`).toBeDefined()
  })
})
